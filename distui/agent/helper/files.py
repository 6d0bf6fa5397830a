# ruff: noqa: PTH112, PTH116, PTH120, UP007, UP031
# Python 3.6 runs this, and every import costs a start on the host.
"""What the helper has to look at again and again: logs that are files, and a process's exit file."""

import os
import stat

from distui.agent.helper.wire import READ, Out

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Union


class Tail:
    """A file read from a byte offset, and on as it grows, until asked to finish."""

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
            self.fd = open_file(self.path)
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
        except FileNotFoundError:  # any other error says nothing about the file
            return {"missing": True}
        return 0 if there.st_ino == mine.st_ino else {"error": "replaced"}

    def close(self) -> None:
        """Let go of the file."""
        if self.fd >= 0:
            os.close(self.fd)


class Wait:
    """Waits for a process's exit file, or for the news that it will never come."""

    def __init__(self, path: str) -> None:
        self.path, self.folder = path, os.path.dirname(path)
        self.dead_since = 0.0

    def step(self, now: float) -> "Union[int, dict[str, Any]]":
        """0 while it lives, else how it ended."""
        try:
            return {"exit": text(self.path)}
        except FileNotFoundError:
            pass
        if not os.path.isdir(self.folder):
            return {"gone": True}
        if alive(self.folder) or kept(self.folder):
            self.dead_since = 0.0
        elif not self.dead_since:
            self.dead_since = now
        elif now - self.dead_since > 2:
            return {"lost": True}
        return 0

    def close(self) -> None:
        """Nothing is held."""


def alive(folder: str) -> bool:
    """Whether a task's program lives: the boot and the start time are those of its `ident`, not only the pid.

    No clock and no file time is read, so neither a step of the clock nor a touched file can end a task.
    """
    try:
        pid = int(text(folder + "/pid"))
        start, boot = text(folder + "/ident").split()
        fields = text("/proc/%d/stat" % pid).rpartition(")")[2].split()
        return fields[0] not in "ZX" and fields[19] == start and boot == text("/proc/sys/kernel/random/boot_id").strip()
    except (OSError, ValueError, IndexError):
        return False


def kept(folder: str) -> bool:
    """Whether the task's supervisor lives: it may be about to write the exit file."""
    try:
        keeper = int(text(folder + "/keeper"))
        return folder in text("/proc/%d/cmdline" % keeper)
    except (OSError, ValueError):
        return False


def text(path: str) -> str:
    """A small file as text, whatever its bytes are."""
    with open(open_file(path), errors="surrogateescape") as file:
        return file.read(65536)


def open_file(path: str) -> int:
    """A descriptor of a file; whatever else lies there is refused, and never waited for, as a FIFO would be."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(22, "is no regular file")
    return fd
