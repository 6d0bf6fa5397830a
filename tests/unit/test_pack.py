"""Whole lines packed on the host: the same records, files and times as from the engine's own frames."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.agent.helper.pack import FEWEST, HEAD, LINES, Packer
from distui.runs.lines.batch import Batch
from distui.runs.lines.columns import LineColumn, StampColumn
from distui.runs.lines.docker_frames import BadFrame, FrameParser, stamp_at
from distui.runs.lines.times import times_of
from distui.runs.store.logs import TaskLog
from distui.runs.store.runs import RunStore

START = 1_795_226_874_000_000_000


def frame(data: bytes, stream: int = 1, ns: int = 0) -> bytes:
    """One record as the engine sends it."""
    body = stamp_at(START + ns) + b" " + data
    return struct.pack(">BxxxI", stream, len(body)) + body


def many(count: int = FEWEST, line: bytes = b"line\n") -> bytes:
    """A run of lines worth a block, within a second, every fourth on stderr."""
    return b"".join(frame(line, 1 + (n % 4 == 3), n * 33_333_333) for n in range(count))


def batches(stream: bytes) -> list[Batch]:
    return FrameParser().feed(stream)


def columns(batch: Batch) -> list[tuple[int, bytes, bytes]]:
    """Stream, stamp and bytes of each piece."""
    return list(zip(batch.streams, batch.stamps, batch.pieces, strict=True))


def test_lines_in_a_row_are_one_block_with_the_same_records() -> None:
    """Less than the engine's frames, but all that is in them."""
    packed = Packer().pack(many())
    (batch,), (plain,) = batches(packed), batches(many())

    assert packed[0] == LINES
    assert isinstance(batch.pieces, LineColumn)
    assert columns(batch) == columns(plain)
    assert (batch.low, batch.top, batch.size, batch.data) == (plain.low, plain.top, plain.size, plain.data)
    assert batch.stamps.count(batch.top) == 1
    assert batch.stamps.index(batch.top) == FEWEST - 1


def test_blocks_in_a_row_are_one_batch() -> None:
    """However often the helper was ready to send."""
    packer = Packer()
    (batch,) = batches(packer.pack(many()) + packer.pack(many()))

    assert columns(batch) == [record for b in batches(many() * 2) for record in columns(b)]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(frame(b"part of a line"), id="no newline"),
        pytest.param(frame(b"two\nlines\n"), id="two lines in one"),
        pytest.param(frame(b""), id="nothing"),
        pytest.param(frame(b"x" * 16_384), id="a piece of a long line"),
        pytest.param(struct.pack(">BxxxI", 1, 4) + b"abc\n", id="no stamp"),
        pytest.param(frame(b"a\n").replace(b"Z ", b"+ "), id="not in UTC"),
        pytest.param(frame(b"a\n").replace(b"T", b"t").replace(b"2026-", b"20-26"), id="no time"),
        pytest.param(frame(b"a\n").replace(b".000000000Z", b".      nanZ"), id="nan is no fraction"),
        pytest.param(frame(b"a\n").replace(b".000000000Z", b".0000_0000Z"), id="nor is this"),
        pytest.param(frame(b"a\n").replace(b".000000000Z", b",000000000Z"), id="no point"),
        pytest.param(frame(b"a\n").replace(b"2026-11-21", b"9999999999"), id="nor this a day"),
    ],
)
def test_what_is_no_whole_line_is_passed_on_as_it_came(odd: bytes) -> None:
    """In its place, between blocks."""
    block = Packer().pack(many())

    packed = Packer().pack(many() + odd + many())

    assert packed in (block + odd + block, many() + odd + many())


@pytest.mark.parametrize("text", [b"hello, this is a terminal\r\n", struct.pack(">BxxxI", 3, 8) + b"EOF, bad"])
def test_from_what_is_no_frame_on_nothing_is_packed(text: bytes) -> None:
    """Whoever reads it knows what to say of it."""
    packer = Packer()

    assert packer.pack(many() + text) == Packer().pack(many()) + text
    assert packer.pack(many()) == many()


def test_few_lines_are_not_held_up_nor_packed() -> None:
    """A quiet rank's line goes out as it came; only part of a frame waits."""
    packer, one = Packer(), frame(b"one\n")

    assert packer.pack(one + one[:20]) == one
    assert packer.rest == one[:20]
    assert packer.pack(one[20:]) == one


