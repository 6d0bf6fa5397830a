"""Two plans side by side: what differs, as unified text."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

from distui.plan.command.tf import own_ports
from distui.plan.labels import PREFIX
from distui.plan.model import RunPlan
from distui.plan.serialize import to_json
from distui.plan.text.render import groups

VARYING = frozenset(
    {"run_id", "attempt", "hash", "owner", "distui.plan", "distui.started", "distui.attempt", "DISTUI_ATTEMPT"}
)
"""What differs between two runs of one job anyway."""


def compare(old: RunPlan, new: RunPlan) -> str:
    """A unified diff of the plans, one value a line; empty when they would run the same. Run ids read `RUN`."""
    before, after = list(_lines(old)), list(_lines(new))
    diff = difflib.unified_diff(before, after, old.run_id, new.run_id, lineterm="", n=0)
    return "\n".join(line for line in diff if not line.startswith("@@"))


def _lines(plan: RunPlan) -> Iterator[str]:
    """One line for each value; run id and ports that follow from it by name."""
    ports = [port for _, port in own_ports(plan.reasons)]
    port = re.compile(rf"\b({'|'.join(map(str, ports))})\b")
    for path, value in _flat(to_json(plan), ""):
        if path.rpartition("/")[2] not in VARYING:
            line = f"{path} = {value}".replace(plan.run_id, "RUN")
            yield port.sub("PORT", line) if ports else line


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
