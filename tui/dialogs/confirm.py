"""The question before something changes: exact targets, and Cancel has the focus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Input, Static

from distui.regex import regex
from distui.runs.launch import gpu_users
from distui.runs.launch.gpu_users import GpuUser
from distui.runs.lines.text import safe
from distui.tui.dialogs.keys import DialogKeys, Keys
from distui.tui.dialogs.over import Over
from distui.tui.frame.context import palette_of
from distui.tui.paint.theme import Palette

BOX = """
{kind} {{ align: center middle; background: $background 60%; }}
{kind}:ansi {{ background: transparent; }}
{kind} > Vertical {{
    width: 76; max-width: 100%; height: auto; max-height: 100%; background: $panel; padding: 1 3;
}}
{kind}.-h0 > Vertical {{ padding: 0 1; }}
{kind} .title {{ text-style: bold; height: auto; dock: top; }}
{kind} .lines {{ height: auto; max-height: 1fr; margin: 1 0; color: $muted; }}
{kind}.-h0 .lines {{ margin: 0; }}
{kind} .end {{ height: auto; dock: bottom; }}
{kind} Horizontal {{ height: 1; align-horizontal: right; }}
{kind} Button {{
    border: none; height: 1; min-width: 10; margin: 0 0 0 2; background: $rule !important; color: $foreground;
}}
{kind} Button:focus {{ background: $accent !important; color: $background; text-style: bold !important; }}
{kind}:ansi Button:focus {{
    background: ansi_default !important; color: ansi_default; text-style: bold reverse !important;
}}
"""
"""How dialogs look, with `kind` as the class's name."""

HEIGHTS = [(0, "-h0"), (14, "-h14")]


_TOLD = regex(r"(?P<label>!(?= )|\w+(?=  )|(?= {4}))\s+(?P<value>\S.*)")
"""`hosts    node[01-02]`, `! rank 0 is alone`, and what goes on below a label."""


def lines_of(lines: Sequence[str], palette: Palette) -> Group:
    """The lines of a question: what stands behind a label wraps below itself; a `!` is a warning."""
    found = [(line, _TOLD.match(line)) for line in lines]
    width = max((match.start("value") for _, match in found if match is not None), default=0)
    parts: list[Table | Text] = []
    for line, match in found:
        if match is None:
            parts.append(Text(line, palette.muted))
            continue
        warned = match["label"] == "!"
        grid = Table.grid()
        grid.add_column(width=2 if warned else width)
        grid.add_column(ratio=1)
        grid.add_row(
            Text(match["label"], palette.watch if warned else palette.muted),
            Text(match["value"], palette.watch if warned else palette.text),
        )
        parts.append(grid)
    return Group(*parts)


SHARE = ("share", "S  Share them")
"""The answer that starts a run on GPUs that others use."""


def launch_buttons(yes: str, users: Sequence[GpuUser]) -> tuple[tuple[str, str], ...]:
    """Under the question before a start: while others have its GPUs it can only share them."""
    return (("cancel", "Cancel"), SHARE if users else ("yes", yes))


def users_lines(users: Sequence[GpuUser]) -> tuple[str, ...]:
    """Who has the GPUs, and what sharing them means."""
    if not users:
        return ()
    effect = "Sharing takes memory and speed from both; nothing is stopped for it."
    return (*(f"! {words}" for words in gpu_users.user_lines(users)), effect, "")


class Dialog(Over[str]):
    """A question with buttons in a row; `esc`, `n` and `q` answer nothing. Dismisses with a button's id, or ""."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "press('share')", show=False),
        Binding("pagedown,ctrl+d,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+u,ctrl+b", "page(-1)", show=False),
        Binding("escape,n,q", "answer('')", show=False),
        Binding("right,l,down,j", "app.focus_next", show=False),
        Binding("left,h,up,k", "app.focus_previous", show=False),
    ]
    VERTICAL_BREAKPOINTS = HEIGHTS
    DEFAULT_CSS = BOX.format(kind="Dialog")

    def __init__(self, title: str, lines: tuple[str, ...], buttons: tuple[tuple[str, str], ...]) -> None:
        super().__init__()
        self.asked = safe(title)
        self.lines = tuple(safe(line) for line in lines)
        self.buttons = buttons

    def compose(self) -> ComposeResult:
        """See textual."""
        with Vertical():
            yield Static(self.asked, classes="title", markup=False)
            with VerticalScroll(classes="lines", can_focus=False):
                yield Static(lines_of(self.lines, palette_of(self)))
            with Vertical(classes="end"):
                yield from self.compose_more()
                with Horizontal():
                    for name, label in self.buttons:
                        yield Button(label, id=name, compact=True)
        yield DialogKeys(self.keys)

    def keys(self) -> Keys:
        """What works now. Scrolling is named where there is something to scroll, sharing where it is an answer."""
        leave = self.buttons[0][1].lower()
        if isinstance(self.focused, Input):
            return (("enter", "to the buttons"), ("esc", leave))
        share = ("S", "share them") if SHARE in self.buttons else None
        scroll = ("pgdn", "read on") if self.query_one(".lines", VerticalScroll).max_scroll_y else None
        others = ("left right", "choose") if len(self.buttons) > 1 else None
        shown = (("enter", "press it"), others, share, scroll, ("esc", leave))
        return tuple(key for key in shown if key is not None)

    def compose_more(self) -> ComposeResult:
        """What a question has above its buttons."""
        yield from ()

    def on_mount(self) -> None:
        """The first button has the focus: the harmless one."""
        self.query(Button).first().focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer; Cancel is none."""
        name = event.button.id or ""
        self.dismiss("" if name == "cancel" else name)

    def action_page(self, step: int) -> None:
        """Through lines that have not all room."""
        lines = self.query_one(".lines", VerticalScroll)
        lines.scroll_relative(y=step * lines.size.height, animate=False)

    def action_press(self, name: str) -> None:
        """A button by its key, where this question has it."""
        for button in self.query(f"#{name}").results(Button):
            button.press()

    def action_answer(self, word: str) -> None:
        """Answer by key."""
        self.dismiss(word)


class Confirm(Dialog):
    """Yes or no; dismisses with `yes`, `share` where others have the GPUs that would be used, or ""."""

    def __init__(self, title: str, lines: tuple[str, ...], yes: str, users: Sequence[GpuUser] = ()) -> None:
        super().__init__(title, (*users_lines(users), *lines), launch_buttons(yes, users))
