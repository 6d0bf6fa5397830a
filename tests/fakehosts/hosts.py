"""Hosts in memory behind distui's Connector: files, a Docker, and failures on demand."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from distui.errors import HostCommandError, HostError, SessionLost
from distui.session import Completed
from fakehosts.engine import FakeEngine

Answer = Completed | Exception | Callable[[tuple[str, ...]], Completed]


class FakeHost:
    """One host. `fails` maps a verb (see `verb_of`) to what happens instead; `gates` holds verbs up until set."""

    def __init__(self, name: str, home: str = "/home/u") -> None:
        self.name = name
        self.home = home
        self.files: dict[str, bytes] = {}
        self.engine = FakeEngine(name, self.files)
        self.ran: list[tuple[str, ...]] = []
        self.puts: list[tuple[str, bytes, int]] = []
        self.written: dict[str, float] = {}
        """When files were put there."""
        self.fails: dict[str, Answer] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.at: dict[str, asyncio.Event] = {}
        """Set when a verb that has a gate is reached."""
        self.logins = 0
        self.open_sessions = 0
        self.leases: dict[str, str] = {}
        """`gpu-0`, `port-29500` -> the claim of the launch that holds it."""
        self.marks: dict[str, str] = {}
        """File -> labels of a live task that anybody on the host may read."""
        self.kernel_log: list[str] = []
        """Lines about containers that were killed for lack of memory."""
        self.stale: set[str] = set()
        """Folders of runs that are minutes old."""
        self.python = True
        self.cannot_listen = ""
        self.unreachable: dict[str, str] = {}
        """Peer -> why it can't be reached from here."""
        self.news: asyncio.Queue[Any] = asyncio.Queue()
        self.clock_asked = 0
        """What the follower is to tell beside what the containers do."""

    @property
    def containers(self) -> list[Any]:
        """The engine's containers."""
        return self.engine.containers

    def verbs(self) -> list[str]:
        """What was done here, in order."""
        return [verb_of(argv) for argv in self.ran]

    def hold(self, verb: str) -> asyncio.Event:
        """Make `verb` wait; the event returned is set when it is reached, `gates[verb].set()` lets it go."""
        self.gates[verb] = asyncio.Event()
        self.at[verb] = asyncio.Event()
        return self.at[verb]

    async def step(self, verb: str, argv: tuple[str, ...]) -> Completed | None:
        """Record, wait, and fail as told; None to go on."""
        self.ran.append(argv)
        if verb in self.gates:
            self.at[verb].set()
            await self.gates[verb].wait()
        await asyncio.sleep(0)
        answer = self.fails.get(verb)
        if isinstance(answer, Exception):
            raise answer
        return answer(argv) if callable(answer) else answer

    async def run(self, argv: tuple[str, ...], data: bytes = b"") -> Completed:
        """One command, and its input."""
        if (answer := await self.step(verb_of(argv), argv)) is not None:
            return answer
        match argv:
            case ("docker", *_):
                return self.engine.run(argv)
            case ("rm", "-f", "--", path):
                self.files.pop(path, None)
            case ("cat", path):
                if path not in self.files:
                    return Completed(argv, 1, b"", f"cat: {path}: No such file or directory\n".encode())
                return Completed(argv, 0, self.files[path], b"")
            case ("sh", "-c", _, "distui-stopped", path):
                if path not in self.files:
                    return Completed(argv, 1, b"", b"")
                written = f"\n{self.written[path]}\n" if path in self.written else "\n"
                return Completed(argv, 0, self.files[path] + written.encode(), b"")
            case ("sh", "-c", _, "distui-memory", container):
                lines = [line for line in self.kernel_log if container in line]
                return Completed(argv, 0, "".join(f"{line}\n" for line in lines[-1:]).encode(), b"")
            case ("sh", "-c", _, "distui-say", path, text, _, _):
                if path not in self.files:
                    self.files[path] = text.encode()
                    self.puts.append((path, text.encode(), 0o600))
            case ("sh", "-c", script, "sh", folder, token, awaits_as) if "rm -rf" in script:
                names = ("launch", "launched") if token else ("launch",)
                claims = [self.files[path].decode() for n in names if (path := f"{folder}/{n}") in self.files]
                if all(token in claim.splitlines() for claim in claims):
                    if awaits_as and self._begun_by(folder, awaits_as):
                        return Completed(argv, 0, b"begins\n", b"")
                    waits = self._waiters(folder)
                    for path in [p for p in self.files if p.startswith(f"{folder}/")]:
                        del self.files[path]
                    return Completed(argv, 0, waits.encode(), b"")
            case ("sh", "-c", _, "distui-take", folder, claim, over, _):
                return Completed(argv, 0, self._take(folder, claim, over=over == "over").encode(), b"")
            case ("sh", "-c", _, "distui-hold", folder, token, over):
                return Completed(argv, 0 if self._holds(folder, token, over=over == "over") else 3, b"", b"")
            case ("sh", "-c", _, "distui-visit", folder, token, reader, act, _, gone, who, *tasks):
                said = self._visit(folder, token, reader, act, gone, who, tasks)
                return Completed(argv, 0, said.encode(), b"")
            case ("sh", "-c", _, "distui-record", folder, token, reader, _, _, gone, _, size):
                assert len(data) == int(size)
                return Completed(argv, 0, self._record(folder, token, reader, data, gone).encode(), b"")
            case ("sh", "-c", _, "distui-lease", _, claim, _, _, *things):
                return Completed(argv, 0, self._lease(claim, things).encode(), b"")
            case ("sh", "-c", _, "distui-taken", _, _, *gpus):
                output = [
                    (gpu, *self.leases[f"gpu-{gpu}"].splitlines()[:2]) for gpu in gpus if f"gpu-{gpu}" in self.leases
                ]
                return Completed(argv, 0, "".join("\t".join(one) + "\n" for one in output).encode(), b"")
            case ("sh", "-c", _, "distui-free", _, token, _):
                self.leases = {thing: claim for thing, claim in self.leases.items() if claim.splitlines()[2] != token}
            case ("sh", "-c", _, "distui-mark", file, labels, *_):
                self.marks[file] = labels
            case ("sh", "-c", _, "distui-marks", *_):
                return Completed(argv, 0, "".join(f"0 {labels}\n" for labels in self.marks.values()).encode(), b"")
            case ("sh", "-c", _, "distui-hook", *_):
                pass  # what ranks answer is asked of real ones
            case ("python3", "-I", "-S", "-c", _):
                return Completed(argv, 127, b"", b"python3: command not found\n")
            case ("sh", "-c", _, "distui-unmark", place, token):
                self.marks = {f: t for f, t in self.marks.items() if not f.startswith(f"{place}/distui-task-{token}.")}
            case ("sh", "-c", script) if "$HOME" in script:
                return Completed(argv, 0, self.home.encode(), b"")
            case _:
                raise AssertionError(f"{self.name} does not know {argv}")
        return Completed(argv, 0, b"", b"")

    def _holds(self, folder: str, token: str, *, over: bool) -> bool:
        """Whether a claim with this token is in the folder; `launched` once the launch is over."""
        paths = [f"{folder}/{name}" for name in ("launch", "launched")]
        found = next((p for p in paths if token in self.files.get(p, b"").decode().splitlines()), None)
        if over and found is not None:
            self.files[paths[1]] = self.files.pop(found)
        return found is not None

    def _visit(self, folder: str, token: str, reader: str, act: str, gone: str, who: str, tasks: Sequence[str]) -> str:
        """Readers' marks and the verdict in the run's folder, when it is that launch's.

        Who has a mark that says who that is goes on reading; one without is of somebody that was killed.
        """
        if not self._holds(folder, token, over=False):
            return "none\n"
        mark = f"{folder}/reader-{reader}"
        begins = f"{folder}/begins-{reader}"
        if act in ("mark", "begins"):
            self.files[mark] = who.encode()
            self.files.pop(begins, None)
            self.files |= {begins: b""} if act == "begins" else {}
        elif act == "await":
            self.files[f"{folder}/next-{reader}"] = b""
        elif act == "carry":
            self.files.setdefault(mark, b"carried\n")
        elif act in ("leave", "next"):
            self.files.pop(mark, None)
            self.files |= {f"{folder}/next-{reader}": b""} if act == "next" else {}
            self.files.pop(begins if act == "leave" else "", None)
        elif act == "unread":
            self.files[f"{folder}/unread-{reader}"] = " ".join(tasks).encode()
        others = [
            path
            for path in self.files
            if path.startswith(f"{folder}/reader-") and path not in (mark, f"{folder}/reader-{gone}")
        ]
        beginning = self._begun_by(folder, reader)
        silent = [path for path in beginning if path.replace("/begins-", "/reader-") in others]
        judges = [path for path in others if not path.endswith("-wait")]
        names = [self.files[path].decode() for path in judges if self.files[path]]
        counts = f"{len(others)} {len(judges)} {len(beginning)} {len(silent)} {len(names)}"
        own = f"{folder}/unread-{reader}"
        unread = [self.files[p].decode() for p in self.files if p.startswith(f"{folder}/unread-") and p != own]
        return (
            f"{counts}\n{' '.join(unread)}\n{chr(9).join(names)}\n" + self.files.get(f"{folder}/verdict", b"").decode()
        )

    def _record(self, folder: str, token: str, reader: str, verdict: bytes, gone: str) -> str:
        """The first verdict stays."""
        if self._holds(folder, token, over=False):
            self.files.setdefault(f"{folder}/verdict", verdict)
            self.files.pop(f"{folder}/reader-{reader}", None)
        return self._visit(folder, token, reader, "look", gone, "", ())

    def _begun_by(self, folder: str, reader: str) -> list[str]:
        """The marks of others who begin the run's next attempt."""
        return [p for p in self.files if p.startswith(f"{folder}/begins-") and p != f"{folder}/begins-{reader}"]

    def _waiters(self, folder: str) -> str:
        """Who waits for the run's end, in a folder that is removed."""
        names = [path.removeprefix(f"{folder}/") for path, text in self.files.items() if not text]
        return "".join(
            f"waits {n}\n" for n in names if n.startswith("next-") or (n.startswith("reader-") and n.endswith("-wait"))
        )

    def _lease(self, claim: str, things: Sequence[str]) -> str:
        """A directory for each, all or none."""
        for thing in things:
            if self.leases.get(thing, claim) != claim:
                return f"held\n{thing}\n{self.leases[thing]}\n"
        self.leases |= dict.fromkeys(things, claim)
        return "leased\n"

    def _take(self, folder: str, claim: str, *, over: bool) -> str:
        """The run's folder as a lock; it is there when it has a `launch` file, and old when it is in `stale`."""
        path = f"{folder}/launch"
        if over and folder in self.stale:
            del self.files[path]
        if self.files.get(path, claim.encode()) == claim.encode():
            self.files[path] = claim.encode()
            return "taken\n"
        return ("stale" if folder in self.stale else "held") + f"\n{self.files[path].decode()}\n"


