"""What the ranks of a soak's run do, and so what may be said of its end: pure, by exit codes and lines alone."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

RANKS = 3
LINES = 300
FEWEST = 150
"""Lines of a rank that fails."""

EXITS = {"succeeded": 0, "failed": 1, "stopped": 143, "unknown": 6}
"""The exit code of `run`, `attach` and `wait` for each end."""

MISSING = re.compile(r"missing|is lost|not complete|removed before its end|nothing that it said")

PROGRAM = """
import os, sys, time
rank, path = int(sys.argv[1]), sys.argv[4]
count, code = (int(word.split(",")[rank]) for word in sys.argv[2:4])
witness = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for i in range(count):
    line = b"line %d of %d %s\\n" % (i, rank, b"x" * (20000 if i % 97 == 96 else i % 50))
    os.write(1, line)
    os.write(witness, line)
    time.sleep(0.02)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Work:
    """How many lines each rank prints, and the exit code with which it then ends."""

    counts: tuple[int, ...] = (LINES,) * RANKS
    codes: tuple[int, ...] = (0,) * RANKS

    @classmethod
    def draw(cls, dice: random.Random) -> Self:
        """All end well, or one of them fails before the others are done."""
        if dice.random() < 0.5:
            return cls()
        bad, count, code = dice.randrange(RANKS), dice.randint(FEWEST, LINES - 30), dice.choice((1, 3, 7))
        counts = tuple(count if rank == bad else LINES for rank in range(RANKS))
        return cls(counts, tuple(code * (rank == bad) for rank in range(RANKS)))

    def command(self, witnesses: str) -> list[str]:
        """The job's command; each rank writes every line to a file of its own in `witnesses` besides."""
        listed = (",".join(map(str, numbers)) for numbers in (self.counts, self.codes))
        return ["python3", "-c", PROGRAM, "{rank}", *listed, f"{witnesses}/{{rank}}"]

    def said(self, rank: int) -> bytes:
        """All that a rank prints."""
        sizes = (20000 if i % 97 == 96 else i % 50 for i in range(self.counts[rank]))
        return b"".join(b"line %d of %d %s\n" % (i, rank, b"x" * size) for i, size in enumerate(sizes))

    def __str__(self) -> str:
        bad = [f"rank {rank} exits {code}" for rank, code in enumerate(self.codes) if code]
        return ", ".join(bad) or "all exit 0"


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended, as one reader of it was told."""

    state: str
    exit: int
    first: int | None = None
    """The rank that failed first."""
    code: int | None = None
    """That rank's exit code."""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """From the `result` event, or from `show -o json`, where a run whose end nobody knows is `gone`."""
        failure = event.get("first_failure") or {}
        state = "unknown" if event["state"] == "gone" else str(event["state"])
        return cls(state, int(event["exit"]), failure.get("rank"), failure.get("exit"))

    def __str__(self) -> str:
        first = f", rank {self.first} first with {self.code}" if self.first is not None else ""
        return f"{self.state} {self.exit}{first}"


@dataclass(frozen=True, slots=True)
class Truth:
    """What happened in a run."""

    work: Work
    whole: frozenset[int]
    """Ranks that came to their own end: all their lines are in the file that they wrote themselves."""
    struck: frozenset[int] = frozenset()
    """Ranks that a fault ended, or may have."""
    vanished: frozenset[int] = frozenset()
    """Ranks whose container was removed, perhaps before anybody saw their end."""
    stopped: bool = False
    """Whether somebody asked for a stop while it ran."""

    @property
    def failing(self) -> frozenset[int]:
        """Ranks that failed by themselves."""
        return frozenset(rank for rank in self.whole if self.work.codes[rank])

    def objection(self, end: End) -> str:
        """What is wrong with this end, in words; "" when it may be true."""
        said = {
            "succeeded": self._succeeded,
            "failed": self._failed,
            "stopped": self._stopped,
            "unknown": self._unknown,
        }
        if end.state not in said or end.exit != EXITS[end.state]:
            return f"{end}: no end of a run that was started"
        why = said[end.state](end)
        return f"{end}: {why}" if why else ""

    def _succeeded(self, end: End) -> str:
        cut = sorted(set(range(RANKS)) - self.whole)
        if cut or self.failing:
            return f"ranks {cut} did not get to their end, ranks {sorted(self.failing)} failed"
        return ""

    def _failed(self, end: End) -> str:
        may = self.failing | self.struck
        if end.first is None or end.first not in may:
            return f"only ranks {sorted(may)} can have been first"
        if end.first not in self.struck and end.code != self.work.codes[end.first]:
            return f"it exited with {self.work.codes[end.first]}"
        return ""

    def _stopped(self, end: End) -> str:
        return "" if self.stopped else "nobody stopped it"

    def _unknown(self, end: End) -> str:
        if not self.vanished:
            return "nothing was removed"
        return self._failed(end) if end.first is not None else ""


def differ(ends: Mapping[str, End]) -> str:
    """Who was told another end than the others, in words; "" when all agree."""
    if len(set(ends.values())) < 2:
        return ""
    return "readers disagree: " + "; ".join(f"{who}: {end}" for who, end in ends.items())


def lacking(log: bytes, witness: bytes) -> int:
    """How many of the witness's lines the log does not have; in order, and nothing else in it, it is known to be.

    A rank that is killed between its two writes has printed a line that its witness lacks.
    """
    return 0 if log.startswith(witness) else max(1, witness.count(b"\n") - log.count(b"\n"))


def in_order(log: bytes, wanted: bytes) -> bool:
    """Whether a log has none but the wanted lines, each at most once and in order; its last may be cut."""
    lines = log.split(b"\n")
    rest = iter(wanted.split(b"\n"))
    return all(line in rest for line in lines[:-1]) and (not lines[-1] or any(w.startswith(lines[-1]) for w in rest))


def said_to_miss(texts: Iterable[str], host: str, rank: int) -> bool:
    """Whether one of these texts says that lines of the host's rank are missing."""
    who = re.compile(rf"\b(?:{re.escape(host)}|rank {rank})\b")
    return any(MISSING.search(text) and who.search(text) for text in texts)
