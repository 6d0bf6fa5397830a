"""The job's data before a start: paths are proved, and what comes from elsewhere is fetched to every host."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from distui.amounts import size_words
from distui.doctor.mounts import prove_mounts
from distui.errors import ExitCode, HostError
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.steps import LaunchRefused, each, phase, raise_errors, sentence
from distui.runs.lines.text import safe
from distui.runs.task.fetch import HostFetch
from distui.spec.hosts.names import fold_texts

SECONDS = 5.0
"""How often a fetch of data says how far it is."""


async def check_mounts(attempt: Attempt) -> None:
    """Paths that the job mounts are on every host, one storage where it says so, and NFS servers are reached."""
    checked = [mount.name for mount in attempt.plan.mounts if mount.kind != "url"]
    if not checked:
        return
    await phase(attempt, "check", f"data: {', '.join(checked)}")
    try:
        sessions = {host: await h.link.session(give_up=h.reconnect_timeout) for host, h in attempt.hosts.items()}
    except HostError as exc:
        raise LaunchRefused([f"the data check did not finish: {sentence(exc)}"], ExitCode.CHECK_FAILED) from exc
    report = await prove_mounts(sessions, attempt.plan.mounts)
    for name, words in report.proofs.items():
        await attempt.notice("info", safe(f"data.{name}: {words}"))
    for doubt in report.doubts:
        await attempt.notice("warning", safe(f"data.{doubt.mount}: {doubt.message}"), doubt.host)
    if report.problems:
        messages = (
            f"{p.host}: data.{p.mount}: {p.message}" + (f" ({p.hint})" if p.hint else "") for p in report.problems
        )
        raise LaunchRefused([safe(words) for words in messages], ExitCode.CHECK_FAILED)


async def fetch_data(attempt: Attempt) -> None:
    """Every host has the data that the job names by URL."""
    if not any(mount.fetch is not None for mount in attempt.plan.mounts):
        return
    await phase(attempt, "data", ", ".join(m.name for m in attempt.plan.mounts if m.fetch is not None))
    fetches = {name: host.data_fetch() for name, host in attempt.hosts.items()}
    hosts = list(attempt.hosts.values())
    found = await each(hosts, lambda host: fetches[host.host].lacking())
    raise_errors(found, ExitCode.CHECK_FAILED)
    lacking = {name: clients for name, clients in found.items() if isinstance(clients, dict) and clients}
    for fetch in fetches.values():
        for mount, when in fetch.kept.items():
            text = f"data.{mount}: as it was fetched on {when}; it has no checksum"
            await attempt.notice("info", text, fetch.host)
    each_fetches = (f"{name}: {_begins(clients, fetches[name].busy)}" for name, clients in lacking.items())
    for text in fold_texts(each_fetches, list(lacking)):
        await phase(attempt, "data", text)
    telling = asyncio.create_task(_tell(attempt, [fetches[name] for name in lacking]))
    try:
        some = [host for host in hosts if host.host in lacking]
        done = await each(some, lambda host: fetches[host.host].fetch(lacking[host.host], attempt.run.secrets))
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
    raise_errors(done, ExitCode.LAUNCH_FAILED)
    await phase(attempt, "data", "is on all hosts" if lacking else "was on all hosts already")


def _begins(clients: Mapping[str, str], busy: Collection[str]) -> str:
    """What is fetched with which client, and what another fetch is at work on already: that is waited for."""
    own = [f"{mount} with {client}" for mount, client in clients.items() if mount not in busy]
    others = [mount for mount in clients if mount in busy]
    parts = (own and f"fetching {', '.join(own)}", others and f"waiting for another fetch of {', '.join(others)}")
    return "; ".join(part for part in parts if part)


async def _tell(attempt: Attempt, fetches: Sequence[HostFetch]) -> None:
    """Now and then how much each host has, where that is something new, until cancelled."""
    shown: list[str] = []
    while True:
        await asyncio.sleep(SECONDS)
        texts = await asyncio.gather(*map(so_far, fetches))
        if texts != shown:
            shown = texts
            await phase(attempt, "data", f"fetched so far: {', '.join(texts)}")


async def so_far(fetch: HostFetch) -> str:
    """How much a host has; of one out of reach, that nobody knows it now."""
    try:
        now = await fetch.so_far()
        other = f" (waiting for another fetch of {now.waits_for})" if now.waits_for else ""
        return f"{fetch.host} {size_words(now.size)}{other}"
    except HostError as exc:
        return f"{fetch.host} unknown ({safe(exc.message)})"
