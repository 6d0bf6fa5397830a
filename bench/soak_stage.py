"""What one run of the soak has that its faults strike: the lab, and the distuis that own and follow the run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from bench.cluster import HOSTS
from bench.soak_viewer import Viewer

HERE, ELSEWHERE = "here", "elsewhere"


class Stage:
    """`lab` has the hosts; `state` is where distui's own files are here."""

    program: Viewer
    """The distui that starts the run, or the last that took it up here."""

    def __init__(self, lab: Any, folder: Path, state: Path) -> None:
        self.lab = lab
        self.state = state
        self.places = {HERE: (folder / "home", state), ELSEWHERE: (folder / "home2", folder / "state2")}
        self.viewers: list[Viewer] = []
        self.name = ""
        self.dice = random.Random()
        for home, _ in self.places.values():
            lab.ssh_home(home)
            (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")

    @property
    def ballast(self) -> Path:
        """The file that fills the disk here."""
        return self.state / "ballast"

    def take_up(self, verb: str) -> None:
        """Kill the distui that owns the run, and let another take its place."""
        self.program.kill()
        self.program = self.beside(verb)

    def beside(self, verb: str, *, elsewhere: bool = False) -> Viewer:
        """Another distui at the same time."""
        return self.spawn(verb, self.name, place=ELSEWHERE if elsewhere else HERE)

    def containers(self, host: str) -> list[str]:
        """The run's containers on a host, in any state."""
        found: list[str] = self.lab.host(host).containers(f"distui.run={self.name}")
        return found

    def log_of(self, host: str, place: str = HERE) -> Path:
        """The log of the host's rank."""
        return self.places[place][1] / f"distui/runs/{self.name}/logs/rank-{HOSTS.index(host):05}.log"

    def spawn(self, verb: str, *words: str, place: str = HERE) -> Viewer:
        """A distui of its own, among the viewers."""
        home, state = self.places[place]
        flags = ("--headless", "--log-to", "none", "-o", "ndjson") if verb in ("run", "attach") else ()
        env = {"XDG_STATE_HOME": str(state)}
        viewer = Viewer(self.lab.spawn_distui(verb, *words, *flags, "-y", home=home, env=env), verb, place)
        self.viewers.append(viewer)
        return viewer
