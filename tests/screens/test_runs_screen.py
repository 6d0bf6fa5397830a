"""Runs: what lives, what is recorded, and what can be done with it."""

from __future__ import annotations

from typing import Any

from fakes import FakeDesk, failing, launching, screen_text, settle, shot

from distui.run.discover import Found
from tui.screens.confirm import Confirm
from tui.screens.text import TextScreen


async def press(pilot: Any, *keys: str) -> None:
    """Keys, and what follows from them."""
    await pilot.press(*keys)
    await settle(pilot)


async def test_rows_tell_state_time_and_first_failure(open_app: Any) -> None:
    """Live runs first, those of others too; an ended one says who failed first."""
    async with open_app(start="runs") as (app, _):
        text = screen_text(app)
        shot(app, "runs")
        assert text.index("llm-7f3") < text.index("llm-7f2")
        assert "RUNNING" in text
        assert "failed 1" in text
        assert "r13 node02 CUDA" in text
        assert "2 live" in text


async def test_a_run_without_a_folder_here_is_told_apart(open_app: Any) -> None:
    """The preview says whose a run is, where it is recorded, and how it failed."""
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "j")
        assert "bob@desk" in screen_text(app)
        await press(pilot, "j")
        assert "CUDA error: an illegal memory access" in screen_text(app)


async def test_enter_follows_what_lives_and_replays_what_ended(open_app: Any, desk: FakeDesk) -> None:
    """Enter attaches to a live run; an ended one is played again from its folder."""
    made = desk.plan("llm-7f2")
    desk.record(made, [*launching(made, 1.0), *failing(made, 5.0)])
    live = desk.follow(desk.plan())
    await live.feed(*launching(live.plan, 1.0))
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "enter")
        assert ("attach", "llm-7f3") in desk.calls
        assert app.screen.crumbs[-1] == "llm-7f3"
        await press(pilot, "escape")
        await press(pilot, "j", "j", "enter")
        assert ("replay", "llm-7f2") in desk.calls
        assert app.screen.crumbs[-1] == "llm-7f2"


async def test_plan_and_diff_are_texts(open_app: Any, desk: FakeDesk) -> None:
    """y shows the whole plan; space marks one run, d compares it with another."""
    for name, hosts in (("llm-7f2", ("node01", "node02")), ("llm-7f3", ("node03", "node04"))):
        made = desk.plan(name, hosts)
        desk.record(made, launching(made, 1.0))
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "y")
        assert isinstance(app.screen, TextScreen)
        assert "torch" in screen_text(app) or "pytorch" in screen_text(app)
        await press(pilot, "escape")
        await press(pilot, "space", "j", "j", "d")
        assert isinstance(app.screen, TextScreen)
        shot(app, "diff")
        text = screen_text(app)
        assert "llm-7f3 to llm-7f2" in text
        assert "node01" in text


async def test_prune_asks_and_only_takes_what_ended(open_app: Any, desk: FakeDesk) -> None:
    """X on a live run says to stop it first; on an ended one it asks, naming hosts and bytes."""
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "X")
        assert not isinstance(app.screen, Confirm)
        await press(pilot, "j", "j", "X")
        assert isinstance(app.screen, Confirm)
        assert "node[01-02]" in screen_text(app)
        await press(pilot, "right", "enter")
        assert ("prune", "llm-7f2") in desk.calls
        await settle(pilot)
        assert "llm-7f2" not in app.screen.shown


async def test_no_runs_say_what_to_do(open_app: Any, desk: FakeDesk) -> None:
    """An empty history says where runs come from."""
    desk.rows = []
    async with open_app(start="runs") as (app, _):
        assert "no runs yet" in screen_text(app)
        assert app.found == Found((), {})
