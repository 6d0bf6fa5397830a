"""`distui wait`: until a run has ended."""

from __future__ import annotations

import contextlib
import time
from asyncio import sleep
from collections.abc import Mapping

from distui.cli import wiring
from distui.cli.actions.attach import tell_over
from distui.cli.console import Console
from distui.cli.printing.printer import LogView, printer
from distui.cli.printing.results import Promise
from distui.cli.runs.follow import follow
from distui.cli.runs.leftover import tell, tell_record
from distui.cli.settings import Settings
from distui.cluster.attach import places
from distui.cluster.attach.following import Leftover, Over, open_run
from distui.cluster.attach.leftover import REST_SECONDS, Rest
from distui.cluster.attach.live_run import adopt, reader_of
from distui.errors import ContactLost, ExitCode
from distui.identity import owner
from distui.plan.command.limit import LEFT
from distui.plan.labels import named_ranks
from distui.plan.model import RunPlan
from distui.runs.control.onlooker import Onlooker, looking
from distui.runs.hosts.discover import FoundRun
from distui.runs.lines.events import RankChanged, RunOpened
from distui.runs.report.found import plan_of
from distui.runs.store.end_record import EndRecord
from distui.runs.store.recorded import stored_events
from distui.runs.store.runs import AlreadyFollowed, StoredRun
from distui.session import Connector

POLL_SECONDS = 1.0

JUDGED_SECONDS = 5.0
"""How long nobody may be seen to read a run whose tasks have ended, before it counts as one that nobody follows."""

STOPPED = frozenset({130, 137, 143})
"""Exit statuses that a stop leaves, whoever stopped it."""


def act(settings: Settings, out: Console, run: str, goal: str) -> int:
    """See `wait --help`."""
    promise = Promise(settings.output, out, run, settings=settings.cluster)

    def work(place: places.RunLocation) -> int:
        promise.stored = place.stored
        return wiring.run_async(_wait(settings, out, place, goal), limit=settings.timeout)

    return promise.keep(lambda: settings.places.at(out.tell, run, work))


async def _wait(settings: Settings, out: Console, place: places.RunLocation, goal: str) -> int:
    rest, again = Rest(), False
    while True:
        if place.stored is not None and await _beside(place.stored, goal):
            return ExitCode.OK
        async with wiring.connected(settings, place.hosts) as connector:
            run = await open_run(settings.cluster, connector, out.tell, place, rest=rest, again=again)
            if isinstance(run, Over):
                return tell_over(out, run)
            if isinstance(run, Leftover):
                return (await tell(settings, out, run.launch)).exit
            if run.live is None:  # another was faster, and has it in its hands
                continue
            mine = place.stored is not None and run.plan.owner == owner() and not settings["readonly"]
            if goal == "running" or not mine:
                return await _watch(settings, connector, out, place, run.plan, goal)
            sink = printer(out, settings.output, LogView(stdout=False), verbose=settings.verbose)
            with contextlib.suppress(AlreadyFollowed):  # another was faster: its end is ours
                controller = adopt(settings.cluster, connector, place, run.live)
                return (await follow(controller, sink, out, stop_on_exit=False)).exit
        again = True


async def _beside(stored: StoredRun, goal: str) -> bool:
    """While another distui on this machine follows it: wait for what that one writes down.

    Whether all ranks run, when that is the goal; False when nobody follows it any more.
    """
    while stored.is_followed:
        if goal == "running" and _all_running(stored):
            return True
        await sleep(0.2)
    return False


def _all_running(stored: StoredRun) -> bool:
    states: dict[int, str] = {}
    ranks = 0
    for event in stored_events(stored):
        if isinstance(event, RunOpened):
            states, ranks = {}, len(event.ranks)
        elif isinstance(event, RankChanged):
            states[event.rank] = event.state
    begun = [s for s in states.values() if s not in ("waiting", "starting")]
    return bool(ranks) and len(begun) == ranks


async def _watch(
    settings: Settings, connector: Connector, out: Console, place: places.RunLocation, plan: RunPlan, goal: str
) -> int:
    """Ask the hosts again and again, and touch nothing but the mark of somebody who wants to know how it ends."""
    while True:
        async with looking(connector, plan, reader_of(settings.cluster, place).stored) as onlooker:
            end = await _watch_attempt(settings, connector, out, place, onlooker, goal)
        if isinstance(end, int):
            return end
        plan = plan_of(end, place.stored, place.hosts)


