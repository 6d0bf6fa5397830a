"""What ddp.py promises: every image once, steps that accumulate, and going on as if never ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DistributedSampler, TensorDataset

from distui.trainers import arguments, checkpoint, data, ddp, group

IMAGES = TensorDataset(torch.arange(37.0), torch.arange(37))


def options(*argv: str) -> ddp.Options:
    return arguments.parse(ddp.parser(), ddp.Options, ["--world-size", "1", *argv], {})


def training(*argv: str, rank: int = 0, world_size: int = 1, done: int = 0) -> Any:
    """As much of a training as choosing its images needs."""
    sampler = DistributedSampler(IMAGES, world_size, rank, seed=1)
    place = ["--rank", str(rank), "--world-size", str(world_size), "--init-method", "tcp://h:1"]
    made = ddp.Training(options(*place, *argv), torch.device("cpu"), None, None, None, None, sampler)  # type: ignore[arg-type]
    made.images = done
    return made


def seen(*argv: str, **where: int) -> list[list[list[int]]]:
    """The images of every batch of every step."""
    return [[classes.tolist() for _, classes in step] for step in ddp.steps(training(*argv, **where), IMAGES)]


def flat(steps: list[list[list[int]]]) -> list[int]:
    return [image for step in steps for batch in step for image in batch]


def test_all_ranks_together_see_every_image() -> None:
    """Each once, and at the end as many twice as make the shares equal."""
    shares = [flat(seen("--batch-size", "4", rank=rank, world_size=2)) for rank in range(2)]
    assert [len(share) for share in shares] == [19, 19]
    assert set(shares[0] + shares[1]) == set(range(37))


def test_a_step_holds_as_many_batches_as_it_accumulates() -> None:
    """The last step and the last batch hold what is left."""
    sizes = [[len(batch) for batch in step] for step in seen("--batch-size", "5", "--accumulate", "3")]
    assert sizes == [[5, 5, 5], [5, 5, 5], [5, 2]]


@pytest.mark.parametrize("taken", range(5))
def test_going_on_takes_the_steps_that_were_left(taken: int) -> None:
    """Saved after any step, the rest of the epoch is what it would have been."""
    argv = ("--batch-size", "2", "--accumulate", "2")
    whole = seen(*argv, rank=1, world_size=2)
    assert seen(*argv, rank=1, world_size=2, done=2 * len(flat(whole[:taken]))) == whole[taken:]


def test_another_number_of_ranks_goes_on_with_the_images_left() -> None:
    """What two ranks have not seen, three see."""
    before = [image for rank in range(2) for image in flat(seen("--batch-size", "6", rank=rank, world_size=2))[:6]]
    after = [image for rank in range(3) for image in flat(seen(rank=rank, world_size=3, done=12))]
    assert set(before + after) == set(range(37))
    assert len(before + after) == 39, "two twice, to make three equal shares"


def begun(device: torch.device, *argv: str) -> ddp.Training:
    return ddp.begin(options(*argv), data.load(None), device, None)


def test_accumulating_is_a_larger_batch(alone: torch.device) -> None:
    """Four batches of 8 take the step that one of 32 takes, up to rounding."""
    images, classes = (tensor[:32] for tensor in data.load(None).train.tensors)
    one, four = begun(alone), begun(alone, "--accumulate", "4")
    loss = ddp.take_step(one, [(images, classes)])
    also = ddp.take_step(four, list(zip(images.split(8), classes.split(8), strict=True)))
    torch.testing.assert_close(also, loss)
    gradients = [[each.grad for each in made.model.parameters()] for made in (one, four)]
    torch.testing.assert_close(gradients[1], gradients[0])


def test_a_training_comes_back_as_it_was(tmp_path: Path, alone: torch.device) -> None:
    """Network, optimizer and place: the next step is the same to the last bit."""
    images, classes = (tensor[:64] for tensor in data.load(None).train.tensors)
    path = str(tmp_path / "c.pt")
    first = begun(alone, "--checkpoint", path)
    ddp.take_step(first, [(images[:32], classes[:32])])
    first.step, first.epoch, first.images = 46, 1, 32
    ddp.save(first)
    second = begun(alone, "--checkpoint", path)
    assert (second.step, second.epoch, second.images) == (46, 1, 32)
    for made in (first, second):
        ddp.take_step(made, [(images[32:], classes[32:])])
    assert ddp.network.fingerprint(first.model) == ddp.network.fingerprint(second.model)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seed": 2}, "was made with --seed 2: give that, or another file"),
        ({"model": {}}, "is of another training"),
        ({"optimizer": {}}, "is of another training"),
        ({"step": None}, "is of another training"),
    ],
)
def test_another_training_s_checkpoint_is_refused(
    tmp_path: Path, alone: torch.device, changed: dict[str, Any], words: str
) -> None:
    """Going on with it would be neither of the two."""
    path = tmp_path / "c.pt"
    state = ddp.state(begun(alone)) | changed
    checkpoint.save(path, {name: value for name, value in state.items() if value is not None})
    with pytest.raises(checkpoint.CheckpointError, match=words):
        begun(alone, "--checkpoint", str(path))


@pytest.mark.parametrize(
    ("amp", "device", "capability", "precision"),
    [
        ("auto", "cpu", (0, 0), None),
        ("off", "cuda", (9, 0), None),
        ("auto", "cuda", (8, 0), torch.bfloat16),
        ("auto", "cuda", (7, 5), torch.float16),
        ("bf16", "cpu", (0, 0), torch.bfloat16),
        ("fp16", "cuda", (9, 0), torch.float16),
    ],
)
def test_mixed_precision_is_for_gpus(
    monkeypatch: pytest.MonkeyPatch, amp: str, device: str, capability: tuple[int, int], precision: torch.dtype | None
) -> None:
    """By itself on a GPU, in bfloat16 where it has that."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert ddp.choose_precision(amp, torch.device(device)) is precision


def test_half_precision_on_the_cpu_is_refused() -> None:
    """Said before the ranks meet."""
    with pytest.raises(group.NotAvailable, match="--amp fp16 needs a GPU; the CPU can do --amp bf16"):
        ddp.choose_precision("fp16", torch.device("cpu"))


def test_killed_in_the_middle_it_ends_as_if_it_had_not_been(
    tmp_path: Path, start: Callable[..., list[Any]], run: Callable[..., list[str]]
) -> None:
    """Two ranks, killed inside an epoch and started again, end with the same network to the last bit."""
    argv = ("ddp.py", 2, "--epochs", "2", "--batch-size", "16", "--accumulate", "2", "--log-every", "1")
    wanted = run(*argv)
    path = ("--checkpoint", str(tmp_path / "c.pt"), "--save-every", "5")
    ranks = start(*argv, *path)
    for line in ranks[0].stdout:
        if line == "rank 0/2 saved step 30\n":
            break
    for rank in ranks:
        rank.kill()
        rank.wait()
    again = run(*argv, *path)

    resumed = [re.search(r"resumed at step (\d+) epoch 2", output) for output in again]
    assert all(found and 30 <= int(found[1]) < 46 for found in resumed), again
    finals = {line.split(" ", 2)[2] for output in wanted + again for line in output.splitlines() if "final" in line}
    assert len(finals) == 1, finals
    assert run(*argv, *path)[0].count(" step ") == 1, "a training that is done is not trained again"
