"""distui's fetch of data as a process of its own: `python -m bench.client_data HOME URL SHA256 HOST`.

Connects, asks the host what it has, and lets it fetch, as the launch of a run does. Prints seconds and CPU seconds,
without the start of Python and imports, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from bench.client import connector, now, since
from bench.measure import Spent
from distui.facts.probe import probe_all
from distui.plan.model import NoPlan, Task
from distui.plan.plan import plan
from distui.runs.hosts.link import HostLink
from distui.runs.task.fetch import HostFetch
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import DataMount, Job, RankLayout


async def main(home: Path, url: str, sha256: str, host: str) -> Spent:
    """See the module. The probe and the plan, which every run has, are not counted."""
    ssh = connector(home, [host])
    facts = await probe_all(ssh, [Host(host)])
    await ssh.close()
    data = {"set": DataMount("/set", url=url, sha256=sha256)}
    job = Job("bench", image="lab/python:1", command=("true",), ranks=RankLayout(per_host=1), pull="never", data=data)
    picks = (HostPick(host),)
    made = plan(job, Inventory((Host(host),)), picks, facts, run_id="bench", owner="bench@here", version="0")
    assert not isinstance(made, NoPlan), made.problems
    task: Task = made.tasks[0]
    began = now()
    ssh = connector(home, [host])
    link = HostLink(ssh, host, session=await ssh.connect(host))
    fetch = HostFetch(host, link, task, made.mounts, "/root", give_up=20.0)
    assert await fetch.fetch(await fetch.lacking(), {}) == ("set",)
    await link.close()
    await ssh.close()
    return since(began)


if __name__ == "__main__":
    spent = asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
    print(json.dumps({"wall": spent.wall, "cpu": spent.cpu}))
