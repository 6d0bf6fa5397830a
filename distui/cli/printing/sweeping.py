"""Says what was removed of launches of a run that were killed, and what could not be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from distui.cli.console import Console
from distui.cluster.attach import sweeping
from distui.runs.store.runs import StoredRun
from distui.session import Connector
from distui.spec.hosts.inventory import Host


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
    """See `distui.cluster.attach.sweeping`; whether there was something, and whether all of it is gone."""
    done = await sweeping.sweep_run(connector, run, hosts, tokens, stored, spare=spare)
    tell_swept(out, run, done)
    return bool(done.hosts), done.whole


def tell_swept(out: Console, run: str, done: sweeping.SweptRun) -> None:
    """What is left, where it could not be tried, and what was removed."""
    for words in done.left:
        out.warn(f"distui: left: {words}", "yellow")
    for words in done.failed:
        out.warn(f"distui: {words}", "red")
    if done.hosts:
        out.say(f"distui: removed what a launch of {run} had left on {', '.join(done.hosts)}")
