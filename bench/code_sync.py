"""10,000 files of code on their way to hosts: all new, none changed, one changed; beside rsync over OpenSSH."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.client_code import run_dir
from bench.cluster import HOSTS, Cluster
from bench.measure import Rival, Spent, by_its_clock, in_turns, side_by_side
from bench.report import Target, note, table, title

FILES, IN_A_FOLDER = 10_000, 50
RUN = "bench"
OWN, RSYNC, BESIDE = "distui", "rsync -a", "rsync -a --link-dest"
STORE = "/root/.local/state/distui/code"
THERE, FORMER = "/root/there", "/root/former"
"""What rsync makes, and what its `--link-dest` links to."""


def measure(cluster: Cluster, *, quick: bool) -> None:
    """One host, then three at once. What is taken away before a round is not counted."""
    rsync = shutil.which("rsync")
    bench = _Syncs(cluster, rsync or "rsync")
    said = subprocess.run((rsync, "--version"), capture_output=True, text=True, check=False).stdout if rsync else ""
    title(f"code: {FILES} files, {bench.size / 1e6:.0f} MB, beside {' '.join(said.split()[:3]) or 'nothing'}")
    if not rsync:
        note("rsync: not here; apt-get install rsync")
    note("distui's clock runs without Python's start and imports, and from reading the folder to the host's last check")
    rounds = 3 if quick else 7
    for hosts in (HOSTS[:1], HOSTS):
        for words, before in (
            ("first time", bench.forget),
            ("unchanged", bench.nothing),
            ("one changed", bench.change),
        ):
            print(f" {words}, {len(hosts)} host{'s' * (len(hosts) > 1)}", flush=True)
            rivals = [Rival(OWN, bench.own(hosts, before))]
            if rsync:
                rivals.append(Rival(RSYNC, bench.rsync(hosts, before)))
            if rsync and words == "one changed":
                rivals.append(Rival(BESIDE, bench.rsync(hosts, before, beside=True)))
            table(in_turns(rivals, rounds), OWN, [Target(RSYNC, "wall", 1.0), Target(RSYNC, "cpu", 1.0)])
    note(
        "--link-dest: a new folder of links to the former one's files, as distui makes; else rsync writes into the old"
    )


class _Syncs:
    """The folder, and ways to bring it to hosts."""

    def __init__(self, cluster: Cluster, rsync: str) -> None:
        self.cluster = cluster
        self.folder = cluster.home / "code"
        self.size = _files(self.folder)
        self._rsync = rsync
        self._turn = 0
        for host in HOSTS:
            self._on(host, f"mkdir -p {run_dir(host, RUN)}")
        self.cases = {"first time": self.forget, "unchanged": self.nothing, "one changed": self.change}
        """What is done before each round."""

    def forget(self) -> None:
        """No host has anything of it."""
        for host in HOSTS:
            self._on(host, f"rm -rf {STORE} {THERE} {FORMER}")

    def nothing(self) -> None:
        """All as it was."""

    def change(self) -> None:
        """One file has another content."""
        self._turn += 1
        (self.folder / "d007/f07.py").write_text(f"turn = {self._turn}\n")

    def own(self, hosts: tuple[str, ...], before: Callable[[], None]) -> Callable[[], Spent]:
        """distui."""
        argv = (sys.executable, "-m", "bench.client_code", str(self.cluster.home), str(self.folder), RUN, *hosts)

        def take() -> Spent:
            before()
            return by_its_clock(argv, env=self.cluster.env)

        return take

    def rsync(self, hosts: tuple[str, ...], before: Callable[[], None], *, beside: bool = False) -> Callable[[], Spent]:
        """A client of rsync for each host, side by side."""
        ssh = f"ssh -F {self.cluster.home}/.ssh/config"
        link = (f"--link-dest={FORMER}",) if beside else ()
        argvs = [(self._rsync, "-a", *link, "-e", ssh, f"{self.folder}/", f"{host}:{THERE}/") for host in hosts]

        def take() -> Spent:
            before()
            if beside:
                for host in hosts:
                    self._on(host, f"rm -rf {FORMER}; mv {THERE} {FORMER}")
            return side_by_side(argvs)

        return take

    def _on(self, host: str, script: str) -> None:
        next(h for h in self.cluster.lab.hosts if h.name == host).exec(script)


def _files(folder: Path) -> int:
    """Sources of all sizes up to 8 kB, the same in every run; their bytes together."""
    words = [f"name_{n} = call({n})\n" for n in range(997)]
    chance, total = random.Random(13), 0
    for number in range(FILES):
        place = folder / f"d{number // IN_A_FOLDER:03}" / f"f{number % IN_A_FOLDER:02}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        text = f"# {number}\n" + "".join(chance.choices(words, k=chance.randrange(400)))
        total += place.write_text(text)
    return total
