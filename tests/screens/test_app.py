"""The app around its screens: views, keys, commands, help, dialogs, sizes, themes, errors."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeBackend, FakeLive, failing, launching, press, screen_text, settle, shot
from textual.command import CommandList
from textual.screen import Screen
from textual.widgets import Input
from training import until

from distui.errors import HostUnreachable
from distui.monitor.figures import HostNews
from distui.runs.lines.events import RunEnded
from distui.runs.report.attention import CLEARED, Attention, Terminal
from distui.tui.app import DistuiApp
from distui.tui.dialogs.confirm import Confirm
from distui.tui.dialogs.quit import QuitScreen
from distui.tui.frame.base import View
from distui.tui.frame.context import work
from distui.tui.terminal import clipboard
from distui.tui.widgets.rows import RowList


async def test_jobs_tell_what_is_wrong_at_its_line(open_app: Any) -> None:
    """A job file that can't be read keeps its row, with every problem at its line."""
    async with open_app(start="jobs") as (app, _):
        text = screen_text(app)
        shot(app, "jobs")
        assert "llm-pretrain" in text
        assert "line 3" in text
        assert "did you mean 'image'" in text


async def test_digits_switch_views_and_each_keeps_its_place(open_app: Any) -> None:
    """1 to 4 are the views; a filter typed in one is still there when one comes back."""
    async with open_app() as (app, pilot):
        for key, name in (("2", "jobs"), ("3", "runs"), ("4", "doctor"), ("1", "hosts")):
            await press(pilot, key)
            assert app.current_mode == name
        await press(pilot, "3")
        await press(pilot, "slash", *"vit", "enter")
        await press(pilot, "1")
        await press(pilot, "3")
        assert "vit-2b1" in screen_text(app)
        assert "gloo-01a" not in screen_text(app)
        await press(pilot, "slash", "escape")
        assert "gloo-01a" in screen_text(app)


async def test_commands_are_typed_completed_and_remembered(open_app: Any) -> None:
    """`:` does what its word says; tab completes; up brings the last one back; a wrong word gets the nearest."""
    async with open_app() as (app, pilot):
        await press(pilot, "colon", *"doc")
        await press(pilot, "tab", "enter")
        assert app.current_mode == "doctor"
        await press(pilot, "colon", "up")
        assert app.screen.query_one("CommandBar Input", Input).value == "doctor"
        await press(pilot, "escape")
        await press(pilot, "colon", *"runs /vit", "enter")
        await settle(pilot)
        assert app.current_mode == "runs"
        assert "llm-7f2" not in screen_text(app)
        await press(pilot, "colon", *"dotcor", "enter")
        assert any("did you mean doctor" in str(n.message) for n in app._notifications)
        await press(pilot, "escape", "colon", *"theme light", "enter")
        assert app.theme == "distui-light"


async def test_commands_are_kept_for_the_next_session(open_app: Any, backend: FakeBackend) -> None:
    """In a private file, each once, at most two hundred; up brings back what another session typed."""
    assert backend.history is not None
    backend.history.parent.mkdir(parents=True)
    backend.history.write_text("".join(f"hosts /n{i}\n" for i in range(300)) + "x" * 5000 + "\n")
    async with open_app() as (_, pilot):
        await press(pilot, "colon", *"jobs", "enter")
        await press(pilot, "colon", *"hosts /n299", "enter")
    assert backend.history.stat().st_mode & 0o777 == 0o600
    kept = backend.history.read_text().splitlines()
    assert (len(kept), kept[-3:]) == (200, ["hosts /n298", "jobs", "hosts /n299"])
    async with open_app() as (app, pilot):
        await press(pilot, "colon", "up", "up", "enter")
        assert app.current_mode == "jobs"


