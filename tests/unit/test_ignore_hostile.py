"""Ignore files of a stranger, as git and archives carry them: no link is followed, no pipe waited for."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from distui.errors import UsageError
from distui.files import read_below
from distui.runs.code.git_lines import Classes, for_pathspec
from distui.runs.code.ignore import MAX_BYTES
from distui.runs.code.source import CodeReader
from distui.runs.images.context import read_build
from distui.spec.job.job import Build, Code, Job

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nowhere",
    **{f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def elsewhere(path: Path) -> None:
    path.symlink_to("../../outside")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    path.write_bytes(b"#" * (MAX_BYTES + 1))


KINDS: dict[Callable[[Path], None], str] = {
    endless: "is a link, which is not followed here",
    elsewhere: "is a link, which is not followed here",
    fifo: "is a FIFO, not a regular file",
    huge: "is larger than 256 KiB",
}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    found: Callable[[Path], None] = request.param
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "code"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "Dockerfile").write_text("FROM scratch\n")
    return root


@pytest.mark.parametrize("name", [".gitignore", ".distuiignore", "sub/.gitignore", "sub/.distuiignore"])
def test_code_with_a_hostile_ignore_file_is_refused(
    folder: Path, tmp_path: Path, kind: Callable[[Path], None], name: str
) -> None:
    """In every folder, with the file's name and what to do."""
    kind(folder / name)
    with pytest.raises(UsageError, match=f"^code: {folder}/{name} {KINDS[kind]}\n") as caught:
        CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path=str(folder))))
    assert caught.value.hint == "an ignore file is a small file of its own: put one there"


@pytest.mark.parametrize("name", [".dockerignore", "sub/Dockerfile.dockerignore"])
def test_a_build_with_a_hostile_ignore_file_is_refused(folder: Path, kind: Callable[[Path], None], name: str) -> None:
    """The context's and the Dockerfile's own."""
    kind(folder / name)
    with pytest.raises(UsageError, match=f"^build: {folder}/{name} {KINDS[kind]}\n") as caught:
        read_build(Job("j", build=Build(str(folder), dockerfile="sub/Dockerfile")))
    assert "put one there" in caught.value.hint


def test_an_ignore_file_that_is_a_link_to_another_of_the_folder_is_that_one(folder: Path, tmp_path: Path) -> None:
    """Usual of `.dockerignore`, which docker follows; one that leads nowhere is none."""
    (folder / ".gitignore").write_text("*.log\n")
    (folder / ".dockerignore").symlink_to(".gitignore")
    (folder / "sub" / ".gitignore").symlink_to("../.gitignore")
    (folder / ".distuiignore").symlink_to("nowhere")
    (folder / "sub" / ".distuiignore").symlink_to("second")
    (folder / "sub" / "second").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"sub/second is a link"):
        CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path=str(folder))))
    (folder / "sub" / ".distuiignore").unlink()
    (folder / "sub" / "second").unlink()
    for name in ("a.log", "sub/b.log", "kept"):
        (folder / name).touch()
    code = CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path=str(folder))))
    assert code is not None
    assert {e.path for e in code.tree.entries if "log" in e.path} == set()
    built = read_build(Job("j", build=Build(str(folder), dockerfile="sub/Dockerfile")))
    assert built is not None and "a.log" not in {e.path for e in built.tree.entries}


def test_a_repository_s_ignore_file_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    """git carries it as it is; its own `.gitignore` says nothing of what is committed."""
    endless(folder / ".distuiignore")
    endless(folder / "sub" / ".gitignore")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "c")):
        subprocess.run(("git", "-C", str(folder), *words), env=ENV, check=True, capture_output=True)
    job = Job("j", code=Code(git=str(folder)))
    with pytest.raises(UsageError, match=r"/\.distuiignore is a link"):
        CodeReader(tmp_path / "cache", ENV).read(job)
    (folder / ".distuiignore").unlink()
    subprocess.run(("git", "-C", str(folder), "commit", "-qam", "d"), env=ENV, check=True, capture_output=True)
    found = CodeReader(tmp_path / "other", ENV).read(job)
    assert found is not None
    assert [entry.path for entry in found.tree.entries] == ["sub/Dockerfile"]


def test_a_folder_on_the_way_that_is_a_link_is_not_gone_through(folder: Path, tmp_path: Path) -> None:
    """What lies behind it is no ignore file of this context."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "secret" / "Dockerfile.dockerignore").write_text("[\n")
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match=r"there is no link/Dockerfile in"):
        read_build(Job("j", build=Build(str(folder), dockerfile="link/Dockerfile")))
    with pytest.raises(NotADirectoryError):
        read_below(folder, "link/Dockerfile", 10)


def test_a_folder_of_that_name_is_none(folder: Path, tmp_path: Path) -> None:
    """As git takes it."""
    (folder / ".gitignore").mkdir()
    (folder / ".dockerignore").mkdir()
    assert CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path=str(folder)))) is not None
    assert read_build(Job("j", build=Build(str(folder), dockerfile="sub/Dockerfile"))) is not None


@pytest.mark.parametrize(
    "line", ["[" + "[:" * 60_000, "[" + "[:a:" * 30_000, "[" + "[:" * 60_000 + "]x]", "[" * 120_000]
)
def test_a_long_line_of_an_ignore_file_is_read_soon(line: str) -> None:
    """Brackets that are not closed, and what may be the beginning of a class."""
    began = time.process_time()
    for_pathspec(line, Classes())
    assert time.process_time() - began < 10
