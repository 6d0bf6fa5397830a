"""How often a host is asked from first contact until its ranks run, and until nothing of the run is left there.

Each command costs the host a process or a call of its engine, and one that waits for another a round trip.
"""

from __future__ import annotations

import time
from collections import Counter

import pytest

from fakehosts.runs import Cluster, until

CHECKED = ["ps", "lease", "reach", "image"]
"""Whether the run's name is free; its GPUs and ports held; its peers reached, beside: the image is there."""
TAKEN = ["take", "lease", "ps", "marks"]
"""At once: the run's folder, the leases once more, who else has the GPUs and ports."""
STARTED = ["hook", "put", "run", "forget", "mark"]
"""The hook beside the env file; the start line; at once: the env file removed, others told of the GPUs and ports."""
HANDED_OVER = ["hold", "free"]
"""At once: the tasks hold the run's name, and its leases go."""
ENDED = ["stopped", "ps", "inspect"]
"""At once: whether somebody stopped it, and what is there."""
REMOVED = ["rm", "ps", "unmark", "folder"]
"""The containers; whether one is left; at once: its mark and the run's folder."""
OF_PORTS = ["lease", "lease", "ps", "marks", "mark", "free", "unmark"]
"""What is for GPUs and ports only."""


async def test_what_a_host_is_asked_in_a_run(cluster: Cluster) -> None:
    """Every command of the first host, which has the rendezvous port, and of one that has nothing of its own."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.leftovers, cluster.left()) == ("succeeded", (), [])
    first, second = (sorted(host.verbs()) for host in cluster.hosts)
    assert first == sorted(CHECKED + TAKEN + STARTED + HANDED_OVER + ENDED + REMOVED)
    assert second == sorted((Counter(first) - Counter(OF_PORTS)).elements())
    assert [host.logins for host in cluster.hosts] == [1, 1]


async def test_a_run_that_others_may_follow_asks_twice_more_at_its_end(cluster: Cluster) -> None:
    """Beside what else is asked, who reads it; then how it ended is written, and what is there said with that. The
    first host decides, and what others are given waits for it.
    """
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0
    first = cluster.hosts[0]
    reached = first.hold("record")

    async def look() -> None:
        await reached.wait()
        assert sorted(first.verbs()[-5:]) == sorted([*ENDED, "visit", "record"])
        assert sorted(cluster.hosts[1].verbs()[-4:]) == sorted([*ENDED, "visit"])
        first.gates["record"].set()

    ended = await cluster.run(cluster.plan(launch="beef"), look())
    assert (ended.outcome, cluster.left()) == ("succeeded", [])
    assert all(Counter(host.verbs())["visit"] == 2 and Counter(host.verbs())["record"] == 1 for host in cluster.hosts)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("reach", CHECKED),
        ("image", CHECKED),
        ("take", CHECKED + TAKEN),
        ("marks", CHECKED + TAKEN),
        ("hold", CHECKED + TAKEN + STARTED + HANDED_OVER),
        ("free", CHECKED + TAKEN + STARTED + HANDED_OVER),
        ("stopped", CHECKED + TAKEN + STARTED + HANDED_OVER + ENDED),
        ("folder", CHECKED + TAKEN + STARTED + HANDED_OVER + ENDED + REMOVED),
    ],
)
async def test_what_need_not_wait_does_not(cluster: Cluster, held: str, asked: list[str]) -> None:
    """While the first host does not answer one of these, it is asked all that does not need the answer, and no more."""
    for task, one in enumerate(cluster.hosts):
        one.engine.exits[task] = 0
    host = cluster.hosts[0]
    reached = host.hold(held)

    async def look() -> None:
        await reached.wait()
        await until(lambda: sorted(host.verbs()) == sorted(asked))
        host.gates[held].set()

    ended = await cluster.run(cluster.plan(), look())
    assert (ended.outcome, cluster.left()) == ("succeeded", [])


@pytest.mark.parametrize(("late", "begun"), [(0.0, True), (120.0, False)])
async def test_a_lease_that_may_be_lost_is_looked_at_first(cluster: Cluster, late: float, begun: bool) -> None:
    """Images may take long to come. Who has the GPUs is only known for sure from when the lease is known to be ours."""
    host = cluster.hosts[0]
    host.engine.exits[0] = cluster.hosts[1].engine.exits[1] = 0
    reached = host.hold("image")

    async def look() -> None:
        await reached.wait()
        host.hold("lease")
        host.gates["image"].set()
        await until(lambda: host.verbs().count("lease") == 2)
        await until(lambda: "take" in host.verbs() and ("marks" in host.verbs()) == begun)
        host.gates["lease"].set()

    def clock() -> float:
        return time.time() + late * ("image" in host.verbs())

    assert (await cluster.run(cluster.plan(), look(), clock=clock)).outcome == "succeeded"
