"""Tells whether a value is the one that a run's secret had when it was started, without keeping that value.

The private folder of a run that was started here has a slow, salted hash (scrypt) of each value. A guess takes as long
as a check; values so short that they are not hidden either, which could be guessed, have none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping

from distui.codec import read, write
from distui.facts.values import loads
from distui.files import read_bytes, write_private
from distui.frozen import frozen
from distui.runs.store.runs import StoredRun

SHORTEST = 6
"""Bytes of the shortest value that is hidden: shorter ones are words that logs are full of."""

_KIND = "scrypt 16384 8 1"
"""How they are made: 16 MiB and some 50 ms each."""
_COST = {"n": 16384, "r": 8, "p": 1}


@frozen
class _Checks:
    kind: str
    salt: str
    hashes: Mapping[str, str]
    """Name of a secret -> the hash of its value."""


def bytes_of(value: str) -> bytes:
    """The bytes of a variable's value."""
    return value.encode("utf-8", "surrogateescape")


def keep_checks(stored: StoredRun, values: Mapping[str, str]) -> None:
    """Keep what tells these values from others. Raises OSError."""
    salt = os.urandom(16).hex()
    with contextlib.suppress(AttributeError, ValueError):  # a Python or an OpenSSL without scrypt: nothing to tell by
        hashes = {name: _hash(salt, name, value) for name, value in values.items() if len(bytes_of(value)) >= SHORTEST}
        if hashes:
            made = write(_Checks(_KIND, salt, hashes))
            write_private(stored.path / "secrets.json", json.dumps(made).encode())


def others(stored: StoredRun, values: Mapping[str, str]) -> tuple[str, ...]:
    """Names of those secrets whose value is not the one that the run was started with, as far as that is known."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        kept = read(_Checks, loads(read_bytes(stored.path / "secrets.json")))
        if kept.kind == _KIND:
            known = {name: value for name, value in values.items() if name in kept.hashes}
            return tuple(name for name, value in known.items() if _hash(kept.salt, name, value) != kept.hashes[name])
    return ()


def _hash(salt: str, name: str, value: str) -> str:
    return hashlib.scrypt(bytes_of(value), salt=f"{salt} {name}".encode(), **_COST, dklen=32).hex()
