"""`distui why` without containers: two embedded ssh hosts, real torch, a login with a PYTHONPATH of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from distui.remote.demo.demo import DemoHosts

REPO = Path(__file__).resolve().parents[2]
INVENTORY = """
version: 1
defaults: {docker: process}
hosts:
  n1: {data: {addr: 127.0.0.1, ifname: lo}}
  n2: {data: {addr: 127.0.0.1, ifname: lo}}
"""
PROGRAM = """
import time, mine, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(10)
for step in range(100000):
    if step == 20 and dist.get_rank() == 1:
        time.sleep(600)
    dist.all_reduce(x)
    if step < 20:
        print("step", step, mine.WORD, flush=True)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose hosts.yaml names two hosts on loopback that run programs on this machine."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.py").write_text("WORD = 'from the login'\n")
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    demo = DemoHosts(2, root=tmp_path / "home", prefix="n", env={"PATH": os.environ["PATH"], "PYTHONPATH": str(own)})
    try:
        asyncio.run_coroutine_threadsafe(demo.__aenter__(), loop).result(600)
        (tmp_path / "home/hosts.yaml").write_text(INVENTORY)
        yield tmp_path / "home"
    finally:
        asyncio.run_coroutine_threadsafe(demo.close(), loop).result(600)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(600)
        loop.close()


def start(home: Path, *args: str) -> subprocess.Popen[str]:
    """distui from this checkout, in that home."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "LANG": "C.UTF-8"}
    argv = (sys.executable, "-m", "distui.cli.main", *args)
    return subprocess.Popen(argv, cwd=home, env=env, stdout=-1, stderr=-1, text=True)


def distui(home: Path, *args: str) -> Any:
    """What it prints as JSON."""
    out, err = start(home, *args, "-o", "json").communicate(timeout=600)
    assert out, err
    return json.loads(out)


def test_a_process_that_sleeps(home: Path) -> None:
    """Named with file and line; the login's own modules are found behind the hook; nothing is left."""
    (home / "hang.py").write_text(PROGRAM)
    job = {"version": 1, "name": "p", "hosts": "n[1-2]", "command": [sys.executable, str(home / "hang.py")]}
    (home / "job.yaml").write_text(json.dumps(job | {"backend": "gloo", "fabric": {"kind": "tcp"}, "stop_grace": "1s"}))
    with start(home, "run", "job.yaml", "--headless", "-y", "--name", "p") as run:
        assert run.stdout is not None
        assert any("step 19 from the login" in line for line in run.stdout)
        end = time.monotonic() + 600
        while (found := distui(home, "why", "p"))["kind"] in ("moving", "unseen"):
            assert time.monotonic() < end, found
        assert (found["kind"], found["culprits"]) == ("hang", [1]), found["headline"]
        assert f"sleeps at {home}/hang.py:7 in <module>" in found["headline"]
        start(home, "stop", "p", "-y").communicate(timeout=600)
        run.communicate(timeout=600)
    assert not list(home.rglob("hosts/*/p"))
