"""Word of a stop on the hosts: what it says, and which ends it explains to those who only see ranks end."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from distui.runs.hosts.stop_word import ASK, SAY, StopWord, looks_stopped, read_word, stop_by
from distui.runs.verdict.evidence import End, Stop

BOB = StopWord("bob@laptop", "user", 130, 5.0)


def test_a_word_is_read_as_it_was_written_with_its_time_on_our_clock() -> None:
    """The host's clock is two seconds ahead."""
    assert read_word(f"{BOB.text()}\n1000.5\n", 2000.0) == StopWord("bob@laptop", "user", 130, 5.0, 998.5)
    assert read_word(f"{BOB.text()}\n", None) == BOB
    marked = replace(BOB, mark="12ab")
    assert read_word(f"{marked.text()}\n1000.5\n", 0.0) == replace(marked, at=1000.5)
    assert read_word(f"{marked.text()}\n", 0.0) == marked
    some = replace(marked, cause="failure", tasks=frozenset({0, 1, 2, 7}))
    assert read_word(f"{some.text()}\n1000.5\n", 0.0) == replace(some, at=1000.5)
    killed = replace(BOB, verb="kill")
    assert read_word(f"{killed.text()}\n1000.5\n", 0.0) == replace(killed, at=1000.5)


@pytest.mark.parametrize("messages", ["bob@laptop\n\n", "bob@laptop\nnuke 1 2\n", "bob@laptop\nuser 130\n"])
def test_a_word_without_more_is_a_stop_from_elsewhere(messages: str) -> None:
    """Who it was is told; nothing else is taken from it."""
    assert read_word(messages, None) == StopWord("bob@laptop")


@pytest.mark.parametrize("messages", ["", "\n\n"])
def test_no_word(messages: str) -> None:
    assert read_word(messages, None) is None


def test_numbers_without_measure_count_for_nothing() -> None:
    """A host may say anything."""
    found = read_word("bob\nuser 99999 nan\n1e300\n", None)
    assert found == StopWord("bob", "user", None, 0.0, None)


def test_the_host_says_when_it_was_left(tmp_path: Path) -> None:
    """By the file's own time."""
    path = tmp_path / "stopped"
    path.write_text(BOB.text())
    output = subprocess.run(
        ("sh", "-c", ASK, "distui-stopped", path), capture_output=True, text=True, check=True
    ).stdout
    found = read_word(output, None)
    assert found is not None
    assert found.at is not None
    assert abs(found.at - time.time()) < 60
    missing = subprocess.run(("sh", "-c", ASK, "distui-stopped", tmp_path / "no"), capture_output=True, check=False)
    assert (missing.returncode != 0, missing.stdout) == (True, b"")


def test_a_pipe_is_no_word_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    """One that nobody writes to."""
    os.mkfifo(tmp_path / "stopped")
    words = ("timeout", "5", "sh", "-c", ASK, "distui-stopped", tmp_path / "stopped")
    done = subprocess.run(words, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize(
    ("end", "stop"),
    [
        (End(0, 101.0), Stop(100.0, "user", "bob", 130)),
        (End(3, 134.9), Stop(100.0, "user", "bob", 130)),
        (End(3, 136.0), None),  # long after: it outlived a stop that was interrupted
        (End(143, 136.0), Stop(136.0, "elsewhere", "bob")),
        (End(3, 99.0), None),
        (End(137, 99.0), Stop(99.0, "elsewhere", "bob")),
    ],
)
def test_which_ends_a_stop_made(end: End, stop: Stop | None) -> None:
    """Any in the grace and a while after it; else only those in a stop's own way."""
    assert stop_by(StopWord("bob", "user", 130, 5.0, 100.0), [end]) == stop
    assert stop_by(StopWord("bob"), [end]) == (None if end.code in (0, 3) else Stop(end.at or 0, "elsewhere", "bob"))


@pytest.mark.parametrize(("at", "explains"), [(100.0, True), (50.0, False), (None, False)])
def test_a_stop_at_a_failure_explains_the_ends_it_made_alone(at: float | None, explains: bool) -> None:
    """Those of the ranks that it names; an old one, or one without its time, tells nothing of how the run ended."""
    word = StopWord("bob", "failure", 1, 5.0, at, tasks=frozenset({0, 1}))
    stop = Stop(100.0, "failure", "bob", 1, frozenset({0, 1}))
    assert stop_by(word, [End(143, 100.2)]) == (stop if explains else None)


def test_ends_that_make_somebody_ask() -> None:
    """Killed, removed, or sent a signal by way of the engine, whatever status that gave."""
    asked = [End(143), End(137), End(None, state="removed"), End(0, signalled=True), End(3, signalled=None)]
    assert all(map(looks_stopped, asked))
    assert not any(map(looks_stopped, [End(0), End(1), End(137, oom=True)]))


def say(path: Path, who: str, beside: str) -> None:
    argv = ("sh", "-c", SAY, "distui-say", path, StopWord(who).text(), path.parent / beside, "1")
    subprocess.run(argv, check=True)


def test_the_word_of_the_first_who_stops_a_run_stays(tmp_path: Path) -> None:
    """It is what ended the ranks; one of long ago ended none."""
    path = tmp_path / "stopped"
    say(path, "bob", "a")
    say(path, "ann", "b")
    assert path.read_text().splitlines()[0] == "bob"
    os.utime(path, (time.time() - 3600,) * 2)
    say(path, "eve", "c")
    assert path.read_text().splitlines()[0] == "eve"
    assert time.time() - path.stat().st_mtime < 600
    assert [left.name for left in tmp_path.iterdir()] == ["stopped"]


def test_of_many_who_stop_a_run_at_once_one_leaves_word(tmp_path: Path) -> None:
    """Nobody overwrites it, whoever was faster."""
    path = tmp_path / "stopped"
    argv = [("sh", "-c", SAY, "s", path, StopWord(f"u{n}").text(), tmp_path / f"w{n}", "1") for n in range(20)]
    running = [subprocess.Popen(words) for words in argv]
    while not path.exists():
        time.sleep(0.001)
    first = path.read_bytes()
    assert [process.wait() for process in running] == [0] * 20
    assert path.read_bytes() == first
    assert [left.name for left in tmp_path.iterdir()] == ["stopped"]
