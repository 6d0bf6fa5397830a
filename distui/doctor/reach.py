"""Proof that the hosts of a run reach each other on the addresses the plan chose.

Every host listens on its own data address - rank 0's host on the rendezvous port, the others on a port the kernel
picks, as gloo and NCCL do - and connects to every other host. So a firewall, a wrong interface, a taken port or an
address that is not the host's own is found before a container starts, and not after a time-out of minutes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from distui.errors import HostCommandError, HostError
from distui.facts.values import loads
from distui.frozen import frozen
from distui.plan.network.rendezvous import bracketed
from distui.session import ByteChannel, Session

_GREETING = b"DISTUI-REACH:"
_LONGEST = 1_000_000
"""Bytes of an answer's line."""

SLACK = 20.0
"""Seconds beyond the time-outs of the connections themselves: for starting python3 on a slow host."""

PROGRAM = r"""
import collections, json, signal, socket, sys, threading, time
signal.alarm(60)

def say(value):
    sys.stdout.write("DISTUI-REACH:" + json.dumps(value) + "\n")
    sys.stdout.flush()

def listen(addr, port):
    family = socket.AF_INET6 if ":" in addr else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((addr, port))
    server.listen(256)
    return server

# Connections that nobody takes fill the kernel's queue, which holds 128 on older ones: later peers would wait in vain.
# A peer closes its own first, as a rule: the port of whoever does can't be listened on at once by every program.
def welcome(server):
    latest = collections.deque(maxlen=128)
    while True:
        try:
            latest.append(server.accept()[0])
        except OSError:
            time.sleep(0.1)

def try_peer(peer, source, timeout, results):
    name, addr, port = peer
    begun = time.monotonic()
    try:
        socket.create_connection((addr, port), timeout, (source, 0)).close()
        results[name] = "", (time.monotonic() - begun) * 1000
    except OSError as exc:
        results[name] = exc.strerror or str(exc) or type(exc).__name__, None

ask = json.loads(sys.stdin.readline())
try:
    servers = []
    for port in [ask["port"]] + ask["also"]:
        servers.append(listen(ask["addr"], port))
        threading.Thread(target=welcome, args=(servers[-1],), daemon=True).start()
    say({"port": servers[0].getsockname()[1]})
except OSError as exc:
    say({"error": exc.strerror or str(exc), "errno": exc.errno, "port_asked": port})
    sys.exit(0)
go = json.loads(sys.stdin.readline())
results = {}
rest = (ask["addr"], go["timeout"], results)
threads = [threading.Thread(target=try_peer, args=(p,) + rest, daemon=True) for p in go["peers"]]
for t in threads: t.start()
for t in threads: t.join(go["timeout"] + 2)
say({"peers": results})
sys.stdin.read()
"""


@frozen
class Endpoint:
    """Where one host takes part: its data address and the port it must listen on (0: any)."""

    host: str
    addr: str
    port: int = 0
    also: tuple[int, ...] = ()
    """More ports that must be free there."""


@frozen
class ReachProblem:
    """A pair that does not reach each other, or a host that can't listen (`peer` is then empty)."""

    host: str
    peer: str
    message: str
    """What is wrong; of a pair why, as the host's kernel says it."""
    hint: str = ""
    port: int = 0
    """The port that somebody else listens on there."""
    addr: str = ""
    """Of a pair: from which address, to which address and port."""
    peer_addr: str = ""
    peer_port: int = 0


@frozen
class Reached:
    """What became of one connection: an error in words, or the milliseconds it took."""

    error: str = ""
    ms: float | None = None


@frozen
class ReachReport:
    """What the proof found. `unproved` names hosts without python3, where nothing could be tried."""

    problems: tuple[ReachProblem, ...]
    pairs: int
    unproved: tuple[str, ...] = ()
    table: Mapping[str, Mapping[str, Reached]] = field(default_factory=dict, compare=False)
    """Host -> peer -> what became of it; hosts that could not listen or try have no row."""
    hosts: int = field(default=0, compare=False)
    """How many took part, those where nothing could be tried included."""

    @property
    def possible(self) -> int:
        """The pairs there are, each in both directions."""
        return self.hosts * (self.hosts - 1)


async def prove(sessions: Mapping[str, Session], endpoints: Sequence[Endpoint], *, timeout: float = 4.0) -> ReachReport:
    """Try every pair of hosts at once; takes about `timeout` seconds when something does not answer."""
    limit = timeout * 2 + SLACK
    trials = [_Trial(sessions[e.host], e) for e in endpoints]
    try:
        async with asyncio.timeout(limit):
            await _try_all(trials, timeout)
    except TimeoutError:
        for trial in trials:
            trial.give_up(limit)
    finally:
        await asyncio.gather(*(t.close() for t in trials))
    return _report(trials)


async def _try_all(trials: Sequence[_Trial], timeout: float) -> None:
    await asyncio.gather(*(t.listen() for t in trials))
    listening = [t for t in trials if t.port]
    await asyncio.gather(*(t.connect([p for p in listening if p is not t], timeout) for t in listening))


