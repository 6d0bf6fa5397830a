"""A log read through any number of cuts is, byte for byte, what the program wrote."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distui.agent.helper import pack
from distui.agent.helper.pack import Packer
from distui.codec import read, write
from distui.runs.follow.resume import Cursor, ReplayMismatch, ResumePoint
from distui.runs.lines.batch import Batch
from distui.runs.lines.docker_frames import BadFrame, FrameParser, since, stamp_at, stamp_ns

START = 1_795_226_874_000_000_000
SECOND = 1_000_000_000
STAMPED = stamp_at(START)


@dataclass(frozen=True)
class Write:
    """One record in Docker's file: when it was written (ns) and the stamp it bears."""

    at: int
    stream: int
    stamp: int
    data: bytes

    @property
    def frame(self) -> bytes:
        body = stamp_at(self.stamp) + b" " + self.data
        return struct.pack(">BxxxI", self.stream, len(body)) + body


@dataclass
class Program:
    """Makes records as Docker does: pieces of one line share the first one's stamp, whenever they are written."""

    now: int = START
    file: list[Write] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    newest: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def write(self, stream: int, gap: int, early: int, whole: bool) -> None:
        """One record after `gap` ns; its stamp was taken `early` ns before it reached the file."""
        self.now += gap
        stamp = self.open.get(stream) or max(self.now - early, self.newest.get(stream, 0) + 1)
        self.newest[stream] = stamp
        self.count += 1
        # Bytes that repeat often: a wrong count must not be hidden by unlike neighbours.
        self.file.append(Write(self.now, stream, stamp, b"%d%s" % (self.count % 3, b"\n" if whole else b"\r")))
        self.open.pop(stream, None)
        if not whole:
            self.open[stream] = stamp


@st.composite
def programs(draw: st.DrawFn) -> list[Write]:
    program = Program()
    gaps = st.sampled_from([1, 1_000, 1_500, 40_000_000, 400_000_000, 1_100_000_000, 2_300_000_000])
    writes = st.tuples(
        st.sampled_from([1, 1, 2]), gaps, st.sampled_from([0, 0, 1_200, 2_000]), st.sampled_from([True, True, False])
    )
    for stream, gap, early, whole in draw(st.lists(writes, min_size=1, max_size=80)):
        program.write(stream, gap, early, whole)
    return program.file


@dataclass
class Reading:
    """A client with its log file and the points it stored, over a file that grows."""

    file: list[Write]
    packed: int = 0
    """Bytes that the helper packs at a time; 0: the engine's own frames."""
    clock: float = 0.0
    log: bytearray = field(default_factory=bytearray)
    points: list[ResumePoint] = field(default_factory=lambda: [ResumePoint()])
    cursor: Cursor = field(init=False)

    def __post_init__(self) -> None:
        self.cursor = Cursor(clock=lambda: self.clock)

    def read(self, visible: int, cut: int, size: int, *, full: bool = False) -> None:
        """One connection: the first `visible` records, cut off after `cut` bytes, read `size` bytes at a time."""
        asked = self.cursor.begin(full=full)
        served = [w for w in self.file[:visible] if not asked or since(stamp_at(w.stamp)) >= asked]
        stream = b"".join(w.frame for w in served)
        stream = (packed(stream, self.packed) if self.packed else stream)[:cut]
        parser = FrameParser()
        for start in range(0, len(stream), size):
            self.clock = max(self.clock, (self.file[visible - 1].at - START) / SECOND)
            for batch in parser.feed(stream[start : start + size]):
                self.log += self.cursor.take(batch).data
                self.points.append(self.cursor.point)

    def crash(self, back: int) -> None:
        """distui dies and attaches with a point stored up to `back` batches ago."""
        point = self.points[max(0, len(self.points) - 1 - back)]
        self.cursor = Cursor(read(ResumePoint, json.loads(json.dumps(write(point)))), lambda: self.clock)
        del self.log[point.written :]
        self.points = [point]


cuts = st.lists(
    st.tuples(st.integers(0, 80), st.integers(0, 4000), st.sampled_from([1, 7, 60, 400, 5000]), st.integers(-1, 4)),
    max_size=12,
)


def expected(file: list[Write]) -> bytes:
    return b"".join(w.data for w in file)


