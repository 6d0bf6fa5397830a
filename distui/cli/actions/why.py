"""`distui why`: which rank holds the others up, and where in the code."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distui.amounts import moment
from distui.cli import wiring
from distui.cli.actions.why_figures import figures_json, hosts_json
from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.attach import places
from distui.cluster.why import NOT_ASKED, Why, why, why_before
from distui.codec import write
from distui.errors import UsageError
from distui.files import exists, writing
from distui.runs.lines.text import safe
from distui.runs.report import why_words
from distui.runs.report.network_words import network_text
from distui.runs.store.why_records import record_json


def act(settings: Settings, out: Console, run: str, stacks: bool, save: Path | None) -> int:
    """See `why --help`."""
    if save is not None:
        settings.refuse_readonly("why --save")
        if exists(save):
            raise UsageError(f"{save} exists", hint="give another name")

    def ask(place: places.RunLocation) -> Why:
        before = why_before(settings.cluster, place)
        return before or wiring.run_async(_ask(settings, place, stacks=stacks), limit=settings.timeout)

    found = settings.places.at(out.tell, run, ask)
    if save is not None:
        _save(save, found)
        for words in found.mask.warnings:
            out.tell(f"{save}: {words}", "warning")
    if settings.json:
        out.json(_json(found))
        return 0
    if not found.asked:
        out.print(f"{found.run} has ended, and {NOT_ASKED}")
    elif not found.ranks:
        out.print(f"{found.run} has ended; when its ranks were asked last, {moment(found.record.at)}:")
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
    network = {"network": write(found.network) if found.network is not None else None}
    figures = figures_json(found.slow) if found.slow is not None else hosts_json(found.hosts)
    return record_json(found.record, found.run) | answers | network | figures


def _lines(out: Console, why: Why, *, stacks: bool) -> Iterator[str]:
    if why.asked:
        first, *rest = map(safe, why_words.text(why.record, why.slow, stacks=stacks))
        yield out.styled(first, "green" if why.record.found.kind == "moving" else "yellow")
        yield from rest
    if (used := why.network) is not None:
        yield ""
        for line in network_text(used, time.time()):
            yield out.styled(safe(line), "yellow") if used.warnings else safe(line)


def _save(folder: Path, found: Why) -> None:
    """Everything as a folder to pass on. Raises UsageError when it can't be written."""
    with writing(folder):
        folder.mkdir(parents=True)
    text = "\n".join(why_words.stacks_text(found.record)).lstrip("\n") + "\n"
    for name, content in (("why.json", json.dumps(_json(found), indent=1)), ("stacks.txt", text)):
        with writing(folder / name):
            (folder / name).write_text(content, encoding="utf-8", errors="replace")
