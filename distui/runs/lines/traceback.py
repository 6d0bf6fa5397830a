"""What of a Python traceback nobody needs to read first: frames of libraries, and notes that always follow. Pure.

A frame is its `File "..."` line and what is indented below it (code, `^^^^` marks). Frames of one's own code stay,
and so does the package that was started when that is an installed one (`python -m mytrain`); library frames in a row
fold into one. The lines CUDA adds to every error fold too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from distui.amounts import counted
from distui.frozen import frozen
from distui.regex import regex

RANK_PREFIX = regex(r"^\[(?:rank|default)\d+\]:? ?")
"""What torch and torchrun put before a rank's lines."""
FRAME = regex(r'^(\s*+(?:\[rank\d+\]:? ?\s*+)?File ")([^"]+)(", line \d+, in .*)$')
LIBRARY = regex(
    r"/lib(?:64)?/(?:python|pypy)\d\.\d+t?/|/lib(?:64)?/(?:python|pypy)\d/dist-packages/"
    r"|^<(?:frozen |@beartype|__array_function__|attrs |decorator-gen|eval_with_key|lambdify)"
)
"""Files of others: Python itself and what was installed into it. What Python was given on its command line or typed is
one's own (`<string>`, `<stdin>`, a cell of a notebook).
"""
_KNOWN = regex(
    r"(?:^|/)(?:site|dist)-packages/(?:accelerate|datasets|deepspeed|flax|horovod|jax|jaxlib|keras|lightning"
    r"|lightning_fabric|numpy|peft|pytorch_lightning|ray|scipy|tensorflow|torch|torchvision|transformers|triton|trl)/"
)
"""Packages that are nobody's own, wherever they were installed (`pip install --target`); what else lies in a folder of
such a name may be.
"""
HEAD = "Traceback (most recent call last)"
_PACKAGE = regex(r".*/(?:site|dist)-packages/([^/]+)")
_STARTS = regex(r"^<frozen |/lib(?:64)?/[^/]+/runpy\.py$|/s?bin/[^/]+$")
"""What runs a program and is not it: Python's own start, a script that an install has written."""
_LAUNCHERS = frozenset({"torch", "accelerate", "deepspeed", "horovod", "lightning", "lightning_fabric", "ray"})
_ROOTS = regex(r".*(?:site-packages|dist-packages|/lib(?:64)?/(?:python|pypy)[\d.]+t?)/")
_NOTE = regex(
    r"^(?:CUDA kernel errors might be|For debugging consider passing CUDA_LAUNCH|Compile with `TORCH_USE_CUDA"
    r"|Device-side assertion tracking|Search for `cuda\w+' in|Exception raised from )"
)
_NATIVE = regex(r"^frame #\d+: (?!.* in /(?!usr/|lib|opt/\S*/lib/|\S*/lib(?:64)?/python\d)\S+\.so\)$)")
"""Frames of what is no Python, but not of a library that was built of one's own code: it lies where no others do."""
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


def is_library(path: str, own: Collection[str] = ()) -> bool:
    """Whether a file of a frame is not one's own; `own` are installed packages that are."""
    if LIBRARY.search(path) is None:
        return _KNOWN.search(path) is not None
    package = _PACKAGE.match(path) if own else None
    return package is None or package[1] not in own


def started(lines: Sequence[str]) -> frozenset[str]:
    """The installed packages that tracebacks in these lines begin in: the program itself was started from there."""
    found = set()
    for at, line in enumerate(lines):
        if HEAD in line and (package := _started(lines, at + 1)):
            found.add(package)
    return frozenset(found - _LAUNCHERS)


def own_packages(lines: Sequence[str]) -> frozenset[str]:
    """`started`, of lines with the rank before them."""
    return started([RANK_PREFIX.sub("", line) for line in lines])


def _started(lines: Sequence[str], at: int) -> str:
    """The package of the first frame that is not what starts programs, when the program begins with it."""
    by_script = False
    while at < len(lines) and (frame := FRAME.match(lines[at])) is not None:
        if not _STARTS.search(frame[2]):
            package = _PACKAGE.match(frame[2])
            return package[1] if package and (by_script or frame[3].endswith(" in <module>")) else ""
        by_script = by_script or "/bin/" in frame[2]
        at = _end(lines, at)
    return ""


def folds(lines: Sequence[str]) -> list[Fold]:
    """What to fold in these lines, in order; they may begin and end in the middle of a traceback."""
    plain = [RANK_PREFIX.sub("", line) for line in lines]
    found: list[Fold] = []
    own = started(plain)
    i = 0
    while i < len(plain):
        fold = _frames(plain, i, own) or _notes(plain, i)
        if fold is not None and fold.hidden > 0:
            found.append(fold)
        i = fold.stop if fold is not None else i + 1
    return found


def _frames(lines: Sequence[str], at: int, own: Collection[str]) -> Fold | None:
    """The library frames in a row that begin here."""
    paths, stop = [], at
    while stop < len(lines) and (frame := FRAME.match(lines[stop])) is not None and is_library(frame[2], own):
        paths.append(frame[2])
        stop = _end(lines, stop)
    if not paths:
        return None
    return Fold(at, stop, f"{counted(len(paths), 'frame')} in {_named(paths)}")


def _end(lines: Sequence[str], at: int) -> int:
    """Where the frame that begins here ends: code and marks are indented deeper than its `File` line."""
    depth = _indent(lines[at])
    stop = at + 1
    while stop < len(lines) and lines[stop].strip() and _indent(lines[stop]) > depth and not FRAME.match(lines[stop]):
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
