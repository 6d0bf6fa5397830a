"""`regex` is `re.compile`, later."""

from __future__ import annotations

import re

import pytest

from distui.regex import regex


def test_it_does_what_the_pattern_does() -> None:
    """All methods and attributes are those of the compiled one."""
    late, early = regex(r"(?P<key>\w+)=(\d+)", re.IGNORECASE), re.compile(r"(?P<key>\w+)=(\d+)", re.IGNORECASE)
    found = late.search("a B=12 c=3")
    assert found is not None
    assert found.groupdict() == {"key": "B"}
    assert late.sub("-", "a b=1 c") == "a - c"
    assert late.split("a b=1 c") == early.split("a b=1 c")
    assert (late.pattern, late.flags, late.groupindex) == (early.pattern, early.flags, early.groupindex)


def test_bytes() -> None:
    """Patterns of bytes, too."""
    assert regex(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_nothing_is_compiled_before_its_first_use() -> None:
    """Even a wrong one is not looked at; then it fails as `re.compile` does."""
    wrong = regex("(")
    with pytest.raises(re.error, match="missing \\)"):
        wrong.search("x")


def test_a_method_is_looked_up_once() -> None:
    """Hot loops pay nothing."""
    pattern = regex("x")
    assert pattern.search is pattern.search
