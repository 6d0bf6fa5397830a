"""The rows every screen has: the bar at the top, crumbs and headline, filter, and the keys at the bottom."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, Static

from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.context import ViewLike, app_of, backend_of, glyphs_of, palette_of, view_of
from distui.tui.frame.keys import actions_here, actions_of, keys_of, typing_here
from distui.tui.paint.paint import Line, cut_host, cut_name
from distui.tui.paint.steady import Steady
from distui.tui.paint.theme import Palette

VIEWS = ("Hosts", "Jobs", "Runs", "Doctor")
SHORTEST = 20
"""Columns that a name keeps among the crumbs."""


class Bar(Steady):
    """A widget of one row, painted by `line`."""

    DEFAULT_CSS = "Bar { height: 1; width: 1fr; }"
    auto_links = False

    def line(self, width: int, palette: Palette) -> Line:
        """The row at this width."""
        return Line()

    def painted_row(self, y: int) -> Strip:
        """See Steady."""
        palette = palette_of(self)
        return self.line(self.size.width, palette).cut(self.size.width).strip(self.size.width, self.rich_style)

    @property
    def view(self) -> ViewLike:
        """The screen it is on."""
        return view_of(self)


class TopBar(Bar):
    """Name, the four views, the inventory's file and the clock. Says so when quitting would detach."""

    DEFAULT_CSS = "TopBar { background: $surface; }"

    def on_mount(self) -> None:
        """The clock moves once a second."""
        self.set_interval(1.0, self._tick)

    def _tick(self) -> None:
        """Below a screen that covers it nobody sees the clock, and textual would paint that screen again for it."""
        stack = self.app.screen_stack
        above = stack[stack.index(self.screen) + 1 :] if self.screen in stack else stack
        if all(screen.is_modal for screen in above):
            self.refresh_changed()

    def line(self, width: int, palette: Palette) -> Line:
        """See Bar."""
        line = Line().gap(1).put("distui", palette.key).gap(1)
        keys = {action.id: keys_of(action, app_of(self).keymap)[0] for action in actions_of(self.app)}
        for title in VIEWS:
            key = keys.get(f"view_{title.lower()}", "")
            here = title.lower() == self.view.VIEW
            tab = (
                Line().gap(1).put(key, palette.faint).gap(1).put(title, palette.bold if here else palette.muted).gap(1)
            )
            click = {"@click": f"app.view('{title.lower()}')"}
            for text, style in tab.pieces:
                base = palette.tab_fill if here else palette.bar_fill
                line.put(text, base + style + base.from_meta(click))
        return line.ends_with(self._right(width - line.width - 2, palette), width)

    def _right(self, room: int, palette: Palette) -> Line:
        clock, leaving = time.strftime("%H:%M:%S"), app_of(self).leaving
        if leaving is not None:
            return Line().put(leaving.words(), palette.watch).cut(max(0, room - 1)).gap(1)
        words = backend_of(self).title
        if backend_of(self).following and not backend_of(self).stop_on_exit:
            words = "quit detaches, runs go on"
        if backend_of(self).readonly:
            words = f"read-only  {words}"
        if len(words) + len(clock) + 4 <= room:
            return Line().put(words, palette.muted).gap(3).put(clock, palette.faint).gap(1)
        return Line().put(clock, palette.faint).gap(1) if room > 10 else Line()


class Crumbs(Bar):
    """Where one is, and the screen's headline at the right."""

    def line(self, width: int, palette: Palette) -> Line:
        """See Bar. A long name is shortened before a figure goes; then the crumbs win over the headline."""
        glyphs = glyphs_of(self)
        after, head = Line(), Line()
        self.view.after_crumbs(after, palette)
        self.view.headline(head, palette)
        room = width - after.width - head.width - (4 if head.width else 1)
        hosts = {host.name for host in backend_of(self).hosts}
        *path, last = _shortened(self.view.crumbs or ("",), room, hosts)
        line = Line().gap(1)
        for part in path:
            line.put(part, palette.muted).put(f" {glyphs.more} ", palette.faint)
        line.put(last, palette.bold).add(after)
        room = width - line.width - 3
        return line.ends_with(head.cut(max(0, room)).gap(1), width) if room > 4 else line


