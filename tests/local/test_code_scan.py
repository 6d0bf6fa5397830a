"""A folder becomes a tree: what goes along, by git's own rules, and what is refused before anything is read."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from distui.errors import UsageError
from distui.plan.content.tree import Entry, Tree
from distui.runs.code.git.local import local
from distui.runs.code.git.lock import GivenUp
from distui.runs.code.git.repository import Repository
from distui.runs.code.git.tree import Listed
from distui.runs.code.git.tree import write as write_tree
from distui.runs.code.ignore import Ignored
from distui.runs.code.scan import Limits, hashed, scan
from distui.runs.images.context import read_build
from distui.spec.job.job import Build, Job


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def paths(root: Path, *patterns: str) -> list[str]:
    return [e.path for e in scan(root, Ignored(patterns)).tree.entries]


def test_equal_folders_have_one_id(tmp_path: Path) -> None:
    """Times, owners and the order of creation do not matter; content, names, links and the x bit do."""
    files = {"train.py": "print(1)\n", "lib/net.py": "x = 1\n"}
    first = write(tmp_path / "a", files)
    second = write(tmp_path / "b", dict(reversed(files.items())))
    os.utime(second / "train.py", (1, 1))
    one, other = scan(first, Ignored()).tree, scan(second, Ignored()).tree
    assert one.id == other.id
    assert len(one.id) == 32
    (second / "train.py").chmod(0o755)
    marked = scan(second, Ignored()).tree
    assert marked.id != one.id
    assert [e.executable for e in marked.files] == [False, True]
    (second / "train.py").chmod(0o644)
    (second / "lib" / "link").symlink_to("net.py")
    linked = scan(second, Ignored()).tree
    assert linked.id != one.id
    assert Entry("lib/link", "link", target="net.py") in linked.entries


def test_fields_can_not_run_into_each_other() -> None:
    """A name that looks like the end of another entry gives another id."""
    assert Tree.of([Entry("a", "link", target="b")]).id != Tree.of([Entry("b", "link", target="a")]).id
    assert Tree.of([Entry("ab", "folder")]).id != Tree.of([Entry("a", "folder"), Entry("b", "folder")]).id


def test_ignore_files_of_every_folder_count(tmp_path: Path) -> None:
    """The deeper file wins, .distuiignore over .gitignore, the job over both; .git never goes along."""
    write(
        tmp_path,
        {
            ".gitignore": "*.log\n/data/\n",
            ".distuiignore": "!keep.log\nnotes.md\n",
            ".dockerignore": "*\n",
            "sub/.gitignore": "!deep.log\n",
            ".git/config": "x",
            "sub/.git": "gitdir: elsewhere\n",
            "sub/data/.GIT/config": "x",
            "a.log": "",
            "keep.log": "",
            "notes.md": "",
            "data/x": "",
            "sub/data/x": "",
            "sub/deep.log": "",
            "sub/other.log": "",
            "sub/__pycache__/m.pyc": "",
            "train.py": "",
        },
    )
    kept = paths(tmp_path)
    own = [".distuiignore", ".dockerignore", ".gitignore", "sub/.gitignore"]
    assert sorted(kept) == sorted([*own, "keep.log", "sub/data/x", "sub/deep.log", "train.py"])
    assert "sub/deep.log" not in paths(tmp_path, "deep.log")
    assert "a.log" in paths(tmp_path, "!a.log")


WORDS = ("a", "b", "ab", "x.log", "dir")
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("/".join)
PIECES = st.sampled_from(("a", "b", "*", "*.log", "dir", "**", "?b", "[ab]", "x.*"))
PATTERNS = st.builds(
    lambda bang, front, parts, back: f"{bang}{front}{'/'.join(parts)}{back}",
    st.sampled_from(("", "", "!")), st.sampled_from(("", "/")), st.lists(PIECES, min_size=1, max_size=3),
    st.sampled_from(("", "", "/")),
)  # fmt: skip


ODD = (
    "a",
    "b",
    "é",
    "ü",
    "à",
    "aé",
    "éé",
    "-",
    "]",
    "[",
    "\\",
    "^",
    "!",
    "a]",
    "a\\",
    "b ",
    "#a",
    "a\t",
    "a\xa0",
    "ß-",
)
ODD_NAMES = st.lists(st.sampled_from(ODD), min_size=1, max_size=2).map("/".join)
INSIDE = st.text("ab[]!^-\\é:ü z/", min_size=1, max_size=5)
BRACKETS = st.builds(lambda head, inside: f"[{head}{inside}]", st.sampled_from(("", "", "!", "^", "]", "\\")), INSIDE)
ODD_LINES = st.lists(
    st.one_of(BRACKETS, st.text("ab/*?[]!^-\\é\t\xa0 #", min_size=1, max_size=3)), min_size=1, max_size=3
).map("".join)


def test_ignore_files_above_the_folder_count_up_to_its_repository_s_top(tmp_path: Path) -> None:
    """As git has it: `code: ./` in a part of a repository sent checkpoints and a `.env` that its top leaves out."""
    rules = {
        ".gitignore": "*.ckpt\n.env\n/a/é/out/\né/*.tmp\n!keep.ckpt\n/x\n**/deep/y\na/**/z\n",
        "a/.gitignore": "*.pt\n!é/t.pt\n/é/only\n",
        "a/é/.gitignore": "!own.ckpt\n",
    }
    files = ["m.ckpt", ".env", "out/f", "s.tmp", "d/s.tmp", "keep.ckpt", "x", "deep/y", "deep/d/y", "d/z"]
    files += ["t.pt", "u.pt", "only", "d/only", "own.ckpt", "main.py"]
    place = write(tmp_path / "repo", {**rules, **dict.fromkeys((f"a/é/{name}" for name in files), "")}) / "a" / "é"
    write(tmp_path, {".gitignore": "*.py\n"})
    assert "m.ckpt" in paths(place)  # no repository yet
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
    )
    assert paths(place) == sorted(filter(None, listed.stdout.split("\0")))
    assert "main.py" in paths(place) and "m.ckpt" not in paths(place)
    write(place.parent, {".distuiignore": "!m.ckpt\n"})
    assert {"m.ckpt", "main.py"} <= set(paths(place)) and "main.py" not in paths(place, "*.py")


@pytest.mark.parametrize(
    ("rules", "sent"),
    [("*\n!.bashrc\n", True), ("/a/\n*.py\n", True), ("*\n!*/\n!*.py\n", True), ("*\n!*/\n", False), ("*.py\n", False)],
)
def test_a_folder_that_its_repository_leaves_out_is_no_part_of_it(tmp_path: Path, rules: str, sent: bool) -> None:
    """Of a home folder that is a repository of dotfiles, with `*` in its `.gitignore`, nothing was sent."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write(tmp_path, {".gitignore": rules, "a/b/t.py": ""})
    assert paths(tmp_path / "a" / "b") == ["t.py"] * sent


@pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to another login")
def test_another_login_s_repository_around_the_folder_leaves_nothing_of_it_out(tmp_path: Path) -> None:
    """As one that somebody made in /tmp; git refuses it, too. But for a folder of that login's own."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = write(tmp_path, {".gitignore": "*.py\n", "a/t.py": ""}) / "a"
    os.chown(tmp_path, 54321, -1)
    assert paths(folder) == ["t.py"]
    os.chown(folder, 54321, -1)
    assert paths(folder) == []


def test_any_folder_is_left_out_at_any_depth(tmp_path: Path) -> None:
    """`*/` and `!b`: b is kept, and the folders in it are left out, as git does."""
    (tmp_path / "b" / "a").mkdir(parents=True)
    (tmp_path / "b" / "a" / "deep").write_text("")
    (tmp_path / "b" / "kept").write_text("")
    (tmp_path / ".gitignore").write_text("*/\n!b\n")
    assert {e.path for e in scan(tmp_path, Ignored()).tree.files} == {".gitignore", "b/kept"}


CLASSES = ("alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit")
LINES = (
    *(f"x[{no}[:{name}:]]y" for name in (*CLASSES, "none") for no in ("", "!")),
    *(
        "x[^[:graph:]a]y",
        "x[[:punct:][:digit:]]y",
        "x[[:digit:]-z]y",
        "x[[:upper:]-]y",
        "x[a-[:digit:]]y",
        "x[:digit:]y",
    ),
    *(
        "x[[:digit:]y",
        "x[[::]]y",
        "\\[[:digit:]]",
        "*\n!x[[:alpha:]]y",
        "x[z-a]y",
        "x[!z-a]y",
        "x[]-a]y",
        "x[\\z-\\a5]y",
    ),
    *("d[!a]*", "d[!a]i*", "*\n!d[^a]*", "d[+-9]in", "\\/d", "d\\/", "d\\/in", "!\\/d", "[[]5]", "[[]*"),
    *("!", "!/", "!  ", "*\n!", "*\n!/", "foo\\ ", "foo\\  ", "foo\\", "foo\\\\ ", "foo  "),
)


def test_every_line_means_what_it_means_to_git(tmp_path: Path) -> None:
    """Classes of characters, which are none of slashes, lines that name nothing, blanks at the end."""
    names = [f"x{chr(code)}y" for code in range(1, 128) if chr(code) != "/"]
    write(tmp_path, dict.fromkeys([*names, "foo", "foo ", "foo\\", "[5]", "d/in"], ""))
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(("git", "init", "-q", str(tmp_path)), check=True, env=env)
    argv = ("git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard", "-z")
    for line in LINES:
        (tmp_path / ".gitignore").write_text(f"{line}\n")
        output = subprocess.run(argv, check=True, capture_output=True, env=env).stdout
        theirs = {name for name in output.decode().split("\0") if name}
        assert {e.path for e in scan(tmp_path, Ignored()).tree.files} ^ theirs == set(), line


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(NAMES, min_size=1, max_size=8, unique=True),
    st.lists(PATTERNS, min_size=1, max_size=4),
    st.lists(PATTERNS, max_size=2),
)
def test_the_rules_are_git_s_own(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], top: list[str], deep: list[str]
) -> None:
    """Of any files and any patterns, what goes along is what `git ls-files --others --exclude-standard` lists."""
    compare_with_git(tmp_path_factory.mktemp("tree"), names, top, deep)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ODD_NAMES, min_size=10, max_size=30, unique=True), st.lists(ODD_LINES, min_size=1, max_size=3))
@example(["é", "ü"], ["?"])
@example(["é", "a"], ["[!a]"])
@example(["é", "éé"], ["[é][é]"])
@example(["a", "\\"], ["[\\a]"])
@example(["a/-", "-"], ["[/ -]"])
@example(["a", "é"], ["/[!/]"])
@example(["a\xa0", "a"], ["a\xa0", "b\t"])
@example(["a"], ["a", "!a", "a"])
def test_odd_brackets_and_names_are_git_s_own(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], lines: list[str]
) -> None:
    """Backslashes, slashes and `]` in brackets, classes that are none; git compares bytes, of which é has two."""
    compare_with_git(tmp_path_factory.mktemp("tree"), names, lines, [])


def compare_with_git(root: Path, names: list[str], top: list[str], deep: list[str]) -> None:
    """Assert that what goes along is what git lists."""
    for name in names:
        place = root / name
        if any(p.is_file() for p in (place, *place.parents) if p != root and root in p.parents) or place.is_dir():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
    (root / ".gitignore").write_text("\n".join(top) + "\n")
    if (root / "a").is_dir():
        (root / "a" / ".gitignore").write_text("\n".join(deep) + "\n")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(("git", "init", "-q", str(root)), check=True, env=env)
    argv = ("git", "-C", str(root), "ls-files", "--others", "--exclude-standard", "-z")
    output = subprocess.run(argv, check=True, capture_output=True, env=env).stdout
    theirs = {name for name in output.decode().split("\0") if name}
    assert {e.path for e in scan(root, Ignored()).tree.files} == theirs


def test_names_may_be_anything(tmp_path: Path) -> None:
    """Newlines, blanks, dashes, quotes, unicode and bytes that are no UTF-8."""
    odd = [b"-rf", b"a b", b"new\nline", "grün".encode(), b"\xff\xfe", b"'\"$(x)`", b"\\", b"#note", b"!x", b" lead"]
    for name in odd:
        with open(os.path.join(os.fsencode(tmp_path), name), "wb"):  # noqa: PTH118, PTH123
            pass
    found = scan(tmp_path, Ignored()).tree
    assert sorted(e.path.encode("utf-8", "surrogateescape") for e in found.entries) == sorted(odd)
    assert len(found.id) == 32


def test_links_stay_inside(tmp_path: Path) -> None:
    """A link within the folder is kept as it is; one that leads out, by itself or through another, is left out."""
    root = write(tmp_path / "code", {"deep/er/x.py": "", "top.py": ""})
    (tmp_path / "secret").write_text("s")
    for name, target in {
        "in": "deep/er/x.py", "up": "../secret", "abs": str(root / "top.py"), "dangling": "nowhere",
        "deep/back": "../top.py", "d": "deep/er", "through": "d/../../../secret",
    }.items():  # fmt: skip
        (root / name).symlink_to(target)
    found = scan(root, Ignored())
    kept = {e.path: e.target for e in found.tree.entries if e.kind == "link"}
    assert kept == {"in": "deep/er/x.py", "dangling": "nowhere", "deep/back": "../top.py", "d": "deep/er"}
    assert len(found.left_out) == 3
    assert "link up -> ../secret" in " ".join(found.left_out)


def test_a_link_to_what_is_ignored_is_named(tmp_path: Path) -> None:
    """It goes along and leads to nothing on the hosts, where the program does not find its data."""
    root = write(
        tmp_path / "code", {".gitignore": "/datasets/\n*.bin", "datasets/a": "", "w.bin": "", "kept/x": "", "y": ""}
    )
    links = {
        "data": "datasets",
        "one": "datasets/a",
        "w": "w.bin",
        "ok": "kept",
        "file": "kept/x",
        "all": ".",
        "gone": "no",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    found = scan(root, Ignored())
    assert found.left_out == tuple(
        f"leads to what is ignored, and to nothing there: link {name} -> {links[name]}" for name in ("data", "one", "w")
    )
    assert {e.path for e in found.tree.entries if e.kind == "link"} == {*links}


def test_words_of_an_odd_name_can_be_printed_and_stored(tmp_path: Path) -> None:
    """A plan is written as UTF-8 and shown on a terminal."""
    (tmp_path / os.fsdecode(b"\xff\x1b[2J")).symlink_to("/etc")
    (words,) = scan(tmp_path, Ignored()).left_out
    assert words.encode()
    assert "\x1b" not in words
    assert r"\udcff\x1b[2J -> /etc" in words


def test_a_special_file_is_refused_and_can_be_left_out(tmp_path: Path) -> None:
    """A pipe can't be sent, and reading one would hang."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="neither file, folder nor link: pipe") as caught:
        scan(tmp_path, Ignored())
    assert "write /pipe into .distuiignore" in caught.value.hint
    assert paths(tmp_path, "/pipe") == []


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """5 GB that take no space on this disk: hashing them would take long."""
    write(tmp_path, {"train.py": "x", "data/my set.bin": ""})
    os.truncate(tmp_path / "data" / "my set.bin", 5 << 30)
    with pytest.raises(UsageError, match=r"larger than 100m \(max_file\): data/my set.bin 5.4 GB") as caught:
        scan(tmp_path, Ignored())
    assert r"write /data/my\ set.bin into .distuiignore" in caught.value.hint
    assert paths(tmp_path, r"/data/my\ set.bin") == ["data", "train.py"]


