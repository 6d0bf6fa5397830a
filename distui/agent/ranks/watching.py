# ruff: noqa: B905, UP031, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""Watches the ranks on a host for some seconds: what slows them down. Nothing is left running.

In, as one line of JSON on stdin: what `insight` takes, and `seconds`, how long; `sampled`, processes of which stacks
are wanted now and then. Out: an empty line of JSON once it watches, one with `at` for each further line that comes in,
by which the other end learns how far this clock is ahead, and at the end one with all that was seen.
"""

import json
import os
import signal
import sys
import threading
import time

from distui.agent.ranks.connections import connections, grown, host_counters
from distui.agent.ranks.gpu_state import GpuHealth
from distui.agent.ranks.hooked import hears, read_stacks, stacks_now, who
from distui.agent.ranks.insight import LIFE, MARK, MOST_PROCESSES, Asking, first_processes, fitted, pids_of, room
from distui.agent.ranks.processes import Look, Stat, all_parents, inner_pid, open_file, pressure, read

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

EVERY = 0.02
"""Seconds between two looks at what a main thread waits for."""
SAMPLE_EVERY = 0.07
"""Seconds between two stacks of a process, on average."""
MOST_SAMPLES, MOST_SAMPLED, MOST_FRAMES = 80, 8, 40
"""Stacks of a process; processes of which stacks are taken; calls of a stack, the outermost beside them."""

GPU_SECONDS = 3.0
"""What a driver may take to answer."""


def main() -> None:
    """Watch, answer, and end."""
    signal.alarm(LIFE)
    asked = json.loads(sys.stdin.readline())
    out = Out()
    out.say({})
    threading.Thread(target=tell_time, args=(out,), daemon=True).start()
    parents = all_parents()
    firsts, silent = first_processes(asked["engine"], [task["id"] for task in asked["tasks"] if task["id"]])
    found = [(task, pids_of(task, firsts, parents)[:MOST_PROCESSES]) for task in asked["tasks"]]
    sampled = set(asked["sampled"][:MOST_SAMPLED])
    host = Host()
    watched = [[Watched(pid, task["hook"], pid in sampled) for pid in pids] for task, pids in found]
    watch([one for each in watched for one in each], asked["seconds"])
    answer = host.since([pid for _, pids in found for pid in pids])
    answer["tasks"] = []
    answers = [[one.answer(asked) for one in each] for each in watched]
    most = room(sum(one.asking is not None and one.asking.hook is not None for each in answers for one in each))
    for (task, _), each in zip(found, answers):
        rows = [fitted(one.row(), most) for one in each]
        answer["tasks"].append({"task": task["task"], "processes": [row for row in rows if row]})
    answer.update({"at": time.time(), "late": bool(silent), "engine": silent})
    out.say(answer)


class Out:
    """Lines to the other end, whole ones though two threads write."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def say(self, value: object) -> None:
        """One line."""
        with self.lock:
            sys.stdout.write(MARK + json.dumps(value) + "\n")
            sys.stdout.flush()


def tell_time(out: "Out") -> None:
    """Answer each line with this host's clock; end with the other end."""
    for _ in sys.stdin:
        out.say({"at": time.time()})
    os._exit(0)


class Host:
    """What all tasks of a host have together."""

    def __init__(self) -> None:
        self.begun, self.connections, self.counters = time.monotonic(), connections(), host_counters()

    def since(self, pids: "list[int]") -> "dict[str, Any]":
        """What has happened, and over how many seconds."""
        counters, gpus = host_counters(), GpuHealth(pids, GPU_SECONDS)
        return {
            "seconds": time.monotonic() - self.begun,
            "pressure": pressure(),
            "connections": grown(self.connections, connections()),
            "segments": counters.get("segments", 0) - self.counters.get("segments", 0),
            "again": counters.get("again", 0) - self.counters.get("again", 0),
            "gpus": gpus.answer(),
        }


