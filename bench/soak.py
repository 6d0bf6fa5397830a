"""`python -m bench.soak`: runs in a row on the test lab while faults drawn from a seed strike.

Each rank prints numbered lines and writes each of them to a file of its own besides; one may fail. After every run each
rank's log must hold the very lines of that file, once and in order, or be said to be incomplete where a fault destroyed
it; the end that was told must be true and the same for all who read the run; no host may hold anything of distui.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from bench.cluster import HOSTS, Lab, refusal
from bench.soak_faults import FAULTS, small_disk
from bench.soak_run import Outcome, Soak, Strike, Turn
from bench.soak_truth import Work

DURING = sorted(name for name, fault in FAULTS.items() if fault.when == "run")
ON_HOSTS = [name for name in DURING if FAULTS[name].on_host and name != "log-emptied"]
"""Faults that need nobody who follows the run."""


def draw(dice: random.Random, among: Sequence[str] = DURING) -> Turn:
    """One to three of these faults while the run goes on, each on a host of its own, and perhaps one at its end."""
    late = dice.choice(("", "pruned", "killed-in-clean-up", "stopped-when-over"))
    detached = late == "pruned" or dice.random() < 0.15
    hosts = dice.sample(HOSTS, dice.randint(1, len(HOSTS)))
    pruned = hosts.pop() if late == "pruned" else ""
    kinds = ON_HOSTS if detached else among
    strikes = sorted((_strike(dice, host, dice.choice(kinds)) for host in hosts), key=lambda strike: strike.at)
    ending = [Strike(0.0, 0.0, late, pruned)] * bool(late)
    return Turn((*strikes, *ending), Work.draw(dice), detached, dice.getrandbits(32))


def _strike(dice: random.Random, host: str, name: str) -> Strike:
    fault = FAULTS[name]
    at = dice.uniform(0.2, 4.0)
    return Strike(at, at + dice.uniform(0.5, fault.longest) if fault.longest else at, name, host * fault.on_host)


@contextmanager
def soak_on(lab_name: str) -> Iterator[Soak]:
    """A soak on the lab of this name when it is up, else on one of its own."""
    with (
        _hosts(lab_name) as lab,
        tempfile.TemporaryDirectory(prefix="distui-soak-") as folder,
        small_disk(Path(folder) / "state") as state,
    ):
        yield Soak(lab, Path(folder), state)


@contextmanager
def _hosts(lab_name: str) -> Iterator[Any]:
    if lab_name:
        yield Lab(lab_name).attach()
        return
    with Lab(f"k{os.getpid()}"[:8]) as lab:
        lab.up(len(HOSTS))
        yield lab


def main() -> int:
    """Take the runs and print what each came to; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="leave out the runs before this one")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no run after this time")
    parser.add_argument("--seed", type=int, default=None, help="of the faults; random when left out, and printed")
    parser.add_argument("--among", default=",".join(DURING), help="faults that strike runs which are followed")
    parser.add_argument("--lab", default="", help="a lab that is up already")
    args = parser.parse_args()
    if reason := refusal():
        parser.error(reason)
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    dice = random.Random(seed)
    turns = [draw(dice, args.among.split(",")) for _ in range(args.runs)]
    outcomes: list[Outcome] = []
    print(f"seed {seed}, {args.runs} runs", flush=True)
    until = monotonic() + 60 * args.minutes if args.minutes else float("inf")
    with soak_on(args.lab) as soak:
        for number, turn in list(enumerate(turns))[args.first :]:
            if monotonic() > until:
                break
            outcomes.append(soak.run(number, turn))
            print(row(number, outcomes[-1]), flush=True)
    print(total(seed, outcomes))
    return int(not all(outcome.good for outcome in outcomes))


def row(number: int, outcome: Outcome) -> str:
    """One run in a line, and below it what was wrong."""
    head = f"{number:3} {outcome.end}; {outcome.lines} lines {outcome.seconds:.0f}s: {outcome.turn}"
    bad = [*outcome.wrong, *(f"left {left}" for left in outcome.left)]
    return head + "".join(f"\n    WRONG {words}" for words in bad)


def total(seed: int, outcomes: Sequence[Outcome]) -> str:
    """All runs in one line."""
    kinds = Counter(strike.fault for outcome in outcomes for strike in outcome.turn.strikes)
    counts = {
        "lines": sum(o.lines for o in outcomes),
        "destroyed by a fault": sum(o.missing for o in outcomes),
        "lost": sum(o.lost for o in outcomes),
        "logs with a wrong line": sum(o.repeated for o in outcomes),
        "wrong verdicts": sum(o.verdicts for o in outcomes),
        "left over": sum(len(o.left) for o in outcomes),
        "bad runs": sum(not o.good for o in outcomes),
    }
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    faults = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    return f"seed {seed}: {len(outcomes)} runs, {sum(kinds.values())} faults ({faults}); {words}"


if __name__ == "__main__":
    sys.exit(main())
