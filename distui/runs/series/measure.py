"""Events of a run -> what is measured over time: one value each of a rank, a host, or the run as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distui.plan.model import RunPlan
from distui.runs.lines.events import Event, GpuReading, HostSampled, Progressed
from distui.runs.series.values import Series
from distui.runs.state.load import data_rate, placed, used_networks
from distui.runs.state.progress import COUNTS

Figure = tuple[Series, float]

EPOCH = "epoch"
"""The one count that is kept: steps may begin anew in each."""
THROUGHPUT = ("tokens", "samples")


class Measure:
    """Knows the plan: whose GPU it is, and what the data goes over.

    Throughput is known by the names of the job's `progress`: `tokens_per_s` is taken as it is, `tokens_per_step` is
    divided by the time of a step, of `tokens`, a count so far, it is how fast that grows; `samples` likewise.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._networks = used_networks(plan)
        self._gpus: dict[str, list[tuple[int, frozenset[int]]]] = {}
        for rank, (task, gpus) in placed(plan).items():
            if gpus:
                self._gpus.setdefault(task.host, []).append((rank, frozenset(gpus)))
        self._before: Progressed | None = None

    def figures(self, event: Event) -> list[Figure]:
        """What an event measures."""
        match event:
            case HostSampled():
                return list(self._host(event))
            case Progressed():
                before, self._before = self._before, event
                return list(_progress(event, before))
            case _:
                return []

    def _host(self, sample: HostSampled) -> Iterator[Figure]:
        host = sample.host
        if sample.cpu_pct is not None:
            yield Series("cpu_load", host=host), sample.cpu_pct
        if (both := data_rate(self._networks.get(host), sample)) is not None:
            yield Series("net_rx", host=host), both[0]
            yield Series("net_tx", host=host), both[1]
        readings = {gpu.index: gpu for gpu in sample.gpus}
        for rank, wanted in self._gpus.get(host, ()):
            yield from _gpus(rank, [readings[index] for index in wanted if index in readings])


def _gpus(rank: int, gpus: Sequence[GpuReading]) -> Iterator[Figure]:
    """Mean load, memory and power of all GPUs of a rank."""
    loads = [gpu.utilization_pct for gpu in gpus if gpu.utilization_pct is not None]
    memory = [gpu.memory_used_mib for gpu in gpus if gpu.memory_used_mib is not None]
    power = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    if loads:
        yield Series("gpu_load", rank), sum(loads) / len(loads)
    if memory:
        yield Series("gpu_memory", rank), sum(memory)
    if power:
        yield Series("gpu_power", rank), sum(power)


def _progress(event: Progressed, before: Progressed | None) -> Iterator[Figure]:
    """The job's own values and its epoch, no other count; then time of a step and throughput, where it tells none."""
    values, seconds = event.values, event.seconds_per_step
    for name, value in values.items():
        if name not in COUNTS or name == EPOCH:
            yield Series(name), value
    if "step_time" not in values and seconds is not None and seconds > 0:
        yield Series("step_time"), seconds
    for name in THROUGHPUT:
        if f"{name}_per_s" not in values and (rate := _rate(name, values, seconds, event.at, before)) is not None:
            yield Series(f"{name}_per_s"), rate


def _rate(
    name: str, values: Mapping[str, float], seconds: float | None, at: float, before: Progressed | None
) -> float | None:
    per_step = values.get(f"{name}_per_step")
    if per_step is not None:
        return per_step / seconds if seconds is not None and seconds > 0 else None
    now, last = values.get(name), before.values.get(name) if before is not None else None
    if now is None or last is None or before is None or at <= before.at or now < last:
        return None
    return (now - last) / (at - before.at)
