"""Hosts of Ansible's inventories: its own ranges and precedence; what hosts.yaml can't say is left out by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from distui.errors import SpecError, UsageError
from distui.spec.hosts.read_inventory import read_inventory
from distui.spec.imports import ansible_ranges
from distui.spec.imports.import_hosts import as_yaml, read
from distui.spec.imports.imported import Imported
from distui.spec.yaml.problems import Wrong


def hosts(found: Imported) -> dict[str, dict[str, object]]:
    return {host.name: dict(host.settings) for host in found.hosts}


def ini(text: str) -> Imported:
    return read(text, "ansible", "inventory")


def yml(text: str) -> Imported:
    return read(text, "ansible", "inventory.yml")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a", "a"),
        ("gpu[1:5:2]", "gpu1 gpu3 gpu5"),
        ("gpu[1:6:2]", "gpu1 gpu3 gpu5"),
        ("db-[a:c]", "db-a db-b db-c"),
        ("db-[a:f:3]", "db-a db-d"),
        ("[x:z].lab", "x.lab y.lab z.lab"),
        ("z[Y:Z]", "zY zZ"),
        ("n[008:011]", "n008 n009 n010 n011"),
        ("n[8:11]", "n8 n9 n10 n11"),
        ("n[:2]", "n0 n1 n2"),
        ("r[1:2]n[01:02].x", "r1n01.x r1n02.x r2n01.x r2n02.x"),
    ],
)
def test_ranges_are_those_of_ansible(pattern: str, names: str) -> None:
    """Both ends belong to a range; zeros in front stay; letters and steps are understood."""
    assert ansible_ranges.expand(pattern) == tuple(names.split())


@pytest.mark.parametrize("pattern", ["n[1]", "n[1,3]", "n[3:1]", "n[01:3]", "n[a:3]", "n[c:a]", "n[1:9:0]", "n[1:9:x]",
                                     "n[0:99999]", "n[0:99][0:99]", "n[1:]"])  # fmt: skip
def test_what_is_no_range_is_said(pattern: str) -> None:
    """With the pattern, in words."""
    with pytest.raises(Wrong, match=r"range|stands for more than|different lengths"):
        ansible_ranges.expand(pattern)


def test_group_variables_hold_for_the_hosts_of_the_group() -> None:
    """all < parents < children < later names < the host itself, whatever stands first in the file."""
    found = ini(
        "loner\n[gpu]\ng1\ng2 ansible_user=own ansible_port=2202\n[aa]\ng1\n[zz]\ng1\n"
        "[rack:children]\ngpu\n[gpu:vars]\nansible_user = child\nansible_port=2201\n[rack:vars]\nansible_user=parent\n"
        "ansible_port=1\n[all:vars]\nansible_user='everybody'  \nansible_port=22 # usual\n"
        "[zz:vars]\nansible_user=zz\n[aa:vars]\nansible_user=aa\n"
    )
    assert hosts(found) == {
        "loner": {"user": "everybody", "port": 22},
        "g1": {"user": "child", "port": 2201},
        "g2": {"user": "own", "port": 2202},
    }
    assert found.groups["rack"] == ("g1", "g2")


def test_of_groups_at_one_depth_priority_then_name_decides() -> None:
    """As `ansible-inventory --host` shows it."""
    text = "[aa]\nh\n[zz]\nh\n[aa:vars]\nansible_user=aa\n[zz:vars]\nansible_user=zz\n"
    assert hosts(ini(text)) == {"h": {"user": "zz"}}
    assert hosts(ini(text + "[aa:vars]\nansible_group_priority=10\n")) == {"h": {"user": "aa"}}


def test_the_yaml_form_has_the_same_rules() -> None:
    """vars of groups, ranges, children of children, hosts named in several places."""
    found = yml(
        """\
