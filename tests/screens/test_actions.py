"""The registry of actions: one vocabulary for keys, commands, palette, help and docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import FakeBackend, FakeLive, screen_text, settle

from distui.tui.dialogs.menu import MenuScreen
from distui.tui.dialogs.text import TextScreen
from distui.tui.frame.actions import Action
from distui.tui.frame.keys import actions_here, keys_of
from distui.tui.frame.parts import can
from distui.tui.hosts.screen import HostsScreen
from distui.tui.registry import checked_keymap, keymap_of, places, with_keys_taken, with_table
from distui.tui.widgets.rows import RowList

PAGE = Path(__file__).resolve().parents[2] / "docs/tui.md"


def test_what_changes_something_is_an_uppercase_letter() -> None:
    """No lowercase letter, Ctrl, Backspace or Delete touches a host or a run, anywhere."""
    for title, actions in places():
        for action in actions:
            assert not action.changes or all(len(k) == 1 and k.isupper() for k in action.keys), (title, action)
    with pytest.raises(ValueError, match="uppercase"):
        Action("stop", "stop", ("s",), changes=True)
    with pytest.raises(ValueError, match="uppercase"):
        Action("stop", "stop", ("ctrl+d",), changes=True)


def test_no_key_means_two_things_in_one_place() -> None:
    """Within a place a key belongs to one action."""
    for title, actions in places():
        seen: dict[str, str] = {}
        for action in actions:
            for key in action.keys:
                assert seen.setdefault(key, action.id) == action.id, (title, key)


def test_the_docs_have_the_keys_of_the_registry() -> None:
    """docs/tui.md has the table that `python -m distui.tui.registry` writes."""
    page = PAGE.read_text("utf-8")
    assert page == with_table(page), "run `python -m distui.tui.registry`"


def test_a_keymap_moves_harmless_keys_only() -> None:
    """Unknown actions are named with the nearest one, and what changes something keeps an uppercase letter."""
    good, wrong = checked_keymap({"leave": "Q", "stop": "ctrl+x", "filtr": "f", "prune": "Z"})
    assert good == {"leave": "Q", "prune": "Z"}
    assert any("did you mean filter" in words for words in wrong)
    assert any("stop touches hosts" in words for words in wrong)


@pytest.mark.parametrize(
    ("keymap", "reported"),
    [
        ({"wrap": "w"}, {("w", "why", "wrap")}),  # why has no other key
        ({"wrap": "w", "why": "w"}, {("w", "why", "wrap")}),
        ({"wrap": "w", "why": "b"}, set()),
        ({"filter": "ctrl+f,/"}, set()),  # a page down has another key
        ({"filter": "?"}, {("?", "filter", "help")}),
        ({"show_text": "w"}, set()),  # save is on another screen
        ({"wrap": "w", "only": "w"}, {("w", "only,", "and")}),  # three of them (and wrap), told once
    ],
)
def test_a_key_that_two_actions_want_is_reported(keymap: dict[str, str], reported: set[tuple[str, str, str]]) -> None:
    """With both names; what only takes one key of several is none."""
    _, wrong = keymap_of(keymap)
    assert {(words.split()[1], words.split()[3], words.split()[5]) for words in wrong} == reported


def test_a_key_that_no_keyboard_has_is_reported() -> None:
    """Names are textual's, or the character itself."""
    good, wrong = checked_keymap({"leave": "esc", "filter": "ctrl+f", "sort": "§,f5", "wrap": "ctlr+w"})
    assert good == {"leave": "escape", "filter": "ctrl+f", "sort": "§,f5"}
    assert len(wrong) == 1 and "ctlr+w" in wrong[0]


async def test_complaints_about_the_keymap_are_seen(open_app: Any) -> None:
    """In the corner when the app opens."""
    async with open_app(keymap={"wrap": "w"}) as (app, _):
        assert any("keymap: w is" in note.message for note in app._notifications)


@pytest.mark.parametrize("view", ["hosts", "jobs", "runs", "doctor"])
async def test_every_action_at_hand_can_be_done(open_app: Any, view: str) -> None:
    """Every action the footer and help name has a method where it is found."""
    async with open_app(start=view) as (app, _):
        start = app.screen.focused or app.screen
        for action in actions_here(app.screen):
            assert any(can(node, action.id) for node in start.ancestors_with_self), action.id


