"""What ranks answered about a run that did not go on, kept in its folder: a private file each time they were asked.

<run>/why/00001-hang.json: the number counts up, and its kind tells which files may go first.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from distui.codec import read, write
from distui.facts.values import loads
from distui.files import make_private, read_bytes, write_private
from distui.frozen import frozen
from distui.regex import regex
from distui.runs.lines.events import At, iso
from distui.runs.lines.explanation import TELLS, Calls, Explanation, explanation_json
from distui.runs.store.runs import StoredRun

MOST_FILES = 10
MOST_BYTES = 256 << 10
"""Of one file."""

SCHEMA = "distui/why/v1"

_NAME = regex(r"([0-9]{5,9})-([a-z]{1,12})\.json")


@frozen
class WhyRecord:
    """What ranks answered when they were asked. `by`: whoever follows the run, or somebody with `distui why`."""

    at: At
    by: Literal["run", "user"]
    found: Explanation
    calls: tuple[Calls, ...] = ()


def record_json(record: WhyRecord, run: str) -> dict[str, Any]:
    """As files and `why -o json` have it."""
    return {
        "schema": SCHEMA,
        "run": run,
        "ts": iso(record.at),
        "by": record.by,
        **explanation_json(record.found),
        "calls": [write(calls) for calls in record.calls],
    }


def keep(stored: StoredRun, record: WhyRecord) -> bool:
    """Write it into the run's folder; whether that was possible. Of too many files the least telling ones go."""
    folder = stored.path / "why"
    try:
        make_private(folder)
        files = _files(folder)
        number = 1 + max((int(match[1]) for match in files.values()), default=0)
        write_private(folder / f"{number:05d}-{record.found.kind}.json", _bounded(record, stored.run_id))
        least = sorted(files, key=lambda path: (files[path][2] in TELLS, path.name))
        for path in least[: max(0, len(files) + 1 - MOST_FILES)]:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def kept(stored: StoredRun) -> tuple[WhyRecord, ...]:
    """What is kept of the newest attempt in which ranks were asked, oldest first. What can't be read is left out."""
    attempts = [stored, *(stored.attempt(number) for number in reversed(stored.earlier()))]
    return next((found for attempt in attempts if (found := tuple(_read(attempt.path / "why")))), ())


def telling(records: Sequence[WhyRecord]) -> WhyRecord | None:
    """Of what is kept the newest that tells who holds the others up; else the newest."""
    return next((one for one in reversed(records) if one.found.kind in TELLS), records[-1] if records else None)


def _files(folder: Path) -> dict[Path, re.Match[str]]:
    return {path: match for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))}


def _bounded(record: WhyRecord, run: str) -> bytes:
    """As it is written: first without calls, then with fewer ranks, where it is too long."""
    data = json.dumps(record_json(record, run), ensure_ascii=False).encode("utf-8", "replace")
    if len(data) <= MOST_BYTES:
        return data
    if record.calls:
        return _bounded(replace(record, calls=()), run)
    return _bounded(replace(record, found=record.found.shortened()), run)


def _read(folder: Path) -> Iterator[WhyRecord]:
    with contextlib.suppress(OSError):
        for path in sorted(_files(folder)):
            with contextlib.suppress(OSError, ValueError):
                value = loads(read_bytes(path, MOST_BYTES))
                yield read(WhyRecord, value, found=read(Explanation, value))
