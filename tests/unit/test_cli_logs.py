"""`distui logs` from the files here: tails, times beside the lines, lines of any length."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.cli import logfiles
from distui.run.events import RunEnded, RunOpened
from distui.run.lines import LONGEST, WholeLines
from distui.run.store import Journal, RunStore, StoredRun
from distui.run.times import pack, times_of

NOON = 1_795_176_000.0  # 2026-11-20T12:00:00Z


@pytest.fixture
def stored(home: Path) -> StoredRun:
    """An ended run of one rank that said a line every 0.25 s from noon on, the last without a newline."""
    made = RunStore(home / ".local/state/distui").create("r1")
    made.write_plan({"run_id": "r1", "job": "smoke", "tasks": [{"index": 0, "ranks": [0], "host": "h0"}]})
    journal = Journal(made)
    journal.write([RunOpened(1.0, "r1", "smoke", "env", None, {0: "h0"}, {0: (0,)}), RunEnded(9.0, "succeeded", 0)])
    journal.close()
    made.rank_log(0).write_bytes(b"\n".join(b"line %d" % n for n in range(8)))
    times_of(made.rank_log(0)).write_bytes(pack([NOON + n / 4 for n in range(8)]))
    return made


def test_times_come_from_the_file_beside_the_log(cli: Any, stored: StoredRun) -> None:
    """No host is asked, and a tail knows which lines it shows."""
    want = "2026-11-20T12:00:01.500000000Z line 6\n2026-11-20T12:00:01.750000000Z line 7\n"

    assert cli("logs", "r1", "-t", "-n", "2", "--no-prefix").out == want
    assert cli("logs", "r1", "-t", "--no-prefix").out.endswith(want)
    assert cli("logs", "r1", "--since", "2026-11-20T12:00:01.5Z", "--no-prefix").out == "line 6\nline 7\n"


def test_lines_without_a_time_are_shown_without_one(cli: Any, stored: StoredRun) -> None:
    """Nobody wrote it down: `-`, and new for --since."""
    times_of(stored.rank_log(0)).write_bytes(pack([NOON])[:-1])

    assert cli("logs", "r1", "-t", "-n", "1", "--no-prefix").out == "- line 7\n"
    assert len(cli("logs", "r1", "--since", "2026-12-01T00:00:00Z").out.splitlines()) == 8


def test_what_only_the_hosts_know_is_not_made_up(cli: Any, stored: StoredRun) -> None:
    """Files here do not tell stderr from stdout."""
    done = cli("logs", "r1", "--stderr")

    assert done.code != 0
    assert done.out == ""


@given(st.binary(max_size=40).map(lambda data: data.replace(b"\x00", b"\n")), st.integers(0, 9), st.integers(1, 9))
def test_a_tail_is_found_from_the_end(data: bytes, count: int, chunk: int) -> None:
    """As many lines as asked for, whatever the size of the reads, with or without a last newline."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logfiles, "CHUNK", chunk)
        start = logfiles._tail_start(io.BytesIO(data), count)
    lines = io.BytesIO(data).readlines()

    assert data[start:] == b"".join(lines[max(0, len(lines) - count) :])


@given(st.lists(st.sampled_from([b"", b"a", b"\n", b"b\nc", b"\n\n", b"\r"])))
def test_lines_do_not_depend_on_the_reads(reads: list[bytes]) -> None:
    """Every line once, without its newline, and the open end at the end."""
    lines = WholeLines()
    found = [line for read in reads for line in lines.feed(read)] + lines.rest()
    whole = b"".join(reads).split(b"\n")

    assert found == (whole if whole[-1] else whole[:-1])
    assert lines.rest() == []


def test_a_long_line_is_copied_once() -> None:
    """Parts of an open line are kept as they came, not joined again with each read."""
    lines, part = WholeLines(), b"x" * 10
    for _ in range(1000):
        assert lines.feed(part) == []

    assert lines._open == [part] * 1000
    assert lines.feed(b"\n") == [part * 1000]


def test_a_line_beyond_all_measure_is_printed_in_part() -> None:
    """With a mark that says so; the next line is whole."""
    lines = WholeLines()
    for _ in range(20):
        assert lines.feed(b"y" * (1 << 20)) == []
    first, second = lines.feed(b"\nnext\n")
    assert first == b"y" * LONGEST + b" ... and 4194304 bytes more in the log file"
    assert second == b"next"
    assert lines.rest() == []
