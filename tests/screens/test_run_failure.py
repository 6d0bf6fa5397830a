"""A failed run on the screen: who was first and why, folded frames, from failure to failure, evidence."""

from __future__ import annotations

import time
from typing import Any

from fakes import NOW, FakeLive, colours, launching, sample, screen_text, shot
from training import LONG, TRACEBACK, body, failing_loudly, opened, say, settled, train, until

from distui.runs.lines.events import Notice, RankChanged, RunEnded
from distui.runs.store.masking import Mask
from distui.tui.logs.log_pane import LogPane


async def test_the_first_failure(open_app: Any, live: FakeLive) -> None:
    """A failed run shows who, why and what next, the blamed line, and what followed; nothing is left."""
    train(live)
    say(live, 13, *TRACEBACK, "CUDA kernel errors might be asynchronously reported")
    await live.feed(*launching(live.plan, NOW), Notice(NOW + 59.6, "warning", "NVRM: Xid 94", "node02"))
    await live.feed(*failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        text = screen_text(app)
        shot(app, "run-failed")
        pane = screen.panes.grid.logs[0]
        assert (pane.rank, pane.blamed) == (13, 43)
    assert "Rank 13 failed first" in text and "cause" in text and "leave GPU 5 out" in text
    assert "15 ranks ended because of rank 13" in text
    assert "nothing of this run is left" in text
    assert "× 13  exit 1" in text
    assert "FAILED" in text and "run again" in text


async def test_its_gpus_are_shown_as_they_were(open_app: Any, live: FakeLive) -> None:
    """Nothing of the run is left: what was measured last is said to be that, and as faint as all of it may be."""
    train(live)
    now = time.time()
    await live.feed(*launching(live.plan, now - 60))
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(pilot, live)
        await live.feed(*(sample(host, now) for host in live.plan.hosts))
        await settled(pilot)
        faint = screen.palette.faint.color
        assert "96%" in screen_text(app) and faint not in colours(app, "96%")
        assert "as measured last" not in screen_text(app)
        await live.feed(*failing_loudly(live.plan, now))
        await settled(pilot)
        assert "nothing of this run is left" in screen_text(app) and "as measured last" in screen_text(app)
        assert colours(app, "96%") == {faint}


async def test_a_run_that_nobody_follows_any_more(open_app: Any, live: FakeLive) -> None:
    """Its end is not known: what tells it is named, and nothing is said of what is left on its hosts."""
    train(live)
    words = "nobody here follows llm-7f3 any more, and its hosts don't tell: there is no run llm-7f3"
    await live.feed(*launching(live.plan, NOW), RunEnded(NOW + 60, "unknown", 6, warnings=(words,)))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await settled(pilot)
        text = screen_text(app)
        await pilot.press("S")
        await settled(pilot)
        assert "is not followed here any more" in " ".join(screen_text(app).split())
    assert words in text and "UNKNOWN" in text
    assert "nothing of this run is left" not in text


async def test_library_frames_fold(open_app: Any, live: FakeLive) -> None:
    """At the failure library frames and CUDA's advice are one row each; z opens and folds all at the error, one of them
    at its row; search unfolds, too."""
    train(live)
    say(live, 13, *LONG)
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        pane = screen.panes.grid.logs[0]
        text = screen_text(app)
        shot(app, "run-folded")
        assert "▶ 2 frames in torch/_tensor.py, torch/autograd/__init__.py" in text
        assert "▶ 2 lines: CUDA kernel errors" in text and "_engine_run" not in text
        assert pane.row_text(pane.at) == TRACEBACK[-1]
        pane.focus()
        await pilot.press("z")
        await settled(pilot)
        assert "_engine_run_backward(" in screen_text(app) and "▶" not in screen_text(app)
        assert pane.row_text(pane.at) == TRACEBACK[-1], "the line of the error has the cursor"
        await pilot.press("z", "k", "z")
        await settled(pilot)
        assert "_engine_run_backward(" in screen_text(app)
        assert pane.row_text(pane.at) == LONG[3]
        await pilot.press("j", "z")
        await settled(pilot)
        assert "_engine_run" not in screen_text(app)
        await pilot.press("slash", *"_engine_run", "enter")
        await settled(pilot)
        assert pane.row_text(pane.at) == LONG[6]


async def test_the_line_to_blame_is_the_only_red_one(open_app: Any, live: FakeLive) -> None:
    """Other errors of that log are bold, not red."""
    say(live, 13, "ERROR something else", *LONG)
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        pane, red = screen.panes.grid.logs[0], app.palette.wrong.color
        hot = [row for row in range(pane.rows) if any(s.style and s.style.color == red for s in pane.row_strip(row))]
        assert [pane.row_text(row) for row in hot] == [TRACEBACK[-1]]


async def test_from_failure_to_failure(open_app: Any, live: FakeLive) -> None:
    """n and N walk the ranks that failed by themselves, A gives each a pane; those we stopped are none of them."""
    train(live)
    say(live, 13, *LONG)
    say(live, 5, "RuntimeError: peer gone")
    say(live, 9, "fine")
    output = failing_loudly(live.plan, NOW + 60)
    ends = [e for e in output if not (isinstance(e, RankChanged) and e.rank in (5, 9))]
    ends[1:1] = [RankChanged(NOW + 61, 9, "node02", "killed", 139), RankChanged(NOW + 62, 5, "node01", "exited", 1)]
    await live.feed(*launching(live.plan, NOW), *ends)
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        assert "n next failure" in screen_text(app)
        seen = [screen.panes.grid.logs[0].rank]
        for key in ("n", "n", "n", "N"):
            await pilot.press(key)
            await settled(pilot)
            seen.append(screen.panes.grid.logs[0].rank)
        assert seen == [13, 9, 5, 13, 5]
        assert screen.panes.grid.logs[0].row_text(screen.panes.grid.logs[0].at) == "RuntimeError: peer gone"
        await pilot.press("A")
        await settled(pilot)
        assert [p.rank for p in screen.panes.grid.log_panes] == [13, 9, 5]
        shot(app, "run-pinned")


async def test_evidence_and_report(open_app: Any, live: FakeLive) -> None:
    """d opens what is known of every rank, y copies the report that `show --report` prints."""
    train(live)
    say(live, 13, *LONG)
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("y")
        await until(pilot, lambda: bool(app.clipboard))
        assert "FIRST FAILURE: rank 13 on node02, GPU 5, exit 1" in app.clipboard
        await pilot.press("d")
        await until(pilot, lambda: len(app.screen_stack) == 3)
        await settled(pilot)
        shot(app, "run-evidence")
        text = screen_text(app)
        assert app.screen.crumbs == ("Runs", "llm-7f3 evidence")
        assert "| torch.AcceleratorError" in text and "| step 39" not in text and "WHAT FOLLOWED" in text


async def test_evidence_and_report_hide_values_of_secrets(open_app: Any, live: FakeLive) -> None:
    """Of a run that was recorded by a distui which did not know them, as its panes do."""
    live.mask = Mask({"TOKEN": "hunter2-hunter2"})
    train(live)
    say(live, 13, "the token is hunter2-hunter2")
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("y")
        await until(pilot, lambda: bool(app.clipboard))
        assert "the token is ***" in app.clipboard and "hunter2" not in app.clipboard
        await pilot.press("d")
        await until(pilot, lambda: len(app.screen_stack) == 3)
        text = "\n".join(app.screen.lines)
        assert "the token is ***" in text and "hunter2" not in text


async def test_a_click_on_the_banner_goes_to_the_line(open_app: Any, live: FakeLive) -> None:
    """Anywhere on it, but on the word of another key."""
    train(live)
    say(live, 13, *LONG)
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        pane = screen.panes.grid.logs[0]
        pane.go(0)
        await pilot.click("#banner", offset=(20, 1))
        await settled(pilot)
        assert pane.row_text(pane.at) == TRACEBACK[-1]
        column = body(app)[6].index("d evidence")
        await pilot.click("#banner", offset=(column, 2))
        await until(pilot, lambda: len(app.screen_stack) == 3)
        assert app.screen.crumbs[-1] == "llm-7f3 evidence"


async def test_who_reads_is_not_moved(open_app: Any, live: FakeLive) -> None:
    """When the run fails while somebody has scrolled, the banner comes and the panes stay; enter jumps."""
    train(live)
    say(live, 13, *TRACEBACK)
    await live.feed(*launching(live.plan, NOW))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.panes.grid.logs[0]
        pane.focus()
        await pilot.press("k")
        await live.feed(*failing_loudly(live.plan, NOW + 60))
        await settled(pilot)
        assert pane.rank == 0
        assert "Rank 13 failed first" in screen_text(app)
        await pilot.press("enter")
        await settled(pilot)
        shown = screen.panes.active
        assert isinstance(shown, LogPane)
        assert (shown.rank, shown.row_text(shown.at)) == (13, TRACEBACK[-1])
