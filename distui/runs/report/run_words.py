"""A run in the words of a list, the same in `ps` and the app: how long it took, which attempt it is, what failed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from distui.amounts import duration
from distui.runs.lines.events import Failure, RanksRestarted
from distui.runs.report.history import RunRow
from distui.runs.verdict.exit_words import exit_words

RESTARTS = 3
"""Ranks that are named of those after which torchrun started all again."""
TOGETHER_S = 30.0
"""Seconds within which failures on several nodes are one: ranks end that have lost a peer, and all start again once."""


def took_words(row: RunRow) -> str:
    """How long it took, or has been running; empty when nobody here knows."""
    if row.took is not None:
        return duration(row.took)
    return duration(max(0.0, time.time() - row.started)) if row.started is not None and row.goes_on else ""


def attempt_words(row: RunRow) -> str:
    """`attempt 2 of 3` where the job allows several; else empty."""
    return f"attempt {row.attempt} of {row.attempts}" if row.attempts > 1 else ""


def failure_words(failure: Failure | None, *, brief: bool = False) -> str:
    """`r13 node02 exit 1: CUDA out of memory`, empty when nothing failed; `brief` has the cause alone."""
    if failure is None:
        return ""
    rank = failure.name or (f"r{failure.rank}" if failure.rank is not None else "")
    what = failure.cause if brief and failure.cause else ": ".join(filter(None, (failure.words, failure.cause)))
    return " ".join(filter(None, (rank, failure.host, what)))


def restart_words(restarts: Sequence[RanksRestarted]) -> str:
    """`torchrun started the ranks again 3 times: after rank 1 on h2 (exit 1, 2 times), ...`; empty where it did not."""
    if not restarts:
        return ""
    causes = Counter((one.rank, one.host, one.exit) for one in restarts)
    named = [
        f"rank {rank} on {host} ({exit_words(code, oom=False)}{f', {_times(count)}' if count > 1 else ''})"
        for (rank, host, code), count in causes.most_common(RESTARTS)
    ]
    more = f" and {len(causes) - RESTARTS} more" if len(causes) > RESTARTS else ""
    return f"torchrun started the ranks again {_times(restarts_of(restarts))}: after {', '.join(named)}{more}"


def restarts_of(restarts: Sequence[RanksRestarted]) -> int:
    """How often torchrun started the ranks again: once where several nodes report it of one failure, each by its own
    torchrun.
    """
    count, began, nodes = 0, 0.0, set[int]()
    for one in restarts:
        if not count or one.task in nodes or abs(one.at - began) > TOGETHER_S:
            count, began, nodes = count + 1, one.at, set()
        nodes.add(one.task)
    return count


def _times(count: int) -> str:
    """`once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"
