"""Log files: every line once, also after a crash between bytes and checkpoint."""

import shutil
from pathlib import Path

import pytest

from distui.errors import NotFound, UsageError
from distui.runs.lines.batch import STDOUT, Batch
from distui.runs.lines.events import HostSampled, LogLine, LogLines, Notice
from distui.runs.lines.text import MAX_OPEN
from distui.runs.lines.times import read_times, times_of
from distui.runs.store.journal import Journal
from distui.runs.store.logs import TaskLog
from distui.runs.store.masking import Mask
from distui.runs.store.runs import RunStore, StoredRun

STAMP = "2026-11-21T01:02:03.000000001Z"


def printed(*pieces: bytes, stream: int = STDOUT) -> Batch:
    """What the follower gives for these writes of a program."""
    return Batch((stream,) * len(pieces), (STAMP.encode(),) * len(pieces), pieces)


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    return RunStore(tmp_path).create("r1")


def test_lines_go_to_the_rank_file(stored: StoredRun) -> None:
    """Bytes are stored as they came; lines are given with their stamp."""
    log = TaskLog(stored, 0, [4])
    written = log.feed(printed(b"a\xff\nb", b"c\n"))
    log.close()

    assert stored.rank_log(4).read_bytes() == b"a\xff\nbc\n"
    assert written[0].lines == (LogLine("stdout", "a\ufffd", STAMP), LogLine("stdout", "bc", STAMP))


def test_prefixes_split_a_task_into_ranks(stored: StoredRun) -> None:
    """With several ranks in a task each line lands in its own rank's file, the launcher's in the node's."""

    def split(line: bytes) -> list[tuple[int | None, bytes]]:
        return [(int(line[:1]), line[1:])] if line[:1].isdigit() else [(None, line)]

    log = TaskLog(stored, 2, [4, 5], split)
    written = log.feed(printed(b"4x\n4y\n5z\nagent\n"))
    log.close()

    assert [(w.rank, [line.text for line in w.lines]) for w in written] == [
        (4, ["x", "y"]),
        (5, ["z"]),
        (None, ["agent"]),
    ]
    assert stored.rank_log(4).read_bytes() == b"x\ny\n"
    assert stored.node_log(2).read_bytes() == b"agent\n"


def test_a_line_that_two_ranks_share_is_cut_apart(stored: StoredRun) -> None:
    """A piece that the launcher printed before its newline waits for the rest of its own line."""

    def split(line: bytes) -> list[tuple[int | None, bytes]]:
        return [(int(part[:1]), part[1:]) for part in line.split(b"#") if part]

    log = TaskLog(stored, 0, [0, 1], split)
    log.feed(printed(b"#0ha#1whole\n"))
    assert not log.checkpoint({"at": 1})
    log.feed(printed(b"#0lf\n"))
    log.close()

    assert stored.rank_log(0).read_bytes() == b"half\n"
    assert stored.rank_log(1).read_bytes() == b"whole\n"


def test_after_a_crash_the_file_is_cut_to_its_checkpoint(stored: StoredRun) -> None:
    """What was written after the checkpoint is read again, not doubled."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"one\n"))
    assert log.checkpoint({"at": 1})
    log.feed(printed(b"two\n"))
    log.close()

    again = TaskLog(stored, 0, [0])

    assert again.restore(dict) == {"at": 1}
    assert stored.rank_log(0).read_bytes() == b"one\n"


def test_without_a_checkpoint_all_is_read_again(stored: StoredRun) -> None:
    """A log without (or with a torn) checkpoint starts from nothing."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"one\n"))
    log.close()
    stored.follow_file(0).write_bytes(b'{"files": {"rank-00000.log": 4}, "resu')

    assert TaskLog(stored, 0, [0]).restore(dict) is None
    assert stored.rank_log(0).read_bytes() == b""


def test_a_checkpoint_that_is_torn_at_any_byte_is_none(stored: StoredRun) -> None:
    """Then the log is read again from its beginning: never from a place that half a file names."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"one\n"))
    assert log.checkpoint({"at": 1})
    log.close()
    whole = stored.follow_file(0).read_bytes()
    for end in range(len(whole.rstrip()) - 1):
        stored.rank_log(0).write_bytes(b"one\n")
        stored.follow_file(0).write_bytes(whole[:end])
        assert TaskLog(stored, 0, [0]).restore(dict) is None, end
        assert stored.rank_log(0).read_bytes() == b""


@pytest.mark.parametrize("name", ["log", "times"])
@pytest.mark.parametrize("kept", [None, 0, 3])
def test_a_file_that_lost_bytes_is_read_again(stored: StoredRun, name: str, kept: int | None) -> None:
    """Going on behind what is missing would leave a gap that nobody sees, or times beside the wrong lines."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"one\n"))
    assert log.checkpoint({"at": 1})
    log.close()
    path = stored.rank_log(0).with_suffix(f".{name}")
    if kept is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:kept])

    again = TaskLog(stored, 0, [0])
    assert again.restore(dict) is None
    again.feed(printed(b"one\n"))
    again.close()
    assert stored.rank_log(0).read_bytes() == b"one\n"
    assert len(times_of(stored.rank_log(0)).read_bytes()) == 8


