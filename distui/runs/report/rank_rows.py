"""Ranks and hosts of a run as rows to read: state in a word, load, age of the last line, rates of the data network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from distui.frozen import frozen
from distui.plan.model import HostNetwork, RunPlan, Task
from distui.runs.lines.explanation import HANGS
from distui.runs.state.load import load, placed
from distui.runs.state.reducer import RankState, RunState
from distui.runs.state.standstill import standstill
from distui.runs.state.steps import behind, lags
from distui.runs.watch.progress.silence import is_quiet, silent_for
from distui.whole import whole

Tone = Literal["", "muted", "watch", "wrong", "good"]

PHASES = {"connect": "connect", "check": "check", "image": "pull", "push": "push", "start": "start", "follow": "start"}


@frozen
class RankRow:
    """One rank as the list shows it. `sign` is a state word that glyphs and colours know."""

    rank: int
    host: str
    gpus: tuple[int, ...]
    sign: str
    word: str
    tone: Tone = ""
    util: float | None = None
    age: float | None = None
    """Seconds since its last line; None when it said none, or has ended."""
    after: float | None = None
    """Seconds from the first failure to its end."""
    name: str = ""
    """What it is called in few letters, where it is more than a number: `wrk/1`."""
    step: float | None = None
    lag: int | None = None
    """How many steps it is behind the first rank; None where its step is not known."""
    does: str = ""
    """What it said that it does when ranks were asked, in a run that stands still."""

    @property
    def trouble(self) -> bool:
        """Whether a person should look at it."""
        return self.tone in ("watch", "wrong")


def failed_at(state: RunState) -> float | None:
    """When the first failure happened, on our clock."""
    failure = state.failure
    if failure is None:
        return None
    if failure.at is not None or failure.rank is None:
        return failure.at
    rank = state.ranks.get(failure.rank)
    return rank.since if rank is not None else None


def rank_row(
    rank: int,
    task: Task,
    gpus: tuple[int, ...],
    state: RunState,
    *,
    now: float,
    stall_after: float,
    spoke: bool,
    stands: bool = False,
    late: bool = False,
) -> RankRow:
    """One rank now. `spoke` tells that its log has lines, which a replayed run's events do not; `stands` that the run
    stands still, `late` that the rank is too far behind. Of a run that is read beside its owner that one must have said
    that it is quiet, too: it may draw a progress bar, which is in no log until it ends.
    """
    known = state.ranks.get(rank) or RankState(rank, task.host, task.index)
    host = state.hosts.get(task.host)
    util = load(host.sample if host is not None else None, gpus) if known.live else None
    zero, first = failed_at(state), state.failure is not None and state.failure.rank == rank
    after = known.since - zero if zero is not None and known.since is not None and not known.live else None
    heard = known.last_line_at is not None or not spoke  # a replayed run's events do not tell when it spoke
    quiet = is_quiet(known, util, now=now, stall_after=stall_after) and (known.quiet if state.beside else heard)
    age = silent_for(known, now) if known.last_line_at is not None or (quiet and heard) else None
    sign, word, tone = _word(known, state, quiet=quiet, spoke=spoke, stands=stands, late=late)
    if first:
        sign, tone, after = "failed", "wrong", 0.0 if after is not None else None
    return RankRow(rank, task.host, gpus, sign, word, tone, util, age, after)


def _word(
    known: RankState, state: RunState, *, quiet: bool, spoke: bool, stands: bool, late: bool
) -> tuple[str, str, Tone]:
    match known.state:
        case "waiting" | "starting":
            return "starting", PHASES.get(state.phase, "wait"), "muted"
        case "running" if _holds_up(known, state):
            return "quiet", "stuck", "watch"
        case "running" if late:
            return "quiet", "behind", "watch"
        case "running" if quiet:
            return "quiet", "quiet", "watch"
        case "running" if stands:
            return "waiting", "waits", "muted"
        case "running" if not spoke:
            return "starting", "no line", "muted"
        case "running":
            return "running", "ok", ""
        case "lost":
            return "lost", "lost", "watch"
        case "oom":
            return "oom", "OOM", "wrong"
        case "killed" | "exited" | "never_started" | "removed" | "stopped":
            return "ended", end_word(known), "muted"


def _holds_up(known: RankState, state: RunState) -> bool:
    """Whether others wait for it in a run that does not go on."""
    why = state.why.found if state.why is not None else None
    return why is not None and why.kind in HANGS and known.rank in why.culprits


def end_word(known: RankState) -> str:
    """How a rank ended, in ten letters at most."""
    match known.state:
        case "exited" if known.exit == 0:
            return "done"
        case "exited":
            return f"exit {known.exit}" if known.exit is not None else "ended"
        case "killed":
            return _signal(known)
        case "oom":
            return "OOM"
        case "never_started":
            return "no start"
        case _:
            return known.state


def _signal(known: RankState) -> str:
    words = [w.strip("(),") for w in known.words.split() if w.strip("(),").startswith("SIG")]
    return words[0] if words else f"exit {known.exit}"


def rank_rows(plan: RunPlan, state: RunState, *, now: float, spoke: frozenset[int]) -> list[RankRow]:
    """Every rank of the plan, by number."""
    names, far = plan.rank_names, lags(state.steps)
    stands = standstill(plan, state, now) is not None
    late = behind({r: pace for r, pace in state.steps.items() if _lives(state, r)}, standing=stands)
    why = state.why.found if stands and state.why is not None else None
    does = {place.rank if place.within is None else place.within: place.does for place in why.ranks} if why else {}
    rows = [
        replace(
            rank_row(
                r,
                task,
                gpus,
                state,
                now=now,
                stall_after=plan.stall_after_of(task),
                spoke=r in spoke or _lines(state, r),
                stands=stands,
                late=r in late,
            ),
            name=short_name(names.get(r, "")),
            step=state.steps[r].last.step if r in state.steps else None,
            lag=far.get(r),
            does=does.get(r, ""),
        )
        for r, (task, gpus) in placed(plan).items()
    ]
    return _with_waiting(rows) if stands else rows


def _with_waiting(rows: list[RankRow]) -> list[RankRow]:
    """Where most ranks are quiet they wait: that tells nothing of any of them."""
    quiet = sum(row.word == "quiet" for row in rows)
    if 2 * quiet <= len(rows):
        return rows
    waits: Tone = "muted"
    return [replace(row, sign="waiting", word="waits", tone=waits) if row.word == "quiet" else row for row in rows]


def suspects(rows: Iterable[RankRow]) -> list[int]:
    """The ranks to look at, who holds the others up first, then who is furthest behind."""
    worst = {"wrong": 0, "watch": 1}
    found = [row for row in rows if row.trouble]
    found.sort(key=lambda row: (worst[row.tone], row.word != "stuck", -(row.lag or 0), -(row.age or 0.0)))
    return [row.rank for row in found]


def _lives(state: RunState, rank: int) -> bool:
    return rank in state.ranks and state.ranks[rank].live


def short_name(name: str) -> str:
    """`worker/1` as `wrk/1`, and `chief` without a number: there is only one."""
    role, slash, number = name.partition("/")
    role = {"worker": "wrk", "evaluator": "eval"}.get(role, role)
    return role if role in ("chief", "eval") else role + slash + number


def _lines(state: RunState, rank: int) -> bool:
    known = state.ranks.get(rank)
    return known is not None and known.lines > 0


def started(state: RunState) -> int:
    """How many ranks run now, as far as that is known: not those that are out of reach."""
    return sum(r.state == "running" for r in state.ranks.values())


def network_name(network: HostNetwork | None) -> str:
    """What the data goes over, in one word: `ib0`, `mlx5_0-7`, `mlx5_0 +7` where these are not in a row."""
    if network is None:
        return ""
    ports = [h.split(":")[0] for h in network.hcas] if not network.rdma_off else []
    if len(ports) < 2:
        return ports[0] if ports else network.ifname
    stem = ports[0].rstrip("0123456789")
    numbers = [p[len(stem) :] for p in ports]
    found = [number for n in numbers if (number := whole(n)) is not None]
    first = min(found, default=0)
    if all(p.startswith(stem) for p in ports) and sorted(found) == [*range(first, first + len(ports))]:
        return f"{stem}{min(numbers, key=int)}-{max(numbers, key=int)}"
    return f"{ports[0]} +{len(ports) - 1}"


def numbers(ranks: Sequence[int], width: int = 2) -> str:
    """Ranks in as few letters as possible: `00-07 10 11 15`."""
    parts: list[str] = []
    begin = 0
    for i in range(1, len(ranks) + 1):
        if i < len(ranks) and ranks[i] == ranks[i - 1] + 1:
            continue
        run = ranks[begin:i]
        shown = [f"{r:0{width}d}" for r in run]
        parts += [f"{shown[0]}-{shown[-1]}"] if len(run) > 2 else shown
        begin = i
    return " ".join(parts)


def digits(ranks: Mapping[int, object] | Sequence[int]) -> int:
    """How wide rank numbers are: two at least."""
    return max(2, len(str(max(ranks, default=0))))


def remark(rows: Sequence[RankRow], width: int = 2, room: int = 10) -> str:
    """What to look at among these ranks, in `room` letters: `13 quiet`, `8 lost`; empty when nothing is."""
    loud = [row for row in rows if row.trouble]
    worst = next((row for row in loud if row.tone == "wrong"), loud[0] if loud else None)
    if worst is None:
        return ""
    alike = [row.rank for row in loud if row.word == worst.word]
    named = f"{numbers(alike, width)} {worst.word}"
    return named if len(named) <= room else f"{len(alike)} {worst.word}"
