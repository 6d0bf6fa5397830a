"""`python -m bench.soak`: runs in a row on the test lab while faults drawn from a seed strike.

Each rank prints numbered lines and writes each of them to a file of its own besides. After every run each rank's log
must hold the very lines of that file, once and in order, and no host may hold anything of distui.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cluster import HOSTS, Lab, LabError, refusal
from bench.soak_faults import FAULTS, ballast, small_disk

NAME = "soaklab"
LINES = 300
SECONDS = 60.0
"""What beginning, ending and each command of distui may take."""

JOB = {
    "version": 1,
    "name": "soak",
    "hosts": "h[1-3]",
    "image": "lab/python:1",
    "pull": "never",
    "stop_grace": "3s",
    "volumes": ["/mnt/pytorch:/shared"],
}

PROGRAM = """
import os, sys, time
rank, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
witness = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for i in range(count):
    line = b"line %d of %d %s\\n" % (i, rank, b"x" * (20000 if i % 97 == 96 else i % 50))
    os.write(1, line)
    os.write(witness, line)
    time.sleep(0.02)
"""


def said(rank: int, count: int) -> bytes:
    """What PROGRAM prints."""
    sizes = (20000 if i % 97 == 96 else i % 50 for i in range(count))
    return b"".join(b"line %d of %d %s\n" % (i, rank, b"x" * size) for i, size in enumerate(sizes))


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault at one time, in seconds after all ranks have begun."""

    at: float
    until: float
    fault: str
    host: str

    def __str__(self) -> str:
        span = f"{self.at:.1f}-{self.until:.1f}s" if self.until > self.at else f"{self.at:.1f}s"
        return f"{self.fault} {self.host} {span}".replace("  ", " ")


@dataclass(slots=True)
class Outcome:
    """What one run came to."""

    strikes: tuple[Strike, ...]
    exit: int | None = None
    taken_up: int = 0
    lines: int = 0
    lost: int = 0
    repeated: int = 0
    left: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.repeated or self.left or self.wrong)


def draw(dice: random.Random) -> tuple[Strike, ...]:
    """One to three faults, each on a host of its own."""
    hosts = dice.sample(HOSTS, dice.randint(1, len(HOSTS)))
    return tuple(sorted((_strike(dice, host) for host in hosts), key=lambda strike: strike.at))


def _strike(dice: random.Random, host: str) -> Strike:
    name = dice.choice(sorted(FAULTS))
    fault = FAULTS[name]
    at = dice.uniform(0.2, 4.0)
    return Strike(at, at + dice.uniform(0.5, fault.longest) if fault.longest else at, name, host * fault.on_host)


class Soak:
    """One run after another, each with its strikes."""

    def __init__(self, lab: Any, home: Path, state: Path) -> None:
        self.lab = lab
        self.home = home
        self.state = state
        self.program: Any = None
        self.name = ""
        self._beside: list[Any] = []

    def run(self, number: int, strikes: Sequence[Strike]) -> Outcome:
        """Start a run, let the faults strike, see it to its end and count."""
        outcome = Outcome(tuple(strikes))
        began = time.monotonic()
        self.name = f"soak{os.getpid()}-{number}"
        witnesses = self.lab.share / self.name
        witnesses.mkdir()
        words = ["python3", "-c", PROGRAM, "{rank}", str(LINES), f"/shared/{self.name}/{{rank}}"]
        (self.home / "job.yaml").write_text(json.dumps(JOB | {"command": words}))
        self.program = self._spawn("run", "job.yaml", "--name", self.name)
        try:
            self._until_all_run()
            self._let_strike(outcome)
            self._to_the_end(outcome)
        except (RuntimeError, OSError, LabError, subprocess.SubprocessError) as error:
            outcome.wrong.append(str(error))
        finally:
            for program in (self.program, *self._beside):
                program.__exit__(None, None, None)
            self._beside.clear()
            self.lab.heal()
            ballast(self).unlink(missing_ok=True)
        self._count(outcome, witnesses)
        shutil.rmtree(witnesses)
        outcome.left = [f"{host.name}: {left}" for host in self.lab.hosts for left in host.remove_leftovers()]
        outcome.seconds = time.monotonic() - began
        return outcome

    def take_up(self) -> None:
        """Attach to the run, as a new distui would after the old one was killed."""
        self.program.__exit__(None, None, None)
        self.program = self._spawn("attach", self.name)

    def beside(self, *words: str) -> None:
        """Another distui at the same time."""
        self._beside.append(self._spawn(*words))

    def containers(self, host: str) -> list[str]:
        """The run's containers on a host, in any state."""
        found: list[str] = self.lab.host(host).containers(f"distui.run={self.name}")
        return found

    def _spawn(self, verb: str, *words: str) -> Any:
        flags = ("--headless", "-o", "json") if verb in ("run", "attach") else ()
        env = {"XDG_STATE_HOME": str(self.state)}
        return self.lab.spawn_distui(verb, *words, *flags, "-y", home=self.home, env=env)

    def _until_all_run(self) -> None:
        end = time.monotonic() + SECONDS
        wanted = ("docker", "ps", "-q", "--filter", f"label=distui.run={self.name}")
        while not all(host.out(*wanted) for host in self.lab.hosts):
            if self.program.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the ranks did not begin: {self.program.finish().stderr[-500:]}")
            time.sleep(0.05)

    def _let_strike(self, outcome: Outcome) -> None:
        """Begin and end each fault in its time."""
        moments = [(s.at, True, s) for s in outcome.strikes] + [(s.until, False, s) for s in outcome.strikes]
        began = time.monotonic()
        for at, begins, strike in sorted(moments, key=lambda moment: (moment[0], not moment[1])):
            time.sleep(max(0.0, began + at - time.monotonic()))
            fault = FAULTS[strike.fault]
            (fault.begin if begins else fault.end)(self, strike.host)

    def _to_the_end(self, outcome: Outcome) -> None:
        """Wait for the run's end; take it up again while there is something of it on the hosts, and stop what stays."""
        done = self.program.finish(timeout=2 * SECONDS)
        for other in self._beside:
            other.finish(timeout=SECONDS)
        for verb in ("attach", "attach", "stop"):
            outcome.exit = done.returncode
            if not any(map(self.containers, HOSTS)):
                break
            outcome.taken_up += 1
            done = self._spawn(verb, self.name).finish(timeout=SECONDS)
        if outcome.exit and not any(FAULTS[s.fault].fatal for s in outcome.strikes):
            outcome.wrong.append(f"exit {outcome.exit}: {done.stderr.strip()[-500:]}")
        if "Traceback" in done.stderr:
            outcome.wrong.append(done.stderr[-1500:])

    def _count(self, outcome: Outcome, witnesses: Path) -> None:
        """Compare each rank's log with what the rank wrote beside it."""
        for rank, host in enumerate(HOSTS):
            log = self.state / f"distui/runs/{self.name}/logs/rank-{rank:05}.log"
            had = log.read_bytes() if log.exists() else b""
            printed = (witnesses / str(rank)).read_bytes() if (witnesses / str(rank)).exists() else b""
            outcome.lines += had.count(b"\n")
            if not said(rank, LINES).startswith(had):
                outcome.repeated += 1
                outcome.wrong.append(f"{host}: line {first_difference(had, said(rank, LINES))} of the log is wrong")
            elif not had.startswith(printed) and not self._took_its_log_along(outcome, host):
                outcome.lost += max(1, printed.count(b"\n") - had.count(b"\n"))

    def _took_its_log_along(self, outcome: Outcome, host: str) -> bool:
        """Whether a fault took the end of the log with it: a container removed, a daemon that died with its buffer."""
        return any(FAULTS[s.fault].loses and s.host == host for s in outcome.strikes)


