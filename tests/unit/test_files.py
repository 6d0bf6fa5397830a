"""What lies in a folder that others may write to is a regular file, or is refused in words, and at once."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distui import config, files
from distui.cluster.attach.live_run import _copy
from distui.errors import SpecError, UsageError
from distui.runs.launch.job_record import recorded_job
from distui.runs.lines import times
from distui.runs.lines.events import RunEnded
from distui.runs.report import summary
from distui.runs.report import text as report
from distui.runs.store import recorded
from distui.runs.store.end_record import started_here
from distui.runs.store.journal import Journal
from distui.runs.store.logs import TaskLog
from distui.runs.store.masking import Mask
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.store.saved_hosts import saved_hosts
from distui.spec.yaml.files import read_text

NAMES = (
    "plan.json",
    "job.json",
    "job.yaml",
    "events.ndjson",
    "metrics.ndjson",
    "summary.json",
    "hosts.json",
    "lock",
    "stop",
)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def sock(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.fspath(path.relative_to(Path.cwd())))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


@pytest.fixture(params=[fifo, sock, device, folder])
def other(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes something that is no regular file."""
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    return request.param  # type: ignore[no-any-return]


def test_what_is_no_regular_file_is_neither_read_nor_written(other: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "x"
    other(path)
    for way in (files.read_bytes, files.open_to_read, files.open_private, lambda p: list(files.lines_of(p))):
        with pytest.raises((files.NotAFile, IsADirectoryError)) as error:
            way(path)
        assert "is" in files.reason(error.value)


def test_the_null_device_is_an_empty_file(tmp_path: Path) -> None:
    """`UserKnownHostsFile /dev/null`, `ssh -F /dev/null` and links to it are how users say that there is no file."""
    link = tmp_path / "known_hosts"
    link.symlink_to(os.devnull)
    for path in (Path(os.devnull), link):
        assert files.read_bytes(path) == b""
        assert list(files.lines_of(path)) == []
        with pytest.raises(files.NotAFile):
            files.open_private(path)
        with pytest.raises(files.NotAFile):
            files.write_private(path, b"never in its place")
    assert Path(os.devnull).is_char_device()


def test_a_run_s_folder_without_one_regular_file(other: Callable[[Path], None], tmp_path: Path) -> None:
    """Every reader counts it as absent or says what is wrong; none waits for it."""
    run = RunStore(tmp_path).create("r")
    for path in (*(run.path / name for name in NAMES), run.rank_log(0), times.times_of(run.rank_log(0))):
        other(path)
    other(run.follow_file(0))
    assert summary.summary(run).result is None
    assert list(recorded.stored_events(run)) == []
    assert recorded.stored_samples(run) == ()
    assert recorded.stored_progress(run) is None
    assert (run.read_plan(), recorded_job(run)) == (None, None)
    assert saved_hosts(run) == ()
    assert report._tail(run.rank_log(0), Mask({})) == ()
    assert not times.read_times(times.times_of(run.rank_log(0)), 0, 3)
    assert not run.is_followed
    with pytest.raises(UsageError, match="lock is"), run.followed():
        pass
    with pytest.raises(OSError, match=r"[Ii]s "):
        Journal(run)
    assert TaskLog(run, 0, (0,)).restore(lambda v: v) is None


def test_settings_that_are_no_regular_file(other: Callable[[Path], None], tmp_path: Path) -> None:
    other(tmp_path / "distui.yaml")
    with pytest.raises(UsageError, match=r"distui\.yaml is "):
        config.load({}, {"HOME": str(tmp_path)}, tmp_path)


def test_an_inventory_that_is_a_pipe(tmp_path: Path) -> None:
    """A pipe that a shell hands over is read; a FIFO that lies somewhere is refused."""
    reading, writing = os.pipe()
    os.write(writing, b"hosts: {}\n")
    os.close(writing)
    assert read_text(f"/dev/fd/{reading}") == "hosts: {}\n"
    os.close(reading)
    os.mkfifo(tmp_path / "hosts.yaml")
    with pytest.raises(SpecError, match="this is a FIFO, not a regular file"):
        read_text(str(tmp_path / "hosts.yaml"))


def test_a_file_beyond_all_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, its last lines are read, and a line beyond all measure comes cut."""
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"one\n" + b"x" * 100 + b"y\ntwo\r\nthree")
    with pytest.raises(files.TooLarge):
        files.read_bytes(path, most=20)
    monkeypatch.setattr(files, "LONGEST", 8)
    assert list(files.lines_of(path)) == [b"one", b"x" * 8, b"two", b"three"]
    monkeypatch.setattr(files, "MOST_LINES", 9)
    assert list(files.lines_of(path)) == [b"wo", b"three"]


def test_nesting_without_end_in_the_hosts_of_a_run(tmp_path: Path) -> None:
    run = StoredRun(tmp_path)
    (run.path / "hosts.json").write_text("[" * 100_000)
    assert saved_hosts(run) == ()
    (run.path / "hosts.json").write_text(json.dumps([{"name": []}]))
    assert saved_hosts(run) == ()


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize(
    "text", [b"", b"\n", b"a", b"a\n", b"one\ntwo\n\nfour", b"one\ntwo\n\nfour\n\n", b"0123456789\nx\n"]
)
def test_a_file_is_read_from_its_end(tmp_path: Path, text: bytes, block: int) -> None:
    """Every line once, whatever is read at a time; of one that is longer than that its end."""
    path = tmp_path / "log"
    path.write_bytes(text)
    found = [line for part in reversed([*files.lines_back(path, block)]) for line in part]
    lines = text.splitlines()
    assert len(found) == len(lines)
    for one, line in zip(found, lines, strict=True):
        assert line.endswith(one) and len(one) >= min(block - 1, len(line)), (found, lines)


def test_what_is_not_there_has_no_lines(tmp_path: Path) -> None:
    """Nor has what is no file."""
    os.mkfifo(tmp_path / "fifo")
    assert [*files.lines_back(tmp_path / "none", 10)] == [*files.lines_back(tmp_path / "fifo", 10)] == []


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Lustre without `flock`: nobody else follows the run."""

    def flock(handle: int, how: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    stored = RunStore(tmp_path).create("r1")
    with pytest.raises(UsageError, match="lock can't be locked: Function not implemented"), stored.followed():
        pass
    assert not stored.is_followed


def test_events_of_whatever_shape_tell_of_no_task(tmp_path: Path) -> None:
    """Nor do they keep one from being told of that is there."""
    stored = RunStore(tmp_path).create("r1")
    (stored.path / "events.ndjson").write_text('{"type": []}\n{"type": {}}\n{"type": "task", "task": 3}\n[]\n{"a\n')
    assert started_here(stored) == {3}


def test_where_the_log_of_a_build_is_kept_is_said_whatever_else_is_there(tmp_path: Path) -> None:
    """As a log that another distui removes just now."""
    stored = RunStore(tmp_path).create("r1")
    stored.build_log("h1").write_text("boom")
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds" / "old").symlink_to("gone")
    assert stored.keep_build_log("h1").read_text() == "boom"


def test_a_run_is_deleted_while_another_distui_keeps_a_summary_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its folder is not empty yet when it is to go."""
    store, rmdir = RunStore(tmp_path), os.rmdir
    stored = store.create("r1")

    def late(path: Any, **more: Any) -> None:
        if str(path).endswith("r1") and not seen:
            seen.append(path)
            (stored.path / "summary.json").write_text("{}")
        rmdir(path, **more)

    seen: list[Any] = []
    monkeypatch.setattr(os, "rmdir", late)
    store.remove("r1")
    assert seen and not stored.path.exists()


def test_a_run_that_begins_just_as_another_of_its_name_was_deleted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, rmtree = RunStore(tmp_path), shutil.rmtree
    store.create("r1")

    def and_begin(path: Path, **more: Any) -> None:
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        rmtree(path, **more)
        store.create("r1")

    monkeypatch.setattr(shutil, "rmtree", and_begin)
    store.remove("r1")
    assert store.get("r1") is not None


def test_a_folder_is_copied_while_something_is_written_there(tmp_path: Path) -> None:
    """What is just being written has a name that is gone in a moment."""
    stored = RunStore(tmp_path / "state").create("r1")
    (stored.path / "plan.json").write_text("{}")
    (stored.path / ".plan.json.17").symlink_to("gone")
    _copy(stored, tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy/runs/r1").iterdir() if path.is_file()] == ["plan.json"]


def test_a_folder_whose_name_is_no_text_may_hold_runs(tmp_path: Path) -> None:
    """Its name is in what is recorded."""
    stored = RunStore(tmp_path / os.fsdecode(b"state-\xff")).create("r1")
    journal = Journal(stored)
    journal.write([RunEnded(1.0, "failed", 1, None, str(stored.log_dir))])
    journal.close()
    result = stored.result()
    assert result is not None and "state-?" in result["log_dir"]
