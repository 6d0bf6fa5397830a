"""One host's connection, kept alive: whoever needs it waits here, whoever sees it break says so here."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Literal

from distui.errors import HostAuthError, HostError, HostKeyError, HostUnreachable, SessionLost
from distui.session import Completed, Connector, Session, is_alive

LinkState = Literal["up", "lost", "back"]

FIRST_WAIT, LONGEST_WAIT = 0.5, 15.0
"""Seconds before a second try, doubling up to the longest, each shortened by up to half at random."""

REFUSED_WAIT = 60.0
"""After a refused login or host key, and while sshd >= 9.8 refuses our whole address for such tries (FAULTS 21)."""

ASK_BOOT = ("cat", "/proc/sys/kernel/random/boot_id")
"""Asks a host which boot this is: another id after each."""

_TRIES, _LASTS = 5, 60.0
"""How often in a row an idempotent command is sent when the connection breaks under it each time; and the seconds from
which on one was not in vain: data may be fetched for hours, and the next try goes on where it was.
"""


class HostLink:
    """Owns the session of one host; closed by `close`. Used by the follower and by commands at once.

    `on_change` hears `up` once, then `lost` and `back` with the reason in words.
    """

    def __init__(
        self,
        connector: Connector,
        host: str,
        *,
        session: Session | None = None,
        give_up: float | None = None,
        on_change: Callable[[LinkState, str], None] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.host = host
        self._connector = connector
        self._session = session
        self._give_up = give_up
        self._on_change = on_change or (lambda state, reason: None)
        self._jitter = jitter
        self._changed = asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._error: HostError | None = None
        self._was_up = session is not None
        self._closed = False

    @property
    def is_up(self) -> bool:
        """Whether there is a connection that nobody reported lost."""
        return self._session is not None

    @property
    def error(self) -> HostError | None:
        """Why there is no connection, if known."""
        return None if self.is_up else self._error

    async def session(self, *, give_up: float | None = None) -> Session:
        """The connection, made or waited for.

        Raises the last error after `give_up` seconds (None: the link's own limit, which may be never), and at once
        when the first login ever is refused or its host key is not trusted: that will not heal by waiting.
        """
        limit = self._give_up if give_up is None else give_up
        until = None if limit is None else time.monotonic() + limit
        while True:
            if self._closed:
                raise SessionLost(self.host, f"{self.host}: the connection was closed")
            if self._session is not None:
                if is_alive(self._session):
                    return self._session
                self.lost(self._session, SessionLost(self.host, f"{self.host}: the connection broke"))
            connecting = self._start()
            await self._wait_change(until)
            if connecting.done() and not connecting.cancelled():
                connecting.result()  # raises what nobody expected of a connector
            if not self.is_up and self._error is not None and self._hopeless(until):
                raise self._error

    def lost(self, session: Session, error: BaseException) -> None:
        """The session broke; a new one is being made from now on. Old news is ignored."""
        if session is not self._session or self._closed:
            return
        self._session = None
        self._keep(asyncio.ensure_future(session.close()))
        self._error = error if isinstance(error, HostError) else SessionLost(self.host, f"{self.host}: {error}")
        self._start()
        self._on_change("lost", str(error))

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        timeout: float | None = 60.0,
        limit: int = 8 << 20,
        idempotent: bool = False,
        give_up: float | None = None,
    ) -> Completed:
        """Run a command on the host, waiting for the connection.

        Sent again after a lost connection only if `idempotent`: else nobody knows whether it ran, and SessionLost
        is raised. Raises HostCommandError as Session.run does.
        """
        vain = 0
        while True:
            session, began = await self.session(give_up=give_up), time.monotonic()
            try:
                return await session.run(argv, input=input, timeout=timeout, limit=limit)
            except SessionLost as error:
                self.lost(session, error)
                vain = vain + 1 if time.monotonic() - began < _LASTS else 0
                if not idempotent or vain >= _TRIES:
                    raise

    async def close(self) -> None:
        """Close the connection and stop making new ones; idempotent, never raises."""
        self._closed = True
        self._changed.set()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)  # its cancellation, not that of who closes
        if self._session is not None:
            await self._session.close()
            self._session = None
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _start(self) -> asyncio.Task[None]:
        """A connection is being made from now on."""
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(lambda _: self._tell())
        return self._connecting

    async def _connect(self) -> None:
        wait = FIRST_WAIT
        if self._was_up:
            await asyncio.sleep(wait * self._jitter())
        while not self._closed:
            try:
                session = await self._connector.connect(self.host)
            except HostError as error:
                self._error = error
                self._tell()
                await asyncio.sleep(self._pause(error, wait))
                wait = min(wait * 2, LONGEST_WAIT)
            else:
                self._connected(session)
                return

    def _connected(self, session: Session) -> None:
        self._session, self._error = session, None
        state: LinkState = "back" if self._was_up else "up"
        self._was_up = True
        self._tell()
        self._on_change(state, "")

    def _pause(self, error: HostError, wait: float) -> float:
        refused = isinstance(error, HostAuthError | HostKeyError) or error.code == "penalty"
        longest = REFUSED_WAIT if refused else wait
        return longest * (1 - self._jitter() / 2)

    def _hopeless(self, until: float | None) -> bool:
        refused = isinstance(self._error, HostAuthError | HostKeyError) and not self._was_up
        return refused or (until is not None and time.monotonic() >= until)

    async def _wait_change(self, until: float | None) -> None:
        changed = self._changed
        if self._error is not None and self._hopeless(until):
            return
        left = None if until is None else max(0.0, until - time.monotonic())
        try:
            async with asyncio.timeout(left):
                await changed.wait()
        except TimeoutError:
            if self._error is None:
                self._error = HostUnreachable(
                    self.host, f"{self.host}: no connection after {left:.0f} s", code="timeout"
                )

    def _tell(self) -> None:
        """Wake everybody who waits now; later ones wait for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
