"""Why a run does not go on, as its ranks answered when they were asked: a value, and its JSON.

What it is made of came from programs that say whatever they like: what is written down of it has a measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from distui.codec import write
from distui.frozen import frozen

Kind = Literal["hang", "deadlock", "mismatch", "stall", "straggler", "link", "moving", "unseen"]
"""`straggler`: a rank enters collectives late again and again. `link`: what one host sends to another gets lost.
`stall`: ranks wait for one that does something which takes long now and then. `moving`: nothing stands still, as far
as can be seen. `unseen`: no rank tells where it is in its collectives."""

HANGS: frozenset[Kind] = frozenset({"hang", "deadlock", "mismatch"})
"""What does not go on by itself."""

STANDS: frozenset[Kind] = HANGS | {"stall"}
"""Something stands still."""

TELLS: frozenset[Kind] = STANDS | {"straggler", "link"}
"""Something is said of who or what holds a run up."""

Certainty = Literal["certain", "likely", "unknown"]

MOST_PLACES = 32
"""Ranks of which an event tells; who holds the others up comes first."""
MOST_EVIDENCE = 8
MOST_WORDS = 600
"""Characters of each text of an event."""


@frozen
class RankPlace:
    """One rank: where it is, and whether others wait for it."""

    rank: int
    host: str
    does: str
    """In words, with its file and line where those are known."""
    place: str = ""
    """The newest collective that it has begun, in words."""
    behind: int | None = None
    """How many collectives it is behind the first rank of the group that stands still; None where nobody knows."""
    culprit: bool = False
    """Whether others wait for it, and it for nobody."""
    late: float | None = None
    """Seconds by which it usually enters collectives later than the others; None where nobody watched."""
    within: int | None = None
    """The run's rank that it is part of, where those have started several ranks of torch's own: `rank` is torch's."""
    name: str = ""
    """What it is called where it is more than a number: `worker/1`."""


@frozen
class Explanation:
    """Why a run does not go on, or that it does."""

    kind: Kind
    headline: str
    certainty: Certainty
    ranks: tuple[RankPlace, ...]
    """Those that others wait for come first."""
    evidence: tuple[str, ...] = ()
    advice: str = ""
    since: float | None = None
    """Since when it stands, on our clock."""
    collective: str = ""
    """The one that stands still, in words."""

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks of the run that hold the others up."""
        found = {place.rank if place.within is None else place.within for place in self.ranks if place.culprit}
        return tuple(sorted(found))

    @property
    def names(self) -> Mapping[int, str]:
        """What ranks are called that have a name."""
        return {place.rank: place.name for place in self.ranks if place.name}

    @property
    def standing(self) -> frozenset[int]:
        """The ranks of the run that are in what stands still, as far as it names them."""
        those = (place for place in self.ranks if place.culprit or place.behind is not None)
        return frozenset(place.rank if place.within is None else place.within for place in those)

    @property
    def summary(self) -> str:
        """In one line: what it is, and what to do about it."""
        return f"{self.headline}; {self.advice}" if self.advice else self.headline

    def stood(self, now: float, seconds: float) -> bool:
        """Whether it has stood still for so long, as far as it is known since when."""
        return self.kind in STANDS and self.since is not None and now - self.since >= seconds

    def shortened(self) -> Explanation:
        """With no more than an event tells."""
        return replace(
            self,
            headline=self.headline[:MOST_WORDS],
            ranks=tuple(
                replace(place, does=place.does[:MOST_WORDS], place=place.place[:MOST_WORDS])
                for place in self.ranks[:MOST_PLACES]
            ),
            evidence=tuple(words[:MOST_WORDS] for words in self.evidence[:MOST_EVIDENCE]),
            advice=self.advice[:MOST_WORDS],
            collective=self.collective[:MOST_WORDS],
        )


@frozen
class Calls:
    """Ranks whose main threads are in the same calls, innermost first; no frames where none are known."""

    ranks: tuple[int, ...]
    frames: tuple[str, ...]


def explanation_json(found: Explanation) -> dict[str, Any]:
    """As events, files and `why -o json` have it."""
    return {**write(found), "culprits": list(found.culprits)}
