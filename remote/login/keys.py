"""The login keys for a host, in the order they are shown: key files first, then what else the agent has.

sshd ends the login after MaxAuthTries keys (6), so the files named for a host must come before an agent with
twenty keys. Nothing here ever asks for a passphrase: a locked key is passed over and named when no other key works.
"""

from __future__ import annotations

import asyncio
import math
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import asyncssh

from distui.frozen import frozen
from distui.remote.config import DEFAULT_IDENTITIES, Resolved
from distui.remote.login.known_hosts import fingerprint

T = TypeVar("T")

_AGENT_PATIENCE = 5.0
"""Seconds an agent has to list its keys: a forwarded one may be dead."""

_SILENT_FOR = 60.0
"""Seconds for which one that did not answer is not asked again: each login would wait for it, one after the other. A
forwarded one may be back after that, and whoever follows a run for days logs in again."""


@frozen
class Candidate:
    """One key to log in with, and what to call it in a message."""

    pair: asyncssh.SSHKeyPair
    label: str

    @property
    def print(self) -> str:
        """The key's fingerprint."""
        return fingerprint(self.pair.public_data)


@frozen
class KeyRing:
    """The keys for one login, and why others can't be used."""

    candidates: tuple[Candidate, ...] = ()
    locked: tuple[Path, ...] = ()
    """Key files with a passphrase that no agent holds."""
    unreadable: tuple[str, ...] = ()
    """Key files that can't be read or must not be used, each with the reason."""
    missing: tuple[Path, ...] = ()
    """Key files that the ssh config names and that are not there; ssh's own defaults need not be."""
    agent_problem: str = ""
    """Why the agent that is set could not be asked."""


class Locked(Exception):
    """The key file has a passphrase."""


