"""Container engines: what they say of themselves, and their errors as classes."""

from __future__ import annotations

from typing import Literal

import pytest

from distui.facts import engine, reading
from distui.facts.frame import Answer
from distui.facts.host import Gpus
from distui.facts.values import Reply


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        ("Error response from daemon: write /var/lib/docker/tmp/x: no space left on device", 1, "disk_full"),
        ("Bind for 0.0.0.0:8080 failed: port is already allocated.", 125, "port_in_use"),
        ('invalid mount config for type "bind": bind source path does not exist: /data', 125, "mount_failed"),
        ("docker: open /home/u/.local/state/distui/hosts/h1/r/task-0.env: permission denied.", 125, "files_denied"),
        ("pull access denied for x, repository does not exist or may require 'docker login'", 125, "image_auth"),
        ("manifest for busybox:9 not found: manifest unknown", 125, "image_missing"),
        ("Error: docker.io/x: image not known", 125, "image_missing"),
        ('Error response from daemon: Get "https://r/v2/": net/http: TLS handshake timeout', 1, "image_pull_failed"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", 1, "image_wrong_arch"),
        ("exec /usr/bin/python: exec format error", 1, "image_wrong_arch"),
        ("nvidia-container-cli: device error: 9: unknown device: unknown", 125, "gpu_missing"),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", 125, "gpu_driver"),
        (
            "nvidia-container-cli.real: mount error: stat failed: /proc/driver/nvidia/capabilities: no such file or "
            "directory: unknown",
            127,
            "gpu_driver",
        ),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9", 125, "no_gpu_runtime"),
        ('error gathering device information while adding custom device "/dev/infiniband"', 125, "device_missing"),
        ("error setting rlimit type 8: operation not permitted", 126, "ulimit_refused"),
        ("docker: invalid reference format: repository name must be lowercase.", 125, "bad_name"),
        ("unknown flag: --gpus", 125, "bad_arguments"),
        ("Error: No such container: abc", 1, "no_such_container"),
        (
            "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is correct and if "
            "the daemon is running: dial unix /var/run/docker.sock: connect: no such file or directory",
            1,
            "daemon_down",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///run/user/7/docker.sock. Is the docker daemon running?",
            1,
            "daemon_elsewhere",
        ),
        (
            "failed to connect to the docker API at tcp://gpu9:2375; check if the path is correct",
            1,
            "daemon_elsewhere",
        ),
        (
            'failed to resolve reference "docker.io/library/ubuntu:9": docker.io/library/ubuntu:9: not found',
            1,
            "image_missing",
        ),
        ("failed to discover GPU vendor from CDI: no known GPU vendor found", 125, "no_gpu_runtime"),
        (
            "Error response from daemon: client version 1.24 is too old. Minimum supported API version is 1.44, please "
            "upgrade your client to a newer version",
            1,
            "api_version",
        ),
        (
            '{"Client":{"Version":"20.10.24"},"Server":null}\nError response from daemon: client version 1.99 is too '
            "new. Maximum supported API version is 1.41",
            1,
            "api_version",
        ),
        (
            'docker: error getting credentials - err: exec: "docker-credential-desktop": executable file not found in '
            "$PATH, out: ``.",
            125,
            "credential_helper",
        ),
        ('unable to resolve docker endpoint: context "gone" does not exist', 1, "endpoint_unknown"),
        (
            "Failed to initialize: unable to resolve docker endpoint: open /root/.docker/ca.pem: no such file or "
            "directory",
            1,
            "endpoint_unknown",
        ),
        ("sudo: sorry, you must have a tty to run sudo", 1, "sudo_tty"),
        ("sudo: a password is required", 1, "sudo_password"),
        ("sudo: interactive authentication is required", 1, "sudo_password"),
        ("sudo: I'm sorry u. I'm afraid I can't do that", 1, "sudo_denied"),
        ("Sorry, user u is not allowed to execute '/usr/bin/docker ps' as root on h1.", 1, "sudo_denied"),
        ("sudo: ein Passwort wird benoetigt", 1, "unknown"),
        ("Cannot connect to Podman. Please verify your connection", 125, "daemon_down"),
        ("crun: executable file `x` not found in $PATH: No such file or directory", 127, "command_not_found"),
        (
            "Error: crun: open executable: OCI runtime attempted to invoke a command that was not found",
            127,
            "command_not_found",
        ),
        (
            "Error: crun: setrlimit `RLIMIT_MEMLOCK`: Operation not permitted: OCI permission denied",
            126,
            "ulimit_refused",
        ),
        (
            "Error: crun: chdir to `/w`: No such file or directory: OCI runtime attempted to invoke a command that was "
            "not found",
            127,
            "workdir_failed",
        ),
        (
            "Error: crun: mount `/d` to `/w`: No such file or directory: OCI runtime attempted to invoke a command that"
            " was not found",
            127,
            "mount_failed",
        ),
        ("Error: stat /dev/infiniband: no such file or directory", 125, "device_missing"),
        ('exec: "/dev/shm/run": stat /dev/shm/run: no such file or directory: unknown', 127, "command_not_found"),
        ('chdir to cwd ("/w") set in config.json failed: permission denied: unknown.', 126, "workdir_failed"),
        ("Error: something new that podman says", 126, "unknown"),
        (
            "Error: container-init binary not found on the host: stat /usr/libexec/podman/catatonit: "
            "no such file or directory",
            125,
            "init_missing",
        ),
        ('Error: lookup init binary: could not find "catatonit" in one of [/usr/libexec/podman]', 125, "init_missing"),
        ('exec: "docker-init": executable file not found in $PATH', 125, "init_missing"),
        ("sh: 1: docker: not found", 127, "engine_missing"),
        ("sh: docker: nicht gefunden", 127, "engine_missing"),
        ("sudo: docker: command not found", 1, "engine_missing"),
        ("", None, "engine_timeout"),
        ("", 124, "engine_timeout"),
        ("permission denied ../../x", 141, "engine_endless"),
        ("something new", 125, "unknown"),
    ],
)
def test_error_classes(words: str, status: int | None, code: str) -> None:
    """Each failure has one stable class; what nobody foresaw keeps its own words."""
    trouble = engine.classify(words, status)
    assert trouble.code == code
    if code == "unknown":
        assert words in trouble.message


