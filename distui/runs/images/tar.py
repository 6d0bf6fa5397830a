"""Reads a tar archive that comes from a host, strictly, as it comes: entries, their contents, and the end.

Programs disagree about archives that are written to be read in two ways (two names for one entry, holes, links out of
it). What is none of the few forms that engines write is refused, and what is passed on gets a header made here.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Literal

from distui.frozen import frozen
from distui.whole import whole

BLOCK = 512
_MOST_EXTENDED = 1 << 20
"""Bytes of a header that says more about the next entry."""
_MOST_HEADERS = 16
"""How many such headers one entry may have; programs write two at most."""
_MOST_AFTER = 1 << 20
"""Bytes that may follow the end: programs fill up the last record with them."""
_TYPES: dict[bytes, Literal["file", "folder", "link", "hard link"]] = {
    b"0": "file", b"\0": "file", b"5": "folder", b"2": "link", b"1": "hard link",
}  # fmt: skip
_TAR_TYPES = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE}


class BadArchive(ValueError):
    """The bytes are no archive of the image that was asked for."""


@frozen
class TarEntry:
    """What an entry's headers say."""

    name: str
    kind: Literal["file", "folder", "link", "hard link"] = "file"
    size: int = 0
    target: str = ""
    """Of a link."""

    @property
    def header(self) -> bytes:
        """Headers that every program reads alike."""
        info = tarfile.TarInfo(self.name)
        info.type, info.size, info.linkname = _TAR_TYPES[self.kind], self.size, self.target
        info.mode = 0o755 if self.kind == "folder" else 0o644
        return info.tobuf(tarfile.PAX_FORMAT)


END = TarEntry("")
"""After the last entry."""


def padding(size: int) -> bytes:
    """What follows a content of `size` bytes."""
    return bytes(-size % BLOCK)


class TarReader:
    """Takes an archive in pieces of any size; gives each entry, then its content in pieces, and END once."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._content = 0
        """Bytes of the entry's content that are still to come."""
        self._padding = 0
        self._more: dict[str, str] = {}
        """What an extended header says about the next entry."""
        self._extended: bytes = b""
        """The type of the extended header whose content is coming."""
        self._words = bytearray()
        self._headers = 0
        """Extended headers since the last entry."""
        self._after = 0
        self.ended = False

    def feed(self, data: bytes) -> Iterator[TarEntry | bytes]:
        """The next bytes. Raises BadArchive."""
        if self.ended:
            self._pass(len(data))
            return
        self._buffer += data
        while self._buffer and not self.ended:
            if self._content:
                piece = self._take(self._content)
                self._content -= len(piece)
                yield from self._said(piece)
            elif self._padding:
                self._padding -= len(self._take(self._padding))
            elif len(self._buffer) >= BLOCK:
                yield from self._header(self._take(BLOCK))
            else:
                return
        if self.ended:
            self._pass(len(self._buffer))

    def _pass(self, count: int) -> None:
        """Bytes behind the end: no program needs many of them, and who waits for their end may wait for ever."""
        self._after += count
        if self._after > _MOST_AFTER:
            raise BadArchive("goes on after its end")

    def _take(self, most: int) -> bytes:
        piece = bytes(self._buffer[:most])
        del self._buffer[:most]
        return piece

    def _said(self, piece: bytes) -> Iterator[bytes]:
        if not self._extended:
            yield piece
            return
        self._words += piece
        if not self._content:
            self._learn(self._extended, bytes(self._words))
            self._extended = b""
            self._words.clear()

    def _header(self, block: bytes) -> Iterator[TarEntry]:
        if not any(block):
            self.ended = True
            yield END
            return
        kind = _checked(block)
        size = int(self._more["size"]) if "size" in self._more and kind in _TYPES else _number(block[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            self._begin(kind, size)
            return
        if kind not in _TYPES:
            raise BadArchive(f"holds what is neither file, folder nor link (type {kind!r})")
        entry = TarEntry(
            self._more.get("path", _name(block)),
            _TYPES[kind],
            size if _TYPES[kind] == "file" else 0,
            self._more.get("linkpath", _text(block[157:257])),
        )
        if _TYPES[kind] != "file" and size:
            raise BadArchive(f"gives a {_TYPES[kind]} a content")
        self._more = {}
        self._headers = 0
        self._begin(b"", entry.size)
        yield entry

    def _begin(self, extended: bytes, size: int) -> None:
        if extended and not 0 < size <= _MOST_EXTENDED:
            raise BadArchive("has a header without a sane size")
        self._headers += bool(extended)
        if self._headers > _MOST_HEADERS:
            raise BadArchive("has headers for nothing")
        self._extended, self._content, self._padding = extended, size, -size % BLOCK

    def _learn(self, kind: bytes, words: bytes) -> None:
        if kind in (b"L", b"K"):
            self._more["path" if kind == b"L" else "linkpath"] = _text(words)
            return
        said = dict(_records(words))
        if any(key.startswith("GNU.sparse") for key in said) or (
            kind == b"g" and {"path", "size", "linkpath"} & {*said}
        ):
            raise BadArchive("has headers that programs read differently")
        if whole(said.get("size", "0")) is None:
            raise BadArchive("says a size that is none")
        self._more |= {key: said[key] for key in ("path", "linkpath", "size") if key in said and kind == b"x"}


def _checked(block: bytes) -> bytes:
    """The type of a header. Raises BadArchive for what is none."""
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    if block[257:262] != b"ustar" or total != _number(block[148:156]):
        raise BadArchive("is not a tar archive")
    return block[156:157]


def _name(block: bytes) -> str:
    prefix = _text(block[345:500]) if block[257:263] == b"ustar\0" else ""
    return f"{prefix}/{_text(block[:100])}" if prefix else _text(block[:100])


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _records(words: bytes) -> Iterator[tuple[str, str]]:
    """`LENGTH KEY=VALUE` lines of an extended header (POSIX pax). Raises BadArchive."""
    while words:
        length, blank, _ = words.partition(b" ")
        count = whole(length, 8) or 0
        key, equals, value = words[len(length) + 1 : count - 1].partition(b"=")
        if not (blank and equals and 0 < count <= len(words)):
            raise BadArchive("has a header that can't be read")
        yield _text(key), _text(value)
        words = words[count:]


def _number(field: bytes) -> int:
    """A size in octal, or in base 256 from 8 GB. Raises BadArchive."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:])
    try:
        value = int(field.split(b"\0", 1)[0].strip(b" ") or b"0", 8)
    except ValueError as exc:
        raise BadArchive(f"has a size that is none: {field!r}") from exc
    if value < 0:
        raise BadArchive(f"has a size that is none: {field!r}")
    return value
