"""What the keys of the run view, and of a container's log, do."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from every_key import Case, effect
from standing import answer

from distui.tui.dialogs.text import TextScreen
from distui.tui.hosts.container_log import LogRows
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.run.screen import RunScreen
from distui.tui.why.screen import CallRows, WhyScreen

Steps = AsyncIterator[None]
TRACE = 20
"""The first line of the traceback in every log; it is three lines long."""


# Searching and filtering.


@effect("One run", "search")
async def search(case: Case) -> Steps:
    yield
    assert case.filtering
    await case.press(*"step", "space", *"11", "enter")
    await case.until(lambda: "step 11 " in case.screen.panes.active.row_text(case.screen.panes.active.at))
    assert not case.filtering


@effect("One run", "only")
async def only(case: Case) -> Steps:
    yield
    assert case.filtering
    await case.press(*"11", "enter")
    await case.settled()
    assert case.screen.panes.active.only == "11"
    assert case.screen.panes.active.rows == 1


@effect("One run", "next_match", "previous_match")
async def match(case: Case) -> Steps:
    case.screen.search.set_search("step [123]1 ")
    pane = case.screen.panes.active
    pane.go(15)
    yield
    wanted = "step 21 " if case.action == "next_match" else "step 11 "
    await case.until(lambda: wanted in pane.row_text(pane.at))


@effect("One run", "next_error", "previous_error")
async def error(case: Case) -> Steps:
    pane = case.screen.panes.active
    pane.go(5 if case.action == "next_error" else 40)
    yield
    await case.until(lambda: TRACE <= pane.at < TRACE + 3)


# What is shown of a log.


@effect("One run", "follow")
async def follow(case: Case) -> Steps:
    assert case.screen.panes.active.follow
    yield
    assert not case.screen.panes.active.follow


@effect("One run", "wrap")
async def wrap(case: Case) -> Steps:
    assert not case.screen.panes.active.wrap
    yield
    assert case.screen.panes.active.wrap


@effect("One run", "times")
async def times(case: Case) -> Steps:
    assert case.screen.panes.active.times
    yield
    assert not case.screen.panes.active.times


@effect("One run", "since_all")
async def since_all(case: Case) -> Steps:
    case.screen.log_display.set_since(2)
    case.screen.panes.active.view.floor = 30
    yield
    await case.settled()
    assert case.screen.panes.active.since == 0
    assert case.screen.panes.active.view.floor == 0


@effect("One run", "since_longer", "since_shorter")
async def since(case: Case) -> Steps:
    case.screen.log_display.set_since(3)
    yield
    await case.settled()
    assert case.screen.panes.active.since == (4 if case.action == "since_longer" else 2)
    assert case.screen.panes.active.view.floor == 0, "all lines are of the last minute"


@effect("One run", "mark")
async def mark(case: Case) -> Steps:
    case.screen.panes.active.go(7)
    yield
    assert case.screen.panes.active.marks == {7}


@effect("One run", "copy_line")
async def copy_line(case: Case) -> Steps:
    case.screen.panes.active.go(7)
    yield
    assert "step 7 " in case.app.clipboard


@effect("One run", "save")
async def save(case: Case) -> Steps:
    yield
    saved = case.folder / "llm-7f3-rank-00000.log"
    await case.until(lambda: saved.read_bytes() == case.live.stored.rank_log(0).read_bytes())


@effect("One run", "clear")
async def clear(case: Case) -> Steps:
    yield
    await case.settled()
    assert case.screen.panes.active.rows == 0


@effect("One run", "unfold")
async def unfold(case: Case) -> Steps:
    case.screen.panes.turn_merged()
    await case.settled()
    pane = case.screen.panes.active
    pane.go(3)
    before = pane.rows
    yield
    await case.settled()
    assert isinstance(pane, MergedPane)
    assert pane.rows > before


@effect("One run", "fold")
async def fold(case: Case) -> Steps:
    before = case.screen.feed.merged.fold
    yield
    assert case.screen.feed.merged.fold != before


# Panes.


@effect("One run", "merged")
async def merged(case: Case) -> Steps:
    yield
    await case.settled()
    assert case.screen.panes.merged_only
    assert "merged log" in case.text


@effect("One run", "panes", "smaller")
async def more_panes(case: Case) -> Steps:
    case.screen.panes.grid.wanted = 1
    case.screen.panes.grid.fit()
    await case.settled()
    yield
    await case.settled()
    assert len(case.screen.panes.visible) > 1


@effect("One run", "larger")
async def fewer_panes(case: Case) -> Steps:
    before = len(case.screen.panes.visible)
    yield
    await case.settled()
    assert len(case.screen.panes.visible) < before


@effect("One run", "zoom")
async def zoom(case: Case) -> Steps:
    yield
    await case.settled()
    assert len(case.screen.panes.visible) == 1


@effect("One run", "next_pane", "previous_pane")
async def step_pane(case: Case) -> Steps:
    case.screen.panes.grid.wanted = 4
    case.screen.panes.grid.fit()
    await case.settled()
    case.screen.panes.visible[1].focus()
    await case.settled()
    yield
    await case.settled()
    there = case.screen.panes.visible[2 if case.action == "next_pane" else 0]
    assert case.screen.panes.active is there
    assert case.screen.focused is there


@effect("One run", "next_rank", "previous_rank")
async def step_rank(case: Case) -> Steps:
    before = case.screen.panes.active.rank
    yield
    await case.settled()
    assert case.screen.panes.active.rank == (before + (1 if case.action == "next_rank" else -1)) % 16


@effect("One run", "sort")
async def sort_ranks(case: Case) -> Steps:
    assert case.screen.panes.ranks.list.rows[0].key == "host node01"
    yield
    await case.settled()
    assert case.screen.panes.ranks.order == "lag"
    assert case.screen.panes.ranks.list.rows[0].key == "0"


@effect("One run", "strip")
async def strip(case: Case) -> Steps:
    assert case.screen.query_one("#strip").display
    yield
    await case.settled()
    assert case.screen.folding.strip_mode == "off"
    assert not case.screen.query_one("#strip").display


@effect("One run", "back")
async def back(case: Case) -> Steps:
    case.screen.search.set_search("step")
    yield
    assert case.screen.search.text == ""
    assert isinstance(case.screen, RunScreen)


# Failures.


@effect("One run", "jump")
async def jump(case: Case) -> Steps:
    case.screen.panes.show_rank(3, case.screen.panes.active)
    case.screen.panes.active.focus()
    await case.settled()
    yield
    await case.until(lambda: "uncorrectable ECC" in case.screen.panes.active.row_text(case.screen.panes.active.at))
    assert case.screen.panes.active.rank == 13


@effect("One run", "pin")
async def pin(case: Case) -> Steps:
    yield
    await case.settled()
    assert 13 in [pane.rank for pane in case.screen.panes.grid.log_panes]


@effect("One run", "evidence")
async def evidence(case: Case) -> Steps:
    yield
    await case.until(lambda: isinstance(case.screen, TextScreen) and "uncorrectable ECC" in case.screen.text)


@effect("One run", "copy_report")
async def copy_report(case: Case) -> Steps:
    yield
    await case.until(lambda: "rank 13" in case.app.clipboard.lower())


@effect("One run", "rerun")
async def rerun(case: Case) -> Steps:
    yield
    await case.until(lambda: any(call[0] == "launch" for call in case.backend.calls))


@effect("One run", "prune")
async def prune(case: Case) -> Steps:
    yield
    await case.until(lambda: case.did("prune", "llm-7f3"))


@effect("One run", "why")
async def why(case: Case) -> Steps:
    case.backend.reported = answer(case.live.plan, time.time())
    yield
    await case.until(lambda: "rank 13 has not entered all_reduce #31" in case.text)
    assert case.did("why", "llm-7f3", False) and isinstance(case.screen, WhyScreen)


# The Why panel.


@effect("Why", "again", "stacks")
async def again(case: Case) -> Steps:
    case.backend.calls.clear()
    case.backend.reported = answer(case.live.plan, time.time() + 1)
    yield
    await case.until(lambda: len(case.screen.answers.all) == 4)
    assert case.did("why", "llm-7f3", case.action == "stacks")


@effect("Why", "copy_all")
async def copy_answer(case: Case) -> Steps:
    yield
    assert case.app.clipboard.startswith("rank 13 has not entered all_reduce #31 of 1000 Float in the default group")
    assert ">13   node02  1       all_reduce #30  sleeps at /work/train.py:6 in load" in case.app.clipboard
    assert "ranks 0-12,14-15:\n  /usr/lib/python3.11/" in case.app.clipboard


@effect("Why", "older", "newer")
async def step_answer(case: Case) -> Steps:
    if case.action == "newer":
        await case.press("right_square_bracket", "right_square_bracket")
        assert case.screen.answers.shown.record.found.kind == "moving"
    yield
    assert case.screen.answers.at == 1
    assert case.screen.answers.shown.record.by == "run"


@effect("Why", "other_list")
async def other_list(case: Case) -> Steps:
    assert case.screen.rows.has_focus
    yield
    assert case.screen.query_one(CallRows).has_focus
    await case.press("tab")
    assert case.screen.rows.has_focus


# A container's log.


async def at_the_end(case: Case) -> LogRows:
    """The rows of a container's log, once it shows the last one, as it does by itself."""
    rows: LogRows = case.screen.rows
    await case.until(lambda: rows.rows and rows.at == len(rows.rows) - 1)
    return rows


@effect("A container's log", "follow")
async def follow_container(case: Case) -> Steps:
    (await at_the_end(case)).action_first()
    assert case.screen.rows.at == 0
    yield
    assert case.screen.rows.at == len(case.screen.rows.rows) - 1


@effect("A container's log", "wrong", "wrong_before")
async def wrong(case: Case) -> Steps:
    rows = await at_the_end(case)
    rows.action_first() if case.action == "wrong" else rows.action_last()
    yield
    await case.until(lambda: "ValueError" in case.screen.lines[int(rows.key)])


@effect("A container's log", "copy_line")
async def copy_container_line(case: Case) -> Steps:
    (await at_the_end(case)).action_first()
    yield
    assert case.app.clipboard == "line 0 " + "x" * 200
