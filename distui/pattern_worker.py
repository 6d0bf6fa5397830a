"""The process that tries regular expressions for `patterns`: run as a program, asked on stdin, answers on stdout.

The time limit is the processor time of one question, kept by the kernel: a match that backtracks runs in C without ever
asking Python, so nothing within a process can end it but a signal whose default is to end the process.
"""

from __future__ import annotations

import contextlib
import marshal
import re
import signal
import struct
import sys
import time
import warnings
from typing import Any

HEAD = struct.Struct(">I")
MEMORY = 1 << 30
"""Bytes of address space: a pattern may ask for all there is."""


def answer(pattern: str | bytes, flags: int, kind: str, texts: tuple[Any, ...]) -> Any:
    """`check`: names of the groups. `spans`: of all matches in a text. `each`: index and match of the texts that have
    one. `first`: the same of the first that has.
    """
    regex: re.Pattern[Any] = re.compile(pattern, flags)
    if kind == "check":
        return tuple(regex.groupindex)
    if kind == "spans":
        return [match.span() for match in regex.finditer(texts[0])]
    found = ((index, _parts(match)) for index, text in enumerate(texts) if (match := regex.search(text)))
    return next(found, None) if kind == "first" else list(found)


def _parts(match: re.Match[Any]) -> tuple[tuple[int, int], tuple[Any, ...], dict[str, Any], dict[str, tuple[int, int]]]:
    named = match.groupdict()
    spans = {name: match.span(name) for name, text in named.items() if text is not None}
    return match.span(), (match.group(), *match.groups()), named, spans


def _limited(pattern: str | bytes, flags: int, kind: str, texts: tuple[Any, ...], seconds: float) -> tuple[str, Any]:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return "ok", answer(pattern, flags, kind, texts)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        return "bad", str(error) or type(error).__name__
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    """Answer questions until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that asks
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    while len(head := questions.read(HEAD.size)) == HEAD.size:
        began = time.process_time()
        verdict, value = _limited(*marshal.loads(questions.read(HEAD.unpack(head)[0])))
        reply = marshal.dumps((verdict, value, time.process_time() - began))
        answers.write(HEAD.pack(len(reply)) + reply)
        answers.flush()


if __name__ == "__main__":
    main()
