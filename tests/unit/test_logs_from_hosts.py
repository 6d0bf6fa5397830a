"""Logs of a run that are followed on its hosts: one that can't be read costs its own ranks alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from distui.cluster.attach.live_run import Live
from distui.cluster.logs import from_hosts, of_run
from distui.cluster.logs.iterating import TellPlain, iterate
from distui.cluster.logs.sink import LogSink, Tell
from distui.cluster.logs.wanted import Wanted
from distui.errors import ContactLost, HostCommandError, HostUnreachable
from distui.facts.host import Trouble
from distui.plan.model import RunPlan
from distui.runs.follow.followed import Drained, FollowEvent, FollowTarget, Removed
from distui.runs.hosts.link import HostLink
from fakehosts.hosts import FakeSession
from fakehosts.runs import Cluster, FakeFollower, until, use_fake_follower


class Follower(FakeFollower):
    """Of tasks that are read to their end."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._read: set[int] = set()

    async def emit(self, event: FollowEvent) -> None:
        """See FakeFollower."""
        await super().emit(event)
        if isinstance(event, Drained | Removed):
            self._read.add(event.task)

    async def drained(self) -> None:
        """Until all are."""
        await until(lambda: len(self._read) == len(self._targets))


@pytest.fixture
async def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Cluster, RunPlan]:
    """A run on four hosts that nobody follows."""
    cluster = Cluster(tmp_path, 4)
    use_fake_follower(monkeypatch, cluster.connector)

    def make(link: HostLink, access: object, emit: Any, *, targets: Sequence[FollowTarget], **_: object) -> Follower:
        return Follower(cluster.connector.hosts[link.host], emit, targets)

    monkeypatch.setattr(from_hosts, "HostFollower", make)
    plan = cluster.plan(launch="beef")
    await cluster.run(plan, detach=True)
    return cluster, plan


async def followed(cluster: Cluster, live: Live, meanwhile: Callable[[list[str]], Any]) -> tuple[list[str], str]:
    """The lines of all that is followed, and what is said to be missing after the last one."""
    reported: list[str] = []

    async def read(out: LogSink, tell: Tell, _: TellPlain) -> bool:
        def note(words: str, level: Any) -> None:
            reported.append(words)
            tell(words, level)

        return await of_run._read_hosts(cluster.connector, live, out, note, follow=True, merge=False)  # type: ignore[arg-type]

    lines: list[str] = []
    beside = asyncio.create_task(meanwhile(reported))
    async with asyncio.timeout(60):
        try:
            async for batch in iterate(Wanted(), read):
                lines += [line.text for line in batch.lines]
        except ContactLost as exc:
            return lines, exc.message
        finally:
            await beside
    return lines, ""


async def test_hosts_that_cannot_be_read_cost_their_own_ranks(started: tuple[Cluster, RunPlan]) -> None:
    """One is off by now, one has an engine that hangs, one was found to be away: each ended all with its first error,
    though the others go on; `logs` without `-f` skips it.
    """
    cluster, plan = started
    h1, _, h3, _ = cluster.hosts
    cluster.connector.down["h2"] = HostUnreachable("h2", "h2: no answer within 10 s", code="timeout")
    h3.fails["ps"] = HostCommandError("h3", "docker did not finish within 15 s")
    cluster.connector.down["h4"] = HostUnreachable("h4", "asked though it was found to be away", code="timeout")
    live = Live(None, plan, {"h4": Trouble("timeout", "h4: no answer within 8 s", "")}, {})

    async def end(reported: list[str]) -> None:
        await until(lambda: any("h2" in words for words in reported) and any("h3" in words for words in reported))
        h1.files["log-0"] = b"goes on\n"
        h1.containers[0].end(0)

    lines, missing = await followed(cluster, live, end)
    assert lines == ["goes on"]
    assert missing.splitlines() == [
        "h4 did not answer; its ranks are missing here",
        "h4: no answer within 8 s",
        "h2: no answer within 10 s; its ranks are missing here",
        "h3: docker did not finish within 15 s; its ranks are missing here",
    ]
    assert all(host.open_sessions == 0 for host in cluster.hosts)


class Printed:
    """The channel of a command that prints a log and ends."""

    def __init__(self, text: bytes, status: int) -> None:
        self._reads, self._status = [text[:9], text[9:], b""], status

    async def read(self, _: int = 0) -> bytes:
        return self._reads.pop(0)

    async def wait(self) -> int:
        return self._status

    async def close(self) -> None:
        pass


DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


@pytest.mark.parametrize("printed", ["", "step 1\nstep 2\n"])
async def test_a_log_that_its_engine_does_not_give(
    started: tuple[Cluster, RunPlan], monkeypatch: pytest.MonkeyPatch, printed: str
) -> None:
    """Its words were a line of the rank, and all was well; the others are read all the same."""
    cluster, plan = started
    said = {"h2": Printed(f"{printed}{DOWN}\n".encode(), 1)}

    async def opened(session: FakeSession, argv: Sequence[str]) -> Printed:
        return said.get(session.host, Printed(b"a line\nand half of one", 0))

    monkeypatch.setattr(FakeSession, "open", opened)
    reported: list[str] = []

    async def read(out: LogSink, _: Tell, __: TellPlain) -> bool:
        return await from_hosts.show(cluster.connector, Live(None, plan, {}, {}), out, reported.append, stamps=False)  # type: ignore[arg-type]

    lines: list[tuple[int | None, str]] = []
    with pytest.raises(ContactLost):
        async for batch in iterate(Wanted(), read):
            lines += [(batch.rank, line.text) for line in batch.lines]
    words = ["a line", "and half of one"]
    assert lines == [(rank, text) for rank in range(4) for text in (printed.splitlines() if rank == 1 else words)]
    assert reported == [f"h2: rank 1: its log could not be read to its end: {DOWN} (exit 1)"]


async def test_all_hosts_that_can_be_read_is_no_error(started: tuple[Cluster, RunPlan]) -> None:
    """Nothing is missing then."""
    cluster, plan = started

    async def end(_: list[str]) -> None:
        for index, host in enumerate(cluster.hosts):
            host.files[f"log-{index}"] = f"rank {index}\n".encode()
            host.containers[0].end(0)

    lines, missing = await followed(cluster, Live(None, plan, {}, {}), end)
    assert (sorted(lines), missing) == ([f"rank {index}" for index in range(4)], "")
