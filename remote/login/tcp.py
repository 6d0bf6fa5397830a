"""The TCP connection and the server's first line, before asyncssh takes over.

Done here so that "no answer", "no greeting" and "no login" are three different messages, so that an address that
swallows packets does not hide another that works, and so that a server's refusal in words can be quoted.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, zip_longest
from typing import Any

from distui.remote.aside import in_thread

_STAGGER = 0.25
"""Seconds before the next address is tried beside the last one (RFC 8305)."""

_PEEK = 4096

AddrInfo = tuple[Any, ...]


async def connect(host: str, port: int, *, family: int, bind: str | None) -> socket.socket:
    """A connected socket. Raises OSError: socket.gaierror without an address, else the last address's error."""
    infos = await in_thread(socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM)
    pending: set[asyncio.Task[socket.socket]] = set()
    problem: OSError = OSError(f"no address for {host}")
    waiting = list(_interleaved(infos))
    try:
        while waiting or pending:
            if waiting:
                pending.add(asyncio.ensure_future(_connect_one(waiting.pop(0), bind)))
            done, pending = await asyncio.wait(
                pending, timeout=_STAGGER if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            winner, problem = _winner(done, problem)
            if winner is not None:
                return winner
    finally:
        await _drop(pending)
    raise problem


def _winner(done: Iterable[asyncio.Task[socket.socket]], problem: OSError) -> tuple[socket.socket | None, OSError]:
    """The first socket connected; others connected in the same moment are closed."""
    first: socket.socket | None = None
    for task in done:
        exc = task.exception()
        if isinstance(exc, OSError):
            problem = exc
        elif exc is not None:
            raise exc
        elif first is None:
            first = task.result()
        else:
            task.result().close()
    return first, problem


async def _drop(tasks: set[asyncio.Task[socket.socket]]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, socket.socket):
            result.close()


async def _connect_one(info: AddrInfo, bind: str | None) -> socket.socket:
    family, kind, proto, _, address = info
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        if bind:
            sock.bind((bind, 0))
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _interleaved(infos: list[AddrInfo]) -> Iterable[AddrInfo]:
    """Addresses of the first family and of the others by turns."""
    first = [info for info in infos if info[0] == infos[0][0]]
    rest = [info for info in infos if info[0] != infos[0][0]]
    pairs = zip_longest(first, rest)
    return (info for info in chain.from_iterable(pairs) if info is not None)


async def greeting(sock: socket.socket) -> bytes:
    """What the server says first, left unread for asyncssh: until its `SSH-` line begins, or b"" if it hangs up.

    Raises OSError when the connection is reset.
    """
    seen = -1
    while True:
        await _readable(sock)
        with suppress(BlockingIOError):
            data = sock.recv(_PEEK, socket.MSG_PEEK)
            if not data or _complete(data):
                return data
            if len(data) == seen:
                if _hung_up(sock):
                    return data
                await asyncio.sleep(0.02)  # Peeked data keeps the socket readable: nothing to wait on.
            seen = len(data)


def _complete(data: bytes) -> bool:
    lines = data.split(b"\n")
    return any(line.startswith(b"SSH-") for line in lines[:-1]) or len(data) == _PEEK


def _hung_up(sock: socket.socket) -> bool:
    """Whether the end of the stream has come behind the data that was peeked at (TCP_INFO: CLOSE_WAIT)."""
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1
    except (OSError, AttributeError):
        return False


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock, _tell, ready)
    try:
        await ready
    finally:
        loop.remove_reader(sock)


def _tell(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
