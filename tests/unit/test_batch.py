"""Lines in columns: the same lines, files, times and words on stdout as one by one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from distui.cli.printing.printer import LineWriter, LogView
from distui.runs.follow.fanout import MOST_LINES, Fanout
from distui.runs.lines.batch import STDERR, STDOUT, Batch
from distui.runs.lines.events import LogLine, LogLines, Notice
from distui.runs.lines.times import Stamps, read_times, times_of
from distui.runs.store.logs import TaskLog
from distui.runs.store.runs import RunStore

HOSTILE = st.text(alphabet="ab \t\r\x1b[31m\x07é\u202e\x9b\ufffd", max_size=12).map(str.encode)
BYTES = HOSTILE | st.binary(max_size=6).map(lambda data: data.replace(b"\n", b""))
PODMAN = (b"2026-11-20T12:00:00.5+01:00", b"2026-11-20T12:00:00.1234+01:00", b"2026-11-20T12:00:00.123456789+01:00")
STAMPS = st.sampled_from([b"2026-11-20T12:00:00.000000001Z", b"2026-11-20T12:00:07.5Z", b"", b"x" * 30, *PODMAN])


ENDS = [(STDOUT, b"", True), (STDERR, b"", True)]


def block(*pieces: bytes) -> Batch:
    """Pieces of stdout and stderr in turns, a stamp each."""
    streams = [STDERR if n % 3 == 2 else STDOUT for n in range(len(pieces))]
    return Batch(streams, [b"2026-11-20T12:00:%02d.000000000Z" % (n % 60) for n in range(len(pieces))], pieces)


def test_a_block_is_a_sequence_of_lines() -> None:
    """Lines are made as they are looked at, also from the end and in slices."""
    lines = block(b"a\r\n", b"\xff\n", b"open")

    assert list(lines) == [
        LogLine("stdout", "a", "2026-11-20T12:00:00.000000000Z"),
        LogLine("stdout", "\ufffd", "2026-11-20T12:00:01.000000000Z"),
        LogLine("stderr", "open", "2026-11-20T12:00:02.000000000Z"),
    ]
    assert lines[-1] == lines[2:][0]
    assert lines == tuple(lines)
    assert lines != tuple(lines)[1:]


@given(st.lists(BYTES), st.booleans(), st.booleans())
def test_what_is_written_is_the_same_for_a_block_and_for_its_lines(
    texts: list[bytes], prefix: bool, stamps: bool
) -> None:
    """Plain lines are copied as a whole; others are cleaned one by one."""
    lines = block(*(text + b"\n" for text in texts))
    writer = LineWriter(LogView(prefix=prefix, timestamps=stamps), colour=False)
    writer.open({0: "h1"})

    assert writer.bytes(0, "h1", lines, 1.0) == writer.bytes(0, "h1", tuple(lines), 1.0)


def test_a_part_of_an_endless_line_is_a_line_on_stdout() -> None:
    """It ends in a newline there, as it does line by line."""
    writer = LineWriter(LogView(), colour=False)
    writer.open({0: "h1"})

    assert writer.bytes(0, "h1", block(b"part")) == b"000 h1 | part\n"


@given(st.lists(st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), BYTES, st.booleans()), max_size=5)))
def test_files_do_not_depend_on_how_the_bytes_came(tmp_path_factory, parts) -> None:  # type: ignore[no-untyped-def]
    """In batches of whole lines, in pieces, or all at once with other pieces of lines: the same lines and times."""
    logs, found = [], []
    batches = [[(s, text + b"\n" * ends) for s, text, ends in part] for part in [*parts, ENDS]]
    stamp = b"2026-11-20T12:00:00.250000000Z"
    for number, cut in enumerate((False, True)):
        store = RunStore(tmp_path_factory.mktemp("run")).create(f"r{number}")
        log = TaskLog(store, 0, [0], offset=0.25)
        for batch in batches:
            pieces = [(s, piece) for s, data in batch for piece in ([data[:1], data[1:]] if cut else [data]) if piece]
            if pieces:
                streams, data = zip(*pieces, strict=True)
                log.feed(Batch(streams, (stamp,) * len(data), data))
        log.flush()
        log.close()
        path = store.rank_log(0)
        logs.append(path.read_bytes() if path.exists() else b"")
        found.append(list(read_times(times_of(path), 0, 99)))

    assert logs[0] == logs[1]
    assert found[0] == found[1]
    assert set(found[0]) <= {1_795_176_000.0}


@given(st.lists(STAMPS))
def test_many_stamps_are_read_as_one_is(stamps: list[bytes]) -> None:
    """Whatever stands before and after a stamp."""
    assert Stamps().parse_all(stamps) == [Stamps().parse(stamp.decode()) for stamp in stamps]


async def test_a_screen_that_sleeps_holds_no_more_than_so_many_lines() -> None:
    """They are in the files; what else happened is kept."""
    fan, word = Fanout(), Notice(1.0, "info", "word")
    batches = fan.batches()
    fan.put((word,))
    assert await anext(batches) == (word,)
    for _ in range(3):
        fan.put((LogLines(1.0, 0, 0, "h1", block(*[b"x\n"] * (MOST_LINES // 2))), word))
    fan.close()

    assert [event async for batch in batches for event in batch] == [word, word, word]


def test_a_task_log_gives_whole_lines_as_they_came(tmp_path: Path) -> None:
    """Columns are handed on, not copied."""
    log = TaskLog(RunStore(tmp_path).create("r1"), 0, [4])
    batch = Batch((STDOUT, STDERR), (b"", b""), (b"a\n", b"b\n"))
    (written,) = log.feed(batch)
    log.close()

    assert written.lines.pieces is batch.pieces
    assert [line.stream for line in written.lines] == ["stdout", "stderr"]
