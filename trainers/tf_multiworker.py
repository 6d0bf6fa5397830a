"""Trains a small convolutional network on many hosts, by tf.distribute.MultiWorkerMirroredStrategy.

Start the same program once on every host with its own TF_CONFIG, as distui does (`launcher: tf`):

    TF_CONFIG='{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]}, "task": {"type": "worker", "index": 0}}' \\
        python tf_multiworker.py --communication ring

Every worker uses all GPUs that it sees, else its CPU. The loop is written out, since `fit` of Keras 3 does not know
this strategy: it gets a batch for each replica where it expects a tensor. README.md has all arguments.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import hashlib
import json
import os
import signal
import threading
import zlib
from collections.abc import Callable
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
Say = Callable[[str], None]


def main() -> None:
    """Train as one of the workers; exit codes are in README.md."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(usage="%(prog)s [options]", formatter_class=shown, allow_abbrev=False)
    args = arguments(parser)
    cluster, kind, index = task(parser)
    if kind not in ("chief", "worker"):
        parser.error(f"{kind} has no part in this: its cluster is of workers, and a chief if you like")
    if args.communication == "nccl" and not tf.config.list_physical_devices("GPU"):
        parser.error("--communication nccl moves data between GPUs only, and there is none here; use ring")
    name = f"{kind} {index}/{len(cluster[kind])}"
    end_on_signal(name)
    try:
        train_set, test_set = load(args.data)
    except (OSError, EOFError, ValueError, zlib.error) as problem:
        parser.error(str(problem))
    say = functools.partial(say_as, name)
    strategy = join(args)
    replicas = strategy.num_replicas_in_sync
    batch = args.batch_size * replicas
    say(f"at {cluster[kind][index]}: {replicas} replicas, batch {batch}, communication {args.communication}")
    model = train(args, strategy, say, train_set)
    if kind == "chief" or ("chief" not in cluster and index == 0):
        say(f"test accuracy {accuracy(model, dataset(args, test_set)):.1%}")
    wait_for_all(strategy)  # worker 0 keeps the cluster's state, so nobody leaves before all are done


def join(args: argparse.Namespace) -> Any:
    """Set TensorFlow up and meet the other workers; the strategy that trains on all of them."""
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    keras.utils.set_random_seed(args.seed)
    tf.config.experimental.enable_op_determinism()
    how = tf.distribute.experimental.CommunicationImplementation[args.communication.upper()]
    options = tf.distribute.experimental.CommunicationOptions(implementation=how)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def train(args: argparse.Namespace, strategy: Any, say: Say, train_set: Images) -> Any:
    """Train a new network on all workers together; say how the loss falls."""
    batch = args.batch_size * strategy.num_replicas_in_sync
    with strategy.scope():
        model = network(train_set[0].shape[1:])
        optimizer = keras.optimizers.Adam(args.lr)
        optimizer.build(model.trainable_variables)
    step = training_step(strategy, model, optimizer, batch)
    batches = strategy.experimental_distribute_dataset(
        dataset(args, train_set, seed=args.seed).batch(batch, drop_remainder=True).prefetch(2)
    )
    loss, steps = 0.0, 0
    for epoch in range(1, args.epochs + 1):
        losses = []
        for each in batches:
            steps += 1
            losses.append(float(step(each)))
            if steps == 1 or steps % args.log_every == 0:
                say(f"epoch {epoch} step {steps} loss {losses[-1]:.4f}")
        loss = sum(losses) / len(losses)
        say(f"epoch {epoch} mean loss {loss:.4f}")
    say(f"final loss {loss:.4f} params {fingerprint(model)}")
    return model


def training_step(strategy: Any, model: Any, optimizer: Any, batch: int) -> Any:
    """A function that takes one step down the gradient of a `batch`, and returns its mean loss over all replicas."""

    def on_replica(images: Any, classes: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = model(images, training=True)
            losses = keras.losses.sparse_categorical_crossentropy(classes, scores, from_logits=True)
            loss = tf.reduce_sum(losses) / batch
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))  # added up over replicas
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def step(each: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(on_replica, args=each), axis=None)

    return step


def wait_for_all(strategy: Any) -> None:
    """Until every worker is here: each needs a number of all the others."""

    @tf.function  # type: ignore[untyped-decorator]
    def add_up() -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)

    add_up()


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


def accuracy(model: Any, images: Any) -> float:
    """The share of a dataset's images, 0 to 1, that are read right."""
    right = [tf.argmax(model(some, training=False), axis=1) == classes for some, classes in images.batch(1000)]
    return float(tf.reduce_mean(tf.cast(tf.concat(right, axis=0), tf.float32)))


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
    ways = ("auto", "ring", "nccl")
    add("--communication", choices=ways, default="auto", help="how gradients travel: ring is gRPC, nccl between GPUs")
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


def task(parser: argparse.ArgumentParser) -> tuple[dict[str, list[str]], str, int]:
    """The addresses of all tasks, by type, and this one's type and index, as TF_CONFIG has them."""
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        cluster, kind, index = config["cluster"], config["task"]["type"], int(config["task"]["index"])
        if not 0 <= index < len(cluster[kind]):
            raise IndexError(f"{kind} goes from 0 to {len(cluster[kind]) - 1}")
    except (LookupError, TypeError, ValueError) as problem:
        alone = '{"cluster": {"worker": ["localhost:12345"]}, "task": {"type": "worker", "index": 0}}'
        parser.error(
            f"TF_CONFIG is missing or wrong ({problem!r}): in distui `launcher: tf` makes it; it looks like {alone}"
        )
    return cluster, kind, index


def say_as(name: str, text: str) -> None:
    """Print a line of this task, at once and in one piece: tasks often share one pipe."""
    print(f"{name} {text}\n", end="", flush=True)


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
