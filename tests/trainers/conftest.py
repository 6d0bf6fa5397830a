"""Tests of the trainers with real torch: in this process, or as ranks that meet over loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

TRAINERS = Path(__file__).resolve().parents[2] / "trainers"
Ranks = Callable[..., list[subprocess.Popen[str]]]
LIMIT = 600
"""Seconds after which something counts as one that hangs, however busy the machine is."""


def environment() -> dict[str, str]:
    """This process's, without what would place a rank."""
    kept = {name: text for name, text in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return kept | {"GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Ranks]:
    """Starts the ranks of a trainer as a launcher does, each a process: `start("ddp.py", 2, "--epochs", "1")`."""
    started: list[subprocess.Popen[str]] = []

    def call(program: str, count: int, *args: str) -> list[subprocess.Popen[str]]:
        place = ["--world-size", str(count), "--init-method", f"file://{tmp_path}/meeting-{len(started)}"]
        argv = [sys.executable, str(TRAINERS / program), *place, "--backend", "gloo", "--device", "cpu", *args]
        ranks = [
            subprocess.Popen(
                [*argv, "--rank", str(rank)], text=True, stdout=-1, stderr=-1, cwd=tmp_path, env=environment()
            )
            for rank in range(count)
        ]
        started.extend(ranks)
        return ranks

    yield call
    for rank in started:
        rank.kill()
        rank.communicate()


@pytest.fixture
def run(start: Ranks) -> Callable[..., list[str]]:
    """Starts ranks as `start` does and gives what each printed; all must end with 0."""

    def call(program: str, count: int, *args: str) -> list[str]:
        ranks = start(program, count, *args)
        said = [rank.communicate(timeout=LIMIT) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * count, said
        assert all("Traceback" not in errors for _, errors in said), said
        return [output for output, _ in said]

    return call


@pytest.fixture
def alone() -> Iterator[torch.device]:
    """This process is the only rank of a group, on the CPU."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield torch.device("cpu")
    dist.destroy_process_group()
