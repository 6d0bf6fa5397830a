"""Blank jobs that run as they are: what each starts needs no file of one's own, and shows that the hosts talk."""

from __future__ import annotations

from collections.abc import Sequence

from distui.frozen import frozen
from distui.spec.hosts.names import fold
from distui.spec.yaml.edit_text import scalar

TORCH_IMAGE = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"
TF_IMAGE = "tensorflow/tensorflow:2.19.0"


@frozen
class Template:
    """One kind of job to begin with."""

    about: str
    """What it is for, in one sentence."""
    framework: str
    """A word that images for it have in their names."""
    image: str
    """The image where no job here has one."""
    text: str
    """The job from its launcher on."""


# A line is one write: ranks that share one output would else print into each other's lines (PYTHONUNBUFFERED).
_TORCH = """\
    import os, time, torch, torch.distributed as dist
    dist.init_process_group("{backend}")
    device = "cuda" if "{backend}" == "nccl" else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    weight = torch.zeros(1, device=device)
    for step in range(1, 21):
        one = torch.ones(1000, device=device)
        dist.all_reduce(one)
        loss, gradient = (weight - 3) ** 2, 2 * (weight - 3)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient / one[0]
        print("step %d of 20: sum of all ranks %d, loss %.4f\\n" % (step, one[0], loss), end="", flush=True)
        time.sleep(0.5)
    dist.destroy_process_group()
"""
_STEPS = """\
# Reads progress from its lines: each named group is a value; distui knows `step`, `total` and `loss`.
progress: {regex: 'step (?P<step>\\d+) of (?P<total>\\d+)'}
"""
_LOSS = _STEPS.replace("(?P<total>\\d+)", "(?P<total>\\d+): .*loss (?P<loss>\\S+)")
_GPUS = "# gpus_per_host: all   # with GPUs: a rank for each; without, one for each host\n"
_TF_GPUS = "# gpus_per_host: all   # for the workers\n"
_OWN = "# Replace this program with your own; `code: ./` sends this folder, which is then at `workdir: /work`.\n"

TEMPLATES = {
    "torch": Template(
        "PyTorch: distui starts a process for each rank",
        "torch",
        TORCH_IMAGE,
        "launcher: env\n" + _GPUS + _LOSS + _OWN + "command:\n  - python3\n  - -c\n  - |\n" + _TORCH,
    ),
    "torchrun": Template(
        "PyTorch: torchrun on each host starts the ranks",
        "torch",
        TORCH_IMAGE,
        "launcher: torchrun\n" + _GPUS + _LOSS + _OWN + "command:\n"
        "  - --no-python\n  - python3\n  - -c\n  - |\n" + _TORCH,
    ),
    "tf": Template(
        "TensorFlow: each task with its TF_CONFIG",
        "tensorflow",
        TF_IMAGE,
        "launcher: tf\nroles:\n  worker: {per_host: 1}\n" + _TF_GPUS + _STEPS + _OWN + """\
command:
  - python3
  - -c
  - |
    import time, tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    def add():
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([1000]))
    for step in range(1, 21):
        total = strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(tf.function(add)), axis=0)
        print("step", step, "of 20: sum of all workers", int(total.numpy()), flush=True)
        time.sleep(0.5)
""",
    ),
    "tf-ps": Template(
        "TensorFlow: a chief, workers and a parameter server",
        "tensorflow",
        TF_IMAGE,
        """\
launcher: tf
roles:
  chief: {count: 1}
  worker: {per_host: 1}
  ps: {count: 1, env: {CUDA_VISIBLE_DEVICES: ""}}
done_when: chief   # workers and ps never end by themselves: they are stopped then
""" + _STEPS + _OWN + """\
command:
  - python3
  - -c
  - |
    import json, os, time, tensorflow as tf
    place = json.loads(os.environ["TF_CONFIG"])["task"]
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if place["type"] != "chief":
        tf.distribute.Server(resolver.cluster_spec(), job_name=place["type"], task_index=place["index"]).join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        total = tf.Variable(0.0)
    add = tf.function(lambda: total.assign_add(1.0))
    for step in range(1, 21):
        coordinator.schedule(add)
        coordinator.join()
        print("step", step, "of 20: counted by workers", int(total.numpy()), flush=True)
        time.sleep(0.5)
""",
    ),
    "command": Template(
        "any other launcher or program, one on each host",
        "torch",
        TORCH_IMAGE,
        "launcher: command\n# gpus_per_host: all\n" + _STEPS + _OWN + """\
command:
  - sh
  - -c
  - |
    for step in 1 2 3 4 5 6 7 8 9 10; do
      echo "step $step of 10: node {node_rank} of {nnodes}, the first is {master_addr}:{master_port}"
      sleep 0.5
    done
""",
    ),
}  # fmt: skip


def blank_job(template: str, name: str, hosts: Sequence[str], image: str | None) -> str:
    """The text of a new job file. `image` is None where hosts run processes, not containers."""
    lines = [
        "version: 1",
        f"name: {name}",
        *([f"hosts: {scalar(fold(tuple(hosts)))}"] if hosts else []),
        *([f"image: {scalar(image)}"] if image else []),
    ]
    return "\n".join(lines) + "\n" + TEMPLATES[template].text
