"""Values of a job's secrets, hidden in everything that is printed, shown or kept: log lines, events, reports.

What ranks print is hidden before it is written to a file; what is read from elsewhere (hosts, files of a distui that
did not know the values) is hidden where it is read. Values come from this machine's environment: no plan, label or file
has them, only their names.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from distui.facts.values import as_object
from distui.regex import regex
from distui.runs.lines.batch import Batch
from distui.runs.lines.events import HostSampled, LogLine, LogLines
from distui.runs.lines.text import ESCAPE, MAX_OPEN
from distui.runs.store.runs import StoredRun
from distui.runs.store.secret_checks import SHORTEST, bytes_of, others

T = TypeVar("T")

HIDDEN = b"***"

_GIVE = "set the variable, or give --env-file FILE"

_ESCAPES = regex(ESCAPE.encode())
"""A value with colours in it would be whole once they are taken out."""
_OPEN = regex(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\r\n]*\x1b?|[PX^_][^\x1b\r\n]*\x1b?|[ -/]*)?\Z")
"""What may be the beginning of one."""


class Mask:
    """Knows the values. A value is found as it stands, in one line, with colours in it, and as Python, JSON (in JSON,
    too), a URL, base64, hexadecimal digits or a shell's trace writes it.

    `names` are those of all secrets of the run, also of those whose values are not known here; `stored` is its folder
    here, where it may have been started with other values.
    """

    def __init__(self, secrets: Mapping[str, str], names: Iterable[str] = (), stored: StoredRun | None = None) -> None:
        values = {(form, name) for name, value in secrets.items() for form in _forms(value)}
        self._values = sorted(values, key=lambda v: (-len(v[0]), v))
        self._unknown = tuple(dict.fromkeys(name for name in names if name not in secrets))
        self._short = tuple(n for n, value in secrets.items() if 0 < len(bytes_of(value)) < SHORTEST)
        self._secrets, self._stored = secrets, stored

    @classmethod
    def of(cls, names: Iterable[str], environ: Mapping[str, str], stored: StoredRun | None = None) -> Mask:
        """For secrets of these names, as far as the environment has their values."""
        names = tuple(names)
        return cls({name: environ[name] for name in names if name in environ}, names, stored)

    def __bool__(self) -> bool:
        return bool(self._values)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is not hidden, in words. Slow where a run's folder tells its values from others."""
        output = []
        if self._unknown:
            names, plain = ", ".join(self._unknown), "where ranks print it, it is not hidden"
            output.append(f"the value of secret {names} is not set here: {plain}; {_GIVE}")
        other = others(self._stored, self._secrets) if self._stored is not None else ()
        if other:
            names, plain = ", ".join(other), "where ranks print that, it is not hidden"
            output.append(f"the value of secret {names} is not the one that the run was started with: {plain}; {_GIVE}")
        short = [name for name in self._short if name not in other]
        if short:
            output.append(f"secret {', '.join(short)} is shorter than {SHORTEST} bytes and not hidden in logs")
        return tuple(output)

    # Log lines

    def hide(self, block: Batch, data: bytes) -> tuple[Batch, bytes, tuple[str, ...]]:
        """The block and its bytes with each value as `***`, and the names of the secrets that were in it."""
        plain = _ESCAPES.sub(b"", data) if b"\x1b" in data else data
        found = tuple(dict.fromkeys(name for value, name in self._values if value in data or value in plain))
        if not found:
            return block, data, ()
        hidden = Batch(block.streams, block.stamps, [self.raw(piece) for piece in block.pieces])
        return hidden, hidden.data, found

    def lines(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        """Lines of a log with each value hidden."""
        if not self._values:
            return lines
        return [dataclasses.replace(line, text=self.text(line.text)) for line in lines]

    def raw(self, piece: bytes) -> bytes:
        """The same for bytes of any kind."""
        for value, _ in self._values:  # the longest first: one may be part of another
            piece = piece.replace(value, HIDDEN)
        if b"\x1b" in piece:
            for value, _ in self._values:
                piece = _without_coloured(piece, value)
        return piece

    def text(self, text: str) -> str:
        """The same for text."""
        if not self._values:
            return text
        raw = text.encode("utf-8", "surrogatepass")
        hidden = self.raw(raw)
        return text if hidden == raw else hidden.decode("utf-8", "surrogatepass")

    # What comes in pieces

    def cut(self, data: bytes) -> int:
        """How many of these bytes may be passed on alone: with what follows, the others may be part of a value."""
        at = len(data)
        for value, _ in self._values:
            begin = data.find(value[:1], max(0, len(data) - len(value) + 1))
            while 0 <= begin < at and not value.startswith(data[begin:]):
                begin = data.find(value[:1], begin + 1)
            at = min(at, begin) if begin >= 0 else at
        while (begin := min(self._across(data, at), default=at)) < at:
            at = begin
        return at

    def _across(self, data: bytes, at: int) -> Iterator[int]:
        """Where values begin that lie on both sides of a place."""
        for value, _ in self._values:
            begin = data.find(value, max(0, at - len(value) + 1), at + len(value) - 1)
            if 0 <= begin < at:
                yield begin

    # Everything else

    def event(self, event: T) -> T:
        """An event with each value hidden in all its words. Log lines were hidden before they were written."""
        if not self._values or isinstance(event, LogLines | HostSampled):
            return event
        return self._within(event)  # type: ignore[no-any-return]

    def _within(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case tuple() | list():
                return type(value)(self._within(item) for item in value)
            case Mapping():
                return {key: self._within(item) for key, item in value.items()}
            case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
                fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
                return dataclasses.replace(value, **{name: self._within(item) for name, item in fields.items()})
            case _:
                return value


def _without_coloured(piece: bytes, value: bytes) -> bytes:
    """The bytes with `***` for each value that has escape sequences between its own bytes."""
    parts = _ESCAPES.split(piece)
    shown = b"".join(parts)
    if value not in shown:
        return piece
    ends = [*accumulate(map(len, parts))]
    escaped = [0, *accumulate(len(match.group()) for match in _ESCAPES.finditer(piece))]
    kept: list[bytes] = []
    last, at = 0, shown.find(value)
    while at >= 0:
        first, final = (place + escaped[bisect_right(ends, place)] for place in (at, at + len(value) - 1))
        kept += [piece[last:first], HIDDEN]
        last, at = final + 1, shown.find(value, at + len(value))
    return b"".join([*kept, piece[last:]])


class MaskedStream:
    """Bytes in reads of any size -> the same with each value hidden, also one that two reads share."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What can be passed on by now."""
        data = self._rest + data
        at = self._mask.cut(data)
        shown = max(data.rfind(b"\n", 0, at), data.rfind(b"\r", 0, at)) + 1
        if self._mask and b"\x1b" in data[shown:at] and at - shown < MAX_OPEN:
            at = shown + self._coloured(data[shown:at])
        self._rest = data[at:]
        return self._mask.raw(data[:at])

    def _coloured(self, line: bytes) -> int:
        """How much of a line with escape sequences may be passed on before its end, as of a prompt or a bar: nothing
        where they may stand in a value that goes on.
        """
        begun = _OPEN.search(line)
        end = begun.start() if begun else len(line)
        plain = _ESCAPES.sub(b"", line[:end])
        return end if self._mask.cut(plain) == len(plain) else 0

    def rest(self) -> bytes:
        """What was held back, at the end."""
        data, self._rest = self._rest, b""
        return self._mask.raw(data)


def _forms(value: str) -> set[bytes]:
    """A value as it stands, and as it is written by what prints variables and requests."""
    plain = bytes_of(value)
    if len(plain) < SHORTEST:
        return set()
    inner = _json(value)
    written = {repr(value)[1:-1], *inner, *(outer for text in inner for outer in _json(text))}
    traced = {value.replace("'", "'\"'\"'"), value.replace("'", "'\\''")}  # by `sh -x`, of dash and of bash
    sent = {quote(plain), quote(plain, safe=""), quote_plus(plain)}
    texts = (text.encode("utf-8", "surrogateescape") for text in written | traced | sent)
    digits = plain.hex().encode()
    return {plain, digits, digits.upper(), *_coded(plain), *texts}


def _json(text: str) -> set[str]:
    """A text as JSON writes it."""
    return {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}


def _coded(plain: bytes) -> Iterator[bytes]:
    """A value in base64, as `Authorization: Basic` has it: three bytes are four letters, so there are three ways, by
    what stands before it. Letters that are partly of its neighbours are left out."""
    for before in range(3):
        begin, end = -(-before * 8 // 6), (before + len(plain)) * 8 // 6
        yield base64.b64encode(bytes(before) + plain)[begin:end]
        yield base64.urlsafe_b64encode(bytes(before) + plain)[begin:end]


NOTHING = Mask({})


def stored_secrets(stored: StoredRun) -> tuple[str, ...]:
    """Names of the secrets of a run that is recorded here, whoever wrote its plan."""
    tasks = _list((stored.read_plan() or {}).get("tasks"))
    names = (name for task in tasks for name in _list(as_object(task).get("secrets")))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
