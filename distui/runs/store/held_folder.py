"""A run's folder that is read on while another run may take its name."""

from __future__ import annotations

import os
import weakref

from distui.runs.store.new_lines import inode_of
from distui.runs.store.runs import StoredRun


class HeldFolder:
    """Knows a folder by its number, which no other one gets while this is there; a missing one once it is there."""

    def __init__(self, stored: StoredRun) -> None:
        self._stored = stored
        self._number = self._hold()

    @property
    def is_here(self) -> bool:
        """Whether it still has its name, or is not there yet."""
        return inode_of(self._stored.path) == self._number

    def find(self) -> StoredRun | None:
        """Where it is by now: it has another name once another run has its own. None where it is gone, and its name is
        another's.
        """
        here = inode_of(self._stored.path)
        self._number = self._number or self._hold()
        if here == self._number:
            return self._stored
        run = self._stored.path
        older = run.parent.glob(f"{run.name}~*")
        moved = next((StoredRun(path) for path in older if inode_of(path) == self._number), None)
        return self._stored if moved is None and not here else moved

    def _hold(self) -> int:
        try:
            folder = os.open(self._stored.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return 0
        weakref.finalize(self, os.close, folder)
        return os.fstat(folder).st_ino