def test_a_daemon_that_docker_is_led_to_is_named() -> None:
    """Starting the host's own one would not help."""
    words = "Cannot connect to the Docker daemon at unix:///run/user/7/docker.sock. Is the docker daemon running?"
    trouble = engine.classify(words, 1)
    assert trouble.message == "no daemon answers at unix:///run/user/7/docker.sock"
    assert "DOCKER_HOST" in trouble.hint and "sudo" not in trouble.hint
    assert "sudo systemctl" in engine.classify(words.replace("run/user/7", "var/run"), 1).hint


def test_a_line_without_end_is_no_message() -> None:
    """Words of one message stand close together: to look for them over a whole line takes the square of its length."""
    assert engine.classify("sudo: " + "x" * 200 + " a password is required", 1).code == "sudo_password"
    assert engine.classify("sudo: " + "x" * 9_000 + " a password is required", 1).code == "unknown"


def test_a_script_that_names_no_shell_is_no_image_for_another_processor() -> None:
    """The kernel has the same words for both."""
    assert "`#!`" in engine.classify("exec /run.sh: exec format error", 1).message
    assert "`#!`" not in engine.classify("no matching manifest for linux/arm64/v8", 1).message


@pytest.mark.parametrize(
    "words",
    [
        "Cannot connect to Podman. Please verify your connection",
        "sudo: a password is required",
        "dial unix /run/podman.sock: connect: permission denied",
    ],
)
def test_podman_is_not_helped_as_docker(words: str) -> None:
    """It has no daemon that could be started, and no group."""
    assert "docker" in engine.classify(words, 125).hint
    hint = engine.classify(words, 125, "podman").hint
    assert hint and "docker" not in hint


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ('Error: short-name "lab/x" did not resolve to an alias', "load"),
        ("Error: denied: requested access to the resource is denied", "login"),
        ("Error: write /var/x: no space left on device", "system prune"),
    ],
)
def test_advice_is_for_the_engine_that_failed(words: str, command: str) -> None:
    """A host with podman has no docker to call."""
    assert f"`docker {command}" in engine.classify(words, 125).hint
    assert f"`podman {command}" in engine.classify(words, 125, "podman").hint
    assert f"`podman {command}" in engine.classify_read(words, 125, "podman").hint or command != "system prune"


def test_podman_says_a_name_conflict_in_its_own_words() -> None:
    """The class is Docker's."""
    holder = "0123456789abcdef" * 4
    words = f'Error: creating container storage: the container name "x" is already in use by {holder}.'
    assert engine.classify(words, 125).code == "name_conflict"


