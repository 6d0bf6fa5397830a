"""One connection per host through all steps of a command: a session that one step closes serves the next."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from distui.errors import HostError, SessionLost
from distui.session import ByteChannel, Completed, Connector, Session, is_alive


class ReusingConnector:
    """A Connector whose sessions go back on a shelf when closed, and are handed out again while they work.

    Probing, the preflight check and the run ask for a session each; a host sees one login (sshd limits logins
    in progress: MaxStartups 10:30:100).
    """

    def __init__(self, inner: Connector) -> None:
        self._inner = inner
        self._shelf: dict[str, Session] = {}

    async def connect(self, host: str) -> Session:
        """A session that was closed before and still works, or a new one. Raises as Connector.connect does."""
        session = self._shelf.pop(host, None)
        if session is not None and not is_alive(session):  # it broke meanwhile: a laptop has slept, say
            await session.close()
            session = None
        if session is None:
            session = await self._inner.connect(host)
        return _Returning(session, self._shelf)

    async def close(self) -> None:
        """Really close everything."""
        shelved = list(self._shelf.values())
        self._shelf.clear()
        try:
            for session in shelved:
                await session.close()
        finally:
            await self._inner.close()


@contextlib.asynccontextmanager
async def reusing(connector: Connector) -> AsyncIterator[Connector]:
    """The connector, its sessions reused from one step to the next; everything is closed at the end of the block."""
    reused = ReusingConnector(connector)
    try:
        yield reused
    finally:
        await reused.close()


class _Returning:
    """A session that returns its connection to the shelf on close, unless the connection broke."""

    def __init__(self, session: Session, shelf: dict[str, Session]) -> None:
        self._session = session
        self._shelf = shelf
        self._broken = False
        self._closed = False

    @property
    def host(self) -> str:
        return self._session.host

    @property
    def alive(self) -> bool:
        return is_alive(self._session)

    @property
    def connected_ms(self) -> float:
        return self._session.connected_ms

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout: float | None = 60.0, limit: int = 8 << 20
    ) -> Completed:
        with self._watched():
            return await self._session.run(argv, input=input, timeout=timeout, limit=limit)

    async def run_script(self, script: str, *, timeout: float | None = 60.0, limit: int = 8 << 20) -> Completed:
        with self._watched():
            return await self._session.run_script(script, timeout=timeout, limit=limit)

    async def open(self, argv: Sequence[str], *, on_stderr: Callable[[bytes], object] | None = None) -> ByteChannel:
        with self._watched():
            if on_stderr is None:
                return await self._session.open(argv)
            return await self._session.open(argv, on_stderr=on_stderr)

    async def open_unix(self, path: str) -> ByteChannel:
        with self._watched():
            return await self._session.open_unix(path)

    async def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        with self._watched():
            await self._session.put(path, data, mode=mode)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """A lost connection, or one on which a command timed out, is not handed to the next step."""
        try:
            yield
        except HostError as exc:
            if isinstance(exc, SessionLost) or exc.code == "command_timeout":
                self._broken = True
            raise

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._broken or self.host in self._shelf:
            await self._session.close()
        else:
            self._shelf[self.host] = self._session
