"""How wide the columns of hosts are, and which of them fit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from rich.cells import cell_len

from distui.frozen import frozen
from distui.runs.lines.text import safe
from distui.tui.paint.paint import names_apart

LEAST, MOST = 8, 24
FINDING = 40
"""Cells that the finding keeps before names of hosts get more than the least."""
FINDING_LEAST = 20
"""Of a finding beside columns of all hosts."""
FINDING_SHORT = 16
"""Of one beside those that fit."""
OTHERS = 11
"""What says how many hosts have no column: `12 others`."""


@frozen
class HostColumns:
    """The hosts that have a column, out of `known` ones."""

    hosts: Sequence[str]
    known: int
    room: int
    """Cells beside the titles of the checks."""
    tells: bool
    """Whether each row has its finding, too."""

    @property
    def cell(self) -> int:
        """Cells of a column: a whole name where there is room for it in all of them."""
        room = self.room - (FINDING if self.tells else 0) - (OTHERS if self.known > len(self.hosts) else 0)
        return max(LEAST, min(_longest(tuple(self.hosts)), MOST, room // max(1, len(self.hosts)) - 1))

    @property
    def fit(self) -> int:
        """How many are seen at once."""
        room = self.room - (FINDING_LEAST if self.tells else 0)
        if room // (self.cell + 1) >= self.known:
            return self.known
        room = self.room - OTHERS - (FINDING_SHORT if self.tells else 0)
        return max(1, room // (self.cell + 1))

    def window(self, at: int) -> Sequence[str]:
        """Those that are seen: around the chosen one."""
        fit = self.fit
        first = max(0, min(at - fit // 2, len(self.hosts) - fit))
        return self.hosts[first : first + fit]

    def names(self) -> Mapping[str, str]:
        """Each as it stands over its column, short, but distinct from the others."""
        return _names(tuple(self.hosts), self.cell)


@lru_cache(maxsize=4)  # each row asks
def _longest(hosts: tuple[str, ...]) -> int:
    return max((cell_len(safe(host)) for host in hosts), default=0)


@lru_cache(maxsize=4)
def _names(hosts: tuple[str, ...], width: int) -> Mapping[str, str]:
    return names_apart(hosts, width)
