"""How each rank ended, taken by itself: by which status, when, by its own failure or by a stop, and its last words.

Under torchrun a rank's end is reported by the agent's lines, not by its container's: the agent ends later, and with a
status of its own.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from distui.frozen import frozen
from distui.runs.verdict.ends.explain import SIGNALLED, down_at, what_ended
from distui.runs.verdict.ends.moments import NOTICED_LATE, SAID, Moment, ended, noticed, said
from distui.runs.verdict.ends.stops import KILLED as KILL
from distui.runs.verdict.ends.stops import STOP_CODES, caused, done_by_then, fell, seen_before, spoke_before, stop_for
from distui.runs.verdict.evidence import End, Evidence, Lines, Stop, TaskSeen, lines_of
from distui.runs.verdict.lines.by_then import said_by_then
from distui.runs.verdict.lines.last_words import LastWords, last_words, numbers
from distui.runs.verdict.lines.own_launcher import with_its_own
from distui.runs.verdict.lines.torchrun import AgentWords, agent_words

AT_ONCE = 2.0
"""Seconds after a stop began in which a task may end before its signal has come to it."""

HANDLED = 10.0
"""Seconds that a program may take to end by its error; one that is there for longer hangs, or has handled it."""

CRASHES = frozenset(128 + one for one in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
"""Statuses of crashes, which nothing but the program itself brings about, as a rule."""

How = Literal["failed", "succeeded", "stopped", "taken", "open"]
"""`taken`: torchrun ended it, since others of its node had failed. `open`: not known to have ended."""


@frozen
class Part:
    """A rank; or all ranks of a task of which nobody said which of them failed."""

    task: TaskSeen
    ranks: tuple[int, ...]
    how: How
    code: int | None = None
    when: Moment | None = None
    words: LastWords | None = None
    stop: Stop | None = None
    error: str = ""
    """What is known from outside to have ended it, or the engine's words."""
    over: Moment | None = None
    """When it ended, where `when` is that of its first words and its end is reported by itself."""
    closed: bool = False
    """Whether it had failed by its own words, and its torchrun ended it."""
    spared: bool = False
    """Whether another rank of its task is the one that the kernel killed for lack of memory, if it killed one."""

    @property
    def oom(self) -> bool:
        """Whether the kernel killed something of its task for lack of memory, and no other rank of that."""
        return self.task.end is not None and self.task.end.oom and not self.spared

    @property
    def failed_at(self) -> float | None:
        """When it failed by its own first words, else when it ended; the same where a stop had begun by then."""
        if self.how == "stopped" and self.words is not None and self.words.at is not None:
            return self.words.at
        return self.when.at if self.when is not None else None

    @property
    def killed(self) -> bool:
        """Whether something from outside ended it, which no other rank's failure brings about."""
        if self.oom or self.error:
            return True
        return self.words is None and (self.code is None or self.code > 128)

    @property
    def ended_for_it(self) -> bool:
        """Whether it reported an error and was still there when something else ended it: it may have gone on."""
        end = self.task.end
        if self.words is None or self.oom or end is None:
            return False
        limited = self.stop is not None and self.stop.reason == "limit"  # of which no engine knows, and with any status
        return self.closed or (self.outlived and (self.code in STOP_CODES or bool(end.signalled) or limited))

    @property
    def by_itself(self) -> bool:
        """Whether a rank counted as stopped ended without a signal: with an error, just after the stop began."""
        end, stop = self.task.end, self.stop
        if self.how != "stopped" or end is None or stop is None or stop.reason == "limit":
            return False  # the job's limit stops it in its container: no engine knows of that
        if not self.code or self.code in STOP_CODES or self.code != end.code:
            return False
        return _by_itself(self.task, end, stop)

    @property
    def crashed_in_the_stop(self) -> bool:
        """Whether a rank counted as stopped ended by what no stop sends it: a crash, whose core may take long to be
        written, or SIGKILL of which its engine knows nothing.
        """
        end, stop = self.task.end, self.stop
        if self.how != "stopped" or end is None or stop is None or stop.reason != "failure":
            return False
        if self.words is not None and self.words.weight != "own":
            return False
        if self.words is None and (end.signalled or self._spoke_after(stop.at)):
            return False  # it was well, and crashed since it was ended
        return self.code in CRASHES or (self.code == KILL and self.words is None and _by_itself(self.task, end, stop))

    def _spoke_after(self, at: float) -> bool:
        """Whether it said anything later than that."""
        lines = (line for rank in self.ranks for line in self.task.lines.get(rank, ()))
        return any(line.at is not None and line.at > at for line in lines)

    @property
    def outlived(self) -> bool:
        """Whether it had failed before a stop, and was ended by that."""
        end, stop = self.task.end, self.stop
        if end is None or stop is None or seen_before(end, stop):
            return False
        return end.at is None or end.at >= stop.at


