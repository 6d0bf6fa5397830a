"""`distui hosts add`, `rm` and `import`: hosts.yaml changed in place, and only when it is right afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distui.cluster.hosts.inventory_file import InventoryFile
from distui.errors import UsageError
from distui.spec.hosts.read_inventory import load_inventory, read_inventory
from distui.spec.imports.import_hosts import Form, ImportedHost, as_yaml, read

HOSTS = """\
# the lab
version: 1
hosts:
  node[01-02]: {gpus: 8}   # the big ones
  gw.lab: {}
groups:
  big: node[01-02]  # all of them
"""
INI = """\
# ours
gw ansible_host=10.0.0.1 ansible_port=2222 ansible_user=ops   # the door
[gpu]
node[01:03] ansible_user=ubuntu http_port=80
odd ansible_host=odd
[cpu]
c1
[cluster:children]
gpu
cpu
[gpu:vars]
ansible_user=nobody
"""
YML = """\
all:
  hosts:
    gw: {ansible_host: 10.0.0.1, ansible_port: 2222}
  children:
    gpu:
      hosts:
        node[01:02]:
      children:
        big: {hosts: {b1: }}
"""


HOSTILE = {
    "brackets": "[" * 100_000,
    "tag": "version: !!timestamp\nhosts: {a: {}}\n",
    "tag of a key": "!!timestamp version: 1\nhosts: {a: {}}\n",
    "digits": "version: " + "9" * 5_000 + "\nhosts: {a: {}}\n",
    "digits as a key": "9" * 5_000 + ": 1\nversion: 1\nhosts: {a: {}}\n",
    "second document": "version: 1\nhosts: {a: {}}\n---\nversion: 1\n",
    "list": "- a\n- b\n",
    "twice": "version: 1\nhosts: {a: {}, a: {}}\n",
    "syntax": "version: 1\nhosts: {a: {}\n",
    "a list of hosts": "version: 1\nhosts: [a, b]\n",
    "hosts by name": "version: 1\nhosts:\n- name: a\n",
    "a set of hosts": 'version: 1\nhosts: "a[1-3]"\n',
    "no set of hosts": "version: 1\nhosts: ''\n",
    "a list of groups": "version: 1\nhosts: {a: {}}\ngroups: [x, y]\n",
    "a group without hosts": "version: 1\nhosts: {a: {}}\ngroups: g\n",
    "a group of tables": "version: 1\nhosts: {a: {}}\ngroups: {g: {a: {}}}\n",
    "a group of lists": "version: 1\nhosts: {a: {}}\ngroups: {other: [a, [a]]}\n",
    "a host that is a list": "version: 1\nhosts: {a: [x]}\n",
}
"""Files that no verb can use, some of them a trap for what reads YAML."""


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("words", ["add b --group g", "rm b", "import nodeset n[1-2] --write"])
def test_a_file_that_cannot_be_read_is_refused_as_hosts_validate_does(cli: Any, text: str, words: str) -> None:
    """The same words and exit 2; the file stays as it is."""
    Path("hosts.yaml").write_text(text)
    output = cli("hosts", "validate")
    done = cli("hosts", *words.split())

    assert (done.code, done.out, done.err) == (2, "", output.err)
    assert Path("hosts.yaml").read_text() == text


def test_members_of_a_group_stay_as_they_are_written(cli: Any) -> None:
    """A name of digits is no number."""
    Path("hosts.yaml").write_text('version: 1\nhosts: {"007": {}}\ngroups:\n  g: 007\n')
    assert cli("hosts", "add", "b", "--group", "g").code == 0
    assert load_inventory("hosts.yaml").groups["g"] == ("007", "b")


def test_a_link_stays_a_link(cli: Any) -> None:
    """What it leads to is changed: dotfiles, or an inventory that several people use."""
    Path("shared.yaml").write_text(HOSTS)
    Path("hosts.yaml").symlink_to("shared.yaml")
    assert cli("hosts", "add", "node09").code == 0
    assert Path("hosts.yaml").is_symlink()
    assert "  node09: {}\n" in Path("shared.yaml").read_text()


def test_links_in_a_circle_are_no_file(cli: Any) -> None:
    """That is said; it was taken for a bug in distui."""
    Path("hosts.yaml").symlink_to("hosts.yaml")
    done = cli("hosts", "add", "node09")
    assert (done.code, "hosts.yaml: can't be read: Too many levels of symbolic links" in done.err) == (2, True)


def test_what_another_program_wrote_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """Nothing is written then."""
    path = tmp_path / "hosts.yaml"
    path.write_text(HOSTS)
    file, other = InventoryFile(str(path)), InventoryFile(str(path))
    file.add("node08", "{}")
    other.add("node09", "{}")
    other.save()
    with pytest.raises(UsageError, match="changed by another program"):
        file.save()
    assert "node09" in path.read_text() and "node08" not in path.read_text()
    other.add("node10", "{}")
    other.save()


def test_a_host_is_added_and_everything_else_stays(cli: Any) -> None:
    """With its settings on one line; what was written before is not touched."""
    Path("hosts.yaml").write_text(HOSTS)
    words = ("--addr", "10.0.0.9", "--user", "ubuntu", "--port", "2222", "--with-label", "rack=r7", "--group", "big")
    done = cli("hosts", "add", "node09", *words)
    assert done.code == 0, done.err
    text = Path("hosts.yaml").read_text()
    line = '  node09: {addr: "10.0.0.9", user: ubuntu, port: 2222, labels: {rack: r7}}\n'
    expected = HOSTS.replace("  gw.lab: {}\n", f"  gw.lab: {{}}\n{line}")
    assert text == expected.replace("big: node[01-02] ", 'big: ["node[01-02]", node09] ')
    host = load_inventory("hosts.yaml").get("node09")
    assert host is not None
    assert (host.addr, host.port, dict(host.labels)) == ("10.0.0.9", 2222, {"rack": "r7"})


def test_the_first_host_makes_the_file(cli: Any) -> None:
    """A range and a new group, too."""
    assert cli("hosts", "add", "node[01-04]", "--group", "all8").code == 0
    assert cli("hosts", "add", "gw1").code == 0
    assert Path("hosts.yaml").read_text() == (
        'version: 1\nhosts:\n  "node[01-04]": {}\n  gw1: {}\ngroups:\n  all8: "node[01-04]"\n'
    )
    assert cli("hosts", "ls", "-q").out.split() == ["node01", "node02", "node03", "node04", "gw1"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add", "gw.lab"), 2, "gw.lab is listed already"),
        (("add", "node02"), 2, "node02 is already listed on line 4"),
        (("add", "bad name"), 2, "bad name"),
        (("add", "x", "--addr", "a{b}"), 2, "means nothing here"),
        (("rm", "node01"), 2, "node01 is one of the hosts of"),
        (("rm", "nobody"), 7, "there is no host 'nobody'"),
    ],
)
def test_what_would_not_be_right_is_not_written(cli: Any, words: tuple[str, ...], code: int, said: str) -> None:
    """The file stays as it is, and the reason is said."""
    Path("hosts.yaml").write_text(HOSTS)
    done = cli("hosts", *words)
    assert (done.code, said in done.err) == (code, True), done.err
    assert Path("hosts.yaml").read_text() == HOSTS
    assert list(Path().glob(".hosts*")) == []


def test_the_only_host_is_not_removed(cli: Any) -> None:
    """A hosts.yaml without hosts is none: what is in the way was said as a wrong line of the file."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  a: {}\n")
    done = cli("hosts", "rm", "a")
    assert (done.code, "a is the only host of hosts.yaml" in done.err) == (2, True), done.err
    assert Path("hosts.yaml").read_text() == "version: 1\nhosts:\n  a: {}\n"


