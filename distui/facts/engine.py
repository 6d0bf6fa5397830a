"""The container engine of a host: what `docker version` and `docker info` say, and failures as stable classes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from distui.facts.host import Engine, Trouble
from distui.facts.values import CUT_OFF, JsonObject, Reply, as_object, as_objects, as_text, load_json
from distui.regex import regex

_SUDO = "let this login run it without a password (sudoers: NOPASSWD), or add it to group docker"
_PULL = "check the registry's name and the host's way to it, or load the image there with `docker load`"

_CLASSES: tuple[tuple[str, str, str, str], ...] = (
    # First match wins: causes that hide inside another message come before it.
    ("sudo_password", r"sudo: .*(password is required|terminal is required|askpass)"
     r"|sudo: interactive authentication is required",  # sudo-rs
     "sudo asks for a password", _SUDO),
    ("sudo_denied", r"is not in the sudoers file|sudo: .*not allowed|sorry, user \S+ (is not allowed|may not run)"
     r"|sudo: i'm sorry \S+ i'm afraid i can't do that",  # sudo-rs
     "this login may not use sudo", _SUDO),
    ("sudo_tty", r"sudo: sorry, you must have a tty to run sudo",
     "sudo works in a terminal only there", "`Defaults:USER !requiretty` in the host's sudoers file"),
    ("docker_permission", r"permission denied while trying to connect|dial unix \S+: connect: permission denied",
     "this login may not use the container engine",
     "`sudo usermod -aG docker USER` and log in again, or set `docker: sudo -n docker` for the host"),
    ("daemon_down", r"cannot connect to the docker daemon|is the docker daemon running|error during connect"
     r"|failed to connect to the docker API at"  # since Docker 29
     r"|cannot connect to podman|connection refused.*docker\.sock",
     "the container engine's daemon does not run",
     "`sudo systemctl start docker` on the host; `journalctl -u docker` tells why it ended"),
    ("api_version", r"client version \S+ is too (old|new)|client is newer than server",
     "docker's client and its daemon there have no version of the API in common",
     "take DOCKER_API_VERSION out of the login's start-up files where it is set, else upgrade the older of the two "
     "(`docker version` shows both)"),
    ("endpoint_unknown", r"unable to resolve docker endpoint",
     "docker's client there can't tell where its daemon is",
     "see DOCKER_HOST, DOCKER_CONTEXT and DOCKER_TLS_VERIFY in the login's start-up files, and `docker context ls`"),
    ("credential_helper", r"error getting credentials",
     "the engine's client there can't ask the program that keeps its logins to registries",
     "take credsStore and credHelpers out of ~/.docker/config.json on the host, or install that program"),
    ("files_denied", r"open \S*/\.local/state/distui/\S*: permission denied",
     "the engine's client may not read distui's files in ~/.local/state",
     "docker as a snap can't read hidden folders of the home (install docker's own package), nor can root in a home "
     "on NFS with root_squash (use docker without sudo)"),
    ("name_conflict", r"the container name .* is already in use", "a container of that name exists already",
     "give the run another --name; `docker inspect NAME` tells whose it is"),
    ("disk_full", r"no space left on device", "the disk is full on the host",
     "`docker system prune` or free some space"),
    ("no_gpu_runtime", r"could not select device driver|unknown or invalid runtime name: nvidia"
     r"|failed to discover GPU vendor from CDI"  # since Docker 29
     r"|nvidia-container-runtime.*not found",
     "the engine has no NVIDIA runtime", "install nvidia-container-toolkit on the host and restart its engine"),
    ("no_gpu_runtime", r"unresolvable CDI devices",
     "the engine's CDI files, by which it finds GPUs, lack one of that number or id",
     "`nvidia-ctk cdi list` (nvidia-container-toolkit) on the host shows what they have, and"
     " `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` makes them anew"),
    ("gpu_missing", r"device error: .*unknown device|no such device: .*nvidia",
     "the host has no GPU of that number or id",
     "`nvidia-smi -L` lists what there is"),
    ("gpu_driver", r"nvidia-container-cli(\.real)?: (initialization|ldcache|mount|requirement) error|nvml error",
     "the NVIDIA container hook failed", "see whether nvidia-smi works on the host; the image may need a newer driver"),
    ("device_missing", r"error gathering device information|(?<!\": )\bstat /dev/\S+: no such file",  # podman
     "a device the container asks for is not on the host",
     "take it out of the job's devices, or load its driver"),
    ("ulimit_refused", r"error setting rlimit|setrlimit `RLIMIT",
     "the engine may not raise a limit the container asks for",
     "raise LimitMEMLOCK and friends of the engine's service, or ask for less with `ulimits`"),
    ("port_in_use", r"port is already allocated|address already in use", "a port is taken on the host",
     "choose another port, or stop what listens on it (`ss -ltnp`)"),
    ("workdir_failed", r"chdir to (`|cwd \()|workdir \S+ does not exist on container",
     "the working directory can't be entered in the container", "check `workdir:`, and whether `user:` may enter it"),
    ("mount_failed", r"invalid mount config|bind source path does not exist|error while creating mount source path"
     r"|error mounting|mounts denied|statfs .*no such file|crun: (mount|cannot stat) `/",
     "a folder can't be mounted into the container",
     "check that every path under `volumes` exists on the host and may be read"),
    ("image_wrong_arch", r"no matching manifest for|image's platform .* does not match",
     "the image is for another processor architecture", "build or pull it for this host's architecture"),
    ("image_wrong_arch", r"exec format error",
     "the command is for another processor architecture, or a script without a `#!` line",
     "build or pull the image for this host's architecture; a script begins with `#!/bin/sh`"),
    ("image_auth", r"pull access denied|unauthorized|authentication required|denied: requested access|no basic auth",
     "the registry refuses this host", "`docker login` on the host, or check the image's name"),
    ("image_missing", r"manifest unknown|manifest for .* not found|image not known|no such image"
     r"|failed to resolve reference \S+ \S+: not found",
     "the image is not there", "pull or load it on the host, or set `pull: missing`"),
    ("image_pull_failed", r"error response from daemon: (get|head) \"?https?://|toomanyrequests|tls handshake"
     r"|i/o timeout|failed to pull|error pulling|initializing source|net/http: request canceled"
     r"|short-name .* did not resolve"
     r"|failed to resolve reference", "the image can't be pulled", _PULL),
    ("init_missing", r"container-init binary not found|could not find \"?catatonit"
     r"|exec: \"?docker-init\"?: executable file not found",
     "the engine's init program is not on the host, and containers are started with --init",
     "install catatonit, or tini, on the host"),
    ("command_not_found", r"executable file .*not found|exec: .*no such file or directory"
     r"|attempted to invoke a command that was not found"  # podman
     r"|stat .*: no such file or directory", "the command is not in the image",
     "check the job's `command` and the image"),
    ("command_not_executable", r"exec: .*permission denied|runc create failed.*permission denied|is a directory"
     r"|crun: .*permission denied", "the command can't be executed", "it needs the x bit and must be a program"),
    ("bad_name", r"invalid reference format|invalid container name", "the image or container name is not a valid one",
     "image names are lower case: [registry/]name[:tag]"),
    ("bad_arguments", r"unknown (shorthand )?flag|invalid argument .* for", "the engine does not know an argument",
     "its version may be too old for it; check `docker_args`"),
    ("no_such_container", r"no such container|no container with name", "there is no such container", ""),
)  # fmt: skip
_BY_ENGINE = regex(r"Error response from daemon|^Error: ", re.MULTILINE)
"""What an engine says itself, Docker's daemon and podman; no shell that does not find its client."""
_NOT_BY_SUDO = regex(r"^sudo: \S{1,200}: command not found", re.MULTILINE)
_ELSEWHERE = regex(r"docker (?:daemon|api) at (?!unix:///var/run/docker\.sock)(\w+://\S{1,200}?)[.;]?(?:\s|$)", re.I)
"""A daemon that is not the host's own, as Docker's client names it."""
_COMPILED = tuple(
    (code, regex(p.replace(".*", ".{0,300}"), re.IGNORECASE), message, hint) for code, p, message, hint in _CLASSES
)
"""With a bound, as a host may say anything: without one a line of it takes the square of its length."""


