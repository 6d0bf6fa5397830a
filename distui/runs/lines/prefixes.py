"""What launchers, torch and exception groups put before a line, and the line as the program meant it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from distui.regex import regex

TAG = (
    r"\[(?:rank|default)\d+\]:? ?"  # torch, torchrun
    r"|\[(?:[\w.@-]{1,99},)?\d{1,9}\](?:\[[\w.-]{1,99}:\d{1,9}\])?<std(?:out|err|diag)>: ?"  # mpirun, horovodrun
    r"|\(\w{1,64} pid=\d{1,9}(?:, ip=[\w.:]{1,64})?\) ?"  # Ray
)
"""What nothing else looks like."""
NUMBER = r"\[\d{1,6}\] |\d{1,6}: "
"""What `mpiexec -l` of MPICH and `srun --label` put there; the program itself may begin a line so."""
PREFIX = rf"(?>{TAG}|{NUMBER}){{0,4}}+(?: {{1,99}}[|+] )?"
_PARTS = regex(rf"((?>{TAG}|{NUMBER}){{0,4}}+)( {{1,99}}[|+] )?")
RANK_PREFIX = regex(rf"^(?:{TAG})")
"""Of which rank a line is, by whoever said so last."""


class Parts(NamedTuple):
    """A line. A `Number: ` before it need be no rank: only what else the line is tells."""

    rank: str
    """Of which rank it is, as launchers and torch write it; the blank that may follow included."""
    margin: str
    """`  | `, Python's in an exception group, `  + ` at its head; else empty."""
    text: str

    @property
    def prefix(self) -> str:
        """All that stands before the text."""
        return self.rank + self.margin

    def is_beside(self, other: Parts) -> bool:
        """Whether both are of one rank, and of one exception of a group."""
        return self.rank.rstrip() == other.rank.rstrip() and self.margin[:-2] == other.margin[:-2]

    def text_of(self, line: str) -> str | None:
        """Another line without what stands before this one; None where something else does."""
        prefix = self.prefix
        if line.startswith(prefix):
            return line[len(prefix) :]
        return "" if line.rstrip() == prefix.rstrip() else None


def parts(line: str) -> Parts:
    """What stands before a line, and the line."""
    found = _PARTS.match(line)
    assert found is not None
    return Parts(found[1], found[2] or "", line[found.end() :])


def unranked(line: str) -> str:
    """A line without what surely says only of which rank it is, however many have said so."""
    while (rest := RANK_PREFIX.sub("", line)) != line:
        line = rest
    return line
