"""What of a Python traceback nobody needs to read first: frames of libraries, and notes that always follow. Pure.

A frame is its `File "..."` line and what is indented below it (code, `^^^^` marks). Frames of one's own code stay;
library frames in a row fold into one. The lines CUDA adds to every error fold too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distui.frozen import frozen
from distui.regex import regex

RANK_PREFIX = regex(r"^\[(?:rank|default)\d+\]:? ?")
"""What torch and torchrun put before a rank's lines."""
FRAME = regex(r'^(\s*+(?:\[rank\d+\]:? ?\s*+)?File ")([^"]+)(", line \d+, in .*)$')
LIBRARY = regex(r"site-packages|dist-packages|/lib/python\d|^<|/runpy\.py|importlib/_bootstrap")
_ROOTS = regex(r".*(?:site-packages|dist-packages|/lib/python[\d.]+)/")
_NOTE = regex(
    r"^(?:CUDA kernel errors might be|For debugging consider passing CUDA_LAUNCH|Compile with `TORCH_USE_CUDA"
    r"|Device-side assertion tracking|Search for `cuda\w+' in|Exception raised from )"
)
_NATIVE = regex(r"^frame #\d+: ")
NAMED = 2
"""Files a fold names."""


@frozen
class Fold:
    """Lines `start` to `stop` (not included) of a text, and what stands for them."""

    start: int
    stop: int
    words: str

    @property
    def hidden(self) -> int:
        """Lines that are not seen while it is closed: the mark stands in the place of the first."""
        return self.stop - self.start - 1


def is_library(path: str) -> bool:
    """Whether a file of a frame is not one's own."""
    return LIBRARY.search(path) is not None


def folds(lines: Sequence[str]) -> list[Fold]:
    """What to fold in these lines, in order; they may begin and end in the middle of a traceback."""
    plain = [RANK_PREFIX.sub("", line) for line in lines]
    found: list[Fold] = []
    i = 0
    while i < len(plain):
        fold = _frames(plain, i) or _notes(plain, i)
        if fold is not None and fold.hidden > 0:
            found.append(fold)
        i = fold.stop if fold is not None else i + 1
    return found


def _frames(lines: Sequence[str], at: int) -> Fold | None:
    """The library frames in a row that begin here."""
    paths, stop = [], at
    while stop < len(lines) and (frame := FRAME.match(lines[stop])) is not None and is_library(frame[2]):
        paths.append(frame[2])
        stop = _end(lines, stop)
    if not paths:
        return None
    return Fold(at, stop, f"{len(paths)} frame{'s' * (len(paths) != 1)} in {_named(paths)}")


def _end(lines: Sequence[str], at: int) -> int:
    """Where the frame that begins here ends: code and marks are indented deeper than its `File` line."""
    depth = _indent(lines[at])
    stop = at + 1
    while stop < len(lines) and lines[stop].strip() and _indent(lines[stop]) > depth:
        stop += 1
    return stop


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _named(paths: Sequence[str]) -> str:
    short = dict.fromkeys(_ROOTS.sub("", path) for path in paths)
    return ", ".join([*list(short)[:NAMED], *(["..."] if len(short) > NAMED else [])])


def _notes(lines: Sequence[str], at: int) -> Fold | None:
    """CUDA's advice and native frames that begin here; blank lines between them belong to them."""
    if not (_NOTE.match(lines[at]) or _NATIVE.match(lines[at])):
        return None
    stop = last = at
    while stop < len(lines) and (not lines[stop].strip() or _NOTE.match(lines[stop]) or _NATIVE.match(lines[stop])):
        stop += 1
        last = stop if lines[stop - 1].strip() else last
    return Fold(at, last, f"{last - at} lines: {lines[at][:60].strip()}")


def around(lines: Sequence[str], first: int) -> Iterator[Fold]:
    """The folds of lines that begin with number `first` of their log."""
    for fold in folds(lines):
        yield Fold(fold.start + first, fold.stop + first, fold.words)
