"""What a command or a piece of work costs: seconds by the clock and seconds of CPU, taken in turns with its rivals."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock and seconds of CPU; for a command its own and those of all children it waited for."""

    wall: float
    cpu: float


class Failed(Exception):
    """A rival did not do what it was asked; the message quotes it."""


def command(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = REPO,
    input: bytes = b"",
    expect: str = "",
) -> Spent:
    """Run `argv` to its end. Raises Failed when it ends badly or does not print `expect`."""
    return _run(argv, env, cwd, input, expect)[0]


def by_its_clock(argv: Sequence[str], *, env: Mapping[str, str], input: bytes = b"") -> Spent:
    """What a client of ours says it spent: without the start of Python and imports. Raises Failed."""
    said = _run(argv, env, REPO, input, "wall")[1]
    return Spent(**json.loads(said.splitlines()[-1]))


def _run(argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path, input: bytes, expect: str) -> tuple[Spent, str]:
    with tempfile.TemporaryFile() as stdin:
        stdin.write(input)
        stdin.seek(0)
        began = time.monotonic()
        program = subprocess.Popen(
            argv, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd
        )
        assert program.stdout is not None
        with program.stdout:
            said = program.stdout.read().decode("utf-8", "replace")
        _, status, usage = os.wait4(program.pid, 0)
    wall = time.monotonic() - began
    program.returncode = os.waitstatus_to_exitcode(status)
    if program.returncode or expect not in said:
        raise Failed(f"{shlex.join(argv)[:120]} ended with {program.returncode}: ... {said.strip()[-200:]}")
    return Spent(wall, usage.ru_utime + usage.ru_stime), said


def side_by_side(argvs: Sequence[Sequence[str]]) -> Spent:
    """Run commands at once; until the last has ended, and the CPU of all. Raises Failed when one fails."""
    null = subprocess.DEVNULL
    began = time.monotonic()
    programs = [(argv, subprocess.Popen(argv, stdin=null, stdout=null)) for argv in argvs]
    cpu, failed = 0.0, ""
    for argv, program in programs:
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        cpu += usage.ru_utime + usage.ru_stime
        failed = failed or (shlex.join(argv) if program.returncode else "")
    if failed:
        raise Failed(f"{failed[:120]} failed")
    return Spent(time.monotonic() - began, cpu)


def here(work: Callable[[], object]) -> Spent:
    """Do `work` in this process, with the garbage of others out of the way."""
    gc.collect()
    cpu, began = time.process_time(), time.monotonic()
    work()
    return Spent(time.monotonic() - began, time.process_time() - cpu)


@dataclass(frozen=True, slots=True)
class Rival:
    """One way to do a thing. `take` does it once."""

    name: str
    take: Callable[[], Spent]


def in_turns(rivals: Sequence[Rival], rounds: int, *, warm_up: bool = True) -> dict[str, list[Spent]]:
    """Every rival once a round, so that what else this machine does hits all of them alike; one more round first.
    Every second round goes backwards, so that none always comes after the same one.

    A rival that fails is left out, and its failure printed.
    """
    taken: dict[str, list[Spent]] = {rival.name: [] for rival in rivals}
    broken: set[str] = set()
    for turn in range(1 - warm_up, rounds + 1):
        for rival in rivals[:: 1 - 2 * (turn % 2)]:
            if rival.name in broken:
                continue
            try:
                spent = rival.take()
            except Failed as error:
                broken.add(rival.name)
                print(f"  {rival.name}: not measured: {error}")
                continue
            if turn:
                taken[rival.name].append(spent)
    return {name: samples for name, samples in taken.items() if name not in broken}


def middle(samples: Sequence[Spent]) -> Spent:
    """The median of each."""
    return Spent(statistics.median(s.wall for s in samples), statistics.median(s.cpu for s in samples))


def ratio(mine: Sequence[Spent], other: Sequence[Spent]) -> Spent:
    """The median over the rounds of mine / other: what disturbs a round disturbs both halves of its ratio."""
    pairs = list(zip(mine, other, strict=True))
    wall = statistics.median(a.wall / max(b.wall, 1e-6) for a, b in pairs)
    return Spent(wall, statistics.median(a.cpu / max(b.cpu, 1e-6) for a, b in pairs))


def resident() -> int:
    """Bytes of memory this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Busy:
    """How busy the machine was, of all its cores: 1.0 is all of them."""

    share: float = 0.0
    stolen: float = 0.0
    """What the owner of a virtual machine gave to others while this one wanted it: it costs latency and wall time."""

    def __str__(self) -> str:
        taken = f", {100 * self.stolen:.0f} % of it taken by other machines" if self.stolen >= 0.005 else ""
        return f"machine {100 * self.share:.0f} % busy{taken}"


@contextlib.contextmanager
def machine_busy() -> Iterator[Busy]:
    """How busy the machine was while the block ran, by this measure and by its neighbours."""
    busy, (used, total, stolen) = Busy(), _ticks()
    yield busy
    after = _ticks()
    busy.share = (after[0] - used) / max(1, after[1] - total)
    busy.stolen = (after[2] - stolen) / max(1, after[1] - total)


def _ticks() -> tuple[int, int, int]:
    """Those used (the stolen among them), all, and the stolen."""
    ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks), ticks[7]