def parts_of(evidence: Evidence, stops: tuple[Stop, ...]) -> list[Part]:
    """Every rank of the run, once, by number."""
    found = [part for task in evidence.tasks for part in _of_task(evidence, task, _stop_of(evidence, task, stops))]
    return sorted((_without_echo(evidence, part) for part in found), key=lambda part: part.ranks)


def _without_echo(evidence: Evidence, part: Part) -> Part:
    """A rank that only says that others failed has not failed by itself, though it repeats what they said. torchrun
    may number its ranks in another way than distui does, and other launchers may have several in one task.
    """
    words, torchrun = part.words, evidence.rules.launcher == "torchrun"
    if words is None or not words.blamed or (words.number is None and torchrun):
        return part
    its = {words.number} if torchrun else _numbers(part.task) or set(part.ranks)
    return part if words.blamed & its else replace(part, words=replace(words, weight="echo"))


def _numbers(task: TaskSeen) -> set[int]:
    """The ranks that torch says a task's lines are from."""
    return set().union(*(numbers(lines) for lines in task.lines.values()))


def _stop_of(evidence: Evidence, task: TaskSeen, stops: tuple[Stop, ...]) -> Stop | None:
    """The stop that meant this task; none where its host had gone down before. What lived at a later one lived then."""
    stop, down = stop_for(stops, task), down_at(evidence, task)
    if stop is None or (down is not None and down < stop.at):
        return None
    return replace(stop, live=frozenset[int]().union(*(s.live for s in stops)))


def _of_task(evidence: Evidence, task: TaskSeen, stop: Stop | None) -> Iterator[Part]:
    if task.end is None:
        yield from (_unended(evidence, task, rank) for rank in task.ranks)
    elif evidence.rules.launcher == "torchrun":
        yield from _of_node(evidence, task, task.end, stop)
    else:
        lines = tuple(line for rank in task.ranks for line in task.lines.get(rank, ()))
        yield _whole(evidence, task, task.end, stop, lines or task.lines.get(None, ()))


def _unended(evidence: Evidence, task: TaskSeen, rank: int) -> Part:
    """A rank whose end nobody saw; what it said before its host was out of reach counts."""
    host = evidence.hosts.get(task.host)
    words = last_words(task.lines.get(rank, ())) if host is not None and host.lost_at is not None else None
    if words is None or words.at is None or words.weight != "own" or _long_before(evidence, task, words.at):
        return Part(task, (rank,), "open")
    return Part(task, (rank,), "failed", None, said(evidence, task, words.at), words)


def _long_before(evidence: Evidence, task: TaskSeen, at: float) -> bool:
    """Whether a rank whose host was lost would have been seen to end by what it said then."""
    host = evidence.hosts.get(task.host)
    return host is not None and host.lost_at is not None and host.lost_at - at > NOTICED_LATE + HANDLED


def _whole(evidence: Evidence, task: TaskSeen, end: End, stop: Stop | None, lines: Lines) -> Part:
    """A task that is judged by its own end: one rank, or several of which nothing is known one by one."""
    part = Part(task, task.ranks, "failed", end.code, ended(evidence, task), stop=stop)
    doubt = _doubt(evidence, task, end, stop)
    if end.code == 0 and not end.oom:
        return replace(part, how="stopped" if _was_asked(evidence, stop, task, end, doubt) else "succeeded")
    words = with_its_own(last_words(lines), lines, end.code)
    if stop is not None:
        early = _said_before(stop, lines, doubt)
        reported = _until(stop, lines, doubt) if early is None else lines  # what comes later may be what the stop ended
        early = with_its_own(early, reported, end.code)
        if early is None and _stopped(evidence, stop, task, end, end.code, end.at, doubt):
            return replace(part, how="stopped", words=words)
        words = early or words
    return _failed(evidence, part, words)


