"""The faults that the soak draws from: how each begins and ends, and what it may cost."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cluster import LabError

if TYPE_CHECKING:
    from bench.soak import Soak

Act = Callable[["Soak", str], None]


def _nothing(soak: Soak, host: str) -> None:
    """For faults that end by themselves."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`fatal`: the run may fail by it. `loses`: the host's rank may lose the end of its log with the container."""

    begin: Act
    end: Act = _nothing
    longest: float = 0.0
    """Seconds it lasts at most; 0 for what happens in an instant."""
    fatal: bool = False
    loses: bool = False
    on_host: bool = True


def _lab(*kinds: str) -> Act:
    """Faults of the lab by name (tests/lab), one after the other."""

    def act(soak: Soak, host: str) -> None:
        for kind in kinds:
            soak.lab.host(host).fault(*kind.split())

    return act


def _to_container(kind: str) -> Act:
    """A fault of the lab that strikes the run's container on the host, if it is still there."""

    def act(soak: Soak, host: str) -> None:
        for container in soak.containers(host):
            with suppress(LabError):  # it has ended by itself
                soak.lab.host(host).fault(kind, container)

    return act


def _kill(soak: Soak, host: str) -> None:
    soak.program.signal_group(9)
    soak.take_up()


def _kill_twice(soak: Soak, host: str) -> None:
    """distui, and the distui that has just taken its place."""
    _kill(soak, host)
    time.sleep(1.0)
    _kill(soak, host)


def _stop(soak: Soak, host: str) -> None:
    soak.beside("stop", soak.name)


def ballast(soak: Soak) -> Path:
    """The file that fills the disk here."""
    return soak.state / "ballast"


def _fill(soak: Soak, host: str) -> None:
    with ballast(soak).open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * (1 << 20)):
                pass
        except OSError:
            return  # full, as meant


def _unfill(soak: Soak, host: str) -> None:
    ballast(soak).unlink(missing_ok=True)


FAULTS = {
    "cut": Fault(_lab("blackhole"), _lab("unblackhole"), longest=9.0),
    "loss": Fault(_lab("loss 20"), _lab("uncut"), longest=4.0),
    "frozen": Fault(_lab("freeze"), _lab("thaw"), longest=4.0),
    "sessions-killed": Fault(_lab("ssh-killall")),
    "sshd-restarted": Fault(_lab("ssh-down", "ssh-killall"), _lab("ssh-up"), longest=3.0),
    "dockerd-hangs": Fault(_lab("docker-hang"), _lab("docker-cont"), longest=4.0),
    "dockerd-killed": Fault(_lab("docker-kill"), _lab("docker-up"), longest=2.0, fatal=True, loses=True),
    "dockerd-restarted": Fault(_lab("docker-down"), _lab("docker-up"), longest=2.0, fatal=True, loses=True),
    "rank-killed": Fault(_to_container("rank-kill"), fatal=True),
    "container-killed": Fault(_to_container("container-kill"), fatal=True),
    "container-removed": Fault(_to_container("container-rm"), fatal=True, loses=True),
    "distui-killed": Fault(_kill, on_host=False),
    "attach-killed": Fault(_kill_twice, on_host=False),
    "stopped": Fault(_stop, fatal=True, on_host=False),
    "disk-full-here": Fault(_fill, _unfill, longest=3.0, on_host=False),
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
