"""`distui doctor`: what would break, where, and what to do about it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.amounts import counted
from distui.cli import wiring
from distui.cli.console import Console, confirm_async
from distui.cli.jobs.request import env_overrides
from distui.cli.settings import Settings, env_files
from distui.cluster.hosts.connecting import ssh_names
from distui.cluster.jobs.job_files import meant_path
from distui.cluster.start.checking import Checked, check
from distui.doctor.bundle import REPLACED, bundle, write_bundle
from distui.doctor.checks import counts
from distui.doctor.choice import Choice, choice
from distui.doctor.finding import CheckRow, report_text, to_json
from distui.doctor.redact import Redactor
from distui.doctor.smoke import rounds, smoke_row
from distui.errors import ExitCode, UsageError
from distui.facts.host import HostFacts, ProbeResult
from distui.files import exists
from distui.identity import owner
from distui.runs.control.smoke import smoke
from distui.runs.lines.text import safe
from distui.session import Connector
from distui.spec.hosts.inventory import Host, Inventory
from distui.spec.job.job import Job
from distui.spec.job.read_job import load_job
from distui.version import __version__

_COLOURS = {"FAIL": "red", "warn": "yellow"}


def act(
    settings: Settings,
    out: Console,
    sets: tuple[str, ...],
    job: str | None,
    env_file: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    all_: bool,
    smoke: bool,
    bundle: str | None,
    include_identifiers: bool,
) -> int:
    """See `doctor --help`."""
    wanted, from_file = choice(only, skip), env_files(env_file)
    chosen = _job(settings, job, from_file)
    if smoke:
        settings.refuse_readonly("--smoke")
        if chosen is None:
            raise UsageError("--smoke needs an image that has torch", hint="name a job that uses it: --job JOB")
    if include_identifiers and bundle is None:
        raise UsageError("--include-identifiers is about --bundle", hint="add --bundle F.tgz")
    if bundle is not None and exists(settings.cwd / bundle):
        raise UsageError(f"{bundle} exists", hint="give another name")
    found = settings.selection.inventory()
    hosts = found.chosen(settings.selection.picks(found, sets))
    named = bool(sets or settings.hosts or settings.labels)
    checked = wiring.run_async(
        _check(settings, out, found, hosts, chosen, from_file, wanted, smoke=smoke, named=named), limit=settings.timeout
    )
    _show(settings, out, checked.rows, all_=all_)
    if bundle is not None:
        _bundle(settings, out, bundle, hosts, checked, redact=not include_identifiers)
    failed = any(row.verdict == "fail" for row in checked.rows)
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


def _bundle(
    settings: Settings, out: Console, name: str, hosts: Sequence[Host], checked: Checked, *, redact: bool
) -> None:
    """Write it, and say what is in it and what is not."""
    me, _, machine = owner().partition("@")
    redactor = None
    if redact:
        known = ssh_names(settings.cluster, hosts)
        redactor = Redactor(hosts, checked.results, ssh=known, more_users=(me, machine))
    files = bundle(checked.rows, checked.results, checked.reach, version=__version__, redactor=redactor)
    write_bundle(settings.cwd / name, files, at=time.time())
    what = REPLACED if redact else "with names and addresses"
    out.say(f"{name}: {', '.join(files)}; {what}. Look into it before you pass it on: `tar xzOf {name}`")


def _job(settings: Settings, job: str | None, from_file: Mapping[str, str]) -> Job | None:
    if job is None:
        if from_file:
            raise UsageError("--env-file is about a job", hint="name it: --job JOB")
        return None
    given = env_overrides(from_file)
    return load_job(meant_path(settings.cwd, settings.cluster, job), environ=settings.environ, overrides=given)


async def _check(
    settings: Settings,
    out: Console,
    inventory: Inventory,
    hosts: Sequence[Host],
    job: Job | None,
    from_file: Mapping[str, str],
    wanted: Choice,
    *,
    smoke: bool,
    named: bool,
) -> Checked:
    async with wiring.connected(settings, hosts) as connector:
        found = await check(
            settings.cluster, connector, inventory, hosts, wanted, job=job, from_file=from_file, named=named
        )
        tried = await _smoke(settings, out, connector, inventory, found.results, job) if smoke and job else ()
    return replace(found, rows=(*found.rows, *tried))


async def _smoke(
    settings: Settings,
    out: Console,
    connector: Connector,
    inventory: Inventory,
    results: Mapping[str, ProbeResult],
    job: Job,
) -> tuple[CheckRow, ...]:
    """Ask, run it pair by pair, and tell each pair as it ends."""
    up = [name for name, result in results.items() if isinstance(result, HostFacts)]
    pairs = sum(len(r) for r in rounds(up))
    if not pairs:
        out.warn("distui: the smoke needs two hosts that answer", "yellow")
        return ()
    what = f"{counted(2 * pairs, 'container')} of {job.image or 'no image, as processes'} on {counted(len(up), 'host')}"
    if not await confirm_async(out, settings, f"Start and remove {what}?"):
        return ()
    done = await smoke(
        connector, inventory, results, job, owner=owner(), version=__version__,
        on_pair=lambda pair: out.say(f"distui: {' and '.join(pair.hosts)}: {pair.words}"),
    )  # fmt: skip
    return (smoke_row(up, done),)


def _show(settings: Settings, out: Console, rows: tuple[CheckRow, ...], *, all_: bool) -> None:
    if settings.output in ("json", "ndjson"):
        out.json(to_json(rows))
        return
    for line in report_text(rows, all_=all_).splitlines():
        style = next((colour for verdict, colour in _COLOURS.items() if line.startswith(verdict)), "")
        out.print(out.styled(safe(line), style))
    total = counts(rows)
    out.say(
        f"{total['ok']} ok, {counted(total['warn'], 'warning')}, {total['fail']} failed, {total['skip']} skipped", "dim"
    )
