"""One docker container's log and end, exactly once across lost connections and restarts of dockerd (FOLLOW §4-5)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from urllib.parse import quote

from distui.amounts import clock
from distui.facts.values import as_object, loads
from distui.runs.follow.feed import EngineDown, Feed, Stream, get_json
from distui.runs.follow.followed import Drained, Emit, Exited, FollowTarget, Note, Records, Removed
from distui.runs.follow.inspect import ContainerState, container_state
from distui.runs.follow.pause import FIRST, SOON, Pause
from distui.runs.follow.resume import Cursor, ReplayMismatch
from distui.runs.follow.signals import BY_SIGNAL, SLACK, Sent, any_may_end, sent
from distui.runs.lines.batch import STDOUT, Batch
from distui.runs.lines.docker_frames import FrameParser

IDLE, AFTER_EXIT = 15.0, 5.0
"""Seconds without a byte of a log that is followed after which the engine is asked whether the container lives; the
second once it was reported to have ended, which ends the log as a rule."""
NO_END = 30.0
"""Seconds without a byte after which the log of a container that has ended counts as stuck."""
TRIES = 3
"""Reads of a log in a row that gave nothing of what they had to before that is taken for the truth."""
LAST_RECORDS = 100
"""Records read again once a log that was followed has ended: one at most is new as a rule."""

SIGNALS = 100
"""Kept of those that the engine reported."""
KILL_TOLD = 0.2
"""Seconds after which the engine tells of a signal at the latest: it sends it first."""
ASK_SIGNAL = 5.0
"""Seconds to wait for what it tells."""

SHORT_EVERY = 600.0
"""Seconds for which it is not said again that memory was lacking: several processes may be killed, one by one."""

SAID = 300
"""Characters of an engine's answer that are shown: it may have megabytes."""

ANSWER = 15.0
"""Seconds that the engine has to tell of a container."""

EngineAnswers = Callable[[str, float], Awaitable[bool]]
"""Called with a reason when the engine did not answer what it was asked at a moment of the loop's clock, with "" when
it does; tells whether it has answered others since.
"""


