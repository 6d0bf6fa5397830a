"""`code: {git: URL}` of a stranger: trees that git hands out and would never make reach nothing outside our folder."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from distui.errors import CheckFailed
from distui.runs.code.git.repository import Repository
from distui.runs.code.git.tree import Listed, write
from fakehosts.git import ENV

Rows = tuple[tuple[str, str, "str | bytes | Rows"], ...]
"""Mode, name and content of a tree's entries; a tree's content is rows again."""


class Stranger:
    """A repository whose trees are written byte by byte."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run(("git", "init", "-q", "--bare", "-b", "main", str(folder)), env=ENV, check=True)

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def git(self, *words: str, given: bytes = b"") -> str:
        argv = ("git", "-C", str(self.folder), *words)
        return subprocess.run(argv, env=ENV, input=given, check=True, capture_output=True).stdout.decode().strip()

    def tree(self, rows: Rows) -> str:
        """In the order that is given, with names as they are: `git mktree` would sort and refuse."""
        body = b"".join(
            b"%s %s\0%s" % (mode.encode(), os.fsencode(name), bytes.fromhex(self._object(mode, content)))
            for mode, name, content in rows
        )
        return self.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=body)

    def _object(self, mode: str, content: str | bytes | Rows) -> str:
        if isinstance(content, tuple):
            return self.tree(content)
        if mode == "160000":
            return "1" * 40
        given = content.encode() if isinstance(content, str) else content
        return self.git("hash-object", "-w", "--stdin", given=given)

    def commit(self, rows: Rows) -> None:
        commit = self.git("commit-tree", "-m", "c", self.tree(rows))
        self.git("update-ref", "refs/heads/main", commit)


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    return Stranger(tmp_path / "stranger.git")


OUT = "{outside}"
EVIL: Rows = (("100644", "evil", "evil\n"),)
ATTACKS: dict[str, Rows] = {
    "a link and a folder of one name": (("120000", "a", OUT), ("40000", "a", EVIL)),
    "a folder and a link of one name": (("40000", "a", EVIL), ("120000", "a", OUT)),
    "a link through a link": (("120000", "a", OUT), ("40000", "a", (("120000", "evil", "x"),))),
    "links through links": (
        ("120000", "a", "b"),
        ("120000", "b", OUT),
        ("40000", "a", (("120000", "evil", "x"),)),
    ),
    "deeper": (("40000", "d", (("120000", "a", OUT), ("40000", "a", (("120000", "evil", "x"),)))),),
    "a link twice": (("120000", "a", OUT), ("120000", "a", "x")),
    "a file twice": (("100644", "a", "1"), ("100644", "a", "2")),
    "a file and a folder": (("100644", "a", "1"), ("40000", "a", EVIL)),
    "two folders of one name, one with a link": (
        ("40000", "d", (("120000", "a", OUT),)),
        ("40000", "d", (("40000", "a", EVIL),)),
    ),
    "a submodule and a folder": (("160000", "a", ""), ("40000", "a", EVIL)),
    "up": (("40000", "..", EVIL),),
    "up in a name": (("100644", "a/../../evil", "x"),),
    "here": (("40000", ".", EVIL),),
    "an absolute name": (("100644", "/{outside}/evil", "x"),),
    "an empty part": (("100644", "a//evil", "x"),),
    "a repository's folder": (("40000", ".git", EVIL),),
    "in capitals": (("40000", ".GIT", EVIL),),
    "as a Mac reads it": (("40000", "d", (("100644", ".g\u200cit", "x"),)),),
    "a link without an end": (("120000", "a", "x" * 5000),),
    "a link with a NUL": (("120000", "a", b"x\0y"),),
    "a link to nothing": (("120000", "a", ""),),
}


