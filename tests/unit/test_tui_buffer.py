"""Log files as lines: an index of blocks, search, filters, rows."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distui.runs.lines.times import pack, times_of
from distui.tui.logs import buffer as module
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.search import TROUBLE, LineFilter, LogView, find, pattern_of

LINES = st.lists(st.binary(max_size=200).map(lambda b: b.replace(b"\n", b"?")), max_size=300)


def written(path: Path, data: bytes) -> LogBuffer:
    """A file with these bytes, indexed."""
    path.write_bytes(data)
    buffer = LogBuffer(path, 0)
    while buffer.grow():
        pass
    return buffer


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(lines=LINES, ends=st.booleans(), slice_bytes=st.integers(1, 4000), step=st.integers(1, 4000), data=st.data())
def test_every_line_is_found_again(
    tmp_path: Path, lines: list[bytes], ends: bool, slice_bytes: int, step: int, data: st.DataObject
) -> None:
    """Whatever was written, and however it was cut into slices, line n is line n, and its offset leads to it."""
    content = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    want = content.split(b"\n")[: None if not content.endswith(b"\n") and content else -1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE", slice_bytes)
        patch.setattr(module, "STEP", step)
        buffer = written(tmp_path / "a.log", content)

    assert buffer.count == len(want)
    assert buffer.raw(0, len(want) + 5) == want
    if want:
        first = data.draw(st.integers(0, len(want) - 1))
        count = data.draw(st.integers(0, 150))
        assert buffer.raw(first, count) == want[first : first + count]
        assert buffer.line_at(buffer.offset_of(first)) == first
        assert buffer.read(buffer.offset_of(first), len(want[first])) == want[first]


def test_a_million_lines_take_a_quarter_of_a_megabyte(tmp_path: Path) -> None:
    """What is kept is where blocks begin, not where lines begin."""
    tracemalloc.start()
    try:
        buffer = written(tmp_path / "a.log", b"step 1 loss 2.0 and so on, a line of a usual length\n" * 100_000)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert buffer.count == 100_000
    assert taken < 100_000 * 0.3


def test_an_endless_line_is_shown_in_part(tmp_path: Path) -> None:
    """A line of megabytes costs no more than what is shown of it; the lines around it are whole."""
    content = b"first\n" + b"x" * 3_000_000 + b"\nlast\n"
    buffer = written(tmp_path / "a.log", content)
    assert [len(line) for line in buffer.raw(0, 9)] == [5, module.SHOWN_BYTES, 4]
    assert buffer.text(2, 1) == ["last"]
    assert buffer.line_at(1_000_000) == 1


def test_lines_after_a_long_one_are_whole(tmp_path: Path) -> None:
    """Short ones right behind the end of a line of many steps are found where they are."""
    lines = [b"x" * length for length in (10, 50_000, 3, 0, 20_000, *range(100), 16_384, 5)]
    buffer = written(tmp_path / "a.log", b"\n".join(lines) + b"\n")
    assert buffer.raw(0, 200) == [line[: module.SHOWN_BYTES] for line in lines]
    assert [buffer.raw(n, 1) for n in range(len(lines))] == [[line[: module.SHOWN_BYTES]] for line in lines]


def test_growth_and_cuts(tmp_path: Path) -> None:
    """An open line counts; it is the same line when its end comes. A file that is cut is read from the start."""
    buffer = written(tmp_path / "a.log", b"one\ntw")
    assert (buffer.count, buffer.ended) == (2, 1)
    with buffer.path.open("ab") as file:
        file.write(b"o\nthree\n")
    buffer.grow()
    assert buffer.text(0, 9) == ["one", "two", "three"]
    buffer.path.write_bytes(b"one\n")
    buffer.grow()
    assert (buffer.cuts, buffer.text(0, 9)) == (1, ["one"])


def test_a_missing_file_is_an_empty_log(tmp_path: Path) -> None:
    """A rank that has not said anything has no file."""
    buffer = LogBuffer(tmp_path / "none.log", 0)
    assert (buffer.grow(), buffer.count, buffer.raw(0, 5), buffer.behind) == (False, 0, [], 0)


def test_times_belong_to_lines(tmp_path: Path) -> None:
    """Lines since a moment are found by halving; without times nobody can say."""
    buffer = written(tmp_path / "a.log", b"".join(b"line %d\n" % i for i in range(1000)))
    assert buffer.first_since(5.0) is None
    times_of(buffer.path).write_bytes(pack([float(i // 10) for i in range(1000)]))
    assert buffer.first_since(5.0) == 50
    assert buffer.first_since(-1.0) == 0
    assert buffer.first_since(1e9) == 1000
    assert buffer.times(998, 4) == [99.0, 99.0, None, None]


@pytest.mark.parametrize("slice_bytes", [7, 64, 1 << 18])
def test_search_goes_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int) -> None:
    """The nearest match after and before a line, whatever the slices are; None past the last one."""
    monkeypatch.setattr("distui.tui.logs.buffer.SLICE", slice_bytes)
    monkeypatch.setattr("distui.tui.logs.search.SLICE", slice_bytes)
    lines = [b"loss %d" % i + (b" ERROR" if i in (3, 40, 77) else b"") for i in range(100)]
    buffer = written(tmp_path / "a.log", b"\n".join(lines) + b"\n")

    def found(line: int, step: int) -> int | None:
        return asyncio.run(find(buffer, TROUBLE, line, step))

    assert [found(-1, 1), found(3, 1), found(40, 1), found(77, 1)] == [3, 40, 77, None]
    assert [found(100, -1), found(77, -1), found(40, -1), found(3, -1)] == [77, 40, 3, None]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(lines=st.lists(st.sampled_from([b"a", b"b", b"ab", b"", b"ccc"]), max_size=80), step=st.integers(1, 50))
def test_a_filter_is_what_grep_gives(tmp_path: Path, lines: list[bytes], step: int) -> None:
    """Lines that match, and with `!` those that do not, also when the file comes in parts."""
    path = tmp_path / "f.log"
    path.write_bytes(b"")
    buffer = LogBuffer(path, 0)
    wanted, others = LineFilter(buffer, pattern_of("a")), LineFilter(buffer, pattern_of("a"), inverse=True)
    content = b"".join(line + b"\n" for line in lines)
    for start in range(0, len(content), step):
        with path.open("ab") as file:
            file.write(content[start : start + step])
        buffer.grow()
        wanted.grow()
        others.grow()
    assert list(wanted.lines) == [i for i, line in enumerate(lines) if b"a" in line]
    assert list(others.lines) == [i for i, line in enumerate(lines) if b"a" not in line]


def test_rows_of_a_view(tmp_path: Path) -> None:
    """Rows and lines are one to one; clearing and filtering hide lines, an open last line is there too."""
    buffer = written(tmp_path / "a.log", b"a1\nb2\na3\nb4\na5")
    view = LogView(buffer)
    assert [view.line(row) for row in range(view.rows)] == [0, 1, 2, 3, 4]
    view.floor = 2
    assert [view.line(row) for row in range(view.rows)] == [2, 3, 4]
    view.set_filter("a")
    view.grow()
    assert [view.line(row) for row in range(view.rows)] == [2, 4]
    assert view.row_of(3) == 1
    view.set_filter("!a")
    view.grow()
    assert [view.line(row) for row in range(view.rows)] == [3]
    view.set_filter("")
    assert view.rows == 3


def test_the_package_that_was_started_is_known_where_its_traceback_was_looked_at(tmp_path: Path) -> None:
    """With the rank before each line, too; what it calls is not one's own."""
    site = "/usr/lib/python3.11/site-packages"
    frames = (f'"{site}/mytrain/cli.py", line 3, in <module>', f'"{site}/torch/nn/x.py", line 3, in f')
    lines = ["Traceback (most recent call last):", *(f"  File {frame}" for frame in frames), "ValueError: odd"]
    buffer = written(tmp_path / "a.log", "".join(f"[rank0]: {line}\n" for line in lines).encode())
    view = LogView(buffer)
    assert view.own == frozenset()
    view.fold_near(3)
    assert view.own == {"mytrain"}


