"""A run of 24 ranks of which one is stopped by a signal, in the app: found from the list of runs in three keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.runs import until
from lab.terminal import Terminal

pytestmark = pytest.mark.cluster

PROGRAM = """
import os, signal, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
print("pid", os.getpid(), flush=True)
if rank == 0:
    server = socket.create_server(where)
    peers = [server.accept()[0] for _ in range(world - 1)]
while rank:
    try:
        peers = [socket.create_connection(where)]
        break
    except OSError:
        time.sleep(0.2)
for step in range(1, 1_000_000):
    time.sleep(0.3)
    if rank == 13 and os.path.exists("/mnt/pytorch/stop-one"):
        os.kill(os.getpid(), signal.SIGSTOP)
    print(f"step {step} loss {3 / step:.4f} gnorm {1 + rank / 100:.3f}", flush=True)
    if not rank:
        assert all(len(peer.recv(1)) for peer in peers)
    for peer in peers:
        peer.sendall(b".")
    if rank:
        assert peers[0].recv(1)
"""
"""Ranks in step with each other, as with an all_reduce: each says its loss, then waits for all others. One is stopped,
when a file says so, before it says a step: a signal from here could come when it has said as many as the others.
"""
INVENTORY = {"version": 1, "defaults": {"docker": "process"}, "hosts": {f"h{n}": {} for n in (1, 2, 3)}}
CULPRIT, HOST = 13, "h2"


def pid_of(home: Path, rank: int) -> str:
    """What the rank said that its process is; empty before it did."""
    log = home / f".local/state/distui/runs/steps/logs/rank-{rank:05d}.log"
    found = re.match(r"pid (\d+)\n", log.read_text()) if log.exists() else None
    return found[1] if found else ""


def test_the_stalled_one_of_24_ranks_by_three_keys(lab: Any, home: Path, distui: Callable[..., Any]) -> None:
    """`3` the runs, one of which is amber, enter its view, `n` the rank that the others wait for."""
    (lab.share / "steps.py").write_text(PROGRAM)
    job = {"version": 1, "name": "steps", "hosts": "h[1-3]", "ranks": {"per_host": 8},
           "command": ["python3", "/mnt/pytorch/steps.py"], "stall_after": "5s", "stop_grace": "1s",
           "progress": {"regex": r"step (?P<step>\d+) loss (?P<loss>[\d.]+)"}}  # fmt: skip
    (home / "job.yaml").write_text(json.dumps(job))
    (home / "hosts.yaml").write_text(json.dumps(INVENTORY))
    with Terminal(lab, home, (120, 40)) as term:
        term.enter("distui run job.yaml --name steps -y")
        term.wait("RUNNING", "STEP", "LAG", "24 ok", re.compile(r"step \d"))
        until(lambda: pid_of(home, CULPRIT))
        pid = pid_of(home, CULPRIT)
        host = lab.host(HOST)
        stop = lab.share / "stop-one"
        try:
            stop.touch()
            until(lambda: host.out("ps", "-o", "stat=", "-p", pid).startswith("T"))
            term.keys("Escape")
            term.wait("Runs", "STALLED", without="RUNNING")
            listed = json.loads(distui("ps", "--json").stdout)["runs"][0]
            assert listed["state"] == "running" and listed["stalled"]["step"] > 0
            for size in ((80, 24), (200, 50), (120, 40)):
                term.resize(*size)
                term.wait("steps", "STALLED")
            term.keys("1")
            term.wait("Hosts", "h1", "h3")
            term.keys("3")
            term.wait("steps", "STALLED")
            term.keys("Enter")
            term.wait("STALLED", "last step", "1 to watch", "culprit", f"Rank {CULPRIT} is ")
            term.keys("n")
            term.wait(f"{CULPRIT}  {HOST}  1 step behind")
            term.keys("o")
            term.wait("by lag", re.compile(rf"▌. {CULPRIT}  (stuck|behind)"))
        finally:
            stop.unlink()
            host.out("kill", "-CONT", pid)
        term.wait("RUNNING", "24 ok", without="STALLED")
        term.keys("S")
        term.wait("Stop steps?")
        term.keys("Right", "Enter")
        term.wait("STOPPED")
