"""What one of a few words is called elsewhere, so that a message can lead to ours."""

from __future__ import annotations

from collections.abc import Sequence

from distui.spec.yaml.problems import nearest

_CALLED = {
    "infiniband": "ib", "rocev2": "roce", "ethernet": "tcp", "eth": "tcp", "ip": "tcp", "gloo": "tcp",
    "ifnotpresent": "missing", "if-not-present": "missing", "if_not_present": "missing",
    "abort": "stop", "fail": "stop", "kill": "stop", "continue": "wait", "ignore": "wait",
    "readonly": "ro", "read-only": "ro", "readwrite": "rw", "read-write": "rw",
    "none": "env", "mpirun": "command", "mpiexec": "command", "srun": "command", "deepspeed": "command",
    "tensorflow": "tf", "torch": "torchrun", "elastic": "c10d", "yes": "on", "no": "off",
}  # fmt: skip
"""Words of Kubernetes, compose, PyTorch and others for what is one of our few."""


def meant(word: str, words: Sequence[str]) -> str:
    """`; did you mean 'ib'?`: the word of `words` that is meant by another name or by a slip, or nothing."""
    found = _CALLED.get(word.lower())
    near = found if found in words else nearest(word, words)
    return f"; did you mean '{near}'?" if near else ""