def classify(stderr: str, rc: int | None, engine: str = "docker") -> Trouble:
    """Why an engine's command failed: its stderr (and stdout) and exit code, as a class with words and a hint, in which
    the commands are those of this engine.

    Codes: daemon_down, daemon_elsewhere, docker_permission, sudo_password, sudo_denied, sudo_tty, api_version,
    endpoint_unknown, credential_helper, engine_missing, engine_timeout, engine_endless, files_denied,
    name_conflict, disk_full, no_gpu_runtime, gpu_missing, gpu_driver, device_missing, ulimit_refused, port_in_use,
    workdir_failed, mount_failed, image_missing, image_pull_failed, image_auth, image_wrong_arch, init_missing,
    command_not_found, command_not_executable, bad_name, bad_arguments, no_such_container, unknown.
    """
    trouble = _class_of(stderr, rc)
    return replace(trouble, hint=_for_podman(trouble)) if engine == "podman" else trouble


_PODMAN_HINTS = {
    "sudo_password": _SUDO.partition(",")[0],
    "sudo_denied": _SUDO.partition(",")[0],
    "docker_permission": "see what `podman info` says on the host",
    "daemon_down": "where podman asks another one there: `systemctl --user enable --now podman.socket`",
}
"""Where podman, which has neither a daemon nor a group, wants something else than docker."""