def test_the_nvidia_runtime_is_known_by_name_by_cdi_or_by_the_hook() -> None:
    """Docker takes `--gpus` by any of them; without facts nothing is known."""
    up = '{"ServerVersion":"27.3","Runtimes":{"runc":{}%s}%s}'
    version = Reply('{"Client":{"Version":"27.3"},"Server":{"Version":"27.3"}}', 0)

    def runtime(info: str, hook: bool = False) -> bool | None:
        return engine.read_engine("docker", ("docker",), version, Reply(info, 0), nvidia_hook=hook).nvidia_runtime

    assert runtime(up % ("", "")) is False
    assert runtime(up % (',"nvidia":{}', "")) is True
    assert runtime(up % ("", ',"DiscoveredDevices":[{"Source":"cdi","ID":"nvidia.com/gpu=all"}]')) is True
    assert runtime(up % ("", ""), hook=True) is True
    assert runtime("garbage") is None


def test_warnings_around_the_json_do_not_hide_it() -> None:
    """stderr is mixed in: a warning line before, one after."""
    text = 'WARNING: No swap limit support\n{"Server":{"Version":"27.3"}}\nWARNING: x\n'
    assert engine.server_version(text) == "27.3"


def test_podman_under_dockers_name_is_called_by_its_own() -> None:
    """podman-docker: without a server's version and exit 0 read as `failed with exit code 0: Emulate Docker`."""
    hello = "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n"
    version = Reply(hello + '{"Client":{"APIVersion":"4.9.3","Version":"4.9.3","Os":"linux"}}\n', 0)
    info = Reply(hello + '{"host":{"arch":"amd64"},"store":{},"registries":{},"version":{"Version":"4.9.3"}}\n', 0)
    read = engine.read_engine("docker", ("docker",), version, info)
    assert read.problem is not None and read.server is None
    assert (read.problem.code, read.problem.hint) == ("podman_as_docker", "set `docker: podman` for this host")
    assert engine.read_engine("podman", ("podman",), version, info).problem is None


@pytest.mark.parametrize(
    ("info", "kit", "apart"),
    [
        (
            '"SecurityOptions":["name=seccomp,profile=builtin","name=rootless"]',
            '{"NetworkDriver":"slirp4netns"}',
            "rootless",
        ),
        ('"SecurityOptions":["name=rootless"]', None, "rootless"),
        ('"SecurityOptions":["name=rootless"]', '{"StateDir":"/run/user/1"}', ""),
        ('"SecurityOptions":["name=seccomp,profile=builtin"]', None, ""),
        ('"SecurityOptions":"name=rootless"', None, ""),
        ('"OperatingSystem":"Docker Desktop"', None, "Docker Desktop"),
    ],
)
def test_a_docker_with_a_network_of_its_own_is_known(info: str, kit: str | None, apart: str) -> None:
    """Rootless, unless RootlessKit has the host's network; Docker Desktop's is that of its machine."""
    part = f'{{"Name":"rootlesskit","Details":{kit}}}' if kit else '{"Name":"Engine"}'
    version = Reply(f'{{"Client":{{}},"Server":{{"Version":"27.3","Components":[{part}]}}}}', 0)
    read = engine.read_engine("docker", ("docker",), version, Reply(f'{{"ServerVersion":"27.3",{info}}}', 0))
    assert (read.apart, read.problem) == (apart, None)


@pytest.mark.parametrize(
    ("kind", "info", "labels"),
    [
        ("docker", '{"ServerVersion":"27.3","SecurityOptions":["name=seccomp,profile=builtin","name=selinux"]}', True),
        ("docker", '{"ServerVersion":"27.3","SecurityOptions":["name=seccomp,profile=builtin"]}', False),
        ("podman", '{"host":{"security":{"selinuxEnabled":true}},"version":{"Version":"5.2"}}', True),
        ("podman", '{"host":{"security":{"selinuxEnabled":false}},"version":{"Version":"5.2"}}', False),
        ("podman", '{"host":{"security":["selinuxEnabled"]},"version":{"Version":"5.2"}}', False),
    ],
)
def test_an_engine_that_labels_containers_is_known(kind: Literal["docker", "podman"], info: str, labels: bool) -> None:
    """Rocky's and Fedora's podman: a container can't read what is in the login's home."""
    assert engine.read_engine(kind, (kind,), Reply('{"Client":{"Version":"5.2"}}', 0), Reply(info, 0)).selinux is labels


@pytest.mark.parametrize(("place", "warned"), [("/snap/bin/docker", True), ("/usr/bin/docker", False)])
def test_docker_as_a_snap_is_warned_of(place: str, warned: bool) -> None:
    """It can't read ~/.local/state, where the env file of every container is."""
    answer = Answer({"engine_path": Reply(f"found\tdocker\npath\t{place}\n", 0)}, 0.0, 0.0, coarse=False)
    assert any("docker is a snap" in words for words in reading.warnings(answer, {}, Gpus())) is warned
