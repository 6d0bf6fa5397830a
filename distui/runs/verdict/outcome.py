"""What `judge` finds: how the run ended, which rank failed first and why, and how each rank ended by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from distui.frozen import frozen
from distui.runs.lines.events import Failure, RankPhase, RunOutcome

Relation = Literal["first", "alike", "followed", "before", "stopped", "succeeded", "unknown"]
"""To the first failure: it is that; failed in the same way at about the same time, or leaves open which of them was
first; failed or was ended after it; ended well before it; was stopped by distui or somebody else; ended well; unknown.
"""

Certainty = Literal["certain", "uncertain"]


@frozen
class RankEnd:
    """One rank's own end: its own exit status, not its container's, and how that relates to the first failure."""

    rank: int
    host: str
    relation: Relation
    exit: int | None = None
    """128 + N for signal N; None where nobody said."""
    words: str = ""
    """How it ended: `exit 1`, `killed by SIGTERM, exit 143`, `stopped by distui`."""
    at: float | None = None
    """When it failed by its own first words, else when it ended; UTC seconds on our clock."""
    by: str = ""
    """Who stopped it."""
    of: str = ""
    """Which rank it followed, in words."""
    oom: bool = False
    state: RankPhase = "exited"
    """Its last state."""


@frozen
class Verdict:
    """The answer to: how did the run end, who was first, why, and what became of the others."""

    outcome: RunOutcome
    exit: int
    failure: Failure | None = None
    """The first failure; None when nothing failed by itself."""
    first: tuple[int, ...] = ()
    """The ranks that may have failed first: the one that is named, then those that failed alike, at a time that can't
    be distinguished from it, or that may not have failed at all, only reported an error.
    """
    certainty: Certainty = "certain"
    ranks: Mapping[int, RankEnd] = field(default_factory=dict)
    bad: frozenset[int] = frozenset()
    """Tasks that ended badly by themselves."""
    failed: bool = False
    """Whether the run failed because of them: it may be able to do without."""
    over_limit: bool = False
    """Whether the job's `max_duration` ended a task, and with it the run."""
    notes: tuple[str, ...] = ()
    """Who was silent when it was stopped."""
    odd: tuple[str, ...] = ()
    """What ranks said last that does not go with their exit status 0, where the run did not succeed."""
