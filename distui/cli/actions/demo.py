"""`distui demo`: a real distributed training on two hosts made on this machine."""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from distui.amounts import counted, plural
from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.demo.demo_job import demo_inventory, digits
from distui.cli.demo.demo_ui import open_demo
from distui.cli.printing.printer import LogView
from distui.cli.runs import opening
from distui.cli.runs.launching import How, prepare, start
from distui.cli.settings import Settings
from distui.cluster.names import run_name
from distui.cluster.start.request import RunRequest
from distui.errors import CheckFailed
from distui.plan.text.render import render_text
from distui.remote.demo.demo import DemoHosts
from distui.runs.hosts.reuse import reusing
from distui.session import Connector
from distui.spec.hosts.inventory import HostPick
from distui.spec.job.job import Job
from distui.spec.job.read_job import any_job


def act(settings: Settings, out: Console, docker: bool, image: str, epochs: int, count: int, headless: bool) -> int:
    """See `demo --help`."""
    settings.refuse_readonly("demo")
    if opening.wanted(settings, headless=headless):
        return wiring.run_async(open_demo(settings, count, docker=docker, image=image, epochs=epochs))
    if not docker and find_spec("torch") is None:
        raise CheckFailed(
            f"the demo trains with torch, which {sys.executable} does not have",
            hint="pip install 'distui[torch]'   (or `distui demo --docker` where Docker is)",
        )
    with tempfile.TemporaryDirectory(prefix="distui-demo-", ignore_cleanup_errors=True) as folder:
        job = any_job({"name": "digits", **digits(epochs=epochs, image=image if docker else None)})
        return wiring.run_async(_demo(settings, out, job, Path(folder), count, docker=docker))


async def _demo(settings: Settings, out: Console, job: Job, folder: Path, count: int, *, docker: bool) -> int:
    async with DemoHosts(count, root=folder) as demo:
        where = ", ".join(f"{t.name} = 127.0.0.1:{t.port}" for t in demo.hosts.values())
        out.say(f"distui: made {counted(count, 'host')} with {plural(count, 'ssh server')}: {where}")
        found = demo_inventory(demo, docker=docker)
        request = RunRequest(job, found, tuple(HostPick(h.name) for h in found.hosts), {}, run_name("demo"))
        async with reusing(demo.connector()) as connector:
            return await _train(settings, out, connector, request)


async def _train(settings: Settings, out: Console, connector: Connector, request: RunRequest) -> int:
    planned = await prepare(connector, settings, out, request)
    for line in render_text(planned.plan, width=min(out.width or 80, 100)).splitlines():
        out.say(line)
    out.say("")
    ended = await start(connector, settings, out, planned, How(LogView()))
    return ended.exit
