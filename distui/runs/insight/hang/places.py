"""Where in the program ranks are that called a collective, and why that can't be seen of others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distui.plan.labels import named_ranks
from distui.runs.insight.hang.by_calls import collective_of
from distui.runs.insight.seen.answers import NO_STACKS, PAUSED
from distui.runs.insight.seen.doing import is_cut, own_frame
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation, RankPlace


def at_one_place(ranks: Sequence[RankSeen], those: Sequence[int], word: str = "at") -> str:
    """` at FILE:LINE in FUNCTION`, where all of these ranks that answered are at one place; else nothing."""
    answered = [seen for seen in ranks if seen.rank in those and not is_cut(seen)]
    frames = {str(frame) for seen in answered if (frame := own_frame(seen)) is not None}
    return f" {word} {frames.pop()}" if len(frames) == 1 else ""


def called_at(ranks: Sequence[RankSeen], those: Sequence[int], group: str, number: int) -> str:
    """Where these ranks called a collective of a group; `now at` where they have gone on from there since."""
    inside = all(_is_in(seen, group, number) for seen in ranks if seen.rank in those)
    return at_one_place(ranks, those, "at" if inside else "now at")


def _is_in(seen: RankSeen, group: str, number: int) -> bool:
    """Whether its main thread is in a call of a collective, and this is the newest that it has begun in the group."""
    own = seen.groups.get(group)
    return own is not None and bool(own.recent) and own.recent[-1].number == number and bool(collective_of(seen))


def said_once(found: Explanation, ranks: Sequence[RankSeen]) -> Explanation:
    """`found`, in which a reason that several ranks have for not being seen is said in its evidence alone."""
    why = {seen.rank: seen.why_not for seen in ranks if seen.process is None and not seen.ended and seen.why_not}
    each = list(why.values())
    shared = {one for one in each if each.count(one) > 1 and any(one in line for line in found.evidence)}
    return replace(
        found, ranks=tuple(_briefly(place) if why.get(place.rank) in shared else place for place in found.ranks)
    )


def _briefly(place: RankPlace) -> RankPlace:
    return replace(place, does="can't be seen")


def not_seen(ranks: Sequence[RankSeen], those: Sequence[int]) -> Iterator[str]:
    """Why nobody can see where in the program these ranks are: each reason once."""
    reasons: dict[str, list[int]] = {}
    for seen in ranks:
        if seen.rank in those and own_frame(seen) is None and (why := _why_not_seen(seen)):
            reasons.setdefault(why, []).append(seen.rank)
    for why, who in reasons.items():
        yield f"where in the program {named_ranks(who)} {'is' if len(who) == 1 else 'are'} {why}"


def _why_not_seen(seen: RankSeen) -> str:
    process = seen.process
    if process is None:
        return "" if seen.ended or not seen.why_not else f"can't be seen: {seen.why_not}"
    if process.state == PAUSED:
        return "can't be seen while that is paused"
    if process.state == "T" and process.torch:
        return "can't be seen while that is stopped: a process answers again after `kill -CONT`"
    why = next((one for one in process.unasked if one.startswith(NO_STACKS)), "")
    return f"can't be seen: {why.removeprefix(NO_STACKS)}" if why else ""


def unplaced(ranks: Sequence[RankSeen], found: Explanation) -> int:
    """Of how many ranks that hold the others up it is not known where in the program they are, though they may tell it
    when they are asked again: on a busy host a stack, or all of an answer, may come too late. Whatever else keeps one
    from telling lasts. Where ranks called different collectives, or nobody is to blame, each rank's place is said.
    """
    held = {place.rank for place in found.ranks if place.culprit}
    those = held if held and found.kind != "mismatch" else {seen.rank for seen in ranks}
    return sum(seen.rank in those and (own_frame(seen) is None or is_cut(seen)) and _may_tell(seen) for seen in ranks)


def _may_tell(seen: RankSeen) -> bool:
    gone = seen.process is not None and seen.process.state in ("Z", "X")
    return seen.late and not (seen.ended or seen.stopped or gone)