def _for_podman(trouble: Trouble) -> str:
    return _PODMAN_HINTS.get(trouble.code) or trouble.hint.replace("`docker ", "`podman ")


def _class_of(stderr: str, rc: int | None) -> Trouble:
    if rc == CUT_OFF:
        return Trouble(
            "engine_endless", "the container engine prints without end", "see which program its command is on the host"
        )
    text = stderr[:20_000]
    for code, pattern, message, hint in _COMPILED:
        if pattern.search(text):
            elsewhere = _ELSEWHERE.search(text) if code == "daemon_down" else None
            return _led_astray(elsewhere[1]) if elsewhere else Trouble(code, message, hint)
    if rc is None or rc in (124, 137):
        return Trouble("engine_timeout", "the container engine does not answer", "restart its service on the host")
    if (rc in (126, 127) and not _BY_ENGINE.search(text)) or _NOT_BY_SUDO.search(text):
        return Trouble("engine_missing", "the container engine is not installed", "install it, or set `docker: podman`")
    return Trouble("unknown", f"the container engine failed with exit code {rc}: {_last_words(stderr)}")


def _led_astray(address: str) -> Trouble:
    return Trouble(
        "daemon_elsewhere",
        f"no daemon answers at {address}",
        "DOCKER_HOST or a context of this login leads there (`docker context ls`): start the daemon there "
        "(a rootless one by `systemctl --user start docker`), or take that out of the login's files",
    )


def classify_read(stderr: str, rc: int | None, engine: str = "docker") -> Trouble:
    """As `classify`, for a command that pulls nothing: a time-out in its words is no trouble with a registry."""
    trouble = classify(stderr, rc, engine)
    if trouble.code not in ("image_pull_failed", "image_auth"):
        return trouble
    return Trouble("unknown", f"the container engine failed with exit code {rc}: {_last_words(stderr)}")


def _last_words(text: str) -> str:
    """The line that names the error: the first one, without docker's advice to run --help."""
    lines = (line.strip() for line in text.splitlines())
    return next((line[:300] for line in lines if line and not line.startswith("Run '")), "no message")


def server_version(version_text: str) -> str | None:
    """The server's version in `docker version --format '{{json .}}'`; None when the daemon is down."""
    return as_text(as_object(as_object(load_json(version_text)).get("Server")).get("Version"))


def read_info(text: str) -> JsonObject:
    """`docker info` as an object with docker's key names, from JSON or from the text of old versions (1.9).

    A daemon that is down still makes the client print JSON, with zeros for everything: that gives {} here,
    so that nobody reads "0 containers, no GPU runtime" from it.
    """
    value = as_object(load_json(text))
    if value:
        up = value.get("ServerVersion") and not value.get("ServerErrors")
        return value if up or "host" in value else {}
    return _text_info(text)


def _text_info(text: str) -> JsonObject:
    fields = {
        m[1]: m[2].strip() for line in text.splitlines() if (m := re.fullmatch(r"([A-Z][\w ]*): ?(.*)", line.strip()))
    }
    if not fields.get("Server Version"):
        return {}
    return {
        "ServerVersion": fields["Server Version"],
        "LoggingDriver": fields.get("Logging Driver", ""),
        "DockerRootDir": fields.get("Docker Root Dir", ""),
        "Runtimes": {name: {} for name in fields.get("Runtimes", "").split()},
        "LiveRestoreEnabled": {"true": True, "false": False}.get(fields.get("Live Restore Enabled", "")),
    }


