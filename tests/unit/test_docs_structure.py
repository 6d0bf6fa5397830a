"""What docs/structure.md says of the house is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/structure.md").read_text("utf-8")


def test_every_file_that_is_named_is_there() -> None:
    """By its path from the top or from `distui/`; one without a folder by its name."""
    folders = ("distui", "remote", "tui", "trainers", "tests", "tools", "bench", "examples")
    here = [path for folder in folders for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    ends = {"/".join(path.relative_to(ROOT).parts[-n:]) for path in here for n in range(1, 6)}
    named = re.findall(r"`([\w./-]+\.(?:py|sh))`", PAGE)
    assert len(named) > 100
    assert sorted({name for name in named if name not in ends}) == []


def test_every_room_of_a_run_is_in_the_table() -> None:
    """One row each; what `make lint` knows of their order is in pyproject.toml."""
    table = PAGE.partition("### Rooms of `distui/runs/`")[2].partition("\n## ")[0]
    rooms = sorted(path.parent.name for path in (ROOT / "distui/runs").glob("*/__init__.py"))
    rows = [row.partition("|")[0] for row in re.findall(r"^\| (`[^|]*)", table, re.M)]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == rooms
