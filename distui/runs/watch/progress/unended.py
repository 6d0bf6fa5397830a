"""Ranks that have failed, by what they said last, and do not end: an error in a program that waits for others at its
end (MPI_Finalize, JAX, threads) leaves a process that nobody sees fail.
"""

from __future__ import annotations

from distui.runs.lines.text import safe
from distui.runs.verdict.lines.last_words import FLUSH, last_words
from distui.runs.watch.track import TaskTrack

SAID = 200
"""Letters of what it raised."""


def unended(track: TaskTrack, rank: int) -> str:
    """What a silent rank raised, after which it said nothing more: in words, or "" where it raised nothing."""
    words = last_words(track.seen().lines.get(rank, ()))
    if words is None or not words.raised or words.quiet_for > FLUSH:
        return ""
    said = safe(words.headline)
    return f"printed a traceback, but has not exited: {said if len(said) <= SAID else said[:SAID] + '...'}"
