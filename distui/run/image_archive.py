"""Reads the archive that `docker save` writes as it comes, and tells which bytes are which layer of the image.

Three forms: Docker 25 and later writes `blobs/sha256/DIGEST`, podman `DIGEST.tar`, both by the layer's own digest;
before that Docker wrote `ID/layer.tar`, where ID follows from the layers (`legacy_folders`). What is not recognized
is no layer, and is sent to everybody: a form that nobody knows yet costs bytes, never the image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distui.facts.image import legacy_folders
from distui.facts.values import loads

BLOCK = 512
_EXTENSIONS = b"xgLK"
"""Types of headers that only say more about the next one."""
_MOST_JSON = 1 << 20

_BLOB = re.compile(r"(?:blobs/sha256/([0-9a-f]{64})|([0-9a-f]{64})\.tar)")
_LEGACY = re.compile(r"([0-9a-f]{64})/(layer\.tar|json)")


class BadArchive(ValueError):
    """The bytes are no tar archive."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of the archive; `layer` is which of the image's layers they are, None for anything else."""

    data: bytes
    layer: int | None


class LayerReader:
    """Takes an archive in pieces of any size and gives it out again, whole, in pieces that know their layer."""

    def __init__(self, layers: Sequence[str]) -> None:
        self._depth = {digest.removeprefix("sha256:"): i for i, digest in reversed(list(enumerate(layers)))}
        self._folders = {folder: i for i, folder in enumerate(legacy_folders(layers))}
        self._below_top = next(reversed(self._folders), "")
        self._top = len(layers) - 1
        self._buffer = bytearray()
        self._held = bytearray()
        """Headers that belong to the next entry."""
        self._body = 0
        """Bytes of the entry's content, padding included, that are still to come."""
        self._holding = False
        self._layer: int | None = None
        self._peeked: tuple[str, int, bytearray] | None = None
        """Folder, size and content of a legacy layer's `json` that is being passed on."""
        self._ended = False

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The next bytes. Raises BadArchive."""
        self._buffer += data
        while self._buffer:
            if self._ended:
                yield self._take(len(self._buffer))
            elif self._body:
                yield from self._content()
            elif len(self._buffer) >= BLOCK:
                yield from self._header()
            else:
                return

    @property
    def complete(self) -> bool:
        """Whether the archive's end mark was seen."""
        return self._ended

    def _take(self, count: int) -> Piece:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return Piece(data, self._layer)

    def _content(self) -> Iterator[Piece]:
        piece = self._take(min(self._body, len(self._buffer)))
        self._body -= len(piece.data)
        if self._holding:
            self._held += piece.data
            return
        if self._peeked is not None:
            self._peeked[2].extend(piece.data)
            if not self._body:
                self._learn(*self._peeked)
        yield piece

    def _header(self) -> Iterator[Piece]:
        block = bytes(self._buffer[:BLOCK])
        if not any(block):
            self._ended, self._layer = True, None
            return
        if block[257:262] != b"ustar":
            raise BadArchive("not a tar archive")
        del self._buffer[:BLOCK]
        size = _number(block[124:136])
        self._body = -(-size // BLOCK) * BLOCK
        self._holding = block[156:157] in [bytes([kind]) for kind in _EXTENSIONS]
        if self._holding:
            self._held += block
            return
        name = block[:100].split(b"\0", 1)[0].decode("utf-8", "replace")
        self._layer = self._which(name, size)
        head = bytes(self._held) + block
        self._held.clear()
        yield Piece(head, self._layer)

    def _which(self, name: str, size: int) -> int | None:
        self._peeked = None
        if blob := _BLOB.fullmatch(name):
            return self._depth.get(blob[1] or blob[2])
        if legacy := _LEGACY.fullmatch(name):
            if legacy[2] == "layer.tar":
                return self._folders.get(legacy[1])
            if size <= _MOST_JSON:
                self._peeked = (legacy[1], size, bytearray())
        return None

    def _learn(self, folder: str, size: int, text: bytearray) -> None:
        """The uppermost layer is the one that stands on the last but one."""
        self._peeked = None
        try:
            value = loads(text[:size])
        except ValueError:
            return
        parent = value.get("parent", "") if isinstance(value, dict) else None
        if parent == self._below_top and folder not in self._folders:
            self._folders[folder] = self._top


def _number(field: bytes) -> int:
    """A size in octal, or in base 256 from 8 GB. Raises BadArchive."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:])
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError as exc:
        raise BadArchive(f"not a size: {field!r}") from exc


def wanted(layers: Sequence[str], shared: int) -> frozenset[int]:
    """The layers to send to an engine that has the lowest `shared`: those above, and what one of them repeats.

    An archive holds equal layers once, under the lowest one's name or as a link to it.
    """
    above = set(layers[shared:])
    return frozenset(i for i, layer in enumerate(layers) if i >= shared or layer in above)
