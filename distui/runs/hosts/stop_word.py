"""Word of a stop, left in the run's folder on a host before its ranks are stopped: for all who follow it elsewhere.

To them the ranks end as any do, with whatever status the program gives after SIGTERM: who stopped the run, when and why
is only known from this file, `stopped`. Its time is the file's own, on the host's clock. Who stops only some ranks
leaves a file for each of their tasks, `stopped-TASK`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import get_args

from distui.frozen import frozen
from distui.plan.labels import format_ranks, parse_ranks
from distui.runs.verdict.ends.stops import STOP_CODES
from distui.runs.verdict.evidence import End, Stop, StopCause, Verb, corrected
from distui.whole import whole

FILE = "stopped"


def file_of(task: int | None) -> str:
    """The file's name: the run's, or that of one task."""
    return FILE if task is None else f"{FILE}-{task}"


MARK, TASKS, VERB = "mark ", "tasks ", "with "

TO_END = 30.0
"""Seconds beyond the grace within which stopped ranks have ended, and their logs are read."""

# $1 the file. What is in it, a plain file, and when it was written: GNU's fraction of a second, else the whole ones.
ASK = """
[ -f "$1" ] && [ ! -L "$1" ] && dd if="$1" bs=4096 count=1 2>/dev/null &&
  { echo; stat -c %.Y -- "$1" 2>/dev/null || stat -c %Y -- "$1" 2>/dev/null || :; }
""".strip()

# $1 the file, $2 what is to be in it, $3 a name beside it that nobody else uses, $4 minutes. Of several who stop the
# run the first ended its ranks: what was left within the last minutes stays, also where all come at once.
SAY = """
umask 077
printf '%s' "$2" >"$3" || exit
ln -- "$3" "$1" 2>/dev/null || [ -n "$(find "$1" -prune -type f -mmin "-$4" 2>/dev/null)" ] || mv -f -- "$3" "$1"
rm -f -- "$3"
""".strip()


@frozen
class StopWord:
    """Who stops the run, why, with which exit code of the run, and how many seconds ranks have to end."""

    who: str
    cause: StopCause = "elsewhere"
    exit: int | None = None
    grace: float = 0.0
    at: float | None = None
    """When it was left, UTC seconds; None where the host does not tell."""
    mark: str = ""
    """What tells it from all others, also those of the same user; "" where nobody asks."""
    tasks: frozenset[int] | None = None
    """The tasks that it ends, where others had ended before and made it stop the rest; None: all of them."""
    verb: Verb = "stop"
    """With which command of distui tasks were ended alone."""

    def text(self) -> str:
        """As it is written."""
        tasks = f"{TASKS}{format_ranks(sorted(self.tasks))}\n" if self.tasks is not None else ""
        mark = f"{MARK}{self.mark}\n" if self.mark else ""
        verb = f"{VERB}{self.verb}\n" if self.verb != "stop" else ""
        return f"{self.who}\n{self.cause} {'-' if self.exit is None else self.exit} {self.grace:g}\n{tasks}{verb}{mark}"

    @property
    def minutes(self) -> int:
        """How long it may be what ends ranks, in whole minutes."""
        return math.ceil((self.grace + TO_END) / 60)

    def made(self, end: End) -> bool:
        """Whether it may be what ended a task: that ended after it, and not long after its grace was over."""
        return self.at is not None and end.when is not None and 0 <= end.when - self.at <= self.grace + TO_END

    def is_of(self, end: End) -> bool:
        """Whether word left for this task alone tells what ended it, and not what it was started again after."""
        if self.at is None:
            return _as_killed(end)
        return self.made(end) and not (end.started_at is not None and self.at < end.started_at)


def read_word(text: str, offset_ms: float | None) -> StopWord | None:
    """What a host answers to ASK, its time on our clock; None when nobody left word."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    words = (lines[1] if len(lines) > 1 else "").split()
    cause, code, grace = words if len(words) == 3 and words[0] in get_args(StopCause) else ("elsewhere", "-", "0")
    return StopWord(
        lines[0].strip(),
        cause,  # type: ignore[arg-type]
        whole(code, 3),
        _number(grace) or 0.0,
        corrected(_number(lines[-1]) if len(lines) > 1 else None, offset_ms),
        next(_after(MARK, lines[2:]), ""),
        next((frozenset(parse_ranks(text)) for text in _after(TASKS, lines[2:])), None),
        "kill" if "kill" in _after(VERB, lines[2:]) else "stop",
    )


def _after(name: str, lines: Iterable[str]) -> Iterator[str]:
    return (line.removeprefix(name).strip() for line in lines if line.startswith(name))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < 1e11 else None


def looks_stopped(end: End) -> bool:
    """Whether a task ended as stopped ones may: killed, or sent a signal, by what is known."""
    return end.signalled is not False or _as_killed(end)


def stop_by(word: StopWord, ends: Iterable[End]) -> Stop | None:
    """The stop that this word tells of, as far as it may have made these ends; None when it made none of them.

    Where the host does not say when it was left, or that was long before, the first end in a stop's own way dates it.
    A stop at a failure without its time explains nothing: who reads this sees the failure.
    """
    ended = list(ends)
    if word.at is not None and any(word.made(end) for end in ended):
        return Stop(word.at, word.cause, word.who, word.exit, word.tasks)
    if word.cause == "failure":
        return None
    times = [at for end in ended if _as_killed(end) and (at := end.when) is not None]
    return Stop(min(times), "elsewhere", word.who) if times else None


def _as_killed(end: End) -> bool:
    return end.state == "removed" or (end.code in STOP_CODES and not end.oom)
