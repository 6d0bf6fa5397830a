# ruff: noqa: PTH115, PTH123, PTH208, UP031, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""The processes of a task, and what the kernel tells of each: what it waits for, what it has used, read and written.

Everything is read from /proc. What this login may not read of another user's process is None, never 0.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

MOST_THREADS = 64
"""Threads of a process that are looked at; the first is the main one."""
MOST_BYTES = 65536
"""Of one file in /proc."""


def read(path: str) -> str:
    """A file of /proc as text; empty when there is none, or it is not ours to read."""
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class Stat:
    """One line of /proc/PID/stat, or of a thread's."""

    def __init__(self, path: str) -> None:
        name, _, rest = read(path).rpartition(")")
        words = rest.split()
        self.there = len(words) > 19
        self.name = name.partition("(")[2]
        self.state = words[0] if self.there else ""
        self.parent = int(words[1]) if self.there else 0
        self.ticks = int(words[11]) + int(words[12]) if self.there else 0
        self.start = words[19] if self.there else ""


PAUSED = "F"
"""The state of a process that is frozen with its container. The kernel's letter is that of what it did by then."""


def state_of(pid: int, state: str) -> str:
    """What it does, by the kernel's letter; PAUSED where the freezer of cgroups, of either version, holds it."""
    for line in read("/proc/%d/cgroup" % pid).splitlines() if state in ("S", "D") else ():
        _, kind, path = line.split(":", 2)
        if ".." in path or kind not in ("", "freezer"):
            continue
        events = read("/sys/fs/cgroup%s/cgroup.events" % path) if not kind else ""
        if "frozen 1" in events.splitlines() or (
            kind and read("/sys/fs/cgroup/freezer%s/freezer.state" % path).strip() == "FROZEN"
        ):
            return PAUSED
    return state


def catches(pid: int, number: int) -> bool:
    """Whether a process handles this signal: one that does not would end by it. False where that can't be seen."""
    for line in read("/proc/%d/status" % pid).splitlines():
        if line.startswith("SigCgt:"):
            return 0 < number < 65 and bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def all_parents() -> "dict[int, int]":
    """Every process of this host -> its parent."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    stats = [(pid, Stat("/proc/%d/stat" % pid)) for pid in pids]
    return {pid: stat.parent for pid, stat in stats if stat.there}


def family(root: int, parents: "dict[int, int]") -> "list[int]":
    """A process and all that come from it, parents first."""
    found = [root] if root in parents else []
    for pid in found:
        found += sorted(child for child, parent in parents.items() if parent == pid and child != pid)
    return found


def of_task(folder: str, parents: "dict[int, int]") -> "list[int]":
    """The processes of a task without a container: those from its first one, and those that left its session."""
    word = read(folder + "/pid").strip()
    found = family(int(word), parents) if word.isdigit() else []
    mark = ("DISTUI_TASK_DIR=" + folder).encode()
    known = set(found)
    return found + [pid for pid in sorted(parents) if pid not in known and mark in environment(pid)]


def environment(pid: int) -> "list[bytes]":
    """NAME=VALUE of a process, for finding it only; empty when it is not ours to read."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return file.read(1 << 20).split(b"\0")
    except OSError:
        return []


def inner_pid(pid: int) -> int:
    """The number that the process itself has, in its container."""
    words = field(read("/proc/%d/status" % pid), "NSpid").split()
    return int(words[-1]) if words and words[-1].isdigit() else pid


def field(status: str, name: str) -> str:
    """One line of /proc/PID/status without its name."""
    for line in status.splitlines():
        if line.startswith(name + ":"):
            return line[len(name) + 1 :].strip()
    return ""


