"""Ranks that had said nothing when their run was stopped, in words that belong to its verdict."""

from __future__ import annotations

from collections.abc import Iterable

from distui.runs.lines.events import rank_words
from distui.runs.lines.text import safe
from distui.runs.verdict.evidence import Silence

NAMED = 4
"""Ranks that are named, at most."""
SAID = 120
"""Letters of its last line."""


def silence_words(silences: Iterable[Silence], moment: float) -> tuple[str, ...]:
    """`rank 2 on h3 had said nothing for 41 s; last: step 118`: each rank that was silent at this moment, longest
    first.
    """
    ranks = sorted(silences, key=lambda s: (s.since, s.rank))
    more = [f"{len(ranks) - NAMED} more ranks had been silent, too"] if len(ranks) > NAMED else []
    return (*(_words(one, moment) for one in ranks[:NAMED]), *more)


def _words(one: Silence, moment: float) -> str:
    on = f" on {one.host}" if one.host else ""
    who = f"{rank_words(one.rank, one.name)}{on} had said nothing for {max(0.0, moment - one.since):.0f} s"
    last = " ".join(safe(one.last).split())
    if not last:
        return f"{who}, since it began to run"
    return f"{who}; last: {last if len(last) <= SAID else last[:SAID] + '...'}"
