"""The whole follower on this machine: the real helper as a child, and a stand-in for dockerd that can misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from distui.agent import bundle as helper
from distui.agent.helper.main import AGAIN
from distui.errors import HostCommandError, HostKeyError, SessionLost
from distui.runs.follow import channels as feed_channels
from distui.runs.follow import containers as follow_container
from distui.runs.follow import engine_watch
from distui.runs.follow import files as follow_file
from distui.runs.follow import follower as follower_module
from distui.runs.follow.containers import LAST_RECORDS
from distui.runs.follow.feed import HELD, EngineAccess, EngineDown, Feed, get_json
from distui.runs.follow.followed import (
    Back,
    Drained,
    Exited,
    FollowEvent,
    FollowTarget,
    Lost,
    Note,
    Records,
    Removed,
    Sampled,
)
from distui.runs.follow.follower import HostFollower
from distui.runs.follow.helper import open_helper
from distui.runs.follow.resume import Mark, ResumePoint, Seen
from distui.runs.hosts import link as link_module
from distui.runs.hosts.link import HostLink
from distui.runs.lines.docker_frames import since, stamp_at, stamp_ns
from distui.runs.lines.frames import NoHelper
from distui.session import Completed

START = 1_700_000_874_000_000_000


CHILDREN: list[asyncio.subprocess.Process] = []
"""Started by the test that runs now; a cut channel is not waited for where it is cut."""


@pytest.fixture(autouse=True)
async def children_are_waited_for() -> AsyncIterator[None]:
    """A child that outlives the loop, or an unread pipe of it, would be complained about in some later test."""
    yield
    for child in CHILDREN:
        if child.stdin is not None:
            child.stdin.close()
        await child.communicate()
    CHILDREN.clear()


class Channel:
    """A child's pipes or a socket, as a ByteChannel that a test can cut."""

    def __init__(self, reader: Any, writer: Any, process: Any = None) -> None:
        self.reader, self.writer, self.process = reader, writer, process
        self.cut = False

    async def read(self, limit: int = 65536) -> bytes:
        data = await self.reader.read(limit)
        if self.cut:
            raise SessionLost("here", "here: cut")
        return bytes(data)

    async def write(self, data: bytes) -> None:
        if self.cut:
            raise SessionLost("here", "here: cut")
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def write_eof(self) -> None:
        self.writer.write_eof()

    def stderr_tail(self) -> bytes:
        return b""

    async def wait(self) -> int:
        return await self.process.wait() if self.process else 0

    async def close(self) -> None:
        self.writer.close()
        if self.process:
            await self.process.wait()


class Session:
    """This machine as a host."""

    host = "here"
    connected_ms = 0.0

    def __init__(self) -> None:
        self.channels: list[Channel] = []

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
        CHILDREN.append(process)  # whoever waits here may be cancelled
        out, err = await process.communicate()
        return Completed(tuple(argv), process.returncode or 0, out, err)

    async def open(self, argv: Sequence[str]) -> Channel:
        python = {"python3": sys.executable}
        words = [python.get(word, word) for word in argv]
        process = await asyncio.create_subprocess_exec(*words, stdin=-1, stdout=-1, start_new_session=True)
        CHILDREN.append(process)
        return self._keep(Channel(process.stdout, process.stdin, process))

    async def open_unix(self, path: str) -> Channel:
        try:
            return self._keep(Channel(*await asyncio.open_unix_connection(path)))
        except OSError as error:
            raise HostCommandError("here", str(error), code="forward_refused") from None

    def cut(self) -> None:
        """The connection breaks, with everything on it."""
        for channel in self.channels:
            channel.cut = True
            channel.writer.close()
        self.channels.clear()

    async def close(self) -> None:
        for channel in self.channels:
            await channel.close()

    def _keep(self, channel: Channel) -> Channel:
        self.channels.append(channel)
        return channel


class Connector:
    """Always connects at once."""

    def __init__(self) -> None:
        self.session = Session()

    async def connect(self, host: str) -> Any:
        self.session = Session()
        return self.session

    async def close(self) -> None:
        return None


