"""hosts.yaml as people write it, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distui.errors import SpecError, UsageError
from distui.spec.hosts.inventory import DataNetwork, Host, Inventory
from distui.spec.hosts.read_inventory import inventory_from_names, load_inventory, read_inventory
from distui.spec.job.read_job import load_job

ROOT = Path(__file__).parents[2]


def messages(text: str) -> list[str]:
    """Every problem of a file: `line:column key: message`."""
    with pytest.raises(SpecError) as caught:
        read_inventory(text, "h")
    return [str(p).removeprefix("h:") for p in caught.value.problems]


def hosts(body: str) -> Inventory:
    """An inventory whose hosts are `body`."""
    return read_inventory(f"version: 1\nhosts:\n{body}", "h")


def test_the_example_is_read() -> None:
    """The file at the top of the repository says what its comments promise."""
    inventory = load_inventory(str(ROOT / "hosts.yaml"))
    node = {
        "gpus": 8,
        "labels": {"gpu": "h100", "rack": "r7"},
    }
    assert inventory.hosts == (
        Host("gw1", data=DataNetwork(ifname="eno1")),
        Host("gw2", addr="10.0.1.9", user="ubuntu", port=2222, data=DataNetwork(ifname="ens3")),
        Host("gw3"),
        *(
            Host(f"node0{n}", **node, data=DataNetwork(f"10.10.0.{n}", "bond0", "mlx5_[0-7]"))  # type: ignore[arg-type]
            for n in (1, 2, 3, 4)
        ),
    )
    assert inventory.groups == {"h100": ("node01", "node02", "node03", "node04"), "cpu": ("gw1", "gw2", "gw3")}


def test_the_example_has_the_hosts_of_all_example_jobs() -> None:
    """So that each of them can be validated beside it as it is."""
    known = {host.name for host in load_inventory(str(ROOT / "hosts.yaml")).hosts}
    for folder in ("jobs", "examples/training"):
        for path in sorted((ROOT / folder).glob("*.yaml")):
            names = load_job(str(path), environ={}).hosts.names
            assert {host.name for host in inventory_from_names(names).hosts} <= known, path


def test_defaults_fill_what_a_host_leaves_open() -> None:
    """Labels and data are put together key by key; everything else is replaced."""
    inventory = read_inventory(
        "version: 1\n"
        "defaults: {user: bob, gpus: [0, 1], connect_timeout: 1m30s, labels: {a: 1, b: x}, data: {ifname: eth0}}\n"
        "hosts: {n1: , n2: {user: ann, gpus: auto, labels: {b: y}, data: {hcas: ^mlx5_3}}}",
        "h",
    )
    assert inventory.hosts == (
        Host(
            "n1",
            user="bob",
            gpus=(0, 1),
            connect_timeout=90.0,
            labels={"a": "1", "b": "x"},
            data=DataNetwork(ifname="eth0"),
        ),
        Host(
            "n2",
            user="ann",
            gpus="auto",
            connect_timeout=90.0,
            labels={"a": "1", "b": "y"},
            data=DataNetwork(ifname="eth0", hcas="^mlx5_3"),
        ),
    )


@pytest.mark.parametrize(
    ("written", "engine", "command"),
    [
        ("docker", "docker", ("docker",)),
        ("podman", "podman", ("podman",)),
        ("process", "process", ()),
        ("sudo -n docker", "docker", ("sudo", "-n", "docker")),
        ("/usr/local/bin/podman", "podman", ("/usr/local/bin/podman",)),
    ],
)
def test_engines(written: str, engine: str, command: tuple[str, ...]) -> None:
    """`docker:` says which engine and how it is called."""
    (host,) = hosts(f"  a: {{docker: {written}}}").hosts
    assert (host.engine, host.engine_command) == (engine, command)


@pytest.mark.parametrize(
    "written", ["sudo docker", "docker run", "sh -c docker", "docker; id", "'\"'", "-docker", "sudo -n", "dockerd"]
)
def test_no_other_command_is_an_engine(written: str) -> None:
    """`docker:` is no place for commands of one's own, and sudo must never ask."""
    (problem,) = messages(f"version: 1\nhosts:\n  a:\n    docker: {written}\n")
    assert "docker" in problem
    assert problem.startswith("4:13: hosts.a.docker: ")


