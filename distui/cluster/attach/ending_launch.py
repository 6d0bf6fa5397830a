"""Ending a run that has no task on its hosts: a launch under way, what one that was killed has left, a pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.cluster.attach import leftover, places
from distui.cluster.attach.front_end import Ended, FrontEnd
from distui.cluster.attach.places import RunLocation
from distui.cluster.attach.sweeping import SweptRun, sweep_run
from distui.cluster.settings import ClusterSettings
from distui.facts.host import Trouble
from distui.identity import owner
from distui.runs.hosts.claims.launches import Launch, find_launches, under_way, whose
from distui.runs.lines.text import safe
from distui.runs.report.states import ENDED
from distui.runs.report.summary import summary
from distui.runs.store.end_record import launch_here
from distui.runs.store.runs import StoredRun
from distui.session import Connector

DRAIN_SECONDS = 60.0
"""How long another distui on this machine may take to read the logs to their end after a stop."""


async def end_launch(
    settings: ClusterSettings,
    connector: Connector,
    front: FrontEnd,
    place: RunLocation,
    unreachable: Mapping[str, Trouble],
    word: str,
    seen: Launch | None,
) -> Ended | None:
    """No task of the run was found: end a launch that is under way, remove what one that was killed has left.

    `seen` is the folder that said how the run ended when one was last looked for; it may have been removed by now.
    What somebody else removes meanwhile is gone all the same. None when it is to be looked for again: a task began
    meanwhile, or whoever had it here is gone without an end. Raises NotFound, or ContactLost when there may be
    something on a host that did not answer.
    """
    if place.stored is not None and place.stored.is_followed:
        place.stored.ask_stop()
        if unreachable:
            places.there(settings, place, None, unreachable)
        return await _asked_here(settings, front, place.stored)
    up = [host for host in place.hosts if host.name not in unreachable]
    launches = await find_launches(connector, up, place.run)
    if unlisted := [one for one in launches if one.unlisted]:
        return _left_to_others(front, unlisted)
    recorded = launch_here(place.stored)
    left = leftover.chosen(settings, place, launches) or seen
    others = [one for one in launches if one.token != recorded and one.owner != owner()]
    if others and not await _agreed(front, place.run, others, word, ended=left is not None):
        return Ended(agreed=False)
    swept = await _sweep(connector, front, place, launches, recorded, unreachable)
    nothing = swept.whole and not swept.hosts
    if not nothing and (await places.find_again(connector, place))[0] is not None:
        return None
    failed = [*swept.left, *swept.failed]
    if left is not None:
        await front.show_end(left)
        failed += _unknown(left)
        unreachable = {host: unreachable[host] for host in leftover.not_reached(place, left, unreachable)}
    known = place.stored or settings.store.get(place.run)  # by a faster stop, or a start that has just begun
    if nothing and known is not None and known.is_followed and known != place.stored:
        place = replace(place, stored=known)
        return await end_launch(settings, connector, front, place, unreachable, word, left)
    if unreachable or (nothing and known is None and left is None and not launches):
        places.there(settings, place, None, unreachable)
    if nothing:
        front.tell(f"{place.run} is not running; there is nothing to {word}")
    return Ended(failed=tuple(failed))


def _left_to_others(front: FrontEnd, unlisted: Sequence[Launch]) -> Ended:
    """Say that the tasks of these can't be stopped from here."""
    failed = tuple(map(_unlisted, unlisted))
    for words in failed:
        front.tell(f"left: {words}", "error")
    return Ended(failed=failed)


def _unlisted(one: Launch) -> str:
    own = f"started with `docker: {safe(one.engine)[:20]}`"
    return f"what {one.run} has on {one.host}: {own}, and hosts.yaml here has another engine for it"


async def _sweep(
    connector: Connector,
    front: FrontEnd,
    place: RunLocation,
    launches: Sequence[Launch],
    recorded: str,
    unreachable: Mapping[str, Trouble],
) -> SweptRun:
    """Stop the launches and remove what they left on the hosts that answer, and say what that came to."""
    for text in sorted({whose(one) for one in under_way(launches, recorded)}):
        front.tell(f"stopping the launch of {place.run} by {text}; if it is still under way it is stopped, too")
    tokens = dict.fromkeys((recorded, *(one.token for one in launches)))
    with places.say_if_slow(front.tell, place, removes=True):
        swept = await sweep_run(connector, place.run, place.hosts, tokens, place.stored, spare=unreachable)
    for level, words in swept.words(place.run):
        front.tell(words, level)
    return swept


async def _agreed(front: FrontEnd, run: str, others: list[Launch], word: str, *, ended: bool) -> bool:
    """Whether launches of somebody else are to be ended."""
    does = "has ended, and was started" if ended else "is being started"
    whom = ", ".join(sorted({whose(one) for one in others}))
    return await front.agree(f"{run} {does} by {whom}. {word.capitalize()} it?", {one.owner for one in others})


def _unknown(left: Launch) -> list[str]:
    """That it is not known how the run ended of which only a folder is left."""
    unknown = left.record is not None and left.record.ended.outcome == "unknown"
    return [f"how {left.run} ended is not known"] if unknown else []


async def _asked_here(settings: ClusterSettings, front: FrontEnd, stored: StoredRun) -> Ended | None:
    """Another distui here has it in its hands, and it has no task on its hosts: it is being started, or rests before
    its next attempt. None when that one is gone without an end.
    """
    run = stored.run_id
    if not await places.let_go(stored, limit=DRAIN_SECONDS):
        goes_on = f"{run} is followed by another distui here, which is still running"
        front.tell(goes_on)
        return Ended(failed=(goes_on,))
    if settings.store.get(run) is not None and (summary(stored).result or {}).get("state") not in ENDED:
        return None
    front.tell(f"{run} is stopped")
    return Ended(remaining=still_there(stored))


def still_there(stored: StoredRun) -> tuple[str, ...]:
    """What whoever followed the run to its end could not remove, or kept, in words."""
    left = (summary(stored).result or {}).get("leftovers")
    return tuple(map(str, left)) if isinstance(left, list) else ()
