# ruff: noqa: UP007, UP031, UP037, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""The program that distui runs on each host while a run lives: logs, exits and metrics through one channel.

The modules of this folder are sent over stdin to `python3 -c` (nothing is installed; see `bundle.py`), so they need
only Python 3.6 and its standard library and import nothing else of distui. Commands come as JSON lines on stdin;
answers go out as frames (see `wire`) after a greeting. The helper ends with its stdin, or after WATCHDOG seconds
without a command.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time

from distui.agent.helper.files import Tail, Wait
from distui.agent.helper.gpus import Gpus, Loop
from distui.agent.helper.pack import Packer
from distui.agent.helper.sources import Child, Request, Stream
from distui.agent.helper.wire import GREETING, Out
from distui.agent.metrics import Disks, boot_clock, boot_id, measure, measure_lower

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional, Union

WATCHDOG = 60
"""Seconds without a command (pings come every 15) after which the alarm ends a helper whose client vanished."""
LOOK = 0.05
"""Seconds between two looks at files."""
REST, SHORT_REST, SHORTEST = 0.010, 0.002, 0.00025
"""Rest after a pass with data, so that many small writes become one packet: usually, when much comes, and in full flow,
where the engine would wait for us: a unix socket holds some 280 small writes, which come in 1.7 ms and often at once.
"""
BUSY, BUSY_FOR = 12 * 1024, 0.1
"""After a pass of so many bytes rests are short for a while."""
MUCH, MANY, FLOW_FOR = 32 * 1024, 100, 0.005
"""After a pass of MUCH bytes or MANY lines in that while they are the shortest for a moment: flow that is full comes in
bursts.
"""
FULL_REST = 0.025
"""Between two writes in full flow, where nobody waits for a line: few and large ones."""
AGAIN = 0.05
"""Seconds after a sample from which the end of something that is read is worth another."""


