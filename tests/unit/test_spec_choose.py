"""Choosing hosts of an inventory."""

from __future__ import annotations

import pytest

from distui.errors import ExitCode, UsageError
from distui.spec.choose import choose_hosts, hosts_of_job, parse_label
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import HostChoice

INVENTORY = Inventory(
    (
        Host("gw1"),
        Host("node01", labels={"gpu": "h100", "rack": "r7"}),
        Host("node02", labels={"gpu": "h100", "rack": "r8"}),
        Host("node03", labels={"gpu": "a100"}),
    ),
    {"h100": ("node01", "node02"), "none": ()},
    "hosts.yaml",
)


def names(*exprs: str, **labels: str) -> list[str]:
    return [p.name for p in choose_hosts(INVENTORY, exprs, labels)]


def test_without_names_all_hosts_are_chosen() -> None:
    """`distui probe` means the whole inventory; @all says it in words."""
    assert names() == names("@all") == ["gw1", "node01", "node02", "node03"]


def test_names_ranges_groups_and_labels() -> None:
    """In the order named, each once; labels narrow the choice."""
    assert names("node[02-03]", "gw1", "@h100") == ["node02", "node03", "gw1", "node01"]
    assert names(gpu="h100") == ["node01", "node02"]
    assert names("@all", gpu="h100", rack="r8") == ["node02"]


def test_gpus_are_picked_with_the_host() -> None:
    """-H node01:0-1 goes with the host into the plan."""
    assert choose_hosts(INVENTORY, ["node01:0-1", "gw1"]) == (HostPick("node01", (0, 1)), HostPick("gw1"))


@pytest.mark.parametrize(
    ("exprs", "labels", "message"),
    [
        (["node1"], {}, "unknown host 'node1': not in hosts.yaml, did you mean 'node01'?"),
        (["zz"], {}, "unknown host 'zz': not in hosts.yaml; it has gw1,node[01-03]"),
        (["x[1-9]"], {}, "9 unknown hosts: x[1-5] ... not in hosts.yaml"),
        (["@h10"], {}, "there is no group @h10, did you mean 'h100'?"),
        (["@none"], {}, "no host is chosen: the group is empty"),
        ([""], {}, "'' names no host; write node01, node[01-04] or @group"),
        (["node01:0", "node01:1"], {}, "node01 is named twice with different GPUs; name it once"),
        ([], {"gpu": "b200"}, "no host has the label gpu=b200; in use: gpu=a100, gpu=h100"),
        ([], {"zone": "x"}, "no host has the label zone=x"),
    ],
)
def test_what_can_not_be_chosen_is_reported(exprs: list[str], labels: dict[str, str], message: str) -> None:
    """One sentence, exit code 2, nothing contacted."""
    with pytest.raises(UsageError) as caught:
        choose_hosts(INVENTORY, exprs, labels)
    assert str(caught.value) == message
    assert caught.value.exit_code is ExitCode.USAGE


def test_an_empty_inventory_is_reported() -> None:
    """Nothing to do is not success."""
    with pytest.raises(UsageError, match="lists no hosts"):
        choose_hosts(Inventory(()))


def test_hosts_of_a_job() -> None:
    """Names, group or label, and the first N of them."""
    assert hosts_of_job(INVENTORY, HostChoice(names=("node[01-02]:0",), count=1)) == (HostPick("node01", (0,)),)
    assert hosts_of_job(INVENTORY, HostChoice(group="h100")) == (HostPick("node01"), HostPick("node02"))
    assert hosts_of_job(INVENTORY, HostChoice(label={"gpu": "h100"}, count=1)) == (HostPick("node01"),)
    with pytest.raises(UsageError) as caught:
        hosts_of_job(INVENTORY, HostChoice(group="h100", count=4))
    assert str(caught.value) == "the job wants 4 hosts, but there are only 2: node[01-02]"


def test_labels_of_the_command_line() -> None:
    """-l k=v."""
    assert parse_label("gpu=h100=x") == ("gpu", "h100=x")
    with pytest.raises(UsageError, match="expected KEY=VALUE"):
        parse_label("gpu")
