"""What a rank is told when something is missing: a backend, a GPU, memory."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from trainers import checkpoint, env, group, idx, memory

PLACE = env.Place(1, 2, 1, None, 1.0)


def has(monkeypatch: pytest.MonkeyPatch, *backends: str, gpus: int = 0) -> None:
    """This torch has these backends and sees so many GPUs."""
    monkeypatch.setattr(dist, "is_backend_available", lambda name: name in backends)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: "nccl" in backends)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)


@pytest.mark.parametrize("backend", ["nccl", "mpi"])
def test_a_backend_that_torch_lacks_is_named(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """With those that it has."""
    has(monkeypatch, "gloo")
    with pytest.raises(group.NotAvailable, match=f"has no backend {backend}; it has gloo$"):
        group.choose(backend, "auto", 0)


@pytest.mark.parametrize(
    ("backend", "device", "gpus", "chosen"),
    [
        ("auto", "auto", 0, ("gloo", "cpu")),
        ("auto", "auto", 2, ("nccl", "cuda:1")),
        ("auto", "cpu", 2, ("gloo", "cpu")),
        ("gloo", "auto", 2, ("gloo", "cpu")),
        ("gloo", "cuda", 2, ("gloo", "cuda:1")),
        ("nccl", "auto", 1, ("nccl", "cuda:0")),
        ("mpi", "auto", 0, ("mpi", "cpu")),
    ],
)
def test_the_backend_and_the_device_go_together(
    monkeypatch: pytest.MonkeyPatch, backend: str, device: str, gpus: int, chosen: tuple[str, str]
) -> None:
    """nccl where there is a GPU; each local rank its own, or the one it is shown."""
    has(monkeypatch, "gloo", "nccl", "mpi", gpus=gpus)
    name, where = group.choose(backend, device, 1)
    assert (name, str(where)) == chosen


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (0, "sees no GPU; give it one, or use --backend gloo --device cpu"),
        (2, "local rank 2 has no GPU, since it sees 2"),
    ],
)
def test_a_missing_gpu_is_told(monkeypatch: pytest.MonkeyPatch, gpus: int, words: str) -> None:
    """None at all, or fewer than ranks."""
    has(monkeypatch, "gloo", "nccl", gpus=gpus)
    with pytest.raises(group.NotAvailable, match=words):
        group.choose("nccl", "auto", 2)


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (group.NotAvailable("no such backend"), 2),
        (idx.DataError("no data"), 2),
        (checkpoint.CheckpointError("no checkpoint"), 2),
        (group.JoinFailed("rank 0 did not come"), 1),
    ],
)
def test_what_a_user_can_mend_is_one_line(capfd: pytest.CaptureFixture[str], problem: Exception, code: int) -> None:
    """On stderr, with the rank's name, and the exit code of README.md."""
    with pytest.raises(SystemExit) as ended, group.told_in_words(PLACE):
        raise problem
    assert ended.value.code == code
    assert capfd.readouterr().err == f"rank 1/2 error: {problem}\n"


@pytest.mark.parametrize("problem", [RuntimeError("Connection closed by peer"), ValueError("a bug")])
def test_other_errors_keep_their_traceback(problem: Exception) -> None:
    """Whoever mends them needs it."""
    with pytest.raises(type(problem)), group.told_in_words(PLACE):
        raise problem


def test_too_little_memory_is_told_with_the_peak(capfd: pytest.CaptureFixture[str]) -> None:
    """A real allocation that can't be had: 4 PB."""
    with pytest.raises(SystemExit) as ended, group.told_in_words(PLACE):
        torch.empty(10**15)
    assert ended.value.code == 1
    said = capfd.readouterr().err
    assert said.startswith("rank 1/2 error: out of memory: this rank's peak was 0."), said
    assert "give a smaller --batch-size" in said


@pytest.mark.parametrize(
    "problem",
    [torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate"), RuntimeError("CUDA error: out of memory")],
)
def test_a_full_gpu_is_told_with_who_holds_what(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    """The peak of this rank, what its cache holds, and what is not its own; distui knows these words too."""
    gib = 1 << 30
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (gib, 80 * gib))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 60 * gib)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 64 * gib)
    assert memory.explain(problem) == (
        "CUDA out of memory on cuda:3, which has 80.00 GiB: the peak of this rank's tensors was 60.00 GiB, its cache "
        "holds 64.00, CUDA and other processes 15.00; give a smaller --batch-size (with ddp.py a larger --accumulate "
        "makes up for it)"
    )
