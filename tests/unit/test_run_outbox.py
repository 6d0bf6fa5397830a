"""Events on their way to a run's reader: so many wait, and no more."""

from __future__ import annotations

import asyncio

import pytest

from distui.runs.attempt import outbox
from distui.runs.attempt.outbox import BATCH_S, QUEUE_BYTES, QUEUE_LINES, Outbox
from distui.runs.lines.batch import STDOUT, Batch
from distui.runs.lines.columns import LineColumn
from distui.runs.lines.events import LogLines, Notice


async def test_lines_that_wait_for_a_slow_reader_are_counted() -> None:
    """One event may hold thousands of lines, so events alone bound no memory."""
    queue, count = Outbox(), QUEUE_LINES // 2
    half = LogLines(1.0, 0, 0, "h1", Batch([STDOUT] * count, [b""] * count, [b"x\n"] * count))
    for _ in range(2):
        queue.put_nowait(half)
    late = asyncio.ensure_future(queue.room())
    await asyncio.sleep(0)

    assert queue.behind
    assert not late.done()
    assert queue.get_nowait() is half
    await late
    assert queue.get_nowait() is half
    assert not queue.behind


async def test_what_comes_later_is_reported_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it comes just when there is room again, and others wait for that."""
    monkeypatch.setattr(outbox, "QUEUE_EVENTS", 1)
    queue, events = Outbox(), [Notice(float(n), "info", str(n)) for n in range(6)]
    for event in events[:2]:
        queue.put_nowait(event)
    waiting = [asyncio.ensure_future(queue.put(event)) for event in events[2:5]]
    await asyncio.sleep(0)
    waiting.pop(1).cancel()
    await asyncio.sleep(0)
    last = asyncio.ensure_future(queue.put(events[5]))
    found = [queue.get_nowait(), queue.get_nowait()]
    while len(found) < 5:
        found.append(await queue.get())
    await asyncio.gather(last, *waiting)
    assert found == [*events[:3], *events[4:]]


def test_long_lines_that_wait_are_counted_by_their_bytes() -> None:
    """A line may be a megabyte long."""
    queue = Outbox()
    long = LogLines(1.0, 0, 0, "h1", Batch([STDOUT], [b""], [b"x" * (QUEUE_BYTES // 2)]))
    packed = LogLines(1.0, 0, 0, "h1", Batch([STDOUT], [b""], LineColumn(b"x" * (QUEUE_BYTES // 2 - 1) + b"\n", 1)))
    queue.put_nowait(long)
    assert not queue.behind
    queue.put_nowait(packed)
    assert queue.behind
    assert [queue.get_nowait(), queue.behind] == [long, False]
    queue.get_nowait()
    assert queue.bytes == 0


async def test_logs_wait_for_a_reader_before_other_events_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a rank has failed must come through, while its lines wait for who looks at the first page."""
    monkeypatch.setattr(outbox, "QUEUE_EVENTS", 2)
    queue = Outbox()
    async with asyncio.timeout(60):
        await queue.room()
        for number in range(2):
            queue.put_nowait(Notice(float(number), "info", ""))
        logs = asyncio.ensure_future(queue.room())
        await queue.put(Notice(2.0, "info", ""))
        await asyncio.sleep(0)
        assert not logs.done()
        queue.get_nowait()
        await asyncio.sleep(0)
        assert not logs.done()
        queue.get_nowait()
        await logs


async def test_nobody_waits_for_a_batch_to_fill_unless_one_was_given_just_before(naps: list[float]) -> None:
    """A line after a silence is given at once, with all that came beside it; what follows it closely, some ms later."""
    queue, events = Outbox(), [Notice(float(n), "info", str(n)) for n in range(3)]
    batches = queue.batches()
    queue.put_nowait(events[0])
    first = asyncio.ensure_future(anext(batches))
    await asyncio.sleep(0)
    assert naps == [0, 0.0]  # ours, then that of whoever reads
    queue.put_nowait(events[1])
    assert await first == tuple(events[:2])
    queue.put_nowait(events[2])
    assert await anext(batches) == (events[2],)
    assert 0.0 < naps[2] <= BATCH_S
