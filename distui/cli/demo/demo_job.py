"""The demo's job and the inventory of the hosts that are made for it."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from distui.errors import CheckFailed
from distui.remote.demo.demo import DemoHosts
from distui.spec.hosts.inventory import DataNetwork, EngineName, Inventory


def trainers_folder() -> Path:
    """Where the trainers that came with distui are. Raises CheckFailed when they are not installed."""
    spec = find_spec("distui.trainers")
    if spec is None or spec.origin is None:
        raise CheckFailed("the trainers that belong to distui are not installed", hint="pip install distui again")
    return Path(spec.origin).parent


def digits(*, epochs: int, image: str | None) -> dict[str, Any]:
    """The training on handwritten digits as keys of a job, in containers of `image` or as processes."""
    trainers = trainers_folder()
    program = ["python3", "/trainers/mnist.py"] if image else [sys.executable, str(trainers / "mnist.py")]
    meet = "--rank {rank} --world-size {world_size} --init-method {init_method} --backend {backend}"
    values: dict[str, Any] = {
        "ranks": {"per_host": 1},
        "gpus_per_host": 0,
        "rendezvous": "tcp",
        "backend": "gloo",
        "fabric": {"kind": "tcp"},
        "command": [*program, *meet.split(), "--epochs", str(epochs), "--log-every", "20"],
        "env": {"PYTHONDONTWRITEBYTECODE": "1"},
        "stop_grace": "10s",
        "progress": {"regex": r"step (?P<step>\d+) loss (?P<loss>[\d.]+), (?P<total>\d+) steps"},
    }
    return values | ({"image": image, "volumes": [f"{trainers}:/trainers:ro"]} if image else {})


def demo_inventory(demo: DemoHosts, *, docker: bool) -> Inventory:
    """The inventory of the hosts that were made."""
    loopback = DataNetwork(addr="127.0.0.1", ifname="lo0" if sys.platform == "darwin" else "lo")
    engine: EngineName = "docker" if docker else "process"
    command = ("docker",) if docker else ()
    hosts = (replace(h, engine=engine, engine_command=command, data=loopback) for h in demo.inventory)
    return Inventory(tuple(hosts))