def _doubt(evidence: Evidence, task: TaskSeen, end: End, stop: Stop | None) -> float:
    """By how much times of a task's host may be off, about its end and the stop."""
    return evidence.end_doubt(task.host, end, stop)


def _stopped(
    evidence: Evidence, stop: Stop, task: TaskSeen, end: End, code: int | None, at: float | None, doubt: float
) -> bool:
    """Whether a stop ended it: by the clocks, or as was seen here where its host's clock may have gone wrong."""
    if caused(stop, end, code, at, doubt):
        return True
    before = at is not None and at < stop.at - doubt and evidence.is_read(task.host, at)
    return not before and fell(stop, task, end, code)


def _was_asked(evidence: Evidence, stop: Stop | None, task: TaskSeen, end: End, doubt: float) -> bool:
    """Whether a task that ended with 0 did so since it was stopped."""
    if stop is None or not caused(stop, end, 0, end.at, doubt):
        return False
    return not (_by_itself(task, end, stop) or done_by_then(evidence, stop, end, doubt))


def _by_itself(task: TaskSeen, end: End, stop: Stop) -> bool:
    """Whether the engine knows that it sent the task no signal: it ended well at the time of the stop, not by it."""
    soon = end.at is not None and end.at - stop.at < AT_ONCE
    return soon and task.engine != "process" and end.seen_at is not None and end.signalled is False


def _said_before(stop: Stop, lines: Lines, doubt: float) -> LastWords | None:
    """What a rank said of its failure before a stop began."""
    words = last_words(_until(stop, lines, doubt))
    return words if spoke_before(stop, words, doubt) else None


def _until(stop: Stop, lines: Lines, doubt: float) -> Lines:
    return said_by_then(lines, lambda line: line.at is None or line.at < stop.at + doubt)


def _failed(evidence: Evidence, part: Part, words: LastWords | None) -> Part:
    """A failure begins with its own first words, where it said some: the end comes later."""
    error = what_ended(evidence, part.task, part.code, stopped=part.outlived)
    if error in SIGNALLED and words is not None and words.weight == "own" and part.code not in STOP_CODES:
        error = ""  # it reported an error of its own, and ended by that: what it was sent before did not end it
    if words is None or words.at is None:
        return replace(part, how="failed", words=words, error=error)
    at = said(evidence, part.task, words.at)
    return replace(part, how="failed", words=words, error=error, when=at, over=part.when)


def _of_node(evidence: Evidence, task: TaskSeen, end: End, stop: Stop | None) -> Iterator[Part]:
    """The ranks of one torchrun."""
    if end.code == 0 and not end.oom:
        yield from (Part(task, (rank,), "succeeded", 0, ended(evidence, task)) for rank in task.ranks)
        return
    report = _newest_round(agent_words(task.lines.get(None, ())), evidence, task)
    task = _of_this_round(task, report)
    parts = [_of_process(evidence, task, end, report, place, stop) for place in range(len(task.ranks))]
    known = [replace(part, spared=_spared(part, parts)) for part in parts if part is not None]
    rest = tuple(rank for rank, part in zip(task.ranks, parts, strict=True) if part is None)
    yield from known
    if rest:
        yield from _unreported(evidence, task, end, report, rest, stop, any(p.how == "failed" for p in known))


def _spared(part: Part, parts: Sequence[Part | None]) -> bool:
    """Whether other ranks of the node were killed, and this one was not."""
    return part.code != KILL and any(one is not None and one.code == KILL and one.how == "failed" for one in parts)


def _of_process(
    evidence: Evidence, task: TaskSeen, end: End, report: AgentWords, place: int, stop: Stop | None
) -> Part | None:
    """One rank by its agent's word or its own; None where neither says how it ended."""
    rank, its = task.ranks[place], report.ends.get(place)
    lines = task.lines.get(rank, ())
    doubt = _doubt(evidence, task, end, stop)
    seen = noticed(evidence, task, report, its)
    part = Part(task, (rank,), "failed", its.code if its else None, seen, stop=stop)
    early = last_words(lines) if stop is None else _said_before(stop, lines, doubt)
    if its is not None and its.code == 0:
        return replace(part, how="succeeded")
    if its is not None and report.stopped(its):
        if (own := _said_before_the_agent(lines, report)) is not None:
            return _failed(evidence, replace(part, closed=True), own)
        if early is None or its.code == 143:
            return _taken(evidence, part, report, end, doubt)
    final = its is not None or report.reported or bool(report.ends) or not evidence.rules.max_restarts
    if early is not None and (final or early.weight == "own"):
        return _failed(evidence, part, early)
    if its is None:
        return None
    if stop is not None and _stopped(evidence, stop, task, end, its.code, report.noticed_at or end.at, doubt):
        return replace(part, how="stopped", words=last_words(lines))
    words = None if stop is not None else last_words(lines)
    return _failed(evidence, part, words or last_words(lines_of(its.said)))