def first_difference(log: bytes, wanted: bytes) -> int:
    """The number of the first line, from 1, in which they differ."""
    pairs = zip(log.split(b"\n"), wanted.split(b"\n"), strict=False)
    return next((number for number, (a, b) in enumerate(pairs, 1) if a != b), wanted.count(b"\n") + 1)


@contextmanager
def soak_on(lab_name: str) -> Iterator[Soak]:
    """A soak on the lab of this name when it is up, else on one of its own."""
    with tempfile.TemporaryDirectory(prefix="distui-soak-") as folder, small_disk(Path(folder) / "state") as state:
        if lab_name:
            lab = Lab(lab_name).attach()
            yield Soak(lab, _home(lab, Path(folder)), state)
            return
        with Lab(NAME) as lab:
            lab.up(len(HOSTS))
            yield Soak(lab, _home(lab, Path(folder)), state)


def _home(lab: Any, folder: Path) -> Path:
    home: Path = lab.ssh_home(folder / "home")
    (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
    return home


def main() -> int:
    """Take the runs and print what each came to; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of the faults; random when left out, and printed")
    parser.add_argument("--lab", default="", help="a lab that is up already")
    args = parser.parse_args()
    if reason := refusal():
        parser.error(reason)
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    dice = random.Random(seed)
    outcomes: list[Outcome] = []
    print(f"seed {seed}, {args.runs} runs", flush=True)
    with soak_on(args.lab) as soak:
        for number in range(args.runs):
            outcomes.append(soak.run(number, draw(dice)))
            print(row(number, outcomes[-1]), flush=True)
    print(total(seed, outcomes))
    return int(not all(outcome.good for outcome in outcomes))


def row(number: int, outcome: Outcome) -> str:
    """One run in a line, and below it what was wrong."""
    head = f"{number:3} exit {outcome.exit} {outcome.lines} lines {outcome.seconds:.0f}s: "
    bad = [*outcome.wrong, *(f"left {left}" for left in outcome.left)]
    bad += [f"{outcome.lost} lines lost"] * bool(outcome.lost)
    return head + "; ".join(map(str, outcome.strikes)) + "".join(f"\n    WRONG {words}" for words in bad)


def total(seed: int, outcomes: Sequence[Outcome]) -> str:
    """All runs in one line."""
    kinds = Counter(strike.fault for outcome in outcomes for strike in outcome.strikes)
    counts = {
        "lines": sum(o.lines for o in outcomes),
        "lost": sum(o.lost for o in outcomes),
        "logs with a wrong line": sum(o.repeated for o in outcomes),
        "left over": sum(len(o.left) for o in outcomes),
        "bad runs": sum(not o.good for o in outcomes),
    }
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    faults = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    return f"seed {seed}: {len(outcomes)} runs, {sum(kinds.values())} faults ({faults}); {words}"


if __name__ == "__main__":
    sys.exit(main())
