"""Pictures of screens as text files: what is on every row, and a short sum of each row's colours in each theme.

Written again with `DISTUI_PICTURES=write`; the difference is then read in git. A picture that differs from its file
fails the test with the rows that are not the same.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fakes as recorded
import pytest
from textual.widgets import Input, TextArea

from distui.tui.logs.feed import RunFeed

FOLDER = Path(__file__).resolve().parent / "snapshots"
NOW = recorded.NOW + 100
"""What the clock shows in every picture: 2025-10-09 08:55:00 UTC."""
STYLES = "-- colours and weights of each row, dark and light"


def stop_the_clock(patch: pytest.MonkeyPatch) -> None:
    """Every age and time of day is told as of NOW, in UTC; timers go on, but no cursor blinks."""
    patch.setenv("TZ", "UTC")
    time.tzset()
    written = time.strftime
    patch.setattr(time, "time", lambda: NOW)
    patch.setattr(time, "localtime", lambda at=None: time.gmtime(NOW if at is None else at))
    patch.setitem(RunFeed.__init__.__kwdefaults__, "clock", time.time)
    patch.setattr(Input.cursor_blink, "_default", False)
    patch.setattr(TextArea.cursor_blink, "_default", False)
    patch.setattr(time, "strftime", lambda form, at=None: written(form, time.gmtime(NOW) if at is None else at))


def rows_of(app: Any) -> tuple[list[str], list[str]]:
    """The text of each row, and a sum of its colours and weights."""
    texts, sums = [], []
    for strip in app.screen._compositor.render_strips():
        texts.append("".join(segment.text for segment in strip).rstrip())
        runs: list[tuple[int, str]] = []
        for segment in strip:
            style = str(segment.style.clear_meta_and_links()) if segment.style else ""
            if runs and runs[-1][1] == style:
                runs[-1] = (runs[-1][0] + segment.cell_length, style)
            else:
                runs.append((segment.cell_length, style))
        sums.append(hashlib.sha256(repr(runs).encode()).hexdigest()[:6])
    return texts, sums


def picture(texts: Sequence[str], dark: Sequence[str], light: Sequence[str]) -> str:
    """The file's text."""
    pairs = [f"{one} {other}" for one, other in zip(dark, light, strict=True)]
    return "\n".join([*texts, STYLES, *pairs]) + "\n"


def compare(name: str, made: str) -> str:
    """The difference to the stored picture, or "" when there is none; with DISTUI_PICTURES=write it is stored."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("DISTUI_PICTURES") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(made, "utf-8")
        return ""
    stored = path.read_text("utf-8") if path.exists() else ""
    rows = difflib.unified_diff(stored.splitlines(), made.splitlines(), "stored", "now", lineterm="", n=0)
    return "\n".join([name, *rows]) if stored != made else ""
