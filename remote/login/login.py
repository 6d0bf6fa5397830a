"""One try to log in to one host: the callbacks that decide about host keys and hand out login keys."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import asyncssh

from distui.errors import HostError
from distui.remote.config import Resolved
from distui.remote.login import algorithms, errors, tcp
from distui.remote.login.keys import Candidate, KeyRing
from distui.remote.login.known_hosts import KnownHost, KnownHosts, Verdict

KEEPALIVE_INTERVAL = 3
"""Seconds of silence before a keepalive is sent, and between two. asyncssh gives up one interval after the last of
them, so with a count of 4 a connection that dies without a word is noticed within 15 s (FAULTS M18, row 15)."""

KEEPALIVE_COUNT = 4


class Busy(Exception):
    """The server hung up before the login began: worth another try."""


class Visitor(asyncssh.SSHClient):
    """asyncssh's questions during one login, answered without asking anybody, and remembered."""

    def __init__(self, known: KnownHost, ring: KeyRing, *, accept_new: bool) -> None:
        self._known = known
        self._accept_new = accept_new
        self._waiting = list(ring.candidates)
        self.shown: list[Candidate] = []
        self.methods: set[str] = set()
        self.wants_more = False
        """Whether a key was given and no other was asked for since: it was taken, and something else is wanted, too."""
        self.verdict: Verdict | None = None
        self.host_key: asyncssh.SSHKey | None = None
        self.greeted = False
        self._conn: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """TCP, or a jump host's channel, is there."""
        self._conn = conn

    @property
    def heard(self) -> bool:
        """Whether the server has sent its version."""
        return self._conn is not None and self._conn.get_extra_info("server_version") is not None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Known keys pass; unknown ones only if the user said so; changed ones never."""
        self.host_key = key
        self.verdict = self._known.verdict(key.public_data)
        return self.verdict == "known" or (self.verdict == "unknown" and self._accept_new)

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """The authority that signed the host's certificate."""
        self.greeted = True
        return self._known.trusts_authority(key.public_data)

    def public_key_auth_requested(self) -> Any:
        """The next key; None when there are no more."""
        self.greeted = True
        self.methods.add("publickey")
        self.wants_more = bool(self._waiting)
        if not self._waiting:
            return None
        candidate = self._waiting.pop(0)
        self.shown.append(candidate)
        return [candidate.pair]

    def password_auth_requested(self) -> None:
        """Never a prompt: only noted for the message."""
        self.methods.add("password")

    def kbdint_auth_requested(self) -> None:
        """Never a prompt: only noted for the message."""
        self.methods.add("keyboard-interactive")


