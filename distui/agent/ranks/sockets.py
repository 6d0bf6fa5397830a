# ruff: noqa: PTH115, PTH123, PTH208, UP031, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""The TCP connections of a task's processes, looked at twice: what waits in them, and whether anything answers.

From /proc/PID/net, which every login may read, also of a container with a network of its own. Whose a connection is
stands in the process's open files, which only its own user may read: where those can't be, connections in which
something waits are reported without their owner. What `ss` counts is added where there is one, of the host's own
network.
"""

import os
import socket
import struct
import threading

from distui.agent.ranks.connections import connections
from distui.agent.ranks.ras import network_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

MOST_ROWS, MOST_NETWORKS, MOST_FILES, MOST_BYTES = 128, 16, 16384, 4 << 20
"""Connections that are reported; networks; open files that are looked at; bytes of one of the kernel's lists."""
COUNT_SECONDS = 1.0
"""How long `ss` is waited for, beside everything else that is asked."""
ESTABLISHED = "01"
RESENDS, PROBES = "01", "04"
"""What a connection's timer is for: to send again what was not confirmed; to ask whether there is room again."""


class Sockets:
    """Two looks, and between them whatever else is asked."""

    def __init__(self, pids: "list[int]") -> None:
        self.networks = {}  # type: dict[int, int]
        for pid in pids:
            key = network_of("/proc/%d" % pid)
            if key and len(self.networks) < MOST_NETWORKS:
                self.networks.setdefault(key, pid)
        self.owners, self.hidden = owners(pids)
        self.counts = {}  # type: dict[tuple[str, str], dict[str, float]]
        self.counting = threading.Thread(target=self.count, daemon=True)
        self.counting.start()
        self.before = self.look()

    def count(self) -> None:
        """What `ss` counted since each was opened."""
        self.counts = connections()

    def look(self) -> "dict[tuple[int, str], Socket]":
        """Each connection by its network and its number."""
        found = {}  # type: dict[tuple[int, str], Socket]
        for key, pid in self.networks.items():
            for name in ("tcp", "tcp6"):
                for line in lines("/proc/%d/net/%s" % (pid, name)):
                    one = parsed(line)
                    if one is not None and self.is_ours(one):
                        found[key, one.inode] = one
        return found

    def is_ours(self, one: "Socket") -> bool:
        """Whether it is a process's of ours, or may be."""
        return one.inode in self.owners or (self.hidden and one.queued > 0)

    def rows(self) -> "list[list[Any]]":
        """Of each: process, own end, peer, bytes that waited to be sent or confirmed at both looks, bytes that nobody
        has read, how often it was tried in vain, whether the peer has no room, segments sent and sent again so far.
        """
        now = self.look()
        self.counting.join(COUNT_SECONDS)
        here = network_of("/proc/self")
        found = []  # type: list[list[Any]]
        for (key, inode), one in now.items():
            before = self.before.get((key, inode))
            count = self.counts.get((one.own, one.peer), {}) if key == here else {}
            found.append(
                [self.owners.get(inode, 0), one.own, one.peer, before.queued if before is not None else 0, one.queued,
                 one.unread, one.tries, one.full, count.get("data_segs_out"), count.get("retrans")]
            )  # fmt: skip
        return sorted(found, key=lambda row: (-row[6], -row[4], -row[5]))[:MOST_ROWS]


class Socket:
    """One connection, by its line."""

    def __init__(self, words: "list[str]") -> None:
        self.own, self.peer, self.inode = address(words[1]), address(words[2]), words[9]
        waits, _, unread = words[4].partition(":")
        timer = words[5].partition(":")[0]
        self.queued, self.unread = int(waits, 16), int(unread, 16)
        self.full = timer == PROBES
        self.tries = int(words[6], 16) if timer == RESENDS else int(words[8]) if self.full else 0


def parsed(line: str) -> "Optional[Socket]":
    """A connection that stands; None for anything else (`get_tcp4_sock` of Linux's tcp_ipv4.c)."""
    words = line.split()
    if len(words) < 10 or words[3] != ESTABLISHED:
        return None
    try:
        return Socket(words)
    except (ValueError, OSError, struct.error):
        return None


def address(word: str) -> str:
    """`0100007F:1F90` as `127.0.0.1:8080`: words of 32 bits as this machine has them in its memory."""
    digits, _, port = word.partition(":")
    packed = b"".join(struct.pack("=I", int(digits[at : at + 8], 16)) for at in range(0, len(digits), 8))
    if packed[:12] == bytes(10) + b"\xff\xff":
        packed = packed[12:]
    place = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    return "%s:%d" % (place, int(port, 16))


def lines(path: str) -> "list[str]":
    """The kernel's list without its head; none where it can't be read."""
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES).decode("ascii", "replace").splitlines()[1:]
    except OSError:
        return []


def owners(pids: "list[int]") -> "tuple[dict[str, int], bool]":
    """The number of each socket that one of these processes has open -> the process, and whether one does not tell."""
    found, hidden, left = {}, False, MOST_FILES  # type: dict[str, int], bool, int
    for pid in pids:
        folder = "/proc/%d/fd" % pid
        try:
            names = os.listdir(folder)[:left]
        except OSError as error:
            hidden = hidden or isinstance(error, PermissionError)
            continue
        left -= len(names)
        for name in names:
            try:
                target = os.readlink(folder + "/" + name)
            except OSError:
                continue
            if target.startswith("socket:["):
                found.setdefault(target[8:-1], pid)
    return found, hidden
