"""Trains a small convolutional network with Keras on every GPU of one host, by tf.distribute.MirroredStrategy.

    python tf_mirrored.py                       # on all GPUs that this process sees, else on the CPU
    python tf_mirrored.py --cpu-replicas 2      # on two logical CPU devices, which stand in for GPUs

Every replica takes a part of each batch of batch size x replicas images, and holds the same parameters. The model is
evaluated at the end. README.md has all arguments.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from distui.trainers import arguments, signals, tf_arguments
else:  # run as a script: the modules beside this file, whatever its folder is called
    import arguments
    import signals
    import tf_arguments

import keras
import tensorflow as tf

if TYPE_CHECKING or __package__:
    from distui.trainers import tf_data, tf_network
else:
    import tf_data
    import tf_network

NAME = "mirrored"
say = tf_arguments.say


@dataclass(frozen=True, slots=True)
class Options(tf_arguments.Options):
    """What the command line says."""

    cpu_replicas: int | None
    """Logical CPU devices that stand in for GPUs; None: the GPUs, or the one CPU where there is none."""


def main() -> int:
    """Train as the command line says; exit codes are in README.md."""
    options = tf_arguments.parse(parser(), Options)
    signals.end_at_once(NAME)
    with tf_arguments.told_in_words(NAME):
        train(options, tf_data.load(options.data))
    return 0


def parser() -> arguments.Parser:
    """The command line."""
    made = tf_arguments.training("Trains on all GPUs of this host.")
    made.add_argument("--cpu-replicas", metavar="N", type=arguments.count, help="CPU devices in place of GPUs")
    return made


def devices(cpu_replicas: int | None) -> list[str] | None:
    """The devices to train on; None for all GPUs, or the CPU where there is none."""
    if cpu_replicas is None:
        return None
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * cpu_replicas)
    return [f"CPU:{number}" for number in range(cpu_replicas)]


def train(options: Options, data: tf_data.Data) -> None:
    """Train, evaluate, and say how well it went."""
    names = devices(options.cpu_replicas)
    tf_network.make_deterministic(options.seed, options.threads)
    strategy = tf.distribute.MirroredStrategy(names)
    replicas = strategy.num_replicas_in_sync
    batch = options.batch_size * replicas
    on = ", ".join(device.rpartition("device:")[2] for device in strategy.extended.worker_devices)
    say(NAME, f"{replicas} replicas ({on}), batch {batch} = {options.batch_size} x {replicas}")
    with strategy.scope():
        model = tf_network.build(data.train, tf_data.CLASSES)
        model.compile(
            optimizer=keras.optimizers.Adam(options.lr),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    batches = data.train.dataset(seed=options.seed).batch(batch, drop_remainder=True).prefetch(2)
    model.fit(batches, epochs=options.epochs, shuffle=False, verbose=0, callbacks=[Lines(options.log_every)])
    loss, accuracy = model.evaluate(data.test.dataset().batch(batch), verbose=0)
    say(NAME, f"final loss {loss:.4f} params {tf_network.fingerprint(model)}")
    say(NAME, f"test accuracy {accuracy:.1%}")


class Lines(keras.callbacks.Callback):  # type: ignore[misc]
    """Says how the loss falls, in lines that a log can hold; Keras's own progress bar is for terminals."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every
        self._epoch = 1
        self._step = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """A step of Keras is over; `loss` is its mean over the epoch so far."""
        self._step += 1
        if self._step == 1 or self._step % self._every == 0:
            say(NAME, f"epoch {self._epoch} step {self._step} loss {logs['loss']:.4f}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """A pass over the data is over."""
        say(NAME, f"epoch {epoch + 1} mean loss {logs['loss']:.4f} accuracy {logs['accuracy']:.1%}")
        self._epoch = epoch + 2


if __name__ == "__main__":
    sys.exit(main())
