"""Follows all tasks of one host through one feed: logs exactly once, exits at once, figures once a second.

Survives lost connections, a killed helper and restarts of the engine; what is unknown meanwhile is said to be
unknown, never ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from distui.errors import HostAuthError, HostCommandError, HostError, HostKeyError, SessionLost
from distui.facts.values import number
from distui.runs.follow.channels import open_channels
from distui.runs.follow.containers import ContainerReader
from distui.runs.follow.engine_watch import EngineWatch
from distui.runs.follow.feed import EngineAccess, Feed, FeedLost, OnClock
from distui.runs.follow.files import PodmanReader, ProcessReader
from distui.runs.follow.followed import (
    Back,
    Emit,
    Exited,
    FollowEvent,
    FollowTarget,
    Lost,
    Note,
    Records,
    Removed,
    Room,
    Sampled,
    no_wait,
)  # fmt: skip
from distui.runs.follow.helper import open_helper
from distui.runs.follow.pause import Pause, rest
from distui.runs.hosts.link import ASK_BOOT, HostLink
from distui.runs.lines.frames import NoHelper
from distui.runs.state.samples import Sampler
from distui.session import Session
from distui.whole import moment

Reader = ContainerReader | ProcessReader | PodmanReader

_BEHIND = 3.0
"""Seconds after which a log is let go of that nobody takes: less than an engine is waited for."""
_TELL_AFTER = 1.0
"""Seconds without a connection before it is reported; a reconnection on a good network takes less."""
_SHORT_LIFE, _DEATHS = 10.0, 3
"""A helper that ends within so many seconds, more often than that in a row, is not started again."""

_HELPER_AFTER, _HELPER_EVERY = 300.0, 3600.0
"""Seconds after which a host that is followed without a helper may get one; each time twice as many, up to the second.
"""
_ASK_PYTHON = 20.0
"""Seconds within which its python3 starts then."""
_CAN_HELP = ("python3", "-I", "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 6))")

_REFUSED, _TRY_AGAIN = 5, 1.0
"""Refusals in a row, by a host that we are connected to, of the channels to follow it after which it counts as out of
reach; and the seconds between two of them.
"""

_CLOCK_STEP = 0.5
"""Seconds by which the wall clock must fall behind the boot clock to count as set back (FOLLOW §4)."""


class HostFollower:
    """`run` it as a task; tell it what to follow by `follow`; `close` ends it.

    `emit` takes the events one at a time; waiting in it slows the host's side down and loses nothing. An exception
    from `emit` ends `run` with it. `run_id` is the value of the containers' label `distui.run`,
    `boot_id` the host's boot, if known: with another one it was restarted; `engine_down` says that the engine
    was found not to answer. `on_clock` gets the host's time at once, whatever `emit` waits for.
    """

    def __init__(
        self,
        link: HostLink,
        engine: EngineAccess,
        emit: Emit,
        *,
        run_id: str,
        room: Room = no_wait,
        targets: Sequence[FollowTarget] = (),
        disks: Sequence[str] = (),
        metrics: bool = True,
        boot_id: str = "",
        engine_down: bool = False,
        on_clock: OnClock | None = None,
    ) -> None:
        self._link = link
        self._engine = engine
        self._take = emit
        self._room = room
        self._on_clock = on_clock
        self._disks = tuple(disks)
        self._metrics = metrics
        self._readers: list[Reader] = []
        self._feed: Feed | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._emitting = asyncio.Lock()
        self._behind: set[asyncio.Future[None]] = set()
        """Waits for room, of logs that were let go of."""
        self._finished = asyncio.Event()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._down: set[str] = {"engine"} if engine_down else set()
        self._boot: float | None = None
        self._boot_id = boot_id
        self._rebooted = False
        self._sampler = Sampler()
        self._sample: Mapping[str, Any] | None = None
        self._sampled = asyncio.Event()
        self._said: set[str] = set()
        self._refused: set[str] = set()
        """Why nobody gets in since contact was lost, as far as that was said."""
        self._deaths = 0
        self._without_for = _HELPER_AFTER
        """For how long it is followed without a helper before one is tried again."""
        self._refusals = 0
        self._engine_watch = EngineWatch(run_id, self._readers, partial(self._contact, "engine"), self._spawn)
        for target in targets:
            self.follow(target)

    @property
    def feed(self) -> Feed | None:
        """The feed in use now, None while there is no contact."""
        return self._feed

    def ask_clock(self) -> None:
        """Have the host's clock read now, where there is contact: ours was set since the last ping."""
        if self._feed is not None and not self._feed.lost.done():
            self._spawn(self._feed.ask_clock())

    def follow(self, target: FollowTarget) -> None:
        """Follow one more task, from now on or from the connection's return."""
        reader = self._reader(target)
        self._readers.append(reader)
        self._finished.clear()
        if self._feed is not None and not self._feed.lost.done():
            self._spawn(self._read(reader, self._feed))

    async def drained(self) -> None:
        """Wait until every task given so far is drained or removed, or `close`. Raises what made `run` fail."""
        while not self._stop.is_set() and not all(reader.done for reader in self._readers):
            if self._failure is not None:
                raise self._failure
            self._finished.clear()
            await self._finished.wait()

    async def run(self) -> None:
        """Follow until closed. Raises HostError when the link gives up, and what `emit` raises."""
        try:
            while not self._stop.is_set():
                await self._one_session()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._finished.set()
            for room in self._behind:
                room.cancel()
            await self._end_life()

    async def close(self) -> None:
        """End `run` and the host's side of it; what was emitted stays counted. Idempotent."""
        self._stop.set()
        self._finished.set()
        if self._feed is not None:
            await self._feed.close()

    # One connection.

    async def _one_session(self) -> None:
        session = await self._until_stopped(self._session())
        if session is None:
            return
        try:
            feed = await self._until_stopped(self._open(session))
        except HostCommandError as error:
            await self._say(f"the follower can't start: {error}")
            self._refusals += 1
            if self._refusals >= _REFUSED:  # whoever waits for what happens there would wait without an end
                await self._contact("host", error.message)
            await asyncio.sleep(_TRY_AGAIN)
            return
        except SessionLost as error:
            await self._lose(session, error)
            return
        if feed is not None:
            self._refusals = 0
            await self._contact("host", "")
            began = asyncio.get_running_loop().time()
            await self._live(feed, session)
            await self._after(session, feed, began)

    async def _session(self) -> Session:
        """The connection. While none can be made that is said, also when it broke before following began."""
        made = asyncio.ensure_future(self._link.session())
        try:
            while not made.done():
                await asyncio.wait((made,), timeout=_TELL_AFTER)
                if (error := self._link.error) is not None:
                    await self._unreached(error)
            return await made
        finally:
            made.cancel()

    async def _unreached(self, error: HostError) -> None:
        """Nobody gets in just now. A refusal is said also where the host was lost for another reason: waiting does
        not heal it, and another machine may answer in the host's place.
        """
        if "host" not in self._down:
            self._refused.add(error.message)
            await self._contact("host", error.message)
        elif isinstance(error, HostAuthError | HostKeyError) and error.message not in self._refused:
            self._refused.add(error.message)
            await self._emit(Note(error.message))

    async def _after(self, session: Session, feed: Feed, began: float) -> None:
        """The feed ended: with its connection, or only its helper."""
        if self._stop.is_set():
            return
        error = feed.lost.result()
        if isinstance(error, HostError):
            await self._lose(session, error)
            return
        if feed.kind != "helper":  # it made room for one
            return
        short = asyncio.get_running_loop().time() - began < _SHORT_LIFE
        self._deaths = self._deaths + 1 if short else 1
        await self._say(f"the helper on {self._link.host} ended and is started again: {error}")
        await asyncio.sleep(0.5 * self._deaths)

    async def _lose(self, session: Session, error: HostError) -> None:
        self._link.lost(session, error)
        await self._contact("host", error.message)

    async def _open(self, session: Session) -> Feed:
        try:
            if self._deaths > _DEATHS:
                raise NoHelper("the helper ended again and again")
            return await open_helper(
                session,
                self._engine,
                disks=self._disks,
                metrics=self._metrics,
                on_sample=self._keep_sample,
                on_hello=self._hello,
                on_clock=self._on_clock,
            )
        except NoHelper as error:
            feed = await open_channels(session, self._engine, str(error))
            self._booted((await session.run(ASK_BOOT)).text.strip())
            await self._say(f"{session.host} is followed without python3 and without figures: {feed.why}")
            return feed

    async def _helper_again(self, feed: Feed, session: Session) -> None:
        """Make room for a helper where one may run: its host was too busy for a greeting, say, or had no memory for
        it, and goes without figures since.
        """
        while True:
            wait, self._without_for = self._without_for, min(2 * self._without_for, _HELPER_EVERY)
            await rest(feed.lost, wait)
            with contextlib.suppress(HostError):
                if (await session.run(_CAN_HELP, timeout=_ASK_PYTHON)).ok:
                    self._deaths = 0
                    await feed.close()
                    return

    async def _live(self, feed: Feed, session: Session) -> None:
        """Everything that runs over this feed, until it breaks."""
        self._feed = feed
        if self._stop.is_set():  # `close` came in the moment in which it was opened, and had no feed to end
            await feed.close()
        if self._engine.kind == "docker":
            self._spawn(self._engine_watch.events(feed))
            self._spawn(self._engine_watch.ask(feed))
        self._spawn(self._samples(feed))
        if feed.kind != "helper":
            self._spawn(self._helper_again(feed, session))
        for reader in self._readers:
            self._spawn(self._read(reader, feed))
        try:
            await asyncio.wait((feed.lost,))
        finally:
            await self._end_life()
        if self._failure is not None:
            raise self._failure

    async def _end_life(self) -> None:
        """Break the feed and let every task end by itself: one cut off in `emit` would not know what was taken."""
        feed, self._feed = self._feed, None
        if feed is not None:
            await feed.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except FeedLost:
            return
        except Exception as error:
            self._failure = self._failure or error
            if self._feed is not None:
                asyncio.ensure_future(self._feed.close())  # noqa: RUF006 - `_end_life` waits for the same end

    async def _until_stopped(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result, or None when closed meanwhile."""
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for one in (task, stop):
                one.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    # Tasks.

    def _reader(self, target: FollowTarget) -> Reader:
        match self._engine.kind:
            case "docker":
                return ContainerReader(target, self._emit, self._engine_watch.answers)
            case "podman":
                return PodmanReader(target, self._emit, self._engine.command)
            case "process":
                return ProcessReader(target, self._emit)

    async def _read(self, reader: Reader, feed: Feed) -> None:
        if not reader.done and await self._known(reader, feed):
            await reader.read(feed)
        self._finished.set()

    async def _known(self, reader: Reader, feed: Feed) -> bool:
        """Whether there is such a task, once that could be asked where it was not known. Raises FeedLost."""
        pause, find = Pause(feed.lost), reader.target.find
        while not reader.ref and find is not None:
            asking = asyncio.ensure_future(find())
            try:
                await asyncio.wait((asking, feed.lost), return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    await pause.wait()
                reader.ref = asking.result() or ""
            except HostError as error:
                if not isinstance(error, SessionLost):
                    await self._contact("engine", error.message)
                await pause.wait()
                continue
            finally:
                asking.cancel()
            await self._contact("engine", "")
            if not reader.ref:
                reader.done = True
                await self._emit(Removed(reader.task))
                return False
        return True

    async def _contact(self, what: Any, reason: str) -> None:
        """Say once that contact is lost (`reason`), once that it is back (""); a boot also when nobody noticed it."""
        booted = what == "host" and self._rebooted and not reason
        if bool(reason) == (what in self._down) and not booted:
            return
        if reason:
            self._down.add(what)
            await self._emit(Lost(what, reason))
        else:
            self._down.discard(what)
            self._refused.clear()
            self._rebooted = self._rebooted and not booted
            await self._emit(Back(what, rebooted=booted))

    # Figures and clocks.

    def _keep_sample(self, sample: Mapping[str, Any]) -> None:
        self._sample = sample
        self._sampled.set()

    async def _samples(self, feed: Feed) -> None:
        """The newest figures, also those that came with the end; older ones that nobody had time for are dropped."""
        while True:
            waiting = asyncio.ensure_future(self._sampled.wait())
            await asyncio.wait((waiting, feed.lost), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if not self._sampled.is_set() or not await self._room_for_figures(feed):
                return
            self._sampled.clear()
            if self._sample is not None:
                with contextlib.suppress(ValueError):  # figures that can't be read are none
                    await self._emit(Sampled(self._sampler.take(self._sample)))

    async def _room_for_figures(self, feed: Feed) -> bool:
        """Wait for who takes them; False where the feed breaks before: nothing else of it is held up then."""
        room = asyncio.ensure_future(self._room())
        try:
            await asyncio.wait((room, feed.lost), return_when=asyncio.FIRST_COMPLETED)
            return room.done()
        finally:
            room.cancel()

    def _hello(self, hello: Mapping[str, Any]) -> None:
        """A helper's first words, and its answers to pings."""
        self._booted(str(hello.get("boot_id", "")))
        self._check_clock(hello)

    def _booted(self, boot_id: str) -> None:
        """The host's boot, "" where it can't be read. Another one is said once, when contact is there."""
        if self._boot_id and boot_id not in ("", self._boot_id):
            self._rebooted, self._boot = True, None
        self._boot_id = boot_id or self._boot_id

    def _check_clock(self, hello: Mapping[str, Any]) -> None:
        wall, since_boot = moment(hello["wall"]), number(hello["boot"])
        if wall is None or since_boot is None:
            raise ValueError("no clock goes like that")
        boot = wall - since_boot
        back = self._boot is not None and boot < self._boot - _CLOCK_STEP
        self._boot = boot
        cursors = [reader.cursor for reader in self._readers if isinstance(reader, ContainerReader)]
        doubted = [one for one in cursors if back or one.is_ahead(wall + _CLOCK_STEP)]  # or while nobody followed it
        for cursor in doubted:
            cursor.distrust_clock()
        if back or doubted:
            self._spawn(self._say("the host's clock was set back: logs are read from the start after a cut"))

    async def _emit(self, event: FollowEvent) -> None:
        if isinstance(event, Exited) and self._feed is not None:
            await self._feed.ask_clock()  # who was first goes by its time: was the clock set since the last ping?
        if isinstance(event, Records):  # before its turn: a task that has ended must not wait for what others print
            await self._make_room(event.task)
        async with self._emitting:
            await self._take(event)

    async def _make_room(self, task: int) -> None:
        """Wait for who takes what is printed; one who stays behind has the log let go of, and read on later: what came
        of it and is not read would hold up all that the host says of others.
        """
        (target,) = (reader.target for reader in self._readers if reader.task == task)
        if not target.taken.is_set():
            return
        room = asyncio.ensure_future(self._room())
        await asyncio.wait((room,), timeout=_BEHIND)
        if room.done():
            return
        target.taken.clear()
        self._behind.add(room)
        room.add_done_callback(lambda _: target.taken.set())
        room.add_done_callback(self._behind.discard)

    async def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            await self._emit(Note(text))
