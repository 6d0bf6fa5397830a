"""Stopping a run that another distui of this machine follows: its ranks get one SIGTERM."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cluster.attach import stopping
from distui.cluster.attach.stopping import stop_beside
from distui.runs.store.runs import RunStore
from fakehosts.runs import until


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