class Helper:
    """The loop: commands in, frames out."""

    def __init__(self) -> None:
        self.out = Out()
        self.poll = selectors.DefaultSelector()
        self.live: "dict[int, Any]" = {}
        self.files: "dict[int, Union[Tail, Wait]]" = {}
        self.children: "list[Child]" = []
        self.socket = ""
        self.dial: "list[str]" = []
        self.commands = b""
        self.disks: "Optional[Disks]" = None
        self.gpus = Gpus()
        self.sampled_at = 0.0
        self.due = 0.0
        self.fast_until = 0.0
        self.flow_until = 0.0
        self.write_at = 0.0

    def run(self) -> None:
        """Greet, then serve until stdin ends."""
        signal.alarm(WATCHDOG)
        self.poll.register(0, selectors.EVENT_READ, None)
        os.write(1, GREETING + sys.argv[1].encode() + b"\n")
        self.hello(0)
        while True:
            self.one_pass()

    def hello(self, number: int) -> None:
        """Who and when we are; the answer to a ping too."""
        greeting = {"pid": os.getpid(), "wall": time.time(), "boot": boot_clock(), "boot_id": boot_id(), "ping": number}
        self.out.say(0, b"H", greeting)

    def one_pass(self) -> None:
        """Wait, take from each source once, write it all, rest."""
        events = self.poll.select(0 if self.out.waits() else self.poll_timeout())
        most = max([self.serve(key.data) for key, _ in events if self.is_current(key)] + [0])
        now = time.monotonic()
        most = max([most] + [self.step(ident, now) for ident in list(self.files)])
        if self.disks is not None and now >= self.due:
            self.sample(now)
        self.write(most, now)
        self.rest(most, now)

    def is_current(self, key: selectors.SelectorKey) -> bool:
        """Whether an event is not of a source that another one of the same pass has ended; numbers are used again."""
        now = self.poll.get_map().get(key.fd)
        return now is not None and now.data is key.data

    def poll_timeout(self) -> "Optional[float]":
        """How long to wait when nothing comes."""
        limits = [LOOK] if self.files else []
        if self.disks is not None:
            limits.append(max(0.0, self.due - time.monotonic()))
        return min(limits) if limits else None

    def write(self, most: int, now: float) -> None:
        """Send what there is; in full flow only every so often, so that packets are large and few."""
        if most and now < min(self.fast_until, self.write_at):
            return
        self.out.flush()
        self.write_at = now + FULL_REST

    def rest(self, most: int, now: float) -> None:
        """Let small writes gather (see REST), unless the engine waits for us."""
        lines, self.out.lines = self.out.lines, 0
        flows = now < self.fast_until and (most >= MUCH or lines >= MANY)
        if flows:
            self.flow_until = now + FLOW_FOR
        if flows or most >= BUSY:
            self.fast_until = now + BUSY_FOR
        if most:
            time.sleep(SHORTEST if now < self.flow_until else SHORT_REST if now < self.fast_until else REST)

    def serve(self, source: "Any") -> int:
        """Take what one source has; the number of bytes."""
        if source is None:
            return self.take_commands()
        size = int(source.ready())
        if size >= 0:
            return size
        if isinstance(source, Loop):
            source.ended(self.end_child(source.child))
            return 0
        self.finish(source.ident)
        return 0

    def step(self, ident: int, now: float) -> int:
        """Look at one file; the number of bytes passed on."""
        try:
            end = self.files[ident].step(now)
        except OSError as error:
            end = {"error": error.strerror or str(error)}
        if isinstance(end, int):
            return end
        self.files.pop(ident).close()
        self.sample_again()
        self.out.say(ident, b"E", end)
        return 0

    def finish(self, ident: int) -> None:
        """A source ended by itself: say so."""
        source = self.live.pop(ident)
        self.unread(source.fd)
        self.sample_again()
        self.out.say(ident, b"E", source.end())

    def unread(self, fd: int) -> None:
        """Wait for this one no longer, if we did."""
        if fd in self.poll.get_map():
            self.poll.unregister(fd)

    def take_commands(self) -> int:
        """Carry out the whole lines that came; the end of stdin is the end of all."""
        data = os.read(0, 65536)
        if not data:
            self.leave()
        signal.alarm(WATCHDOG)
        lines = (self.commands + data).split(b"\n")
        self.commands = lines.pop()
        for line in lines:
            self.obey(json.loads(line.decode()))
        return 0

    def obey(self, command: "dict[str, Any]") -> None:
        """Carry out one command; what fails is said under its id."""
        ident = int(command.get("id", 0))
        try:
            getattr(self, "do_" + command["op"])(ident, command)
        except OSError as error:
            self.out.say(ident, b"E", {"error": error.strerror or str(error)})

    def do_setup(self, ident: int, command: "dict[str, Any]") -> None:
        """How to reach the engine: by socket, or through a child such as `docker system dial-stdio`."""
        self.socket, self.dial = command["socket"] or "", command["dial"]

    def do_ping(self, ident: int, command: "dict[str, Any]") -> None:
        """Show that we live, and our clocks."""
        self.hello(int(command.get("n", 0)))

    def do_metrics(self, ident: int, command: "dict[str, Any]") -> None:
        """Report once a second from now on."""
        self.disks = Disks(command["disks"])
        self.due = time.monotonic()

    def do_req(self, ident: int, command: "dict[str, Any]") -> None:
        """Send a GET to the engine."""
        ask = "GET %s HTTP/1.0\r\nHost: distui\r\n\r\n" % command["path"]
        packer = Packer() if command["packed"] else None
        if self.dial:
            child = self.spawn(Child(self.dial, ask.encode()))
            self.add(Request(self.out, ident, child.out, lambda: self.end_child(child), packer))
            return
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            sock.connect(self.socket)
            sock.sendall(ask.encode())
        except OSError:
            sock.close()
            raise
        self.add(Request(self.out, ident, sock.fileno(), lambda: close_socket(sock), packer))

    def do_exec(self, ident: int, command: "dict[str, Any]") -> None:
        """Run a command and pass on its stdout."""
        child = self.spawn(Child(command["argv"]))
        self.add(Stream(self.out, ident, child.out, lambda: self.end_child(child)))

    def do_tail(self, ident: int, command: "dict[str, Any]") -> None:
        """Follow a file from an offset."""
        self.files[ident] = Tail(self.out, ident, command["path"], command["offset"])

    def do_wait(self, ident: int, command: "dict[str, Any]") -> None:
        """Wait for an exit file."""
        self.files[ident] = Wait(command["path"])

    def do_finish(self, ident: int, command: "dict[str, Any]") -> None:
        """The file of this tail is complete: read to its end, then end."""
        tail = self.files.get(ident)
        if isinstance(tail, Tail):
            tail.finish = True

    def do_cancel(self, ident: int, command: "dict[str, Any]") -> None:
        """Stop without a word; an id that has ended already is no error."""
        if ident in self.files:
            self.files.pop(ident).close()
        source = self.live.pop(ident, None)
        if source is not None:
            self.unread(source.fd)
            source.end()

    def add(self, source: "Any") -> None:
        """Read from this source from now on."""
        self.live[source.ident] = source
        self.poll.register(source.fd, selectors.EVENT_READ, source)

    def spawn(self, child: Child) -> Child:
        """Look after a child that lives no longer than we do."""
        self.children.append(child)
        self.poll.register(child.err, selectors.EVENT_READ, Errors(self, child))
        return child

    def end_child(self, child: "Optional[Child]") -> "dict[str, Any]":
        """Close a child and forget it."""
        assert child is not None
        self.children.remove(child)
        for fd in (child.out, child.err):
            self.unread(fd)
        return child.close()

    def sample(self, now: float) -> None:
        """Send one M frame."""
        self.due = max(self.due + 1.0, now + 0.5)
        for loop in self.gpus.start(now):
            child = loop.child
            assert child is not None
            self.spawn(child)
            self.poll.register(child.out, selectors.EVENT_READ, loop)
        self.report(now)

    def sample_again(self) -> None:
        """What ended may be a task's: what it sent since the last sample is reported before its end."""
        now = time.monotonic()
        if self.disks is not None and now - self.sampled_at >= AGAIN:
            self.report(now)

    def report(self, now: float) -> None:
        """Measure, and send what was measured."""
        measured = measure(self.disks.measure() if self.disks is not None else {})
        measured["gpus"] = self.gpus.report()
        if not self.sampled_at:  # it seldom changes
            measured["lower"] = measure_lower()
        self.sampled_at = now
        self.out.say(0, b"M", measured)

    def leave(self) -> None:
        """End at once, and the children with us."""
        for child in self.children:
            child.process.terminate()
        os._exit(0)


def close_socket(sock: socket.socket) -> "dict[str, Any]":
    """Close it; a socket has nothing to say at its end."""
    sock.close()
    return {}


class Errors:
    """A child's stderr."""

    def __init__(self, helper: Helper, child: Child) -> None:
        self.helper, self.child = helper, child

    def ready(self) -> int:
        """Keep its end; stop looking once it is closed."""
        if not self.child.take_errors():
            self.helper.unread(self.child.err)
        return 0


def main() -> None:
    """Run until the client goes; what goes wrong is said on stderr in one line."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    helper = Helper()
    try:
        helper.run()
    except BrokenPipeError:
        helper.leave()
    except Exception as error:
        sys.stderr.write("distui helper: %s: %s\n" % (type(error).__name__, error))
        raise
