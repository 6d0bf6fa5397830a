"""A run's events on disk: what comes every second in `metrics.ndjson`, the rest in `events.ndjson`.

Of a long run only the first and the newest figures are kept as they came: `series/` has all of them, coarser.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable

from distui.files import first_lines, tail_lines, write_private
from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import Event, HostSampled, LogLines, Progressed, RanksStepped
from distui.runs.store.growing import GrowingFile
from distui.runs.store.recorded import FIRST_BYTES
from distui.runs.store.runs import StoredRun

HELD = 16 << 20
"""Bytes of events that wait in memory while the disk is full: hours of them. What comes beyond that is lost."""

MOST_FIGURES = 48 << 20
"""Bytes of figures beyond which the middle of them is dropped."""
NEWEST_FIGURES = 16 << 20
"""Bytes of the newest figures that are kept then."""


class Journal:
    """Appends events to a run's folder. Log lines and what is read out of them stay out: the log files have them.

    Raises OSError.
    """

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self._events = GrowingFile(run.path / "events.ndjson")
        self._metrics = GrowingFile(run.path / "metrics.ndjson")
        self.lost = False
        """Whether so many events waited for room that newer ones were dropped."""
        for file in (self._events, self._metrics):
            _end_torn_line(file)

    def write(self, events: Iterable[Event]) -> None:
        """Append events and hand them to the kernel.

        Raises OSError when the disk is full: events that are not written then go first the next time. Figures do not
        wait.
        """
        full, grown = self._metrics.waiting > 0, False
        for event in events:
            if isinstance(event, HostSampled | Progressed):
                if not full:
                    self._metrics.hold(self._lines(event))
                    grown = True
            elif self._events.waiting > HELD:
                self.lost = True
            elif not isinstance(event, LogLines | RanksStepped):
                self._events.hold(self._lines(event))
        self._events.write()
        self._metrics.write()
        if grown:
            self._shorten()

    def _shorten(self) -> None:
        """Drop the middle of the figures where they are too many. On a full disk they stay as they are."""
        path = self._run.path / "metrics.ndjson"
        with contextlib.suppress(OSError):
            if path.stat().st_size > MOST_FIGURES:
                kept = first_lines(path, FIRST_BYTES) + tail_lines(path, NEWEST_FIGURES)
                write_private(path, b"".join(line + b"\n" for line in kept))
                self._metrics.close()
                self._metrics = GrowingFile(path)

    def _lines(self, event: Event) -> bytes:
        values = to_json(event, self._run.run_id)
        texts = (json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in values)
        return b"".join(text.encode("utf-8", "replace") + b"\n" for text in texts)  # a folder's name may be no text

    def close(self) -> None:
        """Close both files; a full disk is no reason to fail here."""
        for file in (self._events, self._metrics):
            file.close()


def _end_torn_line(file: GrowingFile) -> None:
    """Open it, and end the line that a crash or a full disk left in part: the next event would be lost with it."""
    file.open()
    if file.torn:
        file.hold(b"\n")
        with contextlib.suppress(OSError):  # then it goes first when there is room
            file.write()
