"""How far the numbers of a folded line differ: of which one it is said, by which name, the same in row after row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from distui.tui.logs.merged.groups import Group, numbers
from distui.tui.logs.merged.log import MergedLog
from distui.tui.logs.merged.spreads import SHAPES, Shapes, names
from tests.unit.test_tui_merged import log, read


def reported(folder: Path, *steps: Sequence[str]) -> list[tuple[str, str]]:
    """Line and remark of each row: one step after another, each as each rank says it."""
    ranks = range(max(map(len, steps)))
    said = {r: [(10.0 * i + r / 100, step[r]) for i, step in enumerate(steps) if r < len(step)] for r in ranks}
    merged = MergedLog({rank: log(folder, rank, *lines) for rank, lines in said.items()})
    return [(row.shown, merged.remark(row)) for row in read(merged)]


def step(number: int, *, gnorm: float = 1.1, mem: int = 41, tokens: int = 10_000) -> str:
    """A line of a training program."""
    return f"step {number}/104 loss 0.3833 gnorm {gnorm:.2f} mem {mem} tok/s {tokens}"


def test_the_number_that_differs_has_its_spread_by_its_name(tmp_path: Path) -> None:
    """Though the first number with a point is the same everywhere."""
    lines = [step(36, gnorm=gnorm) for gnorm in (1.13, 1.08, 1.18)]
    wanted = "step 36/104 loss 0.3833 gnorm * mem 41 tok/s 10000"
    assert reported(tmp_path, lines) == [(wanted, "gnorm 1.08 to 1.18")]


def test_of_several_the_first_in_the_line(tmp_path: Path) -> None:
    """Not the one that was found to differ first."""
    lines = [step(36), step(36, tokens=10_023), step(36, mem=42)]
    assert [remark for _, remark in reported(tmp_path, lines)] == ["mem 41 to 42"]


def test_rows_of_one_shape_speak_of_one_number(tmp_path: Path) -> None:
    """Of the one that differs most often: that another one is now and then different changes nothing."""
    rows = [
        (step(n), step(n, mem=42 if n % 3 == 0 else 41, tokens=10_000 + n), step(n, tokens=10_001 + n))
        for n in range(5, 9)
    ]
    assert [remark for _, remark in reported(tmp_path, *rows)] == [f"tok/s 10000 to {10_001 + n}" for n in range(5, 9)]


def test_without_it_another_that_differs_is_named(tmp_path: Path) -> None:
    """A row never has stars and nothing at its right."""
    rows = [(step(n), step(n, gnorm=1.2)) for n in range(4)]
    rows.append((step(4), step(4, tokens=10_002)))
    assert [remark for _, remark in reported(tmp_path, *rows)][-1] == "tok/s 10000 to 10002"


@pytest.mark.parametrize(
    ("said", "remark"),
    [
        (("loss 2.1 took 980.0ms", "loss 2.1 took 1.2s"), ""),
        (("41.3k tok/s", "41.1k tok/s"), "tok/s ± 0.1"),
        (("seen 10000000 tokens", "seen 10000023 tokens"), "seen 10000000 to 10000023"),
        (("loss 2.1 lr 1.0e-4", "loss 2.1 lr 3.0e-4"), "lr 1.0e-04 to 3.0e-04"),
        (("loss 2.1 step_time: 0.1438s", "loss 2.1 step_time: 0.15s"), "step_time 0.1438s to 0.1500s"),
        (("n " + "9" * 400, "n 1"), ""),
        (("7 items", "07 items"), ""),
    ],
)
def test_a_spread_has_the_digits_and_the_unit_of_its_number(tmp_path: Path, said: tuple[str, ...], remark: str) -> None:
    """And there is none between units, of what can't be counted, or of one number written twice."""
    assert {row[1] for row in reported(tmp_path, said)} == {remark}


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("loss 0.5 gnorm=1.13, mem: 41 | tok/s 10013", ["loss", "gnorm", "mem", "tok/s"]),
        ("{'loss': 0.5, 'grad_norm': 1.2}", ["loss", "grad_norm"]),
        ("41.3k tok/s 2.1 s/it", ["tok/s", "s/it"]),
        ("step 7 loss 2.1  41.3k tok/s 2.1 s/it", ["loss", "tok/s", "s/it"]),
        ("done in 4.2 s", ["done in"]),
        ("mem[GiB] 41.2", ["mem"]),
        ("0.5", [""]),
        (f"{'a' * 40} 0.5", ["a" * 16]),
    ],
)
def test_what_a_number_is_called(line: str, called: list[str]) -> None:
    """The word before it, else the one after it."""
    assert names(line, numbers(line)) == called


def test_shapes_that_were_not_seen_for_long_are_forgotten() -> None:
    """A log of ever new lines costs no ever growing memory."""
    shapes = Shapes()
    first = shapes.of("first")
    first.note([1])
    for number in range(SHAPES):
        shapes.of(f"line {number}")
    assert shapes.of(f"line {SHAPES - 1}") is shapes.of(f"line {SHAPES - 1}")
    assert shapes.of("first") is not first


@pytest.mark.parametrize(
    ("said", "row"),
    [
        (("loss 1.0e308", "loss 1.6e308"), ("loss 1.3e+308", "loss ± 3e+307")),
        (("loss -1.7e308", "loss 1.7e308"), ("loss 0.0e+00", "loss ± 1.7e+308")),
        (("loss 2.5", "loss 1.0e308"), ("loss 5.0e+307", "loss ± 5e+307")),
        (("loss 2.5 lr 0.1", "loss 2.6 lr 1.5e308"), ("loss 2.5 lr *", "loss ± 0.05")),
        (("loss 1.0e309", "loss 2.5"), ("loss *", "")),
        (("loss 2.5 seen 7", "loss 2.5 seen 700000000000000000000"), ("loss 2.5 seen *", "seen 7 to 7e+20")),
    ],
)
def test_numbers_as_large_as_they_get_have_a_middle(
    tmp_path: Path, said: tuple[str, ...], row: tuple[str, str]
) -> None:
    """A loss that has run away is told as the number that it is, in few letters; what is beyond all is a `*`."""
    assert reported(tmp_path, said) == [row]


def test_a_range_of_steps_has_the_middle_of_huge_numbers(tmp_path: Path) -> None:
    steps = [tuple(f"step {i} loss 1.{i + r}e308" for r in (0, 2)) for i in range(10, 20)]
    assert reported(tmp_path, *steps)[0][0] == "step 10..14 loss 1.11e+308 to 1.15e+308"


@pytest.mark.parametrize("said", [("loss nan", "loss 2.1"), ("loss inf gnorm 1.0", "loss nan gnorm 2.0")])
def test_what_is_no_number_is_not_folded_with_one(tmp_path: Path, said: tuple[str, ...]) -> None:
    """A rank whose loss is NaN stands in a row of its own."""
    assert [row for row, _ in reported(tmp_path, said)] == list(said)


def test_a_range_tells_its_figure_by_the_middle_also_where_it_is_not_the_first(tmp_path: Path) -> None:
    """The loss behind a time of a step that differs from rank to rank, too."""
    steps = [tuple(f"step {i} took {i + r}.5s loss {i}.{r}0" for r in (0, 2)) for i in range(10, 20)]
    assert reported(tmp_path, *steps)[0][0] == "step 10..14 took * loss 10.10 to 14.10"
    assert Group(0.0, 0.0, "loss 0.1").spread() == ""
