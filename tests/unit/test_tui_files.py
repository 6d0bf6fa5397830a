"""Files and programs around the app: job files written whole, editors and ssh as argv."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distui.cluster.backend.backend_hosts import ssh_login
from distui.errors import UsageError
from distui.spec.hosts.inventory import Host
from distui.tui.frame import files
from distui.tui.logs.buffer import LogBuffer
from distui.tui.run.panes.log_copies import keep
from distui.tui.terminal import shell


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    """And nothing else is left beside it; its mode stays."""
    path = tmp_path / "job.yaml"
    files.write(path, "a: 0\n")
    path.chmod(0o640)
    files.write(path, "a: 1\n")

    assert [p.name for p in tmp_path.iterdir()] == ["job.yaml"]
    assert files.read(path) == "a: 1\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_that_a_clone_carries_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one by a name that a file was once written by on its way, nor one by the very name it is written by."""
    victim = tmp_path / "authorized_keys"
    victim.write_text("mine\n")
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / ".job.yaml.part").symlink_to(victim)
    files.write(clone / "job.yaml", "command: theirs\n")

    assert victim.read_text() == "mine\n"
    assert not (clone / "job.yaml").is_symlink()
    assert files.read(clone / "job.yaml") == "command: theirs\n"

    monkeypatch.setattr(os, "urandom", bytes)
    (clone / f".{bytes(8).hex()}.part").symlink_to(victim)
    with pytest.raises(UsageError):
        files.write(clone / "job.yaml", "command: others\n")
    assert victim.read_text() == "mine\n"
    assert files.read(clone / "job.yaml") == "command: theirs\n"


def test_what_is_kept_beside_a_clone_follows_none_of_its_links(tmp_path: Path) -> None:
    """A log and a selection have names that can be known before: a link that leads nowhere yet would make that file."""
    clone, victim = tmp_path / "clone", tmp_path / "autostart.desktop"
    clone.mkdir()
    (clone / "r-rank-00000.log").symlink_to(victim)
    (clone / "r-rank-00000-2.log").mkdir()
    log = tmp_path / "rank-00000.log"
    log.write_text("a line\n")

    assert keep(clone, "r-rank-00000.log", LogBuffer(log).copy) == clone / "r-rank-00000-3.log"
    assert (clone / "r-rank-00000-3.log").read_text() == "a line\n"
    assert not victim.exists()
    with pytest.raises(FileNotFoundError):
        keep(clone, "gone.log", LogBuffer(tmp_path / "gone").copy)
    assert not (clone / "gone.log").exists(), "no empty file is left"


def test_a_link_of_ones_own_stays_a_link(tmp_path: Path) -> None:
    """Programs that keep dotfiles in a repository put links where the files are looked for."""
    kept = tmp_path / "dotfiles"
    kept.mkdir()
    (kept / "job.yaml").write_text("a: 0\n")
    link = tmp_path / "job.yaml"
    link.symlink_to(kept / "job.yaml")
    files.write(link, "a: 1\n")

    assert link.is_symlink()
    assert (kept / "job.yaml").read_text() == "a: 1\n"
    assert [path.name for path in kept.iterdir()] == ["job.yaml"]


@pytest.mark.parametrize("before", [None, 0o600])
def test_a_file_is_as_private_as_before_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int | None
) -> None:
    """A new one as the umask has it."""
    path, seen = tmp_path / "job.yaml", []
    if before is not None:
        path.touch(before)
    opened = os.open

    def look(name: str | Path, flags: int, mode: int = 0o777, **where: int) -> int:
        handle = opened(name, flags, mode, **where)
        if flags & os.O_CREAT:
            seen.append(os.fstat(handle).st_mode & 0o777)
        return handle

    monkeypatch.setattr(os, "open", look)
    umask = os.umask(0o027)
    try:
        files.write(path, "a: 1\n")
    finally:
        os.umask(umask)
    assert seen == [path.stat().st_mode & 0o777] == [before or 0o640]


def test_files_are_utf8_whatever_the_locale(tmp_path: Path) -> None:
    """Every command reads them as UTF-8."""
    path = tmp_path / "job.yaml"
    code = "import sys; from distui.tui.frame import files; files.write(files.Path(sys.argv[1]), '# B\\xfcro\\n')"
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code, str(path)], env={**os.environ, **ascii_only}, check=True)

    assert files.read(path) == "# B\xfcro\n"


def test_somebody_elses_text_is_noticed(tmp_path: Path) -> None:
    """Where a new job would be written over it, and where an edited one would."""
    path = tmp_path / "job.yaml"
    assert not files.changed(path, "gone meanwhile\n")
    path.write_text("theirs\n")

    assert files.changed(path, None)
    assert files.changed(path, "old\n")
    assert not files.changed(path, "theirs\n")
    assert files.difference("a: 1\nb: 2\n", "a: 1\nb: 3\n") == ["--- theirs", "+++ yours", "-b: 2", "+b: 3"]
    assert files.difference("", "x\n" * 100)[-1] == "and 82 more lines"


def test_what_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    """With the path and the reason."""
    (tmp_path / "latin.yaml").write_bytes(b"\xe9")

    with pytest.raises(UsageError, match="not UTF-8"):
        files.read(tmp_path / "latin.yaml")
    with pytest.raises(UsageError, match=r"gone/x\.yaml can't be read: No such file"):
        files.read(tmp_path / "gone" / "x.yaml")
    with pytest.raises(UsageError, match="can't be written"):
        files.write(tmp_path / "gone" / "x.yaml", "")


@pytest.mark.parametrize(
    ("visual", "line", "expected"),
    [
        ("vim", 3, ("vim", "+3", "j.yaml")),
        ("/usr/bin/nano -w", 2, ("/usr/bin/nano", "-w", "+2", "j.yaml")),
        ("code --wait", 3, ("code", "--wait", "j.yaml")),
        ("vim", 0, ("vim", "j.yaml")),
    ],
)
def test_editors(monkeypatch: pytest.MonkeyPatch, visual: str, line: int, expected: tuple[str, ...]) -> None:
    """$VISUAL as the shell splits it; a line where the editor is known to take one."""
    monkeypatch.setenv("VISUAL", visual)

    assert shell.editor_argv(Path("j.yaml"), line) == expected


def test_ssh_takes_what_the_inventory_adds() -> None:
    """A name that begins with a dash is no option; a command is one word and gets a terminal."""
    host = Host("node01", addr="10.0.0.1", user="ann", port=2222)

    assert ssh_login(host) == ("ssh", "-p", "2222", "-l", "ann", "-o", "HostName=10.0.0.1", "--", "node01")
    assert "HostName=fe80::1%%eth0" in ssh_login(Host("h1", addr="fe80::1%eth0")), "a % begins a token there"
    assert ssh_login(Host("-oX"), ("docker", "exec", "a b")) == ("ssh", "-t", "--", "-oX", "docker exec 'a b'")
