"""TensorFlow on real hosts, each strategy from its file in jobs/, and a launcher of one's own; nothing is left."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("trainers")]

JOBS = Path(__file__).parents[2] / "jobs"
Distui = Callable[..., subprocess.CompletedProcess[str]]


def words(job: str, *command: str, hosts: str = "h[1-2]", **keys: str) -> list[str]:
    """The command line that runs a file of jobs/ with the lab's image; `command` is added to the job's."""
    settings = {"image": "lab/tensorflow:1", "stop_grace": "5s"} | keys
    pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    end = ["--", *command] if command else []
    return ["run", str(JOBS / f"{job}.yaml"), "-H", hosts, *pairs, "--headless", "-y", "-o", "ndjson", *end]


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The NDJSON events of a run."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What all tasks printed."""
    return [e["line"] for e in events(done) if e["type"] == "log"]


def assert_clean(lab: Any) -> None:
    assert [left for host in lab.hosts for left in host.leftovers()] == []


def test_mirrored_gets_the_gpus_asked_for(lab: Any, distui: Distui) -> None:
    """Docker hands the GPUs over, a CPU device stands in for each, and the model is evaluated at the end."""
    script = "nvidia-smi -L && exec python3 tf_mirrored.py --cpu-replicas 2 --epochs 3"
    command = json.dumps(["sh", "-c", script])
    done = distui(*words("tf-mirrored", hosts="h1", gpus_per_host="[0, 1]", command=command))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "mirrored 2 replicas (CPU:0, CPU:1), batch 64 = 32 x 2" in said(done)
    (accuracy,) = re.findall(r"test accuracy ([0-9.]+)%", "\n".join(said(done)))
    assert float(accuracy) > 80
    assert [line.partition(":")[0] for line in said(done) if "UUID" in line] == ["GPU 0", "GPU 1"]
    assert_clean(lab)


def test_multi_worker_trains_the_same_on_both_hosts(lab: Any, distui: Distui) -> None:
    """TF_CONFIG leads the workers to each other: one loss, one network; only worker 0 tests it."""
    done = distui(*words("tf-multiworker", "--communication", "ring", "--epochs", "2", **{"roles.worker.gpus": "0"}))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    finals = re.findall(r"worker (\d)/2 (final loss .*)", "\n".join(said(done)))
    assert {index for index, _ in finals} == {"0", "1"}
    assert len({text for _, text in finals}) == 1, finals
    assert sum("test accuracy" in line for line in said(done)) == 1
    assert [r.get("name") for r in events(done)[0]["ranks"]] == ["worker/0", "worker/1"]
    assert_clean(lab)


FOREIGN = """
import json, os
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
size = 32 * len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])

def batches(context):
    labels = np.arange(256) % 4
    points = np.eye(4, dtype="float32")[labels] + np.random.default_rng(0).normal(0, 0.1, (256, 4)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((points, labels))
    mine = data.shard(context.num_input_pipelines, context.input_pipeline_id)
    return mine.repeat().batch(context.get_per_replica_batch_size(size))

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(4)])
    optimizer = tf.keras.optimizers.SGD(1.0)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
    dataset = iter(strategy.distribute_datasets_from_function(batches))

@tf.function
def step(iterator):
    def on_one_replica(batch):
        points, labels = batch
        with tf.GradientTape() as tape:
            scores = model(points, training=True)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            loss = tf.nn.compute_average_loss(each, global_batch_size=size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        accuracy.update_state(labels, scores)
        return loss
    losses = strategy.run(on_one_replica, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

for epoch in range(2):
    accuracy.reset_state()
    for _ in range(10):
        loss = step(dataset)
place = strategy.cluster_resolver
print(f"{place.task_type} {place.task_id} of {strategy.num_replicas_in_sync}:",
      f"loss {loss.numpy():.6f} accuracy {accuracy.result().numpy():.4f}", flush=True)
"""


def test_a_program_that_knows_nothing_of_distui(lab: Any, home: Path, distui: Distui) -> None:
    """A custom loop as TensorFlow's tutorial has it, without arguments, needs a job file and no change."""
    program = lab.share / "foreign_tf.py"
    program.write_text(FOREIGN)
    (home / "job.yaml").write_text("""
version: 1
name: foreign-tf
hosts: h[1-2]
image: lab/tensorflow:1
launcher: tf
roles: {worker: {per_host: 1}}
volumes: ["/mnt/pytorch:/pytorch"]
workdir: /pytorch
command: [python3, foreign_tf.py]
""")
    try:
        done = distui("run", "job.yaml", "--headless", "-y", "-o", "ndjson")
    finally:
        program.unlink()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    trained = dict(re.findall(r"worker (\d) of 2: (loss \S+ accuracy [0-9.]+)", "\n".join(said(done))))
    assert trained.keys() == {"0", "1"}
    assert trained["0"] == trained["1"]
    assert float(trained["0"].split()[-1]) > 0.9
    assert_clean(lab)


