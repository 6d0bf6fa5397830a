"""A host's clock while its run is followed: what pings tell of it, and how sure times from before and after are."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from distui.runs.insight.seen.clocks import Reading
from distui.runs.verdict.evidence import HostSeen
from distui.runs.watch.host_clock import KEPT, HostClock

EVERY = 15.0


def reading(at: float, ahead: float, *, there: float = 0.002, back: float = 0.002) -> Reading:
    """A ping sent at `at` to a host whose clock is ahead by so much."""
    return Reading(at, at + there + ahead, at + there + back)


def seen(clock: HostClock) -> HostSeen:
    """What the verdict is given of it."""
    return HostSeen(clock.doubt, clock.unsteady, clock.read_from, clock.read_until)


def test_a_clock_that_goes_right_stays_as_it_was_measured() -> None:
    """However long the ways of single pings are."""
    clock = HostClock(7.0, 0.006, 0.0)
    for turn in range(1, 200):
        clock.take(reading(turn * EVERY, 7.0, there=0.002 * (1 + turn % 40), back=0.001))
    assert clock.offset == 7.0
    assert clock.doubt < 0.05
    assert seen(clock).shift_at(1500.0) == 0.0


def test_a_first_reading_betters_what_was_measured_over_a_slow_line() -> None:
    """Times from before it are as unsure as they were."""
    clock = HostClock(0.0, 0.45, 0.0)
    assert clock.take(reading(10.0, 0.3))
    assert abs(clock.offset - 0.3) < 0.003 and clock.doubt < 0.005
    assert seen(clock).doubt_at(5.0) >= 0.45
    assert seen(clock).doubt_at(20.0) < 0.005


@pytest.mark.parametrize("step", [0.5, -0.5, 10.0, -7200.0])
def test_a_clock_that_is_set_leaves_the_time_around_in_doubt(step: float) -> None:
    """From the last ping before on; an hour later, and an hour before, times are as sure as ever."""
    clock = HostClock(0.0, 0.004, 0.0)
    for at in (15.0, 30.0, 40_000.0, 40_015.0):
        clock.take(reading(at, 0.0))
    assert clock.take(reading(40_030.0, step))
    clock.take(reading(60_000.0, step))
    known = seen(clock)
    assert clock.offset == pytest.approx(step, abs=0.01)
    assert min(known.doubt_at(40_016.0), known.doubt_at(40_029.0)) >= abs(step)
    assert known.shift_at(40_020.0) >= abs(step) - 0.01
    assert max(known.doubt_at(20.0), known.doubt_at(59_000.0)) < 0.1


def test_a_slow_ping_does_not_hide_since_when_a_clock_may_be_wrong() -> None:
    """It was told nothing by a ping that took a second: the step may have been before that."""
    clock = HostClock(0.0, 0.004, 0.0)
    clock.take(reading(15.0, 0.0))
    clock.take(reading(30.0, 0.5, there=1.0, back=1.0))
    assert clock.take(reading(45.0, 0.5))
    assert seen(clock).doubt_at(25.0) >= 0.5


def test_our_own_clock_that_is_set_back_during_a_ping_tells_nothing() -> None:
    """It was heard before it was asked."""
    clock = HostClock(0.0, 0.004, 0.0)
    assert not clock.take(Reading(100.0, 100.002, 90.0))
    assert (clock.offset, clock.doubt) == (0.0, 0.004)


def test_what_nobody_read_for_long_is_less_sure() -> None:
    """Before it was read first, and after it was read last."""
    known = HostSeen(0.004, (), 1000.0, 2000.0)
    assert known.doubt_at(1500.0) == known.doubt_at(None) == 0.004
    assert known.doubt_at(2000.0 + 3600) > 0.1
    assert known.doubt_at(1000.0 - 3600) > 0.1


def _steady(_: float) -> float:
    return 3.0


def _fast(at: float) -> float:
    return 4e-5 * at


def _stepping(at: float) -> float:
    return -2.0 if at < 20_000 else 1.5 if at < 40_000 else -0.7


def _slewed(at: float) -> float:
    return 0.0 if at < 10_000 else min(1.0, 4e-4 * (at - 10_000))


@pytest.mark.parametrize("ahead", [_steady, _fast, _stepping, _slewed])
@pytest.mark.parametrize("seed", range(3))
def test_the_truth_lies_within_the_doubt(ahead: Callable[[float], float], seed: int) -> None:
    """Ends that are told at once, and dated once the next ping is in; ways of all lengths."""
    by = random.Random(seed)
    clock = HostClock(ahead(0.0) + 0.002, 0.006, 0.0)
    ends: list[tuple[float, float]] = []
    for turn in range(1, 4000):
        at = turn * EVERY
        end = at - by.random() * EVERY
        ends.append((end, end + ahead(end) - clock.offset))
        clock.take(reading(at, ahead(at), there=by.random() ** 3 * 0.2, back=by.random() ** 3 * 0.2))
    known = seen(clock)
    wrong = [(true, dated) for true, dated in ends if abs(true - dated) > known.doubt_at(dated) + 0.002]
    assert wrong == []
    assert len(clock.unsteady) <= KEPT
