"""tools/repeat-tests names what was ever red, also what is red only sometimes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/repeat-tests"

SOMETIMES = """
from pathlib import Path
def test_good(): pass
def test_sometimes():
    seen = Path(__file__).with_name("seen")
    count = int(seen.read_text()) if seen.exists() else 0
    seen.write_text(str(count + 1))
    assert count != 1
"""


def repeat(folder: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The tool over one file of tests, with its log beside it."""
    argv = [sys.executable, str(TOOL), "--log", str(folder / "log"), *options, str(folder / name)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("busy", [False, True])
def test_one_red_of_three_is_named(tmp_path: Path, busy: bool) -> None:
    """And nothing else; the status says that something was red."""
    (tmp_path / "test_it.py").write_text(SOMETIMES)
    done = repeat(tmp_path, "test_it.py", "--times", "3", *["--busy"] * busy)

    assert done.returncode == 1, done.stderr
    assert "turn 3 of 3: 2 tests" in done.stdout
    assert "red 1 of 3: " in done.stdout
    assert "test_sometimes" in done.stdout
    assert "test_good" not in done.stdout


def test_all_green(tmp_path: Path) -> None:
    """The status is 0 and nothing is named."""
    (tmp_path / "test_it.py").write_text("def test_good(): pass\n")
    done = repeat(tmp_path, "test_it.py")

    assert done.returncode == 0, done.stderr
    assert "0 red" in done.stdout
    assert "red 1" not in done.stdout


def test_what_does_not_run_at_all_is_red(tmp_path: Path) -> None:
    """pytest that finds no such file has tested nothing."""
    done = repeat(tmp_path, "test_none.py")

    assert done.returncode == 1
    assert "red 1 of 1" in done.stdout
