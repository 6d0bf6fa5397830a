"""Copies an image from one engine to others without a registry: `docker save` there, `docker load` here, and the
bytes through this machine.

The source is read once for all targets. Each target has a buffer of its own, so that memory is bounded; one that
holds the others up for long is set aside and served alone afterwards. Only layers that a target lacks are sent where
its engine takes such an archive. An archive that ends within an entry is refused by every engine, so that nothing
half-loaded can stay: the last bytes of what there is wait for the next ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol

from distui.amounts import duration
from distui.errors import HostCommandError, HostError, SessionLost
from distui.facts.engine import classify
from distui.facts.image import TELL_SECONDS, ImageFacts, read_images, shared_layers
from distui.frozen import frozen
from distui.plan.command import docker
from distui.regex import regex
from distui.runs.images.archive import ImageReader, Piece, wanted
from distui.runs.images.find import find_image
from distui.runs.images.manifest import tagged
from distui.runs.images.tar import BadArchive
from distui.session import ByteChannel, Completed

CHUNK = 256 << 10
BUFFERED = 64
"""Chunks a target may lag behind: 16 MiB."""
PATIENCE = 20.0
"""Seconds in all that a target may keep others waiting before it is set aside."""
STALLED = 120.0
"""Seconds without a byte taken after which a target has failed."""
QUIET = 1800.0
"""Seconds a source may give nothing: Docker before 25 writes all of an image to its disk before the first byte."""
LOAD_TIMEOUT = 3600.0
"""Seconds an engine may unpack after the last byte."""
LOADED_SECONDS = 60.0
"""Seconds it may take then to say that it has the image: its disk may be busy."""

_LOADED = regex(r"Loaded image(?:\(s\))?: ([A-Za-z0-9][\x21-\x7e]*)")

State = Literal["present", "sending", "loading", "loaded", "aside", "failed"]


class EngineSession(Protocol):
    """What is needed of a session to the machine of an engine."""

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout: float | None = 60.0, limit: int = 8 << 20
    ) -> Completed:
        """See `distui.session.Session.run`."""

    async def open(self, argv: Sequence[str]) -> ByteChannel:
        """See `distui.session.Session.open`."""


@frozen
class Engine:
    """One machine's engine and the way to it."""

    name: str
    command: tuple[str, ...]
    session: EngineSession

    async def find(self, image: str, *, within: float = TELL_SECONDS) -> ImageFacts | None:
        """The image on that machine, None when it is not there. Raises HostError, also where it does not say `within`
        so many seconds.
        """
        return await find_image(partial(self.session.run, timeout=within), self.name, self.command, image)


@frozen
class Pushed:
    """How far an image is on one target, and in the end how it went there."""

    host: str
    state: State
    sent: int = 0
    """Bytes."""
    most: int = 0
    """How many bytes there can be to send; 0 when unknown."""
    layers: int = 0
    """Layers that are sent."""
    of_layers: int = 0
    words: str = ""
    """Why it failed, or what is worth knowing."""

    @property
    def ok(self) -> bool:
        """Whether the image is there."""
        return self.state in ("present", "loaded")


Tell = Callable[[Pushed], None]


async def push_image(
    image: str, source: Engine, facts: ImageFacts, targets: Sequence[Engine], tell: Tell
) -> tuple[Pushed, ...]:
    """Bring `image`, which is `facts` on `source`, to all targets, whatever they have under that name.

    `tell` hears every change. A target that fails does not hinder the others; its result says why. Raises HostError
    when the source fails.
    """
    lanes = await asyncio.gather(*(_lane(engine, image, facts, tell) for engine in targets))
    while waiting := [lane for lane in lanes if lane.pushed.state in ("sending", "aside")]:
        await _pass(image, source, facts, waiting)
    return tuple(lane.pushed for lane in lanes)


async def _lane(engine: Engine, image: str, facts: ImageFacts, tell: Tell) -> _Lane:
    lane = _Lane(engine, facts, tell)
    try:
        there = await engine.find(image)
        if there is not None and there.is_same(facts):
            lane.say("present")
        else:
            await lane.choose_layers()
            lane.say("sending")
    except HostError as error:
        lane.fail(error)
    return lane


async def _pass(image: str, source: Engine, facts: ImageFacts, lanes: Sequence[_Lane]) -> None:
    """Read the source once for these targets. Raises HostError when it fails; then no target has got anything."""
    for lane in lanes:
        lane.begin(image)
    try:
        await _read(image, source, facts, lanes)
        await asyncio.gather(*(lane.finish() for lane in lanes))
    finally:
        await asyncio.gather(*(lane.abort() for lane in lanes))


