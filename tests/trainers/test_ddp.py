"""What ddp.py promises: every image once, steps that accumulate, and going on as if never ended."""

from __future__ import annotations

import argparse
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler, TensorDataset

from distui.trainers import ddp

IMAGES = TensorDataset(torch.arange(37.0), torch.arange(37))


def options(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["ddp.py", "--world-size", "1", *argv])
        return ddp.arguments(parser)


def begun(device: torch.device, *argv: str) -> ddp.Training:
    """A training of one rank, gone on with if it has a checkpoint."""
    args = options(*argv)
    training = ddp.Training(args, device, ddp.load(None)[0])
    training.restore(ddp.read_checkpoint(args.checkpoint) if args.checkpoint else b"")
    return training


def seen(*argv: str, rank: int = 0, world_size: int = 1, done: int = 0) -> list[list[list[int]]]:
    """The images of every batch of every step, in a training that has as much as choosing its images needs."""
    made = ddp.Training.__new__(ddp.Training)
    made.args, made.train_set, made.epoch, made.images = options(*argv), IMAGES, 0, done
    made.sampler = DistributedSampler(IMAGES, world_size, rank, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "get_world_size", lambda: world_size)
        return [[classes.tolist() for _, classes in step] for step in made.steps()]


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


def test_accumulating_is_a_larger_batch(alone: torch.device) -> None:
    """Four batches of 8 take the step that one of 32 takes, up to rounding."""
    images, classes = (tensor[:32] for tensor in ddp.load(None)[0].tensors)
    one, four = begun(alone), begun(alone, "--accumulate", "4")
    loss = one.take_step([(images, classes)])
    also = four.take_step(list(zip(images.split(8), classes.split(8), strict=True)))
    torch.testing.assert_close(also, loss)
    gradients = [[each.grad for each in made.model.parameters()] for made in (one, four)]
    torch.testing.assert_close(gradients[1], gradients[0])


def test_a_training_comes_back_as_it_was(tmp_path: Path, alone: torch.device) -> None:
    """Network, optimizer and place: the next step is the same to the last bit."""
    images, classes = (tensor[:64] for tensor in ddp.load(None)[0].tensors)
    path = str(tmp_path / "c.pt")
    first = begun(alone, "--checkpoint", path)
    first.take_step([(images[:32], classes[:32])])
    first.step, first.epoch, first.images = 46, 1, 32
    first.save()
    second = begun(alone, "--checkpoint", path)
    assert (second.step, second.epoch, second.images) == (46, 1, 32)
    for made in (first, second):
        made.take_step([(images[32:], classes[32:])])
    assert ddp.fingerprint(first.model) == ddp.fingerprint(second.model)


def test_a_link_to_a_checkpoint_stays_a_link(tmp_path: Path, alone: torch.device) -> None:
    """As to a disk with more room: what is written is the file that it leads to, there yet or not."""
    (tmp_path / "large").mkdir()
    link, real = tmp_path / "c.pt", tmp_path / "large" / "real.pt"
    link.symlink_to("large/real.pt")
    for _ in range(2):
        begun(alone, "--checkpoint", str(link)).save()
        assert link.is_symlink() and real.is_file()
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["c.pt", "large", "real.pt"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seed": 2}, "was made with --seed 2: give that, or another file"),
        ({"model": {}}, "is of another training"),
        ({"optimizer": {}}, "is of another training"),
        ({"optimizer": 5}, "is of another training"),
        ({"step": None}, "is of another training"),
        ({"epoch": "2 of 8"}, "is of another training"),
        (torch.zeros(3), "is of another training"),
    ],
    ids=str,
)
def test_another_training_s_checkpoint_is_refused(
    tmp_path: Path, alone: torch.device, changed: Any, words: str
) -> None:
    """Going on with it would be neither of the two."""
    path = tmp_path / "c.pt"
    begun(alone, "--checkpoint", str(path)).save()
    state = torch.load(path) | changed if isinstance(changed, dict) else {"all of it": changed}
    there = {name: value for name, value in state.items() if value is not None}
    torch.save(there.get("all of it", there), path)
    with pytest.raises(ddp.CheckpointError, match=words):
        begun(alone, "--checkpoint", str(path))


