"""`rm` and the app's prune, while somebody else still needs what a run has on its hosts: refused, and nothing goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from distui.cluster.attach import removing
from distui.cluster.attach.places import RunLocation
from distui.cluster.attach.sweeping import SweptRun
from distui.cluster.settings import ClusterSettings
from distui.errors import ContactLost, HostUnreachable, UsageError
from distui.runs.hosts.readers import reader_id
from distui.runs.store.runs import StoredRun
from distui.spec.hosts.inventory import Host
from fakehosts.runs import Cluster, ended_run, two_probed_hosts

HOSTS = (Host("h1"), Host("h2"))
FOLDER = "/home/u/.local/state/distui/hosts/{}/r1"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts; there are no folders but that of the run."""
    made = two_probed_hosts(tmp_path / "state" / "distui", monkeypatch)

    async def swept(*_: object, **__: object) -> SweptRun:
        return SweptRun((), (), ())

    monkeypatch.setattr(removing, "sweep_run", swept)
    return made


async def remove(
    cluster: Cluster, tmp_path: Path, stored: StoredRun | None, hosts: tuple[Host, ...] = HOSTS
) -> removing.RemovedRun | None:
    """From this machine, or from one where nothing of the run is recorded."""
    settings = ClusterSettings({"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    return await removing.remove_run(settings, cluster.connector, RunLocation("r1", stored, hosts))


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(
    ("mark", "who"),
    [(b"bob@laptop", "bob@laptop"), (b"", "somebody who waits for its end"), (b"e\x1b[2Jve", "eve")],
)
async def test_a_run_that_somebody_else_reads_is_not_removed(
    cluster: Cluster, tmp_path: Path, here: bool, mark: bytes, who: str
) -> None:
    """All ranks have ended; the other one has not read, or said, how. Its name steers no terminal."""
    stored = await ended_run(cluster)
    cluster.hosts[1].files[f"{FOLDER.format('h2')}/reader-aabb"] = mark
    with pytest.raises(UsageError) as refused:
        await remove(cluster, tmp_path, stored if here else None)
    assert refused.value.message == f"run r1 is still read by {who}, so nothing was removed"
    assert "`distui stop r1`" in str(refused.value.hint)
    assert [len(host.containers) for host in cluster.hosts] == [1, 1]
    assert all(host.open_sessions == 0 for host in cluster.hosts)

    del cluster.hosts[1].files[f"{FOLDER.format('h2')}/reader-aabb"]
    done = await remove(cluster, tmp_path, stored if here else None)
    assert done is not None and done.whole
    assert cluster.left() == []


async def test_our_own_mark_keeps_us_from_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """A distui of this machine that was killed has left it."""
    stored = await ended_run(cluster)
    cluster.hosts[0].files[f"{FOLDER.format('h1')}/reader-{reader_id(stored)}"] = b"ann@desk"
    done = await remove(cluster, tmp_path, stored)
    assert done is not None and done.whole


@pytest.mark.parametrize("here", [True, False])
async def test_a_run_with_a_host_out_of_reach_is_not_removed(cluster: Cluster, tmp_path: Path, here: bool) -> None:
    """Its ranks may run there; the others' logs and folders stay, unless the hosts to remove it from are named."""
    stored = await ended_run(cluster)
    cluster.connector.down["h2"] = HostUnreachable("h2", "h2 does not answer")
    with pytest.raises(ContactLost) as refused:
        await remove(cluster, tmp_path, stored if here else None)
    assert refused.value.message == "h2: no answer; ranks of r1 may still run there, so nothing was removed"
    assert refused.value.hint == "try again when it is back; `distui rm -H h1 r1` removes what the others have"
    assert [len(host.containers) for host in cluster.hosts] == [1, 1]

    done = await remove(cluster, tmp_path, stored if here else None, HOSTS[:1])
    assert done is not None and (done.leftovers, list(done.errors)) == ((), ["h2"] if here else [])
    assert [len(host.containers) for host in cluster.hosts] == [0, 1]


async def test_a_host_that_does_not_tell_who_reads_is_out_of_reach(cluster: Cluster, tmp_path: Path) -> None:
    """It listed the run's tasks, and is gone when it is asked for the marks."""
    stored = await ended_run(cluster)
    cluster.hosts[1].fails["visit"] = HostUnreachable("h2", "h2 does not answer")
    with pytest.raises(ContactLost, match="h2: no answer"):
        await remove(cluster, tmp_path, stored)
    assert [len(host.containers) for host in cluster.hosts] == [1, 1]
