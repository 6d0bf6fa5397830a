"""How many problems there are, for the key that lists them: counted a few hosts at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from distui.monitor.host_board import HostBoard
from distui.monitor.problems import of_host, problems
from distui.runs.report.history import Launched, RunRow
from distui.runs.state.reducer import RunState

HOSTS = 16
"""So many are looked at each time: all remarks of 256 at once would hold the app up for a tenth of a second."""


class ProblemCount:
    """Looks again each time it is asked, at the hosts whose turn it is and at all runs."""

    def __init__(self) -> None:
        self._hosts: dict[str, tuple[int, int]] = {}
        self._runs = (0, 0)
        self._turn = 0

    @property
    def wrong(self) -> int:
        """How many are wrong, not only to be watched."""
        return self._runs[0] + sum(wrong for wrong, _ in self._hosts.values())

    @property
    def all(self) -> int:
        """How many there are."""
        return sum(self._runs) + sum(sum(both) for both in self._hosts.values())

    def look(
        self,
        hosts: Sequence[HostBoard],
        followed: Mapping[str, RunState],
        rows: Iterable[RunRow],
        now: float,
        looked_at: Collection[Launched],
    ) -> None:
        """Count again."""
        there = {host.name for host in hosts}
        self._hosts = {name: both for name, both in self._hosts.items() if name in there}
        self._turn = self._turn if self._turn < len(hosts) else 0
        for host in hosts[self._turn : self._turn + HOSTS]:
            self._hosts[host.name] = _both(problem.level for problem in of_host(host, now))
        self._turn += HOSTS
        self._runs = _both(problem.level for problem in problems((), followed, rows, now, looked_at))


def _both(levels: Iterable[str]) -> tuple[int, int]:
    found = list(levels)
    wrong = sum(level == "wrong" for level in found)
    return wrong, len(found) - wrong
