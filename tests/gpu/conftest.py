"""Two embedded ssh hosts on a machine with a real NVIDIA GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpuhosts import Cluster, Loop, Machine

from distui.remote.demo.demo import DemoHosts

INVENTORY = """
version: 1
defaults: {docker: process}
hosts:
  gpu1: {data: {addr: 127.0.0.1, ifname: lo}}
  gpu2: {data: {addr: 127.0.0.1, ifname: lo}}
"""


@pytest.fixture(scope="session")
def machine() -> Machine:
    """This machine's GPU; the tests fail, with what is missing, where there is none."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        pytest.fail("these tests need an NVIDIA GPU: there is no nvidia-smi here")
    listed = subprocess.run([smi, "-L"], capture_output=True, text=True, timeout=60, check=False)
    if listed.returncode or "GPU 0" not in listed.stdout:
        pytest.fail(f"these tests need an NVIDIA GPU: {listed.stdout}{listed.stderr}")
    python = os.environ.get("GPU_PYTHON") or sys.executable
    script = "import torch; assert torch.cuda.is_available(), 'torch has no CUDA here'; print(torch.__version__)"
    asked = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    if asked.returncode:
        pytest.fail(f"{python} can't use the GPU (set GPU_PYTHON to one that can): {asked.stderr[-500:]}")
    return Machine(smi, shutil.which(python) or python, f"torch {asked.stdout.strip()}")


@pytest.fixture
def cluster(machine: Machine, tmp_path: Path) -> Iterator[Cluster]:
    """Two hosts, gpu1 and gpu2, whose programs run on this machine."""
    home, first = tmp_path / "home", tmp_path / "first"
    first.mkdir()
    loop = Loop()
    path = f"{first}{os.pathsep}{os.environ['PATH']}"
    demo = DemoHosts(2, root=home, prefix="gpu", env={"PATH": path})
    try:
        loop.do(demo.__aenter__())
        (home / "hosts.yaml").write_text(INVENTORY)
        yield Cluster(machine, home, first)
    finally:
        loop.do(demo.close())
        loop.close()


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Any:
    """Keeps a text under a name in $GPU_RECORD, when that is set."""
    folder = os.environ.get("GPU_RECORD")

    def keep(name: str, text: str) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_text(text)

    return keep


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster) -> Iterator[None]:
    """After each test no run lives and the hosts hold nothing of one."""
    yield
    done = cluster.distui("ps", "-a", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert [path for path in cluster.home.glob("gpu*/.local/state/distui/hosts/*/*") if path.is_dir()] == []
