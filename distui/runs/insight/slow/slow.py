"""What slows a run down that goes on: one pure function from what its hosts saw while they watched its ranks.

A rank is claimed late only where `lateness` proves it; why is read from where it differs from ranks that are not late:
its stacks, the cores it was refused, its GPU's clocks. Links are claimed by what was sent again over them, and by how
long they take for as much as others.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from distui.amounts import counted, duration, size_words
from distui.facts.gpus import throttle
from distui.facts.values import number
from distui.frozen import frozen
from distui.plan.labels import named_ranks
from distui.runs.insight.hang.collectives import group_words
from distui.runs.insight.seen.answers import Frame
from distui.runs.insight.seen.pressure import pressed
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.watched import Figures, Watched
from distui.runs.insight.slow.lateness import Late, Lateness
from distui.runs.insight.slow.links import Link, losing, slow_ones
from distui.runs.insight.slow.profile import PART, Longer, longer
from distui.runs.lines.explanation import STANDS, Certainty, Explanation, RankPlace

HELD_SHARE = 0.1
"""Part of the time from which on a container's CPU limit counts as what holds it back."""
SLOW_CLOCK = 0.85
"""Below this part of what the other ranks' GPUs run at, a GPU's clock counts as held down."""
UNEVEN = 0.05


@frozen
class Cause:
    """Why a rank is late."""

    words: str
    evidence: tuple[str, ...] = ()
    frame: Frame | None = None
    advice: str = ""


@frozen
class Slow:
    """All that was seen of a run while it was watched."""

    ranks: tuple[RankSeen, ...]
    watched: Mapping[str, Watched]
    lateness: Lateness
    links: tuple[Link, ...]
    gpus: Mapping[int, tuple[int, ...]]
    """The GPUs of each rank on its host."""

    def figures(self, rank: int) -> Figures | None:
        """What the kernel counted of a rank."""
        seen = next((one for one in self.ranks if one.rank == rank), None)
        host = self.watched.get(seen.host) if seen is not None else None
        return host.figures.get(seen.process.pid) if host is not None and seen is not None and seen.process else None

    @property
    def references(self) -> tuple[int, ...]:
        """Ranks that are not late, the earliest of all first: what the late ones are compared with."""
        usual = self.lateness.usual or {}
        late = {one.rank for one in self.lateness.late}
        return tuple(sorted((rank for rank in usual if rank not in late), key=lambda rank: usual[rank]))


def explain_slow(first: Explanation, slow: Slow) -> Explanation:
    """The explanation of a run that goes on, with who or what slows it down."""
    if first.kind in STANDS:
        return first
    late, lost = slow.lateness.late, losing(slow.links)
    slower = slow_ones(slow.links, max((one.seconds for one in slow.watched.values()), default=0.0))
    causes = {one.rank: cause_of(one, slow) for one in late}
    ranks = tuple(sorted((_place(place, slow) for place in first.ranks), key=lambda p: (not p.culprit, p.rank)))
    first = replace(first, ranks=ranks, evidence=(*first.evidence, *_rest(slow)))
    if late and (causes[late[0].rank] is not None or not (lost or slower)):
        return _straggler(first, slow, causes)
    if lost:
        return _losing_link(first, slow, lost)
    return _slow_link(first, slower) if slower else first


# a rank that is late


def _straggler(first: Explanation, slow: Slow, causes: Mapping[int, Cause | None]) -> Explanation:
    worst = slow.lateness.late[0]
    those = sorted(one.rank for one in slow.lateness.late)
    cause = causes[worst.rank]
    one = len(those) == 1
    holds = f"{named_ranks(those)} hold{'s' * one}"
    why = cause.words if cause else "why does not show in its stacks and figures"
    headline = (
        f"{holds} the others up: {'it enters' if one else f'rank {worst.rank} enters'} {_what(worst)} "
        f"{span(worst.seconds)} late, in {worst.late} of the last {worst.steps} steps of {span(worst.every)}: {why}"
    )
    certain = cause is not None and worst.doubt <= worst.seconds / 4
    certainty: Certainty = "certain" if certain else "likely"
    evidence = (*_claims(slow, causes), *first.evidence)
    return replace(
        first, kind="straggler", headline=headline, certainty=certainty, evidence=evidence,
        advice=cause.advice if cause else "look at its host: `distui top` shows what else runs there",
    )  # fmt: skip


