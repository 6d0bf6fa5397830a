"""What of followed runs is worth a look: said to the terminal, which rings, shows a message, or progress in its tab.

Messages are OSC 9 as iTerm2 defines it (https://iterm2.com/documentation-escape-codes.html), progress is OSC 9;4 as
ConEmu does (https://conemu.github.io/en/AnsiEscapeCodes.html#ConEmu_specific_OSC). Both share a number, and a terminal
that knows only the first would show progress as messages: each is for terminals that are known for it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from distui.frozen import frozen
from distui.runs.lines.text import safe
from distui.runs.state.progress import last_step_of
from distui.runs.state.reducer import RunState
from distui.whole import whole

AGAIN_S = 5.0
"""Seconds after which progress is said again: Ghostty takes it for forgotten after fifteen."""
OSC = "\x1b]9;"
BELL = "\x07"
CLEARED = f"{OSC}4;0;0{BELL}"
"""No progress any more."""
_WORDS = {"stalled": "stands still", "launch_failed": "was not started", "unknown": "is out of reach"}
_PERCENT, _UNKNOWN, _PAUSED = 1, 3, 4


@frozen
class Terminal:
    """What a terminal does beside its text."""

    bell: bool = False
    message: bool = False
    progress: bool = False


def terminal_of(wanted: str, environ: Mapping[str, str]) -> Terminal:
    """What to ask of the terminal, by the setting `notify` (auto, bell, none). tmux lets only the bell through."""
    if wanted == "none" or environ.get("TERM", "dumb") == "dumb":
        return Terminal()
    program, kind = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if wanted == "bell" or environ.get("TMUX") or kind.startswith(("tmux", "screen")):
        return Terminal(bell=True)
    ghostty = program == "ghostty" or kind == "xterm-ghostty"
    iterm = program == "iTerm.app"
    return Terminal(
        bell=True,
        message=iterm or ghostty or program == "WezTerm" or kind.startswith(("xterm-kitty", "foot")),
        progress=ghostty
        or program in ("WezTerm", "mintty")
        or (iterm and _version(environ.get("TERM_PROGRAM_VERSION", "")) >= (3, 6, 6))
        or bool(environ.get("WT_SESSION") or environ.get("ConEmuANSI") == "ON")
        or (whole(environ.get("VTE_VERSION", "")) or 0) >= 8000,
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(whole(part) or 0 for part in text.split("."))


class Attention:
    """Looks at runs again and again, and says of each once that it ended or stands still."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._seen: dict[str, str] = {}
        self._progress = ""
        self._again = 0.0

    def look(self, runs: Iterable[RunState], now: float) -> str:
        """What to write to the terminal now, mostly nothing. What had ended when it was first seen is no news."""
        states = [state for state in runs if state.run]
        said = "".join(self._news(state) for state in states)
        return said + self._progressed([state for state in states if state.ended is None], now)

    def end(self) -> str:
        """What to write when nobody looks any more."""
        shown, self._progress = self._progress, ""
        return CLEARED if shown else ""

    def _news(self, state: RunState) -> str:
        word = _word(state)
        before = self._seen.get(state.run, word if state.ended is not None else "")
        self._seen[state.run] = word
        if word in (before, "", "detached"):
            return ""
        if self._terminal.message:
            return f"{OSC}distui: {_sentence(state, word)}{BELL}"
        return BELL if self._terminal.bell else ""

    def _progressed(self, living: list[RunState], now: float) -> str:
        if not self._terminal.progress or (not living and not self._progress):
            return ""
        shown = _progress(living[0]) if len(living) == 1 else f"{OSC}4;{_UNKNOWN};0{BELL}" if living else ""
        if shown == self._progress and now < self._again:
            return ""
        self._progress, self._again = shown, now + AGAIN_S
        return shown or CLEARED


def _word(state: RunState) -> str:
    """What is news when it changes."""
    if state.ended is not None:
        return state.ended.outcome
    return "stalled" if state.stalled is not None else ""


def _sentence(state: RunState, word: str) -> str:
    """`mnist-7f3 failed: rank 2 on h2`. With a word of ours before it: `4;` alone would be progress."""
    failure = state.failure if word == "failed" else None
    first = f": rank {failure.rank} on {failure.host}" if failure is not None and failure.rank is not None else ""
    return safe(f"{state.run} {_WORDS.get(word, word)}{first}")


def _progress(state: RunState) -> str:
    """How far a run is, in percent where it tells the step that it ends with."""
    step = state.progress.values.get("step") if state.progress is not None else None
    total = last_step_of(state.progress) if state.progress is not None else None
    if step is None or total is None or not 0 <= step <= total or not 0 < 100 * total < float("inf"):
        return f"{OSC}4;{_UNKNOWN};0{BELL}"
    return f"{OSC}4;{_PERCENT if state.stalled is None else _PAUSED};{int(100 * step / total)}{BELL}"
