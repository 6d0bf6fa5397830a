"""Every action of the registry does what the help says: by its keys, as a `:` command, and from the palette."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import effects_metrics  # noqa: F401  # registers checks
import effects_run  # noqa: F401  # registers checks
import effects_views  # noqa: F401
import pytest
from arriving import arrive, opened
from every_key import CHANGING, EFFECTS, Case, do
from fakes import FakeBackend, settle

from distui import tui
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.palette import Actions
from distui.tui.frame.parts import Part, with_parts
from distui.tui.registry import places
from distui.tui.terminal import shell

PLACES = dict(places())
OPENS = {("Lists", "choose")}
"""What enter on a row of a list does is checked where the list is."""
QUIET = {("Hosts", "launch")}
"""It opens the form, which asks before it starts anything."""


@pytest.fixture
def lent(backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Programs that had the terminal; the working folder is the backend's."""
    found: list[tuple[str, ...]] = []

    async def outside(app: Any, argv: tuple[str, ...]) -> int:
        found.append(argv)
        return 0

    monkeypatch.setattr(shell, "outside", outside)
    monkeypatch.setenv("VISUAL", "my-editor")
    monkeypatch.chdir(tmp_path)
    return found


def checked(place: str, action: Action) -> None:
    """AssertionError when nobody says what it does."""
    assert (place, action.id) in EFFECTS or (place, action.id) in OPENS, f"no check of {place}: {action.id}"


async def tried(case: Case, place: str, action: Action) -> None:
    """Press its first key and check the effect."""
    if (place, action.id) in OPENS:
        return
    await arrive(case, place, action.id)
    asks = action.changes and (place, action.id) not in QUIET
    await do(case, EFFECTS[place, action.id], lambda: case.press(action.keys[0]), asks=asks)


OWN_APP = ("Hosts", "Jobs", "Runs", "Doctor", "Everywhere")
"""Their screens stay as long as the app does, so each action has an app of its own."""


@pytest.mark.parametrize(
    ("place", "action"), [pytest.param(p, a, id=f"{p}: {a.id}") for p in OWN_APP for a in PLACES[p]]
)
async def test_every_key_of_a_view(place: str, action: Action, open_app: Any, backend: FakeBackend, lent: Any) -> None:
    """It does what the help says; what changes something asks first, and Cancel is no."""
    checked(place, action)
    async with opened(open_app, backend, lent) as case:
        await tried(case, place, action)


TOGETHER = 6
"""Actions that are tried in one app: a test that tries all of a screen with many would take minutes."""


def in_parts() -> Iterator[Any]:
    """The actions of each place whose screens are opened again each time, some at a time."""
    for place in (place for place in PLACES if place not in OWN_APP):
        for part, actions in enumerate(batched(PLACES[place], TOGETHER), 1):
            yield pytest.param(place, actions, id=f"{place}, {part}")


def batched(actions: Sequence[Action], size: int) -> list[Sequence[Action]]:
    return [actions[begin : begin + size] for begin in range(0, len(actions), size)]


@pytest.mark.parametrize(("place", "actions"), list(in_parts()))
async def test_every_key_of_a_screen(
    place: str, actions: Sequence[Action], open_app: Any, backend: FakeBackend, lent: Any
) -> None:
    """The same for screens that are opened again each time, some actions in one app."""
    wrong = []
    async with opened(open_app, backend, lent) as case:
        for action in actions:
            checked(place, action)
            try:
                await tried(case, place, action)
            except AssertionError as error:
                wrong.append(f"{action.keys[0]} ({action.id}): {error}")
    assert not wrong, "\n\n".join(wrong)


def spied(case: Case, place: str, action: Action, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes when the action is done, instead of doing it."""
    done: list[str] = []
    start = case.screen.focused or case.screen
    everyone = (one for node in start.ancestors_with_self for one in with_parts(node))
    doer = next(one for one in everyone if hasattr(one, f"action_{action.id}"))
    monkeypatch.setattr(doer, f"action_{action.id}", lambda: done.append(action.id))
    return done


@pytest.mark.parametrize("place", list(PLACES))
async def test_other_keys_commands_and_the_palette_do_the_same(
    place: str, open_app: Any, backend: FakeBackend, lent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second key of an action, its word after `:` and its line in the palette come to the same method."""
    async with opened(open_app, backend, lent) as case:
        await arrive(case, place)
        for action in PLACES[place]:
            ways: dict[str, Callable[[], Any]] = {key: lambda key=key: case.press(key) for key in action.keys[1:]}
            if action.command and not own_word(case, action.command):
                ways[f":{action.command}"] = lambda action=action: typed(case, action.command)
            if action.group != "Move" and place != "Lists":
                ways["palette"] = lambda action=action: picked(case, action)
            for way, go in ways.items():
                with monkeypatch.context() as patch:
                    done = spied(case, place, action, patch)
                    await go()
                    await case.until(lambda done=done: done)
                    assert done == [action.id], (place, action.id, way)


def own_word(case: Case, word: str) -> bool:
    """Whether the word takes an argument, and so has a method of its own."""
    start = case.screen.focused or case.screen
    everyone = (one for node in start.ancestors_with_self for one in with_parts(node))
    return any(hasattr(one, f"command_{word}") for one in everyone)


async def typed(case: Case, word: str) -> None:
    """`:word` and enter."""
    case.screen.open_command(word)
    await case.pilot.pause()
    await case.press("enter")


async def picked(case: Case, action: Action) -> None:
    """The action's line in the palette."""
    line = next(do for title, _, do in Actions(case.screen)._found() if title.startswith(f"{action.title}  ("))
    line()
    await settle(case.pilot)


async def test_read_only_refuses_what_changes_something(
    open_app: Any, backend: FakeBackend, lent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every screen, by key, by command and by the palette: words, no question, and the backend is not asked."""
    async with opened(open_app, backend, lent) as case:
        backend.readonly = True
        for place, actions in PLACES.items():
            for action in (a for a in actions if a.changes):
                await arrive(case, place, action.id)
                for go in (
                    lambda action=action: case.press(action.keys[0]),
                    lambda action=action: typed(case, action.command),
                    lambda action=action: picked(case, action),
                ):
                    case.app.clear_notifications()
                    here = case.screen
                    await go()
                    await case.until(lambda: "refused: distui was started read-only" in case.notified)
                    assert case.screen is here, (place, action.id)
        assert not [call for call in backend.calls if call[0] in CHANGING]
        assert not case.live.asked


def test_every_screen_and_part_is_in_a_place_of_the_registry() -> None:
    """What the help, the docs and these checks know of is all there is."""
    found = set()
    for module in pkgutil.walk_packages(tui.__path__, "distui.tui."):
        for kind in vars(import_module(module.name)).values():
            if inspect.isclass(kind) and issubclass(kind, View | Part) and kind.__module__ == module.name:
                found |= {action.id for action in kind.__dict__.get("ACTIONS", ())}
    known = {action.id for actions in PLACES.values() for action in actions}
    assert found <= known
