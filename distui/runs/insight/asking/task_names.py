"""An explanation in which tasks have the names by which logs and lists call them. Pure.

What is found of ranks tells them by their numbers. The tasks of TensorFlow have names, `worker/0`, and so have those of
other launchers, `node0`: a number among all of them is nothing that its users know. Where torch counts what such a
launcher has started, numbers are torch's, but for those that are said to be of the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from distui.plan.labels import parse_ranks
from distui.plan.model import RunPlan
from distui.regex import regex
from distui.runs.lines.explanation import Explanation
from distui.spec.hosts.names import fold

_OF_RUN = " of this run"
_RANKS = regex(r"\b[Rr]anks? (\d+(?:[,-]\d+)*)\b")


def task_names(plan: RunPlan) -> Mapping[int, str]:
    """The name of each rank where an explanation is to have it."""
    return plan.rank_names


def with_names(found: Explanation, names: Mapping[int, str]) -> Explanation:
    """`found` with these names, also in its words."""
    if not names:
        return found

    def named(match: re.Match[str]) -> str:
        ranks = parse_ranks(match[1])
        return fold([names[rank] for rank in ranks]) if ranks and names.keys() >= set(ranks) else match[0]

    def words(text: str) -> str:
        return _RANKS.sub(named, text)

    if any(place.within is not None for place in found.ranks):
        return replace(found, evidence=tuple(words(text) if _OF_RUN in text else text for text in found.evidence))
    return replace(
        found,
        headline=words(found.headline),
        evidence=tuple(map(words, found.evidence)),
        advice=words(found.advice),
        collective=words(found.collective),
        ranks=tuple(replace(place, does=words(place.does), name=names.get(place.rank, "")) for place in found.ranks),
    )
