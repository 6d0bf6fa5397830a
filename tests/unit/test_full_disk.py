"""A full disk here: what can't be written waits, each byte is written once, and a run goes on with room again."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.follow.followed import Records
from distui.runs.follow.resume import ResumePoint
from distui.runs.lines.batch import STDOUT, Batch
from distui.runs.lines.events import HostSampled, Notice, RankChanged
from distui.runs.store import growing
from distui.runs.store.growing import GrowingFile
from distui.runs.store.journal import Journal
from distui.runs.store.logs import TaskLog
from distui.runs.store.runs import RunStore, StoredRun, cannot_write
from distui.runs.watch import full_disk as room
from fakehosts.runs import Cluster, until, use_fake_follower

REAL = growing.open_private


class Disk:
    """A disk that takes `room` more bytes of growing files."""

    def __init__(self) -> None:
        self.room = 0

    def open(self, path: Path, **_: object) -> Any:
        return _File(self, REAL(path, buffering=0))


class _File:
    def __init__(self, disk: Disk, file: IO[bytes]) -> None:
        self.disk, self.file = disk, file
        self.close = file.close

    def write(self, data: bytes) -> int:
        if not self.disk.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        size = self.file.write(data[: self.disk.room])
        self.disk.room -= size
        return size


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(growing, "open_private", made.open)
    return made


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    return RunStore(tmp_path).create("r1")


def printed(*pieces: bytes) -> Batch:
    return Batch((STDOUT,) * len(pieces), (b"2026-11-21T01:02:03.000000001Z",) * len(pieces), pieces)


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 15))))
def test_each_byte_is_written_once_and_in_order(tmp_path_factory: Any, steps: list[tuple[bytes, int]]) -> None:
    """However little a disk takes at a time."""
    disk, path = Disk(), tmp_path_factory.mktemp("disk") / "file"
    file = GrowingFile(path)
    file._file = disk.open(path)
    for data, disk.room in steps:
        file.hold(data)
        try:
            file.write()
        except OSError:
            assert file.waiting
    disk.room = 1 << 20
    file.write()
    file.close()
    assert not file.waiting
    assert path.read_bytes() == b"".join(data for data, _ in steps)


def test_a_log_waits_for_room_and_has_each_line_once(stored: StoredRun, disk: Disk) -> None:
    """In parts of lines and times as the disk takes them; no checkpoint claims what is not there."""
    log = TaskLog(stored, 0, [0])
    disk.room = 11
    written = log.feed(printed(b"one\n", b"two\n"))
    assert [line.text for line in written[0].lines] == ["one", "two"]
    assert log.error is not None
    assert not log.checkpoint({"at": 1})
    log.feed(printed(b"three\n"))
    disk.room = 7
    assert not log.retry()
    disk.room = 1000
    assert log.retry()
    assert log.error is None
    log.feed(printed(b"four\n"))
    assert log.checkpoint({"at": 4})
    log.close()
    assert stored.rank_log(0).read_bytes() == b"one\ntwo\nthree\nfour\n"
    assert len(stored.rank_log(0).with_suffix(".times").read_bytes()) == 4 * 8
    assert TaskLog(stored, 0, [0]).restore(dict) == {"at": 4}


def test_a_checkpoint_that_does_not_fit_is_stored_later(stored: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it another distui would read again what is here, or miss a log that is gone from its host."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"one\n"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("distui.runs.store.logs.write_private", full)
        assert not log.checkpoint({"at": 1})
        assert log.error is not None
        assert not log.retry()
    assert log.retry()
    log.close()
    assert TaskLog(stored, 0, [0]).restore(dict) == {"at": 1}


def test_a_log_that_was_given_up_takes_nothing_more(stored: StoredRun, disk: Disk) -> None:
    """Lines are still given for whoever looks on; the file stays incomplete, and is known to be."""
    log = TaskLog(stored, 0, [0])
    disk.room = 20
    log.feed(printed(b"one\n", b"two\n"))
    log.give_up()
    disk.room = 1000
    assert [line.text for line in log.feed(printed(b"three\n"))[0].lines] == ["three"]
    assert log.error is not None
    assert not log.checkpoint({"at": 3})
    assert stored.rank_log(0).read_bytes() == b"one\n"


def test_events_wait_for_room_and_figures_do_not(
    stored: StoredRun, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every event once, in order, in whole lines; memory is bounded, and what that cost is known."""
    journal = Journal(stored)
    for n in range(5):
        with pytest.raises(OSError, match="No space"):
            journal.write([Notice(n, "info", str(n)), HostSampled(n, "h1")])
    disk.room = 30
    with pytest.raises(OSError, match="No space"):
        journal.write([Notice(5, "info", "5")])
    disk.room = 1 << 20
    journal.write([Notice(6, "info", "6")])
    assert [e["text"] for e in stored.events()] == [str(n) for n in range(7)]
    assert not journal.lost
    assert len((stored.path / "metrics.ndjson").read_bytes().splitlines()) == 1
    disk.room = 0
    monkeypatch.setattr("distui.runs.store.journal.HELD", 10)
    for n in range(3):
        with pytest.raises(OSError, match="No space"):
            journal.write([Notice(n, "info", "x" * 20)])
    assert journal.lost
    journal.close()


