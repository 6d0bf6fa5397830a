"""Whether a host's disk fills up while a run goes on: reported in time, with how fast, and once more when it is full.

Logs of containers stay on their hosts until the run ends (rotation would lose lines), so a chatty rank can fill a
disk. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from distui.amounts import duration, size_words
from distui.facts.host import Disk

WINDOW_S = 10.0
"""Seconds over which the growth is measured."""
LEAST_S = 2.0
LOW_PART = 0.10
SOON_S, LATER_S = 60.0, 600.0
"""A disk that is full in less than the first is reported in any case, in less than the second when little is left."""
FULL_PART = 0.001
CALM_PART = 0.20
"""With more than this free, and not less than before, a disk is reported again when it fills again."""
LOGS = "the ranks' logs are kept on their host until the run has ended"


def worth_watching(disks: tuple[Disk, ...]) -> tuple[str, ...]:
    """Paths that a run fills: the root, the home folder, the engine's own folder; not memory and scratch."""
    return ("/", *(d.path for d in disks if d.path not in ("/", "/tmp", "/dev/shm")))


class DiskWatch:
    """One host's disks over time."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}
        self._reported: dict[str, str] = {}

    def news(self, at: float, disks: Mapping[str, tuple[int, int]]) -> Iterator[str]:
        """What to say now, in words. `disks`: path -> (free, total) bytes; one file system is reported once."""
        each = {pair: path for path, pair in sorted(disks.items(), key=lambda item: len(item[0]))}
        for (free, total), path in each.items():
            seen = self._seen.setdefault(path, deque())
            seen.append((at, free))
            while not at - WINDOW_S <= seen[0][0] <= at:  # a clock may be set back
                seen.popleft()
            state, words = _state(path, free, total, seen)
            before = self._reported.get(path, "")
            if state and state != before != "full":
                self._reported[path] = state
                yield words
            elif free > CALM_PART * total and free >= seen[0][1]:
                self._reported.pop(path, None)


def _state(path: str, free: int, total: int, seen: deque[tuple[float, int]]) -> tuple[str, str]:
    if free <= FULL_PART * total:
        return "full", f"the disk of {path} is full: lines that ranks print now may be lost ({LOGS})"
    took, lost = seen[-1][0] - seen[0][0], seen[0][1] - free
    if took < LEAST_S or lost <= 0:
        return "", ""
    rate = lost / took
    left = free / rate
    if left < SOON_S or (left < LATER_S and free < LOW_PART * total):
        how = f"{size_words(free)} free, {size_words(rate)} less each second: full in {duration(left)}"
        return "filling", f"the disk of {path} fills up: {how} ({LOGS})"
    return "", ""
