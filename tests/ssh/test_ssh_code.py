"""Code on hosts: only what is missing is sent, trees appear whole or not at all, and what no run uses goes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.errors import CheckFailed, HostCommandError
from distui.plan.content.code import STORE
from distui.plan.model import CodePlan
from distui.runs.code import call as calling
from distui.runs.code import send as sending
from distui.runs.code.call import clean
from distui.runs.code.ignore import Ignored
from distui.runs.code.scan import scan
from distui.runs.code.send import CodeSender, Sent
from distui.runs.code.source import CodeSource
from distui.runs.hosts.link import HostLink


def source_of(root: Path, mode: Any = "ro") -> CodeSource:
    tree = scan(root, Ignored()).tree
    return CodeSource(CodePlan("./", tree.id, len(tree.files), tree.size, "/work", mode), tree, root)


class Place:
    """A demo host as the sender sees it."""

    def __init__(self, home: Path, link: HostLink) -> None:
        self.home, self.link = home, link
        self.store = home / STORE

    def run_dir(self, name: str) -> Path:
        path = self.home / ".local/state/distui/hosts/demo1" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def sender(self, source: CodeSource, run: str = "r1", *, contained: bool = True) -> CodeSender:
        run_dir = str(self.run_dir(run))
        return CodeSender(self.link, source, home=str(self.home), run_dir=run_dir, contained=contained, give_up=5)

    async def give(self, source: CodeSource, run: str = "r1", *, contained: bool = True) -> Sent:
        sender = self.sender(source, run, contained=contained)
        try:
            await sender.ask()
            sent = await sender.send()
            await self._ended(sender)
            return sent
        finally:
            await sender.close()

    async def _ended(self, sender: CodeSender) -> None:
        """Wait for what a launch does not wait for: older trees go after the answer."""
        assert sender._call is not None
        await sender._call._channel.write_eof()
        await sender._call._channel.wait()

    def tree(self, source: CodeSource) -> Path:
        return self.store / source.tree.id / "tree"

    def names(self) -> set[str]:
        return {p.name for p in self.store.iterdir()} - {".lock"} if self.store.is_dir() else set()

    async def only(self, *names: str) -> None:
        """Wait until nothing else is in the store: makers that are cut off tidy up by themselves."""
        for _ in range(400):
            if self.names() == set(names):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(self.names())


@pytest.fixture
async def place(farm: Any) -> Any:
    demo = await farm.demo()
    link = HostLink(demo.connector(), "demo1")
    yield Place(farm.home / "demos" / "demo1", link)
    await link.close()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = tmp_path / "code"
    (root / "lib").mkdir(parents=True)
    (root / "out").mkdir()
    (root / "train.py").write_text("print('one')\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o700)
    (root / "lib" / "big.py").write_text("x = 1\n" * 100_000)
    (root / "lib" / "same.py").write_text("x = 1\n" * 100_000)
    (root / "lib" / "link").symlink_to("../train.py")
    return root


async def test_a_tree_arrives_as_it_is_and_once(place: Place, code: Path) -> None:
    """Content, x bit, links, empty folders; equal files are sent once, and a second time nothing at all."""
    source = source_of(code)
    assert await place.give(source) == Sent(3, 600_000 + 13 + 10)
    there = scan(place.tree(source), Ignored()).tree
    assert there == source.tree
    assert place.tree(source).stat().st_mode & 0o777 == 0o755
    assert (place.tree(source) / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (place.tree(source) / "train.py").stat().st_mode & 0o777 == 0o644
    assert place.store.stat().st_mode & 0o777 == 0o700
    assert await place.give(source) == Sent(0, 0)


def answers(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Have the host answer each of our lines so: it lies, or its program is of another version."""
    program = "import sys\n" + "".join(f"sys.stdin.buffer.readline()\nprint({line!r}, flush=True)\n" for line in lines)
    monkeypatch.setattr(calling, "program", program.encode)


@pytest.mark.parametrize("want", [["f" * 64], None])
async def test_a_host_that_asks_for_what_is_not_in_the_code(
    place: Place, code: Path, monkeypatch: pytest.MonkeyPatch, want: object
) -> None:
    """Its error, and nothing of this machine goes there."""
    answers(monkeypatch, json.dumps({"state": "want", "want": want}))
    with pytest.raises(HostCommandError, match="demo1: it asks for files that are not in the code"):
        await place.give(source_of(code))


