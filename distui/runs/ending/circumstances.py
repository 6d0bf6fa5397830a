"""What belongs to a run's verdict beside its ends: who was silent when it was stopped, and what its network does."""

from __future__ import annotations

from dataclasses import replace

from distui.runs.attempt.attempt import Attempt
from distui.runs.ending.ask_network import ask_network
from distui.runs.lines.events import Failure
from distui.runs.verdict.lines.causes import may_be_network
from distui.runs.watch.progress.silence import LAST_GASP_S

FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
"""Seconds from one question to the network of a run that lives to the next."""
_HINT = "look at that interface, its cable and its switch; `distui doctor` proves again who reaches whom"


class Turns:
    """When the network is asked: as soon as a rank is quiet, and while one is, again after longer and longer pauses."""

    def __init__(self) -> None:
        self._next = float("-inf")
        self._pause = FIRST_PAUSE_S

    def due(self, now: float, *, quiet: bool) -> bool:
        """Whether to ask now; `quiet` tells whether any rank is."""
        if not quiet:
            self._pause = FIRST_PAUSE_S
        if not quiet or self._next - LONGEST_PAUSE_S <= now < self._next:  # our clock may be set back
            return False
        self._next, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE_S)
        return True


def note_silences(attempt: Attempt) -> None:
    """Add to what is known who was silent when the run was stopped, or ran out of time."""
    slack = LAST_GASP_S if attempt.tracker.verdict().over_limit else 0.0
    attempt.tracker.silences = attempt.silences.at(_stopped_at(attempt), slack)
    attempt.tracker.news()


def _stopped_at(attempt: Attempt) -> float:
    """When the stop began, or the first task reached its limit."""
    tracker = attempt.tracker
    ends = (
        [track.exit_at for track in tracker.tracks.values() if track.end is not None]
        if tracker.verdict().over_limit
        else []
    )
    return min([tracker.stop_began if tracker.stop_began is not None else attempt.clock(), *ends])


async def with_network(attempt: Attempt, failure: Failure | None) -> tuple[Failure | None, tuple[str, ...]]:
    """A failure, where a network may explain it with what the network says now; and further words for the result.

    For a run that was stopped or ran out of time: the ranks that had been silent, and their network. It is asked once
    for both.
    """
    verdict = attempt.tracker.verdict()
    silent = verdict.notes
    explains = verdict.failed and failure is not None and may_be_network(failure.cause)
    if not silent and not explains:
        return failure, ()
    found = await ask_network(attempt)
    words = (
        *found.notes,
        *([f"while ranks were silent: {words}" for words in attempt.network.broken] if not found.broken else []),
        *([attempt.explanation.headline] if attempt.explanation is not None else []),
    )
    if failure is not None and explains and found.broken:
        failure = replace(failure, cause=f"{failure.cause}; {'; '.join(found.broken)}", hint=_HINT)
    return failure, (*silent, *(found.broken if silent else ()), *words)


async def tell_network(attempt: Attempt) -> None:
    """Ranks of a run that lives fell silent: say which hosts no longer answer, and nothing when all do."""
    found = await ask_network(attempt)
    news = [words for words in found.broken if words not in attempt.network.broken]
    if found.broken:
        attempt.network = found
    for words in news:
        await attempt.notice("warning", words)
