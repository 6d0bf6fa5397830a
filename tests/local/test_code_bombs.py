"""A few kilobytes of a stranger's that unfold to terabytes: refused while they are looked at, never written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from distui.errors import CheckFailed, DistuiError, UsageError
from distui.runs.code import limits
from distui.runs.code import scan as scan_module
from distui.runs.code.changes import state_of
from distui.runs.code.git import call as git_call
from distui.runs.code.git import repository as git_module
from distui.runs.code.git.call import Call, call
from distui.runs.code.ignore import Ignored
from distui.runs.code.scan import scan
from distui.runs.code.source import CodeReader
from distui.runs.images.context import read_build
from distui.spec.job.job import Build, Code, Job

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nowhere",
    **{f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    done = subprocess.run(("git", "-C", str(folder), *words), env=ENV, input=given, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    return folder


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """No need to wait for half a million."""
    monkeypatch.setattr(git_call, "MOST_ROWS", 1000)


def bomb(repo: Path) -> None:
    """Ten trees, each ten times in the next one: ten thousand million files of one byte."""
    row = f"100644 blob {git(repo, 'hash-object', '-w', '--stdin', given=b'x')}\t%d\n"
    for _ in range(10):
        tree = git(repo, "mktree", given="".join(row % number for number in range(10)).encode())
        row = f"040000 tree {tree}\t%d\n"
    git(repo, "update-ref", "refs/heads/main", git(repo, "commit-tree", "-m", "c", tree))


def commit(repo: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(content)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "c")


def written(cache: Path) -> list[str]:
    """What distui made of the commit's files."""
    return sorted(str(p.relative_to(cache)).split("/", 3)[3] for p in cache.glob("git/*.trees/*/**/*") if p.is_file())


def test_a_bomb_of_trees_is_given_up_while_it_is_listed(few: None, repo: Path, tmp_path: Path) -> None:
    bomb(repo)
    with pytest.raises(CheckFailed, match=r"commit [0-9a-f]{12} of .* holds more than 1,000 files") as caught:
        CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(git=str(repo))))
    assert "subdir" in caught.value.hint
    assert written(tmp_path / "cache") == []


def test_a_folder_whose_own_commit_is_a_bomb_has_no_commit(few: None, repo: Path, tmp_path: Path) -> None:
    """The folder itself is sent."""
    bomb(repo)
    (repo / "train.py").write_text("1\n")
    found = CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path=str(repo))))
    assert found is not None
    assert (found.plan.files, found.plan.commit) == (1, "")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_size": 1 << 20}, "3.0 MB in 2 files, more than 1m"),
        ({"max_file": 1 << 20}, "larger than 1m .*: big 3.0 MB"),
    ],
)
def test_what_is_too_much_is_not_written(repo: Path, tmp_path: Path, limits: dict[str, int], words: str) -> None:
    """Zeros, which take no room in a repository."""
    commit(repo, {"big": bytes(3_000_000), "small": b"x"})
    with pytest.raises(UsageError, match=words) as caught:
        CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(git=str(repo), **limits)))
    assert "write /big into .distuiignore" in caught.value.hint
    assert written(tmp_path / "cache") == []


def test_what_is_ignored_does_not_count_and_is_not_written(repo: Path, tmp_path: Path) -> None:
    """By the job's patterns, and by the repository's own ignore files, in every folder of it."""
    zeros = bytes(3_000_000)
    commit(
        repo,
        {
            ".distuiignore": b"/top.bin\n/out/\n",
            "sub/.distuiignore": b"*.bin\n!kept.bin\n",
            "out/sub/big": zeros,
            "top.bin": zeros,
            "sub/deep/a.bin": zeros,
            "sub/kept.bin": b"x",
            "data/big": zeros,
            "train.py": b"x",
        },
    )
    job = Job("j", code=Code(git=str(repo), ignore=("data/",), max_size=1 << 20))
    found = CodeReader(tmp_path / "cache", ENV).read(job)
    assert found is not None
    kept = [".distuiignore", "sub/.distuiignore", "sub/kept.bin", "train.py"]
    assert [entry.path for entry in found.tree.files] == kept
    assert written(tmp_path / "cache") == kept
    whole = CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(git=str(repo), ignore=("data/",))))
    assert whole is not None
    assert whole.tree.files == found.tree.files


def test_an_ignore_file_in_the_commit_is_read_with_measure(repo: Path, tmp_path: Path) -> None:
    commit(repo, {"big": bytes(3_000_000)})
    (repo / ".distuiignore").symlink_to("big")
    commit(repo, {})
    with pytest.raises(UsageError, match=r"has an ignore file that is a link, .*: \.distuiignore"):
        CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(git=str(repo), max_size=1 << 20)))


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_there_must_be_room_for_it(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever max_size its author wrote."""
    commit(repo, {"big": bytes(3_000_000)})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(9_000_000, 7_000_000, 2_000_000))
    with pytest.raises(CheckFailed, match=r"is 3.0 MB, and 2.0 MB are free in "):
        CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(git=str(repo), max_size=1 << 49)))
    assert written(tmp_path / "cache") == []


def test_a_repository_that_is_too_large_is_not_fetched(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what came of it is removed."""
    commit(repo, {"big": os.urandom(3_000_000)})
    monkeypatch.setattr(git_module, "_PACK", 1 << 20)
    with pytest.raises(CheckFailed, match=r"is larger than 1.0 MB, too much to fetch") as caught:
        CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(git=str(repo), max_size=1 << 10)))
    assert "raise max_size" in caught.value.hint
    assert sum(p.stat().st_size for p in (tmp_path / "cache").rglob("*") if p.is_file()) < 1 << 16