def test_a_host_is_removed_with_its_line_only(cli: Any) -> None:
    """The mode of the file stays."""
    Path("hosts.yaml").write_text(HOSTS)
    Path("hosts.yaml").chmod(0o640)
    assert cli("hosts", "rm", "gw.lab").code == 0
    assert Path("hosts.yaml").read_text() == HOSTS.replace("  gw.lab: {}\n", "")
    assert Path("hosts.yaml").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("groups", "left", "said"),
    [
        ('big: ["node[01-02]", b]', 'big: "node[01-02]"', ", also from @big"),
        ("big: b  # mine", "big: []  # mine", ", also from @big"),
        ("big: [a, b, c]\n  one: [b]\n  none: a", "big: [a, c]\n  one: []\n  none: a", ", also from @big, @one"),
    ],
)
def test_a_host_is_removed_from_its_groups_too(cli: Any, groups: str, left: str, said: str) -> None:
    """As `hosts add --group` puts it there; the group stays, for jobs that name it."""
    text = f'version: 1\nhosts:\n  "node[01-02]": {{}}\n  a: {{}}\n  b: {{}}\n  c: {{}}\ngroups:\n  {groups}\n'
    Path("hosts.yaml").write_text(text)
    done = cli("hosts", "rm", "b")
    assert (done.code, f"b removed{said}" in done.err) == (0, True), done.err
    assert Path("hosts.yaml").read_text() == text.replace("  b: {}\n", "").replace(groups, left)


