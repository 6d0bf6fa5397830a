"""The training programs in examples/training: their job files are right, and run as they stand on two hosts."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

import distui
from distui.cli.demo.demo_job import demo_inventory
from distui.cli.main import main
from distui.remote.demo.demo import DemoHosts
from distui.runs.hosts.reuse import reusing
from distui.session import Connector
from distui.spec.hosts.inventory import Host

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/training"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[distui.Cluster]:
    """Two hosts in this process, whose python3 and torchrun are those of the tests."""
    settings = distui.ClusterSettings({"HOME": str(tmp_path)})
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    async with DemoHosts(2, root=tmp_path / "demo", env={"PATH": path}) as demo:

        def connected(hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
            return reusing(demo.connector())

        yield distui.Cluster(demo_inventory(demo, docker=False), settings=settings, connect=connected)


async def said(cluster: distui.Cluster, name: str, ranks: int) -> list[list[str]]:
    """Run an example without containers; what each rank printed."""
    job = replace(distui.load_job(EXAMPLES / f"{name}.yaml"), image=None, gpus_per_host=0)
    async with asyncio.timeout(600), cluster:
        planned = await cluster.prepare(job, hosts=["demo1", "demo2"])
        assert planned.plan.world_size == ranks
        async with cluster.launch(planned) as run:
            result = await run.wait()
        logs = [run.log(rank).read_text().splitlines() for rank in range(ranks)]
    assert (result.outcome, result.warnings) == ("succeeded", ()), f"{result.failure}\n{logs}"
    return logs


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_job_file_is_right(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`distui job validate` has nothing to say of it, and its program is there."""
    assert main(["job", "validate", str(path)]) == 0, capfd.readouterr().err
    command = distui.load_job(path).command
    words = command.split() if isinstance(command, str) else command
    (program,) = {word for word in words if word.endswith(".py")}
    assert (EXAMPLES / program).is_file()


@pytest.mark.parametrize(("name", "ranks"), [("ddp", 2), ("torchrun", 4)])
async def test_the_plain_loop(cluster: distui.Cluster, name: str, ranks: int) -> None:
    """All ranks learn the same line, which is the one that the points lie on; the loss is seen as progress."""
    logs = await said(cluster, name, ranks)
    lines = {line.partition(": ")[2] for log in logs for line in log if "y = " in line}
    assert len(lines) == 1, logs
    words = lines.pop().split()
    assert float(words[2]) == pytest.approx(3, abs=0.2)
    assert float(words[5]) == pytest.approx(1, abs=0.2)
    assert any(line.startswith("epoch 6 step ") for line in logs[0])


THREADS = """
import atexit, contextlib, runpy, sys
from pathlib import Path

def threads():
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # one that has just ended
            yield path.read_text().strip()

atexit.register(lambda: print("threads", sorted(threads())))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_the_plain_loop_ends_its_threads(tmp_path: Path) -> None:
    """A thread of gloo's that is still there as Python ends aborts the rank now and then, after its last line."""
    program = tmp_path / "program.py"
    program.write_text(THREADS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
    argv = [sys.executable, program, EXAMPLES / "ddp.py"]
    ended = subprocess.run(argv, env=os.environ | group, capture_output=True, text=True, timeout=300, check=True)
    (threads,) = [line for line in ended.stdout.splitlines() if line.startswith("threads ")]
    assert "gloo" not in threads


async def test_fully_sharded(cluster: distui.Cluster) -> None:
    """Each of four ranks holds its share, no rank all, and the loss falls."""
    logs = await said(cluster, "fsdp", 4)
    shares = [next(line.split() for line in log if " holds " in line) for log in logs]
    held = [int(words[5]) for words in shares]
    assert {int(words[7]) for words in shares} == {sum(held)}
    assert max(held) < sum(held) / 2
    losses = [float(line.rpartition(" ")[2]) for line in logs[0] if line.startswith("step ")]
    assert losses[-1] < losses[0]