def _newest_round(report: AgentWords, evidence: Evidence, task: TaskSeen) -> AgentWords:
    """What torchrun said of the ranks' last round: nothing where they worked on after all that it said."""
    if report.heard_at is None or report.reported or report.signal or not evidence.rules.max_restarts:
        return report
    newest = AgentWords(since=report.over_at)
    lines = _of_this_round(task, newest).lines
    return newest if any(lines.get(rank) for rank in task.ranks) else report


def _of_this_round(task: TaskSeen, report: AgentWords) -> TaskSeen:
    """With what was said since torchrun last started its ranks again: nothing before has to do with the end."""
    if report.since is None:
        return task
    since = report.since + SAID
    kept = {rank: tuple(x for x in lines if x.at is None or x.at > since) for rank, lines in task.lines.items()}
    return replace(task, lines=kept)


def _said_before_the_agent(lines: Lines, report: AgentWords) -> LastWords | None:
    """What a rank said of an error of its own before its torchrun ended it."""
    until = report.ending_from
    if until is None:
        return None
    words = last_words(said_by_then(lines, lambda line: line.at is not None and line.at < until))
    return words if words is not None and words.weight == "own" else None


def _taken(evidence: Evidence, part: Part, report: AgentWords, end: End, doubt: float) -> Part:
    """A rank that its torchrun ended: since others had failed, or since torchrun was stopped itself."""
    at = report.signalled_at if report.signalled_at is not None else report.noticed_at
    others = any(not report.stopped(its) for its in report.ends.values())
    if part.stop is not None and not others and _stopped(evidence, part.stop, part.task, end, 143, at or end.at, doubt):
        return replace(part, how="stopped")
    return replace(part, how="taken")


def _unreported(
    evidence: Evidence,
    task: TaskSeen,
    end: End,
    report: AgentWords,
    ranks: tuple[int, ...],
    stop: Stop | None,
    others: bool,
) -> Iterator[Part]:
    """Ranks of a node whose end nobody reported: torchrun before 2.8 leaves out those it stopped, and those that ended
    well are in no report.
    """
    doubt = _doubt(evidence, task, end, stop)
    seen = noticed(evidence, task, report, None)
    if report.reported or others or report.ends:
        well = report.reported and report.stopped_unnamed < len(ranks)
        how: How = "taken" if report.stopped_unnamed >= len(ranks) else "succeeded" if well else "taken"
        for rank in ranks:
            last = next((line.at for line in reversed(task.lines.get(rank, ())) if line.at is not None), None)
            when = said(evidence, task, last) if how == "succeeded" and last is not None else seen
            code = {"succeeded": 0, "taken": 143 if report.stopped_unnamed else None}[how]
            yield Part(task, (rank,), how, code, when, stop=stop)
        return
    if stop is not None and _stopped(evidence, stop, task, end, end.code, report.signalled_at or end.at, doubt):
        yield from (Part(task, (rank,), "stopped", None, ended(evidence, task), stop=stop) for rank in ranks)
        return
    lines = task.lines.get(None, ())
    if len(ranks) == 1:
        lines = _merged(lines, task.lines.get(ranks[0], ()))
    part = Part(task, ranks, "failed", end.code, ended(evidence, task), stop=stop)
    if report.signal:  # its own status says nothing of its ranks
        error = what_ended(evidence, task, end.code, stopped=part.outlived)
        yield replace(part, code=None, error=f"its torchrun got {report.signal}{_by(task, end, error)}")
        return
    yield _failed(evidence, part, last_words(lines))


def _by(task: TaskSeen, end: End, error: str) -> str:
    """Who sent torchrun a signal, if known: an engine that tells of all that it sent knows of ours."""
    if error:
        return f": {error}"
    return "" if task.engine == "process" or end.signalled is None else " there, not from distui"


def _merged(*many: Lines) -> Lines:
    lines = [line for lines in many for line in lines]
    return tuple(sorted(lines, key=lambda line: line.at or 0.0))