@dataclass
class Docker:
    """A daemon with one container: serves what `file` holds, follows it, and can be stopped."""

    path: Path
    file: list[tuple[int, int, bytes]] = field(default_factory=list)
    code: int | None = None
    gone: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    server: Any = None
    open: set[Any] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    events: bytes = b""
    """What `/events` says, over and over."""
    first_events: bytes = b""
    """What it says once before."""
    past_events: bytes = b""
    """What it says when it is asked for the past only."""
    past_asked: asyncio.Event = field(default_factory=asyncio.Event)
    slow_past: asyncio.Event | None = None
    """What it waits for before it says so."""
    stop_signal: str = ""
    """What its container asks to be stopped by."""
    head: bytes = b""
    """Said without end instead of any answer."""
    ends_at_once: bool = False
    """Whether a log that is followed ends though its container lives, as Docker 20.10 does without the file."""
    endless: bool = False
    """Whether a log never ends, whatever became of its container."""
    slow_look: asyncio.Event | None = None
    """What it waits for before it tells of its container."""
    refuses: dict[str, str] = field(default_factory=dict)
    """What it says instead of an answer, by the end of what it is asked for."""
    withheld: int = 0
    """How many of the last records whoever follows does not get, as Docker 20.10 withholds one at times."""

    def say(self, data: bytes, stream: int = 1, at: float = 0.0) -> None:
        """One record, `at` seconds after the start."""
        self.file.append((stream, START + int(at * 1e9) + len(self.file), data))
        self.tell()

    def end(self, code: int) -> None:
        self.code = code
        self.tell()

    def tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    async def start(self) -> None:
        self.server = await asyncio.start_unix_server(self.serve, self.path)

    async def stop(self) -> None:
        self.server.close()
        for writer in self.open:
            writer.close()
        self.tell()
        self.path.unlink(missing_ok=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            request = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            self.asked.append(request)
            while self.head:
                await self.flood(writer, self.head)
            await self.answer(urlsplit(request), writer)
        self.open.discard(writer)
        writer.close()

    async def answer(self, url: Any, writer: asyncio.StreamWriter) -> None:
        if url.path == "/version":
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n{}")
        elif self.gone and url.path.startswith("/containers"):
            writer.write(b'HTTP/1.0 404 Not Found\r\n\r\n{"message":"No such container"}')
        elif (words := self.refuses.get(url.path.rpartition("/")[2])) is not None:
            writer.write(b"HTTP/1.0 500 Internal Server Error\r\n\r\n" + json.dumps({"message": words}).encode())
        elif url.path.endswith("/json"):
            if self.slow_look is not None:
                await self.slow_look.wait()
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(self.inspect()).encode())
        elif url.path.endswith("/logs"):
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
            await self.logs(parse_qs(url.query), writer)
        elif "until" in parse_qs(url.query):
            self.past_asked.set()
            if self.slow_past is not None:
                await self.slow_past.wait()
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + self.past_events)
        else:
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + self.first_events)
            while self.events:
                await self.flood(writer, self.events)
            while writer in self.open and not writer.is_closing():
                await self.news.wait()

    async def flood(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Once more the same; raises ConnectionError when nobody listens any more."""
        writer.write(data)
        await writer.drain()
        if writer.is_closing():
            raise ConnectionError

    async def logs(self, query: dict[str, list[str]], writer: asyncio.StreamWriter) -> None:
        asked, at = query.get("since", [""])[0], max(0, len(self.file) - int(query.get("tail", ["1000000"])[0]))
        while not writer.is_closing():
            given = self.file[: len(self.file) - self.withheld] if query["follow"] == ["1"] else self.file
            for stream, stamp, data in given[at:]:
                body = stamp_at(stamp) + b" " + data
                if not asked or since(stamp_at(stamp)) >= asked:
                    writer.write(struct.pack(">BxxxI", stream, len(body)) + body)
            at = len(given)
            await writer.drain()
            if not self.endless and (self.code is not None or query["follow"] == ["0"] or self.ends_at_once):
                return
            await self.news.wait()

    def inspect(self) -> dict[str, Any]:
        running = self.code is None
        state = {"Status": "running" if running else "exited", "Running": running, "ExitCode": self.code or 0}
        ended = {} if running else {"FinishedAt": "2023-11-14T22:27:55.5Z"}
        return {
            "State": {**state, "StartedAt": "2023-11-14T22:27:54Z", **ended},
            "Config": {"StopSignal": self.stop_signal},
        }


@dataclass
class Taken:
    """What was emitted."""

    events: list[FollowEvent] = field(default_factory=list)
    log: bytearray = field(default_factory=bytearray)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, event: FollowEvent) -> None:
        self.events.append(event)
        if isinstance(event, Records):
            self.log += event.batch.data
        self.news.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not reached():
                self.news.clear()
                await self.news.wait()

    def story(self) -> list[FollowEvent]:
        return [e for e in self.events if not isinstance(e, Records | Sampled)]

    def names(self) -> list[str]:
        return [type(e).__name__ for e in self.story()]


@pytest.fixture
async def docker(tmp_path: Path) -> AsyncIterator[Docker]:
    daemon = Docker(tmp_path / "docker.sock")
    await daemon.start()
    yield daemon
    await daemon.stop()


@asynccontextmanager
async def following(
    engine: EngineAccess,
    taken: Taken,
    ref: str = "c1",
    resume: ResumePoint | None = None,
    boot_id: str = "",
    room: asyncio.Event | None = None,
    adopted: bool = False,
    find: Callable[[], Awaitable[str | None]] | None = None,
) -> AsyncIterator[tuple[HostFollower, Connector]]:
    connector = Connector()
    link = HostLink(connector, "here", jitter=lambda: 0.0)
    target = FollowTarget(0, ref, resume, room, adopted, find)
    follower = HostFollower(link, engine, taken, run_id="r", targets=[target], boot_id=boot_id)
    running = asyncio.ensure_future(follower.run())
    try:
        async with asyncio.timeout(60):
            yield follower, connector
    finally:
        await follower.close()
        await asyncio.gather(running, return_exceptions=True)
        await link.close()


def access(docker: Docker) -> EngineAccess:
    return EngineAccess("docker", ("docker",), str(docker.path))


async def test_a_log_cut_again_and_again_comes_whole_and_once(docker: Docker) -> None:
    """Lines go on while the connection is away, and are not doubled when it is back."""
    taken = Taken()
    async with following(access(docker), taken) as (follower, connector):
        for n in range(12):
            docker.say(b"%d\n" % n, at=n / 2)
            await taken.until(lambda n=n: taken.log.endswith(b"%d\n" % n))
            if n % 3 == 2:
                connector.session.cut()
        docker.say(b"last", stream=2, at=7)
        docker.end(3)
        await follower.drained()
    assert bytes(taken.log) == b"".join(b"%d\n" % n for n in range(12)) + b"last"
    assert taken.names() == ["Lost", "Back"] * 4 + ["Exited", "Drained"]


async def test_a_daemon_that_goes_and_comes_is_lost_and_back(docker: Docker) -> None:
    """Nothing is said to have ended while nobody can know."""
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        docker.say(b"one\n")
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        await docker.stop()
        await taken.until(lambda: taken.names() == ["Lost"])
        docker.say(b"two\n")
        docker.end(0)
        await docker.start()
        await follower.drained()
    assert bytes(taken.log) == b"one\ntwo\n"
    assert taken.names() == ["Lost", "Back", "Exited", "Drained"]
    assert [e.what for e in taken.story() if isinstance(e, Lost | Back)] == ["engine", "engine"]


async def test_a_host_that_is_lost_and_then_shows_another_key_is_said(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine may answer in its place; said once each time, though it is asked again."""
    monkeypatch.setattr(follower_module, "_TELL_AFTER", 0.05)
    monkeypatch.setattr(link_module, "REFUSED_WAIT", 0.1)
    taken = Taken()
    async with following(access(docker), taken) as (follower, connector):
        docker.say(b"one\n")
        await taken.until(lambda: bytes(taken.log) == b"one\n")

        async def refuse(host: str) -> Any:
            raise HostKeyError(host, "THE HOST KEY OF here HAS CHANGED", code="host_key_changed")

        connect = connector.connect
        for times in (1, 2):
            connector.connect = refuse  # type: ignore[method-assign]
            connector.session.cut()
            await taken.until(lambda times=times: taken.names().count("Note") == times)  # type: ignore[misc]
            await asyncio.sleep(0.5)
            connector.connect = connect  # type: ignore[method-assign]
            await taken.until(lambda times=times: taken.names().count("Back") == times)  # type: ignore[misc]
        docker.end(0)
        await follower.drained()
    assert taken.names() == ["Lost", "Note", "Back"] * 2 + ["Exited", "Drained"]
    assert {e.text for e in taken.events if isinstance(e, Note)} == {"THE HOST KEY OF here HAS CHANGED"}


async def test_a_log_emptied_on_the_host_is_announced(docker: Docker) -> None:
    """What is newer is still read, nothing twice."""
    taken = Taken()
    async with following(access(docker), taken) as (follower, connector):
        docker.say(b"one\n")
        docker.say(b"two\n")
        await taken.until(lambda: bytes(taken.log) == b"one\ntwo\n")
        docker.file.clear()
        docker.say(b"three\n", at=5)
        connector.session.cut()
        await taken.until(lambda: bytes(taken.log) == b"one\ntwo\nthree\n")
        docker.end(0)
        await follower.drained()
    assert next(e.text for e in taken.events if isinstance(e, Note)).startswith("its log was removed, cut, rotated")


@pytest.mark.parametrize("running", [True, False])
async def test_a_log_removed_on_the_host_is_announced_and_the_end_reported(docker: Docker, running: bool) -> None:
    """The engine gives an empty log then. While it runs and when it has ended: said once, with the time, and over."""
    taken = Taken()
    async with following(access(docker), taken) as (follower, connector):
        docker.say(b"one\n")
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        docker.file.clear()
        docker.ends_at_once = True
        if not running:
            docker.end(3)
        connector.session.cut()
        await taken.until(lambda: any(isinstance(e, Note) for e in taken.events))
        assert ("Exited" in taken.names()) is not running
        docker.end(3)
        await follower.drained()
    notes = [e.text for e in taken.events if isinstance(e, Note)]
    assert len(notes) == 1
    assert "what it printed after 2023-11-14T" in notes[0]
    assert next(e.code for e in taken.events if isinstance(e, Exited)) == 3


@pytest.mark.parametrize(("adopted", "lines"), [(True, 0), (True, 1), (False, 0)])
async def test_an_empty_log_of_a_task_that_nobody_followed_is_said(docker: Docker, adopted: bool, lines: int) -> None:
    """The engine gives the same of a task that printed nothing and of one whose log was removed on the host."""
    for _ in range(lines):
        docker.say(b"one\n")
    docker.end(0)
    taken = Taken()
    async with following(access(docker), taken, adopted=adopted) as (follower, _):
        await follower.drained()
    notes = [e.text for e in taken.events if isinstance(e, Note)]
    assert len(notes) == (adopted and not lines)
    assert all("it printed nothing, or its log was removed there" in text for text in notes)


@pytest.mark.parametrize(("past", "known"), [(b'{"Action":"kill"}\n', True), (b"", False)])
async def test_a_signal_from_before_anybody_listened(docker: Docker, past: bytes, known: bool) -> None:
    """The engine is asked once more when a container has ended: its live events begin too late, or come too late."""
    docker.past_events = past
    docker.end(137)
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await follower.drained()
    (exited,) = [e for e in taken.events if isinstance(e, Exited)]
    assert (exited.code, exited.signalled) == (137, known)
    (asked,) = [parse_qs(urlsplit(asked).query) for asked in docker.asked if "until" in asked]
    assert json.loads(asked["filters"][0]) == {"type": ["container"], "container": ["c1"], "event": ["kill"]}
    assert asked["until"] == ["1700000875.700000"]
    assert asked["since"] == ["0.000000"]


@pytest.mark.parametrize(
    ("number", "ago", "own", "code", "known"),
    [
        ("15", 3.0, "", 1, True),
        ("9", 0.1, "", 1, True),
        ("2", 3.0, "SIGTERM", 1, True),
        ("10", 0.1, "", 1, False),
        ("10", 0.1, "SIGUSR1", 1, True),
        ("10", 0.1, "10", 1, True),
        ("SIGUSR1", 0.1, "USR2", 1, False),
        ("15", 3600.0, "", 1, False),
        ("15", 100.0, "", 143, True),
        ("15", 100.0, "", 137, False),
    ],
)
@pytest.mark.parametrize("live", [True, False])
async def test_which_signals_count_as_the_end(
    docker: Docker, number: str, ago: float, own: str, code: int, known: bool, live: bool
) -> None:
    """One to end with, or the container's own, within a stop's grace: not the checkpoint somebody asked for. Where the
    exit status names it, somebody's `docker stop -t 300` may have given it longer.
    """
    about = {"ID": "c1", "Attributes": {"signal": number}}
    event = {"Action": "kill", "Actor": about, "timeNano": int((1700000875.5 - ago) * 1e9)}
    reported = json.dumps(event).encode() + b"\n"
    docker.stop_signal = own
    if live:
        docker.first_events = reported + json.dumps({"Action": "oom", "Actor": {"ID": "c1"}}).encode() + b"\n"
    else:
        docker.past_events = reported
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: "Note" in taken.names() or not live)
        docker.end(code)
        await follower.drained()
    assert [e.signalled for e in taken.events if isinstance(e, Exited)] == [known]


