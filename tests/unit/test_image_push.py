"""Copying an image between engines: once from the source, to all at once, and each target for itself."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from distui.errors import HostCommandError, SessionLost
from distui.facts.image import TELL_SECONDS, ImageFacts
from distui.runs.images import push as image_push
from distui.runs.images.local_engine import LocalSession
from distui.runs.images.push import Engine, Pushed, push_image
from distui.session import ByteChannel, Completed

BASE, TOP = "sha256:" + "b" * 64, "sha256:" + "c" * 64
CONFIG = json.dumps({"rootfs": {"type": "layers", "diff_ids": [BASE, TOP]}}).encode()
DIGEST = hashlib.sha256(CONFIG).hexdigest()
FACTS = ImageFacts(f"sha256:{DIGEST}", (BASE, TOP), 3_000_000)
IMAGE = "my/image:1"
MANIFEST = [
    {"Config": f"blobs/sha256/{DIGEST}", "RepoTags": [IMAGE], "Layers": [f"blobs/sha256/{c * 64}" for c in "bc"]}
]


def archive(base: bytes = b"x" * 2_000_000, top: bytes = b"y" * 1_000_000) -> bytes:
    """What `docker save` of the image gives."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        manifest = json.dumps(MANIFEST).encode()
        for name, data in (("b" * 64, base), ("c" * 64, top), (DIGEST, CONFIG), ("manifest.json", manifest)):
            info = tarfile.TarInfo(name if "." in name else f"blobs/sha256/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def is_whole(data: bytes) -> bool:
    """Whether Go's archive/tar, by which engines read, takes it for an archive: it misses no padding, nor an end."""
    at = 0
    while at < len(data):
        header = data[at : at + 512]
        if len(header) < 512:
            return False
        if not any(header):
            return True
        size = int(header[124:135], 8)
        if len(data) < at + 512 + size:
            return False
        at += 512 + size + -size % 512
    return True


class Channel:
    """One `save` or `load`. `gate` holds writes up, `stalls_after` bytes too; `dies_after` it is lost."""

    def __init__(self, machine: Machine, out: bytes = b"") -> None:
        self.machine = machine
        self.out = out
        self.got = bytearray()
        self.ends: list[int] = []
        """How much there was after each write."""
        self.ended = asyncio.Event()
        self.closed = False

    async def read(self, limit: int = 65536) -> bytes:
        if self.out:
            data, self.out = self.out[:limit], self.out[limit:]
            await asyncio.sleep(0)
            return data
        if self.machine.saves:
            return b""
        await self.ended.wait()
        return b""

    async def write(self, data: bytes) -> None:
        await self.machine.gate.wait()
        if len(self.got) >= self.machine.stalls_after:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        self.got += data
        self.ends.append(len(self.got))
        if self.machine.refuses_early:
            self.ended.set()
            raise SessionLost(self.machine.name, "it has ended", code="channel_ended")
        if len(self.got) > self.machine.dies_after:
            raise SessionLost(self.machine.name, f"{self.machine.name}: the connection is gone")

    async def write_eof(self) -> None:
        self.machine.loaded(bytes(self.got))
        self.ended.set()

    def stderr_tail(self) -> bytes:
        return self.machine.words

    async def wait(self) -> int:
        return 1 if self.machine.words else 0

    async def close(self) -> None:
        self.closed = True


class Machine:
    """An engine with images, in memory."""

    def __init__(self, name: str, has: Sequence[ImageFacts] = (), *, saves: bytes = b"", parts: bool = True) -> None:
        self.name = name
        self.images = list(has)
        self.named: ImageFacts | None = None
        self.saves = saves
        self.parts = parts
        self.takes_parts = parts
        self.gate = asyncio.Event()
        self.gate.set()
        self.dies_after = self.stalls_after = 1 << 40
        self.refuses_early = False
        self.rubbish = False
        self.words = b""
        self.channels: list[Channel] = []

    @property
    def engine(self) -> Engine:
        return Engine(self.name, ("docker",), self)

    @property
    def received(self) -> list[int]:
        """Bytes of each load."""
        return [len(c.got) for c in self.channels]

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout: float | None = 60.0, limit: int = 8 << 20
    ) -> Completed:
        match tuple(argv[1:]):
            case ("image", "inspect", "--format", _, _):
                if self.rubbish:
                    return Completed(tuple(argv), 0, b"[]", b"")
                if self.named is None:
                    return Completed(tuple(argv), 1, b"", b"Error: No such image: my/image:1")
                return self._told(argv, self._value(self.named))
            case ("image", "inspect", *_):
                return self._told(argv, [self._value(i) for i in self.images])
            case ("image", "ls", *_):
                return Completed(tuple(argv), 0, "\n".join(i.id for i in self.images).encode(), b"")
            case ("info", *_):
                return self._told(argv, [["Backing", "extfs"]] if self.parts else [["t", "io.containerd.snapshotter"]])
        raise AssertionError(argv)

    def _told(self, argv: Sequence[str], value: object) -> Completed:
        return Completed(tuple(argv), 0, json.dumps(value).encode(), b"")

    def _value(self, facts: ImageFacts) -> dict[str, object]:
        return {"Id": facts.id, "RootFS": {"Layers": facts.layers}, "Size": facts.size, "Config": {}}

    async def open(self, argv: Sequence[str]) -> ByteChannel:
        assert argv[1:] == (("save", IMAGE) if self.saves else ("load",))
        self.channels.append(Channel(self, self.saves))
        return self.channels[-1]

    def loaded(self, data: bytes) -> None:
        """The whole archive has come."""
        missing = b"x" * 1000 not in data
        if missing and not self.takes_parts:
            self.words = b"open /var/lib/docker/tmp/x: no such file or directory"
        else:
            self.words = b""
            self.named = FACTS


