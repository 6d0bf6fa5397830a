"""What is worth a look at a host, in sentences: value, threshold, how long, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from distui.amounts import duration, memory_words
from distui.doctor.host_checks import disk
from distui.facts.gpus import throttle, xid
from distui.facts.host import GpuProcess, HostFacts
from distui.facts.limits import HOT_C, WARM_C, clock_words
from distui.frozen import frozen
from distui.monitor.histories import GpuHistory
from distui.monitor.host_board import HostBoard
from distui.monitor.links import links
from distui.monitor.notes import ecc_words
from distui.plan.labels import format_ranks
from distui.whole import whole

IDLE_S = 900.0
"""Seconds a GPU of a run may do nothing before it is remarked (all-smi's 15 minutes)."""


@frozen
class Remark:
    """One thing to look at: `watch` or `wrong`, what, and what to do about it or what it means."""

    level: Literal["watch", "wrong"]
    text: str
    hint: str = ""


def remarks(host: HostBoard, now: float) -> list[Remark]:
    """Everything worth a look at this host, what is wrong first."""
    if host.status not in ("up", "lost"):
        return []
    engine = [Remark("wrong", f"{host.spec.engine}: {t.message}", t.hint)] if (t := host.engine_trouble) else []
    found = [*_gpus(host, now), *_links(host), *engine, *(_machine(host.facts) if host.facts else ())]
    return sorted(found, key=lambda r: r.level != "wrong")


def _gpus(host: HostBoard, now: float) -> Iterator[Remark]:
    if host.facts and host.facts.gpu.problem:
        problem = host.facts.gpu.problem
        yield Remark("wrong", f"GPUs: {problem.message}", problem.hint)
    yield from _silent(host, now)
    for gpu in host.gpus_in_order():
        yield from _gpu(host, gpu, now)
    yield from _foreign_processes(host)


def _silent(host: HostBoard, now: float) -> Iterator[Remark]:
    """GPUs that gave figures and give none any more, those of a host as one."""
    if host.facts and host.facts.gpu.problem:
        return
    silent = {gpu.index: gpu.missing_since or now for gpu in host.gpus_in_order()
              if gpu.silent and not (gpu.facts and gpu.facts.problem)}  # fmt: skip
    if silent:
        where, gives = ("GPU", "gives") if len(silent) == 1 else ("GPUs", "give")
        since = duration(now - min(silent.values()), coarse=True)
        what = f"{where} {format_ranks(silent)} {gives} no figures any more, for {since}"
        yield Remark("wrong", what, "see what `nvidia-smi` says there")


def _gpu(host: HostBoard, gpu: GpuHistory, now: float) -> Iterator[Remark]:
    if gpu.facts and gpu.facts.problem:
        yield Remark("wrong", f"GPU {gpu.index}: {gpu.facts.problem.message}", gpu.facts.problem.hint)
    yield from _temperature(host, gpu, now)
    yield from _health(gpu, now)
    owner = host.owner(gpu)
    if owner.use and gpu.idle_since is not None and now - gpu.idle_since > IDLE_S:
        message = f"GPU {gpu.index} idle for {duration(now - gpu.idle_since, coarse=True)} while {owner.use.run} has it"
        yield Remark("watch", message)


def _temperature(host: HostBoard, gpu: GpuHistory, now: float) -> Iterator[Remark]:
    """Value, threshold, how long; what comes next is the hint."""
    temperature = gpu.temperature
    if temperature is None or temperature <= WARM_C:
        return
    limit = HOT_C if temperature > HOT_C else WARM_C
    known = gpu.warm_since is not None and now - gpu.warm_since >= 60
    since = f" for {duration(now - gpu.warm_since, coarse=True)}" if known and gpu.warm_since is not None else ""
    slowdown = gpu.reading.slowdown_c if gpu.reading else None
    begins = "began" if slowdown is not None and temperature >= slowdown else "starts"
    hints = [] if slowdown is None else [f"slowdown {begins} at {slowdown:.0f} °C"]
    others = [t for x in host.gpus_in_order() if x is not gpu and (t := x.temperature) is not None]
    if others and max(others) <= WARM_C:
        low, high = round(min(others)), round(max(others))
        hints.append(f"the others are at {low if low == high else f'{low}-{high}'} °C")
    message = f"GPU {gpu.index} at {temperature:.0f} °C, above {limit:.0f} °C{since}"
    yield Remark("wrong" if temperature > HOT_C else "watch", message, ", ".join(hints))


def _health(gpu: GpuHistory, now: float) -> Iterator[Remark]:
    """What the driver holds down, and what it counted or logged since it was loaded."""
    live = gpu.reading
    if live is None:
        return
    if live.throttle and live.throttle & throttle.SLOWED:
        clock = f" to {live.sm_mhz} MHz" if live.sm_mhz is not None else ""
        why = " and ".join(throttle.words(live.throttle & throttle.SLOWED))
        yield Remark("watch", f"GPU {gpu.index} is slowed down{clock}: {why}", "look at fans, inlet air and supply")
    if live.ecc:
        yield Remark("wrong", f"GPU {gpu.index} counts {ecc_words(live.ecc)}", _RESET)
    if live.xid is not None:
        at = f" {duration(now - live.xid_at, coarse=True)} ago" if live.xid_at is not None else ""
        words, program = xid.words(live.xid), xid.of_program(live.xid)
        message = f"GPU {gpu.index}: XID {live.xid}{at}" + (f", {words}" if words else "")
        yield Remark("watch" if program else "wrong", message, "" if program else _RESET)


_RESET = "leave it out of runs, or reset it with `nvidia-smi -r`"


def _foreign_processes(host: HostBoard) -> Iterator[Remark]:
    """Processes of no run: those of one person and program as one sentence."""
    found: dict[str, list[tuple[int, GpuProcess]]] = {}
    for gpu in host.gpus_in_order():
        for process in host.owner(gpu).foreign:
            program = process.name.split()[0].rpartition("/")[2] if process.name.split() else "a process"
            found.setdefault(f"{process.user} {program}" if process.user else program, []).append((gpu.index, process))
    for who, members in found.items():
        gpus = format_ranks(dict.fromkeys(gpu for gpu, _ in members))
        held = sum(p.memory_mib or 0 for _, p in members)
        size = f", {memory_words(held)}" if held else ""
        what = f"pid {members[0][1].pid}" if len(members) == 1 else f"{len(members)} processes"
        where = "GPU" if whole(gpus) is not None else "GPUs"
        yield Remark("watch", f"{where} {gpus}: {who} ({what}{size}) is of no run")


def _links(host: HostBoard) -> Iterator[Remark]:
    counted = any((link.errors or 0) > link.errors_before for link in host.links.values())
    if not counted and all(port.active for port in host.ib_ports()):
        return  # hundreds of hosts are looked at for one picture, and links are dear
    found = links(host, seconds=0)
    rails = [x for x in found if x.infiniband]
    for link in rails:
        if not link.up:
            left = f"{sum(x.up for x in rails)} of {len(rails)} rails are left"
            yield Remark("watch", f"{link.device or link.name} is {link.state}", f"{left}; check cable and switch port")
    for link in found:
        if link.new_errors:
            yield Remark("watch", f"{link.name} counts errors: {link.new_errors} more since we look")


def _machine(facts: HostFacts) -> Iterator[Remark]:
    if clock := clock_words(facts):
        yield Remark("watch", clock, "run ntp or chrony there")
    room = disk(facts)
    if room.verdict in ("warn", "fail"):
        yield Remark("wrong" if room.verdict == "fail" else "watch", f"disk: only {room.saw}", room.do)
    yield from (Remark("watch", text) for text in facts.warnings)
