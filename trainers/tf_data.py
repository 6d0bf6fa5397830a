"""The images to train on (pixels.py), for TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

if TYPE_CHECKING or __package__:
    from distui.trainers import pixels
else:  # run as a script: the modules beside this file, whatever its folder is called
    import pixels

CLASSES = pixels.CLASSES


@dataclass(frozen=True, slots=True)
class Images:
    """Images (n, rows, columns, 1) of 0 to `peak` in uint8, each with its class (n) of 0 to 9 in int64.

    They are numpy arrays: tensors would start TensorFlow before its devices can be set, and a cluster's coordinator
    can put arrays into what it sends to its workers.
    """

    images: Any
    classes: Any
    peak: int

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.classes)

    def dataset(self, *, seed: Any = None) -> Any:
        """A tf.data.Dataset of (image, class), image (rows, columns, 1) of 0.0 to 1.0 in float32.

        With `seed`, a number or a tensor, in a new order in every pass, the same orders for the same seed.
        """
        found = tf.data.Dataset.from_tensor_slices((self.images, self.classes))
        if seed is not None:
            found = found.shuffle(self.count, seed=seed, reshuffle_each_iteration=True)
        peak = float(self.peak)
        return found.map(lambda image, kind: (tf.cast(image, tf.float32) / peak, kind))


class Data(NamedTuple):
    """Those to train on, and those held out for the test."""

    train: Images
    test: Images


def load(folder: Path | None) -> Data:
    """MNIST, or a set in its format, from `folder`; the digits beside this file when there is none.

    Raises:
        idx.DataError: a file is missing or is not what it should be.
    """
    return Data(*map(_arrays, pixels.load(folder)))


def _arrays(found: pixels.Pixels) -> Images:
    images = np.frombuffer(found.pixels, np.uint8).reshape(found.count, found.rows, found.columns, 1)
    return Images(images, np.frombuffer(found.classes, np.uint8).astype(np.int64), found.peak)
