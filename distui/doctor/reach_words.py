"""What a reachability proof found, in few words: 64 hosts behind firewalls are 4,032 pairs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from distui.doctor.reach import ReachProblem
from distui.plan.network.fabric import natural
from distui.spec.hosts.names import fold


def in_words(problems: Sequence[ReachProblem]) -> list[tuple[str, str]]:
    """Each problem and what to do about it; pairs that fail for one reason are one: hosts that can't reach each other,
    that can't reach the same ones.
    """
    pairs = {(p.host, p.peer): p for p in problems if p.peer}
    words = [(f"{p.host}: {p.message}", p.hint) for p in problems if not p.peer]
    for error in dict.fromkeys(p.error for p in pairs.values()):
        words += _of_one_reason({pair: p for pair, p in pairs.items() if p.error == error})
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
            nor = f", nor {_fold(others)}" if (others := whole.difference(hosts)) else ""
            yield f"{_fold(hosts)}: can't reach each other{nor}: {first.error}", first.hint
            continue
        for host in hosts:
            alike.setdefault(peers[host], []).append(host)
    for theirs, hosts in alike.items():
        yield f"{_fold(hosts)}: can't reach {_where(pairs, hosts, theirs)}: {first.error}", first.hint


def _where(pairs: Mapping[tuple[str, str], ReachProblem], hosts: Sequence[str], theirs: frozenset[str]) -> str:
    """Whom these hosts can't reach, with what is one address."""
    names = natural(theirs)
    one = pairs[hosts[0], names[0]]
    at = f" at {one.peer_addr}:{one.peer_port}" if len(names) == 1 else ""
    return f"{_fold(theirs)}{at}" + (f" from {one.addr}" if len(hosts) == 1 else "")


def _fold(names: Iterable[str]) -> str:
    return fold(natural(names))