WANT = {"state": "want", "want": []}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        *(([{"state": "want", "want": want}], "answers") for want in ([7], [["a"]], "all", {"a": 1})),
        *(
            ([line], "answers")
            for line in ([], 7, {}, {"state": 3}, {"state": "thinking"}, {"state": "error", "code": 3})
        ),
        ([{"state": "error"}], "it does not say why"),
        ([{"state": "error", "code": "disk_full"}], "no space for the code"),
        ([{"state": "error", "code": "disk_full", "need": "much"}], "answers"),
        ([WANT, {"state": "done", "sent": "all"}], "answers"),
        ([WANT, {"state": "done", "sent": 0, "bytes": {}}], "answers"),
    ],
)
async def test_a_host_that_answers_with_rubbish_is_named(
    place: Place, code: Path, monkeypatch: pytest.MonkeyPatch, lines: list[object], words: str
) -> None:
    """One odd host's error, in words."""
    answers(monkeypatch, *map(json.dumps, lines))
    with pytest.raises(HostCommandError, match=f"demo1: .*{words}"):
        await place.give(source_of(code))


async def test_a_store_that_answers_with_rubbish_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was to say what it removed."""
    answers(monkeypatch, json.dumps({"state": "done", "trees": "some"}))
    with pytest.raises(HostCommandError, match=r"demo1: .*answers"):
        await clean(place.link, str(place.home))


async def test_a_host_without_python3_is_named_as_that_when_it_is_cleaned(place: Place, monkeypatch: Any) -> None:
    """It was said that code can't be put there."""
    monkeypatch.setattr(calling.helper, "take", lambda program: ("/no/such/python3",))
    with pytest.raises(HostCommandError) as it:
        await clean(place.link, str(place.home))
    assert "the code there can't be removed: " in it.value.message
    assert "`code:` needs python3" in it.value.hint


async def test_a_long_answer_in_small_pieces_is_read_once(place: Place) -> None:
    """Each piece is searched for its end, not all that came before."""

    class Line(bytearray):
        searched = 0

        def find(self, what: bytes, start: int = 0) -> int:  # type: ignore[override]
            self.searched += len(self) - start
            return super().find(what, start)

    pieces = [b"x" * 1000] * 1000 + [b"\nrest"]

    class Channel:
        async def read(self) -> bytes:
            return pieces.pop(0)

    call = calling.Call(place.link, None, Channel())  # type: ignore[arg-type]
    call._rest = line = Line()
    assert await call._line() == b"x" * 1_000_000
    assert bytes(line) == b"rest" and line.searched < 2_000_000


async def test_what_a_python_of_the_site_prints_first_is_passed_over(place: Place) -> None:
    """A python3 that is a script with a notice is a python3."""
    pieces = [b"NOTICE: python3 is\nmanaged\n\n by IT\n", b'{"state": "have"}\n']

    class Channel:
        async def read(self) -> bytes:
            return pieces.pop(0)

    call = calling.Call(place.link, None, Channel())  # type: ignore[arg-type]
    assert (await call.answer()).state == "have"


async def test_only_what_changed_is_sent(place: Place, code: Path) -> None:
    """Unchanged files are the former tree's own, and the former tree stays as it was."""
    before = source_of(code)
    await place.give(before)
    (code / "train.py").write_text("print('two')!\n")
    after = source_of(code)
    assert await place.give(after, "r2") == Sent(1, 14)
    assert (place.tree(before) / "train.py").read_text() == "print('one')\n"
    assert (place.tree(after) / "train.py").read_text() == "print('two')!\n"
    assert (place.tree(before) / "lib/big.py").samefile(place.tree(after) / "lib/big.py")
    (code / "train.py").chmod(0o755)
    marked = source_of(code)
    assert await place.give(marked, "r3") == Sent(0, 0)
    assert (place.tree(after) / "train.py").stat().st_mode & 0o111 == 0
    assert (place.tree(marked) / "train.py").stat().st_mode & 0o111


async def test_what_only_an_older_tree_has_is_not_sent_again(place: Place, code: Path) -> None:
    """A few contents and many, also where the newest tree had one of them and it was edited there."""
    for n in range(20):
        (code / f"part{n}.py").write_text(f"{n}\n")
    first = source_of(code)
    await place.give(first)
    for n in range(20):
        (code / f"part{n}.py").write_text("new\n")
    await place.give(source_of(code), "r2")
    for n, run in ((19, "r3"), (0, "r4")):
        for back in range(n, 20):
            (code / f"part{back}.py").write_text(f"{back}\n")
        after = source_of(code)
        assert await place.give(after, run) == Sent(0, 0)
        assert (place.tree(first) / "part19.py").samefile(place.tree(after) / "part19.py")
    (place.tree(after) / "run.sh").unlink()
    (place.tree(after) / "run.sh").write_text("hacked\n")
    (code / "train.py").write_text("print('two')!\n")
    assert await place.give(source_of(code), "r5") == Sent(1, 14)


