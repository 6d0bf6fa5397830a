"""A failed run as plain text: who failed first, when, why, what followed, the evidence of every rank, where to look.

Pure: the caller brings the last lines of each rank (`last_lines` reads them from a run's folder).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from distui.amounts import clock
from distui.files import tail_lines
from distui.plan.model import RunPlan
from distui.runs.lines.events import Failure
from distui.runs.lines.severity import headline_of
from distui.runs.lines.text import safe, text_of
from distui.runs.report.aftermath import aftermath, is_removed
from distui.runs.report.rank_rows import failed_at
from distui.runs.report.run_words import restart_words
from distui.runs.state.load import placed
from distui.runs.state.reducer import RankState, RunState
from distui.runs.store.masking import Mask
from distui.runs.store.runs import StoredRun
from distui.runs.verdict.exit_words import signal_name
from distui.runs.verdict.lines.diagnose import cause_line
from distui.spec.hosts.names import fold

TAIL_BYTES = 1 << 16
TAIL_LINES = 200
SAID = 12
"""Last lines shown of a rank that failed by itself; others show what they said last."""
MOST_TOLD = 60
"""A traceback longer than this is cut to its last lines."""
FAILED = frozenset({"exited", "oom", "killed", "never_started", "removed"})
"""States of ranks that ended by themselves; exit status 0 is none of them."""


def failed_ranks(state: RunState) -> list[int]:
    """Ranks that ended badly by themselves: the first failure first, then as they ended."""
    first = state.failure.rank if state.failure is not None else None
    bad = [r for r in state.ranks.values() if r.state in FAILED and (r.exit != 0 or r.oom)]
    bad.sort(key=lambda r: (r.rank != first, r.since or 0.0, r.rank))
    found = [r.rank for r in bad]
    return found if first is None or first in found else [first, *found]


def last_lines(
    stored: StoredRun, plan: RunPlan, mask: Mask, ranks: Iterable[int] | None = None
) -> dict[int | None, tuple[str, ...]]:
    """The last lines of these ranks (all of them without), and under None those of the launchers, from the files.

    `mask` hides values of secrets: whoever wrote the files may not have known them.
    """
    wanted = placed(plan) if ranks is None else ranks
    found: dict[int | None, tuple[str, ...]] = {r: _tail(stored.rank_log(r), mask) for r in wanted}
    launchers = [line for task in plan.tasks for line in _tail(stored.node_log(task.index), mask)]
    return {rank: lines for rank, lines in {**found, None: tuple(launchers)}.items() if lines}


def _tail(path: Path, mask: Mask) -> tuple[str, ...]:
    lines = map(mask.raw, tail_lines(path, TAIL_BYTES)[-TAIL_LINES:])  # before they are cut: half a value is not found
    return tuple(text for line in lines if (text := safe(text_of(line))[:500]).strip())


def report(plan: RunPlan, state: RunState, tails: Mapping[int | None, Sequence[str]], log_dir: str) -> str:
    """What to paste into a message: short, in the order in which one asks."""
    parts = [
        _head(plan, state, log_dir),
        _first(plan, state, tails),
        _followed(plan, state),
        _further(plan, state, log_dir),
    ]
    return "\n\n".join("\n".join(map(safe, part)) for part in map(list, parts) if part) + "\n"


def evidence(plan: RunPlan, state: RunState, tails: Mapping[int | None, Sequence[str]], log_dir: str) -> str:
    """The report, and every rank: how it ended, when, what that means, and its last lines."""
    output = [report(plan, state, tails, log_dir).rstrip("\n"), "EVIDENCE, RANK BY RANK"]
    failed = dict.fromkeys(failed_ranks(state))
    where = placed(plan)
    for rank in [*failed, *(rank for rank in state.ranks if rank not in failed)]:
        _, gpus = where.get(rank, (None, ()))
        lines = tails.get(rank, ())
        shown = _telling(lines) if rank in failed else lines[-2:]
        output.append("\n".join(map(safe, _rank(state, rank, gpus, lines, shown))))
    if tails.get(None):
        output.append("\n".join(["launchers", *(f"  | {safe(line)}" for line in tails[None][-2 * SAID :])]))
    return "\n\n".join(output) + "\n"


def _head(plan: RunPlan, state: RunState, log_dir: str) -> Iterator[str]:
    ended = state.ended
    outcome = state.summary.replace("_", " ").upper() + (f", exit {ended.exit}" if ended is not None else "")
    yield f"{plan.run_id}: {outcome}"
    yield f"job       {plan.job}" + (f", image {plan.image}" if plan.image else "")
    yield f"ranks     {plan.world_size} on {fold(plan.hosts)}"
    if state.started is not None:
        until = f" to {clock(ended.at)}" if ended is not None else ""
        yield f"ran       {time.strftime('%Y-%m-%d', time.localtime(state.started))} {clock(state.started)}{until}"
    if restarts := restart_words(state.restarts):
        yield f"again     {restarts}"
    for words in ended.warnings if ended is not None else ():
        yield f"warning   {words}"
    if state.network is not None and state.network.words:
        yield f"network   {state.network.words}"
    if state.progress is not None:
        yield "progress  " + "  ".join(f"{name} {value:g}" for name, value in state.progress.values.items())
    if ended is not None:
        nothing = is_removed(ended, keeps=plan.keeps)
        left = "nothing of it is left on the hosts" if nothing else "; ".join(ended.leftovers)
        if left:
            yield f"left      {left}"


def _first(plan: RunPlan, state: RunState, tails: Mapping[int | None, Sequence[str]]) -> Iterator[str]:
    failure = state.failure
    if failure is None:
        for notice in [n for n in state.notices if n.level == "error"][-8:]:
            yield f"error     {notice.text}"
        return
    _, gpus = placed(plan).get(failure.rank if failure.rank is not None else -1, (None, ()))
    when = f" at {clock(failure.at)}.{int(failure.at * 1000) % 1000:03d}" if failure.at is not None else ""
    who = _who(failure.rank, failure.host, gpus) if not failure.is_of_all else failure.name
    yield f"FIRST FAILURE: {who}, {failure.words}{when}"
    yield from (f"also      {words}" for words in (failure.together_by(plan.rank_names),) if words)
    yield from (f"unsure    {words}" for words in (failure.unsure,) if words)
    yield f"said      {headline_of(failure)}"
    yield from _why(failure, tails.get(failure.rank) or tails.get(None, ()))
    yield from (f"  | {line}" for line in _telling(tails.get(failure.rank) or failure.excerpt))


def _telling(lines: Sequence[str]) -> Sequence[str]:
    """The last traceback, when there is one near the end; else the last lines."""
    heads = [i for i, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    if heads and len(lines) - heads[-1] <= MOST_TOLD:
        return lines[heads[-1] :]
    return lines[-SAID:]


def _why(failure: Failure, lines: Sequence[str]) -> Iterator[str]:
    if failure.cause:
        yield f"cause     {failure.cause}"
        cause = cause_line(lines)
        if cause is not None and cause.strip() != headline_of(failure):
            yield f"by        {cause.strip()}"
    if failure.hint:
        yield f"try       {failure.hint}"


def _who(rank: int | None, host: str, gpus: Sequence[int]) -> str:
    if rank is None:
        return f"the launcher on {host}"
    return f"rank {rank} on {host}" + (f", GPU {','.join(map(str, gpus))}" if gpus else "")


def _followed(plan: RunPlan, state: RunState) -> Iterator[str]:
    rows = aftermath(state, keeps=plan.keeps)
    if not rows:
        return
    yield "WHAT FOLLOWED, in seconds after it"
    who, what = max(len(row.who) for row in rows), max(len(row.what) for row in rows)
    for row in rows:
        yield f"{row.after:+8.1f}  {row.who:<{who}}  {row.what:<{what}}  {row.words}".rstrip()


def _rank(state: RunState, rank: int, gpus: Sequence[int], lines: Sequence[str], shown: Sequence[str]) -> Iterator[str]:
    known = state.ranks.get(rank) or RankState(rank, "?", 0)
    yield f"{_who(rank, known.host, gpus)}: {known.words or known.state}{_after(state, known)}"
    facts = [f"state {known.state}", f"exit {known.exit if known.exit is not None else 'unknown'}"]
    if (name := signal_name(known.exit)) is not None:
        facts.append(f"signal {name}")
    facts.append(f"out of memory by the kernel: {'yes' if known.oom else 'no'}")
    yield "  " + ", ".join(facts)
    cause = cause_line(lines)
    if cause is not None:
        yield f"  its log names a cause: {cause.strip()}"
    yield from (f"  | {line}" for line in shown)


def _after(state: RunState, known: RankState) -> str:
    zero = failed_at(state)
    if state.failure is not None and state.failure.rank == known.rank:
        return ", the first to fail"
    related = f", {known.related}" if known.related else ""
    if known.live or zero is None or known.since is None:
        return related
    return f", {known.since - zero:+.1f} s{related}"


def _further(plan: RunPlan, state: RunState, log_dir: str) -> Iterator[str]:
    yield "LOOK FURTHER"
    rank = state.failure.rank if state.failure is not None else None
    yield f"  distui logs {plan.run_id}" + (f" --rank {rank}" if rank is not None else "")
    yield f"  distui show {plan.run_id} --plan"
    yield f"  distui show {plan.run_id} --report"
    yield f"  logs in {log_dir}"
