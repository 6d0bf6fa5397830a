"""Job files to begin with, for `distui job new`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from distui.regex import regex
from distui.spec.hosts.names import expand, fold
from distui.spec.yaml.edit_text import scalar

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
code: ./                          # this folder, sent to the hosts and mounted read-only at workdir
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
code: ./                          # this folder, sent to the hosts and mounted read-only at workdir
workdir: /work
stop_grace: 30s
"""

_TF_MWMS = """\
version: 1
name: tf-mwms
hosts: node[01-02]
image: tensorflow/tensorflow:2.19.0-gpu
launcher: tf                      # each task gets TF_CONFIG with the cluster and its own place in it
roles:
  worker: {per_host: 1, gpus: all}
command: [python, tf_multiworker.py]
code: ./                          # this folder, sent to the hosts and mounted read-only at workdir
workdir: /work
"""

_TF_PS = """\
version: 1
name: tf-ps
hosts: node[01-02]
image: tensorflow/tensorflow:2.19.0-gpu
launcher: tf
roles:
  chief: {count: 1}               # coordinates, and takes no GPU
  worker: {count: 2, gpus: all}
  ps: {count: 2, env: {CUDA_VISIBLE_DEVICES: ""}}
done_when: chief                  # workers and ps never end by themselves: they are stopped then
command: [python, tf_parameter_server.py]
code: ./                          # this folder, sent to the hosts and mounted read-only at workdir
workdir: /work
"""

_COMMAND = """\
version: 1
name: launch
hosts: node[01-02]
image: pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime
launcher: command                 # any launcher of your own, one on each host; task_per: rank starts one for each rank
gpus_per_host: all                # {nproc} is one process for each GPU
command:
  - accelerate
  - launch
  - --multi_gpu
  - --num_machines={nnodes}
  - --machine_rank={node_rank}
  - --num_processes={world_size}
  - --main_process_ip={master_addr}
  - --main_process_port={master_port}
  - train.py
code: ./                          # this folder, sent to the hosts and mounted read-only at workdir
workdir: /work
"""

TEMPLATES = {
    "gloo": _GLOO,
    "torchrun": _TORCHRUN,
    "tf-mwms": _TF_MWMS,
    "tf-ps": _TF_PS,
    "command": _COMMAND,
}


_HOSTS = regex(r"^hosts: (\S+)", re.MULTILINE)


def template_for(name: str, folder: Path, known: Sequence[str] = ()) -> str:
    """A template for a job file in `folder`, on the first of the hosts that are `known`, where some are.

    In one's home nothing is sent: it holds much more than a job's code.
    """
    text = _HOSTS.sub(partial(_on, known), TEMPLATES[name])
    if folder.resolve() != Path.home().resolve():
        return text
    return text.replace("code: ./       ", "# code: ./train")


def _on(known: Sequence[str], found: re.Match[str]) -> str:
    """The template's line with as many of these hosts as it names itself."""
    return f"hosts: {scalar(fold(known[: len(expand(found[1]))]))}" if known else found[0]
