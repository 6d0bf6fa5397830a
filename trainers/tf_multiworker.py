"""Trains a small convolutional network on many hosts, by tf.distribute.MultiWorkerMirroredStrategy.

Start the same program once on every host with its own TF_CONFIG, as distui does (`launcher: tf`):

    TF_CONFIG='{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, "task": {"type": "worker", "index": 0}}' \\
        python tf_multiworker.py --communication ring

Every worker uses all GPUs that it sees, else its CPU. The loop is written out, since `fit` of Keras 3 does not know
this strategy: it gets a batch for each replica where it expects a tensor. README.md has all arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from distui.trainers import arguments, env, signals, tf_arguments
else:  # run as a script: the modules beside this file, whatever its folder is called
    import arguments
    import env
    import signals
    import tf_arguments

import keras
import tensorflow as tf

if TYPE_CHECKING or __package__:
    from distui.trainers import tf_data, tf_network
else:
    import tf_data
    import tf_network

COMMUNICATION = ("auto", "ring", "nccl")
say = tf_arguments.say


@dataclass(frozen=True, slots=True)
class Options(tf_arguments.Options):
    """What the command line says."""

    communication: str
    """auto, ring (gRPC, also between CPUs) or nccl (GPUs only): how gradients travel."""


def main() -> int:
    """Train as the command line says; exit codes are in README.md."""
    known = parser()
    options = tf_arguments.parse(known, Options)
    task = tf_arguments.task(known)
    if task.type not in ("chief", "worker"):
        known.error(f"{task.type} has no part in this: its cluster is of workers, and a chief if you like")
    if options.communication == "nccl" and not tf.config.list_physical_devices("GPU"):
        known.error("--communication nccl moves data between GPUs only, and there is none here; use ring")
    signals.end_at_once(task.name)
    with tf_arguments.told_in_words(task.name):
        train(options, task, tf_data.load(options.data))
    return 0


def parser() -> arguments.Parser:
    """The command line."""
    made = tf_arguments.training("Trains on all workers of a cluster.")
    made.add_argument(
        "--communication",
        choices=COMMUNICATION,
        default="auto",
        help="how gradients travel: ring (gRPC) or nccl (default: TensorFlow chooses)",
    )
    return made


def train(options: Options, task: env.TfTask, data: tf_data.Data) -> None:
    """Train with all other workers; say how the loss falls, and how good the network is."""
    tf_network.make_deterministic(options.seed, options.threads)
    how = tf.distribute.experimental.CommunicationImplementation[options.communication.upper()]
    wanted = tf.distribute.experimental.CommunicationOptions(implementation=how)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=wanted)
    replicas = strategy.num_replicas_in_sync
    batch = options.batch_size * replicas
    say(task.name, f"at {task.address}: {replicas} replicas, batch {batch}, communication {options.communication}")
    with strategy.scope():
        model = tf_network.build(data.train, tf_data.CLASSES)
        optimizer = keras.optimizers.Adam(options.lr)
        optimizer.build(model.trainable_variables)
    step = step_of(strategy, model, optimizer, batch)
    batches = strategy.experimental_distribute_dataset(
        data.train.dataset(seed=options.seed).batch(batch, drop_remainder=True).prefetch(2)
    )
    loss, steps = 0.0, 0
    for epoch in range(1, options.epochs + 1):
        found = []
        for each in batches:
            steps += 1
            found.append(float(step(each)))
            if steps == 1 or steps % options.log_every == 0:
                say(task.name, f"epoch {epoch} step {steps} loss {found[-1]:.4f}")
        loss = sum(found) / len(found)
        say(task.name, f"epoch {epoch} mean loss {loss:.4f}")
    say(task.name, f"final loss {loss:.4f} params {tf_network.fingerprint(model)}")
    if task.type == "chief" or ("chief" not in task.cluster and task.index == 0):
        say(task.name, f"test accuracy {tf_network.accuracy(model, data.test):.1%}")
    wait_for_all(strategy)


def step_of(strategy: Any, model: Any, optimizer: Any, batch: int) -> Callable[[Any], Any]:
    """One step down the gradient, which is the mean over the `batch` images of all replicas; gives their mean loss."""

    def on_replica(images: Any, classes: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf_network.losses(model, images, classes)) / batch
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))  # added up over replicas
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def on_all(each: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(on_replica, args=each), axis=None)

    return on_all  # type: ignore[no-any-return]


def wait_for_all(strategy: Any) -> None:
    """Worker 0 keeps the cluster's state, so nobody leaves before all are done."""

    @tf.function  # type: ignore[untyped-decorator]
    def all_here() -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)

    all_here()


if __name__ == "__main__":
    sys.exit(main())