def test_no_checkpoint_while_a_line_is_open(stored: StoredRun) -> None:
    """A checkpoint never counts bytes that are still in memory."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"half"))

    assert not log.checkpoint({"at": 1})
    assert not stored.follow_file(0).exists()


def test_each_line_keeps_its_own_time_where_reading_goes_on_within_one(stored: StoredRun) -> None:
    """An endless line is written in parts, and a checkpoint may be between two: what follows is no line of its own."""
    log = TaskLog(stored, 0, [0], clock=lambda: 1.0)
    log.feed(printed(b"first\n" + b"x" * MAX_OPEN))
    assert log.checkpoint({"at": 1})
    log.close()

    again = TaskLog(stored, 0, [0], clock=lambda: 2.0)
    assert again.restore(dict) == {"at": 1}
    stamps = [b"2026-11-21T01:02:0%d.000000001Z" % second for second in (4, 5, 6)]
    again.feed(Batch((STDOUT,) * 3, stamps, (b"xx\n", b"second\n", b"third\n")))
    again.close()
    seconds = [round(at or 0) % 60 for at in read_times(times_of(stored.rank_log(0)), 0, 9)]
    assert seconds == [3, 3, 5, 6]
    assert stored.rank_log(0).read_bytes().count(b"\n") == len(seconds)


def test_files_are_private(stored: StoredRun) -> None:
    """Logs can hold secrets: folders 0700, files 0600."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"one\n"))
    log.close()

    assert stored.path.stat().st_mode & 0o777 == 0o700
    assert stored.rank_log(0).stat().st_mode & 0o777 == 0o600


def test_a_run_name_is_used_once(stored: StoredRun, tmp_path: Path) -> None:
    """Two runs with one name: the second is refused with a way out."""
    with pytest.raises(UsageError, match="already recorded") as caught:
        RunStore(tmp_path).create("r1")

    assert "--name" in caught.value.hint


def test_unknown_and_hostile_names_are_not_found(tmp_path: Path) -> None:
    """A name never leads out of the runs folder."""
    store = RunStore(tmp_path)

    assert store.get("../..") is None
    with pytest.raises(NotFound):
        store.need("nope")


def test_only_one_process_follows_a_run(stored: StoredRun) -> None:
    """A second follower on this machine is refused, naming the first."""
    with stored.followed(), pytest.raises(UsageError, match="already followed"), stored.followed():
        pass


def test_the_journal_has_no_log_lines_and_survives_a_torn_end(stored: StoredRun) -> None:
    """Events and samples go to their files; reading passes over a torn line."""
    journal = Journal(stored)
    journal.write(
        [
            Notice(1, "info", "hello"),
            LogLines(1, 0, 0, "h1", (LogLine("stdout", "secret"),)),
            HostSampled(1, "h1"),
        ]
    )
    journal.close()
    with (stored.path / "events.ndjson").open("ab") as file:
        file.write(b'{"type": "res')

    assert [e["type"] for e in stored.events()] == ["notice"]
    assert stored.result() is None
    assert b"secret" not in (stored.path / "events.ndjson").read_bytes()
    assert b'"type":"gpu"' in (stored.path / "metrics.ndjson").read_bytes()


def test_the_first_event_after_a_torn_one_is_kept(stored: StoredRun) -> None:
    """In events and figures: a line of its own, whatever a crash left before it."""
    for name in ("events.ndjson", "metrics.ndjson"):
        (stored.path / name).write_bytes(b'{"type": "res')
    for text in ("one", "two"):
        journal = Journal(stored)
        journal.write([Notice(1, "info", text), HostSampled(1, "h1")])
        journal.close()

    assert [e.get("text") for e in stored.events()] == ["one", "two"]
    figures = (stored.path / "metrics.ndjson").read_bytes().splitlines()
    assert [line.startswith(b'{"') and line.endswith(b"}") for line in figures] == [False, True, True]


