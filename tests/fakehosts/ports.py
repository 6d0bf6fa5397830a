"""A TCP port of loopback for a test of its own: a fixed one may be taken, also by the same test in another checkout."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from distui.plan.network import rendezvous


def own_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """For runs of tests whose hosts are this machine, where others may test at once: runs of one name have one port."""
    begin = rendezvous.PORTS.start + os.getpid() % 100 * 100
    monkeypatch.setattr(rendezvous, "PORTS", range(begin, begin + 100))


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def held_port() -> Iterator[int]:
    """One that nobody listens on and nobody else gets; a program that is told of it may listen there all the same."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
        yield int(one.getsockname()[1])
