"""Ending a run from any machine, for `stop`, `kill` and the app: by who follows it here, else by taking it up.

A distui of this machine that follows it reads its logs to the end and cleans up, and is waited for; when that one goes
away before it is done, the run is attached to and ended here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from distui.cluster.attach import places
from distui.cluster.attach.ending_launch import DRAIN_SECONDS, end_launch, still_there
from distui.cluster.attach.front_end import Ended, FrontEnd, agreed
from distui.cluster.attach.leftover import Rest
from distui.cluster.attach.live_run import Live, adopt, attach, may_have
from distui.cluster.attach.places import RunLocation, open_here
from distui.cluster.attach.stopping import ACT_SECONDS, stop_beside, stop_rest
from distui.cluster.attach.sweeping import sweep_run
from distui.cluster.settings import ClusterSettings
from distui.errors import ExitCode
from distui.identity import owner
from distui.plan.model import RunPlan
from distui.runs.control.controller import RunController
from distui.runs.control.stopping import stop_found
from distui.runs.hosts.discover import FoundRun, FoundTask, find_runs
from distui.runs.lines.text import safe
from distui.runs.report import history
from distui.runs.report.found import plan_of, unfound
from distui.runs.store.runs import AlreadyFollowed
from distui.session import Connector
from distui.spec.hosts.names import fold


async def end_run(
    settings: ClusterSettings,
    connector: Connector,
    front: FrontEnd,
    place: RunLocation,
    *,
    grace: float | None = None,
    word: str = "stop",
    check: Callable[[Live], None] | None = None,
) -> Ended:
    """Stop the run, or a launch of it, have its logs read to their end and remove what it left; safe to repeat.

    `grace` is in seconds, None for the job's own; `word` is what it is called in words, `stop` or `kill`; `check`
    raises where the run that was found is not to be ended. Raises NotFound, and ContactLost when there may be something
    on a host that did not answer; NameTaken as `places.find`.
    """
    rest = Rest()
    with places.say_if_slow(front.tell, place):
        asked = await places.find(connector, place)
    plan: RunPlan | None = None
    while asked[0] is None and (plan := open_here(place.stored, asked[1])) is None:
        if place.stored is None or not place.stored.is_followed:
            asked, _ = await rest.over(settings, connector, front.tell, place, asked)
            if asked[0] is not None:
                break
        launch = await end_launch(settings, connector, front, place, asked[1], word, rest.left)
        if launch is not None:
            return launch
        asked = await places.find(connector, place)
    with places.say_if_slow(front.tell, place):
        live = await attach(settings, connector, place, asked, plan, disputed=True)
    if check is not None:
        check(live)
    if not await agreed(front, live, word):
        return Ended(agreed=False)
    began = time.time()
    done = await _end(settings, connector, front, place, live, grace)
    done = replace(done, remaining=(*done.remaining, *_not_asked(place, live, word)))
    with places.say_if_slow(front.tell, place, removes=True):
        done = done.then(*await _verify(connector, front, place, live, began))
        # What could not be ended on a host needs its folder.
        spare = {*asked[1], *(live.plan.hosts if done.failed else ())}
        swept = await sweep_run(connector, place.run, place.hosts, (live.token,), spare=spare)
    for level, words in swept.words(place.run):
        front.tell(words, level)
    return done.then(*swept.left, *swept.failed)


def _not_asked(place: RunLocation, live: Live, word: str) -> tuple[str, ...]:
    """That other hosts than those that were chosen may have more of the run, in words."""
    missing = unfound(live.plan) if place.chosen else 0
    if not missing:
        return ()
    tasks = f"{missing} of its {missing + len(live.plan.tasks)} tasks may be on hosts that were not asked"
    return (f"{place.run} may still run: {tasks}; `distui {word} {place.run}` asks all",)


async def _end(
    settings: ClusterSettings,
    connector: Connector,
    front: FrontEnd,
    place: RunLocation,
    live: Live,
    grace: float | None,
) -> Ended:
    """By the distui here that follows it; by ourselves when none does, or that one leaves before the end."""
    while True:
        stored = settings.store.get(place.run)
        if stored is None or not stored.is_followed:
            with contextlib.suppress(AlreadyFollowed):  # another was faster
                return await _own(settings, connector, front, place, live, grace)
            stored = settings.store.need(place.run)
        done = await _beside(connector, front, replace(place, stored=stored), live, grace)
        if done.left:
            return done
        if history.stored_row(stored).over and not await _is_kept(connector, place, live):
            return Ended(remaining=still_there(stored))


async def _is_kept(connector: Connector, place: RunLocation, live: Live) -> bool:
    """Whether containers of `run --keep` are still there: it had been cleaned up when its stop was asked for."""
    labels = live.plan.own_labels
    if labels is None or not labels.keep:
        return False
    found, _ = await places.find_again(connector, place)
    return found is not None and (found.launch, found.owner) == (labels.launch, labels.owner)


async def _own(
    settings: ClusterSettings,
    connector: Connector,
    front: FrontEnd,
    place: RunLocation,
    live: Live,
    grace: float | None,
) -> Ended:
    """Nobody here follows it: follow it ourselves, so that its logs are read to the end before it is removed."""

    def owned(connector: Connector) -> RunController:
        controller = adopt(settings, connector, place, live, keep=False)
        controller.request_stop("user", grace=grace, exit=ExitCode.TERMINATED)
        return controller

    end = await front.follow(connector, owned)
    if end.outcome == "unknown" and not end.leftovers and not await _is_gone(connector, place, live):
        return Ended(failed=(f"how {place.run} ended is not known",))
    left_alone = (f"{place.run} was left alone before its end",) if end.outcome == "detached" else ()
    return Ended(failed=end.leftovers, remaining=left_alone)


async def _is_gone(connector: Connector, place: RunLocation, live: Live) -> bool:
    """Whether nothing of the run is on its hosts, and all of these answer. An earlier stop may have ended a part of it:
    how that ended nobody knows, and nothing is left all the same.
    """
    found, unreachable = await places.find_again(connector, place)
    return found is None and not may_have(live.plan, unreachable)


async def _beside(connector: Connector, front: FrontEnd, place: RunLocation, live: Live, grace: float | None) -> Ended:
    """Another distui here follows it: have the ranks stopped, by that one or from here; let it drain and clean up."""
    front.tell(f"stopping {place.run}; the distui that follows it here cleans up")
    assert place.stored is not None
    done = await stop_beside(connector, place.stored, live, grace)
    if done.unasked:
        front.tell(done.unasked, "warning")
    for words in _failures(done.failed):
        front.tell(words, "error")
    seconds = live.plan.stop_grace if grace is None else grace
    over = await places.let_go(place.stored, limit=seconds + (ACT_SECONDS if done.taken else DRAIN_SECONDS))
    if not over and done.taken:
        rest = await stop_rest(connector, place, live, grace)
        for words in _failures(rest):
            front.tell(words, "error")
        done = replace(done, failed={**done.failed, **rest})
        over = await places.let_go(place.stored, limit=DRAIN_SECONDS)
    failed = _failures(done.failed)
    if not over:
        return Ended(failed=failed, remaining=(f"{place.run} is still being read to its end",))
    if history.stored_row(place.stored).over:  # else that one is gone, and has not done it
        front.tell(f"{place.run} is stopped" + (f", but for what it has on {fold(done.failed)}" if done.failed else ""))
    return Ended(failed=failed)


def _failures(hosts: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{host}: {words}" for host, words in hosts.items())


async def _verify(
    connector: Connector, front: FrontEnd, place: RunLocation, live: Live, began: float
) -> tuple[str, ...]:
    """Look again: nothing of the run may run any more, whatever attempt its labels tell of; others' runs are named.

    Where nothing was recorded here, and there are several of that name and owner, each that ran by then is meant.
    What could not be ended, in words.
    """
    ours = live.plan.own_labels
    failed: list[str] = []
    for found in (await find_runs(connector, place.hosts, run=place.run)).named(place.run):
        same = ours is not None and (found.launch, found.owner) == (ours.launch, ours.owner)
        if not same and (place.stored is not None or found.owner != owner()):
            whom = safe(found.owner)[:100] or "an unknown user"
            front.tell(f"another run named {place.run}, of {whom}, is left as it is", "warning")
            continue
        for task in (*found.tasks, *found.others):
            if task.running and (same or (live.started(task) or began) < began):
                failed += await _stop_task(connector, front, place, task, live.plan.stop_grace)
    return tuple(failed)


async def _stop_task(
    connector: Connector, front: FrontEnd, place: RunLocation, task: FoundTask, grace: float
) -> list[str]:
    """Stop a task that still runs after its run was stopped, and remove it unless a distui here is still reading it;
    what could not be done, in words.
    """
    rest, read = FoundRun(place.run, (task,)), place.stored is not None and place.stored.is_followed
    plan = plan_of(rest, None, place.hosts)
    report = await stop_found(connector, rest, plan, who=owner(), grace=grace, remove=not read)
    failed = [*_failures(report.errors), *report.leftovers]
    for words in failed:
        front.tell(words, "error")
    return failed
