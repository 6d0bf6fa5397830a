"""Record endings again, as root: `PYTHONPATH=tests python -m verdict.record [NAME...]`; `--list` names them all.

Brings up a lab of three hosts, runs each scenario there through the real distui, and writes `cases/NAME.json`.
A name may be a pattern (`torchrun-*`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from lab.host import Host
from lab.lab import Lab
from lab.paths import REPO
from lab.program import Program
from lab.runs import until
from verdict.casefile import CASES, build_case, settle, write_case
from verdict.scenario import Scenario
from verdict.scenarios import ALL

HERE = Path(__file__).resolve().parent
HOSTS = 3
TAP = "tap.ndjson"


class Stage:
    """One run that is being recorded, as a scenario's `act` sees it."""

    def __init__(self, lab: Lab, home: Path, program: Program) -> None:
        self.lab, self.home, self.program = lab, home, program
        self.lines: list[str] = []
        self.kinds: set[str] = set()
        self.run = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        self._errors.start()
        self.errors = ""

    def _read(self) -> None:
        assert self.program.stdout is not None
        for line in self.program.stdout:
            event = json.loads(line)
            self.run = event.get("run") or self.run
            self.kinds.add(event["type"])
            if event["type"] == "log":
                self.lines.append(event["line"])

    def _read_errors(self) -> None:
        assert self.program.stderr is not None
        self.errors = self.program.stderr.read()

    def said(self, text: str, times: int = 1) -> None:
        """Wait until that many lines with `text` were read."""
        until(lambda: sum(text in line for line in self.lines) >= times or self.program.poll() is not None, 120)

    def wait_for(self, kind: str) -> None:
        """Wait until distui told an event of this type."""
        until(lambda: kind in self.kinds or self.program.poll() is not None, 120)

    def host(self, name: str) -> Host:
        """A host of the lab."""
        return self.lab.host(name)

    def docker(self, host: str, *words: str, index: int = 0) -> None:
        """`docker WORDS CONTAINER` there, by somebody who is not distui."""
        where = self.host(host)
        names = sorted(where.out("docker", "ps", "--filter", "label=distui.run", "--format", "{{.Names}}").split())
        where.exec("docker", *words, names[index])

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.program.signal_group(signal.SIGINT)

    def distui(self, *words: str) -> None:
        """Another distui of the same person."""
        self.lab.distui(*words, home=self.home)

    def distui_elsewhere(self, *words: str) -> None:
        """distui of the same person on another machine."""
        home = self.lab.ssh_home(self.home.parent / "elsewhere")
        shutil.copy(self.home / "hosts.yaml", home)
        self.lab.distui(*words, home=home)

    def finish(self) -> None:
        """Wait for the end."""
        try:
            self.program.wait(200)
        finally:
            self.program.signal_group(signal.SIGKILL)
        self._reader.join(120)
        self._errors.join(120)


def record(lab: Lab, scenario: Scenario, into: Path = CASES) -> None:
    """Run one scenario and store its case. Raises RuntimeError with distui's words when no run came of it."""
    shutil.copytree(HERE / "programs", lab.share / "programs", dirs_exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        home, since = lab.ssh_home(Path(scratch) / "home"), time.time()
        stage = perform(lab, scenario, home)
        folders = list((home / ".local/state/distui/runs").glob("*/plan.json"))
        if len(folders) != 1:
            raise RuntimeError(f"no run was made: {stage.errors[-2000:]}")
        case = build_case(folders[0].parent, home / TAP, since=since)
    head = {"title": scenario.title, "source": scenario.source(case)}
    path = write_case(scenario.name, head | case | {"truth": settle(scenario.truth, case)}, into)
    ends = [(task["end"] or {}).get("code") for task in case["tasks"]]
    print(f"{scenario.name}: exit {stage.program.returncode}, ends {ends}, {path.stat().st_size} bytes", flush=True)


def perform(lab: Lab, scenario: Scenario, home: Path) -> Stage:
    """Run the scenario's job from this home to its end, and do to it what is to be done."""
    (home / "hosts.yaml").write_text(f"version: 1\nhosts:\n  h[1-{HOSTS}]: {{docker: {scenario.engine}}}\n")
    (home / "job.yaml").write_text(json.dumps(scenario.job))
    words = ("run", "job.yaml", "--headless", "-o", "ndjson", "-y", *scenario.flags)
    env = {"PYTHONPATH": str(REPO), "VERDICT_TAP": str(home / TAP)}
    with lab.spawn(sys.executable, str(HERE / "tap.py"), *words, home=home, env=env) as program:
        stage = Stage(lab, home, program)
        try:
            if scenario.act is not None:
                scenario.act(stage)
        finally:
            stage.finish()
    return stage


def main() -> int:
    """Record what is asked for; ends with 1 when one could not be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [s for s in ALL if not options.names or any(Path(s.name).match(name) for name in options.names)]
    if options.list:
        print("\n".join(f"{s.name}: {s.title}" for s in chosen))
        return 0
    failed = 0
    with Lab("verdict") as lab:
        lab.up(HOSTS)
        for scenario in chosen:
            try:
                record(lab, scenario)
            except Exception:
                failed += 1
                print(f"{scenario.name}: NOT RECORDED", flush=True)
                traceback.print_exc()
            finally:
                lab.heal()
                for host in lab.hosts:
                    host.remove_leftovers()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
