"""The demo's job and the inventory of the hosts that are made for it."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from distui.errors import CheckFailed
from distui.remote.demo import DemoHosts
from distui.spec.hosts.inventory import DataNetwork, EngineName, Inventory
from distui.spec.job.job import Fabric, Job, RankLayout, Rendezvous


def trainers_folder() -> Path:
    """Where the trainers that came with distui are. Raises CheckFailed when they are not installed."""
    spec = find_spec("distui.trainers")
    if spec is None or spec.origin is None:
        raise CheckFailed("the trainers that belong to distui are not installed", hint="pip install distui again")
    return Path(spec.origin).parent


def digits(folder: Path, *, epochs: int, image: str | None) -> Job:
    """The training on handwritten digits, in containers of `image` or as processes."""
    place = Path("/trainers") if image else trainers_folder()
    arguments = [
        "--rank",
        "{rank}",
        "--world-size",
        "{world_size}",
        "--init-method",
        "{init_method}",
        "--backend",
        "{backend}",
    ]
    return Job(
        name="digits",
        image=image,
        ranks=RankLayout(per_host=1),
        gpus_per_host=0,
        rendezvous=Rendezvous("tcp"),
        backend="gloo",
        fabric=Fabric("tcp"),
        progress=r"epoch (?P<epoch>\d+) step (?P<step>\d+) loss (?P<loss>[\d.]+)",
        command=(
            "python3" if image else sys.executable,
            str(place / "mnist.py"),
            *arguments,
            "--epochs",
            str(epochs),
            "--log-every",
            "20",
        ),
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        volumes=(f"{trainers_folder()}:/trainers:ro",) if image else (),
        stop_grace=10.0,
    )


def demo_inventory(demo: DemoHosts, *, docker: bool) -> Inventory:
    """The inventory of the hosts that were made."""
    loopback = DataNetwork(addr="127.0.0.1", ifname="lo0" if sys.platform == "darwin" else "lo")
    engine: EngineName = "docker" if docker else "process"
    command = ("docker",) if docker else ()
    hosts = (replace(h, engine=engine, engine_command=command, data=loopback) for h in demo.inventory)
    return Inventory(tuple(hosts))
