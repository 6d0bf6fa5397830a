"""Keys that come faster than the app handles them, as over a slow link or from a paste."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeLive, press, screen_text, settle
from textual.events import Key

from distui.tui.frame.commands import run_command


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (("colon", *"host", "space", *"node03", "enter"), "Hosts › node03"),
        (("slash", *"node03"), "node03"),
        (("3", "slash", *"vit", "enter", "1", "colon", *"runs", "enter"), "vit-2b1"),
        (("question_mark", *"sort", "escape", "2"), "llm-pretrain.yaml"),
    ],
)
async def test_a_burst_of_keys_arrives_where_it_was_meant(open_app: Any, keys: tuple[str, ...], shown: str) -> None:
    """What is typed after `:`, `/` or `?` is text, however fast it comes."""
    async with open_app() as (app, pilot):
        for key in keys:
            character = {"colon": ":", "slash": "/", "question_mark": "?", "space": " "}.get(key, key)
            app.post_message(Key(key, character if len(character) == 1 else None))
        for _ in range(4):
            await settle(pilot)
        assert shown in screen_text(app)
        assert not app._notifications


@pytest.mark.parametrize(("key", "shows"), [("colon", ":"), ("slash", "/"), ("M", "merged log")])
async def test_a_key_that_comes_as_a_screen_opens_is_meant_there(
    open_app: Any, live: FakeLive, key: str, shows: str
) -> None:
    """Its widgets are not there yet: a run is opened when its hosts have answered, whatever is pressed just then."""
    async with open_app() as (app, pilot):
        app.open_run(live)
        await app._check_bindings(key)  # as when the list has got it, and hands it on only now
        await settle(pilot)
        await settle(pilot)
        rows = screen_text(app).splitlines()
        assert any(shows in row for row in (rows[2], rows[-2]))


async def test_a_key_of_the_help_before_it_is_there(open_app: Any) -> None:
    """`?` and an arrow in one burst."""
    async with open_app() as (app, pilot):
        app.action_help()
        assert await app._check_bindings("down", priority=True)
        await settle(pilot)
        assert "keys of Hosts" in screen_text(app)


@pytest.mark.parametrize(("typed", "shown"), [("runs", ""), ("runs /vit", "vit")])
async def test_the_command_of_a_view_leads_from_what_is_open_there_to_its_list(
    open_app: Any, live: FakeLive, typed: str, shown: str
) -> None:
    """As its key does; what is filtered is the list."""
    async with open_app() as (app, pilot):
        app.open_run(live)
        await settle(pilot)
        assert run_command(app.screen, typed) == ""
        await settle(pilot)
        assert app.screen.PLACE == "Runs" and app.screen.filter_text == shown


async def test_what_is_typed_ahead_of_a_shell_starts_no_other_program(
    open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would have the terminal at once; and nothing is done behind its back."""
    started: list[str] = []
    ended = asyncio.Event()

    async def start(*argv: str) -> Any:
        started.append(argv[0])
        return SimpleNamespace(wait=ended.wait)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    async with open_app() as (app, pilot):
        monkeypatch.setattr(app, "suspend", contextlib.nullcontext)
        for key in ("s", "e", "s", "3"):
            app.post_message(Key(key, key))
        for _ in range(4):
            await settle(pilot)
        assert (started, app.current_mode) == (["ssh"], "hosts")
        ended.set()
        await settle(pilot)
        await press(pilot, "3")
        assert app.current_mode == "runs"
