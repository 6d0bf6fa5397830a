"""The app's first picture beside that of a bare Textual program with a table, a header and a footer.

Whole programs, from their start until the terminal has the word that is looked for: no app that is made with Textual
can be there sooner, or with less.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from bench.measure import REPO, Rival, Spent, in_turns
from bench.report import Target, table, title
from bench.terminal import first_paint

LIMIT = 0.15
"""Seconds of CPU until the first picture."""
OWN, BARE = "distui", "bare Textual"
HOSTS = "version: 1\nhosts:\n  far[1-3]: {addr: '127.0.0.{n}', port: 9}\n"
PROGRAM = """
from textual.app import App
from textual.widgets import DataTable, Footer, Header

class Bare(App):
    def compose(self):
        yield Header()
        table = DataTable()
        table.add_columns("host", "state")
        for number in (1, 2, 3):
            table.add_row(f"far{number}", "up")
        yield table
        yield Footer()

Bare().run()
"""


def measure(*, quick: bool) -> None:
    """Both in turns."""
    title("first paint: the hosts of a file, whole programs under a terminal")
    with tempfile.TemporaryDirectory(prefix="distui-bench-") as name:
        folder = Path(name)
        (folder / "hosts.yaml").write_text(HOSTS)
        own = (sys.executable, "-m", "distui.cli.main")
        rivals = [Rival(OWN, lambda: _taken(own, folder)), Rival(BARE, lambda: _taken(_BARE, folder))]
        table(in_turns(rivals, 5 if quick else 15), OWN, [Target("", "cpu", LIMIT)])


_BARE = (sys.executable, "-c", PROGRAM)


def _taken(argv: tuple[str, ...], folder: Path) -> Spent:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color", "PYTHONPATH": str(REPO)}
    return first_paint(argv, env, b"far2", cwd=folder)
