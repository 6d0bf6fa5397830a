"""Rows as CSV on stdout."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from distui.runs.lines.text import safe_lines


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """A line for each row. Texts may be hosts' words, or of processes of other logins there: none steers a terminal."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_safe(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()


def _safe(cell: str) -> str:
    """Most cells are plain: they are many, and to look at each of their signs takes most of the time."""
    return cell if cell.isascii() and cell.isprintable() else safe_lines(cell)