GRACE = "1700000840.500000"
"""A stop's grace before the end, and a little."""


@pytest.mark.parametrize(
    ("code", "since", "until"),
    [
        (137, "0.000000", "1700000875.700000"),
        (128, GRACE, "1700000875.500000"),
        (1, GRACE, "1700000875.500000"),
    ],
)
async def test_which_signals_can_have_ended_it(docker: Docker, code: int, since: str, until: str) -> None:
    """One is told a moment after what it has ended; whoever ended by itself got none later, nor long before."""
    docker.end(code)
    async with following(access(docker), Taken()) as (follower, _):
        await follower.drained()
    (asked,) = [parse_qs(urlsplit(asked).query) for asked in docker.asked if "until" in asked]
    assert (asked["since"], asked["until"]) == ([since], [until])


async def test_a_death_that_is_told_of_a_container_that_lives(docker: Docker) -> None:
    """Its engine has started it again by then: it has not ended."""
    died = {"Action": "die", "Actor": {"ID": "c1", "Attributes": {"exitCode": "9"}}, "timeNano": START}
    events = [died, {"Action": "oom", "Actor": {"ID": "c1"}}]
    docker.first_events = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: "Note" in taken.names())
        await taken.until(lambda: sum(path.endswith("/json") for path in docker.asked) > 1)
        docker.end(4)
        await follower.drained()
    assert [e.code for e in taken.events if isinstance(e, Exited)] == [4]


async def test_several_processes_that_memory_lacks_for_are_one_warning(docker: Docker) -> None:
    """Docker reports each loader's worker that the kernel kills, and some twice."""
    killed = {"Action": "oom", "Actor": {"ID": "c1"}}
    other = {"Action": "kill", "Actor": {"ID": "c1"}}
    docker.first_events = b"".join(json.dumps(event).encode() + b"\n" for event in [killed] * 5 + [other])
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: "Note" in taken.names())
        docker.end(1)
        await follower.drained()
    assert [e.text for e in taken.events if isinstance(e, Note)] == [
        "the kernel killed a process of it for lack of memory"
    ]


@pytest.mark.parametrize(("ref", "known"), [("c1", True), ("c2", False)])
async def test_a_signal_that_is_told_as_it_is_sent(docker: Docker, ref: str, known: bool) -> None:
    """Of this container alone, behind a line that is no event."""
    events = [{"Action": "kill", "Actor": {"ID": ref}}, {"Action": "oom", "Actor": {"ID": "c1"}}]
    docker.first_events = b"{rubbish\n\n" + b"".join(json.dumps(event).encode() + b"\n" for event in events)
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: "Note" in taken.names())
        docker.end(137)
        await follower.drained()
    assert [e.signalled for e in taken.events if isinstance(e, Exited)] == [known]
    assert not any(isinstance(e, Lost) for e in taken.events)


async def test_what_is_removed_while_its_log_is_read_was_read_to_its_end(docker: Docker) -> None:
    """Its end is known by then."""

    class Removes(Docker):
        async def logs(self, query: dict[str, list[str]], writer: asyncio.StreamWriter) -> None:
            await super().logs(query, writer)
            self.gone = True

    await docker.stop()
    docker = Removes(docker.path)
    await docker.start()
    docker.say(b"one\n")
    docker.end(3)
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await follower.drained()
    await docker.stop()
    assert (bytes(taken.log), taken.names()) == (b"one\n", ["Exited", "Drained"])


async def test_what_is_removed_while_the_engine_is_asked_keeps_its_exit(docker: Docker) -> None:
    """The exit is told before the removal, however long the engine takes to say whether it sent a signal."""
    docker.slow_past = asyncio.Event()
    docker.end(139)
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        (reader,) = follower._readers
        await docker.past_asked.wait()
        removed = asyncio.create_task(reader._gone())
        await asyncio.sleep(0)
        docker.slow_past.set()
        await removed
        await taken.until(lambda: len(taken.names()) > 1)
    assert [name for name in taken.names() if name in ("Exited", "Removed")] == ["Exited", "Removed"]


@pytest.mark.parametrize("events", [True, False])
async def test_a_log_that_never_ends_ends_with_its_container(
    docker: Docker, monkeypatch: pytest.MonkeyPatch, events: bool
) -> None:
    """Whether its death is told or has to be asked for; what could not be read is said."""
    for name in ("IDLE", "AFTER_EXIT", "NO_END"):
        monkeypatch.setattr(follow_container, name, 2.0)
    docker.endless = True
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        docker.say(b"one\n")
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        if events:
            output = {"Action": "die", "Actor": {"ID": "c1", "Attributes": {"exitCode": "4"}}, "timeNano": START}
            docker.first_events = json.dumps(output).encode() + b"\n"
        docker.say(b"two\n")
        docker.end(4)
        await follower.drained()
    assert bytes(taken.log) == b"one\ntwo\n"
    assert next(e.code for e in taken.events if isinstance(e, Exited)) == 4
    assert "the engine does not end its log" in str(taken.events)