async def _read(image: str, source: Engine, facts: ImageFacts, lanes: Sequence[_Lane]) -> None:
    reader = ImageReader(image, facts, podman="podman" in source.command[-1])
    channel = await source.session.open(docker.save(source.command, tagged(image, facts)))
    try:
        while data := await _next(channel, source, image):
            for piece in reader.feed(data):
                await _offer(piece, [lane for lane in lanes if lane.open])
            if not any(lane.open for lane in lanes):
                return
        status = await channel.wait()
        if status != 0 or not reader.complete:
            said = channel.stderr_tail().decode("utf-8", "replace").strip()
            raise _source_failed(source, said, status)
    except BadArchive as exc:
        said = " ".join(str(exc).split())  # names in it are the source's, which may put newlines there
        raise HostCommandError(source.name, f"{source.name} does not give {image} out: what it sends {said}") from exc
    finally:
        await channel.close()


async def _next(channel: ByteChannel, source: Engine, image: str) -> bytes:
    try:
        async with asyncio.timeout(QUIET):
            return await channel.read(CHUNK)
    except TimeoutError as exc:
        message = f"{source.name} does not give {image} out: nothing came for {duration(QUIET)}"
        raise HostCommandError(source.name, message, code="command_timeout") from exc


def _source_failed(source: Engine, said: str, status: int) -> HostCommandError:
    trouble = classify(said, status)
    last = said.splitlines()[-1][-300:] if said else f"exit status {status}" if status else "it ends too early"
    message = trouble.message if trouble.code != "unknown" else last
    return HostCommandError(source.name, f"{source.name} does not give the image out: {message}", hint=trouble.hint)


async def _offer(piece: Piece, lanes: Sequence[_Lane]) -> None:
    for lane in lanes:
        if lane.wants(piece):
            await lane.offer(piece, lanes)


