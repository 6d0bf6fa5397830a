"""Whether a host's key is the one known_hosts names: known, unknown, changed or revoked.

asyncssh gives one answer for an unknown and a changed key (FAULTS M16). Here the files are read line by line, so
that a message can name the line. Names are matched as sshd(8) describes: plain, `*` and `?`, `!`, hashed with
HMAC-SHA1, `[host]:port`, and the markers @cert-authority and @revoked.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from distui.files import open_fd, read_bytes
from distui.frozen import frozen
from distui.regex import regex

Verdict = Literal["known", "unknown", "changed", "revoked"]
Marker = Literal["", "@cert-authority", "@revoked"]

_LINE = regex(rb"^\s*(?:(@cert-authority|@revoked)\s+)?(\S+)\s+(\S+)\s+([A-Za-z0-9+/=]+)(?:\s.*)?$")
_MARKERS: dict[bytes | None, Marker] = {
    None: "",
    b"@cert-authority": "@cert-authority",
    b"@revoked": "@revoked",
}


@frozen
class Entry:
    """One line of a known_hosts file."""

    path: Path
    line: int
    marker: Marker
    names: str
    kind: str
    """The key type, such as `ssh-ed25519`."""
    blob: bytes
    """The public key in wire format."""

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.path}:{self.line}"

    @property
    def print(self) -> str:
        """The key's fingerprint as ssh shows it."""
        return fingerprint(self.blob)


@frozen
class KnownHost:
    """What the files say about one host. `name` is what its line would begin with."""

    name: str
    keys: tuple[Entry, ...] = ()
    authorities: tuple[Entry, ...] = ()
    revoked: tuple[Entry, ...] = ()
    portless: tuple[Entry, ...] = ()
    """Keys of the plain name, when the port is not 22: good enough to know a key, not to call one changed."""

    def verdict(self, blob: bytes) -> Verdict:
        """What the key `blob` is. Another key than a known one is changed, of whatever type it is."""
        if any(entry.blob == blob for entry in self.revoked):
            return "revoked"
        if any(entry.blob == blob for entry in self.keys + self.portless):
            return "known"
        return "changed" if self.keys else "unknown"

    def trusts_authority(self, blob: bytes) -> bool:
        """Whether certificates signed by the key `blob` are good for this host."""
        revoked = any(entry.blob == blob for entry in self.revoked)
        return not revoked and any(entry.blob == blob for entry in self.authorities)


def fingerprint(blob: bytes) -> str:
    """`SHA256:...` of a public key in wire format."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def parse(text: bytes, path: Path) -> tuple[Entry, ...]:
    """Every line that can be read; ssh passes over the others too."""
    entries = (_entry(line, path, number) for number, line in enumerate(text.splitlines(), 1))
    return tuple(entry for entry in entries if entry is not None)


def _entry(line: bytes, path: Path, number: int) -> Entry | None:
    found = _LINE.match(line)
    if found is None or line.lstrip().startswith(b"#"):
        return None
    try:
        blob = base64.b64decode(found[4], validate=True)
    except binascii.Error:
        return None
    names, kind = found[2].decode("utf-8", "replace"), found[3].decode("utf-8", "replace")
    return Entry(path, number, _MARKERS[found[1]], names, kind, blob)


def host_name(hostname: str, port: int, alias: str | None) -> str:
    """The name a host's key goes by: HostKeyAlias, `host`, or `[host]:port` when the port is not 22."""
    if alias:
        return alias.lower()
    return hostname.lower() if port == 22 else f"[{hostname.lower()}]:{port}"


def matches(names: str, name: str) -> bool:
    """Whether the first field of a line is about `name`."""
    if names.startswith("|1|"):
        return _hashed_matches(names, name)
    found = False
    for pattern in names.lower().split(","):
        if fnmatch.fnmatchcase(name, pattern.removeprefix("!").replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _hashed_matches(names: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in names[3:].split("|"))
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)


class KnownHosts:
    """The known_hosts files, read again whenever they change on disk."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[tuple[int, int], tuple[Entry, ...]]] = {}

    def known(self, files: tuple[Path, ...], hostname: str, port: int, alias: str | None) -> KnownHost:
        """What `files` say about a host. A file that does not exist says nothing."""
        entries = [entry for path in files for entry in self._entries(path)]
        known = _collect(entries, host_name(hostname, port, alias))
        if alias is None and port != 22:
            plain = _collect(entries, hostname.lower())
            known = replace(
                known,
                portless=plain.keys,
                revoked=known.revoked + plain.revoked,
                authorities=known.authorities + plain.authorities,
            )
        return known

    def add(self, path: Path, name: str, kind: str, blob: bytes) -> None:
        """Append a key (one write, so that several writers do not mix lines); nothing to /dev/null. Raises OSError."""
        if os.path.realpath(path) == os.devnull:
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = f"{name} {kind} {base64.b64encode(blob).decode()}\n"
        with os.fdopen(open_fd(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            broken = file.read(1) not in (b"\n", b"")
            file.write((("\n" if broken else "") + line).encode())

    def _entries(self, path: Path) -> tuple[Entry, ...]:
        try:
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if path not in self._read or self._read[path][0] != stamp:
                self._read[path] = (stamp, parse(read_bytes(path), path))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        return self._read[path][1]


def _collect(entries: list[Entry], name: str) -> KnownHost:
    about = [entry for entry in entries if matches(entry.names, name)]

    def of(marker: Marker) -> tuple[Entry, ...]:
        return tuple(entry for entry in about if entry.marker == marker)

    return KnownHost(name, of(""), of("@cert-authority"), of("@revoked"))
