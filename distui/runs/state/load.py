"""Which GPUs a rank has, how busy they are, and what its host's data network carries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distui.plan.model import HostNetwork, RunPlan, Task
from distui.runs.lines.events import GpuReading, HostSampled


def placed(plan: RunPlan) -> dict[int, tuple[Task, tuple[int, ...]]]:
    """Rank -> its task and the GPUs meant for it, by rank."""
    found: dict[int, tuple[Task, tuple[int, ...]]] = {}
    for task in plan.tasks:
        for i, rank in enumerate(task.ranks):
            gpus = task.rank_gpus[i] if i < len(task.rank_gpus) else task.gpus if len(task.ranks) == 1 else ()
            found[rank] = (task, gpus)
    return dict(sorted(found.items()))


def load(sample: HostSampled | None, gpus: Iterable[int]) -> float | None:
    """Mean utilisation of these GPUs in percent; None when none of them is known."""
    wanted = frozenset(gpus)
    known = [g.utilization_pct for g in readings(sample) if g.index in wanted and g.utilization_pct is not None]
    return sum(known) / len(known) if known else None


def readings(sample: HostSampled | None) -> Sequence[GpuReading]:
    """The GPUs of a sample; none without one."""
    return sample.gpus if sample is not None else ()


def data_rate(network: HostNetwork | None, sample: HostSampled | None) -> tuple[float, float] | None:
    """Bytes per second (received, sent) on what the ranks talk over: the RDMA ports, else the interface."""
    if sample is None or network is None:
        return None
    ports = [sample.net[h] for h in network.hcas if h in sample.net] if not network.rdma_off else []
    found = ports or ([sample.net[network.ifname]] if network.ifname in sample.net else [])
    return (sum(r for r, _ in found), sum(t for _, t in found)) if found else None
