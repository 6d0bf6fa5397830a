"""What goes into the lab's images. The text of this file names the cache, so a change here builds new ones."""

from dataclasses import dataclass

VERSION = 1
"""Raise it when `images.py` starts to build something else from the same lists."""

SUITE = "bookworm"
PYTHON = "3.11"
BASE_PACKAGES = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "findutils", "grep", "hostname"),
    *("iproute2", "libc-bin", "libgomp1", "libpython3-stdlib", "libstdc++6", "mawk", "procps"),
    *("python3-minimal", "sed", "util-linux"),
)
EXCLUDED = ("doc", "man", "locale", "info")
SITE = "usr/lib/python3/dist-packages"
COLLECTS_SELDOM = "import atexit, gc; gc.set_threshold(100_000, 50, 100); atexit.register(gc.freeze)\n"
"""A .pth file beside the wheels: looking for garbage while it imports torch or TensorFlow, and once more at its end, is
a quarter of the CPU time of a rank that trains little (2.1 s in place of 2.9 s)."""
CHANGES = (
    'CMD ["python3"]',
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV LANG=C.UTF-8",
)


@dataclass(frozen=True)
class Layer:
    """An image: the base system and some wheels."""

    image: str
    wheels: tuple[str, ...]
    unused: tuple[str, ...]
    """Patterns of what no test needs."""
    stripped: tuple[str, ...]
    """Libraries whose symbols are taken off."""
    warm_up: str
    """A small job, run once so that the image holds the .pyc files of what it imports."""


PYTORCH = Layer(
    "lab/pytorch:1",
    ("torch==2.13.0", "numpy<3"),
    ("torch/test", "torch/include", "torch/share", "torch/bin/protoc*"),
    (),
    """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import torch.utils.data, torch.utils.data.distributed
os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29555', GLOO_SOCKET_IFNAME='lo')
dist.init_process_group('gloo', rank=0, world_size=1)
model = DDP(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
dist.destroy_process_group()
""",
)
TENSORFLOW = Layer(
    "lab/tensorflow:1",
    ("tensorflow-cpu==2.21.0",),
    ("tensorflow/include", "tensorflow/xla_aot_runtime_src", "clang", "pygments", "setuptools", "pkg_resources"),
    ("tensorflow/libtensorflow_cc.so.2",),
    """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras, tensorflow as tf
strategy = tf.distribute.MirroredStrategy(["CPU:0"])
with strategy.scope():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
model.fit(tf.data.Dataset.from_tensors((tf.ones((1, 2)), tf.ones((1, 1)))), verbose=0)
""",
)
LAYERS = (PYTORCH, TENSORFLOW)
