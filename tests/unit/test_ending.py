"""What is said of a run that was stopped: that nothing of it is left only where its end was seen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cluster.attach import ending
from distui.cluster.attach.front_end import Ended
from distui.cluster.attach.places import RunLocation
from distui.runs.lines.events import RunEnded
from fakehosts.runs import plan_for

LEFT = "h2: not reached, may still run"
ENDS = [
    ("stopped", (), Ended()),
    ("failed", (), Ended()),
    ("stopped", (LEFT,), Ended(failed=(LEFT,))),
    ("unknown", (LEFT,), Ended(failed=(LEFT,))),
    ("unknown", (), Ended(failed=("how r1 ended is not known",))),
    ("detached", (), Ended(remaining=("r1 was left alone before its end",))),
]


LIVE: Any = SimpleNamespace(plan=plan_for("h1", "h2"))


def looks(monkeypatch: pytest.MonkeyPatch, found: object, unreachable: dict[str, str]) -> None:
    """What hosts say when they are asked again."""

    async def find_again(*_: Any) -> Any:
        return found, unreachable

    monkeypatch.setattr(ending.places, "find_again", find_again)


@pytest.mark.parametrize(
    ("found", "unreachable", "left"),
    [(None, {}, False), (None, {"h9": "gone"}, False), (None, {"h1": "gone"}, True), ("a task", {}, True)],
)
async def test_a_run_whose_end_nobody_knows_and_of_which_nothing_is_left_is_stopped(
    monkeypatch: pytest.MonkeyPatch, found: object, unreachable: dict[str, str], left: bool
) -> None:
    """An earlier stop has ended a part of it, and removed that: all of its hosts were asked."""
    looks(monkeypatch, found, unreachable)

    async def follow(*_: Any) -> RunEnded:
        return RunEnded(9.0, "unknown", 6)

    front: Any = SimpleNamespace(follow=follow)
    unused: Any = None
    done = await ending._own(unused, unused, front, RunLocation("r1", None, ()), LIVE, None)
    assert bool(done.left) is left


@pytest.mark.parametrize(("outcome", "leftovers", "done"), ENDS)
async def test_what_is_left_of_a_run_that_is_followed_to_its_end_here(
    monkeypatch: pytest.MonkeyPatch, outcome: Any, leftovers: tuple[str, ...], done: Ended
) -> None:
    """One that the app's user leaves alone meanwhile goes on, though nothing has failed."""
    looks(monkeypatch, None, {"h2": "gone"})

    async def follow(*_: Any) -> RunEnded:
        return RunEnded(9.0, outcome, 143, leftovers=leftovers)

    front: Any = SimpleNamespace(follow=follow)
    unused: Any = None
    assert await ending._own(unused, unused, front, RunLocation("r1", None, ()), LIVE, None) == done
    assert bool(done.left) == (done != Ended())


def test_what_fails_later_comes_after_what_failed_before() -> None:
    """And what somebody else still has in hand stays as it was."""
    done = Ended(failed=("a",), remaining=("r1 is still being read to its end",)).then("b")
    assert done.failed == ("a", "b")
    assert done.left == ("a", "b", "r1 is still being read to its end")


async def test_any_host_may_have_what_is_missing_of_a_plan_that_labels_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other task is on no host that answered: where it is nobody knows."""
    plan = plan_for("h1", "h2")
    half: Any = SimpleNamespace(plan=replace(plan, tasks=plan.tasks[:1]))
    looks(monkeypatch, None, {"h9": "gone"})
    unused: Any = None
    assert not await ending._is_gone(unused, RunLocation("r1", None, ()), half)