async def test_a_wrong_command_can_be_mended(open_app: Any) -> None:
    """The row stays with what was typed; names are completed anywhere, the nearest one is told."""
    async with open_app(start="hosts") as (app, pilot):
        await press(pilot, "colon", *"dotcor", "enter")
        assert app.screen.query_one("CommandBar Input", Input).value == "dotcor"
        await press(pilot, "escape", "colon", *"job llm-p", "tab", "enter")
        assert app.screen.crumbs == ("Jobs", "llm-pretrain.yaml")
        await press(pilot, "colon", *"host node3", "enter")
        assert any("did you mean 'node03'?" in str(n.message) for n in app._notifications)
        await press(pilot, "escape", "colon", *"doctor /infini", "enter")
        await settle(pilot)
        assert app.current_mode == "doctor"
        assert "InfiniBand ports ACTIVE" in screen_text(app)
        assert "disk for image" not in screen_text(app)


async def test_help_shows_the_keys_of_this_place_and_filters(open_app: Any) -> None:
    """`?` lists what the registry has here, what touches hosts apart; typing narrows it."""
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "question_mark")
        text = screen_text(app)
        shot(app, "help")
        assert "Touches the hosts" in text
        assert "always asks first" in text
        await press(pilot, *"prune")
        text = screen_text(app)
        assert "prune" in text
        assert "half a page" not in text
        await press(pilot, "escape")
        assert "FIRST FAILURE" in screen_text(app)


async def test_a_question_names_targets_and_cancel_has_the_focus(open_app: Any, backend: FakeBackend) -> None:
    """Enter on a fresh question changes nothing; the way to yes is one step to the side."""
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "j", "S")
        assert isinstance(app.screen, Confirm)
        shot(app, "confirm")
        text = screen_text(app)
        assert "vit-2b1" in text
        assert "belongs to bob@desk" in text
        await press(pilot, "enter")
        assert not [c for c in backend.calls if c[0] == "stop"]
        await press(pilot, "S")
        await press(pilot, "right", "enter")
        assert ("stop", "vit-2b1", None, "bob@desk") in backend.calls


@pytest.mark.parametrize(
    ("left", "level", "said"),
    [
        ((), "information", "vit-2b1 has ended; nothing of it is left"),
        (
            ("vit-2b1 is still being read to its end",),
            "warning",
            "vit-2b1 is not all gone: vit-2b1 is still being read to its end",
        ),
    ],
)
async def test_what_a_stop_has_left_is_reported(
    open_app: Any, backend: FakeBackend, left: tuple[str, ...], level: str, said: str
) -> None:
    """That nothing is left only where that is so; and before, what is going on. The run is the one of that owner."""
    backend.not_stopped = left
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "j", "S", "right", "enter")
        await until(pilot, lambda: (level, said) in [(n.severity, str(n.message)) for n in app._notifications])
        reported = [str(n.message) for n in app._notifications]
        assert reported[-3:] == ["vit-2b1: stopping", "vit-2b1: 2 tasks left", said]
        assert [call for call in backend.calls if call[0] == "stop"] == [("stop", "vit-2b1", None, "bob@desk")]


async def test_readonly_refuses_what_changes_and_says_so(open_app: Any, backend: FakeBackend) -> None:
    """With --readonly no question even comes up; chips are gone, the bar says why."""
    backend.readonly = True
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "S")
        assert not isinstance(app.screen, Confirm)
        assert any("read-only" in str(n.message) for n in app._notifications)
        assert "read-only" in screen_text(app)
        assert " S  stop" not in screen_text(app)


