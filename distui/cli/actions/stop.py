"""`distui stop` and `distui kill`: end a run from any machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace

from distui.amounts import counted
from distui.cli import wiring
from distui.cli.console import Console, confirm_async
from distui.cli.printing.printer import LogView, printer
from distui.cli.printing.ranks import refuse_unknown
from distui.cli.printing.run_rows import each_named
from distui.cli.printing.sweeping import tell_swept
from distui.cli.runs.leftover import tell
from distui.cli.settings import Settings
from distui.cluster.attach import leftover, places
from distui.cluster.attach.leftover import Rest
from distui.cluster.attach.places import open_here
from distui.cluster.attach.stopping import stop_beside
from distui.cluster.attach.sweeping import sweep_run, under_way, whose
from distui.cluster.attach.taking_up import Live, adopt, take_up
from distui.errors import ExitCode, UsageError
from distui.facts.host import Trouble
from distui.identity import owner
from distui.plan.labels import named_ranks
from distui.runs.control.stopping import stop_found, stop_ranks
from distui.runs.hosts.discover import FoundRun, FoundTask, find_runs
from distui.runs.hosts.launches import Launch, find_launches
from distui.runs.lines.events import RunEnded
from distui.runs.lines.text import safe
from distui.runs.report import history
from distui.runs.report.found import plan_of
from distui.runs.store.end_record import launch_here
from distui.runs.store.runs import AlreadyFollowed, StoredRun
from distui.session import Connector

DRAIN_SECONDS = 60.0
"""How long another distui on this machine may take to read the logs to their end after a stop."""


def act(
    settings: Settings, out: Console, names: tuple[str, ...], grace: float | None, ranks: frozenset[int] | None
) -> int:
    """See `stop --help`."""
    return _end(settings, out, names, grace, "stop", ranks)


def kill(settings: Settings, out: Console, names: tuple[str, ...], ranks: frozenset[int] | None) -> int:
    """See `kill --help`."""
    return _end(settings, out, names, 0.0, "kill", ranks)


def _end(
    settings: Settings,
    out: Console,
    names: tuple[str, ...],
    grace: float | None,
    word: str,
    ranks: frozenset[int] | None,
) -> int:
    settings.refuse_readonly(word)
    if ranks is not None and len(names) > 1:
        raise UsageError("--rank is about one run", hint="name one run")

    def end(place: places.RunLocation) -> int:
        work = (
            _end_one(settings, out, place, grace, word)
            if ranks is None
            else _some(settings, out, place, ranks, grace, word)
        )
        return wiring.run_async(work, limit=settings.timeout)

    return each_named(out, names, lambda name: settings.places.at(out.tell, name, end))


async def _end_one(settings: Settings, out: Console, place: places.RunLocation, grace: float | None, word: str) -> int:
    rest = Rest()
    async with wiring.connected(settings, place.hosts) as connector:
        asked, plan = await places.find(connector, place), None
        while asked[0] is None and (plan := open_here(place.stored, asked[1])) is None:
            if place.stored is None or not place.stored.is_followed:
                asked, _ = await rest.over(settings.cluster, connector, out.tell, place, asked)
                if asked[0] is not None:
                    break
            code = await _end_launch(settings, connector, out, place, asked[1], word, rest.left)
            if code is not None:
                return code
            asked = await places.find(connector, place)
        unreachable = asked[1]
        live = await take_up(settings.cluster, connector, place, asked, plan)
        if not await _agreed(settings, out, live, word):
            return ExitCode.INTERRUPTED
        began = time.time()
        code = await _stop(settings, connector, out, place, live, grace)
        code = max(code, await _verify(connector, out, place, live, began))
        spare = {*unreachable, *(live.plan.hosts if code else ())}  # what could not be ended there needs its folder
        swept = await sweep_run(connector, place.run, place.hosts, (live.token,), spare=spare)
        tell_swept(out, place.run, swept)
        return code if swept.whole else ExitCode.CONTACT_LOST


async def _verify(connector: Connector, out: Console, place: places.RunLocation, live: Live, began: float) -> int:
    """Look again: nothing of the run may run any more, whatever attempt its labels tell of; others' runs are named.

    Where nothing was recorded here, and there are several of that name and owner, each that ran by then is meant.
    """
    ours = live.plan.own_labels
    code: int = ExitCode.OK
    for found in (await find_runs(connector, place.hosts, run=place.run)).named(place.run):
        same = ours is not None and (found.launch, found.owner) == (ours.launch, ours.owner)
        if not same and (place.stored is not None or found.owner != owner()):
            whom = safe(found.owner)[:100] or "nobody known"
            out.warn(f"distui: another run named {place.run}, of {whom}, is left as it is", "yellow")
            continue
        for task in (*found.tasks, *found.others):
            if task.running and (same or (task.started or began) < began):
                code = max(code, await _stop_task(connector, out, place, task, live.plan.stop_grace))
    return code


async def _stop_task(
    connector: Connector, out: Console, place: places.RunLocation, task: FoundTask, grace: float
) -> int:
    """A task that still runs after its run was stopped."""
    rest = FoundRun(place.run, (task,))
    report = await stop_found(connector, rest, plan_of(rest, None, place.hosts), who=owner(), grace=grace)
    wrong = (*report.errors.values(), *report.leftovers)
    for text in wrong:
        out.warn(f"distui: {task.host}: {text}", "red")
    return ExitCode.CONTACT_LOST if wrong else ExitCode.OK


async def _stop(
    settings: Settings, connector: Connector, out: Console, place: places.RunLocation, live: Live, grace: float | None
) -> int:
    """By the distui here that follows it; by ourselves when none does, or that one leaves before the end."""
    while True:
        stored = settings.cluster.store.get(place.run)
        if stored is None or not stored.is_followed:
            with contextlib.suppress(AlreadyFollowed):  # another was faster
                return await _own(settings, connector, out, place, live, grace)
            stored = settings.cluster.store.need(place.run)
        code = await _beside(connector, out, replace(place, stored=stored), live, grace)
        if code or stored.is_followed:
            return code
        if history.stored_row(stored).over and not await _is_kept(settings, connector, place, live):
            return code


async def _is_kept(settings: Settings, connector: Connector, place: places.RunLocation, live: Live) -> bool:
    """Whether containers of `run --keep` are still there: it had been cleaned up when its stop was asked for."""
    labels = live.plan.own_labels
    if labels is None or not labels.keep:
        return False
    found, _ = await places.find_again(connector, place)
    return found is not None and (found.launch, found.owner) == (labels.launch, labels.owner)


async def _some(
    settings: Settings, out: Console, place: places.RunLocation, ranks: frozenset[int], grace: float | None, word: str
) -> int:
    """Some ranks; whoever follows the run sees them fail, and who stopped them."""
    async with wiring.connected(settings, place.hosts) as connector:
        live = await take_up(settings.cluster, connector, place)
        refuse_unknown(ranks, [rank for task in live.plan.tasks for rank in task.ranks])
        if not await _agreed(settings, out, live, word):
            return ExitCode.INTERRUPTED
        seconds = live.plan.stop_grace if grace is None else grace
        report = await stop_ranks(connector, live.found, live.plan, ranks, who=owner(), grace=seconds)
    for host, text in report.errors.items():
        out.warn(f"distui: {host}: {text}", "red")
    if report.errors:
        return ExitCode.CONTACT_LOST
    then = "the others go on" if live.plan.on_fail == "wait" else "whoever follows the run stops the others"
    out.say(f"distui: {named_ranks(ranks)} of {place.run} ended; with `on_fail: {live.plan.on_fail}` {then}")
    return ExitCode.OK


async def _end_launch(
    settings: Settings,
    connector: Connector,
    out: Console,
    place: places.RunLocation,
    unreachable: Mapping[str, Trouble],
    word: str,
    seen: Launch | None,
) -> int | None:
    """No task of the run was found: end a launch that is under way, remove what one that was killed has left.

    `seen` is the folder that said how the run ended when one was last looked for; it may have been removed by now.
    What somebody else removes meanwhile is gone all the same. None when a task is there after all: it began while we
    looked. Raises NotFound, or ContactLost when there may be something on a host that did not answer.
    """
    if place.stored is not None and place.stored.is_followed:
        place.stored.ask_stop()
        if unreachable:
            places.there(settings.cluster, place, None, unreachable)
        return await _asked_here(out, place.stored)
    up = [host for host in place.hosts if host.name not in unreachable]
    launches = await find_launches(connector, up, place.run)
    recorded = launch_here(place.stored)
    left = leftover.chosen(settings.cluster, place, launches) or seen
    others = sorted({whose(one) for one in launches if one.token != recorded and one.owner != owner()})
    does = "has ended, and was started" if left is not None else "is being started"
    if others and not await confirm_async(
        out, settings, f"{place.run} {does} by {', '.join(others)}. {word.capitalize()} it?"
    ):
        return ExitCode.INTERRUPTED
    for text in sorted({whose(one) for one in under_way(launches, recorded)}):
        out.say(f"distui: stopping the launch of {place.run} by {text}; where it goes on, it is stopped, too")
    tokens = dict.fromkeys((recorded, *(one.token for one in launches)))
    swept = await sweep_run(connector, place.run, place.hosts, tokens, place.stored, spare=unreachable)
    tell_swept(out, place.run, swept)
    nothing = swept.whole and not swept.hosts
    found, _ = (None, unreachable) if nothing else await places.find_again(connector, place)
    if found is not None:
        return None
    end = await tell(settings, out, left) if left is not None else None
    unreachable = (
        unreachable if left is None else {h: unreachable[h] for h in leftover.not_reached(place, left, unreachable)}
    )
    known = place.stored or settings.cluster.store.get(place.run)  # by a faster stop
    if unreachable or (nothing and known is None and left is None and not launches):
        places.there(settings.cluster, place, None, unreachable)
    if nothing:
        out.say(f"distui: {place.run} is not running; there is nothing to {word}")
    return ExitCode.OK if swept.whole and (end is None or end.outcome != "unknown") else ExitCode.CONTACT_LOST


async def _asked_here(out: Console, stored: StoredRun) -> int:
    """Another distui here has it in its hands, and it has no task on its hosts: it is being started, or rests before
    its next attempt.
    """
    left = not await places.let_go(stored, limit=DRAIN_SECONDS)
    out.say(f"distui: {stored.run_id} {'is followed by another distui here, which goes on' if left else 'is stopped'}")
    return ExitCode.CONTACT_LOST if left else ExitCode.OK


async def _agreed(settings: Settings, out: Console, live: Live, word: str) -> bool:
    """Somebody else's run is only ended when that is said twice."""
    plan = live.plan
    if plan.owner == owner():
        return True
    ranks, whom = counted(plan.world_size, "rank"), safe(plan.owner)[:100] or "nobody known"
    return await confirm_async(out, settings, f"{plan.run_id} belongs to {whom} ({ranks}). {word.capitalize()} it?")


