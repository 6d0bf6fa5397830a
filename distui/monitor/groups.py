"""Hosts of a group as one: which hosts a folded group stands for, and what they have and do together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from distui.monitor.host_board import HostBoard
from distui.monitor.remarks import Remark, remarks


class GroupBoard:
    """Some hosts of one group: those that are shown, in their order. Made again for each picture."""

    def __init__(self, name: str, hosts: Sequence[HostBoard]) -> None:
        self.name = name
        self.hosts = tuple(hosts)
        self._trouble: list[tuple[HostBoard, Remark]] | None = None

    @property
    def key(self) -> str:
        """How it is written wherever hosts are named."""
        return f"@{self.name}"

    def with_status(self, *states: str) -> list[HostBoard]:
        """Its hosts in one of these states."""
        return [host for host in self.hosts if host.status in states]

    def average(self) -> float | None:
        """Mean utilisation over the GPUs of all hosts that answer."""
        gpus = [gpu for host in self.with_status("up") for gpu in host.gpus.values()]
        known = [u for gpu in gpus if (u := gpu.utilization) is not None]
        return sum(known) / len(known) if known else None

    def hottest(self) -> float | None:
        """The highest temperature of its GPUs."""
        return max((t for h in self.with_status("up") if (t := h.hottest()) is not None), default=None)

    def memory(self) -> tuple[float, float] | None:
        """(used, total) MiB of all its hosts together."""
        known = [m for h in self.with_status("up") if (m := h.memory()) is not None]
        return (sum(m[0] for m in known), sum(m[1] for m in known)) if known else None

    def rates(self) -> tuple[float, float] | None:
        """(received, sent) bytes per second of all its hosts together."""
        known = [r for h in self.with_status("up") if (r := h.rates()) is not None]
        return (sum(r[0] for r in known), sum(r[1] for r in known)) if known else None

    def gpus(self) -> int:
        """How many GPUs its hosts have, those out of reach included."""
        return sum(len(h.gpus) for h in self.hosts)

    def runs(self) -> list[str]:
        """The runs on its hosts."""
        return list(dict.fromkeys(use.run for host in self.hosts for use in host.uses))

    def trouble(self, now: float) -> list[tuple[HostBoard, Remark]]:
        """What is not well in it, what is wrong first: hosts that are gone, and remarks of the others.

        Found once: with hundreds of hosts it is the dearest part of a picture.
        """
        if self._trouble is None:
            self._trouble = self._look(now)
        return self._trouble

    def _look(self, now: float) -> list[tuple[HostBoard, Remark]]:
        found = [(h, Remark("wrong", h.trouble.words(h.name), h.trouble.hint)) for h in self.hosts if h.trouble]
        found += [(h, remark) for h in self.with_status("up") for remark in remarks(h, now)]
        return sorted(found, key=lambda pair: pair[1].level != "wrong")


def group_of(host: str, groups: Mapping[str, Sequence[str]]) -> str:
    """The group a host folds into: of several the smallest, of equal ones the first in the file; else ""."""
    found = [name for name, members in groups.items() if host in members]
    return min(found, key=lambda name: len(groups[name]), default="")


def every_fold(groups: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """All groups, in the order in which they take their hosts: the smaller ones first."""
    return tuple(sorted(groups, key=lambda name: len(groups[name])))


def fold(
    hosts: Iterable[HostBoard], groups: Mapping[str, Sequence[str]], folded: Sequence[str]
) -> list[HostBoard | GroupBoard]:
    """Hosts with those of folded groups as one row, where the first of them stands.

    A host is shown once: in the first of the folded groups that has it.
    """
    shown = list(hosts)
    place: dict[str, str] = {}
    for name in folded:
        for member in groups.get(name, ()):
            place.setdefault(member, name)
    members: dict[str, list[HostBoard]] = {}
    for host in shown:
        if host.name in place:
            members.setdefault(place[host.name], []).append(host)
    rows: list[HostBoard | GroupBoard] = []
    for host in shown:
        if host.name not in place:
            rows.append(host)
        elif (together := members[place[host.name]])[0] is host:
            rows.append(GroupBoard(place[host.name], together))
    return rows
