"""Regular expressions of others, tried with a time limit: from job files, `--grep`, and filters in the app.

A pattern like `(a+)+$` takes longer than the sun lasts on the wrong line, and Python's matcher can't be interrupted. So
these are compiled and tried in one small process beside this one, which is killed when a question takes too long; the
pattern is then given up and never tried again.
"""

from __future__ import annotations

import atexit
import contextlib
import marshal
import os
import re
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import field
from math import inf
from pathlib import Path
from typing import Any, AnyStr, Generic, Union

from distui.frozen import frozen
from distui.pattern_worker import HEAD

LIMIT_S = 0.5
"""Processor seconds one question may take."""
WAIT_S = 10.0
"""Seconds an answer is waited for, however busy the machine is."""
ASKED_BYTES = 1 << 16
"""Text in one question about several lines."""


class BadPattern(ValueError):
    """No regular expression, or one that can't even be compiled in time."""


@frozen
class PatternMatch(Generic[AnyStr]):
    """A match that was made in the other process: as much of `re.Match` as is needed."""

    at: tuple[int, int]
    groups: tuple[AnyStr | None, ...]
    named: dict[str, AnyStr | None]
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where the named groups are that took part."""

    def start(self) -> int:
        """Where it begins."""
        return self.at[0]

    def end(self) -> int:
        """Where it ends."""
        return self.at[1]

    def span(self) -> tuple[int, int]:
        """Where it begins and ends."""
        return self.at

    def group(self, number: int = 0, /) -> AnyStr | None:
        """The text of a group, 0 for all; None where it took no part. Raises IndexError when there is no such group."""
        return self.groups[number]

    def groupdict(self) -> dict[str, AnyStr | None]:
        """The named groups."""
        return self.named


class LimitedPattern(Generic[AnyStr]):
    """A pattern that takes a bounded time. One that was too slow once matches nothing any more and says so.

    With `pace` it is also given up when it gets through fewer bytes in a second than that: for patterns that are tried
    on all that ranks print, without anybody waiting for it.
    """

    def __init__(self, pattern: AnyStr, flags: int = 0, *, pace: int = 0) -> None:
        self.pattern: AnyStr = pattern
        self.flags = int(flags)
        self.given_up = ""
        """Why it is not tried any more, in words that follow the pattern's name; empty while it is."""
        self._pace = pace
        self._spent = 0.0
        self._read = 0

    def check(self) -> tuple[str, ...]:
        """The names of its groups. Raises BadPattern."""
        names = self._ask("check", ())
        if self.given_up:
            raise BadPattern(self.given_up)
        return tuple(names)

    def search(self, text: AnyStr) -> PatternMatch[AnyStr] | None:
        """The first place in a text that matches."""
        found = self.first([text])
        return found[1] if found is not None else None

    def first(self, texts: Sequence[AnyStr]) -> tuple[int, PatternMatch[AnyStr]] | None:
        """The first text of these that matches, by its index, and the match."""
        for begin, part in _parts(texts):
            if (found := self._ask("first", part)) is not None:
                index, match = found
                return begin + index, PatternMatch(*match)
        return None

    def each(self, texts: Sequence[AnyStr]) -> Iterator[tuple[int, PatternMatch[AnyStr]]]:
        """The texts that match, by their index, each with its first match."""
        for begin, part in _parts(texts):
            for index, match in self._ask("each", part) or ():
                yield begin + index, PatternMatch(*match)

    def finditer(self, text: AnyStr) -> Iterator[PatternMatch[AnyStr]]:
        """All places that match, without groups."""
        for start, end in self._ask("spans", (text,)) or ():
            yield PatternMatch((start, end), (text[start:end],), {})

    def _ask(self, kind: str, texts: tuple[AnyStr, ...]) -> Any:
        if self.given_up:
            return None
        try:
            verdict, value, seconds = _worker.ask((self.pattern, self.flags, kind, texts, LIMIT_S))
        except TimeoutError:
            self.given_up = f"takes longer than {LIMIT_S:g} s"
            return None
        except OSError as error:
            self.given_up = f"can't be tried: {error.strerror or error}"
            return None
        if verdict != "ok":
            self.given_up = f"not a regular expression: {value}"
            return None
        self._spent += seconds
        self._read += sum(map(len, texts))
        if self._spent > LIMIT_S + (self._read / self._pace if self._pace else inf):
            self.given_up = f"takes {self._spent:.1f} s for {self._read} bytes"
        return value


Searches = Union[re.Pattern[AnyStr], LimitedPattern[AnyStr]]  # noqa: UP007 - a generic alias
"""What finds text: a pattern of ours, or one of others with its limit."""


def _parts(texts: Sequence[AnyStr]) -> Iterator[tuple[int, tuple[AnyStr, ...]]]:
    """Texts in parts that are asked about at once, each with the index of its first one."""
    begin = size = 0
    for index, text in enumerate(texts):
        if index > begin and size + len(text) > ASKED_BYTES:
            yield begin, tuple(texts[begin:index])
            begin, size = index, 0
        size += len(text)
    if begin < len(texts):
        yield begin, tuple(texts[begin:])


def compiled(pattern: AnyStr, flags: int = 0) -> Searches[AnyStr]:
    """What somebody typed, ready to search: plain words can't be slow and are not limited. Raises BadPattern."""
    if re.escape(pattern) == pattern:
        return re.compile(pattern, flags)
    limited = LimitedPattern(pattern, flags)
    limited.check()
    return limited


def matching(pattern: Searches[AnyStr], texts: Sequence[AnyStr]) -> list[int]:
    """Which of these texts match, by their index."""
    if isinstance(pattern, LimitedPattern):
        return [index for index, _ in pattern.each(texts)]
    return [index for index, text in enumerate(texts) if pattern.search(text)]


def given_up(pattern: Searches[Any] | None) -> str:
    """Why a pattern is not tried any more; empty while it is."""
    return pattern.given_up if isinstance(pattern, LimitedPattern) else ""


class _Worker:
    """The process, started when it is first needed and again after it was killed. One question at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, question: tuple[Any, ...]) -> tuple[str, Any, float]:
        """The answer. Raises TimeoutError when it takes too long, OSError when there can be no process."""
        data = marshal.dumps(question)
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            try:
                process.stdin.write(HEAD.pack(len(data)) + data)
                process.stdin.flush()
                (length,) = HEAD.unpack(self._read(process, HEAD.size))
                verdict, value, seconds = marshal.loads(self._read(process, length))
            except (BrokenPipeError, EOFError) as error:
                self._end()
                raise TimeoutError from error
            except BaseException:  # half an answer is left in the pipe
                self._end()
                raise
            return str(verdict), value, float(seconds)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._owner != os.getpid():  # a fork has the pipes of the process it came from
            self._process, self._owner = None, os.getpid()
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            program = Path(__file__).with_name("pattern_worker.py")
            self._process = subprocess.Popen(
                (sys.executable, "-I", "-S", str(program)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def _read(self, process: subprocess.Popen[bytes], size: int) -> bytes:
        """So many bytes of the answer. Raises EOFError when the process ended, TimeoutError when nothing comes."""
        assert process.stdout is not None
        until, parts = time.monotonic() + WAIT_S, []
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while size:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise TimeoutError
                parts.append(os.read(process.stdout.fileno(), size))
                if not parts[-1]:
                    raise EOFError
                size -= len(parts[-1])
        return b"".join(parts)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()

    def close(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            self._end()


_worker = _Worker()
atexit.register(_worker.close)
