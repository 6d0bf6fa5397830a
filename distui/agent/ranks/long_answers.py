# ruff: noqa: UP031
# Python 3.6 runs this, and every import costs a start on the host.
"""An answer of torch's server as it comes: of a long one without what is not needed of it, and its newest entries.

torch records sizes and types of all tensors that a collective takes and gives: 2,000 collectives of 500 tensors take
27 MB. And a program may have its recorder keep more of them (`TORCH_FR_BUFFER_SIZE`). What is read as JSON has a
measure, since its every three bytes may be a list; this is done on the text before.

torch's JSON has the names of an entry in their order: `collective_seq_id` is the first one, and quotes within a text
have a backslash before them. What is written in any other way is not shortened, and too long.
"""

import re

NEXT, FIRST = b',{"collective_seq_id":', b'"entries":['
MOST_SIZES = 151
"""Of the tensors that a collective takes: those that are reported, in 300 characters."""

_GIVEN = re.compile(rb'"output_(?:sizes":\[[\d,\[\]]*\]|dtypes":\[[A-Za-z0-9_",]*\]),')
_TYPES = re.compile(rb'"input_dtypes":\[([A-Za-z0-9_",]+)\]')
_SIZES = re.compile(rb'("input_sizes":\[(?:\[[\d,]*\],){%d}\[[\d,]*\]),[\d,\[\]]*\]' % (MOST_SIZES - 1))


class Answer:
    """What has come of it."""

    def __init__(self, most: int, longest: int) -> None:
        """`most` is how many bytes are given in the end, `longest` how many may come."""
        self.most, self.longest, self.came = most, longest, 0
        self.head, self.pieces, self.rest = b"", [], bytearray()  # type: bytes, list[bytes], bytearray

    def add(self, data: bytes) -> None:
        """Take more of it. Raises ValueError for too much."""
        self.came += len(data)
        self.rest += data
        if self.came > self.longest:
            raise ValueError("an answer of more than %d bytes" % self.longest)
        if self.came > self.most and len(self.rest) > self.most // 4:
            self.shorten()

    def shorten(self) -> None:
        """Shorten the entries that have come whole; of all of them keep the newest."""
        at = self.rest.rfind(NEXT)
        piece = thin(bytes(self.rest[: max(0, at)]))
        if not self.head:
            before, first, piece = piece.partition(FIRST)
            self.head = before + first
        del self.rest[: max(0, at)]
        if at < 0 or not self.head.endswith(FIRST) or len(self.rest) > self.most // 4:
            raise ValueError("an answer of more than %d bytes" % self.most)
        self.pieces.append(piece)
        over = sum(map(len, self.pieces)) - (self.most - self.most // 4)
        while over > 0:
            oldest = self.pieces.pop(0)
            at = oldest.find(NEXT, over)
            if 0 <= at < len(oldest):
                self.pieces.insert(0, oldest[at:])
                return
            over -= len(oldest)

    def whole(self) -> bytes:
        """All of it; of a long one what is kept."""
        if not self.head:
            return bytes(self.rest)
        entries = b"".join(self.pieces) + thin(bytes(self.rest))
        return self.head + (entries[1:] if entries.startswith(b",") else entries)


def thin(entries: bytes) -> bytes:
    """Entries without the tensors that they give, each type of those that they take once, and so many sizes."""
    return _SIZES.sub(rb"\1]", _TYPES.sub(_each_once, _GIVEN.sub(b"", entries)))


def _each_once(found: "re.Match[bytes]") -> bytes:
    return b'"input_dtypes":[' + b",".join(sorted(set(found.group(1).split(b",")))) + b"]"