class Login:
    """One try. `phase` says how far it came: tcp, banner or login."""

    def __init__(
        self, target: Resolved, ring: KeyRing, known_hosts: KnownHosts, *, accept_new: bool, timeout: float
    ) -> None:
        self._target = target
        self._ring = ring
        self._files = known_hosts
        self._timeout = timeout
        self._known = known_hosts.known(target.known_hosts, target.hostname, target.port, target.host_key_alias)
        self._visitor = Visitor(self._known, ring, accept_new=accept_new)
        self._phase = "tcp"

    @property
    def worked(self) -> Candidate | None:
        """The key that was taken, after a login that worked."""
        return self._visitor.shown[-1] if self._visitor.shown else None

    async def enter(self, jump: asyncssh.SSHClientConnection | None, jump_name: str) -> asyncssh.SSHClientConnection:
        """Log in. Raises HostError, or Busy when another try may help."""
        try:
            async with asyncio.timeout(self._timeout):
                conn = await self._connect(jump)
        except TimeoutError as exc:
            raise errors.too_slow(self._target, self._reached(), self._timeout) from exc
        except asyncssh.ChannelOpenError as exc:
            raise errors.through_jump(self._target, exc, jump_name) from exc
        except (OSError, asyncssh.Error, ValueError) as exc:
            raise self._translated(exc) from exc
        self._remember()
        return conn

    async def _connect(self, jump: asyncssh.SSHClientConnection | None) -> asyncssh.SSHClientConnection:
        if jump is not None:
            return await self._handshake(tunnel=jump)
        if self._target.proxy_command:
            return await self._handshake(proxy_command=("/bin/sh", "-c", f"exec {self._target.proxy_command}"))
        sock = await self._socket()
        try:
            return await self._handshake(sock=sock)
        except BaseException:
            sock.close()
            raise

    async def _socket(self) -> socket.socket:
        """A connection on which an ssh server has said hello."""
        target = self._target
        try:
            sock = await tcp.connect(target.hostname, target.port, family=target.family, bind=target.bind_address)
        except TimeoutError:
            raise
        except OSError as exc:
            raise errors.no_connection(target, exc) from exc
        try:
            self._phase = "banner"
            self._check_greeting(await tcp.greeting(sock))
        except BaseException:
            sock.close()
            raise
        self._phase = "login"
        return sock

    def _check_greeting(self, said: bytes) -> None:
        if any(line.startswith(b"SSH-") for line in said.split(b"\n")):
            return
        low = said.lower()
        if b"not allowed at this time" in low:
            raise errors.penalized(self._target, said)
        if not said or b"maxstartups" in low:
            raise Busy(errors.quoted(said) if said else "it hung up without a word")
        raise errors.not_ssh(self._target, said)

    async def _handshake(self, **way: Any) -> asyncssh.SSHClientConnection:
        target = self._target
        names = target.algorithms
        return await asyncssh.connect(
            target.hostname,
            target.port,
            **way,
            config=None,
            client_factory=lambda: self._visitor,
            username=target.user,
            client_keys=None,
            agent_forwarding=False,
            x11_forwarding=False,
            known_hosts=([], [], self._revoked()),
            host_key_alias=target.host_key_alias,
            server_host_key_algs=algorithms.host_keys(names.host_keys, self._known),
            encryption_algs=algorithms.ciphers(names.ciphers),
            kex_algs=algorithms.kex(names.kex),
            mac_algs=algorithms.macs(names.macs),
            compression_algs=["zlib@openssh.com", "none"] if target.compression else ["none"],
            gss_auth=target.gssapi,
            gss_kex=False,
            host_based_auth=False,
            login_timeout=self._timeout,
            keepalive_interval=KEEPALIVE_INTERVAL,
            keepalive_count_max=KEEPALIVE_COUNT,
        )

    def _revoked(self) -> list[asyncssh.SSHKey]:
        """For asyncssh's own check of what is inside a certificate."""
        keys: list[asyncssh.SSHKey] = []
        for entry in self._known.revoked:
            with suppress(asyncssh.KeyImportError):
                keys.append(asyncssh.public_key.decode_ssh_public_key(entry.blob))
        return keys

    def _reached(self) -> str:
        """How far this try came, when it is a jump host or a proxy command that carries it."""
        if self._phase != "tcp" or not (self._target.jumps or self._target.proxy_command):
            return self._phase
        return "login" if self._visitor.heard else "banner"

    def _translated(self, exc: Exception) -> Exception:
        """The exception to raise instead of `exc`."""
        visitor, target = self._visitor, self._target
        if isinstance(exc, HostError | Busy):
            return exc
        if isinstance(exc, asyncssh.HostKeyNotVerifiable):
            return self._bad_host_key(exc)
        tired = isinstance(exc, asyncssh.DisconnectError) and "too many auth" in str(exc).lower()
        if tired or isinstance(exc, asyncssh.PermissionDenied):
            tried = [candidate.label for candidate in visitor.shown]
            if visitor.wants_more and not tired:
                return errors.wants_more(target, tried[-1], visitor.methods)
            return errors.refused_login(target, self._ring, tried, visitor.methods, exc)
        dropped = isinstance(exc, asyncssh.ConnectionLost | ConnectionError)
        if dropped and visitor.host_key is None and not visitor.greeted:
            return Busy(str(exc))
        return errors.broken(target, exc)

    def _bad_host_key(self, exc: Exception) -> HostError:
        visitor, target, known = self._visitor, self._target, self._known
        if visitor.host_key is None and "evoked" not in str(exc):
            return errors.bad_certificate(target, str(exc))
        if visitor.host_key is None and "CA key" in str(exc):
            return errors.revoked_certificate(target, known, str(exc))
        if visitor.host_key is None:  # refused by asyncssh before it was shown to us
            return errors.revoked_unseen(target, known)
        kind, blob = visitor.host_key.get_algorithm(), visitor.host_key.public_data
        match visitor.verdict:
            case "changed":
                return errors.changed_key(target, known, kind, blob)
            case "revoked":
                return errors.revoked_key(target, known, kind, blob)
            case _:
                return errors.unknown_key(target, kind, blob)

    def _remember(self) -> None:
        """Write down a new key the user wants accepted; not being able to is no reason to fail."""
        key, files = self._visitor.host_key, self._target.known_hosts
        if key is not None and self._visitor.verdict == "unknown" and files:
            with suppress(OSError):
                self._files.add(files[0], self._known.name, key.get_algorithm(), key.public_data)
