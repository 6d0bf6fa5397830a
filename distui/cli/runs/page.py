"""What a page of `distui serve` shows where the app can't begin: why, in the form that textual-serve reads.

Without it the page stays empty, and the reason is on the terminal of whoever started `distui serve`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from distui.errors import DistuiError, SpecError
from distui.runs.lines.text import safe

PRELUDE = b"__GANGLION__\n"
"""What an app of Textual says first."""
_painted = False
"""Whether the page is an app's."""


def in_browser() -> bool:
    """Whether `distui serve` shows this process: what it paints goes through a pipe."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def app_begins() -> None:
    """From now on the page is the app's: nothing else is written to it."""
    global _painted
    _painted = True


def show_reason(reason: DistuiError | Sequence[str]) -> None:
    """Show what ends this call, unless the app had begun: its page stays as it is."""
    if in_browser() and not _painted:
        said = _words(reason) if isinstance(reason, DistuiError) else reason
        lines = [safe(line) for text in said for line in text.splitlines()]
        _write("\r\n".join(["distui can't start:", "", *lines, "", "Reload the page to try again."]))


def _words(error: DistuiError) -> Sequence[str]:
    """What it is and what to do; of files each mistake."""
    problems = error.problems if isinstance(error, SpecError) else ()
    return [str(problem) for problem in problems] or [error.message, error.hint]


def _write(text: str) -> None:
    data = text.encode()
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(PRELUDE + b"D" + len(data).to_bytes(4, "big") + data)
        sys.stdout.buffer.flush()
