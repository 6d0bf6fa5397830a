"""What an asker on a host tells of the connections of a task's processes, by the kernel's own lists."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from distui.agent.ranks import sockets
from fakehosts.runs import until

STUCK = (
    "   7: 0B004D0A:A1B2 0C004D0A:9504 01 0000FA00:00000000 01:00000A3C 00000006     0        0 4242 3 0 1792 40 10 1 7"
)
"""As Linux 6.1 prints a connection whose segment was sent again six times (`get_tcp4_sock`)."""


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection of this process with itself, in which little has room."""
    with socket.socket() as server, socket.socket() as client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        client.connect(server.getsockname())
        peer, _ = server.accept()
        with peer:
            yield client, peer


def named(one: socket.socket) -> str:
    """Its own end."""
    place, port = one.getsockname()
    return f"{place}:{port}"


async def test_what_nobody_reads_waits(pair: tuple[socket.socket, socket.socket]) -> None:
    """At the one end it waits to be sent, since there is no room; at the other it waits to be read."""
    client, peer = pair
    client.setblocking(False)
    found: dict[str, list[object]] = {}

    def full() -> bool:
        try:
            while True:
                client.send(bytes(1 << 16))
        except BlockingIOError:
            found.update({str(row[1]): row for row in sockets.Sockets([os.getpid()]).rows()})
        return bool(found[named(client)][7])

    async with asyncio.timeout(60):
        await until(full)
    pid, own, other, before, queued, unread, tries, *_ = found[named(client)]
    assert (pid, own, other, unread, tries) == (os.getpid(), named(client), named(peer), 0, 0)
    assert isinstance(before, int) and isinstance(queued, int) and min(before, queued) > 0
    read = found[named(peer)]
    assert read[:3] == [os.getpid(), named(peer), named(client)] and read[5] != 0 and read[4] == 0


def lists(monkeypatch: pytest.MonkeyPatch, *looks: str) -> None:
    """Puts the kernel's lists in the place of this machine's, one for each look."""
    left = iter(looks)
    monkeypatch.setattr(sockets, "network_of", lambda process: 7)
    monkeypatch.setattr(sockets, "connections", dict)
    monkeypatch.setattr(sockets, "lines", lambda path: next(left).splitlines() if path.endswith("/tcp") else [])


def test_what_is_sent_again_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often, and how much of all that was sent, where `ss` counts that."""
    lists(monkeypatch, STUCK.replace("0000FA00", "0000FA01"), STUCK)
    monkeypatch.setattr(sockets, "owners", lambda pids: ({"4242": 100}, False))
    ends = ("10.77.0.11:41394", "10.77.0.12:38148")
    monkeypatch.setattr(sockets, "connections", lambda: {ends: {"data_segs_out": 900, "retrans": 46}})
    assert sockets.Sockets([100]).rows() == [[100, *ends, 64001, 64000, 0, 6, False, 900, 46]]


@pytest.mark.parametrize(("hidden", "reported"), [(True, 1), (False, 0)])
def test_of_a_process_that_hides_its_files_only_what_waits_is_reported(
    monkeypatch: pytest.MonkeyPatch, hidden: bool, reported: int
) -> None:
    """Whose it is can't be seen then: that of a stranger who waits for nothing is nobody's matter."""
    idle = STUCK.replace("0000FA00", "00000000").replace("4242", "4243")
    lists(monkeypatch, f"{STUCK}\n{idle}", f"{STUCK}\n{idle}")
    monkeypatch.setattr(sockets, "owners", lambda pids: ({}, hidden))
    assert [row[0] for row in sockets.Sockets([100]).rows()] == [0] * reported


def test_who_may_not_look_at_a_process_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has ended meanwhile hides nothing."""
    assert sockets.owners([1 << 22]) == ({}, False)

    def refuse(path: str) -> list[str]:
        raise PermissionError(path)

    monkeypatch.setattr(sockets.os, "listdir", refuse)
    assert sockets.owners([1]) == ({}, True)


@pytest.mark.parametrize(
    "line",
    ["", "7: 0B004D0A", STUCK.replace(" 01 0000FA00", " 0A 0000FA00"), STUCK.replace("0B004D0A", "xyz"),
     STUCK.replace("0B004D0A", "0B004D0A" * 2), STUCK.replace("00000006", "six")],
)  # fmt: skip
def test_what_is_no_connection_is_left_out(line: str) -> None:
    """A socket that listens, half a line, and what no kernel prints."""
    assert sockets.parsed(line) is None


def test_addresses() -> None:
    """Of both families; those of the old one within the new one as such."""
    assert sockets.address("0B004D0A:A1B2") == "10.77.0.11:41394"
    assert sockets.address("0000000000000000FFFF00000C004D0A:9504") == "10.77.0.12:38148"
    assert sockets.address("B80D01200000000000000000010000 00:0050".replace(" ", "")) == "2001:db8::1:80"


def test_so_many_are_reported_and_the_worst_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may open as many as it likes."""
    rows = [STUCK.replace("4242", str(n)).replace("00000006", f"{n % 50:08x}") for n in range(1000)]
    lists(monkeypatch, "\n".join(rows), "\n".join(rows))
    monkeypatch.setattr(sockets, "owners", lambda pids: ({str(n): 1 for n in range(1000)}, False))
    found = sockets.Sockets([1]).rows()
    assert len(found) == sockets.MOST_ROWS and [row[6] for row in found[:20]] == [49] * 20


def test_a_list_that_is_gone_is_empty(tmp_path: Path) -> None:
    """Its process has ended."""
    assert sockets.lines(str(tmp_path / "tcp")) == []
