"""What did not change since the last run is not read again; what changed is, however it was written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.runs.code import changes
from distui.runs.code import hashes as module
from distui.runs.code import scan as scanning
from distui.runs.code.hashes import Hashes, hashes_of
from distui.runs.code.source import CodeReader
from distui.spec.job.job import Code, Job


class Reads:
    """Reads a folder of code as another run does each time, and knows which files were opened for it."""

    def __init__(self, cache: Path, code: Path) -> None:
        self.cache, self.code = cache, code
        self.opened: list[str] = []
        self.environ = {"PATH": ""}

    def again(self) -> list[str]:
        """Names of the files that were read this time."""
        self.opened.clear()
        self.source = CodeReader(self.cache, self.environ).read(Job("j", code=Code(path=str(self.code))))
        return sorted(Path(path).name for path in self.opened)


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Over two files that are not young."""
    made = Reads(tmp_path / "cache", tmp_path / "code")
    made.code.mkdir()
    monkeypatch.setattr(module, "_FRESH_SECONDS", -1.0)
    for name in ("a.py", "b.py"):
        (made.code / name).write_text(f"name = '{name}'\n")
    real = scanning.pieces

    def noted(path: Any, **how: int) -> Iterator[bytes]:
        made.opened.append(str(path))
        return real(path, **how)

    monkeypatch.setattr(scanning, "pieces", noted)
    return made


def kept(reads: Reads) -> Path:
    (file,) = (reads.cache / "hashes").iterdir()
    return file


def test_a_repository_s_files_are_not_read_for_git_either(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the second time; what changed is read for both."""
    for argv in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        who = ("-c", "user.name=n", "-c", "user.email=e@x")
        subprocess.run(("git", *who, *argv), cwd=reads.code, check=True)
    monkeypatch.setattr(changes, "pieces", scanning.pieces)
    reads.environ = {"PATH": os.environ["PATH"], "HOME": str(reads.cache)}
    assert reads.again() == ["a.py", "a.py", "b.py", "b.py"]
    changes._hashes.clear()
    assert reads.again() == []
    (reads.code / "a.py").write_text("name = 'A.PY'\n")
    assert reads.again() == ["a.py"] * 3  # and for the diff
    assert reads.source is not None
    assert "a.py" in reads.source.plan.diff


def test_only_what_changed_is_read(reads: Reads) -> None:
    """Also by another process: nothing the second time, then the one file; the same tree as without it."""
    assert reads.again() == ["a.py", "b.py"]
    assert reads.again() == []
    (reads.code / "a.py").write_text("name = 'other'\n")
    assert reads.again() == ["a.py"]
    assert reads.source is not None
    assert reads.source.tree == scanning.scan(reads.code, scanning.Ignored(), hashes=Hashes()).tree
    assert reads.again() == []


def test_an_old_time_and_the_same_size_hide_nothing(reads: Reads) -> None:
    """The time of a file's last change can't be set."""
    reads.again()
    before = (reads.code / "a.py").stat()
    (reads.code / "a.py").write_text("name = 'A.PY'\n")
    os.utime(reads.code / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (reads.code / "a.py").stat().st_mtime_ns == before.st_mtime_ns
    assert reads.again() == ["a.py"]


def test_a_young_file_is_read_again(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be written once more within the same tick of the clock."""
    monkeypatch.setattr(module, "_FRESH_SECONDS", 60.0)
    assert reads.again() == reads.again() == ["a.py", "b.py"]


@pytest.mark.parametrize("harm", ["cut", "other", "open folder", "a folder"])
def test_what_is_not_whole_or_not_ours_is_not_believed(reads: Reads, harm: str) -> None:
    """Everything is read then."""
    reads.again()
    file = kept(reads)
    match harm:
        case "cut":
            file.write_bytes(file.read_bytes()[:-1])
        case "other":
            data = bytearray(file.read_bytes())
            data[-1] ^= 1
            file.write_bytes(data)
        case "open folder":
            file.parent.chmod(0o777)
        case _:
            file.unlink()
            file.mkdir()
    assert reads.again() == ["a.py", "b.py"]


def test_where_nothing_can_be_kept_code_is_read_all_the_same(reads: Reads) -> None:
    """A file stands where the cache should be."""
    reads.cache.write_text("")
    assert reads.again() == reads.again() == ["a.py", "b.py"]


def test_where_nothing_is_new_nothing_is_written_and_what_is_used_stays(reads: Reads) -> None:
    """Ten thousand rows take longer to write than to read. Of too many folders, that one goes last."""
    reads.again()
    written = kept(reads).stat()
    os.utime(kept(reads), (1.0, 1.0))
    assert reads.again() == []
    again = kept(reads).stat()
    assert (again.st_ino, again.st_mtime > 1.0) == (written.st_ino, True)


def test_what_is_kept_is_bounded(reads: Reads) -> None:
    """Rows of files that are gone go, and folders beyond the newest 32."""
    reads.again()
    size = kept(reads).stat().st_size
    (reads.code / "a.py").write_text("1")
    (reads.code / "b.py").unlink()
    reads.again()
    assert kept(reads).stat().st_size == size - module._KEY.size - 32
    assert kept(reads).stat().st_mode & 0o777 == 0o600
    for number in range(40):
        hashes = hashes_of(reads.cache, Path(f"/code/{number}"))
        hashes.get((1, 2, 3, 4, 5))
        hashes.add((1, 2, 3, 4, 5), "0" * 64)
        hashes.save()
    assert len(list((reads.cache / "hashes").iterdir())) == 32
