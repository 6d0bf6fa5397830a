"""Hosts for one who has no hosts.yaml: which files are looked at, what may be typed, what is written."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distui.cluster.hosts.first_hosts import FirstHosts, look
from distui.errors import UsageError
from distui.spec.hosts.read_inventory import load_inventory

REPO = Path(__file__).resolve().parents[2]
EMPTY = FirstHosts((), {}, ())


def names(found: FirstHosts) -> list[tuple[str, str]]:
    """Each host with the file that names it."""
    return [(one.name, one.source) for one in found.hosts]


def test_hosts_of_ssh_ansible_and_hostfiles_are_found_once(home: Path) -> None:
    """The file that comes first wins; patterns are no hosts; groups come along."""
    (home / ".ssh").mkdir()
    (home / ".ssh" / "config").write_text("Host gw1 n1\n  User me\nHost *\n  Port 22\n")
    (Path.cwd() / "inventory.ini").write_text("[gpu]\nn1\nn2 ansible_host=10.0.0.2 ansible_user=ubuntu\n")
    (Path.cwd() / "hostfile").write_text("n3 slots=8\n")
    found = look(home, Path.cwd())
    assert names(found) == [
        ("gw1", "~/.ssh/config"), ("n1", "~/.ssh/config"), ("n2", "inventory.ini"), ("n3", "hostfile"),
    ]  # fmt: skip
    assert found.looked == ("~/.ssh/config", "inventory.ini", "hostfile")
    chosen = found.chosen(["n2", "gw1"])
    assert [(host.name, dict(host.settings)) for host in chosen.hosts] == [
        ("gw1", {}), ("n2", {"addr": "10.0.0.2", "user": "ubuntu"}),
    ]  # fmt: skip
    assert chosen.groups == {"gpu": ("n2",)}


SSH_CONFIG = """\
ProxyCommand ssh -q -W %h:%p me@relay
Host github.com
  User git
Host gitlab
  HostName gitlab.example
Host gw1 relay
Host node01 node02
  ProxyJump amy@gw1:2222
  User "ubuntu"
Match host node02
  User git
Host gitlab*
  User git
"""


def test_what_is_hardly_a_host_to_run_on_comes_last(home: Path) -> None:
    """Servers of git and jump hosts, with why; a user that only a Match sets, or a later block, tells nothing."""
    (home / ".ssh").mkdir()
    (home / ".ssh" / "config").write_text(SSH_CONFIG)
    found = look(home, Path.cwd())
    assert [(one.name, one.host.aside) for one in found.hosts] == [
        ("node01", ""),
        ("node02", ""),
        ("github.com", "its login is git"),
        ("gitlab", "its login is git"),
        ("gw1", "the way to other hosts"),
        ("relay", "the way to other hosts"),
    ]
    assert found.chosen(["node01", "github.com"]).hosts[1].settings == {}


@pytest.mark.parametrize("name", ["hosts", "hosts.yml", "hosts.ini"])
def test_an_inventory_in_a_folder_of_ansible_is_found(home: Path, name: str) -> None:
    """As most of its projects have it."""
    (Path.cwd() / "inventory").mkdir()
    text = "all: {hosts: {n1: {ansible_port: 2222}}}\n" if name.endswith("yml") else "n1 ansible_port=2222\n"
    (Path.cwd() / "inventory" / name).write_text(text)
    found = look(home, Path.cwd())
    assert names(found) == [("n1", f"inventory/{name}")] and found.looked == (f"inventory/{name}",)
    assert found.hosts[0].host.settings == {"port": 2222}


def test_an_inventory_is_found_where_ansible_cfg_says(home: Path) -> None:
    """A file, a folder, one in the home; one that is found by its name, too, is read once."""
    (Path.cwd() / "ansible.cfg").write_text("[defaults]\ninventory = ./prod/web.ini, prod, ~/all.ini, hosts.ini\n")
    (Path.cwd() / "prod").mkdir()
    for path in (Path.cwd() / "prod" / "web.ini", Path.cwd() / "prod" / "hosts", home / "all.ini"):
        path.write_text(f"{path.stem}1 ansible_user=me\n")
    (Path.cwd() / "hosts.ini").write_text("n1\n")
    assert names(look(home, Path.cwd())) == [
        ("n1", "hosts.ini"), ("web1", "prod/web.ini"), ("hosts1", "prod/hosts"), ("all1", str(home / "all.ini")),
    ]  # fmt: skip
    (Path.cwd() / "ansible.cfg").write_text("no section\n")
    assert names(look(home, Path.cwd())) == [("n1", "hosts.ini")]


def test_an_inventory_in_a_folder_that_may_not_be_entered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as one that is not there."""
    (Path.cwd() / "ansible.cfg").write_text("[defaults]\ninventory = locked/hosts\n")
    (Path.cwd() / "hosts.ini").write_text("n1\n")
    stat = os.stat

    def refused(path: Any, **how: Any) -> os.stat_result:  # the user of the tests may be root, who may enter all
        if "locked" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", refused)
    found = look(home, Path.cwd())
    assert names(found) == [("n1", "hosts.ini")] and found.looked == ("hosts.ini",)


def test_a_file_called_hosts_is_of_either_kind(home: Path) -> None:
    """With a section Ansible's, without one a hostfile."""
    (Path.cwd() / "hosts").write_text("a1 slots=4\na2 slots=4\n")
    assert names(look(home, Path.cwd())) == [("a1", "hosts"), ("a2", "hosts")]
    (Path.cwd() / "hosts").write_text("[gpu]\nb[1:2]\n")
    assert names(look(home, Path.cwd())) == [("b1", "hosts"), ("b2", "hosts")]


