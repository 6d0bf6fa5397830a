"""Copies of a run's files under $TMPDIR: they go with their process, also when that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distui.copies import LOCK, PREFIX, copy_folder, sweep

HOLDS = """
import sys
from distui.copies import copy_folder
with copy_folder() as folder:
    (folder / "runs" / "r1").mkdir(parents=True)
    (folder / "runs" / "r1" / "rank-00000.log").write_text("line")
    (folder / "away").symlink_to(sys.argv[1])
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$TMPDIR."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(place: Path, tmp_path: Path) -> None:
    """With all that is in it; where a link in it leads stays as it is."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("mine")
    argv = (sys.executable, "-c", HOLDS, str(other))
    with (
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living,
    ):
        assert killed.stdout is not None and living.stdout is not None
        left, used = (Path(process.stdout.readline().strip()) for process in (killed, living))  # type: ignore[union-attr]
        sweep()
        assert left.is_dir() and used.is_dir()
        killed.kill()
        killed.wait()
        sweep()
        assert not left.exists()
        assert (used / "runs" / "r1" / "rank-00000.log").read_text() == "line"
        living.communicate()
    assert list(place.iterdir()) == []
    assert [path.name for path in other.iterdir()] == ["mine"]


def test_who_makes_one_removes_those_that_were_left(place: Path) -> None:
    """Beside what it does."""
    left = place / f"{PREFIX}old"
    left.mkdir(mode=0o700)
    (left / LOCK).touch()
    with copy_folder() as folder:
        while left.exists():
            os.sched_yield()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(place.iterdir()) == []


def test_what_may_not_be_ours_stays(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a lock, one that others may write to, links, files, other names, and another login's."""
    target = tmp_path / "target"
    for folder in (target, place / f"{PREFIX}open", place / "distui-other", place / f"{PREFIX}linked"):
        folder.mkdir(mode=0o700)
        (folder / LOCK).touch()
    (place / f"{PREFIX}open").chmod(0o777)
    (place / f"{PREFIX}linked" / LOCK).unlink()
    (place / f"{PREFIX}linked" / LOCK).symlink_to(target / LOCK)
    (place / f"{PREFIX}link").symlink_to(target)
    (place / f"{PREFIX}file").touch()
    (place / f"{PREFIX}early").mkdir(mode=0o700)
    before = sorted(place.iterdir())
    sweep()
    assert sorted(place.iterdir()) == before
    strange = place / f"{PREFIX}strange"
    strange.mkdir(mode=0o700)
    (strange / LOCK).touch()
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    sweep()
    assert strange.exists()
    monkeypatch.undo()
    sweep(str(place))
    assert not strange.exists()
    assert (target / LOCK).exists()


def test_what_can_not_be_removed_is_left_and_a_folder_that_is_not_there_is_none(tmp_path: Path) -> None:
    """Nothing is raised."""
    sweep(str(tmp_path / "none"))
    (tmp_path / "file").touch()
    sweep(str(tmp_path / "file"))
