"""Job files to begin with, for `distui job new`."""

from __future__ import annotations

_GLOO = """\
version: 1
name: gloo-smoke
hosts: node[01-02]                # names, ranges, or {group: G, count: N}
image: pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime
launcher: env                     # one container per rank, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
ranks: {per_host: 1}
gpus_per_host: 0
backend: gloo
fabric: {kind: tcp}
command: [python, train.py, --backend, "{backend}"]
volumes: ["./:/work:ro"]          # this folder must be at the same place on every host
workdir: /work
"""

_TORCHRUN = """\
version: 1
name: llm-train
hosts: node[01-04]
image: nvcr.io/nvidia/pytorch:25.01-py3
launcher: torchrun                # one container per host, one rank per GPU
gpus_per_host: all
backend: nccl
fabric: {kind: auto}              # auto | ib | roce | tcp
command: [train.py, --config, config.yaml]
env: {NCCL_DEBUG: WARN, OMP_NUM_THREADS: "8"}
secrets: []                       # names only; the values come from your environment
shm_size: 64g
ulimits: {memlock: -1, stack: 67108864}
volumes: ["/data:/data"]
workdir: /data
stop_grace: 30s
"""

TEMPLATES = {"gloo": _GLOO, "torchrun": _TORCHRUN}
