"""Which GPUs a rank has, how busy they are, and what its host's data network carries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from distui.plan.model import HostNetwork, RunPlan, Task
from distui.runs.lines.events import GpuReading, HostSampled, NetworkUsed

IDLE_PCT = 5.0
"""A GPU below this does nothing (all-smi's util_idle_pct)."""
BUSY_PCT = 80.0
LITTLE_POWER = 0.4
"""A GPU that is busy with less of its limit than this computes nothing worth its power."""


def placed(plan: RunPlan) -> dict[int, tuple[Task, tuple[int, ...]]]:
    """Rank -> its task and the GPUs meant for it, by rank."""
    found = {rank: (task, gpus) for task in plan.tasks for rank, gpus in gpus_of_ranks(task)}
    return dict(sorted(found.items()))


def gpus_of_ranks(task: Task) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each rank of a task with the GPUs meant for it; none where it is not said which of several ranks has which."""
    for i, rank in enumerate(task.ranks):
        yield rank, task.rank_gpus[i] if i < len(task.rank_gpus) else task.gpus if len(task.ranks) == 1 else ()


def gpus_by_rank(plan: RunPlan, host: str) -> list[tuple[int, ...]]:
    """The GPUs of each rank of a host; those of a task where it is not said which of them is whose."""
    tasks = [task for task in plan.tasks if task.host == host]
    return [group for task in tasks for group in (task.rank_gpus or (task.gpus,)) if group]


def load(sample: HostSampled | None, gpus: Iterable[int]) -> float | None:
    """Mean utilisation of these GPUs in percent; None when none of them is known."""
    wanted = frozenset(gpus)
    known = [g.utilization_pct for g in readings(sample) if g.index in wanted and g.utilization_pct is not None]
    return sum(known) / len(known) if known else None


def readings(sample: HostSampled | None) -> Sequence[GpuReading]:
    """The GPUs of a sample; none without one."""
    return sample.gpus if sample is not None else ()


def waits(gpu: GpuReading) -> bool:
    """Whether a GPU is busy and takes so little power that it waits in a collective, in a run that stands still."""
    if gpu.utilization_pct is None or gpu.power_w is None or not gpu.power_limit_w:
        return False
    return gpu.utilization_pct >= BUSY_PCT and gpu.power_w < LITTLE_POWER * gpu.power_limit_w


def works(gpu: GpuReading) -> bool:
    """Whether a GPU computes, as far as can be seen: it is not idle, and does not only wait. Where its power is not
    known, whatever is busy may be at work.
    """
    return gpu.utilization_pct is not None and gpu.utilization_pct >= IDLE_PCT and not waits(gpu)


def used_networks(plan: RunPlan) -> dict[str, HostNetwork]:
    """Host -> its network as the ranks use it: gloo talks TCP over the interface, whatever RDMA ports there are, and so
    does NCCL where RDMA is kept off.
    """
    return {
        one.host: replace(one, hcas=(), fabric="tcp") if one.rdma_off or plan.backend == "gloo" else one
        for one in plan.networks
    }


def data_rate(network: HostNetwork | None, sample: HostSampled | None) -> tuple[float, float] | None:
    """Bytes per second (received, sent) on what the ranks talk over (`used_networks`): RDMA ports, or the interface."""
    if sample is None or network is None:
        return None
    ports = [sample.net[h] for h in network.hcas if h in sample.net] if not network.rdma_off else []
    found = ports or ([sample.net[network.ifname]] if network.ifname in sample.net else [])
    return (sum(r for r, _ in found), sum(t for _, t in found)) if found else None


def link_share(network: HostNetwork | None, sample: HostSampled | None) -> float | None:
    """How much of its link a host's data uses, 0 to 1, of the direction that uses more; None where not known."""
    rates = data_rate(network, sample)
    if rates is None or network is None or not network.speed_mbps:
        return None
    received, sent = rates
    return 8 * max(received, sent) / 1e6 / float(network.speed_mbps)


def carried_by_another(used: NetworkUsed | None, host: str) -> str:
    """The interface of a host that carried more than those which the plan chose; empty where those did."""
    mine = [one for one in used.interfaces if one.host == host and one.interface != "lo"] if used is not None else []
    planned = sum(one.received + one.sent for one in mine if one.planned)
    others = [one for one in mine if not one.planned and one.received + one.sent > planned]
    if used is None or not used.warnings or not others:
        return ""
    return max(others, key=lambda one: one.received + one.sent).interface
