"""Runs: those alive on the hosts, whoever started them, and those recorded on this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from distui.amounts import counted, size_words
from distui.cluster.backend.values import LiveRun
from distui.errors import NotFound
from distui.facts.troubles import SharedTrouble, shared
from distui.plan.labels import named_ranks
from distui.plan.model import RunPlan
from distui.plan.text.render import render_text
from distui.runs.hosts.found_text import found_text
from distui.runs.report.history import RunRow
from distui.runs.report.run_words import failure_words
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import StoredRun
from distui.spec.hosts.names import fold_sorted
from distui.tui.frame.actions import Action, bindings
from distui.tui.frame.base import FILTER, View
from distui.tui.frame.context import ViewName, app_of
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run import change as run_change
from distui.tui.run.words import state_words
from distui.tui.runs import columns as run_columns
from distui.tui.runs.columns import RunColumns
from distui.tui.runs.compare_screen import CompareScreen
from distui.tui.runs.listener import Listener
from distui.tui.runs.live import Looks, live_lines
from distui.tui.runs.preview import preview
from distui.tui.widgets.panel import Panel
from distui.tui.widgets.rows import Row, RowList


class RunsScreen(View):
    """The history and what lives now; the row under the cursor is reported in full below the list."""

    VIEW: ClassVar[ViewName] = "runs"
    PLACE: ClassVar[str] = "Runs"
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("open", "open", ("enter",), footer=True, help="Follow it if it lives, else look at what it left."),
        Action("logs", "logs", ("l",), footer=True, help="The run's view, which shows its logs."),
        Action("plan_of", "plan", ("y",), "View", "plan", footer=True, help="Every rank, address, variable, command."),
        Action("diff", "compare", ("d",), "View", "diff", footer=True,
               help="Two marked runs, a marked one and this, or the run before and this: figures, curves, plans."),
        Action("mark", "mark", ("space",), "View", footer=True, help="Choose a run to compare with, or two."),
        FILTER,
        Action("job", "its job", ("J",), "View",
               help="The run's job in the launch form, on the same hosts: to be changed there, and started with L."),
        Action("again", "refresh", ("r",), "View", help="Ask the hosts again."),
        Action("rerun", "run again", ("R",), "Change", "rerun", changes=True, footer=True,
               help="The job as it was started, as a new run."),
        Action("stop", "stop", ("S",), "Change", "stop", changes=True, footer=True,
               help="SIGTERM on all hosts, SIGKILL after the grace; logs are read to their end."),
        Action("kill", "kill", ("K",), "Change", "kill", changes=True, help="SIGKILL on all hosts at once."),
        Action("prune", "prune", ("X",), "Change", "prune", changes=True, footer=True,
               help="Remove what an ended run left on its hosts, and its folder here."),
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIONS)

    def __init__(self) -> None:
        super().__init__()
        self._looks = Looks(lambda stored: self.backend.mask(stored))
        self._looking = False
        self._wanted = ""
        """The run that was opened last, until the cursor was put on it."""
        self._names = (0, 0)
        """The longest name of a run and of a job."""
        self._listener = Listener(self)
        self.marked: tuple[str, ...] = ()
        """At most two runs, to be compared."""
        self.known: dict[str, RunRow] = {}
        """Every run, whatever the filter: marks are of these."""
        self.shown: dict[str, RunRow] = {}
        self.troubles: tuple[SharedTrouble, ...] = ()
        """Why hosts could not be asked for their runs, equal reasons once."""

    def compose_body(self) -> ComposeResult:
        """See View."""
        yield Panel(lambda _: [self._head(self.query_one(RowList).scrollable_content_region.width)], id="head")
        yield RowList(self._paint)
        yield Panel(self._preview, id="preview")

    DEFAULT_CSS = """
    RunsScreen #head { height: 1; }
    RunsScreen RowList { height: auto; max-height: 60%; }
    RunsScreen #preview { height: 1fr; margin: 1 0 0 0; }
    RunsScreen.-h0 #preview { display: none; }
    RunsScreen.-h0 RowList { max-height: 100%; }
    """

    def on_mount(self) -> None:
        """What is known already."""
        self.filter_changed()

    def on_screen_resume(self) -> None:
        """A run that was just followed may have ended: not ten seconds later, but now."""
        super().on_screen_resume()
        self.filter_changed()
        app_of(self).ask_runs()

    def news(self, hosts: frozenset[str]) -> None:
        """The list was asked again, or time went by."""
        self.filter_changed()
        self.refresh_bars()

    def headline(self, line: Line, palette: Palette) -> None:
        """How many live, failed, and what they take here."""
        rows = app_of(self).rows
        live = sum(row.goes_on for row in rows)
        failed = sum(row.state == "failed" for row in rows)
        size = sum(row.size for row in rows)
        if self.marked:
            line.put(len(self.marked), palette.accent).put(" marked", palette.muted).gap(3)
        line.put(live, palette.bold if live else palette.faint).put(" live", palette.muted).gap(3)
        line.put(failed, palette.wrong if failed else palette.faint).put(" failed", palette.muted).gap(3)
        line.put(size_words(size), palette.bold).put(" here", palette.muted)

    def choose(self, name: str) -> None:
        """See View: a run that was just launched is listed only a moment later."""
        self._wanted = name

    # Rows.

    def filter_changed(self) -> None:
        """Runs whose name, job, state, hosts or owner have the text."""
        wanted = self.filter_text.lower()
        rows = [row for row in app_of(self).rows if wanted in _searched(row)]
        self.known, self.shown = _by_name(app_of(self).rows), _by_name(rows)
        self._names = run_columns.longest_names(rows)
        listed = [Row(run) for run in self.shown]
        if not rows:
            listed.append(Row("?", plain=True))
        self.troubles = shared(app_of(self).found.unreachable)
        listed += [Row(f"!{number}", plain=True) for number in range(len(self.troubles))]
        self.query_one(RowList).set_rows(listed)
        if self._wanted in self.shown:
            self.query_one(RowList).go(self._wanted)
            self._wanted = ""
        self._repaint()

    def _paint(self, number: int, width: int, here: bool) -> Line:
        key, palette = self.query_one(RowList).rows[number].key, self.palette
        if key == "?":
            message = "no runs yet: 2 opens the jobs" if app_of(self).runs_known else "asking the hosts for their runs"
            return Line().gap(3).put(message if not self.filter_text else "no run has that text", palette.muted)
        if key.startswith("!"):
            return (
                Line().gap(3).put("not asked: ", palette.faint).put(self.troubles[int(key[1:])].message, palette.muted)
            )
        return self._run(self.shown[key], width, here)

    def _head(self, width: int) -> Line:
        return run_columns.head(self._columns(width), width, self.palette)

    def _columns(self, width: int) -> RunColumns:
        return RunColumns.of(width, self._names)

    def _run(self, row: RunRow, width: int, here: bool) -> Line:
        marked, at = row.run in self.marked, self._columns(width)
        return run_columns.run_line(row, at, width, self.palette, self.glyphs, marked=marked, here=here)

    # What is under the cursor.

    def offers(self, action: Action) -> bool:
        """See View: what the run under the cursor can be asked for."""
        row = self.chosen
        if row is None:
            return action.id in ("filter", "again") or action not in self.ACTIONS
        again = not row.live or row.leftover
        offered = {"stop": row.may_run, "kill": row.may_run, "rerun": again, "prune": not row.goes_on}
        return offered.get(action.id, True)

    @on(RowList.Moved)
    def _moved(self) -> None:
        self._repaint()
        self.refresh_bars()

    def _repaint(self) -> None:
        self._look()
        self._listener.listen(self.chosen)
        for panel in self.query(Panel):
            panel.refresh()

    def _preview(self, width: int) -> list[Line]:
        row = self.chosen
        if row is None:
            return []
        followed = self.backend.following.get(row.run)
        goes = live_lines(
            self.palette, self.glyphs, row, followed.state if followed is not None else None, self._looks.of(row.run),
            app_of(self).board, width, time.time(), self._listener.heard(row),
        )  # fmt: skip
        return preview(
            row, app_of(self).found, width, self.palette, self.glyphs, goes, leaves_out=self.backend.leaves_out
        )

    def _look(self) -> None:
        """Read the folder of the run under the cursor, in a thread: one at a time, and an ended one once. What was read
        while it lived, or before its logs were here, is not its end.
        """
        row = self.chosen
        if row is None or self._looking or self._looks.are_final(row):
            return
        followed = self.backend.following.get(row.run)  # who only looks on may do that in a folder of its own
        stored = followed.stored if followed is not None else self.backend.stored(row.run) if row.recorded else None
        if stored is None:
            return
        self._looking = True
        self.work(self._looked(row, stored), name="look", alone=False)

    async def _looked(self, row: RunRow, stored: StoredRun) -> None:
        try:
            self._looks.keep(row, await asyncio.to_thread(self._looks.read, row, stored, self.size.width))
        finally:
            self._looking = False
        if not self.closing:
            self.query_one("#preview").refresh()

    @property
    def chosen(self) -> RunRow | None:
        """The run under the cursor."""
        return self.shown.get(self.query_one(RowList).key)

    def _need(self) -> RunRow | None:
        if self.chosen is None:
            app_of(self).tell("no run is under the cursor")
        return self.chosen

    @on(RowList.Chosen)
    def action_open(self) -> None:
        """Into the run's view."""
        row = self._need()
        if row is not None:
            app_of(self).follow_run(row.run)

    def action_logs(self) -> None:
        """The run's view."""
        self.action_open()

    def action_again(self) -> None:
        """Ask the hosts now."""
        app_of(self).ask_runs()

    def action_job(self) -> None:
        """The job file in the launch form."""
        row = self._need()
        if row is not None:
            app_of(self).open_job_of(row.run, row.job, row.hosts)

    def action_mark(self) -> None:
        """Mark, or unmark; a third mark takes the place of the oldest."""
        row = self._need()
        if row is None:
            return
        others = tuple(run for run in self.marked if run != row.run)
        self.marked = others if row.run in self.marked else (*others, row.run)[-2:]
        self.query_one(RowList).repaint()
        self.refresh_bars()

    def undo(self) -> bool:
        """The filter, then the marks."""
        if super().undo():
            return True
        had, self.marked = bool(self.marked), ()
        self.query_one(RowList).repaint()
        self.refresh_bars()
        return had

    def action_plan_of(self) -> None:
        """The plan as text."""
        row = self._need()
        if row is not None:
            self.work(self._show_plan(row), name="plan")

    async def _show_plan(self, row: RunRow) -> None:
        found = app_of(self).found.get(row.run, row.launch)
        if found is not None and not row.recorded and row.run not in self.backend.following:
            app_of(self).open_text(f"{row.run} labels", found_text(found))
            return
        text = render_text((await self._live(row)).plan, full=True, width=max(60, self.app.size.width - 4))
        if self.is_active:  # it was read while one may have gone elsewhere
            app_of(self).open_text(f"{row.run} plan", text)

    async def _live(self, row: RunRow) -> LiveRun:
        """The run with its plan, read in a thread. Raises NotFound when this machine does not know it."""
        if row.run in self.backend.following:
            return self.backend.following[row.run]
        if row.recorded:
            return await asyncio.to_thread(self.backend.replay, row.run)
        raise NotFound(
            f"the plan of {row.run} is not on this machine: it was started by {row.owner or 'somebody elsewhere'}"
        )

    def action_diff(self) -> None:
        """Two marked plans; one against the one under the cursor; without a mark against the job's run before."""
        row = self._need()
        if row is None:
            return
        marked = [self.known[run] for run in self.marked if run in self.known]
        if len(marked) == 2:
            self.work(self._show_diff(*sorted(marked, key=_started)), name="diff")
            return
        other = marked[0] if marked else self._before(row)
        if other is None or other.run == row.run:
            app_of(self).tell("mark another run with space first; d compares it with the one under the cursor")
            return
        self.work(self._show_diff(other, row), name="diff")

    def _before(self, row: RunRow) -> RunRow | None:
        """The job's recorded run before this one; for the oldest, the one after it."""
        others = [r for r in self.known.values() if r.job == row.job and r.recorded and r.run != row.run]
        others.sort(key=_started)
        before = [r for r in others if _started(r) <= _started(row)]
        return before[-1] if before else others[0] if others else None

    async def _show_diff(self, old: RunRow, new: RunRow) -> None:
        before, after = await asyncio.gather(self._live(old), self._live(new))
        if self.is_active:
            self.app.push_screen(CompareScreen((old, before), (new, after)))

    # What changes something.

    def action_rerun(self) -> None:
        """The same job on the same hosts as a new run."""
        row = self._need()
        if row is not None:
            self.work(self._rerun(row), name="rerun")

    async def _rerun(self, row: RunRow) -> None:
        await run_change.rerun(self, await self._live(row))

    def action_stop(self) -> None:
        """Stop it on all hosts."""
        self._end(None)

    def action_kill(self) -> None:
        """Kill it on all hosts."""
        self._end(0.0)

    def _end(self, grace: float | None) -> None:
        row = self._need()
        if row is None:
            return
        if not row.may_run:
            app_of(self).tell(f"{row.run} has ended; R runs it again, X removes what it left")
            return
        self.work(self._ended(row, grace), name="stop")

    async def _ended(self, row: RunRow, grace: float | None) -> None:
        live = self.backend.following.get(row.run)
        if live is not None:
            await (run_change.stop if grace is None else run_change.kill)(self, live)
            return
        word = "Stop" if grace is None else "Kill"
        stored = self.backend.stored(row.run) if row.recorded else None
        plan = await asyncio.to_thread(stored_plan, stored) if stored is not None else None
        if await app_of(self).confirm(f"{word} {row.run}?", list(self._targets(row, plan, grace)), word):
            self.work(self._stopped(row, grace), name="stop", group=f"stop {row.run}", ask=f"stopping {row.run}")

    async def _stopped(self, row: RunRow, grace: float | None) -> None:
        """In a group of its own: a question about this or another run, and its Cancel, leave it alone."""
        app_of(self).tell(f"{row.run}: stopping")
        left = await self.backend.stop(row.run, grace=grace, of=row.owner, say=app_of(self).tell)
        if left:
            app_of(self).tell(f"{row.run} is not all gone: {'; '.join(left)}", level="warning")
        else:
            app_of(self).tell(f"{row.run} has ended; nothing of it is left")
        app_of(self).ask_runs()

    def _targets(self, row: RunRow, plan: RunPlan | None, grace: float | None) -> Iterator[str]:
        """Exactly what would be stopped, and whose it is; by its plan, too, where hosts have not said what they have:
        they were not asked (`-H`), or did not answer, and it is stopped there as well.
        """
        runs = app_of(self).found
        found = runs.get(row.run, row.launch)
        for task in found.tasks if found is not None else ():
            yield f"{task.host}   {task.labels.engine} {task.id[:12]}   {task.status}"
        known = runs.answered.union(found.hosts) if found is not None else frozenset(row.hosts)
        planned = _ranks_beside(plan, known) if plan is not None else {}
        for host, ranks in planned.items():
            why = "no answer" if host in runs.unreachable else "not asked"
            yield f"{host}   {named_ranks(ranks)} by its plan   {why}"
        missing = set(found.unfound).difference(*planned.values()) if found is not None else ()
        if missing:
            yield f"not found: {named_ranks(missing)}, on hosts that were not asked, or removed"
        if found is None:
            what = counted(row.ranks, "rank") if row.ranks and not row.leftover else "its folder"
            yield f"{what} on {fold_sorted(row.hosts)}"
        yield ""
        yield from run_change.whose(self, row.owner)
        yield "SIGKILL at once: nothing is saved." if grace == 0 else "SIGTERM, SIGKILL after the job's grace."

    def action_prune(self) -> None:
        """Remove what it left."""
        row = self._need()
        if row is None:
            return
        if row.goes_on:
            app_of(self).tell(f"{row.run} still runs; S stops it", level="warning")
            return
        self.work(self._prune(row), name="prune")

    async def _prune(self, row: RunRow) -> None:
        await run_change.prune(self, row.run, row.owner, row.hosts)


def _ranks_beside(plan: RunPlan, known: Container[str]) -> dict[str, list[int]]:
    """The ranks that a plan has on each host that is not `known`."""
    hosts = [host for host in plan.hosts if host not in known]
    return {host: [rank for task in plan.tasks_on(host) for rank in task.ranks] for host in hosts}


def _started(row: RunRow) -> float:
    return row.started or 0.0


def _by_name(rows: Sequence[RunRow]) -> dict[str, RunRow]:
    """The rows by their runs, each once."""
    found: dict[str, RunRow] = {}
    for row in rows:
        if _presence(row) > _presence(found.get(row.run)):
            found[row.run] = row
    return found


def _presence(row: RunRow | None) -> int:
    """How much of it is on hosts: tasks, some to come, a folder, nothing. Of one name that with the most is shown."""
    if row is None or not row.live:
        return 0 if row is None else 1
    return 2 if row.leftover else 3 if row.state == "starting" else 4


def _searched(row: RunRow) -> str:
    return " ".join(
        (row.run, row.job, state_words(row), fold_sorted(row.hosts), row.owner, failure_words(row.failure))
    ).lower()
