"""A command on a host with this process's stdin, stdout and stderr: each passed on as it comes, as ssh does."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Sequence

from distui.cli.printing.outlet import Outlet, write_all
from distui.errors import ContactLost, SessionLost
from distui.session import ByteChannel, Session

CHUNK = 65536


async def pass_through(session: Session, argv: Sequence[str], *, stdin: int | None, stdout: int, stderr: int) -> int:
    """Run `argv` on the host with these file descriptors and return its exit status; no stdin is an empty one.

    Raises SessionLost or ContactLost when the connection breaks, BrokenPipeError when nobody reads stdout any more,
    OutputFailed when it can't be written.
    """
    channel = await session.open(argv, on_stderr=lambda data: _write(stderr, data))
    sending = asyncio.create_task(_send(stdin, channel, stderr))
    try:
        await _receive(channel, stdout)
        status = await channel.wait()
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await channel.close()
    if status < 0:
        raise ContactLost(f"{session.host}: the connection closed without the command's exit status; it may still run")
    return status


def _write(fd: int, data: bytes) -> None:
    """To stderr; that nobody reads it ends nothing."""
    with contextlib.suppress(OSError):
        write_all(fd, data)


async def _receive(channel: ByteChannel, fd: int) -> None:
    outlet = Outlet(fd)
    while data := await channel.read(CHUNK):
        await outlet.write(data)
        outlet.refuse_loss()
        if outlet.error is not None:
            raise outlet.error
    await outlet.drain()
    outlet.refuse_loss()


async def _send(fd: int | None, channel: ByteChannel, stderr: int) -> None:
    """stdin to the command until it ends; a command that takes no more is no error. What can't be read any more is an
    end, too, for which the command may wait.
    """
    with contextlib.suppress(SessionLost):
        try:
            while fd is not None and (data := await _read(fd)):
                await channel.write(data)
        except OSError as exc:
            if exc.errno != errno.EBADF:  # not opened to be read, as by `nohup`: none is meant
                _write(stderr, f"distui: stdin can't be read: {exc.strerror}\n".encode())
        await channel.write_eof()


async def _read(fd: int) -> bytes:
    """What is there next, b"" at the end. A file is read at once: it can't be waited for, and never keeps waiting."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:  # what epoll says of a regular file
        return os.read(fd, CHUNK)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
    try:
        return os.read(fd, CHUNK)
    except OSError:  # the terminal is gone
        return b""
