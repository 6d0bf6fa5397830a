"""Fixtures of `tests/unit` and `tests/local`: an empty home, distui called in this process, hosts made of values and
runs on them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from distui.errors import HostUnreachable
from distui.session import Completed, Session
from fakehosts.ports import own_ports
from fakehosts.runs import Cluster, use_fake_follower


@dataclass(frozen=True)
class Done:
    """How one call of distui ended."""

    code: int
    out: str
    err: str


Cli = Callable[..., Done]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts in memory whose programs run until they are stopped, and whose runs can be followed."""
    made = Cluster(tmp_path, 2)
    use_fake_follower(monkeypatch, made.connector)
    return made


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of a task without a container."""
    program = "import time; print(1, flush=True); time.sleep(600)"
    env = os.environ | {"DISTUI_TASK_DIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], text=True, stdout=-1, env=env) as one:
        assert one.stdout and one.stdout.readline()
        yield one
        one.kill()


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of every sleep of asyncio from now on; none of them takes any time."""
    taken: list[float] = []
    sleep = asyncio.sleep

    async def nap(seconds: float) -> None:
        taken.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", nap)
    return taken


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HOME and working folder, with nothing of the developer's environment."""
    home = tmp_path / "home"
    work = tmp_path / "work"
    home.mkdir()
    work.mkdir()
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "NO_COLOR", "FORCE_COLOR", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    return home


@pytest.fixture
def cli(home: Path, capfd: pytest.CaptureFixture[str]) -> Cli:
    """Calls distui in this process: `cli("hosts", "ls").out`."""
    from distui.cli.main import main

    def call(*words: str) -> Done:
        capfd.readouterr()
        code = main(words)
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture
def fresh_python(home: Path) -> Callable[[str], str]:
    """Runs a program in a fresh interpreter with an empty HOME; gives its stdout."""

    def run(program: str) -> str:
        root = Path(__file__).resolve().parents[2]
        env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(root)}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, cwd=home)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@dataclass
class FakeSession:
    """A session in memory: scripts and commands answer what `answer` says."""

    host: str
    answer: Callable[[str, Sequence[str]], Completed]
    connected_ms: float = 1.0

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout: float | None = 60.0, limit: int = 8 << 20
    ) -> Completed:
        return self.answer(self.host, tuple(argv))

    async def run_script(self, script: str, *, timeout: float | None = 60.0, limit: int = 8 << 20) -> Completed:
        return self.answer(self.host, (script,))

    async def close(self) -> None:
        return


@dataclass
class FakeConnector:
    """A connector in memory. Hosts in `down` fail with that error; `asked` lists the hosts connected to."""

    answer: Callable[[str, Sequence[str]], Completed]
    down: Mapping[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    closed: bool = False

    async def connect(self, host: str) -> Session:
        self.asked.append(host)
        if host in self.down:
            raise self.down[host]
        return FakeSession(host, self.answer)  # type: ignore[return-value]

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def fake_hosts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeConnector]:
    """Puts a FakeConnector in the place of ssh; by default every host refuses connections."""
    from distui.cluster.hosts import connecting

    def put(answer: Callable[[str, Sequence[str]], Completed] | None = None, **down: Exception) -> FakeConnector:
        def nothing(host: str, argv: Sequence[str]) -> Completed:
            raise HostUnreachable(host, f"{host} refuses connections", hint=f"ssh -v {host}", code="refused")

        connector = FakeConnector(answer or nothing, down)
        monkeypatch.setattr(connecting, "make_connector", lambda settings, hosts: connector)
        return connector

    return put


@pytest.fixture
def demo_home(tmp_path_factory: pytest.TempPathFactory, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A HOME from which `ssh demo1` and `ssh demo2` work: real ssh servers on loopback, in a thread."""
    from distui.remote.demo.demo import DemoHosts

    own_ports(monkeypatch)
    root = tmp_path_factory.mktemp("demo")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    hosts = DemoHosts(2, root=root)
    asyncio.run_coroutine_threadsafe(hosts.__aenter__(), loop).result(30)
    monkeypatch.setenv("HOME", str(root))
    Path("hosts.yaml").write_text("version: 1\ndefaults: {docker: process}\nhosts:\n  demo[1-2]: {}\n")
    try:
        yield root
    finally:
        asyncio.run_coroutine_threadsafe(hosts.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
