"""The reachability proof run again between the hosts of a run that lives or has just ended, bounded in time.

Each host listens on a port that its kernel picks, never on the rendezvous port: nothing of the run is disturbed. Hosts
out of reach are not asked. The connections of the run are used, so none is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from distui.doctor.reach import Endpoint, ReachReport, prove
from distui.errors import DistuiError
from distui.plan.model import HostNetwork
from distui.runs.attempt.attempt import Attempt
from distui.runs.verdict.network import NetworkFound, network_found
from distui.session import Session

CONNECT_SECONDS = 3.0
"""How long one host is given to answer another; a network that carries takes milliseconds."""
SECONDS = 15.0
"""How long all of it may take."""
SESSION_SECONDS = 2.0


async def ask_network(attempt: Attempt) -> NetworkFound:
    """Which hosts no longer answer on the network of the run. Never raises DistuiError, and ends within SECONDS.

    Says nothing where there is nothing to prove: one host, or a plan made from labels, which knows no addresses.
    """
    networks = attempt.plan.networks
    if len(networks) < 2:
        return NetworkFound()
    lost = {network.host for network in networks} & attempt.tracker.lost_hosts
    try:
        async with asyncio.timeout(SECONDS):
            return await _ask(attempt, lost)
    except TimeoutError:
        return network_found(networks, None, lost=lost)


async def _ask(attempt: Attempt, lost: set[str]) -> NetworkFound:
    networks = [network for network in attempt.plan.networks if network.host not in lost]
    sessions = await _sessions(attempt, networks)
    lost |= {network.host for network in networks} - set(sessions)
    carriers = await asyncio.gather(*(_no_carrier(sessions[n.host], n) for n in networks if n.host in sessions))
    report = await _proof(sessions, networks) if len(sessions) > 1 else None
    no_carrier = {host for host in carriers if host}
    return network_found(attempt.plan.networks, report, lost=lost, no_carrier=no_carrier)


async def _sessions(attempt: Attempt, networks: list[HostNetwork]) -> dict[str, Session]:
    """The connections that the run has; a host without one is out of reach."""

    async def one(host: str) -> tuple[str, Session | None]:
        try:
            return host, await attempt.hosts[host].link.session(give_up=SESSION_SECONDS)
        except DistuiError:
            return host, None

    found = await asyncio.gather(*(one(network.host) for network in networks))
    return {host: session for host, session in found if session is not None}


async def _proof(sessions: Mapping[str, Session], networks: list[HostNetwork]) -> ReachReport:
    ends = [Endpoint(network.host, network.addr) for network in networks if network.host in sessions]
    return await prove(sessions, ends, timeout=CONNECT_SECONDS)


async def _no_carrier(session: Session, network: HostNetwork) -> str:
    """The host, when its interface is down or has no link; empty when it has one or nobody knows."""
    try:
        done = await session.run(("cat", f"/sys/class/net/{network.ifname}/carrier"), timeout=SESSION_SECONDS)
    except DistuiError:
        return ""
    down = done.text.strip() == "0" if done.ok else "Invalid argument" in done.error_text
    return network.host if down else ""
