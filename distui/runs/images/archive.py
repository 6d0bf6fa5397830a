"""Reads the archive that `docker save` writes as it comes, tells which bytes are which layer of the image, and lets
nothing through but that image.

Three forms: Docker 25 and later writes `blobs/sha256/DIGEST`, podman `DIGEST.tar`, both by the layer's own digest;
before that Docker wrote `ID/layer.tar`, where ID follows from the layers (`legacy_folders`). A layer that is not
recognized is sent to everybody: that costs bytes, never the image. What can be no part of an image is refused, and the
lists that name the images are held back to the end and written again (`image_manifest`): an engine that gets an archive
without them takes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distui.amounts import size_words
from distui.facts.image import ImageFacts, legacy_folders
from distui.facts.values import loads
from distui.frozen import frozen
from distui.regex import regex
from distui.runs.images.manifest import LISTS, rewritten
from distui.runs.images.tar import BLOCK, END, BadArchive, TarEntry, TarReader, padding

_SMALL = 1 << 20
"""Bytes of an entry up to which it may be a configuration or a list, and is kept for the checks."""
_MOST_KEPT = 64 << 20
_MOST_ENTRIES = 10_000
_MOST_TIMES, _MOST_MORE = 4, 1 << 30
"""How much larger than the host says the image is its archive may be: a tar has 512 bytes and more for each file,
however small, and there can be one image for each kind of processor in it."""

_HEX = "[0-9a-f]{64}"
_PART = regex(rf"blobs/sha256/{_HEX}|{_HEX}\.(tar|json)|{_HEX}/(layer\.tar|json|VERSION)")
_FOLDER = regex(rf"(blobs|blobs/sha256|{_HEX})/?")
_TARGET = regex(rf"(\.\./)?({_HEX}/layer\.tar|{_HEX}\.tar)")
_BLOB = regex(rf"(?:blobs/sha256/({_HEX})|({_HEX})\.tar)")
_LEGACY = regex(rf"({_HEX})/(layer\.tar|json)")


@frozen
class Piece:
    """Some bytes of the archive; `layer` is which of the image's layers they are, None for anything else."""

    data: bytes
    layer: int | None
    last: int = 1
    """How many bytes at its end are missing in an archive that is cut off before them, for whoever reads it. One that
    only lacks padding counts as whole.
    """


class ImageReader:
    """Takes an archive in pieces of any size and gives out that of `image`, in pieces that know their layer."""

    def __init__(self, image: str, facts: ImageFacts, *, podman: bool = False) -> None:
        self._image, self._facts, self._podman = image, facts, podman
        self._layers = _Layers(facts.layers)
        self._tar = TarReader()
        self._entry = END
        self._left = 0
        """Bytes of the entry's content that are still to come."""
        self._layer: int | None = None
        self._texts: dict[str, bytearray] = {}
        self._kept = 0
        self._size = 0
        """Bytes of all entries so far."""
        self._names: set[str] = set()
        self.complete = False
        """Whether all of the archive was seen and is that of the image."""

    def feed(self, data: bytes) -> Iterator[Piece]:
        """The next bytes. Raises BadArchive."""
        for part in self._tar.feed(data):
            if isinstance(part, bytes):
                yield from self._content(part)
            elif part is END:
                yield from self._end()
            else:
                yield from self._begin(part)

    def _begin(self, entry: TarEntry) -> Iterator[Piece]:
        self._entry, self._left = entry, entry.size
        self._take_name(entry)
        self._take_size(entry)
        self._layer = self._layers.which(entry.name)
        if self._layer is None and entry.kind == "file" and entry.size <= _SMALL:
            self._kept += entry.size
            self._texts[entry.name] = bytearray()
        if self._kept > _MOST_KEPT or (entry.name in LISTS and entry.name not in self._texts):
            raise BadArchive("has lists of a size that no image needs")
        if entry.name not in LISTS:
            yield Piece(entry.header, self._layer)

    def _take_name(self, entry: TarEntry) -> None:
        name = entry.name.rstrip("/")
        match entry.kind:
            case "file":
                known = bool(entry.name in LISTS or _PART.fullmatch(entry.name))
            case "folder":
                known = bool(_FOLDER.fullmatch(entry.name))
            case _:
                known = bool(_PART.fullmatch(entry.name) and _TARGET.fullmatch(entry.target))
        if not known:
            raise BadArchive(f"holds {entry.name[:200]!r}, which is no part of an image")
        if name in self._names or len(self._names) >= _MOST_ENTRIES:
            raise BadArchive(f"holds {name[:200]!r} twice, or too much")
        self._names.add(name)

    def _take_size(self, entry: TarEntry) -> None:
        """All of it lands on the targets' disks before an engine there sees that it is no image."""
        self._size += entry.size
        if self._size > self._facts.size * _MOST_TIMES + _MOST_MORE:
            has, said = size_words(self._size), size_words(self._facts.size)
            raise BadArchive(f"has {has} and more, where the image has {said}")

    def _content(self, data: bytes) -> Iterator[Piece]:
        self._left -= len(data)
        text = self._texts.get(self._entry.name)
        if text is not None:
            text += data
            if not self._left:
                self._layers.learn(self._entry.name, bytes(text))
        if self._entry.name not in LISTS:
            after = b"" if self._left else padding(self._entry.size)
            yield Piece(data + after, self._layer, 1 + len(after))

    def _end(self) -> Iterator[Piece]:
        texts = {name: bytes(text) for name, text in self._texts.items()}
        lists = {name: texts.pop(name) for name in LISTS if name in texts}
        made = rewritten(lists, texts, self._names, self._image, self._facts, podman=self._podman)
        for name, content in made.items():
            header = TarEntry(name, size=len(content)).header
            after = padding(len(content))
            yield Piece(header + content + after, None, 1 + len(after))
        self.complete = True
        yield Piece(bytes(2 * BLOCK), None)


class _Layers:
    """Which entry is which layer."""

    def __init__(self, layers: Sequence[str]) -> None:
        self._depth = {digest.removeprefix("sha256:"): i for i, digest in reversed(list(enumerate(layers)))}
        self._folders = {folder: i for i, folder in enumerate(legacy_folders(layers))}
        self._below_top = next(reversed(self._folders), "")
        self._top = len(layers) - 1

    def which(self, name: str) -> int | None:
        if blob := _BLOB.fullmatch(name):
            return self._depth.get(blob[1] or blob[2])
        if (legacy := _LEGACY.fullmatch(name)) and legacy[2] == "layer.tar":
            return self._folders.get(legacy[1])
        return None

    def learn(self, name: str, text: bytes) -> None:
        """The uppermost layer is the one that stands on the last but one, as its folder's `json` says."""
        legacy = _LEGACY.fullmatch(name)
        if legacy is None or legacy[2] != "json":
            return
        try:
            value = loads(text)
        except (ValueError, RecursionError):
            return
        parent = value.get("parent", "") if isinstance(value, dict) else None
        if parent == self._below_top and legacy[1] not in self._folders:
            self._folders[legacy[1]] = self._top


def wanted(layers: Sequence[str], shared: int) -> frozenset[int]:
    """The layers to send to an engine that has the lowest `shared`: those above, and what one of them repeats.

    An archive holds equal layers once, under the lowest one's name or as a link to it.
    """
    above = set(layers[shared:])
    return frozenset(i for i, layer in enumerate(layers) if i >= shared or layer in above)