SOURCE = "h1"


async def pushed(*targets: Machine, source: Machine | None = None) -> tuple[dict[str, Pushed], list[Pushed], Machine]:
    pushed_to: list[Pushed] = []
    giver = source or Machine(SOURCE, saves=archive())
    found = await push_image(IMAGE, giver.engine, FACTS, [t.engine for t in targets], pushed_to.append)
    return {p.host: p for p in found}, pushed_to, giver


async def test_a_target_whose_answer_is_none_fails_alone() -> None:
    """Rubbish instead of an image is that target's trouble; it ended the whole push."""
    a, b = Machine("a"), Machine("b")
    a.rubbish = True
    found, _, _ = await pushed(a, b)
    assert found["b"].state == "loaded"
    assert found["a"].state == "failed" and "a: `image inspect` names no image" in found["a"].words


async def test_read_once_for_all() -> None:
    """Two targets get everything, one reading of the source; each tells how far it is."""
    a, b = Machine("a"), Machine("b")
    found, pushed_to, source = await pushed(a, b)

    assert {p.state for p in found.values()} == {"loaded"}
    assert len(source.channels) == 1
    for machine in (a, b):
        with tarfile.open(fileobj=io.BytesIO(machine.channels[0].got)) as tar:
            assert [m.name for m in tar] == [f"blobs/sha256/{n}" for n in ("b" * 64, "c" * 64, DIGEST)] + [
                "manifest.json"
            ]
    assert found["a"].sent == a.received[0] > 3_000_000
    states = [p.state for p in pushed_to if p.host == "a"]
    assert [s for i, s in enumerate(states) if states[i - 1 : i] != [s]] == ["sending", "loading", "loaded"]


async def test_who_does_not_say_what_it_has_is_waited_for_as_for_a_list() -> None:
    """A docker that hangs or prints without end is given up as soon as everywhere else."""
    machine, limits = Machine("h2"), list[float | None]()
    run = machine.run

    async def noted(argv: Sequence[str], *, timeout: float | None = 60.0, **more: Any) -> Completed:
        limits.append(timeout)
        return await run(argv, **more)

    machine.run = noted  # type: ignore[method-assign, assignment]
    assert await machine.engine.find(IMAGE) is None
    assert limits == [TELL_SECONDS]


async def test_who_has_it_is_left_alone() -> None:
    """The same image under this name: nothing is sent; when all have it the source is not even read."""
    a = Machine("a")
    a.named = FACTS
    found, _, source = await pushed(a)
    assert (found["a"].state, found["a"].sent, a.channels, source.channels) == ("present", 0, [], [])


async def test_who_has_it_in_a_store_with_other_ids_is_left_alone() -> None:
    """containerd's store calls the same image otherwise."""
    a = Machine("a")
    a.named = replace(FACTS, id="sha256:manifest")
    there = await a.engine.find(IMAGE)
    assert there is not None
    own = replace(there, id=FACTS.id)
    found = await push_image(IMAGE, Machine(SOURCE).engine, own, [a.engine], lambda pushed: None)
    assert ([p.state for p in found], a.channels) == (["present"], [])


async def test_only_layers_that_are_missing() -> None:
    """One target has the lower layer, the other nothing: each gets what it lacks from one reading."""
    a, b = Machine("a", [ImageFacts("sha256:base", (BASE,), 2_000_000)]), Machine("b")
    found, _, source = await pushed(a, b)

    assert len(source.channels) == 1
    assert (found["a"].layers, found["a"].of_layers, found["a"].most) == (1, 2, 1_000_000)
    assert a.received[0] < 1_100_000 < 3_000_000 < b.received[0]
    assert {p.state for p in found.values()} == {"loaded"}