async def test_an_engine_that_hangs_over_one_container_is_there(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers all else, and so do the host's other containers: that is said once, and the host is not lost and back
    again with each question.
    """
    monkeypatch.setattr(follow_container, "ANSWER", 2.0)
    monkeypatch.setattr(engine_watch, "_ASK_EVERY", 0.5)
    taken, docker.slow_look = Taken(), asyncio.Event()
    docker.say(b"one\n")
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: "Note" in taken.names())
        docker.slow_look.set()
        docker.end(0)
        async with asyncio.timeout(30):
            await follower.drained()
    assert bytes(taken.log) == b"one\n"
    assert taken.names() == ["Note", "Exited", "Drained"]
    (said,) = (event.text for event in taken.events if isinstance(event, Note))
    since = re.escape(
        "the engine answers, but not what it was asked of this container at TIME (no answer within 2 s): "
    )
    assert re.match(since.replace("TIME", r"\d\d:\d\d:\d\d"), said)


async def test_an_engine_on_a_host_that_says_nothing_is_not_called_down(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a cable was pulled, which the connection notices later: "its engine does not answer" is not why."""
    monkeypatch.setattr(engine_watch, "_ASK_EVERY", 0.5)
    monkeypatch.setattr(engine_watch, "_SILENT", 999)
    taken = Taken()
    docker.say(b"one\n")
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        helper_there = CHILDREN[-1]
        helper_there.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2.5)
        helper_there.send_signal(signal.SIGCONT)
        docker.end(0)
        async with asyncio.timeout(30):
            await follower.drained()
    assert taken.names() == ["Exited", "Drained"]


@pytest.mark.parametrize("asked", ["json", "logs"])
async def test_what_an_engine_says_is_one_line_of_ours(docker: Docker, asked: str) -> None:
    """It may say much, with newlines: what stands behind one would be read as our own."""
    taken, docker.refuses[asked] = Taken(), "it can't\nSUCCEEDED  r1" + " and more" * 1000
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: "Lost" in taken.names() or "Note" in taken.names())
        docker.refuses.clear()
        docker.end(0)
        async with asyncio.timeout(30):
            await follower.drained()
    said = next(e.text if isinstance(e, Note) else e.reason for e in taken.events if isinstance(e, Note | Lost))
    assert "r1 and more" in said
    assert "\n" not in said and len(said) < 500


async def test_much_at_once_while_a_quiet_container_is_looked_at(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's answer comes behind more of the log than is held: both are read, and the engine is not down."""
    monkeypatch.setattr(follow_container, "IDLE", 0.1)
    taken, text = Taken(), b"x" * 16_000 + b"\n"
    async with following(access(docker), taken) as (follower, _):
        docker.say(b"one\n")
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        docker.slow_look, asked = asyncio.Event(), len(docker.asked)
        while not any(path.endswith("/json") for path in docker.asked[asked:]):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        docker.file += [(1, START + n, text) for n in range(2, 3 * HELD // len(text))]
        docker.tell()
        await asyncio.sleep(0.5)
        docker.slow_look.set()
        docker.end(0)
        async with asyncio.timeout(120):
            await follower.drained()
    assert taken.log.count(text) == 3 * HELD // len(text) - 2
    assert taken.names() == ["Exited", "Drained"]


async def test_an_event_without_end_is_refused_and_costs_nothing_else(docker: Docker) -> None:
    """Memory stays bounded; logs and ends are read as without events."""
    docker.events = b"x" * 65536
    docker.say(b"one\n")
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: any(isinstance(e, Lost) and "a line of over" in e.reason for e in taken.events))
        docker.events = b""
        docker.end(0)
        await follower.drained()
    assert bytes(taken.log) == b"one\n"
    assert [e.code for e in taken.events if isinstance(e, Exited)] == [0]


async def test_an_event_that_makes_no_sense_costs_nothing(docker: Docker) -> None:
    """Its numbers are none; what ended, and when, inspect says."""
    attributes = {"exitCode": "\u00b2"}
    died = {"Action": "die", "timeNano": 10**400, "Actor": {"ID": "c1", "Attributes": attributes}}
    next_one = {"Action": "oom", "Actor": {"ID": "c1"}}
    docker.first_events = b"".join(json.dumps(event).encode() + b"\n" for event in (died, next_one))
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: "Note" in taken.names())
        docker.end(3)
        await follower.drained()
    assert [e.code for e in taken.events if isinstance(e, Exited)] == [3]


@pytest.mark.parametrize("python", [True, False])
async def test_an_answer_without_an_end_of_its_head_is_refused(
    docker: Docker, monkeypatch: pytest.MonkeyPatch, python: bool
) -> None:
    """By the helper on the host, and over a forwarded socket; once it answers all is well."""
    if not python:
        monkeypatch.setattr(helper, "start", lambda word: ("sh", "-c", "exit 127"))
    docker.head = b"HTTP/1.0 200 OK\r\n" + b"x" * 65536
    docker.say(b"one\n")
    docker.end(0)
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: "Lost" in taken.names())
        docker.head = b""
        await follower.drained()
    assert bytes(taken.log) == b"one\n"
    reason = next(e.reason for e in taken.events if isinstance(e, Lost))
    assert ("no end of its head" if python else "no answer among them") in reason


async def test_a_container_that_disappears_is_removed(docker: Docker) -> None:
    """404 is neither success nor failure."""
    docker.gone = True
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await follower.drained()
    assert taken.story() == [Removed(0)]


async def test_a_container_that_is_removed_when_its_log_had_ended_was_read(docker: Docker) -> None:
    """As whoever else follows the run removes it: no line is missing."""
    docker.say(b"one\n")
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        docker.gone = True
        docker.end(0)
        await follower.drained()
    assert Removed(0, read=True) in taken.story()


def last_reads(docker: Docker) -> list[str]:
    """The requests for a log that has ended."""
    return [asked for asked in docker.asked if "/logs" in asked and "follow=0" in asked]


@pytest.mark.parametrize("withheld", [0, 1, 3])
async def test_the_end_of_a_followed_log_is_read_by_its_last_records(docker: Docker, withheld: int) -> None:
    """By `since` the engine would read all of it once more, though one record is missing at most."""
    docker.withheld = withheld
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        for n in range(20):
            docker.say(b"%d\n" % (n % 2), 1 + n % 2, at=n)
        await taken.until(lambda: len(taken.log) == 2 * (20 - withheld))
        docker.end(0)
        await follower.drained()
    assert bytes(taken.log) == b"0\n1\n" * 10
    assert [f"tail={LAST_RECORDS}" in asked and "since" not in asked for asked in last_reads(docker)] == [True]


async def test_more_than_the_last_records_may_be_missing(docker: Docker) -> None:
    """Then it is read from where it is known on, as after a cut."""
    docker.withheld = LAST_RECORDS + 5
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        docker.file += [(1, START + n, b"%d\n" % n) for n in range(LAST_RECORDS + 15)]
        docker.tell()
        await taken.until(lambda: taken.log.count(b"\n") == 10)
        docker.end(0)
        await follower.drained()
    assert bytes(taken.log) == b"".join(b"%d\n" % n for n in range(LAST_RECORDS + 15))
    assert [f"tail={LAST_RECORDS}" in asked for asked in last_reads(docker)] == [True, False]
    assert taken.names() == ["Exited", "Drained"]


