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


def test_one_red_of_three_is_named(tmp_path: Path) -> None:
    """And nothing else; the status says that something was red."""
    (tmp_path / "test_it.py").write_text(SOMETIMES)
    done = repeat(tmp_path, "test_it.py", "--times", "3")

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


BESIDE = """
import os
from pathlib import Path
def hogs():
    tool = os.getppid()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == tool and b"while True: pass" in (place / "cmdline").read_bytes():
                found.append(place.name)
        except OSError:
            pass
    return found
def test_busy():
    assert len(hogs()) == os.cpu_count()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc is looked at")
def test_every_core_is_kept_busy_if_that_is_asked_for(tmp_path: Path) -> None:
    """By one program each, beside the tests."""
    (tmp_path / "test_it.py").write_text(BESIDE)
    done = repeat(tmp_path, "test_it.py", "--busy")
    assert done.returncode == 0, done.stdout


def test_what_does_not_run_at_all_is_red(tmp_path: Path) -> None:
    """pytest that finds no such file has tested nothing."""
    done = repeat(tmp_path, "test_none.py")

    assert done.returncode == 1
    assert "red 1 of 1" in done.stdout
