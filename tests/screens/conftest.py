"""Fixtures of the screens' tests: a backend of values (`fakes.py`), a followed run, the app over them."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fakes import FakeBackend, FakeLive, history, settle
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen
from training import PATTERN

from distui.tui.app import DistuiApp
from distui.tui.registry import keymap_of


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """A backend with six hosts and some history."""
    for name in ("NO_COLOR", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    made = FakeBackend(tmp_path)
    made.rows = history(made)
    return made


@pytest.fixture
def live(backend: FakeBackend) -> FakeLive:
    """The run llm-7f3 of 2 hosts x 8 ranks with a pattern for its progress, followed, nothing has happened yet."""
    return backend.follow(dataclasses.replace(backend.plan(), progress=PATTERN))


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notices stay, and Textual waits for its widgets, on a busy machine too: both go by the clock."""
    notify = DistuiApp.notify

    def notify_for_long(app: DistuiApp, message: str, **more: Any) -> None:
        notify(app, message, **more | {"timeout": 600})

    monkeypatch.setattr(DistuiApp, "notify", notify_for_long)
    monkeypatch.setattr(Pilot._wait_for_screen, "__defaults__", (300.0,))


@pytest.fixture(scope="session", autouse=True)
def rules_once() -> Iterator[None]:
    """Rules of style are parsed once for all apps with the same variables: each parse is a fifth of an app's start."""
    parse, known = Stylesheet._parse_rules, {}

    def parse_once(sheet: Stylesheet, *source: Any, **more: Any) -> list[RuleSet]:
        of = (frozenset(sheet._variables.items()), source, frozenset(more.items()))
        if of not in known:
            known[of] = parse(sheet, *source, **more)
        return known[of]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


@pytest.fixture(autouse=True)
def painted_when_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that is out of date before the test looks is left out, as with a terminal that reads slowly: in front of
    each look the last one is painted. A day of `test_story.py` is painted frame by frame."""
    paint, pause, owed = Screen._compositor_refresh, Pilot.pause, set[Screen[Any]]()

    def paint_later(screen: Screen[Any]) -> None:
        if screen is not screen.app.screen:
            paint(screen)
        else:
            owed.add(screen)
            screen._dirty_widgets.clear()
            screen.app._update_mouse_over(screen)

    async def pause_and_paint(pilot: Pilot[Any], delay: float | None = None) -> None:
        await pause(pilot, delay)
        screen = pilot.app.screen
        if screen in owed:
            paint(screen)
        owed.clear()

    monkeypatch.setattr(Screen, "_compositor_refresh", paint_later)
    monkeypatch.setattr(Pilot, "pause", pause_and_paint)


Open = Callable[..., contextlib.AbstractAsyncContextManager[tuple[DistuiApp, Any]]]


@pytest.fixture
def open_app(backend: FakeBackend) -> Open:
    """Opens the app over `backend`: `async with open_app((80, 24), start="runs") as (app, pilot)`."""

    @contextlib.asynccontextmanager
    async def opened_app(
        size: tuple[int, int] = (120, 36),
        *,
        start: Any = "hosts",
        keymap: Mapping[str, str] | None = None,
        **more: Any,
    ) -> AsyncIterator[tuple[DistuiApp, Any]]:
        app = DistuiApp(backend, start=start, keymap=keymap_of(keymap or {}), **more)
        async with app.run_test(size=size, notifications=True) as pilot:
            await settle(pilot)
            yield app, pilot

    return opened_app
