"""The probe: one connection, one script, one answer per host, and all hosts side by side.

A host that fails keeps its row: its trouble is a value, and no other host notices.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources

from distui.errors import DistuiError, HostCommandError, HostError
from distui.facts import frame
from distui.facts.host import GpuProcess, HostDown, HostFacts, ProbeResult, Trouble
from distui.facts.reading import facts_from, gpu_processes
from distui.session import Completed, Connector, Session, session_on
from distui.spec.hosts.inventory import Host

COMMAND_LIMIT = 8
"""Seconds any one command of the probe may take on a host."""
PROBE_TIMEOUT = 45.0
"""Seconds a whole probe may take after the login: room for a login shell on a slow home folder."""

_RUBBISH_HINT = "see what `ssh HOST true` prints; a login script that ends the shell or replaces it breaks every tool"


def script(nonce: str, host: Host | None = None, *, limit: int = COMMAND_LIMIT, group: str = "") -> str:
    """The probe as a POSIX sh script. `nonce` (letters and digits nobody can guess) frames its answer.

    `host` says which container engine to ask, and how it is called; None asks `docker`. `group` names the one group
    of commands to run, empty for all.
    """
    if not re.fullmatch(r"[0-9A-Za-z]+", nonce):
        raise ValueError("a nonce is letters and digits")
    kind = host.engine if host is not None else "docker"
    command = host.engine_command if host is not None else ("docker",)
    asked = kind != "process" and bool(command)
    words = {
        "NONCE": nonce,
        "LIMIT": str(limit),
        "READ": str(limit + 4),
        "ASK": shlex.quote(_text("probe_python.py")),
        "API": "docker" if asked and _asks_docker(kind, command) else "",
        "KIND": kind if asked else "",
        "ENGINE": shlex.join(command) if asked else "false",
        "GROUP": group,
    }
    return re.sub(r"@(NONCE|LIMIT|READ|ASK|API|KIND|ENGINE|GROUP)@", lambda m: words[m[1]], _text("probe.sh"))


@cache
def _text(name: str) -> str:
    """A file that is sent, without the lines of comments that only we read."""
    text = resources.files("distui.facts").joinpath(name).read_text(encoding="utf-8")
    return re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE)


def _asks_docker(kind: str, command: Sequence[str]) -> bool:
    """Whether the engine is Docker's own client, called by this login: then the login may ask its socket as well."""
    return kind == "docker" and len(command) == 1 and command[0].rpartition("/")[2] == "docker"


def read(
    host: Host,
    stdout: bytes,
    nonce: str,
    *,
    sent_at: float,
    received_at: float,
    connect_ms: float | None = None,
) -> HostFacts:
    """The facts in the script's output. `sent_at` and `received_at` are our clock in seconds since 1970.

    Total over the content: whatever a command printed, its fact is a value or unknown. Raises
    HostCommandError (code `rubbish`) only when the frame itself is missing or cut off.
    """
    answer = frame.parse(stdout, nonce)
    if answer is None:
        raise rubbish(host.name, stdout)
    return facts_from(host, answer, sent_at=sent_at, received_at=received_at, connect_ms=connect_ms)


def rubbish(host: str, stdout: bytes) -> HostCommandError:
    """The error for a host whose answer is not the probe's, quoting the first of what it said instead."""
    words = " ".join(re.sub(r"[^\x20-\x7e]+", " ", stdout[:400].decode("utf-8", "replace")).split())[:120]
    said = f": {words}" if words else ": nothing"
    return HostCommandError(
        host, f"the host did not run the probe; it answered{said}", hint=_RUBBISH_HINT, code="rubbish"
    )


def _broke_off(host: str, done: Completed) -> HostCommandError:
    """The error for a shell that began the probe and could not go on, as with a limit on processes."""
    said = done.error_text.splitlines()[-1][:200]
    return HostCommandError(
        host,
        f"the probe broke off there with exit {done.status}: {said}",
        hint=f"see the limits of the login: `ssh {host} ulimit -a`",
        code="rubbish",
    )


