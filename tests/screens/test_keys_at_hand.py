"""Which keys the footer offers, what the help finds, and where the keys of the views lead."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import FakeBackend, FakeLive, failing, screen_text, settle
from textual.widgets import Input

from distui.tui.app import DistuiApp
from distui.tui.frame.base import View
from distui.tui.registry import places
from distui.tui.widgets.rows import RowList


def footer(app: DistuiApp) -> str:
    """The last row."""
    return screen_text(app).splitlines()[-1]


# The footer.


@pytest.mark.parametrize("count", [1, 2])
async def test_the_next_job_is_offered_where_there_is_another(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """With one job the key does nothing."""
    listed = backend.jobs()[:count]
    monkeypatch.setattr(backend, "jobs", lambda: listed)
    async with open_app(start="jobs") as (app, pilot):
        app.open_launch(listed[0], ())
        await settle(pilot)
        assert ("next job" in footer(app)) == (count > 1)


async def test_doctor_offers_what_to_do_where_something_is_wrong(open_app: Any, backend: FakeBackend) -> None:
    """f on a finding, n where there is one at all."""
    async with open_app(start="doctor") as (app, pilot):
        await pilot.press("n")
        await settle(pilot)
        assert "next finding" in footer(app) and "how to fix" in footer(app)
        bad = {"warn", "fail", "pull"}
        rows = app.screen.by_key.values()
        fine = next(row.check for row in rows if bad.isdisjoint(found.verdict for found in row.findings))
        app.screen.query_one(RowList).go(fine.id)
        await settle(pilot)
        assert "next finding" in footer(app) and "how to fix" not in footer(app)
        app.screen.filter_text = fine.title
        app.screen.filter_changed()
        app.screen.refresh_bars()
        await settle(pilot)
        assert "next finding" not in footer(app) and "how to fix" not in footer(app)


async def test_the_only_rank_that_failed_is_not_gone_to_again(
    open_app: Any, live: FakeLive, backend: FakeBackend
) -> None:
    """It is shown already; from another one n leads there."""
    await live.feed(*failing(live.plan, 1.0, log_dir=str(live.stored.path)))
    async with open_app() as (app, pilot):
        app.open_run(live)
        await settle(pilot)
        assert app.screen.panes.log_pane.rank == 13 and "next failure" not in footer(app)
        app.screen.failures.command_number(3)
        await settle(pilot)
        app.screen._tick()
        await settle(pilot)
        assert "next failure" in footer(app)


# The help.


async def reported(pilot: Any, *typed: str) -> str:
    """What the help shows for what is typed."""
    await pilot.press("question_mark")
    await settle(pilot)
    if typed:
        pilot.app.screen.query_one(Input).value = " ".join(typed)
        await settle(pilot)
    return screen_text(pilot.app)


@pytest.mark.parametrize("wanted", ["culprit", "stalled", "Stalled  rank"])
async def test_the_help_finds_a_key_by_what_people_call_it(open_app: Any, live: FakeLive, wanted: str) -> None:
    """`n culprit` of the footer, and what a run is that stands still."""
    async with open_app() as (app, pilot):
        app.open_run(live)
        await settle(pilot)
        text = await reported(pilot, wanted)
        assert "n  the next line that matches; without a search" in text
        assert "nothing matches" not in text


async def test_the_help_says_that_it_found_nothing(open_app: Any) -> None:
    """Instead of an empty box."""
    async with open_app() as (_, pilot):
        assert "nothing matches" in await reported(pilot, "teleport")


async def test_a_key_stands_once_in_the_help(open_app: Any, live: FakeLive) -> None:
    """In a run enter shows the rank of the list that has the keys, and does nothing else."""
    async with open_app((120, 50)) as (app, pilot):
        app.open_run(live)
        await settle(pilot)
        app.screen.panes.ranks.list.focus()
        await settle(pilot)
        text = await reported(pilot)
        assert "show in pane" in text and "to the failure" not in text


async def test_of_a_list_the_help_tells_what_enter_does_there(open_app: Any) -> None:
    """Not only that it opens something."""
    async with open_app(start="runs") as (_, pilot):
        text = await reported(pilot)
        assert "follow it if it lives" in text and "enter  open" not in text


async def test_the_help_names_its_place(open_app: Any, live: FakeLive) -> None:
    """Metrics' is not that of Runs."""
    async with open_app() as (app, pilot):
        app.open_run(live)
        await settle(pilot)
        await app.run_action("screen.metrics")
        await settle(pilot)
        assert "keys of Metrics" in await reported(pilot)


def test_every_view_is_called_in_the_help_as_in_the_docs() -> None:
    """By the registry's titles."""
    titles = {title for title, _ in places()}
    views = [kind for kind in _kinds(View) if kind.__module__.startswith("distui.tui")]
    assert len(views) > 10
    assert {kind.PLACE for kind in views} <= titles
    assert len({kind.PLACE for kind in views}) == len(views)


def _kinds(kind: type[View]) -> list[type[View]]:
    return [found for below in kind.__subclasses__() for found in (below, *_kinds(below))]


# Keys of the config file.


async def test_the_bar_has_the_keys_of_the_views(open_app: Any) -> None:
    """As the config file gives them."""
    async with open_app(keymap={"view_hosts": "9"}) as (app, pilot):
        assert "9 Hosts  2 Jobs" in screen_text(app)
        await pilot.press("2")
        await settle(pilot)
        await pilot.press("1")
        await settle(pilot)
        assert app.current_mode == "jobs"
        await pilot.press("9")
        await settle(pilot)
        assert app.current_mode == "hosts"


async def test_complaints_about_many_keys_are_one_notice(open_app: Any) -> None:
    """None of them above the screen; who wants all of them is told where."""
    keymap = {f"nothing{letter}": "f" for letter in "abcdefgh"}
    async with open_app(keymap=keymap) as (app, _):
        (note,) = [note for note in app._notifications if "keymap" in note.message]
        assert "no action nothinga" in note.message and "no action nothinge" in note.message
        assert note.message.endswith("and 3 more: `distui config validate` names them")


# The keys of the views.


async def test_the_key_of_a_view_twice_leads_to_its_list(open_app: Any, live: FakeLive) -> None:
    """Once to what was open there."""
    async with open_app() as (app, pilot):
        app.open_run(live)
        await settle(pilot)
        await pilot.press("1")
        await settle(pilot)
        await pilot.press("3")
        await settle(pilot)
        assert app.screen.PLACE == "One run"
        await pilot.press("3")
        await settle(pilot)
        assert app.screen.PLACE == "Runs"
        app.open_host("node03")
        await settle(pilot)
        await pilot.press("1")
        await settle(pilot)
        assert app.screen.PLACE == "Hosts"


async def test_out_of_a_run_the_cursor_is_on_it(open_app: Any, live: FakeLive, backend: FakeBackend) -> None:
    """S, R and X are for that one, though it was listed only after it was opened."""
    later, backend.rows = backend.rows, [row for row in backend.rows if row.run != live.plan.run_id]
    async with open_app(start="runs") as (app, pilot):
        await pilot.press("G")
        app.open_run(live)
        await settle(pilot)
        backend.rows = [row for row in later if row.run != live.plan.run_id] + [
            row for row in later if row.run == live.plan.run_id
        ]
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen.query_one(RowList).key == live.plan.run_id
        await pilot.press("g")
        app.ask_runs()
        await settle(pilot)
        assert app.screen.query_one(RowList).at == 0
