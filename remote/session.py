"""A connection to one host: commands, streams, forwarded sockets and small files over few ssh channels."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import asyncssh

from distui.errors import HostCommandError, HostError, SessionLost
from distui.remote import framing
from distui.remote.links import Dial, Link, Links
from distui.remote.login.errors import lost, quoted
from distui.remote.pipes import CommandPipe, Pipe, SocketPipe
from distui.remote.putting import put_argv
from distui.remote.spares import Spares
from distui.session import ByteChannel, Completed

_GRACE = 1.0
"""Seconds between TERM and KILL for a command that took too long."""

_KILL_TIMEOUT = 5.0
"""Seconds for a `kill` on the host; a host that hangs must not hold up the error about it."""

_OPENS = 120.0
"""Seconds within which a host opens a channel: a narrow link may be full of what we send. One that answers keepalives
and opens none would be waited for without an end.
"""

P = TypeVar("P", bound=Pipe)


_LINGERS = 0.5
"""Seconds after a command's end from which on something else must be what keeps its output open."""


class SshSession:
    """`distui.session.Session` over asyncssh. `dial` makes further connections when MaxSessions is small."""

    def __init__(self, host: str, conn: asyncssh.SSHClientConnection, *, dial: Dial, connected_ms: float) -> None:
        self._host = host
        self._connected_ms = connected_ms
        self._links = Links(conn, dial)
        self._background: set[asyncio.Task[Any]] = set()
        self._spares = Spares(self._open_spare)

    @property
    def host(self) -> str:
        """The host's name in the inventory."""
        return self._host

    @property
    def connected_ms(self) -> float:
        """How long connecting and logging in took, in milliseconds."""
        return self._connected_ms

    @property
    def alive(self) -> bool:
        """Whether the connection still stands, as far as anyone knows."""
        return self._links.alive

    @property
    def peer(self) -> str:
        """The address the connection goes to, "" behind a jump host."""
        name = self._links.first.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) else ""

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        timeout: float | None = 60.0,
        limit: int = 8 << 20,
    ) -> Completed:
        """See `distui.session.Session.run`."""
        mark = framing.new_mark()
        line = self._line(mark, argv)
        return await self._exchange(tuple(argv), mark, line + input, timeout=timeout, limit=limit)

    async def run_script(self, script: str, *, timeout: float | None = 60.0, limit: int = 8 << 20) -> Completed:
        """See `distui.session.Session.run_script`."""
        mark = framing.new_mark()
        lines = framing.script_lines(mark, script)
        return await self._exchange(("sh",), mark, lines, timeout=timeout, limit=limit)

    async def open(self, argv: Sequence[str], *, on_stderr: Callable[[bytes], object] | None = None) -> ByteChannel:
        """See `distui.session.Session.open`; here any argv will do, and what the login shell prints is dropped."""
        mark = framing.new_mark()
        line = self._line(mark, argv)
        link, pipe = await self._open_command(lambda: CommandPipe(mark=mark, on_stderr=on_stderr), stream=True)
        channel = SshChannel(self, argv[0], pipe, link)
        try:
            await pipe.write(line)
        except BaseException:
            await channel.close()
            raise
        return channel

    async def open_unix(self, path: str) -> ByteChannel:
        """See `distui.session.Session.open_unix`. Such channels do not count against MaxSessions."""
        opening = self._links.first.create_unix_connection(SocketPipe, path, encoding=None)
        try:
            _, pipe = await self._opened(opening)
        except asyncssh.ChannelOpenError as exc:
            if not self.alive:
                raise lost(self._host, exc) from exc
            raise self._forward_refused(path, exc) from exc
        except (OSError, asyncssh.Error) as exc:
            raise lost(self._host, exc) from exc
        return SshChannel(self, path, pipe, None)

    async def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """See `distui.session.Session.put`."""
        argv = put_argv(path, len(data), mode, secrets.token_hex(8))
        done = await self.run(argv, input=data)
        if not done.ok:
            message = quoted(done.stderr) if done.stderr else f"exit status {done.status}"
            raise HostCommandError(
                self._host,
                f"{self._host}: can't write {path}: {message}",
                hint=f"look at the folder and the free space: ssh {self._host} df -h",
            )

    async def close(self) -> None:
        """See `distui.session.Session.close`."""
        await self._links.close()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _end(self, pipe: Pipe | None) -> None:
        """End a command: TERM, a moment, KILL. Without a pty closing the channel leaves it running (FAULTS M22).

        sshd passes signals on since OpenSSH 7.9, but not to root's commands; then `kill` does it. A login shell that
        has not come to the command yet finds the channel closed when it prints the mark, and ends there.
        """
        if pipe is None:
            return
        with suppress(Exception):
            pipe.send_signal("TERM")
            if await _ended_within(pipe, _GRACE):
                return
            pipe.send_signal("KILL")
            pipe.close()
            if pipe.out.pid and await self._kill("TERM", pipe.out.pid):
                await asyncio.sleep(_GRACE)
                await self._kill("KILL", pipe.out.pid)
        pipe.close()

    async def _kill(self, name: str, pid: int) -> bool:
        done = await self.run(framing.kill_argv(name, pid), timeout=_KILL_TIMEOUT)
        return done.ok

    def _line(self, mark: str, argv: Sequence[str]) -> bytes:
        try:
            return framing.command_line(mark, argv)
        except ValueError as exc:
            raise HostCommandError(self._host, f"{self._host}: can't run {' '.join(argv)[:60]!r}: {exc}") from exc

    def _forward_refused(self, path: str, exc: asyncssh.ChannelOpenError) -> HostCommandError:
        return HostCommandError(
            self._host,
            f"{self._host} does not connect us to its socket {path}: {exc.reason}",
            hint="nothing listens there, or sshd_config says AllowStreamLocalForwarding no",
            code="forward_refused",
        )

    async def _exchange(
        self, argv: tuple[str, ...], mark: str, stdin: bytes, *, timeout: float | None, limit: int
    ) -> Completed:
        """Send `stdin` and its end to a shell that waits, or one that is started, and read the answer, all within
        `timeout` seconds.
        """
        begun = time.monotonic()
        pipe = self._spares.begin(mark, limit)
        self._spawn(self._spares.top_up())
        try:
            async with asyncio.timeout(timeout):
                if pipe is None:
                    pipe = await self._started(mark, limit)
                waited = time.monotonic() - begun
                out, cut = await self._converse(pipe, stdin, limit)
                if self._never_began(pipe):
                    pipe = await self._started(mark, limit)
                    waited = time.monotonic() - begun
                    out, cut = await self._converse(pipe, stdin, limit)
        except TimeoutError as exc:
            error = self._too_slow(argv, pipe, timeout or 0.0)
            await asyncio.wait((self._spawn(self._end(pipe)),))  # ended also when nobody waits for that any more
            raise error from exc
        except asyncio.CancelledError:
            if pipe is not None:
                self._spawn(self._end(pipe))
            raise
        finally:
            self._spares.end()
        return replace(self._completed(argv, pipe, out, cut=cut), waited=waited)

    async def _started(self, mark: str, limit: int) -> CommandPipe:
        """A shell that is started for this command."""
        link, pipe = await self._open_command(lambda: CommandPipe(mark=mark, stderr_limit=limit), stream=False)
        self._return_when_closed(pipe, link, stream=False)
        return pipe

    async def _open_spare(self) -> CommandPipe | None:
        """See `Spares`."""
        link = self._links.spare()
        if link is None:
            return None
        try:
            pipe = await self._open_on(link, lambda: CommandPipe(mark=framing.new_mark()))
        except (OSError, asyncssh.Error):
            self._spares.stop()
            await self._links.give_back(link, stream=False)
            return None
        except asyncio.CancelledError:
            self._spawn(self._links.give_back(link, stream=False))
            raise
        self._return_when_closed(pipe, link, stream=False)
        return pipe

    def _never_began(self, pipe: CommandPipe) -> bool:
        """Whether a shell that waited was gone by the time that it was sent a command, and nothing else is."""
        gone = pipe.waited and not (pipe.out.found or pipe.flooded) and pipe.lost is None and self.alive
        if gone:
            self._spares.stop()
        return gone

    async def _converse(self, pipe: CommandPipe, stdin: bytes, limit: int) -> tuple[bytes, bool]:
        """Write and read at once: a command may answer before it has read all of its input."""
        feeding = asyncio.ensure_future(_feed(pipe, stdin))
        try:
            out, cut = await self._collect(pipe, limit)
            if cut or pipe.flooded:
                await self._end(pipe)
            else:
                await pipe.closed.wait()
            return out, cut
        finally:
            feeding.cancel()

    async def _collect(self, pipe: CommandPipe, limit: int) -> tuple[bytes, bool]:
        """stdout up to `limit`, and whether there was more."""
        out = bytearray()
        while data := await pipe.read(1 << 18):
            out += data
            if len(out) > limit:
                return bytes(out[:limit]), True
        return bytes(out), False

    def _completed(self, argv: tuple[str, ...], pipe: CommandPipe, out: bytes, *, cut: bool) -> Completed:
        if pipe.status is None and not cut and (pipe.lost is not None or not self.alive):
            raise lost(self._host, pipe.lost)
        if pipe.flooded or not pipe.out.found:
            raise self._rubbish(pipe)
        status = -1 if pipe.status is None else pipe.status
        stderr = pipe.stderr.value()
        late = asyncio.get_running_loop().time() - pipe.status_at if pipe.status_at is not None else 0.0
        lingered = late if late > _LINGERS else 0.0
        return Completed(argv, status, out, stderr, truncated=cut or pipe.stderr.truncated, lingered=lingered)

    def _rubbish(self, pipe: Pipe) -> HostCommandError:
        """The mark never came: the login shell did something else than start `sh`."""
        said = pipe.out.seen().strip() or pipe.stderr.frame.seen().strip()
        message = f"it printed {quoted(said)}" if said else "it printed nothing"
        status = "" if pipe.status is None else f" and ended with status {pipe.status}"
        return HostCommandError(
            self._host,
            f"{self._host} lets us log in but runs no commands: {message}{status}",
            hint="the login shell must start sh (no nologin, rbash, ForceCommand or menu, no .bashrc that exits, reads "
            f"or starts another shell): `ssh {self._host} exec /bin/sh -c pwd` must print a folder",
            code="rubbish",
        )

    def _too_slow(self, argv: tuple[str, ...], pipe: Pipe | None, timeout: float) -> HostCommandError:
        if pipe is not None and not pipe.out.found:
            what = f"the login shell has not started sh after {timeout:g} s"
            hint = "slow start-up files (.bashrc, a network home) or a hanging host"
        elif pipe is not None and pipe.status is not None:
            what = f"{argv[0]} has ended, but its output stays open: something in the background there has it"
            hint = "what a start-up file (.bashrc) starts with `&` needs `>/dev/null 2>&1`: "
            hint += f"`ssh {self._host} true` hangs, too"
        else:
            what = f"{argv[0]} did not finish within {timeout:g} s"
            hint = f"the host may hang: try `ssh {self._host} uptime`"
        return HostCommandError(self._host, f"{self._host}: {what}", hint=hint, code="command_timeout")

    async def _open_command(self, factory: Callable[[], P], *, stream: bool) -> tuple[Link, P]:
        """An exec channel on a connection that has room. Waits for room; raises SessionLost, HostCommandError."""
        while True:
            if self._links.full:
                self._spares.stop()
            try:
                link = await self._links.take(stream=stream)
            except ConnectionError as exc:
                raise lost(self._host, exc) from exc
            except HostError as exc:
                raise self._no_room(exc) from exc
            try:
                pipe = await self._open_on(link, factory)
            except asyncssh.ChannelOpenError as exc:
                self._spares.stop()
                await self._refused(link, exc, stream=stream)
            except (OSError, asyncssh.Error) as exc:
                await self._links.give_back(link, stream=stream)
                raise lost(self._host, exc) from exc
            except asyncio.CancelledError:
                self._spawn(self._links.give_back(link, stream=stream))
                raise
            else:
                self._links.granted(link)
                return link, pipe

    async def _open_on(self, link: Link, factory: Callable[[], P]) -> P:
        asked = time.monotonic()
        opening = link.conn.create_session(
            factory,  # type: ignore[arg-type]
            framing.REMOTE_COMMAND,
            encoding=None,
            request_pty=False,
        )
        _, pipe = await self._opened(opening)
        self._spares.opened(time.monotonic() - asked)
        return pipe  # type: ignore[no-any-return]

    def _no_room(self, exc: HostError) -> HostCommandError:
        return HostCommandError(
            self._host,
            f"{self._host} allows no further channel on our connection, and another connection failed: {exc.message}",
            hint=exc.hint or "raise MaxSessions in the host's sshd_config",
        )

    async def _refused(self, link: Link, exc: asyncssh.ChannelOpenError, *, stream: bool) -> None:
        """Return when it is worth asking again, which waits until another channel is closed."""
        again = await self._links.refused(link, stream=stream)
        if not self.alive:
            raise lost(self._host, exc) from exc
        if not again or exc.code == asyncssh.OPEN_REQUEST_SESSION_FAILED:
            raise HostCommandError(
                self._host,
                f"{self._host} lets us log in but opens no session for commands: {exc.reason}",
                hint=f"this account may only forward ports: try `ssh {self._host} true`",
            ) from exc

    async def _opened(self, opening: Any) -> Any:
        """Await a channel's opening; if we are cancelled meanwhile, the channel is closed once it is there. Raises
        TimeoutError when it takes too long.
        """
        task = asyncio.ensure_future(opening)
        try:
            done, _ = await asyncio.wait((task,), timeout=_OPENS)
        except asyncio.CancelledError:
            self._spawn(_close_late(task))
            raise
        if not done:
            self._spawn(_close_late(task))
            raise TimeoutError(f"it opens no channel within {_OPENS:g} s")
        return task.result()

    def _return_when_closed(self, pipe: Pipe, link: Link, *, stream: bool) -> None:
        """Give the place back when the server has closed the channel too: only then it counts it as gone."""
        self._spawn(self._give_back(pipe, link, stream=stream))

    async def _give_back(self, pipe: Pipe, link: Link, *, stream: bool) -> None:
        await pipe.closed.wait()
        await self._links.give_back(link, stream=stream)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


