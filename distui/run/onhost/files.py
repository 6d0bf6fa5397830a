# ruff: noqa: PTH112, PTH116, PTH120, PTH123, UP007, UP031
# Python 3.6 runs this, and every import costs a start on the host.
"""What the helper has to look at again and again: logs that are files, and a process's exit file."""

import os
import time

from distui.run.onhost.wire import READ, Out

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Union


class Tail:
    """A file read from a byte offset, and on as it grows, until told to finish."""

    def __init__(self, out: Out, ident: int, path: str, offset: int) -> None:
        self.out, self.ident, self.path, self.offset = out, ident, path, offset
        self.fd = -1
        self.finish = False
        self.looked = 0.0

    def step(self, now: float) -> "Union[int, dict[str, Any]]":
        """Pass on what is new: the number of bytes, or what to say at the end."""
        finish = self.finish
        if self.fd < 0 and not self.open():
            return {"missing": True} if finish else 0
        data = os.read(self.fd, READ)
        if data:
            self.offset += len(data)
            self.out.frame(self.ident, b"D", data)
            return len(data)
        if finish:
            return {"offset": self.offset}
        return self.look(now)

    def open(self) -> bool:
        """Whether the file is there."""
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            os.lseek(self.fd, self.offset, os.SEEK_SET)
        except FileNotFoundError:
            return False
        return True

    def look(self, now: float) -> "Union[int, dict[str, Any]]":
        """Once a second: whether somebody cut or replaced the file."""
        if now - self.looked < 1:
            return 0
        self.looked = now
        mine = os.fstat(self.fd)
        if mine.st_size < self.offset:
            return {"error": "truncated", "size": mine.st_size}
        try:
            there = os.stat(self.path)
        except OSError:
            return {"missing": True}
        return 0 if there.st_ino == mine.st_ino else {"error": "replaced"}

    def close(self) -> None:
        """Let go of the file."""
        if self.fd >= 0:
            os.close(self.fd)


class Wait:
    """Waits for a process's exit file, or for the news that it will never come."""

    def __init__(self, path: str, pid_path: str) -> None:
        self.path, self.pid_path = path, pid_path
        self.dead_since = 0.0

    def step(self, now: float) -> "Union[int, dict[str, Any]]":
        """0 while it lives, else how it ended."""
        try:
            with open(self.path) as file:
                return {"exit": file.read()}
        except FileNotFoundError:
            pass
        if not os.path.isdir(os.path.dirname(self.path)):
            return {"gone": True}
        if alive(self.pid_path):
            self.dead_since = 0.0
        elif not self.dead_since:
            self.dead_since = now
        elif now - self.dead_since > 2:
            return {"lost": True}
        return 0

    def close(self) -> None:
        """Nothing is held."""


def alive(pid_path: str) -> bool:
    """Whether the process of this pid file lives: same pid, not a zombie, and not younger than the file."""
    try:
        with open(pid_path) as file:
            pid = int(file.read())
        written = os.stat(pid_path).st_mtime
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(")")[2].split()
        with open("/proc/uptime") as file:
            booted = time.time() - float(file.read().split()[0])
    except (OSError, ValueError):
        return False
    started = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0] != "Z" and started < written + 5
