"""Figures as nccl-tests defines them, and results that are checked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

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
    assert [bandwidth.bus(op, n) for n in (2, 4, 8)] == [two, four, eight]


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
    found = [bandwidth.expected(op, len(gets[0]) if op == "all_gather" else 3, rank, 3, CPU) for rank in range(3)]
    assert [tensor.tolist() for tensor in found] == gets


def test_sums_of_many_ranks_are_exact() -> None:
    """float32 counts to 2^24; else a right result would look wrong."""
    summed = sum(bandwidth.pattern(251, rank, CPU) for rank in range(360))
    assert torch.equal(summed, bandwidth.expected("all_reduce", 251, 0, 360, CPU))
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
            assert row["busbw"] == pytest.approx(row["algbw"] * bandwidth.bus(row["op"], 3))
    assert [row["size"] for row in rows if row["op"] == "all_reduce"] == [1000, 64000]
    assert rows[[row["op"] for row in rows].index("all_gather")]["size"] == 996, "three equal parts"
    for row in rows:
        assert f"{row['op']:<15}{row['size']:>12,}" in first
    assert "busbw GB/s" in first
    assert not any("busbw" in output for output in others)
    assert all("traffic of this host: " in output for output in (first, *others))


def test_a_wrong_result_is_counted(alone: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that gives something else than it should is not passed over."""
    monkeypatch.setattr(bandwidth, "call", lambda name, sent, got: got.add_(1))
    assert bandwidth.measure("all_reduce", 40, 1, 1, alone)["wrong"] == 10


@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError])
def test_what_a_backend_can_t_do_is_a_row(
    alone: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: type[Exception],
) -> None:
    """gloo of older torch has no reduce_scatter: the table says so and goes on."""

    def call(name: str, sent: torch.Tensor, got: torch.Tensor) -> None:
        raise error("Backend gloo does not support _reduce_scatter_base")

    monkeypatch.setattr(bandwidth, "call", call)
    args = argparse.Namespace(ops=["reduce_scatter", "broadcast"], min=1024, max=4096, factor=2, warmup=1, iters=1)
    rows = bandwidth.measure_all(args, alone)
    assert [(row["op"], row["time_us"]) for row in rows] == [("reduce_scatter", None), ("broadcast", None)]
    assert capfd.readouterr().out.count("not supported by this backend") == 2


def test_other_errors_are_not_hidden(alone: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost rank is no missing operation."""

    def call(name: str, sent: torch.Tensor, got: torch.Tensor) -> None:
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(bandwidth, "call", call)
    with pytest.raises(RuntimeError, match="closed by peer"):
        bandwidth.measure("broadcast", 1024, 1, 1, alone)


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("64K", 65536), ("8m", 8 << 20), ("1G", 1 << 30)])
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    """As nccl-tests reads them."""
    assert bandwidth.size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["", "K", "0", "-1", "1T", "1.5M", "²"])
def test_other_sizes_are_refused(text: str) -> None:
    """argparse makes a line of it."""
    with pytest.raises(ValueError):
        bandwidth.size_in_bytes(text)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--min 64M --max 1K", "--min is 67,108,864 bytes and --max 1,024: there is nothing to measure"),
        ("--json /no/such/figures.json", "argument --json: rank 0's host has no folder /no/such"),
    ],
)
def test_what_would_come_to_nothing_is_reported_before_it_is_measured(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    """Not an empty table, nor a traceback once everything is measured."""
    monkeypatch.setattr("sys.argv", ["bandwidth.py", "--world-size", "2", "--rank", "0", *line.split()])
    with pytest.raises(SystemExit) as ended:
        bandwidth.arguments(argparse.ArgumentParser())
    assert ended.value.code == 2
    assert words in capfd.readouterr().err


def test_figures_that_can_t_be_written_are_a_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], alone: torch.device
) -> None:
    """Not a traceback under a table that is right."""
    monkeypatch.setattr("sys.argv", ["bandwidth.py", "--world-size", "2", "--rank", "0", "--json", "/dev/full"])
    monkeypatch.setattr(bandwidth, "end_on_signal", lambda name: None)
    monkeypatch.setattr(bandwidth, "join", lambda args: alone)
    monkeypatch.setattr(bandwidth, "measure_all", lambda args, device: [])
    with monkeypatch.context() as kept, pytest.raises(SystemExit) as ended:
        kept.setattr(dist, "destroy_process_group", lambda: None)
        bandwidth.main()
    assert ended.value.code == 2
    assert "can't write /dev/full: [Errno 28] No space left on device" in capfd.readouterr().err


def test_what_else_can_t_be_written_is_not_laid_to_the_file(
    monkeypatch: pytest.MonkeyPatch, alone: torch.device
) -> None:
    """`bandwidth.py | head` said "can't write None: Broken pipe"."""

    def closed(*_: object) -> list[bandwidth.Row]:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("sys.argv", ["bandwidth.py", "--world-size", "2", "--rank", "0"])
    monkeypatch.setattr(bandwidth, "end_on_signal", lambda name: None)
    monkeypatch.setattr(bandwidth, "join", lambda args: alone)
    monkeypatch.setattr(bandwidth, "measure_all", closed)
    with monkeypatch.context() as kept, pytest.raises(BrokenPipeError):
        kept.setattr(dist, "destroy_process_group", lambda: None)
        bandwidth.main()


def test_unknown_operations_are_named() -> None:
    """With those there are."""
    with pytest.raises(argparse.ArgumentTypeError, match="'alltoall' is none of all_reduce, all_gather"):
        bandwidth.operations("all_reduce,alltoall")


DEV = """Inter-| Receive | Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:     500   5 0 0 0 0 0 0      500   5 0 0 0 0 0 0
  eth0: 1000000 900 0 0 0 0 0 0  2000000 800 0 0 0 0 0 0
eth0:1:      11   1 0 0 0 0 0 0       12   1 0 0 0 0 0 0
"""


def test_interfaces_and_infiniband_ports_are_read(tmp_path: Path) -> None:
    """InfiniBand counts words of four bytes, and its traffic passes by the interfaces. One port here counts nothing."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/dev").write_text(DEV)
    counting = tmp_path / "class/infiniband/mlx5_0/ports/1/counters"
    counting.mkdir(parents=True)
    (counting / "port_xmit_data").write_text("1000\n")
    (counting / "port_rcv_data").write_text("2000\n")
    (tmp_path / "class/infiniband/mlx5_1/ports/1").mkdir(parents=True)
    assert bandwidth.traffic(tmp_path, tmp_path) == {
        "lo": (500, 500),
        "eth0": (2000000, 1000000),
        "eth0:1": (12, 11),
        "mlx5_0:1": (4000, 8000),
    }


def test_a_system_without_counters_has_none(tmp_path: Path) -> None:
    """As on macOS: nothing is said to be wrong."""
    assert bandwidth.traffic(tmp_path, tmp_path) == {}
    assert bandwidth.text_of({}, {}) == "nothing that can be seen here"


def test_what_was_carried_between_two_looks() -> None:
    """The busiest first; idle interfaces, and those that came or went, are left out."""
    before = {"eth0": (5, 5), "ib0": (0, 0), "idle": (7, 7), "gone": (1, 1)}
    after = {"eth0": (1_000_005, 5), "ib0": (3_000_000_000, 2), "idle": (7, 7), "new": (9, 9)}
    said = bandwidth.text_of(before, after)
    assert said == "ib0 3,000.0 MB out 0.0 MB in, eth0 1.0 MB out 0.0 MB in"
