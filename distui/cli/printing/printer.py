"""The headless printer: batches of events to rank output on stdout and distui's own words on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from distui.cli.console import Console, as_json
from distui.cli.printing import words
from distui.cli.printing.outlet import Outlet
from distui.cli.printing.ranks import Prefixes
from distui.frozen import frozen
from distui.runs.lines.batch import Batch
from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import (
    AttemptEnded,
    Event,
    FailureFound,
    LogLine,
    LogLines,
    RankChanged,
    RunEnded,
    RunOpened,
    RunStalled,
    iso,
)
from distui.runs.lines.text import safe
from distui.runs.state.reducer import RunState

_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"
"""ASCII without what steers a terminal."""


class Sink(Protocol):
    """What shows a run."""

    async def feed(self, batch: Sequence[Event], state: RunState) -> None:
        """Show what happened; waits for a slow reader."""

    async def finish(self, ended: RunEnded, state: RunState) -> None:
        """Show how the run ended."""

    def hurry(self) -> None:
        """Stop waiting for a slow reader."""


@frozen
class LogView:
    """Which lines are shown and how."""

    stdout: bool = True
    ranks: frozenset[int] | None = None
    prefix: bool = True
    timestamps: bool = False

    @classmethod
    def of(cls, flags: Mapping[str, Any]) -> LogView:
        """By the flags of `run` and `attach`."""
        to_stdout, prefix = flags["log_to"] == "stdout", not flags["no_prefix"]
        return cls(to_stdout, flags["ranks"], prefix, flags["timestamps"])

    def wants(self, rank: int | None) -> bool:
        """Whether lines of this rank are shown; a launcher's own words only when all ranks are."""
        return self.stdout and (self.ranks is None or rank in self.ranks)


class LineWriter:
    """Log lines -> bytes for a terminal or a pipe; nothing a rank prints can steer the terminal."""

    def __init__(self, view: LogView, *, colour: bool) -> None:
        self._view = view
        self._colour = colour
        self._prefixes = Prefixes({}, colour=colour)

    @property
    def timestamps(self) -> bool:
        """Whether lines are shown with their stamps."""
        return self._view.timestamps

    def open(self, hosts: Mapping[int, str], names: Mapping[int, str] | None = None) -> None:
        """Fit the prefixes to the ranks of a run."""
        self._prefixes = Prefixes(hosts, colour=self._colour, names=names)

    def bytes(self, rank: int | None, host: str, lines: Iterable[LogLine], at: float | None = None) -> bytes:
        """The lines with their prefix; `at` stands in for a stamp that a line lacks."""
        view = self._view
        prefix = self._prefixes.of(rank, host) if view.prefix else ""
        if isinstance(lines, Batch) and not view.timestamps:
            data = lines.data
            # most logs are shown as they are, and to look at lines one by one costs
            if not data.translate(None, _PLAIN) and data.count(b"\n") == len(lines) > 0:
                start = prefix.encode("utf-8", "replace")
                return start + data[:-1].replace(b"\n", b"\n" + start) + b"\n"
        shown = []
        for line in lines:
            text = line.text if line.text.isprintable() else self._clean(line.text)
            if view.timestamps:
                stamp = line.stamp or (iso(at) if at is not None else "-")
                text = f"{stamp if stamp.isprintable() else safe(stamp)} {text}"
            shown.append(f"{prefix}{text}\n")
        return "".join(shown).encode("utf-8", "replace")

    def _clean(self, text: str) -> str:
        shown = safe(text, colour=self._colour)
        return shown + "\x1b[0m" if "\x1b" in shown else shown


class Heard:
    """Leaves out what was said already: later events of a rank tell when it ended by a better clock, or its relation to
    the failure, and a failure is reported again when more is known of it than its headline says. A run that stood still
    as a rank failed does not go on.
    """

    def __init__(self) -> None:
        self._ends: dict[int, tuple[object, ...]] = {}
        self._failed = ""

    def news(self, events: Iterable[Event]) -> list[Event]:
        """The events that say something new to people."""
        return [event for event in events if self._is_new(event)]

    def _is_new(self, event: Event) -> bool:
        match event:
            case RankChanged():
                return self._is_new_end(event)
            case FailureFound():
                said, self._failed = self._failed, words.failed_first(event.failure)
                return said != self._failed
            case RunStalled(stalled=False):
                return not self._failed and not any(exit for _, exit, _ in self._ends.values())
            case AttemptEnded():
                self._failed = ""
                self._ends.clear()
                return True
            case _:
                return True

    def _is_new_end(self, event: RankChanged) -> bool:
        said = (event.state, event.exit, event.words)
        known = self._ends.get(event.rank) == said
        self._ends[event.rank] = said
        return not known


