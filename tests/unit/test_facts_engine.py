"""Container engines: what they say of themselves, and their errors as classes."""

from __future__ import annotations

import pytest

from distui.facts import engine, exits
from distui.facts.values import Reply


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        ("Error response from daemon: write /var/lib/docker/tmp/x: no space left on device", 1, "disk_full"),
        ("Bind for 0.0.0.0:8080 failed: port is already allocated.", 125, "port_in_use"),
        ('invalid mount config for type "bind": bind source path does not exist: /data', 125, "mount_failed"),
        ("pull access denied for x, repository does not exist or may require 'docker login'", 125, "image_auth"),
        ("manifest for busybox:9 not found: manifest unknown", 125, "image_missing"),
        ("Error: docker.io/x: image not known", 125, "image_missing"),
        ('Error response from daemon: Get "https://r/v2/": net/http: TLS handshake timeout', 1, "image_pull_failed"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", 1, "image_wrong_arch"),
        ("exec /usr/bin/python: exec format error", 1, "image_wrong_arch"),
        ("nvidia-container-cli: device error: 9: unknown device: unknown", 125, "gpu_missing"),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", 125, "gpu_driver"),
        ('error gathering device information while adding custom device "/dev/infiniband"', 125, "device_missing"),
        ("error setting rlimit type 8: operation not permitted", 126, "ulimit_refused"),
        ("docker: invalid reference format: repository name must be lowercase.", 125, "bad_name"),
        ("unknown flag: --gpus", 125, "bad_arguments"),
        ("Error: No such container: abc", 1, "no_such_container"),
        ("sudo: a password is required", 1, "sudo_password"),
        ("sudo: ein Passwort wird benoetigt", 1, "unknown"),
        ("Cannot connect to Podman. Please verify your connection", 125, "daemon_down"),
        ("crun: executable file `x` not found in $PATH: No such file or directory", 127, "command_not_found"),
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


def test_podman_names_the_conflicting_container_too() -> None:
    """Both engines' spellings."""
    holder = "0123456789abcdef" * 4
    words = f'Error: creating container storage: the container name "x" is already in use by {holder}.'
    assert engine.classify(words, 125).code == "name_conflict"
    assert engine.conflicting_container(words) == holder
    assert engine.conflicting_container("something else") is None


@pytest.mark.parametrize(
    ("text", "key"),
    [("20.10.24+dfsg1", (20, 10, 24)), ("v27.3.1-ce", (27, 3, 1)), ("1.9.1", (1, 9, 1)), ("", ()), ("dev", ())],
)
def test_versions_compare_by_number(text: str, key: tuple[int, ...]) -> None:
    """Suffixes of distributions do not count."""
    assert engine.version_key(text) == key
    assert engine.version_key(None) == ()


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


def test_server_errors_are_read() -> None:
    """`docker info` of a denied client exits 0 or 1 by version, and says it only in ServerErrors."""
    text = '{"ServerVersion":"","ServerErrors":["permission denied while trying to connect to the Docker daemon"]}'
    trouble = engine.info_trouble(text, 0)
    assert trouble is not None and trouble.code == "docker_permission"


def test_warnings_around_the_json_do_not_hide_it() -> None:
    """stderr is mixed in: a warning line before, one after."""
    text = 'WARNING: No swap limit support\n{"Server":{"Version":"27.3"}}\nWARNING: x\n'
    assert engine.server_version(text) == "27.3"


@pytest.mark.parametrize(
    ("state", "cls", "words"),
    [
        ({"Status": "running", "ExitCode": 0}, "running", "running"),
        ({"Status": "exited", "ExitCode": 0}, "exited", "succeeded"),
        ({"Status": "exited", "ExitCode": 3}, "exited", "exit code 3"),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, "oom", "out of memory"),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": False}, "killed", "SIGKILL"),
        ({"Status": "exited", "ExitCode": 134}, "aborted", "SIGABRT"),
        ({"Status": "exited", "ExitCode": 135}, "bus_error", "shm"),
        ({"Status": "exited", "ExitCode": 129}, "signal", "SIGHUP"),
        ({"Status": "exited", "ExitCode": 255}, "exited", "exit code 255"),
        ({"Status": "created", "ExitCode": 128, "Error": "no such device"}, "never_started", "no such device"),
        ({"Status": "exited"}, "exited", "unknown"),
        ({}, "exited", "unknown"),
    ],
)
def test_an_end_in_words(state: dict[str, object], cls: str, words: str) -> None:
    """137 is out of memory only with the flag that says so."""
    end = exits.exit_in_words(state)
    assert end.cls == cls and words in end.words
    assert end.ok == (state.get("ExitCode") == 0 and cls == "exited")
