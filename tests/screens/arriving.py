"""Ways to every place of the app, with something in it: for checks of keys, layouts and pictures."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from every_key import Case, a_run
from fakes import FakeBackend, FakeFirst, failing, launching, sample, settle
from measuring import SECONDS, measured
from standing import answer, calls, hang, moving, stand_still

from distui.monitor.containers import HostContainer
from distui.monitor.figures import HostNews
from distui.plan.labels import TaskLabels
from distui.runs.store.why_records import WhyRecord, keep
from distui.tui.first.screen import FirstScreen
from distui.tui.hosts.container_log import ContainerLogScreen
from distui.tui.widgets.rows import RowList

OF_FAILURES = {"jump", "pin", "evidence", "copy_report", "rerun", "prune"}
"""These are about a run that has failed."""


STALLED = "stalled"
"""No action: a run that stands still, as it is found."""


@contextlib.asynccontextmanager
async def opened(open_app: Any, backend: FakeBackend, lent: list[tuple[str, ...]], **more: Any) -> AsyncIterator[Case]:
    """The app with groups, containers, and an ended run."""
    before = backend.plan("llm-7f2")
    backend.record(before, [*launching(before, 1.0), *failing(before, 5.0)])
    live = await a_run(backend, fails=False)
    backend.groups = {"first": ("node01", "node02"), "second": ("node03", "node04")}
    labels = TaskLabels("llm-7f3", 0, tuple(range(8)), "node01", "llm-pretrain", owner="alice@laptop")
    box = HostContainer("node01", "a" * 64, "distui-llm-7f3-0", "image", "running", True, since=1.0, task=labels)
    backend.known_containers = {"node01": (box,)}
    async with open_app(**more) as (app, pilot):
        yield Case(app, pilot, backend, live, backend.folder, lent)


async def arrive(case: Case, place: str, action: str = "") -> None:
    """Go to a place, as if for the first time, to do an action there."""
    app, backend = case.app, case.backend
    while len(app.screen_stack) > 1:
        app.pop_screen()
    app.clear_notifications()
    app._clipboard = ""
    backend.calls.clear()
    case.lent.clear()
    case.action = action
    match place:
        case "Hosts" | "Jobs" | "Runs" | "Doctor":
            app.show_view(place.lower())  # type: ignore[arg-type]
        case "A field of the form" | "The text of a job":
            app.drafts.clear()
            (backend.folder / "llm-pretrain.yaml").unlink(missing_ok=True)
            app.open_launch(backend.jobs()[0], ())
            await settle(case.pilot)
            await filled(case, "Launch")
            if place == "The text of a job":
                case.screen.action_show_tab("yaml")
                area = case.screen.query_one("JobText")
                area.move_cursor(area.document.end)
            else:
                case.screen.form.field("image").focus()
                await case.press("enter")
        case "A filter" | "A command":
            app.command_history[:] = ["theme light", "hosts /node"]
            app.show_view("hosts")
            await settle(case.pilot)
            case.screen.action_filter() if place == "A filter" else case.screen.open_command("job")
        case "Everywhere":
            app.show_view("jobs")
        case "One host":
            await backend.say(HostNews("node01", "sample", sample=sample("node01", time.time())))
            app.open_host("node01")
        case "Launch":
            app.open_launch(backend.jobs()[0], ())
        case "One run":
            case.live = await a_run(backend, fails=action in OF_FAILURES)
            if action == STALLED:
                await stand_still(case.live)
            app.open_run(case.live)
        case "Why":
            case.live = await a_run(backend, fails=False)
            shutil.rmtree(case.live.stored.path / "why", ignore_errors=True)
            now = time.time()
            for ago, found in ((300, moving(case.live.plan)), (60, hang(case.live.plan, since=now - 90))):
                keep(case.live.stored, WhyRecord(now - ago, "run", found, calls(case.live.plan)))
            backend.reported = answer(case.live.plan, now)
            app.open_run(case.live)
            await settle(case.pilot)
            await app.run_action("why", default_namespace=app.screen)
        case "Metrics":
            case.live = await a_run(backend, fails=False)
            measured(case.live)
            app.open_run(case.live)
            await settle(case.pilot)
            await app.run_action("metrics", default_namespace=app.screen)
        case "Problems":
            app.show_problems()
        case "First start":
            case.first, case.outcomes = FakeFirst(), []
            app.push_screen(FirstScreen(case.first, case.outcomes.append))
        case "Compare":
            began = time.time() - SECONDS
            for run, loss in (("llm-7f2", 3.0), ("llm-7f3", 2.5)):
                measured(backend.live[run], loss=loss, pace=1.0 if run == "llm-7f2" else 0.5)
                at = next(i for i, row in enumerate(backend.rows) if row.run == run)
                backend.rows[at] = replace(backend.rows[at], started=began - (run == "llm-7f2"))
            app.show_view("runs")
            app.ask_runs()
            await case.until(lambda: sum(began - 2 < row.started <= began for row in app.rows) == 2)
            await settle(case.pilot)
            await app.run_action("diff", default_namespace=app.screen)
        case "A text" | "Lists":
            app.open_text("a text", "\n".join(f"line {number} " + "x" * 300 for number in range(200)))
        case "A container's log":
            lines = [f"line {number} " + "x" * 200 for number in range(100)]
            lines[50] = "ValueError: odd"
            backend.log_parts = asyncio.Queue()
            backend.log_parts.put_nowait("".join(f"{line}\n" for line in lines).encode())
            app.push_screen(ContainerLogScreen(backend.known_containers["node01"][0]))
    await case.pilot.pause()
    await settle(case.pilot)
    await filled(case, place)


async def filled(case: Case, place: str) -> None:
    """Until what the place shows is there."""
    match place:
        case "One run":
            await case.settled()
        case "A container's log":
            await case.until(lambda: len(case.screen.lines) == 100)
        case "Why":
            await case.until(lambda: len(case.screen.answers.all) == 3 and case.screen.answers.asking_since is None)
        case "Compare":
            await case.until(lambda: case.screen.sides)
        case "Metrics":
            await case.until(lambda: case.screen.read_yet and not case.screen.reading)
        case "Doctor":
            await case.until(lambda: len(case.screen.columns) > 1)
        case "Launch":
            await case.until(lambda: case.screen.draft.preview.plan is not None)
        case "A text" | "Lists":
            case.screen.rows = case.screen.query_one(RowList)