all:
  vars: {ansible_user: everybody}
  hosts:
    gw: {ansible_host: 10.0.0.1, ansible_ssh_port: 2222}
  children:
    gpu:
      vars: {ansible_user: gpu}
      hosts:
        node[01:03:2]:
        db-[a:b]: {ansible_user: db}
      children:
        big: {vars: {ansible_user: big}, hosts: {node03: {ansible_port: 23}}}
"""
    )
    assert hosts(found) == {
        "gw": {"addr": "10.0.0.1", "user": "everybody", "port": 2222},
        "node01": {"user": "gpu"},
        "node03": {"user": "big", "port": 23},
        "db-a": {"user": "db"},
        "db-b": {"user": "db"},
    }
    assert found.groups["gpu"] == ("node01", "node03", "db-a", "db-b")


def test_what_a_listing_prints_is_read() -> None:
    """`ansible-inventory --list`: lists of hosts, variables under `_meta`."""
    groups = '"all": {"children": ["gpu"]}, "gpu": {"hosts": ["a"]}'
    text = '{"_meta": {"hostvars": {"a": {"ansible_host": "10.0.0.7"}}}, ' + groups + "}"
    found = read(text, "ansible", "-")
    assert hosts(found) == {"a": {"addr": "10.0.0.7"}}
    assert dict(found.groups) == {"gpu": ("a",)}


@pytest.mark.parametrize(
    ("text", "kept", "said"),
    [
        ("a\nb[1,3]\n", {"a": {}}, "'b[1,3]': [1,3] is not a range"),
        ('a ansible_port="{{ x }}"\n', {"a": {}}, "a: ansible_port '{{ x }}': is a template"),
        ("a ansible_port={{ x }}\n", {"a": {}}, "a: ansible_port '{{': is a template"),
        ("a ansible_port=ssh\n", {"a": {}}, "a: ansible_port 'ssh': expected a port from 1 to 65535"),
        ("a ansible_port=70000\n", {"a": {}}, "a: ansible_port '70000': expected a port"),
        ("a ansible_user='b c'\n", {"a": {}}, "a: ansible_user 'b c': expected a user name"),
        ("a ansible_host='b c'\n", {"a": {}}, "a: ansible_host 'b c': expected an address or name"),
        ("a\nlocalhost ansible_connection=local\n", {"a": {}}, "localhost: ansible_connection 'local' is not ssh"),
        ("a\n::1\n", {"a": {}}, "'::1' is not a host name"),
        ("a\nb 'c\n", {"a": {}}, "inventory:2: no closing quotation"),
        ("a b\n", {"a": {}}, "inventory:1: 'b' is not NAME=VALUE"),
        ("a\n[g:foo]\nx\n", {"a": {}}, "inventory:2: [g:foo] is no section"),
        ("a\n[all:vars]\nx\n", {"a": {}}, "inventory:3: 'x' is not NAME=VALUE"),
        ("n[1:2] ansible_ssh_private_key_file=~/k\n", {"n1": {}, "n2": {}},
         "n[1-2]: ansible_ssh_private_key_file has no place in hosts.yaml: write IdentityFile in ~/.ssh/config"),
        ("a ansible_ssh_pass=hunter2\n", {"a": {}}, "a: ansible_ssh_pass has no place in hosts.yaml: use a key"),
        ("a:2222\n", {"a": {"port": 2222}}, ""),
        ("[b c]\na\n", {"a": {}}, "group 'b c' is not a group name"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_left_out_by_name_and_the_rest_is_taken(
    text: str, kept: dict[str, dict[str, object]], said: str
) -> None:
    """One bad line costs that line alone, and no secret is shown."""
    found = ini(text)
    assert hosts(found) == kept
    assert not said or any(r.startswith(f"left out: {said}") for r in found.remarks), found.remarks
    assert "hunter2" not in str(found.remarks)
    assert read_inventory(as_yaml(found), "hosts.yaml")


def test_yaml_that_only_ansible_can_read_is_left_out() -> None:
    """A value from a vault, a list where a mapping belongs; the port stays open."""
    found = yml("all:\n  hosts:\n    a: {ansible_port: !vault abc}\n  vars: [x]\n  children: {g: 3}\n")
    assert hosts(found) == {"a": {}}
    assert found.remarks == (
        "left out: group 'all': `vars` is no mapping",
        "left out: group 'g': expected hosts, vars or children below it",
        "left out: a: ansible_port '{encrypted or tagged}': is a template",
    )


def test_a_syntax_error_shows_its_place() -> None:
    """As in our own files."""
    with pytest.raises(SpecError) as caught:
        yml("all:\n  hosts: {a: 1\n  vars: {}\n")
    assert (caught.value.problems[0].line, caught.value.problems[0].path) == (2, "inventory.yml")


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ('ansible_user="root" # why', {"user": "root"}),
        ("ansible_user='root'# why", {"user": "root"}),
        ("ansible_user=root # why", {"user": "root"}),
        ("ansible_port=22 # it's ssh's", {"port": 22}),
    ],
)
def test_a_comment_ends_a_variable_of_a_group(written: str, read_as: dict[str, object]) -> None:
    """Behind a quoted value, too."""
    found = ini(f"[gpu]\na\n[gpu:vars]\n{written}\n")
    assert (hosts(found), found.remarks) == ({"a": read_as}, ())


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("ec2.py", "#!/usr/bin/env python3\nimport json\nprint(json.dumps({}))\n", "ec2.py is a program that prints"),
        (
            "aws_ec2.yml",
            "plugin: amazon.aws.aws_ec2\nregions: [a]\n",
            "aws_ec2.yml is for Ansible's plugin 'amazon.aws",
        ),
        ("in ventory", None, "in ventory is a folder; name a file in it"),
    ],
)
def test_what_only_ansible_can_read_names_the_way_through_it(cli: Any, name: str, text: str | None, why: str) -> None:
    """The lines of a program are no hosts."""
    if text is None:
        Path(name).mkdir()
    else:
        Path(name).write_text(text)
    done = cli("hosts", "import", "ansible", name)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
    path = f"'{name}'" if " " in name else name
    assert f"`ansible-inventory -i {path} --list | distui hosts import ansible -`" in done.err


@pytest.mark.parametrize("form", ["ansible", "hostfile", "ssh-config"])
def test_a_file_of_an_editor_of_windows(cli: Any, form: str) -> None:
    """The mark in front belongs to no name, nor do line ends of two characters."""
    text = {"ansible": "[gpu]\na\nb\n", "hostfile": "a slots=2\nb slots=2\n", "ssh-config": "Host a\nHost b\n"}[form]
    Path("file").write_bytes(("\ufeff" + text.replace("\n", "\r\n")).encode())
    done = cli("hosts", "import", form, "file")
    assert yaml.safe_load(done.out)["hosts"] == {"a": {}, "b": {}} or yaml.safe_load(done.out)["hosts"] == {"[a-b]": {}}
    assert "is not" not in done.err
    assert form != "ansible" or yaml.safe_load(done.out)["groups"] == {"gpu": "a,b"}


def test_circles_of_groups_end() -> None:
    """Ansible refuses them; here each host is in all of the circle."""
    found = ini("[a]\nx ansible_port=22\n[a:children]\nb\n[b:children]\na\n[b:vars]\nansible_user=u\n")
    assert hosts(found) == {"x": {"user": "u", "port": 22}}
    assert dict(found.groups) == {"a": ("x",), "b": ("x",)}


def test_folders_of_variables_beside_the_file(cli: Any) -> None:
    """group_vars/ is stronger than what the inventory says of groups, host_vars/ than what it says of the host."""
    files = {
        "inventory": "h0 ansible_port=1\nh1\n[gpu]\nh2 ansible_port=2\nh3.lan\n[gpu:vars]\nansible_user=ini\n",
        "group_vars/all.yml": "ansible_user: all\nansible_port: 3\n",
        "group_vars/gpu/b.yaml": "ansible_port: 5\n",
        "group_vars/gpu/a.yml": "ansible_port: 4\nansible_user: gpu\n",
        "group_vars/gpu/deep/c.json": '{"ansible_port": 6}',
        "group_vars/gpu/notes.txt": "ansible_port: 7\n",
        "group_vars/gpu/old.bak/z.yml": "ansible_port: 7\n",
        "group_vars/gpu.yml": "ansible_port: 7\n",
        "group_vars/other.yml": "ansible_port: 8\n",
        "host_vars/h2.yml": "ansible_host: 10.0.0.2\nansible_port: 22\n",
        "host_vars/h3.lan": "ansible_host: 10.0.0.3\n",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    done = cli("hosts", "import", "ansible", "inventory")
    assert (done.code, done.err) == (0, "")
    assert yaml.safe_load(done.out)["hosts"] == {
        "h0": {"user": "all", "port": 1},
        "h1": {"user": "all", "port": 3},
        "h2": {"addr": "10.0.0.2", "user": "gpu", "port": 22},
        "h3.lan": {"addr": "10.0.0.3", "user": "gpu", "port": 6},
    }


def test_files_of_variables_that_cannot_be_read_are_named(cli: Any) -> None:
    """Encrypted, broken and odd ones: the rest is imported, and nothing waits for a FIFO."""
    Path("inventory").write_text("a\nb[1:x]\nc\nd\n")
    Path("host_vars").mkdir()
    Path("group_vars/all").mkdir(parents=True)
    Path("group_vars/all/vault.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    Path("group_vars/all/bad.yml").write_text("ansible_port: [1\n")
    Path("group_vars/all/list.yml").write_text("- 1\n")
    Path("group_vars/all/circle").symlink_to("..")
    os.mkfifo("group_vars/all/fifo.yml")
    Path("group_vars/all/good.yml").write_text("ansible_user: me\n")
    Path("group_vars/all/x\x1b[2J.yml").write_text("- 1\n")
    for number, odd in enumerate(("!!timestamp x", "!!bool n", "!!float ''", "!!int ''")):
        Path(f"group_vars/all/odd{number}.yml").write_text(f"ansible_port: {odd}\n")
    aliases = "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 40))
    Path("host_vars/c.yml").write_text(f"b0: &b0 [1]\n{aliases}ansible_connection: *b39\n")
    Path("host_vars/d.yml").write_text(f"b0: &b0 [1]\n{aliases}ansible_host: *b39\n")
    deep = Path("group_vars/all")
    for _ in range(60):
        deep /= "d"
    deep.mkdir(parents=True)
    done = cli("hosts", "import", "ansible", "inventory")
    assert done.code == 0
    for words in (
        "left out: group_vars/all/vault.yml: encrypted: only Ansible can read it",
        "left out: group_vars/all/bad.yml: line 1: ",
        "left out: group_vars/all/circle: a link to a folder, which is not followed",
        "left out: group_vars/all/odd0.yml is not YAML: ",
        "left out: group_vars/all/odd3.yml is not YAML: ",
        "left out: c: ansible_connection '(a list or table)' is not ssh",
        "left out: d: ansible_host '(a list or table)': is no single value",
        "d/d: nested too deeply",
        "left out: group_vars/all/list.yml: expected variables",
        "left out: group_vars/all/fifo.yml: ",
        "left out: 'b[1:x]'",
    ):
        assert words in done.err
    assert "\x1b" not in done.err


@given(st.text(alphabet="ab[]:,=0129 \n'\"{}#@-_.!\tvarschilden", max_size=120), st.sampled_from(["f", "f.yml"]))
def test_whatever_is_read_gives_a_right_file(text: str, path: str) -> None:
    """What is imported can always be read back."""
    prefix = "h ansible_port=" if path == "f" else "all:\n  hosts:\n    h: "
    try:
        made = as_yaml(read(prefix + text, "ansible", path))
    except UsageError:
        return
    assert read_inventory(made, "hosts.yaml").hosts
