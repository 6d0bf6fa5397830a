"""Pure parts of the run view: colours of lines, progress from a file, how rows are shared."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distui.runs.lines.times import pack, times_of
from distui.runs.state.progress import figure_name
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.highlight import spans
from distui.tui.logs.progress import ProgressLog
from distui.tui.run.around.fold import Wanted, fold
from distui.tui.run.panes.pane_grid import MIN_HEIGHT, MIN_WIDTH, Shape, next_choice, shape, suited


def test_progress_is_read_from_the_log(tmp_path: Path) -> None:
    """Step, loss and speed of the last lines; the plot keeps the whole run in bounded memory."""
    path = tmp_path / "rank-00000.log"
    path.write_text("".join(f"step {i} loss {10 - i / 1000:.3f}\nother\n" for i in range(5000)))
    times_of(path).write_bytes(pack([i / 4 for i in range(10_000)]))
    buffer = LogBuffer(path, 0)
    while buffer.grow():
        pass
    progress = ProgressLog(r"step (?P<step>\d+) loss (?P<loss>[\d.]+)", buffer)
    while progress.grow():
        pass
    assert (progress.value("step"), progress.value("loss")) == (4999.0, 5.001)
    assert progress.seconds_per_step() == pytest.approx(0.5)
    series = progress.series("loss")
    assert 300 <= len(series) <= 600
    assert series[0] == 10.0


def test_a_long_log_is_read_in_short_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app has to answer keys meanwhile; the times of all lines of a turn are read at once."""
    path = tmp_path / "rank-00000.log"
    path.write_text("".join(f"step {i}\n" for i in range(4000)))
    times_of(path).write_bytes(pack([float(i) for i in range(1, 4001)]))
    buffer = LogBuffer(path, 0)
    while buffer.grow():
        pass
    looks: list[int] = []
    times = LogBuffer.times
    monkeypatch.setattr(LogBuffer, "times", lambda self, first, n: looks.append(n) or times(self, first, n))
    progress = ProgressLog(r"step (?P<step>\d+)", buffer)
    turns = [progress.value("step")]
    while progress.grow():
        turns.append(progress.value("step"))
    assert turns[:3] == [None, 255.0, 511.0] and progress.value("step") == 3999.0
    assert len(looks) == len(turns) == 16 and progress.seconds_per_step() == 1.0


def test_a_saved_checkpoint_is_no_step_without_a_loss(tmp_path: Path) -> None:
    """Also where it is the last thing that a run said: the headline keeps step and loss, and the plot is the loss."""
    path = tmp_path / "rank-00000.log"
    path.write_text("saved checkpoint 0\nstep 999 loss 2.5\nstep 1000 loss 2.25\nsaved checkpoint 1000\n")
    buffer = LogBuffer(path, 0)
    while buffer.grow():
        pass
    progress = ProgressLog(r"step (?P<step>\d+) loss (?P<loss>[\d.]+)|saved checkpoint (?P<checkpoint>\d+)", buffer)
    while progress.grow():
        pass
    assert progress.last is not None and progress.last.values == {"step": 1000.0, "loss": 2.25}
    assert figure_name(progress.last.values) == "loss" and progress.series("checkpoint") == [0.0]


def test_own_code_and_libraries() -> None:
    """A traceback's own files stand out, library frames and their code step back."""
    own = '  File "/work/train.py", line 3, in main'
    library = '  File "/usr/lib/python3.11/site-packages/torch/x.py", line 3, in f'
    assert [kind for _, _, kind in spans(own)] == ["muted", "path", "muted"]
    assert [kind for _, _, kind in spans(library)] == ["faint"]
    assert spans("    loss.backward()", own) == []
    assert [kind for _, _, kind in spans("    loss.backward()", library)] == ["faint"]
    assert [kind for _, _, kind in spans(library, "", {"torch"})] == ["muted", "path", "muted"]
    assert spans("    loss.backward()", library, {"torch"}) == []
    assert spans("Traceback (most recent call last):") == [(0, 34, "strong")]


