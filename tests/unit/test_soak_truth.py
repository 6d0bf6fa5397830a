"""The soak's own judgement: what may be said of a run whose ranks did this, and which logs are whole."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.soak_truth import End, Truth, Work, differ, in_order, lacking, said_to_miss

ALL = frozenset(range(3))
GOOD = Work()
BAD = Work((300, 200, 300), (0, 3, 0))
SUCCEEDED, STOPPED, UNKNOWN = End("succeeded", 0), End("stopped", 143), End("unknown", 6)


def failed(rank: int | None, code: int) -> End:
    return End("failed", 1, rank, code)


@pytest.mark.parametrize(
    ("truth", "right", "wrong"),
    [
        (Truth(GOOD, ALL), [SUCCEEDED], [failed(1, 137), failed(None, 1), STOPPED, UNKNOWN, End("succeeded", 6)]),
        (Truth(BAD, ALL - {2}), [failed(1, 3)], [SUCCEEDED, failed(1, 143), failed(2, 143), STOPPED, UNKNOWN]),
        (Truth(GOOD, ALL - {0}, struck=frozenset({0})), [failed(0, 137)], [SUCCEEDED, failed(1, 143), UNKNOWN]),
        (Truth(BAD, ALL - {0}, struck=frozenset({0})), [failed(0, 137), failed(1, 3)], [SUCCEEDED, failed(2, 143)]),
        (Truth(GOOD, ALL, vanished=frozenset({2})), [SUCCEEDED, UNKNOWN], [failed(2, 0), failed(None, 1), STOPPED]),
        (Truth(BAD, ALL, vanished=frozenset({1})), [UNKNOWN, failed(1, 3)], [failed(0, 0), failed(1, 7), SUCCEEDED]),
        (Truth(GOOD, frozenset(), stopped=True), [STOPPED], [SUCCEEDED, failed(0, 143), UNKNOWN]),
        (Truth(GOOD, ALL, stopped=True), [SUCCEEDED, STOPPED], [failed(0, 143)]),
    ],
)
def test_an_end_is_judged_by_what_the_ranks_did(truth: Truth, right: list[End], wrong: list[End]) -> None:
    """What may be true passes, all else is refused with words."""
    assert [truth.objection(end) for end in right] == [""] * len(right)
    assert [end for end in wrong if not truth.objection(end)] == []


def test_an_end_is_read_from_a_result_and_from_show() -> None:
    """`gone` is how `show` calls a run whose end nobody knows."""
    assert End.of({"state": "failed", "exit": 1, "first_failure": {"rank": 2, "exit": 7}}) == failed(2, 7)
    assert End.of({"state": "gone", "exit": 6, "first_failure": None}) == UNKNOWN


def test_readers_that_disagree_are_named() -> None:
    """All must have been told the same."""
    assert differ({"run": SUCCEEDED, "show": SUCCEEDED}) == ""
    assert "attach: unknown 6" in differ({"run": SUCCEEDED, "attach": UNKNOWN})


def test_a_log_may_miss_lines_but_not_double_or_turn_them() -> None:
    """The last line may be cut off."""
    wanted = b"a\nbb\nc\n"
    for log in (b"", b"a\n", b"a\nc\n", b"bb\n", b"a\nb", wanted):
        assert in_order(log, wanted), log
    for log in (b"a\na\n", b"c\na\n", b"d\n", b"a\nx"):
        assert not in_order(log, wanted), log


def test_what_is_missing_must_be_said_of_its_own_host_or_rank() -> None:
    """Another rank's words do not count."""
    said = "h2 rank 1 on h2: its container was removed before its end was seen: nothing that it said is here"
    assert said_to_miss([said], "h2", 1) and said_to_miss(["rank 1: its log is not complete"], "h2", 1)
    assert not said_to_miss([said], "h1", 0) and not said_to_miss(["rank 10: a line is missing"], "h2", 1)
    assert not said_to_miss(["asking 3 hosts: h2"], "h2", 1)


def test_the_program_does_what_its_work_says(tmp_path: Path) -> None:
    """The lines of its rank, on stdout and in its file, and its exit code."""
    drawn = (Work.draw(random.Random(seed)) for seed in range(100))
    bad = next(work for work in drawn if any(work.codes))
    assert sorted(bad.codes)[:2] == [0, 0] and all(count <= 300 for count in bad.counts)
    work = Work((1, 2, 3), (0, 0, 5))
    words = [word.replace("{rank}", "2") for word in work.command(str(tmp_path))]
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, timeout=60)
    assert (done.stdout, done.returncode, (tmp_path / "2").read_bytes()) == (work.said(2), 5, work.said(2))
    assert work.said(2).startswith(b"line 0 of 2 \nline 1 of 2 x\n")


def test_a_line_beyond_the_witness_is_none_lost() -> None:
    """The rank was killed before it wrote that line to its own file, too."""
    assert [lacking(log, b"a\nb\n") for log in (b"a\nb\n", b"a\nb\nc\n", b"a\n", b"", b"a\nx\n")] == [0, 0, 1, 2, 1]
