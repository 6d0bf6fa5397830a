"""Probing many hosts at once: failures stay with their host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from distui.errors import HostAuthError, HostCommandError, HostKeyError, HostUnreachable, SessionLost
from distui.facts import probe
from distui.facts.host import HostDown, HostFacts, ProbeResult
from distui.session import ByteChannel, Completed
from distui.spec.hosts.inventory import Host

Answer = Callable[[str], bytes]


def honest(script: str) -> bytes:
    """The least answer a host can give: the frame and its name."""
    word = script.split("N='", 1)[1].split("'", 1)[0]
    return (
        f"\n{word} begin 1000000000000000000\n\n{word} part system\nhostname\tbox\n\n{word} rc 0\n"
        f"\n{word} end 1000000001000000000\n"
    ).encode()


class FakeSession:
    """A session in memory that answers the probe with what the test says."""

    def __init__(self, host: str, answer: Answer | Exception | None, stderr: bytes = b"") -> None:
        self.host = host
        self.connected_ms = 40.0
        self.closed = False
        self.scripts: list[str] = []
        self._answer = answer
        self._stderr = stderr

    async def run_script(self, script: str, *, timeout: float | None = 60.0, limit: int = 8 << 20) -> Completed:
        self.scripts.append(script)
        if self._answer is None:
            await asyncio.Event().wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        assert self._answer is not None
        return Completed(("sh",), 0, self._answer(script), self._stderr)

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout: float | None = 60.0, limit: int = 8 << 20
    ) -> Completed:
        raise AssertionError("the probe is one script")

    async def open(self, argv: Sequence[str]) -> ByteChannel:
        raise AssertionError("the probe is one script")

    async def open_unix(self, path: str) -> ByteChannel:
        raise AssertionError("the probe is one script")

    async def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        raise AssertionError("the probe writes nothing")

    async def close(self) -> None:
        self.closed = True


class FakeConnector:
    """Hands out the sessions of the test; an exception stands for a host that can't be reached."""

    def __init__(self, hosts: dict[str, FakeSession | Exception]) -> None:
        self.hosts = hosts
        self.open_now = 0
        self.most = 0

    async def connect(self, host: str) -> FakeSession:
        self.open_now += 1
        self.most = max(self.most, self.open_now)
        await asyncio.sleep(0)
        self.open_now -= 1
        found = self.hosts[host]
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        pass


def lies(_: str) -> bytes:
    return b"This account is currently not available.\n"


def breaks(_: str) -> bytes:
    raise KeyError("x")


async def test_each_failure_stays_with_its_host() -> None:
    """Down, refused, changed key, rubbish, lost, hanging and a bug of ours: eight rows, one of them up."""
    hosts: dict[str, FakeSession | Exception] = {
        "up": FakeSession("up", honest),
        "down": HostUnreachable("down", "connection refused", hint="is sshd running?", code="refused"),
        "denied": HostAuthError("denied", "publickey refused", hint="ssh -v denied"),
        "changed": HostKeyError("changed", "the host key changed", code="host_key_changed"),
        "rubbish": FakeSession("rubbish", lies),
        "lost": FakeSession("lost", SessionLost("lost", "connection lost")),
        "slow": FakeSession("slow", HostCommandError("slow", "took longer than 45 s", code="command_timeout")),
        "bug": FakeSession("bug", breaks),
    }
    rows: list[ProbeResult] = []
    results = await probe.probe_all(FakeConnector(hosts), [Host(name) for name in hosts], on_result=rows.append)
    assert list(results) == list(hosts)
    codes = {name: r.error.code for name, r in results.items() if isinstance(r, HostDown)}
    assert codes == {
        "down": "refused",
        "denied": "auth",
        "changed": "host_key_changed",
        "rubbish": "rubbish",
        "lost": "lost",
        "slow": "command_timeout",
        "bug": "bug",
    }
    up = results["up"]
    assert isinstance(up, HostFacts) and up.hostname == "box"
    assert {r.host for r in rows} == set(hosts)
    assert all(s.closed for s in hosts.values() if isinstance(s, FakeSession))


