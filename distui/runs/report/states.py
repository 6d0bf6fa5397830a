"""The words for the state of a run in a list."""

from __future__ import annotations

ENDED = frozenset({"succeeded", "failed", "stopped", "launch_failed"})
"""Outcomes after which nothing of a run lives."""

GOING_ON = frozenset({"running", "partial", "starting", "launching", "retrying", "stopping", "degraded"})
"""Words for a run that has not ended, and whose tasks run or are to come."""

STATES = (
    "running", "partial", "starting", "left", "retrying", "ended", "succeeded", "failed", "stopped", "launch_failed",
    "detached", "unknown", "gone",
)  # fmt: skip
"""Every word that may be a row's state."""
