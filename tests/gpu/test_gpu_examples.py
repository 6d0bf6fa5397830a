"""The project's examples on a real GPU, over NCCL."""

from __future__ import annotations

from typing import Any

import pytest
from gpuhosts import REPO, Cluster

EXAMPLES = REPO / "examples/training"
TORCHRUN = {"launcher": "torchrun"}


@pytest.mark.parametrize(
    ("name", "keys", "says"),
    [("ddp.py", {}, "y = "), ("ddp.py", TORCHRUN, "y = "), ("fsdp.py", TORCHRUN, "rank 0 of 1 holds")],
    ids=["ddp", "ddp-torchrun", "fsdp-torchrun"],
)
def test_an_example_trains_on_the_gpu(cluster: Cluster, name: str, keys: dict[str, Any], says: str) -> None:
    """One rank for the one GPU, as its job file says it for machines that have some."""
    program = str(EXAMPLES / name)
    command = [program] if keys else [cluster.machine.python, program]
    cluster.job(program, hosts="gpu1", backend="nccl", gpus_per_host=1, command=command, **keys)
    result, printed = cluster.run("--name", "example")

    assert (result["state"], result["leftovers"], result["warnings"]) == ("succeeded", [], []), printed
    assert says in printed
