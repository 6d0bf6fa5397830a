"""Leaving by a signal while the terminal does not read (a link that hangs): the app ends, and puts it back."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import threading

LOOK_S = 0.05
RESTORE = b"\x1b[?1049l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[?25h\x1b[0m"
"""Leaves the other screen, mouse reports, pasting in brackets and focus reports; the cursor is back."""


class Unblocked:
    """Lets the app end although its terminal does not read: what it would not take is thrown away.

    From `begin` until the `with` block ends; then the terminal is put back once more, if anything was thrown away.
    """

    def __init__(self) -> None:
        self._file = sys.__stderr__  # which textual draws on
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._threw = False

    def __enter__(self) -> Unblocked:
        return self

    def begin(self) -> None:
        """From now on the terminal can't hold anything up."""
        if self._thread is None and self._file is not None and self._file.isatty():
            self._thread = threading.Thread(target=self._throw_away, args=(self._file.fileno(),), daemon=True)
            self._thread.start()

    def _throw_away(self, terminal: int) -> None:
        while not self._done.wait(LOOK_S):
            if not select.select((), (terminal,), (), 0)[1]:
                self._threw = True
                self._flush(terminal)

    @staticmethod
    def _flush(terminal: int) -> None:
        with contextlib.suppress(termios.error):
            termios.tcflush(terminal, termios.TCOFLUSH)
            termios.tcflow(terminal, termios.TCOOFF)  # a flush alone does not wake the thread that writes
            termios.tcflow(terminal, termios.TCOON)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        if self._threw and self._file is not None:
            self._flush(self._file.fileno())
            with contextlib.suppress(OSError):
                os.write(self._file.fileno(), RESTORE)
