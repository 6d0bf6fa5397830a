"""Commands of this machine behind what is asked of a host's session: the control machine's own engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from distui.errors import HostCommandError, SessionLost
from distui.session import ByteChannel, Completed

LOCAL = "local"
"""How this machine is called beside hosts."""
_STDERR_KEPT = 8192


class LocalSession:
    """Runs argv here, without a shell."""

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout: float | None = 60.0, limit: int = 8 << 20
    ) -> Completed:
        """See `distui.session.Session.run`. Raises HostCommandError when the program can't be started."""
        process = await _start(argv)
        try:
            async with asyncio.timeout(timeout):
                out, err = await process.communicate(input)
        except TimeoutError as exc:
            message = f"{argv[0]} did not finish within {timeout:g} s here"
            raise HostCommandError(LOCAL, message, code="command_timeout") from exc
        finally:
            await _end(process)
        return Completed(tuple(argv), process.returncode or 0, out[:limit], err, truncated=len(out) > limit)

    async def open(self, argv: Sequence[str]) -> ByteChannel:
        """See `distui.session.Session.open`."""
        return LocalChannel(await _start(argv))


async def _start(argv: Sequence[str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as exc:
        raise HostCommandError(LOCAL, f"{argv[0]} can't be started on this machine: {exc.strerror}") from exc


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class LocalChannel:
    """`distui.session.ByteChannel` over a child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._tail = bytearray()
        self._hearing = asyncio.create_task(self._hear())

    async def read(self, limit: int = 65536) -> bytes:
        """See `distui.session.ByteChannel.read`."""
        assert self._process.stdout is not None
        return await self._process.stdout.read(limit)

    async def write(self, data: bytes) -> None:
        """See `distui.session.ByteChannel.write`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except OSError as exc:
            raise SessionLost(LOCAL, "the program takes no more input: it has ended", code="channel_ended") from exc

    async def write_eof(self) -> None:
        """See `distui.session.ByteChannel.write_eof`."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def stderr_tail(self) -> bytes:
        """See `distui.session.ByteChannel.stderr_tail`."""
        return bytes(self._tail)

    async def wait(self) -> int:
        """See `distui.session.ByteChannel.wait`."""
        status = await self._process.wait()
        await self._hearing
        return status

    async def close(self) -> None:
        """See `distui.session.ByteChannel.close`."""
        await _end(self._process)
        self._hearing.cancel()

    async def _hear(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(65536):
            self._tail += data
            del self._tail[:-_STDERR_KEPT]
