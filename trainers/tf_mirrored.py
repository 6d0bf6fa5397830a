"""Trains a small convolutional network with Keras on every GPU of one host, by tf.distribute.MirroredStrategy.

    python tf_mirrored.py                       # on all GPUs that this process sees, else on the CPU
    python tf_mirrored.py --cpu-replicas 2      # on two logical CPU devices, which stand in for GPUs

Every replica takes a part of each batch of batch size x replicas images, and holds the same parameters. The model is
evaluated at the end. README.md has all arguments.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import signal
import threading
import zlib
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors; what goes wrong is raised as well
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # its sums come in another order on another CPU

import keras
import numpy as np
import tensorflow as tf

DIGITS = Path(__file__).with_name("digits.csv.gz")
KINDS = ("images-idx3", "labels-idx1")  # of MNIST's files
Images = tuple[Any, Any]  # (n, rows, columns, 1) in uint8, and their classes (n) of 0 to 9


def main() -> None:
    """Train, evaluate, and say how well it went; exit codes are in README.md."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(usage="%(prog)s [options]", formatter_class=shown, allow_abbrev=False)
    args = arguments(parser)
    end_on_signal("mirrored")
    try:
        train_set, test_set = load(args.data)
    except (OSError, EOFError, ValueError, zlib.error) as problem:
        parser.error(str(problem))
    names = None  # all GPUs, or the CPU
    if args.cpu_replicas:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * args.cpu_replicas)
        names = [f"CPU:{number}" for number in range(args.cpu_replicas)]
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    keras.utils.set_random_seed(args.seed)
    tf.config.experimental.enable_op_determinism()
    strategy = tf.distribute.MirroredStrategy(names)
    replicas = strategy.num_replicas_in_sync
    batch = args.batch_size * replicas
    on = ", ".join(device.rpartition("device:")[2] for device in strategy.extended.worker_devices)
    say(f"{replicas} replicas ({on}), batch {batch} = {args.batch_size} x {replicas}")
    with strategy.scope():
        model = network(train_set[0].shape[1:])
        model.compile(
            optimizer=keras.optimizers.Adam(args.lr),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    batches = dataset(args, train_set, seed=args.seed).batch(batch, drop_remainder=True).prefetch(2)
    model.fit(batches, epochs=args.epochs, shuffle=False, verbose=0, callbacks=[Lines(args.log_every)])
    loss, accuracy = model.evaluate(dataset(args, test_set).batch(batch), verbose=0)
    say(f"final loss {loss:.4f} params {fingerprint(model)}")
    say(f"test accuracy {accuracy:.1%}")


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
            say(f"epoch {self._epoch} step {self._step} loss {logs['loss']:.4f}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """A pass over the data is over."""
        say(f"epoch {epoch + 1} mean loss {logs['loss']:.4f} accuracy {logs['accuracy']:.1%}")
        self._epoch = epoch + 2


def network(shape: Any) -> Any:
    """A Keras model: images (n, rows, columns, 1) of 0.0 to 1.0 to a score for each digit, (n, 10)."""
    return keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def fingerprint(model: Any) -> str:
    """A hash of every parameter: equal on two workers only if they hold the same network to the last bit."""
    digest = hashlib.sha256()
    for weight in model.trainable_variables:
        digest.update(tf.io.serialize_tensor(tf.convert_to_tensor(weight.value)).numpy())
    return digest.hexdigest()[:12]


def load(folder: Path | None) -> tuple[Images, Images]:
    """The images to train on, and those held out for the test: in MNIST's format from `folder`, else the digits.

    As arrays: tensors would start TensorFlow before its devices are set.
    """
    if folder is not None:
        sets = [[read_idx(folder / f"{part}-{kind}-ubyte") for kind in KINDS] for part in ("train", "t10k")]
        for images, classes in sets:
            check(folder, images, classes, sets[0][0].shape[1:])
        train, test = ((images[..., None], classes.astype(np.int64)) for images, classes in sets)
        return train, test
    digits = np.loadtxt(DIGITS, np.uint8, delimiter=",")  # 8 x 8 pixels of 0 to 16 in a line, then the digit
    images, classes = digits[:, :-1].reshape(-1, 8, 8, 1), digits[:, -1].astype(np.int64)
    fifth = np.arange(1, len(digits) + 1) % 5 == 0
    return (images[~fifth], classes[~fifth]), (images[fifth], classes[fifth])


def check(folder: Path, images: Any, classes: Any, size: Any) -> None:
    """Raise ValueError for images that the network can't learn, that are not of that size, or not of the classes."""
    shape = tuple(images.shape)
    if len(shape) != 3 or not shape[0] or min(shape[1:]) < 2:
        raise ValueError(f"{folder}: images of shape {shape}; needed are some of at least 2 x 2: (n, rows, columns)")
    if shape[1:] != tuple(size):
        raise ValueError(f"{folder}: images of {shape[1:]} to test with, and of {tuple(size)} to learn from")
    if tuple(classes.shape) != shape[:1]:
        raise ValueError(f"{folder}: {shape[0]} images, but classes of shape {tuple(classes.shape)}: fetch both again")
    if int(classes.max()) > 9:
        raise ValueError(f"{folder}: class {int(classes.max())}; the network tells 0 to 9 apart")


def read_idx(path: Path) -> Any:
    """A file of MNIST's format, plain or .gz: 0 0 8, the number of dimensions, each in 4 bytes, then the values."""
    content = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    if content[:3] != bytes((0, 0, 8)):
        raise ValueError(f"{path} is not an IDX file of bytes: fetch it again")
    shape = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def dataset(args: argparse.Namespace, images: Images, seed: Any = None) -> Any:
    """A tf.data.Dataset of (image of 0.0 to 1.0, class); with a `seed` in another order in every pass."""
    found = tf.data.Dataset.from_tensor_slices(images)
    if seed is not None:
        found = found.shuffle(len(images[0]), seed=seed, reshuffle_each_iteration=True)
    peak = 255.0 if args.data else 16.0
    return found.map(lambda image, kind: (tf.cast(image, tf.float32) / peak, kind))


def arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line."""
    add = parser.add_argument
    add("--data", type=Path, help="folder with MNIST's four files, .gz or not; else the digits")
    add("--epochs", type=count, default=8, help="passes over the data")
    add("--batch-size", type=count, default=32, help="images per step and replica")
    add("--lr", type=positive, default=0.004, help="learning rate")
    add("--seed", type=seed, default=1, help="same seed and number of replicas: the same losses")
    add("--log-every", type=count, default=10, help="steps between two lines of loss")
    threads = (os.environ.get("OMP_NUM_THREADS") or "1").partition(",")[0]  # 4,2: four, and two in each of them
    add("--threads", type=count, default=threads, help="CPU threads of an operation")
    add("--cpu-replicas", type=count, help="logical CPU devices in place of GPUs")
    return parser.parse_args()


def count(text: str) -> int:
    """A whole number above 0, of 31 bits: what libraries of C take."""
    if not 0 < int(text) < 1 << 31:
        raise ValueError
    return int(text)


def positive(text: str) -> float:
    """A number above 0 that is not infinite, nor longer than a timeout may be."""
    if not 0 < float(text) < 1e9:
        raise ValueError
    return float(text)


def seed(text: str) -> int:
    """A whole number of 32 bits, which every generator takes."""
    if not 0 <= int(text) < 1 << 32:
        raise ValueError
    return int(text)


def say(text: str) -> None:
    """Print a line, at once and in one piece."""
    print(f"mirrored {text}\n", end="", flush=True)


def end_on_signal(name: str) -> None:
    """From now on SIGTERM and Ctrl-C end this process at once, also while it waits for another one.

    Python calls handlers only after such a wait, but writes to the wakeup pipe at any time: a thread reads there.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)

    def end() -> None:
        number = os.read(reading, 1)[0]
        print(f"{name} stopped by {signal.Signals(number).name}\n", end="", flush=True)
        os._exit(128 + number)

    threading.Thread(target=end, daemon=True).start()


if __name__ == "__main__":
    main()
