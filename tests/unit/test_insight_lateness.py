"""Who enters collectives late, from traces of steps: found where there is one, never claimed where there is none."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distui.runs.insight.seen.answers import Collective, Group, Process
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.slow import lateness as lateness_module
from distui.runs.insight.slow.lateness import STEPS, lateness

NOW = 1_795_000_000.0

Extra = Callable[[int, int], float]
"""Rank and step -> seconds that it needs more in that step."""


def nobody(_rank: int, _step: int) -> float:
    """No rank needs more than the others."""
    return 0.0


@dataclass
class Trace:
    """Data-parallel training: each step some work, some buckets that are begun one after the other, and a wait."""

    ranks: int = 4
    per_host: int = 2
    work: float = 0.1
    buckets: int = 2
    jitter: float = 0.005
    tail: float = 0.02
    """In what share of a rank's steps it is slowed down by a whole step's work."""
    seed: int = 1
    extra: Extra = nobody
    clocks: dict[str, float] = field(default_factory=dict)
    """Host -> how far its clock is really ahead."""

    def steps(self, count: int) -> Iterator[list[list[float]]]:
        """For each step, for each rank, when it began each bucket; true time."""
        dice = random.Random(self.seed)
        now = NOW
        for step in range(count):
            begun = []
            for rank in range(self.ranks):
                late = self.work if dice.random() < self.tail else 0.0
                start = now + self.work + abs(dice.gauss(0, self.jitter)) + late + self.extra(rank, step)
                begun.append([start + 0.01 * bucket for bucket in range(self.buckets)])
            now = max(max(row) for row in begun) + 0.005
            yield begun

    def host(self, rank: int) -> str:
        """Where a rank is."""
        return f"h{rank // self.per_host + 1}"

    def seen(
        self, steps: Sequence[list[list[float]]], measured: dict[str, float], doubt: float, *, first: int = 100
    ) -> list[RankSeen]:
        """What is seen of these steps with clocks that are known as said."""
        found = []
        for rank in range(self.ranks):
            host = self.host(rank)
            ahead, number, recent = self.clocks.get(host, 0.0), first, []
            for step in steps:
                for bucket, at in enumerate(step[rank]):
                    began = int((at + ahead) * 1e9)
                    recent.append(Collective(number, "gloo:all_reduce", str(1000 + bucket), "Float", began, True))
                    number += 1
            group = Group("0", "default_pg", tuple(recent), number - 1)
            process = Process(100 + rank, 1, "python", "S", 0.0, rank=rank, torch="2.13", groups={"0": group})
            found.append(RankSeen(rank, host, process, ahead=measured.get(host, 0.0), doubt=doubt))
        return found


CLOCKS = {"h1": 0.25, "h2": -0.25}
"""Half a second apart."""


def test_ten_thousand_healthy_steps_with_clocks_half_a_second_apart() -> None:
    """Every window of them is looked at: nothing is claimed, though now and then a rank is late by a whole step."""
    trace = Trace(clocks=CLOCKS)
    steps = list(trace.steps(10_000))
    measured = {"h1": 0.252, "h2": -0.249}
    for begin in range(0, len(steps), STEPS // 2):
        found = lateness(trace.seen(steps[begin : begin + STEPS], measured, 0.003))
        assert (found.late, found.pauses) == ((), ())
        assert found.usual is None or max(found.usual.values()) < 0.01


@pytest.mark.parametrize("seconds", [0.15, 0.2, 1.0])
def test_a_rank_that_is_late_in_each_step(seconds: float) -> None:
    """Found within thirty steps, whatever the clocks of the hosts say, and by how much."""
    trace = Trace(clocks=CLOCKS, extra=lambda rank, _step: seconds if rank == 2 else 0.0)
    found = lateness(trace.seen(list(trace.steps(30)), {"h1": 0.251, "h2": -0.252}, 0.003))
    (late,) = found.late
    assert late.rank == 2 and late.seconds == pytest.approx(seconds, abs=0.01)
    assert late.late >= 28 and late.every == pytest.approx(0.12 + seconds, abs=0.02)
    assert late.collective.sizes == "1001"  # the last bucket: at the others nobody waits


@pytest.mark.parametrize("doubt", [0.6, 1e6])
def test_clocks_that_nobody_knows_prove_nothing(doubt: float) -> None:
    """Half a second apart and not measured: the ranks of one host look late, and are not."""
    trace = Trace(clocks=CLOCKS)
    assert lateness(trace.seen(list(trace.steps(40)), {}, doubt)).late == ()


def test_ranks_of_one_host_have_one_clock() -> None:
    """Whatever it says."""
    trace = Trace(per_host=4, clocks={"h1": 3600.0}, extra=lambda rank, _step: 0.1 * (rank == 3))
    (late,) = lateness(trace.seen(list(trace.steps(30)), {}, 1e6)).late
    assert (late.rank, late.doubt) == (3, 0.0)


def test_two_late_ranks_are_both_named() -> None:
    """All ranks of a host, say."""
    trace = Trace(ranks=6, extra=lambda rank, _step: 0.2 * (rank in (2, 3)))
    assert {one.rank for one in lateness(trace.seen(list(trace.steps(30)), {}, 0.001)).late} == {2, 3}


def test_a_pause_is_no_lateness() -> None:
    """A checkpoint now and then: told as what it is, once for all buckets of a step."""
    trace = Trace(tail=0.0, extra=lambda rank, step: 3.0 if rank == 0 and step in (5, 30) else 0.0)
    found = lateness(trace.seen(list(trace.steps(40)), {}, 0.001))
    (pause,) = found.pauses
    assert found.late == () and (pause.rank, pause.times) == (0, 2)
    assert pause.seconds == pytest.approx(3.0, abs=0.05)


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_under_way_is_no_pause(by: float) -> None:
    """A host's clock is set at step 20; with what it says now, all before is an hour off. A real pause later is one."""
    trace = Trace(tail=0.0, extra=lambda rank, step: 3.0 if rank == 0 and step == 30 else 0.0)
    steps = list(trace.steps(50))
    for step in steps[:20]:
        for rank in (2, 3):
            step[rank] = [at - by for at in step[rank]]
    found = lateness(trace.seen(steps, {}, 0.001))
    assert found.late == ()
    assert [(pause.rank, pause.times, round(pause.seconds)) for pause in found.pauses] == [(0, 1, 3)]