def test_a_save_that_is_cut_off_leaves_the_one_before(
    tmp_path: Path, alone: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the new file is on the disk the old one is the checkpoint; what was left over is written over."""
    path = tmp_path / "c.pt"
    training = begun(alone, "--checkpoint", str(path))
    training.step = 1
    training.save()
    with monkeypatch.context() as broken:

        def fail(number: int) -> None:
            raise OSError(28, "No space left on device")

        broken.setattr(os, "fsync", fail)
        training.step = 2
        with pytest.raises(ddp.CheckpointError, match="No space left on device; give --checkpoint another"):
            training.save()
    assert torch.load(path)["step"] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["c.pt"], "a full disk is not left full"
    training.step = 3
    training.save()
    assert torch.load(path)["step"] == 3
    assert [each.name for each in tmp_path.iterdir()] == ["c.pt"]


@pytest.mark.parametrize("keep", [1, 100, -1])
def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path, alone: torch.device, keep: int) -> None:
    """Cut short anywhere."""
    path = tmp_path / "c.pt"
    begun(alone, "--checkpoint", str(path)).save()
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ddp.CheckpointError, match=f"{path} is not a checkpoint, or damaged: move it away"):
        begun(alone, "--checkpoint", str(path))


def test_a_damaged_file_is_not_gone_on_with(tmp_path: Path, alone: torch.device) -> None:
    """One bit anywhere in what was saved: torch alone would train on with another number, and say nothing."""
    path = tmp_path / "c.pt"
    begun(alone, "--checkpoint", str(path)).save()
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as parts:
        largest = max(parts.infolist(), key=lambda part: part.file_size)
    listed = whole.rindex(largest.filename.encode()) - 46
    changes = [
        (whole.index(b"images"), 1),
        (largest.header_offset + 200, 1),
        (largest.header_offset + largest.file_size // 2, 1),
        (listed + 38, 16),  # what makes a folder of it
    ]
    for place, bit in changes:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        with pytest.raises(ddp.CheckpointError, match="is not a checkpoint, or damaged"):
            begun(alone, "--checkpoint", str(path))


def test_a_full_disk_is_reported_in_its_own_words(tmp_path: Path, alone: torch.device) -> None:
    """torch's writer only says at which position of which of its files it stands then."""
    training = begun(alone, "--checkpoint", str(tmp_path / "c.pt"))
    (tmp_path / "c.pt.new").symlink_to("/dev/full")
    with pytest.raises(ddp.CheckpointError, match=r"can't save .*c.pt: \[Errno 28\] No space left on device; give"):
        training.save()


def test_a_file_that_would_run_code_is_refused(tmp_path: Path, alone: torch.device) -> None:
    """Loading reads tensors and plain values only."""
    path = tmp_path / "c.pt"
    torch.save({"step": Path}, path)
    with pytest.raises(ddp.CheckpointError, match="is not a checkpoint"):
        begun(alone, "--checkpoint", str(path))


def test_a_file_that_can_t_be_read_is_reported_from_none(tmp_path: Path) -> None:
    """Starting again over a checkpoint that is only unreadable would lose it."""
    with pytest.raises(OSError, match="Is a directory"):
        ddp.read_checkpoint(tmp_path)
    assert ddp.read_checkpoint(tmp_path / "none.pt") == b""
    (tmp_path / "empty.pt").touch()
    with pytest.raises(ValueError, match="is not a checkpoint: move it away to start again"):
        ddp.read_checkpoint(tmp_path / "empty.pt")
    with pytest.raises(ValueError, match="/dev/full is not a file: give --checkpoint another place"):
        ddp.read_checkpoint(Path("/dev/full"))  # as /dev/zero it has no end


def test_a_missing_folder_is_reported_before_the_training(tmp_path: Path) -> None:
    """Not after an hour, when the first state is to be saved."""
    with pytest.raises(ValueError, match=f"rank 0's host has no folder {tmp_path}/no for the"):
        ddp.read_checkpoint(tmp_path / "no/c.pt")


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
    assert ddp.precision(amp, torch.device(device)) is precision


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