def verb_of(argv: Sequence[str]) -> str:
    """Docker's own verb (`ps`, `run` ...), or what else it is: forget, cat, take, hold, lease, taken, free, mark,
    marks, unmark, visit, record, folder, home, put, say, reach.
    """
    match tuple(argv):
        case ("docker", verb, *_):
            return verb
        case ("rm", "-f", "--", _):
            return "forget"
        case ("python3", "-I", "-S", "-c", _):
            return "reach"
        case ("sh", "-c", _, what, *_) if what.startswith("distui-"):
            return what.removeprefix("distui-")
        case ("sh", "-c", script, *_):
            return "folder" if "rm -rf" in script else "home"
        case (verb, *_):
            return verb
    raise AssertionError(argv)


class FakeSession:
    """A connection to a FakeHost."""

    connected_ms = 1.0

    def __init__(self, host: FakeHost) -> None:
        self._host = host
        self.closed = False
        host.open_sessions += 1

    @property
    def host(self) -> str:
        return self._host.name

    async def run(self, argv: Sequence[str], *, input: bytes = b"", **_: Any) -> Completed:
        self._alive()
        return await self._host.run(tuple(argv), input)

    async def run_script(self, script: str, **_: Any) -> Completed:
        raise AssertionError("no script is sent by a run")

    async def open(self, argv: Sequence[str]) -> ReachChannel:
        self._alive()
        assert tuple(argv[:4]) == ("python3", "-I", "-S", "-c"), argv
        await self._host.step("reach", tuple(argv))
        return ReachChannel(self._host)

    async def open_unix(self, path: str) -> Any:
        raise HostCommandError(self.host, "forwarding refused", code="forward_refused")

    async def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        self._alive()
        await self._host.step("put", ("put", path))
        self._host.puts.append((path, data, mode))
        self._host.written[path] = time.time()
        self._host.files[path] = data

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._host.open_sessions -= 1

    def _alive(self) -> None:
        if self.closed:
            raise SessionLost(self.host, f"{self.host}: closed")


