"""What the reachability proof says of a run's network after something went wrong, in words. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from distui.doctor.reach import ReachReport
from distui.frozen import frozen
from distui.plan.model import HostNetwork

SHOWN = 4
"""Pairs that are named, at most."""
FINE = "all hosts of the run reach each other on their data addresses (asked afterwards, on ports that were free)"


@frozen
class NetworkFound:
    """What was found. `broken` says where the network does not carry; `notes` is what else is worth saying."""

    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def network_found(
    networks: Sequence[HostNetwork],
    report: ReachReport | None,
    *,
    lost: Collection[str] = (),
    no_carrier: Collection[str] = (),
) -> NetworkFound:
    """Which hosts no longer answer where, by the tries of every pair.

    `lost` are hosts out of reach, which nobody could ask. `no_carrier` are those whose interface has no link: between
    two hosts that do not reach each other, they are the ones to look at.
    """
    of = {network.host: network for network in networks}
    gone = tuple(f"{host} is out of reach: its network could not be asked about" for host in sorted(lost))
    if report is None:
        return NetworkFound(notes=gone)
    deaf = {p.host: p.message for p in report.problems if not p.peer and p.host in of}
    failed = _failed(report, of)
    alone = _alone(report, failed, frozenset(deaf) | (frozenset(no_carrier) & frozenset(of)))
    broken = [
        f"{host} no longer answers on {_at(of[host])}{_why(host, deaf, no_carrier)}" for host in of if host in alone
    ]
    rest = {pair: error for pair, error in failed.items() if not alone & set(pair)}
    broken += _pairs(rest, of)
    notes = gone if broken or gone or not report.pairs else (FINE,)
    return NetworkFound(tuple(broken), notes)


Pair = tuple[str, str]


def _failed(report: ReachReport, of: Mapping[str, HostNetwork]) -> dict[Pair, str]:
    return {
        (host, peer): reached.error
        for host, row in report.table.items()
        for peer, reached in row.items()
        if reached.error and host in of and peer in of
    }


def _alone(report: ReachReport, failed: Mapping[Pair, str], known: frozenset[str]) -> frozenset[str]:
    """Hosts that are the reason: known to be, or reached by nobody where others do reach each other."""
    hosts = [host for host in report.table if host not in known]
    tried = {(a, b) for a in hosts for b in hosts if a != b}
    works = {pair for pair in tried if pair not in failed}
    linked = {host for pair in works for host in pair}
    cut = {host for host in hosts if host not in linked and any(host in pair for pair in failed)}
    return known | (cut if linked else frozenset())


def _at(network: HostNetwork) -> str:
    return f"{network.ifname} ({network.addr})"


def _why(host: str, deaf: Mapping[str, str], no_carrier: Collection[str]) -> str:
    if host in no_carrier:
        return ": the interface is down or has no link"
    return f": {deaf[host]}" if host in deaf else ""


def _pairs(failed: Mapping[Pair, str], of: Mapping[str, HostNetwork]) -> list[str]:
    """Pairs of hosts that do not reach each other, those that fail both ways once."""
    words = []
    for (host, peer), error in failed.items():
        if (peer, host) not in failed:
            words.append(f"{host} no longer reaches {peer} on {_at(of[peer])}: {error}")
        elif host < peer:
            both = f"{host} on {_at(of[host])} and {peer} on {_at(of[peer])}"
            words.append(f"{both} no longer reach each other: {error}")
    more = [f"{len(words) - SHOWN} more pairs of hosts do not reach each other"] if len(words) > SHOWN else []
    return words[:SHOWN] + more