def test_range_numbers_fill_addresses() -> None:
    """{n} is the number without zeros; hosts on one address differ by name."""
    inventory = hosts('  n[08-10]: {addr: "10.0.0.{n}", data: {addr: "fd00::{n}"}}')
    assert [(h.name, h.addr, h.data.addr) for h in inventory.hosts] == [
        ("n08", "10.0.0.8", "fd00::8"),
        ("n09", "10.0.0.9", "fd00::9"),
        ("n10", "10.0.0.10", "fd00::10"),
    ]


def test_groups_may_name_groups_above_them() -> None:
    """No circle is possible, @all is always there, and a list does as well as a text."""
    inventory = read_inventory(
        'version: 1\nhosts: {a1: , a2: , b1: }\ngroups: {a: "a[1-2]", ab: ["@a", b1], e: "@all"}', "h"
    )
    assert inventory.groups == {"a": ("a1", "a2"), "ab": ("a1", "a2", "b1"), "e": ("a1", "a2", "b1")}


def test_anchors_may_be_kept_under_x_keys() -> None:
    """As in compose: `x-` keys are the user's own."""
    inventory = read_inventory("version: 1\nx-gpu: &gpu {gpus: 8}\nhosts: {a: {<<: *gpu, user: bob}}", "h")
    assert inventory.hosts == (Host("a", gpus=8, user="bob"),)


def test_every_problem_is_reported_at_once_with_its_place() -> None:
    """Ten slips in one file take one look, not ten runs."""
    text = """\
version: 1
defaults: {usr: ubuntu}
hosts:
  node[01-02]:
    prot: 22
    port: "22"
    user: 3.10
  node02: {gpus: many}
  gw: {docker: docer, connect_timeout: 10 parsecs, labels: [x]}
  n[1-2]: {addr: 10.0.0.1}
  m: {data: {addr: "10.0.0.{n}", ifname: eth0 eth1}}
  o[299-300]: {data: {addr: "10.0.0.{n}"}}
  p: {password: hunter2, key: x}
groups:
  a: node[01-03]
  b: "@c"
  all: gw
"""
    assert messages(text) == [
        "2:12: defaults.usr: unknown key, did you mean 'user'?",
        "5:5: hosts.node[01-02].prot: unknown key, did you mean 'port'?",
        "6:11: hosts.node[01-02].port: expected a port from 1 to 65535, without quotes",
        '7:11: hosts.node[01-02].user: expected a user name, got the number 3.10: quote it, "3.10"',
        "8:3: hosts.node02: node02 is already listed on line 4; list it once",
        "8:18: hosts.node02.gpus: expected auto, a number of GPUs from 0 to 256"
        " or a list of GPU indices such as [0, 1]",
        "9:16: hosts.gw.docker: expected docker, podman, process or 'sudo -n docker', got 'docer'",
        "9:40: hosts.gw.connect_timeout: expected a duration such as 30s, 2m or 1.5 (seconds)",
        "9:60: hosts.gw.labels: expected labels such as {gpu: h100}, got a list",
        "10:18: hosts.n[1-2].addr: all 2 hosts of this range would get this address; write {n} for the range's number",
        "11:20: hosts.m.data.addr: {n} needs one range in the host's name, such as node[01-04]",
        "11:42: hosts.m.data.ifname: expected the name of one network interface, such as eno1",
        "12:29: hosts.o[299-300].data.addr: '10.0.0.299' for o299 is not an IP address",
        "13:7: hosts.p.password: passwords have no place here: use a key or an ssh agent",
        "13:26: hosts.p.key: unknown key: the ssh key comes from ~/.ssh/config"
        " (Host, IdentityFile, ProxyJump); distui reads it",
        "15:6: groups.a: 'node03' not in hosts, did you mean 'node02'?",
        "16:6: groups.b: there is no group @c; groups: a, all",
        "17:3: groups.all: @all always means every host; choose another name",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", " the file is empty; it needs `version: 1` and `hosts:`"),
        ("# only a comment\n", " the file is empty; it needs `version: 1` and `hosts:`"),
        ("[]", "1:1: expected a mapping with `version: 1` and `hosts:`, got a list"),
        ("hosts: {a: }", "1:1: version: missing: expected `version: 1`, the format of this file"),
        ("version: 2\nhosts: {a: }", "1:10: version: this distui reads version 1, got '2'; write version: 1"),
        ("version: true\nhosts: {a: }", "1:10: version: this distui reads version 1, got 'true'; write version: 1"),
        ("version: 1\nhosts: {}", "2:8: hosts: no host is listed; add one, such as node01: {gpus: 8}"),
        ("version: 1\nhosts: {a: }\n---\nb: 1", "4:1: a second document; hosts.yaml is one document, without"),
        ("version: 1\nhosts: {a: 5}", "2:12: hosts.a: expected the host's settings, such as {gpus: 8}, got 5"),
        ("version: 1\nhosts: {'a:22': }", "2:9: hosts.a:22: 'a:22' is not a host name; a port is written {port: 2222}"),
        ("version: 1\nhosts: {'@a': }", "2:9: hosts.@a: '@a': a host's name can't start with @"),
        ("version: 1\nhosts: {a: {gpus: [0, 0]}}", "2:19: hosts.a.gpus: 0 is listed twice"),
        ("version: 1\nhosts: {a: {gpus: -1}}", "2:19: hosts.a.gpus: expected auto, a number of GPUs"),
        ("version: 1\nhosts: {a: {user: -oProxyCommand=x}}", "2:19: hosts.a.user: expected a user name"),
        ("version: 1\nhosts: {a: {addr: '-oX'}}", "2:19: hosts.a.addr: expected an address or name"),
        ("version: 1\nhosts: {a: {connect_timeout: .nan}}", "2:30: hosts.a.connect_timeout: expected a duration from"),
        ("version: 1\nhosts: {a: {connect_timeout: 1:30}}", "2:30: hosts.a.connect_timeout: expected a duration such"),
    ],
)
def test_one_problem_is_reported_in_one_sentence(text: str, problem: str) -> None:
    """What, where and what to do."""
    (found,) = messages(text)
    assert found.startswith(problem)


