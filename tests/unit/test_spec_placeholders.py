"""Placeholders in commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.spec.job.placeholders import PLACEHOLDERS, fill, slips, used

VALUES = {name: f"<{name}>" for name in PLACEHOLDERS}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{rank}", "<rank>"),
        ("--x={rank}/{world_size}", "--x=<rank>/<world_size>"),
        ("{{rank}}", "{rank}"),
        ("{{rnk}}", "{rnk}"),
        ("{{x}} {{ rank }}", "{{x}} {{ rank }}"),
        ("{host} {x:.3f} {rank:05d}", "{host} {x:.3f} {rank:05d}"),
        ('{"rank": {rank}, "a": {"b": 1}}', '{"rank": <rank>, "a": {"b": 1}}'),
        ("${rank} $${rank}", "${rank} $${rank}"),
        ("{}", "{}"),
        ("{rank", "{rank"),
    ],
)
def test_only_placeholders_are_filled(text: str, filled: str) -> None:
    """JSON, Python, templates and shell variables go through untouched; doubled braces keep a placeholder's name."""
    assert fill(text, VALUES) == filled


def test_what_has_no_value_stays() -> None:
    """Under torchrun nobody knows {rank} before the start."""
    assert fill("{rank} {backend}", {"backend": "gloo"}) == "{rank} gloo"


def test_values_are_not_read_again() -> None:
    """A value that looks like a placeholder is a value."""
    assert fill("{backend}{rank}", {"backend": "{rank}", "rank": "0"}) == "{rank}0"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{rnk}", [("rnk", "rank")]),
        ("{worldsize}", [("worldsize", "world_size")]),
        ("{init_methd} {master_adr}", [("init_methd", "init_method"), ("master_adr", "master_addr")]),
        ("{rank} {host} {x} {{rnk}} {i}", []),
    ],
)
def test_slips_are_found(text: str, found: list[tuple[str, str]]) -> None:
    """Only what is like a placeholder is one that was mistyped."""
    assert list(slips(text)) == found


def test_used_names_the_placeholders() -> None:
    """For those who must know what a command asks for."""
    assert used("{rank} {{backend}} {host} {init_method}") == {"rank", "init_method"}


@given(st.text("{}$ rank_x\n", max_size=40))
def test_text_without_placeholders_is_kept(text: str) -> None:
    """fill changes nothing but placeholders and their doubled forms."""
    if not used(text) and "{{" not in text:
        assert fill(text, VALUES) == text
