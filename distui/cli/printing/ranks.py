"""How ranks are named on the command line, and coloured on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from distui.cluster.logs.wanted import has_ranks
from distui.errors import UsageError
from distui.runs.lines.text import safe_lines

_HUES = (39, 208, 76, 171, 220, 45, 203, 114, 141, 179, 37, 169, 148, 75, 215, 105)
"""Colours of xterm's 256 that stay readable on dark and on light; neighbours differ clearly."""


def refuse_unknown(wanted: Collection[int] | None, known: Iterable[int | None]) -> None:
    """Raise UsageError when `--rank` names a rank that the run does not have."""
    there = {rank for rank in known if rank is not None}
    unknown = sorted(set(wanted or ()) - there)
    if unknown:
        raise UsageError(f"--rank {unknown[0]}: {has_ranks(there)}", hint="write --rank 0, or a set such as 0,4-7")


class Prefixes:
    """`013 node02 | ` or `worker/1 node02 | `, the same width for every rank, with a stable colour for each."""

    def __init__(self, hosts: Mapping[int, str], *, colour: bool, names: Mapping[int, str] | None = None) -> None:
        self._names = {rank: _word(name) for rank, name in (names or {}).items()}
        self._digits = max(3, len(str(max(hosts, default=0))), *map(len, self._names.values()))
        self._width = max((len(_word(h)) for h in hosts.values()), default=1)
        self._colour = colour
        self._made: dict[tuple[int | None, str], str] = {}

    def of(self, rank: int | None, host: str) -> str:
        """The prefix of one rank; rank None (a launcher's own words) shows as `---`."""
        made = self._made.get((rank, host))
        if made is None:
            made = self._made[rank, host] = self._make(rank, host)
        return made

    def _make(self, rank: int | None, host: str) -> str:
        name = "-" * self._digits if rank is None else self._names.get(rank) or f"{rank:0{self._digits}d}"
        name = name.ljust(self._digits)
        text = f"{name} {_word(host).ljust(self._width)} |"
        if not self._colour:
            return text + " "
        hue = 245 if rank is None else _HUES[rank % len(_HUES)]
        return f"\x1b[38;5;{hue}m{text}\x1b[0m "


def _word(name: str) -> str:
    """A name as a part of one line: hosts say what ranks are called."""
    return safe_lines(name).replace("\n", "\N{REPLACEMENT CHARACTER}")
