"""Who said a row of all ranks in one log: a strip with a cell for each rank or host, and a name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from distui.frozen import frozen
from distui.runs.report.rank_rows import digits
from distui.tui.logs.buffer import LogBuffer
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

WHO_CELLS = 20
"""The column that says who takes no more."""
HOST_CELLS = 4
"""Above this many hosts the presence strip has one cell a host."""


@frozen
class WhoColumns:
    """Both columns, in a pane of so much `width`."""

    hosts: Mapping[str, tuple[int, ...]]
    """Host -> its ranks."""
    buffers: Mapping[int, LogBuffer]
    names: Mapping[int, str]
    """What ranks are called that are more than a number."""
    width: int
    glyphs: Glyphs
    palette: Palette

    @property
    def presence_width(self) -> int:
        """Cells of the presence strip."""
        total = sum(map(len, self.hosts.values()))
        if self.width < 100:
            return 2 * digits(range(total + 1)) + 1
        return len(self.hosts) if len(self.hosts) > HOST_CELLS or total > 40 else total + len(self.hosts) - 1

    def presence(self, line: Line, ranks: frozenset[int], level: str) -> None:
        """Which ranks said it: a cell for each, for each host where they are many, else their number."""
        glyphs, palette = self.glyphs, self.palette
        ink = palette.wrong if level == "error" else palette.watch if level == "warn" else palette.data[2]
        total = sum(map(len, self.hosts.values()))
        if self.width < 100:
            line.put(f"{len(ranks)}/{total}", palette.muted, width=self.presence_width, right=True)
        elif len(self.hosts) > HOST_CELLS or total > 40:
            for there in self.hosts.values():
                part = len(ranks.intersection(there)) / len(there)
                cell = glyphs.present if part == 1 else glyphs.ramp(part) if part else glyphs.absent
                line.put(cell, ink if part else palette.rule)
        else:
            for i, there in enumerate(self.hosts.values()):
                line.gap(1 if i else 0)
                for rank in there:
                    here = rank in ranks
                    line.put(glyphs.present if here else glyphs.absent, ink if here else palette.rule)

    @property
    def who_width(self) -> int:
        """Cells of the column that says who: a rank's or launcher's name and its host, as far as that is bearable."""
        wide = digits(self.buffers)
        names = ((len(self.names.get(rank, "")) or wide) + len(b.host) for rank, b in self.buffers.items())
        longest = max(names, default=0)
        return max(12, min(longest + 2, WHO_CELLS))

    def who(self, line: Line, ranks: frozenset[int] | None) -> None:
        """The rank and its host, or how many they are; nothing for None."""
        room, palette = self.who_width, self.palette
        if ranks is None:
            line.gap(room)
        elif len(ranks) == 1:
            rank = min(ranks)
            host = self.buffers[rank].host if rank in self.buffers else ""
            called = self.names.get(rank) or f"{rank:0{digits(self.buffers)}d}"
            line.put(self.glyphs.hue, palette.hues[rank % len(palette.hues)]).put(called, palette.text)
            line.gap(1).host(host, palette.muted, width=max(0, room - 2 - len(called)))
        else:
            what = "ranks" if max(ranks, default=0) >= 0 else "launchers"
            line.put(f"{len(ranks)} {what}", palette.muted, width=room)


def ranks_by_host(buffers: Iterable[LogBuffer]) -> dict[str, tuple[int, ...]]:
    """Host -> its ranks, without launchers."""
    found: dict[str, list[int]] = {}
    for buffer in buffers:
        if buffer.rank is not None and buffer.rank >= 0:
            found.setdefault(buffer.host, []).append(buffer.rank)
    return {host: tuple(ranks) for host, ranks in found.items()}