def test_turns_at_being_late_are_no_lateness() -> None:
    """Each step another rank: what holds such a run up is no single one."""
    trace = Trace(extra=lambda rank, step: 0.2 * (step % 4 == rank))
    assert lateness(trace.seen(list(trace.steps(60)), {}, 0.001)).late == ()


@pytest.mark.parametrize(("steps", "claims"), [(9, 0), (12, 1)])
def test_few_steps_prove_nothing(steps: int, claims: int) -> None:
    """What is seen of the first steps may be their own."""
    trace = Trace(tail=0.0, extra=lambda rank, _step: 0.2 * (rank == 1))
    assert len(lateness(trace.seen(list(trace.steps(steps)), {}, 0.001)).late) == claims


def test_what_others_only_wait_for_their_root_in_counts_for_nothing() -> None:
    """A broadcast's root goes on at once."""
    trace = Trace(buckets=1, extra=lambda rank, _step: 0.2 * (rank == 1))
    seen = trace.seen(list(trace.steps(30)), {}, 0.001)
    for one in seen:
        assert one.process is not None and one.process.groups is not None
        group = one.process.groups["0"]
        recent = tuple(Collective(c.number, "gloo:broadcast", c.sizes, c.kinds, c.began_ns, True) for c in group.recent)
        one.process.groups["0"] = Group("0", group.about, recent, group.enqueued)  # type: ignore[index]
    assert lateness(seen).late == ()


