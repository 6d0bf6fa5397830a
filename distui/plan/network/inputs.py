"""What the choice of a network is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from distui.facts.host import HostFacts
from distui.frozen import frozen
from distui.plan.model import Notes
from distui.plan.network import fabric
from distui.plan.network.fabric import Offer
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import Backend, Job

Pools = Mapping[str, tuple[Offer, ...]]
"""Name of a host -> what it may use."""


@frozen
class Inputs:
    """What the choice is made from, and what is said on the way."""

    job: Job
    backend: Backend
    hosts: tuple[Host, ...]
    facts: Mapping[str, HostFacts]
    one_machine: bool
    notes: Notes = field(default_factory=Notes)

    @property
    def verbs(self) -> bool:
        """Whether the backend can use RDMA without an IP address on it (gloo can't)."""
        return self.backend != "gloo"

    def have_ports(self, link_layer: str) -> bool:
        """Whether every host has an ACTIVE RDMA port of that kind."""
        return all(fabric.rdma_ports(f, link_layer) for f in self.facts.values())


def pinned_name(job: Job, host: Host) -> str | None:
    return job.fabric.ifname or host.data.ifname


def is_pinned(job: Job, host: Host) -> bool:
    return bool(pinned_name(job, host) or host.data.addr)
