"""What of a Python traceback nobody needs to read first: frames of libraries, and notes that always follow. Pure.

A frame is its `File "..."` line and what is indented below it (code, `^^^^` marks), all with the same before it: a
rank, where a launcher writes that, the margin of an exception group. Frames of one's own code stay, and so does the
package that was started when that is an installed one (`python -m mytrain`); library frames in a row fold into one. The
lines CUDA adds to every error fold too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from distui.amounts import counted
from distui.frozen import frozen
from distui.regex import regex
from distui.runs.lines.prefixes import Parts, parts

_FRAME = regex(r'^(\s*+File ")([^"]+)(", line \d+, in .*)$')
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
class Frame:
    """The `File "..."` line of a frame."""

    line: Parts
    path: str
    function: str
    """How the line ends: `, line 7, in <module>`."""
    begin: int
    """Where in the line the path begins."""

    @property
    def end(self) -> int:
        """Where the path ends."""
        return self.begin + len(self.path)


def frame_of(line: str) -> Frame | None:
    """The frame that a line begins, whoever it is of."""
    if 'File "' not in line:
        return None
    said = parts(line)
    found = _FRAME.match(said.text)
    if found is None:
        return None
    return Frame(said, found[2], found[3], len(said.prefix) + found.end(1))


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
        if HEAD in line and (package := _started(lines, at)):
            found.add(package)
    return frozenset(found - _LAUNCHERS)


def _started(lines: Sequence[str], head: int) -> str:
    """The package of the first frame that is not what starts programs, when the program begins with it."""
    by_script, above, at = False, parts(lines[head]), head + 1
    while at < len(lines) and (frame := frame_of(lines[at])) is not None and frame.line.is_beside(above):
        if not _STARTS.search(frame.path):
            package = _PACKAGE.match(frame.path)
            return package[1] if package and (by_script or frame.function.endswith(" in <module>")) else ""
        by_script = by_script or "/bin/" in frame.path
        at = _end(lines, at, frame)
    return ""


def folds(lines: Sequence[str], own: Collection[str] = ()) -> list[Fold]:
    """What to fold in these lines, in order; they may begin and end in the middle of a traceback. `own` are installed
    packages that are known to be one's own.
    """
    found: list[Fold] = []
    own = started(lines).union(own)
    i = 0
    while i < len(lines):
        fold = _frames(lines, i, own) or _notes(lines, i)
        if fold is not None and fold.hidden > 0:
            found.append(fold)
        i = fold.stop if fold is not None else i + 1
    return found


def _frames(lines: Sequence[str], at: int, own: Collection[str]) -> Fold | None:
    """The library frames in a row that begin here, of one rank and exception."""
    first, stop = frame_of(lines[at]), at
    paths: list[str] = []
    while first is not None and stop < len(lines) and (frame := frame_of(lines[stop])) is not None:
        if not frame.line.is_beside(first.line) or not is_library(frame.path, own):
            break
        paths.append(frame.path)
        stop = _end(lines, stop, frame)
    if not paths:
        return None
    return Fold(at, stop, f"{counted(len(paths), 'frame')} in {_named(paths)}")


def _end(lines: Sequence[str], at: int, frame: Frame) -> int:
    """Where the frame that begins here ends: code and marks are indented deeper than its `File` line."""
    depth = _indent(frame.line.text)
    stop = at + 1
    while stop < len(lines) and (text := frame.line.text_of(lines[stop])) and text.strip():
        if _indent(text) <= depth or frame_of(lines[stop]) is not None:
            break
        stop += 1
    return stop


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _named(paths: Sequence[str]) -> str:
    short = dict.fromkeys(_ROOTS.sub("", path) for path in paths)
    return ", ".join([*list(short)[:NAMED], *(["..."] if len(short) > NAMED else [])])


def _notes(lines: Sequence[str], at: int) -> Fold | None:
    """CUDA's advice and native frames that begin here, of one rank; blank lines between them belong to them."""
    first = parts(lines[at])
    if not _is_note(first.text):
        return None
    stop = last = at
    while stop < len(lines):
        text = first.text_of(lines[stop])
        if lines[stop].strip() and (text is None or (text.strip() and not _is_note(text))):
            break
        stop += 1
        last = stop if text and text.strip() else last
    return Fold(at, last, f"{last - at} lines: {first.text[:60].strip()}")


def _is_note(text: str) -> bool:
    return bool(_NOTE.match(text) or _NATIVE.match(text))


def around(lines: Sequence[str], first: int, own: Collection[str] = ()) -> Iterator[Fold]:
    """The folds of lines that begin with number `first` of their log."""
    for fold in folds(lines, own):
        yield Fold(fold.start + first, fold.stop + first, fold.words)
