# ruff: noqa: SIM105, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""What the helper reads by waiting for it: the engine's socket and children's pipes."""

import os
import signal
import subprocess

from distui.agent.helper.pack import Packer
from distui.agent.helper.wire import READ, Out

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from collections.abc import Callable
    from typing import Any, Optional


HEAD_LIMIT = 64 * 1024
"""Bytes of an answer's head that are waited for; an engine's are some hundred."""


class Request:
    """One HTTP/1.0 request: HTTP/1.1 would chunk each line, and 1.0 ends with the connection."""

    def __init__(
        self, out: Out, ident: int, fd: int, close: "Callable[[], dict[str, Any]]", packer: "Optional[Packer]" = None
    ) -> None:
        self.out, self.ident, self.fd, self.close, self.packer = out, ident, fd, close, packer
        self.head = b""
        self.held: list[bytes] = []
        """Parts of the body that are said when all is written."""
        self.size = 0
        self.in_body = False
        self.error = "the engine closed the connection without an answer"

    def ready(self) -> int:
        """Take what came; the number of bytes, -1 at the end."""
        try:
            data = os.read(self.fd, READ)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.say_held()
            self.pass_on(self.packer.rest if self.packer else b"")
            return -1
        if self.in_body:
            self.take_body(data)
            return len(data)
        return self.take_head(data)

    def take_body(self, data: bytes) -> None:
        """Hold it until all is written, or it is much."""
        if not self.held:
            self.out.late.append(self)
        self.held.append(data)
        self.size += len(data)
        self.out.lines = max(self.out.lines, data.count(b"\n"))
        if self.size >= READ:
            self.say_held()

    def say_held(self) -> None:
        """Pass on what is held, packed when that was asked for."""
        data, self.held, self.size = b"".join(self.held), [], 0
        self.pass_on(self.packer.pack(data) if self.packer else data)

    def pass_on(self, data: bytes) -> None:
        """Say it, if it is anything."""
        if data:
            self.out.frame(self.ident, b"D", data)

    def take_head(self, data: bytes) -> int:
        """Look for the end of the head and pass on its first line; -1 when it has none."""
        self.head += data
        head, found, body = self.head.partition(b"\r\n\r\n")
        if not found and len(self.head) > HEAD_LIMIT:
            self.error = "the engine's answer has no end of its head"
            return -1
        if not found:
            return len(data)
        self.in_body = True
        self.out.frame(self.ident, b"S", head.split(b"\r\n")[0])
        self.take_body(body)
        return len(data)

    def end(self) -> "dict[str, Any]":
        """What to say at the end."""
        closed = self.close()
        if self.in_body:
            return {}
        return {"error": closed.get("stderr") or self.error}


class Stream:
    """A child's stdout, passed on as it comes."""

    def __init__(self, out: Out, ident: int, fd: int, close: "Callable[[], dict[str, Any]]") -> None:
        self.out, self.ident, self.fd, self.end = out, ident, fd, close

    def ready(self) -> int:
        """Pass on what came; the number of bytes, -1 at the end."""
        try:
            data = os.read(self.fd, READ)
        except BlockingIOError:
            return 0
        if data:
            self.out.frame(self.ident, b"D", data)
        return len(data) or -1


class Child:
    """A command whose output we read. It dies with us: by the kernel's hand, or since its pipes close."""

    def __init__(self, argv: "list[str]", stdin: bytes = b"") -> None:
        pipe = subprocess.PIPE
        self.errors = b""
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=die_with_parent())
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.pipes = [self.process.stdin, self.process.stdout, self.process.stderr]
        self.out, self.err = self.process.stdout.fileno(), self.process.stderr.fileno()
        os.set_blocking(self.out, False)
        os.set_blocking(self.err, False)
        try:
            os.write(self.process.stdin.fileno(), stdin)
        except BrokenPipeError:  # it has ended: what it said tells why
            pass

    def take_errors(self) -> bool:
        """Read some stderr and keep its end: unread, it would stall the child. False when it is closed."""
        try:
            data = os.read(self.err, 65536)
        except BlockingIOError:
            return True
        self.errors = (self.errors + data)[-4096:]
        return bool(data)

    def close(self) -> "dict[str, Any]":
        """End it and say how it ended."""
        self.pipes[0].close()
        try:
            self.process.wait(0.2)
        except subprocess.TimeoutExpired:
            self.process.terminate()
        self.take_errors()
        for pipe in self.pipes:
            pipe.close()
        text = self.errors.decode("utf-8", "replace").strip()
        return {"status": self.process.poll(), "stderr": text}


def die_with_parent() -> "Optional[Callable[[], None]]":
    """What a child calls before exec so that the kernel kills it when we die; None where there is no such thing."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return lambda: prctl(1, signal.SIGKILL)
