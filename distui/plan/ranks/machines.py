"""Two names for one machine: found by its ids and addresses, so that nothing is booked twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from distui.facts.host import Gpu, HostFacts
from distui.plan.model import Notes
from distui.plan.ranks.placement import HostPlacement


def same_machine(a: HostFacts, b: HostFacts) -> bool:
    """Whether two hosts are one machine and one network namespace.

    machine-id alone proves nothing (cloned images share it), nor does boot-id (namespaces share it): what both tell
    must agree, and so must the addresses. Small images have no machine-id: then there must be an address, since
    containers of one host have its boot-id.
    """
    pairs = [(a.machine_id, b.machine_id), (a.boot_id, b.boot_id)]
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    if not known or any(one != other for one, other in known):
        return False
    ours, theirs = _addresses(a), _addresses(b)
    return bool(ours & theirs) or (a.machine_id is not None and not (ours or theirs))


def _addresses(facts: HostFacts) -> frozenset[str]:
    """Addresses that tell machines apart: not loopback, not docker0, which has the same one everywhere."""
    return frozenset(a.ip for n in facts.nics if n.kind in ("ethernet", "infiniband", "other") for a in n.addresses)


def _is_one(a: Gpu, b: Gpu) -> bool:
    """Whether it is one GPU: containers that share a network may each have one of their own by the same number."""
    return a.index == b.index and (a.uuid == b.uuid or not (a.uuid and b.uuid))


def check_machines(places: Sequence[HostPlacement], notes: Notes) -> None:
    """A GPU booked twice is a problem, one machine under two names a warning."""
    for a, b in combinations(places, 2):
        if not same_machine(a.facts, b.facts):
            continue
        shared = [one.index for one in a.gpus for other in b.gpus if _is_one(one, other)]
        if shared:
            listed = ", ".join(map(str, shared))
            notes.problem(
                "same_machine",
                b.name,
                f"is the same machine as {a.name}, and both would use GPU {listed}",
                "name each machine once, or give each name its own GPUs (-H host:0-3)",
            )
        elif a.host.engine != "process" or b.host.engine != "process":
            notes.warnings.append(f"{a.name} and {b.name} are the same machine under two names")
