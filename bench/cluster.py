"""Three real hosts for the measures that need them (tests/lab), with this process on their login node."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import REPO

sys.path.append(str(REPO / "tests"))

from lab.lab import Lab, why_not  # type: ignore[import-not-found,unused-ignore]
from lab.paths import LabError  # type: ignore[import-not-found,unused-ignore]

__all__ = ["ALIASES", "HOSTS", "Cluster", "Lab", "LabError", "cluster", "refusal"]

NAME = os.environ.get("DISTUI_BENCH_LAB", "benchlab")
"""Two benches at once need two names."""
HOSTS = ("h1", "h2", "h3")
ALIASES = 128
"""Names that lead to the three hosts, for measures that want many: each is a connection of its own."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The hosts, and a HOME from which `ssh h1` and `ssh n001` work."""

    lab: Any
    home: Path
    aliases: tuple[str, ...]

    @property
    def env(self) -> dict[str, str]:
        """The environment of a program on the login node."""
        base = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "dumb"}
        return base | {"PYTHONPATH": str(REPO)}


def refusal() -> str:
    """Why there can be no cluster here; empty when there can."""
    return str(why_not())


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Bring the hosts up, enter their login node; take everything down again."""
    with Lab(NAME) as lab, tempfile.TemporaryDirectory(prefix="distui-bench-home-") as folder:
        lab.up(len(HOSTS))
        home = lab.ssh_home(Path(folder))
        aliases = _add_aliases(home)
        with _login_node(lab):
            yield Cluster(lab, home, aliases)


def _add_aliases(home: Path) -> tuple[str, ...]:
    """`n001` ... lead to the hosts in turn, by stanzas of their own in the home's ssh config."""
    names = tuple(f"n{number:03}" for number in range(1, ALIASES + 1))
    config = home / ".ssh/config"
    stanzas = config.read_text().split("Host ")[1:]
    more = []
    for number, name in enumerate(names):
        head, rest = stanzas[number % len(stanzas)].split("\n", 1)
        more.append(f"Host {name}\n    HostKeyAlias {head}\n{rest}")
    config.write_text("\n".join([config.read_text(), *more]))
    return names


@contextmanager
def _login_node(lab: Any) -> Iterator[None]:
    """This process, and what it starts, in the lab's network; back again at the end."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    theirs = os.open(lab.command()[1].removeprefix("--net="), os.O_RDONLY)
    try:
        _enter(theirs)
        yield
    finally:
        _enter(own)
        os.close(own)
        os.close(theirs)


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "setns")
