"""Errors that nobody expected, met while one host is followed: they cost that host, not what follows the others."""

from __future__ import annotations

import asyncio

from distui.runs.lines.text import safe

SURVIVED = "distui_survived"
"""A key of what the event loop's handler of exceptions gets: it may be a bug, and what met it goes on."""

_LETTERS = 200


def survived(error: Exception, where: str) -> None:
    """Hand it to whoever keeps such errors in this process (the command line: a crash file), without an end of it."""
    context = {"message": f"distui goes on after an error in {where}", "exception": error, SURVIVED: where}
    asyncio.get_running_loop().call_exception_handler(context)


def unborne(error: Exception) -> str:
    """Why its host is lost, in words: what is in an error may be the host's own."""
    said = safe(" ".join(str(error).split())[:_LETTERS])
    return f"distui can't make sense of what it says, and follows it no more ({type(error).__name__}: {said})"
