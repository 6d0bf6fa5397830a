"""What a page of `distui serve` shows where the app can't begin: why, in the form that textual-serve reads.

Without it the page stays empty, and the reason is on the terminal of whoever started `distui serve`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from distui.errors import DistuiError, SpecError
from distui.runs.lines.text import safe

PRELUDE = b"__GANGLION__\n"
"""What an app of Textual says first."""


def in_browser() -> bool:
    """Whether `distui serve` shows this process: what it paints goes through a pipe."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


@contextlib.contextmanager
def reasons_on_page() -> Iterator[None]:
    """While the block runs, before there is an app, the page shows what ends it."""
    try:
        yield
    except DistuiError as error:
        if in_browser():
            _write(_words(error))
        raise


def _words(error: DistuiError) -> str:
    problems = error.problems if isinstance(error, SpecError) else ()
    lines = [str(problem) for problem in problems] or [error.message, error.hint]
    messages = [safe(line) for text in lines for line in text.splitlines()]
    return "\r\n".join(["distui can't start:", "", *messages, "", "Reload the page to try again."])


def _write(text: str) -> None:
    data = text.encode()
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(PRELUDE + b"D" + len(data).to_bytes(4, "big") + data)
        sys.stdout.buffer.flush()
