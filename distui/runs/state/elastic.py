"""Nodes that a run may lose: with `torchrun: {nnodes: MIN:MAX}` torchrun goes on as long as enough of them are left.

What ends such a run: fewer nodes than MIN, or the loss of node 0, on which torchrun keeps its rendezvous.
"""

from __future__ import annotations

from collections.abc import Collection

from distui.plan.model import RunPlan

WAIT_FOR_LOST = 20.0
"""Seconds that a run whose other nodes have all ended well waits for a host that is out of reach."""


def store_task(plan: RunPlan) -> int:
    """The task that holds torchrun's rendezvous: node 0's."""
    return min(plan.tasks, key=lambda t: t.node_rank).index


def fails(plan: RunPlan, bad: Collection[int]) -> bool:
    """Whether a run fails when these tasks have ended badly."""
    return too_few(len(plan.tasks), plan.min_nodes, store_task(plan), bad)


def too_few(tasks: int, min_nodes: int | None, keeper: int | None, bad: Collection[int]) -> bool:
    """The same by numbers: of so many tasks `min_nodes` must be left, the one that holds the rendezvous among them."""
    if min_nodes is None:
        return bool(bad)
    return keeper in bad or tasks - len(bad) < min_nodes


def can_do_without(plan: RunPlan, gone: Collection[int]) -> bool:
    """Whether the run may go on, or has ended well, without these tasks: ended badly, or on hosts out of reach."""
    return plan.min_nodes is not None and not fails(plan, gone)


def words_on_loss(plan: RunPlan, task: int, gone: Collection[int]) -> str:
    """What the loss of a node means for the others."""
    left = len(plan.tasks) - len(gone)
    if task == store_task(plan):
        return "it holds torchrun's rendezvous, without which the other nodes can't go on"
    if fails(plan, gone):
        return f"{left} of {len(plan.tasks)} nodes are left, and the job needs {plan.min_nodes}"
    return f"the run goes on with {left} of {len(plan.tasks)} nodes (it needs {plan.min_nodes})"
