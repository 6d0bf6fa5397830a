"""What ended a task from outside: a boot of its host, its engine, somebody who removed or signalled its container."""

from __future__ import annotations

import math

from distui.runs.verdict.ends.stops import STOP_CODES
from distui.runs.verdict.evidence import End, Evidence, HostSeen, TaskSeen

REMOVED = "its container was removed by somebody else"
FOLDER_REMOVED = "its folder there was removed by somebody else"
"""Of a process, which may live on without it."""
KILLED = "by `docker stop` or `docker kill` there, not by distui"
KILLED_UNSEEN = "by `docker stop`, `docker kill` or a restart of the engine there, not by distui"
REBOOTED = "its host was restarted"
ENGINE = "its container engine was stopped or restarted"
SIGNALLED = (KILLED, KILLED_UNSEEN, ENGINE)
UNSEEN = "nobody saw how it ended: its supervisor is gone"

GIVEN_UP = 255
"""Docker's exit code of containers whose end it did not see: the host went down under them."""

ENGINE_SLACK = 15.0
"""Seconds that an engine may take over stopping its containers before it is seen to be down."""


def place_of(engine: str) -> str:
    """What a task of this engine has on its host, in words."""
    return "its folder" if engine == "process" else "its container"


def removed(engine: str) -> str:
    """In words, that a task of this engine was not there any more."""
    return FOLDER_REMOVED if engine == "process" else REMOVED


def is_removal(code: int | None, words: str) -> bool:
    """Whether all that these words tell of an end is that the task was not there any more."""
    return code is None and words in (REMOVED, FOLDER_REMOVED)


def what_ended(evidence: Evidence, task: TaskSeen, code: int | None, *, stopped: bool) -> str:
    """In words; the engine's own where nothing better is known, "" where nothing is.

    `stopped` tells that distui had ended it in the end, after it had failed.
    """
    end = task.end
    if end is None:
        return ""
    if stopped:
        return end.error
    host = evidence.hosts.get(task.host, HostSeen())
    if host.rebooted and as_a_boot(end):
        return REBOOTED
    if end.by and code != 0 and not end.oom:
        return f"stopped by {end.by} with `distui {end.verb} --rank`"
    if end.error:
        return end.error
    if _engine_ended(host, end):
        return ENGINE
    if task.removed and (end.code is None or end.code in STOP_CODES):
        return removed(task.engine)
    if end.state == "lost":
        return UNSEEN
    if end.signalled and code in (end.code, None) and end.code != 0 and not end.oom:
        return KILLED_UNSEEN if _while_away(evidence, task, end) else KILLED
    return ""


def _while_away(evidence: Evidence, task: TaskSeen, end: End) -> bool:
    """Whether the host was out of reach as the task ended: then nobody saw how its engine was, which signals its
    containers as it stops or starts, too.
    """
    host = evidence.hosts.get(task.host, HostSeen())
    if end.at is None:
        return bool(host.away)
    doubt = evidence.doubt(task.host, end.at)
    return any(since - doubt <= end.at <= until + doubt for since, until in host.away)


def as_a_boot(end: End) -> bool:
    """Whether a task ended as a boot ends one: unseen, given up by Docker (255), or stopped by it."""
    known = end.oom or end.state == "never_started"
    return not known and (end.code is None or end.code in STOP_CODES or end.code == GIVEN_UP)


def down_at(evidence: Evidence, task: TaskSeen) -> float | None:
    """When a task's host went down under it: from then on it was out of reach until its boot, the task said nothing
    more, and nobody saw it end. Docker gives such an end the time of its own next start.
    """
    host, end = evidence.hosts.get(task.host), task.end
    if host is None or end is None or not host.rebooted or host.away_at is None:
        return None
    if not as_a_boot(end) or end.code in STOP_CODES or (end.at is not None and end.at < host.away_at):
        return None
    last = max((line.at for lines in task.lines.values() for line in lines if line.at is not None), default=-math.inf)
    return host.away_at if last <= host.away_at + evidence.doubt(task.host, host.away_at) else None


def _engine_ended(host: HostSeen, end: End) -> bool:
    """A daemon that stops or starts again stops its containers, unless live-restore is on. Those that take the signal
    themselves, as torchrun does, end with a code of their own."""
    lost, back = host.engine_lost_at, host.engine_back_at
    if lost is None or not (end.code in STOP_CODES or (end.signalled and end.code)):
        return False
    return end.at is None or lost - ENGINE_SLACK <= end.at <= (math.inf if back is None else back + ENGINE_SLACK)
