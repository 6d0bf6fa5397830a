"""A checkpoint is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from distui.trainers import checkpoint


def test_what_is_saved_is_loaded(tmp_path: Path, alone: torch.device) -> None:
    """Tensors to the last bit, and plain values; nothing else is left in the folder."""
    state = {"weights": torch.rand(100), "step": 7, "nested": {"list": [1, 2.5, "x"]}}
    checkpoint.save(tmp_path / "c.pt", state)
    loaded = checkpoint.load(tmp_path / "c.pt", alone)
    assert loaded is not None
    assert torch.equal(loaded.pop("weights"), state.pop("weights"))
    assert loaded == state
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]


def test_without_a_file_there_is_no_state(tmp_path: Path, alone: torch.device) -> None:
    """A training starts anew then."""
    assert checkpoint.load(tmp_path / "c.pt", alone) is None


def test_a_save_that_is_cut_off_leaves_the_one_before(
    tmp_path: Path, alone: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the new file is on the disk the old one is the checkpoint; what was left over is written over."""
    path = tmp_path / "c.pt"
    checkpoint.save(path, {"step": 1})
    with monkeypatch.context() as broken:

        def fail(number: int) -> None:
            raise OSError(28, "No space left on device")

        broken.setattr(os, "fsync", fail)
        with pytest.raises(checkpoint.CheckpointError, match="No space left on device; give --checkpoint another"):
            checkpoint.save(path, {"step": 2})
    assert checkpoint.load(path, alone) == {"step": 1}
    checkpoint.save(path, {"step": 3})
    assert checkpoint.load(path, alone) == {"step": 3}
    assert [each.name for each in tmp_path.iterdir()] == ["c.pt"]


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path, alone: torch.device, keep: int) -> None:
    """Cut short anywhere, or empty."""
    path = tmp_path / "c.pt"
    checkpoint.save(path, {"weights": torch.rand(100)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(checkpoint.CheckpointError, match=f"{path} is not a checkpoint: move it away to start anew"):
        checkpoint.load(path, alone)


def test_a_file_that_would_run_code_is_refused(tmp_path: Path, alone: torch.device) -> None:
    """Loading reads tensors and plain values only."""
    path = tmp_path / "c.pt"
    torch.save({"step": Path}, path)
    with pytest.raises(checkpoint.CheckpointError, match="is not a checkpoint"):
        checkpoint.load(path, alone)


def test_a_file_that_can_t_be_read_is_told_from_none(tmp_path: Path, alone: torch.device) -> None:
    """Starting anew over a checkpoint that is only unreadable would lose it."""
    with pytest.raises(checkpoint.CheckpointError, match=f"can't read {tmp_path}: Is a directory"):
        checkpoint.load(tmp_path, alone)


def test_a_missing_folder_is_told_before_the_training(tmp_path: Path, alone: torch.device) -> None:
    """Not after an hour, when the first state is to be saved."""
    with pytest.raises(checkpoint.CheckpointError, match=f"rank 0's host has no folder {tmp_path}/no for the"):
        checkpoint.load(tmp_path / "no/c.pt", alone)
