"""Bytes of a rank -> whole lines, and whole lines -> text that is safe to show.

Docker gives a line in pieces of at most 16 KiB, stdout and stderr interleaved; a line is complete per stream.
Files get the exact bytes; only what eyes see is cleaned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from distui.plan.visible import UNSEEN
from distui.regex import regex

Stream = Literal["stdout", "stderr"]

MAX_OPEN = 1 << 20
"""A line without newline is passed on in parts of this many bytes, so that memory stays bounded."""


Cut = Callable[[bytes], int]
"""How many bytes of a line that has no end may be passed on alone: what a secret is cut by is not found in it."""


@dataclass(slots=True)
class LineAssembler:
    """Joins the pieces of one task's two streams into lines; keeps what is still open."""

    cut: Cut = len
    _open: dict[Stream, bytearray] = field(default_factory=dict)

    def feed(self, stream: Stream, data: bytes) -> Iterator[bytes]:
        """The lines that `data` completes, each with its newline (parts of an endless line come without)."""
        held = self._open.setdefault(stream, bytearray())
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            line = data[start:end]
            if held:  # what is held has no newline: only the new bytes are searched
                line = bytes(held) + line
                held.clear()
            yield line
            start = end
        held += data[start:]
        if len(held) >= MAX_OPEN:
            part = bytes(held)
            at = self._end_of_part(part)
            yield part[:at]
            del held[:at]

    def _end_of_part(self, part: bytes) -> int:
        """Where a line without an end is cut: a progress bar behind what it drew last, so that no number is."""
        drawn = part.rfind(b"\r") + 1
        if drawn and self.cut(part[:drawn]) == drawn:
            return drawn
        return self.cut(part) or len(part)

    @property
    def clean(self) -> bool:
        """Whether no line is open: only then does the file hold all that was received."""
        return not any(self._open.values())

    @property
    def drawn(self) -> bytes:
        """What a progress bar shows that has no newline yet; of what `\\r` ends or overwrites, the newest part that is
        surely whole. Empty where no bar is open.
        """
        for held in self._open.values():
            if (end := held.rfind(b"\r")) > 0:
                return bytes(held[held.rfind(b"\r", 0, end) + 1 : end])
        return b""

    def flush(self) -> Iterator[tuple[Stream, bytes]]:
        """The open ends of both streams, at the end of the log."""
        for stream, held in self._open.items():
            if held:
                yield stream, bytes(held)
                held.clear()


LONGEST = 16 << 20
"""Bytes of a line that are printed of a log; the file has all of it."""


class WholeLines:
    """Reads of any size -> whole lines without their newline: a long line is copied once.

    One beyond `LONGEST` ends there with a mark that says how much was left out, so that memory stays bounded.
    """

    def __init__(self, cut: Cut = len) -> None:
        self._cut = cut
        self._open: list[bytes] = []
        self._size = 0
        """Bytes of the open line, those that are not kept too."""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        first, *others = data.split(b"\n")
        self._add(first)
        if not others:
            return []
        lines = [self._whole(), *others]
        self._add(lines.pop())
        return lines

    def rest(self) -> list[bytes]:
        """The last line when it has no newline, else nothing."""
        last = self._whole()
        return [last] if last else []

    def _add(self, data: bytes) -> None:
        if (room := LONGEST - self._size) > 0:
            self._open.append(data[:room])
        self._size += len(data)

    def _whole(self) -> bytes:
        """The open line; the next one is open then."""
        line, size = b"".join(self._open), self._size
        self._open, self._size = [], 0
        if size <= LONGEST:
            return line
        line = line[: self._cut(line)]
        return line + f" ... and {size - len(line)} bytes more in the log file".encode()


_SGR = regex(r"\x1b\[[0-9;:]*m")
ESCAPE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\r\n]*(?:\x1b\\)?|[ -/]*[0-~])?"
"""What is taken out of a line, in one pass, before it is shown; secrets are looked for as if it were (`masking.py`).
One that is never ended goes no further than its line, or what `\\r` leaves of it.
"""
_ESCAPES = regex(ESCAPE)
_CONTROL = regex(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{UNSEEN}\ud800-\udfff]")
"""C0, C1, what is not seen, and halves of characters."""


def text_of(line: bytes) -> str:
    """A line as text: no newline, bytes that are not UTF-8 as U+FFFD."""
    return line.rstrip(b"\r\n").decode("utf-8", "replace")


def last_drawn(line: bytes) -> bytes:
    """The same of bytes as `last_segment`. Taken before a line is cut: of a bar the end counts, not the beginning."""
    return line.rstrip(b"\r\n").rpartition(b"\r")[2]


def last_segment(text: str) -> str:
    """What a terminal would show of a progress bar: the last part that `\\r` did not overwrite."""
    return text.rstrip("\r").rsplit("\r", 1)[-1]


def safe(text: str, *, colour: bool = False) -> str:
    """Text that a terminal only shows: escapes and control characters removed, colours kept when asked.

    Nothing a rank prints may move the cursor, set a title, answer a query or write the clipboard.
    """
    text = last_segment(text)
    if "\x1b" not in text:
        return _CONTROL.sub("\ufffd", text)
    kept = []
    position = 0
    for match in _SGR.finditer(text):
        kept += [_plain(text[position : match.start()]), _visible(match.group()) if colour else ""]
        position = match.end()
    return "".join([*kept, _plain(text[position:])])


def safe_lines(text: str) -> str:
    """Lines of a message, each as `safe`, but all of each: a `\\r` in one hides nothing that was before it."""
    lines = (line.rstrip("\r").replace("\r", "\N{REPLACEMENT CHARACTER}") for line in text.split("\n"))
    return "\n".join(map(safe, lines))


_SHOWN = frozenset(
    ("", *map(str, (0, 1, 2, 3, 4, 7, 9, 21, 22, 23, 24, 27, 29, *range(31, 37), 39, 90, *range(91, 97))))
)
"""What of colours and styles is kept: readable on dark and on light. Not conceal (8), nor what can make text the colour
of its ground: backgrounds, black, white, and colours by number."""


def _visible(sequence: str) -> str:
    """A sequence of colours and styles without what can hide text; empty when nothing is left."""
    words = iter(sequence[2:-1].split(";"))
    kept = []
    for word in words:
        number = word.lstrip("0") or word[:1]
        if number in ("38", "48", "58"):  # the colour follows: `5;N` or `2;R;G;B`
            for _ in range({"5": 1, "2": 3}.get(next(words, ""), 0)):
                next(words, "")
        elif number in _SHOWN:
            kept.append(number)
    return f"\x1b[{';'.join(kept)}m" if kept else ""


def _plain(text: str) -> str:
    return _CONTROL.sub("\ufffd", _ESCAPES.sub("", text))


_IDLE = regex(
    r"(?:\[rank\d{1,9}\]: ?)?(?:\s*@ +0x[0-9a-f]|frame #\d{1,9}: |\*\*\* Check failure stack trace)|-{40,}$"
    r"|NOTE: invoking MPI_ABORT |You may or may not see output from other processes, |exactly when Open MPI kills them"
)
"""Lines below an error that tell nothing of it: frames of compiled code, rules, what Open MPI says of any abort."""


def excerpt(lines: Iterable[str], limit: int = 8) -> tuple[str, ...]:
    """The last non-empty lines, shortened to 300 characters each: what a failure report shows. Those that tell
    nothing of an error are left out where there are others.
    """
    shown = [safe(line)[:300] for line in lines if line.strip()]
    return tuple(([line for line in shown if not _IDLE.match(line)] or shown)[-limit:])