SITE = "/usr/lib/python3.11/site-packages"


def closed(view: LogView, count: int) -> list[int]:
    """The lines whose rows are closed folds."""
    return [line for line in range(count) if view.mark(line) is not None]


def test_a_group_s_exceptions_fold_together(tmp_path: Path) -> None:
    """From its head on, at whichever of them: the package that was started is in its head only."""
    lines = [
        "  + Exception Group Traceback (most recent call last):",
        f'  |   File "{SITE}/mytrain/cli.py", line 3, in <module>',
        f'  |   File "{SITE}/torch/nn/x.py", line 3, in f',
        "  |     call()",
        "  +-+---------------- 1 ----------------",
        "    | Traceback (most recent call last):",
        f'    |   File "{SITE}/mytrain/load.py", line 3, in load',
        "    |     call()",
        f'    |   File "{SITE}/torch/nn/x.py", line 3, in f',
        "    |     call()",
        "    | ValueError: odd",
    ]
    view = LogView(written(tmp_path / "a.log", "\n".join([*lines, ""]).encode()))
    assert view.fold_near(10) and view.own == {"mytrain"}
    assert closed(view, len(lines)) == [2, 8]
    assert not view.fold_near(0)


def test_a_rank_s_traceback_folds_around_lines_of_others(tmp_path: Path) -> None:
    """From its own head on, where ranks write into one log; another's code stays."""
    frame = (f'  File "{SITE}/torch/nn/x.py", line 3, in f', "    call()", "    ^^^^")
    lines = [
        *("[1,0]<stderr>:Traceback (most recent call last):", *(f"[1,0]<stderr>:{line}" for line in frame)),
        *("[1,1]<stderr>:Traceback (most recent call last):", f"[1,0]<stderr>:{frame[0]}", f"[1,1]<stderr>:{frame[1]}"),
        *("[1,0]<stderr>:ValueError: odd", *(f"[1,1]<stderr>:{line}" for line in frame)),
    ]
    view = LogView(written(tmp_path / "a.log", "\n".join([*lines, ""]).encode()))
    assert view.fold_near(7)
    assert closed(view, len(lines)) == [1, 8]


@pytest.mark.parametrize(
    ("text", "line", "hit"),
    [
        ("loss", b"LOSS 1", True),
        ("Loss", b"loss 1", False),
        ("a(b", b"xa(bx", True),
        (r"^step \d+$", b"step 12", True),
        (r"^step$", b"one step", False),
    ],
)
def test_what_is_typed_is_a_pattern(text: str, line: bytes, hit: bool) -> None:
    """Lowercase means any case; what is no regular expression is taken word by word."""
    assert bool(pattern_of(text).search(line)) is hit


@pytest.mark.parametrize(
    ("line", "hit"),
    [
        (b"Traceback (most recent call last):", True),
        (b"torch.AcceleratorError: CUDA error", True),
        (b"node02: NCCL WARN retransmit", True),
        (b"step 3 loss nan", True),
        (b"step 3 loss 0.1", False),
        (b"nanosecond timer, no errors", False),
    ],
)
def test_what_counts_as_trouble(line: bytes, hit: bool) -> None:
    """Next error stops at errors, NCCL warnings and nan; not at words that only look alike."""
    assert bool(TROUBLE.search(line)) is hit
