"""Ranks that stand still, for the tests of screens: what they tell, and what is kept of it."""

from __future__ import annotations

import time
from dataclasses import replace

from fakes import FakeLive

from distui.cluster.why import Why
from distui.plan.model import RunPlan
from distui.runs.lines.events import RanksAsked, RanksStepped, RankStep
from distui.runs.lines.explanation import Calls, Explanation, RankPlace
from distui.runs.store.why_records import WhyRecord, keep

LOAD = ("/work/train.py:6 in load", "/work/train.py:21 in main", "/work/train.py:30 in <module>")
WAIT = (
    "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2806 in all_reduce",
    "/work/train.py:24 in main",
    "/work/train.py:30 in <module>",
)


def hang(plan: RunPlan, *, rank: int = 13, since: float | None = None) -> Explanation:
    """One rank sleeps, the others wait for it."""
    hosts = {one: task.host for task in plan.tasks for one in task.ranks}
    rest = "0-12,14-15" if rank == 13 else "all others"
    what = "all_reduce #31 of 1000 Float in the default group"
    places = [RankPlace(rank, hosts[rank], "sleeps at /work/train.py:6 in load", "all_reduce #30", 1, culprit=True)]
    waits = "waits in all_reduce #31 at /work/train.py:24 in main"
    places += [RankPlace(one, host, waits, "all_reduce #31", 0) for one, host in hosts.items() if one != rank]
    return Explanation(
        "hang",
        f"rank {rank} has not entered {what}, for which ranks {rest} wait: it sleeps at /work/train.py:6 in load",
        "certain",
        tuple(places),
        (f"{what}: ranks {rest} entered, rank {rank} did not",),
        "look at /work/train.py:6",
        since,
        what,
    )


def moving(plan: RunPlan) -> Explanation:
    """Nothing stands still."""
    places = tuple(replace(place, culprit=False, behind=0, does="computes") for place in hang(plan).ranks)
    return Explanation("moving", "no collective stands still", "certain", tuple(sorted(places, key=lambda p: p.rank)))


def calls(plan: RunPlan, rank: int = 13) -> tuple[Calls, ...]:
    """The calls of all ranks, the odd one first."""
    rest = tuple(one for task in plan.tasks for one in task.ranks if one != rank)
    return (Calls((rank,), LOAD), Calls(rest, WAIT))


def answer(plan: RunPlan, at: float, *, stood: float = 124.0) -> Why:
    """What the ranks tell when they are asked."""
    return Why(plan.run_id, WhyRecord(at, "user", hang(plan, since=at - stood), calls(plan)))


async def stand_still(live: FakeLive) -> None:
    """No rank has said a step for two minutes, rank 13 one less than the others; they were asked why."""
    now = time.time()
    ranks = sorted(rank for task in live.plan.tasks for rank in task.ranks)
    said = tuple(RankStep(rank, 38 if rank == 13 else 39, now - 124) for rank in ranks)
    await live.feed(RanksStepped(now - 124, said))
    await stands(live, now)


async def stands(live: FakeLive, at: float, *, stood: float = 124.0) -> RanksAsked:
    """Who follows the run has asked: it is written down, and said as an event."""
    found = hang(live.plan, since=at - stood)
    keep(live.stored, WhyRecord(at, "run", found, calls(live.plan)))
    event = RanksAsked(at, found)
    await live.feed(event)
    return event
