"""Whose GPU is sick where a run does not go on, tied to the rank and to what it holds up. Pure."""

from __future__ import annotations

from dataclasses import replace

from distui.amounts import duration
from distui.runs.insight.seen.sick import Fault, Health
from distui.runs.lines.explanation import STANDS, Explanation

MOST_LINES = 8
RESET = "reset GPU {gpu} of {host} with `nvidia-smi -r` or reboot {host}, and leave it out of runs until then"


def with_gpus(found: Explanation, health: Health, now: float) -> Explanation:
    """What was found, with what is wrong with the GPUs: in the headline where it is that of who holds others up."""
    if not health.faults and not health.unknown:
        return found
    stands = found.kind in STANDS
    lines = [_line(fault, found, now) for fault in health.faults][:MOST_LINES]
    if stands:
        lines += health.unknown[:MOST_LINES]
    found = replace(found, evidence=(*found.evidence, *lines))
    if not stands:
        return found
    named = any(place.culprit for place in found.ranks)
    found = found if named else _held_up_by(found, health)
    culprits = [place for place in found.ranks if place.culprit]
    worst = next((f for f in health.faults if f.rank in {one.rank for one in culprits}), None)
    if worst is None or (len(culprits) > 1 and not worst.broken):
        return found
    whose = "its" if named and len(culprits) == 1 else f"rank {worst.rank}'s"
    advice = RESET.format(gpu=worst.gpu, host=worst.host) if worst.broken else found.advice
    headline = f"{found.headline}; {whose} GPU {worst.gpu} {worst.words}{_when(worst, found, now)}"
    return replace(found, headline=headline, advice=advice)


def _held_up_by(found: Explanation, health: Health) -> Explanation:
    """All have entered a collective that does not end: a rank whose GPU does not work any more is why."""
    broken = {fault.rank for fault in health.faults if fault.broken}
    places = tuple(replace(place, culprit=place.rank in broken) for place in found.ranks)
    return replace(found, ranks=tuple(sorted(places, key=lambda place: (not place.culprit, place.rank))))


def _line(fault: Fault, found: Explanation, now: float) -> str:
    return f"rank {fault.rank} on {fault.host}: GPU {fault.gpu} {fault.words}{_when(fault, found, now)}"


def _when(fault: Fault, found: Explanation, now: float) -> str:
    """How long before or after what stands still began to; how long ago where nothing does."""
    if fault.at is None:
        return ""
    if found.since is None:
        return f", {duration(now - fault.at)} ago"
    before = found.since - fault.at
    return f", {duration(before)} before" if before >= 0 else f", {duration(-before)} after that"
