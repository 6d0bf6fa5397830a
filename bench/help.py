"""CPU of printing help, and of an empty `ps`: what every shell completion, script and curious user pays first."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from bench.measure import Rival, command, in_turns
from bench.peers import Peers
from bench.report import Target, note, table, title

HELP, EMPTY = 0.06, 0.1
"""Seconds of CPU that `distui --help` may cost, and `distui ps` without hosts and runs."""


def measure(peers: Peers, *, quick: bool) -> None:
    """`distui --help`, `distui ps --help` and an empty `distui ps` beside the others' help and Python itself."""
    title("help: CPU of printing it")
    with tempfile.TemporaryDirectory(prefix="distui-bench-") as home:
        _measure(peers, Path(home), quick=quick)


def _measure(peers: Peers, home: Path, *, quick: bool) -> None:
    mine = _distui()
    rivals = [_rival("distui --help", *mine, "--help"), _rival("distui ps --help", *mine, "ps", "--help")]
    empty = {"PATH": os.environ["PATH"], "HOME": str(home)}
    rivals.append(Rival("distui ps", lambda: command((*mine, "ps"), env=empty, cwd=home)))
    rivals += [
        _rival("python -c pass", sys.executable, "-c", "pass"),
        _rival("python -c 'import click'", sys.executable, "-c", "import click"),
    ]
    for name in ("docker", "clush", "ansible"):
        if name in peers.found:
            rivals.append(_rival(f"{name} --help", peers.found[name], "--help"))
        else:
            note(f"{name}: {peers.missing[name]}")
    taken = in_turns(rivals, 7 if quick else 25)
    table(taken, "distui --help", [Target("", "cpu", HELP)])
    table({n: s for n, s in taken.items() if n == "distui ps"}, "distui ps", [Target("", "cpu", EMPTY)])


def _distui() -> tuple[str, ...]:
    """The installed command, or the module where only a checkout is here."""
    script = Path(sys.executable).with_name("distui")
    return (str(script),) if script.exists() else (sys.executable, "-m", "distui.cli.main")


def _rival(name: str, *argv: str) -> Rival:
    return Rival(name, lambda: command(argv, env=dict(os.environ) | {"COLUMNS": "100"}))