def filled(rows: Rows, outside: Path) -> Rows:
    """The attack with the place that it wants to write to."""

    def text(value: str) -> str:
        return value.replace(OUT, str(outside))

    return tuple(
        (
            mode,
            text(name),
            text(content) if isinstance(content, str) else filled(content, outside) if isinstance(content, tuple)
            else content,
        )
        for mode, name, content in rows
    )  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_tree_is_refused_before_anything_is_written(stranger: Stranger, tmp_path: Path, attack: str) -> None:
    """Nothing outside, nothing in the cache, and words that say what is wrong."""
    outside = tmp_path / "home" / ".config" / "autostart"
    outside.mkdir(parents=True)
    stranger.commit(filled(ATTACKS[attack], outside))
    with pytest.raises(CheckFailed, match=r"^code: commit [0-9a-f]{12} of file://.* holds ") as caught:
        Repository(stranger.url, tmp_path / "cache", ENV).checkout("main", None)
    assert "ask who made it" in caught.value.hint
    assert list(outside.iterdir()) == []
    assert list(tmp_path.rglob("evil*")) == []
    assert list((tmp_path / "cache" / "git").glob("*.trees/*")) == []


def test_a_subfolder_is_looked_at_as_strictly(stranger: Stranger, tmp_path: Path) -> None:
    """And a folder that is a link, or a file, is none."""
    outside = tmp_path / "outside"
    outside.mkdir()
    hostile = filled(ATTACKS["a link through a link"], outside)
    stranger.commit((("100644", "f", "x"), ("120000", "l", "sub"), ("40000", "sub", hostile)))
    with pytest.raises(CheckFailed, match="two things in one place, at 'a/evil'"):
        Repository(stranger.url, tmp_path / "cache", ENV).checkout("main", "sub")
    for name in ("l", "f"):
        with pytest.raises(CheckFailed.__base__, match=f"has no folder '{name}'"):
            Repository(stranger.url, tmp_path / "cache", ENV).checkout("main", name)
    assert list(outside.iterdir()) == []


def test_links_and_names_that_only_look_alike_are_kept(stranger: Stranger, tmp_path: Path) -> None:
    """What honest repositories hold: links that lead up and out are left to whoever reads them."""
    stranger.commit(
        (
            ("100644", ".gitignore", "x"),
            ("100644", "..a", "x"),
            ("120000", "out", "/etc/passwd"),
            ("100644", "readme", "a"),
            ("40000", "readme.d", (("120000", "up", "../readme"), ("160000", "sub", ""))),
        )
    )
    found = Repository(stranger.url, tmp_path / "cache", ENV).checkout("main", None)
    names = {str(path.relative_to(found.folder)) for path in found.folder.rglob("*")}
    assert names == {".gitignore", "..a", "out", "readme", "readme.d", "readme.d/up"}
    assert (found.folder / "readme.d" / "up").read_text() == "a"
    assert found.left_out == ("left out: submodule readme.d/sub",)


@pytest.mark.parametrize(
    "files",
    [
        (("120000", "a"), ("120000", "a/evil")),
        (("120000", "a"), ("100644", "a/evil")),
        (("100644", "a/evil"), ("120000", "a")),
    ],
)
def test_whatever_is_listed_nothing_is_written_through_a_link(
    tmp_path: Path, files: tuple[tuple[str, str], ...]
) -> None:
    """As on a file system that takes `A` for `a`, where the list looks right."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    target = str(outside).encode()
    answers = io.BytesIO(b"".join(b"%040d blob %d\n%s\n" % (0, len(target), target) for _ in files))
    listed = [Listed(mode, "0" * 40, path) for mode, path in files]
    with pytest.raises(CheckFailed, match="takes for the same name"):
        write(folder, listed, io.BytesIO(), answers, "code: it")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("answer", [b"0 missing\n", b"", b"0 tree 0\n\n", b"0 blob 5\nab"])
def test_an_object_that_is_no_file_s_is_reported(tmp_path: Path, answer: bytes) -> None:
    with pytest.raises(CheckFailed, match=r"^code: it"):
        write(tmp_path, [Listed("100644", "0", "a")], io.BytesIO(), io.BytesIO(answer), "code: it")
