"""The network that the TensorFlow trainers train, and what is said about it. Replace it by your own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

if TYPE_CHECKING or __package__:
    from distui.trainers.tf_data import Images
else:  # run as a script: the modules beside this file, whatever its folder is called
    from tf_data import Images

TEST_BATCH = 1000


def build(images: Images, classes: int) -> Any:
    """A Keras model: images (n, rows, columns, 1) of 0.0 to 1.0 to a score for each class, (n, classes)."""
    return keras.Sequential(
        [
            keras.Input(images.images.shape[1:]),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(classes),
        ]
    )


def losses(model: Any, images: Any, classes: Any) -> Any:
    """The loss of each image, (n), while training."""
    scores = model(images, training=True)
    return keras.losses.sparse_categorical_crossentropy(classes, scores, from_logits=True)


def accuracy(model: Any, images: Images) -> float:
    """Share of the images, 0 to 1, whose class the network names."""
    right = 0
    for batch, classes in images.dataset().batch(TEST_BATCH):
        named = tf.argmax(model(batch, training=False), axis=1)
        right += int(tf.reduce_sum(tf.cast(named == classes, tf.int32)))
    return right / images.count


def fingerprint(model: Any) -> str:
    """A hash of every parameter: equal on two workers only if they hold the same network to the last bit."""
    digest = hashlib.sha256()
    for weight in model.trainable_variables:
        digest.update(tf.io.serialize_tensor(tf.convert_to_tensor(weight.value)).numpy())
    return digest.hexdigest()[:12]


def make_deterministic(seed: int, threads: int) -> None:
    """Same seed, same number of replicas: the same losses. Before anything else of TensorFlow is used."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    keras.utils.set_random_seed(seed)
    tf.config.experimental.enable_op_determinism()
