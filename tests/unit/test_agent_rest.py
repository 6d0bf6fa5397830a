"""How long the program on a host rests between two reads: not longer than the engine can wait, and not for nothing."""

from __future__ import annotations

import pytest

from distui.agent.helper import main
from distui.agent.helper.main import BUSY, BUSY_FOR, FLOW_FOR, MANY, MUCH, REST, SHORT_REST, SHORTEST, Helper


def rests(monkeypatch: pytest.MonkeyPatch, *passes: tuple[float, int, int]) -> list[float]:
    """The rests after passes at some moments that took so many bytes in so many lines."""
    taken: list[float] = []
    monkeypatch.setattr(main.time, "sleep", taken.append)
    helper = Helper()
    for now, most, helper.out.lines in passes:
        helper.rest(most, now)
    helper.poll.close()
    return taken


def test_full_flow_has_the_shortest_rests_and_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rest of 2 ms would let the socket fill, and the engine wait."""
    flow = [(1.0 + n * 0.01, 1000, MANY) for n in range(1, 40)]
    assert rests(monkeypatch, (1.0, BUSY, 1), *flow) == [SHORT_REST, *[SHORTEST] * 39]


def test_full_flow_that_comes_in_bursts_has_them_between_bursts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 280 lines at once the next read has few: the flow is as full as before."""
    flow = [(1.0 + n * 0.001, *((1000, 1) if n % 4 else (20_000, 280))) for n in range(40)]
    assert rests(monkeypatch, (0.95, BUSY, 1), *flow) == [SHORT_REST, *[SHORTEST] * 40]


def test_a_log_that_comes_slower_is_not_read_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large read now and then makes the following rests shorter for a while, not the shortest."""
    slow = [(1.0 + n * 0.01, BUSY - 1, MANY - 1) for n in (1, 2, 3)]
    after = 1.0 + BUSY_FOR + 0.01
    assert rests(monkeypatch, (1.0, BUSY, 1), *slow, (after, 1000, MANY)) == [*[SHORT_REST] * 4, REST]


def test_a_log_at_half_the_speed_has_short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = [(1.0 + n * 0.002, MUCH - 1, MANY - 1) for n in range(100)]
    assert rests(monkeypatch, *flow) == [SHORT_REST] * 100


def test_after_full_flow_they_become_longer_again(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = [(1.0, BUSY, 1), (1.01, MUCH, 1), (1.011, 1000, 1), (1.01 + FLOW_FOR, 1000, 1)]
    assert rests(monkeypatch, *flow) == [SHORT_REST, SHORTEST, SHORTEST, SHORT_REST]


def test_after_a_pass_with_nothing_there_is_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rests(monkeypatch, (1.0, 0, 0)) == []
