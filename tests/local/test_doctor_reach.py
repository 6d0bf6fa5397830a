"""The reachability proof: its real program on loopback addresses, and answers no host should give."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from distui.doctor.reach import PROGRAM, Endpoint, ReachReport, prove
from distui.errors import HostCommandError, SessionLost


class LocalChannel:
    """A command on this machine as a ByteChannel."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def read(self, limit: int = 65536) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.read(limit)

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    def stderr_tail(self) -> bytes:
        return b"sh: 1: exec: python3: not found\n"

    async def wait(self) -> int:
        return await self._process.wait()

    async def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.communicate()


class LocalSession:
    """A host that is this machine. `argv` replaces what is asked for."""

    def __init__(self, host: str, argv: Sequence[str] = ()) -> None:
        self.host = host
        self.argv = tuple(argv)
        self.channels: list[LocalChannel] = []

    async def open(self, argv: Sequence[str]) -> LocalChannel:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(self.argv or argv), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
        self.channels.append(LocalChannel(process))
        return self.channels[-1]


async def proof(*endpoints: Endpoint, timeout: float = 60.0, **sessions: Any) -> ReachReport:
    """The proof between these; hosts are this machine unless said otherwise."""
    known = {e.host: sessions.get(e.host) or LocalSession(e.host) for e in endpoints}
    return await prove(known, endpoints, timeout=timeout)


@contextmanager
def taken(address: str) -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server((address, 0)) as server:
        yield server.getsockname()[1]


@asynccontextmanager
async def program(answer: Callable[[bytes], bytes]) -> AsyncIterator[Any]:
    """A session whose command answers each line with what `answer` says."""

    class Channel:
        def __init__(self) -> None:
            self.out: asyncio.Queue[bytes] = asyncio.Queue()

        async def write(self, data: bytes) -> None:
            self.out.put_nowait(answer(data))

        async def read(self, limit: int = 65536) -> bytes:
            return await self.out.get()

        def stderr_tail(self) -> bytes:
            return b""

        async def wait(self) -> int:
            return 1

        async def close(self) -> None:
            return

    class Session:
        async def open(self, argv: Sequence[str]) -> Channel:
            return Channel()

    yield Session()


async def test_more_peers_than_a_kernel_keeps_connections() -> None:
    """Each is let in, and none waits until its time is up: 257 are more than `listen(256)` keeps."""
    channel = await LocalSession("h1").open(("python3", "-c", PROGRAM))
    try:
        await channel.write(b'{"addr": "127.0.0.1", "port": 0, "also": []}\n')
        port = json.loads((await channel.read()).partition(b":")[2])["port"]
        for _ in range(300):
            socket.create_connection(("127.0.0.1", port), 20).close()
    finally:
        await channel.close()


async def test_hosts_that_reach_each_other() -> None:
    """Every ordered pair is tried; nothing is left open."""
    sessions = {name: LocalSession(name) for name in ("h1", "h2", "h3")}
    ends = [Endpoint(f"h{i}", f"127.0.0.{i}") for i in (1, 2, 3)]
    report = await prove(sessions, ends, timeout=60.0)

    assert report == ReachReport((), 6)
    assert {host: sorted(peers) for host, peers in report.table.items()} == {
        "h1": ["h2", "h3"], "h2": ["h1", "h3"], "h3": ["h1", "h2"],
    }  # fmt: skip
    assert all(r.error == "" and r.ms is not None and r.ms >= 0 for row in report.table.values() for r in row.values())
    assert [await c.wait() for s in sessions.values() for c in s.channels] == [0, 0, 0]


async def test_the_first_host_listens_on_the_rendezvous_port() -> None:
    """A port that is free is used and free again afterwards, also for a program without SO_REUSEADDR."""
    with taken("127.0.0.1") as port:
        pass
    peers = [Endpoint(f"h{i}", f"127.0.0.{i}") for i in range(2, 8)]
    report = await proof(Endpoint("h1", "127.0.0.1", port), *peers)
    assert report == ReachReport((), 42)
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", port))


async def test_a_taken_port_is_named() -> None:
    """Where, why, and the key that changes it."""
    with taken("127.0.0.1") as port:
        report = await proof(Endpoint("h1", "127.0.0.1", port), Endpoint("h2", "127.0.0.2"))
    (problem,) = report.problems
    assert (problem.host, problem.peer) == ("h1", "")
    assert problem.message == f"can't listen on 127.0.0.1:{port}: Address already in use"
    assert "master_port" in problem.hint


async def test_every_task_s_port_must_be_free() -> None:
    """A host with several tasks needs several ports; each is used, and free again afterwards."""
    with taken("127.0.0.1") as free:
        pass
    with taken("127.0.0.1") as port:
        ends = (Endpoint("h1", "127.0.0.1", free, (port,)), Endpoint("h2", "127.0.0.2"))
        report = await proof(*ends)
    (problem,) = report.problems
    assert problem.message == f"can't listen on 127.0.0.1:{port}: Address already in use"
    assert problem.hint == "pick another with roles.NAME.port"
    assert await proof(*ends) == ReachReport((), 2)
    with socket.create_server(("127.0.0.1", free)), socket.create_server(("127.0.0.1", port)):
        pass


