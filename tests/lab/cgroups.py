"""Control groups of the lab: one group per host, in every hierarchy that Docker will use.

On cgroup v1 that is one folder per controller (`/sys/fs/cgroup/cpu/lab/h1`), on v2 a tree with a leaf for
the host's own processes, since v2 allows none in a group that has children. The memory controller of v1 is
left out for the hosts themselves, so that they stay within the limits of whoever started the lab.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from lab.paths import LabError

ROOT = Path("/sys/fs/cgroup")
V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")
GRACE_SECONDS = 20
LEFT_OUT = ("memory", "systemd", "unified")


def is_v2() -> bool:
    """Whether the machine has the unified hierarchy only."""
    return (ROOT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """Mount points of the hierarchies: one on v2, one per controller on v1."""
    if is_v2():
        return [ROOT]
    return sorted(path for path in ROOT.iterdir() if path.is_dir() and not path.is_symlink())


def make_host(name: str, host: str) -> list[Path]:
    """Create a host's groups and return the folders its processes must join."""
    if is_v2():
        return [make_v2(name, host)]
    return [make_v1(root / name / host) for root in hierarchies() if root.name not in LEFT_OUT]


def make_v1(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for group in (folder.parent, folder):
        for key in ("cpuset.cpus", "cpuset.mems"):
            if (group / key).exists():
                (group / key).write_text((group.parent / key).read_text())
    return folder


def make_v2(name: str, host: str) -> Path:
    """On v2: NAME/HOST/init for the host's processes; Docker puts containers under NAME/HOST."""
    leaf = ROOT / name / host / "init"
    leaf.mkdir(parents=True, exist_ok=True)
    for group in (ROOT, ROOT / name, ROOT / name / host):
        on = (group / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{controller}" for controller in V2_CONTROLLERS if controller in on)
        (group / "cgroup.subtree_control").write_text(wanted)
    return leaf


def parent(name: str, host: str) -> str:
    """What Docker is given as cgroup-parent."""
    return f"/{name}/{host}"


def groups(name: str, host: str = "") -> Iterator[Path]:
    """Every control group that belongs to a lab, or to one of its hosts, deepest first."""
    for root in hierarchies():
        yield from tree(root / name / host)


def tree(top: Path) -> Iterator[Path]:
    """A group and all below it, deepest first; other labs may remove theirs meanwhile, which os.walk passes over."""
    yield from sorted((Path(folder) for folder, _, _ in os.walk(top)), reverse=True)


def members(name: str) -> set[int]:
    """Processes in any group of a lab."""
    return {int(pid) for group in groups(name) for pid in read_lines(group / "cgroup.procs")}


def read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def freeze(name: str, host: str, frozen: bool) -> None:
    """Stop or continue every process of a host, containers included."""
    if is_v2():
        (ROOT / name / host / "cgroup.freeze").write_text("1" if frozen else "0")
        return
    group = ROOT / "freezer" / name / host
    if not group.is_dir():
        raise LabError("this machine has no freezer control group")
    (group / "freezer.state").write_text("FROZEN" if frozen else "THAWED")


def thaw_all(name: str, host: str = "") -> None:
    """Thaw every freezer group of a lab or host; the ones that docker pause made are below the hosts'."""
    for group in groups(name, host):
        for key, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            if (group / key).exists():
                (group / key).write_text(value)


def limit_cpu(name: str, host: str, percent: int) -> None:
    """Give a host at most `percent` of one core; 0 takes the limit away."""
    quota = percent * 1000 if percent else -1
    if is_v2():
        (ROOT / name / host / "cpu.max").write_text(f"{quota if percent else 'max'} 100000")
    else:
        (ROOT / "cpu" / name / host / "cpu.cfs_quota_us").write_text(str(quota))


def remove(name: str, host: str = "") -> None:
    """Remove the groups of a lab, or of one host, whose processes are gone; what is still busy stays."""
    # podman has one parent for all; groups in which a process lives are not removed by rmdir.
    podman = [group for root in hierarchies() for group in tree(root / "libpod_parent")]
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        left = [group for group in groups(name, host) if not try_rmdir(group)]
        if not left:
            break
        time.sleep(0.02)
    for group in podman:
        try_rmdir(group)


def try_rmdir(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return not group.exists()
    return True