async def test_a_log_that_ends_within_a_line_is_read_from_where_it_is_known_on(docker: Docker) -> None:
    """The pieces of a line may all be alike: the last one had does not tell which one it is."""
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        docker.say(b"piece", at=1)
        await taken.until(lambda: taken.log == b"piece")
        docker.end(0)
        await follower.drained()
    assert bytes(taken.log) == b"piece"
    assert not [asked for asked in last_reads(docker) if "tail" in asked]


async def test_what_an_earlier_distui_read_to_its_end_only_ends(docker: Docker) -> None:
    """A kept container that is taken up again: its exit is told, its log is not asked for."""
    docker.say(b"one\n")
    docker.end(3)
    taken = Taken()
    async with following(access(docker), taken, resume=ResumePoint(written=4, done=True)) as (follower, _):
        await follower.drained()
    assert taken.names() == ["Exited", "Drained"]
    assert [e.code for e in taken.events if isinstance(e, Exited)] == [3]
    assert taken.log == b""
    assert not [asked for asked in docker.asked if "/logs" in asked]


async def test_what_was_read_to_its_end_and_is_gone_is_removed(docker: Docker) -> None:
    """Somebody removed the kept container: nothing is waited for."""
    docker.gone = True
    taken = Taken()
    async with following(access(docker), taken, resume=ResumePoint(done=True)) as (follower, _):
        await follower.drained()
    assert taken.names() == ["Removed"]


@pytest.mark.parametrize("ended", [True, False])
async def test_a_clock_that_was_set_back_while_nobody_followed_hides_no_line(docker: Docker, ended: bool) -> None:
    """What was said since then has stamps before the last ones had, and `since` those the engine would not give it."""
    now = time.time_ns()
    first, second = (stamp_at(now + hours * 3_600_000_000_000) for hours in (1, 2))
    had = [Mark(b"", 2), Mark(first, 2), Mark(second, 1)]
    resume = ResumePoint(8, 0, *had, last=(Seen.of(second, b"two\n"), None))
    docker.file = [(1, stamp_ns(first), b"one\n"), (1, stamp_ns(second), b"two\n"), (1, now, b"three\n")]
    if ended:
        docker.end(0)
    taken = Taken()
    async with following(access(docker), taken, resume=resume) as (follower, _):
        await taken.until(lambda: bytes(taken.log) == b"three\n")
        docker.end(0)
        await follower.drained()
    assert bytes(taken.log) == b"three\n"
    assert "clock was set back" in next(e.text for e in taken.events if isinstance(e, Note))


async def test_a_killed_helper_is_started_again_on_the_same_connection(docker: Docker) -> None:
    """The connection was not lost, and no byte."""
    taken = Taken()
    async with following(access(docker), taken) as (follower, connector):
        docker.say(b"one\n")
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        session = connector.session
        session.channels[0].process.kill()
        docker.say(b"two\n", at=1)
        await taken.until(lambda: bytes(taken.log) == b"one\ntwo\n")
        docker.end(0)
        await follower.drained()
        assert connector.session is session
    assert taken.names() == ["Note", "Exited", "Drained"]