async def test_a_store_that_needs_all_layers() -> None:
    """containerd's store gets the whole archive at once; an engine that refuses a part gets it the second time."""
    base = ImageFacts("sha256:base", (BASE,), 2_000_000)
    whole, surprised = Machine("whole", [base], parts=False), Machine("surprised", [base])
    surprised.takes_parts = False
    found, _, source = await pushed(whole, surprised)

    assert {p.state for p in found.values()} == {"loaded"}
    assert len(whole.received) == 1
    assert [r > 3_000_000 for r in surprised.received] == [False, True]
    assert "all of them are sent" in found["surprised"].words
    assert len(source.channels) == 2


async def test_a_host_that_dies_does_not_hinder_the_others() -> None:
    """Its result says why; the other one gets everything."""
    a, b = Machine("a"), Machine("b")
    a.dies_after = 100_000
    found, _, _ = await pushed(a, b)

    assert (found["a"].state, found["b"].state) == ("failed", "loaded")
    assert "connection is gone" in found["a"].words
    assert a.channels[0].closed


async def test_an_engine_that_refuses() -> None:
    """A full disk while it is sent: the engine's words, and nobody waits for it."""
    a, b = Machine("a"), Machine("b")
    a.refuses_early = True
    a.words = b"write /var/lib/docker/tmp/x: no space left on device"
    found, _, _ = await pushed(a, b)

    assert (found["a"].state, found["b"].state) == ("failed", "loaded")
    assert "disk" in found["a"].words or "space" in found["a"].words


async def test_a_slow_host_is_served_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who keeps the others waiting is set aside, and gets it alone when they are done."""
    monkeypatch.setattr(image_push, "PATIENCE", 0.0)
    monkeypatch.setattr(image_push, "BUFFERED", 2)
    slow, quick = Machine("slow"), Machine("quick")
    slow.gate.clear()
    pushed_to: list[Pushed] = []

    def tell(p: Pushed) -> None:
        pushed_to.append(p)
        if (p.host, p.state) == ("quick", "loaded"):
            slow.gate.set()

    source = Machine(SOURCE, saves=archive())
    found = await push_image(IMAGE, source.engine, FACTS, [slow.engine, quick.engine], tell)

    assert [p.state for p in found] == ["loaded", "loaded"]
    assert ("slow", "aside") in [(p.host, p.state) for p in pushed_to]
    assert len(source.channels) == 2
    assert slow.received[1] == quick.received[0] > 3_000_000


async def test_a_host_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone and stalled: it fails, it does not hang."""
    monkeypatch.setattr(image_push, "STALLED", 0.0)
    monkeypatch.setattr(image_push, "BUFFERED", 2)
    slow = Machine("slow")
    slow.gate.clear()
    found, _, _ = await pushed(slow)
    assert found["slow"].state == "failed"
    assert "took nothing" in found["slow"].words
    assert slow.named is None


async def test_a_push_that_is_given_up_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a host takes nothing and its buffer is full."""
    stuck = asyncio.Event()

    async def write(self: Channel, data: bytes) -> None:
        stuck.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(image_push, "BUFFERED", 1)
    monkeypatch.setattr(Channel, "write", write)
    others = asyncio.all_tasks()
    pushing = asyncio.create_task(pushed(Machine("slow")))
    async with asyncio.timeout(20):
        await stuck.wait()
        while not any("Queue.put" in repr(task) for task in asyncio.all_tasks()):  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)
    pushing.cancel()
    await asyncio.wait([pushing])
    assert asyncio.all_tasks() == others


@pytest.mark.parametrize("after", [0, 1_000_000])
async def test_a_host_that_stalls_once_all_was_offered(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The rest of the image lies in its buffer, and nothing more is read for it: it fails alone, it does not hang."""
    monkeypatch.setattr(image_push, "STALLED", 0.1)
    slow, quick = Machine("slow"), Machine("quick")
    slow.stalls_after = after
    async with asyncio.timeout(20):
        found, _, _ = await pushed(slow, quick)
    assert (found["slow"].state, found["slow"].words) == ("failed", "slow took nothing for 0.1 s")
    assert found["quick"].state == "loaded"
    assert slow.named is None
    assert slow.channels[0].closed