def test_a_file_that_can_t_be_read_is_said_and_the_others_count(home: Path) -> None:
    """Nothing found at all is no error either."""
    assert look(home, Path.cwd()) == FirstHosts((), {}, ())
    (Path.cwd() / "inventory.yml").write_text("all: [unclosed\n")
    (Path.cwd() / "hostfile").write_text("n1\n")
    found = look(home, Path.cwd())
    assert names(found) == [("n1", "hostfile")]
    assert found.remarks[0].startswith("inventory.yml: ")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("n[1-2]", [("n1", {}), ("n2", {})]),
        ("ubuntu@10.0.0.7:2222", [("10.0.0.7", {"user": "ubuntu", "port": 2222})]),
        ("gw", [("gw", {})]),
        ("h1 h2", [("h1", {}), ("h2", {})]),
        ("h1, h2  n[1, 2]", [("h1", {}), ("h2", {}), ("n1", {}), ("n2", {})]),
        ("me@h1:22 h2", [("h1", {"user": "me", "port": 22}), ("h2", {})]),
        ("fd00::7", [("ip-fd00--7", {"addr": "fd00::7"})]),
        ("me@[fd00::7]:2222 h2", [("ip-fd00--7", {"addr": "fd00::7", "user": "me", "port": 2222}), ("h2", {})]),
        ("[fe80::1%eth0]", [("ip-fe80--1-eth0", {"addr": "fe80::1%eth0"})]),
        (
            "[fd00::7]:22, fd00::8",
            [("ip-fd00--7", {"addr": "fd00::7", "port": 22}), ("ip-fd00--8", {"addr": "fd00::8"})],
        ),
        ("n[1, 2],fd00::7", [("n1", {}), ("n2", {}), ("ip-fd00--7", {"addr": "fd00::7"})]),
    ],
)
def test_hosts_may_be_typed(typed: str, expected: Any) -> None:
    """Names, ranges, user and port as ssh writes them."""
    found = EMPTY.with_typed(typed)
    assert [(one.name, dict(one.host.settings)) for one in found.hosts] == expected


@pytest.mark.parametrize(
    "typed",
    ["", "a b@c@d", "a@b@c", "n[1-", "host:port", "-oProxyCommand=x", "n1:99999", "[::1]:99999", "a::z", "::@x"],
)
def test_what_is_no_host_is_refused(typed: str) -> None:
    """With what could be meant; nothing is taken."""
    with pytest.raises(UsageError):
        EMPTY.with_typed(typed)


@pytest.mark.parametrize("typed", ["fd00::7,", "h1,fd00::7,", "fd00::7,,fd00::8", "me@[fd00::7]:22,"])
def test_a_comma_that_nothing_follows_is_named(typed: str) -> None:
    """It said that '' names no host."""
    with pytest.raises(UsageError, match=f"{re.escape(repr(typed))} has an empty name"):
        EMPTY.with_typed(typed)


def test_off_a_terminal_three_lines_say_how_to_begin(cli: Any) -> None:
    """Import, add, demo; exit 2 as nothing was done."""
    done = cli()
    assert done.code == 2
    lines = done.err.splitlines()
    assert len(lines) == 3
    for line, words in zip(lines, ("hosts import", "hosts add", "demo"), strict=True):
        assert f"distui {words}" in line


def test_what_was_picked_is_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its groups; a file that came meanwhile keeps what it has; read-only writes nothing."""
    from distui.cli.actions.first_start import FirstStart
    from distui.cli.settings import Settings
    from distui.config import load

    (Path.cwd() / "inventory.ini").write_text("[gpu]\nn[1:3]\n")
    environ = {"HOME": str(home)}
    start = FirstStart(Settings(environ, Path.cwd(), load({}, environ, Path.cwd())))
    start.write(["n1", "n3"])
    found = load_inventory("hosts.yaml")
    assert [host.name for host in found.hosts] == ["n1", "n3"]
    assert found.groups == {"gpu": ("n1", "n3")}
    start.write(["n2", "n3"])
    assert {host.name for host in load_inventory("hosts.yaml").hosts} == {"n1", "n2", "n3"}
    environ |= {"DISTUI_READONLY": "true"}
    before = Path("hosts.yaml").read_text()
    with pytest.raises(UsageError):
        FirstStart(Settings(environ, Path.cwd(), load({}, environ, Path.cwd()))).write(["n1"])
    assert Path("hosts.yaml").read_text() == before


def test_a_terminal_that_moves_no_cursor_gets_the_same_lines(tmp_path: Path) -> None:
    """TERM=dumb (Emacs' shell, CI logs with a terminal): no screens, and no escape sequence."""
    ours, theirs = pty.openpty()
    argv = (sys.executable, "-c", "import sys; from distui.cli.main import main; sys.exit(main())")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(REPO), "TERM": "dumb"}
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=tmp_path) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # its end was closed
            while data := os.read(ours, 4096):
                said += data
    os.close(ours)
    assert process.returncode == 2
    assert b"distui hosts import" in said and b"\x1b" not in said


def test_what_a_file_says_of_a_host_that_is_typed_stays(tmp_path: Path) -> None:
    """A name alone leads nowhere where only the inventory knows the address; what is typed goes before it."""
    (tmp_path / "inventory.ini").write_text("[gpu]\ngpu1 ansible_host=10.0.0.5 ansible_user=ubuntu\n")
    found = look(tmp_path, tmp_path).with_typed("root@gpu[1-2]")
    settings = {one.name: dict(one.host.settings) for one in found.hosts}
    assert settings == {"gpu1": {"addr": "10.0.0.5", "user": "root"}, "gpu2": {"user": "root"}}
    assert found.typed == ("gpu1", "gpu2")
    assert found.with_typed("a b").typed == ("a", "b")
