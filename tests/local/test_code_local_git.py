"""A stranger's job that names a repository of this machine: no spelling and no detour takes a private one unasked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distui.errors import DistuiError, SpecError, UsageError
from distui.runs.code.git.local import local
from distui.runs.code.git.repository import Repository
from distui.spec.job.read_job import read_job
from fakehosts.git import ENV, git

HEAD = "version: 1\nname: j\nhosts: h1\nimage: x\ncommand: [a]\n"


@pytest.fixture
def private(home: Path) -> Path:
    """A repository of the user's, beside the folder with the job."""
    folder = home.parent / "private"
    git(home, "init", "-q", "-b", "main", str(folder))
    (folder / "notes.txt").write_text("mine\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "c")
    return folder


@pytest.fixture
def place(home: Path) -> Path:
    """The folder of the stranger's job, with an inventory of a host that is not there."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  h1: {addr: 127.0.0.1, port: 9}\n")
    return Path.cwd()


def taken(home: Path) -> bool:
    """Whether the private file is among the code that distui keeps."""
    return any(path.read_text() == "mine\n" for path in (home / ".cache").rglob("notes.txt"))


def job(url: str) -> None:
    Path("job.yaml").write_text(f"{HEAD}code: {{git: '{url}'}}\n")


UP = "%2e%2e/" * 4
SPELLINGS = (
    f"file:///proc/self/cwd/{UP}private",
    "/proc/self/cwd/../../../../private",
    "file:///proc/self/cwd/../../../../private",
    "/proc/self/root{private}",
    "//./proc/self/root{private}",
    "/dev/fd/../cwd/../../../../private",
    "file://{work}/%2e%2e/private",
    "file://localhost{private}",
    "file://x/../../../../../private",
    "file://..{up}/private",
    "file:{private}",
    "FILE://{private}",
    "File://{private}",
    "file://{private}#x",
    "file://{private}?x",
    "{work}/../private",
    "{work}/link",
    "file://{work}/link",
    "{work}/link/../private",
    "/{private}",
    "{private}/.git",
    "{private}/.",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_takes_a_private_repository_unasked(
    cli: Any, place: Path, private: Path, home: Path, spelling: str
) -> None:
    (place / "link").symlink_to(private)
    (place / "%2e%2e").mkdir()
    job(spelling.format(private=private, work=place, up="/.." * 3))
    done = cli("-y", "plan", "job.yaml")
    assert done.code == 2
    assert not taken(home)


@pytest.mark.parametrize("url", ["file:///srv/a%20b", "file://srv/a", "file:/srv/a", "/proc/1/cwd", "/sys", "/a\\x1bb"])
def test_what_can_be_read_in_two_ways_is_no_url(url: str) -> None:
    """The words say what to write."""
    with pytest.raises(SpecError, match=r"code\.git: .*(absolute path alone|depends on who looks|control character)"):
        read_job(f'{HEAD}code: {{git: "{url}"}}', "j.yaml", environ={})


@pytest.mark.parametrize("url", ["ssh://-oProxyCommand=x/a", "https://a%2eb/x", "HTTPS://a/x", "https:///x"])
def test_a_host_has_one_spelling(url: str) -> None:
    with pytest.raises(SpecError, match=r"code\.git: .*(names no host|unknown scheme)"):
        read_job(f'{HEAD}code: {{git: "{url}"}}', "j.yaml", environ={})


# a repository in the job's own folder that leads elsewhere


def bare(place: Path, private: Path) -> Path:
    """A repository of the stranger's whose branch is the private commit, without its objects."""
    folder = place / "own.git"
    git(place, "init", "-q", "--bare", "-b", "main", str(folder))
    (folder / "refs" / "heads" / "main").write_text(git(private, "rev-parse", "HEAD") + "\n")
    return folder


def pointer(place: Path, private: Path) -> Path:
    (place / "own").mkdir()
    (place / "own" / ".git").write_text("gitdir: ../../private/.git\n")
    return place / "own"


def pointer_itself(place: Path, private: Path) -> Path:
    (place / "own").write_text(f"gitdir: {private}/.git\n")
    return place / "own"


def linked(place: Path, private: Path) -> Path:
    (place / "own").mkdir()
    (place / "own" / ".git").symlink_to(private / ".git")
    return place / "own"


def with_suffix(place: Path, private: Path) -> Path:
    (place / "own.git").symlink_to(private / ".git")
    return place / "own"


def common(place: Path, private: Path) -> Path:
    folder = place / "own" / ".git"
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "commondir").write_text("../../../private/.git\n")
    return place / "own"


