"""Why a line of the merged log is a row of its own, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distui.tui.logs.merged.groups import FOLD_S, Group, fold_key, loose_key, shapeless

NEAR = 200
"""So many rows before it and after it are looked at."""


def why_apart(rows: Sequence[Group], row: Group, *, fold: bool) -> str:
    """What keeps a line that one rank said from being folded with others; empty where no other said the like."""
    if not fold:
        return "folding is off (D)"
    text = row.common or row.text
    at = next((i for i, one in enumerate(rows) if one is row), None)
    if at is None:
        return ""
    rank = row.ranks[0]
    near = [one for one in rows[max(0, at - NEAR) : at + NEAR + 1] if one is not row and not one.parts]
    same = [one for one in near if fold_key(one.common or one.text) == fold_key(text)]
    if words := _by_time(same, row, rank):
        return words
    shape = shapeless(text)
    alike = [one for one in near if shapeless(one.common or one.text) == shape and rank not in one.ranks]
    if not alike:
        return ""
    other = min(alike, key=lambda one: abs(one.at - row.at))
    who = _who(other)
    if loose_key(other.common or other.text) != loose_key(text):
        return f"{who} said another step {_apart(other, row)}"
    if row.level == "error":
        return f"{who} said other numbers; errors keep theirs"
    return f"{who} said other numbers {_apart(other, row)}"


def _by_time(same: Sequence[Group], row: Group, rank: int) -> str:
    """Of rows that say the same, which are too far away in time."""
    others = [one for one in same if rank not in one.ranks]
    if others:
        other = min(others, key=lambda one: abs(one.at - row.at))
        return f"{_who(other)} said it {_apart(other, row)}; {FOLD_S:g} s and more are not folded"
    if same:
        return "only this rank says it, again and again"
    return ""


def _who(other: Group) -> str:
    ranks = other.said_by()
    return f"rank {min(ranks)}" if len(ranks) == 1 else f"{len(ranks)} others"


def _apart(other: Group, row: Group) -> str:
    seconds = row.at - other.at
    return f"{abs(seconds):.1f} s {'before' if seconds >= 0 else 'after'}"
