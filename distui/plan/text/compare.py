"""Two plans side by side: what differs, as unified text."""

from __future__ import annotations

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from distui.plan.command.tf import own_ports
from distui.plan.labels import PREFIX
from distui.plan.model import RunPlan
from distui.plan.serialize import to_json
from distui.plan.text.render import groups

VARYING = frozenset((
    "run_id", "attempt", "hash", "owner", "distui.plan", "distui.started", "distui.attempt", "DISTUI_ATTEMPT",
    "DISTUI_RUN",
))  # fmt: skip
"""What differs between two runs of one job anyway."""


def compare(old: RunPlan, new: RunPlan) -> str:
    """The values that differ, each with its path, as in a unified diff; empty when they would run the same. Run ids
    read `RUN`. Value by value: a diff of all lines takes minutes where every rank is on another host.
    """
    before, after = _by_path(old), _by_path(new)
    found: list[str] = []
    for path in _in_order(before, after):
        diff = difflib.unified_diff(before.get(path, []), after.get(path, []), lineterm="", n=0)
        found += [line for line in [*diff][2:] if not line.startswith("@@")]
    return "\n".join((f"--- {old.run_id}", f"+++ {new.run_id}", *found)) if found else ""


def _in_order(before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    """The paths of both, new ones behind the one that they follow."""
    known, behind, last = dict.fromkeys(before), defaultdict[str, list[str]](list), ""
    for path in after:
        if path in known:
            last = path
        else:
            behind[last].append(path)
    yield from behind[""]
    for path in known:
        yield path
        yield from behind[path]


def _by_path(plan: RunPlan) -> dict[str, list[str]]:
    """A line for each value, by their paths; run id and ports that follow from it by name."""
    ports = [port for _, port in own_ports(plan.reasons)]
    port = re.compile(rf"\b({'|'.join(map(str, ports))})\b")
    run = _run_named(plan)
    found: dict[str, list[str]] = {}
    for path, value in _flat(to_json(plan), ""):
        if path == "job" and plan.job == plan.run_id:  # without a job file the job is called as the run
            value = '"RUN"'
        if path.rpartition("/")[2] not in VARYING:
            line = f"{path} = {run.sub('RUN', value)}"
            found.setdefault(path, []).append(port.sub("PORT", line) if ports else line)
    return found


def _run_named(plan: RunPlan) -> re.Pattern[str]:
    """Where a value has the run's id in it. One that somebody gave it (`a`, `train`) may stand for something else, as
    in `train.py`, but in folders and names that are made of it; one that was made for it stands for nothing else.
    """
    run = re.escape(plan.run_id)
    if re.fullmatch(rf"{re.escape(plan.job)}-[0-9a-z]{{4}}", plan.run_id):
        return re.compile(rf"(?<![0-9A-Za-z]){run}(?![0-9A-Za-z])")
    return re.compile(rf"(?<=/){run}(?![\w.-])|(?<=\bdistui-){run}(?=-\d)|(?<=--rdzv-id ){run}(?![\w.-])")


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """`tasks/0/env/RANK`, `"0"`; of an argv each flag with its value."""
    match value:
        case dict():
            for key, item in sorted(value.items()):  # a stored plan is sorted, a fresh one is not
                if key not in ("start", "labels"):
                    yield from _flat(item, f"{path}/{key}" if path else key)
            for words in groups(_without_labels(value.get("start", []))):
                if not words.startswith("--name "):  # run, task and attempt once more
                    yield f"{path}/start", words
        case list() if any(isinstance(v, dict) for v in value):
            for i, item in enumerate(value):
                yield from _flat(item, f"{path}/{i}")
        case _:
            yield path, json.dumps(value, ensure_ascii=False)


def _without_labels(argv: list[str]) -> list[str]:
    """The argv without labels, which repeat the rest of the plan: `--label x=y`, and a process's as one JSON word."""
    kept = [w for i, w in enumerate(argv) if w != "--label" and (i == 0 or argv[i - 1] != "--label")]
    return [w for w in kept if not w.startswith(f'{{"{PREFIX}run"')]