async def test_footer_and_help_follow_the_keymap(open_app: Any, backend: FakeBackend) -> None:
    """A moved key is shown and works, and the old one does not."""
    async with open_app(start="jobs", keymap={"show_text": "w"}) as (app, pilot):
        action = next(a for a in actions_here(app.screen) if a.id == "show_text")
        assert keys_of(action, app.keymap) == ("w",)
        assert "w file" in screen_text(app)
        await pilot.press("y")
        await settle(pilot)
        assert app.screen.crumbs == ("Jobs",)
        await pilot.press("w")
        await settle(pilot)
        assert app.screen.crumbs[-1] == "llm-pretrain.yaml"


@pytest.mark.parametrize("key", ["ctrl+f", "slash"])
async def test_a_moved_key_wins_over_that_of_the_list(open_app: Any, key: str) -> None:
    """The page's own example: ctrl+f pages down in lists, and filters once the keymap says so; pgdn still pages."""
    assert "filter: ctrl+f slash" in PAGE.read_text("utf-8")
    async with open_app(start="hosts", keymap={"filter": "ctrl+f,slash"}) as (app, pilot):
        await pilot.press(key, *"node02", "enter")
        await settle(pilot)
        assert app.screen.crumbs[-1] == "/node02"
        action = next(a for a in actions_here(app.screen) if a.id == "page_down")
        assert keys_of(action, app.keymap) == ("pgdn",)


def test_a_key_is_taken_where_both_can_be_meant_and_never_an_action_s_last() -> None:
    """w saves in the launch form, which has no filter; an action with one key keeps it."""
    assert with_keys_taken({"filter": "ctrl+f"}) == {"filter": "ctrl+f", "page_down": "pagedown"}
    assert "save" not in with_keys_taken({"filter": "w"})
    assert with_keys_taken({"filter": "l"})["right"] == "right"  # in a pane of a run


async def test_the_menu_of_actions(open_app: Any) -> None:
    """x lists what can be done here, what touches hosts last; a row or its key does it, esc does nothing."""
    async with open_app((120, 36)) as (app, pilot):
        await pilot.press("j", "x")
        await pilot.pause()
        text = screen_text(app)
        assert isinstance(app.screen, MenuScreen)
        assert "All about the host in words" in text
        assert list(app.screen.actions)[-1] == "launch"
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, HostsScreen)
        await pilot.press("x", "d")
        await settle(pilot)
        assert isinstance(app.screen, TextScreen)
        assert "node02 is up" in screen_text(app)
        await pilot.press("q", "x")
        await pilot.pause()
        app.screen.query_one(RowList).go("reverse")
        await pilot.press("enter")
        await settle(pilot)
        assert app.screen.reverse


async def test_the_menu_changes_nothing_read_only(open_app: Any, backend: FakeBackend) -> None:
    """It is refused as the key is."""
    backend.readonly = True
    async with open_app((120, 36)) as (app, pilot):
        await pilot.press("x", "R")
        await settle(pilot)
        assert isinstance(app.screen, HostsScreen)
        assert "refused" in screen_text(app)


async def test_while_something_is_typed_the_last_row_says_what_works_then(open_app: Any) -> None:
    """Nothing else: not the screen's own keys, no chip, and no `?`, which would be a letter."""
    async with open_app((120, 36)) as (app, pilot):
        assert screen_text(app).splitlines()[-1].split()[-3:] == ["R", "run", "here"]
        await pilot.press("slash")
        await settle(pilot)
        assert screen_text(app).splitlines()[-1].split() == ["enter", "keep", "esc", "clear"]
        await pilot.press("escape", "colon")
        await settle(pilot)
        assert screen_text(app).splitlines()[-1].split()[:4] == ["enter", "do", "it", "tab"]
        assert "help" not in screen_text(app).splitlines()[-1]
        await pilot.press("escape")
        await settle(pilot)
        assert "? help" in screen_text(app).splitlines()[-1]


async def test_enter_in_the_menu_does_what_its_cursor_is_on(open_app: Any, live: FakeLive) -> None:
    """Also where enter is the key of another action there: to the failure."""
    async with open_app((120, 50)) as (app, pilot):
        app.open_run(live)
        await settle(pilot)
        await pilot.press("x")
        await pilot.pause()
        rows = screen_text(app).splitlines()
        assert len({row.find(name) for row in rows for name in ("next pane", "previous pane") if name in row}) == 1
        app.screen.query_one(RowList).go("metrics")
        await pilot.press("enter")
        await settle(pilot)
        assert app.screen.PLACE == "Metrics"