@pytest.fixture
def cluster(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts whose programs run until they are stopped, and a disk here that is full."""
    made = Cluster(tmp_path, 2)
    use_fake_follower(monkeypatch, made.connector)
    monkeypatch.setattr(room, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(room, "_LOOK", 0.01)
    for task, host in enumerate(made.hosts):
        host.files[f"log-{task}"] = b"hello\n"
    made.hosts[0].engine.exits[0] = 0
    return made


async def test_a_run_goes_on_by_itself_when_there_is_room_again(cluster: Cluster, disk: Disk) -> None:
    """Told once when it stops and once when it goes on; logs and events complete, nothing kept on a host."""

    async def later() -> None:
        await until(lambda: "can't write the log of" in cluster.said())
        await until(lambda: any(e.rank == 0 and e.state == "exited" for e in cluster.of(RankChanged)))
        disk.room = 1 << 20
        await until(lambda: "there is room here again" in cluster.said())
        cluster.hosts[1].containers[0].end(0)

    ended = await cluster.run(cluster.plan(), later())
    stored = cluster.store.need("r1")
    assert (ended.outcome, ended.exit, ended.leftovers) == ("succeeded", 0, ())
    assert cluster.left() == []
    assert [stored.rank_log(rank).read_bytes() for rank in (0, 1)] == [b"hello\n", b"hello\n"]
    assert [e["type"] for e in stored.events()][:: len(list(stored.events())) - 1] == ["run", "result"]
    notes = [e.text for e in cluster.of(Notice)]
    assert len([text for text in notes if "No space left on device" in text]) == 2
    assert len([text for text in notes if "written on" in text or "read on" in text]) == 2


async def test_a_run_that_ends_on_a_full_disk_keeps_its_containers(cluster: Cluster) -> None:
    """Nothing of a log is lost: what is not here stays where it is, and the notice says how to get it."""
    cluster.hosts[1].engine.exits[1] = 0
    ended = await cluster.run(cluster.plan())
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert [c.task for h in cluster.hosts for c in h.containers] == [0, 1]
    assert cluster.said().count("can't write the log of") == 1
    assert "distui logs -t r1" in cluster.said()
    assert "room here again" not in cluster.said()


async def test_what_can_not_be_had_again_is_not_promised(cluster: Cluster) -> None:
    """No notice says that a container is kept which somebody removed before there was room here."""
    host = cluster.hosts[1]

    async def later() -> None:
        await until(lambda: bool(cluster.of(RankChanged)))
        host.news.put_nowait(Records(1, printed(b"bye\n"), ResumePoint(written=4)))
        await until(lambda: "can't write the log of" in cluster.said())
        await until(lambda: any(e.rank == 0 and e.state == "exited" for e in cluster.of(RankChanged)))
        host.engine.drop(host.containers[0])

    ended = await cluster.run(cluster.plan(), later())
    assert "rank 1 on h2 is not complete here, and the rest of it is lost" in cluster.said()
    assert not [words for words in ended.leftovers if words.startswith("h2")]


@pytest.mark.parametrize(("code", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, False)])
def test_who_may_not_write_is_not_sent_to_free_some_space(code: int, full: bool) -> None:
    """A home that is mounted read-only has room."""
    hint = cannot_write(Path("/home/u/runs/r1"), OSError(code, "no")).hint
    assert ("free some space" in hint, "XDG_STATE_HOME" in hint) == (full, True)


def test_what_a_killed_try_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """Not what another process may be writing just now, and no run."""
    store = RunStore(tmp_path)
    store.create("r1")
    for name, age in ((".tried-old", 7200), (".tried-new", 5)):
        folder = store.root / name
        folder.mkdir()
        (folder / "plan.json").touch()
        os.utime(folder, (time.time() - age, time.time() - age))
    store.try_recording()
    assert sorted(path.name for path in store.root.iterdir()) == [".tried-new", "r1"]
