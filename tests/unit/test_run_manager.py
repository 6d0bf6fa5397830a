"""Runs that the app follows whoever looks: one read beside another distui that can't be taken over when it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distui.cluster.attach.beside import Beside
from distui.cluster.attach.run_manager import FollowedRun, RecordedRun, RunManager
from distui.cluster.backend.backend_runs import RunBackend
from distui.cluster.settings import ClusterSettings
from distui.errors import CheckFailed, ContactLost, NotFound
from distui.plan.serialize import to_json
from distui.runs.control.beside import StoredReader
from distui.runs.control.controller import RunController
from distui.runs.lines.events import RunEnded, RunOpened
from distui.runs.report.history import RunRow
from distui.runs.store.journal import Journal
from distui.runs.store.masking import NOTHING
from distui.runs.store.runs import StoredRun
from fakehosts.runs import Cluster, two_hosts, until

PLAN = {"launch": "beef"}
LOST = "nobody here follows r1 any more, and "


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts."""
    return two_hosts(tmp_path / "state" / "distui", monkeypatch)


def recorded(cluster: Cluster, *more: RunEnded) -> StoredRun:
    """A run as its owner has written it down so far."""
    stored = cluster.store.adopt("r1")
    stored.write_plan(to_json(cluster.plan(**PLAN)))
    journal = Journal(stored)
    journal.write([RunOpened(1.0, "r1", "j", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}), *more])
    journal.close()
    return stored


async def lost(manager: RunManager, cluster: Cluster, stored: StoredRun, error: Exception) -> FollowedRun:
    """A run that is read beside its owner, which leaves; taking it over is this error."""

    @contextlib.asynccontextmanager
    async def own() -> Any:
        raise error
        yield cast("RunController", None)

    with stored.followed():
        beside = Beside(cluster.plan(**PLAN), own, reader=StoredReader(stored))
        followed = await manager.keep(contextlib.nullcontext(), lambda _: beside)
        assert manager.living == {"r1": followed}
    async with asyncio.timeout(60):
        async for _ in followed.batches():
            pass
    return followed


@pytest.mark.parametrize(
    "error",
    [
        ContactLost("run r1 is on no host that answers"),
        NotFound("there is no run r1"),
        CheckFailed("can't write: no space left"),
    ],
)
async def test_a_run_that_cannot_be_taken_over_ends_with_the_reason(cluster: Cluster, error: Any) -> None:
    """It stood there as running for ever: it could not be opened again, and a stop of it was read by nobody."""
    stored = recorded(cluster)
    async with RunManager() as manager:
        for _ in range(2):  # it can be opened again
            followed = await lost(manager, cluster, stored, error)
            ended = followed.state.ended
            assert ended is not None
            assert (ended.outcome, ended.exit) == ("unknown", 6)
            assert ended.warnings == (f"{LOST}it could not be taken over: {error.message}",)
            assert manager.living == {}


async def test_an_error_of_distui_while_it_is_read_is_kept_and_ends_the_view(cluster: Cluster) -> None:
    """Whoever looks at it waited for ever."""
    kept: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, reported: kept.append(reported.get("exception")))
    stored, error = recorded(cluster), OverflowError("too large")
    async with RunManager() as manager:
        ended = (await lost(manager, cluster, stored, error)).state.ended
    assert ended is not None and ended.warnings == ("r1 is read no more: an error in distui (OverflowError)",)
    assert kept == [error]


async def test_a_lost_run_that_another_has_read_to_its_end_is_played_again_from_its_record(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Not as it was when it was lost."""
    stored = recorded(cluster)
    settings = ClusterSettings({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    assert settings.store.root == cluster.store.root
    async with RunManager() as manager:
        backend = cast("Any", SimpleNamespace(_manager=manager, settings=settings, mask=lambda _: NOTHING))
        backend._went_on = lambda followed: RunBackend._went_on(backend, followed)
        followed = await lost(manager, cluster, stored, ContactLost("no host answers"))
        assert RunBackend.replay(backend, "r1") is followed
        recorded(cluster, RunEnded(9.0, "succeeded", 0))
        again = RunBackend.replay(backend, "r1")
    assert isinstance(again, RecordedRun)
    assert again.state.summary == "succeeded"


async def test_who_does_not_wait_for_a_start_leaves_no_copy_of_a_run_behind(cluster: Cluster) -> None:
    """Ctrl-C while the app that was left waits: the folder of what was only looked on at stayed, logs and all."""
    reached = cluster.hosts[0].hold("run")
    said: list[str] = []
    manager = RunManager(say=said.append)
    folder = manager.folder()

    async def leave() -> None:
        async with manager:
            await manager.keep(contextlib.nullcontext(), lambda _: cluster.controller(cluster.plan()))
            await reached.wait()

    leaving = asyncio.create_task(leave())
    async with asyncio.timeout(60):
        await until(lambda: bool(said))
        leaving.cancel()
        cluster.hosts[0].gates["run"].set()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    assert not folder.exists()


def test_a_run_whose_files_are_moved_while_they_are_counted_is_listed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another distui of this machine, which removes it or begins its next attempt."""
    stored, look = recorded(cluster), os.scandir

    def gone_by_then(path: Any) -> Any:
        if str(path) == str(stored.log_dir):
            shutil.rmtree(stored.log_dir)
        return look(path)

    stored.log_dir.mkdir(exist_ok=True)
    monkeypatch.setattr(os, "scandir", gone_by_then)
    backend = cast("Any", SimpleNamespace(settings=SimpleNamespace(store=cluster.store)))
    row = RunBackend._with_size(backend, RunRow("r1", "job", "failed", (), 1, recorded=True))
    assert row.size > 0
    assert not stored.log_dir.exists()
