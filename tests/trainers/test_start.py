"""How a torch trainer starts and ends: its place among the ranks, backend and device, what it reads, signals."""

from __future__ import annotations

import argparse
import gzip
import math
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist

from distui.trainers import allreduce_sgd, bandwidth, ddp, mnist

PROGRAMS = (mnist, ddp, allreduce_sgd, bandwidth)
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that says nothing about ranks."""
    for name in (*TORCHRUN, *OPEN_MPI, *MPICH, "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Callable[..., argparse.Namespace]:
    """What a program makes of a command line and these variables."""

    def call(line: str, environ: dict[str, str] | None = None, program: ModuleType = mnist) -> argparse.Namespace:
        monkeypatch.setattr("sys.argv", ["program.py", *line.split()])
        for name, text in (environ or {}).items():
            monkeypatch.setenv(name, text)
        found: argparse.Namespace = program.arguments(argparse.ArgumentParser())
        return found

    return call


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.rpartition(".")[2])
@pytest.mark.parametrize("environ_of", [TORCHRUN, OPEN_MPI, MPICH], ids=["torchrun", "open_mpi", "mpich"])
def test_a_launcher_s_environment_needs_no_arguments(
    options: Callable[..., argparse.Namespace], program: ModuleType, environ_of: dict[str, str]
) -> None:
    """torchrun's variables and distui's, or mpirun's."""
    args = options("", environ_of, program)
    assert (args.rank, args.world_size, args.local_rank, args.init_method) == (3, 4, 1, "env://")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.rpartition(".")[2])
def test_an_argument_wins_over_the_environment(options: Callable[..., argparse.Namespace], program: ModuleType) -> None:
    """The classic command line; both spellings of the local rank that torch.distributed.launch has used."""
    line = "--rank 1 --world-size 2 --local_rank 0 --init-method tcp://10.0.0.1:29500 --backend gloo --threads 3"
    args = options(line, TORCHRUN | {"OMP_NUM_THREADS": "2"}, program)
    assert (args.rank, args.world_size, args.local_rank, args.threads) == (1, 2, 0, 3)
    assert (args.init_method, args.backend) == ("tcp://10.0.0.1:29500", "gloo")


def test_a_rank_alone_needs_no_more_than_that(options: Callable[..., argparse.Namespace]) -> None:
    """`--world-size 1`, and one thread: ranks of one host don't fight for its cores unless told to."""
    args = options("--world-size 1")
    assert (args.rank, args.local_rank, args.threads) == (0, 0, 1)
    assert options("--world-size 1", {"OMP_NUM_THREADS": "2"}).threads == 2
    assert options("--world-size 1", {"OMP_NUM_THREADS": "4,2"}).threads == 4


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "the following arguments are required: --world-size"),
        ("--world-size 2", "--rank or $RANK is needed, from 0 to 1"),
        ("--world-size 2 --rank 2", "from 0 to 1; it is 2"),
        ("--world-size 2 --rank one", "argument --rank: invalid int value: 'one'"),
        ("--world-size 0 --rank 0", "argument --world-size: invalid count value: '0'"),
        ("--world-size 2 --rank 0", "environment variable MASTER_ADDR expected, but not set"),
        ("--world-size 2 --rank 0 --init-method tcp://10.0.0.1", "port number missing"),
        ("--world-size 2 --rank 0 --init-method 10.0.0.1:29500", "give tcp://HOST:PORT, file:///PATH or env://"),
        ("--world-size 2 --rank 0 --init-method file://x/y", "give tcp://HOST:PORT, file:///PATH or env://"),
        ("--world-size 1 --device cpu --backend nccl", "nccl"),
        ("--world-size 1 --device cuda", "0 GPUs to use: try --backend gloo --device cpu"),
        ("--world-size 1 --backend mpi", "has no backend mpi"),
        ("--world-size 1 --backend smoke", "invalid choice: 'smoke'"),
        ("--world-size 1 --epochs 0", "argument --epochs: invalid count value: '0'"),
        ("--world-size 1 --lr fast", "argument --lr: invalid positive value: 'fast'"),
        ("--world-size 1 --lr nan", "argument --lr: invalid positive value: 'nan'"),
        ("--world-size 1 --lr -1", "argument --lr: invalid positive value: '-1'"),
        ("--world-size 1 --timeout 0", "argument --timeout: invalid positive value: '0'"),
        ("--world-size 1 --timeout 1e30", "argument --timeout: invalid positive value: '1e30'"),
        ("--world-size 1 --seed -1", "argument --seed: invalid seed value: '-1'"),
        ("--world-size 1 --batch-size 99999999999", "argument --batch-size: invalid count value: '99999999999'"),
        ("--world-size 1 --init-method file:///no/such/meeting", "this host has no folder /no/such"),
        ("--world-size 1 --wrold-size 1", "unrecognized arguments: --wrold-size 1"),
        ("--world-size 1 --data /no/such", "No such file or directory: '/no/such/train-images-idx3-ubyte.gz'"),
    ],
)
def test_what_is_wrong_is_the_last_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    """With exit code 2; a launcher shows the last lines of a rank."""
    for program in (mnist, ddp, allreduce_sgd):
        monkeypatch.setattr("sys.argv", ["program.py", *line.split()])
        monkeypatch.setattr(program, "end_on_signal", lambda name: None)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
        with pytest.raises(SystemExit) as ended:
            program.main()
        assert ended.value.code == 2
        said = capfd.readouterr().err.splitlines()
        assert len(said) == 2 and words in said[-1], said


