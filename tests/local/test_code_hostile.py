"""A code folder or a current folder whose own git config, attributes and hooks name programs: none of them is run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from distui.errors import DistuiError
from distui.runs.code.git.repository import Repository
from distui.runs.code.source import CodeReader
from distui.spec.job.job import Code, Job

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nowhere",
    **{f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}

ATTACKS: dict[str, tuple[tuple[str, str], ...]] = {
    "clean": (("filter.x.clean", "{evil}"), ("filter.x.required", "true")),
    "process": (("filter.x.process", "{evil}"),),
    "smudge": (("filter.x.smudge", "{evil}"),),
    "fsmonitor": (("core.fsmonitor", "{evil}"),),
    "hooks": (("core.hooksPath", "{folder}"),),
    "external": (("diff.external", "{evil}"),),
    "driver": (("diff.x.command", "{evil}"),),
    "textconv": (("diff.x.textconv", "{evil}"),),
    "pager": (("core.pager", "{evil}"), ("pager.diff", "{evil}"), ("pager.rev-parse", "{evil}")),
    "alias": (("alias.diff", "!{evil}"), ("alias.ls-tree", "!{evil}"), ("alias.rev-parse", "!{evil}")),
    "include": (("include.path", "{folder}/more.conf"),),
    "promisor": (
        ("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"), ("remote.origin.url", "ssh://nowhere/x"), ("core.sshCommand", "{evil}"),
    ),
    "worktree": (("core.worktree", "{folder}/elsewhere"), ("filter.x.clean", "{evil}")),
    "submodule": (("submodule.sub.update", "!{evil}"), ("diff.submodule", "diff"), ("status.submoduleSummary", "true")),
    "gpg": (("gpg.program", "{evil}"), ("log.showSignature", "true"), ("commit.gpgSign", "true")),
    "editor": (("core.editor", "{evil}"), ("sequence.editor", "{evil}"), ("core.askPass", "{evil}")),
    "alternates": (("core.alternateRefsCommand", "{evil}"),),
    "merge": (("merge.x.driver", "{evil}"), ("core.gitProxy", "{evil}")),
}  # fmt: skip
"""What a repository's config says -> that no git of ours may do. `{evil}` is a program that leaves a canary."""


def git(folder: Path, *words: str) -> str:
    argv = ("git", "-C", str(folder), *words)
    return subprocess.run(argv, env=ENV, check=True, capture_output=True, text=True).stdout.strip()


class Trap:
    """A repository with one commit and uncommitted changes, and a program that says that it was run."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "repo"
        self.canary = root / "canary"
        self.evil = root / "evil.sh"
        self.evil.write_text(f"#!/bin/sh\necho run >> {self.canary}\nexec cat\n")
        self.evil.chmod(0o755)
        self.folder.mkdir()
        git(root, "init", "-q", "-b", "main", str(self.folder))
        (self.folder / "train.py").write_text("one\n")
        (self.folder / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-qm", "c")
        (self.folder / "train.py").write_text("two\n")

    def arm(self, settings: tuple[tuple[str, str], ...]) -> None:
        """Write the settings as an attacker would, and a hook by every name."""
        words = {"evil": str(self.evil), "folder": str(self.folder)}
        (self.folder / "more.conf").write_text(f'[filter "x"]\n\tclean = {self.evil}\n\tprocess = {self.evil}\n')
        for hook in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-commit"):
            for folder in (self.folder, self.folder / ".git" / "hooks"):
                folder.mkdir(exist_ok=True)
                (folder / hook).write_bytes(self.evil.read_bytes())
                (folder / hook).chmod(0o755)
        for key, value in settings:
            git(self.folder, "config", "--add", key, value.format(**words))

    def assert_nothing_ran(self) -> None:
        assert not self.canary.exists(), "the folder's git ran a program"


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_folder_s_git_config_runs_nothing(trap: Trap, tmp_path: Path, attack: str) -> None:
    """And what is not committed is said all the same, from the files' own bytes."""
    trap.arm(ATTACKS[attack])
    found = CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path=str(trap.folder))))
    trap.assert_nothing_ran()
    assert found is not None
    assert found.plan.dirty
    assert "train.py | 2 +-" in found.plan.stat
    assert "-one\n+two\n" in found.plan.diff