async def _own(
    settings: Settings, connector: Connector, out: Console, place: places.RunLocation, live: Live, grace: float | None
) -> int:
    """Nobody here follows it: follow it ourselves, so that its logs are read to the end before it is removed."""
    controller = adopt(settings.cluster, connector, place, live, keep=False)
    sink = printer(out, settings.output, LogView(stdout=False), verbose=settings.verbose)
    ended: RunEnded | None = None
    async with controller:
        controller.request_stop("user", grace=grace, exit=ExitCode.TERMINATED)
        async for batch in controller.batches():
            await sink.feed(batch, controller.state)
            if isinstance(batch[-1], RunEnded):
                ended = batch[-1]
    assert ended is not None
    await sink.finish(ended, controller.state)
    return ExitCode.CONTACT_LOST if ended.outcome == "unknown" or ended.leftovers else ExitCode.OK


async def _beside(
    connector: Connector, out: Console, place: places.RunLocation, live: Live, grace: float | None
) -> int:
    """Another distui here follows it: stop the ranks and let that one drain and clean up."""
    out.say(f"distui: stopping {place.run}; the distui that follows it here cleans up")
    assert place.stored is not None
    done = await stop_beside(connector, place.stored, live, grace)
    if done.unasked:
        out.warn(f"distui: {done.unasked}", "yellow")
    for host, text in done.failed.items():
        out.warn(f"distui: {host}: {text}", "red")
    seconds = live.plan.stop_grace if grace is None else grace
    left = not await places.let_go(place.stored, limit=seconds + DRAIN_SECONDS)
    out.say(f"distui: {place.run} {'is still being read to its end' if left else 'is stopped'}")
    return ExitCode.CONTACT_LOST if done.failed else ExitCode.OK
