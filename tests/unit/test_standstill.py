"""Whether a run stands still, and which ranks are behind: the rule that headline, lists and output share."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.cli.printing.words import of_batch
from distui.runs.lines.event_json import event_of, to_json
from distui.runs.lines.events import (
    Event,
    Failure,
    FailureFound,
    GpuReading,
    HostSampled,
    LogLine,
    LogLines,
    Progressed,
    RankChanged,
    RanksAsked,
    RankSilent,
    RanksMoved,
    RanksStepped,
    RankStep,
    RunEnded,
    RunOpened,
    RunStalled,
)
from distui.runs.lines.explanation import Explanation, RankPlace
from distui.runs.state.load import waits
from distui.runs.state.pages import Pages
from distui.runs.state.reducer import RunState, apply
from distui.runs.state.standstill import Standstill, standstill, steps_done
from distui.runs.state.steps import STEPS, Pace, behind, first, lags, taken
from distui.runs.watch.progress.steps import StepWatch
from fakehosts.runs import plan_for

PLAN = replace(plan_for("h1", "h2"), stall_after=60.0)
REGEX = r"(?:epoch (?P<epoch>\d+) )?step (?P<step>[\d.einfa]+)"


def running(*more: Event) -> RunState:
    """Ranks 0 on h1 and 1 on h2 run since 100."""
    state = apply(RunState(), RunOpened(90.0, "r", "j", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}))
    for event in (RankChanged(100.0, 0, "h1", "running"), RankChanged(100.0, 1, "h2", "running"), *more):
        state = apply(state, event)
    return state


def stepped(at: float, step: float, *ranks: int) -> RanksStepped:
    """These ranks, both where none is named, said this step."""
    return RanksStepped(at, tuple(RankStep(rank, step, at) for rank in ranks or (0, 1)))


def stands(state: RunState, now: float, plan: object = PLAN) -> Standstill | None:
    return standstill(plan, state, now)  # type: ignore[arg-type]


def test_no_step_for_longer_than_stall_after() -> None:
    """It counts from the last step of any rank, and says which that was."""
    state = running(stepped(110.0, 21), stepped(120.0, 22, 0), stepped(121.0, 22, 1))
    assert stands(state, 181.0) is None
    assert stands(state, 182.0) == Standstill(121.0, 22)
    assert stands(apply(state, stepped(182.0, 23, 0)), 183.0) is None


def test_long_steps_are_given_their_time() -> None:
    """Five times what a step usually takes, where that is longer; a checkpoint in between does not change much."""
    slow = running(*(stepped(100.0 + 30 * i, i) for i in range(6)))
    assert stands(slow, 250.0 + 149.0) is None
    assert stands(slow, 250.0 + 151.0) == Standstill(250.0, 5)
    fast = running(*(stepped(100.0 + i, i) for i in range(20)), stepped(219.0, 20))
    assert stands(fast, 219.0 + 61.0) == Standstill(219.0, 20)


@given(st.floats(0.01, 20.0), st.integers(2, 30), st.floats(0.0, 1000.0), st.floats(1.0, 300.0))
def test_it_stands_exactly_after_the_limit(every: float, count: int, since: float, stall_after: float) -> None:
    """With steps of one length the limit is max(5 step times, `stall_after`), whatever they are."""
    state = running(*(stepped(100.0 + every * i, i) for i in range(count)))
    last = 100.0 + every * (count - 1)
    late = since > max(STEPS * every, stall_after)
    edge = abs(since - max(STEPS * every, stall_after)) < 1e-6
    found = stands(state, last + since, replace(PLAN, stall_after=stall_after))
    assert edge or (found is not None) is late


@pytest.mark.parametrize(
    "more",
    [
        [FailureFound(130.0, Failure(0, "h1", 1, "exit 1"))],
        [RunEnded(130.0, "succeeded", 0)],
        [Progressed(120.0, 0, "h1", {"step": 22.0, "total": 22.0})],
    ],
)
def test_what_stands_still_for_a_reason(more: list[Event]) -> None:
    """A failure, an end, and that all steps are done say more than a standstill."""
    assert stands(running(stepped(120.0, 22), *more), 500.0) is None


def test_after_the_last_step_silence_counts() -> None:
    """A save that hangs, or ranks that wait for one another at the end: all steps are done, and nobody says a line."""
    done = running(stepped(120.0, 22), Progressed(120.0, 0, "h1", {"step": 22.0, "total": 22.0}))
    one = apply(done, RankSilent(190.0, 0, "h1", True, 60.0))
    assert steps_done(one) and stands(one, 500.0) is None
    both = apply(one, RankSilent(190.0, 1, "h2", True, 60.0))
    assert stands(both, 500.0) == Standstill(100.0, 22)
    assert stands(apply(both, RankSilent(510.0, 0, "h1", False, 0.0)), 510.0) is None
    again = apply(both, stepped(520.0, 1))
    assert not steps_done(again) and stands(again, 521.0) is None, "a step that counts again in the next epoch"


def test_a_rank_left_behind_by_all_that_are_done_is_waited_for() -> None:
    """One of 24 stands at step 35 while the others have done all 104: steps are still to come, from that one."""
    state = running(*(stepped(100.0 + i, i, *range(24)) for i in range(36)))
    for i in range(36, 105):
        state = apply(state, stepped(100.0 + i, i, *(rank for rank in range(24) if rank != 7)))
    state = apply(state, Progressed(204.0, 0, "h1", {"step": 104.0, "total": 104.0}))
    assert stands(state, 263.0) is None
    assert stands(state, 265.0) == Standstill(204.0, 104)
    done = apply(state, stepped(266.0, 103, 7))
    assert stands(done, 900.0) is None


def test_one_of_two_left_behind_is_waited_for() -> None:
    """Also where those that have done all steps are not most of them: it stands as long as no step comes."""
    state = running(stepped(120.0, 35), *(stepped(85.0 + i, i, 0) for i in range(36, 105)))
    state = apply(state, Progressed(189.0, 0, "h1", {"step": 104.0, "total": 104.0}))
    assert not steps_done(state) and stands(state, 500.0) == Standstill(189.0, 104)


PLACES = (
    RankPlace(1, "h2", "saves", "all_reduce #30", 1, culprit=True),
    RankPlace(0, "h1", "waits", "all_reduce #31", 0),
    RankPlace(2, "h2", "reads"),
)


@pytest.mark.parametrize(("ranks", "places"), [((0, 1), PLACES), ((1,), PLACES), ((2,), PLACES), ((0,), ())])
def test_a_step_after_the_answer_refutes_it(ranks: tuple[int, ...], places: tuple[RankPlace, ...]) -> None:
    """An evaluation was read as a hang and is over.

    A rank that was in nothing that stood still tells nothing of it, nor does a step of before that is read late.
    """
    hang = Explanation("hang", "rank 1 holds up all", "certain", places, since=100.0)
    state = apply(running(stepped(90.0, 1039), stepped(99.0, 1039, 2)), RanksAsked(300.0, hang))
    assert stands(apply(state, stepped(120.0, 1040, *ranks)), 301.0) == Standstill(100.0, 1040)
    later = apply(state, stepped(500.0, 1041, *ranks))
    if ranks == (2,):
        assert stands(later, 501.0) == Standstill(100.0, 1041) and later.why is not None
    else:
        assert stands(later, 501.0) is None and later.why is None
    again = apply(later, RanksAsked(510.0, replace(hang, since=502.0)))
    assert stands(again, 511.0) == Standstill(502.0, 1041)


def test_stall_after_0_turns_it_off() -> None:
    """But for what ranks told when they were asked."""
    off = replace(PLAN, stall_after=0.0)
    state = running(stepped(120.0, 22))
    assert stands(state, 5000.0, off) is None
    hang = Explanation("hang", "rank 1 sleeps", "certain", (), since=140.0)
    assert stands(apply(state, RanksAsked(150.0, hang)), 151.0, off) == Standstill(140.0, 22)


def test_without_steps_all_ranks_must_be_quiet() -> None:
    """Then it counts from the last line of any; one that speaks is enough to go on."""
    one = running(RankSilent(170.0, 0, "h1", True, 60.0))
    assert stands(one, 200.0) is None
    both = apply(one, RankSilent(170.0, 1, "h2", True, 60.0))
    assert stands(both, 200.0) == Standstill(100.0)


def test_ranks_that_begin_collectives_go_on_whatever_they_say() -> None:
    """Without steps, and where only one has come: nobody knows then how long another takes."""
    quiet = running(*(RankSilent(170.0, rank, f"h{rank + 1}", True, 60.0) for rank in (0, 1)))
    moved = apply(quiet, RanksMoved(175.0, (0, 1), 174.0))
    assert stands(moved, 234.0) == Standstill(174.0)
    assert stands(apply(moved, RankSilent(176.0, 1, "h2", False, 2.0)), 200.0) is None
    one = running(stepped(110.0, 0, 0))
    assert stands(one, 171.0) == Standstill(110.0, 0)
    moved = apply(one, RanksMoved(165.0, (1,), 164.0))
    assert (stands(moved, 224.0), stands(moved, 225.0)) == (None, Standstill(164.0, 0))
    known = apply(moved, stepped(166.0, 1, 0))
    assert stands(apply(known, RanksMoved(600.0, (0, 1), 600.0)), 601.0) == Standstill(166.0, 1)


# Without steps: what lines and GPUs tell.

SPINS = GpuReading(0, 100.0, power_w=120.0, power_limit_w=700.0)
WORKS = GpuReading(0, 96.0, power_w=610.0, power_limit_w=700.0)
IDLE = GpuReading(0, 0.0, power_w=70.0, power_limit_w=700.0)
UNKNOWN = GpuReading(0, 100.0)
ONE_GPU = replace(PLAN, tasks=tuple(replace(task, gpus=(0,), rank_gpus=((0,),)) for task in PLAN.tasks))


def line(at: float, rank: int) -> LogLines:
    return LogLines(at, rank, rank, f"h{rank + 1}", (LogLine("stdout", "x"),))


def sampled(at: float, *gpus: GpuReading) -> list[Event]:
    """What h1 and h2 measured."""
    return [HostSampled(at, host, (gpu,)) for host, gpu in zip(("h1", "h2"), gpus, strict=True)]


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        ((SPINS, SPINS), True),
        ((SPINS, IDLE), True),
        ((SPINS, WORKS), False),
        ((WORKS, WORKS), False),
        ((UNKNOWN, UNKNOWN), False),
    ],
)
def test_gpus_that_only_wait_do_not_keep_a_silent_run_green(gpus: tuple[GpuReading, ...], want: bool) -> None:
    """Without steps: NCCL's kernels spin at full load and little power. A job that says nothing for long while a GPU
    computes, or may, goes on by all that is known.
    """
    state = running(line(110.0, 0), line(120.0, 1), *(one for i in range(60) for one in sampled(121.0 + i, *gpus)))
    assert stands(state, 180.0, ONE_GPU) is None
    assert stands(state, 181.0, ONE_GPU) == (Standstill(120.0) if want else None)
    assert stands(state, 181.0, replace(ONE_GPU, stall_after=0.0)) is None
    spoke = apply(state, line(181.0, 0))
    assert stands(spoke, 182.0, ONE_GPU) is None


def test_a_gpu_that_worked_lately_does_not_stand() -> None:
    """A job that says a line an hour reads its next data, compiles, or saves: its GPUs worked less than `stall_after`
    ago. From then on it counts.
    """
    state = running(line(110.0, 0), line(110.0, 1), *sampled(3000.0, WORKS, SPINS), *sampled(3060.0, IDLE, SPINS))
    assert stands(state, 3060.0, ONE_GPU) is None
    assert stands(state, 3061.0, ONE_GPU) == Standstill(3000.0)


def test_before_the_first_line_it_counts_from_the_start() -> None:
    """Ranks that wait for one another at the rendezvous or in their first collective."""
    state = running(*sampled(160.0, SPINS, SPINS))
    assert stands(state, 160.0, ONE_GPU) is None
    assert stands(state, 161.0, ONE_GPU) == Standstill(100.0)


def test_what_was_measured_long_ago_says_nothing_of_now() -> None:
    """A host whose helper has died is followed without figures, and a laptop wakes: its GPUs may compute by now."""
    state = running(*sampled(130.0, SPINS, SPINS))
    assert stands(state, 500.0, ONE_GPU) is None
    one = apply(state, sampled(500.0, SPINS, SPINS)[0])
    assert stands(one, 500.0, ONE_GPU) is None
    both = apply(one, sampled(500.0, SPINS, SPINS)[1])
    assert stands(both, 515.0, ONE_GPU) == Standstill(100.0) and stands(both, 516.0, ONE_GPU) is None


@pytest.mark.parametrize(("gpus", "want"), [((0,), None), ((0, 1), Standstill(110.0))])
def test_one_rank_with_one_gpu_waits_for_nobody(gpus: tuple[int, ...], want: Standstill | None) -> None:
    """It works at little power, and says little; with several GPUs its processes may wait for one another. It stands
    once its GPUs do nothing.
    """
    (task,) = plan_for("h1").tasks
    alone = replace(PLAN, world_size=1, tasks=(replace(task, gpus=gpus, rank_gpus=(gpus,)),))
    state = apply(RunState(), RunOpened(90.0, "r", "j", "env", None, {0: "h1"}, {0: (0,)}))
    seen = HostSampled(300.0, "h1", tuple(replace(SPINS, index=index, power_w=250.0) for index in gpus))
    for event in (RankChanged(100.0, 0, "h1", "running"), line(110.0, 0), seen):
        state = apply(state, event)
    assert stands(state, 301.0, alone) == want
    assert stands(apply(state, RankSilent(302.0, 0, "h1", True, 192.0)), 302.0, alone) == Standstill(110.0)


def test_a_rank_that_has_ended_is_not_waited_for() -> None:
    """It says nothing by nature; those that go on count, and with none there is nothing that stands."""
    one = running(
        line(110.0, 0), line(120.0, 1), *sampled(165.0, SPINS, IDLE), RankChanged(165.0, 1, "h2", "exited", 0)
    )
    assert stands(one, 169.0, ONE_GPU) is None
    assert stands(one, 171.0, ONE_GPU) == Standstill(110.0)
    assert stands(apply(one, RankChanged(175.0, 0, "h1", "exited", 0)), 900.0, ONE_GPU) is None


def test_lines_without_a_time_say_nothing() -> None:
    """What an earlier distui read: when it was said is not known here."""
    opened = RunOpened(90.0, "r", "j", "env", None, {0: "h1"}, {0: (0,)}, lines={0: 7})
    state = RunState()
    for event in (opened, RankChanged(100.0, 0, "h1", "running"), HostSampled(500.0, "h1", (SPINS,))):
        state = apply(state, event)
    assert stands(state, 500.0, ONE_GPU) is None


def test_what_was_recorded_counts_where_nothing_else_is_known() -> None:
    """A run that is read beside its owner: steps are not recorded, that it stands still is."""
    state = running(RunStalled(200.0, True, 120.0, 22))
    assert stands(state, 210.0) == Standstill(120.0, 22)
    assert stands(apply(state, RunStalled(220.0, False, 220.0)), 230.0) is None


def test_beside_the_owner_that_one_knows_whether_steps_come() -> None:
    """It sees a progress bar, which is in no log until its line ends: both showed another thing of the same run."""
    state = replace(running(stepped(120.0, 22), RankSilent(190.0, 0, "h1", True, 60.0)), beside=True)
    assert stands(state, 500.0) is None
    assert stands(replace(state, beside=False), 500.0) == Standstill(120.0, 22)
    told = apply(state, RunStalled(600.0, True, 540.0, 77))
    assert stands(told, 610.0) == Standstill(540.0, 77)
    assert stands(apply(told, stepped(620.0, 78, 0)), 630.0) is None, "said since, maybe to another owner"
    assert stands(apply(told, RunStalled(620.0, False, 620.0)), 630.0) is None


def test_another_attempt_begins_without_steps() -> None:
    """What the one before said is not its own."""
    state = running(stepped(120.0, 22), RunStalled(200.0, True, 120.0, 22))
    again = apply(state, RunOpened(300.0, "r", "j", "env", None, {0: "h1"}, {0: (0,)}, attempt=2))
    assert not again.steps and again.stalled is None


# Who is behind.

PACES = st.dictionaries(st.integers(0, 40), st.integers(0, 200), min_size=1, max_size=30)


@given(PACES, st.booleans())
def test_lags(steps: dict[int, int], standing: bool) -> None:
    """Nobody is behind the first; who is behind is by as much as anybody at its step, and most ranks never are."""
    paces = taken(Pages(), (RankStep(rank, step, 0.0) for rank, step in steps.items()))
    front, found = first(paces.values()), lags(paces)
    assert front is not None and found[front.last.rank] == 0
    assert all(found[rank] == max(steps.values()) - step for rank, step in steps.items())
    late = behind(paces, standing=standing)
    assert 2 * len(late) < len(steps) + standing or not late
    assert all(found[rank] > (0 if standing else STEPS) for rank in late)


def test_one_of_24_is_far_behind() -> None:
    """Step 35 of 104, where the others are: named though it goes on. Where reports are rare, few steps are nothing."""
    paces = taken(Pages(), (RankStep(rank, 35 if rank == 7 else 104, 0.0) for rank in range(24)))
    assert behind(paces) == {7} and lags(paces)[7] == 69
    rare = {rank: Pace(RankStep(rank, 100 if rank == 7 else 300, 0.0), 50.0, 100.0) for rank in range(24)}
    assert behind(rare) == frozenset() and behind(rare, standing=True) == {7}


def test_half_of_the_ranks_are_named_only_in_a_run_that_stands() -> None:
    """One of two, or one host of two. Of three, two that are behind alike say nothing of each other."""
    pair = taken(Pages(), (RankStep(0, 104, 0.0), RankStep(1, 35, 0.0)))
    assert behind(pair, standing=True) == {1} and behind(pair) == frozenset()
    hosts = taken(Pages(), (RankStep(rank, 35 if rank < 8 else 104, 0.0) for rank in range(16)))
    assert behind(hosts, standing=True) == set(range(8)) and behind(hosts) == frozenset()
    most = taken(Pages(), (RankStep(rank, 35 if rank else 104, 0.0) for rank in range(3)))
    assert behind(most, standing=True) == frozenset()


@pytest.mark.parametrize(
    ("steps", "late"),
    [
        ([23, 22, 22, 22, 22, 15], {5}),
        ([104] * 11 + [103] * 12 + [35], {23}),
        ([104] + [103] * 22 + [35], {23}),
        ([104] * 12 + [103] * 11 + [35], {23}),
        ([104] * 10 + [103] * 10 + [60, 50, 40, 35], {20, 21, 22, 23}),
        ([104] * 12 + [103] * 11 + [100], {23}),
        ([104] * 8 + [103] * 8 + [102] * 7 + [101], {23}),
        ([110] + [104] * 22 + [35], {23}),
        ([23, 22, 22, 22, 22, 22], set()),
    ],
)
def test_the_others_need_not_stand_at_one_step(steps: list[int], late: set[int]) -> None:
    """Ranks rarely stop all at the same one: who is behind is further from them than they are from each other."""
    paces = taken(Pages(), (RankStep(rank, step, 0.0) for rank, step in enumerate(steps)))
    assert behind(paces, standing=True) == late


def test_who_is_behind_stays_so_when_the_run_stalls() -> None:
    """Named while it goes on, named when it stands."""
    steps = [41] * 12 + [40] * 12
    steps[13] = 30
    paces = taken(Pages(), (RankStep(rank, step, 0.0) for rank, step in enumerate(steps)))
    assert behind(paces) == behind(paces, standing=True) == {13}


def test_epochs_come_first() -> None:
    """A step that counts from zero in each epoch: who is in an epoch before is behind, and is not the first."""
    paces = taken(Pages(), (RankStep(0, 3, 0.0, 2), RankStep(1, 99, 0.0, 1), RankStep(2, 3, 0.0, 2)))
    front = first(paces.values())
    assert front is not None and front.last.rank == 0
    assert lags(paces) == {0: 0, 1: 3, 2: 0}
    again = paces[0].then(RankStep(0, 0, 5.0, 3))
    assert (again.last.step, again.seconds) == (0, None)


# Where steps come from.


class Track:
    """Lines of ranks, as a followed task hands them over."""

    def __init__(self, **said: list[tuple[float | None, bytes]]) -> None:
        self.said = {int(rank[1:]): tuple(reversed(deque(lines, 200))) for rank, lines in said.items()}

    def news_of_ranks(self) -> dict[int, tuple[tuple[float | None, bytes], ...]]:
        said, self.said = self.said, {}
        return said


def test_the_newest_step_of_each_rank_is_reported_once() -> None:
    """Also one that many other lines follow; lines without a time are of now; what is no number, or beyond all steps,
    is none.
    """
    watch = StepWatch(replace(PLAN, progress=REGEX))
    noise: list[tuple[float | None, bytes]] = [(130.0, b"saving\n")] * 50
    track = Track(
        r0=[(120.0, b"step 21\n"), (121.0, b"epoch 2 step 22 loss 3\n")],
        r1=[(119.0, b"step 20\n"), *noise], r2=[(None, b"step 3\n")], r3=[(1.0, b"step nan\n"), (1.0, b"step inf\n")],
        r4=[(1.0, b"step 1e308\n")], r5=[(1.0, b"epoch 99999999999999999 step 3\n")],
    )  # fmt: skip
    reported = watch.news([track], 140.0)  # type: ignore[list-item]
    assert reported is not None
    assert reported.steps == (RankStep(0, 22, 121.0, 2), RankStep(1, 20, 119.0), RankStep(2, 3, 140.0))
    assert watch.news([Track(r0=[(141.0, b"epoch 2 step 22\n")])], 142.0) is None  # type: ignore[list-item]
    assert watch.news([Track(r0=[(141.0, b"step 23\n")])], 142.5) is None, "once a second"  # type: ignore[list-item]


def test_without_a_step_in_the_pattern_nothing_is_read() -> None:
    """A job may say its loss alone, or nothing."""
    for progress in (None, r"loss (?P<loss>\d+)"):
        watch = StepWatch(replace(PLAN, progress=progress))
        assert watch.news([Track(r0=[(1.0, b"step 1 loss 2\n")])], 10.0) is None  # type: ignore[list-item]


# As words and JSON.


def test_as_words_and_json() -> None:
    """One line when it stands, one when it goes on; objects are read again as they were."""
    stalled, back = RunStalled(182.0, True, 121.0, 22), RunStalled(190.0, False, 190.0)
    (words, style), (again, _) = of_batch([stalled, back])
    assert (
        "stands still for 1m" in words
        and "last step 22" in words
        and style == "yellow"
        and "makes progress again" in again
    )
    for event in (stalled, back):
        assert event_of(to_json(event, "r")[0]) == event
    (steps,) = to_json(RanksStepped(1.0, (RankStep(3, 7, 1.0),)), "r")
    assert steps["type"] == "steps" and (steps["steps"][0]["rank"], steps["steps"][0]["step"]) == (3, 7)


@pytest.mark.parametrize(
    ("gpu", "want"),
    [
        (GpuReading(0, 97.0, power_w=110.0, power_limit_w=700.0), True),
        (GpuReading(0, 97.0, power_w=610.0, power_limit_w=700.0), False),
        (GpuReading(0, 20.0, power_w=110.0, power_limit_w=700.0), False),
        (GpuReading(0, 97.0, power_w=60.0), False),
        (GpuReading(0, None, power_w=60.0, power_limit_w=700.0), False),
    ],
)
def test_a_gpu_that_waits(gpu: GpuReading, want: bool) -> None:
    """Full load at little power; where the limit is not known nothing is said."""
    assert waits(gpu) is want
