"""Regular expressions of others: what they find, and that none of them takes longer than its limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distui import patterns
from distui.cli.printing.loglines import parse_grep
from distui.cluster.logs.wanted import Wanted
from distui.errors import UsageError
from distui.patterns import BadPattern, LimitedPattern, compiled, given_up, matching
from distui.runs.lines.events import LogLine
from distui.runs.state.progress import ProgressTeller
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.search import LogView, pattern_of

LINE = "a" * 4000 + "!"
ENDLESS = (
    r"(?P<x>(a+)+)$",
    r"(?P<x>(a|aa)+)$",
    r"^(?P<x>(([a-z])+.)+[A-Z]([a-z])+)$",
    r"(?P<x>(?:a{1,4294967293}){1,4294967293})b",
    "(?P<x>(?i:" + "[\x00-\U0010ffff]" * 3000 + "))",
)
"""Each takes years; the last one minutes to be compiled."""


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A shorter limit, so that the tests are short; no process is left."""
    monkeypatch.setattr(patterns, "LIMIT_S", 0.1)
    yield
    patterns._worker.close()


@pytest.mark.parametrize("pattern", ENDLESS)
def test_an_endless_match_is_given_up(pattern: str) -> None:
    """It finds nothing, says why, and is not tried again; the next pattern works as ever."""
    slow = LimitedPattern(pattern)
    assert slow.search(LINE) is None
    assert "takes longer than" in slow.given_up
    assert slow.search("a") is None
    assert LimitedPattern("a+").search(LINE) is not None


def test_a_pattern_that_is_slow_over_many_lines_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No question takes longer than the limit, but all together would fill the time."""
    monkeypatch.setattr(patterns, "ASKED_BYTES", 500)
    slow = LimitedPattern(r"(?P<x>(a|b|ab)*c)", pace=1 << 30)
    texts = ["ab" * 6 + "!"] * 400
    for _ in range(1000):
        if slow.given_up:
            break
        assert slow.first(texts) is None
    assert "bytes" in slow.given_up


@pytest.mark.parametrize("flags", [0, re.IGNORECASE, re.MULTILINE])
@pytest.mark.parametrize("pattern", ["x+", "(?P<n>[0-9]+) (y)?", "^", "Loss", "é."])
def test_it_finds_what_re_finds(pattern: str, flags: int) -> None:
    """The same places, groups and names, in text and in bytes."""
    texts = ["axx", "12 y", "12 ", "", "a loss\nLOSS b", "éé"]
    limited, plain = LimitedPattern(pattern, flags), re.compile(pattern, flags)
    for text in texts:
        found, want = limited.search(text), plain.search(text)
        assert (found is None) == (want is None)
        if found is not None and want is not None:
            assert (found.span(), found.group(), found.groupdict()) == (want.span(), want.group(), want.groupdict())
            assert [found.group(n) for n in range(plain.groups + 1)] == [want.group(), *want.groups()]
        assert [m.span() for m in limited.finditer(text)] == [m.span() for m in plain.finditer(text)]
    assert matching(limited, texts) == matching(plain, texts)
    raw = LimitedPattern(pattern.encode(), flags)
    assert [m.group() for m in raw.finditer(b"12 y\nloss")] == [
        m.group() for m in re.finditer(pattern.encode(), b"12 y\nloss", flags)
    ]


def test_many_texts_are_asked_about_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices are those of the whole, whatever fits into one question."""
    monkeypatch.setattr(patterns, "ASKED_BYTES", 10)
    pattern = LimitedPattern("h(i|o)")
    texts = ["hi", "x" * 50, "", "ho", "no", "hi there, this is long"]
    assert [index for index, _ in pattern.each(texts)] == [0, 3, 5]
    first = pattern.first(texts[1:])
    assert first is not None and (first[0], first[1].group(1)) == (2, "o")
    assert pattern.first([]) is None


def test_plain_words_need_no_other_process() -> None:
    """What has no special character can't be slow."""
    assert isinstance(compiled("loss"), re.Pattern)
    assert isinstance(compiled(b"loss"), re.Pattern)
    assert isinstance(compiled("l.ss"), LimitedPattern)


@pytest.mark.parametrize("pattern", ["(", "(?P<x", "a{2,1}", "(" * 5000 + ")" * 5000, ENDLESS[-1]])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    """Also one that takes minutes to be compiled."""
    with pytest.raises(BadPattern):
        compiled(pattern)


def test_the_process_is_replaced_when_it_is_gone() -> None:
    """Whoever ends it, the next question is answered."""
    assert LimitedPattern("a.").search("ab")
    process = patterns._worker._process
    assert process is not None
    process.kill()
    process.wait()
    assert LimitedPattern("a.").search("ab")


def test_progress_is_given_up_with_words() -> None:
    """A job's regex never holds up the run whose lines it reads."""
    teller = ProgressTeller(ENDLESS[0], 0, "h1")
    assert teller.given_up == ""
    assert teller.take([LogLine("stdout", LINE, "")], 1.0) is None
    assert teller.given_up.startswith("takes longer than")


def test_grep_is_given_up_with_an_error() -> None:
    """Lines it was not tried on are not passed over in silence."""
    wanted = Wanted(grep=parse_grep(ENDLESS[0]))
    with pytest.raises(UsageError, match="--grep takes longer than"):
        wanted.kept([LogLine("stdout", LINE)])


def test_a_filter_in_the_app_is_given_up(tmp_path: Path) -> None:
    """The screen goes on, and it is known why nothing is shown."""
    path = tmp_path / "a.log"
    path.write_text(LINE + "\n")
    view = LogView(LogBuffer(path))
    view.set_filter("(a+)+$")
    while view.grow(0.1):
        pass
    assert view.filter is not None
    assert "takes longer than" in given_up(view.filter.pattern)


def test_hosts_are_filtered_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host names and labels may be long, too."""
    from distui.tui.hosts import select

    host: Any = type("Host", (), {})()
    monkeypatch.setattr(select, "_words", lambda host: LINE)
    monkeypatch.setattr(select, "_attributes", lambda host: {})
    host.spec = type("Spec", (), {"labels": {}})()
    assert not select.Filter("(a+)+$").matches(host)
    assert pattern_of("(").search(b"x(y")