async def test_a_host_that_hangs_holds_no_other() -> None:
    """The others' rows are there while it is still waited for, and then it gets its own."""
    rows: list[str] = []
    hanging = FakeSession("hangs", None)
    connector = FakeConnector({"hangs": hanging, "up": FakeSession("up", honest)})
    hosts = [Host("hangs", connect_timeout=0.0), Host("up")]
    results = await probe.probe_all(connector, hosts, timeout=-4.9, on_result=lambda r: rows.append(r.host))
    assert rows == ["up", "hangs"]
    down = results["hangs"]
    assert isinstance(down, HostDown) and down.error.code == "timeout" and down.error.hint
    assert hanging.closed


async def test_only_so_many_hosts_at_once() -> None:
    """`parallel` bounds the logins in flight."""
    connector = FakeConnector({f"n{i}": FakeSession(f"n{i}", honest) for i in range(20)})
    results = await probe.probe_all(connector, [Host(f"n{i}") for i in range(20)], parallel=3)
    assert len(results) == 20 and connector.most <= 3


async def test_a_host_named_twice_is_asked_once() -> None:
    """The same name in two groups is one host."""
    session = FakeSession("n1", honest)
    results = await probe.probe_all(FakeConnector({"n1": session}), [Host("n1"), Host("n1")])
    assert list(results) == ["n1"] and len(session.scripts) == 1


async def test_rubbish_is_quoted() -> None:
    """The reason shows what the host said instead, cleaned of control characters."""
    with pytest.raises(HostCommandError) as caught:
        await probe.probe_host(FakeSession("n1", lambda _: b"\x1b[31mThis account\x00 is disabled\n"), Host("n1"))
    assert caught.value.code == "rubbish"
    assert "This account is disabled" in caught.value.message and "\x1b" not in caught.value.message
    assert caught.value.hint


async def test_a_host_without_sh_is_reported_by_its_stderr() -> None:
    """Nothing on stdout: what stderr said is the reason."""
    session = FakeSession("n1", lambda _: b"", b"sh: command not found")
    with pytest.raises(HostCommandError, match="command not found"):
        await probe.probe_host(session, Host("n1"))


async def test_each_probe_has_its_own_word() -> None:
    """A frame can't be replayed from an earlier answer."""
    session = FakeSession("n1", honest)
    await probe.probe_host(session, Host("n1"))
    await probe.probe_host(session, Host("n1"))
    first, second = (s.split("N='", 1)[1].split("'", 1)[0] for s in session.scripts)
    assert first != second


async def test_an_output_that_stays_open_is_no_wrong_clock() -> None:
    """Something of a start-up file keeps it open for half a minute after the probe has ended."""
    session = FakeSession("n1", honest)
    answer, ticks = session.run_script, iter([1000000000.0, 1000000031.0])

    async def late(script: str, *, timeout: float | None = 60.0, limit: int = 8 << 20) -> Completed:
        return replace(await answer(script), lingered=30.0)

    session.run_script = late  # type: ignore[method-assign]
    facts = await probe.probe_host(session, Host("n1"), clock=lambda: next(ticks))
    assert abs(facts.clock_offset_ms or 0.0) < 1_000


async def test_a_channel_that_opens_late_is_no_slow_login_shell() -> None:
    """We were busy meanwhile: the shell was there, and waited for the probe."""

    def aged(script: str) -> bytes:
        return honest(script).replace(b"hostname\tbox\n", b"hostname\tbox\nage\t8000.25 799525\n")

    session = FakeSession("n1", aged)
    answer, ticks = session.run_script, iter([1000000000.0, 1000000006.5] * 2)

    async def late(script: str, *, timeout: float | None = 60.0, limit: int = 8 << 20) -> Completed:
        return replace(await answer(script), waited=5.0)

    assert (await probe.probe_host(session, Host("n1"), clock=lambda: next(ticks))).shell_s == 5.0
    session.run_script = late  # type: ignore[method-assign]
    assert (await probe.probe_host(session, Host("n1"), clock=lambda: next(ticks))).shell_s == 0.5


async def test_the_clock_is_the_callers() -> None:
    """The offset is measured against the clock that was given."""
    ticks = iter([1000000100.0, 1000000101.0])  # the host's own second
    facts = await probe.probe_host(FakeSession("n1", honest), Host("n1"), clock=lambda: next(ticks))
    assert facts.clock_offset_ms == pytest.approx(-100_000)