def has_nvidia_runtime(info: JsonObject) -> bool | None:
    """Whether `--gpus` can work: a runtime named nvidia, or NVIDIA devices by CDI. None when info says nothing.

    Docker registers `--gpus` by finding nvidia-container-runtime-hook on its PATH, with or without a runtime
    of that name, so False is a strong hint but no proof: the probe also looks for the hook.
    """
    if not info:
        return None
    runtimes = as_object(info.get("Runtimes"))
    devices = info.get("DiscoveredDevices")
    cdi = isinstance(devices, list) and any("nvidia.com/gpu" in str(d) for d in devices)
    return any("nvidia" in name for name in runtimes) or cdi


_PODMAN = Trouble(
    "podman_as_docker",
    "`docker` there is podman under docker's name, which takes other arguments",
    "set `docker: podman` for this host",
)


def _is_podman(info: JsonObject) -> bool:
    """Whether `info` is podman's (podman-docker), which calls the host's facts `host` and has no server's version."""
    return "host" in info and "ServerVersion" not in info


def _selinux(info: JsonObject) -> bool:
    """Whether it labels containers, as `info` of docker or podman says it."""
    options = info.get("SecurityOptions")
    if isinstance(options, list):
        return any(str(option).partition(",")[0] == "name=selinux" for option in options)
    return as_object(as_object(info.get("host")).get("security")).get("selinuxEnabled") is True


def _apart(versions: JsonObject, info: JsonObject) -> str:
    """Why containers with `--network host` do not see the host's interfaces: the daemon has a network of its own.

    A rootless one does unless RootlessKit was started with the host's, when it names no driver of a network.
    """
    if info.get("OperatingSystem") == "Docker Desktop":
        return "Docker Desktop"
    options = info.get("SecurityOptions")
    if not isinstance(options, list) or not any(str(o).partition(",")[0] == "name=rootless" for o in options):
        return ""
    parts = as_objects(as_object(versions.get("Server")).get("Components"))
    kit = next((as_object(p.get("Details")) for p in parts if p.get("Name") == "rootlesskit"), None)
    return "rootless" if kit is None or kit.get("NetworkDriver") else ""


def read_engine(
    kind: Literal["docker", "podman"],
    command: tuple[str, ...],
    version: Reply,
    info: Reply,
    *,
    socket: str | None = None,
    nvidia_hook: bool = False,
) -> Engine:
    """The engine from its `version` and `info`. `nvidia_hook`: NVIDIA's hook or CDI file was found on the host."""
    versions = as_object(load_json(version.text))
    facts = read_info(info.text)
    client = as_text(as_object(versions.get("Client")).get("Version"))
    server = server_version(version.text) or as_text(facts.get("ServerVersion"))
    if kind == "podman":
        server = server or as_text(as_object(facts.get("version")).get("Version")) or client
    down = (
        _PODMAN if kind == "docker" and _is_podman(facts) else None if server and version.ok else _down(version, info)
    )
    runtime = has_nvidia_runtime(facts) if kind == "docker" else (bool(facts) or None) and nvidia_hook
    live = facts.get("LiveRestoreEnabled")
    return Engine(
        kind=kind,
        command=command,
        client=client,
        server=server if down is None else None,
        nvidia_runtime=(runtime or nvidia_hook) if runtime is not None else None,
        socket=socket if down is None else None,
        live_restore=live if isinstance(live, bool) else None,
        problem=down,
        apart=_apart(versions, facts) if kind == "docker" else "",
        selinux=_selinux(facts),
    )


def _down(version: Reply, info: Reply) -> Trouble:
    """Why the engine gives no server version; a client that prints JSON and fails without a word has no daemon."""
    reply = version if not version.ok else info
    trouble = classify(reply.text, reply.status)
    if trouble.code in ("unknown", "engine_timeout") and '"Server":null' in version.text and not version.timed_out:
        return classify("Cannot connect to the Docker daemon", 1)
    return trouble
