"""Opens the terminal UI: over the inventory, on a run that is followed, or on hosts made for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Literal

from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.runs import page
from distui.cli.runs.launching import How, exit_code, prepare
from distui.cli.runs.planview import confirm_plan
from distui.cli.settings import Settings
from distui.cluster.attach.following import LeftBehind, Leftover
from distui.cluster.attach.places import RunLocation
from distui.cluster.backend.backend import ClusterBackend
from distui.cluster.backend.values import LiveRun
from distui.cluster.start.request import RunRequest
from distui.errors import ExitCode
from distui.runs.report.attention import Attention, terminal_of
from distui.spec.hosts.inventory import Host, Inventory

View = Literal["hosts", "jobs", "runs", "doctor"]
Start = View | Literal["new job"]


def on_terminal() -> bool:
    """Whether both ends are a terminal that can show the UI: one that calls itself `dumb` moves no cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def wanted(settings: Settings, *, headless: bool = False) -> bool:
    """Whether this call should open the UI: both ends are a terminal, and nobody asked for something else."""
    plain = not headless and settings.output in ("table", "wide") and not settings["no_input"]
    return plain and on_terminal()


async def show(settings: Settings, backend: ClusterBackend, start: Start | LiveRun = "hosts") -> int:
    """The app over an open backend, until it is left."""
    from distui.tui.app import DistuiApp
    from distui.tui.run_app import run_app

    app = DistuiApp(backend, start=start, **look(settings))
    page.app_begins()
    return await run_app(app)


def look(settings: Settings) -> dict[str, Any]:
    """How the app looks, which keys it has and how it calls for attention, by the config file."""
    from distui.tui.registry import keymap_of

    return {
        "theme": settings["theme"],
        "ascii": _ascii(settings),
        "keymap": keymap_of(settings["keymap"]),
        "attention": Attention(terminal_of(settings["notify"], settings.environ)),
    }


def _ascii(settings: Settings) -> bool:
    """What the setting says; where nobody has set it, whether the terminal was said to have ASCII alone. A browser has
    every sign, whatever the locale is of whoever started `distui serve`.
    """
    wanted = settings.config["ascii"]
    if wanted.origin != "default" or page.in_browser():
        return bool(wanted.value)
    plain = settings.environ.get("LC_ALL") in ("C", "POSIX")  # Python writes UTF-8 all the same
    return plain or not (sys.stderr.encoding or "utf-8").lower().startswith("utf")


def open_views(settings: Settings, out: Console, start: Start = "hosts", run: str = "") -> int:
    """The app over the inventory; with `run` it opens on that run. Raises UsageError without an inventory."""
    found = settings.selection.inventory()
    hosts = found.chosen(settings.selection.picks(found))
    backend = ClusterBackend(settings.places, found, hosts, say=out.say)

    async def opened() -> int:
        async with backend:
            begin = await backend.attach(run, out.tell) if run else start
            code = await show(settings, backend, begin)
            left = tuple(backend.following)
        for name in left:
            out.say(_goes_on(name))
        return code

    return wiring.run_async(opened())


def attach(settings: Settings, out: Console, place: RunLocation, *, exit_first: bool) -> int | Leftover:
    """The app on a run that goes on, or one that has ended; exits as it did when it ended meanwhile.

    What is left of the run where that is nothing which the app could show.
    """
    inventory = settings.selection.maybe_inventory() or Inventory(place.hosts)
    hosts = inventory.chosen(settings.selection.picks(inventory)) or place.hosts
    backend = ClusterBackend(settings.places, inventory, hosts, say=out.say)

    async def opened() -> int | Leftover:
        async with backend:
            try:
                live = await wiring.within(settings.timeout, backend.attach_at(place, out.tell))
            except LeftBehind as exc:
                return exc.left
            code = await show(settings, backend, live)
            live = backend.newest(live)
            others = [name for name in backend.following if name != live.plan.run_id]
        return _say_left(out, live, code, others, exit_first=exit_first)

    return wiring.run_async(opened())


async def launch(settings: Settings, out: Console, request: RunRequest, how: How) -> int:
    """Ask, plan, confirm on the terminal, then start and land in the run's view.

    Exits as the run did; when it was run again from its view, as the last run that was started so.
    """
    backend = ClusterBackend(settings.places, request.inventory, _hosts(settings, request), say=out.say)
    async with backend:
        connector = await backend.connector()
        planned = await prepare(connector, settings, out, request, keep=how.keep)
        answer = await confirm_plan(connector, out, settings, planned.plan, request.hosts, force=how.force)
        if answer == "no":
            out.say("distui: not started")
            return ExitCode.INTERRUPTED
        backend.know(planned.facts)
        live: LiveRun = await backend.start(planned, preflight=how.preflight, force=answer == "share")
        code = await show(settings, backend, live)
        live = backend.newest(live)
        others = [name for name in backend.following if name != live.plan.run_id]
    return _say_left(out, live, code, others, exit_first=how.exit_first)


def _hosts(settings: Settings, request: RunRequest) -> tuple[Host, ...]:
    """The hosts of the app that a run is started for: those it would have without the run. With the run's own alone
    it would show, and stop, other runs only as far as they are on these.
    """
    found = request.inventory
    every = (*found.chosen(settings.selection.picks(found)), *request.hosts)
    return tuple({host.name: host for host in every}.values())


def _say_left(out: Console, live: LiveRun, code: int, others: Sequence[str], *, exit_first: bool) -> int:
    """Say how the run stands now that the app is closed, and what else goes on; the exit code that follows."""
    for name in others:
        out.say(_goes_on(name))
    run, ended = live.plan.run_id, live.state.ended
    if ended is None or ended.outcome == "detached":
        out.say(_goes_on(run))
        return code
    kept = live.stored.log_dir.is_dir()  # what was only looked on at leaves nothing here
    logs = f"its logs: {ended.log_dir or live.stored.log_dir}" if kept else f"`distui logs {run}` prints its logs"
    out.say(f"distui: {run}: {ended.outcome}; {logs}")
    return exit_code(ended, exit_first=exit_first)


def _goes_on(run: str) -> str:
    return f"distui: {run} is still running; `distui attach {run}` follows it, `distui stop {run}` ends it"