def _shortened(crumbs: Sequence[str], room: int, hosts: Collection[str]) -> tuple[str, ...]:
    """The crumbs with the longest one in what the others leave of so many columns, or in SHORTEST."""
    longest = max(crumbs, key=cell_len)
    others = sum(map(cell_len, crumbs)) - cell_len(longest) + 3 * (len(crumbs) - 1)
    short = (cut_host if longest in hosts else cut_name)(longest, max(SHORTEST, room - others))
    return tuple(short if crumb == longest else crumb for crumb in crumbs)


class KeyBar(Bar):
    """The keys at hand: harmless ones at the left, those that touch a host or a run as chips at the right."""

    DEFAULT_CSS = "KeyBar { background: $surface; }"

    def line(self, width: int, palette: Palette) -> Line:
        """See Bar. What does not fit is left out from the right; `? help` stays, unless `?` would be typed."""
        typing = typing_here(self.screen)
        shown = [a for a in typing or actions_here(self.screen) if a.footer and self.view.offers(a)]
        right = self._chips([a for a in shown if a.changes], palette)
        plain = [a for a in shown if not a.changes and a.id != "help"]
        line, room = Line().gap(1), width - right.width - (11 if right.width else 9)
        for action in plain:
            piece = self._word(action, palette)
            if line.width + piece.width > room:
                continue
            line.add(piece).gap(3)
        if not typing:
            line.put("?", palette.key, click="app.help").gap(1).put("help", palette.muted, click="app.help")
        return line.ends_with(right, width) if 0 < right.width < width - 8 else line

    def _word(self, action: Action, palette: Palette) -> Line:
        click = f"screen.do('{action.id}')"
        key = keys_of(action, app_of(self).keymap)[0]
        return (
            Line().put(key, palette.key, click=click).gap(1).put(self.view.title_of(action), palette.muted, click=click)
        )

    def _chips(self, actions: list[Action], palette: Palette) -> Line:
        line = Line()
        if backend_of(self).readonly:
            return line
        for action in actions:
            click = f"screen.do('{action.id}')"
            key = keys_of(action, app_of(self).keymap)[0]
            line.put(f" {key} ", palette.chip, click=click).gap(1).put(action.title, palette.muted, click=click).gap(2)
        return line


class FilterBar(Horizontal):
    """The row in which a filter is typed; it takes effect with every key."""

    TYPES = True
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("keep", "keep", ("enter",), footer=True, help="Keep the filter, and give the keys back to the list."),
        Action("dismiss", "clear", ("escape",), footer=True, help="No filter."),
    )

    DEFAULT_CSS = """
    FilterBar { height: 1; display: none; background: $surface; }
    FilterBar.-open { display: block; }
    FilterBar Static { width: auto; padding: 0 1; color: $accent; text-style: bold; }
    FilterBar Input { border: none; height: 1; padding: 0; background: $surface; width: 1fr; }
    FilterBar Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    class Changed(Message):
        """The filter's text now; `done` when it was accepted or given up."""

        def __init__(self, text: str, *, done: bool = False) -> None:
            super().__init__()
            self.text = text
            self.done = done

    def __init__(self, sign: str = "/") -> None:
        super().__init__()
        self.sign = sign

    def compose(self) -> ComposeResult:
        """See textual."""
        yield Static(self.sign)
        yield Input(placeholder="type to filter", compact=True)

    def open(self, text: str) -> None:
        """Show the row and put the cursor in it."""
        self.add_class("-open")
        field = self.query_one(Input)
        field.value = text
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Every key filters."""
        event.stop()
        if self.has_class("-open"):
            self.post_message(self.Changed(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.action_keep()

    def action_keep(self) -> None:
        """The filter stays, the row goes."""
        self.remove_class("-open")
        self.post_message(self.Changed(self.query_one(Input).value, done=True))

    def action_dismiss(self) -> None:
        """The filter goes, too."""
        self.remove_class("-open")
        self.post_message(self.Changed("", done=True))