async def test_a_host_that_lets_nobody_follow_it_is_out_of_reach(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that refuses channels for seconds, though it is connected: a stop would wait for its ranks without an end."""
    monkeypatch.setattr(follower_module, "_TRY_AGAIN", 0.01)
    opened, refusals = Session.open, 0

    async def refused(self: Session, argv: Sequence[str]) -> Channel:
        nonlocal refusals
        refusals += 1
        if refusals <= 7:
            raise HostCommandError("here", "here opens no session for commands")
        return await opened(self, argv)

    monkeypatch.setattr(Session, "open", refused)
    taken = Taken()
    async with following(access(docker), taken) as (follower, _):
        docker.say(b"one\n")
        docker.end(0)
        await follower.drained()
    assert taken.names() == ["Note", "Lost", "Back", "Exited", "Drained"]
    assert taken.story()[1] == Lost("host", "here opens no session for commands")
    assert bytes(taken.log) == b"one\n"


async def test_without_python3_the_socket_is_forwarded(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fall-back is said, with its reason."""
    monkeypatch.setattr(helper, "start", lambda word: ("sh", "-c", "echo no python3; exit 127"))
    taken = Taken()
    async with following(access(docker), taken) as (follower, connector):
        docker.say(b"one\n")
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        connector.session.cut()
        docker.say(b"two\n", at=1)
        docker.end(5)
        await follower.drained()
        assert follower.feed is not None
        assert follower.feed.kind == "socket"
    assert bytes(taken.log) == b"one\ntwo\n"
    assert "no python3" in next(e.text for e in taken.events if isinstance(e, Note))


@pytest.mark.parametrize("python", [True, False])
async def test_a_boot_is_reported_before_the_end_it_made(
    docker: Docker, monkeypatch: pytest.MonkeyPatch, python: bool
) -> None:
    """However slowly the helper's first words come, and without a helper."""
    read = Channel.read

    async def slowly(channel: Channel, limit: int = 65536) -> bytes:
        await asyncio.sleep(0.01)
        return await read(channel, 40)

    monkeypatch.setattr(Channel, "read", slowly)
    if not python:
        monkeypatch.setattr(helper, "start", lambda word: ("sh", "-c", "exit 127"))
    taken = Taken()
    docker.end(255)
    async with following(access(docker), taken, boot_id="an-earlier-boot") as (follower, _):
        await follower.drained()
    notes = [e for e in taken.story() if not isinstance(e, Note)]
    assert notes[0] == Back("host", rebooted=True)
    assert [type(e) for e in notes] == [Back, Exited, Drained]


async def test_a_slow_reader_slows_the_feed_and_loses_nothing(docker: Docker) -> None:
    """Back-pressure, not memory and not loss."""

    class Slow(Taken):
        async def __call__(self, event: FollowEvent) -> None:
            await asyncio.sleep(0)
            await super().__call__(event)

    taken = Slow()
    for n in range(2000):
        docker.say(b"%d" % n + b"x" * 8000 + b"\n")
    docker.end(0)
    async with following(access(docker), taken) as (follower, _):
        await follower.drained()
    assert bytes(taken.log) == b"".join(data for _, _, data in docker.file)


@pytest.mark.parametrize(
    ("message", "removed"),
    [
        ("Error: No such container c1", True),
        ("Error: no container with name or ID c1 found", True),
        ("Error: database is locked", False),
        ("Error: creating runtime static files directory: mkdir /run/user/1000: no such file or directory", False),
    ],
)
async def test_podman_says_that_a_container_is_gone(tmp_path: Path, message: str, removed: bool) -> None:
    """Any other error of its client says nothing about the container."""
    client = tmp_path / "podman"
    client.write_text(f"#!/bin/sh\necho '{message}' >&2\nexit 125\n")
    client.chmod(0o755)
    taken = Taken()
    async with following(EngineAccess("podman", (str(client),)), taken):
        await taken.until(lambda: bool(taken.names()))
    assert taken.names()[0] == ("Removed" if removed else "Note")
    assert removed or message in str(taken.story()[0])


def dead_pid() -> int:
    """Of a process that has ended."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    return gone.pid


@pytest.mark.parametrize("conmon", [True, False])
async def test_a_podman_container_whose_conmon_was_killed_with_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conmon: bool
) -> None:
    """podman calls it running for ever: nobody saw it end. One whose conmon lives is about to be told."""
    monkeypatch.setattr(follow_file, "_VANISHED", 0.3)
    gone = dead_pid()
    pids = {"Pid": gone, "ConmonPid": os.getpid() if conmon else gone}
    state = {"Status": "running", "Running": True, "ExitCode": 0, **pids}
    (tmp_path / "log").touch()
    log = {"Type": "k8s-file", "Path": str(tmp_path / "log")}
    (tmp_path / "state").write_text(json.dumps([{"State": state, "HostConfig": {"LogConfig": log}}]))
    client = tmp_path / "podman"
    client.write_text(f'#!/bin/sh\n[ "$1" = wait ] || cat {tmp_path}/state\n')
    client.chmod(0o755)
    taken = Taken()
    async with following(EngineAccess("podman", (str(client),)), taken):
        if conmon:
            await asyncio.sleep(1.5)
        else:
            await taken.until(lambda: "Exited" in taken.names())
    ends = [(event.state, event.code) for event in taken.story() if isinstance(event, Exited)]
    assert ends == ([] if conmon else [("lost", None)])


@pytest.mark.parametrize("engine", ["docker", "process"])
async def test_a_log_without_room_here_is_let_go_of_and_read_on(docker: Docker, tmp_path: Path, engine: str) -> None:
    """The end of the task is told meanwhile; with room again the log goes on where it was, and nothing comes twice."""

    class Full(Taken):
        async def __call__(self, event: FollowEvent) -> None:
            if isinstance(event, Records) and not self.log:
                room.clear()
            await super().__call__(event)

    room, taken, lines = asyncio.Event(), Full(), [b"%d" % n + b"x" * 8000 + b"\n" for n in range(1000)]
    room.set()
    for line in lines:
        docker.say(line)
    folder = task_folder(tmp_path, b"".join(lines), os.getpid())
    access_to, ref = (access(docker), "c1") if engine == "docker" else (PROCESS, str(folder))
    async with following(access_to, taken, ref, room=room) as (follower, _):
        await taken.until(lambda: bool(taken.log))
        had = bytes(taken.log)
        docker.end(3)
        (folder / "new").write_text("3 1")
        (folder / "new").rename(folder / "exit")
        await taken.until(lambda: any(isinstance(e, Exited) for e in taken.events))
        assert taken.names() == ["Exited"]
        assert bytes(taken.log) == had != b"".join(lines)
        room.set()
        await follower.drained()
    assert bytes(taken.log) == b"".join(lines)
    assert taken.names() == ["Exited", "Drained"]


@pytest.mark.parametrize("engine", ["docker", "process"])
async def test_a_log_that_nobody_takes_holds_up_no_other_task_s_end(
    docker: Docker, tmp_path: Path, engine: str
) -> None:
    """`distui run | less`: what is printed waits on its host, its own end and that of others come; then it goes on."""
    behind, taken = asyncio.Event(), Taken()
    lines = [b"%d" % n + b"x" * 80_000 + b"\n" for n in range(300)]
    for line in lines:
        docker.say(line)
    access_to = access(docker) if engine == "docker" else PROCESS
    folders = [task_folder(tmp_path / name, b"".join(lines), os.getpid()) for name in ("a", "b")]
    refs = ["c1", "c2"] if engine == "docker" else [str(folder) for folder in folders]

    async def room() -> None:
        if taken.log:
            await behind.wait()

    link = HostLink(Connector(), "here", jitter=lambda: 0.0)
    targets = [FollowTarget(n, ref) for n, ref in enumerate(refs[: 1 if engine == "docker" else 2])]
    follower = HostFollower(link, access_to, taken, run_id="r", targets=targets, room=room)
    running = asyncio.ensure_future(follower.run())
    try:
        async with asyncio.timeout(60):
            await taken.until(lambda: bool(taken.log))
            await asyncio.sleep(1.0)  # what is on its way has come by now
            docker.end(3)
            for folder in folders:
                (folder / "new").write_text("3 1")
                (folder / "new").rename(folder / "exit")
            await taken.until(lambda: taken.names().count("Exited") == len(targets))
            assert "Drained" not in taken.names()
            behind.set()
            await follower.drained()
    finally:
        await follower.close()
        await asyncio.gather(running, return_exceptions=True)
        await link.close()
    assert len(taken.log) == len(targets) * sum(map(len, lines))
    assert {"Exited", "Drained"} == set(taken.names())


async def test_a_connection_that_breaks_while_nobody_takes_what_comes_is_made_again(docker: Docker) -> None:
    """`distui run | less` over a laptop's sleep: figures waited for the reader, and its host was not followed again."""
    behind, waiting, taken = asyncio.Event(), asyncio.Event(), Taken()

    async def room() -> None:
        if taken.log:
            waiting.set()
            await behind.wait()

    docker.say(b"one\n")
    connector = Connector()
    link = HostLink(connector, "here", jitter=lambda: 0.0)
    follower = HostFollower(link, access(docker), taken, run_id="r", targets=[FollowTarget(0, "c1")], room=room)
    running = asyncio.ensure_future(follower.run())
    try:
        async with asyncio.timeout(20):
            await taken.until(lambda: bool(taken.log))
            await waiting.wait()  # figures come every second
            connector.session.cut()
            docker.end(3)
            await taken.until(lambda: "Exited" in taken.names())
            behind.set()
            await follower.drained()
    finally:
        behind.set()
        await follower.close()
        await asyncio.gather(running, return_exceptions=True)
        await link.close()
    assert bytes(taken.log) == b"one\n"


async def test_a_task_whose_host_was_out_of_reach_is_looked_for_by_what_it_is(docker: Docker) -> None:
    """Not by its name: the host is asked until it says, and followed is what it says."""
    answers: list[str | Exception] = [HostCommandError("here", "no engine", code="engine_down"), "c1"]

    async def find() -> str | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    taken = Taken()
    docker.say(b"one")
    docker.end(0)
    async with following(access(docker), taken, "", find=find) as (follower, _):
        await follower.drained()
    assert (bytes(taken.log), taken.names()[-2:]) == (b"one", ["Exited", "Drained"])


async def test_a_task_that_its_host_does_not_have_is_gone(docker: Docker) -> None:
    """Whatever runs there under its name by now."""

    async def find() -> str | None:
        return None

    taken = Taken()
    docker.say(b"of another run")
    async with following(access(docker), taken, "", find=find) as (follower, _):
        await follower.drained()
    assert (bytes(taken.log), taken.names()) == (b"", ["Removed"])


async def test_an_error_of_the_taker_ends_the_follower(docker: Docker) -> None:
    """A full disk here must not look like silence there."""

    async def full(event: FollowEvent) -> None:
        raise OSError(28, "No space left on device")

    docker.say(b"one\n")
    connector = Connector()
    follower = HostFollower(
        HostLink(connector, "here"), access(docker), full, run_id="r", targets=[FollowTarget(0, "c")]
    )
    with pytest.raises(OSError, match="No space"):
        await follower.run()
    with pytest.raises(OSError, match="No space"):
        await follower.drained()
    await connector.session.close()


PROCESS = EngineAccess("process", ())


BOOT = Path("/proc/sys/kernel/random/boot_id")


def task_folder(tmp_path: Path, log: bytes, pid: int, *, started: str = "") -> Path:
    folder = tmp_path / "task-0"
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(log)
    (folder / "pid").write_text(f"{pid}\n")
    stat = Path(f"/proc/{pid}/stat")
    start = stat.read_text().rpartition(")")[2].split()[19] if stat.exists() else "1"
    (folder / "ident").write_text(f"{started or start} {BOOT.read_text()}")
    return folder


@pytest.mark.parametrize("python", [True, False])
async def test_a_process_s_log_is_read_to_its_end_after_the_exit_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: bool
) -> None:
    """With the helper and with `tail` alone: any bytes, and a last line without newline."""
    if not python:
        monkeypatch.setattr(helper, "start", lambda word: ("sh", "-c", "exit 127"))
    taken, folder = Taken(), task_folder(tmp_path, b"\x00one\r\xff\n", os.getpid())
    async with following(PROCESS, taken, str(folder)) as (follower, connector):
        await taken.until(lambda: bytes(taken.log) == b"\x00one\r\xff\n")
        connector.session.cut()
        with (folder / "log").open("ab") as log:
            log.write(b"two")
        (folder / "new").write_text("9 1700000874473189101")
        (folder / "new").rename(folder / "exit")
        await follower.drained()
    assert bytes(taken.log) == b"\x00one\r\xff\ntwo"
    assert next(e.code for e in taken.events if isinstance(e, Exited)) == 9


