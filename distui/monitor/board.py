"""All hosts at a glance: probe results, live samples and uses folded into figures with five minutes of history.

Nothing here waits or reads a clock: times are given.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from distui.amounts import counted
from distui.facts.gpus.gpu import with_processes
from distui.facts.host import GpuProcess, HostDown, HostFacts, ProbeResult, Trouble
from distui.frozen import frozen
from distui.monitor import notes
from distui.monitor.histories import HISTORY, GpuHistory, LinkHistory
from distui.monitor.host_board import HostBoard
from distui.monitor.notes import Note
from distui.runs.lines.events import HostSampled

if TYPE_CHECKING:
    from distui.runs.hosts.uses import Use
    from distui.spec.hosts.inventory import Host


@frozen
class Totals:
    """The headline over all hosts."""

    up: int
    down: int
    unknown: int
    gpus: int
    busy: int
    runs: int
    no_engine: int = 0
    """Hosts that are up and can start no container."""


class Board:
    """All hosts of the inventory, in its order. Takes in what happens; tells what is."""

    def __init__(self, hosts: Sequence[Host], groups: Mapping[str, Sequence[str]] | None = None) -> None:
        known = {name: frozenset(members) for name, members in (groups or {}).items()}
        self.hosts: dict[str, HostBoard] = {
            h.name: HostBoard(h, tuple(name for name, members in known.items() if h.name in members)) for h in hosts
        }

    def __getitem__(self, name: str) -> HostBoard:
        return self.hosts[name]

    def probing(self, names: Iterable[str]) -> None:
        """These hosts are being probed now."""
        for name in names:
            if name in self.hosts:
                self.hosts[name].probing = True

    def probed(self, name: str, result: ProbeResult, at: float) -> None:
        """A probe ended. Old facts stay when it failed."""
        host = self.hosts.get(name)
        if host is None:
            return
        host.probing, host.probed_at = False, at
        match result:
            case HostDown(error=error):
                if host.trouble is None or host.trouble.message != error.message:
                    host.notes.append(Note(at, "wrong", f"no answer to a probe: {error.message}"))
                host.trouble, host.lost = error, False
            case HostFacts():
                host.notes += _answered(host, result, at)
                host.facts, host.trouble, host.seen = result, None, at
                _probed(host, result)

    def processes(self, name: str, found: Sequence[GpuProcess]) -> None:
        """What is on a host's GPUs by now."""
        host = self.hosts.get(name)
        if host is None or host.facts is None:
            return
        gpus = with_processes(host.facts.gpu.gpus, found)
        host.facts = replace(host.facts, gpu=replace(host.facts.gpu, gpus=gpus))
        for gpu in gpus:
            host.gpus.setdefault(gpu.index, GpuHistory(gpu.index)).facts = gpu

    def connection(self, name: str, state: Literal["up", "lost", "back"], reason: str, at: float) -> None:
        """What became of a host's live connection. A host that never answered keeps the probe's better words."""
        host = self.hosts.get(name)
        if host is None:
            return
        if state != "lost":
            if host.lost:
                host.notes.append(Note(at, "good", "the connection is back"))
            host.seen = at
            if host.lost or host.facts is not None:  # else the login works, and what the probe found holds
                host.trouble, host.lost = None, False
        elif host.status in ("up", "lost"):
            if not host.lost:
                host.notes.append(Note(at, "wrong", reason or "the connection is lost"))
            host.trouble, host.lost = Trouble("lost", reason or "the connection is lost"), True

    def sampled(self, sample: HostSampled) -> None:
        """One second of one host."""
        host = self.hosts.get(sample.host)
        if host is None:
            return
        if host.lost:
            host.notes.append(Note(sample.at, "good", "the connection is back"))
        host.sample, host.seen = sample, sample.at
        host.trouble, host.lost = None, False
        for reading in sample.gpus:
            gpu = host.gpus.get(reading.index) or host.gpus.setdefault(reading.index, GpuHistory(reading.index))
            host.notes += gpu.take(reading, sample.at)
        _unnamed(host, sample)
        for name, (rx, tx) in sample.net.items():
            link = host.links.get(name) or host.links.setdefault(name, LinkHistory(name))
            link.take(rx, tx)
            if (count := sample.errors.get(name)) is not None:
                if link.errors is not None and count > link.errors:
                    host.notes.append(
                        Note(sample.at, "watch", f"{name} counts {counted(count - link.errors, 'new error')}")
                    )
                link.errors_before = count if link.errors is None else min(link.errors_before, count)
                link.errors = count

    def used(self, uses: Iterable[Use], at: float, *, unasked: Container[str] = ()) -> None:
        """The live tasks, as known now; what was known before is forgotten.

        Hosts that could not be asked (`unasked`) keep what was known: no answer is not "nothing runs".
        """
        by_host: dict[str, list[Use]] = {}
        for use in uses:
            by_host.setdefault(use.host, []).append(use)
        for name, host in self.hosts.items():
            now = tuple(by_host.get(name, ()))
            if name in unasked:
                listed = {use.run for use in now}
                now = (*now, *(use for use in host.uses if use.run not in listed))
            if now != host.uses and host.status == "up":
                host.notes += sorted(notes.of_uses(host.uses, now, at), key=lambda note: note.text)
            host.uses = now

    def totals(self) -> Totals:
        """The headline; a host that is out of reach keeps its GPUs in the sum, but none of them is busy."""
        counts = {"up": 0, "down": 0, "lost": 0, "unknown": 0}
        gpus = busy = 0
        for host in self.hosts.values():
            counts[host.status] += 1
            gpus += len(host.gpus)
            if host.status == "up":
                busy += sum(1 for gpu in host.gpus.values() if host.busy(gpu))
        runs = {use.run for host in self.hosts.values() for use in host.uses}
        no_engine = sum(host.status == "up" and host.engine_trouble is not None for host in self.hosts.values())
        down = counts["down"] + counts["lost"]
        return Totals(counts["up"], down, counts["unknown"], gpus, busy, len(runs), no_engine)


