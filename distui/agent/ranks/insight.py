# ruff: noqa: B905, UP031
# Python 3.6 runs this, and every import costs a start on the host.
"""Where the ranks on a host are: asked once, answered in one line of JSON, nothing is left running.

In, as one line of JSON on stdin: `tasks`, each with its number, its folder for the hook's files, and its engine's id or
its folder (engine `process`); `engine`, its command; `most`, how many collectives of a group are wanted; `stacks`,
whether they are, and with them what waits in the processes' connections; `left`, whether it is asked for what programs
that have ended left behind, and nothing else; `gpus` and `ras`, how many seconds drivers of GPUs and NCCL's RAS may
take, 0 for not asking them; `ras_talk`, what asks RAS in containers, as a program.
"""

import json
import signal
import subprocess
import sys
import threading
import time

from distui.agent.ranks.gpu_state import GpuHealth
from distui.agent.ranks.hooked import ANSWER_SECONDS, hears, left, recorder, stacks, who
from distui.agent.ranks.processes import PAUSED, Look, Stat, all_parents, family, inner_pid, of_task, pressure, state_of
from distui.agent.ranks.ras import Networks
from distui.agent.ranks.sockets import Sockets

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any

MARK = "DISTUI-INSIGHT:"
"""What the answer begins with: a login may print whatever it likes before."""
LIFE, ENGINE_SECONDS, WINDOW, TRACED = 40, 8, 0.5, 0.3
"""Seconds: of all of it; of the engine's answer; between two looks at each process; at one that is being traced."""
MOST_PROCESSES = 128
"""Of one task."""
ROW_BYTES, ALL_BYTES = 1 << 20, 8 << 20
"""Of what is reported of one process that says something itself, and of all of them: what a rank says at length is to
leave room for the others. A rank with ten groups takes 0.4 MB.
"""
FEWER = 4
"""By which part of its collectives less is reported of a process, again and again, until it fits."""


def main() -> None:
    """Answer, and end."""
    signal.alarm(LIFE)
    asked = json.loads(sys.stdin.readline())
    answer = {"tasks": [], "pressure": pressure(), "at": time.time()}  # type: dict[str, Any]
    answer.update({"tasks": all_left(asked["tasks"])} if asked.get("left") else all_seen(asked))
    sys.stdout.write(MARK + json.dumps(answer) + "\n")
    sys.stdout.flush()


def all_left(tasks: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    """What the ended programs of each task left behind."""
    found = [(task["task"], left(task["hook"])) for task in tasks]
    most = room(sum(len(rows) for _, rows in found))
    return [{"task": task, "processes": [fitted(row, most) for row in rows]} for task, rows in found]


def all_seen(asked: "dict[str, Any]") -> "dict[str, Any]":
    """The processes of each task, as they are, and what else tells of them."""
    parents = all_parents()
    firsts, silent = first_processes(asked["engine"], [task["id"] for task in asked["tasks"] if task["id"]])
    found = [(task, pids_of(task, firsts, parents)[:MOST_PROCESSES]) for task in asked["tasks"]]
    networks = Networks(found if asked.get("ras") else [], asked)
    everybody = [pid for _, pids in found for pid in pids]
    gpus = GpuHealth(everybody, asked["gpus"]) if asked.get("gpus") else None
    sockets = Sockets(everybody) if asked.get("stacks") else None
    before = [[Look(pid) for pid in pids] for _, pids in found]
    begun = time.monotonic()
    asking = [Asking(task["hook"], pid, asked) for task, pids in found for pid in pids]
    time.sleep(max(0.0, WINDOW - (time.monotonic() - begun)))
    by_pid = {(one.folder, one.pid): one for one in asking}
    most = room(sum(one.hook is not None for one in asking))
    seen = []
    for (task, pids), looks in zip(found, before):
        rows = [fitted(by_pid[task["hook"], pid].row(look, begun), most) for pid, look in zip(pids, looks)]
        seen.append({"task": task["task"], "processes": [row for row in rows if row]})
    answer = {"tasks": seen, "late": bool(silent), "engine": silent}  # type: dict[str, Any]
    answer["networks"] = networks.rows(asked.get("ras", 0))
    if sockets is not None:
        answer["connections"] = sockets.rows()
    return answer if gpus is None else dict(answer, gpus=gpus.answer())


def room(processes: int) -> int:
    """How many bytes may be reported of each of so many processes that say something themselves."""
    return min(ROW_BYTES, ALL_BYTES // max(1, processes))


def fitted(row: "dict[str, Any]", most: int) -> "dict[str, Any]":
    """What is reported of a process in no more bytes: fewer of its sampled calls, then of its newest collectives, in
    the end none; then no stacks.
    """
    while len(row.get("samples", ())) > FEWER and len(json.dumps(row)) > most:
        row["samples"] = row["samples"][::FEWER]
    groups = row.get("recorder", {}).get("groups", {})
    rows = max([len(group.get(name, ())) for group in groups.values() for name in ("recent", "direct")] or [0])
    while rows > 1 and len(json.dumps(row)) > most:
        rows //= FEWER
        for group in groups.values():
            group.update({name: group[name][-max(1, rows) :] for name in ("recent", "direct") if name in group})
    for name, without in (("samples", []), ("stacks", TOO_LONG), ("recorder", TOO_LONG)):
        if name in row and len(json.dumps(row)) > most:
            row[name] = without
    return row


GONE = ("no such container", "no such object", "no container with")
"""What an engine says of a container that it does not have."""

TOO_LONG = {"why": "its answer is too long"}
TOO_LATE = {"why": "no answer in time", "late": True}


def first_processes(engine: "list[str]", ids: "list[str]") -> "tuple[dict[str, int], str]":
    """Container -> the number of its first process, for those that run; and why the engine tells nothing, if so."""
    if not ids:
        return {}, ""
    argv = [*engine, "inspect", "--type", "container", "--format", "{{.Id}} {{.State.Pid}}", *ids]
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=ENGINE_SECONDS)  # noqa: UP022
    except subprocess.TimeoutExpired:
        return {}, "did not answer in time"
    except OSError as error:
        return {}, "can't be asked: %s" % error
    rows = [line.split() for line in done.stdout.decode("utf-8", "replace").splitlines()]
    found = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit() and row[1] != "0"}
    return found, unasked(done.stderr.decode("utf-8", "replace")) if done.returncode else ""