async def test_what_was_measured_when_a_task_ended_is_reported_though_nobody_waits_for_it(tmp_path: Path) -> None:
    """What it sent in its last second is counted, too: the next figures would come when nobody listens any more."""
    taken, folder = Taken(), task_folder(tmp_path, b"one\n", os.getpid())
    async with following(PROCESS, taken, str(folder)) as (follower, _):
        await taken.until(lambda: any(isinstance(e, Sampled) for e in taken.events))
        first = next(e for e in taken.events if isinstance(e, Sampled)).sample.at
        while (ended := time.time()) < first + 2 * AGAIN:  # noqa: ASYNC110 - a clock tells nobody
            await asyncio.sleep(0.01)
        (folder / "exit").write_text("0 1700000874473189101")
        await follower.drained()
    assert max(e.sample.at for e in taken.events if isinstance(e, Sampled)) >= ended


@pytest.mark.parametrize("python", [True, False])
async def test_a_pid_that_is_somebody_elses_by_now_is_not_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: bool
) -> None:
    """The start time tells: the task is lost, though a process of that number lives."""
    if not python:
        monkeypatch.setattr(helper, "start", lambda word: ("sh", "-c", "exit 127"))
        monkeypatch.setattr(feed_channels, "_LOOK", 0.02)
    taken, folder = Taken(), task_folder(tmp_path, b"one\n", os.getpid(), started="1")
    async with following(PROCESS, taken, str(folder)) as (follower, _):
        await follower.drained()
    assert next(e.state for e in taken.events if isinstance(e, Exited)) == "lost"


async def test_a_tail_that_is_killed_is_no_log_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without python3 the log is read by a command of its own, which its host may end: another one reads on."""
    monkeypatch.setattr(helper, "start", lambda word: ("sh", "-c", "exit 127"))
    monkeypatch.setattr(feed_channels, "_LOOK", 0.02)
    taken, folder = Taken(), task_folder(tmp_path, b"one\n", os.getpid())
    async with following(PROCESS, taken, str(folder)) as (follower, connector):
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        os.killpg(connector.session.channels[-1].process.pid, signal.SIGKILL)
        with (folder / "log").open("ab") as log:
            log.write(b"two\n")
        await taken.until(lambda: bytes(taken.log) == b"one\ntwo\n")
        (folder / "exit").write_text("0 1")
        await follower.drained()
    assert not any(e.lines_missing for e in taken.events if isinstance(e, Note))


@contextmanager
def out_of_reach(home: Path) -> Iterator[None]:
    """A home folder in which nothing can be looked at, as one on a server that is away or whose ticket has run out."""
    home.rename(home.with_name("kept"))
    home.symlink_to(home)
    yield
    home.unlink()
    home.with_name("kept").rename(home)


async def test_a_process_whose_home_is_out_of_reach_for_a_while_is_not_lost(tmp_path: Path) -> None:
    """Its host can't tell how it is, nor read its log: both are asked for again, and nothing is missing."""
    home = tmp_path / "home"
    home.mkdir()
    taken, folder = Taken(), task_folder(home, b"one\n", os.getpid())
    async with following(PROCESS, taken, str(folder)) as (follower, _):
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        with out_of_reach(home):
            await taken.until(lambda: taken.names().count("Note") == 2)
            with (home.with_name("kept") / "task-0" / "log").open("ab") as log:
                log.write(b"two\n")
        await taken.until(lambda: bytes(taken.log) == b"one\ntwo\n")
        (folder / "exit").write_text("3 1")
        await follower.drained()
    assert [(e.state, e.code) for e in taken.events if isinstance(e, Exited)] == [("exited", 3)]
    assert not any(e.lines_missing for e in taken.events if isinstance(e, Note))


async def test_a_process_that_has_run_for_long_is_not_lost_by_moments_in_which_its_host_cannot_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is for how long in a row nobody can tell, not for how long it has been followed."""
    monkeypatch.setattr(follow_file, "_UNTOLD", 3.0)
    monkeypatch.setattr(follow_file, "_TOLD", 0.5)
    home = tmp_path / "home"
    home.mkdir()
    taken, folder = Taken(), task_folder(home, b"one\n", os.getpid())
    async with following(PROCESS, taken, str(folder)) as (follower, _):
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        for _ in range(2):
            await asyncio.sleep(3.2)
            with out_of_reach(home):
                await asyncio.sleep(0.3)
        (folder / "exit").write_text("3 1")
        await follower.drained()
    assert [(e.state, e.code) for e in taken.events if isinstance(e, Exited)] == [("exited", 3)]
    assert any("can't tell whether it has ended" in e.text for e in taken.events if isinstance(e, Note))


async def test_a_process_of_which_its_host_cannot_tell_for_long_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its run would wait for ever; what could not be read of its log is said to be missing."""
    monkeypatch.setattr(follow_file, "_UNTOLD", 0.2)
    home = tmp_path / "home"
    home.mkdir()
    taken, folder = Taken(), task_folder(home, b"one\n", os.getpid())
    async with following(PROCESS, taken, str(folder)) as (follower, _):
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        with out_of_reach(home):
            await follower.drained()
    (exited,) = [e for e in taken.events if isinstance(e, Exited)]
    assert exited.state == "lost" and "can't tell whether it has ended" in exited.error
    assert any(e.lines_missing and "after 4 bytes is missing" in e.text for e in taken.events if isinstance(e, Note))


@pytest.mark.parametrize("gone", [False, True])
async def test_a_process_read_to_its_end_before_only_ends(tmp_path: Path, gone: bool) -> None:
    """Taken up again its exit is told and its log stays unread; a folder that is gone is said to be removed."""
    taken, folder = Taken(), task_folder(tmp_path, b"one\n", 1 << 22)
    (folder / "exit").write_text("4 1")
    if gone:
        shutil.rmtree(folder)
    async with following(PROCESS, taken, str(folder), ResumePoint(4, 4, done=True)) as (follower, _):
        await follower.drained()
    assert taken.names() == (["Removed"] if gone else ["Exited", "Drained"])
    assert taken.log == b""


async def test_a_truncated_process_log_is_announced_and_read_on(tmp_path: Path) -> None:
    """Somebody's `>log` loses lines, but not silently."""
    taken, folder = Taken(), task_folder(tmp_path, b"a long first line\n", os.getpid())
    async with following(PROCESS, taken, str(folder)) as (follower, _):
        await taken.until(lambda: bool(taken.log))
        (folder / "log").write_bytes(b"new\n")
        await taken.until(lambda: taken.log.endswith(b"new\n"))
        (folder / "exit").write_text("0 1")
        await follower.drained()
    assert [e.text for e in taken.events if isinstance(e, Note)] == [
        "the log file was truncated on the host, lines may be missing"
    ]


