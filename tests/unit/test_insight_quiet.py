"""For how long nothing of a rank has moved, over several looks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distui.runs.insight.seen.answers import Collective, Group, Process
from distui.runs.insight.seen.quiet import Quiet
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.stalls import moves


def looked(at: float, *, number: int = 5, over: bool = True, **process: Any) -> RankSeen:
    """A rank at one place of its collectives."""
    group = Group("0", "default_pg", (Collective(number, "gloo:all_reduce", "1", "Float", 1, over),), number)
    base: dict[str, Any] = {"pid": 7, "parent": 1, "name": "python", "state": "S", "cpu": 0.0, "groups": {"0": group}}
    return RankSeen(0, "h1", Process(**base | process), at=at)


def quiet(known: Quiet, seen: RankSeen) -> float | None:
    """For how long nothing of it has moved, as the next look has it."""
    return known.noted([seen])[0].quiet


def test_it_counts_from_the_first_look_at_which_nothing_moved() -> None:
    """Whatever moves begins it again: bytes, a core, a collective that is over, another process."""
    known = Quiet()
    assert [quiet(known, looked(at)) for at in (10.0, 30.0, 70.0)] == [0.0, 20.0, 60.0]
    assert [quiet(known, looked(80.0, written=9000)), quiet(known, looked(90.0)), quiet(known, looked(95.0))] == [
        0,
        0,
        5,
    ]
    assert quiet(known, looked(97.0, over=False)) == 0.0 and quiet(known, looked(99.0, over=False)) == 2.0
    assert quiet(known, looked(100.0, number=6)) == 0.0 and quiet(known, looked(101.0, number=6, pid=8)) == 0.0
    assert quiet(known, RankSeen(0, "h1", at=110.0)) == 0.0 and quiet(known, looked(120.0, number=6, pid=8)) == 0.0


def test_what_a_rank_has_started_moves_for_it() -> None:
    """A compiler's or a copy's process; one that writes a line now and then does not."""
    helper = Process(8, 7, "cp", "D", 0.0, written=1 << 20)
    assert moves(replace(looked(1.0), helpers=(helper,)))
    assert not moves(replace(looked(1.0), helpers=(replace(helper, written=5000),)))