def test_half_precision_on_the_cpu_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Said before the ranks meet."""
    monkeypatch.setattr("sys.argv", ["ddp.py", "--world-size", "1", "--device", "cpu", "--amp", "fp16"])
    monkeypatch.setattr(ddp, "end_on_signal", lambda name: None)
    with pytest.raises(SystemExit):
        ddp.main()
    assert "--amp fp16 needs a GPU; the CPU can do --amp bf16" in capfd.readouterr().err


def test_one_rank_alone_has_nobody_to_exchange_data_with(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """bandwidth.py is told so."""
    monkeypatch.setattr("sys.argv", ["bandwidth.py", "--world-size", "1"])
    monkeypatch.setattr(bandwidth, "end_on_signal", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        bandwidth.main()
    assert ended.value.code == 2
    assert "one rank alone has nobody to exchange data with: start two or more" in capfd.readouterr().err


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.rpartition(".")[2])
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
        ("nccl", "auto", 0, "has 0 GPUs to use: try --backend gloo --device cpu"),
        ("nccl", "cpu", 2, "has 0 GPUs to use: try --backend gloo --device cpu"),
    ],
)
def test_the_backend_and_the_device_go_together(
    monkeypatch: pytest.MonkeyPatch,
    options: Callable[..., argparse.Namespace],
    program: ModuleType,
    backend: str,
    device: str,
    gpus: int,
    chosen: tuple[str, str] | str,
) -> None:
    """nccl where there is a GPU; each local rank its own, or the one it is shown."""
    joined: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr(dist, "init_process_group", lambda name, **how: joined.append((name, how)))
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "is_backend_available", lambda name: True)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(program, "say", lambda text: None)
    args = options(f"--rank 1 --world-size 2 --local-rank 1 --backend {backend} --device {device}", None, program)
    if isinstance(chosen, str):
        with pytest.raises(ValueError, match=chosen):
            program.join(args)
        return
    found = program.join(args)
    ((name, how),) = joined
    assert (name, str(found)) == chosen
    assert (how["rank"], how["world_size"], how["init_method"]) == (1, 2, "env://")


def test_ranks_that_mpirun_did_not_start_are_told_so(
    monkeypatch: pytest.MonkeyPatch, options: Callable[..., argparse.Namespace]
) -> None:
    """To MPI each of them is rank 0 of 1, and would train alone."""
    monkeypatch.setattr(dist, "init_process_group", lambda name, **how: None)
    monkeypatch.setattr(dist, "get_world_size", lambda: 1)
    monkeypatch.setattr(dist, "is_backend_available", lambda name: True)
    for program in PROGRAMS:
        with pytest.raises(ValueError, match="MPI knows of 1 ranks, not 2: start them with mpirun"):
            program.join(options("--rank 1 --world-size 2 --backend mpi", None, program))


def test_a_line_is_written_in_one_piece(capfd: pytest.CaptureFixture[str], alone: torch.device) -> None:
    """Every line of a rank says whose it is."""
    mnist.say("step 3")
    assert capfd.readouterr().out == "rank 0/1 step 3\n"


@pytest.mark.parametrize(
    ("program", "number"),
    [
        ("mnist.py", signal.SIGINT),
        *((name, signal.SIGTERM) for name in ("mnist.py", "ddp.py", "allreduce_sgd.py", "bandwidth.py")),
    ],
)
def test_a_signal_ends_a_rank_that_waits_for_another(
    tmp_path: Path, start: Callable[..., list[subprocess.Popen[str]]], program: str, number: signal.Signals
) -> None:
    """At once, with 128 + its number, and says by what; handlers of Python would come after the wait."""
    first, second = start(program, 2)
    second.kill()
    while not list(tmp_path.glob("meeting-*")):  # which the first makes when it begins to wait
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(number)
    said, _ = first.communicate(timeout=600)
    assert said == f"rank 0/2 stopped by {number.name}\n"
    assert first.returncode == 128 + number


def idx(shape: tuple[int, ...], content: bytes) -> bytes:
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + content


@pytest.mark.parametrize("program", [mnist, ddp, allreduce_sgd], ids=["mnist", "ddp", "allreduce_sgd"])
@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress)])
def test_mnist_is_read_plain_or_gzipped(
    tmp_path: Path, program: ModuleType, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    """Images of any size, 0 to 255 as 0.0 to 1.0, each with its class."""
    for part, count in (("train", 3), ("t10k", 2)):
        images, labels = idx((count, 2, 3), bytes([0, 255] * (3 * count))), idx((count,), bytes(range(count)))
        (tmp_path / f"{part}-images-idx3-ubyte{ending}").write_bytes(pack(images))
        (tmp_path / f"{part}-labels-idx1-ubyte{ending}").write_bytes(pack(labels))
    train, test = program.load(tmp_path)
    assert [tuple(part.tensors[0].shape) for part in (train, test)] == [(3, 1, 2, 3), (2, 1, 2, 3)]
    assert train.tensors[0][0].flatten().tolist() == [0, 1, 0, 1, 0, 1]
    assert train.tensors[1].tolist() == [0, 1, 2]


@pytest.mark.parametrize("program", [mnist, ddp, allreduce_sgd], ids=["mnist", "ddp", "allreduce_sgd"])
@pytest.mark.parametrize(
    ("shape", "classes", "words"),
    [
        ((0, 2, 3), 0, "images of shape \\(0, 2, 3\\); needed are some"),
        ((3, 1, 3), 3, "of at least 2 x 2"),
        ((6, 3), 6, "images of shape \\(6, 3\\)"),
        ((3, 2, 3), 2, "3 images, but classes of shape \\(2,\\): fetch both again"),
        ((11, 2, 3), 11, "class 10; the network tells 0 to 9 apart"),
    ],
)
def test_images_that_can_t_be_learnt_are_reported_before_the_ranks_meet(
    tmp_path: Path, program: ModuleType, shape: tuple[int, ...], classes: int, words: str
) -> None:
    """Letters in MNIST's format, labels of another set: a traceback of torch's, in the middle of the first step."""
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(shape, bytes(math.prod(shape))))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx((classes,), bytes(range(classes))))
    with pytest.raises(ValueError, match=f"{tmp_path}: .*{words}"):
        program.load(tmp_path)


@pytest.mark.parametrize("program", [mnist, ddp, allreduce_sgd], ids=["mnist", "ddp", "allreduce_sgd"])
def test_images_to_test_with_are_as_large_as_the_others(tmp_path: Path, program: ModuleType) -> None:
    """Else all epochs were learnt, and then a traceback came in place of the accuracy."""
    for part, rows in (("train", 3), ("t10k", 4)):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx((2, rows, 3), bytes(6 * rows)))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx((2,), bytes(2)))
    with pytest.raises(ValueError, match=r"images of \(4, 3\) to test with, and of \(3, 3\) to learn from"):
        program.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html>",
        b"\x1f\x8b\x08\x00 and so on",
        idx((3, 2), b"abcde"),
        idx((3, 2), b"abcdefg"),
        b"\0\0\x08\x03\0",
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    """A page saved as data, a download cut short."""
    (tmp_path / "broken").write_bytes(content)
    with pytest.raises(ValueError, match=f"{tmp_path}/broken is not a whole IDX file of bytes: fetch it again"):
        mnist.read_idx(tmp_path / "broken")


def test_the_digits_are_split_in_five(tmp_path: Path) -> None:
    """1,797 images of 8 x 8, all ten digits; every fifth is held out."""
    train, test = mnist.load(None)
    assert (len(train), len(test)) == (1438, 359)
    images, classes = train.tensors
    assert tuple(images.shape[1:]) == (1, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
    assert (images[0].flatten()[:8] * 16).tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert set(classes.tolist()) == set(range(10))
