"""Keeps a training's state in one file, written by rank 0 and read for all ranks."""

from __future__ import annotations

import ctypes
import io
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_NONE, _UNREADABLE = -1, -2
"""What rank 0 tells the others instead of the file's size."""


class CheckpointError(Exception):
    """The checkpoint can't be written, read or used: says why, and what to do."""


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state`, tensors and plain values, to `path`. To be called by one rank.

    It goes into a file beside `path` that is renamed once it is on the disk, so that whoever reads `path`, also
    after a crash in the middle, finds the state before or this one, whole.

    Raises:
        CheckpointError: the file can't be written.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        _sync(path.parent)
    except (OSError, RuntimeError) as problem:  # torch's writer raises RuntimeError on a full disk
        raise CheckpointError(f"can't save {path}: {problem}; give --checkpoint another place") from problem


def load(path: Path, device: torch.device) -> dict[str, Any] | None:
    """The state at `path` on rank 0's host, on every rank and on the CPU; None when there is no such file.

    To be called by all ranks. Only rank 0 reads, so the hosts need not share a folder.

    Args:
        path: the file.
        device: where the backend of the group can move data.

    Raises:
        CheckpointError: rank 0 can't read it or has no folder for it, or it is not a checkpoint.
    """
    content = _from_rank_0(path, device)
    if content is None:
        return None
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, KeyError, EOFError, pickle.UnpicklingError):
        raise CheckpointError(f"{path} is not a checkpoint: move it away to start anew") from None
    return state


def _from_rank_0(path: Path, device: torch.device) -> bytes | None:
    """The bytes of the file that rank 0 reads, sent to all."""
    content, problem = b"", ""
    size = torch.tensor(_NONE, dtype=torch.int64)
    if dist.get_rank() == 0:
        try:
            content = path.read_bytes()
            size.fill_(len(content))
        except FileNotFoundError:
            if not path.parent.is_dir():  # said now, not when the first state can't be saved
                problem = f"rank 0's host has no folder {path.parent} for the checkpoint"
                size.fill_(_UNREADABLE)
        except OSError as error:
            problem = f"can't read {path}: {error.strerror}"
            size.fill_(_UNREADABLE)
    size = size.to(device)
    dist.broadcast(size, src=0)
    length = int(size)
    if length == _UNREADABLE:
        raise CheckpointError(problem or f"rank 0 can't read {path}; see its output")
    if length == _NONE:
        return None
    carried = torch.empty(length, dtype=torch.uint8)
    if content:
        carried = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    carried = carried.to(device)
    dist.broadcast(carried, src=0)
    carried = carried.cpu()
    return ctypes.string_at(carried.data_ptr(), length)  # .numpy() would need numpy


def _sync(folder: Path) -> None:
    """Put the new name on the disk too, where the file system can."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
