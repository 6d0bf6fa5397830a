"""Rows of cells as aligned text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, width: int = 0) -> list[str]:
    """Rows under a header, columns two blanks apart, the last one cut to `width` (0: never).

    Plain text for `awk` and eyes; empty cells show as `-`. A row is one line, also where a cell is somebody's words.
    """
    cells = [[str(c).replace("\n", " ") or "-" for c in row] for row in rows]
    sizes = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    lines = ("  ".join(c.ljust(s) for c, s in zip(line, sizes, strict=True)).rstrip() for line in (header, *cells))
    return [cut(line, width) for line in lines]


def cut(text: str, width: int) -> str:
    """At most `width` characters of one line (0: all), with a mark where some are missing."""
    return text if not width or len(text) <= width else text[: width - 1] + "…"
