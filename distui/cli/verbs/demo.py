"""`distui demo`: a real distributed training on two hosts made on this machine."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from distui.cli import console as consoles
from distui.cli import opening, wiring
from distui.cli.demo_job import demo_inventory, digits
from distui.cli.options import verb
from distui.cli.settings import settings_of
from distui.errors import CheckFailed

if TYPE_CHECKING:
    from distui.cli.console import Console
    from distui.cli.settings import Settings
    from distui.cluster.request import RunRequest
    from distui.session import Connector
    from distui.spec.job import Job

IMAGE = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"


@verb("demo", outputs=("json", "ndjson"))
@click.option("--docker", is_flag=True, help="In containers of this machine's Docker instead of plain processes.")
@click.option("--image", metavar="IMG", default=IMAGE, help="Image for --docker; it needs torch.")
@click.option("--epochs", type=click.IntRange(1, 1000), default=8, help="Passes over the data [8].")
@click.option("--hosts", "count", type=click.IntRange(1, 8), default=2, help="Hosts to make [2].")
@click.option("--headless", is_flag=True, help="Without the terminal UI: train, logs on stdout.")
@click.pass_context
def command(ctx: click.Context, docker: bool, image: str, epochs: int, count: int, headless: bool) -> int:
    """Train a small network on handwritten digits over two ssh servers on loopback, one rank on each.

    Everything goes the way it goes on real hosts: ssh, probe, plan, env files, start, logs, result, clean-up. Needs
    nothing but Python and torch. On a terminal the UI opens over these hosts, with jobs to try; off one, and with
    --headless, the training runs at once.
    """
    import tempfile

    settings = settings_of(ctx)
    settings.refuse_readonly("demo")
    out = consoles.of(settings)
    if opening.wanted(settings, headless=headless):
        from distui.cli.demo_ui import open_demo

        return wiring.run_async(open_demo(settings, count, docker=docker, image=image, epochs=epochs))
    if not docker and find_spec("torch") is None:
        raise CheckFailed(
            f"the demo trains with torch, which {sys.executable} does not have",
            hint="pip install 'distui[torch]'   (or `distui demo --docker` where Docker is)",
        )
    with tempfile.TemporaryDirectory(prefix="distui-demo-", ignore_cleanup_errors=True) as folder:
        job = digits(Path(folder), epochs=epochs, image=image if docker else None)
        return wiring.run_async(_demo(settings, out, job, Path(folder), count, docker=docker))


async def _demo(settings: Settings, out: Console, job: Job, folder: Path, count: int, *, docker: bool) -> int:
    from distui.cluster.names import run_name
    from distui.cluster.request import RunRequest
    from distui.remote.demo import DemoHosts
    from distui.runs.hosts.reuse import reusing
    from distui.spec.inventory import HostPick

    async with DemoHosts(count, root=folder) as demo:
        where = ", ".join(f"{t.name} = 127.0.0.1:{t.port}" for t in demo.targets.values())
        out.say(f"distui: made {count} hosts with ssh servers: {where}")
        found = demo_inventory(demo, docker=docker)
        order = RunRequest(job, found, tuple(HostPick(h.name) for h in found.hosts), {}, run_name("demo"))
        async with reusing(demo.connector()) as connector:
            return await _train(settings, out, connector, order)


async def _train(settings: Settings, out: Console, connector: Connector, order: RunRequest) -> int:
    from distui.cli.launching import How, prepare, start
    from distui.cli.printer import LogView
    from distui.plan.render import render_text

    planned = await prepare(connector, settings, out, order)
    for line in render_text(planned.plan, width=min(out.width or 80, 100)).splitlines():
        out.say(line)
    out.say("")
    ended = await start(connector, settings, out, planned, How(LogView()))
    return ended.exit
