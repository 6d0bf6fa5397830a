"""What is written down about a running lab, so that another process can use it or take it down."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.paths import LabError, lab_folder, lock_file


@dataclass(frozen=True, slots=True)
class Process:
    """A process that cannot be confused with a later one of the same pid. `start` is in clock ticks since boot."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, start_time(pid))

    @property
    def is_alive(self) -> bool:
        return start_time(self.pid) == self.start != 0


def start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat; 0 when there is no such process, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in ("Z", "X") else int(fields[19])


@dataclass(frozen=True, slots=True)
class State:
    """A lab as `up` made it. `owner` is the process it goes down with; None: it stays until `down`."""

    hosts: int
    docker: bool
    owner: Process | None

    def write(self, name: str) -> None:
        path = lab_folder(name) / "state.json"
        path.with_suffix(".new").write_text(json.dumps(asdict(self)))
        path.with_suffix(".new").rename(path)


def read_state(name: str) -> State | None:
    """The state of a lab that came up completely; None when there is none."""
    try:
        data = json.loads((lab_folder(name) / "state.json").read_text())
    except (OSError, ValueError):
        return None
    owner = Process(**data["owner"]) if data["owner"] else None
    return State(data["hosts"], data["docker"], owner)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lab's lock while it is brought up or taken down; LabError when another process holds it."""
    path = lock_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"lab {name!r} is being brought up or taken down by another process; wait for it") from None
        if not path.exists() or path.stat().st_ino != os.fstat(lock.fileno()).st_ino:
            raise LabError(f"lab {name!r} was brought up or taken down just now by another process; try again")
        try:
            yield
        finally:
            path.unlink()
