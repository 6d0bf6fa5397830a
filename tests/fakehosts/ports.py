"""A TCP port of loopback for a test of its own: a fixed one may be taken, also by the same test in another checkout."""

from __future__ import annotations

import socket


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
