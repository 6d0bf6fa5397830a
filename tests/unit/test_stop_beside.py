"""Stopping a run that another distui of this machine follows: its ranks get one SIGTERM."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cluster.attach import ending, ending_launch, places, stopping
from distui.cluster.attach.front_end import Ended
from distui.cluster.attach.stopping import stop_beside
from distui.cluster.settings import ClusterSettings
from distui.runs.control.stopping import StopReport
from distui.runs.lines.events import RunEnded, RunOpened
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore
from fakehosts.runs import plan_for, until


@pytest.mark.parametrize(
    ("follower", "grace", "from_here"),
    [
        ("takes it", None, False),
        ("takes it", 5.0, False),
        ("takes it", 0.0, True),
        ("hangs", None, True),
        ("left", None, True),
    ],
)
async def test_ranks_are_stopped_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follower: str, grace: float | None, from_here: bool
) -> None:
    """By whoever follows the run; from here to kill them at once, and where that one does not take the stop."""
    stops: list[float] = []

    async def stop_found(*_: object, grace: float, **__: object) -> Any:
        stops.append(grace)
        return SimpleNamespace(errors={"h1": "said"})

    async def follow() -> None:
        if follower == "takes it":
            await until(lambda: stored.stop_asked() is not None)

    monkeypatch.setattr(stopping, "stop_found", stop_found)
    monkeypatch.setattr(stopping, "TAKEN_SECONDS", 1.0)
    stored = RunStore(tmp_path).create("r1")
    plan = SimpleNamespace(stop_grace=10.0, hosts=("h1",))
    live: Any = SimpleNamespace(plan=plan, found=None, unreachable={}, runs=True)
    connector: Any = None
    if follower == "left":
        done = await stop_beside(connector, stored, live, grace)
    else:
        with stored.followed():
            following = asyncio.create_task(follow())
            done = await stop_beside(connector, stored, live, grace)
            await following
    assert stops == ([10.0 if grace is None else grace] if from_here else [])
    assert done.failed == ({"h1": "said"} if from_here else {})


@pytest.mark.parametrize("ends", [False, True])
async def test_ranks_that_still_run_after_a_taken_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """Whoever follows the run may hang, or have lost their host: they are stopped from here, and nothing is removed
    that it still reads.
    """
    stops: list[tuple[float, bool]] = []

    async def stop_found(*_: object, grace: float, remove: bool = True, **__: object) -> StopReport:
        stops.append((grace, remove))
        return StopReport({}, ())

    async def find_again(*_: object) -> Any:
        return SimpleNamespace(tasks=[SimpleNamespace(running=not ends)]), {}

    monkeypatch.setattr(stopping, "stop_found", stop_found)
    monkeypatch.setattr(ending, "stop_found", stop_found)
    monkeypatch.setattr(stopping, "find_again", find_again)
    monkeypatch.setattr(ending, "ACT_SECONDS", 0.2)
    monkeypatch.setattr(ending, "DRAIN_SECONDS", 0.2)
    stored = RunStore(tmp_path).create("r1")
    place = places.RunLocation("r1", stored, ())
    live: Any = SimpleNamespace(plan=plan_for("h1"), found=None, unreachable={}, runs=True)
    front, connector, task = SimpleNamespace(tell=lambda *_: None), None, SimpleNamespace(host="h1")
    monkeypatch.setattr(ending, "plan_of", lambda *_: live.plan)
    with stored.followed():
        taking = asyncio.create_task(until(lambda: stored.stop_asked() is not None))
        done = await ending._beside(connector, front, place, live, 0.1)  # type: ignore[arg-type]
        await taking
        assert done.remaining == ("r1 is still being read to its end",)
        assert stops == ([] if ends else [(0.1, False)])
        stops.clear()
        await ending._stop_task(connector, front, place, task, 1.0)  # type: ignore[arg-type]
    await ending._stop_task(connector, front, place, task, 1.0)  # type: ignore[arg-type]
    assert stops == [(1.0, False), (1.0, True)]


@pytest.mark.parametrize("killed", [False, True])
async def test_a_run_whose_owner_is_gone_before_its_end_is_not_said_to_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """It is taken up and stopped then."""

    async def taken(*_: object) -> stopping.StoppedBeside:
        return stopping.StoppedBeside("", {}, taken=True)

    monkeypatch.setattr(ending, "stop_beside", taken)
    stored, said = RunStore(tmp_path).create("r1"), list[str]()
    journal = Journal(stored)
    journal.write([RunOpened(1.0, "r1", "j", "env", None, {0: "h1"}, {0: (0,)})])
    journal.write([] if killed else [RunEnded(9.0, "stopped", 143)])
    journal.close()
    front: Any = SimpleNamespace(tell=lambda words, *_: said.append(words))
    live: Any = SimpleNamespace(plan=plan_for("h1"))
    unused: Any = None
    assert await ending._beside(unused, front, places.RunLocation("r1", stored, ()), live, 0.1) == Ended()
    assert said[1:] == ([] if killed else ["r1 is stopped"])


async def test_a_start_that_begins_while_the_hosts_are_asked_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was recorded of it as the stop came: that found nothing to stop, and the run went on."""
    settings = ClusterSettings({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    begun, said = asyncio.Event(), list[str]()

    async def start() -> None:
        stored = settings.store.create("r1")
        with stored.followed():
            begun.set()
            await until(lambda: stored.stop_asked() is not None)
            journal = Journal(stored)
            journal.write([RunEnded(9.0, "stopped", 143)])
            journal.close()

    async def find_launches(*_: object) -> tuple[()]:
        await begun.wait()
        return ()

    monkeypatch.setattr(ending_launch, "find_launches", find_launches)
    starting = asyncio.create_task(start())
    front: Any = SimpleNamespace(tell=lambda words, *_: said.append(words))
    connector: Any = None
    async with asyncio.timeout(60):
        place = places.RunLocation("r1", None, ())
        done = await ending_launch.end_launch(settings, connector, front, place, {}, "stop", None)
        assert (done, said) == (Ended(), ["r1 is stopped"])
        await starting
