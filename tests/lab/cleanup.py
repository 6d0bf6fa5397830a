"""Taking a lab away completely, whatever state it is in, and proving that nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

from lab import cgroups
from lab.network import remove_netns_folder, spaces_of
from lab.paths import NETNS, LabError, lab_folder
from lab.shell import sh

GRACE_SECONDS = 120


def wipe(name: str, spare: frozenset[int] = frozenset()) -> None:
    """Kill a lab's processes and remove its namespaces, groups and files; LabError names what would not go.

    Works from what the kernel says (groups, namespaces), not from notes, so it also clears what a killed
    `up` left. Processes in `spare` are left alone.
    """
    spaces = spaces_of(name)
    kill_all(name, spare)
    for space in spaces:
        sh("ip", "netns", "del", space, ok=(0, 1))
    cgroups.remove(name)
    remove_folder(lab_folder(name))
    remove_netns_folder()
    left = leftovers(name)
    if left:
        raise LabError("the lab is down, but this is left: " + "; ".join(left))


def remove_folder(folder: Path) -> None:
    """With all that is in it; again for a while, for mounts end a moment after the processes that had them."""
    deadline = time.monotonic() + GRACE_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.02 if folder.exists() else 0)


def kill_all(name: str, spare: frozenset[int]) -> None:
    """SIGKILL everything of the lab until nothing is alive; frozen hosts are thawed, or they would not die."""
    deadline = time.monotonic() + GRACE_SECONDS
    while (pids := processes_of(name) - spare - {os.getpid()}) and time.monotonic() < deadline:
        cgroups.thaw_all(name)
        for pid in pids:
            kill(pid)
        time.sleep(0.02)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def processes_of(name: str) -> set[int]:
    """Live processes in a lab's groups or network namespaces; zombies do not count."""
    pids = cgroups.members(name) | set(namespace_members(name))
    return {pid for pid in pids if alive(pid)}


def namespace_members(name: str) -> list[int]:
    return [int(pid) for space in spaces_of(name) for pid in sh("ip", "netns", "pids", space, ok=(0, 1, 255)).split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def leftovers(name: str) -> list[str]:
    """Everything of a lab that still exists, in words."""
    found = [f"namespace {NETNS / space}" for space in spaces_of(name)]
    found += [f"process {pid}" for pid in sorted(processes_of(name))]
    found += [f"control group {group}" for group in cgroups.groups(name)]
    found += [f"mount {line}" for line in mounts_of(name)]
    return found + [f"folder {folder}" for folder in [lab_folder(name)] if folder.exists()]


def mounts_of(name: str) -> list[str]:
    """Mount points of the lab in any process's view of the file system."""
    marks = (f"{lab_folder(name)}/", f"{NETNS}/{name}-")
    found: set[str] = set()
    for table in Path("/proc").glob("[0-9]*/mountinfo"):
        try:
            points = [line.split()[4] for line in table.read_text().splitlines()]
        except OSError:
            continue
        found.update(point for point in points if point.startswith(marks))
    return sorted(found)