async def probe_host(
    session: Session,
    host: Host,
    *,
    clock: Callable[[], float] = time.time,
    timeout: float = PROBE_TIMEOUT,
) -> HostFacts:
    """Probe one host over a session that is already there. `clock` gives seconds since 1970.

    Raises HostCommandError (`rubbish`, `command_timeout`) or SessionLost.
    """
    word = secrets.token_hex(12)
    text = script(word, host)
    sent_at = clock()
    done = await session.run_script(text, timeout=timeout)
    received_at, sent_at = clock() - done.lingered, sent_at + done.waited
    if done.error_text and not done.ok and frame.parse(done.stdout, word) is None:
        raise _broke_off(host.name, done)
    if not done.stdout.strip() and done.error_text:
        raise rubbish(host.name, done.stderr)
    ms = session.connected_ms
    return read(host, done.stdout, word, sent_at=sent_at, received_at=received_at, connect_ms=ms)


async def probe_processes(session: Session, host: Host) -> tuple[GpuProcess, ...]:
    """The processes on a host's NVIDIA GPUs now: that part of the probe alone. None on a host without nvidia-smi.

    Raises HostCommandError when nvidia-smi does not tell, or as `probe_host`; SessionLost.
    """
    word = secrets.token_hex(12)
    done = await session.run_script(script(word, host, group="nvidia_processes"), timeout=PROBE_TIMEOUT)
    answer = frame.parse(done.stdout, word)
    if answer is None:
        raise rubbish(host.name, done.stdout.strip() or done.stderr)
    asked = answer.parts.get("nvidia_apps")
    if asked is None:
        return ()
    if asked.status != 0:
        said = asked.text.strip().splitlines()[:1]
        words = said[0][:200] if said and asked.status is not None else "no answer in time"
        raise HostCommandError(host.name, f"{host.name}: nvidia-smi does not tell its processes: {words}")
    return gpu_processes(asked.text)


async def probe_all(
    connector: Connector,
    hosts: Sequence[Host],
    *,
    parallel: int = 16,
    on_result: Callable[[ProbeResult], None] | None = None,
    timeout: float = PROBE_TIMEOUT,
) -> dict[str, ProbeResult]:
    """Probe hosts side by side, at most `parallel` at once; the results in the order of `hosts`.

    `on_result` is called for each host as it answers or fails. Sessions are closed again. Raises nothing for
    a host's failure: that host's result is a HostDown.
    """
    gate = asyncio.Semaphore(max(1, parallel))
    results: dict[str, ProbeResult] = {}

    async def one(host: Host) -> None:
        async with gate:
            results[host.name] = await _probe_one(connector, host, timeout)
        if on_result is not None:
            on_result(results[host.name])

    async with asyncio.TaskGroup() as group:
        for host in {h.name: h for h in hosts}.values():
            group.create_task(one(host), name=f"probe {host.name}")
    return {host.name: results[host.name] for host in hosts}


async def _probe_one(connector: Connector, host: Host, timeout: float) -> ProbeResult:
    try:
        async with asyncio.timeout(host.connect_timeout + timeout + 5):
            async with session_on(connector, host.name) as session:
                return await probe_host(session, host, timeout=timeout)
    except Exception as error:
        return HostDown(host.name, trouble_of(error))


def trouble_of(error: Exception) -> Trouble:
    """The failure of one host as a value: code, message, hint."""
    match error:
        case HostError():
            return Trouble(error.code, error.message, error.hint)
        case TimeoutError():
            return Trouble("timeout", "the host did not answer in time", "is it overloaded, or its home folder slow?")
        case DistuiError():
            return Trouble("error", error.message, error.hint)
        case OSError():
            return Trouble("os_error", str(error) or type(error).__name__)
        case _:
            message = f"{type(error).__name__}: {error}"[:300]
            return Trouble("bug", f"distui could not read this host's answer ({message})", "please report this")
