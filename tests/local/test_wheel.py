"""What an installed distui owns: one name among other people's packages."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(target: str, source: Path, folder: Path) -> Path:
    """distui's `sdist` or `wheel`, built of a folder with its sources."""
    argv = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True)
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """distui's wheel, of this repository."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """A folder of packages with distui's wheel unpacked beside somebody else's package `tui`."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "tui").mkdir()
    (folder / "tui/__init__.py").write_text("OWNER = 'somebody else'\n")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
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


def test_the_source_package_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """What links and exclusions make of the sources on their way into it, file by file."""
    with tarfile.open(build("sdist", ROOT, tmp_path)) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("distui-*/")
    assert contents(build("wheel", source, tmp_path / "wheel")) == contents(wheel)


def contents(wheel: Path) -> dict[str, int]:
    """Names of its files, each with its checksum."""
    with zipfile.ZipFile(wheel) as packed:
        return {file.filename: file.CRC for file in packed.infolist()}


def test_it_carries_what_runs_on_hosts(installed: Path) -> None:
    """Texts that are sent there, the hook of ranks among them, byte for byte."""
    there = installed / "distui/agent"
    names = sorted(str(path.relative_to(ROOT / "distui/agent")) for path in (ROOT / "distui/agent").rglob("*.py"))
    assert "hook/sitecustomize.py" in names and "hook/distui_insight.py" in names
    for name in names:
        assert (there / name).read_bytes() == (ROOT / "distui/agent" / name).read_bytes()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_pages_name_what_is_there(page: str) -> None:
    """Every link, and every path that is named as code, exists."""
    text = (ROOT / page).read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    paths = re.findall(r"`((?:distui|tui|tests|tools|docs)/[\w./*-]*)`", text)
    assert len(links) > 3
    assert [name for name in [*links, *paths] if not list(ROOT.glob(name))] == []