def packed(stream: bytes, size: int) -> bytes:
    """The stream as the helper sends it when it gets `size` bytes at a time, with blocks also of few lines."""
    packer = Packer()
    with mock.patch.object(pack, "FEWEST", 2):
        parts = [packer.pack(stream[start : start + size]) for start in range(0, len(stream), size)]
    return b"".join([*parts, packer.rest])


@settings(max_examples=400)
@given(programs(), cuts, st.sampled_from([0, 100, 1000, 10_000]))
def test_any_cut_at_any_byte_loses_and_doubles_nothing(
    file: list[Write], connections: list[tuple[int, ...]], size: int
) -> None:
    """The promise of the whole follower, over both streams, open lines, shared stamps, cuts and crashes."""
    reading, seen = Reading(file, size), 1
    for more, cut, size, crash in connections:
        seen = min(len(file), seen + more)
        reading.read(seen, cut, size)
        assert expected(file).startswith(bytes(reading.log))
        if crash >= 0:
            reading.crash(crash)
    reading.read(len(file), 1 << 30, 512)
    assert not reading.cursor.skipping
    assert bytes(reading.log) == expected(file)


@settings(max_examples=200)
@given(programs(), st.integers(1, 80), st.integers(1, 80), st.sampled_from([0, 1000]))
def test_the_last_records_of_a_log_tell_what_is_missing_or_that_they_can_t(
    file: list[Write], had: int, tail: int, size: int
) -> None:
    """Whatever was had, and whatever of the end is looked at."""
    reading = Reading(file, size)
    reading.read(min(had, len(file)), 1 << 30, 512)
    last = b"".join(w.frame for w in file[-tail:])
    batches = FrameParser().feed(packed(last, size) if size else last)
    if not reading.cursor.knows_last:
        return
    if tail > len(file) - min(had, len(file)):
        reading.log += b"".join(batch.data for batch in reading.cursor.behind_last(batches))
        assert bytes(reading.log) == expected(file)
        assert reading.cursor.point.written == len(reading.log)
    else:
        with pytest.raises(ReplayMismatch):
            list(reading.cursor.behind_last(batches))


@settings(max_examples=150)
@given(programs(), cuts, st.integers(0, 79), st.integers(SECOND + 1, 5_000 * SECOND))
def test_a_clock_set_back_is_noticed_and_nothing_is_lost(
    file: list[Write], connections: list[tuple[int, ...]], step_at: int, step: int
) -> None:
    """After a step of the host's clock stamps prove nothing for a while; full reads are right all the same."""
    open_at_step = {1: False, 2: False}
    for w in file[:step_at]:
        open_at_step[w.stream] = not w.data.endswith(b"\n")
    if any(open_at_step.values()):
        return
    file = [w if i < step_at else Write(w.at, w.stream, w.stamp - step, w.data) for i, w in enumerate(file)]
    reading, seen = Reading(file), 1
    for more, cut, size, crash in connections:
        seen = min(len(file), seen + more)
        if seen > step_at:
            reading.cursor.distrust_clock()
        reading.read(seen, cut, size)
        if crash >= 0:
            reading.crash(crash)
    reading.cursor.distrust_clock()
    reading.read(len(file), 1 << 30, 512)
    assert bytes(reading.log) == expected(file)


def stepped(announced: bool) -> Reading:
    """Eight seconds of lines, then the clock is set back by five; the connection is cut at each line."""
    before = [(float(t), f"{t}\n") for t in range(0, 9, 2)]
    after = [(float(t), f"again {t}\n") for t in range(4, 8)]
    reading = Reading([])
    for row in (*before, *after):
        if announced and row == after[0]:
            reading.cursor.distrust_clock()
        reading.file += lines(row)
        reading.clock += 1.5
        reading.read(len(reading.file), 1 << 30, 1 << 20)
    return reading


def test_lines_stamped_before_the_checkpoint_are_read_once_the_step_of_the_clock_is_known() -> None:
    """`since` the checkpoint would hide them: a full read does not."""
    reading = stepped(announced=True)
    assert bytes(reading.log) == expected(reading.file)


