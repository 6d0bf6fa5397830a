"""What is recorded of hosts: their clocks as they are read again, and when they were out of reach."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distui.facts.host import HostFacts
from distui.runs.follow.follower import HostFollower
from verdict.casefile import ahead_of, host_of
from verdict.tap import tap


def heard(kind: str, now: float, **values: Any) -> dict[str, Any]:
    """A line of what followers said."""
    return {"kind": kind, "now": now, "host": "h1", **values}


def test_a_clock_that_is_read_again_is_recorded_with_each_reading() -> None:
    """From when it was measured on; what was said is corrected back by the clock as it was known then."""
    events = [
        heard("reading", 99.0, asked=98.0, said=98.1, heard=99.0),
        heard("clock", 100.0, offset_ms=0.0, rtt_ms=8.0),
        heard("reading", 115.0, asked=114.996, said=119.998, heard=115.0),
    ]

    host = host_of("h1", events, 90.0)

    assert (host["measured_at"], host["clock"]) == (10.0, [[24.996, 29.998, 25.0]])
    assert ahead_of(host, 20.0) == 0.0
    assert ahead_of(host, 30.0) == pytest.approx(5.0)
    assert "clock" not in host_of("h1", events[:2], 90.0)


def test_a_host_that_came_back_was_away_and_is_not_lost() -> None:
    """Until it and its engine answer, as distui counts it."""
    events = [
        heard("Lost", 110.0, what="host"),
        heard("Lost", 112.0, what="engine"),
        heard("Back", 120.0, what="host", rebooted=False),
        heard("Back", 125.0, what="engine", rebooted=False),
    ]

    host = host_of("h1", events, 90.0)

    assert (host["away"], host["lost_at"], host["engine_lost_at"]) == ([[20.0, 35.0]], None, None)
    assert (host_of("h1", events[:1], 90.0)["lost_at"], "away" in host_of("h1", events[:1], 90.0)) == (20.0, False)


def test_readings_of_a_clock_are_listened_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written down, and go on to whoever asked for them."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(HostFollower, "__init__", lambda self, link, engine, emit, **options: given.update(options))
    monkeypatch.setattr(HostFacts, "__init__", HostFacts.__init__)
    tap(tmp_path / "tap")
    reported: list[tuple[float, ...]] = []

    class Link:
        host = "h1"

    HostFollower(Link(), None, None, run_id="r", on_clock=lambda *reading: reported.append(reading))  # type: ignore[arg-type]
    given["on_clock"](1.0, 2.0, 3.0)

    assert reported == [(1.0, 2.0, 3.0)]
    (line,) = (tmp_path / "tap").read_text().splitlines()
    assert {**json.loads(line), "now": 0} == {
        "kind": "reading",
        "now": 0,
        "host": "h1",
        "asked": 1.0,
        "said": 2.0,
        "heard": 3.0,
    }
