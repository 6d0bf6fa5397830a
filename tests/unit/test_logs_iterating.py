"""Logs as a program reads them: in a loop, as slowly as it likes, until it has enough."""

from __future__ import annotations

import asyncio
import warnings

import pytest

from distui.cluster.logs.iterating import WAITING, RankLines, TellPlain, iterate
from distui.cluster.logs.of_run import Tell
from distui.cluster.logs.sink import LogSink
from distui.cluster.logs.wanted import Wanted
from distui.cluster.secret_warning import SecretWarning
from distui.errors import ContactLost, NotFound, UsageError
from distui.runs.lines.events import LogLine


def line(text: str) -> LogLine:
    """A line."""
    return LogLine("stdout", text)


async def test_what_is_wanted_comes_as_it_is_read() -> None:
    """Other ranks' lines don't."""

    async def read(out: LogSink, tell: Tell, plain: TellPlain) -> bool:
        for rank in range(3):
            await out.lines(rank, f"h{rank}", [line(f"of {rank}")])
        tell("all is well", "info")
        return True

    found = [lines async for lines in iterate(Wanted(ranks=frozenset({0, 2})), read)]
    assert found == [RankLines(0, "h0", [line("of 0")]), RankLines(2, "h2", [line("of 2")])]


async def test_what_is_missing_is_reported_after_the_last_line() -> None:
    """What could be read is had by then."""

    async def read(out: LogSink, tell: Tell, plain: TellPlain) -> bool:
        await out.lines(0, "h0", [line("one")])
        tell("h1 did not answer", "warning")
        return False

    found = []
    with pytest.raises(ContactLost, match="h1 did not answer"):
        async for lines in iterate(Wanted(), read):
            found.append(lines.lines[0].text)
    assert found == ["one"]


@pytest.mark.parametrize("printed", [True, False])
async def test_what_is_not_hidden_is_warned_of_before_the_first_line(printed: bool) -> None:
    """Once, in the line of who reads, also where nothing is printed; as an error, nothing is read."""

    async def read(out: LogSink, tell: Tell, plain: TellPlain) -> bool:
        plain("the value of secret TOKEN is not set here")
        for word in ("one", "two") if printed else ():
            await out.lines(0, "h0", [line(word)])
        return True

    with pytest.warns(SecretWarning) as warned:
        found = [lines async for lines in iterate(Wanted(), read)]
    assert len(found) == 2 * printed
    assert [(str(one.message), one.filename) for one in warned if one.category is SecretWarning] == [
        ("the value of secret TOKEN is not set here", __file__)
    ]
    with warnings.catch_warnings(action="error"), pytest.raises(SecretWarning, match="TOKEN"):
        await anext(iterate(Wanted(), read))


async def test_why_nothing_can_be_read_is_raised() -> None:
    """As it is."""

    async def read(out: LogSink, tell: Tell, plain: TellPlain) -> bool:
        raise NotFound("no such run")

    with pytest.raises(NotFound, match="no such run"):
        await anext(iterate(Wanted(), read))


async def test_reading_ends_with_who_reads() -> None:
    """Nothing goes on behind a loop that was left."""
    ended = asyncio.Event()

    async def read(out: LogSink, tell: Tell, plain: TellPlain) -> bool:
        try:
            await out.lines(0, "h0", [line("one")])
            await asyncio.Event().wait()
        finally:
            ended.set()
        return True

    found = iterate(Wanted(), read)
    assert (await anext(found)).lines == [line("one")]
    await found.aclose()  # type: ignore[attr-defined]
    assert ended.is_set()


async def test_a_slow_reader_slows_reading_down() -> None:
    """So many batches wait, and no more."""
    written = 0

    async def read(out: LogSink, tell: Tell, plain: TellPlain) -> bool:
        nonlocal written
        for number in range(3 * WAITING):
            await out.lines(0, "h0", [line(str(number))])
            written = number + 1
        return True

    most, texts = 0, []
    async for lines in iterate(Wanted(), read):
        texts.append(lines.lines[0].text)
        most = max(most, written - len(texts))
    assert texts == [str(number) for number in range(3 * WAITING)]
    assert 0 < most <= WAITING


def test_a_rank_that_the_run_has_not() -> None:
    """Which it has is said."""
    with pytest.raises(UsageError, match="there is no rank 7: the run has ranks 0 to 1"):
        Wanted(ranks=frozenset({0, 7})).refuse_unknown([0, 1, None])
    Wanted().refuse_unknown([])
