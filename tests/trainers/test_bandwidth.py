"""Figures as nccl-tests defines them, and results that are checked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from distui.trainers import bandwidth

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("op", "two", "four", "eight"),
    [
        ("all_reduce", 1, 1.5, 1.75),
        ("all_gather", 0.5, 0.75, 0.875),
        ("reduce_scatter", 0.5, 0.75, 0.875),
        ("broadcast", 1, 1, 1),
        ("send_recv", 1, 1, 1),
    ],
)
def test_bus_bandwidth_is_what_nccl_tests_means(op: str, two: float, four: float, eight: float) -> None:
    """PERFORMANCE.md: all-reduce 2(n-1)/n, all-gather and reduce-scatter (n-1)/n, broadcast and send 1."""
    assert [bandwidth.OPERATIONS[op].bus(n) for n in (2, 4, 8)] == [two, four, eight]


@pytest.mark.parametrize(
    ("op", "gets"),
    [
        ("all_reduce", [[6, 12, 18]] * 3),
        ("all_gather", [[1, 2, 3, 2, 4, 6, 3, 6, 9]] * 3),
        ("reduce_scatter", [[6], [12], [18]]),
        ("broadcast", [[1, 2, 3]] * 3),
        ("send_recv", [[3, 6, 9], [1, 2, 3], [2, 4, 6]]),
    ],
)
def test_what_each_rank_must_get(op: str, gets: list[list[float]]) -> None:
    """Of three ranks that give 1 2 3, 2 4 6 and 3 6 9."""
    found = [bandwidth.OPERATIONS[op].expected(lambda r: bandwidth.pattern(3, r, CPU), rank, 3) for rank in range(3)]
    assert [tensor.tolist() for tensor in found] == gets


def test_sums_of_many_ranks_are_exact() -> None:
    """float32 counts to 2^24; else a right result would look wrong."""
    summed = bandwidth.total(lambda rank: bandwidth.pattern(251, rank, CPU), 360)
    exact = bandwidth.pattern(251, 0, CPU).double() * (360 * 361 // 2)
    assert torch.equal(summed.double(), exact)


def test_every_operation_is_measured_and_right(tmp_path: Path, run: Callable[..., list[str]]) -> None:
    """Three real ranks: a table for people, the same as JSON, and no wrong item in any result."""
    path = tmp_path / "b.json"
    first, *others = run(
        "bandwidth.py", 3, "--min=1000", "--max=64K", "--factor=64", "--iters=2", "--warmup=1", "--json", str(path)
    )
    found = json.loads(path.read_text())
    assert (found["backend"], found["device"], found["world_size"]) == ("gloo", "cpu", 3)
    rows = found["rows"]
    assert {row["op"] for row in rows} == set(bandwidth.OPERATIONS)
    for row in rows:
        assert row["wrong"] == 0
        if row["time_us"] is not None:
            assert row["algbw"] == pytest.approx(row["size"] / row["time_us"] / 1e3)
            assert row["busbw"] == pytest.approx(row["algbw"] * bandwidth.OPERATIONS[row["op"]].bus(3))
    assert [row["size"] for row in rows if row["op"] == "all_reduce"] == [1000, 64000]
    assert rows[[row["op"] for row in rows].index("all_gather")]["size"] == 996, "three equal parts"
    for row in rows:
        assert f"{row['op']:<15}{row['size']:>12,}" in first
    assert "busbw GB/s" in first
    assert not any("busbw" in output for output in others)
    assert all("traffic of this host: " in output for output in (first, *others))


def test_a_wrong_result_is_counted(alone: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that gives something else than it should is not passed over."""
    operation = bandwidth.Operation(lambda sent, got: got.add_(1), lambda n: 1, lambda given, r, n: given(0), True)
    monkeypatch.setitem(bandwidth.OPERATIONS, "all_reduce", operation)
    assert bandwidth.measure("all_reduce", 40, 1, 1, alone).wrong == 10


@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError])
def test_what_a_backend_can_t_do_is_a_row(
    alone: torch.device, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """gloo of older torch has no reduce_scatter: the table says so and goes on."""

    def call(sent: torch.Tensor, got: torch.Tensor) -> None:
        raise error("Backend gloo does not support _reduce_scatter_base")

    monkeypatch.setitem(
        bandwidth.OPERATIONS, "reduce_scatter", bandwidth.Operation(call, lambda n: 1, lambda given, r, n: given(0))
    )
    row = bandwidth.measure("reduce_scatter", 1024, 1, 1, alone)
    assert row.time_us is None
    assert "not supported by this backend" in bandwidth.line(row)


def test_other_errors_are_not_hidden(alone: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost rank is no missing operation."""

    def call(sent: torch.Tensor, got: torch.Tensor) -> None:
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setitem(
        bandwidth.OPERATIONS, "broadcast", bandwidth.Operation(call, lambda n: 1, lambda given, r, n: given(0))
    )
    with pytest.raises(RuntimeError, match="closed by peer"):
        bandwidth.measure("broadcast", 1024, 1, 1, alone)


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("64K", 65536), ("8m", 8 << 20), ("1G", 1 << 30)])
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    """As nccl-tests reads them."""
    assert bandwidth.size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["", "K", "0", "-1", "1T", "1.5M", "²"])
def test_other_sizes_are_refused(text: str) -> None:
    """With what a size looks like."""
    with pytest.raises(argparse.ArgumentTypeError, match="as 4096, 64K, 8M or 1G"):
        bandwidth.size_in_bytes(text)


def test_the_sizes_grow_to_the_largest() -> None:
    """By the factor, and never above."""
    assert list(bandwidth.sizes(1, 100, 4)) == [1, 4, 16, 64]


def test_unknown_operations_are_named() -> None:
    """With those there are."""
    with pytest.raises(argparse.ArgumentTypeError, match="'alltoall' is none of all_reduce, all_gather"):
        bandwidth.operations("all_reduce,alltoall")


def test_one_rank_alone_has_nobody_to_talk_to(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told so, on one line."""
    monkeypatch.setattr("sys.argv", ["bandwidth.py", "--world-size", "1"])
    monkeypatch.setattr(bandwidth.signals, "end_at_once", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        bandwidth.main()
    assert ended.value.code == 2
    assert capfd.readouterr().err == (
        "rank 0/1 error: one rank alone has nobody to exchange data with: start two or more\n"
    )
