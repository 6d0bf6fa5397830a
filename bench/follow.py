"""Following logs beside `ssh host docker logs >file`, in one run on one machine: read the ratios, not the seconds.

    python bench/follow.py [--lines 2000000] [--seconds 15]

Needs root and Linux: it brings up a lab of its own (tests/lab) with one real host, sshd and dockerd. Client, host
and containers share this machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "tests")]

from distui.run.feed import EngineAccess  # noqa: E402
from distui.run.follow import HostFollower  # noqa: E402
from distui.run.followed import FollowEvent, FollowTarget, Records  # noqa: E402
from distui.run.link import HostLink  # noqa: E402
from lab.lab import Lab  # type: ignore[import-not-found,unused-ignore]  # noqa: E402
from remote.pool import SshConnector  # noqa: E402
from remote.targets import Target  # noqa: E402

IMAGE = "lab/python:1"
TASKS = 8
RATE = 1000

FLOOD = 'import sys\nfor i in range(int(sys.argv[1])): print("%0105d" % i)'
PACED = """
import os, sys, time
begin = time.time()
for i in range(int(sys.argv[1])):
    time.sleep(max(0, begin + i / float(sys.argv[2]) - time.time()))
    os.write(2 if i % 10 == 0 else 1, b"%.6f %d\\n" % (time.time(), i))
"""


@dataclass
class Taken:
    """Writes each task's bytes to a file; keeps how late the stamped lines came, if asked."""

    folder: Path
    stamped: bool = False
    late: list[float] = field(default_factory=list)
    files: dict[int, Any] = field(default_factory=dict)

    async def __call__(self, event: FollowEvent) -> None:
        if not isinstance(event, Records):
            return
        if event.task not in self.files:
            self.files[event.task] = (self.folder / f"{event.task}.log").open("wb")
        self.files[event.task].write(event.batch.data)
        if self.stamped:
            now = time.time()
            self.late += [now - float(piece.split(b" ")[0]) for piece in event.batch.pieces]


def start(lab: Any, *argv: str) -> str:
    """A container with the labels and log options distui gives it; its id."""
    options = ("--label", "distui.run=bench", "--log-driver", "json-file")
    return str(lab.host("h1").out("docker", "run", "-d", *options, IMAGE, "python3", *argv))


async def follow(home: Path, taken: Taken, refs: list[str]) -> None:
    """Follow the containers to their end."""
    connector = SshConnector({"h1": Target("h1")}, home=home, system=False)
    link = HostLink(connector, "h1")
    targets = [FollowTarget(n, ref) for n, ref in enumerate(refs)]
    access = EngineAccess("docker", ("docker",), "/var/run/docker.sock")
    follower = HostFollower(link, access, taken, run_id="bench", targets=targets)
    running = asyncio.ensure_future(follower.run())
    await follower.drained()
    await follower.close()
    await running
    await link.close()
    await connector.close()
    for file in taken.files.values():
        file.close()


def enter(lab: Any) -> None:
    """Move this process to the lab's login node, from where its hosts can be reached."""
    namespace = os.open(lab.command()[1].removeprefix("--net="), os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "setns")


def by_ssh(home: Path, ref: str, path: Path) -> tuple[float, float]:
    """Seconds and client CPU seconds of OpenSSH and docker's own client."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with path.open("wb") as file:
        argv = ["ssh", "-F", str(home / ".ssh/config"), "h1", "docker", "logs", "-t", ref]
        subprocess.run(argv, stdout=file, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def by_distui(home: Path, refs: list[str], taken: Taken) -> tuple[float, float]:
    """Seconds and client CPU seconds of the follower, writing files."""
    cpu, began = time.process_time(), time.monotonic()
    asyncio.run(follow(home, taken, refs))
    return time.monotonic() - began, time.process_time() - cpu


def one_flood(lab: Any, home: Path, lines: int) -> None:
    """One container that has printed much: read all of it."""
    folder = Path(tempfile.mkdtemp(dir=home))
    ref = start(lab, "-c", FLOOD, str(lines))
    lab.host("h1").exec("docker", "wait", ref, timeout=600)
    for name, turn in (("first", 1), ("second", 2)):
        ssh_wall, ssh_cpu = by_ssh(home, ref, folder / f"ssh{turn}")
        wall, cpu = by_distui(home, [ref], Taken(folder))
        got = (folder / "0.log").read_bytes().count(b"\n")
        print(f"{lines} lines, {name} time: ssh docker logs {ssh_wall:.1f} s, {ssh_cpu:.2f} s CPU;", end=" ")
        print(f"distui {wall:.1f} s, {cpu:.2f} s CPU; ratios {wall / ssh_wall:.2f}, {cpu / ssh_cpu:.2f};", end=" ")
        print(f"{got - lines:+d} lines")
    lab.host("h1").exec("docker", "rm", ref)


def many_paced(lab: Any, home: Path, seconds: int) -> None:
    """Eight containers at 1,000 lines/s, one write per line."""
    folder = Path(tempfile.mkdtemp(dir=home))
    refs = [start(lab, "-c", PACED, str(RATE * seconds), str(RATE)) for _ in range(TASKS)]
    taken = Taken(folder, stamped=True)
    wall, cpu = by_distui(home, refs, taken)
    # The containers were started one after the other before the follower: leave the backlog out.
    late = sorted(taken.late[len(taken.late) // 4 :])
    p99 = late[int(len(late) * 0.99)]
    print(f"{TASKS} x {RATE} lines/s: {100 * cpu / wall:.1f} % client CPU;", end=" ")
    print(f"latency p50 {1000 * statistics.median(late):.1f} ms, p99 {1000 * p99:.1f} ms;", end=" ")
    print(f"{len(taken.late) - TASKS * RATE * seconds:+d} lines")
    lab.host("h1").exec("docker", "rm", "-f", *refs)


def main() -> None:
    """Both measures, on a lab of their own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=int, default=15)
    args = parser.parse_args()
    with Lab("bench") as lab, tempfile.TemporaryDirectory() as folder:
        lab.up(1)
        home = lab.ssh_home(Path(folder))
        enter(lab)
        one_flood(lab, home, args.lines)
        many_paced(lab, home, args.seconds)


if __name__ == "__main__":
    main()
