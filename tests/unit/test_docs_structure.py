"""What docs/structure.md says of the house is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

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


def rooms_in(title: str) -> list[str]:
    """The rooms of a table by their short names, in the order of its rows."""
    table = PAGE.partition(title)[2].partition("\n#")[0]
    named = re.findall(
        r"`([\w./]+)`", "\n".join(row.partition("|")[0] for row in re.findall(r"^\| (`[^\n]*)", table, re.M))
    )
    return [name.removesuffix("/").removesuffix(".py").rpartition("/")[2] for name in named]


def layers(package: str) -> list[set[str]]:
    """What `make lint` knows of the order of rooms, lowest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (found,) = (one["layers"] for one in contracts if one["type"] == "layers" and one["containers"] == [package])
    return [{name.strip() for name in layer.split("|")} for layer in reversed(found)]


@pytest.mark.parametrize(
    ("title", "package"), [("## The rooms", "distui"), ("### Rooms of `distui/runs/`", "distui.runs")]
)
def test_rooms_stand_in_the_table_in_the_order_that_lint_proves(title: str, package: str) -> None:
    """Each once, lowest first; beside the rooms are what joins them all, and programs over that."""
    named = [name for name in rooms_in(title) if name not in ("__init__", "examples")]
    for layer in layers(package):
        assert set(named[: len(layer)]) == layer
        del named[: len(layer)]
    assert named == []
