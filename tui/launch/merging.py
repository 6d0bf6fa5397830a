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


YOURS, BETWEEN, THEIRS = "# <<<<<<< yours\n", "# =======\n", "# >>>>>>> theirs\n"


def marked(base: str, ours: str, theirs: str) -> str:
    """Both changes in one text: where they are at the same lines both stand there, between comments as git writes them.

    One of them is to go before that is a job again.
    """
    before = base.splitlines(keepends=True)
    mine, others = _hunks(before, ours), _hunks(before, theirs)
    made, at = [], 0
    for start, stop in _regions((*mine, *others)):
        made += before[at:start]
        at = stop
        one, other = (_within(before, hunks, start, stop) for hunks in (mine, others))
        plain = before[start:stop]
        if plain == other or one == other:
            made += one
        elif plain == one:
            made += other
        else:
            made += [YOURS, *_ended(one), BETWEEN, *_ended(other), THEIRS]
    return "".join([*made, *before[at:]])


def _regions(hunks: Sequence[_Hunk]) -> list[tuple[int, int]]:
    """Lines that changes are about, those that meet as one."""
    found: list[_Hunk] = []
    for hunk in sorted(hunks, key=lambda h: (h.start, h.stop)):
        if found and found[-1].meets(hunk):
            found[-1] = _Hunk(found[-1].start, max(found[-1].stop, hunk.stop), ())
        else:
            found.append(_Hunk(hunk.start, hunk.stop, ()))
    return [(hunk.start, hunk.stop) for hunk in found]


def _within(before: Sequence[str], hunks: Sequence[_Hunk], start: int, stop: int) -> list[str]:
    """What these changes make of a region that has all of each, or nothing."""
    made, at = [], start
    for hunk in hunks:
        if start <= hunk.start and hunk.stop <= stop:
            made += [*before[at : hunk.start], *hunk.lines]
            at = hunk.stop
    return [*made, *before[at:stop]]


def _ended(lines: Sequence[str]) -> list[str]:
    """The same, the last one with its end."""
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]


def _hunks(before: Sequence[str], now: str) -> tuple[_Hunk, ...]:
    return tuple(_changes(before, now.splitlines(keepends=True)))


def _changes(before: Sequence[str], now: Sequence[str]) -> Iterator[_Hunk]:
    for kind, start, stop, begin, end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind != "equal":
            yield _Hunk(start, stop, tuple(now[begin:end]))