def _probed(host: HostBoard, facts: HostFacts) -> None:
    """The GPUs that a probe found; one that neither it nor samples name any more is gone, where the driver answers.
    Where it does not, an earlier probe says nothing of now.
    """
    there = {gpu.index for gpu in facts.gpu.gpus}
    for gpu in facts.gpu.gpus:
        host.gpus.setdefault(gpu.index, GpuHistory(gpu.index)).probed(gpu)
    if facts.gpu.problem is not None:
        for history in host.gpus.values():
            if history.index not in there:
                history.unanswered()
    else:
        host.gpus = {i: gpu for i, gpu in host.gpus.items() if i in there or (gpu.reading and not gpu.silent)}


def _unnamed(host: HostBoard, sample: HostSampled) -> None:
    """GPUs and links that a sample does not name: what was said of them last is not how they are now. A link of which
    all is forgotten goes, as those of containers do.
    """
    named = {reading.index for reading in sample.gpus}
    for gpu in host.gpus.values():
        if gpu.index not in named and gpu.reading is not None:
            gpu.missed(sample.at)
    for link in [link for name, link in host.links.items() if name not in sample.net]:
        link.miss()
        if link.missed >= HISTORY:
            del host.links[link.name]


def _answered(host: HostBoard, facts: HostFacts, at: float) -> Iterator[Note]:
    """A probe was answered: the first time, after trouble, or after the host was started again."""
    before = host.facts
    if before is None:
        yield Note(
            at, "info", f"answers a probe: {facts.os or 'unknown system'}, {counted(len(facts.gpu.gpus), 'GPU')}"
        )
    elif before.boot_id and facts.boot_id and before.boot_id != facts.boot_id:
        yield Note(at, "wrong", "it was started again since the last probe")
    elif host.trouble is not None:
        yield Note(at, "good", "answers again")
