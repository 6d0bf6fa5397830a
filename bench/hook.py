"""What the hook of ranks (`insight`) costs a program: its start, and its steps."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from bench.measure import REPO, Rival, Spent, by_its_clock, command, in_turns, middle
from bench.report import Target, limit, table, title

START_LIMIT_MS = 20.0
"""Milliseconds that the hook may add to the start of a program that uses torch.distributed."""

STEPS = """
import json, os, sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + str(os.getpid()), rank=0, world_size=1)
model, x = torch.nn.Linear(256, 256), torch.ones(64, 256)
def step():
    model.zero_grad()
    model(x).sum().backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
for _ in range(200): step()
print("first steps", flush=True)
cpu, began = time.process_time(), time.monotonic()
for _ in range(int(sys.argv[2])): step()
print(json.dumps({"wall": time.monotonic() - began, "cpu": time.process_time() - cpu}))
"""
"""One rank, two all-reduces of 256 kB and 1 kB a step, which takes half a millisecond: real steps take longer."""


def measure(*, quick: bool) -> None:
    """Python, torch and steps with the hook and without."""
    title("hook: what a rank pays for being asked (1 rank, gloo)")
    with tempfile.TemporaryDirectory() as folder:
        bare = _bare()
        env = hooked(Path(folder))
        _start("python -c pass", "pass", bare, env, 7 if quick else 25)
        _start("import torch.distributed", "import torch.distributed", bare, env, 3 if quick else 9)
        rivals = [_steps("steps", env, folder), _steps("steps without it", bare, folder)]
        table(in_turns(rivals, 3 if quick else 9), "steps", [Target("steps without it", "wall", 1.01)])


def _bare() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def hooked(folder: Path) -> dict[str, str]:
    """The environment of a rank that can be asked by what is in `folder`."""
    hook = str(REPO / "distui/agent/hook")
    return _bare() | {"PYTHONPATH": hook, "DISTUI_INSIGHT": str(folder), "TORCH_FR_BUFFER_SIZE": "2000"}


def _start(name: str, program: str, bare: dict[str, str], hooked: dict[str, str], rounds: int) -> None:
    """Both ways to start, and how far they are apart."""
    argv = (sys.executable, "-c", program)
    rivals = [Rival(name, lambda: command(argv, env=hooked)), Rival("without it", lambda: command(argv, env=bare))]
    taken = in_turns(rivals, rounds)
    table(taken, name, [])
    more = middle(taken[name]).cpu - middle(taken["without it"]).cpu
    limit("CPU that it adds", more * 1000, "ms", START_LIMIT_MS)


def _steps(name: str, env: dict[str, str], folder: str) -> Rival:
    def take() -> Spent:
        return by_its_clock((sys.executable, "-c", STEPS, str(Path(folder) / "meet"), "2000"), env=env)

    return Rival(name, take)
