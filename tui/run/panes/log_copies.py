"""Out of the app: a line or a selection into the clipboard, whole logs into files."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, ClassVar

from distui.files import new_file
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.log_pane import LogPane
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.run.panes.panes import Panes

COPY_BYTES = 100_000
"""A larger selection goes to a file: terminals refuse long clipboard sequences."""


def keep(folder: Path, name: str, write: Callable[[BinaryIO], object]) -> Path:
    """What `write` writes, as a new file: with a number where something of its name is there already. Raises OSError.

    The folder may be a cloned repository: through no link, also none that leads nowhere yet.
    """
    stem, _, suffix = name.rpartition(".")
    for number in itertools.count(1):
        path = folder / (name if number == 1 else f"{stem}-{number}.{suffix}")
        with contextlib.suppress(FileExistsError), new_file(path) as file:
            write(file)
            return path
    raise AssertionError("unreachable")


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
        if not (pane.rows or self.view.get_selected_text()):
            app_of(self.view).tell("there is no line to copy")
            return
        text = self.view.get_selected_text() or pane.row_text(pane.at)
        if len(text) <= COPY_BYTES:
            app_of(self.view).copy(text)
            return
        try:
            path = keep(Path.cwd(), "distui-selection.txt", lambda file: file.write(text.encode("utf-8", "replace")))
        except OSError as error:
            app_of(self.view).tell(f"can't write {error.filename}: {error.strerror}", level="error")
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
            name = f"{self.run}-{source.path.name}"
            try:
                if not source.path.exists():
                    continue  # this rank has not written a line
                done.append(await asyncio.to_thread(keep, Path.cwd(), name, source.copy))
            except OSError as error:
                app_of(self.view).tell(f"can't save {name}: {error.strerror}", level="error")
                return
        if not done and any(source.count for source in sources):
            app_of(self.view).tell(f"nothing to save: {sources[0].path.parent} was removed", level="warning")
        elif not done:
            app_of(self.view).tell("nothing to save: the rank has not written a line")
        else:
            app_of(self.view).tell(f"saved {done[0]}" if len(done) == 1 else f"saved {len(done)} logs to {Path.cwd()}")
