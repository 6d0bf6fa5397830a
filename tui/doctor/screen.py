"""Doctor: what would break, where, and what to do about it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from distui.amounts import clock, counted, plural
from distui.doctor.checks import check_hosts, counts, problems
from distui.doctor.finding import CheckRow, Finding, report_text
from distui.doctor.images import Images
from distui.doctor.reach import ReachReport
from distui.doctor.reach_check import REACH, reach_table
from distui.facts.host import HostFacts, ProbeResult
from distui.tui.doctor.fixing import Fixing
from distui.tui.doctor.matrix import Matrix, check_width
from distui.tui.doctor.proofs import Proofs
from distui.tui.doctor.smoke import Smoke
from distui.tui.frame import files
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import ViewName, app_of, backend_of, glyphs_of, palette_of
from distui.tui.paint import figures
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.widgets.panel import Panel
from distui.tui.widgets.rows import Row, RowList

FRESH_S = 15.0
"""Findings that are older are asked for again when the screen is opened."""
MOST_HOSTS = 8
"""With more hosts only columns that are not `ok` everywhere stay."""


class DoctorScreen(View):
    """A matrix of checks and hosts; below it, what the finding under the cursor saw, means and asks for."""

    VIEW: ClassVar[ViewName] = "doctor"
    PLACE: ClassVar[str] = "Doctor"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action(
            "evidence",
            "evidence",
            ("enter",),
            "View",
            footer=True,
            help="The row in full: every host, what was seen and run; who reaches whom.",
        ),
        Action(
            "next_finding",
            "next finding",
            ("n", "right_square_bracket"),
            "View",
            footer=True,
            help="To the next warning or failure.",
        ),
        Action(
            "prev_finding", "finding before", ("left_square_bracket",), "View", help="To the warning or failure before."
        ),
        *Fixing.ACTIONS,
        Action("next_host", "next host", ("l", "right", "tab"), "Move", footer=True, help="The next host's finding."),
        Action("prev_host", "host before", ("h", "left", "shift+tab"), "Move", help="The finding of the host before."),
        Action("probe", "probe again", ("p", "r"), "View", "probe", footer=True, help="Ask every host again."),
        Action("text", "as text", ("y",), "View", footer=True, help="Every finding as a text to read."),
        Action("report", "copy report", ("c",), "View", "report", help="Every finding as text."),
        Action("save", "save report", ("W",), "View", "save", footer=True, help="Every finding into a file here."),
        FILTER,
        *Smoke.ACTIONS,
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(self) -> None:
        super().__init__()
        self.smoke = Smoke(self, lambda: self.up, lambda: self._check())
        self.fixing = Fixing(self, lambda: self.finding, self._ask)
        self.parts = (self.smoke, self.fixing)
        self.checked: tuple[CheckRow, ...] = ()
        self.images: Images = {}
        self.reach: ReachReport | None = None
        self.proofs = Proofs()
        self._asked = False
        self._opened = True
        """Whether the view was switched to, and has not been seen since."""
        self.host_at = 0
        self.by_key: dict[str, CheckRow] = {}
        self.columns: tuple[str, ...] = ()

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Panel(lambda width: [self._matrix.head()], id="head")
        yield RowList(self._paint)
        yield Panel(self._detail, id="detail")

    DEFAULT_CSS = """
    DoctorScreen RowList { height: 1fr; }
    DoctorScreen #head { height: 1; }
    DoctorScreen #detail { height: auto; min-height: 6; max-height: 12; margin: 1 0 0 0; }
    DoctorScreen.-h0 #detail { display: none; }
    DoctorScreen.-h24 #detail { margin: 0; min-height: 5; max-height: 7; }
    """

    def on_mount(self) -> None:
        """The age of the findings is reported as it grows."""
        self.set_interval(5.0, self.refresh_bars)
        self.app.mode_change_signal.subscribe(self, self._switched, immediate=True)

    def _switched(self, mode: str) -> None:
        self._opened = mode == self.VIEW

    def on_screen_resume(self) -> None:
        """What was found long ago is asked for again when the view is opened; it stays, with its age, until the
        answers are there. Not when a text or a question over it is closed: rows would change under the cursor.

        Before all else: who reaches whom is proved after the probes, which would see that proof's listener.
        """
        opened, self._opened = self._opened, False
        if opened and not self._asking and self.taken is not None and time.time() - self.taken > FRESH_S:
            self._ask_all()
        super().on_screen_resume()

    @property
    def _asking(self) -> bool:
        """Whether hosts are asked now, or the smoke goes on: that would be found on them."""
        return bool(self.smoke.pairs) or any(host.probing for host in self.board.hosts.values())

    @property
    def taken(self) -> float | None:
        """When the oldest of the findings was taken."""
        known = [at for name in self.results if (at := self.board[name].probed_at) is not None]
        return min(known, default=None)

    def after_crumbs(self, line: Line, palette: Palette) -> None:
        """When the findings were taken, and how old they are."""
        if self.taken is not None:
            old = max(0.0, time.time() - self.taken)
            message = f"{clock(self.taken)}, {figures.ago(old)}"
            line.gap(2).put(message, palette.watch if old > FRESH_S else palette.muted)
        super().after_crumbs(line, palette)

    def _ask(self) -> None:
        """What a probe does not tell: images, and who reaches whom."""
        self._asked = True
        self.work(self._ask_images(), name="images")
        self.work(self._ask_reach(), name="reach")

    async def _ask_images(self) -> None:
        self.images = await self.backend.images()
        self._check()

    async def _ask_reach(self) -> None:
        with self.proofs.listening():
            self.reach = await self.backend.reach()
        self._check()

    def news(self, hosts: frozenset[str]) -> None:
        """Probes came in; once all have, the hosts are asked for the rest."""
        if not self._asked and not self._asking and len(self.results) == len(self.backend.hosts):
            self._ask()
        self._check()

    # The rows.

    @property
    def results(self) -> dict[str, ProbeResult]:
        """The newest probe of each host, in the inventory's order."""
        known = self.backend.facts
        return {host.name: known[host.name] for host in self.backend.hosts if host.name in known}

    def _check(self) -> None:
        ours = [task.id for run in app_of(self).found.runs for task in run.tasks]
        uses = [use for host in self.board.hosts.values() for use in host.uses]
        given: dict[str, set[int]] = {}
        for use in (use for use in uses if not use.container):
            given.setdefault(use.host, set()).update(use.gpus)
        self.checked = check_hosts(
            self.results,
            images=self.images,
            ours=[*ours, *(use.container for use in uses if use.container)],
            given=given,
            proving=self._proving(),
            reach=self.reach,
            more=self.smoke.rows(),
            hosts=self.backend.hosts,
        )
        self.filter_changed()
        self.refresh_bars()

    def _proving(self) -> tuple[str, ...]:
        """The hosts that were asked while distui listened on them."""
        known = ((name, self.board[name].probed_at) for name in self.results)
        return tuple(name for name, at in known if at is not None and self.proofs.during(at))

    @property
    def up(self) -> tuple[str, ...]:
        """The hosts that answered."""
        return tuple(host for host, found in self.results.items() if isinstance(found, HostFacts))

    def filter_changed(self) -> None:
        """Only checks with the text, or with a finding on a host with it."""
        wanted = self.filter_text.lower()
        shown = [row for row in self.checked if wanted in _searched(row)]
        self.by_key = {row.check.id: row for row in shown}
        self.columns = self._columns(shown)
        self.host_at = min(self.host_at, max(0, len(self.columns) - 1))
        rows: list[Row] = []
        group = ""
        for row in shown:
            if row.check.group != group:
                group = row.check.group
                rows.append(Row(f"={group}", plain=True))
            rows.append(Row(row.check.id))
        if not self.results:
            rows.append(Row("?", plain=True))
        self.query_one(RowList).set_rows(rows)
        self._repaint()

    def _columns(self, rows: Sequence[CheckRow]) -> tuple[str, ...]:
        hosts = tuple(self.results)
        if len(hosts) <= MOST_HOSTS:
            return hosts
        odd = {f.host for row in rows for f in row.findings if f.verdict not in ("ok", "skip")}
        return tuple(host for host in hosts if host in odd)

    @property
    def _matrix(self) -> Matrix:
        """As it is painted now."""
        width = self.app.size.width
        checks = check_width(width, len(self.columns), self.by_key.values())
        return Matrix(width, self.columns, len(self.results), self.host_at, checks, self.palette)

    def _paint(self, number: int, width: int, here: bool) -> Line:
        key, palette = self.query_one(RowList).rows[number].key, self.palette
        if key == "?":
            return Line().gap(3).put("no host has answered yet", palette.muted)
        if key.startswith("="):
            return Line().gap(1).put(key[1:], palette.bold)
        return self._matrix.row(self.by_key[key], self.reach, here=here)

    # The finding under the cursor.

    @property
    def finding(self) -> Finding | None:
        """Of the row under the cursor: the chosen host's, or the gravest when that one has nothing to say."""
        row = self.by_key.get(self.query_one(RowList).key)
        if row is None:
            return None
        host = self.columns[self.host_at] if self.columns else ""
        own = next((f for f in row.findings if f.host == host), None)
        if own is not None and (own.verdict in ("warn", "fail", "pull") or row.verdict == "ok"):
            return own
        return row.worst or next((f for f in row.findings if f.verdict == "pull"), own)

    def _detail(self, width: int) -> list[Line]:
        palette, glyphs, found = palette_of(self), glyphs_of(self), self.finding
        if found is None:
            return []
        row = self.by_key[found.check]
        bad = list(problems(self.checked))
        at = next((i for i, (_, f) in enumerate(bad) if f == found), None)
        title = Line().gap(1).put(row.check.title, palette.bold).gap(2).put(found.host, palette.muted)
        if (at_ := self._taken_at(found)) is not None:
            title.gap(2).put(f"asked {clock(at_)}", palette.faint)
        right = (
            Line()
            .put(f"{at + 1} of {len(bad)}" if at is not None else counted(len(bad), "finding"), palette.muted)
            .gap(1)
        )
        lines = [title.rule(width - right.width - 2, palette.rule, glyphs.rule).ends_with(right, width, gap=1), Line()]
        for label, words in (("saw", found.saw), ("means", found.means), ("do", found.do), ("ran", row.check.ran)):
            style = palette.text if found.verdict in ("warn", "fail") and label != "ran" else palette.muted
            for i, part in enumerate(wrap(words, max(10, width - 12))):
                lines.append(Line().put("" if i else label, palette.faint, width=8, right=True).gap(2).put(part, style))
        return lines if self.size.height >= 30 else [lines[0], *lines[2:]]

    def _taken_at(self, found: Finding) -> float | None:
        """When this one was taken: of who reaches whom, when the newest proof ended."""
        if found.check == REACH.id:
            return self.proofs.ended
        return self.board[found.host].probed_at if found.host in self.board.hosts else None

    def headline(self, line: Line, palette: Palette) -> None:
        """How many findings there are of each kind."""
        total = counts(self.checked)
        line.put(total["ok"], palette.bold).put(" ok", palette.muted)
        warned = plural(total["warn"], "warning")
        for verdict, words, style in (
            ("pull", "to pull", palette.bold), ("warn", warned, palette.watch), ("fail", "failed", palette.wrong)
        ):  # fmt: skip
            if total[verdict]:
                line.gap(3).put(total[verdict], style).put(f" {words}", palette.muted)
        if self.smoke.pairs:
            line.gap(3).put(f"smoke {len(self.smoke.done)} of {self.smoke.pairs}", palette.accent)
        asking = len(self.backend.hosts) - len(self.results)
        if asking:
            line.gap(3).put(asking, palette.bold).put(" not probed yet", palette.muted)

    # Actions.

    @on(RowList.Moved)
    def _repaint(self) -> None:
        for panel in self.query(Panel):
            panel.refresh(layout=True)
        self.refresh_bars()

    def offers(self, action: Action) -> bool:
        """See View: what goes to findings where there are some, how to fix one where the cursor is on it."""
        if action.id == "fix":
            return self.fixing.needed
        return bool(self._places) or action.id not in ("next_finding", "prev_finding")

    @property
    def _places(self) -> list[tuple[CheckRow, Finding]]:
        """The warnings and failures that are shown."""
        return [(row, f) for row in self.by_key.values() for f in row.findings if f.verdict in ("warn", "fail")]

    def action_next_finding(self) -> None:
        """The next one, around the end."""
        self._jump(1)

    def action_prev_finding(self) -> None:
        """The one before, around the start."""
        self._jump(-1)

    def _jump(self, step: int) -> None:
        places = self._places
        if not places:
            app_of(self).tell("nothing is wrong")
            return
        now = self.finding
        at = next((i for i, (_, f) in enumerate(places) if f == now), -1 if step > 0 else 0)
        row, found = places[(at + step) % len(places)]
        if found.host in self.columns:
            self.host_at = self.columns.index(found.host)
        rows = self.query_one(RowList)
        rows.go(row.check.id)
        rows.repaint()
        self._repaint()

    def action_next_host(self) -> None:
        """One column to the right."""
        self._choose_host(1)

    def action_prev_host(self) -> None:
        """One column to the left."""
        self._choose_host(-1)

    def _choose_host(self, step: int) -> None:
        self.host_at = max(0, min(self.host_at + step, len(self.columns) - 1))
        self.query_one(RowList).repaint()
        self._repaint()

    @on(RowList.Chosen)
    def action_evidence(self) -> None:
        """The row under the cursor in full; of the row about reach who reaches whom."""
        row = self.by_key.get(self.query_one(RowList).key)
        if row is None:
            return
        if row.check.id == REACH.id and self.reach is not None:
            app_of(self).open_text("who reaches whom", reach_table(self.reach, tuple(self.results)))
        else:
            app_of(self).open_text(row.check.title, report_text([row], all_=True))

    def action_text(self) -> None:
        """Everything as text."""
        app_of(self).open_text("findings", self._report())

    def action_probe(self) -> None:
        """Ask every host again; and when all have answered for images, and who reaches whom."""
        if self.smoke.pairs:
            app_of(self).tell(
                "the smoke test is still running: it would be found on the hosts; ask again when it is over"
            )
        else:
            self._ask_all()

    def _ask_all(self) -> None:
        self._asked = False
        app_of(self).ask_runs()
        app_of(self).probe([host.name for host in self.backend.hosts])

    def action_report(self) -> None:
        """Into the clipboard."""
        app_of(self).copy(self._report())

    def action_save(self) -> None:
        """Into a file of the folder distui was started in."""
        path = Path.cwd() / time.strftime("distui-doctor-%Y%m%d-%H%M%S.txt")
        table = reach_table(self.reach, tuple(self.results)) if self.reach is not None else ""
        files.write(path, "\n\n".join(filter(None, [self._report(all_=True), table])) + "\n")
        app_of(self).tell(f"the report is in {path}")

    def _report(self, *, all_: bool = False) -> str:
        total = counts(self.checked)
        head = f"{backend_of(self).title}, {time.strftime('%Y-%m-%d %H:%M')}"
        if self.taken is not None:
            head += f"; the hosts were asked at {clock(self.taken)}"
        sums = f"{total['ok']} ok, {counted(total['warn'], 'warning')}, {total['fail']} failed"
        return "\n\n".join([head, report_text(self.checked, all_=all_) or "nothing is wrong", sums])


def _searched(row: CheckRow) -> str:
    findings = " ".join(f"{f.host} {f.verdict} {f.saw}" for f in row.findings if f.verdict not in ("ok", "skip"))
    return f"{row.check.group} {row.check.title} {findings}".lower()
