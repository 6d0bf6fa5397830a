"""CPU of printing help: what every shell completion, script and curious user pays first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.measure import Rival, command, in_turns
from bench.peers import Peers
from bench.report import Target, note, table, title

LIMIT = 0.1
"""Seconds of CPU `distui --help` and `distui ps --help` may cost."""


def measure(peers: Peers, *, quick: bool) -> None:
    """`distui --help` and `distui ps --help` beside the others' help and Python itself."""
    title("help: CPU of printing it")
    mine = _distui()
    rivals = [_rival("distui --help", *mine, "--help"), _rival("distui ps --help", *mine, "ps", "--help")]
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
    table(taken, "distui --help", [Target("", "cpu", LIMIT)])
    table({n: s for n, s in taken.items() if n == "distui ps --help"}, "distui ps --help", [Target("", "cpu", LIMIT)])


def _distui() -> tuple[str, ...]:
    """The installed command, or the module where only a checkout is here."""
    script = Path(sys.executable).with_name("distui")
    return (str(script),) if script.exists() else (sys.executable, "-m", "distui.cli.main")


def _rival(name: str, *argv: str) -> Rival:
    return Rival(name, lambda: command(argv, env=dict(os.environ) | {"COLUMNS": "100"}))