def alternates(place: Path, private: Path) -> Path:
    folder = bare(place, private)
    (folder / "objects" / "info" / "alternates").write_text(f"# mine\n{private}/.git/objects\n")
    return folder


def alternates_of_alternates(place: Path, private: Path) -> Path:
    folder = bare(place, private)
    (place / "deep" / "x").mkdir(parents=True)
    (place / "more" / "info").mkdir(parents=True)
    (place / "jump").symlink_to("deep/x")
    (folder / "objects" / "info" / "alternates").write_text("../../jump/../more\n../../more\n")
    (place / "more" / "info" / "alternates").write_text(f"{private}/.git/objects\n")
    return folder


def linked_objects(place: Path, private: Path) -> Path:
    folder = bare(place, private)
    (folder / "objects").rename(folder / "old")
    (folder / "objects").symlink_to(private / ".git" / "objects")
    return folder


def each_object_linked(place: Path, private: Path) -> Path:
    folder = bare(place, private)
    for found in (private / ".git" / "objects").glob("??/*"):
        (folder / "objects" / found.parent.name).mkdir(exist_ok=True)
        (folder / "objects" / found.parent.name / found.name).symlink_to(found)
    return folder


def linked_pack(place: Path, private: Path) -> Path:
    git(private, "gc", "-q")
    folder = bare(place, private)
    (folder / "objects" / "pack").rmdir()
    (folder / "objects" / "pack").symlink_to(private / ".git" / "objects" / "pack")
    return folder


DETOURS = (
    pointer, pointer_itself, linked, with_suffix, common, alternates, alternates_of_alternates, linked_objects,
    each_object_linked, linked_pack,
)  # fmt: skip


@pytest.mark.parametrize("detour", DETOURS)
@pytest.mark.parametrize("typed", [False, True])
def test_a_repository_of_the_job_s_own_that_leads_elsewhere_is_asked_about(
    cli: Any, place: Path, private: Path, home: Path, detour: Callable[[Path, Path], Path], typed: bool
) -> None:
    """Also when its name was typed, which does not say where it leads. Allowed, it is read: each is a real way out."""
    url = detour(place, private)
    typed = typed and detour is not with_suffix  # there the name itself leads to it
    job(str(url))
    words = ("plan", "job.yaml", *(("--set", f"code.git={url}") if typed else ()))
    done = cli("-y", *words)
    assert done.code == 2
    assert f"files of {private}/.git" in done.err
    assert f"outside the job's folder {place}, would be sent" in done.err
    assert not taken(home)
    cli("config", "allow", "folder", str(private), str(place))
    for found in sorted((private / ".git" / "objects").rglob("")):
        cli("config", "allow", "folder", str(found), str(place))
    cli("config", "allow", "folder", str(private / ".git"), str(place))
    assert cli(*words).code == 4
    assert taken(home)


def test_worktrees_and_clones_that_borrow_say_where_from(place: Path, private: Path) -> None:
    """The honest forms: each place once, the named one first."""
    git(private, "worktree", "add", "-q", "-b", "other", str(place / "tree"))
    git(place, "clone", "-q", "--shared", str(private), str(place / "shared"))
    assert local(place / "tree").places == (place / "tree", private / ".git")
    assert local(place / "shared").places == (place / "shared", private / ".git" / "objects")
    assert local(private).places == (private,)
    assert local(place / "nope").places == (place / "nope",)


def test_a_bundle_is_a_repository_too(place: Path, private: Path) -> None:
    git(private, "bundle", "create", "-q", str(place / "b.bundle"), "main")
    assert local(place / "b.bundle").places == (place / "b.bundle",)
    found = Repository(str(place / "b.bundle"), place / "cache", ENV).checkout("main", None)
    assert (found.folder / "notes.txt").read_text() == "mine\n"


# what git would wait for, or read without end


