"""Rows of one width as a file that is appended to: what a crash or a full disk leaves is dropped, never an error.

The file begins with its version. Then come records: length and checksum, a letter, and either the name of a series
(`d`, JSON: its number in this file, and who it is of) or a row (`r`: when, steps, then numbers of series, counts,
means, lowest, highest). A file of a later version is left alone; letters that are not known are passed over.

Once it has twice as many rows as are kept it is replaced by one with the newest. Rows of the coarsest level are
never dropped: those that are there become wider.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from zlib import crc32

from distui.facts.values import loads
from distui.files import make_private, open_private, open_to_read, read_bytes, write_private
from distui.frozen import frozen
from distui.runs.series.values import Bin, Folded, OpenRow, Places, Row, Series, start_of

MAGIC = b"distui series "
HEADER = MAGIC + b"1\n"
MOST_SERIES = 0xFFFF
MOST_RECORD = 4 << 20
LAST_SECOND = 253_402_300_799.0 - 366 * 86400
"""Nothing here can say a later time."""
KEPT_BYTES = 8 << 20
"""No more than that is kept of a level, however many ranks there are; twice as much is in its file at most."""
FEWEST = 16
"""Rows that are kept all the same."""

_HEAD = struct.Struct("<II")
_ROW = struct.Struct("<ddddI")


@frozen
class Level:
    """How wide the rows of a file are, and how many of them are kept."""

    name: str
    width: float
    rows: int
    until: float = LAST_SECOND
    """No row begins later, nor is wider; what says so is torn. A moment, where rows are not of something else."""


LEVELS = (Level("1s", 1, 900), Level("10s", 10, 1080), Level("1m", 60, 720), Level("10m", 600, 1008))
"""A quarter of an hour by the second, three hours, half a day; all of a run in a thousand rows that become wider."""

RANKS = (
    Level("ranks-1s", 1, 300), Level("ranks-10s", 10, 180), Level("ranks-2m", 120, 180), Level("ranks-20m", 1200, 504),
)  # fmt: skip
"""What each rank says of its progress, coarser than what is measured: 7 MB at most for 64 ranks with three figures."""


class LaterVersion(OSError):
    """The file was written by a later distui."""


class Packed:
    """A row as it stands in a file; its bins are read when they are asked for."""

    __slots__ = ("_body", "_count", "end", "first_step", "last_step", "start", "width")

    def __init__(self, body: memoryview) -> None:
        self.start: float
        self.width: float
        self.first_step: float
        self.last_step: float
        self._count: int
        self.start, self.width, self.first_step, self.last_step, self._count = _ROW.unpack_from(body, 1)
        self.end = self.start + self.width
        self._body = body

    def sound(self, until: float) -> bool:
        """Whether it is what distui writes into a file whose rows go so far."""
        whole = len(self._body) == 1 + _ROW.size + 16 * self._count
        return whole and 0 <= self.start <= until and 0 < self.width <= until

    @property
    def numbers(self) -> bytes:
        """Which series it has, as they stand in it: to be compared with those of the row before."""
        begin = 1 + _ROW.size
        return bytes(self._body[begin : begin + 2 * self._count])

    def floats(self) -> tuple[float, ...]:
        """The means of all its series, then their lowest values, then the highest ones."""
        return struct.unpack_from(f"<{3 * self._count}f", self._body, 1 + _ROW.size + 4 * self._count)

    def bins(self, places: Mapping[int, Series]) -> dict[Series, Bin]:
        """The bins at these places in the row."""
        count, begin = self._count, 1 + _ROW.size + 2 * self._count
        counts = struct.unpack_from(f"<{count}H", self._body, begin)
        floats = self.floats()
        return {
            series: Bin(counts[i], floats[i], floats[count + i], floats[2 * count + i]) for i, series in places.items()
        }


def numbers_in(packed: bytes) -> tuple[int, ...]:
    """Numbers of series as numbers."""
    return struct.unpack(f"<{len(packed) // 2}H", packed)


class Content:
    """What is in a file: series by their numbers, and rows in the order in which they were written."""

    def __init__(self, until: float = LAST_SECOND) -> None:
        self._until = until
        self.names: dict[int, Series] = {}
        self.rows: list[Packed] = []
        self.size = 0
        """Bytes that are whole; what is behind them is torn."""
        self._places: dict[bytes, dict[int, Series]] = {}
        self._groups: dict[bytes, dict[str, Places]] = {}

    def read(self, data: bytes) -> None:
        """Take more of the file in, from `size` on. Raises LaterVersion."""
        at = 0
        if self.size == 0:
            if not data.startswith(HEADER):
                if data.startswith(MAGIC):
                    raise LaterVersion(0, "was written by a later version of distui")
                return
            at = self.size = len(HEADER)
        begin, view = self.size - at, memoryview(data)
        while at + _HEAD.size <= len(data):
            length, check = _HEAD.unpack_from(view, at)
            body = view[at + _HEAD.size : at + _HEAD.size + length]
            if not 0 < length <= MOST_RECORD or len(body) < length or crc32(body) != check:
                return
            at += _HEAD.size + length
            self.size = begin + at
            self._take(body)

    def _take(self, body: memoryview) -> None:
        kind = body[:1].tobytes()
        if kind == b"d":
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                value = loads(body[1:].tobytes())
                number, rank = value["id"], value.get("rank")
                if isinstance(number, int) and (rank is None or isinstance(rank, int)):
                    self.names[number] = Series(str(value["name"]), rank, str(value.get("host", "")))
                    self._places.clear()
                    self._groups.clear()
        elif kind == b"r" and len(body) >= 1 + _ROW.size:
            row = Packed(body)
            if row.sound(self._until):
                self.rows.append(row)

    def row(self, packed: Packed, wanted: frozenset[Series] | None = None) -> Row:
        """A row with its bins, or with those that are wanted."""
        places = self._placed(packed.numbers)
        if wanted is not None:
            places = {i: series for i, series in places.items() if series in wanted}
        return Row(packed.start, packed.width, packed.first_step, packed.last_step, packed.bins(places))

    def fold(self, packed: Packed) -> Folded:
        """A row with one value for each name: much cheaper than its bins where there are many ranks."""
        numbers = packed.numbers
        groups = self._groups.get(numbers)
        if groups is None:
            by_name: dict[str, list[int]] = {}
            for i, series in self._placed(numbers).items():
                by_name.setdefault(series.name, []).append(i)
            count = len(numbers) // 2
            groups = self._groups[numbers] = {name: Places(found, count) for name, found in by_name.items()}
        floats = packed.floats()
        spreads = {name: places.spread(floats) for name, places in groups.items()}
        return Folded(packed.start, packed.width, packed.last_step, spreads)

    def _placed(self, numbers: bytes) -> dict[int, Series]:
        places = self._places.get(numbers)
        if places is None:
            named = ((i, self.names.get(number)) for i, number in enumerate(numbers_in(numbers)))
            places = self._places[numbers] = {i: series for i, series in named if series is not None}
        return places


def read_content(path: Path, until: float = LAST_SECOND, most: int = 4 * KEPT_BYTES) -> Content:
    """What is in a file; nothing where there is none. Raises OSError, LaterVersion."""
    found = Content(until)
    with contextlib.suppress(FileNotFoundError):
        found.read(read_bytes(path, most))
    return found


class LevelFile:
    """Rows of one level, written by the only process that follows the run. All of it raises OSError.

    `opened` says how rows become one that is wider.
    """

    def __init__(
        self, folder: Path, level: Level, *, last: bool, opened: Callable[[float, float], OpenRow] = OpenRow
    ) -> None:
        self.path = folder / level.name
        self.width = level.width
        self.widest = level.width
        """How wide the widest of its rows are."""
        self._level = level
        self._last = last
        self._opened = opened
        self._ids: dict[Series, int] = {}
        self._rows = 0
        self._size = -1
        """How long the file was left; -1 while it was not looked at."""

    def open(self) -> Content:
        """Look at what is there, to go on behind it."""
        content = read_content(self.path, self._level.until)
        self._ids = {series: number for number, series in content.names.items()}
        self._rows, self._size = len(content.rows), content.size
        self.widest = max((row.width for row in content.rows), default=self.width)
        return content

    def append(self, row: Row) -> None:
        """One more row. What could not be written as a whole is taken back."""
        make_private(self.path.parent)
        with open_private(self.path, "ab", 0) as file:
            if os.fstat(file.fileno()).st_size != self._size:  # torn, emptied or removed
                self.open()
                file.truncate(self._size)
            head = HEADER if self._size == 0 else b""
            names, ids = self._numbered(row)
            data = head + b"".join(map(_record, (*names, _packed(row, ids))))
            try:
                if file.write(data) != len(data):
                    raise OSError(28, os.strerror(28), str(self.path))
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(self._size)
                raise
        self._ids, self._size, self._rows = ids, self._size + len(data), self._rows + 1
        self._bound(len(data))

    def drop(self, start: float) -> None:
        """Take out the rows that begin there or later."""
        content = read_content(self.path, self._level.until)
        self._replace(content, [bytes(row._body) for row in content.rows if row.start < start])

    def _numbered(self, row: Row) -> tuple[list[bytes], dict[Series, int]]:
        """The records of series that the file does not name yet, and all numbers."""
        new = [series for series in row.bins if series not in self._ids]
        if not new:
            return [], self._ids
        ids, free = dict(self._ids), max(self._ids.values(), default=-1) + 1
        ids.update(zip(new, range(free, MOST_SERIES), strict=False))
        return [_named(series, ids[series]) for series in new if series in ids], ids

    def _bound(self, row_bytes: int) -> None:
        """Replace the file by a shorter one when it is too long."""
        most = max(FEWEST, min(self._level.rows, KEPT_BYTES // row_bytes)) if row_bytes else self._level.rows
        if self._last and self._rows > most:
            self._widen(most)
        elif not self._last and self._rows >= 2 * most and self._rows % max(1, most // 8) == 0:
            content = read_content(self.path, self._level.until)
            self._replace(content, [bytes(row._body) for row in content.rows[-most:]])

    def _widen(self, most: int) -> None:
        """Rows of twice the width, each from two, of four times if need be, until a quarter is free."""
        content, width = read_content(self.path, self._level.until), self.width
        end = max((row.end for row in content.rows), default=0.0)
        while width < end and len({_wide(row, width, end) for row in content.rows}) > 3 * most // 4:
            width *= 2
        self.widest = max(self.widest, width)
        found: dict[tuple[float, float], OpenRow] = {}
        for packed in content.rows:
            key = _wide(packed, width, end)
            found.setdefault(key, self._opened(*key)).take(content.row(packed))
        self._replace(content, [_packed(row.row(), self._ids) for row in found.values()])

    def _replace(self, content: Content, bodies: list[bytes]) -> None:
        names = [_named(series, number) for number, series in content.names.items()]
        data = HEADER + b"".join(map(_record, (*names, *bodies)))
        write_private(self.path, data)
        self._rows, self._size = len(bodies), len(data)


def _wide(row: Packed, width: float, end: float) -> tuple[float, float]:
    """Start and width of the row that this one becomes a part of: as wide as may be, but over before `end`."""
    while width > row.width and start_of(row.start, width) + width > end:
        width /= 2
    width = max(width, row.width)
    return start_of(row.start, width), width


def _record(body: bytes) -> bytes:
    return _HEAD.pack(len(body), crc32(body)) + body


def _named(series: Series, number: int) -> bytes:
    value: dict[str, object] = {"id": number, "name": series.name}
    value |= {"rank": series.rank} if series.rank is not None else {}
    value |= {"host": series.host} if series.host else {}
    return b"d" + json.dumps(value).encode()


def _packed(row: Row, ids: Mapping[Series, int]) -> bytes:
    found = sorted((ids[series], found) for series, found in row.bins.items() if series in ids)
    count = len(found)
    head = _ROW.pack(row.start, row.width, row.first_step, row.last_step, count)
    bins = [one for _, one in found]
    floats = (*(b.mean for b in bins), *(b.low for b in bins), *(b.high for b in bins))
    whole = (*(number for number, _ in found), *(b.samples for b in bins))
    return b"r" + head + struct.pack(f"<{2 * count}H{3 * count}f", *whole, *floats)


class LevelView:
    """A level as somebody reads it while another process may write: read on from where it was left."""

    def __init__(self, folder: Path, level: Level) -> None:
        self.path = folder / level.name
        self._until = level.until
        self.content = Content(self._until)
        self._inode = 0
        self._seen = (0, 0, 0)
        """Which file it was, how long, and when it was written, when it was read last."""

    def refresh(self) -> bool:
        """Read what is new; whether anything was. What can't be read counts as absent."""
        try:
            with open_to_read(self.path, buffering=0) as file:
                status = os.fstat(file.fileno())
                before_that, self._seen = self._seen, (status.st_ino, status.st_size, status.st_mtime_ns)
                if self._seen == before_that:  # a torn end would have all of it read each time
                    return False
                if status.st_ino != self._inode or status.st_size < self.content.size:
                    self.content, self._inode = Content(self._until), status.st_ino
                before = self.content.size
                file.seek(before)
                self.content.read(_some(file.fileno(), 4 * KEPT_BYTES))
                if self.content.size == before < status.st_size:
                    self._inode = 0  # torn, or another file than it was: all of it the next time
                return self.content.size != before
        except OSError:
            had, self.content = bool(self.content.rows), Content(self._until)
            self._inode, self._seen = 0, (0, 0, 0)
            return had


def _some(handle: int, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := os.read(handle, min(most, 1 << 24))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def is_moment(at: float) -> bool:
    """Whether a file can say this time."""
    return math.isfinite(at) and 0 <= at <= LAST_SECOND
