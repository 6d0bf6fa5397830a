"""Ends the process on SIGTERM or Ctrl-C at once, also while it waits inside a collective."""

from __future__ import annotations

import os
import signal
import socket
import threading
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGINT)


def end_at_once(name: str) -> None:
    """From now on SIGTERM and SIGINT end this process with 128 + their number; `name` begins its last line.

    Python runs a signal handler between two steps of the main thread, so never while that thread waits for a
    rank that is gone. And a container's first process ignores SIGTERM unless it has a handler. So there is a
    handler that does nothing, and a thread that ends the process once the signal's number comes through the
    wakeup socket, which Python writes to at any time.
    """
    receiving, sending = socket.socketpair()
    sending.setblocking(False)
    threading.Thread(target=_end, args=(name, receiving, sending), name="signals", daemon=True).start()
    for number in _ENDING:
        signal.signal(number, _nothing)
    signal.set_wakeup_fd(sending.fileno())


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must be there for the wakeup socket to be written to."""


def _end(name: str, receiving: socket.socket, sending: socket.socket) -> None:
    """Wait for a signal; holds `sending` so that it stays open."""
    number = receiving.recv(1)[0]
    while number not in _ENDING:
        number = receiving.recv(1)[0]
    print(f"{name} stopped by {signal.Signals(number).name}\n", end="", flush=True)
    os._exit(128 + number)
