"""What is said of a run that was stopped: that nothing of it is left only where its end was seen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cluster.attach import ending
from distui.cluster.attach.front_end import Ended
from distui.cluster.attach.live_run import Live
from distui.cluster.attach.places import RunLocation
from distui.identity import owner
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask
from distui.runs.lines.events import RunEnded
from distui.spec.hosts.inventory import Host
from fakehosts.runs import facts_of, plan_for

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


@pytest.mark.parametrize(("offset", "started", "meant"), [(60.0, 1050.0, True), (-60.0, 950.0, False)])
async def test_of_several_runs_of_a_name_those_that_ran_when_the_stop_was_asked_for_are_stopped(
    monkeypatch: pytest.MonkeyPatch, offset: float, started: float, meant: bool
) -> None:
    """By our clock: that of the host is a minute ahead, or behind."""
    stopped: list[str] = []
    labels = TaskLabels("r1", 0, (0,), "h1", "j", launch="other", owner=owner())
    task = FoundTask("h1", "c0", labels, {}, True, "running", started=started)

    async def find(*_: Any, **__: Any) -> FoundRuns:
        return FoundRuns((FoundRun("r1", (task,)),), {})

    async def stop(*args: Any) -> list[str]:
        stopped.append(args[3].id)
        return []

    monkeypatch.setattr(ending, "find_runs", find)
    monkeypatch.setattr(ending, "_stop_task", stop)
    live = Live(None, plan_for("h1", launch="beef"), {}, {"h1": facts_of("h1", clock_offset_ms=offset * 1000)})
    unused: Any = None
    assert await ending._verify(unused, unused, RunLocation("r1", None, (Host("h1"),)), live, 1000.0) == ()
    assert stopped == (["c0"] if meant else [])
