"""Why a rank ended, in words: exit status, signals, and the cause that its last lines name.

Exit codes follow Docker's reference (125 engine, 126/127 command) and the shell's 128 + signal. 137 alone is not
out-of-memory: only the engine's own flag says so (FAULTS 2.8).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from distui.run.causes import RULES, Cause

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
    """An exit status in words: `exit 3`, `out of memory (exit 137)`, `killed by SIGSEGV (segmentation fault)`."""
    if oom and code == 0:
        return "out of memory: the kernel killed a process of it, which ended with exit 0 all the same"
    if oom:
        return f"out of memory: the kernel killed it (exit {code})"
    if code is None:
        return error or "ended without an exit status"
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
    if name is None:
        return f"killed by signal {code - 128} (exit {code})"
    words = SIGNAL_WORDS.get(signal.Signals[name], "")
    return f"killed by {name}" + (f" ({words})" if words else "") + f", exit {code}"


def signal_name(code: int | None) -> str | None:
    """`SIGSEGV` for 139; None for a status that is no signal's."""
    try:
        return signal.Signals(code - 128).name if code is not None and code > 128 else None
    except ValueError:
        return None


def cause_of_exit(code: int | None, *, oom: bool = False, error: str = "") -> Cause | None:
    """What an exit status alone tells when the log says nothing; None where `error` explains it already."""
    if oom:
        return Cause("it used more memory than it may", "raise or drop `--memory` in `docker_args:`, or use less")
    if error or code is None:
        return None
    return _BY_EXIT.get(code)


_CRASH = "run it once with PYTHONFAULTHANDLER=1 in `env:`, which prints where"
_BY_EXIT = {
    126: Cause("the command is there but can't be executed", "`chmod +x` it, or name its interpreter in `command:`"),
    128 + signal.SIGBUS: Cause("shared memory is probably too small", "raise `shm_size:` or set `ipc: host`"),
    128 + signal.SIGSEGV: Cause("the program crashed in compiled code", _CRASH),
    128 + signal.SIGABRT: Cause("the program gave up in compiled code", _CRASH),
    128 + signal.SIGKILL: Cause(
        "something outside distui killed it",
        "`dmesg -T | grep -i 'killed process'` there tells whether the host ran out of memory",
    ),
}


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
    """
    best: tuple[str, Cause] | None = None
    for line in reversed(list(lines)):
        found = [] if "Warning:" in line else [cause for pattern, cause in RULES if pattern.search(line)]
        cause = min(found, key=_weakness, default=None)
        if cause is not None and (best is None or _weakness(cause) < _weakness(best[1])):
            best = (line, cause)
        if best is not None and not _weakness(best[1]):
            break
    return best


def _weakness(cause: Cause) -> int:
    return 2 if cause.vague else int(cause.secondary)


@dataclass(frozen=True, slots=True)
class Ended:
    """One rank's or task's bad end, as evidence. `at` is UTC in our clock; `doubt` its uncertainty in seconds."""

    key: int
    at: float
    doubt: float
    secondary: bool
    """Whether its own words say that it followed another's failure."""


def first_of(ends: Sequence[Ended], announced: int | None = None) -> Ended | None:
    """The end that explains the others: earliest by corrected clock.

    Ends closer together than the clocks can tell apart are ordered by their words: an end whose log only
    echoes a peer's failure does not come before one that names a cause of its own. Among equals the one that
    was named already (`announced`) stays: nobody is served by a headline that changes without a reason.
    """
    if not ends:
        return None
    earliest = min(ends, key=lambda e: (e.at, e.key))
    near = [e for e in ends if e.at - earliest.at <= e.doubt + earliest.doubt + 0.05]
    return min(near, key=lambda e: (e.secondary, e.key != announced, e.at, e.key))


@dataclass(frozen=True, slots=True)
class Root:
    """The rank that torchrun's report blames. `second` is when it failed by the container's own clock and time zone,
    read as if it were UTC, in whole seconds; None when the report does not say.
    """

    rank: int
    code: int
    second: int | None
    local: int | None = None
    """The rank's local rank on its node."""


_ROOT_TIME = re.compile(r"^\s*time\s*:\s*(\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)")
_ROOT_RANK = re.compile(r"^\s*rank\s*:\s*(\d{1,9})\s*\(local_rank:\s*(\d{1,9})\)")
_ROOT_CODE = re.compile(r"^\s*exitcode\s*:\s*(-?\d{1,9})")


def torchrun_root(lines: Sequence[str]) -> Root | None:
    """What stands under `Root Cause (first observed failure)` of torchrun's report, if it is there.

    The report's form is that of `torch/distributed/elastic/multiprocessing/errors`: time, host, rank and exitcode in
    this order. A negative code is a signal and becomes 128 + signal.
    """
    start = next((i for i, line in enumerate(lines) if "Root Cause (first observed failure)" in line), None)
    if start is None:
        return None
    rank: int | None = None
    local: int | None = None
    second: int | None = None
    for line in lines[start : start + 12]:
        if time := _ROOT_TIME.match(line):
            second = _second(f"{time[1]}T{time[2]}+00:00")
        elif found := _ROOT_RANK.match(line):
            rank, local = int(found[1]), int(found[2])
        elif (code := _ROOT_CODE.match(line)) and rank is not None:
            value = int(code[1])
            return Root(rank, 128 - value if value < 0 else value, second, local)
    return None


def _second(iso: str) -> int | None:
    try:
        return int(datetime.fromisoformat(iso).timestamp())
    except ValueError:
        return None
