"""What verbs that end or remove a run do about a launch of it that was killed, or is under way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from distui.cli.console import Console

if TYPE_CHECKING:
    from distui.runs.hosts.launches import Launch
    from distui.runs.store.runs import StoredRun
    from distui.session import Connector
    from distui.spec.inventory import Host


async def sweep_run(
    connector: Connector,
    out: Console,
    run: str,
    hosts: Sequence[Host],
    tokens: Iterable[str],
    stored: StoredRun | None = None,
    *,
    spare: Collection[str] = (),
) -> tuple[bool, bool]:
    """Remove what launches left where none of their tasks runs: not on the hosts in `spare`.

    Returns whether there was something, and whether all of it is gone; what is not is said.
    """
    from distui.runs.launch.sweep import sweep

    swept: list[str] = []
    whole = True
    for token in tokens:
        up = [host for host in hosts if host.name not in spare]
        done = await sweep(connector, up, run, token, _files(stored, token), spare=spare)
        swept += done.hosts
        for host, folder in done.left.items():
            out.warn(f"distui: left: {host}: {folder}, which this login can't remove", "yellow")
        for host, why in done.kept.items():
            out.warn(f"distui: left: what {run} has on {host}: {why}", "yellow")
        for host, words in done.failed.items():
            out.warn(f"distui: {host}: {words}", "red")
        whole = whole and not (done.left or done.failed or done.kept)
    if swept:
        out.say(f"distui: removed what a launch of {run} had left on {', '.join(dict.fromkeys(swept))}")
    return bool(swept), whole


def _files(stored: StoredRun | None, token: str) -> tuple[tuple[str, str], ...]:
    """The rendezvous file of the launch that is recorded here, and its host."""
    from distui.runs.store.end_record import launch_here
    from distui.runs.store.recorded import stored_plan

    plan = stored_plan(stored) if stored is not None else None
    if plan is None or not plan.rendezvous_host_path or not plan.tasks or launch_here(stored) != token:
        return ()
    return ((plan.tasks[0].host, plan.rendezvous_host_path),)


def under_way(launches: Iterable[Launch], dead: str) -> tuple[Launch, ...]:
    """Launches that may be alive; that with the token `dead` is known not to be."""
    return tuple(one for one in launches if not one.dead and one.token != dead)


def whose(launch: Launch) -> str:
    """Whose launch it is and since when, in words."""
    from distui.runs.lines.text import safe

    return f"{safe(launch.owner)[:100] or 'somebody unknown'} since {safe(launch.since)[:40] or '?'}"
