"""What launchers other than torchrun report of the first process of theirs that ended badly: mpirun (Open MPI 4 and 5),
DeepSpeed, Lightning, `torch.multiprocessing.spawn`, Ray, and Dask's nanny.

Hydra's `EXIT CODE:` is none: with other processes that it ended itself it is theirs, too.
"""

from __future__ import annotations

import re
import signal
from functools import lru_cache

from distui.frozen import frozen
from distui.regex import regex
from distui.runs.verdict.evidence import Lines
from distui.runs.verdict.lines.plain import plain
from distui.whole import whole

_TAIL = 60
"""Lines at the end of a log in which such a report stands."""

_ABORTED = "Primary job  terminated normally, but"

_REPORTS = (
    (
        "mpirun",
        regex(
            r"^(?:mpirun|prterun) noticed that process rank (?P<rank>\d{1,9}) .{0,300}"
            r" exited on signal (?P<sig>\d{1,2})\b",
            re.MULTILINE,
        ),
    ),
    (
        "mpirun",
        regex(r"^ *Process name: \[\S{1,99},(?P<rank>\d{1,9})\]\n *Exit code: +(?P<code>\d{1,3})$", re.MULTILINE),
    ),
    ("DeepSpeed", regex(r"\] exits with return code = (?:-(?P<sig>\d{1,2})|(?P<code>\d{1,3}))$", re.MULTILINE)),
    (
        "Lightning",
        regex(
            r"^(?:\[rank: \d{1,9}\] )?Child process with PID (?P<pid>\d{1,9}) terminated with code"
            r" (?:-(?P<sig>\d{1,2})|(?P<code>\d{1,3}))\.",
            re.MULTILINE,
        ),
    ),
    (
        "torch.multiprocessing",
        regex(
            r"\bProcessExitedException: process (?P<place>\d{1,9}) terminated with"
            r" (?:exit code (?P<code>\d{1,3})|signal (?P<name>SIG[A-Z]{2,6}))$",
            re.MULTILINE,
        ),
    ),
    (
        "Ray",
        regex(
            r"\bWorker PID: (?P<pid>\d{1,9}) Worker exit type: .{1,900}\bexits with an exit code (?P<code>\d{1,3})\."
        ),
    ),
    (
        "Dask",
        regex(
            r"distributed\.nanny - [A-Z]+ - Worker process (?P<pid>\d{1,9})"
            r" (?:exited with status (?P<code>\d{1,3})|was killed by signal (?P<sig>\d{1,2}))$",
            re.MULTILINE,
        ),
    ),
)
"""Who reports, and how. `place` is on this host; DeepSpeed names its last process there, whichever ended."""


@frozen
class Reported:
    """How a process ended, by its launcher's report."""

    by: str
    who: str
    """`its process with rank 1`."""
    code: int
    """A signal is 128 + its number."""
    number: int | None
    """Its rank in the run, where the launcher counts so."""
    line: int = 0
    """Where its launcher begins to tell."""


@lru_cache(256)
def reported_end(lines: Lines) -> Reported | None:
    """The first process that ended badly, by the last such report at the end of a log."""
    tail = lines[-_TAIL:]
    text = "\n".join(plain(line.text) for line in tail)
    for by, report in _REPORTS:
        found = list(report.finditer(text))
        if found and (code := _status(found[-1].groupdict())):
            who, number = _who(found[-1].groupdict())
            line = len(lines) - len(tail) + text.count("\n", 0, _begin(text, found[-1].start()))
            return Reported(by, who, code, number, line)
    return None


def _begin(text: str, at: int) -> int:
    """Open MPI says twice that it ends the job, and others may print in between."""
    begun = text.rfind(_ABORTED, 0, at)
    return at if begun < 0 else begun


def _who(found: dict[str, str | None]) -> tuple[str, int | None]:
    """The process in words, and its rank in the run where that is known."""
    if (rank := found.get("rank")) is not None:
        return f"its process with rank {rank}", whole(rank)
    if (place := found.get("place")) is not None:
        return f"its process {place}", None
    return (f"its process with PID {pid}" if (pid := found.get("pid")) is not None else "one of its processes"), None


def _status(found: dict[str, str | None]) -> int | None:
    number = signal.Signals.__members__.get(found.get("name") or "")
    if number is not None:
        return 128 + number
    by_signal, code = whole(found.get("sig") or ""), whole(found.get("code") or "")
    return code if by_signal is None else 128 + by_signal
