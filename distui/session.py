"""What distui needs of a connection to one host, without saying how it is made.

`remote/` implements these protocols over asyncssh; tests implement them in memory. Everything is bytes:
one invalid UTF-8 byte must never close a connection (a strict text channel does: FAULTS M19).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from distui.frozen import frozen


@frozen
class Completed:
    """A command that ended on a host. `status` is its exit status, or 128 + signal number if a signal ended it."""

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False
    """True when output beyond the limit was thrown away."""
    lingered: float = 0.0
    """For how many seconds something in the background kept the output open after the command had ended."""
    waited: float = 0.0
    """Seconds until it could be given its input: a channel is opened for it first, and we may have been busy."""

    @property
    def ok(self) -> bool:
        """Whether the command ended with status 0."""
        return self.status == 0

    @property
    def text(self) -> str:
        """stdout as text; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        """stderr as text, stripped; bytes that are not UTF-8 become U+FFFD."""
        return self.stderr.decode("utf-8", "replace").strip()


class ByteChannel(Protocol):
    """A two-way byte stream: an exec channel's stdin and stdout, or a forwarded unix socket."""

    async def read(self, limit: int = 65536) -> bytes:
        """Up to `limit` bytes; b"" at the end of the stream. Raises SessionLost if the connection broke."""

    async def write(self, data: bytes) -> None:
        """Send `data`, waiting while the other side is slow. Raises SessionLost if the connection broke."""

    async def write_eof(self) -> None:
        """Tell the other side that nothing more comes."""

    def stderr_tail(self) -> bytes:
        """The last few KiB the command wrote to stderr so far (always b"" for sockets).

        Implementations read stderr all the time: unread, it would stall stdout (FAULTS M21).
        """

    async def wait(self) -> int:
        """The exit status once the stream has ended (0 for sockets, -1 when unknown)."""

    async def close(self) -> None:
        """Close both directions; idempotent, never raises."""


class Session(Protocol):
    """One connection to one host. Safe to use from several tasks; at most a few channels are open at once."""

    @property
    def host(self) -> str:
        """The host's name in the inventory."""

    @property
    def connected_ms(self) -> float:
        """How long connecting and logging in took, in milliseconds."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        timeout: float | None = 60.0,
        limit: int = 8 << 20,
    ) -> Completed:
        """Run `argv` on the host and wait for it.

        argv reaches the command as given whatever the login shell is (sh, bash, fish, csh) and whatever it
        prints on login: quoting and framing are the implementation's. stdin is `input`, then end of file.
        argv and `input` never appear in any process list of the host as an argument of a shell, except argv
        as the command's own. A non-zero exit status is a result, not an exception.

        Raises HostCommandError (code `command_timeout`) when it takes longer than `timeout` seconds, with the
        remote command ended as far as the host allows; SessionLost when the connection breaks.
        """

    async def run_script(self, script: str, *, timeout: float | None = 60.0, limit: int = 8 << 20) -> Completed:
        """Run a POSIX sh script, sent over stdin, and wait for it. Same promises as `run`."""

    async def open(self, argv: Sequence[str], *, on_stderr: Callable[[bytes], object] | None = None) -> ByteChannel:
        """Start `argv` with its stdin and stdout as a stream; `on_stderr` gets what it writes to stderr as it comes.

        What a noisy login shell prints may come before the command's own output: callers look for their own
        greeting. argv must be words that every shell reads the same way (no backslash, `!` or newline).
        Raises SessionLost, or HostCommandError when no channel can be opened.
        """

    async def open_unix(self, path: str) -> ByteChannel:
        """Connect to a unix socket on the host (direct-streamlocal).

        Raises HostCommandError with code `forward_refused` when the server does not allow it or nothing listens.
        """

    async def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """Write a small file on the host: parent folders 0700 if missing, temp name, then rename.

        `path` is absolute, or starts with `~/` for the login's home. Raises HostCommandError with the host's
        words (disk full, permission) and leaves nothing half-written.
        """

    async def close(self) -> None:
        """Close the connection; idempotent, never raises."""


def is_alive(session: Session) -> bool:
    """Whether a connection still stands, as far as is known here; of one that can't tell that is not known."""
    return bool(getattr(session, "alive", True))


class Connector(Protocol):
    """Makes sessions; knows keys, known hosts, jump hosts and limits."""

    async def connect(self, host: str) -> Session:
        """Connect and log in to the inventory host named `host`.

        Raises HostUnreachable, HostAuthError or HostKeyError with a message in words and a hint.
        """

    async def close(self) -> None:
        """Close every session and jump connection still open; idempotent, never raises."""


@asynccontextmanager
async def session_on(connector: Connector, host: str) -> AsyncIterator[Session]:
    """A session with a host, closed after the block. Raises as `Connector.connect` does."""
    session = await connector.connect(host)
    try:
        yield session
    finally:
        await session.close()
