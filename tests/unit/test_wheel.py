"""What an installed distui owns: one name among other people's packages."""

from __future__ import annotations

import re
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


def test_it_carries_its_license_and_says_who_made_it(installed: Path) -> None:
    """The full text, and its name as SPDX has it."""
    (metadata,) = installed.glob("distui-*.dist-info")
    metadata_text = (metadata / "METADATA").read_text("utf-8")
    assert "License-Expression: Apache-2.0\n" in metadata_text
    assert "Author: The distui developers\n" in metadata_text
    text = (metadata / "licenses/LICENSE").read_text("utf-8")
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_pages_name_what_is_there(page: str) -> None:
    """Every link, and every path that is named as code, exists."""
    text = (ROOT / page).read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    paths = re.findall(r"`((?:distui|tui|tests|tools|docs)/[\w./*-]*)`", text)
    assert len(links) > 3
    assert [name for name in [*links, *paths] if not list(ROOT.glob(name))] == []
