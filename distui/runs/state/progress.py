"""Step, loss and speed of a run, read out of the lines of one rank with the job's own pattern. Pure.

The pattern is `progress: {regex: ...}` of the job (UX 4.3); its named groups are the figures, `step` is the one that
the speed is made from. Numbers may be written `18,240` and `2.1e-4`; groups that are no numbers stay words.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from distui.frozen import frozen
from distui.patterns import PatternMatch
from distui.regex import regex
from distui.runs.lines.events import LogLine, Progressed
from distui.runs.lines.text import last_segment, safe
from distui.runs.lines.times import Stamps
from distui.runs.state.figures import FigurePattern
from distui.runs.state.odd_values import OddValues

V = TypeVar("V")

KEPT = 600
"""Points kept for the plot of a whole run."""
RECENT = 20
"""Points the speed is taken from."""
EVERY_S = 1.0
"""How often progress is reported, in seconds."""
READ_CHARS = 4096
"""Of a longer line only this much is looked at."""
PACE = 1 << 19
"""Bytes a second that the pattern has to get through: an ordinary one does a hundred times more."""
COUNTS = ("step", "steps", "total", "epoch", "epochs")
"""Groups that count; the others are what is learned."""
TOTALS = ("total", "steps")
"""What the pattern may call the step that the run ends with."""
CHECKPOINTS = ("checkpoint", "ckpt")
"""And what was saved last: a step, or a file."""
LATE_S = 5.0
"""What was said longer ago than that when it is read is of then, not of now: nobody followed the run meanwhile."""
POINTS = 16
"""So many points at most are taken of lines that come at once and were said over a longer time."""
NEAR = 4
"""Of the last lines of each such part so many are looked at: most say their step in one of them."""
LINES_FOR_EACH = 200
"""Of the lines that come at once so many are looked at for each step and checkpoint; those before them only where none
of these tells a step.
"""
MOST_PASSED = 4000
"""Steps that one event says at most."""
_NUMBER = regex(r"[-+]?(?:\d[\d_,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)", re.IGNORECASE)


@frozen
class Point:
    """One match: its named groups, as numbers where they are some, and when the line was said."""

    values: Mapping[str, float]
    words: Mapping[str, str]
    at: float | None


def number(text: str) -> float | None:
    """`18,240` and `2.104` as numbers; None for words."""
    return float(text.replace(",", "").replace("_", "")) if _NUMBER.fullmatch(text) else None


def point(match: PatternMatch[str]) -> Point:
    """What a match says of the progress."""
    words = {name: text for name, text in match.groupdict().items() if text is not None}
    values = {name: value for name, text in words.items() if (value := number(text)) is not None}
    return Point(values, words, None)


def figure_name(names: Iterable[str]) -> str | None:
    """The group that tells how well it goes: the loss, else the first that is neither a count nor a checkpoint."""
    found = [name for name in names if name not in COUNTS and name not in CHECKPOINTS]
    return "loss" if "loss" in found else next(iter(found), None)


def total_of(progress: Progressed) -> float | None:
    """The step that the run ends with; None where it does not tell."""
    return next((progress.values[name] for name in TOTALS if name in progress.values), None)


def last_step_of(progress: Progressed) -> float | None:
    """The same, but None where it is the step of an epoch, and that is not known to be the last one: then it may be the
    step that this epoch ends with.
    """
    return total_of(progress) if progress.values.get("epoch") == progress.values.get("epochs") else None


def speed_of(points: Sequence[Point]) -> float | None:
    """Seconds from step to step over these points; None while that is not known."""
    timed = [(p.values["step"], p.at) for p in points if p.at is not None and "step" in p.values]
    if len(timed) < 2:
        return None
    (first, began), (last, ended) = timed[0], timed[-1]
    return (ended - began) / (last - first) if last > first and ended > began else None


def given_up_words(why: str) -> str:
    """That a pattern is not tried any more, as a warning."""
    return f"progress is not read any more: its regex {why}"


def _read(line: str) -> str:
    return safe(last_segment(line)[:READ_CHARS])


class Progress:
    """Takes points in. The last ones are kept for the speed, and a thinned series of all for the plot."""

    def __init__(self, regex: str) -> None:
        self.pattern = FigurePattern(regex, pace=PACE)
        self.clear()

    def clear(self) -> None:
        """Forget everything: the log is read from its start again."""
        self.points: deque[Point] = deque(maxlen=KEPT)
        self.recent: deque[Point] = deque(maxlen=RECENT)
        self.stride = 1
        """Every how manieth match is kept: doubles when the store is full, so that the plot shows the whole run."""
        self.last: Point | None = None
        self._seen = 0

    def newest(self, lines: Sequence[str]) -> tuple[int, Point] | None:
        """The last of these lines that matches, by its index, and what it says; nothing is taken in."""
        found = self.pattern.first([_read(line) for line in reversed(lines)])
        return (len(lines) - 1 - found[0], point(found[1])) if found is not None else None

    def each(self, lines: Sequence[str]) -> Iterator[tuple[int, Point]]:
        """All of these lines that match, likewise."""
        for index, match in self.pattern.each([_read(line) for line in lines]):
            yield index, point(match)

    def take(self, found: Point) -> None:
        """Take the next point in. A lower step is of another epoch, or after a checkpoint was loaded: the time from
        step to step is taken from there.
        """
        if self.last is not None and found.values.get("step", math.inf) < self.last.values.get("step", -math.inf):
            self.recent.clear()
        self.last = found
        self.recent.append(found)
        if self._seen % self.stride == 0:
            if len(self.points) == KEPT:
                self.points = deque(list(self.points)[::2], maxlen=KEPT)
                self.stride *= 2
            self.points.append(found)
        self._seen += 1

    def value(self, name: str) -> float | None:
        """The newest value of a group."""
        return None if self.last is None else self.last.values.get(name)

    def series(self, name: str) -> list[float]:
        """The kept values of a group, oldest first."""
        return [p.values[name] for p in self.points if name in p.values]

    def seconds_per_step(self) -> float | None:
        """Time from step to step over the last points; None while that is not known."""
        return speed_of(self.recent)


class ProgressTeller:
    """Lines of one rank -> one event a second at most, while its pattern matches, dated as the line was said.

    What comes before a second is over waits: `due` tells it then, also when the rank says nothing more. `before` did so
    of the same run until now, from another rank's lines.
    """

    def __init__(self, regex: str, rank: int, host: str, *, before: ProgressTeller | None = None) -> None:
        self.rank = rank
        self._host = host
        self.offset = 0.0
        """How far the host's clock is ahead of ours, in seconds; kept up to date by whoever reads it."""
        self._stamps = Stamps()
        self._progress = Progress(regex)
        self._reported_at: float = before._reported_at if before is not None else float("-inf")
        self._new: float | None = None
        """When what was not reported yet was said; None where all was."""
        self._odd_values = OddValues()
        self._saves = any(f"(?P<{name}>" in regex for name in CHECKPOINTS)
        self._counts = "(?P<step>" in regex
        self._passed: list[Mapping[str, float]] = []
        self._saved: Point = before._saved if before is not None else Point({}, {}, None)
        """What was saved last: said once, and true until the next one."""
        self._odd: list[str] = []
        self._taken: int | None = None
        """The last line that `earlier` took, of those that `take` is given next."""

    def earlier(self, lines: Sequence[LogLine], now: float) -> Iterator[Progressed]:
        """What was said while nobody followed the run, of lines that are read now: a point for each part of that time,
        but for the last one, which `take` tells.
        """
        self._taken = None
        began, ended = (self._said(lines[0]), self._said(lines[-1])) if lines else (None, None)
        if began is None or ended is None or now - began <= LATE_S:
            return
        parts = min(POINTS, int((ended - began) / EVERY_S), len(lines))
        ends = [len(lines) * number // parts for number in range(1, parts)]
        spans = [range(max(before, end - NEAR), end) for before, end in pairwise((0, *ends))]
        near = [(part, i) for part, span in enumerate(spans) for i in span]
        each = self._progress.each([lines[i].text for _, i in near])
        newest = {part: (i, found) for (part, i), found in ((near[at], found) for at, found in each)}
        if newest and (waited := self.tell(now)) is not None:
            yield waited
        for i, found in newest.values():
            at = self._said(lines[i])
            if at is not None and self._take(found, at):
                self._taken, self._new = i, None
                yield self._event(at)

    def _said(self, line: LogLine) -> float | None:
        """When a line was said, in our clock; None where the engine gives no time."""
        at = self._stamps.parse(line.stamp)
        return None if at is None else at - self.offset

    def _when(self, line: LogLine, now: float) -> float:
        """The same, of a line that is read now. The time of a progress bar is that of its beginning, and it was drawn
        since.
        """
        said, last = self._said(line), self._progress.last
        if said is not None and "\r" in line.text and last is not None and last.at is not None:
            return max(said, last.at)
        return now if said is None else said

    def _take(self, found: Point, at: float) -> bool:
        """Take a point in; whether it is one of progress."""
        if self._progress.last is not None and only_saved(found):
            return False
        self._progress.take(Point(found.values, found.words, at))
        self._odd += self._odd_values.take(found.values, found.values.get("step"))
        return True

    def take(self, lines: Sequence[LogLine], now: float) -> Progressed | None:
        """The newest line of these that tells how far it is counts, unless `earlier` took it, and each that tells of a
        checkpoint; None when nothing is to be reported now.
        """
        newest, each = self._matches([line.text for line in lines])
        for i, found in each:
            self.saved(found, self._when(lines[i], now))
            if "step" in found.values and len(self._passed) < MOST_PASSED:
                self._passed.append(found.values)
        if newest is not None and newest[0] != self._taken:
            at = self._when(lines[newest[0]], now)
            if self._take(newest[1], at):
                self._new = at
        self._taken = None
        return self.due(now)

    def _matches(self, texts: Sequence[str]) -> tuple[tuple[int, Point] | None, list[tuple[int, Point]]]:
        """The newest of these lines that tells more than of a checkpoint, or of such a one where none does; and each
        that tells of a step, for the curve over the steps, or of a checkpoint.
        """
        if not self._saves and not self._counts:
            return self._progress.newest(texts), []
        begin, each = len(texts), list[tuple[int, Point]]()
        while begin > 0:
            end, begin = begin, max(0, begin - LINES_FOR_EACH)
            found = [(begin + i, one) for i, one in self._progress.each(texts[begin:end])]
            each = found + each
            if steps := [one for one in found if not only_saved(one[1])]:
                return steps[-1], each
        return (each[-1] if each else None), each

    def saved(self, found: Point, at: float) -> None:
        """Take in what this says of a checkpoint; another rank than the one that says steps may have saved it."""
        values, words = _of(found.values, CHECKPOINTS), _of(found.words, CHECKPOINTS)
        if words:
            self._saved = Point(values, words, None)
            self._new = at if self._new is None else self._new

    @property
    def given_up(self) -> str:
        """Why lines are not read any more, in words that follow the pattern's name; empty while they are."""
        return self._progress.pattern.given_up

    def odd(self) -> tuple[str, ...]:
        """What was odd in the figures since this was asked last, in words."""
        values, self._odd = tuple(self._odd), []
        return values

    def due(self, now: float) -> Progressed | None:
        """What was not reported yet, unless something was less than a second ago. A clock may be set back."""
        return None if 0 <= now - self._reported_at < EVERY_S else self.tell(now)

    def tell(self, now: float) -> Progressed | None:
        """What was not reported yet: for the end of the log, when nobody waits for the next second."""
        if self._new is None or self._progress.last is None:
            return None
        at, self._reported_at, self._new = min(self._new, now), now, None  # no clock is ahead of ours
        passed, self._passed = tuple(self._passed), []
        return self._event(at, passed)

    def _event(self, at: float, passed: tuple[Mapping[str, float], ...] = ()) -> Progressed:
        """The newest point, as said then."""
        last = self._progress.last
        assert last is not None
        values = {**last.values, **self._saved.values}
        words = {name: text for name, text in {**last.words, **self._saved.words}.items() if name not in values}
        return Progressed(at, self.rank, self._host, values, words, self._progress.seconds_per_step(), passed)


def _of(values: Mapping[str, V], names: Sequence[str]) -> dict[str, V]:
    return {name: value for name, value in values.items() if name in names}


def only_saved(found: Point) -> bool:
    """Whether it tells of a checkpoint and of nothing else: it is no step without a loss."""
    return bool(found.words) and not found.words.keys() - set(CHECKPOINTS)
