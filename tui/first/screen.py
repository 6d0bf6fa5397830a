"""What one sees who has no hosts.yaml yet: hosts that other tools know, whether they answer, and the demo."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize

from distui.amounts import counted
from distui.cluster.hosts.first_hosts import Answer, FirstHost, FirstHosts
from distui.errors import DistuiError
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import app_of
from distui.tui.paint.paint import Line, cut
from distui.tui.paint.theme import Palette
from distui.tui.widgets.painted import Painted
from distui.tui.widgets.rows import RowList

NAME_MOST, WHERE_MOST, REMARKS_MOST = 32, 28, 6
TRIED = "Tried: a connection to each ssh port, closed at its greeting; nobody logs in."


Outcome = Literal["hosts", "demo"]


class Start(Protocol):
    """What the screen works at."""

    found: FirstHosts
    target: str
    """The file that will be written."""

    async def ask(self, hosts: Sequence[FirstHost], on_answer: Callable[[str, Answer], None]) -> None:
        """Whether these hosts answer; bounded in time and number."""

    def write(self, names: Sequence[str]) -> None:
        """Write hosts.yaml with these hosts. Raises DistuiError."""


class FirstRows(RowList):
    """The hosts, to be picked."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("choose", "write hosts.yaml", ("enter",), "Move", footer=True,
               help="Write hosts.yaml with the hosts that are picked, and go on with a new job."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)