class _Trial:
    """One host's part of the proof."""

    def __init__(self, session: Session, endpoint: Endpoint) -> None:
        self.session = session
        self.endpoint = endpoint
        self.port = 0
        self.problem: ReachProblem | None = None
        self.unproved = False
        self.results: Mapping[str, Reached] = {}
        self._asked = False
        self._heard = False
        """Whether the program there ever said something."""
        self._channel: ByteChannel | None = None
        self._buffer = bytearray()
        self._searched = 0

    async def listen(self) -> None:
        """Start the program and have it listen; notes what goes wrong."""
        code = PROGRAM.encode()
        boot = f"import sys;exec(sys.stdin.buffer.read({len(code)}).decode())"
        self._asked = True
        try:
            self._channel = await self.session.open(("python3", "-I", "-S", "-c", boot))
            ask = {"addr": self.endpoint.addr, "port": self.endpoint.port, "also": self.endpoint.also}
            await self._channel.write(code + json.dumps(ask).encode() + b"\n")
            answer = await self._answer()
        except HostError as exc:
            self._failed(exc)
            return
        if "port" in answer:
            self.port = int(answer["port"])
        else:
            self.problem = self._cannot_listen(str(answer.get("error", "no answer")), answer.get("port_asked"))

    def give_up(self, seconds: float) -> None:
        """Time is up: a host that was asked and has not answered is a problem."""
        if self._asked:
            name = self.endpoint.host
            message = f"did not answer the reachability check within {seconds:.0f} s"
            hint = f"is {name} overloaded" + (
                "?" if self._heard else f", or its python3 broken? `ssh {name} python3 -V`"
            )
            self.problem = ReachProblem(name, "", message, hint)

    def _failed(self, exc: HostError) -> None:
        self._asked = False
        if exc.code == "no_python":
            self.unproved = True
        else:
            self.problem = ReachProblem(self.endpoint.host, "", exc.message, exc.hint)

    def _cannot_listen(self, error: str, port: int | None) -> ReachProblem:
        port = port or self.endpoint.port
        where = f"{bracketed(self.endpoint.addr)}:{port}" if port else self.endpoint.addr
        key = "roles.NAME.port" if self.endpoint.also else "`master_port:` or --master-port"
        taken = "in use" in error.lower()
        hint = f"pick another with {key}" if taken else ""
        return ReachProblem(self.endpoint.host, "", f"can't listen on {where}: {error}", hint, port if taken else 0)

    async def connect(self, peers: Sequence[_Trial], timeout: float) -> None:
        """Connect to all peers from this host's data address."""
        assert self._channel is not None
        self._asked = True
        go = {"peers": [(p.endpoint.host, p.endpoint.addr, p.port) for p in peers], "timeout": timeout}
        try:
            await self._channel.write(json.dumps(go).encode() + b"\n")
            self.results = self._reached((await self._answer()).get("peers"))
        except HostError as exc:
            self._failed(exc)

    def _reached(self, answer: Any) -> dict[str, Reached]:
        """What the program tells of its peers. Raises HostCommandError."""
        try:
            pairs = {str(name): (str(error), ms) for name, (error, ms) in answer.items()}
            return {name: Reached(error, None if ms is None else float(ms)) for name, (error, ms) in pairs.items()}
        except (ValueError, TypeError, AttributeError) as exc:
            raise self._unreadable() from exc

    def _unreadable(self) -> HostCommandError:
        return HostCommandError(self.endpoint.host, "the reachability check's answer can't be read", code="rubbish")

    async def _answer(self) -> dict[str, Any]:
        """The program's next line; a login shell's chatter before it is passed over."""
        assert self._channel is not None
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                if (start := line.find(_GREETING)) >= 0:
                    self._heard = True
                    return self._read(line[start + len(_GREETING) :])
                continue
            more = await self._channel.read()
            if not more:
                raise await self._ended()
            if len(self._buffer) > _LONGEST:  # no answer has such a line
                self._buffer.clear()
            self._searched = len(self._buffer)
            self._buffer += more

    def _read(self, line: bytes) -> dict[str, Any]:
        self._asked = False
        try:
            return dict(loads(line))
        except (ValueError, TypeError) as exc:
            raise self._unreadable() from exc

    async def _ended(self) -> HostCommandError:
        assert self._channel is not None
        status = await self._channel.wait()
        words = self._channel.stderr_tail().decode("utf-8", "replace").strip().splitlines()
        said = words[-1] if words else f"exit {status}"
        code = "no_python" if status == 127 else "command"
        return HostCommandError(self.endpoint.host, f"the reachability check ended early: {said}", code=code)

    async def close(self) -> None:
        """End the program on the host."""
        if self._channel is not None:
            await self._channel.close()


def _report(trials: Sequence[_Trial]) -> ReachReport:
    problems = [t.problem for t in trials if t.problem is not None]
    by_host = {t.endpoint.host: t for t in trials}
    for trial in trials:
        for peer, reached in sorted(trial.results.items()):
            if reached.error and peer in by_host:
                problems.append(_unreachable(trial, by_host[peer], reached.error))
    pairs = sum(len(t.results) for t in trials)
    table = {t.endpoint.host: t.results for t in trials if t.results}
    return ReachReport(tuple(problems), pairs, tuple(t.endpoint.host for t in trials if t.unproved), table, len(trials))


def _unreachable(trial: _Trial, peer: _Trial, error: str) -> ReachProblem:
    hint = "a firewall or a wrong interface: pin it with `data: {ifname: ...}` in hosts.yaml or `fabric:` in the job"
    ours, theirs = trial.endpoint, peer.endpoint
    return ReachProblem(ours.host, theirs.host, error, hint, 0, ours.addr, theirs.addr, peer.port)
