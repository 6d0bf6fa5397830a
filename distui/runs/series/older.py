"""The series of runs from before series were kept: made again of the figures that stand in their folders.

They go into a folder of their own, for as long as they are read: looking at a run changes nothing of it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from weakref import finalize

from distui.copies import copy_folder
from distui.runs.series.keeper import SeriesKeeper
from distui.runs.series.reader import SeriesReader
from distui.runs.store.recorded import stored_figures, stored_plan
from distui.runs.store.runs import StoredRun


def series_of(stored: StoredRun) -> SeriesReader:
    """What a run measured, read once. Blocks for seconds where an older run has to be gone through."""
    reader = SeriesReader(stored.series_dir)
    reader.refresh()
    if reader.span is not None or stored.is_followed:  # who follows it is about to write them
        return reader
    return _made_again(stored) or reader


class _Older(SeriesReader):
    """Its files go with it."""

    def __init__(self, folder: Path, kept: ExitStack) -> None:
        super().__init__(folder)
        finalize(self, kept.close)


def _made_again(stored: StoredRun) -> SeriesReader | None:
    plan, figures = stored_plan(stored), stored_figures(stored)
    if plan is None or not figures:
        return None
    kept = ExitStack()
    folder = kept.enter_context(copy_folder())
    reader = _Older(folder, kept)
    keeper = SeriesKeeper(folder)
    keeper.measure(plan)
    for event in figures:
        keeper.take(event)
    keeper.close()
    reader.refresh()
    return reader
