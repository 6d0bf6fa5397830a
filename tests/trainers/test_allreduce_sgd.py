"""Adding gradients up by hand is the same as one process with the whole batch."""

from __future__ import annotations

import argparse
import re
import socket
import threading
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from distui.trainers import allreduce_sgd


@pytest.mark.parametrize("size", [12, 13, 2])
def test_the_shares_gradients_add_up_to_the_batch_s(size: int) -> None:
    """Also when the shares are of different sizes, or one is empty."""
    images, classes = (tensor[:size] for tensor in allreduce_sgd.load(None)[0].tensors)
    model = allreduce_sgd.network(images).double()
    parameters = list(model.parameters())
    loss = allreduce_sgd.gradient(model, images.double(), classes, total=size)
    whole = [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]

    sums, losses = [torch.zeros_like(each) for each in whole], []
    for rank in range(3):
        mine = torch.arange(size)[rank::3]
        losses.append(allreduce_sgd.gradient(model, images[mine].double(), classes[mine], total=size))
        for total, parameter in zip(sums, parameters, strict=True):
            assert parameter.grad is not None
            total += parameter.grad

    torch.testing.assert_close(sums, whole, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(sum(losses), loss, rtol=1e-12, atol=1e-15)


def test_tensors_of_any_shape_come_back_where_they_were(alone: torch.device) -> None:
    """One message carries all; with one rank the sum is what was there."""
    tensors = [torch.tensor(5.0), torch.arange(6.0).view(2, 3), torch.ones(1)]
    before = [tensor.clone() for tensor in tensors]
    allreduce_sgd.add_over_ranks(tensors)
    torch.testing.assert_close(tensors, before)


def test_three_ranks_are_equal_to_one_process(run: Callable[..., list[str]]) -> None:
    """Three processes print, step by step, the losses that one prints with three times the batch."""
    apart = run("allreduce_sgd.py", 3, "--batch-size", "16", "--epochs", "2", "--log-every", "1")
    [together] = run("allreduce_sgd.py", 1, "--batch-size", "48", "--epochs", "2", "--log-every", "1")
    losses = re.findall(r"step \d+ loss \S+", together)
    assert len(losses) == 60
    for output in apart:
        assert re.findall(r"step \d+ loss \S+", output) == losses
    assert len(set(re.findall(r"params \S+", "".join(apart)))) == 1


def test_ranks_that_do_not_come_are_named(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Rank 0 says whom it waits for and where; after the timeout it says who is missing, and ends with 1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    where = f"tcp://127.0.0.1:{port}"
    words = ["--rank", "0", "--world-size", "3", "--init-method", where, "--timeout", "0.5", "--backend", "gloo"]
    monkeypatch.setattr("sys.argv", ["allreduce_sgd.py", *words])
    monkeypatch.setattr(allreduce_sgd, "end_on_signal", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        allreduce_sgd.main()
    assert capfd.readouterr().out == f"rank 0/3 waits for all 3 ranks at {where}\n"
    assert ended.value.code == f"rank 1, rank 2 of 3 did not come to {where} within 0.5 s"  # to stderr, and 1


def test_a_first_rank_that_does_not_come_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the others, as the last line, and not by a traceback of theirs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    where = f"tcp://127.0.0.1:{port}"
    words = ["--rank", "1", "--world-size", "3", "--init-method", where, "--timeout", "1", "--backend", "gloo"]
    monkeypatch.setattr("sys.argv", ["allreduce_sgd.py", *words])
    monkeypatch.setattr(allreduce_sgd, "end_on_signal", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        allreduce_sgd.main()
    assert ended.value.code == f"rank 0 of 3 did not come to {where} within 1 s"


def test_a_first_rank_that_leaves_is_reported_by_who_still_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 names the third one, which the second can't know then."""
    held = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)]
    where = f"tcp://127.0.0.1:{held[0].port}"
    words = ["--rank", "1", "--world-size", "3", "--init-method", where, "--timeout", "60", "--backend", "gloo"]
    monkeypatch.setattr("sys.argv", ["allreduce_sgd.py", *words])
    monkeypatch.setattr(allreduce_sgd, "end_on_signal", lambda name: None)
    leaving = threading.Timer(2, held.clear)
    leaving.start()
    with pytest.raises(SystemExit) as ended:
        allreduce_sgd.main()
    leaving.join()
    assert ended.value.code == f"rank 0 of 3 has left {where}: it says which ranks it waited for"


def test_a_first_rank_that_leaves_as_it_is_asked_who_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has waited just as long, so it often does: no traceback under the line."""

    class Leaving:
        """The store of a rank 0 that gives up at the same moment."""

        def set(self, key: str, value: str) -> None:
            pass

        def wait(self, keys: list[str]) -> None:
            raise dist.DistStoreError("wait timeout")

        def check(self, keys: list[str]) -> bool:
            raise dist.DistNetworkError("Broken pipe")

    monkeypatch.setattr(dist, "TCPStore", lambda *args, **options: Leaving())
    where = "tcp://127.0.0.1:1"
    args = argparse.Namespace(rank=1, world_size=3, init_method=where, timeout=1.0)
    with pytest.raises(SystemExit) as ended:
        allreduce_sgd.meet(args)
    assert ended.value.code == f"rank 0 of 3 has left {where}: it says which ranks it waited for"
