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
    writer.writerows([safe_lines(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()
