"""A terminal that reads slowly, or not at all, slows the painting down and nothing else.

Textual writes from a thread of its own with a short queue, and when that is full the event loop waits for the
terminal, and with it everything that runs in the loop: keys, logs of followed runs. Here the queue takes all there
is, and while more than a little waits in it nothing is painted: what changes meanwhile stays marked and is painted
once, as it is then. So a terminal that is left alone costs no memory, and what it shows is whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from textual._ansi_sequences import SYNC_END
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.screen import Screen

BEHIND = 16 * 1024
"""Bytes waiting for the terminal from which on nothing is painted."""
CAUGHT_UP = 4 * 1024
"""Bytes waiting below which painting goes on."""
LAST_WORDS_S = 5.0
"""How long a terminal that does not read is waited for at the end."""

_PIECE = 4096


class Writer(threading.Thread):
    """Writes to the terminal. `caught_up` is called from the thread once little waits."""

    def __init__(self, fd: int, encoding: str, caught_up: Callable[[], object]) -> None:
        super().__init__(daemon=True, name="terminal")
        self.waiting = 0
        """Bytes that the terminal has not taken yet."""
        self._fd = fd
        self._encoding = encoding
        self._caught_up = caught_up
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        """Queue text; never waits."""
        data = text.encode(self._encoding, "replace")
        with self._lock:
            self.waiting += len(data)
        self._queue.put(data)

    def drop(self) -> None:
        """Forget what waits: the screen it belongs to is being left. What is half written is written to its end."""
        with contextlib.suppress(Empty):
            while True:
                self._count(self._queue.get_nowait() or b"")

    def stop(self) -> None:
        """Write what waits and end; a terminal that reads nothing for a while is given up."""
        self._queue.put(None)
        self.join(LAST_WORDS_S)

    def run(self) -> None:
        """See Thread."""
        while (data := self._queue.get()) is not None:
            for start in range(0, len(data), _PIECE):
                piece = data[start : start + _PIECE]
                self._write(piece)
                self._count(piece)

    def _count(self, data: bytes) -> None:
        with self._lock:
            before, self.waiting = self.waiting, self.waiting - len(data)
        if self.waiting <= CAUGHT_UP < before:
            self._caught_up()

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                select.select((), (self._fd,), (), 1.0)
            except OSError:  # the terminal is gone; who closed it has said so by SIGHUP
                return


class PacedDriver(LinuxDriver):
    """Textual's driver with our writer."""

    def __init__(self, app: App[Any], **more: Any) -> None:
        super().__init__(app, **more)
        self._out: Writer | None = None

    def write(self, data: str) -> None:
        """See textual."""
        if self._out is None:
            self._out = self._writer()
            self._out.start()
        self._out.write(data)
        if self._out.waiting > BEHIND and isinstance(self._app, PacedApp):
            self._app.hold()

    def _writer(self) -> Writer:
        app, loop = self._app, asyncio.get_running_loop()

        def caught_up() -> None:
            if isinstance(app, PacedApp):
                with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                    loop.call_soon_threadsafe(app.go_on)

        assert self._file is not None  # stderr, which textual draws on
        return Writer(self._file.fileno(), self._file.encoding, caught_up)

    def stop_application_mode(self) -> None:
        """See textual. What a terminal far behind has not taken yet is of no use any more."""
        if self._out is not None and self._out.waiting > BEHIND:
            self._out.drop()
            self.write(SYNC_END)
        super().stop_application_mode()

    def close(self) -> None:
        """See textual."""
        super().close()
        if self._out is not None:
            self._out.stop()
            self._out = None


class PacedApp(App[int]):
    """An app that does not paint while its terminal is behind."""

    _held = False
    _missed = False
    """Whether something was drawn for the whole screen and thrown away meanwhile."""

    def get_driver_class(self) -> type[Driver]:
        """See textual."""
        found = super().get_driver_class()
        return PacedDriver if found is LinuxDriver else found

    def hold(self) -> None:
        """Paint nothing from now on."""
        if not self._held:
            self._held = True
            self._begin_batch()

    def go_on(self) -> None:
        """Paint what has changed."""
        if not self._held:
            return
        self._held = False
        self._end_batch()
        if self.screen_stack:
            if self._missed:
                self.screen.refresh()
            self.screen.check_idle()
        self._missed = False

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """See textual."""
        self._missed = self._missed or self._held
        super()._display(screen, renderable)