@pytest.mark.parametrize(
    "where", ["HEAD", "packed-refs", "refs/heads/x", "objects/info/alternates", "objects/pack/x.idx", "commondir"]
)
@pytest.mark.parametrize("kind", ["fifo", "zero"])
def test_a_repository_with_a_fifo_or_without_an_end_is_reported(
    place: Path, private: Path, where: str, kind: str
) -> None:
    path = bare(place, private) / where
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"can't be looked through: .* is a (FIFO|device)") as caught:
        local(place / "own.git")
    assert "name another one" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [("\n".join(f"../../x{n}" for n in range(99)), "more than 64 other folders"), ('"a\\142"', "in quotes")],
)
def test_alternates_without_measure_are_reported(place: Path, private: Path, text: str, words: str) -> None:
    folder = bare(place, private)
    for number in range(99):
        (place / f"x{number}").mkdir()
    (folder / "objects" / "info" / "alternates").write_text(text)
    with pytest.raises(UsageError, match=words):
        local(folder)


def test_alternates_in_a_ring_end(place: Path, private: Path) -> None:
    """And links that lead to each other."""
    folder = bare(place, private)
    (folder / "objects" / "info" / "alternates").write_text("../objects\n.\n")
    (folder / "refs" / "heads" / "ring").symlink_to("ring")
    (place / "loop").symlink_to("loop")
    assert local(folder).places == (folder,)
    assert local(place / "loop").places == (place / "loop",)


def test_a_folder_that_is_a_ring_of_links_is_reported(cli: Any, place: Path) -> None:
    (place / "loop").symlink_to("loop")
    Path("job.yaml").write_text(f"{HEAD}code: ./loop\n")
    done = cli("plan", "job.yaml")
    assert done.code == 2
    assert "loop" in done.err


def test_a_repository_s_own_config_fetches_nothing_from_elsewhere(place: Path, private: Path) -> None:
    """One that lacks objects and names who has them, and a program to reach it by."""
    folder, canary = bare(place, private), place / "canary"
    evil = place / "evil.sh"
    evil.write_text(f"#!/bin/sh\necho run >> {canary}\n")
    evil.chmod(0o755)
    for key, value in (
        ("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"), ("remote.origin.url", "ssh://nowhere.invalid/x"),
        ("core.sshCommand", str(evil)),
    ):  # fmt: skip
        git(folder, "config", key, value)
    with pytest.raises(DistuiError):
        Repository(str(folder), place / "cache", ENV).checkout("main", None)
    assert not canary.exists()


@pytest.mark.parametrize("url", ["/" * 4000 + "x", "/." * 2000 + "/x", "file://" + "/" * 4000 + "x", "/dev/shm/repo"])
def test_a_name_of_many_slashes_is_read_at_once(url: str) -> None:
    """While the file is parsed, by whoever opens it. /dev/shm has files as /tmp has."""
    assert read_job(f"{HEAD}code: {{git: '{url}'}}", "j.yaml", environ={}).code is not None


SEEN = ("/proc/self/cwd/x", "//proc/x", "/./proc/x", "/a/../proc/x", "/dev/fd/3", "/dev", "/sys/x")


@pytest.mark.parametrize("url", SEEN)
def test_what_depends_on_who_looks_is_no_repository(url: str) -> None:
    """However it is spelled."""
    with pytest.raises(SpecError, match="no folder of files"):
        read_job(f"{HEAD}code: {{git: '{url}'}}", "j.yaml", environ={})


def test_what_git_itself_reads_on_without_is_no_hindrance(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push or a `git gc` beside it, and folders of another login's."""
    real = os.scandir
    pushed = private / ".git/objects/tmp_objdir-incoming-x"
    pushed.mkdir()
    refused: dict[str, type[OSError]] = {
        str(pushed): PermissionError,
        str(private / ".git/refs/tags"): FileNotFoundError,
    }

    def scandir(place: Any) -> Any:
        if (error := refused.get(os.fspath(place))) is not None:
            raise error(13, "no", os.fspath(place))
        return real(place)

    monkeypatch.setattr(os, "scandir", scandir)
    assert local(private).places[0] == private
    refused[str(private / ".git/objects")] = PermissionError
    with pytest.raises(DistuiError):
        local(private)