async def test_a_host_that_does_not_hear_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it hang where all was taken, and the end of it does not get through."""
    monkeypatch.setattr(image_push, "LOAD_TIMEOUT", 0.1)
    monkeypatch.setattr(Channel, "write_eof", lambda self: asyncio.Event().wait())
    async with asyncio.timeout(20):
        found, _, _ = await pushed(Machine("deaf"))
    assert (found["deaf"].state, found["deaf"].words) == ("failed", "nothing came of it within 0.1 s")


async def test_a_host_that_unpacks_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has taken everything: it has the time that an engine may unpack."""
    monkeypatch.setattr(image_push, "STALLED", 0.1)
    heard = Channel.write_eof

    async def late(self: Channel) -> None:
        await asyncio.sleep(1.5)
        await heard(self)

    monkeypatch.setattr(Channel, "write_eof", late)
    found, _, _ = await pushed(Machine("busy"))
    assert found["busy"].state == "loaded"


@pytest.mark.parametrize("cut", [1000, 2_500_000])
async def test_a_source_that_ends_early(cut: int) -> None:
    """No target is told that the archive has ended, so that none takes half an image."""
    a = Machine("a")
    with pytest.raises(HostCommandError, match="h1 does not give the image out: it ends too early"):
        await pushed(a, source=Machine(SOURCE, saves=archive()[:cut]))
    assert a.named is None
    assert a.channels[0].closed
    assert not a.channels[0].ended.is_set()


async def test_an_archive_is_never_cut_off_between_two_entries() -> None:
    """Docker takes one without lists for one of its oldest form, and would load what is in it, without a name."""
    a = Machine("a")
    found, _, _ = await pushed(a)
    assert found["a"].state == "loaded"
    *ends, last = a.channels[0].ends
    assert len(ends) > 10
    got = bytes(a.channels[0].got)
    assert [end for end in ends if 0 < end < got.index(b"manifest.json") and is_whole(got[:end])] == []
    assert is_whole(got)
    assert last == len(got)


async def test_names_in_an_archive_begin_no_line_of_ours() -> None:
    """They are the source's."""
    bad = archive().replace(b'"RepoTags": ["my/image:1"]', b'"RepoTags": ["a\\nbcdef:1"]')
    with pytest.raises(HostCommandError, match="would name an image a bcdef:1, where"):
        await pushed(Machine("a"), source=Machine(SOURCE, saves=bad))


async def test_a_source_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails after a while, it does not hang; the targets' engines are let go."""
    monkeypatch.setattr(image_push, "QUIET", 0.1)
    silent, a = Machine(SOURCE, saves=archive()), Machine("a")
    monkeypatch.setattr(Channel, "read", lambda self, limit=65536: asyncio.Event().wait())
    with pytest.raises(HostCommandError, match="out: nothing came for"):
        async with asyncio.timeout(10):
            await pushed(a, source=silent)
    assert a.named is None
    assert a.channels[0].closed


async def test_a_source_that_sends_another_image_too() -> None:
    """No target is told that the archive has ended, nor gets the list that names the images."""
    a = Machine("a")
    both = archive().replace(b'"RepoTags": ["my/image:1"]', b'"RepoTags": ["victim:pro"]')
    with pytest.raises(HostCommandError, match="h1 does not give my/image:1 out: what it sends would name an image"):
        await pushed(a, source=Machine(SOURCE, saves=both))
    assert a.named is None
    assert not a.channels[0].ended.is_set()
    assert b"victim" not in a.channels[0].got


async def test_a_full_disk_is_not_tried_again() -> None:
    """All layers need more room than some."""
    full = Machine("full", [ImageFacts("sha256:base", (BASE,), 2_000_000)])
    full.refuses_early = True
    full.words = b"write /var/lib/docker/tmp/x: no space left on device"
    found, _, source = await pushed(full)
    assert (found["full"].state, len(source.channels)) == ("failed", 1)


async def test_this_machine_as_source() -> None:
    """Programs of this machine by argv: their output as it is, what they say, how they end."""
    session = LocalSession()
    done = await session.run(("sh", "-c", "cat; echo oops >&2; exit 3"), input=b"\x00\xff")
    assert (done.stdout, done.stderr, done.status) == (b"\x00\xff", b"oops\n", 3)

    channel = await session.open(("cat",))
    await channel.write(b"x" * 300_000)
    await channel.write_eof()
    got = b""
    while data := await channel.read():
        got += data
    assert (len(got), await channel.wait()) == (300_000, 0)
    await channel.close()

    ended = await session.open(("sh", "-c", "echo why >&2; exit 4"))
    assert await ended.read() == b""
    assert (await ended.wait(), ended.stderr_tail()) == (4, b"why\n")
    with pytest.raises(SessionLost) as caught:
        for _ in range(100):
            await ended.write(b"x" * 100_000)
    assert caught.value.code == "channel_ended"
    await ended.close()

    endless = await session.open(("sleep", "1000"))
    await endless.close()
    assert await endless.wait() != 0
    with pytest.raises(HostCommandError, match="can't be started on this machine"):
        await session.open(("no-such-program-here",))
