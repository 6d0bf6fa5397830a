"""What a recorded ending is made from: a job, what is done to it from outside, and what is then true."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GLOO = {"image": "lab/pytorch:1", "backend": "gloo"}
ENDS = ("python3", "/pytorch/programs/ends.py")
MEET = ("--meet", "/pytorch/meet")


@dataclass(frozen=True)
class Scenario:
    """One ending to record. `truth` follows from how the fault is made, never from what distui says."""

    name: str
    title: str
    job: Mapping[str, Any]
    truth: Mapping[str, Any]
    act: Callable[[Any], None] | None = None
    flags: Sequence[str] = field(default=())
    engine: str = "docker"

    def source(self, case: Mapping[str, Any]) -> str:
        """Where the case is from, in words."""
        parts = ["recorded:"]
        if "pytorch" in self.job.get("image", ""):
            parts.append("torch 2.13,")
        if "tensorflow" in self.job.get("image", ""):
            parts.append("TensorFlow 2.21,")
        parts.append("Docker," if self.engine == "docker" else "processes,")
        return " ".join([*parts, f"{len(case['hosts'])} hosts, {len(case['tasks'])} tasks"])


def job(per_host: int, *command: str, hosts: str = "h[1-2]", **keys: Any) -> dict[str, Any]:
    """A job file of the lab's hosts."""
    given = {"version": 1, "name": "ending", "hosts": hosts, "image": "lab/python:1", "stop_grace": "3s"}
    given |= {"volumes": ["/mnt/pytorch:/pytorch"], "ranks": {"per_host": per_host}, "command": list(command)}
    return {key: value for key, value in (given | keys).items() if value is not None}


def plain(per_host: int, *actions: str, **keys: Any) -> dict[str, Any]:
    """Ranks of `ends.py` without torch."""
    return job(per_host, *ENDS, *MEET, *actions, **keys)


def gloo(per_host: int, *actions: str, **keys: Any) -> dict[str, Any]:
    """Ranks of `ends.py` whose steps are collectives."""
    return job(per_host, *ENDS, "--gloo", *actions, **(GLOO | keys))


def torchrun(per_host: int, *actions: str, **keys: Any) -> dict[str, Any]:
    """The same, started by torchrun."""
    return job(per_host, *ENDS[1:], *actions, **({"launcher": "torchrun"} | GLOO | keys))


def truth(
    outcome: str,
    *ranks: str,
    first: Sequence[int] = (),
    cause: str = "",
    never: Sequence[str] = (),
    says: Sequence[str] = (),
) -> dict[str, Any]:
    """What is true. Each of `ranks`, from rank 0 on, is `RELATION EXIT`, `RELATION SIGSEGV` or `RELATION ?`."""
    found = {
        "outcome": outcome,
        "first": list(first),
        "alike": len(first) > 1,
        "ranks": {str(rank): _rank(words) for rank, words in enumerate(ranks)},
        "cause": cause,
        "never": list(never),
    }
    return found | ({"says": list(says)} if says else {})


def _rank(words: str) -> dict[str, Any]:
    import signal

    relation, _, end = words.partition(" ")
    number = re.fullmatch(r"SIG[A-Z]+", end) and int(signal.Signals[end])
    return {"relation": relation, "exit": int(end) if end.isdigit() else None, "signal": number or None}
