"""What torchrun's own lines on a node say of its ranks: how each ended, which it stopped, that it was stopped itself.

Forms checked in torch 2.13 (`elastic/multiprocessing/api.py`, `errors/__init__.py`):
`Sending process 33 closing signal SIGTERM` for each rank it stops, then `failed (exitcode: 1) local_rank: 0 (pid: 31)`
for one that failed, then a report with an entry for each. Only those before 2.8 leave out the ranks it stopped itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import lru_cache
from itertools import takewhile

from distui.frozen import frozen
from distui.regex import regex
from distui.runs.verdict.evidence import Line, Lines
from distui.runs.verdict.exit_words import signal_name
from distui.runs.verdict.lines.plain import plain
from distui.whole import whole

_FAILED = regex(r"failed \(exitcode: (-?\d{1,9})\) local_rank: (\d{1,9}) \(pid: (\d{1,9})\)")
_CLOSING = regex(r"(?:Sending|Closing) process (\d{1,9}) (?:closing|via) signal (SIG[A-Z]+)")
_SIGNALLED = regex(
    r"SignalException: Process \d+ got signal: (\d{1,2})|Received (?:Signals\.)?(SIG[A-Z]+|\d{1,2}) death signal"
)
_TITLE = regex(r"^\S.* FAILED\s*$")
_HEAD = regex(r"^\s*\[\d{1,9}\]:\s*$")
_TIME = regex(r"^\s*time\s*:\s*(\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)")
_RANK = regex(r"^\s*rank\s*:\s*(\d{1,9})\s*\(local_rank:\s*(\d{1,9})\)")
_CODE = regex(r"^\s*exitcode\s*:\s*(-?\d{1,9})\s*\(pid:\s*(\d{1,9})\)")
_RULED = regex(r"^[=-]{20,}$")
_TRACEBACK = regex(r"^(\s+)traceback : (?=Traceback \(most recent call last\))")

ANEW = 1.0
"""Seconds in which ranks that torchrun stops may still speak."""
ROUND = 60.0
"""Seconds in which torchrun has surely ended the ranks that it stops: it kills them after 30."""
LONGEST = 200
"""Lines of one rank in a report, with its traceback."""
ZONE_STEP = 900
"""Seconds: offsets of the world's time zones are multiples of a quarter of an hour."""


@frozen
class ProcessEnd:
    """One rank's end as torchrun tells it. `local` is its place on the node; a signal is 128 + its number."""

    local: int
    code: int
    pid: int | None = None
    number: int | None = None
    """RANK as torchrun counts; with c10d not the rank distui names."""
    second: int | None = None
    """When torchrun noticed, in whole seconds by the container's clock and time zone, read as if that were UTC."""
    said: tuple[str, ...] = ()
    """Its traceback, where the program had torch record it."""


@frozen
class AgentWords:
    """What one node's agent said of the last round of its ranks."""

    ends: Mapping[int, ProcessEnd] = field(default_factory=dict)
    """Local rank -> its end."""
    root: int | None = None
    """Local rank of the one that its report blames."""
    reported: bool = False
    """Whether there is a report: then a rank without an end in it ended well, or was stopped by torchrun."""
    closed: frozenset[int] = frozenset()
    """Pids that torchrun sent SIGTERM because others had failed, or because it was stopped itself."""
    noticed_at: float | None = None
    """When it first said that a rank had failed or that it stops the others."""
    signalled_at: float | None = None
    """When it said that it got a signal itself."""
    signal: str = ""
    """Which one: `SIGTERM`; empty when it got none."""
    heard_at: float | None = None
    """When it last said of a rank of this round that it failed or was stopped."""
    since: float | None = None
    """When all ranks of the round before had said all; None in the first round."""

    @property
    def over_at(self) -> float | None:
        """When the ranks of this round had said all. That one failed it tells after it has passed on what all said."""
        return self.heard_at if self.ends or self.heard_at is None else self.heard_at + ANEW

    @property
    def ending_from(self) -> float | None:
        """When it began to end its ranks, as far as it said so."""
        return min((at for at in (self.noticed_at, self.signalled_at) if at is not None), default=None)

    def stopped(self, end: ProcessEnd) -> bool:
        """Whether torchrun itself ended this rank."""
        return end.pid in self.closed and end.code in (137, 143)

    @property
    def stopped_unnamed(self) -> int:
        """How many ranks it stopped that its report does not list."""
        return len(self.closed - {end.pid for end in self.ends.values()})


