"""Hosts that take long to tell of a run, or to remove it: whoever waits is told for what."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from distui.cluster.attach import ending, places
from distui.cluster.attach.ending import end_run
from distui.cluster.attach.following import GoesOn, open_run
from distui.cluster.attach.places import RunLocation
from distui.cluster.attach.sweeping import SweptRun
from distui.cluster.settings import ClusterSettings
from distui.runs.ending import cleanup
from distui.runs.lines.events import RunEnded
from distui.spec.hosts.inventory import Host
from fakehosts.runs import Cluster, ended_run, two_probed_hosts, until

HOSTS = (Host("h1"), Host("h2"))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts, and nobody waits in silence."""
    monkeypatch.setattr(places, "SAY_SECONDS", 0.0)
    monkeypatch.setattr(cleanup, "SAY_SECONDS", 0.0)
    return two_probed_hosts(tmp_path / "state" / "distui", monkeypatch)


def settings(tmp_path: Path) -> ClusterSettings:
    """Of the machine whose runs the cluster records."""
    return ClusterSettings({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})


async def test_hosts_that_remove_a_run_slowly_are_named(cluster: Cluster) -> None:
    """Until then nothing is said to have ended."""
    removing = [host.hold("rm") for host in cluster.hosts]

    async def meanwhile() -> None:
        await until(lambda: all(host.containers for host in cluster.hosts))
        for host in cluster.hosts:
            host.containers[0].end(0)
        for reached in removing:
            await reached.wait()
        await until(lambda: cluster.said() == "removing it takes long on h[1-2], waited for 2m at most")
        for host in cluster.hosts:
            host.gates["rm"].set()

    ended = await cluster.run(cluster.plan(), meanwhile())
    assert (ended.outcome, ended.leftovers) == ("succeeded", ())


async def test_who_attaches_is_told_which_hosts_are_asked(cluster: Cluster, tmp_path: Path) -> None:
    """The engine of one hangs."""
    place, said = RunLocation("r1", await ended_run(cluster), HOSTS), list[str]()
    asked = cluster.hosts[1].hold("ps")
    opening = asyncio.create_task(open_run(settings(tmp_path), cluster.connector, said.append, place))
    await asked.wait()
    await until(lambda: said)
    cluster.hosts[1].gates["ps"].set()
    assert isinstance(await opening, GoesOn)
    assert said[0] == "still asking h[1-2] about r1"


async def test_who_stops_is_told_from_where_it_is_removed(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with many files is not gone at once."""
    place, said = RunLocation("r1", await ended_run(cluster), HOSTS), list[str]()

    class Front:
        def tell(self, words: str, *_: object) -> None:
            said.append(words)

        async def agree(self, *_: object) -> bool:
            return True

        async def follow(self, connector: Any, make: Any) -> RunEnded:
            return await cluster.drive(make(connector))

    async def swept(*_: object, **__: object) -> SweptRun:
        await until(lambda: "still removing r1 from h[1-2]" in said)
        return SweptRun((), (), ())

    monkeypatch.setattr(ending, "sweep_run", swept)
    front: Any = Front()
    assert not (await end_run(settings(tmp_path), cluster.connector, front, place)).left
    assert cluster.left() == []
