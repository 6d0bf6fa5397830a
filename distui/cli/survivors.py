"""Errors that cost a command one of its hosts and not its life: a crash file each, named once the command is over."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from distui.cli.crash import write_crash
from distui.runs.follow.survived import SURVIVED

T = TypeVar("T")


class Survivors:
    """Keeps what the event loop's handler of exceptions gets from `survived`; the same error once."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], secrets: Collection[str] = ()) -> None:
        self._words = words
        self._environ = environ
        self._secrets = secrets
        self._found: dict[tuple[str, ...], tuple[str, str, Path | None]] = {}

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work, and keep what it gets meanwhile."""
        asyncio.get_running_loop().set_exception_handler(self._handle)
        return await work

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if SURVIVED not in context or not isinstance(error, Exception):
            loop.default_exception_handler(context)
            return
        import traceback

        where = str(context[SURVIVED])
        lines = (f"{at.filename}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__))
        key = (type(error).__name__, *lines)
        if key not in self._found:
            number = len(self._found)
            place = write_crash(error, self._words, self._environ, self._secrets, number=number)
            self._found[key] = (key[0], where, place)

    def tell(self) -> None:
        """Name the files on stderr, where nothing is painted any more."""
        for kind, where, place in self._found.values():
            more = f"; details are in {place}" if place is not None else ""
            print(f"distui: {where} ended in an error that may be a bug in distui ({kind}){more}", file=sys.stderr)
