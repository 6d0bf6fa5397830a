"""`distui top`: the figures of the Hosts screen for scripts, and as a live table."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

from distui.amounts import counted
from distui.cli import wiring
from distui.cli.console import Console, as_json
from distui.cli.printing import toprows
from distui.cli.settings import Settings
from distui.columns import table
from distui.errors import ExitCode
from distui.facts.host import ProbeResult
from distui.facts.probe import probe_all
from distui.monitor.board import Board
from distui.monitor.figures import HostNews, figures
from distui.monitor.host_board import HostBoard
from distui.runs.hosts.discover import find_runs
from distui.runs.hosts.uses import uses_of
from distui.runs.lines.text import safe
from distui.session import Connector
from distui.spec.hosts.inventory import Host

ANSWER_SECONDS = 12.0
"""Seconds that the first picture waits for every host's second sample, which has the rates."""

AGAIN = 10.0
"""Seconds between two questions for what samples don't tell: processes, and which run uses what."""


def act(settings: Settings, out: Console, sets: tuple[str, ...], once: bool, interval: float, procs: bool) -> int:
    """See `top --help`."""
    found = settings.selection.inventory()
    hosts = found.chosen(settings.selection.picks(found, sets))
    shower = _Shower(settings, out, procs=procs, once=once)
    looking = _top(settings, hosts, shower, interval, once=once)
    return wiring.run_async(looking if once else wiring.while_read(out, looking), limit=settings.timeout)


async def _top(settings: Settings, hosts: Sequence[Host], shower: _Shower, interval: float, *, once: bool) -> int:
    board = Board(hosts)
    async with wiring.connected(settings, hosts) as connector, _fed(settings, connector, hosts, board) as whole:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await whole.wait()
        while True:
            shower.show(list(board.hosts.values()))
            if once:
                break
            await asyncio.sleep(interval)
    failed = any(host.status != "up" for host in board.hosts.values())
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


@contextlib.asynccontextmanager
async def _fed(settings: Settings, connector: Connector, hosts: Sequence[Host], board: Board) -> AsyncIterator[_Whole]:
    """The board with probes and samples coming in; gives what says when every host was heard."""
    whole = _Whole(board)
    tasks = [
        asyncio.create_task(_probe(settings, connector, hosts, board, whole.look)),
        asyncio.create_task(_sample(connector, hosts, board, whole.look)),
    ]
    try:
        yield whole
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Whole:
    """Knows whether the first picture is complete: each host is gone, or was probed and has sent rates."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._done = asyncio.Event()

    def look(self) -> None:
        """Something came."""
        if all(map(self._complete, self._board.hosts.values())):
            self._done.set()

    @staticmethod
    def _complete(host: HostBoard) -> bool:
        if host.status in ("down", "lost"):
            return True
        gpus = host.facts is not None and (not host.gpus or any(gpu.reading for gpu in host.gpus.values()))
        return gpus and (host.sample is not None and bool(host.sample.net))

    async def wait(self) -> None:
        """Until it is complete."""
        await self._done.wait()


async def _probe(
    settings: Settings, connector: Connector, hosts: Sequence[Host], board: Board, look: Callable[[], None]
) -> None:
    """Facts, processes and runs, again and again."""

    def answered(result: ProbeResult) -> None:
        board.probed(result.host, result, time.time())

    while True:
        await probe_all(connector, hosts, parallel=settings["parallel"], on_result=answered)
        up = [host for host in hosts if board[host.name].status == "up"]
        found = await find_runs(connector, up)
        board.used(uses_of((), found), time.time(), unasked=found.unreachable)
        look()
        await asyncio.sleep(AGAIN)


async def _sample(connector: Connector, hosts: Sequence[Host], board: Board, look: Callable[[], None]) -> None:
    async with contextlib.aclosing(figures(connector, [host.name for host in hosts])) as stream:
        async for figure in stream:
            _take(board, figure)
            look()


def _take(board: Board, figure: HostNews) -> None:
    if figure.sample is not None:
        board.sampled(figure.sample)
    elif figure.state != "sample":
        board.connection(figure.host, figure.state, figure.reason, time.time())


class _Shower:
    """Prints pictures in the form that was asked for."""

    def __init__(self, settings: Settings, out: Console, *, procs: bool, once: bool) -> None:
        self._form = settings.output
        self._out = out
        self._procs = procs
        self._once = once
        self._live = out.redraws and not once
        self._first = True

    def show(self, hosts: Sequence[HostBoard]) -> None:
        """One picture."""
        match self._form:
            case "json" | "ndjson":
                self._json(hosts)
            case "csv":
                self._out.print(toprows.csv_lines(hosts, procs=self._procs, header=self._first) or "\n")
            case _:
                self._table(hosts)
        self._first = False

    def _json(self, hosts: Sequence[HostBoard]) -> None:
        now = time.time()
        values = [toprows.host_json(host, now) for host in hosts]
        document = {"schema": toprows.SCHEMA, "at": round(now, 3), "hosts": values}
        if self._form == "json" and self._once:
            self._out.json(document)
        else:
            self._out.print(as_json(document))

    def _table(self, hosts: Sequence[HostBoard]) -> None:
        width, height = self._out.size() if self._live else (self._out.width, 0)
        rows, gone, more = self._parts(hosts, width)
        if not self._live:
            self._out.print("\n".join([*rows, *self._red(gone), *more]))
            return
        head = f"{time.strftime('%H:%M:%S')}  {counted(len(hosts), 'host')}, Ctrl-C ends"
        lines = [*rows, *gone, *more]
        if height and len(lines) > height - 2:  # a longer picture would scroll away what was there, each time
            keep = toprows.fitting((len(rows), len(gone), len(more)), height - 3)
            rows, gone, more = rows[: keep[0]], gone[: keep[1]], more[: keep[2]]
            more.append(f"and {counted(len(lines) - sum(keep), 'row')} more: `distui` scrolls, --once prints all")
        picture = "\x1b[K\n".join([head, *rows, *self._red(gone), *more])
        self._out.print(("\x1b[2J" if self._first else "") + f"\x1b[H{picture}\x1b[K\x1b[J")

    def _parts(self, hosts: Sequence[HostBoard], width: int) -> tuple[list[str], list[str], list[str]]:
        """The table, hosts that are gone, and the processes."""
        found = [tuple(map(safe, row)) for row in toprows.rows(hosts)]
        rows = table(toprows.HEADER, found, width=width) if found else []
        rows = rows if self._first or self._procs or self._live else rows[1:]
        more: list[str] = []
        if self._procs:
            processes = [tuple(map(safe, row)) for row in toprows.process_rows(hosts)]
            shown = table(toprows.PROCESS_HEADER, processes, width=width) if processes else ["no process on any GPU"]
            more = ["", *shown]
        gone = [safe(line) for line in toprows.gone(hosts)]
        return rows, [line[:width] for line in gone] if width and self._live else gone, more

    def _red(self, lines: Sequence[str]) -> list[str]:
        return [self._out.styled(line, "red") for line in lines]