@given(st.lists(st.tuples(st.sampled_from([b"a\n", b"\n", b"\r\n", b"open"]), st.integers(0, 10**9)), max_size=60))
def test_files_and_times_do_not_depend_on_packing(tmp_path_factory, rows) -> None:  # type: ignore[no-untyped-def]
    """Also where a block begins in the middle of a line."""
    found, ns, plain = [], 0, b""
    for data, gap in rows:
        ns += gap
        plain += frame(data, ns=ns) + many(FEWEST * (gap % 2))
    for number, stream in enumerate((plain, Packer().pack(plain))):
        store = RunStore(tmp_path_factory.mktemp("run")).create(f"r{number}")
        log = TaskLog(store, 0, [0], offset=0.25)
        for batch in batches(stream):
            log.feed(batch)
        log.flush()
        log.close()
        path: Path = store.rank_log(0)
        found.append([p.read_bytes() if p.exists() else b"" for p in (path, times_of(path))])

    assert found[0] == found[1]


@given(st.integers(1, 100), st.integers(-120, 120), st.integers(-120, 120) | st.none(), st.booleans())
def test_a_column_of_lines_is_a_sequence(count: int, at: int, stop: int | None, cut: bool) -> None:
    """Whether it was cut before or not."""
    lines = [b"%d\n" % n if n % 3 else b"\n" for n in range(count)]
    column = LineColumn(b"".join(lines), count)
    if cut:
        assert list(column) == lines

    assert list(column[at:stop]) == lines[at:stop]
    if -count <= at < count:
        assert column[at] == lines[at]
    else:
        with pytest.raises(IndexError):
            column[at]


def block(count: int, body: bytes, *, second: bytes = b"2026-11-21T02:07:54.", low: int = 0, top: int = 9) -> bytes:
    """A block of whatever a host may send."""
    return HEAD.pack(LINES, HEAD.size - 8 + len(body), count, second, low, top) + body


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(block(0, b""), id="no lines"),
        pytest.param(block(99, b"123456"), id="more lines than bytes"),
        pytest.param(HEAD.pack(LINES, 5 << 20, 1, b"", 0, 0), id="more than any helper packs"),
        pytest.param(struct.pack(">BxxxI", 1, 5 << 20), id="more than any engine says at once"),
        pytest.param(block(1, b"\1" + b"x" * 40), id="no newline"),
        pytest.param(block(1, b"\3" + b"x" * 39 + b"\n"), id="no such stream"),
        pytest.param(block(1, b"\1" + b"x" * 39 + b"\n", second=b"\xff" * 20), id="no time"),
        pytest.param(block(1, b"\1" + b"x" * 39 + b"\n", low=2, top=1), id="smallest above greatest"),
        pytest.param(block(1, b"\1" + b"x" * 39 + b"\n", top=1_000_000_000), id="beyond a second"),
    ],
)
def test_blocks_that_can_t_be_are_refused(bad: bytes) -> None:
    """A host that sends nonsense gets an error, not our memory."""
    with pytest.raises(BadFrame):
        FrameParser().feed(bad)


def test_a_block_is_of_one_second() -> None:
    """So its stamps are four bytes each, whatever follows."""
    later = b"".join(frame(b"line\n", ns=1_000_000_000 + n) for n in range(FEWEST))

    packed = Packer().pack(many() + later)
    found = [record for batch in batches(packed) for record in columns(batch)]

    assert found == [record for batch in batches(many() + later) for record in columns(batch)]
    assert len(packed) == 2 * (HEAD.size + FEWEST * (5 + len(b"line\n")))


@pytest.mark.parametrize("size", [40, 116, 300])
def test_a_packed_line_costs_six_bytes_at_most(size: int) -> None:
    """The engine's own frames take 39."""
    plain = b"".join(frame(b"x" * (size - 1) + b"\n", ns=n) for n in range(200))

    assert len(Packer().pack(plain)) <= 200 * (size + 6)


@pytest.mark.parametrize("value", [b"2026-11-21T02:07:54.000000003Z", b"2026-11-21T02:07:55.000000001Z", b"", b"x"])
def test_stamps_are_found_as_in_a_list(value: bytes) -> None:
    """Where they are; others nowhere."""
    plain = b"".join(frame(b"line\n", ns=at + n // 2) for at in (0, 1_000_000_000) for n in range(FEWEST))
    (batch,) = batches(Packer().pack(plain))
    column, stamps = batch.stamps, list(batch.stamps)
    assert isinstance(column, StampColumn)

    assert batch.stamped(value) == [at for at, stamp in enumerate(stamps) if stamp == value]
    assert list(Batch(batch.streams, stamps, batch.pieces).stamped(value)) == batch.stamped(value)
