"""Bytes of a rank become whole lines, and what eyes see is safe."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.lines.text import MAX_OPEN, LineAssembler, excerpt, last_segment, safe, text_of


def test_pieces_of_a_line_are_joined() -> None:
    """A line that arrives in pieces comes out once, whole."""
    lines = LineAssembler()

    assert list(lines.feed("stdout", b"ab")) == []
    assert not lines.clean
    assert list(lines.feed("stdout", b"c\nd\n")) == [b"abc\n", b"d\n"]
    assert lines.clean


def test_streams_do_not_mix() -> None:
    """An open line of one stream is not completed by the other."""
    lines = LineAssembler()
    list(lines.feed("stdout", b"out"))

    assert list(lines.feed("stderr", b"err\n")) == [b"err\n"]
    assert list(lines.feed("stdout", b"put\n")) == [b"output\n"]


def test_open_ends_are_flushed_once() -> None:
    """A last line without newline is not lost, and not given twice."""
    lines = LineAssembler()
    list(lines.feed("stdout", b"end"))

    assert list(lines.flush()) == [("stdout", b"end")]
    assert list(lines.flush()) == []


def test_an_endless_line_is_passed_on_in_parts() -> None:
    """Memory stays bounded when no newline ever comes."""
    lines = LineAssembler()
    parts = [part for _ in range(3) for part in lines.feed("stdout", b"x" * (MAX_OPEN // 2 + 1))]

    assert b"".join(parts) == b"x" * (2 * (MAX_OPEN // 2 + 1))


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_any_cut_gives_the_same_bytes(data: bytes, cuts: list[int]) -> None:
    """Wherever the pieces are cut, nothing is lost, added or moved."""
    lines = LineAssembler()
    places = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    got = [line for a, b in itertools.pairwise(places) for line in lines.feed("stdout", data[a:b])]
    got += [line for _, line in lines.flush()]

    assert b"".join(got) == data
    assert all(line.endswith(b"\n") for line in got[:-1])


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("10%\r20%\r30%", "30%"),
        ("done\r", "done"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b[2Jb", "ab"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]52;c;aGk=\x1b\\text", "text"),
        ("bell\x07", "bell\ufffd"),
        ("\x9b31mC1", "\ufffd31mC1"),
        ("bidi\u202eevil", "bidi\ufffdevil"),
        ("tab\there", "tab\there"),
        ("\ufefftext", "\ufffdtext"),
        ("pass\u200bword\u2060\u00ad", "pass\ufffdword\ufffd\ufffd"),
        ("a\u2028b\u2029c\U000e0041", "a\ufffdb\ufffdc\ufffd"),
        ("half \ud83d", "half \ufffd"),
        ("nul\x00", "nul\ufffd"),
        ("\x1bP1;2|secret\x1b\\after", "after"),
        ("\x1b[?1049h\x1b[2J\x1b[6n\x1bcscreen", "screen"),
        ("\x1b\x1b[2J[2Jnested", "[2Jnested"),  # as a terminal shows it
        ("e\u0301 \U0001f680 \u4e2d", "e\u0301 \U0001f680 \u4e2d"),
    ],
)
def test_nothing_reaches_the_terminal_but_text(raw: str, shown: str) -> None:
    """Escapes and control characters are removed or made visible."""
    assert safe(raw) == shown


def test_colours_are_kept_when_asked() -> None:
    """Colour on a terminal is worth keeping; moving the cursor is not."""
    assert safe("\x1b[1;31mred\x1b[0m \x1b[5Aup \x1b]0;t\x07x", colour=True) == "\x1b[1;31mred\x1b[0m up x"


@given(st.text(max_size=200))
def test_safe_text_has_no_control_characters(text: str) -> None:
    """Whatever a rank prints, only printable text and tabs remain."""
    assert not any(ord(c) < 32 and c != "\t" for c in safe(text).replace("\n", ""))


@given(st.text(alphabet="\x1b[]0;m\x07\\ab31P^_X\r", max_size=60))
def test_with_colours_only_colour_escapes_remain(text: str) -> None:
    """With colours kept, an escape character is always the start of a colour."""
    rest = safe(text, colour=True)

    assert "\x1b" not in re.sub(r"\x1b\[[0-9;:]*m", "", rest)


def test_text_of_broken_utf8_is_shown() -> None:
    """Bytes that are not UTF-8 are shown as replacement characters."""
    assert text_of(b"a\xff\n") == "a\ufffd"


def test_excerpt_is_the_last_full_lines() -> None:
    """A failure shows its last non-empty lines, shortened."""
    assert excerpt(["a", "", "b" * 400, "c"], limit=2) == ("b" * 300, "c")


@pytest.mark.parametrize(
    "idle",
    [
        "    @     0x7fb1fce08634  absl::LogMessage::Flush()",
        "[rank3]: frame #7: foo()",
        "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",
        "-" * 74,
    ],
)
def test_excerpt_has_the_error_not_what_tells_nothing_below_it(idle: str) -> None:
    """A stack of compiled code is long; alone it is better than nothing."""
    assert excerpt(["F1 client.h:80] DEADLINE_EXCEEDED", *[idle] * 9]) == ("F1 client.h:80] DEADLINE_EXCEEDED",)
    assert excerpt([idle]) == (idle,)
    assert excerpt(["reading", "frame #12 is broken", idle]) == ("reading", "frame #12 is broken")


def test_last_segment_of_nothing() -> None:
    """An empty line stays empty."""
    assert last_segment("") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\x1b[1;32mok\x1b[m", "\x1b[1;32mok\x1b[m"),
        ("a\x1b[8mhidden\x1b[28mb", "ahiddenb"),
        ("\x1b[1;8mx", "\x1b[1mx"),
        ("\x1b[008mx", "x"),
        ("\x1b[30;40mx", "x"),
        ("\x1b[38;5;0;48;2;0;0;0;4mx", "\x1b[4mx"),
        ("\x1b[38:2::0:0:0mx", "x"),
        ("\x1b[107;97mx", "x"),
        ("\x1b[5;6mx", "x"),
        ("\x1b[2K\x1b[1Aover\x1b[10Dwritten", "overwritten"),
        ("\x1b]8;;http://evil\x07link\x1b]8;;\x07", "link"),
        ("\x1b]52;c;RVZJTA==\x07x", "x"),
        ("a\u202eb\u2066c", "a\ufffdb\ufffdc"),
        ("a\u200bb\u2060c\u00add\u034fe", "a\ufffdb\ufffdc\ufffdd\ufffde"),
        ("a\u3164b\u2800c\U000e0101d", "a\ufffdb\ufffdc\ufffdd"),
        ("a\x9b8mb\x08\x08c", "a\ufffd8mb\ufffd\ufffdc"),
    ],
)
def test_nothing_that_is_printed_is_hidden(text: str, shown: str) -> None:
    """Text in the colour of its ground, concealed, overwritten, turned round or without width: all of it is seen."""
    assert safe(text, colour=True) == shown
    assert "\x1b" not in safe(text)
