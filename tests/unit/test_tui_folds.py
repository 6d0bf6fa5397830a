"""Folded lines of a log: rows without them, and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distui.runs.lines.traceback import Fold
from distui.tui.logs.folds import Folds


def folds(*spans: tuple[int, int]) -> Folds:
    """Closed folds over these lines."""
    made = Folds()
    made.add(Fold(start, stop, "") for start, stop in spans)
    return made


def test_a_fold_is_one_row() -> None:
    """The row of its first line stands for all; opening gives every line its row again."""
    made = folds((2, 5), (8, 10))
    assert [made.line(row) for row in range(7)] == [0, 1, 2, 5, 6, 7, 8]
    assert [made.row(line) for line in range(11)] == [0, 1, 2, 2, 2, 3, 4, 5, 6, 6, 7]
    assert made.hidden() == 3
    assert made.toggle(2) == Fold(2, 5, "")
    assert [made.line(row) for row in range(4)] == [0, 1, 2, 3]
    assert made.toggle(4) == Fold(2, 5, "")
    assert made.line(3) == 5
    assert made.toggle(6) is None


def test_a_hidden_line_is_shown_when_it_is_wanted() -> None:
    """Search and jumps open what hides their line, and nothing else."""
    made = folds((2, 5), (8, 10))
    assert not made.reveal(2)
    assert made.reveal(3)
    assert (made.mark(2), made.mark(8)) == (None, Fold(8, 10, ""))


def test_what_is_known_is_not_folded_again() -> None:
    """A fold that somebody opened stays open when the same traceback is looked at once more."""
    made = folds((2, 5))
    made.toggle(2)
    assert not made.add([Fold(2, 5, "")])
    assert made.hidden() == 0


@given(st.lists(st.integers(2, 5), max_size=8), st.integers(0, 3), st.integers(0, 30))
def test_rows_and_lines_agree(lengths: list[int], gap: int, floor: int) -> None:
    """Every row has a line whose row it is, whatever is hidden before the first one."""
    spans, at = [], 1
    for length in lengths:
        spans.append((at, at + length))
        at += length + gap
    made, count = folds(*spans), at + 10 + floor
    rows = count - floor - made.hidden(floor)
    lines = [made.line(row, floor) for row in range(rows)]
    assert lines == sorted(set(lines))
    assert lines[-1] < count
    assert [made.row(line, floor) for line in lines] == list(range(rows))


def test_all_folds_of_some_lines_open_and_close_together() -> None:
    """One that is closed makes them open; those of other lines stay as they are."""
    made = folds((2, 5), (8, 10), (20, 22))
    made.toggle(2)
    assert made.toggle_between(0, 12)
    assert [made.mark(n) is not None for n in (2, 8, 20)] == [False, False, True]
    assert made.toggle_between(0, 12)
    assert [made.mark(n) is not None for n in (2, 8, 20)] == [True, True, True]
    assert not made.toggle_between(12, 20)
