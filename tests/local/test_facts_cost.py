"""What a probe costs a host: the programs it starts, counted, and one question to Docker's client."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import pytest

from distui.facts import probe
from distui.facts.host import HostFacts
from distui.spec.hosts.inventory import Host

DATA = Path(__file__).parents[1] / "data"
NONCE = "5fd1c09e2b7a44d0"
INFO = (DATA / "info_no_gpu.json").read_bytes().strip()
PROCESS = Host("n1", engine="process", engine_command=())
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
SMI = [name for name in ("nvidia-smi", "amd-smi", "rocm-smi") if shutil.which(name)]


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """A folder with every program that the script names, each of which notes its call before it does what it does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    words = set(re.findall(r"[a-z][a-z0-9_-]+", probe.script(NONCE)))
    for name in words - {"sh", "docker", "podman", *SHELLS}:
        real = shutil.which(name)
        if real:
            _program(folder / name, f'echo {name} >>{tmp_path}/calls; exec {real} "$@"')
    return folder


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def probed(folder: Path, host: Host, *, shell: str = "sh") -> tuple[HostFacts, Counter[str]]:
    """The facts, and which programs told them how often."""
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DOCKER_HOST": f"unix://{folder.parent}/docker.sock"}
    calls = folder.parent / "calls"
    calls.write_text("")
    text = probe.script(NONCE, host).encode()
    done = subprocess.run((shell,), input=text, capture_output=True, env=env, check=True, timeout=60)
    assert done.stderr == b""
    facts = probe.read(host, done.stdout, NONCE, sent_at=time.time(), received_at=time.time())
    return facts, Counter(calls.read_text().split())


@contextmanager
def daemon(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    """A socket that answers all in the same words; yields what it was asked."""
    asked: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                there, _ = listener.accept()
            except OSError:
                return
            with there:
                asked.append(there.recv(65536))
                there.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    path.unlink()


def docker(folder: Path, *, context: str = "default") -> None:
    """A client that notes what it is asked for."""
    version = folder.parent / "version"
    version.write_text((DATA / "version_up.json").read_text().replace('"Context":"default"', f'"Context":"{context}"'))
    body = f"""echo "docker-$1" >>{folder.parent}/calls
case $1 in
  version) cat {version} ;;
  info) cat {DATA / "info_no_gpu.json"} ;;
  context) echo unix:///nowhere ;;
esac"""
    _program(folder / "docker", body.replace("cat ", f"{shutil.which('cat')} "))


LEAST = Counter(date=2, timeout=5, head=2, cat=1, python3=1, df=1, ip=1, uname=1, id=1)
"""A clock twice; timeout before head (which proves them), cat (which reads all), python3, df and ip."""


@pytest.mark.skipif(bool(SMI), reason=f"this machine has {' '.join(SMI)}")
@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_without_gpus_starts_fifteen_programs(counted: Path, shell: str) -> None:
    """Two more where no route leads everywhere: `ip` is asked for that one over IPv6."""
    facts, calls = probed(counted, PROCESS, shell=shell)
    more = calls["ip"] - 1
    assert calls - Counter(ip=more, timeout=more) == LEAST
    assert more == 0 if facts.default_route_nic else more <= 2
    assert facts.python3 and facts.nics and facts.disks and facts.hostname == os.uname().nodename


@pytest.mark.parametrize("shell", SHELLS)
def test_dockers_client_is_called_once(counted: Path, tmp_path: Path, shell: str) -> None:
    """Its start is the dearest of all: what it would tell of the daemon, the daemon tells itself."""
    docker(counted)
    by_client, calls = probed(counted, Host("n1"), shell=shell)
    assert sorted(c for c in calls if c.startswith("docker")) == ["docker-context", "docker-info", "docker-version"]
    with daemon(tmp_path / "docker.sock", b"HTTP/1.0 200 OK\r\n\r\n" + INFO) as asked:
        facts, calls = probed(counted, Host("n1"), shell=shell)
    assert sorted(c for c in calls if c.startswith("docker")) == ["docker-version"]
    assert len(asked) == 1 and asked[0].startswith(b"GET /info HTTP/1.0\r\n")
    assert facts.engine.socket == str(tmp_path / "docker.sock")
    assert (facts.engine.problem, facts.engine.nvidia_runtime, facts.engine.live_restore) == (None, False, True)
    assert (facts.engine.client, facts.engine.server) == (by_client.engine.client, by_client.engine.server)


def test_the_daemons_own_folder_is_measured(counted: Path, tmp_path: Path) -> None:
    """As the client's answer has it: where images are."""
    docker(counted)
    info = json.dumps({**json.loads(INFO), "DockerRootDir": str(tmp_path)}, separators=(",", ":")).encode()
    with daemon(tmp_path / "docker.sock", b"HTTP/1.0 200 OK\r\n\r\n" + info):
        (disk,) = (d for d in probed(counted, Host("n1"))[0].disks if d.images)
    there = os.statvfs(tmp_path)
    assert (disk.path, disk.total) == (str(tmp_path), there.f_blocks * there.f_frsize // 1024 * 1024)


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.0 500 no\r\n\r\n{}", b"HTTP/1.0 200 OK\r\n\r\nsorry", b"\xff" * 400_000, b"{}"],
    ids=["nothing", "failed", "no-json", "endless", "no-http"],
)
def test_a_socket_that_answers_rubbish_leaves_it_to_the_client(counted: Path, tmp_path: Path, answer: bytes) -> None:
    """So the facts are the same."""
    docker(counted)
    before, _ = probed(counted, Host("n1"))
    with daemon(tmp_path / "docker.sock", answer):
        facts, calls = probed(counted, Host("n1"))
    assert calls["docker-info"] == 1
    assert facts.engine.nvidia_runtime == before.engine.nvidia_runtime and facts.engine.problem is None


def test_a_client_that_asks_another_daemon_is_asked_itself(counted: Path, tmp_path: Path) -> None:
    """A context of its own, or none known: its own words count, whatever the usual socket says."""
    docker(counted, context="rootless")
    with daemon(tmp_path / "docker.sock", b'HTTP/1.0 200 OK\r\n\r\n{"ServerVersion":"1","LiveRestoreEnabled":false}'):
        facts, calls = probed(counted, Host("n1"))
    assert calls["docker-context"] == calls["docker-info"] == 1
    assert (facts.engine.live_restore, facts.engine.socket) == (True, None)


def test_a_client_called_by_sudo_is_asked_itself() -> None:
    """It may reach a daemon that this login does not."""
    assert "\"$N\" 'docker'" in probe.script(NONCE, Host("n1"))
    assert "\"$N\" ''" in probe.script(NONCE, Host("n1", engine_command=("sudo", "-n", "docker")))
    assert "\"$N\" ''" in probe.script(NONCE, Host("n1", engine="podman", engine_command=("podman",)))


def test_what_python3_does_is_written_in_python_3_6() -> None:
    """Old hosts have old Pythons; annotations there are text."""
    text = resources.files("distui.facts").joinpath("probe_python.py").read_text()
    ast.parse(text, feature_version=(3, 6))
    assert "from __future__" not in text
