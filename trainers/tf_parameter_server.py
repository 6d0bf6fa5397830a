"""Trains a small convolutional network with parameter servers, by tf.distribute.ParameterServerStrategy.

Every task runs this program and learns from TF_CONFIG which it is, as distui sets it (`launcher: tf`):

    chief       hands out steps and says how the loss falls; its end is the run's
    worker      computes gradients when asked to; never ends by itself
    ps          keeps a part of the parameters; never ends by itself
    evaluator   tests every checkpoint that the chief saves; needs --checkpoint in a folder that both see

Workers take steps without waiting for each other, each through the images in an order of its own, so that the seed
settles where the network begins and not every loss. A worker that is lost is done without; after a lost parameter
server the run starts again from its checkpoint. README.md has all arguments.
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
    """Do this task's part; exit codes are in README.md."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(usage="%(prog)s [options]", formatter_class=shown, allow_abbrev=False)
    args = arguments(parser)
    cluster, kind, index = task(parser)
    lacking = [each for each in ("chief", "worker", "ps") if each not in cluster]
    if kind != "evaluator" and lacking:
        parser.error(f"TF_CONFIG's cluster has no {' and no '.join(lacking)}: parameter servers need all three")
    if kind == "evaluator" and args.checkpoint is None:
        parser.error("the evaluator tests what the chief saves: give both --checkpoint DIR, a folder that they share")
    name = f"{kind} {index}/{len(cluster[kind])}"
    say = functools.partial(say_as, name)
    if kind != "evaluator":
        end_on_signal(name)
    if kind in ("worker", "ps"):
        server = tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=kind, task_index=index, protocol="grpc")
        say(f"listens at {cluster[kind][index]}")
        server.join()  # works for the chief until this process is ended
    try:
        train_set, test_set = load(args.data)
    except (OSError, EOFError, ValueError, zlib.error) as problem:
        parser.error(str(problem))
    try:
        if kind == "chief":
            train(args, cluster, say, train_set, test_set)
        else:
            evaluate(args, say, train_set, test_set)
    except CheckpointError as problem:
        parser.error(str(problem))


class CheckpointError(Exception):
    """The checkpoint is damaged, or of another network."""


def train(
    args: argparse.Namespace, cluster: dict[str, list[str]], say: Say, train_set: Images, test_set: Images
) -> None:
    """Hand out steps to the workers; say how the loss falls, and how good the network is."""
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    keras.utils.set_random_seed(args.seed)
    strategy = connect(cluster, say)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model, optimizer, done, saved = begin(args, train_set)
    manager = resume(args, saved)

    def own_batches() -> Any:
        """What each worker makes its own batches with: all images in an order of its own, without end."""
        seed = args.seed + tf.cast(tf.timestamp() * 1e6, tf.int64)  # a number would be the same on all workers
        return dataset(args, train_set, seed=seed).repeat().batch(args.batch_size).prefetch(2)

    step = training_step(strategy, model, optimizer)
    batches = iter(coordinator.create_per_worker_dataset(own_batches))
    steps = -(-len(train_set[0]) // args.batch_size)
    loss = None
    for epoch in range(int(done.numpy()) + 1, args.epochs + 1):
        given = [coordinator.schedule(step, args=(batches,)) for _ in range(steps)]
        coordinator.join()
        losses = [float(value.fetch()) for value in given]
        for number in range(args.log_every, steps + 1, args.log_every):
            say(f"epoch {epoch} step {(epoch - 1) * steps + number} loss {losses[number - 1]:.4f}")
        loss = sum(losses) / len(losses)
        say(f"epoch {epoch} mean loss {loss:.4f}")
        done.assign(epoch)
        if manager:
            manager.save(checkpoint_number=epoch)
    final = f"epoch {int(done.numpy())} was done before:" if loss is None else f"final loss {loss:.4f}"
    say(f"{final} params {fingerprint(model)}")
    say(f"test accuracy {accuracy(model, dataset(args, test_set)):.1%}")


def connect(cluster: dict[str, list[str]], say: Say) -> Any:
    """Wait for the workers and parameter servers; the strategy that trains on them."""
    spec = tf.train.ClusterSpec({kind: cluster[kind] for kind in ("chief", "worker", "ps")})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec, task_type="chief", task_id=0, rpc_layer="grpc"
    )
    say(f"waits for {len(cluster['worker'])} workers and {len(cluster['ps'])} parameter servers")
    return tf.distribute.ParameterServerStrategy(resolver)


