"""Trains a small convolutional network with parameter servers, by tf.distribute.ParameterServerStrategy.

Every task runs this program and learns from TF_CONFIG which it is, as distui sets it (`launcher: tf`):

    chief       hands out steps and says how the loss falls; its end is the run's
    worker      computes gradients when asked to; never ends by itself
    ps          keeps a part of the parameters; never ends by itself
    evaluator   tests every checkpoint that the chief saves; needs --checkpoint in a folder that both see

Workers take steps without waiting for each other, each through the images in an order of its own, so that the seed
settles where the network begins and not every loss. A worker that is lost is done without; after a lost parameter
server the run starts again from its checkpoint.
README.md has all arguments.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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

LOOK_SECONDS = 0.5
"""Between two looks of the evaluator for a new checkpoint."""

say = tf_arguments.say


@dataclass(frozen=True, slots=True)
class Options(tf_arguments.Options):
    """What the command line says."""

    checkpoint: Path | None
    """Folder that chief and evaluator share; the chief goes on from what is there."""


def main() -> int:
    """Do this task's part; exit codes are in README.md."""
    known = parser()
    options = tf_arguments.parse(known, Options)
    task = tf_arguments.task(known)
    lacking = [kind for kind in ("chief", "worker", "ps") if kind not in task.cluster]
    if task.type != "evaluator" and lacking:
        known.error(f"TF_CONFIG's cluster has no {' and no '.join(lacking)}: parameter servers need all three")
    if task.type == "evaluator" and options.checkpoint is None:
        known.error("the evaluator tests what the chief saves: give both --checkpoint DIR, a folder that they share")
    with tf_arguments.told_in_words(task.name):
        match task.type:
            case "evaluator":
                evaluate(options, task)
            case "chief":
                signals.end_at_once(task.name)
                train(options, task)
            case _:
                signals.end_at_once(task.name)
                serve(task)
    return 0


def parser() -> arguments.Parser:
    """The command line."""
    made = tf_arguments.training("Trains with parameter servers.", lr=0.1)
    made.add_argument("--checkpoint", metavar="DIR", type=Path, help="save to it each epoch, and go on from it")
    return made


def serve(task: env.TfTask) -> None:
    """Work for the chief until this process is ended."""
    cluster = tf.train.ClusterSpec({kind: list(found) for kind, found in task.cluster.items()})
    server = tf.distribute.Server(cluster, job_name=task.type, task_index=task.index, protocol="grpc")
    say(task.name, f"listens at {task.address}")
    server.join()


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained, and what a checkpoint keeps of it."""

    model: Any
    optimizer: Any
    epoch: Any
    """Whole passes over the data done, as a variable."""
    saved: Any
    """tf.train.Checkpoint of the three."""


def begin(options: Options, data: tf_data.Data) -> Training:
    """The network and its optimizer, new."""
    model = tf_network.build(data.train, tf_data.CLASSES)
    optimizer = keras.optimizers.SGD(options.lr)
    optimizer.build(model.trainable_variables)
    epoch = tf.Variable(0, dtype=tf.int64)
    weights = {f"weight{i}": weight.value for i, weight in enumerate(model.trainable_variables)}
    return Training(model, optimizer, epoch, tf.train.Checkpoint(epoch=epoch, **weights))


def train(options: Options, task: env.TfTask) -> None:
    """Hand out steps to the workers; say how the loss falls, and how good the network is."""
    data = tf_data.load(options.data)
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    keras.utils.set_random_seed(options.seed)
    cluster = tf.train.ClusterSpec(
        {kind: list(found) for kind, found in task.cluster.items() if kind in ("chief", "worker", "ps")}
    )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster, task_type=task.type, task_id=task.index, rpc_layer="grpc"
    )
    say(task.name, f"waits for {len(task.cluster['worker'])} workers and {len(task.cluster['ps'])} parameter servers")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        training = begin(options, data)
    manager = checkpoints(options, training)
    batches = iter(coordinator.create_per_worker_dataset(dataset_of(options, data)))
    step = step_of(strategy, training)
    steps = -(-data.train.count // options.batch_size)
    loss = 0.0
    for epoch in range(int(training.epoch.numpy()) + 1, options.epochs + 1):
        given = [coordinator.schedule(step, args=(batches,)) for _ in range(steps)]
        coordinator.join()
        losses = [float(value.fetch()) for value in given]
        for number in range(options.log_every, steps + 1, options.log_every):
            say(task.name, f"epoch {epoch} step {(epoch - 1) * steps + number} loss {losses[number - 1]:.4f}")
        loss = sum(losses) / len(losses)
        say(task.name, f"epoch {epoch} mean loss {loss:.4f}")
        training.epoch.assign(epoch)
        if manager is not None:
            manager.save(checkpoint_number=epoch)
    say(task.name, f"final loss {loss:.4f} params {tf_network.fingerprint(training.model)}")
    say(task.name, f"test accuracy {tf_network.accuracy(training.model, data.test):.1%}")


def checkpoints(options: Options, training: Training) -> Any:
    """Keeps the newest two; what is there already is restored. None when nothing shall be saved."""
    if options.checkpoint is None:
        return None
    manager = tf.train.CheckpointManager(training.saved, str(options.checkpoint), max_to_keep=2)
    if manager.latest_checkpoint:
        training.saved.restore(manager.latest_checkpoint).assert_existing_objects_matched()
    return manager


def dataset_of(options: Options, data: tf_data.Data) -> Callable[[], Any]:
    """What each worker makes its own batches with: all images in an order of its own, without end."""

    def make() -> Any:
        seed = options.seed + tf.cast(tf.timestamp() * 1e6, tf.int64)  # a number would be the same on all workers
        return data.train.dataset(seed=seed).repeat().batch(options.batch_size).prefetch(2)

    return make


def step_of(strategy: Any, training: Training) -> Callable[[Any], Any]:
    """One step of one worker down its own gradient; gives the mean loss of its batch."""
    model, optimizer = training.model, training.optimizer

    def on_replica(images: Any, classes: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf_network.losses(model, images, classes))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def on_worker(batches: Any) -> Any:
        found = strategy.run(on_replica, args=next(batches))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, found, axis=None)

    return on_worker  # type: ignore[no-any-return]


def evaluate(options: Options, task: env.TfTask) -> None:
    """Test every new checkpoint, until the last epoch's, or SIGTERM: what was saved by then is tested first."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    data = tf_data.load(options.data)
    training = begin(options, data)
    done = ""
    say(task.name, f"waits for checkpoints in {options.checkpoint}")
    while int(training.epoch.numpy()) < options.epochs:
        ending = stopping.is_set()
        newest = tf.train.latest_checkpoint(str(options.checkpoint)) or ""
        if newest != done:
            training.saved.restore(newest).assert_existing_objects_matched()
            done = newest
            found = tf_network.accuracy(training.model, data.test)
            say(task.name, f"epoch {int(training.epoch.numpy())} test accuracy {found:.1%}")
        elif ending:
            say(task.name, "stopped by SIGTERM")
            os._exit(128 + signal.SIGTERM)
        stopping.wait(LOOK_SECONDS) if not ending else None


if __name__ == "__main__":
    sys.exit(main())
