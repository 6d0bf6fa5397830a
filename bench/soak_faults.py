"""The faults that the soak draws from: how each begins and ends, and what it may cost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.cluster import LabError
from bench.soak_stage import Stage

Act = Callable[[Stage, str], None]


def _nothing(soak: Stage, host: str) -> None:
    """For faults that end by themselves."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`ends`: it may end the host's rank. `removes`: nobody may see how that ended, because its container is gone.

    `loses`: the host's rank may lose lines; `said` where distui must say so, `unsaid` where it can't know.
    """

    begin: Act
    end: Act = _nothing
    longest: float = 0.0
    """Seconds it lasts at most; 0 for what happens in an instant."""
    ends: bool = False
    removes: bool = False
    loses: Literal["", "said", "unsaid"] = ""
    on_host: bool = True
    when: Literal["run", "unread", "cleanup", "ended"] = "run"
    """While it runs; when all ranks have ended and nobody has read them yet; while it is cleaned up; after its end."""


def _lab(*kinds: str) -> Act:
    """Faults of the lab by name (tests/lab), one after the other."""

    def act(soak: Stage, host: str) -> None:
        for kind in kinds:
            soak.lab.host(host).fault(*kind.split())

    return act


def _to_container(kind: str) -> Act:
    """A fault of the lab that strikes the run's container on the host, if it is still there."""

    def act(soak: Stage, host: str) -> None:
        for container in soak.containers(host):
            with suppress(LabError):  # it has ended by itself
                soak.lab.host(host).fault(kind, container)

    return act


def _kill(soak: Stage, host: str) -> None:
    soak.take_up("attach")


def _kill_twice(soak: Stage, host: str) -> None:
    """distui, and the distui that has just taken its place."""
    _kill(soak, host)
    time.sleep(1.0)
    _kill(soak, host)


def _kill_in_clean_up(soak: Stage, host: str) -> None:
    """distui, a moment after it says that it cleans up; somebody then waits for the run."""
    soak.program.until_phase("cleanup", 120)
    time.sleep(soak.dice.uniform(0.03, 0.35))
    soak.take_up("wait")


def _stop(soak: Stage, host: str) -> None:
    soak.beside("stop")


def _two_viewers(soak: Stage, host: str) -> None:
    """At one instant, one of this HOME and one of another."""
    soak.beside("attach")
    soak.beside("attach", elsewhere=True)


def _kill_one_viewer(soak: Stage, host: str) -> None:
    soak.dice.choice([viewer for viewer in soak.viewers if viewer.verb == "attach"][-2:]).kill()


def _viewer_sleeps(soak: Stage, host: str) -> None:
    """A laptop elsewhere that follows the run is closed."""
    viewer = soak.beside("attach", elsewhere=True)
    viewer.until_phase("follow", 20)
    viewer.sleep()


def _viewer_wakes(soak: Stage, host: str) -> None:
    for viewer in soak.viewers:
        viewer.wake()


def _empty_log(soak: Stage, host: str) -> None:
    """The log of the host's rank here, while it is written: what is removed nobody can read again."""
    if soak.program.over or soak.program.began("cleanup"):
        return
    with suppress(FileNotFoundError):
        os.truncate(soak.log_of(host), 0)


def _remove_log(soak: Stage, host: str) -> None:
    """The file on the host into which Docker writes what the container prints."""
    for container in soak.containers(host):
        path = soak.lab.host(host).out("docker", "inspect", "-f", "{{.LogPath}}", container)
        soak.lab.host(host).out("rm", "-f", path)


def _prune(soak: Stage, host: str) -> None:
    soak.lab.host(host).out("docker", "container", "prune", "-f")


def _fill(soak: Stage, host: str) -> None:
    with soak.ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * (1 << 20)):
                pass
        except OSError:
            return  # full, as meant


def _unfill(soak: Stage, host: str) -> None:
    soak.ballast.unlink(missing_ok=True)


FAULTS = {
    "cut": Fault(_lab("blackhole"), _lab("unblackhole"), longest=9.0),
    "loss": Fault(_lab("loss 20"), _lab("uncut"), longest=4.0),
    "frozen": Fault(_lab("freeze"), _lab("thaw"), longest=4.0),
    "sessions-killed": Fault(_lab("ssh-killall")),
    "sshd-restarted": Fault(_lab("ssh-down", "ssh-killall"), _lab("ssh-up"), longest=3.0),
    "dockerd-hangs": Fault(_lab("docker-hang"), _lab("docker-cont"), longest=4.0),
    "dockerd-killed": Fault(_lab("docker-kill"), _lab("docker-up"), longest=2.0, ends=True, loses="unsaid"),
    "dockerd-restarted": Fault(_lab("docker-down"), _lab("docker-up"), longest=2.0, ends=True, loses="unsaid"),
    "rank-killed": Fault(_to_container("rank-kill"), ends=True),
    "container-killed": Fault(_to_container("container-kill"), ends=True),
    "container-removed": Fault(_to_container("container-rm"), ends=True, removes=True, loses="said"),
    "host-log-removed": Fault(_remove_log, loses="said"),
    "log-emptied": Fault(_empty_log),
    "distui-killed": Fault(_kill, on_host=False),
    "attach-killed": Fault(_kill_twice, on_host=False),
    "two-viewers": Fault(_two_viewers, _kill_one_viewer, longest=3.0, on_host=False),
    "viewer-asleep": Fault(_viewer_sleeps, _viewer_wakes, longest=80.0, on_host=False),
    "stopped": Fault(_stop, on_host=False),
    "disk-full-here": Fault(_fill, _unfill, longest=3.0, on_host=False),
    "pruned": Fault(_prune, removes=True, loses="said", when="unread"),
    "killed-in-clean-up": Fault(_kill_in_clean_up, on_host=False, when="cleanup"),
    "stopped-when-over": Fault(_stop, on_host=False, when="ended"),
}


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 64 MiB for distui's own files, which a fault can fill."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "distui-soak", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
