"""How long the program on a host rests between two reads: not longer than the engine can wait, and not for nothing."""

from __future__ import annotations

import pytest

from distui.agent import main
from distui.agent.main import BUSY, BUSY_FOR, FLOW, REST, SHORT_REST, SHORTEST, Helper


def rests(monkeypatch: pytest.MonkeyPatch, *passes: tuple[float, int]) -> list[float]:
    """The rests after passes at some moments that took so many bytes."""
    taken: list[float] = []
    monkeypatch.setattr(main.time, "sleep", taken.append)
    helper = Helper()
    for now, most in passes:
        helper.rest(most, now)
    helper.poll.close()
    return taken


def test_full_flow_has_the_shortest_rests_and_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rest of 2 ms would let the socket fill, and the engine wait."""
    flow = [(1.0 + n * 0.01, FLOW) for n in range(1, 40)]
    assert rests(monkeypatch, (1.0, BUSY), *flow) == [SHORTEST] * 40


def test_a_log_that_comes_slower_is_not_read_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large read now and then makes the following rests shorter for a while, not the shortest."""
    slow = [(1.0 + n * 0.01, FLOW - 1) for n in (1, 2, 3)]
    after = 1.0 + BUSY_FOR + 0.01
    assert rests(monkeypatch, (1.0, BUSY), *slow, (after, FLOW)) == [SHORTEST, *[SHORT_REST] * 3, REST]


def test_after_a_pass_with_nothing_there_is_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rests(monkeypatch, (1.0, 0)) == []
