"""Ranks that have begun a collective and do something else: by their calls and the kernel. Pure.

What NCCL does goes on beside the program, and so does what is begun with `async_op=True`: that a collective of a rank
is not over does not mean that its program waits there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.frozen import frozen
from distui.runs.insight.hang.by_calls import functions_of, waits_in
from distui.runs.insight.seen.answers import Collective
from distui.runs.insight.seen.doing import Doing
from distui.runs.insight.seen.one_group import NCCL
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.stalls import LOADER
from distui.runs.insight.seen.waits import ALSO_WHO_WAITS, WAITS

_OWN = frozenset(WAITS.values()) - ALSO_WHO_WAITS


@frozen
class Elsewhere:
    """Ranks that do something else, whatever they have begun."""

    plain: frozenset[int] = frozenset()
    """Of these that is beyond doubt: stopped, ended, at a file, in a data loader, in a checkpoint."""
    maybe: frozenset[int] = frozenset()
    """These sleep or compute outside of torch, as a program does, too, that asks whether its collective is over."""


def elsewhere(ranks: Sequence[RankSeen], acts: Mapping[int, Doing]) -> Elsewhere:
    """Which of them do something else than to wait for others."""
    plain = {seen.rank for seen in ranks if _plainly(seen, acts[seen.rank])}
    maybe = {seen.rank for seen in ranks if seen.rank not in plain and _maybe(seen, acts[seen.rank])}
    return Elsewhere(frozenset(plain), frozenset(maybe))


def _plainly(seen: RankSeen, act: Doing) -> bool:
    if seen.stopped:
        return True
    process = seen.process
    if process is None or waits_in(seen):
        return False
    if process.state in ("Z", "X") or act.stall or act.words in _OWN:
        return True
    if process.busy_with is not None and process.busy_with[1] in act.words:
        return True
    stack = seen.main_stack
    return stack is not None and any(LOADER.search(one.file) for one in stack.frames)


def _maybe(seen: RankSeen, act: Doing) -> bool:
    """Whether its main thread is in code of its own; one that waits for NCCL spins there just so."""
    if seen.process is None or seen.main_stack is None or waits_in(seen):
        return False
    return act.words == "sleeps" or (act.busy and not _uses_nccl([seen]))


def may_wait(seen: RankSeen, ranks: Sequence[RankSeen]) -> bool:
    """Whether a rank that lacks in a collective may wait itself for others: in another one, in a send or a receive, or
    in what torch does not record, such as the start of a group over NCCL.
    """
    process = seen.process
    before = (*process.left.values(), *process.unclear.values()) if process is not None else ()
    own = (*seen.groups.values(), *before)
    if any(group.pending is not None or any(not one.over for one in group.direct) for group in own):
        return True
    if seen.main_stack is None and not seen.ended and _uses_nccl(ranks) and len(_groups(ranks)) > 1:
        return True
    return bool(waits_in(seen))


def waits_surely(seen: RankSeen) -> frozenset[str]:
    """The group in the call of whose collective its main thread is, the newest of all that it has begun; none where
    that is not known. Not over NCCL: its calls do not wait there, or for something before.
    """
    begun = {name: one for name, group in seen.groups.items() if (one := group.pending) is not None}
    newest = max(begun.values(), key=lambda each: each.began_ns, default=None)
    called = functions_of(seen)
    return frozenset(
        name
        for name, own in begun.items()
        if own == newest and not name.endswith(NCCL) and any(_is_same(function, own) for function in called)
    )


def _is_same(function: str, one: Collective) -> bool:
    """Whether `all_gather_into_tensor` is what torch records as `_allgather_base`, and the like."""
    short = one.what.replace("_", "").removesuffix("base").removesuffix("coalesced")
    return bool(short) and not one.name.startswith("nccl:") and function.replace("_", "").startswith(short)


def _uses_nccl(ranks: Sequence[RankSeen]) -> bool:
    return any(
        name.endswith(NCCL) or any(one.name.startswith("nccl:") for one in group.recent[-1:])
        for seen in ranks
        for name, group in seen.groups.items()
    )


def _groups(ranks: Sequence[RankSeen]) -> set[str]:
    return {name.removesuffix(NCCL) for seen in ranks for name in seen.groups}