def resume(args: argparse.Namespace, saved: Any) -> Any:
    """What keeps checkpoints, with the newest one read back into `saved`; None where none are kept."""
    if not args.checkpoint:
        return None
    manager = tf.train.CheckpointManager(saved, str(args.checkpoint), max_to_keep=2)
    if manager.latest_checkpoint:
        restore(saved, manager.latest_checkpoint)
    return manager


def restore(saved: Any, newest: str) -> None:
    """Read a checkpoint back into `saved`; TensorFlow looks at its checksums."""
    try:
        saved.restore(newest).assert_existing_objects_matched()
    except (tf.errors.OpError, ValueError, AssertionError) as problem:
        said = str(problem).strip().partition("\n")[0]
        tf.get_logger().setLevel("ERROR")  # else warnings of what was not read back come after this
        raise CheckpointError(f"can't go on from {newest} ({said}): give another folder, or move it away") from problem


def training_step(strategy: Any, model: Any, optimizer: Any) -> Any:
    """A function in which one worker takes a step down its own gradient; it returns the mean loss of its batch."""

    def on_replica(images: Any, classes: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = model(images, training=True)
            losses = keras.losses.sparse_categorical_crossentropy(classes, scores, from_logits=True)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def step(batches: Any) -> Any:
        found = strategy.run(on_replica, args=next(batches))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, found, axis=None)

    return step


def begin(args: argparse.Namespace, train_set: Images) -> tuple[Any, Any, Any, Any]:
    """A new network, its optimizer, the number of epochs done, and the checkpoint that keeps network and number."""
    model = network(train_set[0].shape[1:])
    optimizer = keras.optimizers.SGD(args.lr)
    optimizer.build(model.trainable_variables)
    done = tf.Variable(0, dtype=tf.int64)
    weights = {f"weight{i}": weight.value for i, weight in enumerate(model.trainable_variables)}
    return model, optimizer, done, tf.train.Checkpoint(epoch=done, **weights)


def evaluate(args: argparse.Namespace, say: Say, train_set: Images, test_set: Images) -> None:
    """Test every new checkpoint, until the last epoch's, or SIGTERM: what was saved by then is tested first."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    model, _, done, saved = begin(args, train_set)
    tested = ""
    say(f"waits for checkpoints in {args.checkpoint}")
    while int(done.numpy()) < args.epochs:
        ending = stopping.is_set()
        newest = tf.train.latest_checkpoint(str(args.checkpoint)) or ""
        if newest != tested:
            restore(saved, newest)
            tested = newest
            say(f"epoch {int(done.numpy())} test accuracy {accuracy(model, dataset(args, test_set)):.1%}")
        elif ending:
            say("stopped by SIGTERM")
            os._exit(128 + signal.SIGTERM)
        else:
            stopping.wait(0.5)  # seconds between two looks


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
    add("--lr", type=positive, default=0.1, help="learning rate")
    add("--seed", type=seed, default=1, help="same seed and number of replicas: the same losses")
    add("--log-every", type=count, default=10, help="steps between two lines of loss")
    threads = (os.environ.get("OMP_NUM_THREADS") or "1").partition(",")[0]  # 4,2: four, and two in each of them
    add("--threads", type=count, default=threads, help="CPU threads of an operation")
    add("--checkpoint", type=Path, help="folder that chief and evaluator share; the chief goes on from what is there")
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