class HeadlessPrinter:
    """For people: `013 node02 | text` on stdout, one line per phase and change on stderr, a report at the end."""

    def __init__(self, console: Console, outlet: Outlet, view: LogView, *, verbose: int = 0) -> None:
        self._console = console
        self._outlet = outlet
        self._view = view
        self._verbose = verbose
        self._lines = LineWriter(view, colour=console.out_colour)
        self._reported_closed = False
        self._heard = Heard()

    async def feed(self, batch: Sequence[Event], state: RunState) -> None:
        """See Sink."""
        logs: list[bytes] = []
        others: list[Event] = []
        for event in batch:
            if isinstance(event, LogLines):
                if self._view.wants(event.rank):
                    logs.append(self._lines.bytes(event.rank, event.host, event.lines, event.at))
                continue
            if isinstance(event, RunOpened):
                self._lines.open(event.ranks, event.names)
            others.append(event)
        await self._write(b"".join(logs), state)
        said = list(words.of_batch(self._heard.news(others), verbose=self._verbose, names=state.rank_names))
        if said:
            await self._outlet.drain(1.0)  # keeps both streams in order on one terminal
            for text, style in said:
                tell(self._console, text, style)

    async def _write(self, data: bytes, state: RunState) -> None:
        await self._outlet.write(data)
        self._tell_closed("the run is still running, ", state)

    def _tell_closed(self, what: str, state: RunState) -> None:
        where = f"its logs are in {state.log_dir}" if state.log_dir else f"`distui logs {state.run}` prints its logs"
        if self._outlet.error is not None and not self._reported_closed:
            self._reported_closed = True
            self._console.warn(f"distui: stdout: {self._outlet.error.strerror or 'closed'}; {what}{where}", "yellow")

    async def finish(self, ended: RunEnded, state: RunState) -> None:
        """See Sink."""
        await self._outlet.drain()
        if self._outlet.lost is not None:
            self._tell_closed("", state)
        for text, style in words.report(ended, state):
            if ended.exit or ended.warnings or not self._console.quiet:
                self._console.warn(text, style)

    def hurry(self) -> None:
        """See Sink."""
        self._outlet.abandon()


def tell(console: Console, text: str, style: str) -> None:
    """Words on what happens; what is wrong is said even with -q."""
    (console.warn if style == "red" else console.say)(text, style)


class NdjsonPrinter:
    """For programs: every event as one JSON object a line, the last one the result."""

    def __init__(self, outlet: Outlet, view: LogView, console: Console) -> None:
        self._outlet = outlet
        self._view = view
        self._console = console

    async def feed(self, batch: Sequence[Event], state: RunState) -> None:
        """See Sink; the result waits for `finish`, since it is written even when nothing else is."""
        lines = [
            as_json(value, compact=True)
            for event in batch
            if not isinstance(event, RunEnded) and (not isinstance(event, LogLines) or self._view.wants(event.rank))
            for value in to_json(event, state.run)
        ]
        await self._outlet.write("".join(line + "\n" for line in lines).encode("utf-8", "replace"))

    async def finish(self, ended: RunEnded, state: RunState) -> None:
        """See Sink."""
        (result,) = to_json(ended, state.run)
        line = as_json(result, compact=True) + "\n"
        await self._outlet.last(line.encode("utf-8", "replace"))
        self._console.result_given = True
        with self._console.said_if_lost(_kept(ended)):
            self._outlet.refuse_loss()

    def hurry(self) -> None:
        """See Sink."""
        self._outlet.abandon()


class ResultPrinter:
    """Only the result, as one JSON object."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._heard = Heard()

    async def feed(self, batch: Sequence[Event], state: RunState) -> None:
        """See Sink; what happens on the way is kept quiet, but for words on stderr."""
        for text, style in words.of_batch(
            self._heard.news(e for e in batch if not isinstance(e, LogLines)), names=state.rank_names
        ):
            tell(self._console, text, style)

    async def finish(self, ended: RunEnded, state: RunState) -> None:
        """See Sink."""
        (result,) = to_json(ended, state.run)
        errors = [notice.text for notice in state.notices if notice.level == "error"]
        self._console.result({**result, "errors": errors}, _kept(ended))

    def hurry(self) -> None:
        """See Sink; nothing ever waits."""


def _kept(ended: RunEnded) -> str:
    """Where it is kept what happened, result and all; "" of a run that never was."""
    return f"what happened is in {Path(ended.log_dir).parent / 'events.ndjson'}" if ended.log_dir else ""


def printer(console: Console, output: str, view: LogView, *, verbose: int = 0) -> Sink:
    """The printer for `-o table|wide|name`, `ndjson` or `json`."""
    if output == "json":
        return ResultPrinter(console)
    outlet = Outlet(console.out.fileno())
    if output == "ndjson":
        return NdjsonPrinter(outlet, view, console)
    return HeadlessPrinter(console, outlet, view, verbose=verbose)