def test_a_rank_that_waits_in_another_group_for_the_late_one_is_none() -> None:
    """Rank 2 is late in the group of 0 and 2; rank 0 therefore in that of 0 and 1."""
    slow, rows = Trace(ranks=2, per_host=2, buckets=1, tail=0.0), []
    begun = list(slow.steps(30))
    pair = {"a": (0, 2), "b": (0, 1)}
    moments = {
        ("a", 0): [at[0][0] for at in begun], ("a", 2): [at[0][0] + 0.2 for at in begun],
        ("b", 0): [at[0][0] + 0.21 for at in begun], ("b", 1): [at[0][0] + 0.01 for at in begun],
    }  # fmt: skip
    for rank in (0, 1, 2):
        groups = {}
        for name, members in pair.items():
            if rank in members:
                row = [
                    Collective(100 + n, "gloo:all_reduce", "5", "Float", int((at + 0.3 * n) * 1e9), True)
                    for n, at in enumerate(moments[name, rank])
                ]
                groups[name] = Group(name, "", tuple(row), 129)
        rows.append(RankSeen(rank, "h1", Process(rank, 1, "p", "S", 0.0, rank=rank, torch="2", groups=groups)))
    found = lateness(rows)
    assert [one.rank for one in found.late] == [2]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    ranks=st.integers(2, 8),
    work=st.floats(0.01, 2.0),
    jitter=st.floats(0.0, 0.3),
    tail=st.floats(0.0, 0.1),
    buckets=st.integers(1, 4),
    apart=st.floats(-1.0, 1.0),
    error=st.floats(-0.005, 0.005),
)
def test_healthy_steps_of_any_kind_are_never_claimed(
    seed: int, ranks: int, work: float, jitter: float, tail: float, buckets: int, apart: float, error: float
) -> None:
    """Whatever their jitter, their length, and how far the clocks are apart, as far as those are measured. Where ranks
    differ by a quarter of a step, one of a thousand windows of twelve steps looks so by chance: there more are known.
    """
    trace = Trace(ranks, 2, work, buckets, jitter * work, tail, seed, clocks={"h2": apart})
    steps = list(trace.steps(60))
    for count in (12, 30, 60) if jitter <= 0.1 else (60,):
        assert lateness(trace.seen(steps[-count:], {"h2": apart + error}, 0.005)).late == ()


def test_nothing_to_compare() -> None:
    """No ranks, one rank, ranks that tell nothing."""
    assert lateness([]).usual is None
    alone = Trace(ranks=1)
    assert lateness(alone.seen(list(alone.steps(30)), {}, 0.0)).usual is None
    assert lateness([RankSeen(0, "h1"), RankSeen(1, "h1")]).late == ()


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_how_late_a_rank_is_goes_by_the_median_of_the_others(count: int) -> None:
    """Without itself, also where ranks enter at one moment."""
    dice = random.Random(count)
    trace = Trace(ranks=count, per_host=count, buckets=1)
    steps = [[[NOW + step + dice.randrange(4) / 8] for _ in range(count)] for step in range(31)]
    kept = steps[:-1][1:]  # the first one has nothing before it, the last one nothing behind it
    found = lateness(trace.seen(steps, {}, 0.0)).usual
    assert found is not None
    for rank in range(count):
        lags = [step[rank][0] - median(row[0] for n, row in enumerate(step) if n != rank) for step in kept]
        assert found[rank] == pytest.approx(median(lags), abs=1e-6)


def test_what_many_ranks_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more for each rank where there are more of them: a run is looked at again and again."""
    numbers = 0

    def counting(values: Iterable[float]) -> float:
        nonlocal numbers
        each = list(values)
        numbers += len(each)
        return median(each)

    monkeypatch.setattr(lateness_module.statistics, "median", counting)
    trace = Trace(ranks=64, per_host=64)
    assert lateness(trace.seen(list(trace.steps(60)), {}, 0.0)).usual is not None
    assert numbers < 4 * 64 * 60 * trace.buckets


def test_only_steps_since_a_moment() -> None:
    """As whoever keeps lateness wants: those from before are kept."""
    trace = Trace(extra=lambda rank, step: 0.5 if rank == 2 and step < 20 else 0.0)
    steps = list(trace.steps(40))
    seen = trace.seen(steps, {}, 0.0)
    found = lateness(seen, since=max(bucket for row in steps[19] for bucket in row))
    assert found.usual is not None and found.usual[2] < 0.1 < (lateness(seen).usual or {})[2]
    assert found.newest == pytest.approx(max(row[0] for row in steps[39]), abs=0.1) and found.steps <= 20
    assert lateness(seen, since=found.newest).usual is None
