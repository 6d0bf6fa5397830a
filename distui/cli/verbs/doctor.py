"""`distui doctor`: what would break, where, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from distui.cli import console as consoles
from distui.cli import settings, wiring
from distui.cli.options import verb
from distui.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distui.cli.console import Console
    from distui.cli.settings import Settings
    from distui.doctor.finding import CheckRow
    from distui.spec.inventory import Host

_COLOURS = {"FAIL": "red", "warn": "yellow"}


@verb("doctor")
@click.argument("sets", metavar="[SET]...", nargs=-1)
@click.option("--job", metavar="JOB", help="Also look whether the job's image is there.")
@click.option("--all", "all_", is_flag=True, help="Say what is well, too.")
@click.pass_context
def command(ctx: click.Context, sets: tuple[str, ...], job: str | None, all_: bool) -> int:
    """Check hosts: login, clock, engine, GPUs, networks, ports, disk. Starts nothing on them.

    Exit code 0 when nothing failed (warnings may be), 3 when a check failed.
    """
    told = settings.of(ctx)
    out = consoles.of(told)
    images = _images(told, job)
    found = wiring.inventory(told)
    hosts = wiring.hosts_of(found, wiring.picks(found, told, sets))
    rows = wiring.run_async(_check(told, hosts, images), limit=told.timeout)
    _show(told, out, rows, all_=all_)
    failed = any(row.verdict == "fail" for row in rows)
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


def _images(told: Settings, job: str | None) -> tuple[str, ...]:
    if job is None:
        return ()
    from distui.cli.order import job_path
    from distui.spec.read_job import load_job

    image = load_job(job_path(told, job), environ=told.environ).image
    return (image,) if image else ()


async def _check(told: Settings, hosts: Sequence[Host], images: Sequence[str]) -> tuple[CheckRow, ...]:
    from distui.doctor.checks import check_hosts
    from distui.doctor.images import images_present
    from distui.doctor.reach_check import endpoints
    from distui.facts.host import HostFacts
    from distui.facts.probe import probe_all
    from distui.run.discover import find_runs
    from distui.run.preflight import prove_on

    async with wiring.connected(told, hosts) as connector:
        results = await probe_all(connector, hosts, parallel=told["parallel"])
        up = [host for host in hosts if isinstance(results[host.name], HostFacts)]
        there = await images_present(connector, up, images) if images else {}
        found = await find_runs(connector, up)
        reach = await prove_on(connector, endpoints(up, results), up) if len(up) > 1 else None
    ours = [task.id for run in found.runs for task in run.tasks]
    return check_hosts(results, images=there, ours=ours, reach=reach)


def _show(told: Settings, out: Console, rows: tuple[CheckRow, ...], *, all_: bool) -> None:
    from distui.doctor.checks import counts
    from distui.doctor.finding import report_text, to_json
    from distui.run.lines import safe

    if told.output in ("json", "ndjson"):
        out.json(to_json(rows))
        return
    for line in report_text(rows, all_=all_).splitlines():
        style = next((colour for verdict, colour in _COLOURS.items() if line.startswith(verdict)), "")
        out.print(out.styled(safe(line), style))
    total = counts(rows)
    out.say(f"{total['ok']} ok, {total['warn']} warnings, {total['fail']} failed, {total['skip']} skipped", "dim")
