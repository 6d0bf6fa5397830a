"""No screen is wider or higher than the terminal, nothing overlaps, and where one is and what can be done is said."""

from __future__ import annotations

from typing import Any

import pytest
from arriving import arrive, opened
from every_key import Case
from fakes import FakeBackend, FakeLive, screen_text, settle
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Button, Input

from distui.runs.launch.gpu_users import GpuUser
from distui.tui.dialogs.confirm import Confirm, Dialog
from distui.tui.dialogs.help import HelpScreen
from distui.tui.frame.bars import Crumbs, KeyBar
from distui.tui.frame.base import View
from distui.tui.frame.keys import typing_here
from distui.tui.registry import places
from distui.tui.widgets.rows import RowList

SIZES = [(80, 24), (120, 36), (200, 50)]
PLACES = [(title, "") for title, _ in places() if title not in ("Lists", "Everywhere")] + [("One run", "jump")]
OVER = ["question_mark", "x", "ctrl+q"]
"""Keys that open something over the screen."""


def shown(case: Case) -> list[str]:
    """The rows of the screen as they are sent to the terminal, not cut by the test."""
    strips = case.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def overlaps(parent: Widget) -> list[str]:
    """Widgets that lie in one place and cover each other."""
    found = []
    seen: list[tuple[Widget, Region]] = []
    for child in parent.children:
        if not child.display or not child.region or child.styles.layer or child.styles.overlay != "none":
            continue
        region = child.region
        found += [f"{child!r} covers {other!r}" for other, taken in seen if region.overlaps(taken)]
        seen.append((child, region))
        found += overlaps(child)
    return found


def outside(case: Case) -> list[str]:
    """Widgets that stick out of the terminal though nothing they are in scrolls."""
    return [
        repr(widget)
        for widget in case.screen.query("*")
        if widget.display
        and widget.region
        and not any(above.is_scrollable for above in widget.ancestors if isinstance(above, Widget))
        and not case.screen.region.contains_region(widget.region)
    ]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_nothing_is_cut_off_or_overlaps(
    size: tuple[int, int], open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every screen, and with help, menu and the question for leaving over it; from 120x36 on help has no second
    page."""
    monkeypatch.chdir(backend.folder)
    async with opened(open_app, backend, [], size=size) as case:
        for place, action in PLACES:
            await arrive(case, place, action)
            name = f"{place} {action}"
            assert isinstance(case.screen, View), name
            check_size(case, size, name)
            rows = shown(case)
            where = case.screen.crumbs[-1]
            assert any(where in row for row in rows[1:3]), (name, rows[:3])
            typing = bool(typing_here(case.screen))
            assert typing or "? help" in rows[-1], name
            assert "…" not in rows[-1], name
            for bar in (Crumbs, KeyBar):
                assert case.screen.query_one(bar).region.height == 1, name
            for key in () if typing else OVER:
                await case.press(key)
                check_size(case, size, f"{name} {key}")
                if isinstance(case.screen, HelpScreen):
                    cut = [line.plain for line in case.screen._lines if "…" in line.plain]
                    assert not cut, (name, cut)
                    assert size[0] < 120 or case.screen.query_one(RowList).max_scroll_y == 0, f"{name}: help scrolls"
                await case.press("escape")


def check_size(case: Case, size: tuple[int, int], name: str) -> None:
    """Every row is as wide as the terminal, and nothing covers or leaves anything."""
    rows = shown(case)
    assert len(rows) == size[1], name
    assert {cell_len(row) for row in rows} == {size[0]}, (name, [row for row in rows if cell_len(row) != size[0]])
    assert not overlaps(case.screen), name
    assert not outside(case), name


@pytest.mark.parametrize("size", [*SIZES, (80, 12)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_long_question_keeps_its_buttons(size: tuple[int, int], open_app: Any) -> None:
    """Its lines scroll by keys above them, and nothing covers them."""
    lines = tuple(f"line {number}" for number in range(60))
    async with open_app(size) as (app, pilot):
        app.push_screen(Confirm("Really?", lines, "Do it"))
        await settle(pilot)
        assert all(app.screen.region.contains_region(button.region) for button in app.screen.query(Button))
        assert overlaps(app.screen) == []
        await pilot.press(*["pagedown"] * 10)
        await settle(pilot)
        text = screen_text(app)
        assert "line 59" in text and "line 0\n" not in text
        assert "Really?" in text and "Do it" in text


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("opened_by", "keys", "behind"),
    [
        (["ctrl+q"], " enter press it   left right choose   esc stay", "help"),
        (["x"], " enter do it   up down choose   a row's key does it, too   esc close", "? help"),
        (["question_mark"], " type to find a key or an action   up down scroll   esc close", "? help"),
        (["ctrl+p"], " type to find an action, host or run   up down choose   enter do it   esc close", "? help"),
        (["2", "n"], " enter begin with it   up down choose   esc back", "? help"),
    ],
    ids=["question", "menu", "help", "palette", "templates"],
)
async def test_the_last_row_has_the_keys_of_what_lies_over_the_screen(
    size: tuple[int, int], opened_by: list[str], keys: str, behind: str, open_app: Any, live: FakeLive
) -> None:
    """And nothing else: the keys of the screen behind do nothing then."""
    async with open_app(size) as (app, pilot):
        assert behind in screen_text(app).splitlines()[-1]
        for key in opened_by:
            await pilot.press(key)
            await settle(pilot)
        assert app.screen.is_modal
        assert overlaps(app.screen) == []
        assert screen_text(app).splitlines()[-1].rstrip() == keys
        await pilot.press("escape")
        await settle(pilot)
        assert behind in screen_text(app).splitlines()[-1]


async def test_a_question_says_which_keys_it_has_now(open_app: Any) -> None:
    """To read on where lines are hidden, to share GPUs where that is an answer, other ones where something is typed."""
    users = (GpuUser("node01", "GPU 0 is used by run r1"),)
    async with open_app((80, 24)) as (app, pilot):
        app.push_screen(Confirm("Really?", tuple(map(str, range(60))), "Do it", users))
        await settle(pilot)
        assert "S share them   pgdn read on   esc cancel" in screen_text(app).splitlines()[-1]
        await pilot.press("escape")
        app.push_screen(Named("Really?", (), (("cancel", "Cancel"), ("yes", "Do it"))))
        await settle(pilot)
        assert screen_text(app).splitlines()[-1].rstrip() == " enter press it   left right choose   esc cancel"
        app.screen.query_one(Input).focus()
        await settle(pilot)
        assert screen_text(app).splitlines()[-1].rstrip() == " enter to the buttons   esc cancel"


class Named(Dialog):
    """A question that wants something typed."""

    def compose_more(self) -> ComposeResult:
        """See Dialog."""
        yield Input()
