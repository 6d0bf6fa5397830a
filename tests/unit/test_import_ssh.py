"""Hosts of OpenSSH's configuration: the names that `ssh NAME` knows, with Include, quotes, negations and patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distui.cluster.hosts.first_hosts import look
from distui.spec.imports.import_hosts import read


@pytest.fixture
def ssh(home: Path) -> Path:
    folder = home / ".ssh"
    (folder / "config.d").mkdir(parents=True)
    return folder


def names(text: str) -> list[str]:
    return [host.name for host in read(text, "ssh-config", "config").hosts]


def test_included_files_name_hosts_where_they_stand(ssh: Path, home: Path, tmp_path: Path) -> None:
    """Relative to ~/.ssh, with globs in the order of names, `~/`, absolute, several in a line, and in one another."""
    (ssh / "config.d/20-lab").write_text("Include deep\nHost n3\n")
    (ssh / "config.d/10-lab").write_text("Host n1\n")
    (ssh / "deep").write_text("Host n2 n1\n")
    (home / "mine").write_text("Host n4\n")
    (tmp_path / "abs file").write_text("Host n5\n")
    text = f'Include config.d/* ~/mine "{tmp_path}/abs file" config.d/none*\nHost n6\n'
    assert names(text) == ["n1", "n2", "n3", "n4", "n5", "n6"]


def test_hidden_files_are_not_included_by_a_pattern(ssh: Path) -> None:
    """As with ssh: an editor's copy is none of the user's hosts. `**` is for it what `*` is, and `/` no file."""
    (ssh / "config.d/.lab.swp").write_text("Host old\n")
    (ssh / "config.d/lab.conf").write_text("Host n1\n")
    assert names("Include config.d/*\n") == ["n1"]
    assert names("Include /\nInclude config.d/**.conf\n") == ["n1"]


def test_what_is_included_under_a_host_holds_for_that_host_only(ssh: Path) -> None:
    """`ssh other` would never see it."""
    (ssh / "lab").write_text("Host lab1 other\n  User x\n")
    assert names("Host a\nHost lab*\n  Include lab\nMatch all\n  Include lab\n") == ["a", "lab1", "other"]
    assert names("Host a\nHost lab*\n  Include lab\n") == ["a", "lab1"]


def test_files_that_include_themselves_end(ssh: Path) -> None:
    """With a word about it."""
    (ssh / "loop").write_text("Host a\nInclude loop\n")
    found = read("Include loop\n", "ssh-config", "config")
    assert [host.name for host in found.hosts] == ["a"]
    assert "include one another too often" in found.remarks[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('Host "a" b', ["a", "b"]),
        ('"Host" = "a"', ["a"]),
        ("host=a", ["a"]),
        ("Host b c # d", ["b", "c"]),
        ("Host a !b *.lab n?", ["a"]),
        ("Host a b !a", ["b"]),
        ("Host a b !*", []),
        ("Host *\nMatch host m\nMatch originalhost k exec true\nHost z", ["z"]),
        ("HostName x\nHost y", ["y"]),
    ],
)
def test_names_of_host_lines(ssh: Path, line: str, expected: list[str]) -> None:
    """A quoted word is one; patterns, negated names and `Match` are none."""
    text = f"{line}\nHost last\n"
    assert [n for n in names(text) if n != "last"] == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('Host "a b" c', "left out: 'a b' is not a host name"),
        ("Host c bob@h", "left out: 'bob@h': write only 'h'"),
        ("Host c ::1", "left out: '::1' is not a host name"),
        ("Host c n[1-2]", "left out: 'n[1-2]' is not a host name"),
        ('Host "a\nHost c', "left out: config:1: a quote is not closed"),
    ],
)
def test_what_is_no_name_for_us_is_left_out_and_said(ssh: Path, line: str, said: str) -> None:
    """The rest is taken."""
    found = read(line + "\n", "ssh-config", "config")
    assert [host.name for host in found.hosts] == ["c"]
    assert [r for r in found.remarks if r.startswith(said)]


def test_a_file_that_can_not_be_read_is_named(ssh: Path) -> None:
    """Its hosts are missing, and nobody should wonder."""
    (ssh / "bad").write_bytes(b"#" * (9 << 20))
    found = read("Host a\nInclude bad\n", "ssh-config", "config")
    assert "bad" in found.remarks[0]


def test_import_reads_includes(cli: Any, ssh: Path) -> None:
    """By the verb, too; a flood of remarks is cut."""
    (ssh / "config.d/lab").write_text("Host node[1-2] node01 node02\n" + "".join(f'Host "x {i}"\n' for i in range(50)))
    (ssh / "config").write_text("Include config.d/*\n")
    done = cli("hosts", "import", "ssh-config")
    assert done.out == 'version: 1\nhosts:\n  "node[01-02]": {}\n'
    assert done.err.count(": left out") == 20
    assert "31 more were left out" in done.err


def test_a_comment_that_is_not_utf8_costs_nothing(cli: Any, ssh: Path, tmp_path: Path) -> None:
    """ssh reads bytes, too; a name that is none of ours is left out alone."""
    (ssh / "config").write_bytes(b"# B\xfcro\nInclude lab\nHost n1 n\xfc2\n")
    (ssh / "lab").write_bytes(b"# R\xe4ume\nHost m3\n")
    done = cli("hosts", "import", "ssh-config")
    assert (done.code, "n1: {}" in done.out, "m3: {}" in done.out) == (0, True, True)
    assert done.err.count("left out") == 1
    found = look(ssh.parent, tmp_path)
    assert [one.name for one in found.hosts] == ["m3", "n1"]
