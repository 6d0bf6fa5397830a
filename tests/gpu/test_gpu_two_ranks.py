"""Two real NCCL ranks on one GPU, each in its own way to hang, and what distui says of it.

They share the GPU in turns, over NCCL's sockets on loopback, as ranks on two hosts would over their network.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from gpuhosts import PROGRAMS, SHARED, Cluster, top, until

from distui.agent.ranks import ras_talk
from distui.runs.insight.hang.ras.report import read_report

PROGRAM = str(PROGRAMS / "pair.py")
LINES = (PROGRAMS / "pair.py").read_text().splitlines()
NCCL: dict[str, Any] = SHARED | {"backend": "nccl", "stall_after": "5s", "stop_grace": "1s"}


def line_of(words: str) -> int:
    """Where in the program this stands."""
    return next(number for number, line in enumerate(LINES, 1) if line.strip() == words)


@contextmanager
def begun(cluster: Cluster, way: str, **keys: Any) -> Iterator[Any]:
    """The two ranks once they have worked together; stopped at the end."""
    cluster.job("pair.py", way, **NCCL | keys)
    program = cluster.start("run", "job.yaml", "--headless", "-y", "-o", "ndjson", "--name", way)
    log = cluster.home / f".local/state/distui/runs/{way}/logs/rank-00000.log"
    try:
        until(lambda: program.poll() is not None or (log.exists() and "step 19" in log.read_text()))
        assert program.poll() is None, program.communicate()
        yield program
    finally:
        cluster.distui("stop", way, "-y")
        program.kill()
        program.communicate()


def asked(cluster: Cluster, way: str, kinds: tuple[str, ...]) -> dict[str, Any]:
    """What `distui why` says as soon as something stands still."""
    found: dict[str, Any] = {}

    def stands() -> bool:
        done = cluster.distui("why", way, "-o", "json")
        assert done.returncode == 0, done.stderr
        found.update(json.loads(done.stdout))
        return found["kind"] in kinds and bool(found["collective"])

    until(stands, 60)
    return found


WAYS: dict[str, tuple[str, list[int], Callable[[], tuple[str, ...]]]] = {
    "sleeps": (
        "hang",
        [1],
        lambda: (
            "rank 1 has not entered all_reduce #21",
            f"it sleeps at {PROGRAM}:{line_of('time.sleep(600)')} in load",
        ),
    ),
    "spins": (
        "hang",
        [1],
        lambda: (
            "rank 1 has not entered all_reduce #21",
            f"is busy with code of its own at {PROGRAM}:",
        ),
    ),
    "order": ("mismatch", [], lambda: ("ranks called different collectives as #21 of the default group",)),
}


@pytest.mark.parametrize("way", WAYS)
def test_who_holds_the_other_up(cluster: Cluster, record: Any, way: str) -> None:
    """By torch's flight recorder of NCCL, with file and line, while the other's kernels keep the GPU busy."""
    kind, culprits, words = WAYS[way]
    with begun(cluster, way):
        found = asked(cluster, way, ("hang", "mismatch"))
        busy, samples = top(cluster), ras_talk.samples("127.0.0.1", 28028, 10)
    record(f"why-two-{way}.json", json.dumps({"why": found, "top": busy}, indent=1))
    record(f"nccl-ras-two-{way}.json", json.dumps(samples, indent=1))

    assert found["kind"] == kind, found
    assert all(one in found["headline"] for one in words()), found["headline"]
    assert not culprits or found["culprits"] == culprits, found
    reports = [read_report(text) for _, text in samples]
    assert reports and all(one is not None and len(one.communicators) == 1 for one in reports), samples


def test_a_kernel_that_all_wait_for(cluster: Cluster, record: Any) -> None:
    """Rank 1's GPU works for long before its part of a collective that both have called: no rank is held for it."""
    with begun(cluster, "kernel"):
        found = asked(cluster, "kernel", ("hang",))
    record("why-two-kernel.json", json.dumps(found, indent=1))

    assert found["culprits"] == [], found
    assert found["headline"].startswith("every rank has entered all_reduce #21 of 1000 Float"), found["headline"]


def test_nccl_s_watchdog_ends_a_run(cluster: Cluster, record: Any) -> None:
    """A collective that times out fails the rank that waited in it; why is said of the other one, which never came."""
    cluster.job("pair.py", "timeout", **NCCL)
    result, printed = cluster.run("--name", "timeout")
    logs = cluster.home / ".local/state/distui/runs/timeout/logs"
    for rank in (0, 1):
        record(f"nccl-timeout-{rank}.log", (logs / f"rank-{rank:05d}.log").read_text())
    record("nccl-timeout.json", json.dumps(result, indent=1))

    assert (result["state"], result["leftovers"]) == ("failed", []), printed
    first = result["first_failure"]
    assert (first["rank"], first["exit"]) == (0, 134), first
    assert "rank 1 has not entered all_reduce #21" in first["cause"], first


def test_two_ranks_over_nccl(cluster: Cluster, record: Any) -> None:
    """They train to the end, nothing is said to hang."""
    cluster.job("pair.py", "ends", **NCCL | {"env": SHARED["env"] | {"NCCL_DEBUG": "INFO"}})
    result, printed = cluster.run("--name", "ends")
    record("nccl-two-hosts.log", (cluster.home / ".local/state/distui/runs/ends/logs/rank-00000.log").read_text())
    record("nccl-two-hosts.ndjson", printed)

    assert (result["state"], result["leftovers"]) == ("succeeded", []), printed
    assert printed.count("sum True") == 2
