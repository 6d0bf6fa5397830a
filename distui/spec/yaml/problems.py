"""Problems found in a file: collected, put in order, shown with the line and a caret."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from distui.amounts import counted
from distui.errors import Problem, SpecError, UsageError
from distui.spec.yaml.nodes import Node, Source

MAX_PROBLEMS = 200
"""More than anyone reads; keeps the work bounded on hostile input."""
MAX_SNIPPET = 120
_MAX_SHOWN = 60


class Wrong(UsageError):
    """A value a reader can't accept; the message says why. Only used on the way to a `Problem`."""


def printable(text: str) -> str:
    """`text` without characters that could steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def shown(text: str) -> str:
    """`text` as quoted in a message: printable, on one line and not long."""
    clipped = text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
    return f"'{printable(clipped)}'"


def nearest(word: str, candidates: Iterable[str], likeness: float = 0.6) -> str | None:
    """The candidate most like `word`, if one is like it at all."""
    if len(word) > 2 * _MAX_SHOWN:
        return None
    import difflib  # only needed once something is wrong

    folded = {c.lower(): c for c in candidates}
    found = difflib.get_close_matches(word.lower(), folded, n=len(folded) or 1, cutoff=likeness)
    return folded[max(found, key=lambda near: how_near(word.lower(), near))] if found else None


def how_near(word: str, candidate: str) -> tuple[bool, float]:
    """To be compared: the same letters in another order are the likeliest slip, then it counts how many are shared."""
    from difflib import SequenceMatcher

    return sorted(word) == sorted(candidate), SequenceMatcher(None, candidate, word).ratio()


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`, did you mean 'port'?`, or nothing."""
    found = nearest(word, candidates)
    return f", did you mean '{found}'?" if found else ""


def unknown(what: str, word: str, known: Sequence[str]) -> str:
    """`unknown role 'x', did you mean 'y'?`, or which there are."""
    near = did_you_mean(word, known) or f"; known: {', '.join(known)}"
    return f"unknown {what} {shown(word)}{near}"


class Problems:
    """Collects problems while a file is read, so that one run shows all of them."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._more = 0

    def __len__(self) -> int:
        return len(self._found) + self._more

    def add(self, node: Node, key: str, message: str) -> None:
        """Note a problem at the place of `node`. `key` is dotted from the document's top."""
        self.add_at(node.source, node.line, node.column, key, message)

    def add_at(self, source: Source, line: int, column: int, key: str, message: str) -> None:
        """Note a problem at a line and column, both from 1; 0 for none. What is noted already is not noted twice."""
        if len(self._found) >= MAX_PROBLEMS:
            self._more += 1
            return
        if source.is_flag:
            found = Problem(source.path, 0, 0, _beyond(source.path, key), message)
        else:
            key = key if len(key) <= 2 * _MAX_SHOWN else key[: 2 * _MAX_SHOWN] + "…"
            found = Problem(source.path, line, column, printable(key), message, source.line(line))
        if found not in self._found:
            self._found.append(found)

    def raise_any(self) -> None:
        """Raise SpecError with everything found, in file order; nothing when nothing was."""
        if self._found:
            raise self.error()

    def error(self) -> SpecError:
        """Everything found as one error."""
        found = sorted(self._found, key=lambda p: (p.line, p.column))
        if self._more:
            found.append(Problem(found[-1].path, 0, 0, "", f"{counted(self._more, 'more problem')} not shown"))
        return SpecError(tuple(found))


def render(problem: Problem) -> str:
    """The problem in words, then its source line with a caret under the place (UX §4.4)."""
    headline = str(problem)
    if not problem.line or not problem.snippet.strip():
        return headline
    text, column = _window(problem.snippet, problem.column)
    gutter = f"{problem.line:>5} | "
    margin = " " * (len(gutter) - 2) + "| "
    blank = " " * sum(map(_width, text[: column - 1]))
    return f"{headline}\n{gutter}{printable(text)}\n{margin}{blank}^"


def _beyond(flag: str, key: str) -> str:
    """The key, unless the flag's name says the same."""
    same = flag.endswith(f" {key}") or flag.lstrip("-").replace("-", "_") == key
    return "" if same else printable(key)


def _window(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around `column`, and the column within it. Tabs become spaces."""
    line = line.replace("\t", " ")
    if len(line) <= MAX_SNIPPET:
        return line, column
    start = max(0, min(column - 1 - MAX_SNIPPET // 2, len(line) - MAX_SNIPPET))
    return line[start : start + MAX_SNIPPET], column - start


def _width(char: str) -> int:
    """How many cells of a terminal it takes."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
