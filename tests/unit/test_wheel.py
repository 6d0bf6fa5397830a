"""What an installed distui owns: one name among other people's packages."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with distui's wheel unpacked beside somebody else's package `tui`."""
    folder = tmp_path_factory.mktemp("packages")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    (folder / "tui").mkdir()
    (folder / "tui/__init__.py").write_text("OWNER = 'somebody else'\n")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    wheel.unlink()
    return folder


def test_it_owns_one_name(installed: Path) -> None:
    """Folders that lie at the top of the repository are parts of `distui` once it is installed."""
    names = sorted(path.name.partition("-")[0] for path in installed.iterdir())
    assert names == ["distui", "distui", "tui"]  # the package, its metadata, and the other one


def test_it_works_beside_a_package_of_the_same_name(installed: Path, tmp_path: Path) -> None:
    """Somebody else's `tui` stays what it is, and distui does not take it for its own."""
    program = (
        "import tui, distui.tui.app, distui.remote.pool, distui.trainers; print(tui.OWNER, distui.tui.app.__file__)"
    )
    flags = [sys.executable, "-c", program]
    done = subprocess.run(flags, cwd=tmp_path, env={"PYTHONPATH": str(installed)}, capture_output=True, text=True)
    assert done.stdout == f"somebody else {installed}/distui/tui/app.py\n", done.stderr
