"""Why a rank ended: the cause that its last lines name, or else its exit status."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from functools import lru_cache

from distui.regex import regex
from distui.runs.verdict.lines.causes import RULES
from distui.runs.verdict.lines.rules.cause import CRASH, CRASH_HINT, OF_THE_CODE, Cause

_TOLD = regex(
    r"Warning:|\bNCCL (?:INFO|TRACE)\b|^\[?(?:INFO|DEBUG)\b|(?: - |\| |\[)(?:INFO|DEBUG)(?: *\||\]| - )"
    r"|^(?!.*(?:Error|Exception): ).*\b(?:[Rr]etrying|[Ss]kipping|[Ii]gnoring)\b"
)
"""Lines that by their level tell of no error, or of one that the program gets over."""


def cause_of_exit(code: int | None, *, oom: bool = False, host_full: bool = False, error: str = "") -> Cause | None:
    """What an exit status alone tells when the log says nothing; None where `error` explains it already."""
    if oom and host_full:
        return Cause("its host ran out of memory", "start fewer ranks there, use less, or end what else runs there")
    if oom:
        return Cause("it used more memory than it may", "raise or drop `--memory` in `docker_args:`, or use less")
    if error or code is None:
        return None
    return _BY_EXIT.get(code)


_BY_EXIT = {
    126: Cause("the command is there but can't be executed", "`chmod +x` it, or name its interpreter in `command:`"),
    127: Cause(
        "a program that it calls is not there",
        "check `command:`, and PATH in the image or on the host; `code: ./` (--set code=./) sends your folder",
        with_code=OF_THE_CODE,
    ),
    128 + signal.SIGBUS: Cause("shared memory is probably too small", "raise `shm_size:` or set `ipc: host`"),
    128 + signal.SIGSEGV: CRASH,
    128 + signal.SIGABRT: Cause("the program gave up in compiled code", CRASH_HINT),
    128 + signal.SIGKILL: Cause(
        "something outside distui killed it",
        "`dmesg -T | grep -i 'killed process'` there tells whether the host ran out of memory",
    ),
}


MOST = 4000
"""Characters of a line that are looked at: some patterns take longer than in proportion."""


def cause_of(lines: Iterable[str]) -> Cause | None:
    """The cause that a rank's last lines name. A root cause wins over an echo of a peer's failure."""
    found = _named(lines)
    return None if found is None else found[1]


def cause_line(lines: Iterable[str]) -> str | None:
    """The line that `cause_of` goes by: the evidence."""
    found = _named(lines)
    return None if found is None else found[0]


def _named(lines: Iterable[str]) -> tuple[str, Cause] | None:
    """The last line that names a cause; an echo, or what is only vague, when there is nothing better.

    Warnings of Python (`UserWarning: CUDA initialization: ...`) name none: programs that need no GPU print them, too.
    Neither do lines that only inform, as of NCCL that has no InfiniBand and takes sockets.
    """
    best: tuple[str, Cause] | None = None
    for line in reversed([line[:MOST] for line in lines]):
        found = _causes(line)
        reported = [cause for cause in found if cause.reported]
        cause = min(reported or found, key=_weakness, default=None)
        if cause is not None and (best is None or _weakness(cause) < _weakness(best[1])):
            best = (line, cause)
        if best is not None and not _weakness(best[1]):
            break
    return best


@lru_cache(1024)  # ranks say the same, and the same lines are read again and again
def _causes(line: str) -> tuple[Cause, ...]:
    """All that a line may name."""
    return () if _TOLD.search(line) else tuple(cause for pattern, cause in RULES if pattern.search(line))


def _weakness(cause: Cause) -> int:
    return 3 if cause.vague or cause.unclear else 2 if cause.secondary else int(cause.killed)
