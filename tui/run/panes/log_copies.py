"""Out of the app: a line or a selection into the clipboard, whole logs into files."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import ClassVar

from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged_pane import MergedPane
from distui.tui.run.panes.panes import Panes

COPY_BYTES = 100_000
"""A larger selection goes to a file: terminals refuse long clipboard sequences."""


def fresh_path(folder: Path, name: str) -> Path:
    """`name` in a folder, with a number when a file of that name is there already."""
    stem, _, suffix = name.rpartition(".")
    path, number = folder / name, 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.{suffix}", number + 1
    return path


class LogCopies(Part):
    """The keys that copy what the active pane shows."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("copy_line", "copy", ("c",), "Logs", help="Copy what is selected, else the line of the cursor."),
        Action("save", "save log", ("W",), "Logs", "save", help="Copy the whole file of the log to this folder."),
    )

    def __init__(self, view: View, run: str, panes: Panes) -> None:
        self.view = view
        self.run = run
        self.panes = panes

    def action_copy_line(self) -> None:
        """A selection, else the line."""
        pane = self.panes.active
        text = self.view.get_selected_text() or (pane.row_text(pane.at) if pane.rows else "")
        if len(text) <= COPY_BYTES:
            app_of(self.view).copy(text)
            return
        path = fresh_path(Path.cwd(), "distui-selection.txt")
        try:
            path.write_text(text, "utf-8")
        except OSError as error:
            app_of(self.view).tell(f"can't write {path}: {error.strerror}", level="error")
        else:
            app_of(self.view).tell(f"too much for a clipboard: saved to {path}")

    def action_save(self) -> None:
        """The file of the active pane, whole."""
        pane = self.panes.active
        if isinstance(pane, LogPane) and pane.view is not None:
            self.view.work(self._save([pane.view.buffer]), name="save")
        elif isinstance(pane, MergedPane):
            self.view.work(self._save(list(pane.merged.buffers.values())), name="save")

    async def _save(self, sources: list[LogBuffer]) -> None:
        done: list[Path] = []
        for source in sources:
            target = fresh_path(Path.cwd(), f"{self.run}-{source.path.name}")
            with contextlib.suppress(FileNotFoundError):
                try:
                    await asyncio.to_thread(source.copy, target)
                except OSError as error:
                    app_of(self.view).tell(f"can't save {target}: {error.strerror}", level="error")
                    return
                done.append(target)
        if not done:
            app_of(self.view).tell("nothing to save: the rank has not written a line")
        else:
            app_of(self.view).tell(f"saved {done[0]}" if len(done) == 1 else f"saved {len(done)} logs to {Path.cwd()}")
