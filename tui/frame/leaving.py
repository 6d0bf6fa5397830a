"""What the app waits for before it quits: runs that are being started, or stopped. Said in the bar at the top."""

from __future__ import annotations

from collections.abc import Mapping

from distui.amounts import counted
from distui.cluster.backend.values import LiveRun
from distui.frozen import frozen
from distui.spec.hosts.names import fold


@frozen
class Leaving:
    """`stop` tells that the runs were asked to stop; else those that are being started are waited for."""

    runs: Mapping[str, LiveRun]
    stop: bool

    @property
    def waiting(self) -> list[LiveRun]:
        """The runs that are not so far yet."""
        return [live for live in self.runs.values() if self._waits(live)]

    def _waits(self, live: LiveRun) -> bool:
        return live.state.ended is None and (self.stop or live.state.begins)

    def words(self) -> str:
        """`starting llm-7f3 on 2 hosts: pull; leaves when it runs`."""
        waiting = self.waiting
        if not waiting:
            return "leaving"
        runs = fold(live.plan.run_id for live in waiting)
        hosts = len({host for live in waiting for host in live.plan.hosts})
        where = f"{runs} on {counted(hosts, 'host')}"
        phase = f": {waiting[0].state.phase}" if waiting[0].state.phase else ""
        if self.stop:
            return f"stopping {where}{phase}; leaves when they are clean"
        return f"starting {where}{phase}; leaves when {'they run' if len(waiting) > 1 else 'it runs'}"