class SshChannel:
    """`distui.session.ByteChannel` over one ssh channel."""

    def __init__(self, session: SshSession, what: str, pipe: Pipe, link: Link | None) -> None:
        self._host = session.host
        self._what = what
        self._pipe = pipe
        if link is not None:
            session._return_when_closed(pipe, link, stream=True)

    async def read(self, limit: int = 65536) -> bytes:
        """See `distui.session.ByteChannel.read`."""
        data = await self._pipe.read(limit)
        if not data and self._pipe.lost is not None:
            raise self._gone()
        return data

    async def write(self, data: bytes) -> None:
        """See `distui.session.ByteChannel.write`."""
        if not await self._pipe.write(data):
            raise self._gone()

    async def write_eof(self) -> None:
        """See `distui.session.ByteChannel.write_eof`."""
        self._pipe.write_eof()

    def stderr_tail(self) -> bytes:
        """See `distui.session.ByteChannel.stderr_tail`."""
        return self._pipe.stderr.value()

    async def wait(self) -> int:
        """See `distui.session.ByteChannel.wait`."""
        if isinstance(self._pipe, SocketPipe):
            await self._pipe.ended.wait()  # The other half stays open until we close it.
            return 0 if self._pipe.lost is None else -1
        await self._pipe.closed.wait()
        return -1 if self._pipe.status is None else self._pipe.status

    async def close(self) -> None:
        """See `distui.session.ByteChannel.close`."""
        with suppress(Exception):
            self._pipe.close()

    def _gone(self) -> SessionLost:
        if self._pipe.lost is not None:
            return lost(self._host, self._pipe.lost)
        message = f"{self._host}: {self._what} takes no more input: it has ended"
        return SessionLost(self._host, message, code="channel_ended")


async def _close_late(task: asyncio.Future[Any]) -> None:
    with suppress(OSError, asyncssh.Error):
        channel, _ = await task
        channel.abort()


async def _feed(pipe: Pipe, stdin: bytes) -> None:
    await pipe.write(stdin)
    pipe.write_eof()


async def _ended_within(pipe: Pipe, seconds: float) -> bool:
    """Whether the command ended in time; its channel is closed then."""
    try:
        async with asyncio.timeout(seconds):
            await pipe.finished()
    except TimeoutError:
        return False
    pipe.close()
    return True