def test_a_step_back_seen_in_the_stamps_alone_asks_for_full_reads() -> None:
    """The first line after the step, read within the connection, gives it away."""
    reading = Reading(lines((0, "0\n"), (2, "2\n"), (4, "4\n"), (6, "6\n")))
    for seen in (1, 2, 3, 4):
        reading.clock += 1.5
        reading.read(seen, 1 << 30, 1 << 20)
    reading.file = [*reading.file, *lines((4.5, "after\n"))]
    reading.read(5, 1 << 30, 1 << 20)
    assert reading.cursor.suspicious
    assert reading.cursor.begin() == ""


def test_a_step_back_is_forgotten_once_the_clock_is_past_where_it_was() -> None:
    """Until then every read is a full one: a `since` would hide what is stamped before it."""
    reading = Reading(lines((0, "0\n"), (2, "2\n"), (4, "4\n"), (6, "6\n")))
    for seen in (1, 2, 3, 4):
        reading.clock += 1.5
        reading.read(seen, 1 << 30, 1 << 20)
    suspicious = []
    for number, at in enumerate((4.5, 5.6, 5.9, 7.2, 8.5, 9.8), start=5):
        reading.file = [*reading.file, *lines((at, f"after {at}\n"))]
        reading.clock += 1.5
        reading.read(number, 1 << 30, 1 << 20, full=reading.cursor.suspicious)
        suspicious.append(reading.cursor.suspicious)
    assert suspicious == [True, True, True, True, False, False]
    assert bytes(reading.log) == expected(reading.file)


def lines(*rows: tuple[float, str]) -> list[Write]:
    return [Write(START + int(t * SECOND), 1, START + int(t * SECOND), text.encode()) for t, text in rows]


@pytest.mark.parametrize("every", [0.1, 0.3])
def test_the_replay_begins_one_or_two_seconds_back_not_at_the_start(every: float) -> None:
    """A reconnect costs a second or two of log."""
    file = lines(*((t * every, f"{t}\n") for t in range(200)))
    reading = Reading(file)
    for seen in range(1, 201):
        reading.clock = (seen - 1) * every
        reading.read(seen, 1 << 30, 1 << 20)
    back = (stamp_ns(reading.cursor.point.top.stamp) - stamp_ns(reading.cursor.point.mark.stamp)) / SECOND
    assert 1 <= back <= 3


def test_a_truncated_log_is_a_mismatch_and_then_only_newer_records_are_taken() -> None:
    """Somebody emptied the log on the host: that is said, and nothing comes twice."""
    reading = Reading(lines((0, "a\n"), (2, "b\n"), (4, "c\n"), (6, "d\n")))
    for seen in (1, 2, 3, 4):
        reading.read(seen, 1 << 30, 1 << 20)
    reading.file = lines((6, "d\n"), (8, "e\n"))
    with pytest.raises(ReplayMismatch):
        reading.read(2, 1 << 30, 1 << 20, full=True)
    reading.cursor.restart_after_top()
    reading.read(2, 1 << 30, 1 << 20)
    assert bytes(reading.log) == b"a\nb\nc\nd\ne\n"
    reading.file += lines((9, "f\n"), (11, "g\n"))
    reading.read(4, 1 << 30, 1 << 20)
    assert bytes(reading.log) == b"a\nb\nc\nd\ne\nf\ng\n"


def test_another_log_with_the_same_stamps_is_a_mismatch() -> None:
    """Stamps alone prove nothing: the last record's bytes must be the same."""
    reading = Reading(lines((0, "a\n"), (1, "b\n")))
    reading.read(2, 1 << 30, 1 << 20)
    reading.file = lines((0, "a\n"), (1, "x\n"))
    with pytest.raises(ReplayMismatch):
        reading.read(2, 1 << 30, 1 << 20)


def test_a_long_progress_bar_does_not_make_the_clock_look_set_back() -> None:
    """Pieces of one unfinished line keep its first stamp for minutes; that is no reason for full reads."""
    bar = [Write(START + t * SECOND, 2, START, b"%d%%\r" % t) for t in range(1, 60)]
    other = lines(*((t + 0.5, f"{t}\n") for t in range(1, 60)))
    file = sorted([*bar, *other], key=lambda w: w.at)
    reading = Reading(file)
    for seen in range(1, len(file) + 1):
        reading.read(seen, 1 << 30, 1 << 20)
    assert not reading.cursor.suspicious
    assert bytes(reading.log) == expected(file)


