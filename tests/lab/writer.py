"""A rank that prints what is hard to follow: `writer.py COUNT RATE EXIT [FOLDER NAME]`.

Numbered and repeated lines on both streams, lines of 100 kB, bars left open for seconds, bytes like Docker's frames.
Each line begins with `o` or `e`, for stdout and stderr, so that a file of both can be taken apart again. With FOLDER it
ends as soon as FOLDER/stop is there, and leaves the number of its items in FOLDER/NAME.

The hosts' own Python runs this file; tests import it to know what was printed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

STREAMS = {1: b"o", 2: b"e"}
EVERY = 20
"""Items between two rests, and between two looks for the end."""


def items(goes_on: Callable[[int], bool]) -> Iterator[tuple[int, bytes]]:
    """Each write, to which stream and what, while `goes_on` of the item's number; stdout ends without a newline."""
    ended, i = {1: True, 2: True}, 0
    while goes_on(i):
        fd, data = _item(i)
        yield fd, STREAMS[fd] + data if ended[fd] else data
        ended[fd], i = data.endswith(b"\n"), i + 1
    if not ended[2]:
        yield 2, b"\n"
    yield 1, b"ono newline"


def _item(i: int) -> tuple[int, bytes]:
    fd = 2 if i % 7 == 3 else 1
    if i % 500 == 499:
        return 1, b"%d:" % i + b"x" * 100_000 + b"\n"
    if i % 97 == 50:
        return 2, b"\rbar %d" % i * 700 + (b"\n" if i % 2 else b"")
    if i % 101 == 5:
        return fd, b"\x1b[31m%d\x00\x01\x00\x00\x00\x00\x00\x10\n" % i
    return fd, b"%d\n" % (i % 10 if i % 3 else i)


def written(count: int) -> tuple[bytes, bytes]:
    """What it writes to stdout and stderr."""
    streams: dict[int, list[bytes]] = {1: [], 2: []}
    for fd, data in items(lambda i: i < count):
        streams[fd].append(data)
    return b"".join(streams[1]), b"".join(streams[2])


def apart(log: bytes) -> tuple[bytes, bytes]:
    """The two streams of a file that has whole lines of both, each in its order."""
    lines = [line + b"\n" for line in log.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    out, err = (b"".join(line for line in lines if line.startswith(mark)) for mark in (b"o", b"e"))
    return out, err


def main() -> None:
    """Write until told to stop, or `COUNT` items."""
    count, rate, code, *place = sys.argv[1:]
    folder = Path(place[0]) if place else None

    def goes_on(i: int) -> bool:
        over = i >= int(count)
        if i % EVERY == 0 and not over:
            over = folder is not None and (folder / "stop").exists()
            time.sleep(EVERY / float(rate))
        if over and folder is not None:
            (folder / place[1]).write_text(str(i))
        return not over

    for fd, data in items(goes_on):
        while data:
            data = data[os.write(fd, data) :]
    sys.exit(int(code))


if __name__ == "__main__":
    main()