@pytest.mark.parametrize("python", [True, False])
@pytest.mark.parametrize("what", ["removed", "fifo"])
async def test_a_process_log_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: bool, what: str
) -> None:
    """Somebody removed it, or put no file in its place: the end is told, and what is missing."""
    if not python:
        monkeypatch.setattr(helper, "start", lambda word: ("sh", "-c", "exit 127"))
        monkeypatch.setattr(feed_channels, "_LOOK", 0.02)
    monkeypatch.setattr(follow_file, "_NOTICED", 0.05)
    taken, folder = Taken(), task_folder(tmp_path, b"one\n", os.getpid())
    async with following(PROCESS, taken, str(folder)) as (follower, connector):
        await taken.until(lambda: bytes(taken.log) == b"one\n")
        (folder / "log").unlink()
        if what == "fifo" and python:
            os.mkfifo(folder / "log")
        connector.session.cut()
        (folder / "exit").write_text("7 1")
        await follower.drained()
    assert next(e.code for e in taken.events if isinstance(e, Exited)) == 7
    notes = [e.text for e in taken.events if isinstance(e, Note) and "log file" in e.text]
    assert notes and ("removed on the host" in notes[-1] or "no regular file" in notes[-1])


@asynccontextmanager
async def helper_feed(engine: EngineAccess) -> AsyncIterator[tuple[Feed, Session]]:
    session = Session()
    feed = await open_helper(session, engine, metrics=False)  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(60):
            yield feed, session
    finally:
        await feed.close()


async def test_many_commands_at_once_keep_their_answers_apart() -> None:
    """Ids, statuses and stderr; numbers of closed pipes are used again all the time."""
    async with helper_feed(PROCESS) as (feed, _):

        async def one(n: int) -> tuple[bytes, Any, Any]:
            stream = await feed.execute(("sh", "-c", f"echo err{n} >&2; echo out{n}; exit {n}"))
            body = await stream.rest()
            return body, stream.ended and stream.ended["status"], stream.ended and stream.ended["stderr"]

        answers = await asyncio.gather(*(one(n) for n in range(40)))
    assert answers == [(b"out%d\n" % n, n, f"err{n}") for n in range(40)]


async def test_what_can_t_be_started_or_opened_is_said() -> None:
    """An error under its own id; the helper lives on."""
    async with helper_feed(EngineAccess("docker", ("docker",), "/no/such.sock")) as (feed, _):
        stream = await feed.execute(("/no/such/program",))
        assert await stream.rest() == b""
        assert "No such file" in str(stream.ended)
        with pytest.raises(EngineDown, match="No such file"):
            await get_json(feed, "/version")
        assert await (await feed.execute(("echo", "alive"))).rest() == b"alive\n"


@pytest.mark.parametrize(
    "frames",
    [
        r"\0\0\0\2\0\0H\0[]",
        r"\0\0\0\3\0\0H\0{{{",
        r"\377\377\377\377\0\0D\0",
        r'\0\0\0\15\0\0H\0{"wall":1e18}',
        r'\0\0\0\14\0\0H\0{"wall":NaN}',
    ],
)
async def test_a_helper_that_talks_rubbish_is_no_helper(monkeypatch: pytest.MonkeyPatch, frames: str) -> None:
    """Wrong JSON, another shape, four gigabytes announced, no clock: the channel is given up, nothing else breaks."""
    monkeypatch.setattr(
        helper,
        "start",
        lambda word: ("sh", "-c", f"printf '\\0distui helper 1 {word}\\n{frames}'; exec cat >/dev/null"),
    )
    session = Session()
    try:
        feed = await open_helper(
            session,  # type: ignore[arg-type]
            PROCESS,
            on_sample=lambda output: None,
            on_hello=lambda output: output["wall"],
            on_clock=lambda *reading: pytest.fail(f"{reading} was believed"),
        )
    except NoHelper:
        return
    async with asyncio.timeout(60):
        error = await feed.lost
    await feed.close()
    assert "can't be read" in str(error)


async def test_the_host_s_clock_is_read_with_every_ping_and_when_asked() -> None:
    """When it was asked, what the clock there said, when that was heard: in this order on one machine."""
    reported: asyncio.Queue[tuple[float, float, float]] = asyncio.Queue()
    session = Session()
    feed = await open_helper(
        session,  # type: ignore[arg-type]
        PROCESS,
        metrics=False,
        on_clock=lambda *reading: reported.put_nowait(reading),
    )
    async with asyncio.timeout(60):
        first = await reported.get()
        await feed.ask_clock()
        second = await reported.get()
    await feed.close()
    assert list(first) == sorted(first) and list(second) == sorted(second)
    assert first[0] <= second[0]


async def test_the_host_s_clock_is_read_again_when_ours_was_set(tmp_path: Path) -> None:
    """By the follower, of whose ping nobody waits for the answer; before there is contact nothing is asked."""
    (tmp_path / "log").write_bytes(b"")
    reported: asyncio.Queue[tuple[float, float, float]] = asyncio.Queue()
    link = HostLink(Connector(), "here", jitter=lambda: 0.0)
    target = FollowTarget(0, str(tmp_path))
    follower = HostFollower(
        link, PROCESS, Taken(), run_id="r", targets=[target], on_clock=lambda *reading: reported.put_nowait(reading)
    )
    follower.ask_clock()
    running = asyncio.ensure_future(follower.run())
    async with asyncio.timeout(60):
        first = await reported.get()
    follower.ask_clock()
    async with asyncio.timeout(10):  # sooner than the next ping
        second = await reported.get()
    await follower.close()
    await asyncio.gather(running, return_exceptions=True)
    await link.close()
    assert first[0] <= second[0]


async def test_the_host_s_clock_is_read_again_when_a_task_ends(tmp_path: Path) -> None:
    """It may have been set since the last ping, and who was first goes by it."""
    (tmp_path / "log").write_bytes(b"")
    reported: list[tuple[float, float, float]] = []
    link = HostLink(Connector(), "here", jitter=lambda: 0.0)
    follower = HostFollower(
        link,
        PROCESS,
        taken := Taken(),
        run_id="r",
        targets=[FollowTarget(0, str(tmp_path))],
        on_clock=lambda *reading: reported.append(reading),
    )
    running = asyncio.ensure_future(follower.run())
    async with asyncio.timeout(60):
        (tmp_path / "exit").write_text("7 1")
        await follower.drained()
    await follower.close()
    await asyncio.gather(running, return_exceptions=True)
    await link.close()
    assert any(isinstance(event, Exited) for event in taken.events)
    assert len(reported) >= 2


async def test_the_helper_s_children_end_with_it() -> None:
    """Also when the helper is killed and can do nothing about it."""
    async with helper_feed(PROCESS) as (feed, session):
        stream = await feed.execute(("sh", "-c", "echo $$; exec sleep 1000"))
        child = int(await stream.read())
        session.channels[0].process.kill()
        await feed.lost
    async with asyncio.timeout(60):
        while alive(child):  # noqa: ASYNC110 - another process tells nobody that it ended
            await asyncio.sleep(0)


def alive(pid: int) -> bool:
    """Whether it runs; a zombie that nobody waits for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