def test_a_stream_without_records_is_resumed_by_its_bytes() -> None:
    """A terminal's."""
    cursor = Reading([]).cursor
    for data in (b"abc", b"", b"defg"):
        cursor.count_raw(data)
    assert cursor.point.written == 7


def test_a_stored_point_comes_back_as_it_was() -> None:
    """JSON and back."""
    reading = Reading(lines((0, "a\n"), (1.5, "b\n"), (3, "c"), (5, "d\n")))
    for seen in (1, 2, 3, 4):
        reading.read(seen, 1 << 30, 1 << 20)
    point = reading.cursor.point
    assert read(ResumePoint, json.loads(json.dumps(write(point)))) == point


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-11-21T02:07:54.473189101Z", 1_795_226_874_473_189_101),
        ("2026-11-21T02:07:54.4731Z", 1_795_226_874_473_100_000),
        ("2026-11-21T02:07:54Z", 1_795_226_874_000_000_000),
        ("2026-11-21T03:07:54.5+01:00", 1_795_226_874_500_000_000),
        ("2026-11-20T21:07:54.000000001-05:00", 1_795_226_874_000_000_001),
    ],
)
def test_stamps_of_docker_and_podman_are_read_to_the_nanosecond(text: str, ns: int) -> None:
    """`since` must name the very record."""
    assert stamp_ns(text.encode()) == ns


@pytest.mark.parametrize("stamp", [b"", b"x" * 30, b"2026-13-45T99:07:54.473189101Z"])
def test_what_is_no_stamp_is_refused(stamp: bytes) -> None:
    """Also what is as long as one."""
    with pytest.raises(ValueError, match=r"invalid|must be|out of range"):
        stamp_ns(stamp)


@given(st.integers(0, 4 * 10**18))
def test_a_stamp_written_and_read_is_the_same(ns: int) -> None:
    """Fixed width, so that stamps compare as text."""
    assert len(stamp_at(ns)) == 30
    assert stamp_ns(stamp_at(ns)) == ns


@given(programs(), st.lists(st.integers(1, 200), min_size=1), st.sampled_from([0, 1, 50, 10_000]))
def test_frames_may_be_cut_anywhere(file: list[Write], sizes: list[int], size: int) -> None:
    """Reads of any size give the same records, here and on the host, packed or not."""
    data, parser, batches = b"".join(w.frame for w in file), FrameParser(), []
    data = packed(data, size) if size else data
    while data:
        for size in sizes:
            batches += parser.feed(data[:size])
            data = data[size:]
    pieces = [piece for b in batches for piece in zip(b.streams, b.stamps, b.pieces, strict=True)]
    assert [(stream, stamp_ns(stamp) if stamp else None, piece) for stream, stamp, piece in pieces] == [
        (w.stream, w.stamp, w.data) for w in file
    ]


def test_the_daemon_s_own_words_in_the_log_are_kept_apart() -> None:
    """Stream 3 is dockerd's error, no output of the program."""
    parser = FrameParser()
    words = b"Error grabbing logs: EOF"
    (batch,) = parser.feed(lines((0, "a\n"))[0].frame + struct.pack(">BxxxI", 3, len(words)) + words)
    assert (batch.data, parser.daemon_error) == (b"a\n", "Error grabbing logs: EOF")


def test_text_that_is_no_frame_is_refused() -> None:
    """A tty's raw stream must not be guessed at."""
    with pytest.raises(BadFrame):
        FrameParser().feed(b"hello world, this is a terminal\r\n" * 3)


def test_batches_know_their_last_record_of_a_stream() -> None:
    """None when the stream has none."""
    batch = Batch((1, 2, 1), (b"", b"", b""), (b"a", b"b", b"c"))
    assert (batch.last(1), batch.last(2), Batch((1,), (b"",), (b"a",)).last(2)) == (2, 1, None)


@pytest.mark.parametrize("stamp", [b"\xff" * 30, STAMPED[:20] + b"\xff" * 9 + b"Z"])
def test_a_stamp_that_is_no_time_is_never_stored(stamp: bytes) -> None:
    """Refused with all that came with it: a checkpoint could not be written."""
    cursor = Cursor()
    with pytest.raises(ValueError, match="codec"):
        cursor.take(Batch((1, 1), (STAMPED, stamp), (b"a\n", b"b\n")))
    assert cursor.point == ResumePoint()
