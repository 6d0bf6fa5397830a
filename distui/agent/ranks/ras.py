# ruff: noqa: PTH116, UP031
# Python 3.6 runs this, and every import costs a start on the host.
"""NCCL's RAS threads of the tasks on a host: where they listen, and what they answer.

Each listens on the loopback interface of its task's network: that of the host, or that of its container, where a Python
is started to ask. A port on which nobody listens is not asked.
"""

import json
import os
import re
import socket
import subprocess
import threading
import time

from distui.agent.ranks.processes import environment, read
from distui.agent.ranks.ras_talk import samples

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any

PORT = 28028
"""Of RAS on localhost, where NCCL_RAS_ADDR names nothing else (NCCL's src/ras/ras_internal.h)."""
NAMES = ("NCCL_RAS_ADDR", "NCCL_RAS_ENABLE")
MOST_PIDS, MOST_NETWORKS, MOST_PORTS, MOST_ADDRESSES = 16, 16, 4, 64
"""Processes of a task whose environment is read; networks; ports of one; its addresses."""
START_SECONDS = 3
"""What a Python in a container may take for its start, beside the asking."""
LISTENS = "0A"
"""The state of a socket that listens, in /proc/net/tcp."""


class Networks:
    """The networks of all tasks, asked beside everything else that is asked."""

    def __init__(self, found: "list[tuple[dict[str, Any], list[int]]]", asked: "dict[str, Any]") -> None:
        self.begun = time.monotonic()
        self.by_key = {}  # type: dict[int, Network]
        for task, pids in found:
            key = network_of("/proc/%d" % pids[0]) if pids else 0
            if key and (key in self.by_key or len(self.by_key) < MOST_NETWORKS):
                self.by_key.setdefault(key, Network(task["id"], pids[0])).add(task, pids)
        self.threads = [threading.Thread(target=one.ask, args=(asked,), daemon=True) for one in self.by_key.values()]
        for thread in self.threads:
            thread.start()

    def rows(self, seconds: float) -> "list[dict[str, Any]]":
        """What each answered, waited for no longer than that."""
        until = self.begun + seconds + START_SECONDS
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        return [one.row() for one in self.by_key.values()]


class Network:
    """A network with tasks in it: the host's, or a container's."""

    def __init__(self, container: str, pid: int) -> None:
        self.container, self.pid = container, pid
        self.tasks = []  # type: list[int]
        self.places = {}  # type: dict[tuple[str, int], None]
        self.addresses = own_addresses("/proc/%d" % pid)
        self.answers = []  # type: list[list[Any]]

    def add(self, task: "dict[str, Any]", pids: "list[int]") -> None:
        """A task of this network: its RAS may listen elsewhere than that of others."""
        self.tasks.append(task["task"])
        place = place_of(settings(task, pids), self.addresses)
        if place is not None and len(self.places) < MOST_PORTS:
            self.places[place] = None

    def ask(self, asked: "dict[str, Any]") -> None:
        """Ask at each port on which somebody listens."""
        for host, port in self.places:
            if not is_listened_to("/proc/%d" % self.pid, port):
                continue
            if network_of("/proc/self") == network_of("/proc/%d" % self.pid):
                self.answers.append(samples(host, port, asked["ras"]))
            elif self.container:
                self.answers.append(samples_inside(asked, self.container, host, port))

    def row(self) -> "dict[str, Any]":
        """Its tasks, its addresses, and the answers of each RAS in it."""
        return {"tasks": self.tasks, "addresses": self.addresses, "ras": [one for one in self.answers if one]}


def network_of(process: str) -> int:
    """Which network a process is in: the kernel numbers the files of each apart. 0 when it is gone."""
    try:
        return os.stat(process + "/net/dev").st_ino
    except OSError:
        return 0


def settings(task: "dict[str, Any]", pids: "list[int]") -> "dict[str, str]":
    """What is said of RAS in the environment of a task: of its processes where that may be read, else as planned."""
    found = dict(task.get("env", {}))
    for pid in pids[:MOST_PIDS]:
        for line in environment(pid):
            name, _, value = line.decode("utf-8", "replace").partition("=")
            if name in NAMES:
                found[name] = value
    return found


def place_of(env: "dict[str, str]", addresses: "list[str]") -> "Any":
    """Host and port of RAS as NCCL reads them; None where it is off, or would be somewhere else than here."""
    if env.get("NCCL_RAS_ENABLE", "1") != "1":
        return None
    host, _, port = env.get("NCCL_RAS_ADDR", "localhost:%d" % PORT).rpartition(":")
    host = host[1:-1] if host.startswith("[") else host
    if not re.match(r"[0-9]{1,5}\Z", port) or not 0 < int(port) < 65536:
        return None
    if host in ("localhost", "0.0.0.0", "::"):
        return "localhost", int(port)
    return (host, int(port)) if host in addresses else None


def is_listened_to(process: str, port: int) -> bool:
    """Whether anybody listens on a port, in the network of a process."""
    end = ":%04X" % port
    for name in ("/net/tcp", "/net/tcp6"):
        rows = [line.split() for line in read(process + name).splitlines()[1:]]
        if any(len(row) > 3 and row[3] == LISTENS and row[1].endswith(end) for row in rows):
            return True
    return False


def own_addresses(process: str) -> "list[str]":
    """The addresses of a process's network."""
    found, last = [], ""
    for line in read(process + "/net/fib_trie").splitlines():
        words = line.split()
        if words[-2:-1] == ["|--"]:
            last = words[-1]
        elif words == ["/32", "host", "LOCAL"] and last not in found:
            found.append(last)
    for line in read(process + "/net/if_inet6").splitlines():
        digits = line.partition(" ")[0]
        if len(digits) == 32:
            found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return found[:MOST_ADDRESSES]


def samples_inside(asked: "dict[str, Any]", container: str, host: str, port: int) -> "list[Any]":
    """The answers of a RAS in a container's own network, by a Python there; none where it has no Python."""
    argv = [*asked["engine"], "exec", "-i", container, "python3", "-I", "-S", "-", host, str(port), str(asked["ras"])]
    limit = asked["ras"] + START_SECONDS
    try:
        done = subprocess.run(
            argv, input=asked["ras_talk"].encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=limit
        )
        found = json.loads(done.stdout.decode("utf-8", "replace"))
    except (OSError, subprocess.TimeoutExpired, ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