def test_a_lower_limit_of_the_caller_s_stays(tmp_path: Path) -> None:
    words = (
        "sh",
        "-c",
        'ulimit -f 1000 && exec "$@"',
        "sh",
        "sh",
        "-c",
        git_module._WITHIN,
        "2000",
        "sh",
        "-c",
        "ulimit -f",
    )
    code, said, complaint = call(words, ENV, 60, tmp_path)
    assert (code, complaint) == (0, "")
    assert said in (b"1000\n", b"2000\n")  # root may raise it


def deep(root: Path, count: int) -> Path:
    """Folders in each other: more than Python calls itself."""
    root.mkdir()
    handle = os.open(root, os.O_RDONLY)
    for _ in range(count):
        os.mkdir("a", dir_fd=handle)
        below = os.open("a", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)
    return root


def read_code(root: Path) -> object:
    return scan(root, Ignored())


def read_context(root: Path) -> object:
    return read_build(Job("j", build=Build(str(root))))


@pytest.mark.parametrize(("read", "what"), [(read_code, "code"), (read_context, "build")])
def test_folders_in_each_other_without_end_are_reported(
    tmp_path: Path, read: Callable[[Path], object], what: str
) -> None:
    root = deep(tmp_path / "deep", 1500)
    try:
        with pytest.raises(UsageError, match=f"^{what}: more than 100 folders in each other, at a/a/a"):
            read(root)
    finally:  # pytest could not remove it
        subprocess.run(("rm", "-rf", str(root)), check=True)


def test_a_commit_with_folders_in_each_other_is_reported(repo: Path, tmp_path: Path) -> None:
    commit(repo, {"/".join("a" * 99) + "/f": b"x"})
    assert CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(git=str(repo)))) is not None
    commit(repo, {"b/" * 150 + "f": b"x"})
    with pytest.raises(DistuiError, match="more than 100 folders in each other"):
        CodeReader(tmp_path / "other", ENV).read(Job("j", code=Code(git=str(repo))))
    assert written(tmp_path / "other") == []


def test_links_and_empty_folders_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    for module in (limits, scan_module):
        monkeypatch.setattr(module, "MAX_FILES", 10)
    for number in range(11):
        (tmp_path / f"l{number}").symlink_to("x")
    with pytest.raises(UsageError, match="holds more than 10 files"):
        scan(tmp_path, Ignored())


# what a folder differs in from its commit


def test_large_changes_are_named_and_not_compared(repo: Path) -> None:
    """Large here, or in the commit."""
    commit(repo, {"here": b"x\n", "there": b"y\n" * 5_000_000, "small": b"1\n"})
    (repo / "here").write_bytes(b"y\n" * 5_000_000)
    (repo / "there").write_bytes(b"x\n")
    (repo / "small").write_bytes(b"2\n")
    found = state_of(repo, scan(repo, Ignored()).tree, ENV)
    assert found is not None
    assert " here | changed, not compared line by line\n there | changed, not compared line by line" in found.stat
    assert "small | 2 +-" in found.stat
    assert "-1\n+2\n" in found.diff
    assert "here" not in found.diff


def test_many_changes_are_a_diff_with_an_end(repo: Path) -> None:
    commit(repo, {f"f{number}": b"x\n" * 100_000 for number in range(9)})
    for number in range(9):
        (repo / f"f{number}").write_bytes(b"y\n" * 100_000)
    found = state_of(repo, scan(repo, Ignored()).tree, ENV)
    assert found is not None
    assert "9 files changed" in found.stat
    assert len(found.diff) < 300_000
    assert found.diff.endswith("\n... and more")


# git that does not stop talking


def test_git_s_answers_are_kept_with_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_call, "MOST", 1 << 20)
    with pytest.raises(CheckFailed, match="git said more than 1 MiB"):
        call(("yes",), ENV, 60, tmp_path)
    code, said, complaint = call(("sh", "-c", "yes | head -c 3000000 >&2; echo out; exit 3"), ENV, 60, tmp_path)
    assert (code, said) == (3, b"out\n")
    assert len(complaint) <= 64 << 10


def test_git_that_reads_nothing_or_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    with Call(("sh", "-c", "exit 4"), ENV, 60, tmp_path, [b"x" * 9_000_000]) as git:
        assert b"".join(git.pieces()) == b""
        assert git.ended() == (4, "")
    with pytest.raises(CheckFailed, match=r"git did not finish within 0\.2 s"):
        call(("sleep", "600"), ENV, 0.2, tmp_path)
    with Call(("cat",), ENV, 60, tmp_path, (b"%d\n" % number for number in range(100_000))) as git:
        assert b"".join(git.pieces()).count(b"\n") == 100_000
