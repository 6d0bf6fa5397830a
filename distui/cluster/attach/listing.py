"""Runs that there are: which hosts are asked for them, and what those say."""

from __future__ import annotations

from collections.abc import Sequence

from distui.cluster.attach.places import Places
from distui.runs.hosts.discover import FoundRuns, find_runs
from distui.runs.hosts.launches import Launch, find_launches
from distui.runs.report.history import RunRow
from distui.runs.store.saved_hosts import saved_hosts
from distui.session import Connector
from distui.spec.hosts.inventory import Host


def hosts_to_ask(places: Places, recorded: Sequence[RunRow]) -> tuple[Host, ...]:
    """Those of the inventory that are chosen, and those that runs without an end here were started on."""
    hosts = {host.name: host for host in places.selection.chosen()}
    if not places.selection.narrows:
        for row in recorded:
            if not row.over:
                there = saved_hosts(places.settings.store.need(row.run))
                hosts |= {host.name: host for host in there if host.name not in hosts}
    return tuple(hosts.values())


async def find_all(connector: Connector, hosts: Sequence[Host]) -> tuple[FoundRuns, tuple[Launch, ...]]:
    """Runs with tasks on these hosts, and folders of launches on those that answered."""
    found = await find_runs(connector, hosts)
    up = [host for host in hosts if host.name not in found.unreachable]
    return found, await find_launches(connector, up)