class ReachChannel:
    """Answers as the reachability program does, from what the FakeHost says of itself and its peers."""

    def __init__(self, host: FakeHost) -> None:
        self._host = host
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._asked = 0
        self.closed = False
        if not host.python:
            self._answers.put_nowait(b"")

    async def write(self, data: bytes) -> None:
        if not self._host.python:
            return
        self._asked += 1
        ask = json.loads(data.splitlines()[-1])
        if self._asked == 1:
            self._say({"error": self._host.cannot_listen} if self._host.cannot_listen else {"port": ask["port"] or 999})
        else:
            errors = {name: self._host.unreachable.get(name, "") for name, _, _ in ask["peers"]}
            self._say({"peers": {name: [error, None if error else 0.2] for name, error in errors.items()}})

    def _say(self, value: object) -> None:
        self._answers.put_nowait(b"Welcome to this host\nDISTUI-REACH:" + json.dumps(value).encode() + b"\n")

    async def read(self, limit: int = 65536) -> bytes:
        return await self._answers.get()

    async def write_eof(self) -> None:
        return

    def stderr_tail(self) -> bytes:
        return b"" if self._host.python else b"sh: 1: exec: python3: not found\n"

    async def wait(self) -> int:
        return 0 if self._host.python else 127

    async def close(self) -> None:
        self.closed = True


class FakeConnector:
    """Connects to FakeHosts. `down` are hosts that can't be reached, with the error."""

    def __init__(self, *hosts: FakeHost) -> None:
        self.hosts = {h.name: h for h in hosts}
        self.down: dict[str, HostError] = {}
        self.closed = False

    async def connect(self, host: str) -> Any:
        await asyncio.sleep(0)
        if host in self.down:
            raise self.down[host]
        self.hosts[host].logins += 1
        return FakeSession(self.hosts[host])

    async def close(self) -> None:
        self.closed = True