class Watched:
    """One process: what it did meanwhile."""

    def __init__(self, pid: int, hook: str, sampled: bool) -> None:
        self.pid, self.hook = pid, hook
        self.main = "/proc/%d/task/%d" % (pid, pid)
        self.begun, self.before = time.monotonic(), Look(pid)
        self.delayed, self.held, self.turns = waited_for_cpu(self.main), held_by_limit(pid), turns_of(self.main)
        self.states = {}  # type: dict[str, int]
        self.samples = []  # type: list[list[Any]]
        self.sampler = threading.Thread(target=self.sample, daemon=True) if sampled else None
        self.asking = None  # type: Optional[Asking]
        self.over = False

    def look(self) -> None:
        """Note what its main thread does."""
        state, waits = self.now()
        name = ("%s %s" % (state, waits)).strip()
        if len(self.states) < 64 or name in self.states:
            self.states[name] = self.states.get(name, 0) + 1

    def now(self) -> "tuple[str, str]":
        """The main thread's state, and where in the kernel it waits."""
        state = Stat(self.main + "/stat").state
        waits = "" if state == "R" else read(self.main + "/wchan").strip()
        return state, "" if waits == "0" else waits[:64]

    def sample(self) -> None:
        """Take its stacks, with the state from before each: at uneven times, or a step of that length would hide."""
        inner = inner_pid(self.pid)
        base, hook = "%s/%d" % (self.hook, inner), who(self.hook, inner)
        for number in range(MOST_SAMPLES):
            time.sleep(SAMPLE_EVERY * (0.5 + (number * 0.618034) % 1))
            if self.over or not hears(self.pid, hook):
                break
            state, waits = self.now()
            try:
                text = stacks_now(base)
            except BlockingIOError:  # somebody else asks it
                continue
            except OSError:
                break
            found = [short(row) for row in read_stacks(text) if of_main(row)]
            self.samples.append([state, waits, found[:2]])

    def answer(self, asked: "dict[str, Any]") -> "Watched":
        """It is asked where it is in its collectives."""
        self.asking = Asking(self.hook, self.pid, asked)
        return self

    def row(self) -> "dict[str, Any]":
        """All of it; empty when the process has ended meanwhile."""
        assert self.asking is not None
        row = self.asking.row(self.before, self.begun)
        if row:
            seconds = time.monotonic() - self.begun
            row["states"], row["samples"] = self.states, self.samples
            row["seconds"] = seconds
            row["delayed"] = since(waited_for_cpu(self.main), self.delayed)
            row["held"] = since(held_by_limit(self.pid), self.held)
            row["turns"] = since(turns_of(self.main), self.turns)
            row["busy_with"] = open_file(self.pid)
        return row


def watch(all_of: "list[Watched]", seconds: float) -> None:
    """Look at all of them again and again."""
    for one in all_of:
        if one.sampler is not None:
            one.sampler.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.monotonic()
        for one in all_of:
            one.look()
        time.sleep(max(EVERY, 4 * (time.monotonic() - begun)))  # a fifth of a core at most
    for one in all_of:
        one.over = True
        if one.sampler is not None:
            one.sampler.join(2)


def of_main(row: "list[Any]") -> bool:
    """Whether a stack may be the main thread's: it got the signal, or its outermost call is a module's own code."""
    return row[1] or (bool(row[2]) and row[2][-1][2] in ("<module>", "_run_module_as_main"))


def short(row: "list[Any]") -> "list[Any]":
    """A stack without the middle of a deep one."""
    thread, asked, frames = row
    return [thread, asked, frames[:MOST_FRAMES] + frames[MOST_FRAMES:][-1:]]


def since(now: "Optional[float]", before: "Optional[float]") -> "Optional[float]":
    """By how much something grew; None where nobody knows."""
    return max(0.0, now - before) if now is not None and before is not None else None


def waited_for_cpu(thread: str) -> "Optional[float]":
    """Seconds that a thread could have run and got no core."""
    words = read(thread + "/schedstat").split()
    return int(words[1]) / 1e9 if len(words) == 3 and words[1].isdigit() else None


def turns_of(thread: str) -> "Optional[int]":
    """How often a thread was given a core, by Linux's sched-stats.rst; a thread that waits is given none."""
    words = read(thread + "/schedstat").split()
    return int(words[2]) if len(words) == 3 and words[2].isdigit() else None


def held_by_limit(pid: int) -> "Optional[float]":
    """Seconds that the limit of its container has held its threads back, all of them together."""
    path = [line[4:] for line in read("/proc/%d/cgroup" % pid).splitlines() if line.startswith("0::/")]
    text = read("/sys/fs/cgroup%s/cpu.stat" % path[0]) if path and ".." not in path[0] else ""
    words = [line.split() for line in text.splitlines()]
    found = [int(word[1]) / 1e6 for word in words if word[:1] == ["throttled_usec"] and word[1].isdigit()]
    return found[0] if found else None
