"""The runs there are, as a program gets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.runs.report.history import RunRow


@frozen
class RunList:
    """Runs that are recorded on this machine, or that hosts have; in a loop they come one by one."""

    runs: tuple[RunRow, ...]
    unreachable: Mapping[str, Trouble]
    """Hosts that did not answer, and why: they may have more."""

    def __iter__(self) -> Iterator[RunRow]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)