@pytest.mark.parametrize("edited", ["lib/big.py", "lib/same.py"])
async def test_another_copy_in_a_tree_does_for_one_that_was_edited(place: Place, code: Path, edited: str) -> None:
    """Each of two files of one content, whichever is listed first: the other has what is wanted for both places."""
    before = source_of(code)
    await place.give(before)
    (place.tree(before) / edited).write_text("hacked\n")
    (code / "train.py").write_text("print('two')!\n")
    after = source_of(code)
    assert await place.give(after, "r2") == Sent(1, 14)
    assert scan(place.tree(after), Ignored()).tree == after.tree


async def test_a_host_that_has_the_tree_is_told_its_id_only(
    place: Place, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No list of files goes there; one that lacks it asks for the list, and reads none of the files that it has."""
    source = source_of(code)
    await place.give(source)
    begun = b"def hashed(path: bytes) -> str:"
    program = calling.program().replace(begun, begun + b"\\n    raise SystemExit(9)")
    assert program != calling.program()
    monkeypatch.setattr(calling, "program", lambda: program)
    (code / "train.py").write_text("print('two')!\n")
    assert await place.give(source_of(code), "r2") == Sent(1, 14)
    monkeypatch.setattr(type(source.tree), "listed", None)
    assert await place.give(source, "r3") == Sent(0, 0)


async def test_odd_names_arrive_byte_for_byte(place: Place, tmp_path: Path) -> None:
    """Also where the host's locale is C."""
    root = tmp_path / "odd"
    root.mkdir()
    for name in (b"-rf", b"a b", b"new\nline", "grün".encode(), b"\xff\xfe", b"'\"$(x)`", b"\\", b".hidden"):
        (root / os.fsdecode(name)).write_bytes(name)
    source = source_of(root)
    await place.give(source)
    assert scan(place.tree(source), Ignored()).tree == source.tree


async def test_what_was_edited_on_the_host_is_made_again(place: Place, code: Path) -> None:
    """A tree is what its id says: a changed file is noticed and sent, one that is linked elsewhere too."""
    source = source_of(code)
    await place.give(source)
    (place.tree(source) / "train.py").write_text("print('hacked')\n")
    (place.tree(source) / "extra.py").write_text("")
    assert await place.give(source) == Sent(1, 13)
    assert scan(place.tree(source), Ignored()).tree == source.tree
    assert place.names() == {source.tree.id}


async def test_a_copy_is_the_run_s_own(place: Place, code: Path) -> None:
    """mode rw, and every task without a container: writing there changes no other run's code."""
    source = source_of(code, "rw")
    await place.give(source)
    own = place.run_dir("r1") / "code"
    assert scan(own, Ignored()).tree == source.tree
    assert own.stat().st_mode & 0o777 == 0o777
    (own / "train.py").write_text("changed")
    assert (place.tree(source) / "train.py").read_text() == "print('one')\n"
    assert await place.give(source_of(code), "r2", contained=False) == Sent(0, 0)
    assert (place.run_dir("r2") / "code" / "train.py").read_text() == "print('one')\n"


async def test_a_file_that_changes_after_the_plan_is_refused(place: Place, code: Path) -> None:
    """Longer, shorter, gone or only different: nothing is switched, nothing half-made stays."""
    source = source_of(code)
    for change in (
        lambda p: p.write_text("print('one') # longer\n"), lambda p: p.write_text("x"),
        lambda p: p.write_text("print('two')\n"), lambda p: p.unlink(),
    ):  # fmt: skip
        change(code / "train.py")
        with pytest.raises(CheckFailed, match=r"train\.py changed since the plan was made"):
            await place.give(source)
        assert place.names() == set()


async def test_a_log_in_the_folder_is_sent_as_it_was_planned(place: Place, code: Path) -> None:
    """`distui run job.yaml > run.log` with `code: ./`: it grows while the code is sent, and is no reason to refuse."""
    for name, had in (("run.log", ""), ("old.log", "asking\n")):
        (code / name).write_text(had)
    source = source_of(code)
    for name in ("run.log", "old.log"):
        with (code / name).open("a") as file:
            file.write("sending the code\n")
    await place.give(source)
    assert (place.tree(source) / "run.log").read_text() == ""
    assert (place.tree(source) / "old.log").read_text() == "asking\n"


async def test_a_full_disk_is_reported_before_anything_is_sent(
    place: Place, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the path, what is needed and what is free."""
    program = calling.program().replace(b"disk.f_bavail * disk.f_frsize", b"4096")
    monkeypatch.setattr(calling, "program", lambda: program)
    with pytest.raises(
        HostCommandError, match=r"demo1: no space for the code in .*: 6\d\d kB needed, 4.1 kB free"
    ) as it:
        await place.give(source_of(code))
    assert "hosts clean demo1" in it.value.hint
    assert place.names() == set()


async def test_a_disk_that_fills_up_under_way_leaves_nothing(
    place: Place, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's path is named and the half-made tree is gone; what was there before stays."""
    before = source_of(code)
    await place.give(before)
    (code / "new.py").write_text("y" * 300_000)
    full = b"raise OSError(errno.ENOSPC, str(), path)"
    program = calling.program().replace(b"done = os.write(file, piece)", full)
    assert program != calling.program()
    monkeypatch.setattr(calling, "program", lambda: program)
    with pytest.raises(HostCommandError, match=r"demo1: no space for the code in .*/\.new-.*/tree/new.py"):
        await place.give(source_of(code), "r2")
    assert place.names() == {before.tree.id}


async def test_two_launches_at_once_do_not_collide(place: Place, code: Path, tmp_path: Path) -> None:
    """Of one tree, and of two: each gets its own whole."""
    source = source_of(code)
    other_root = tmp_path / "other"
    other_root.mkdir()
    (other_root / "a.py").write_text("a = 1\n")
    other = source_of(other_root)
    await asyncio.gather(*(place.give(s, f"r{i}") for i, s in enumerate((source, source, other, source))))
    assert place.names() == {source.tree.id, other.tree.id}
    assert scan(place.tree(source), Ignored()).tree == source.tree


async def test_a_launch_that_is_given_up_leaves_nothing_half_made(place: Place, code: Path) -> None:
    """Asked, part of it sent, and then closed."""
    sender = place.sender(source_of(code))
    await sender.ask()
    assert sender._call is not None
    await sender._call.write(b"go\nprint(")
    await sender.close()
    assert place.names() == set()


async def test_a_connection_that_breaks_under_way_is_made_again(
    farm: Any, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree is there in the end, whole, and what the first try had made is removed by its maker."""
    demo = await farm.demo()
    link = HostLink(demo.connector(), "demo1")
    there = Place(farm.home / "demos" / "demo1", link)
    drops = [demo.hosts["demo1"].drop]
    real, loop = sending.pieces, asyncio.get_running_loop()

    def breaking(path: str, most: int) -> Iterator[bytes]:
        if drops and path.endswith("/train.py"):
            loop.call_soon_threadsafe(drops.pop())
        return real(path, most=most)

    monkeypatch.setattr(sending, "pieces", breaking)
    monkeypatch.setattr(sending, "BATCH", 1000)
    source = source_of(code)
    try:
        assert (await there.give(source)).files == 3
        assert not drops
        assert scan(there.tree(source), Ignored()).tree == source.tree
        await there.only(source.tree.id)
    finally:
        await link.close()


async def test_what_a_killed_maker_left_is_swept(place: Place, code: Path) -> None:
    """At once where its lock tells, and else when nobody touches it any more; one at work is left alone.

    A lock of another host that shares the home may be free though it is held there.
    """
    source = source_of(code)
    await place.give(source)
    own, other = os.uname().nodename, "another-host"
    left: dict[str, tuple[str | None, int]] = {
        "old": (None, 100), "young": (None, 10), "dead": (own, 1), "alive": (own, 1),
        "far": (other, 10), "far-old": (other, 100), "far-alive": (other, 100),
    }  # fmt: skip
    for name, (maker, age) in left.items():
        folder = place.store / f".new-{name}"
        (folder / "tree").mkdir(parents=True)
        if maker is not None:
            (folder / "lock").write_text(maker)
        os.utime(folder, (time.time() - age,) * 2)
    with (place.store / ".new-alive/lock").open() as held, (place.store / ".new-far-alive/lock").open() as far:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(far, fcntl.LOCK_EX)
        await place.give(source, "r2")
        assert place.names() == {source.tree.id, ".new-young", ".new-alive", ".new-far", ".new-far-alive"}
    await clean(place.link, str(place.home), keep=1)
    assert place.names() == {source.tree.id, ".new-young", ".new-far"}


async def test_a_copy_whose_answer_was_lost_is_made_again(place: Place, code: Path) -> None:
    """A try that was cut off at its end has put the run's own copy there; the next one takes its place."""
    source = source_of(code, "rw")
    own = place.run_dir("r1") / "code"
    await place.give(source)
    (own / "left").write_text("of the first try")
    await place.give(source)
    assert scan(own, Ignored()).tree == source.tree


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program on the host that looks often whether it is still wanted, and waits half a second for contents."""
    program = calling.program().replace(b"LOOK = 5", b"LOOK = 0.05").replace(b"SILENT = 60", b"SILENT = 0.5")
    assert len(program) != len(calling.program())
    monkeypatch.setattr(calling, "program", lambda: program)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("launch", ["", "bob@desk\nlater\nanother\n"], ids=["stopped", "another"])
async def test_who_is_cut_off_without_a_word_ends_with_its_launch(place: Place, code: Path, launch: str) -> None:
    """Nothing closes its input; but the run's folder was swept, or another launch has it by now."""
    claim = place.run_dir("r1") / "launch"
    claim.write_text("ann@desk\nnow\ntoken\n")
    sender = place.sender(source_of(code))
    await sender.ask()
    assert sender._call is not None
    try:
        claim.write_text(launch) if launch else claim.unlink()
        async with asyncio.timeout(60):
            assert await sender._call._channel.wait() == 128 + signal.SIGALRM
    finally:
        await sender.close()
    await place.only()


@pytest.mark.usefixtures("hasty")
async def test_who_is_at_work_says_so(place: Place, code: Path) -> None:
    """The run's folder and the half-made tree are touched all the while: others go by their age."""
    folder = place.run_dir("r1")
    (folder / "launch").write_text("ann@desk\nnow\ntoken\n")
    os.utime(folder, (1, 1))
    sender = place.sender(source_of(code))
    await sender.ask()
    try:
        for _ in range(400):
            if folder.stat().st_mtime > time.time() - 60:
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("the run's folder is as old as it was")
    finally:
        await sender.close()


@pytest.mark.usefixtures("hasty")
async def test_a_pause_in_the_middle_is_made_good(place: Place, code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """We slept: the host has given up, and is sent everything again."""
    pauses = [1.5]
    real = sending.pieces

    def pausing(path: str, most: int) -> Iterator[bytes]:
        if pauses and path.endswith("/train.py"):
            time.sleep(pauses.pop())
        return real(path, most=most)

    monkeypatch.setattr(sending, "pieces", pausing)
    monkeypatch.setattr(sending, "BATCH", 1000)
    source = source_of(code)
    assert (await place.give(source)).files == 3
    assert scan(place.tree(source), Ignored()).tree == source.tree
    await place.only(source.tree.id)


async def test_only_the_newest_unused_trees_stay(place: Place, code: Path) -> None:
    """A tree that a run's folder names stays however old it is, as one of the four; the verb removes all others."""
    sources = []
    for number in range(8):
        (code / "train.py").write_text(f"print({number})\n")
        sources.append(source_of(code))
        await place.give(sources[-1], f"r{number}")
        if number:
            (place.run_dir(f"r{number}") / "code-tree").unlink()
        os.utime(place.store / sources[-1].tree.id, (number, number))
    (code / "train.py").write_text("print('last')\n")
    last = source_of(code)
    await place.give(last, "last")
    idle = sending.KEEP - 2
    assert place.names() == {last.tree.id, sources[0].tree.id, *(s.tree.id for s in sources[-idle:])}
    output = await clean(place.link, str(place.home))
    assert (output["trees"], output["used"]) == (idle, 2)
    for run in ("r0", "last"):
        (place.run_dir(run) / "code-tree").unlink()
    assert (await clean(place.link, str(place.home)))["used"] == 0
    assert not place.store.exists()


async def test_a_host_without_python3_is_told_so(farm: Any, code: Path) -> None:
    """In one sentence, with what to do instead."""
    (farm.home / "bin").mkdir()
    (farm.home / "bin/python3").write_text("#!/bin/sh\necho sh: python3: not found >&2\nexit 127\n")
    (farm.home / "bin/python3").chmod(0o755)
    demo = await farm.demo(env={"PATH": f"{farm.home}/bin:{os.environ['PATH']}"})
    link = HostLink(demo.connector(), "demo1")
    there = Place(farm.home / "demos" / "demo1", link)
    try:
        with pytest.raises(HostCommandError, match="python3") as caught:
            await there.give(source_of(code))
        assert "volumes" in caught.value.hint
    finally:
        await link.close()
