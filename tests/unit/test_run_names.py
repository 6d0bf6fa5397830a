"""A run's name that is used a second time, from another machine: what is recorded here is of one launch, and what lives
on the hosts is of another.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from distui.runs.hosts import asking
from distui.runs.lines.events import LogLines
from distui.runs.task.host_run import HostRun
from distui.session import Completed
from fakehosts.runs import Cluster, use_fake_follower


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts."""
    made = Cluster(tmp_path, 2)
    use_fake_follower(monkeypatch, made.connector)
    return made


async def used_again(cluster: Cluster) -> None:
    """A launch `beef` is started from here and removed from elsewhere, where `cafe` is started under its name."""
    await cluster.run(cluster.plan(launch="beef"), detach=True)
    for host in cluster.hosts:
        host.engine.drop(host.containers[0])
        host.files.clear()
        host.leases.clear()
        host.marks.clear()
    await cluster.run(cluster.plan(launch="cafe"), detach=True)
    assert len(cluster.left()) > 2, cluster.said()
    for host in cluster.hosts:
        host.files["log-0"] = host.files["log-1"] = b"of cafe\n"
    cluster.events.clear()


@pytest.mark.parametrize("stops", [False, True])
async def test_a_launch_that_is_gone_is_not_the_one_that_has_its_name(cluster: Cluster, stops: bool) -> None:
    """Its containers have the same names: it has ended, and nothing of the other is read, stopped or removed."""
    await used_again(cluster)
    controller = cluster.controller(cluster.plan(launch="beef"), adopted=True)
    if stops:
        controller.request_stop("user")
    await cluster.drive(controller)
    assert cluster.of(LogLines) == []
    assert [(c.name, c.status) for host in cluster.hosts for c in host.containers] == [
        ("distui-r1-0", "running"),
        ("distui-r1-1", "running"),
    ]
    assert not {"stop", "kill", "rm"} & {verb for host in cluster.hosts for verb in host.verbs()}


async def test_a_container_that_podman_has_paused_is_stopped(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """podman stops none that is paused: it was asked again and again, and the stop never ended."""
    await cluster.run(cluster.plan(), detach=True)
    fake = cluster.hosts[0]
    run, paused = fake.engine.run, [True]

    def podman(argv: tuple[str, ...]) -> Completed:
        if argv[1] == "unpause":
            paused.clear()
            return Completed(argv, 0, b"", b"")
        if argv[1] == "stop" and paused:
            return Completed(argv, 125, b"", b"Error: container 1 is running or paused, refusing to clean up\n")
        return run(argv)

    monkeypatch.setattr(fake.engine, "run", podman)
    monkeypatch.setattr(asking, "PAUSES", ())
    host = HostRun("h1", cluster.plan(), cluster.connector)
    await host.stop(host.tasks, 5.0)
    await host.link.close()
    assert fake.containers[0].status == "exited"


@pytest.mark.parametrize("grace", [0.0, 5.0])
async def test_a_stop_is_of_a_launch_and_not_of_a_name(cluster: Cluster, grace: float) -> None:
    """Also where the ids of its tasks were never learnt."""
    await used_again(cluster)
    for launch, status in (("beef", "running"), ("cafe", "exited")):
        host = HostRun("h1", cluster.plan(launch=launch), cluster.connector)
        await host.stop(host.tasks, grace)
        assert cluster.hosts[0].containers[0].status == status
        await host.link.close()
