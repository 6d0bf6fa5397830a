"""`distui why`: which rank holds the others up, and where in the code."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distui.amounts import duration
from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.actions.ps import when
from distui.cli.actions.why_figures import HEADS, figures_json, figures_row
from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.attach import places
from distui.cluster.logs.folder import said_of
from distui.cluster.why import Why, why, why_before
from distui.errors import UsageError
from distui.plan.labels import format_ranks
from distui.runs.lines.explanation import STANDS, RankPlace
from distui.runs.store.why_records import WhyRecord, record_json


def act(settings: Settings, out: Console, run: str, stacks: bool, save: Path | None) -> int:
    """See `why --help`."""
    if save is not None:
        settings.refuse_readonly("why --save")
        if save.exists():
            raise UsageError(f"{save} exists", hint="give another name")

    def ask(place: places.RunLocation) -> Why:
        before = why_before(settings.cluster, place)
        return before or wiring.run_async(_ask(settings, place, stacks=stacks), limit=settings.timeout)

    found = settings.places.at(out.tell, run, ask)
    if save is not None:
        _save(save, found)
    if settings.json:
        out.json(_json(found))
        return 0
    if not found.ranks:
        out.print(f"{found.run} has ended; when its ranks were asked last, {when(found.record.at)}:")
    for line in _lines(out, found, stacks=stacks):
        out.print(line)
    if save is not None:
        out.say(f"written to {save}")
    return 0


async def _ask(settings: Settings, place: places.RunLocation, *, stacks: bool) -> Why:
    async with wiring.connected(settings, place.hosts) as connector:
        return await why(settings.cluster, connector, place, stacks=stacks)


def _json(found: Why) -> dict[str, Any]:
    answers = {"answers": [dataclasses.asdict(seen) for seen in found.ranks]}
    return record_json(found.record, found.run) | answers | (figures_json(found.slow) if found.slow is not None else {})


def _lines(out: Console, why: Why, *, stacks: bool) -> Iterator[str]:
    record, found = why.record, why.record.found
    since = f" (for {duration(record.at - found.since)})" if found.since is not None else ""
    yield out.styled(found.headline + since, "green" if found.kind == "moving" else "yellow")
    if found.certainty == "likely" and found.kind in STANDS:
        yield "not certain: some ranks did not say where they are"
    yield from (f"  {line}" for line in found.evidence)
    yield ""
    if why.slow is None:
        yield from consoles.table(("RANK", "HOST", "BEHIND", "AT", "DOES"), map(_row, found.ranks))
    else:
        yield from consoles.table(HEADS, (figures_row(place, why.slow) for place in found.ranks))
    if found.advice:
        yield ""
        yield f"next: {found.advice}"
    if stacks:
        yield from _stacks(record)


def _row(place: RankPlace) -> tuple[str, ...]:
    behind = "?" if place.behind is None else str(place.behind or "")
    return (f"{'>' if place.culprit else ' '}{place.rank}", place.host, behind, place.place, place.does)


def _stacks(record: WhyRecord) -> Iterator[str]:
    for calls in record.calls:
        yield ""
        yield f"rank{'s' * (len(calls.ranks) > 1)} {format_ranks(calls.ranks)}:"
        yield from (f"  {frame}" for frame in calls.frames or ("no stack: it did not answer, or runs no Python",))


def _save(folder: Path, found: Why) -> None:
    """Everything as a folder to pass on. Raises UsageError when it can't be written."""
    with said_of(folder):
        folder.mkdir(parents=True)
    text = "\n".join(_stacks(found.record)).lstrip("\n") + "\n"
    for name, content in (("why.json", json.dumps(_json(found), indent=1)), ("stacks.txt", text)):
        with said_of(folder / name):
            (folder / name).write_text(content, encoding="utf-8", errors="replace")