@pytest.mark.parametrize(
    ("typed", "flags"),
    [("fd00::1", "--addr fd00::1"), ("me@[fd00::1]:2222", "--addr fd00::1 --user me --port 2222")],
)
def test_an_ipv6_address_is_no_name_of_a_host(cli: Any, typed: str, flags: str) -> None:
    """What makes a host of it is said, also where hosts are chosen; it was taken for GPUs to be picked."""
    done = cli("hosts", "add", typed)
    assert (done.code, f"distui hosts add NAME {flags}`" in done.err) == (2, True), done.err
    assert not Path("hosts.yaml").exists()
    done = cli("probe", "-H", typed)
    assert (done.code, "is an IPv6 address" in done.err, f"NAME {flags}`" in done.err) == (2, True, True), done.err
    Path("hosts.yaml").write_text(f'version: 1\nhosts:\n  "{typed}": {{}}\n')
    assert "is an IPv6 address" in cli("hosts", "validate").err


@pytest.mark.parametrize("typed", ["ab:0:3", "10:20:30", "a::b::c", "fd00:::7", "1:2:3:4:5:6:7:8:9"])
def test_what_has_colons_and_is_no_address_is_not_called_one(cli: Any, typed: str) -> None:
    """GPUs that are picked wrongly of a host whose name has digits and letters to f alone."""
    for words in (("hosts", "add", typed), ("probe", "-H", typed)):
        done = cli(*words)
        assert (done.code, "IPv6" in done.err) == (2, False), done.err


@pytest.mark.parametrize(
    ("name", "left"), [("n2", '"n[1,3-4]"'), ("n4", '"n[1-3]"'), ("n1", '"n[2-4]"'), ("gw", "n[1-4]")]
)
def test_a_host_is_removed_from_ranges_of_groups_too(cli: Any, name: str, left: str) -> None:
    """The others of the range stay; groups of groups are as they were."""
    hosts = ["n1", "n2", "n3", "n4", "gw"]
    text = "version: 1\nhosts:\n" + "".join(f"  {one}: {{}}\n" for one in hosts)
    groups = 'groups:\n  big: n[1-4]\n  one: ["n[1-2]", gw]\n  every: "@big"\n'
    Path("hosts.yaml").write_text(text + groups)
    done = cli("hosts", "rm", name)
    assert done.code == 0, done.err
    written = Path("hosts.yaml").read_text()
    assert f"  big: {left}\n" in written and '  every: "@big"\n' in written
    found = read_inventory(written, "hosts.yaml")
    assert [host.name for host in found.hosts] == [one for one in hosts if one != name]
    assert found.groups["one"] == tuple(one for one in ("n1", "n2", "gw") if one != name)


def test_an_entry_of_several_hosts_is_removed_with_its_range_in_groups(cli: Any) -> None:
    """They stayed in the groups, and the file that would have been written was refused."""
    text = "version: 1\nhosts:\n  gw: {}\n  node[01-04]: {}\ngroups:\n  big: node[01-04]\n  all4: [gw, 'node[02-03]']\n"
    Path("hosts.yaml").write_text(text)
    done = cli("hosts", "rm", "node[01-04]")
    assert (done.code, done.err) == (0, "hosts.yaml: node[01-04] removed, also from @big, @all4\n")
    found = read_inventory(Path("hosts.yaml").read_text(), "hosts.yaml")
    assert ([host.name for host in found.hosts], found.groups) == (["gw"], {"big": (), "all4": ("gw",)})


