"""Events of a run -> what is measured over time: one value each of a rank, a host, or the run as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distui.plan.model import RunPlan
from distui.runs.lines.events import Event, GpuReading, HostSampled, Progressed
from distui.runs.series.figures import Figure, Said, figures_of
from distui.runs.series.values import Series
from distui.runs.state.load import data_rate, placed, used_networks
from distui.runs.state.progress import CHECKPOINTS

EPOCH = "epoch"
"""The one count that is kept: steps may begin again in each."""


class Measure:
    """Knows the plan: whose GPU it is, and what the data goes over."""

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
    """What the run says of itself, and its epoch; of a checkpoint reported with the step of before only that."""
    if before is not None and _only_saved_since(event, before):
        yield from ((Series(name), value) for name, value in event.values.items() if name in CHECKPOINTS)
        return
    last = Said(before.at, before.values) if before is not None else None
    for name, value in figures_of(Said(event.at, event.values), last, event.seconds_per_step):
        yield Series(name), value
    if EPOCH in event.values:
        yield Series(EPOCH), event.values[EPOCH]


def _only_saved_since(event: Progressed, before: Progressed) -> bool:
    return _values(event, saved=True) != _values(before, saved=True) and _values(event) == _values(before)


def _values(event: Progressed, *, saved: bool = False) -> dict[str, float | str]:
    """What it tells of the checkpoint that was saved last, or of all else."""
    everything: dict[str, float | str] = {**event.words, **event.values}
    return {name: said for name, said in everything.items() if (name in CHECKPOINTS) is saved}
