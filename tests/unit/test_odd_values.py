"""NaN, infinity and jumps in the figures of a run's progress."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from distui.runs.lines.events import LogLine
from distui.runs.state.odd_values import OddValues
from distui.runs.state.progress import ProgressTeller


def told(values: list[float], name: str = "loss") -> list[str]:
    """What is said of a figure's values, one a step."""
    odd = OddValues()
    return [words for step, value in enumerate(values) for words in odd.take({name: value}, float(step))]


def test_a_loss_that_is_no_number_is_told_once() -> None:
    """And again when it has been one in between."""
    found = told([2.5, 2.25, math.nan, math.nan, 2.0, math.inf])
    assert [words.split(" (")[0] for words in found] == [
        "loss is nan at step 2, after 2.25",
        "loss is inf at step 5, after 2",
    ]
    assert told([math.nan])[0].startswith("loss is nan at step 0 (usual reasons: ")


def test_any_figure_may_be_no_number() -> None:
    """The norm of a gradient, say."""
    assert len(told([1.0, -math.inf], "grad_norm")) == 1


def test_a_loss_that_jumps() -> None:
    """Told once, though it stays up there; by how much."""
    found = told([2.0 + 0.1 * (step % 3) for step in range(30)] + [40.0] * 20)
    assert found == ["loss jumped from about 2.1 to 40 at step 30"]


def test_what_is_no_jump() -> None:
    """Noise, too few values, a step down, and figures that are no loss."""
    dice = random.Random(3)
    assert told([dice.lognormvariate(0, 0.3) for _ in range(10_000)]) == []
    assert told([1.0] * 5 + [50.0]) == []
    assert told([100.0] * 30 + [0.1] * 30) == []
    assert told([1.0] * 30 + [90.0], "accuracy") == []
    assert told([-5.0 - 0.01 * step for step in range(40)] + [-1.0]) == []


@given(st.lists(st.floats(allow_nan=True), max_size=60))
def test_any_values(values: list[float]) -> None:
    """Nothing fails, and each word is about a value that is there."""
    assert len(told(values)) <= len(values)


def test_what_is_read_from_lines() -> None:
    """Each is given out once."""
    teller = ProgressTeller(r"step (?P<step>\d+) loss (?P<loss>\S+)", 0, "h1")
    teller.take([LogLine("stdout", "step 4 loss nan", "")], 1.0)
    (words,) = teller.odd()
    assert words.startswith("loss is nan at step 4 (usual") and teller.odd() == ()
