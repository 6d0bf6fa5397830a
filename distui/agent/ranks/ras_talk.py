# ruff: noqa: UP031
# Python 3.6 runs this, on hosts and in containers, and every import costs a start there.
"""Asks NCCL's RAS thread, which every program that uses NCCL 2.24 or later has, for the state of its communicators.

It listens on a port of the loopback interface for lines of text (NCCL's src/ras/client_support.cc). Only its status is
asked for, never what changes or watches anything. It is also a program of its own: address, port and seconds as
arguments, its answer as one line of JSON.
"""

import json
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any

SAMPLES, APART = 2, 1.0
"""How often it is asked, and seconds from one answer to the next: what goes on differs by then."""
LEG_SECONDS = 2
"""How long RAS waits for one of its threads that does not answer; 5 where nobody says so."""
LEAST_SECONDS = 0.3
"""With less time left it is not asked again."""
ANSWER_BYTES = 1 << 20
"""Of one answer. JSON has every rank; text, which is asked for where that is too long, only those that differ."""
LINE_BYTES = 4096


class TooMuch(ValueError):
    """An answer that does not end."""


def main() -> None:
    """Answer, and end."""
    host, port, seconds = sys.argv[1:4]
    signal.alarm(int(float(seconds)) + 5)
    sys.stdout.write(json.dumps(samples(host, int(port), float(seconds))) + "\n")


def samples(host: str, port: int, seconds: float) -> "list[list[Any]]":
    """Some answers, each with the second since 1970 at which it came; fewer where there is no RAS, or no time."""
    until = time.monotonic() + seconds
    found = []  # type: list[list[Any]]
    while len(found) < SAMPLES and until - time.monotonic() > LEAST_SECONDS:
        try:
            text = status(host, port, until)
        except (OSError, ValueError):
            break
        found.append([time.time(), text])
        if len(found) < SAMPLES:
            time.sleep(max(0.0, min(APART, until - time.monotonic())))
    return found


def status(host: str, port: int, until: float) -> str:
    """One answer: JSON from NCCL 2.28.7 on, text from older ones. Raises OSError, ValueError."""
    try:
        return ask(host, port, until, as_json=True)
    except TooMuch:
        return ask(host, port, until, as_json=False)


def ask(host: str, port: int, until: float, as_json: bool) -> str:
    """The same in one of the two forms, where it is known. Raises OSError, ValueError."""
    talk = Talk(host, port, until)
    try:
        if not talk.said("CLIENT PROTOCOL 2").startswith("SERVER PROTOCOL "):
            raise ValueError("it is not NCCL that listens there")
        talk.said("TIMEOUT %d" % LEG_SECONDS)
        known = as_json and talk.said("SET FORMAT json") == "OK"
        talk.say("STATUS" if known else "VERBOSE STATUS")
        return talk.rest()
    finally:
        talk.sock.close()


class Talk:
    """One connection, bounded in bytes and seconds."""

    def __init__(self, host: str, port: int, until: float) -> None:
        self.until, self.read = until, b""
        self.sock = self.connect(host, port)

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection; what listens on "localhost" may do so with either family. Raises OSError, ValueError."""
        if host != "localhost":
            return socket.create_connection((host, port), self.left())
        try:
            return socket.create_connection(("127.0.0.1", port), self.left())
        except OSError:
            return socket.create_connection(("::1", port), self.left())

    def left(self) -> float:
        """Seconds that are left. Raises ValueError when none are."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise ValueError("no whole answer in time")
        return left

    def say(self, line: str) -> None:
        """Send a line."""
        self.sock.settimeout(self.left())
        self.sock.sendall(line.encode() + b"\n")

    def said(self, line: str) -> str:
        """The line that answers one."""
        self.say(line)
        while b"\n" not in self.read:
            if len(self.read) > LINE_BYTES or not self.more():
                raise ValueError("no answer")
        answer, _, self.read = self.read.partition(b"\n")
        return answer.decode("utf-8", "replace").strip()

    def rest(self) -> str:
        """All that comes until the other end closes."""
        parts, size = [self.read], len(self.read)
        while True:
            self.read = b""
            if not self.more():
                return b"".join(parts).decode("utf-8", "replace")
            parts.append(self.read)
            size += len(self.read)
            if size > ANSWER_BYTES:
                raise TooMuch("an answer of more than %d bytes" % ANSWER_BYTES)

    def more(self) -> bool:
        """Read what has come; False at the end."""
        self.sock.settimeout(self.left())
        data = self.sock.recv(1 << 16)
        self.read += data
        return bool(data)


if __name__ == "__main__":
    main()