def test_hosts_named_on_the_command_line_need_no_file() -> None:
    """-H alone is an inventory: ssh config knows the rest."""
    assert inventory_from_names(["gw[1-2]", "n1:0-3"]).hosts == (Host("gw1"), Host("gw2"), Host("n1"))
    with pytest.raises(UsageError, match="no host is named"):
        inventory_from_names([])
    with pytest.raises(UsageError, match="there is no group @x"):
        inventory_from_names(["@x"])


def test_two_thousand_hosts_are_read_in_order() -> None:
    """Large inventories are nothing special; unknown members of groups don't make them slow."""
    lines = [f"  node{i}: {{gpus: 8, labels: {{rack: r{i % 9}}}, data: {{ifname: bond0}}}}" for i in range(2000)]
    inventory = hosts("\n".join(lines))
    assert [h.name for h in inventory.hosts] == [f"node{i}" for i in range(2000)]
    problems = messages(
        "\n".join(["version: 1", "hosts:", *lines, "groups:", *(f"  g{i}: nodx{i}" for i in range(900))])
    )
    assert len(problems) == 201


KEYS = [
    "version",
    "hosts",
    "groups",
    "defaults",
    "gpus",
    "data",
    "addr",
    "labels",
    "docker",
    "n[1-2]",
    "a",
    "x-y",
    "<<",
]
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.sampled_from([1, "{n}", *KEYS])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=5)), inner)
    ),
    max_leaves=15,
)
HOSTILE = st.sampled_from(["$(id)", "`id`", "';id #", "--help", "a\nb", "\u202egpj", "x" * 10_000, "{n}{n}", "%s", "é"])


@settings(max_examples=200)
@given(st.one_of(VALUES, st.dictionaries(st.sampled_from(KEYS), VALUES)))
def test_any_structure_is_an_inventory_or_refused(value: object) -> None:
    """Nothing but SpecError comes out, whatever is nested in what."""
    import yaml

    text = yaml.safe_dump(value, allow_unicode=True)
    try:
        assert isinstance(read_inventory(text, "h"), Inventory)
    except SpecError as error:
        assert error.problems


@given(HOSTILE, st.sampled_from(["addr", "user", "docker", "gpus", "connect_timeout", "labels", "port"]))
def test_hostile_values_never_reach_a_host(value: str, key: str) -> None:
    """Text that a shell or a terminal would act on is refused, and told without its control characters."""
    import yaml

    text = yaml.safe_dump({"version": 1, "hosts": {"a": {key: value}}}, allow_unicode=True)
    with pytest.raises(SpecError) as caught:
        read_inventory(text, "h")
    assert all(len(p.message) < 300 and p.message.isprintable() for p in caught.value.problems)
