"""What `distui top` says of hosts: a table with a row per GPU, the same as CSV, and as the JSON `distui/top/v1`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from distui.amounts import gib, memory_words, size_words
from distui.cli.printing.csv_rows import csv_text
from distui.cli.printing.hostrows import gpu_name
from distui.facts.gpus import throttle
from distui.facts.host import GpuProcess
from distui.facts.render_json import trouble_json
from distui.monitor.histories import GpuHistory
from distui.monitor.host_board import HostBoard
from distui.monitor.remarks import remarks
from distui.plan.labels import format_ranks

SCHEMA = "distui/top/v1"
"""Keys are only ever added to it. Rates are bytes per second, sizes MiB; null is unknown, never 0."""

Json = dict[str, object]

HEADER = ("HOST", "GPU", "MODEL", "UTIL", "MEMORY", "POWER", "TEMP", "SM", "PCIE IN", "OUT", "ECC", "XID", "NET IN",
          "OUT", "OWNER")  # fmt: skip
PROCESS_HEADER = ("HOST", "GPU", "PID", "USER", "MEMORY", "PROGRAM", "CONTAINER", "RUN")

# As JSON


def host_json(host: HostBoard, now: float) -> Json:
    """One host: `state` is up, down, lost or unknown."""
    live, memory = host.sample, host.memory()
    return {
        "name": host.name,
        "state": host.status,
        "error": trouble_json(host.trouble),
        "age_s": None if live is None else round(max(0.0, now - live.at), 1),
        "cpu_pct": _rounded(live.cpu_pct if live else None),
        "load": live.load if live else None,
        "memory_mib": live.memory_total_mib if live else None,
        "memory_available_mib": live.memory_available_mib if live else None,
        "gpu_mem_mib": memory[1] if memory and host.gpus else None,
        "gpu_mem_used_mib": memory[0] if memory and host.gpus else None,
        "gpus": [gpu_json(host, gpu) for gpu in host.gpus_in_order()],
        "net": {link.name: {"rx_bps": _rounded(link.rx), "tx_bps": _rounded(link.tx), "errors": link.errors}
                for link in host.links.values()},
        "remarks": [{"level": r.level, "text": r.text, "hint": r.hint} for r in remarks(host, now)],
    }  # fmt: skip


def gpu_json(host: HostBoard, gpu: GpuHistory) -> Json:
    """One GPU and who uses it."""
    live, known, owner = gpu.reading, gpu.facts, host.owner(gpu)
    return {
        "index": gpu.index,
        "uuid": known.uuid if known else None,
        "name": known.name if known else None,
        "util_pct": gpu.utilization,
        "mem_mib": gpu.memory_total,
        "mem_used_mib": gpu.memory_used,
        "temp_c": gpu.temperature,
        "slowdown_c": live.slowdown_c if live else None,
        "power_w": gpu.power,
        "power_limit_w": live.power_limit_w if live else None,
        "sm_mhz": live.sm_mhz if live else None,
        "throttle": None if live is None or live.throttle is None else list(throttle.words(live.throttle)),
        "pcie_rx_bps": live.pcie_rx if live else None,
        "pcie_tx_bps": live.pcie_tx if live else None,
        "ecc_uncorrected": live.ecc if live else None,
        "xid": live.xid if live else None,
        "run": owner.use.run if owner.use else None,
        "ranks": list(owner.ranks),
        "processes": [_process_json(host, gpu, p) for p in (known.processes if known else ())],
    }


def _process_json(host: HostBoard, gpu: GpuHistory, process: GpuProcess) -> Json:
    return {
        "pid": process.pid,
        "user": process.user,
        "name": process.name,
        "mem_mib": process.memory_mib,
        "container": process.container,
        "run": _run_of(host, gpu, process) or None,
    }


def _run_of(host: HostBoard, gpu: GpuHistory, process: GpuProcess) -> str:
    use = host.owner(gpu).use
    found = host.use_of(process.container) or (use if host.belongs(process, use) else None)
    return found.run if found else ""


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


# As a table


def rows(hosts: Iterable[HostBoard]) -> Iterator[tuple[str, ...]]:
    """A row per GPU, one for a host without."""
    for host in hosts:
        if host.status != "up":
            continue
        if host.gpus:
            yield from (_gpu_row(host, gpu, first=i == 0) for i, gpu in enumerate(host.gpus_in_order()))
        else:
            yield _machine_row(host)


def gone(hosts: Iterable[HostBoard]) -> Iterator[str]:
    """A line for each host that has no rows, with the reason."""
    for host in hosts:
        if host.status != "up":
            words = host.trouble.words(host.name) if host.trouble else "no answer yet"
            yield f"{host.name}  {host.status}: {words.splitlines()[0] if words else '-'}"


def fitting(lines: tuple[int, int, int], room: int) -> tuple[int, int, int]:
    """How many lines of GPUs, of hosts that are gone and of the rest are shown where not all have room: hosts that are
    gone as far as a half of it goes, then GPUs, then the rest.
    """
    rows, gone, more = lines
    room = max(0, room)
    lost = min(gone, max(room // 2, room - rows))
    first = min(rows, room - lost)
    return first, lost, min(more, room - lost - first)


def _gpu_row(host: HostBoard, gpu: GpuHistory, *, first: bool) -> tuple[str, ...]:
    live, net = gpu.reading, host.rates() if first else None
    used, total = gpu.memory_used, gpu.memory_total
    sm = "" if live is None or live.sm_mhz is None else f"{live.sm_mhz}"
    why = throttle.word(live.throttle if live else None)
    return (
        host.name,
        str(gpu.index),
        gpu_name(gpu.facts) if gpu.facts else "",
        _number(gpu.utilization, "{:.0f}%"),
        "" if used is None or total is None else f"{gib(used)}/{gib(total)} GiB",
        _number(gpu.power, "{:.0f}W"),
        _number(gpu.temperature, "{:.0f}C"),
        f"{sm} {why}".strip(),
        _rate(live.pcie_rx if live else None),
        _rate(live.pcie_tx if live else None),
        _number(live.ecc if live else None, "{:.0f}"),
        _number(live.xid if live else None, "{:.0f}"),
        _rate(net[0] if net else None),
        _rate(net[1] if net else None),
        owner(host, gpu),
    )


def owner(host: HostBoard, gpu: GpuHistory) -> str:
    """`llm-7f3 r0-7`, strangers with a `!`, `in use`, or `free`."""
    found, words = host.owner(gpu), []
    if found.use is not None:
        ranks = format_ranks(found.ranks)
        words.append(f"{found.use.run} r{ranks}" if ranks else found.use.run)
    for process in found.foreign:
        words.append(f"{process.user or '?'} {_program(process)}!")
    return ", ".join(words) or host.unowned_words(gpu)


def _program(process: GpuProcess) -> str:
    return process.name.split()[0].rpartition("/")[2] if process.name.split() else "process"


def _machine_row(host: HostBoard) -> tuple[str, ...]:
    live, memory, net = host.sample, host.memory(), host.rates()
    return (
        host.name,
        "",
        {"none": "no GPU", "silent": "driver!"}.get(host.gpu_state, ""),
        _number(live.cpu_pct if live else None, "{:.0f}%"),
        "" if memory is None else f"{gib(memory[0])}/{gib(memory[1])} GiB",
        *[""] * 7,
        _rate(net[0] if net else None),
        _rate(net[1] if net else None),
        ", ".join(dict.fromkeys(use.run for use in host.uses)),
    )


def process_rows(hosts: Iterable[HostBoard]) -> Iterator[tuple[str, ...]]:
    """A row per process on a GPU, as the last probe found them."""
    for host in hosts:
        for gpu in host.gpus_in_order():
            for p in gpu.facts.processes if gpu.facts else ():
                memory = "" if p.memory_mib is None else memory_words(p.memory_mib)
                run = _run_of(host, gpu, p) or "of no run !"
                words = (host.name, str(gpu.index), str(p.pid), p.user or "", memory, p.name, (p.container or "")[:12])
                yield (*words, run)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _rate(value: float | None) -> str:
    return "" if value is None else f"{size_words(value)}/s"


# As CSV

_CSV = ("host", "state", "index", "uuid", "name", "util_pct", "mem_used_mib", "mem_mib", "temp_c", "power_w",
        "power_limit_w", "sm_mhz", "throttle", "pcie_rx_bps", "pcie_tx_bps", "ecc_uncorrected", "xid", "run",
        "ranks")  # fmt: skip
_CSV_PROCESSES = ("host", "index", "pid", "user", "mem_mib", "container", "run", "name")


def csv_lines(hosts: Sequence[HostBoard], *, procs: bool, header: bool) -> str:
    """Numbers without units, unknown ones empty: GPUs of all hosts, or with `procs` the processes on them."""
    names = _CSV_PROCESSES if procs else _CSV
    rows: list[Sequence[object]] = [names] if header else []
    for host in hosts:
        gpus = [gpu_json(host, gpu) for gpu in host.gpus_in_order()]
        for values in _processes(gpus) if procs else gpus or [{}]:
            all_values = {"host": host.name, "state": host.status, **values}
            rows.append([_cell(all_values.get(name)) for name in names])
    return csv_text(rows)


def _processes(gpus: Sequence[Json]) -> Iterator[Json]:
    for gpu in gpus:
        found = gpu["processes"]
        for process in found if isinstance(found, list) else ():
            yield {"index": gpu["index"], **process}


def _cell(value: object) -> object:
    return "" if value is None else " ".join(map(str, value)) if isinstance(value, list) else value