def test_the_trap_is_one(trap: Trap) -> None:
    """git as it is called usually does run the filter: what the tests above would see."""
    trap.arm(ATTACKS["clean"])
    git(trap.folder, "diff", "HEAD")
    assert trap.canary.exists()


def test_a_submodule_s_config_runs_nothing(trap: Trap, tmp_path: Path) -> None:
    """git looks into a submodule that is checked out, with the submodule's own config."""
    sub = trap.folder / "sub"
    git(trap.folder, "init", "-q", str(sub))
    (sub / "a.py").write_text("a\n")
    (sub / ".gitattributes").write_text("* filter=x\n")
    git(sub, "add", "-A")
    git(sub, "commit", "-qm", "s")
    git(trap.folder, "update-index", "--add", "--cacheinfo", f"160000,{git(sub, 'rev-parse', 'HEAD')},sub")
    git(trap.folder, "commit", "-qm", "with sub")
    git(sub, "config", "filter.x.clean", str(trap.evil))
    git(sub, "config", "core.fsmonitor", str(trap.evil))
    (sub / "a.py").write_text("b\n")
    found = CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path=str(trap.folder))))
    trap.assert_nothing_ran()
    assert found is not None
    assert "sub | a submodule, not compared" in found.plan.stat


def test_a_gitdir_elsewhere_runs_nothing(trap: Trap, tmp_path: Path) -> None:
    """A `.git` file that leads to an armed repository; a worktree of it."""
    tree = tmp_path / "tree"
    git(trap.folder, "worktree", "add", "-q", "-b", "other", str(tree))
    trap.arm(ATTACKS["clean"])
    (tree / "train.py").write_text("three\n")
    found = CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path=str(tree))))
    trap.assert_nothing_ran()
    assert found is not None
    assert "train.py | 2 +-" in found.plan.stat


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.sshCommand", "{evil}"),
        ("core.gitProxy", "{evil}"),
        ("url.ext::{evil} .insteadOf", "ssh://git@nowhere.invalid/"),
        ("credential.helper", "!{evil}"),
        ("core.askPass", "{evil}"),
        ("include.path", "{folder}/ssh.conf"),
        ("remote.ssh://git@nowhere.invalid/x.vcs", "evil"),
        ("core.hooksPath", "{folder}"),
    ],
)
def test_the_current_folder_s_git_config_does_not_count_for_a_url(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    """distui started in a cloned repository: its config says nothing of how another is fetched."""
    (trap.folder / "ssh.conf").write_text(f"[core]\n\tsshCommand = {trap.evil}\n")
    trap.arm(())
    words = {"evil": str(trap.evil), "folder": str(trap.folder)}
    git(trap.folder, "config", "--add", key.format(**words), value.format(**words))
    monkeypatch.chdir(trap.folder)
    for url in ("ssh://git@nowhere.invalid/x", "git://127.0.0.1:9/x", "http://127.0.0.1:9/x"):
        with pytest.raises(DistuiError):
            Repository(url, tmp_path / "cache", ENV).checkout("main", None)
    trap.assert_nothing_ran()


def test_a_local_repository_s_config_runs_nothing(trap: Trap, tmp_path: Path) -> None:
    """`git: /path`: git's other end reads that repository's config."""
    for attack in ATTACKS.values():
        trap.arm(attack)
    git(trap.folder, "config", "uploadpack.packObjectsHook", str(trap.evil))
    git(trap.folder, "config", "--unset-all", "core.worktree")
    Repository(str(trap.folder), tmp_path / "cache", ENV).checkout("main", None)
    trap.assert_nothing_ran()
