"""What a demo host does with one command: a real child process whose three streams are the channel's."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh

_CHUNK = 1 << 16
_STDIN_HIGH_WATER = 1 << 20
_GRACE = 2.0
"""Seconds between TERM and KILL for a command whose channel was closed."""
_LOOK = 0.02


class DemoSession(asyncssh.SSHServerSession[bytes]):
    """Runs one command by `SHELL -c`, as sshd does with the login shell; no pty, no subsystem.

    The command leads a process group of its own. When the channel closes before it ended, that group is ended;
    what called `setsid` lives on, as it does under sshd.
    """

    def __init__(self, home: Path, env: Mapping[str, str], shell: str, running: set[asyncio.Task[None]]) -> None:
        self._home = home
        self._shell = shell
        self._env = dict(env)
        self._running = running
        self._command = ""
        self._chan: Any = None
        self._process: asyncio.subprocess.Process | None = None
        self._early: list[bytes] = []
        self._stdin_ended = False
        self._draining = False
        self._closed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, chan: Any) -> None:
        """The channel is open."""
        self._chan = chan

    def shell_requested(self) -> bool:
        """No interactive shells."""
        return False

    def exec_requested(self, command: str) -> bool:
        """A command to run."""
        self._command = command
        return True

    def session_started(self) -> None:
        """The client was answered yes."""
        self._spawn(self._serve())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Input for the command."""
        if self._process is None:
            self._early.append(data)
        else:
            self._feed(data)

    def eof_received(self) -> bool:
        """The input has ended; output may go on."""
        self._stdin_ended = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        return True

    def signal_received(self, name: str) -> None:
        """Pass a signal on to the command's process group."""
        number = signal.Signals.__members__.get(f"SIG{name}")
        if number is not None and self._alive():
            self._signal(number)

    def pause_writing(self) -> None:
        """The client is slow."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed: nobody is left to hear the command."""
        self._writable.set()
        self._closed.set()
        if self._alive():
            self._spawn(self._end())

    async def _serve(self) -> None:
        try:
            process = await self._start()
        except OSError as exc:
            self._chan.write(f"demo host: {exc}\n".encode(), asyncssh.EXTENDED_DATA_STDERR)
            self._chan.exit(127)
            return
        if self._closed.is_set():
            await self._end()
        await asyncio.gather(
            self._pump(process.stdout, None), self._pump(process.stderr, asyncssh.EXTENDED_DATA_STDERR)
        )
        self._report(await process.wait())

    async def _start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            self._shell, "-c", self._command,
            stdin=pipe, stdout=pipe, stderr=pipe,
            cwd=self._home, env=self._env, start_new_session=True,
        )  # fmt: skip
        self._process = process
        for data in self._early:
            self._feed(data)
        self._early.clear()
        if self._stdin_ended and process.stdin is not None:
            process.stdin.close()
        return process

    def _report(self, code: int) -> None:
        if self._closed.is_set():
            return
        with suppress(OSError):
            if code < 0:
                self._chan.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
            else:
                self._chan.exit(code)

    async def _pump(self, source: asyncio.StreamReader | None, datatype: int | None) -> None:
        """Everything `source` says goes to the channel, at the client's pace; after a loss it is thrown away."""
        assert source is not None
        while data := await source.read(_CHUNK):
            await self._writable.wait()
            if not self._closed.is_set():
                with suppress(OSError):
                    self._chan.write(data, datatype)

    def _feed(self, data: bytes) -> None:
        stdin = self._process.stdin if self._process is not None else None
        if stdin is None or stdin.is_closing():
            return
        stdin.write(data)
        if stdin.transport.get_write_buffer_size() > _STDIN_HIGH_WATER and not self._draining:
            self._draining = True
            self._chan.pause_reading()
            self._spawn(self._drain(stdin))

    async def _drain(self, stdin: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await stdin.drain()
        self._draining = False
        if not self._closed.is_set():
            self._chan.resume_reading()

    def _alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def _signal(self, number: int) -> bool:
        """Signal the command's process group; False when nothing of it is left."""
        if self._process is None:
            return False
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _end(self) -> None:
        """TERM, a moment, KILL. What the command started may tidy up for longer than the command itself lives."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_GRACE):
                await self._gone()
        except TimeoutError:
            self._signal(signal.SIGKILL)

    async def _gone(self) -> None:
        """Wait until the command's process group has no members any more."""
        while True:
            if not self._signal(0):
                return
            await asyncio.sleep(_LOOK)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
