"""Files and programs around the app: job files written whole, editors and ssh as argv."""

from __future__ import annotations

from pathlib import Path

import pytest

from distui.cluster.backend.backend_hosts import ssh_login
from distui.errors import UsageError
from distui.spec.hosts.inventory import Host
from distui.tui.frame import files
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
    assert ssh_login(Host("-oX"), ("docker", "exec", "a b")) == ("ssh", "-t", "--", "-oX", "docker exec 'a b'")