def unasked(said: str) -> str:
    """Why an engine whose answer is an error does not tell; nothing where it says that a container is gone."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if any(words in line.lower() for line in lines for words in GONE):
        return ""
    return "can't be asked: %s" % (lines[-1][:300] if lines else "it ended with an error")


def pids_of(task: "dict[str, Any]", firsts: "dict[str, int]", parents: "dict[int, int]") -> "list[int]":
    """The processes of one task."""
    if not task["id"]:
        return of_task(task["folder"], parents)
    first = firsts.get(task["id"])
    return family(first, parents) if first is not None else []


class Asking:
    """The questions to one process, asked beside those to all others: one that does not answer holds nobody up."""

    def __init__(self, folder: str, pid: int, asked: "dict[str, Any]") -> None:
        self.folder, self.pid, self.most, self.with_stacks = folder, pid, asked["most"], asked["stacks"]
        self.inner = inner_pid(pid)
        self.hook = who(folder, self.inner) if folder else None
        self.said = {}  # type: dict[str, Any]
        self.threads = [threading.Thread(target=act, daemon=True) for act in self.questions()]
        for thread in self.threads:
            thread.start()

    def questions(self) -> "list[Any]":
        """What this process can be asked."""
        if self.hook is None:
            return []
        stacks = bool(self.with_stacks and self.hook.get("stacks"))
        return [self.ask_recorder] * bool(self.hook.get("server")) + [self.ask_stacks] * stacks

    def ask_recorder(self) -> None:
        """Where it is in its collectives."""
        self.said["recorder"] = self.why_not() or recorder(self.folder, self.inner, self.most)

    def ask_stacks(self) -> None:
        """What its threads do."""
        self.said["stacks"] = TOO_LATE  # this thread may not have come to its end when the answer is due
        self.said["stacks"] = self.why_not() or self.unheard() or stacks(self.folder, self.inner)

    def unheard(self) -> "dict[str, str]":
        """A program that has given all its signals back would be ended by ours."""
        if hears(self.pid, self.hook):
            return {}
        if "signal" not in (self.hook or {}):
            return {"why": "it was started by an earlier distui, which does not tell its signal"}
        return {"why": "it no longer handles the signal that asks for them"}

    def why_not(self) -> "dict[str, str]":
        """A process that is stopped serves nobody: there is nothing to wait for. strace stops one for moments only."""
        path = "/proc/%d/stat" % self.pid
        now = Stat(path)
        if now.state == "T":
            return {"why": "its process is stopped"}
        if state_of(self.pid, now.state) == PAUSED:
            return {"why": "its container is paused"}
        if now.state == "t":
            time.sleep(TRACED)
            later = Stat(path)
            if later.state == "t" and later.ticks == now.ticks:
                return {"why": "its process is being traced"}
        return {}

    def row(self, before: "Look", begun: float) -> "dict[str, Any]":
        """All of it; empty when the process has ended meanwhile."""
        for thread in self.threads:
            thread.join(ANSWER_SECONDS + 1)
        now = Look(self.pid)
        if not now.stat.there or now.stat.start != before.stat.start:
            return {}
        row = now.since(before, time.monotonic() - begun)
        row.update(self.said)
        row["hook"] = self.hook
        return row