@lru_cache(256)
def agent_words(lines: Lines) -> AgentWords:
    """Read the agent's lines; of ranks that were started again only their last round counts."""
    output = AgentWords()
    for line in lines:
        output = _heard(output, line)
    report = _report(lines)
    if not report:
        return output
    return replace(output, ends={**output.ends, **{e.local: e for e in report}}, root=report[-1].local, reported=True)


def after_rounds(lines: Sequence[str]) -> Sequence[str]:
    """What a torchrun that ended well said after it last reported a rank that failed: it started them again then."""
    failed = [number for number, line in enumerate(lines) if _FAILED.search(plain(line))]
    return lines[failed[-1] + 1 :] if failed else lines


def _heard(report: AgentWords, line: Line) -> AgentWords:
    if found := _CLOSING.search(line.text):
        begun = _begun(report, line) if report.ends or _long_after(report, line) else report
        return _at(replace(begun, closed=begun.closed | {int(found[1])}), line)
    if found := _FAILED.search(line.text):
        end = ProcessEnd(int(found[2]), _status(int(found[1])), int(found[3]))
        known = report.ends.get(end.local)
        again = bool(report.ends) and (known is None or known.pid != end.pid)
        begun = _begun(report, line) if again or _long_after(report, line) else report
        return _at(replace(begun, ends={end.local: end}), line)
    if found := _SIGNALLED.search(line.text):
        name = report.signal or _signal(found[1] or found[2])
        return replace(report, signalled_at=_earlier(report.signalled_at, line.at), signal=name)
    return report


def _begun(report: AgentWords, line: Line) -> AgentWords:
    """A new round: the ranks of the one before had ended, and were started again. A signal just now belongs to it."""
    begun = AgentWords(since=report.over_at)
    if report.signalled_at is None or line.at is None or line.at - report.signalled_at > ROUND:
        return begun
    return replace(begun, signal=report.signal, signalled_at=report.signalled_at)


def _long_after(report: AgentWords, line: Line) -> bool:
    """Whether all that torchrun had begun to stop must have ended by then."""
    return report.heard_at is not None and line.at is not None and line.at - report.heard_at > ROUND


def _at(report: AgentWords, line: Line) -> AgentWords:
    heard = report.heard_at if line.at is None else line.at
    return replace(report, noticed_at=_earlier(report.noticed_at, line.at), heard_at=heard)


def _signal(text: str) -> str:
    """A signal's name, of which torchrun tells that or its number."""
    number = whole(text)
    return text if number is None else signal_name(128 + number) or f"signal {text}"


def _earlier(known: float | None, at: float | None) -> float | None:
    return known if at is None or (known is not None and known <= at) else at


def _report(lines: Sequence[Line]) -> list[ProcessEnd]:
    """The entries of the last report, the one it blames last."""
    texts = [plain(line.text) for line in lines]
    roots = [i for i, text in enumerate(texts) if "Root Cause (first observed failure)" in text]
    if not roots:
        return []
    root = roots[-1]
    start = next((i for i in range(root, -1, -1) if _TITLE.match(texts[i])), root)
    others = list(_entries(texts[start:root]))
    return [*others, *list(_entries(texts[root : root + LONGEST]))[:1]]


def _entries(texts: Sequence[str]) -> Iterator[ProcessEnd]:
    second: int | None = None
    number: int | None = None
    local: int | None = None
    for i, text in enumerate(texts):
        if _HEAD.match(text):
            second = number = local = None
        elif time := _TIME.match(text):
            second = _second(f"{time[1]}T{time[2]}+00:00")
        elif rank := _RANK.match(text):
            number, local = int(rank[1]), int(rank[2])
        elif (code := _CODE.match(text)) and local is not None:
            yield ProcessEnd(local, _status(int(code[1])), int(code[2]), number, second, _recorded(texts[i + 1 :]))
            local = None


def _recorded(texts: Sequence[str]) -> tuple[str, ...]:
    """The traceback of an entry, below its status, without the blanks before all of its lines."""
    its = list(takewhile(lambda text: not (_HEAD.match(text) or _RULED.match(text)), texts))
    found = next(((i, head[1]) for i, text in enumerate(its) if (head := _TRACEBACK.match(text))), None)
    if found is None:
        return ()
    first, blanks = found
    return tuple(_TRACEBACK.sub("", text).removeprefix(blanks) for text in its[first:])


def _status(code: int) -> int:
    return 128 - code if code < 0 else code


def _second(iso: str) -> int | None:
    try:
        return int(datetime.fromisoformat(iso).timestamp())
    except ValueError:
        return None


def since_report(second: int, at: float) -> float:
    """Seconds from the report's second to a moment soon after it, whatever the container's time zone: zones differ by
    quarters of an hour, so it is taken to lie less than one before.
    """
    return (at - second) % ZONE_STEP