async def _watch_attempt(
    settings: Settings, connector: Connector, out: Console, place: places.RunLocation, onlooker: Onlooker, goal: str
) -> int | FoundRun:
    """How the run ended, or its next attempt once that is there."""
    codes: dict[int, int | None] = {}
    more, said, over_since = False, False, 0.0
    record: EndRecord | None = None
    while True:
        record = record or (await onlooker.look() if goal == "finished" else None)
        if record is not None and not (record.may_go_on and onlooker.is_begun):
            return (await tell_record(settings, out, place.run, record)).exit
        found, unreachable = await places.find_again(connector, place)
        if found is not None and found.attempt > onlooker.attempt:
            return found
        if found is not None:
            places.undisputed(found)
            codes |= {rank: t.exit for t in found.tasks for rank in t.labels.ranks}
            if goal == "running" and not found.unfound and all(task.status != "created" for task in found.tasks):
                return ExitCode.OK
        runs_on = found is not None and found.state in ("running", "partial")
        if found is not None:
            more = found.attempt < found.attempts and (runs_on or any(codes.values()))
        over_since = (
            0.0 if runs_on or unreachable or (onlooker.is_judged and record is None) else over_since or time.monotonic()
        )
        rests = (more or record is not None) and time.monotonic() - over_since < REST_SECONDS  # another may begin
        if over_since and rests and not said:
            out.tell(f"an attempt of {place.run} has ended; waiting whether another begins")
            said = True
        if over_since and not rests and time.monotonic() - over_since > JUDGED_SECONDS:
            if record is not None:
                return (await tell_record(settings, out, place.run, record)).exit
            if found is not None:
                return _as_found(out, found, codes, chosen=place.chosen)
            raise ContactLost(
                f"{place.run} was cleaned up by whoever follows it; how it ended is known there",
                hint="`distui ps -a` on the machine that started it",
            )
        await sleep(POLL_SECONDS)


def _as_found(out: Console, found: FoundRun, codes: Mapping[int, int | None], *, chosen: bool = False) -> int:
    """The exit code of a run that nobody follows: by the statuses that its ranks were seen to end with. `chosen` is
    whether only some hosts were to be asked.
    """
    unknown = [r for r in {*found.unfound, *codes} if codes.get(r) is None]
    if chosen and unknown and not any(codes.values()):
        others = f"may still run on hosts that were not asked; `distui wait {found.run}` asks all"
        out.warn(f"distui: {named_ranks(unknown)} of {found.run} {others}", "red")
        return ExitCode.CONTACT_LOST
    if keys := _asks_more(found, codes):
        words = " and ".join(f"`{key}`" for key in keys)
        out.warn(
            f"distui: nobody has recorded how {found.run} ended, and the exit statuses of its ranks do not tell it: "
            f"{words} of its job do{'es' * (len(keys) == 1)}, too; `distui attach {found.run}` reads it to its end",
            "red",
        )
        return ExitCode.CONTACT_LOST
    if any(codes.values()):
        return ExitCode.TIMEOUT if found.over_limit else ExitCode.RANK_FAILED
    if not unknown:
        return ExitCode.OK
    out.warn(
        f"distui: nothing of {named_ranks(unknown)} of {found.run} is on its hosts any more, and nobody saw the end",
        "red",
    )
    return ExitCode.CONTACT_LOST


def _asks_more(found: FoundRun, codes: Mapping[int, int | None]) -> tuple[str, ...]:
    """Keys of the job that decide beside exit statuses how the run ended."""
    labels = found.tasks[0].labels
    bad = [code for code in codes.values() if code]
    asked: dict[str, object]
    if bad:
        stopped = all(code in STOPPED | LEFT for code in bad) and not any(task.failed for task in found.tasks)
        asked = {
            "done_when": labels.done_when,
            "min_nodes": labels.min_nodes,
            "max_duration": stopped and not found.over_limit and labels.max_duration,
        }
    else:
        asked = {"success.file": labels.success_file, "success.min_seconds": labels.success_seconds}
        asked |= dict.fromkeys(labels.regexes, True)
    return tuple(key for key, value in asked.items() if value)