def test_values_of_secrets_are_hidden_in_file_and_event_and_named(stored: StoredRun) -> None:
    """The longest first; the rest of the line byte for byte; other lines untouched; short values are left alone."""
    mask = Mask({"TOKEN": "hunter2-hunter2", "LONGER": "hunter2-hunter2-more", "SHORT": "a", "UNSEEN": "nowhere"})
    log = TaskLog(stored, 0, [4], mask=mask)
    written = [
        *log.feed(printed(b"a\xff hunter2-hunter2\r\n", b"a\n")),
        *log.feed(printed(b"x=hunter2-hun", b"ter2-more hunter2-hunter2\n")),
        *log.feed(printed(b"hunter2\n")),
    ]
    log.close()

    assert stored.rank_log(4).read_bytes() == b"a\xff ***\r\na\nx=*** ***\nhunter2\n"
    assert [[line.text for line in w.lines] for w in written] == [["a\ufffd ***", "a"], ["x=*** ***"], ["hunter2"]]
    assert [set(w.hidden) for w in written] == [{"TOKEN"}, {"TOKEN", "LONGER"}, set()]


def test_hidden_values_do_not_move_the_checkpoint(stored: StoredRun) -> None:
    """The file is cut to its own length, whatever the engine's records were."""
    mask = Mask({"TOKEN": "hunter2-hunter2"})
    log = TaskLog(stored, 0, [0], mask=mask)
    log.feed(printed(b"hunter2-hunter2\n"))
    assert log.checkpoint({"n": 1})
    log.feed(printed(b"lost\n"))
    log.close()

    again = TaskLog(stored, 0, [0], mask=mask)
    assert again.restore(dict) == {"n": 1}
    again.feed(printed(b"next\n"))
    again.close()
    assert stored.rank_log(0).read_bytes() == b"***\nnext\n"


@pytest.mark.parametrize("how", ["emptied", "cut", "removed", "replaced", "written to"])
def test_a_file_that_is_changed_while_it_is_written_is_noticed(stored: StoredRun, how: str) -> None:
    """Nothing is written behind a gap: the log counts as incomplete, and the next read begins at its start."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"one\n"))
    log.feed(printed(b"two\n"))
    assert log.checkpoint({"at": 1})
    path = stored.rank_log(0)
    if how in ("removed", "replaced"):
        path.unlink()
    if how != "removed":
        path.write_bytes(
            {"emptied": b"", "cut": b"one\n", "replaced": b"one\ntwo\n", "written to": b"one\ntwo\nx"}[how]
        )
    before = path.read_bytes() if path.exists() else None
    log.feed(printed(b"three\n"))
    assert log.changed
    assert not log.retry()
    assert not log.checkpoint({"at": 2})
    log.give_up()
    assert (path.read_bytes() if path.exists() else None) == before
    if how in ("emptied", "cut", "removed"):
        assert TaskLog(stored, 0, [0]).restore(dict) is None


@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_a_file_that_is_changed_after_the_last_line_is_no_checkpoint(stored: StoredRun, how: str) -> None:
    """Nothing more is written, so only the checkpoint can notice: its lengths would call the gap the whole log."""
    log = TaskLog(stored, 0, [0])
    log.feed(printed(b"one\n"))
    assert log.checkpoint({"at": 1})
    log.feed(printed(b"two\n"))
    stored.rank_log(0).write_bytes(b"") if how == "emptied" else stored.rank_log(0).unlink()
    assert not log.checkpoint({"at": 2})
    assert log.changed
    assert not log.retry()  # nothing waits to be written, and all the same it is not as it should be
    assert log.changed
    assert TaskLog(stored, 0, [0]).restore(dict) is None


@pytest.mark.parametrize("how", ["emptied", "removed", "in a folder that is none any more"])
def test_a_file_that_is_changed_when_its_task_is_over_is_found_by_its_length(stored: StoredRun, how: str) -> None:
    """What is counted at the last checkpoint must still be there before the container may go."""
    log = TaskLog(stored, 0, [0])
    assert not log.lost_bytes
    log.feed(printed(b"one\n"))
    assert log.checkpoint({"at": 1})
    log.close()
    assert not log.lost_bytes
    stored.rank_log(0).write_bytes(b"") if how == "emptied" else stored.rank_log(0).unlink()
    if how.startswith("in a folder"):
        shutil.rmtree(stored.rank_log(0).parent)
        stored.rank_log(0).parent.write_bytes(b"")
    assert log.lost_bytes
    assert log.error is None


def test_more_logs_than_may_be_open(stored: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is closed and opened again when it is written to; no line is lost, and none comes twice."""
    monkeypatch.setattr("distui.runs.store.growing.most_logs", lambda: 2)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    logs = [TaskLog(stored, n, [n]) for n in range(5)]
    for line in (b"one\n", b"two\n"):
        for log in logs:
            log.feed(printed(line))
    assert len(list(Path("/proc/self/fd").iterdir())) <= open_before + 2
    for log in logs:
        log.close()
    assert {stored.rank_log(n).read_bytes() for n in range(5)} == {b"one\ntwo\n"}