class _Lane:
    """One target: what it needs, its buffer, and the task that sends it."""

    def __init__(self, engine: Engine, facts: ImageFacts, tell: Tell) -> None:
        self.engine = engine
        self.facts = facts
        self.pushed = Pushed(engine.name, "sending", most=facts.size, of_layers=len(facts.layers))
        self.shared = 0
        self._wanted = frozenset(range(len(facts.layers)))
        self._tell = tell
        self._queue: asyncio.Queue[Piece | None] = asyncio.Queue(BUFFERED)
        self._task: asyncio.Task[None] | None = None
        self._timeout = PATIENCE
        self._said = ""
        """What the engine answered to the last load."""

    def say(self, state: State, message: str = "", *, sent: int | None = None) -> None:
        """Take over a new state and tell it."""
        count = self.pushed.sent if sent is None else sent
        self.pushed = replace(self.pushed, state=state, words=message or self.pushed.words, sent=count)
        self._tell(self.pushed)

    def fail(self, error: HostError | str) -> None:
        """It will not get the image."""
        self.say("failed", error if isinstance(error, str) else error.message)

    def _stalled(self) -> None:
        self.fail(f"{self.engine.name} took nothing for {STALLED:g} s")

    @property
    def open(self) -> bool:
        """Whether it takes more."""
        return self._task is not None and not self._task.done() and self.pushed.state == "sending"

    def wants(self, piece: Piece) -> bool:
        """Whether it lacks what this is part of."""
        return piece.layer is None or piece.layer in self._wanted

    async def choose_layers(self) -> None:
        """Find out which layers it lacks. Raises HostError."""
        found = await _images_of(self.engine) if await _takes_parts(self.engine) else ()
        self.shared, size = shared_layers(self.facts.layers, found)
        self._want(self.shared, size)

    def _want(self, shared: int, size: int) -> None:
        self.shared = shared
        self._wanted = wanted(self.facts.layers, shared)
        most = max(0, self.facts.size - size)
        self.pushed = replace(self.pushed, layers=len(self._wanted), most=most)

    def begin(self, image: str) -> None:
        """Start loading."""
        self._queue = asyncio.Queue(BUFFERED)
        self._timeout = PATIENCE
        self.say("sending", sent=0)
        self._task = asyncio.create_task(self._load(image))

    async def offer(self, piece: Piece, lanes: Sequence[_Lane]) -> None:
        """Put into the buffer, waiting while it is full, but not for ever while others have nothing to do."""
        if not self._queue.full():
            self._queue.put_nowait(piece)
            return
        loop = asyncio.get_running_loop()
        began = loop.time()
        alone = len(lanes) == 1
        putting = asyncio.ensure_future(self._queue.put(piece))
        assert self._task is not None
        try:
            while not putting.done() and not self._task.done():
                await asyncio.wait((putting, self._task), timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                starved = any(lane is not self and lane.open and lane._queue.empty() for lane in lanes)
                waited = loop.time() - began
                if not putting.done() and waited > STALLED:
                    self._stalled()
                    break
                if starved and not alone and waited >= self._timeout:
                    self.say("aside", f"slower than the others: sent again afterwards, after {self.pushed.sent} bytes")
                    break
                if putting.done() and starved:
                    self._timeout -= waited
        finally:
            putting.cancel()
        if not self.open:
            await self.abort()

    async def finish(self) -> None:
        """All bytes were offered: wait until the engine has taken them in."""
        if self._task is None or not self.open:
            return
        putting = asyncio.ensure_future(self._queue.put(None))
        loop = asyncio.get_running_loop()
        before, since = self.pushed, loop.time()
        try:
            while self.open:
                await asyncio.wait((self._task,), timeout=1.0)
                if self.pushed != before:
                    before, since = self.pushed, loop.time()
                elif loop.time() - since > STALLED:
                    self._stalled()
                    await self.abort()
            await asyncio.wait((self._task,))
        finally:
            putting.cancel()

    async def abort(self) -> None:
        """Stop loading; what the engine has got of an unfinished archive it throws away."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _load(self, image: str) -> None:
        try:
            channel = await self.engine.session.open(docker.load(self.engine.command))
            try:
                said = await self._send(channel)
            finally:
                await channel.close()
            if said is not None:
                self._refused(said)
                return
            if await self._has(image):
                self.say("loaded")
            else:
                self._refused("the engine loaded it, but does not have it under this name")
        except HostError as error:
            self.fail(error)

    async def _has(self, image: str) -> bool:
        """Whether the engine has what was sent under the image's name; gives it the name if it came under another.

        podman puts `localhost/` before short names. Its own images get another id in Docker's form: the layers count.
        """
        there = await self.engine.find(image, within=LOADED_SECONDS)
        if (there is None or there.layers != self.facts.layers) and (came := _LOADED.search(self._said)):
            await self.engine.session.run(docker.tag(self.engine.command, came[1], image))
            there = await self.engine.find(image, within=LOADED_SECONDS)
        return there is not None and (there.id == self.facts.id or there.layers == self.facts.layers)

    async def _send(self, channel: ByteChannel) -> str | None:
        """Everything to the engine; None when it was content, else what it said."""
        answer = bytearray()
        hearing = asyncio.create_task(_hear(channel, answer))
        try:
            sent, all_of_it = 0, False
            async for data in self._offered():
                try:
                    await channel.write(data)
                except SessionLost as error:
                    if error.code != "channel_ended":
                        raise
                    break
                sent += len(data)
                self.say("sending", sent=sent)
            else:
                self.say("loading")
                all_of_it = True
            async with asyncio.timeout(LOAD_TIMEOUT):
                if all_of_it:
                    await channel.write_eof()
                await hearing
                status = await channel.wait()
        except TimeoutError:
            return f"nothing came of it within {LOAD_TIMEOUT:g} s"
        finally:
            hearing.cancel()
            with suppress(asyncio.CancelledError, HostError):
                await hearing
        self._said = answer.decode("utf-8", "replace")
        said = (channel.stderr_tail() or bytes(answer[-2000:])).decode("utf-8", "replace").strip()
        return None if status == 0 else said or f"exit status {status}"

    async def _offered(self) -> AsyncIterator[bytes]:
        """All that is offered, as it comes, but for its last bytes, which come with more, or with the end.

        Whatever cuts it off, an archive never ends between two entries: without the lists, which are the last ones,
        Docker would take what it had got for one of its oldest form, and load it without a name.
        """
        held = b""
        while (piece := await self._queue.get()) is not None:
            at = len(piece.data) - piece.last
            yield held + piece.data[:at]
            held = piece.data[at:]
        yield held

    def _refused(self, said: str) -> None:
        """The engine did not take it: once more with all layers if some were left out."""
        trouble = classify(said, 1)
        if self.shared and trouble.code != "disk_full":
            self._want(0, 0)
            self.say("aside", "the engine did not take missing layers only; all of them are sent")
            return
        self.fail(trouble.message if trouble.code != "unknown" else said.splitlines()[-1][:300])


async def _hear(channel: ByteChannel, answer: bytearray) -> None:
    """Read what the engine says, so that it can go on."""
    while data := await channel.read():
        answer += data
        del answer[:-8192]


async def _takes_parts(engine: Engine) -> bool:
    """Whether the engine loads an archive without the layers that it has.

    Docker with its own layer store does; with containerd's store, and in podman, every layer must be there.
    """
    done = await engine.session.run((*engine.command, "info", "--format", "{{json .DriverStatus}}"))
    return done.ok and done.text.lstrip().startswith("[") and "io.containerd" not in done.text


async def _images_of(engine: Engine) -> tuple[ImageFacts, ...]:
    """Every image of that engine; nothing when it does not say."""
    done = await engine.session.run((*engine.command, "image", "ls", "--all", "--quiet", "--no-trunc"))
    ids = list(dict.fromkeys(done.text.split())) if done.ok else []
    if not ids:
        return ()
    answer = await engine.session.run((*engine.command, "image", "inspect", *ids), limit=64 << 20)
    try:
        return read_images(answer.text)
    except ValueError:
        return ()
