"""The TensorFlow trainers without TensorFlow: their command lines, TF_CONFIG in words, and the images as bytes."""

from __future__ import annotations

import json

import pytest

from distui.trainers import digits, pixels, tf_arguments
from distui.trainers.tf_arguments import Options


def test_the_digits_are_pixels_and_classes() -> None:
    """1,797 images of 8 x 8, each fifth held out; pixel for pixel what digits.py reads."""
    train, test = pixels.load(None)
    assert (train.count, test.count) == (1438, 359)
    assert (train.rows, train.columns, train.peak) == (8, 8, 16)
    assert len(train.pixels) == 1438 * 64
    first = digits.read()[0]
    assert (train.pixels[:64], train.classes[0]) == (first[:-1], first[-1])


def test_what_is_not_given_is_as_documented() -> None:
    """README.md has the same defaults; the threads are those of the environment."""
    parser = tf_arguments.training("a trainer", lr=0.1)
    found = tf_arguments.parse(parser, Options, ["--epochs", "2"], {"OMP_NUM_THREADS": "3"})
    assert found == Options(None, epochs=2, batch_size=32, lr=0.1, seed=1, log_every=10, threads=3)


def test_a_task_without_tf_config_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """One line and exit code 2, not a KeyError or a wait for ever."""
    with pytest.raises(SystemExit) as ended:
        tf_arguments.task(tf_arguments.training("a trainer"), {"RANK": "0"})
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "TF_CONFIG is not in the environment, only RANK" in said


def test_a_task_knows_its_name_and_address() -> None:
    """What its lines begin with, and where it listens."""
    config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    found = tf_arguments.task(tf_arguments.training("a trainer"), {"TF_CONFIG": json.dumps(config)})
    assert (found.name, found.address) == ("worker 1/2", "b:2")