def test_an_ipv6_address_stands_in_brackets_before_its_port(cli: Any) -> None:
    """`fd00::9:22` is another address."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  a: {addr: 'fd00::9', port: 22}\n  b: {addr: 'fd00::8'}\n")
    listed = cli("hosts", "ls").out.splitlines()
    assert [line.split()[1] for line in listed[1:]] == ["[fd00::9]:22", "fd00::8"]


@pytest.mark.parametrize(
    ("entry", "name", "hint"),
    [
        ("node[01-08]", "node03", "write 'node[01-02,04-08]' in its place, there and in groups"),
        ("node[01-02]", "node02", "write 'node01' in its place"),
        ("node[01-01]", "node01", "take that entry out of the file"),
    ],
)
def test_what_to_write_for_a_range_is_said(cli: Any, entry: str, name: str, hint: str) -> None:
    """Its settings may have the number of the host in them: that is for who wrote it."""
    text = f"version: 1\nhosts:\n  gw: {{}}\n  {entry}: {{}}\n"
    Path("hosts.yaml").write_text(text)
    done = cli("hosts", "rm", name)
    assert (done.code, Path("hosts.yaml").read_text()) == (2, text)
    assert f"{name} is one of the hosts of '{entry}'" in done.err
    assert hint in done.err


@pytest.mark.parametrize(
    ("form", "path", "text", "expected"),
    [
        ("ssh-config", "config", "Host a b *.lab !c\n  User x\nHOST=d # no\nMatch host e\n",
         "version: 1\nhosts:\n  a: {}\n  b: {}\n  d: {}\n"),
        ("nodeset", "the set", "node[001-064] gw1", 'version: 1\nhosts:\n  "node[001-064]": {}\n  gw1: {}\n'),
        ("hostfile", "hf", "n1 slots=8\nbob@n2\n", "version: 1\nhosts:\n  n1: {}\n  n2: {user: bob}\n"),
        ("ansible", "inventory", INI,
         'version: 1\nhosts:\n  gw: {addr: "10.0.0.1", user: ops, port: 2222}\n  "node[01-03]": {user: ubuntu}\n'
         '  odd: {user: nobody}\n  c1: {}\n'
         'groups:\n  gpu: "node[01-03],odd"\n  cpu: c1\n  cluster: "node[01-03],odd,c1"\n'),
        ("ansible", "inventory.yml", YML,
         'version: 1\nhosts:\n  gw: {addr: "10.0.0.1", port: 2222}\n  "node[01-02]": {}\n  b1: {}\n'
         'groups:\n  gpu: "node[01-02],b1"\n  big: b1\n'),
    ],
)  # fmt: skip
def test_hosts_of_other_tools(form: Form, path: str, text: str, expected: str) -> None:
    """Names, and what is told of address, login and port; alike neighbours are a range. The result is a hosts.yaml."""
    made = as_yaml(read(text, form, path))
    assert made == expected
    assert read_inventory(made, "hosts.yaml").hosts


def test_a_file_without_hosts_is_refused() -> None:
    """With its form, which may be the wrong one."""
    with pytest.raises(UsageError, match="names no host"):
        read("User x\n", "ssh-config", "config")


def test_only_matching_hosts_are_taken() -> None:
    """And groups without any of them go."""
    found = read(INI, "ansible", "inventory").matching("node0[12]")
    assert [host.name for host in found.hosts] == ["node01", "node02"]
    assert dict(found.groups) == {"gpu": ("node01", "node02"), "cluster": ("node01", "node02")}
    assert found.hosts[0] == ImportedHost("node01", {"user": "ubuntu"})


def test_a_group_that_is_there_is_kept_and_said(cli: Any) -> None:
    """With the hosts that the import has in it."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  n1: {}\ngroups:\n  web: [n1]\n")
    Path("inv.ini").write_text("[web]\nn1\nn2\nn3\n[db]\nn2\n")
    done = cli("hosts", "import", "ansible", "inv.ini", "--write")
    assert "group web is there and stays as it is, without n[2-3]" in done.err
    assert "web: [n1]\n  db: n2\n" in Path("hosts.yaml").read_text()


def test_import_prints_or_adds_what_is_not_there(cli: Any, home: Path) -> None:
    """ssh's own config is the default source; what is there already stays as it is written."""
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text("Host node01 node03 github.com\n  User git\n")
    printed = cli("hosts", "import", "ssh-config", "--match", "node*")
    assert printed.out == 'version: 1\nhosts:\n  "node[01,03]": {}\n'
    Path("hosts.yaml").write_text(HOSTS)
    done = cli("hosts", "import", "ssh-config", "--match", "node*", "--write")
    assert "1 host added, 1 was there" in done.err
    assert Path("hosts.yaml").read_text() == HOSTS.replace("  gw.lab: {}\n", "  gw.lab: {}\n  node03: {}\n")
    again = cli("hosts", "import", "nodeset", "node[01-03]", "--write")
    assert "0 hosts added, 3 were there" in again.err
    assert cli("hosts", "import", "ansible").code == 2


def test_export_is_read_back_by_import(cli: Any) -> None:
    """Both forms name the same hosts; only those that were chosen, and groups that still have some."""
    Path("hosts.yaml").write_text(HOSTS.replace("gw.lab: {}", "gw.lab: {addr: 10.0.0.1, user: ops, port: 2222}"))
    hostfile = cli("hosts", "export", "hostfile").out
    assert hostfile == "node01 slots=8\nnode02 slots=8\ngw.lab\n"
    assert [h.name for h in read(hostfile, "hostfile", "hf").hosts] == ["node01", "node02", "gw.lab"]
    ini = cli("hosts", "export", "ansible").out
    assert ini == (
        "node01\nnode02\ngw.lab ansible_host=10.0.0.1 ansible_user=ops ansible_port=2222\n\n[big]\nnode01\nnode02\n"
    )
    again = read(ini, "ansible", "inventory")
    assert again.hosts[2] == ImportedHost("gw.lab", {"addr": "10.0.0.1", "user": "ops", "port": 2222})
    assert dict(again.groups) == {"big": ("node01", "node02")}
    assert cli("hosts", "export", "ansible", "gw.lab").out.count("\n") == 1
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  a: {user: 'LAB\\ann'}\n")
    assert read(cli("hosts", "export", "ansible").out, "ansible", "i").hosts == (
        ImportedHost("a", {"user": "LAB\\ann"}),
    )