def test_too_much_names_what_is_large(tmp_path: Path) -> None:
    """The folders and files that make it so, and how to leave the largest out."""
    write(tmp_path, {"runs/a.bin": "x" * 900, "runs/b.bin": "x" * 800, "train.py": "x" * 10})
    with pytest.raises(UsageError) as caught:
        scan(tmp_path, Ignored(), Limits(total=1024))
    assert "is 1.7 kB in 3 files, more than 1k (max_size): runs/ 1.7 kB, train.py 10 B" in caught.value.message
    assert "the largest files: runs/a.bin 900 B" in caught.value.message
    assert "write /runs/ into" in caught.value.hint


@pytest.mark.parametrize("kind", ["code", "build"])
def test_a_folder_of_millions_is_left_when_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each of its entries was asked for first: a minute over NFS, in which Ctrl-C did nothing."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    given_up, usual = threading.Event(), os.scandir

    @contextlib.contextmanager
    def endless(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        def more() -> Iterator[os.DirEntry[str]]:
            with usual(folder) as items:
                (only,) = items
            for number in range(10_000):
                if number == 100:
                    given_up.set()
                yield only
            pytest.fail("all of it was listed")

        yield more()

    monkeypatch.setattr(os, "scandir", endless)
    with pytest.raises(GivenUp):
        if kind == "code":
            scan(tmp_path, Ignored(), given_up=given_up)
        else:
            read_build(Job("j", build=Build(str(tmp_path))), given_up)


def test_reading_ends_when_nobody_waits_any_more(tmp_path: Path) -> None:
    """Of a folder, of a repository's own folder, and while the files of a commit are written; also of known files."""
    root, given_up = write(tmp_path, {"a.py": "a", "sub/b.py": "b", "objects/x": "", "HEAD": ""}), threading.Event()
    scan(root, Ignored(), given_up=given_up)
    given_up.set()
    with pytest.raises(GivenUp):
        scan(root, Ignored(), given_up=given_up)
    with pytest.raises(GivenUp):
        local(root, given_up)
    there = Repository("https://h/x", tmp_path / "cache", {}, given_up=given_up)
    with pytest.raises(GivenUp):
        there._pointer(root)
    listed, pipe = Listed("100644", "0" * 40, "a", 1), io.BytesIO()
    with pytest.raises(GivenUp):
        write_tree(tmp_path / "sub", [listed], pipe, pipe, "code", given_up)


def test_a_file_that_grew_since_it_was_listed_is_read_again(tmp_path: Path) -> None:
    """The log of this very call may get a line while the folder is read. One that always grows is refused."""
    log = write(tmp_path, {"run.log": "one\n"}) / "run.log"
    listed = log.stat()
    log.write_text("one\ntwo\n")
    assert hashed(tmp_path, "run.log", listed) == hashed(tmp_path, "run.log", log.stat())
    with pytest.raises(UsageError, match="changed while it was read"):
        hashed("/proc/self", "status", Path("/proc/self/status").stat())  # has more than its size, however often


def test_an_empty_folder_goes_along(tmp_path: Path) -> None:
    """Programs expect their output folder."""
    (tmp_path / "out" / "deep").mkdir(parents=True)
    assert scan(tmp_path, Ignored()).tree.entries == (Entry("out/deep", "folder"),)


@pytest.mark.parametrize("line", ["*a" * 20 + "*b", "**/a/" * 20 + "b", "*?" * 20 + "b"])
def test_a_pattern_that_would_take_for_ever_is_refused(tmp_path: Path, line: str) -> None:
    """It may come with a cloned repository."""
    write(tmp_path, {".gitignore": f"{line}\n", "a" * 200: "", "a/" * 40 + "c": ""})
    with pytest.raises(UsageError, match="too slow") as caught:
        paths(tmp_path)
    assert line in caught.value.message


def test_patterns_with_many_wildcards_mean_what_git_takes_them_for(tmp_path: Path) -> None:
    """They are tried elsewhere, with a limit."""
    write(tmp_path, {"a1b2c3d": "", "a1b2c3": "", "sub/abcd/x": "", "sub/abc": ""})
    assert paths(tmp_path, "*a*b*c*d*") == ["a1b2c3", "sub/abc"]
    assert paths(tmp_path, "*a*b*c*d*/") == ["a1b2c3", "a1b2c3d", "sub/abc"]
