"""NaN, infinity and jumps in the figures of a run's progress."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.runs.lines.events import LogLine
from distui.runs.state.odd_values import OddValues
from distui.runs.state.progress import Progress, ProgressTeller
from distui.runs.watch.progress.steps import StepWatch
from fakehosts.runs import plan_for


def reported(values: list[float], name: str = "loss") -> list[str]:
    """What is said of a figure's values, one a step."""
    odd = OddValues()
    return [words for step, value in enumerate(values) for words in odd.take({name: value}, float(step))]


def test_a_loss_that_is_no_number_is_reported_once() -> None:
    """And again when it has been one in between."""
    found = reported([2.5, 2.25, math.nan, math.nan, 2.0, math.inf])
    assert [words.split(" (")[0] for words in found] == [
        "loss is nan at step 2, after 2.25",
        "loss is inf at step 5, after 2",
    ]
    assert reported([math.nan])[0].startswith("loss is nan at step 0 (usual reasons: ")


def test_any_figure_may_be_no_number() -> None:
    """The norm of a gradient, say."""
    assert len(reported([1.0, -math.inf], "grad_norm")) == 1


NOISY = [0.012, 0.017, 0.014, 0.0152, 0.011, 0.019, 0.0152, 0.016, 0.013, 0.0161, 0.0152, 0.018]
"""Values of a healthy training with a batch of 4."""


def test_a_loss_that_jumps() -> None:
    """Told once, though it stays up there; by how much, and since when."""
    found = reported([2.0 + 0.1 * (step % 3) for step in range(30)] + [40.0] * 20)
    assert found == ["loss jumped from about 2.1 to 40 at step 30"]
    assert reported([*NOISY, 0.1842, 0.31, 0.27]) == ["loss jumped from about 0.0152 to 0.27 at step 12"]
    assert reported([*NOISY, *[1.5] * 20, *[90.0] * 3]) == [
        "loss jumped from about 0.0152 to 1.5 at step 12",
        "loss jumped from about 1.5 to 90 at step 32",
    ]


@pytest.mark.parametrize(
    "after",
    [
        [0.1842, 0.014],
        [0.1842, 0.2, 0.014],
        [0.1842, 0.014, 0.21, 0.013, 0.19, 0.2, 0.015],
        [0.1842, 0.02, 0.4, 0.4, 0.4],
    ],
)
def test_a_batch_that_is_hard_is_no_jump(after: list[float]) -> None:
    """What does not last, and what is as large as was there shortly before."""
    assert reported([*NOISY, *after]) == []


def test_a_smooth_loss_that_jumps_to_less_than_three_times_what_it_was() -> None:
    """A training that had converged to 2.3 and stays at 6.5 from then on has diverged; 3.2 may be other data."""
    dice = random.Random(7)
    smooth = [dice.gauss(2.3, 0.1) for _ in range(60)]
    (words,) = reported([*smooth, 6.5, 6.6, 6.4])
    assert words.startswith("loss jumped from about 2.3") and words.endswith(" to 6.5 at step 60")
    assert reported([*smooth, 3.2, 3.2, 3.2, 3.2]) == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_with_a_small_batch_is_no_jump(seed: int) -> None:
    """The mean over four examples, one in fifty of which is a hard one."""
    dice = random.Random(seed)
    batches = [[dice.expovariate(0.5 if dice.random() < 0.02 else 100) for _ in range(4)] for _ in range(3000)]
    assert reported([sum(batch) / 4 for batch in batches]) == []


def test_what_is_no_jump() -> None:
    """Noise, too few values, a step down, and figures that are no loss."""
    dice = random.Random(3)
    assert reported([dice.lognormvariate(0, 0.3) for _ in range(10_000)]) == []
    assert reported([1.0] * 5 + [50.0] * 3) == []
    assert reported([100.0] * 30 + [0.1] * 30) == []
    assert reported([1.0] * 30 + [90.0] * 3, "accuracy") == []
    assert reported([-5.0 - 0.01 * step for step in range(40)] + [-1.0] * 3) == []


LEVEL = st.floats(1.0, 1.5)


@given(
    st.lists(LEVEL, min_size=10, max_size=80), st.floats(1e-6, 1e6), st.floats(10.0, 100.0), LEVEL, st.integers(3, 60)
)
def test_a_jump_out_of_the_noise_is_told_whatever_the_scale(
    before: list[float], scale: float, times: float, level: float, lasts: int
) -> None:
    """Exactly once, where it lasts; never where it goes after two values or is no higher than what was there before."""
    values = [scale * value for value in before]
    jump = [scale * times * level] * lasts
    (words,) = reported(values + jump)
    assert words.endswith(f" to {jump[0]:g} at step {len(values)}")
    assert reported(values + jump[:2] + values) == reported(values + [max(values)] * lasts) == []


@given(st.lists(st.floats(allow_nan=True), max_size=60))
def test_any_values(values: list[float]) -> None:
    """Nothing fails, and no more is said than there are values."""
    assert len(reported(values)) <= len(values)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("step 4 loss nan", math.nan),
        ("step 4, loss NaN, lr 0.1", math.nan),
        ("step 4 loss inf", math.inf),
        ("step 4 loss -inf", -math.inf),
        ("step 4 loss 1.2e-05", 1.2e-05),
        ("step 4 loss 3e-05, lr 1e-3", 3e-05),
        ("step 4 loss 0.5e", 0.5),
        ("step 4 loss 0.25", 0.25),
        ("step 4 loss of the info", None),
        ("step 4 loss nano", None),
    ],
)
@pytest.mark.parametrize("figure", [r"-?[\d.]+", r"-?[0-9.]+", r"[^\s,]+"])
def test_figures_are_read_as_they_are_written(line: str, value: float | None, figure: str) -> None:
    """Also by patterns that say digits and points where a loss stands."""
    found = Progress(rf"step (?P<step>\d+).*?loss (?P<loss>{figure})").newest(["step", line])
    read = found[1].values.get("loss") if found is not None else None
    expected = None if "[^" in figure and line.endswith("0.5e") else value
    assert repr(read) == repr(expected) and (found is None or found[1].values["step"] == 4)


def test_a_step_that_is_no_number_is_none() -> None:
    """Nor does a loss that is none hide the steps."""
    watch = StepWatch(dataclasses.replace(plan_for("h1"), progress=r"step (?P<step>\d+) loss (?P<loss>[\d.]+)"))
    assert watch.of_lines({0: [(1.0, b"step nan loss 1.0")]}, 1.0) is None
    reported = watch.of_lines({0: [(2.0, b"step 7 loss nan")]}, 2.0)
    assert reported is not None and [(step.rank, step.step) for step in reported.steps] == [(0, 7.0)]


def test_what_is_read_from_lines() -> None:
    """Each is given out once."""
    teller = ProgressTeller(r"step (?P<step>\d+) loss (?P<loss>\S+)", 0, "h1")
    teller.take([LogLine("stdout", "step 4 loss nan", "")], 1.0)
    (words,) = teller.odd()
    assert words.startswith("loss is nan at step 4 (usual") and teller.odd() == ()
