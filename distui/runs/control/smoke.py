"""Runs the all-reduce smoke: a small run on each pair of hosts, with everything a run has, cleaned up after."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from distui.doctor.images import images_present
from distui.doctor.smoke import NO_TORCH, SECONDS, PairResult, read_answer, rounds, smoke_job
from distui.facts.host import HostFacts, ProbeResult
from distui.plan.model import NoPlan, RunPlan
from distui.plan.plan import plan
from distui.runs.attempt.limits import Limits
from distui.runs.attempt.run_context import run_context
from distui.runs.control.controller import RunController
from distui.runs.lines.events import LogLines, Notice, RunEnded
from distui.runs.store.runs import RunStore
from distui.session import Connector
from distui.spec.hosts.inventory import HostPick, Inventory
from distui.spec.job.job import Job

OnPair = Callable[[PairResult], None]


async def smoke(
    connector: Connector,
    inventory: Inventory,
    results: Mapping[str, ProbeResult],
    job: Job,
    *,
    owner: str,
    version: str,
    on_pair: OnPair = lambda pair: None,
) -> tuple[PairResult, ...]:
    """Try every host that answered with its neighbour; pairs without a host in common side by side.

    Containers are started, and removed whatever happens: cancelling this stops them and waits until they are gone.
    """
    up = [name for name, found in results.items() if isinstance(found, HostFacts)]
    done: list[PairResult] = []
    lacking = await _lacking(connector, inventory, job, up)
    with TemporaryDirectory(prefix="distui-smoke-") as folder:
        for side_by_side in rounds(up):
            tried = [pair for pair in side_by_side if not lacking & set(pair)]
            made = [_planned(inventory, results, job, pair, owner, version) for pair in tried]
            without = [_without(pair, job, lacking) for pair in side_by_side if pair not in tried]
            for pair in [*without, *await _all(connector, Path(folder), results, tried, made)]:
                done.append(pair)
                on_pair(pair)
    return tuple(done)


async def _lacking(connector: Connector, inventory: Inventory, job: Job, up: Sequence[str]) -> frozenset[str]:
    """The hosts without the job's image."""
    hosts = [host for name in up if (host := inventory.get(name)) is not None]
    found = (await images_present(connector, hosts, (job.image,))).get(job.image, {}) if job.image else {}
    return frozenset(host for host, there in found.items() if there == "")


def _without(pair: tuple[str, str], job: Job, lacking: frozenset[str]) -> PairResult:
    without = [host for host in pair if host in lacking]
    where = f"is not on {without[0]}" if len(without) == 1 else "is on neither of them"
    return PairResult(pair, error=f"image {job.image} {where}", hint="pull it there first", untried=True)


def _planned(
    inventory: Inventory, results: Mapping[str, ProbeResult], job: Job, pair: Sequence[str], owner: str, version: str
) -> RunPlan | NoPlan:
    name = f"smoke-{secrets.token_hex(4)}"
    picks = [HostPick(host) for host in pair]
    return plan(smoke_job(job, results, pair), inventory, picks, results, run_id=name, owner=owner, version=version)


async def _all(
    connector: Connector,
    folder: Path,
    results: Mapping[str, ProbeResult],
    pairs: Sequence[tuple[str, str]],
    plans: Sequence[RunPlan | NoPlan],
) -> list[PairResult]:
    """One round; a pair that fails does not end the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_one(connector, folder, results, pair, made))
            for pair, made in zip(pairs, plans, strict=True)
        ]
    return [task.result() for task in tasks]


async def _one(
    connector: Connector,
    folder: Path,
    results: Mapping[str, ProbeResult],
    pair: tuple[str, str],
    made: RunPlan | NoPlan,
) -> PairResult:
    if isinstance(made, NoPlan):
        first = made.problems[0]
        return PairResult(pair, error=str(first), untried=True)
    stored = RunStore(folder).create(made.run_id)
    facts = {name: f for name, f in results.items() if isinstance(f, HostFacts)}
    heard = _Heard()
    context = run_context(made, connector=connector, stored=stored, limits=Limits(run=SECONDS, lost=30))
    async with RunController(made, context, facts=facts) as run:
        try:
            await _drain(run, heard)
        except asyncio.CancelledError:
            run.request_stop("user", grace=0)
            await asyncio.shield(_drain(run, heard))
            raise
    return _result(pair, made, heard)


@dataclass(slots=True)
class _Heard:
    """What a run reported: the lines of its ranks, the errors on the way, its end."""

    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    ended: RunEnded | None = None


async def _drain(run: RunController, heard: _Heard) -> None:
    """To the end of the run."""
    async for batch in run.batches():
        for event in batch:
            match event:
                case LogLines(lines=lines):
                    heard.lines += [line.text for line in lines]
                case Notice(level="error", text=text):
                    heard.errors.append(text)
                case RunEnded():
                    heard.ended = event
                case _:
                    pass


def _result(pair: tuple[str, str], made: RunPlan, heard: _Heard) -> PairResult:
    """The time, or the nearest reason: what the program said, why the start was refused, how the first rank failed."""
    seconds, backend, error = read_answer(heard.lines)
    path = f"{made.networks[0].ifname} {made.networks[0].fabric}"
    ended = heard.ended
    if seconds is not None and ended is not None and ended.outcome == "succeeded":
        return PairResult(pair, seconds, backend, path)
    failure = ended.failure if ended is not None else None
    refused = heard.errors[0] if heard.errors else ""
    first = ": ".join(filter(None, (failure.words, failure.cause))) if failure is not None else ""
    end = f"the test run ended as {ended.outcome}" if ended is not None else "the test run's end is unknown"
    left = f"; still there: {', '.join(ended.leftovers)}" if ended is not None and ended.leftovers else ""
    hint = failure.hint if failure is not None and not error else ""
    words = (error or refused or first or end) + left
    return PairResult(pair, None, backend, path, words, hint, untried=error.startswith(NO_TORCH))