def _claims(slow: Slow, causes: Mapping[int, Cause | None]) -> Iterator[str]:
    late = {one.rank for one in slow.lateness.late}
    rest = [seconds for rank, seconds in (slow.lateness.usual or {}).items() if rank not in late]
    if rest:
        yield f"the others enter within {span(max(rest) - min(rest))} of each other; {_clocks(slow)}"
    for one in slow.lateness.late:
        cause = causes[one.rank]
        if one is not slow.lateness.late[0]:
            yield f"rank {one.rank} enters {span(one.seconds)} late" + (f": {cause.words}" if cause else "")
        yield from (f"rank {one.rank}: {line}" for line in (cause.evidence if cause else ()))


def _clocks(slow: Slow) -> str:
    hosts = {seen.host for seen in slow.ranks}
    return f"the clocks of their hosts are known to {span(slow.lateness.doubt)}" if len(hosts) > 1 else "one clock"


def _what(late: Late) -> str:
    one = late.collective
    size = f" of {one.sizes} {one.kinds}".rstrip() if one.sizes else ""
    return f"{one.what}{size} in {group_words(late.group, late.about)}"


def cause_of(late: Late, slow: Slow) -> Cause | None:
    """Why a rank is late: the first of these that explains it."""
    own = slow.figures(late.rank)
    others = [found for rank in slow.references if (found := slow.figures(rank)) is not None]
    if own is None or not others:
        return _clock_held_down(late.rank, slow)
    more = longer(own.samples, [other.samples for other in others], late.every, late.seconds)
    refused = _refused(late, own, others)
    if refused is not None:
        return _with_place(refused, more)
    held = _clock_held_down(late.rank, slow)
    if held is not None and (more is None or more.does == "computes"):
        return _with_place(held, more)
    return _from_stacks(more, late, slow) if more is not None else None


def _refused(late: Late, own: Figures, others: Sequence[Figures]) -> Cause | None:
    """It could have run, and got no core."""
    shares = [other.delayed / other.seconds for other in others if other.delayed is not None]
    held = (_held(other) for other in others)
    if own.held is not None and own.held / own.seconds >= HELD_SHARE + statistics.median(held):
        share = own.held / own.seconds
        return Cause("the CPU limit of its container holds it back", (f"held back {share:.0%} of the time",),
                     advice="raise the CPU limit of its container")  # fmt: skip
    if own.delayed is None or not shares:
        return None
    lost = (own.delayed / own.seconds - statistics.median(shares)) * late.every
    if lost < PART * late.seconds:
        return None
    evidence = (f"its main thread could run and got no core for {span(lost)} of each step",)
    return Cause(
        "it waits for a CPU core, which others use", evidence, advice="see `distui top` for what else runs there"
    )


def _held(figures: Figures) -> float:
    return (figures.held or 0.0) / figures.seconds


def _with_place(cause: Cause, more: Longer | None) -> Cause:
    if more is None or more.frame is None:
        return cause
    return replace(cause, words=f"{cause.words}, {more.place} at {more.frame}", frame=more.frame)


def _from_stacks(more: Longer, late: Late, slow: Slow) -> Cause:
    at = f" at {more.frame}" if more.frame is not None else ""
    words = f"{more.place} it {more.does}{at}" if more.does else f"{more.place}{at}"
    evidence = [f"{more.place}{at} {span(more.seconds)} longer in each step than others ({more.stacks} stacks)"]
    if more.place == "in its data loader":
        evidence += _workers(late.rank, slow)
    advice = f"look at {more.frame.file}:{more.frame.line}" if more.frame is not None else ""
    return Cause(words, tuple(evidence), more.frame, advice)


def _workers(rank: int, slow: Slow) -> Iterator[str]:
    """What the processes do that its data loader has started."""
    helpers = next((seen.helpers for seen in slow.ranks if seen.rank == rank), ())
    if helpers:
        disk, busy = sum(one.state == "D" for one in helpers), sum(one.cpu >= 0.8 for one in helpers)
        read = size_words(sum(one.read or 0 for one in helpers))
        yield f"{counted(len(helpers), 'process')} that it started: {busy} busy, {disk} waiting for a disk, {read} read"


