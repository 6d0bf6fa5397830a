"""Two changes of one text: together where they are at different lines, else a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.tui.launch.merging import YOURS, marked, merged

TEXTS = st.lists(st.sampled_from(["a", "b", "c: 1", ""]), max_size=8).map("\n".join)


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ("1\n2\n3!\n", "1!\n2\n3\n", "1!\n2\n3!\n"),
        ("1\n2!\n3\n", "1!\n2\n3\n", "1!\n2!\n3\n"),  # lines beside each other
        ("1\n2!\n3\n", "1\n2?\n3\n", None),
        ("1\n2!\n3\n", "1\n2!\n3\n", "1\n2!\n3\n"),
        ("1\n2\n3\n4\n", "0\n1\n2\n3\n", "0\n1\n2\n3\n4\n"),
        ("1\n2\n3\n4\n", "1\n2\n3\n5\n", None),  # both at the end: in which order?
        ("1\n3\n", "1\n2\n3\n4\n", "1\n3\n4\n"),
        ("1\n3\n", "1\n2!\n3\n", None),
        ("1\n2\n3!", "1\n2\n3\n", "1\n2\n3!"),
    ],
)
def test_both_or_none(ours: str, theirs: str, both: str | None) -> None:
    """`1 2 3` changed by two."""
    assert merged("1\n2\n3\n", ours, theirs) == both


def test_both_stand_in_the_text_where_they_differ() -> None:
    """Between comments; what only one of them changed is taken."""
    found = marked("1\n2\n3\n4\n", "1\n2!\n3\n4\n", "1\n2?\n3\n4!")
    assert found == "1\n# <<<<<<< yours\n2!\n# =======\n2?\n# >>>>>>> theirs\n3\n4!"
    assert marked("1\n", "1\n2", "1\n3") == "1\n# <<<<<<< yours\n2\n# =======\n3\n# >>>>>>> theirs\n"


@given(TEXTS, TEXTS, TEXTS)
def test_what_can_be_merged_needs_no_marks(base: str, ours: str, theirs: str) -> None:
    """And with them every new line of both is there."""
    found, both = marked(base, ours, theirs), merged(base, ours, theirs)
    assert both is None or found == both
    assert (both is None) == (YOURS in found)
    lines = {line.strip() for line in found.splitlines()}
    assert {line.strip() for text in (ours, theirs) for line in text.splitlines()} - set(base.splitlines()) <= lines


@given(TEXTS, TEXTS)
def test_who_changes_alone_is_taken(base: str, text: str) -> None:
    """Whichever side it is, and when both do the same."""
    assert merged(base, text, base) == merged(base, base, text) == merged(base, text, text) == text


@given(TEXTS, TEXTS, TEXTS)
def test_sides_are_alike(base: str, ours: str, theirs: str) -> None:
    """It does not matter who is who."""
    assert merged(base, ours, theirs) == merged(base, theirs, ours)


@given(TEXTS, TEXTS, TEXTS)
def test_no_line_of_either_is_lost(base: str, ours: str, theirs: str) -> None:
    """What one of them wrote newly is in what comes of it."""
    both = merged(base, ours, theirs)
    if both is not None:
        for side in (ours, theirs):
            new = [line for line in side.split("\n") if line not in base.split("\n")]
            assert all(line in both.split("\n") for line in new)
