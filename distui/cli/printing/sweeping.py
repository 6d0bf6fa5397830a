"""Says what was removed of launches of a run that were killed, and what could not be."""

from __future__ import annotations

from distui.cli.console import Console
from distui.cluster.attach.sweeping import SweptRun


def tell_swept(out: Console, run: str, done: SweptRun) -> None:
    """What is left, where it could not be tried, and what was removed."""
    for level, words in done.words(run):
        out.tell(words, level)