def _clock_held_down(rank: int, slow: Slow) -> Cause | None:
    """Its GPU's clock is lower than that of the others, for a reason that its driver names."""
    clocks = {one: [c for c in (_clock(gpu) for gpu in _gpus(one, slow)) if c] for one in (rank, *slow.references)}
    own, others = clocks[rank], [min(clocks[one]) for one in slow.references if clocks[one]]
    if not own or not others or min(own) >= SLOW_CLOCK * statistics.median(others):
        return None
    reasons = dict.fromkeys(word for gpu in _gpus(rank, slow) for word in throttle.words(throttle.bits_of(gpu)))
    words = f"its GPU's clock is held down ({', '.join(reasons)})" if reasons else "its GPU's clock is lower"
    evidence = (f"its GPU runs at {min(own):.0f} MHz, those of the others at {statistics.median(others):.0f} MHz",)
    return Cause(words, evidence, advice="see `distui top`: temperature, power limit and clocks of this GPU")


def _gpus(rank: int, slow: Slow) -> list[Mapping[str, str]]:
    seen = next((one for one in slow.ranks if one.rank == rank), None)
    if seen is None or seen.host not in slow.watched:
        return []
    wanted = {str(gpu) for gpu in slow.gpus.get(seen.run_rank, ())}
    return [gpu for gpu in slow.watched[seen.host].gpus if gpu.get("index") in wanted]


def _clock(gpu: Mapping[str, str]) -> float | None:
    return number(gpu.get("clocks.sm"))


# a link that loses, or is slow


def _losing_link(first: Explanation, slow: Slow, lost: Sequence[Link]) -> Explanation:
    worst = lost[0]
    headline = (
        f"what {worst.source} sends to {worst.target} gets lost on the way: {worst.again} of {worst.segments} segments "
        f"({worst.share:.1%}) had to be sent again within {duration(slow.watched[worst.source].seconds)}"
    )
    uneven = slow.lateness.uneven
    evidence = [one.words for one in lost]
    if uneven >= UNEVEN:
        evidence.append(f"{uneven:.0%} of the steps took 150 ms or more longer than usual after all ranks had entered")
    return replace(
        first, kind="link", headline=headline, certainty="likely", evidence=(*evidence, *first.evidence),
        advice=f"look at the network between {worst.source} and {worst.target}: cable, switch port, `ethtool -S`",
    )  # fmt: skip


def _slow_link(first: Explanation, slower: Sequence[tuple[Link, Link]]) -> Explanation:
    """Nothing is lost on it, and it takes long: the rest of the network carries as much in a part of the time."""
    worst, other = slower[0]
    headline = (
        f"what {worst.source} sends to {worst.target} goes slowly: {_rate(worst)} while there is something to send, "
        f"{worst.busy:.0%} of the time, and {other.source} to {other.target} {_rate(other)}; a round trip takes "
        f"{worst.trip_ms:.3g} ms there, {other.trip_ms:.3g} ms here"
    )
    places = f"{worst.source} and {worst.target}"
    return replace(
        first, kind="link", headline=headline, certainty="likely",
        evidence=(*(one.words for one, _ in slower), other.words, *first.evidence),
        advice=f"look at the network between {places}: speed of its ports (`ethtool`), limits, what else uses it",
    )  # fmt: skip


def _rate(link: Link) -> str:
    return f"{size_words(int(link.rate))}/s"


# what is reported beside


def _rest(slow: Slow) -> Iterator[str]:
    for one in slow.lateness.pauses[:3]:
        often = "once" if one.times == 1 else f"the longest of {one.times}"
        place = f"{one.collective.what} #{one.collective.number}"
        yield (
            f"rank {one.rank} entered {place} {span(one.seconds)} late, {often}: a pause such as a checkpoint or a "
            "compile makes it, no straggler"
        )
    for host, found in sorted(slow.watched.items()):
        yield from pressed(host, found.answer.pressure)
        if found.answer.why_not:
            yield found.answer.why_not


def _place(place: RankPlace, slow: Slow) -> RankPlace:
    late = {one.rank: one.seconds for one in slow.lateness.late}
    usual = slow.lateness.usual or {}
    seconds = late.get(place.rank, usual.get(place.rank))
    return replace(place, late=seconds, culprit=place.culprit or place.rank in late)


def span(seconds: float) -> str:
    """`203 ms`, `1.4 s`."""
    return f"{seconds * 1000:.0f} ms" if abs(seconds) < 0.9995 else f"{seconds:.1f} s"
