"""What every screen is made from. Screens know the app only by `tui.context.AppLike`."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.events import DescendantFocus
from textual.screen import Screen
from textual.widget import Widget

from distui.tui.frame.actions import Action
from distui.tui.frame.bars import Crumbs, FilterBar, KeyBar, TopBar
from distui.tui.frame.commands import CommandBar
from distui.tui.frame.context import ViewName, app_of, backend_of, work
from distui.tui.frame.keys import actions_here, typing_in
from distui.tui.frame.parts import Part, can
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

if TYPE_CHECKING:
    from distui.monitor.board import Board
    from distui.tui.frame.backend import Backend
    from distui.tui.frame.leaving import Leaving

WIDTHS = [(0, "-w0"), (80, "-w80"), (100, "-w100"), (120, "-w120"), (180, "-w180")]
HEIGHTS = [(0, "-h0"), (24, "-h24"), (30, "-h30"), (45, "-h45")]
"""Classes a screen has from so many columns and rows on; just one of each."""

FILTER = Action("filter", "filter", ("slash",), "View", footer=True, help="Show only rows that contain the text.")
"""For screens with a list: they get `filter_text` and `filter_changed`."""


def _largest(sizes: list[tuple[int, str]], size: int) -> list[str]:
    return [name for least, name in sizes if least <= size][-1:]


class View(Screen[None]):
    """A full screen: bar, crumbs and headline, the body, and the keys at the bottom.

    Subclasses set `VIEW`, `ACTIONS` and `BINDINGS = bindings(ACTIONS)`, compose `compose_body`, and write `crumbs`
    and `headline`. `action_ID` does an action; `command_WORD(argument)`, where it exists, does its `:` command. Either
    may be a method of the screen or of one of its `parts`.
    """

    VIEW: ClassVar[ViewName] = "hosts"
    PLACE: ClassVar[str] = ""
    """What its keys are called in the help, as in the docs."""
    SHOWS_RUNS: ClassVar[bool] = False
    """Whether the runs on the hosts are asked for again and again while it is shown, in whichever view."""
    ACTIONS: ClassVar[tuple[Action, ...]] = ()
    BINDINGS: ClassVar[list[BindingType]] = []
    parts: tuple[Part, ...] = ()
    """What does the actions that the screen does not do itself."""
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    DEFAULT_CSS = """
    View { background: $background; color: $foreground; }
    View > Crumbs { margin: 1 0 1 0; }
    View.-h0 > Crumbs, View.-h24 > Crumbs { margin: 0; }
    View > #body { height: 1fr; width: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.filter_text = ""
        self.main_focus: Widget | None = None
        """The widget of the body that had the keys last."""

    def compose(self) -> ComposeResult:
        """See textual. The classes of the size are there before anything is styled: given by the first resize, as
        textual does, they would have the whole screen styled a second time when it is opened."""
        width, height = self.app.size
        self.add_class(*_largest(WIDTHS, width), *_largest(HEIGHTS, height), update=False)
        yield TopBar()
        yield Crumbs()
        with Vertical(id="body"):
            yield from self.compose_body()
        yield FilterBar()
        yield CommandBar()
        yield KeyBar()

    def compose_body(self) -> ComposeResult:
        """What is between crumbs and keys."""
        yield from ()

    # What subclasses say.

    @property
    def crumbs(self) -> tuple[str, ...]:
        """Where one is; the last part is bold."""
        return (self.VIEW.title(),)

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """Words right after the crumbs, such as a run's state; here what the list is narrowed to."""
        if self.filter_text.strip():
            line.gap(2).put(f"/{self.filter_text}", palette.accent)

    def headline(self, line: Line, palette: Palette) -> None:
        """Paint the totals at the right of the crumbs."""

    def offers(self, action: Action) -> bool:
        """Whether the key row shows an action now; its key works all the same and says why it can't."""
        return True

    def title_of(self, action: Action) -> str:
        """What the key row calls an action now."""
        return action.title

    def filter_changed(self) -> None:
        """`filter_text` has changed; repaint."""

    def choose(self, name: str) -> None:
        """Have the cursor on this when it is listed and gone back to."""

    def undo(self) -> bool:
        """Take back what narrows the screen, when `esc` is pressed; False when there is nothing to take back."""
        if not self.filter_text:
            return False
        self.filter_text = ""
        self.filter_changed()
        self.refresh_bars()
        return True

    def news(self, hosts: frozenset[str]) -> None:
        """Something of these hosts is new on the board, or the list of runs is (empty set). At most every 0.5 s,
        and only while the screen is shown; also called when it is shown again."""

    # What they may use.

    @property
    def backend(self) -> Backend:
        """Everything the app may ask of the core."""
        return backend_of(self)

    @property
    def board(self) -> Board:
        """What the hosts said last."""
        return app_of(self).board

    @property
    def palette(self) -> Palette:
        """The styles of the theme in use."""
        return app_of(self).palette

    @property
    def glyphs(self) -> Glyphs:
        """The signs in use."""
        return app_of(self).glyphs

    @property
    def leaving(self) -> Leaving | None:
        """What the app waits for before it quits."""
        return app_of(self).leaving

    @property
    def keymap(self) -> Mapping[str, str]:
        """Action id -> keys, where the config file moved them."""
        return app_of(self).keymap

    @property
    def typed(self) -> tuple[Widget | None, str] | None:
        """In what one types here, and what stands there; None where nobody does."""
        here = self.focused if self.app.app_focus else self.main_focus  # it has the focus again with the window
        if not typing_in(here):
            return None
        return here, str(getattr(here, "text", None) or getattr(here, "value", ""))

    def may_ask(self, otherwise: str, since: tuple[Widget | None, str] | None) -> bool:
        """Whether a question before which hosts were asked may still be put: where one is elsewhere by then, or has
        typed more than what was `typed` at first, the next keys would answer it. `otherwise` is said instead.
        """
        if self.is_active and self.typed in (None, since):
            return True
        app_of(self).tell(otherwise, level="warning")
        return False

    def refresh_bars(self) -> None:
        """Repaint crumbs, headline and keys."""
        for kind in (TopBar, Crumbs, KeyBar):
            for bar in self.query(kind):
                bar.refresh()

    def work(
        self, job: Coroutine[Any, Any, None], *, name: str, group: str = "", alone: bool = True, ask: str = ""
    ) -> None:
        """See `work`."""
        work(self, job, name=name, group=group, alone=alone, ask=ask)

    # Behaviour.

    @property
    def closing(self) -> bool:
        """Whether its parts go, one by one: at exit they do before its timers and before what brings news."""
        body = self.query_one_optional("#body")
        return body is None or not body.display  # textual says so of all of them before the first one is gone

    def on_screen_resume(self) -> None:
        """What came in while it was hidden."""
        self.news(frozenset(host.name for host in self.backend.hosts))
        self.refresh_bars()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """The keys at hand follow the focus."""
        if self.query_one("#body") in event.widget.ancestors:
            self.main_focus = event.widget
        for bar in self.query(KeyBar):
            bar.refresh()

    def on_filter_bar_changed(self, event: FilterBar.Changed) -> None:
        """The filter's text; when it is done the list has the keys again."""
        self.filter_text = event.text
        self.filter_changed()
        self.refresh_bars()
        if event.done:
            self.focus_back()

    def focus_back(self) -> None:
        """Give the keys back to what had them before a filter or a command was typed."""
        if self.main_focus is not None and self.main_focus.is_attached:
            self.main_focus.focus()
        else:
            self.focus_main()

    def open_command(self, text: str = "") -> None:
        """Open the row for typed commands."""
        self.query_one(CommandBar).open(text)

    def focus_main(self) -> None:
        """Give the keys to the screen's main widget: the first in the body that takes them."""
        for widget in self.query("#body *"):
            if widget.focusable:
                widget.focus()
                return

    def action_filter(self) -> None:
        """Open the filter row."""
        self.query_one(FilterBar).open(self.filter_text)

    async def action_do(self, name: str) -> None:
        """Do one of the actions at hand, where it belongs: the focused widget, what it lies in, the screen, the app."""
        start: DOMNode = self.focused or self
        for node in start.ancestors_with_self:
            if can(node, name):
                await self.app.run_action(name, default_namespace=node)
                return

    def run_later(self, name: str) -> None:
        """Do an action as soon as this screen has the keys again (from the palette)."""
        self.call_later(self.action_do, name)

    def find_action(self, word: str) -> Action | None:
        """The action at hand with that id or `:` command."""
        return next((a for a in actions_here(self) if word in (a.command, a.id)), None)