class Look:
    """A process at one moment."""

    def __init__(self, pid: int) -> None:
        base = "/proc/%d" % pid
        self.pid = pid
        self.stat = Stat(base + "/stat")
        self.io = counters(read(base + "/io"))
        self.threads = [Thread(base + "/task/" + name) for name in sorted_tasks(base)[:MOST_THREADS]]

    def since(self, before: "Look", seconds: float) -> "dict[str, Any]":
        """What the process is now, and what it did since `before`."""
        ticks = os.sysconf("SC_CLK_TCK") * seconds
        earlier = {thread.tid: thread.stat.ticks for thread in before.threads}
        return {
            "pid": self.pid,
            "inner": inner_pid(self.pid),
            "parent": self.stat.parent,
            "name": self.stat.name[:64],
            "state": state_of(self.pid, self.stat.state),
            "cpu": round((self.stat.ticks - before.stat.ticks) / ticks, 3),
            "read": grown(self.io, before.io, "rchar", "read_bytes"),
            "written": grown(self.io, before.io, "wchar", "write_bytes"),
            "threads": [thread.row(earlier.get(thread.tid), ticks) for thread in self.threads],
            "busy_with": open_file(self.pid),
        }


class Thread:
    """A thread at one moment."""

    def __init__(self, base: str) -> None:
        self.tid = int(base.rpartition("/")[2])
        self.stat = Stat(base + "/stat")
        self.waits = read(base + "/wchan").strip()

    def row(self, before: "Optional[int]", ticks: float) -> "list[Any]":
        """Its number, name, state, where in the kernel it waits ("" when that is not known), cores used."""
        used = (self.stat.ticks - before) / ticks if before is not None else 0.0
        waits = "" if self.waits == "0" else self.waits[:64]
        return [self.tid, self.stat.name[:32], self.stat.state, waits, round(used, 3)]


def sorted_tasks(base: str) -> "list[str]":
    """The numbers of a process's threads, the main one first."""
    try:
        return sorted(os.listdir(base + "/task"), key=int)
    except (OSError, ValueError):
        return []


def counters(text: str) -> "Optional[dict[str, int]]":
    """Lines `name: number`; None when there is none."""
    rows = [line.split(": ", 1) for line in text.splitlines() if ": " in line]
    return {name: int(value) for name, value in rows if value.isdigit()} or None


def grown(now: "Optional[dict[str, int]]", before: "Optional[dict[str, int]]", *names: str) -> "Optional[int]":
    """By how much a counter grew, of several the one that grew most; None when none can be read.

    Bytes of a file that is mapped are in no system call, and those of a long call are counted at its end.
    """
    return max([now[name] - before.get(name, 0) for name in names if name in now] or [0]) if now and before else None


READS = {"x86_64": {0: "reading", 1: "writing", 17: "reading", 18: "writing", 19: "reading", 20: "writing",
                    257: "opening", 74: "syncing", 75: "syncing"},
         "aarch64": {63: "reading", 64: "writing", 67: "reading", 68: "writing", 65: "reading", 66: "writing",
                     56: "opening", 82: "syncing", 83: "syncing"}}  # fmt: skip
"""Numbers of system calls that name a file by its number -> what is done with it."""


def open_file(pid: int) -> "Optional[list[str]]":
    """What the main thread does with a file right now, and which: `["reading", "/data/x"]`; None if nobody knows."""
    words = read("/proc/%d/syscall" % pid).split()
    if len(words) < 2 or not words[0].isdigit():
        return None
    act = READS.get(os.uname().machine, {}).get(int(words[0]))
    if act is None or act == "opening":
        return [act, ""] if act else None
    try:
        return [act, os.readlink("/proc/%d/fd/%d" % (pid, int(words[1], 16)))[:300]]
    except (OSError, ValueError):
        return None


def pressure() -> "dict[str, Optional[float]]":
    """Share of the last 10 s in percent in which something of this host waited for CPU, disk or memory."""
    found = {}
    for name in ("cpu", "io", "memory"):
        words = read("/proc/pressure/" + name).split()
        share = [word[6:] for word in words if word.startswith("avg10=")]
        found[name] = float(share[0]) if share else None
    return found