def test_a_worker_that_is_killed_stops_all_and_is_named_first(lab: Any, home: Path) -> None:
    """The others fail because of it, so they are not what went wrong."""
    job = words("tf-multiworker", "--communication", "ring", "--epochs", "1000", **{"roles.worker.gpus": "0"})
    at = job.index("--")
    host = lab.host("h2")
    with lab.spawn_distui(*job[:at], "--name", "killed", *job[at:], home=home) as program:
        while "epoch" not in host.exec("docker", "logs", "distui-killed-1", check=False).stdout:
            assert program.poll() is None
            time.sleep(0.3)
        host.exec("docker", "kill", "--signal", "KILL", "distui-killed-1")
        result = events(program.finish())[-1]
    assert (result["state"], result["exit"]) == ("failed", 1)
    first = result["first_failure"]
    assert (first["name"], first["host"], first["exit"]) == ("worker/1", "h2", 137)
    assert_clean(lab)


def test_parameter_servers_end_with_their_chief(lab: Any, distui: Distui) -> None:
    """The chief's exit code is the run's; workers and ps, which never end, and the evaluator are stopped."""
    folder = lab.share / "tf-parameter-server"
    keys = {"roles.worker.gpus": "0", "stop_grace": "120s"}  # the evaluator has to test the last epoch before it goes
    try:
        done = distui(*words("tf-parameter-server", "--epochs", "4", "--threads", "1", **keys))
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        last = {e["rank"]: e["state"] for e in events(done) if e["type"] == "rank"}
        names = [r["name"] for r in events(done)[0]["ranks"]]
        assert names == ["chief/0", "worker/0", "worker/1", "ps/0", "evaluator/0"]
        assert [last[rank] for rank in range(4)] == ["exited", "stopped", "stopped", "stopped"]
        assert [e["reason"] for e in events(done) if e["type"] == "stop"] == ["done"]
        assert any(line.startswith("chief 0/1 test accuracy") for line in said(done))
        assert "evaluator 0/1 epoch 4 test accuracy" in "\n".join(said(done))
        again = said(distui(*words("tf-parameter-server", "--epochs", "4", **keys)))
        assert [line for line in again if line.startswith("chief 0/1 epoch 4 was done before: params ")]
        assert "final loss" not in "\n".join(again), "nothing was trained, so no loss is known"
        for file in folder.glob("*.data-00000-*"):
            with file.open("r+b") as data:
                data.seek(2000)
                data.write(bytes(400))
        damaged = distui(*words("tf-parameter-server", "--epochs", "5", **keys))
        assert events(damaged)[-1]["first_failure"]["exit"] == 2
        assert "Checksum does not match" in events(damaged)[-1]["first_failure"]["excerpt"][-1]
    finally:
        lab.host("h1").exec("rm", "-rf", f"/mnt/pytorch/{folder.name}")
    assert_clean(lab)


def test_a_chief_that_fails_gives_the_run_its_exit_code(lab: Any, distui: Distui) -> None:
    """Workers and parameter servers that wait for ever go with it."""
    script = """case "$TF_CONFIG" in *'"type":"chief"'*) sleep 1; exit 7;; *) sleep 600;; esac"""
    job = words("tf-parameter-server", **{"roles.worker.gpus": "0", "command": json.dumps(["sh", "-c", script])})
    done = distui(*job, "--set", "image=lab/python:1")
    result = events(done)[-1]
    assert (done.returncode, result["state"], result["exit"]) == (7, "failed", 7)
    assert (result["first_failure"]["name"], result["first_failure"]["exit"]) == ("chief/0", 7)
    assert_clean(lab)


def test_the_old_launcher_runs_on_each_host(lab: Any, home: Path, distui: Distui) -> None:
    """`launcher: command` starts torch.distributed.launch once a host; it numbers the ranks."""
    job = home / "launch.yaml"
    job.write_text("""
version: 1
name: launch
hosts: h[1-2]
image: lab/pytorch:1
launcher: command
ranks: {per_host: 2}
volumes: ["/mnt/pytorch:/pytorch"]
workdir: /pytorch/trainers
command: [python3, -m, torch.distributed.launch, "--nnodes={nnodes}", "--node-rank={node_rank}",
          "--nproc-per-node={nproc}", "--master-addr={master_addr}", "--master-port={master_port}",
          mnist.py, --backend, gloo, --epochs, "1"]
""")
    done = distui("run", str(job), "--headless", "-y", "-o", "ndjson")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    finals = re.findall(r"rank (\d)/4 (final loss \S+ params \S+)", "\n".join(said(done)))
    assert {rank for rank, _ in finals} == {"0", "1", "2", "3"}
    assert len({text for _, text in finals}) == 1, finals
    assert [r["name"] for r in events(done)[0]["ranks"]] == ["node0", "node1"]
    assert_clean(lab)
