"""`distui demo` on a terminal: the UI over hosts made on this machine, with jobs to try on them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from distui.cli.demo.demo_job import demo_inventory, digits
from distui.cli.runs import opening
from distui.cli.settings import Settings
from distui.cluster.backend.backend import ClusterBackend
from distui.cluster.jobs.job_files import JobFile, read_draft
from distui.remote.demo.demo import DemoHosts
from distui.runs.hosts.reuse import reusing
from distui.session import Connector
from distui.spec.hosts.inventory import Host

COUNTING = '''\
"""Prints what a training prints: a step, its loss, now and then a checkpoint. Rank 1 fails when asked to."""

import math, os, sys, time

rank, steps, fail = int(os.environ["RANK"]), int(sys.argv[1]), sys.argv[2:] == ["--fail"]
print(f"[rank{rank}] {os.environ['WORLD_SIZE']} ranks, master {os.environ['MASTER_ADDR']}", flush=True)
for step in range(1, steps + 1):
    print(f"step {step}/{steps} loss {2.5 * math.exp(-step / steps * 2):.3f}", flush=True)
    if step % 50 == 0 and rank == 0:
        print(f"checkpoint saved at step {step}", flush=True)
    if fail and rank == 1 and step == steps // 2:
        raise RuntimeError("CUDA error: an illegal memory access was encountered (not really)")
    time.sleep(0.2)
'''
"""Needs only Python, so that every screen can be tried where torch is not."""
COUNTED = r"step (?P<step>\d+)/(?P<total>\d+) loss (?P<loss>[\d.]+)|saved at step (?P<checkpoint>\d+)"


async def open_demo(settings: Settings, count: int, *, docker: bool, image: str, epochs: int) -> int:
    """The app over hosts that live as long as it does; its runs are recorded in a folder that goes with them."""
    with TemporaryDirectory(prefix="distui-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        own = replace(settings, environ={**settings.environ, "XDG_STATE_HOME": str(folder / "state")})
        async with DemoHosts(count, root=folder) as demo:
            found = demo_inventory(demo, docker=docker)

            def connected(hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
                return reusing(demo.connector())

            jobs = _jobs(folder, [h.name for h in found.hosts], image=image if docker else None, epochs=epochs)
            backend = ClusterBackend(
                own.places,
                found,
                found.hosts,
                title=f"demo: {count} hosts on this machine",
                connect=connected,
                more_jobs=jobs,
                stop_on_exit=True,
                login=demo.shell_argv,
            )
            async with backend:
                return await opening.show(own, backend)


def _jobs(folder: Path, hosts: Sequence[str], *, image: str | None, epochs: int) -> tuple[JobFile, ...]:
    """Job files to try, written into the demo's folder."""
    (folder / "counting.py").write_text(COUNTING)
    made: dict[str, dict[str, Any]] = {}
    if image is not None or find_spec("torch") is not None:
        made["digits"] = digits(image=image, epochs=epochs)
    if image is None:
        made |= {"counting": _counting(folder, "1000"), "failing": _counting(folder, "60", "--fail")}
    found = []
    for name, values in made.items():
        path = folder / f"{name}.yaml"
        keys = {"version": 1, "name": name, "hosts": list(hosts), **values}
        path.write_text(yaml.safe_dump(keys, sort_keys=False, width=100))
        draft = read_draft(path.read_text(), str(path), {})
        found.append(JobFile(path, name, draft.problems, draft.job))
    return tuple(found)


def _counting(folder: Path, *words: str) -> dict[str, Any]:
    return {
        "ranks": {"per_host": 2},
        "gpus_per_host": 0,
        "fabric": {"kind": "tcp"},
        "command": [sys.executable, str(folder / "counting.py"), *words],
        "progress": {"regex": COUNTED},
        "stop_grace": "5s",
    }
