"""One host in plain words: what `d` shows and what can be copied into a ticket. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import wrap

from rich.cells import cell_len

from distui.amounts import memory_words, size_words
from distui.facts.host import HostDown, HostFacts
from distui.facts.render_json import host_json
from distui.monitor.host_board import HostBoard
from distui.monitor.links import Link, links
from distui.monitor.remarks import remarks
from distui.tui.hosts import rows as host_rows
from distui.tui.paint import figures


def described(host: HostBoard, now: float, *, width: int | None = None) -> str:
    """State and reason, remarks with what to do, then machine, GPUs, links, engine, disks, labels.

    In rows of at most `width` letters, if that is given.
    """
    sections = [list(_state(host, now)), list(_remarks(host, now))]
    if host.facts is not None:
        facts = host.facts
        sections += [list(_machine(facts)), list(_gpus(facts)), [_link(x) for x in links(host)], list(_rest(host))]
    texts = ("\n".join(row for line in lines for row in _rows(line, width)) for lines in sections if lines)
    return "\n\n".join(texts) + "\n"


def _rows(line: str, width: int | None) -> list[str]:
    """A line in as many rows as it needs; those that go on stand further right."""
    if width is None or cell_len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)


def raw(host: HostBoard) -> str:
    """Its newest probe as the JSON that `probe --json` prints for it; "" before the first answer."""
    failed = host.trouble is not None and host.status == "down"
    result = HostDown(host.name, host.trouble) if failed and host.trouble else host.facts
    return json.dumps(host_json(host.name, result), indent=2) if result is not None else ""


def _state(host: HostBoard, now: float) -> Iterator[str]:
    if host.status in ("down", "lost"):
        reason, hint = host_rows.reason_of(host)
        yield f"{host.name} is {host.status}: {reason}"
        if hint:
            yield f"  try: {hint}"
        yield f"  seen {figures.ago(now - host.seen)}" if host.seen else "  it has not answered yet"
        return
    yield f"{host.name} is {host.status}" + (f", seen {figures.ago(now - host.seen)}" if host.seen else "")
    for run, ranks in host_rows.runs_on(host):
        yield f"  {run} {ranks}"


def _remarks(host: HostBoard, now: float) -> Iterator[str]:
    for remark in remarks(host, now):
        yield f"! {remark.text}" + (f"; {remark.hint}" if remark.hint else "")


def _machine(facts: HostFacts) -> Iterator[str]:
    yield _pair("system", f"{facts.os or '-'}, kernel {facts.kernel or '-'}, {facts.arch or '-'}")
    yield _pair("host name", facts.hostname)
    yield _pair("processor", f"{facts.cpus or '-'} x {facts.cpu_model or '-'}")
    if facts.memory_total_mib:
        free = f", {memory_words(facts.memory_available_mib)} available" if facts.memory_available_mib else ""
        yield _pair("memory", f"{memory_words(facts.memory_total_mib)}{free}")
    if facts.rtt_ms is not None:
        yield _pair("round trip", f"{facts.rtt_ms:.1f} ms")
    if facts.clock_offset_ms is not None:
        yield _pair("clock", f"{facts.clock_offset_ms:+.1f} ms of ours")
    yield _pair(
        "login", f"{facts.user or '-'} (uid {facts.uid if facts.uid is not None else '-'}), {facts.home or '-'}"
    )
    limit = "-" if facts.memlock_kib is None else "unlimited" if facts.memlock_kib < 0 else f"{facts.memlock_kib} KiB"
    yield _pair("memlock", limit)


def _gpus(facts: HostFacts) -> Iterator[str]:
    if facts.gpu.problem:
        yield _pair("GPUs", facts.gpu.problem.message)
    for gpu in facts.gpu.gpus:
        size = f"{gpu.memory_total_mib:,} MiB" if gpu.memory_total_mib else "-"
        yield _pair(f"GPU {gpu.index}", f"{gpu.name}, {size}, driver {gpu.driver or '-'}, {gpu.pci or '-'}, {gpu.uuid}")


def _link(link: Link) -> str:
    speed = f"{link.gbps:g} Gb/s" if link.gbps else "speed unknown"
    words = [link.state or "-", speed, *([link.device] if link.device else []), *link.addresses]
    return _pair(link.name, ", ".join(words))


def _rest(host: HostBoard) -> Iterator[str]:
    facts = host.facts
    assert facts is not None
    engine = facts.engine
    words = engine.kind if engine.kind == "none" else f"{engine.kind} {engine.server or engine.client or '?'}"
    yield _pair("engine", words + (f", {engine.problem.message}" if engine.problem else ""))
    for disk in facts.disks:
        yield _pair("disk", f"{disk.path}: {size_words(disk.free)} free of {size_words(disk.total)}")
    if facts.ports_in_use:
        yield _pair("ports in use", ", ".join(str(p) for p in sorted(facts.ports_in_use)))
    for key, value in host.spec.labels.items():
        yield _pair("label", f"{key}={value}")


def _pair(name: str, value: str) -> str:
    return f"  {name:<14}{value}"
