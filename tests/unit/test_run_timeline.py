"""Lines of several logs in one order: whatever is read when, each once, none before an earlier one."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from distui.runs.report.timeline import WINDOW_S, Timeline

moments = st.lists(st.integers(1, 40).map(float), max_size=12)


@given(st.lists(moments, min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=40), st.integers(1, 3))
def test_the_order_does_not_depend_on_the_reads(logs: list[list[float]], turns: list[int], size: int) -> None:
    """Logs read in parts, in any turn: what comes out is what sorting all of them would give."""
    order: Timeline[str] = Timeline()
    logs = [sorted(log) for log in logs]
    sources = [order.source(rank) for rank in range(len(logs))]
    read = [0] * len(logs)
    said = []
    for source, log in zip(sources, logs, strict=True):
        source.more = bool(log)
    for turn in [*turns, *(rank for rank in range(len(logs)) for _ in range(12))]:
        rank = turn % len(logs)
        part = logs[rank][read[rank] : read[rank] + size]
        order.take(sources[rank], read[rank], [f"{rank}.{read[rank] + i}" for i in range(len(part))], part)
        read[rank] += len(part)
        sources[rank].more = read[rank] < len(logs[rank])
        said += order.ready(order.horizon(1000.0))
    said += order.ready(inf)

    whole = sorted((at, rank, n) for rank, log in enumerate(logs) for n, at in enumerate(log))
    assert sorted(item[:3] for item in said) == whole
    assert [item[0] for item in said] == sorted(item[0] for item in said)
    assert all(text == f"{rank}.{n}" for _, rank, n, text in said)


def test_a_line_waits_for_earlier_ones() -> None:
    """Half a second, in which other logs may still say something older."""
    order: Timeline[str] = Timeline()
    one, two = order.source(0), order.source(None)
    order.take(one, 0, ["late"], [100.0])
    assert order.ready(order.horizon(100.0 + WINDOW_S / 2)) == []
    order.take(two, 0, ["early"], [99.9])
    assert [line for *_, line in order.ready(order.horizon(100.0 + WINDOW_S))] == ["early", "late"]


def test_lines_without_a_time() -> None:
    """One among others is as old as the line before; logs without any go line by line beside each other."""
    order: Timeline[str] = Timeline()
    one, two = order.source(0), order.source(1)
    order.take(one, 0, ["a", "b", "c"], [5.0, None, 9.0])
    order.take(two, 0, ["x"], [7.0])
    assert [line for *_, line in order.ready(inf)] == ["a", "b", "x", "c"]
    assert order.timed

    plain: Timeline[str] = Timeline()
    for rank in (0, 1):
        plain.take(plain.source(rank), 0, [f"{rank}a", f"{rank}b"], [None, None])
    assert [line for *_, line in plain.ready(inf)] == ["0a", "1a", "0b", "1b"]
    assert not plain.timed
