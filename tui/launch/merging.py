"""Two changes of one text put together, as far as they are at different lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from distui.frozen import frozen


@frozen
class _Hunk:
    """Lines `start` to `stop` (not included) of the text before, and what stands there now."""

    start: int
    stop: int
    lines: tuple[str, ...]

    def meets(self, other: _Hunk) -> bool:
        """Whether both are about the same lines, or the same place between lines."""
        if self.start == self.stop or other.start == other.stop:
            return self.start <= other.stop and other.start <= self.stop
        return self.start < other.stop and other.start < self.stop


def merged(base: str, ours: str, theirs: str) -> str | None:
    """`base` with what `ours` and `theirs` changed in it; None where both changed the same lines differently."""
    before = base.splitlines(keepends=True)
    mine, others = _hunks(before, ours), _hunks(before, theirs)
    hunks = set(mine) | set(others)
    if any(one != other and one.meets(other) for one in mine for other in others):
        return None
    made, at = [], 0
    for hunk in sorted(hunks, key=lambda h: (h.start, h.stop)):
        made += [*before[at : hunk.start], *hunk.lines]
        at = hunk.stop
    return "".join([*made, *before[at:]])


def _hunks(before: Sequence[str], now: str) -> tuple[_Hunk, ...]:
    return tuple(_changes(before, now.splitlines(keepends=True)))


def _changes(before: Sequence[str], now: Sequence[str]) -> Iterator[_Hunk]:
    for kind, start, stop, begin, end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind != "equal":
            yield _Hunk(start, stop, tuple(now[begin:end]))
