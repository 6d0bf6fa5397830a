"""Runs that a verb lists or names one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from distui.cli.console import Console
from distui.errors import DistuiError
from distui.runs.lines.event_json import failure_json
from distui.runs.report.history import RunRow


def row_json(row: RunRow) -> dict[str, Any]:
    """A run as an object of `distui/ps/v1`; keys are only ever added."""
    return {
        "run": row.run,
        "job": row.job,
        "state": row.state,
        "hosts": list(row.hosts),
        "ranks": row.ranks,
        "owner": row.owner,
        "started": row.started,
        "took_s": row.took,
        "exit": row.exit,
        "first_failure": failure_json(row.failure),
        "warnings": list(row.warnings),
        "here": row.recorded,
        "log_dir": row.log_dir or None,
        "attempt": row.attempt,
        "attempts": row.attempts,
        "left": list(row.left),
        "stalled": {"since": row.stalled.since, "step": row.stalled.step} if row.stands and row.stalled else None,
        "followed": row.followed,
        "quiet": {"since": row.quiet} if row.silent else None,
    }


def each_named(out: Console, names: Sequence[str], work: Callable[[str], int]) -> int:
    """Do `work` for each of these runs; what is wrong with one is said and keeps it from none of the others.

    Returns the highest exit code.
    """
    codes = []
    for name in names:
        try:
            codes.append(work(name))
        except DistuiError as exc:
            hint = f"\n  try: {exc.hint}" if exc.hint else ""
            out.warn(f"distui: {exc.message}{hint}", "red")
            codes.append(exc.exit_code)
    return max(codes)