async def test_what_is_copied_reaches_a_clipboard_or_a_file(
    open_app: Any, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal's; the screen's, too, where one sits at it; a private file when the text is too long for both."""
    monkeypatch.setattr(clipboard, "program", lambda environ: None)
    async with open_app((120, 24)) as (app, pilot):
        app.copy("short")
        assert app.clipboard == "short"
        app.copy("x" * (clipboard.MOST + 1))
        assert app.clipboard == "short"
        assert (backend.history.parent / "copied.txt").stat().st_size == clipboard.MOST + 1
        into = tmp_path / "taken"
        monkeypatch.setattr(clipboard, "program", lambda environ: ("tee", str(into)))
        app.copy("to the screen")
        await until(pilot, lambda: app.clipboard == "to the screen")
        assert into.read_text() == "to the screen"
        monkeypatch.setattr(clipboard, "program", lambda environ: None)
        app.copy("a host's\x1b[201~ words\rmore\n\x9bend")
        assert app.clipboard == "a host's words\N{REPLACEMENT CHARACTER}more\n\N{REPLACEMENT CHARACTER}end"


async def test_errors_of_the_backend_are_words(open_app: Any, backend: FakeBackend) -> None:
    """What the backend raises on purpose is shown as a sentence with what to do, never as a traceback."""
    async with open_app(start="runs") as (app, pilot):
        backend.error = HostUnreachable("node04", "node04 does not answer", hint="ssh -v node04", code="timeout")
        await press(pilot, "r")
        assert app._notifications
        await until(pilot, lambda: "try: ssh -v node04" in screen_text(app))
        shot(app, "notice")
        text = screen_text(app)
        assert "node04 does not answer" in text
        assert "try: ssh -v node04" in text
        assert "Traceback" not in text


@pytest.mark.parametrize("text", ["one\ntwo", "one\ntwo\n"])
async def test_how_many_lines_were_copied(open_app: Any, text: str) -> None:
    """The end of the last one begins no other."""
    async with open_app() as (app, pilot):
        app.copy(text)
        await until(pilot, lambda: "copied 2 lines" in screen_text(app))


async def left(app: Any) -> None:
    """Until the app ends."""
    async with asyncio.timeout(60):
        while not app._exit:  # noqa: ASYNC110 - set by the app itself, without an event
            await asyncio.sleep(0.01)


async def test_quit_without_a_followed_run_asks_nothing(open_app: Any) -> None:
    """q at the top of a view leaves."""
    async with open_app() as (app, pilot):
        await press(pilot, "q")
        assert app.return_code == 0


@pytest.mark.parametrize(("steps", "asked"), [(("right",), []), (("right", "right"), [("stop", None)])])
async def test_quit_does_what_it_says(open_app: Any, live: FakeLive, steps: tuple[str, ...], asked: list[Any]) -> None:
    """Detach leaves the run alone; Stop asks for the stop and leaves once it has ended."""
    await live.feed(*launching(live.plan, 1.0))
    async with open_app() as (app, pilot):
        assert "quit detaches" in screen_text(app)
        await press(pilot, "q")
        assert isinstance(app.screen, QuitScreen)
        shot(app, "quit")
        assert "llm-7f3" in screen_text(app)
        await press(pilot, *steps, "enter")
        assert live.asked == asked
        if asked:
            assert app._exit is False
            await live.feed(*failing(live.plan, 9.0))
        await left(app)


async def test_leaving_waits_for_what_is_being_started(open_app: Any, live: FakeLive) -> None:
    """Detach while a run starts: the bar says what is waited for, q asks again, and it leaves once the run runs."""
    output = launching(live.plan, 1.0)
    await live.feed(*output[:3])
    async with open_app() as (app, pilot):
        await press(pilot, "q")
        assert "What is being started is waited for" in screen_text(app)
        await press(pilot, "right", "enter")
        assert (app._exit, live.asked) == (False, [])
        assert "starting llm-7f3 on 2 hosts: connect; leaves when it runs" in screen_text(app)
        await press(pilot, "q")
        assert "Leave now" in screen_text(app) and "Stop them" in screen_text(app)
        await press(pilot, "escape")
        assert app.leaving is None
        await until(pilot, lambda: "leaves when" not in screen_text(app))
        await press(pilot, "q", "right", "enter")
        await live.feed(*output[3:])
        await left(app)


async def test_leaving_does_not_wait_for_a_run_that_is_only_met(open_app: Any, live: FakeLive) -> None:
    """One that was attached to has begun long ago, also where a host of it has not answered yet."""
    first, *_ = launching(live.plan, 1.0)
    await live.feed(replace(first, adopted=True))
    async with open_app() as (app, pilot):
        await press(pilot, "q")
        assert "is waited for" not in screen_text(app)
        await press(pilot, "right", "enter")
        await left(app)


async def test_quitting_asks_while_a_run_is_removed(open_app: Any, backend: FakeBackend) -> None:
    """A removal, a stop and a pull were given up halfway, without a word."""
    backend.held.clear()
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "j", "j", "X")
        await press(pilot, "tab", "enter")
        await press(pilot, "q")
        assert isinstance(app.screen, Confirm) and "removing llm-7f2" in screen_text(app)
        await press(pilot, "escape")
        assert app._exit is False
        backend.held.set()
        await settle(pilot)
        assert ("pruned", "llm-7f2") in backend.calls
        await press(pilot, "q")
        assert app._exit


@pytest.mark.parametrize("start", ["runs", "doctor"])
async def test_quitting_asks_while_a_run_is_stopped_or_an_image_pulled(
    open_app: Any, backend: FakeBackend, start: str
) -> None:
    """Who says so quits all the same."""
    backend.held.clear()
    async with open_app(start=start) as (app, pilot):
        await settle(pilot)
        if start == "runs":
            await press(pilot, "S", "tab", "enter")
        else:
            app.screen.query_one(RowList).go(next(key for key in app.screen.by_key if key.startswith("image:")))
            await press(pilot, "f", "right", "right", "enter")
        await press(pilot, "q")
        words = {"runs": "stopping llm-7f3", "doctor": "docker pull"}[start]
        assert isinstance(app.screen, Confirm) and words in screen_text(app)
        await press(pilot, "tab", "enter")
        await left(app)


async def test_leaving_can_be_hurried(open_app: Any, live: FakeLive) -> None:
    """While it waits, ctrl+c and q ask again: now, or stop what is being started."""
    await live.feed(*launching(live.plan, 1.0)[:3])
    async with open_app() as (app, pilot):
        await press(pilot, "q", "right", "enter", "ctrl+c")
        assert isinstance(app.screen, QuitScreen)
        await press(pilot, "right", "right", "enter")
        assert live.asked == [("stop", None)] and not app._exit
        await press(pilot, "q", "right", "enter")
        assert app._exit


async def test_leaving_stays_when_asked(open_app: Any, live: FakeLive) -> None:
    """Esc, n or Stay answer the question with nothing."""
    await live.feed(*launching(live.plan, 1.0))
    async with open_app() as (app, pilot):
        for key in ("escape", "n", "enter"):
            await press(pilot, "q")
            await press(pilot, key)
            assert not app._exit
            assert not isinstance(app.screen, QuitScreen)


@pytest.mark.parametrize("view", ["hosts", "jobs", "runs", "doctor"])
async def test_any_size_is_drawn(open_app: Any, backend: FakeBackend, view: str) -> None:
    """From 200x50 to 20x5 and back nothing fails, and no row is wider than the terminal."""
    async with open_app((120, 36), start=view) as (app, pilot):
        for size in ((200, 50), (80, 24), (20, 5), (1, 1), (120, 36)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert len(screen_text(app).splitlines()) <= size[1]
        await press(pilot, "question_mark")
        await pilot.resize_terminal(20, 5)
        await settle(pilot)
        await pilot.resize_terminal(80, 24)
        await press(pilot, "escape")
        assert "distui" in screen_text(app)


def dimmed(app: Any, words: str) -> set[bool]:
    """Whether these words are dim, wherever they stand on the screen; empty where they don't."""
    parts = [part for strip in app.screen._compositor.render_strips() for part in strip]
    return {bool(part.style and part.style.dim) for part in parts if words in part.text}


@pytest.mark.parametrize(("key", "words"), [("question_mark", "Touches the hosts"), ("x", "choose"), ("", "Stop it?")])
async def test_the_view_behind_a_dialog_stays_in_sight_in_16_colours(open_app: Any, key: str, words: str) -> None:
    """It is dim, and what stands before it is not."""
    async with open_app((200, 50), theme="ansi") as (app, pilot):
        assert dimmed(app, "node04") == {False}
        if key:
            await press(pilot, key)
        else:
            app.push_screen(Confirm("Stop it?", ("host  node01",), "Stop"))
            await settle(pilot)
        shot(app, f"over-{key}")
        assert dimmed(app, "node04") == {True}
        assert dimmed(app, words) == {False}


@pytest.mark.parametrize("theme", ["dark", "light", "ansi", "nord", "textual-light"])
async def test_every_theme_has_all_styles(open_app: Any, theme: str) -> None:
    """distui's own colours have a fall-back in every theme, textual's own ones included."""
    async with open_app(theme=theme) as (app, pilot):
        assert app.palette.plain == (theme == "ansi")
        for key in "234":
            await press(pilot, key)
        await press(pilot, "T")
        assert "distui" in screen_text(app)


async def test_no_color_leaves_no_colour(open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR not one cell has a colour; the cursor and states are still there."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app(start="runs") as (app, _):
        styles = {s.style for strip in app.screen._compositor.render_strips() for s in strip if s.style}
        filtered = [f.apply(list(strip), app.screen.styles.background) for strip in [] for f in app.get_line_filters()]
        assert not filtered
        assert app.palette.plain
        assert styles
        assert "▌" in screen_text(app)


@pytest.mark.parametrize("key", ["pagedown", "pageup"])
async def test_the_palette_takes_a_page_key_before_it_is_painted(open_app: Any, key: str) -> None:
    """In a burst of keys it comes between what was found and its first row."""
    async with open_app() as (app, pilot):
        await press(pilot, "ctrl+p")
        found = app.screen.query_one(CommandList)
        await until(pilot, lambda: found.highlighted is not None)
        found.display = False
        await settle(pilot)
        found._clear_caches()
        await press(pilot, key)
        found.display = True
        await press(pilot, "escape")
        assert isinstance(app.screen, View)


async def test_in_ascii_the_palette_has_signs_of_its_own(open_app: Any) -> None:
    """Its border and what stands before the words that are searched; `?` is for letters that have none."""
    async with open_app(ascii=True) as (app, pilot):
        await press(pilot, "ctrl+p")
        assert "?" not in screen_text(app).replace("(?)", "")


async def test_ascii_shows_nothing_but_ascii(open_app: Any) -> None:
    """With --ascii every cell of every view is ASCII."""
    async with open_app(ascii=True) as (app, pilot):
        for key in "1234":
            await press(pilot, key)
            odd = {c for c in screen_text(app) if ord(c) > 126}
            assert not odd, (key, odd)


async def test_news_reach_the_view_that_is_shown(open_app: Any, backend: FakeBackend) -> None:
    """A host that is lost says so in its row, in words."""
    async with open_app() as (app, pilot):
        await backend.say(HostNews("node03", "lost", "node03: connection reset by peer"))
        await settle(pilot)
        assert "connection reset" in screen_text(app)


async def test_the_palette_finds_actions_runs_and_themes(open_app: Any) -> None:
    """ctrl+p offers what can be done here, and places to go to."""
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "ctrl+p")
        await pilot.press(*"theme nord")
        found = app.screen.query_one(CommandList)
        await until(pilot, lambda: found.highlighted is not None and "nord" in str(found.highlighted_option.prompt))
        await press(pilot, "enter")
        await press(pilot, "enter")
        await until(pilot, lambda: app.theme == "nord")


async def test_clicks_do_what_keys_do(open_app: Any) -> None:
    """A click on a tab opens the view, one on a row moves the cursor, one on a key does its action."""
    async with open_app() as (app, pilot):
        await pilot.click("TopBar", offset=(28, 0))
        await settle(pilot)
        assert app.current_mode == "runs"
        await pilot.click("RowList", offset=(10, 2))
        await settle(pilot)
        assert app.screen.chosen.run == "llm-7f2"
        column = screen_text(app).splitlines()[-1].index("? help")
        await pilot.click("KeyBar", offset=(column, 0))
        await settle(pilot)
        assert "type to find" in screen_text(app)


async def test_work_given_up_before_its_first_step_leaves_no_complaint(
    open_app: Any, recwarn: pytest.WarningsRecorder
) -> None:
    """Doctor asks for images as it opens; an app that is closed at once never begins with it, and nobody need know.

    Neither now nor when the process ends, which would complain of what something still holds until then.
    """

    async def job() -> None:
        raise AssertionError("it is given up before it begins")

    replaced, given_up, asked_last = job(), job(), job()
    async with open_app(start="doctor") as (app, _):
        work(app.screen, replaced, name="images")
        work(app.screen, given_up, name="images")
        app.workers.cancel_group(app.screen, "images")
        work(app, asked_last, name="runs")
        app.workers.cancel_all()
    assert [inspect.getcoroutinestate(each) for each in (replaced, given_up, asked_last)] == ["CORO_CLOSED"] * 3
    gc.collect()
    assert [str(w.message) for w in recwarn if "never awaited" in str(w.message)] == []


async def test_the_terminal_rings_when_a_run_ends_that_nobody_looks_at(open_app: Any, live: FakeLive) -> None:
    """Once, whatever is open; the app writes beside its own pictures, and takes progress away when it goes."""
    written: list[str] = []
    await live.feed(*launching(live.plan, 1.0))
    async with open_app() as (app, _):
        paint, app._driver.write = app._driver.write, written.append
        app._attention = Attention(Terminal(bell=True, progress=True))  # from here on, and by no clock of the app's own
        app._attend()
        assert written == ["\x1b]9;4;3;0\x07"]
        await live.feed(RunEnded(9.0, "failed", 1))
        app._attend()
        app._attend()
        assert written[1:] == ["\x07" + CLEARED]
        app._driver.write = paint


async def test_the_hosts_are_not_asked_for_runs_by_an_app_that_has_ended(open_app: Any, backend: FakeBackend) -> None:
    """Its timer may still tick when the screens are gone."""
    async with open_app() as (app, _):
        pass
    assert not app.screen_stack
    app._ask_runs_again()


def test_an_input_may_be_made_before_the_first_screen_is_there(backend: FakeBackend) -> None:
    """With Textual's eager tasks (Python 3.12 and later) it asks for this then: the app did not start."""
    app = DistuiApp(backend)
    assert not app.screen_stack
    app.clear_selection()


async def test_a_screen_has_the_classes_of_its_size_before_it_is_styled(
    open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening one gives it no others, which would style all that is in it again; another size does."""
    changed, update = Counter[str](), Screen.update_classes

    def noted(screen: Screen[Any], classes: Any, update_: bool = True, animate: bool = True) -> Screen[Any]:
        before = screen.classes
        done = update(screen, classes, update_, animate)
        changed[screen.crumbs[0]] += before != screen.classes
        return done

    monkeypatch.setattr(Screen, "update_classes", noted)
    async with open_app((80, 24)) as (app, pilot):
        await press(pilot, "2")
        assert changed == {"Hosts": 0, "Jobs": 0}
        assert {"-w80", "-h24"} <= app.screen.classes
        await pilot.resize_terminal(100, 45)
        await settle(pilot)
        assert {"-w100", "-h45"} <= app.screen.classes
        assert app.screen.classes.isdisjoint({"-w80", "-h24"})


@pytest.mark.parametrize("view", ["hosts", "jobs", "runs", "doctor"])
async def test_a_filter_that_was_kept_stands_at_the_top(open_app: Any, view: str) -> None:
    """Else a list without half of its rows looks like all there is."""
    async with open_app(start=view) as (app, pilot):
        await press(pilot, "slash", *"o1", "enter")
        assert "/o1" in screen_text(app).splitlines()[2]
