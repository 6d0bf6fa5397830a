"""When a terminal rings and shows progress: once for each thing that is worth a look, where it can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distui.runs.lines.events import Failure, Progressed, RunEnded, RunStalled
from distui.runs.report.attention import CLEARED, Attention, Terminal, terminal_of
from distui.runs.state.reducer import RunState

RUN = RunState("mnist-7f3", "mnist")
ENDED = replace(RUN, ended=RunEnded(9.0, "succeeded", 0))
STALLED = replace(RUN, stalled=RunStalled(5.0, True, 1.0, 22))
FAILED = replace(RUN, ended=RunEnded(9.0, "failed", 1), failure=Failure(2, "h2\x1b]0;x\x07", 1, "exit 1"))
ITERM = {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}
BELL, ALL = Terminal(bell=True), Terminal(bell=True, message=True, progress=True)


def at(step: float, **more: float) -> RunState:
    """The run, so far."""
    return replace(RUN, progress=Progressed(1.0, 0, "h1", {"step": step, **more}))


def looked(terminal: Terminal, *states: RunState) -> list[str]:
    """What each look writes; a minute lies between two."""
    attention = Attention(terminal)
    return [attention.look([state], 60.0 * number) for number, state in enumerate(states)]


def test_an_epoch_is_not_the_run() -> None:
    """Most of the first of ten epochs is not most of the run; of the last one it is told."""
    first, last = at(400, total=500, epoch=1, epochs=10), at(400, total=500, epoch=10, epochs=10)
    assert looked(Terminal(progress=True), first, last) == ["\x1b]9;4;3;0\x07", "\x1b]9;4;1;80\x07"]


@pytest.mark.parametrize("state", [ENDED, FAILED, STALLED])
def test_the_bell_rings_once(state: RunState) -> None:
    """For an end, and for a run that stands still."""
    assert looked(BELL, RUN, RUN, state, state) == ["", "", "\x07", ""]


def test_a_run_that_stands_still_again_rings_again() -> None:
    """And once more when it ends."""
    assert looked(BELL, RUN, STALLED, RUN, STALLED, ENDED) == ["", "\x07", "", "\x07", "\x07"]


@pytest.mark.parametrize("state", [ENDED, FAILED])
def test_what_had_ended_before_is_no_news(state: RunState) -> None:
    """A run of yesterday that is opened in the app."""
    assert looked(ALL, state, state) == ["", ""]


def test_what_is_left_alone_is_no_news() -> None:
    """Somebody detached it, here."""
    assert looked(BELL, RUN, replace(RUN, ended=RunEnded(9.0, "detached", 0))) == ["", ""]


def test_a_message_names_the_run_and_who_failed_and_steers_nothing() -> None:
    """In place of the bell; no host writes sequences of its own into the terminal."""
    said = looked(replace(ALL, progress=False), RUN, FAILED)[1]
    assert said.startswith("\x1b]9;distui: mnist-7f3 failed: rank 2 on h2") and said.endswith("\x07")
    assert (said.count("\x1b"), said.count("\x07")) == (1, 1)


def test_nobody_is_disturbed_who_does_not_want_it() -> None:
    """`notify: none`, and streams that are no terminal."""
    assert looked(Terminal(), RUN, at(1, total=10), STALLED, FAILED) == ["", "", "", ""]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (at(5, total=20), "1;25"),
        (at(5, steps=10), "1;50"),
        (replace(at(5, total=10), stalled=STALLED.stalled), "4;50"),
        (at(5), "3;0"),
        (RUN, "3;0"),
        (at(11, total=10), "3;0"),
        (at(0, total=0), "3;0"),
        (at(1, total=float("inf")), "3;0"),
        (at(float("nan"), total=10), "3;0"),
        (at(1e307, total=1e308), "3;0"),
        (at(29, total=100), "1;29"),
    ],
)
def test_progress_is_in_percent_where_the_run_tells_its_end(state: RunState, said: str) -> None:
    """By ConEmu's states: 1 goes on, 3 nobody knows how far, 4 paused."""
    assert looked(Terminal(progress=True), state) == [f"\x1b]9;4;{said}\x07"]


def test_progress_is_written_when_it_changes_and_before_it_is_forgotten() -> None:
    """Not with each batch of lines."""
    attention = Attention(Terminal(progress=True))
    written = [bool(attention.look([at(1, total=10)], now)) for now in (0.0, 1.0, 4.0, 6.0, 7.0)]
    assert written == [True, False, False, True, False]


def test_progress_goes_with_the_run_and_with_who_looks() -> None:
    """No bar stays behind."""
    attention = Attention(Terminal(progress=True))
    attention.look([at(1, total=10)], 0.0)
    assert (attention.look([ENDED], 1.0), attention.look([ENDED], 2.0), attention.end()) == (CLEARED, "", "")
    attention.look([at(1, total=10)], 3.0)
    assert (attention.end(), attention.end()) == (CLEARED, "")


@pytest.mark.parametrize(
    ("environ", "terminal"),
    [
        ({"TERM": "xterm-256color"}, BELL),
        ({"TERM": "dumb"}, Terminal()),
        ({}, Terminal()),
        ({"TERM": "xterm-ghostty"}, ALL),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, ALL),
        ({"TERM": "xterm-kitty"}, replace(ALL, progress=False)),
        ({**ITERM, "TERM_PROGRAM_VERSION": "3.5.2"}, replace(ALL, progress=False)),
        ({**ITERM, "TERM_PROGRAM_VERSION": "3.6.10"}, ALL),
        ({"TERM": "xterm-256color", "WT_SESSION": "x"}, replace(ALL, message=False)),
        ({"TERM": "xterm-256color", "VTE_VERSION": "8002"}, replace(ALL, message=False)),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, BELL),
        ({"TERM": "xterm-ghostty", "TMUX": "/tmp/tmux-0/default,1,0"}, BELL),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"}, BELL),
    ],
)  # fmt: skip
def test_a_terminal_gets_what_it_is_known_for(environ: dict[str, str], terminal: Terminal) -> None:
    """An iTerm2 before 3.6.6 would show progress as messages."""
    assert terminal_of("auto", environ) == terminal
    assert terminal_of("none", environ) == Terminal()
    assert terminal_of("bell", environ) in (BELL, Terminal())