class ContainerReader:
    """Lives as long as its task; `read` is called again with each feed and returns when the task is done."""

    def __init__(self, target: FollowTarget, emit: Emit, engine: EngineAnswers) -> None:
        self.task = target.task
        self.ref = target.ref
        self.cursor = Cursor(target.resume)
        self.done = False
        self.signals: deque[Sent] = deque(maxlen=SIGNALS)
        """The last ones that the engine reported to have sent it."""
        self._stop_signal: int = signal.SIGTERM
        self.target = target
        self._emit = emit
        self._engine = engine
        self._exited = False
        self._reporting = asyncio.Lock()
        """What comes after an exit is emitted after it, too."""
        self._full = False
        self._to_end = False
        """Whether it was just followed to the end of the stream: hardly anything is left to be read."""
        self._said: set[str] = set()
        self._short_at = -SHORT_EVERY
        """When it was said last that the kernel killed something of it, by the loop's clock."""
        self._empty = 0
        """Reads in a row without anything of what was read before."""
        self._stuck = 0
        """Reads in a row of an ended container's log that did not end."""
        self._asked = 0.0
        """When the engine was asked last, by the loop's clock."""
        self._unanswered_said = False
        """Whether it was said that the engine tells nothing of this container, though it answers."""
        self._unseen = target.adopted
        """Whether it ran while nobody followed it, and was not seen running since."""

    async def read(self, feed: Feed) -> None:
        """Follow until everything was read. Raises FeedLost when the feed breaks; call again with the next one."""
        pause = Pause(feed.lost)
        while not self.done:
            before, again = self.cursor.point.written, self._to_end
            try:
                await self._round(feed)
            except EngineDown as error:
                if await self._engine(str(error), self._asked):
                    await self._say_unanswered(str(error))
            except ReplayMismatch as error:
                await self._mismatch(str(error))
                continue
            if self.cursor.point.written > before:
                # a log ends just before its container is said to have; one that ends again and again can wait
                pause.reset(SOON if self._to_end and not again else FIRST)
            if not self.done:
                await pause.wait()

    async def exit_seen(self, feed: Feed, code: int | None, at: float | None) -> None:
        """`/events` said that it died: ask for the OOM flag and report it now, the log may take longer."""
        try:
            state = await self._inspect(feed)
        except EngineDown:
            return
        if state is not None and state.ended:
            await self._report(state.exited(self.task), feed)
        elif state is None and code is not None:
            await self._report(Exited(self.task, code, "exited", finished_at=at), feed)

    async def _round(self, feed: Feed) -> None:
        """Look, read what there is (following while it runs), and if it had ended before the read: done."""
        state = await self._inspect(feed)
        await self._engine("", self._asked)
        if state is None:
            await self._gone()
            return
        if not state.begun:
            return
        if state.log_gaps:
            await self._say(state.log_gaps, lines_missing=True)
        if state.ended:
            await self._report(state.exited(self.task), feed)
        if state.ended and self.cursor.point.done:  # an earlier distui read it all; only its end was not known here
            await self._drained()
            return
        if state.ended and self._stuck >= TRIES:
            await self._say(f"the engine does not end its log: {self._missing}", lines_missing=True)
            await self._drained()
            return
        self._unseen = self._unseen and state.ended
        whole = await self._read_log(feed, state)
        self._to_end = whole and not state.ended and not self.cursor.skipping
        if whole and not state.ended:
            await self._look_for_log(feed)
        if whole and state.ended and await self._still_ended(feed):
            if self._unseen and not self.cursor.point.written:  # the engine gives nothing of a file that is gone, too
                await self._say(
                    "its log is empty: it printed nothing, or its log was removed there and is missing here"
                )
            await self._drained()

    async def _inspect(self, feed: Feed) -> ContainerState | None:
        """None when there is no such container."""
        self._asked = asyncio.get_running_loop().time()
        status, answer = await get_json(feed, f"/containers/{self.ref}/json", ANSWER)
        if status == 404:
            return None
        try:
            state = container_state(answer)
            self._stop_signal = state.stop_signal
            return state
        except ValueError as error:
            words = answer.get("message") if isinstance(answer, dict) else error
            raise EngineDown(f"inspect gave status {status}: {_short(words)}") from None

    async def _still_ended(self, feed: Feed) -> bool:
        """Asked after the last read: a daemon that died during it ends the stream just like the log's end does."""
        state = await self._inspect(feed)
        if state is None or not state.ended:
            return state is None
        if self.cursor.skipping:
            raise ReplayMismatch("the log is shorter than what was read of it before")
        return True

    async def _look_for_log(self, feed: Feed) -> None:
        """The engine ended the log of a container that may live. One that gives nothing of what was had, is gone."""
        self._empty = self._empty + 1 if self.cursor.skipping else 0
        if self._empty < TRIES:
            return
        state = await self._inspect(feed)
        if state is not None and state.running:
            self._empty = 0
            raise ReplayMismatch("the engine gives nothing of it any more")

    async def _read_log(self, feed: Feed, state: ContainerState) -> bool:
        """Read it to the end of the stream; False when it was let go of before."""
        if not self.target.has_room:
            return False
        follow = 0 if state.ended else 1
        path = f"/containers/{self.ref}/logs?stdout=1&stderr=1&follow={follow}"
        pump = self._pump_raw if state.tty else self._pump
        if state.ended and self._to_end and self.cursor.knows_last and not state.tty:
            path, pump = f"{path}&timestamps=1&tail={LAST_RECORDS}", self._pump_end
        elif not state.tty:
            since = self.cursor.begin(full=self._full)
            path += "&timestamps=1" + (f"&since={since}" if since else "")
        self._asked = asyncio.get_running_loop().time()
        stream = await feed.get(path, packed=not state.tty)
        try:
            async with asyncio.timeout(NO_END):
                status = await stream.status()
            if status == 200:
                return await pump(self._bytes(feed, stream, state))
            async with asyncio.timeout(NO_END):
                words = await stream.rest()
            await self._unreadable(state, words)
            return True
        except TimeoutError:
            self._stuck += state.ended
            raise EngineDown(f"nothing of a log came within {NO_END:.0f} s") from None
        finally:
            await stream.close()

    async def _bytes(self, feed: Feed, stream: Stream, state: ContainerState) -> AsyncIterator[bytes]:
        """What comes. The stream of a container that ended meanwhile is left: the log is read once more then.

        Raises TimeoutError when that of one which had ended before does not end.
        """
        while True:
            limit = NO_END if state.ended else AFTER_EXIT if self._exited else IDLE
            try:
                data = await stream.read(limit)
            except TimeoutError:
                if state.ended:
                    raise
                came, gone = await self._look_beside(feed, stream)
                if gone:
                    return
                if came is None:
                    continue
                data = came
            if not data:
                self._stuck = 0
                return
            yield data

    async def _look_beside(self, feed: Feed, stream: Stream) -> tuple[bytes | None, bool]:
        """What comes of a log while its container is looked at, None where nothing does; and whether that has ended.

        Where much comes at once the answer lies behind it, and would be waited for in vain while that is not read.
        """
        looking, reading = asyncio.ensure_future(self._inspect(feed)), asyncio.ensure_future(stream.read())
        try:
            await asyncio.wait((looking, reading), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result(), False
            now = looking.result()
            return None, now is None or now.ended
        finally:
            for one in (looking, reading):
                one.cancel()
            await asyncio.gather(looking, reading, return_exceptions=True)

    async def _pump(self, log: AsyncIterator[bytes]) -> bool:
        parser = FrameParser()
        async for data in log:
            for batch in self._taken(parser, data):
                await self._emit(Records(self.task, batch, self.cursor.point))
                if not self.target.has_room:
                    return False
            if parser.daemon_error:
                await self._say(f"{_why_unread(parser.daemon_error)}: {self._missing}", lines_missing=True)
        self._full = self._full and self.cursor.skipping  # a full read that did not give all says so itself
        return True

    def _taken(self, parser: FrameParser, data: bytes) -> Iterator[Batch]:
        """What is new of these bytes, each batch counted just before it is given."""
        try:
            for batch in parser.feed(data):
                if len(fresh := self.cursor.take(batch)):
                    yield fresh
        except ValueError as error:  # no frames, or no times in them
            raise EngineDown(str(error)) from None

    async def _pump_end(self, log: AsyncIterator[bytes]) -> bool:
        """The last records of a log that was just followed to its end: by `since` the engine would read all of it."""
        parser, batches = FrameParser(), []
        async for data in log:
            try:
                batches += parser.feed(data)
            except ValueError as error:
                raise EngineDown(str(error)) from None
        for batch in self.cursor.behind_last(batches):
            await self._emit(Records(self.task, batch, self.cursor.point))
        if parser.daemon_error:
            await self._say(f"{_why_unread(parser.daemon_error)}: {self._missing}", lines_missing=True)
        return True

    async def _pump_raw(self, log: AsyncIterator[bytes]) -> bool:
        """A container with a tty: one raw stream without stamps. Read from the start, drop what was had."""
        await self._say("this container has a tty: its log is read without stamps, stdout and stderr in one")
        had = self.cursor.point.written
        async for data in log:
            fresh, had = data[had:], max(0, had - len(data))
            if fresh:
                self.cursor.count_raw(fresh)
                await self._emit(Records(self.task, Batch((STDOUT,), (b"",), (fresh,)), self.cursor.point))
            if not self.target.has_room:
                return False
        return True

    async def _unreadable(self, state: ContainerState, body: bytes) -> None:
        words = _short(body.decode("utf-8", "replace"))
        text = f"the log can't be read (log driver {state.log_driver}): {words}; {self._missing}"
        await self._say(text, lines_missing=True)

    async def _mismatch(self, message: str) -> None:
        """First read all and count from the start; if that differs too, the log was cut, and what is newer is taken."""
        if self._to_end:  # more than the last records may be missing: read from the last mark, as after a cut
            self._to_end = False
            return
        if not self._full:
            self._full = True
            return
        self._full = False
        self.cursor.restart_after_top()
        text = f"its log was removed, cut, rotated or replaced on the host ({message}): {self._missing}"
        await self._emit(Note(text, self.task, lines_missing=True))

    async def _report(self, exited: Exited, feed: Feed) -> None:
        async with self._reporting:
            if self._exited:
                return
            signalled = self._ended_by(exited, self.signals)
            if not signalled and (exited.code != 0 or self.target.adopted):
                past = await self._signals_before(exited, feed)
                signalled = self._ended_by(exited, (*past, *self.signals))  # a live event may have come meanwhile
            self._exited = True
            await self._emit(replace(exited, signalled=signalled or (None if self._unseen else False)))

    def _ended_by(self, exited: Exited, signals: Iterable[Sent]) -> bool:
        return any_may_end(signals, exited.code, exited.finished_at, self.target.grace, self._stop_signal)

    async def _signals_before(self, exited: Exited, feed: Feed) -> tuple[Sent, ...]:
        """The signals that the engine remembers, perhaps from before anybody listened to its events."""
        if exited.finished_at is None:
            return ()
        filters = {"type": ["container"], "container": [self.ref], "event": ["kill"]}
        by_signal = exited.code is None or exited.code > BY_SIGNAL
        until = exited.finished_at + (KILL_TOLD if by_signal else 0.0)
        since = 0.0 if by_signal else max(0.0, exited.finished_at - self.target.grace - SLACK)
        asked = quote(json.dumps(filters, separators=(",", ":")))
        path = f"/events?since={since:.6f}&until={until:.6f}&filters={asked}"
        stream: Stream | None = None
        try:
            async with asyncio.timeout(ASK_SIGNAL):
                stream = await feed.get(path)
                return _signals_in(await stream.rest()) if await stream.status() == 200 else ()
        except (EngineDown, TimeoutError):
            return ()
        finally:
            if stream is not None:
                await stream.close()

    async def _drained(self) -> None:
        self.cursor.finish()
        self.done = True
        await self._emit(Drained(self.task, self.cursor.point))

    async def _gone(self) -> None:
        async with self._reporting:
            self.done = True
            await self._emit(Removed(self.task, read=self._to_end))

    @property
    def _missing(self) -> str:
        """Which lines are missing when no more can be read, in words."""
        since = self.cursor.point.top.stamp.decode()
        return f"what it printed after {since} may be missing here" if since else "what it printed may be missing here"

    async def short_of_memory(self) -> None:
        """The engine reported that the kernel killed a process of it for lack of memory."""
        now = asyncio.get_running_loop().time()
        if now - self._short_at >= SHORT_EVERY:
            self._short_at = now
            await self._emit(Note("the kernel killed a process of it for lack of memory", self.task))

    async def _say_unanswered(self, why: str) -> None:
        """Say once that the engine hangs over this container, and since when: the run waits for it meanwhile."""
        if not self._unanswered_said:
            self._unanswered_said = True
            asked = clock(time.time() - (asyncio.get_running_loop().time() - self._asked))
            await self._say(
                f"the engine answers, but not what it was asked of this container at {asked} ({why}): whether it runs "
                "is not known until it does, and is asked again and again"
            )

    async def _say(self, text: str, *, lines_missing: bool = False) -> None:
        if text not in self._said:
            self._said.add(text)
            await self._emit(Note(text, self.task, lines_missing))


def _signals_in(events: bytes) -> tuple[Sent, ...]:
    """The signals in an answer of the engine; lines that are no events are left out."""
    found = []
    for line in events.splitlines():
        with contextlib.suppress(ValueError):
            found.append(sent(as_object(loads(line))))
    return tuple(found)


def _why_unread(message: str) -> str:
    """What the engine's error in the middle of a log means; moby says of a file that is gone what the system says."""
    gone, message = "no such file" in message, _short(message)
    return (
        f"its log was removed on the host ({message})" if gone else f"the engine could not read the log on: {message}"
    )


def _short(words: object) -> str:
    """What an engine says, in one line that is not without measure: it begins no line of ours."""
    return " ".join(str(words)[:SAID].split())
