"""Adding gradients up by hand is the same as one process with the whole batch."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from distui.trainers import allreduce_sgd, data, network


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 5), st.integers(0, 9))
def test_the_ranks_shares_are_every_batch_once(images: int, size: int, world_size: int, seed: int) -> None:
    """Over an epoch every image is given to one rank once, in the order that one process would take."""
    whole = list(allreduce_sgd.batches(images, size, seed))
    assert sorted(torch.cat(whole).tolist()) == list(range(images))
    assert all(len(batch) == size for batch in whole[:-1])
    for batch in whole:
        shares = [allreduce_sgd.share(batch, rank, world_size) for rank in range(world_size)]
        assert sorted(torch.cat(shares).tolist()) == sorted(batch.tolist())


@pytest.mark.parametrize("size", [12, 13, 2])
def test_the_shares_gradients_add_up_to_the_batch_s(size: int) -> None:
    """Also when the shares are of different sizes, or one is empty."""
    images, classes = (tensor[:size] for tensor in data.load(None).train.tensors)
    model = network.build(images, data.CLASSES).double()
    parameters = list(model.parameters())
    loss = allreduce_sgd.gradient(model, images.double(), classes, total=size)
    whole = [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]

    sums, losses = [torch.zeros_like(each) for each in whole], []
    for rank in range(3):
        mine = allreduce_sgd.share(torch.arange(size), rank, 3)
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
