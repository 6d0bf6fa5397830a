"""What a rank is told when something is missing: a backend, a GPU, memory."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from distui.trainers import checkpoint, env, group, idx, memory

PLACE = env.Process(1, 2, 1, None, 1.0)


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
    assert said.startswith("rank 1/2 error: out of memory asking for 3725290.30 GiB: this rank's peak was 0."), said
    assert "give a smaller --batch-size" in said


@pytest.mark.parametrize(
    ("problem", "asked"),
    [
        (
            torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has"),
            " asking for 2.50 GiB",
        ),
        (RuntimeError("CUDA error: out of memory"), ""),
    ],
)
def test_a_full_gpu_is_told_with_who_holds_what(
    monkeypatch: pytest.MonkeyPatch, problem: Exception, asked: str
) -> None:
    """The peak of this rank, what its cache holds, and what is not its own; distui knows these words too."""
    gib = 1 << 30
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (gib, 80 * gib))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 60 * gib)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 64 * gib)
    assert memory.explain(problem) == (
        f"CUDA out of memory on cuda:3{asked}: it has 80.00 GiB, the peak of this rank's tensors was 60.00 GiB, "
        "its cache holds 64.00, CUDA and other processes 15.00; give a smaller --batch-size (with ddp.py a "
        "larger --accumulate makes up for it)"
    )


def test_a_gpu_too_full_to_ask_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's own start needs memory, and so does asking for the shares."""

    def fail() -> int:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.cuda, "current_device", fail)
    assert memory.explain(RuntimeError("CUDA error: out of memory")) == (
        "CUDA out of memory: other processes hold the GPU; see nvidia-smi"
    )


def join(place: env.Process, backend: str = "gloo") -> None:
    with group.joined(place, backend, torch.device("cpu")):
        pass


def test_ranks_that_do_not_come_are_named(tmp_path: Path) -> None:
    """Rank 0 waits for so long, then says who is missing and what to look at."""
    words = r"ranks 1, 2, 3 of 4 did not come to file://\S+ within 0.5 s: .*share this folder$"
    with pytest.raises(group.JoinFailed, match=words):
        join(env.Process(0, 4, 0, tmp_path / "meeting", 0.5))


def test_without_rank_0_there_is_nowhere_to_meet() -> None:
    """The address is named. Nobody listens on port 1."""
    with pytest.raises(group.JoinFailed, match=r"^found no rank 0 at tcp://127.0.0.1:1 within 0.5 s: does it run"):
        join(env.Process(1, 2, 0, ("127.0.0.1", 1), 0.5))


def test_two_of_one_rank_are_refused(tmp_path: Path) -> None:
    """Two processes with one rank, or a file of an earlier run: PyTorch itself would wait for ever."""
    place = env.Process(0, 1, 0, tmp_path / "meeting", 5.0)
    first = group._meet(place)
    with pytest.raises(group.JoinFailed, match=r"^a rank 0 has already joined at file://.*give every run a new"):
        group._meet(place)
    assert first.check(["here/0"])


@pytest.mark.parametrize(("found", "joins"), [((1, 2), True), ((0, 1), False)])
def test_mpi_brings_its_ranks_together_itself(
    monkeypatch: pytest.MonkeyPatch, found: tuple[int, int], joins: bool
) -> None:
    """No address is used. What was not started by mpirun is rank 0 of 1 to MPI, and is told so."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(dist, "init_process_group", lambda *args: calls.append(args))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append(("destroyed",)))
    monkeypatch.setattr(dist, "get_rank", lambda: found[0])
    monkeypatch.setattr(dist, "get_world_size", lambda: found[1])
    refused = pytest.raises(group.JoinFailed, match=r"MPI says this is rank 0 of 1: start .*mpirun")
    with nullcontext() if joins else refused:
        join(PLACE, "mpi")
    assert calls == [("mpi",), ("destroyed",)]
