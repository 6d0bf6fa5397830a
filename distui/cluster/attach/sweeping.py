"""What is done about a launch of a run that was killed, or is under way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from distui.frozen import frozen
from distui.runs.launch.sweep import sweep
from distui.runs.lines.events import Level
from distui.runs.store.end_record import launch_here
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import StoredRun
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import fold


@frozen
class SweptRun:
    """What became of what launches of a run had left."""

    hosts: tuple[str, ...]
    """Where something was removed."""
    left: tuple[str, ...]
    """What is still there since it can't be removed, or may still be used, in words."""
    failed: tuple[str, ...]
    """Hosts where it could not be tried, in words."""

    @property
    def whole(self) -> bool:
        """Whether all of it is gone."""
        return not (self.left or self.failed)

    def words(self, run: str) -> Iterator[tuple[Level, str]]:
        """What is left, where it could not be tried, and what was removed, for people."""
        for words in self.left:
            yield "warning", f"left: {words}"
        for words in self.failed:
            yield "error", words
        if self.hosts:
            yield "info", f"removed what a launch of {run} had left on {fold(self.hosts)}"


async def sweep_run(
    connector: Connector,
    run: str,
    hosts: Sequence[Host],
    tokens: Iterable[str],
    stored: StoredRun | None = None,
    *,
    spare: Collection[str] = (),
) -> SweptRun:
    """Remove what launches left where none of their tasks runs: not on the hosts in `spare`."""
    swept: list[str] = []
    left: list[str] = []
    failed: list[str] = []
    for token in tokens:
        up = [host for host in hosts if host.name not in spare]
        done = await sweep(connector, up, run, token, _files(stored, token), spare=spare)
        swept += done.hosts
        left += [f"{host}: {folder}, which this login can't remove" for host, folder in done.left.items()]
        left += [f"what {run} has on {host}: {why}" for host, why in done.kept.items()]
        failed += [f"{host}: {words}" for host, words in done.failed.items()]
    return SweptRun(tuple(dict.fromkeys(swept)), tuple(left), tuple(failed))


def _files(stored: StoredRun | None, token: str) -> tuple[tuple[str, str], ...]:
    """The rendezvous file of the launch that is recorded here, and its host."""
    plan = stored_plan(stored) if stored is not None else None
    if plan is None or not plan.rendezvous_host_path or not plan.tasks or launch_here(stored) != token:
        return ()
    return ((plan.tasks[0].host, plan.rendezvous_host_path),)
