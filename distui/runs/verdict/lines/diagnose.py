"""Why a rank ended, in words: exit status, signals, and the cause that its last lines name.

Exit codes follow Docker's reference (125 engine, 126/127 command) and the shell's 128 + signal. 137 alone is not
out-of-memory: only the engine's own flag says so (FAULTS 2.8).
"""

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

KILLED = 128 + signal.SIGKILL

SIGNAL_WORDS = {
    signal.SIGABRT: "abort: an assertion or NCCL gave up",
    signal.SIGBUS: "bus error: often /dev/shm is full",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction: the image was built for another CPU",
    signal.SIGINT: "interrupted",
    signal.SIGPIPE: "broken pipe",
    signal.SIGSEGV: "segmentation fault",
    signal.SIGTERM: "terminated",
}


def exit_words(code: int | None, *, oom: bool = False, error: str = "", engine: str = "docker") -> str:
    """An exit status in words: `exit 3`, `out of memory (exit 137)`, `killed by SIGSEGV (segmentation fault)`.

    Without an engine it is the program's own: neither that nor a shell ended it.
    """
    if oom and code == 0:
        return "out of memory: the kernel killed a process of it, which ended with exit 0 all the same"
    if oom:
        return f"out of memory: the kernel killed {'it' if code == KILLED else 'a process of it'} (exit {code})"
    if code is None:
        return error or "ended without an exit status"
    if not engine:
        return f"exit {code}{_because(error)}"
    if code == 125 and engine != "process":
        return f"{engine} could not start it (exit 125){_because(error)}"
    if code == 126:
        return f"the command can't be executed (exit 126){_because(error)}"
    if code == 127:
        return f"command not found (exit 127){_because(error)}"
    if 128 < code < 128 + signal.NSIG:
        return _signal_words(code) + _because(error)
    return f"exit {code}{_because(error)}"


def _because(error: str) -> str:
    return f": {error}" if error else ""


def _signal_words(code: int) -> str:
    name = signal_name(code)
    if name is None:  # forrtl's 174 and the like: a program's own status, as a rule
        return f"exit {code}"
    words = SIGNAL_WORDS.get(signal.Signals[name], "")
    return f"killed by {name}" + (f" ({words})" if words else "") + f", exit {code}"


def signal_name(code: int | None) -> str | None:
    """`SIGSEGV` for 139; None for a status that is no signal's."""
    try:
        return signal.Signals(code - 128).name if code is not None and code > 128 else None
    except ValueError:
        return None


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
