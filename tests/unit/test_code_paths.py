"""Which paths the program on a host takes into a tree: a plan may have been changed on its way there."""

from __future__ import annotations

import pytest

from distui.agent.code import Refused, checked


@pytest.mark.parametrize("path", ["/etc/passwd", "", ".", "..", "a//b", "a/", "./a", "a/./b", "../a", "a/..", "a/../b"])
def test_a_path_that_leads_out_of_the_tree_is_refused(path: str) -> None:
    """Nor one with an empty part or a dot, which no reader of a folder writes."""
    with pytest.raises(Refused) as refused:
        checked([["fine.py"], [path]])
    assert refused.value.args == ("path", path, {})


@pytest.mark.parametrize("path", ["a", "a/b.py", ".hidden/..x", "a/...", "a/b./c", "a b\n/c"])
def test_other_paths_are_taken(path: str) -> None:
    """Dots within names are part of them."""
    checked([[path]])
