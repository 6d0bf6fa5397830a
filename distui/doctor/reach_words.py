"""What a reachability proof found, in few words: 64 hosts behind firewalls are 4,032 pairs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from distui.doctor.reach import ReachProblem
from distui.plan.network.rendezvous import bracketed
from distui.spec.hosts.names import fold_sorted


def in_words(problems: Sequence[ReachProblem]) -> list[tuple[str, str]]:
    """Each problem and what to do about it; pairs that fail for one reason are one: hosts that can't reach each other,
    that can't reach the same ones.
    """
    pairs = {(p.host, p.peer): p for p in problems if p.peer}
    words = [(f"{p.host}: {p.message}", p.hint) for p in problems if not p.peer]
    for error in dict.fromkeys(p.message for p in pairs.values()):
        words += _of_one_reason({pair: p for pair, p in pairs.items() if p.message == error})
    return words


def _of_one_reason(pairs: Mapping[tuple[str, str], ReachProblem]) -> Iterator[tuple[str, str]]:
    first = next(iter(pairs.values()))
    peers = {host: frozenset(b for a, b in pairs if a == host) for host in dict.fromkeys(a for a, _ in pairs)}
    circles: dict[frozenset[str], list[str]] = {}
    alike: dict[frozenset[str], list[str]] = {}
    for host, theirs in peers.items():
        circles.setdefault(theirs | {host}, []).append(host)
    for whole, hosts in circles.items():
        if len(hosts) > 2:
            nor = f", nor {fold_sorted(others)}" if (others := whole.difference(hosts)) else ""
            yield f"{fold_sorted(hosts)}: can't reach each other{nor}: {first.message}", first.hint
            continue
        for host in hosts:
            alike.setdefault(peers[host], []).append(host)
    for theirs, hosts in alike.items():
        found = [pairs[hosts[0], peer] for peer in theirs]
        yield f"{fold_sorted(hosts)}: can't reach {whom(found, alone=len(hosts) == 1)}: {first.message}", first.hint


def whom(pairs: Sequence[ReachProblem], *, alone: bool) -> str:
    """Whom a host can't reach, with what is one address; `alone` tells that no other host can't reach the same ones."""
    one = pairs[0]
    at = f" at {bracketed(one.peer_addr)}:{one.peer_port}" if len(pairs) == 1 else ""
    return f"{fold_sorted(pair.peer for pair in pairs)}{at}" + (f" from {one.addr}" if alone else "")
