"""`distui hosts clean`: what distui keeps on hosts beyond its runs, removed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from distui.amounts import counted, size_words
from distui.cli import wiring
from distui.cli.console import Console, confirm
from distui.cli.settings import Settings
from distui.errors import DistuiError, ExitCode
from distui.runs.code import call
from distui.runs.hosts.discover import home_of
from distui.runs.hosts.link import HostLink
from distui.session import Connector
from distui.spec.hosts.inventory import Host


def clean(settings: Settings, out: Console, sets: tuple[str, ...]) -> int:
    """See `hosts clean --help`."""
    settings.refuse_readonly("hosts clean")
    found = settings.selection.inventory()
    hosts = found.chosen(settings.selection.picks(found, sets))
    if not confirm(out, settings, f"Remove code that no run uses from {counted(len(hosts), 'host')}?"):
        return ExitCode.INTERRUPTED
    results = wiring.run_async(_clean_all(settings, hosts), limit=settings.timeout)
    if settings.json:
        values = [
            {"host": h, "error": r.message} if isinstance(r, DistuiError) else {"host": h, **r}
            for h, r in results.items()
        ]
        out.json({"schema": "distui/clean/v1", "hosts": values})
    failed = {host: r for host, r in results.items() if isinstance(r, DistuiError)}
    for host, result in results.items():
        if isinstance(result, DistuiError):
            out.warn(f"distui: {host}: {result.message.removeprefix(f'{host}: ')}", "red")
        elif not settings.json:
            out.print(f"{host}: {_words(result)}")
    return ExitCode.UNREACHABLE if failed else ExitCode.OK


def _words(done: Mapping[str, int]) -> str:
    used = f", {done['used']} in use" if done["used"] else ""
    return f"{counted(done['trees'], 'tree')} of code removed, {size_words(done['bytes'])} free{used}"


async def _clean_all(settings: Settings, hosts: tuple[Host, ...]) -> dict[str, Mapping[str, int] | DistuiError]:
    async with wiring.connected(settings, hosts) as connector:
        done = await asyncio.gather(*(_clean(connector, host.name) for host in hosts))
    return dict(zip((h.name for h in hosts), done, strict=True))


async def _clean(connector: Connector, host: str) -> Mapping[str, int] | DistuiError:
    try:
        session = await connector.connect(host)
        link = HostLink(connector, host, session=session)
        try:
            return await call.clean(link, await home_of(session.run, host))
        finally:
            await link.close()
    except DistuiError as exc:
        return exc