async def test_an_address_that_is_not_the_host_s() -> None:
    """A wrong address in hosts.yaml is found by listening on it."""
    report = await proof(Endpoint("h1", "192.0.2.7"), Endpoint("h2", "127.0.0.2"))
    (problem,) = report.problems
    assert problem.message == "can't listen on 192.0.2.7: Cannot assign requested address"


async def test_a_single_host_needs_no_peer() -> None:
    """Its port is proved all the same."""
    assert await proof(Endpoint("h1", "127.0.0.1")) == ReachReport((), 0)


async def test_a_host_without_python_is_unproved() -> None:
    """It is no problem of the run: only nothing is known of it. The others are proved."""
    ends = [Endpoint(f"h{i}", f"127.0.0.{i}") for i in (1, 2, 3)]
    report = await proof(*ends, h2=LocalSession("h2", ("sh", "-c", "exit 127")))
    assert report == ReachReport((), 2, ("h2",))


async def test_what_a_login_sets_for_its_own_python_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONPATH with a module of a name that ours needs, as conda and project folders have them."""
    (tmp_path / "socket.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert await proof(Endpoint("h1", "127.0.0.1"), Endpoint("h2", "127.0.0.2")) == ReachReport((), 2)


async def test_a_program_that_ends_early() -> None:
    """The last words it said."""
    report = await proof(Endpoint("h1", "127.0.0.1"), h1=LocalSession("h1", ("sh", "-c", "exit 1")))
    (problem,) = report.problems
    assert problem.message == "the reachability check ended early: sh: 1: exec: python3: not found"


async def test_a_chatty_login_is_passed_over() -> None:
    """What a login shell prints before the answer is not the answer."""
    noisy = LocalSession("h1", ("sh", "-c", 'echo "Welcome!"; printf "last login: "; exec python3 -c "$0"', BOOT))
    assert await proof(Endpoint("h1", "127.0.0.1"), Endpoint("h2", "127.0.0.2"), h1=noisy) == ReachReport((), 2)


async def test_a_peer_out_of_reach_is_named_with_both_addresses() -> None:
    """Who can't reach whom, from where, why, and what to pin."""

    def answer(data: bytes) -> bytes:
        ask = json.loads(data.splitlines()[-1])
        messages: dict[str, object] = (
            {"port": 5} if "addr" in ask else {"peers": {"h2": ["Connection timed out", None]}}
        )
        return b"DISTUI-REACH:" + json.dumps(messages).encode() + b"\n"

    async with program(answer) as h1:
        report = await proof(Endpoint("h1", "10.0.0.1", 5), Endpoint("h2", "127.0.0.2"), h1=h1, timeout=0.3)
    first = next(p for p in report.problems if p.host == "h1")
    assert first.peer == "h2"
    assert (first.message, first.addr, first.peer_addr) == ("Connection timed out", "10.0.0.1", "127.0.0.2")
    assert first.peer_port
    assert "fabric:" in first.hint


@pytest.mark.parametrize("said", [b"DISTUI-REACH:{\n", b"DISTUI-REACH:7\n", b"DISTUI-REACH:\xff\n"])
async def test_an_answer_that_cannot_be_read(said: bytes) -> None:
    """It is a problem of that host and no crash."""
    async with program(lambda data: said) as h1:
        report = await proof(Endpoint("h1", "127.0.0.1"), h1=h1)
    (problem,) = report.problems
    assert problem.message == "the reachability check's answer can't be read"


async def test_a_host_that_never_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the one that was waited for."""
    monkeypatch.setattr("distui.doctor.reach.SLACK", 0.0)  # 4 s: enough for the other host to answer, also a busy one
    hanging = LocalSession("h2", ("sh", "-c", "cat >/dev/null"))
    report = await proof(Endpoint("h1", "127.0.0.1"), Endpoint("h2", "127.0.0.2"), h2=hanging, timeout=2.0)
    assert [(p.host, p.peer) for p in report.problems] == [("h2", "")]
    assert "did not answer the reachability check" in report.problems[0].message
    assert report.problems[0].hint == "is h2 overloaded, or its python3 broken? `ssh h2 python3 -V`"


@pytest.mark.parametrize(
    "error", [SessionLost("h1", "h1: connection lost"), HostCommandError("h1", "no channel", hint="MaxSessions")]
)
async def test_a_connection_that_breaks(error: Any) -> None:
    """The host's trouble is a problem of that host."""

    class Broken:
        async def open(self, argv: Sequence[str]) -> Any:
            raise error

    report = await proof(Endpoint("h1", "127.0.0.1"), Endpoint("h2", "127.0.0.2"), h1=Broken())
    (problem,) = report.problems
    assert (problem.host, problem.message, problem.hint) == ("h1", error.message, error.hint)


BOOT = "import sys;from distui.doctor.reach import PROGRAM as p;sys.stdin.buffer.read(len(p.encode()));exec(p)"
