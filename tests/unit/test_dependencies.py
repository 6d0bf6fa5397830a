"""What pyproject.toml, constraints.txt and requirements.lock say of dependencies is one thing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
RUNTIME = PYPROJECT["project"]["dependencies"]
EXTRAS = [line for lines in PYPROJECT["project"]["optional-dependencies"].values() for line in lines]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")


def plain(name: str) -> str:
    """A package's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def exact(text: str) -> dict[str, str]:
    """Names and versions of the lines `name==version`."""
    return {plain(name): version for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)}


def floors(*words: str) -> list[str]:
    """What tools/floors.py prints."""
    argv = [sys.executable, str(ROOT / "tools/floors.py"), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("requirement", [*RUNTIME, *EXTRAS, *PYPROJECT["build-system"]["requires"]])
def test_every_dependency_has_a_floor(requirement: str) -> None:
    """Without one, pip keeps what is installed, however old it is."""
    assert re.fullmatch(r"[\w-]+>=\d[\d.]*(,<\d[\d.]*)?", requirement)


def test_floors_are_printed_from_the_ranges() -> None:
    """One exact version each, and nothing else."""
    wanted = [requirement.partition(",")[0].replace(">=", "==") for requirement in RUNTIME]
    assert floors() == wanted


def test_floors_stand_before_what_constraints_say_of_other_packages() -> None:
    """No package twice, and comments are left out."""
    printed = floors(str(ROOT / "constraints.txt"))
    constraints = exact((ROOT / "constraints.txt").read_text("utf-8"))
    assert exact("\n".join(printed)) == constraints | exact("\n".join(floors()))
    assert len(printed) == len(constraints)


def test_the_lock_has_the_versions_of_the_constraints() -> None:
    """Of every dependency and what those need; whoever changes one file makes the other again (`make lock`)."""
    locked, constraints = exact(LOCK), exact((ROOT / "constraints.txt").read_text("utf-8"))
    assert locked == {name: constraints.get(name) for name in locked}
    assert {plain(re.match(r"[\w-]+", line)[0]) for line in RUNTIME} < set(locked)
    assert "torch" not in locked


def test_the_lock_has_hashes_and_names_no_index() -> None:
    """pip takes a file with hashes only where every package has one; where it comes from is the reader's choice."""
    packages = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(packages) == len(exact(LOCK))
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", package) for package in packages)
    assert not re.search(r"://|index|find-links|trusted", LOCK)
