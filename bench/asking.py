"""What a rank pays for being asked where it is, as `distui why` and whoever follows a run ask it every minute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.hook import STEPS, hooked
from bench.measure import Failed, Rival, Spent, in_turns, middle
from bench.report import limit, note, table, title
from distui.agent.bundle import bundle, take
from distui.runs.ending.ask_ranks import PERIOD_S
from distui.runs.insight.asking.ask import MARK, MODULES, MOST_COLLECTIVES

COUNT = 10_000
"""Steps of the program, of half a millisecond: far shorter than real ones."""
EVERY_S = 0.5
"""Seconds between two questions here, so that a short run has enough of them."""
LIMIT_PERCENT = 1.0
ASKED, ALONE, STACKS = "asked twice a second", "not asked", "asked for stacks, too"


def measure(*, quick: bool) -> None:
    """Steps of a rank that is asked far too often, beside one that nobody asks; then what one question costs."""
    title(f"asking: {COUNT} steps of a rank (gloo), asked every {EVERY_S:g} s by the program that is sent to hosts")
    asked = {ASKED: _Asked(stacks=False), STACKS: _Asked(stacks=True)}
    rivals = [Rival(name, one.take) for name, one in asked.items()]
    taken = in_turns([*rivals, Rival(ALONE, _Asked().take)], 3 if quick else 7)
    table(taken, ASKED)
    if len(taken) < 3:
        return
    for name, one in asked.items():
        more = middle(taken[name]).cpu - middle(taken[ALONE]).cpu
        rank, host = max(0.0, more) / one.each, one.cpu / one.questions
        print(f"  {name}: {1000 * rank:.1f} ms of the rank's CPU a question, {1000 * host:.0f} ms of its host's")
        limit(f"of a core, one every {PERIOD_S:g} s, {name}", 100 * (rank + host) / PERIOD_S, "%", LIMIT_PERCENT)
    note(f"distui asks ranks that speak every {PERIOD_S:g} s, without stacks; ranks that are silent first after 10 s")


@dataclass(slots=True)
class _Asked:
    """Runs of the program; without `stacks` at all nobody asks."""

    stacks: bool | None = None
    questions: int = 0
    cpu: float = 0.0
    """Of the programs that ask."""
    rounds: int = 0

    @property
    def each(self) -> float:
        """Questions a round."""
        return self.questions / max(1, self.rounds)

    def take(self) -> Spent:
        """One run, by its own clock. Raises Failed."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            env = hooked(folder) | {"DISTUI_TASK_DIR": name}
            argv = (sys.executable, "-c", STEPS, str(folder / "meet"), str(COUNT))
            with (folder / "said").open("wb") as said:
                rank = subprocess.Popen(argv, env=env, stdout=said, stderr=subprocess.DEVNULL)
            (folder / "pid").write_text(str(rank.pid))
            self._ask_while(lambda: rank.poll() is None, folder)
            if rank.wait():
                raise Failed(f"the rank ended with {rank.returncode}")
            self.rounds += 1
            return Spent(**json.loads((folder / "said").read_text().splitlines()[-1]))

    def _ask_while(self, alive: Callable[[], bool], folder: Path) -> None:
        """From the first steps on."""
        while alive() and not (folder / "said").stat().st_size:
            time.sleep(0.05)
        while self.stacks is not None and alive():
            began = time.monotonic()
            self._ask(folder)
            time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))

    def _ask(self, folder: Path) -> None:
        task = {"task": 0, "id": "", "folder": str(folder), "hook": str(folder), "env": {}}
        asked = {"tasks": [task], "engine": ["docker"], "most": MOST_COLLECTIVES, "stacks": bool(self.stacks)}
        program = bundle(*MODULES)
        before = os.times()
        done = subprocess.run(take(program), input=program + json.dumps(asked).encode() + b"\n", capture_output=True)
        after = os.times()
        if MARK not in done.stdout or done.returncode:
            raise Failed(done.stderr.decode("utf-8", "replace")[-200:])
        if b"all_reduce" in done.stdout:
            self.questions += 1
            self.cpu += after.children_user + after.children_system - before.children_user - before.children_system