class FirstScreen(View):
    """space picks, enter writes hosts.yaml; `a` names hosts that stand nowhere, `d` opens the demo."""

    PLACE = "First start"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("pick", "pick", ("space",), "Move", footer=True, help="Pick the host, or not, and go on to the next."),
        Action("pick_all", "pick all", ("A",), "Move", footer=True,
               help="All shown that answer or are behind a jump host, but for servers of git and jump hosts; "
               "a second time none."),
        Action("add", "add by name", ("a",), "View", footer=True,
               help="Hosts that no file names: `:add node[01-04]`, `:add ubuntu@10.0.0.7:2222`."),
        Action("demo", "demo", ("d",), "View", "demo", footer=True,
               help="Two hosts made on this machine, with jobs to try; they go when it is left."),
        Action("try_again", "try again", ("r", "p"), "View", "try", help="Whether the hosts answer, once more."),
        FILTER,
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)
    DEFAULT_CSS = """
    FirstScreen #about { height: auto; margin: 0 0 1 0; }
    FirstScreen RowList { height: 1fr; }
    FirstScreen #remarks { height: auto; max-height: 6; }
    """

    def __init__(self, start: Start, done: Callable[[Outcome], None]) -> None:
        super().__init__()
        self.start = start
        self.done = done
        """Called when hosts.yaml is written, or when the demo is wanted."""
        self.picked: frozenset[str] = frozenset()
        self.answers: dict[str, Answer] = {}
        self._hosts: dict[str, FirstHost] = {}

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Painted(self._about, id="about")
        yield FirstRows(self._paint)
        yield Painted(self._remarks, id="remarks")

    def on_mount(self) -> None:
        """Show what was found, and try whether it answers."""
        self._fit_remarks(self.app.size.width)
        self._show()
        self._try(self.start.found.hosts)

    def on_resize(self, event: Resize) -> None:
        """What was looked for takes as many rows as it needs."""
        self.query_one("#about").styles.height = len(self._about(event.size.width, 9))
        self._fit_remarks(event.size.width)

    def _fit_remarks(self, width: int) -> None:
        """As many rows as they need, within reason."""
        self.query_one("#remarks").styles.height = len(self._remarks(width, REMARKS_MOST))

    @property
    def rows(self) -> FirstRows:
        """The list."""
        return self.query_one(FirstRows)

    @property
    def crumbs(self) -> tuple[str, ...]:
        """See View."""
        return ("Hosts", "first start")

    def headline(self, line: Line, palette: Palette) -> None:
        """How many are picked, and how many answer."""
        answer = sum(one.state == "yes" for one in self.answers.values())
        line.put(len(self.picked), palette.bold).put(" picked", palette.muted).gap(3)
        line.put(answer, palette.bold).put(f" of {counted(len(self.start.found.hosts), 'host')} answer", palette.muted)

    def offers(self, action: Action) -> bool:
        """See View: without a host there is none to pick, to look for or to try; what is written is what was picked."""
        if action.id == "choose":
            return bool(self.picked)
        return bool(self.start.found.hosts) or action.id not in ("pick", "pick_all", "filter", "try_again")

    def filter_changed(self) -> None:
        """Only hosts with the text in their row."""
        self._show()

    def _show(self) -> None:
        wanted = self.filter_text.lower()
        kept = [one for one in self.start.found.hosts if wanted in f"{one.name} {one.source}".lower()]
        self._hosts = {one.name: one for one in kept}
        self.rows.set_rows(tuple(self._hosts))
        self._changed()

    def _changed(self) -> None:
        self.rows.repaint()
        self.refresh_bars()

    # Painting.

    def _about(self, width: int, height: int) -> list[Line]:
        palette, found = self.palette, self.start.found
        if found.hosts:
            where = " and ".join(dict.fromkeys(one.source for one in found.hosts if one.source != "typed"))
            stand = f"These hosts stand in {where}." if where else "These hosts were added by name."
            first = _wrapped(f"There is no hosts.yaml yet. {stand}", width, palette)
            keys = [("space", "picks"), ("enter", f"writes {self.start.target} with them"), ("d", "opens the demo")]
            return [*first, _keys(keys, palette), Line().gap(1).put(TRIED, palette.muted)]
        where = " and ".join(found.looked) or "~/.ssh/config, an Ansible inventory or a hostfile here"
        first = _wrapped(f"There is no hosts.yaml yet, and no host in {where}.", width, palette)
        keys = [("a", "adds hosts by name"), ("d", "opens the demo: two hosts made on this machine")]
        return [*first, _keys(keys, palette), Line()]

    def _remarks(self, width: int, height: int) -> list[Line]:
        rows = [row for words in self.start.found.remarks for row in textwrap.wrap(words, max(20, width - 2))]
        return [Line().gap(1).put(row, self.palette.watch) for row in rows[:height]]

    def _paint(self, number: int, width: int, here: bool) -> Line:
        palette, glyphs = self.palette, self.glyphs
        one = self._hosts[self.rows.rows[number].key]
        picked = one.name in self.picked
        name = min(NAME_MOST, max(map(len, self._hosts)))
        line = Line().gap(1).put(glyphs.mark if picked else " ", palette.key).gap(1)
        answer = self.answers.get(one.name)
        state = answer.state if answer else "through"
        sign = {"yes": glyphs.up, "no": glyphs.bad, "through": glyphs.starting}[state]
        style = {"yes": palette.good, "no": palette.wrong, "through": palette.muted}[state]
        line.put(sign, style).gap(1).host(one.name, palette.bold if here or picked else palette.text, width=name).gap(2)
        if where := min(WHERE_MOST, max(len(_where(host)) for host in self._hosts.values())):
            line.put(_where(one), palette.muted, width=where).gap(2)
        words = answer.words if answer else f"asking{glyphs.ellipsis}"
        words = f"{words}, {one.host.aside}" if one.host.aside else words
        room = width - line.width - len(one.source) - 4
        line.put(cut(words, room), palette.wrong if answer and answer.state == "no" else palette.muted)
        return line.ends_with(Line().put(one.source, palette.faint), width - 1)

    # Answers.

    def _try(self, hosts: Sequence[FirstHost]) -> None:
        for one in hosts:
            self.answers.pop(one.name, None)
        if hosts:
            self.work(self.start.ask(hosts, self._answered), name="ask", alone=False)
        self._changed()

    def _answered(self, name: str, answer: Answer) -> None:
        if self.is_running and not self.closing:
            self.answers[name] = answer
            self._changed()

    # Actions.

    def action_pick(self) -> None:
        """Pick or unpick, and go on."""
        if self.rows.key:
            self.picked ^= {self.rows.key}
            self.rows.action_down()
            self._changed()

    def action_pick_all(self) -> None:
        """All that answer or can't be tried and are to run on, or none."""
        states = {name: answer.state for name, answer in self.answers.items()}
        good = frozenset(
            name for name, one in self._hosts.items() if states.get(name) in ("yes", "through") and not one.host.aside
        )
        if not good:
            app_of(self).tell("none of these answers; space picks a host all the same", level="warning")
        self.picked = self.picked - good if good <= self.picked else self.picked | good
        self._changed()

    def action_add(self) -> None:
        """The row for commands, with the word."""
        self.open_command("add ")

    def command_add(self, argument: str) -> None:
        """`:add node[01-04]` picks them, too."""
        try:
            self.start.found = self.start.found.with_typed(argument)
        except DistuiError as error:
            app_of(self).tell_error(error)
            self.open_command(f"add {argument}")
            return
        new = [one for one in self.start.found.hosts if one.name in self.start.found.typed]
        self.picked |= {one.name for one in new}
        self._show()
        if new:
            self.rows.go(new[0].name)
        self._try(new)
        about = self.query_one("#about", Painted)
        about.styles.height = len(self._about(self.size.width, 9))
        about.repaint()

    def action_try_again(self) -> None:
        """All that are shown."""
        self._try(tuple(self._hosts.values()))

    @on(RowList.Chosen)
    def _write(self) -> None:
        if not self.picked:
            app_of(self).tell("space picks hosts; enter then writes hosts.yaml with them", level="warning")
            return
        try:
            self.start.write([one.name for one in self.start.found.hosts if one.name in self.picked])
        except DistuiError as error:
            app_of(self).tell_error(error)
        else:
            self.done("hosts")

    def action_demo(self) -> None:
        """Leave for the demo."""
        self.done("demo")


def _where(one: FirstHost) -> str:
    """`ubuntu@10.0.0.7:2222`, as far as the file says it."""
    given = one.host.settings
    user, addr, port = given.get("user"), given.get("addr"), given.get("port")
    addr = f"[{addr}]" if port and addr and ":" in str(addr) else addr
    at = f"{user}@" if user else ""
    return f"{at}{addr or (one.name if user or port else '')}{f':{port}' if port else ''}"


def _wrapped(words: str, width: int, palette: Palette) -> list[Line]:
    return [Line().gap(1).put(row, palette.text) for row in textwrap.wrap(words, max(20, width - 2))]


def _keys(keys: Sequence[tuple[str, str]], palette: Palette) -> Line:
    line = Line().gap(1)
    for key, words in keys:
        line.put(key, palette.key).put(f" {words}", palette.muted).gap(3)
    return line
