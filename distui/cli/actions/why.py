"""`distui why`: which rank holds the others up, and where in the code."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from distui.amounts import duration
from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.attach import places
from distui.cluster.logs.folder import said_of
from distui.cluster.why import Why, why
from distui.errors import UsageError
from distui.plan.labels import format_ranks
from distui.runs.insight.explain import RankPlace
from distui.runs.insight.look import Look
from distui.runs.insight.ranks import RankSeen
from distui.runs.store.masking import Mask


def act(settings: Settings, out: Console, run: str, stacks: bool, save: Path | None) -> int:
    """See `why --help`."""
    if save is not None:
        settings.refuse_readonly("why --save")
        if save.exists():
            raise UsageError(f"{save} exists", hint="give another name")

    def ask(place: places.RunLocation) -> Why:
        return wiring.run_async(_ask(settings, place, stacks=stacks), limit=settings.timeout)

    found = settings.places.at(out.tell, run, ask)
    mask = Mask.of(found.plan.secret_names, settings.environ)
    found = Why(found.plan, Look(tuple(map(mask.event, found.look.ranks)), mask.event(found.look.explanation)))
    if save is not None:
        _save(save, found)
    if settings.json:
        out.json(_json(found))
        return 0
    for line in _lines(out, found, stacks=stacks):
        out.print(line)
    if save is not None:
        out.say(f"written to {save}")
    return 0


async def _ask(settings: Settings, place: places.RunLocation, *, stacks: bool) -> Why:
    async with wiring.connected(settings, place.hosts) as connector:
        return await why(settings.cluster, connector, place, stacks=stacks)


def _json(found: Why) -> dict[str, Any]:
    explanation = found.look.explanation
    return {
        "schema": "distui/why/v1",
        "run": found.plan.run_id,
        **dataclasses.asdict(explanation),
        "culprits": list(explanation.culprits),
        "answers": [dataclasses.asdict(seen) for seen in found.look.ranks],
    }


def _lines(out: Console, found: Why, *, stacks: bool) -> Iterator[str]:
    explanation = found.look.explanation
    now = max((seen.at for seen in found.look.ranks), default=0.0)
    since = f" (for {duration(now - explanation.since)})" if explanation.since is not None else ""
    yield out.styled(explanation.headline + since, "green" if explanation.kind == "moving" else "yellow")
    if explanation.certainty == "likely":
        yield "not certain: some ranks did not say where they are"
    yield from (f"  {line}" for line in explanation.evidence)
    yield ""
    yield from consoles.table(("RANK", "HOST", "BEHIND", "AT", "DOES"), map(_row, explanation.ranks))
    if explanation.advice:
        yield ""
        yield f"next: {explanation.advice}"
    if stacks:
        yield from _stacks(found.look.ranks)


def _row(place: RankPlace) -> tuple[str, ...]:
    behind = "?" if place.behind is None else str(place.behind or "")
    return (f"{'>' if place.culprit else ' '}{place.rank}", place.host, behind, place.place, place.does)


def _stacks(ranks: Sequence[RankSeen]) -> Iterator[str]:
    """The calls of main threads, the rarest first: the odd one out is what people look for."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for seen in ranks:
        stack = seen.main_stack
        groups.setdefault(tuple(map(str, stack.frames)) if stack else (), []).append(seen.rank)
    for frames, who in sorted(groups.items(), key=lambda item: len(item[1])):
        yield ""
        yield f"rank{'s' * (len(who) > 1)} {format_ranks(tuple(who))}:"
        yield from (f"  {frame}" for frame in frames or ("no stack: it did not answer, or runs no Python",))


def _save(folder: Path, found: Why) -> None:
    """Everything as a folder to pass on. Raises UsageError when it can't be written."""
    with said_of(folder):
        folder.mkdir(parents=True)
    text = "\n".join(_stacks(found.look.ranks)).lstrip("\n") + "\n"
    for name, content in (("why.json", json.dumps(_json(found), indent=1)), ("stacks.txt", text)):
        with said_of(folder / name):
            (folder / name).write_text(content, encoding="utf-8", errors="replace")
