"""Where an answer begins: whatever a host sends before it, in reads of any size, memory and work are bounded."""

from __future__ import annotations

import pytest

from distui.framing import Behind
from distui.remote.framing import Unframe
from distui.runs.lines.frames import FrameReader, NoHelper


@pytest.mark.parametrize("size", [1, 3, 64, 10_000])
def test_a_marker_is_found_in_reads_of_any_size(size: int) -> None:
    """Also one that two reads share; what follows it is whole, and the last of what came before is known."""
    data, behind, after = b"x" * 9000 + b"disdistui-begin\nanswer", Behind(b"distui-begin\n"), None
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        if after is None:
            after = behind.feed(piece)
        else:
            after += piece
    assert after == b"answer"
    assert behind.before.endswith(b"xxdis")
    assert behind.dropped + len(behind.before) == 9003


class Counted(bytearray):
    """Bytes that count how many are searched."""

    searched = 0

    def find(self, *args: object) -> int:
        Counted.searched += len(self) - int(args[1] if len(args) > 1 else 0)  # type: ignore[call-overload]
        return super().find(*args)  # type: ignore[arg-type]


def test_endless_noise_a_byte_at_a_time_costs_what_it_weighs() -> None:
    """Neither memory nor the bytes searched grow with what came before."""
    behind, count = Behind(b"distui-begin\n"), 200_000
    behind._before = Counted()
    Counted.searched = 0
    for _ in range(count):
        assert behind.feed(b"x") is None
    assert len(behind.before) <= 4096
    assert Counted.searched <= 20 * count


def test_a_mark_whose_line_never_ends_is_none() -> None:
    """A host that prints the mark and then anything but a line's end gets none of our memory; the real one is found."""
    frame = Unframe("mark")
    for _ in range(5000):
        assert frame.feed(b"mark " + b"7" * 1000) == b""
    assert len(frame._held) < 3000
    assert frame.feed(b"\nmark 12\nanswer") == b"answer"
    assert frame.pid == 12
    assert frame.dropped > 5_000_000


def test_a_greeting_that_never_comes_is_refused() -> None:
    """After a mebibyte, with the last words kept."""
    reader = FrameReader("word")
    with pytest.raises(NoHelper):
        for _ in range(40):
            list(reader.feed(b"motd " * 8000))
    assert reader.noise.endswith("motd")