class _AgentClient(asyncssh.SSHAgentClient):
    """One question at a time; after one that was cancelled, by a login that was given up, another connection: what is
    answered yet would be taken for the answer to the next one, and a signature for another login's.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._turn = asyncio.Lock()
        self._stale = False

    async def sign(self, key_blob: bytes, data: bytes, flags: int = 0) -> bytes:
        """See asyncssh."""
        return await self._alone(lambda: super(_AgentClient, self).sign(key_blob, data, flags))

    async def get_keys(self, identities: Sequence[bytes] | None = None) -> Sequence[asyncssh.SSHKeyPair]:
        """See asyncssh."""
        return await self._alone(lambda: super(_AgentClient, self).get_keys(identities))

    async def _alone(self, ask: Callable[[], Awaitable[T]]) -> T:
        async with self._turn:
            if self._stale:
                try:
                    await self.connect()
                except OSError as exc:
                    raise ValueError(str(exc)) from exc  # as asyncssh says it of one that is gone
                self._stale = False
            try:
                return await ask()
            except asyncio.CancelledError:
                self.close()
                self._stale = True
                raise


class Agent:
    """A connection to one ssh-agent, made when first needed and shared by all logins."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._client: asyncssh.SSHAgentClient | None = None
        self._lock = asyncio.Lock()
        self._silent_until = -math.inf

    async def pairs(self) -> list[asyncssh.SSHKeyPair]:
        """The agent's keys. Raises OSError or ValueError when it can't be asked, TimeoutError at once for a while after
        it did not answer.
        """
        async with self._lock:
            if time.monotonic() < self._silent_until:
                raise TimeoutError
            kept = self._client is not None
            try:
                async with asyncio.timeout(_AGENT_PATIENCE):
                    try:
                        return await self._listed()
                    except (OSError, ValueError, asyncssh.Error):
                        if not kept:
                            raise
                        self.close()  # it was started again since, or has an answer for a login that was given up
                        return await self._listed()
            except TimeoutError:
                self._silent_until = time.monotonic() + _SILENT_FOR
                raise

    async def _listed(self) -> list[asyncssh.SSHKeyPair]:
        if self._client is None:
            client = _AgentClient(self._path)
            await client.connect()
            self._client = client
        return list(await self._client.get_keys())

    def close(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.close()
            self._client = None


_Cache = dict[Path, tuple[tuple[int, ...] | None, asyncssh.SSHKey | Exception]]
"""Key file -> what it was like when it was read, and the key in it, or why there is none."""


class Keys:
    """Reads key files, each once until it changes, and asks agents; remembers the key that worked last, to show it
    first.
    """

    def __init__(self) -> None:
        self._files: _Cache = {}
        self._agents: dict[str, Agent] = {}
        self._worked: str = ""

    async def ring(self, target: Resolved) -> KeyRing:
        """All keys for `target`."""
        held, problem = await self._agent_pairs(target.agent)
        files = _Files(self._files, held)
        for path in target.identity_files:
            files.take(path, target.certificate_files)
        rest = () if target.identities_only else tuple(_agent_candidate(pair) for pair in held.values())
        found = _unique((*files.candidates, *rest))
        first = sorted(found, key=lambda one: one.print != self._worked)
        return KeyRing(tuple(first), tuple(files.locked), tuple(files.unreadable), tuple(files.missing), problem)

    def worked(self, candidate: Candidate) -> None:
        """A host took this key: the next will probably take it too."""
        self._worked = candidate.print

    def close(self) -> None:
        """Hang up on agents."""
        for agent in self._agents.values():
            agent.close()

    async def _agent_pairs(self, path: str | None) -> tuple[dict[bytes, asyncssh.SSHKeyPair], str]:
        if path is None:
            return {}, ""
        agent = self._agents.setdefault(path, Agent(path))
        try:
            return {pair.public_data: pair for pair in await agent.pairs()}, ""
        except TimeoutError:  # it may be at work on a signature for another login: waiting for a touch, say
            reason = "does not answer"
        except (OSError, ValueError, asyncssh.Error) as exc:
            agent.close()
            reason = str(exc)
        return {}, f"the ssh agent at {path} can't be used: {reason}"


class _Files:
    """Turns key files into candidates, taking the agent's copy of a key where there is one."""

    def __init__(self, cache: _Cache, held: dict[bytes, asyncssh.SSHKeyPair]) -> None:
        self._cache = cache
        self._held = held
        self.candidates: list[Candidate] = []
        self.locked: list[Path] = []
        self.unreadable: list[str] = []
        self.missing: list[Path] = []

    def take(self, path: Path, certificates: tuple[Path, ...]) -> None:
        """Add the key in `path`; a file that does not exist is passed over, as ssh does, and kept in mind."""
        public = _public_data(path)
        if public is not None and public in self._held:
            self.candidates.append(Candidate(self._held[public], f"{path} (agent)"))
            return
        match key := self._key(path):
            case FileNotFoundError():
                self.missing += [path] if path.name not in DEFAULT_IDENTITIES else []
            case Locked():
                self.locked.append(path)
            case Exception():
                self.unreadable.append(f"{path}: {key}")
            case _:
                pairs = asyncssh.load_keypairs([key], certlist=_certificates(path, certificates))
                self.candidates += [Candidate(pair, str(path)) for pair in pairs]

    def _key(self, path: Path) -> asyncssh.SSHKey | Exception:
        """What is in it now: in the weeks of a run keys are renewed, and what an error named is mended."""
        stamp = _stamp(path)
        known = self._cache.get(path)
        if known is None or known[0] != stamp:
            known = self._cache[path] = (stamp, _read(path))
        return known[1]


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What is another when a file was changed, or its mode; None where there is none to be seen."""
    try:
        info = path.stat()
    except OSError:
        return None
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _read(path: Path) -> asyncssh.SSHKey | Exception:
    """The private key in `path`, or why not: an answer worth keeping, since all hosts ask the same."""
    try:
        _check_private(path)
        return asyncssh.read_private_key(path)
    except asyncssh.KeyEncryptionError:
        return Locked()
    except asyncssh.KeyImportError as exc:
        return Locked() if "assphrase" in str(exc) else ValueError(str(exc))
    except ValueError as exc:  # the numbers of an RSA key that fit no key
        return exc
    except FileNotFoundError as exc:
        return exc
    except OSError as exc:
        return ValueError(exc.strerror or str(exc))


def _check_private(path: Path) -> None:
    """ssh refuses keys that others may read; so do we."""
    info = path.stat()
    if info.st_uid == os.getuid() and stat.S_IMODE(info.st_mode) & 0o077:
        raise OSError(0, f"others may read it (mode {stat.S_IMODE(info.st_mode):04o}): chmod 600")


def _public_data(path: Path) -> bytes | None:
    """The public half, from `path.pub`, or from `path` itself when it names a public key held by an agent."""
    for place in (path.with_name(path.name + ".pub"), path):
        with suppress(OSError, ValueError):
            return asyncssh.read_public_key(place).public_data
    return None


def _certificates(path: Path, named: tuple[Path, ...]) -> list[asyncssh.SSHCertificate]:
    found: list[asyncssh.SSHCertificate] = []
    for place in (path.with_name(path.name + "-cert.pub"), *named):
        with suppress(OSError, ValueError):
            found.append(asyncssh.read_certificate(place))
    return found


def _agent_candidate(pair: asyncssh.SSHKeyPair) -> Candidate:
    comment = pair.get_comment()
    return Candidate(pair, f"{comment or fingerprint(pair.public_data)} (agent)")


def _unique(candidates: Iterable[Candidate]) -> list[Candidate]:
    seen: dict[bytes, Candidate] = {}
    for one in candidates:
        seen.setdefault(one.pair.public_data, one)
    return list(seen.values())
