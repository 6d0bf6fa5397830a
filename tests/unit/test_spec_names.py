"""Sets of host names: expanding, folding and picking GPUs."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distui.errors import UsageError
from distui.spec.hosts.inventory import HostPick
from distui.spec.hosts.names import MAX_NAMES, checked, expand, fold, fold_texts, members, picks

GROUPS = {"h100": ("node01", "node02"), "cpu": ("gw1",)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gw1", "gw1"),
        ("node[01-04,07]", "node01 node02 node03 node04 node07"),
        ("gw[1-2]", "gw1 gw2"),
        ("node[8-11]", "node8 node9 node10 node11"),
        ("node[098-101]", "node098 node099 node100 node101"),
        ("rack[1-2]n[1-2]", "rack1n1 rack1n2 rack2n1 rack2n2"),
        ("a[1]b", "a1b"),
        (" gw1 , gw2 ", "gw1 gw2"),
        ("gw[2,1],gw1", "gw2 gw1"),
        ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2"),
        ("@h100,@cpu", "node01 node02 gw1"),
        ("node02,@h100", "node02 node01"),
    ],
)
def test_sets_expand_in_order_each_name_once(text: str, names: str) -> None:
    """Zeros in front are kept, brackets multiply, groups are put in."""
    assert expand(text, GROUPS) == tuple(names.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no host"),
        ("a,,b", "has an empty name"),
        ("a[1-2", "brackets don't match"),
        ("a]1[", "brackets don't match"),
        ("a[[1]]", "brackets don't match"),
        ("a[]", "is not a number or range"),
        ("a[x]", "is not a number or range"),
        ("www[01:50]", "write [01-50]"),
        ("a[4-2]", "ends before it starts"),
        ("a[1-010]", "different zeros in front"),
        ("a[1-999999]", f"more than {MAX_NAMES} names"),
        ("a[1-999][1-999]", f"more than {MAX_NAMES} names"),
        ("a[1-99999999999]", "is not a number or range"),
        (",".join(f"{c}[1-4000]" for c in "ab"), f"more than {MAX_NAMES} names"),
        ("-oProxyCommand=x", "no '-' in front"),
        ("-x[1-2]", "no '-' in front"),
        ("a b", "is not a host name"),
        ("a;rm -rf /", "is not a host name"),
        ("$(id)", "is not a host name"),
        ("é", "is not a host name"),
        ("a[\u0661]", "is not a number or range"),
        ("a\nb", "is not a host name"),
        ("bob@gw1", "write only 'gw1'; the user comes from"),
        ("x" * 300, "at most 253 characters"),
        ("@", "is not a group"),
        ("@a b", "is not a group"),
        ("@h10", "there is no group @h10, did you mean 'h100'?"),
        ("@zzz", "there is no group @zzz; groups: cpu, h100"),
        ("gw1:0", "GPUs can't be picked here; write 'gw1'"),
    ],
)
def test_what_is_not_a_set_is_refused_in_words(text: str, words: str) -> None:
    """One sentence naming the part that is wrong; nothing ssh or a shell could take for an option or a command."""
    with pytest.raises(UsageError) as caught:
        expand(text, GROUPS)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node01:0-3", [("node01", (0, 1, 2, 3))]),
        ("node01:0,2,node02", [("node01", (0, 2)), ("node02", None)]),
        ("gw[1-2]:0-1,3", [("gw1", (0, 1, 3)), ("gw2", (0, 1, 3))]),
        ("@h100:7", [("node01", (7,)), ("node02", (7,))]),
        ("a:1,1-2", [("a", (1, 2))]),
        ("a,a", [("a", None)]),
    ],
)
def test_gpus_are_picked_after_a_colon(text: str, expected: list[tuple[str, tuple[int, ...] | None]]) -> None:
    """Numbers after commas belong to the pick, names begin the next host."""
    assert picks(text, GROUPS) == tuple(HostPick(n, g) for n, g in expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:", "GPUs are picked as"),
        ("a:x", "GPUs are picked as"),
        ("a:-1", "GPUs are picked as"),
        ("a:3-1", "GPU numbers go up"),
        ("a:0-999", "GPU numbers go up, from 0 to 255"),
        ("a:0,a:1", "named twice with different GPUs"),
        ("a,a:1", "named twice with different GPUs"),
        ("gw1:2222:0", "GPUs are picked as"),
    ],
)
def test_wrong_picks_are_refused(text: str, words: str) -> None:
    """A pick that contradicts another is not merged by guess."""
    with pytest.raises(UsageError, match=words):
        picks(text)


def test_check_needs_no_groups() -> None:
    """A job file can be checked without the inventory it will run on."""
    checked("@anything:0,node[01-04]")
    with pytest.raises(UsageError):
        checked("@any thing")


def test_members_carry_the_numbers_of_their_range() -> None:
    """`{n}` in hosts.yaml is the number without its zeros."""
    assert [(m.name, m.numbers) for m in members("node[08-09],gw")] == [("node08", (8,)), ("node09", (9,)), ("gw", ())]


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ("node01 node02 node03 node04", "node[01-04]"),
        ("node01 node02 node04 gw1 gw2", "node[01-02,04],gw[1-2]"),
        ("node9 node10 node11", "node[9-11]"),
        ("node09 node10", "node[09-10]"),
        ("node099 node100", "node[099-100]"),
        ("node03 node01", "node[03,01]"),
        ("a b", "a,b"),
        ("gw1", "gw1"),
        ("10.0.0.1 10.0.0.2", "10.0.0.[1-2]"),
        ("", ""),
    ],
)
def test_fold_writes_names_short_in_their_order(names: str, folded: str) -> None:
    """The order is the order of ranks, so it stays."""
    assert fold(names.split()) == folded


WORD = st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,6}[0-9]{0,3}", fullmatch=True)


@given(st.lists(WORD, min_size=1, max_size=30, unique=True))
@example(["a9", "a10", "a011", "a12"])
@example(["a0", "a00", "a01", "a1"])
@example(["1", "2", "12345678901", "12345678902"])
def test_expanding_what_was_folded_gives_the_names(names: list[str]) -> None:
    """Nothing is lost, added or moved, whatever the names look like."""
    assert expand(fold(names)) == tuple(names)


@given(st.from_regex(r"n\[[0-9]{1,2}-[0-9]{1,3}\](,g[0-9])?", fullmatch=True))
def test_folding_what_was_expanded_keeps_its_meaning(text: str) -> None:
    """fold(expand(x)) stands for what x stands for."""
    try:
        names = expand(text)
    except UsageError:
        return
    assert expand(fold(names)) == names


@given(st.one_of(st.text(max_size=60), st.text("ab[]-,:@0123456789. ", max_size=40)))
@example("'; rm -rf / #")
@example("a" * 10_000)
@example("[" * 10_000)
@example("a[" + "1," * 5_000 + "1]")
def test_any_text_is_a_set_or_refused(text: str) -> None:
    """Nothing but UsageError, and every name that comes out is safe for ssh."""
    try:
        found = picks(text, GROUPS)
    except UsageError as error:
        assert error.message
        assert len(error.message) < 500
        return
    assert len(found) <= MAX_NAMES
    assert all(p.name[0] != "-" and p.name.isascii() and set("$`'\"; \n&|<>()").isdisjoint(p.name) for p in found)


def test_texts_of_several_hosts_are_one() -> None:
    """What only looks like a host's, or is of another host, stays as it is; each is said once."""
    hosts = [f"n{number}" for number in range(1, 5)]
    texts = ["n3: slow", "note: n1", "n1: slow", "n2: hot", "n9: slow", "n4: slow", "note: n1"]
    assert fold_texts(texts, hosts) == ["n[1,3-4]: slow", "note: n1", "n2: hot", "n9: slow"]
    assert fold_texts(["slow", "n2: slow", "n1: slow"], hosts) == ["slow", "n[1-2]: slow"]