@pytest.mark.parametrize("before", ["[rank1]: ", "[1,3]<stderr>:", "[3] ", "3: ", "[default0]:[rank3]: ", "  | "])
def test_code_of_ranks_that_write_into_one_log(before: str) -> None:
    """Or of an exception group: as without what stands before it, in lines that have it."""
    own, library = f'{before}  File "/work/train.py", line 3, in main', f'{before}  File "<frozen x>", line 3, in f'
    code = f"{before}    loss.backward()"
    (start, stop, _) = next(span for span in spans(own) if span[2] == "path")
    assert own[start:stop] == "/work/train.py"
    assert [kind for _, _, kind in spans(own)] == ["muted", "path", "muted"]
    assert spans(library) == [(0, len(library), "faint")]
    assert spans(code, library) == [(0, len(code), "faint")]
    assert spans(code, own) == []
    other = code.replace("1", "2").replace("3", "4").replace("  | ", "")
    assert spans(other, library) == spans(other)
    assert [kind for _, _, kind in spans(f"{before}ValueError: odd", code)] == ["error"]


@pytest.mark.parametrize("text", ["0: something", "[0] something", "[1,0]<stderr>:something", "| a | b |"])
def test_other_lines_are_not_coloured(text: str) -> None:
    """Below a frame neither."""
    assert spans(text) == spans(text, '  File "<frozen x>", line 3, in f') == []


@given(st.text(max_size=200), st.text(max_size=80))
def test_spans_stay_inside(text: str, before: str) -> None:
    """Whatever a rank prints, what is coloured lies within the line."""
    for start, end, _ in spans(text, before):
        assert 0 <= start <= end <= len(text)


@example(100, 26, 4, 6, 8, 1, False, "full", False, False)
@given(
    st.integers(1, 260), st.integers(1, 80), st.integers(0, 4), st.integers(0, 12), st.integers(1, 64),
    st.integers(1, 70), st.booleans(), st.sampled_from(["auto", "off", "compact", "full"]), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_the_log_never_folds(
    width: int, height: int, banner: int, events: int, hosts: int, ranks: int, loss: bool, strip: str, merged: bool,
    zoomed: bool,
) -> None:  # fmt: skip
    """Whatever there is to show, parts never take more rows than there are, and a log keeps at least three."""
    made = fold(width, height, Wanted(banner, events, hosts, ranks, loss, strip, merged, zoomed))
    parts = [made.banner, made.compare, made.strip, made.state]
    used = sum(rows + made.gap for rows in parts if rows) + (made.narrow + 1 if made.narrow else 0)
    left = height - used - (made.timeline + made.gap if made.timeline else 0)
    assert left >= min(3, height)
    assert not (made.side and width < 100)


@given(st.integers(0, 16), st.integers(1, 300), st.integers(1, 80))
def test_panes_have_room(wanted: int, width: int, height: int) -> None:
    """Panes are never smaller than what can be read, unless there is only one."""
    made = shape(wanted, width, height)
    assert 1 <= made.shown <= 16
    assert made.columns * made.rows >= made.shown
    assert 1 <= made.span <= made.columns
    if made.shown > 1:
        assert made.columns * (MIN_WIDTH + 1) - 1 <= max(width, MIN_WIDTH)
        assert made.rows * (MIN_HEIGHT + 1) - 1 <= max(height, MIN_HEIGHT)


def test_panes_at_the_sizes_of_the_pictures() -> None:
    """80x24: one; 120x36: two by two; 200x50: three by two. P goes round what fits."""
    assert suited(79, 18) == suited(173, 38, 1) == Shape(1, 1, 1)
    assert suited(93, 25) == suited(160, 25) == Shape(2, 1, 2)
    assert suited(161, 18) == Shape(2, 2, 1)
    assert [next_choice(n, 93, 25) for n in (1, 2, 4)] == [2, 4, 1]
    assert [next_choice(n, 173, 38) for n in (1, 2, 4, 6, 8)] == [2, 4, 8, 8, 1]
