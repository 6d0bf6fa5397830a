"""What followed the first failure: who ended when and how, counted from it. Pure, from the run's state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from distui.frozen import frozen
from distui.runs.lines.events import Failure, Notice, RunEnded
from distui.runs.lines.severity import headline_of
from distui.runs.report.rank_rows import Tone, digits, end_word, failed_at, numbers, short_name
from distui.runs.state.reducer import RankState, RunState

TOGETHER_S = 0.6
"""Ranks that end alike within this time are one row."""
NAMED = 3
"""Names in one row; more of them are counted."""
BEFORE_S = 120.0
"""Warnings this long before the failure are evidence."""


@frozen
class Moment:
    """One row: seconds after the first failure, who, what, and in words why."""

    after: float
    who: str
    what: str
    words: str = ""
    tone: Tone = "muted"


def aftermath(state: RunState, *, keeps: bool = False) -> list[Moment]:
    """The rows in time; empty without a failure whose moment is known. `keeps` is whether ended containers stay."""
    zero = failed_at(state)
    if state.failure is None or zero is None:
        return []
    rows = [
        *_attempts(state, zero, "watch"),
        *_before(state, zero),
        _first(state),
        *_others(state, zero),
        *_not_started(state, zero),
        *_ours(state, zero, keeps=keeps),
    ]
    return sorted(rows, key=lambda row: row.after)


def is_removed(ended: RunEnded, *, keeps: bool) -> bool:
    """Whether nothing of a run is left on its hosts, as far as its end tells: one that was left alone, or is out of
    reach, may live, and containers that it keeps may be there.
    """
    return not (ended.leftovers or keeps or ended.outcome in ("detached", "unknown"))


def troubles(state: RunState, most: int = 6) -> list[Moment]:
    """How earlier attempts failed, and the last warnings and errors since, from the start: a launch that was refused
    has no failure, but its reasons.
    """
    zero = state.started or 0.0
    loud = [notice for notice in _said(state) if notice.level != "info"][-most:]
    return [
        *_attempts(state, zero, "wrong"),
        *(Moment(n.at - zero, n.host or "", n.level, n.text, "wrong" if n.level == "error" else "watch") for n in loud),
    ]


def _said(state: RunState, attempt: int | None = None) -> tuple[Notice, ...]:
    """What was said in one of the attempts before, counted from 0, or else in this one."""
    ends = (0, *state.said_in_past, len(state.notices))
    begin, end = ends[-2:] if attempt is None else ends[attempt : attempt + 2]
    return state.notices[begin:end]


def _attempts(state: RunState, zero: float, tone: Tone) -> Iterator[Moment]:
    """How the attempts before this one failed: what went wrong while this one runs, and evidence once it has failed.

    An attempt that could not start has no failure, but its reason was said.
    """
    for number, past in enumerate(state.past):
        what, failure = f"attempt {past.attempt}", past.failure
        if failure is None:
            yield Moment(past.at - zero, "distui", what, _refused(_said(state, number)), tone)
        elif failure != state.failure:
            words = ", ".join(filter(None, (failure.words or "failed", _why(failure))))
            yield Moment((failure.at or past.at) - zero, _who(state, failure), what, words, tone)


def _refused(notices: Iterable[Notice]) -> str:
    """Why an attempt could not start."""
    said = [notice.text for notice in notices if notice.level == "error"]
    return said[-1] if said else "could not start"


def _is_of_before(state: RunState) -> bool:
    """Whether the run's failure is that of an earlier attempt: the last one could not start."""
    return any(past.failure is not None and past.failure == state.failure for past in state.past)


def _not_started(state: RunState, zero: float) -> Iterator[Moment]:
    """Why the last attempt could not start."""
    ended = state.ended
    if ended is not None and _is_of_before(state):
        words = _refused(_said(state))
        yield Moment(ended.at - zero, "distui", f"attempt {ended.attempt}", words, "wrong")


def _first(state: RunState) -> Moment:
    failure = state.failure
    assert failure is not None
    known = state.ranks.get(failure.rank) if failure.rank is not None else None
    is_known = known is not None and not known.live and not _is_of_before(state)
    what = end_word(known) if known is not None and is_known else failure.words or "failed"
    return Moment(0.0, _who(state, failure), what, _why(failure), "wrong")


def _who(state: RunState, failure: Failure) -> str:
    if failure.rank is None:
        return failure.host or failure.name
    return failure.name or f"{failure.rank:0{digits(state.ranks)}d}"


def _why(failure: Failure) -> str:
    """The last words of its log that tell something; else its cause."""
    return headline_of(failure) if any(line.strip() for line in failure.excerpt) else failure.cause


def _before(state: RunState, zero: float) -> Iterator[Moment]:
    for notice in _said(state):
        if notice.level != "info" and zero - BEFORE_S <= notice.at <= zero:
            yield Moment(notice.at - zero, notice.host or "", "warning", notice.text, "watch")


def _others(state: RunState, zero: float) -> Iterator[Moment]:
    assert state.failure is not None
    ended = [r for r in state.ranks.values() if not r.live and r.since is not None and r.rank != state.failure.rank]
    ended.sort(key=lambda r: (r.state, r.words, r.related, r.since or 0.0))
    width, together = digits(state.ranks), list[RankState]()
    for rank in ended:
        if together and not _alike(together[0], rank):
            yield _moment(together, zero, width)
            together = []
        together.append(rank)
    if together:
        yield _moment(together, zero, width)


def _alike(a: RankState, b: RankState) -> bool:
    return (a.state, a.words, a.related) == (b.state, b.words, b.related) and abs(
        (a.since or 0.0) - (b.since or 0.0)
    ) <= TOGETHER_S


def _moment(ranks: list[RankState], zero: float, width: int) -> Moment:
    first = min(r.since or 0.0 for r in ranks)
    state, words = ranks[0].state, ranks[0].words
    if state == "exited" and ranks[0].exit == 0:
        words = ""
    what = end_word(ranks[0])
    said = ", ".join(part for part in ("" if words == what else words, ranks[0].related) if part)
    return Moment(first - zero, _called(ranks, width), what, said)


def _called(ranks: list[RankState], width: int) -> str:
    """The ranks by number, or by name where they have one and are few."""
    ordered = sorted(ranks, key=lambda r: r.rank)
    if not ordered[0].name:
        return numbers([r.rank for r in ordered], width)
    return " ".join(short_name(r.name) for r in ordered) if len(ordered) <= NAMED else f"{len(ordered)} tasks"


def _ours(state: RunState, zero: float, *, keeps: bool) -> Iterator[Moment]:
    """What distui did."""
    if state.stopping is not None and state.stopping.at >= zero:
        how = f"SIGTERM, {state.stopping.grace:.0f} s grace" if state.stopping.grace else "SIGKILL"
        why = {
            "failure": "on_fail: stop",
            "hang": "on_hang",
            "user": "asked for",
            "timeout": "--timeout",
            "done": "the run is done",
            "lost": "a host out of reach",
        }.get(state.stopping.reason, "")
        yield Moment(state.stopping.at - zero, "distui", "stop", ", ".join(part for part in (how, why) if part))
    ended = state.ended
    if ended is not None and ended.leftovers:
        yield Moment(ended.at - zero, "distui", "left over", "; ".join(ended.leftovers), "watch")
    elif ended is not None and is_removed(ended, keeps=keeps):
        hosts = len({r.host for r in state.ranks.values()})
        where = {1: "the host", 2: "either host"}.get(hosts, f"any of {hosts} hosts")
        yield Moment(ended.at - zero, "distui", "cleaned up", f"nothing of this run is left on {where}", "good")
