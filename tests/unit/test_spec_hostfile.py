"""--hostfile in the forms of Open MPI, DeepSpeed and Horovod."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.errors import SpecError
from distui.spec.hosts.hostfile import load_hostfile, read_hostfile
from distui.spec.hosts.inventory import Host, Inventory


def test_forms_of_all_three(tmp_path: Path) -> None:
    """A file that one of them reads gives the hosts and slots it meant there."""
    text = """\
# the cluster
worker-1 slots=4            # DeepSpeed
worker-2   slots=8 max_slots=8
bob@gw1 slots=1
gw2:4
gw3

node[01-02] slots=2
"""
    path = tmp_path / "hostfile"
    path.write_text(text)
    assert load_hostfile(str(path)) == Inventory(
        (
            Host("worker-1", slots=4),
            Host("worker-2", slots=8),
            Host("gw1", user="bob", slots=1),
            Host("gw2", slots=4),
            Host("gw3"),
            Host("node01", slots=2),
            Host("node02", slots=2),
        ),
        path=str(path),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f: names no host; a line is written: node01 slots=8"),
        ("# nothing", "f: names no host; a line is written: node01 slots=8"),
        ("\n  a slot=2", "f:2:3: unknown setting 'slot', did you mean 'slots'?"),
        ("a slots=x", "f:1:1: expected a number of slots from 1 to 1024, got 'x'"),
        ("a slots=0", "f:1:1: expected a number of slots from 1 to 1024, got '0'"),
        ("a:2 slots=2", "f:1:1: slots are given twice"),
        ("fd00::1 slots=2", "f:1:1: 'fd00::1' is an IPv6 address: its host needs a name"),
        ("a 4", "f:1:1: '4' is not understood; a line is written: node01 slots=8"),
        ("a\nb\na", "f:3:1: a is already on line 1; give it one line, with slots=N"),
        ("-x slots=1", "f:1:1: '-x' is not a host name"),
        ("-o@a", "f:1:1: '-o@a': expected user@host"),
        ("@group", "f:1:1: '@group': expected user@host"),
        ("$(id) slots=1", "f:1:1: '$(id)' is not a host name"),
    ],
)
def test_wrong_lines_are_reported(text: str, problem: str) -> None:
    """With line and column, as in the YAML files."""
    with pytest.raises(SpecError) as caught:
        read_hostfile(text, "f")
    assert str(caught.value).startswith(problem)


def test_every_wrong_line_is_reported_at_once() -> None:
    """Not one in each run."""
    with pytest.raises(SpecError) as caught:
        read_hostfile("a slot=1\nb\nc=d e\n", "f")
    assert [p.line for p in caught.value.problems] == [1, 3]


@given(st.one_of(st.text(max_size=80), st.text("ab:@=[]-,# \nslots123", max_size=60)))
def test_any_text_is_an_inventory_or_refused(text: str) -> None:
    """Nothing but SpecError comes out."""
    try:
        assert read_hostfile(text, "f").hosts
    except SpecError as error:
        assert error.problems
