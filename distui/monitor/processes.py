"""A process of a host under the cursor: what it is now, and ending it without ever hitting another one.

A pid alone may be somebody else's by the time a question is answered. So a process is known by its pid, its start
time in clock ticks since the boot, and the boot: all three are compared right before the signal, on the host.
"""

from __future__ import annotations

import json
from typing import Literal

from distui.errors import HostCommandError, NotFound
from distui.frozen import frozen
from distui.plan.command.process import TICKS
from distui.runs.hosts.discover import Runner

Outcome = Literal["ended", "lives", "gone", "refused"]
"""`lives`: the signal was sent and some seconds later it is still there; `gone`: it had ended before;
`refused`: this login may not signal it."""

_BOOT = r"""
boot() { cat /proc/sys/kernel/random/boot_id; }
"""

_LOOK = (
    TICKS
    + _BOOT
    + r"""
start=$(ticks "$1") || exit 3
echo "$start"; boot; stat -c %U "/proc/$1"; id -un
tr '\0' ' ' <"/proc/$1/cmdline"; echo; cat "/proc/$1/comm"
"""
)

_SIGNAL = (
    TICKS
    + _BOOT
    + r"""
same() { [ "$(boot)" = "$3" ] && [ "$(ticks "$1")" = "$2" ]; }
same "$@" || { echo gone; exit; }
kill -s "$4" "$1" 2>/dev/null || { same "$@" && echo refused || echo gone; exit; }
tries=$5
while same "$@"; do
  tries=$((tries - 1)); [ "$tries" -gt 0 ] || { echo lives; exit; }
  sleep 0.1 2>/dev/null || sleep 1
done
echo ended
"""
)

_TRIES = 30
"""Looks after the signal, a tenth of a second apart."""


@frozen
class SeenProcess:
    """One process as it was looked at."""

    host: str
    pid: int
    start: str
    """Its start time in clock ticks since the boot."""
    boot: str
    user: str
    command: str
    login: str = ""
    """Who we are on the host."""


async def look(run_argv: Runner, host: str, pid: int) -> SeenProcess:
    """What a process is now. Raises NotFound when it has ended."""
    done = await run_argv(("sh", "-c", _LOOK.strip(), "distui", str(pid)))
    if done.status == 3:
        raise NotFound(f"{host}: there is no process {pid} any more", hint="p asks the host again")
    lines = done.text.splitlines()
    if not done.ok or len(lines) < 6:
        raise HostCommandError(host, f"{host}: can't look at process {pid}: {done.error_text or done.status}")
    start, boot, user, login, command, name = lines[0], lines[1], lines[2], lines[3], lines[4], lines[-1]
    return SeenProcess(host, pid, start, boot, user, command.strip() or f"[{name}]", login)


async def signal(run_argv: Runner, seen: SeenProcess, *, kill: bool = False) -> Outcome:
    """SIGTERM, or SIGKILL, to exactly this process; says what became of it within three seconds."""
    name = "KILL" if kill else "TERM"
    argv = ("sh", "-c", _SIGNAL.strip(), "distui", str(seen.pid), seen.start, seen.boot, name, str(_TRIES))
    done = await run_argv(argv)
    said = done.text.strip()
    outcomes: tuple[Outcome, ...] = ("ended", "lives", "gone", "refused")
    for outcome in outcomes:
        if done.ok and said == outcome:
            return outcome
    words = json.dumps(done.error_text or said)
    raise HostCommandError(seen.host, f"{seen.host}: can't signal process {seen.pid}: {words}")
