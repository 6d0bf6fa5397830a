"""`distui probe`: what the hosts have, a row as each one answers."""

from __future__ import annotations

import json
import time
from asyncio import sleep
from collections.abc import Callable, Sequence
from dataclasses import replace

from distui.amounts import counted
from distui.cli import wiring
from distui.cli.console import Console, as_json
from distui.cli.printing.hostrows import Rows
from distui.cli.settings import Settings
from distui.columns import cut
from distui.errors import ExitCode
from distui.facts.host import HostDown, HostFacts, ProbeResult
from distui.facts.probe import probe_all
from distui.facts.render_json import host_json, probe_json
from distui.files import make_private, write_private, writing
from distui.runs.lines.text import safe_lines
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import fold

Results = dict[str, "ProbeResult"]


def act(
    settings: Settings,
    out: Console,
    sets: tuple[str, ...],
    watch: float | None,
    save: bool,
    parallel: int | None,
    connect_timeout: float | None,
    fail_on: str,
) -> int:
    """See `probe --help`."""
    settings = settings.with_flags(parallel=parallel, connect_timeout=connect_timeout)
    found = settings.selection.inventory()
    hosts = found.chosen(settings.selection.picks(found, sets))
    probing = _probe(settings, out, hosts, watch)
    shown = probing if watch is None else wiring.while_read(out, probing)
    results = wiring.run_async(shown, limit=settings.timeout)
    if save:
        _save(settings, out, results)
    return _status(results, fail_on)


def _status(results: Results, fail_on: str) -> int:
    down = [isinstance(r, HostDown) for r in results.values()]
    failed = all(down) if fail_on == "all" else any(down)
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


async def _probe(settings: Settings, out: Console, hosts: Sequence[Host], watch: float | None) -> Results:
    async with wiring.connected(settings, hosts) as connector:
        while True:
            results = await _once(connector, settings, out, hosts, repeated=watch is not None)
            if watch is None:
                return results
            await sleep(watch)


async def _once(
    connector: Connector, settings: Settings, out: Console, hosts: Sequence[Host], *, repeated: bool
) -> Results:
    """One round over all hosts, shown as asked."""
    limit = settings["connect_timeout"]
    asked = [replace(h, connect_timeout=limit) if limit is not None else h for h in hosts]
    show = _shower(settings, out, hosts, repeated=repeated)
    results = await probe_all(connector, asked, parallel=settings["parallel"], on_result=show)
    _finish(settings, out, results, repeated=repeated)
    return results


def _shower(
    settings: Settings, out: Console, hosts: Sequence[Host], *, repeated: bool
) -> Callable[[ProbeResult], None]:
    """What to do with each result as it comes."""
    match settings.output:
        case "ndjson":
            return lambda result: out.print(as_json(host_json(result.host, result)))
        case "name":
            return lambda result: out.write(f"{result.host}\n" if isinstance(result, HostFacts) else "")
        case "table" | "wide" if not (repeated and out.redraws):
            return _LiveRows(out, [h.name for h in hosts], wide=settings.output == "wide").show
        case _:
            return lambda result: None


class _LiveRows:
    """Rows as hosts answer; on a terminal a last line says who is still awaited."""

    def __init__(self, out: Console, names: Sequence[str], *, wide: bool) -> None:
        self._out = out
        self._rows = Rows(names, wide=wide)
        self._waiting = dict.fromkeys(names)
        self._live = out.out.isatty() and out.err.isatty() and out.err_colour
        out.print(self._rows.header())
        self._status()

    def show(self, result: ProbeResult) -> None:
        """Print one host's row."""
        self._waiting.pop(result.host, None)
        self._clear()
        for line in paint(self._out, self._rows.of(result.host, result)):
            self._out.print(line)
        self._status()

    def _clear(self) -> None:
        if self._live:
            self._out.err.write("\r\x1b[K")
            self._out.err.flush()

    def _status(self) -> None:
        if self._live and self._waiting:
            text = f"waiting for {fold(self._waiting)}"
            self._out.err.write(f"\x1b[2m{text[: max(self._out.width - 1, 20)]}\x1b[0m")
            self._out.err.flush()


def paint(out: Console, lines: Sequence[str], width: int = 0) -> list[str]:
    """A host's lines, safe to show and with their colours: red for a dead host, yellow for what is wrong. With a
    `width` each takes one row of the terminal.
    """
    head, *more = [cut(safe_lines(line).replace("\n", " "), width) if width else safe_lines(line) for line in lines]
    down = head.split()[1:2] == ["down"]
    return [out.styled(head, "red" if down else ""), *(out.styled(m, "dim" if down else "yellow") for m in more)]


def _finish(settings: Settings, out: Console, results: Results, *, repeated: bool) -> None:
    """What is shown once all hosts have answered."""
    if settings.output == "json":
        out.json(probe_json(results))
    elif settings.output in ("table", "wide") and repeated and out.redraws:
        _redraw(settings, out, results)
    if settings.output in ("table", "wide"):
        out.say(_summary(results), "dim")


def _redraw(settings: Settings, out: Console, results: Results) -> None:
    rows = Rows(list(results), wide=settings.output == "wide")
    width, height = out.size()
    head = [time.strftime("%H:%M:%S"), cut(rows.header(), width)]
    shown = {name: paint(out, rows.of(name, result), width) for name, result in results.items()}
    room = height - len(head) - 2  # below it are the summary and the cursor
    lines = [line for of_host in shown.values() for line in of_host]
    if room > 0 and len(lines) > room:  # it would scroll the one before away
        order = sorted(results, key=lambda name: not isinstance(results[name], HostDown))
        lines = [line for name in order for line in shown[name]]
        more = f"and {counted(len(lines) - room + 1, 'row')} more, hosts that are down first"
        lines = [*lines[: room - 1], cut(more, width)]
    out.print("\x1b[H\x1b[2J" + "\n".join([*head, *lines]))


def _summary(results: Results) -> str:
    up = [r for r in results.values() if isinstance(r, HostFacts)]
    gpus = counted(sum(len(f.gpu.gpus) for f in up), "GPU")
    return f"{counted(len(results), 'host')}, {len(up)} up, {len(results) - len(up)} down, {gpus}"


def _save(settings: Settings, out: Console, results: Results) -> None:
    """Keep what was found. Raises UsageError when that can't be written."""
    path = settings.paths.facts_file
    with writing(path):
        make_private(path.parent)
        write_private(path, json.dumps(probe_json(results) | {"saved": time.time()}).encode() + b"\n")
    out.say(f"saved to {path}", "dim")
