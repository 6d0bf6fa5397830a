"""The command lines of the trainers: where a rank starts, how to train.

Every argument that a launcher knows defaults from what it put into the environment (env.py).
Needs only the standard library.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING or __package__:
    from distui.trainers import env
else:  # run as a script: the modules beside this file, whatever its folder is called
    import env

# Every trainer imports this module before torch, whose first words would only fill the log.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # not needed here
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # what goes wrong is raised, so not logged as well

BACKENDS = ("auto", "gloo", "nccl", "mpi")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Start:
    """How this process starts, by the command line and the environment together."""

    place: env.Process
    backend: str
    """gloo, nccl or mpi, or auto: nccl where there is a GPU to use, else gloo."""
    device: str
    """auto, cpu or cuda."""
    threads: int
    """CPU threads of this rank."""


@dataclass(frozen=True, slots=True)
class Options(Start):
    """How to train."""

    data: Path | None
    """Folder with the four IDX files; None for the digits."""
    epochs: int
    batch_size: int
    """Images per step and rank."""
    lr: float
    seed: int
    log_every: int
    """Steps between two lines of loss."""


Kind = TypeVar("Kind", bound=Start)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line: a launcher shows the last lines of a rank, not its usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def parse(
    parser: Parser, kind: type[Kind], argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ
) -> Kind:
    """What is given in `argv` (default: this process's arguments), filled up from `environ`.

    Every field of `kind` but `place` and `threads` is an argument of `parser` of the same name.

    Raises:
        SystemExit: with code 2 and one line on stderr when an argument or a variable is wrong or missing.
    """
    given = parser.parse_args(argv)
    if given.device == "cpu" and given.backend == "nccl":
        parser.error("--backend nccl moves data between GPUs only: use --backend gloo with --device cpu")
    try:
        place = env.place(
            environ,
            rank=given.rank,
            world_size=given.world_size,
            local_rank=given.local_rank,
            init_method=given.init_method,
            by_mpi=given.backend == "mpi",
            timeout=given.timeout,
        )
    except env.EnvError as problem:
        parser.error(str(problem))
    own = {field.name: getattr(given, field.name) for field in fields(kind) if field.name not in ("place", "threads")}
    return kind(place=place, threads=given.threads or threads(environ), **own)


def starting(description: str) -> Parser:
    """A parser with the arguments of Start."""
    parser = Parser(description=description, allow_abbrev=False)
    add = parser.add_argument_group("where this rank is (a launcher fills these in)").add_argument
    add("--rank", metavar="R", help="this process among all, from 0 (default: $RANK)")
    add("--world-size", metavar="N", help="number of processes (default: $WORLD_SIZE)")
    add("--local-rank", "--local_rank", metavar="R", help="the same on its host (default: $LOCAL_RANK or 0)")
    add(
        "--init-method",
        metavar="URL",
        default="env://",
        help="where the ranks meet: tcp://HOST:PORT of rank 0, file:///PATH of a new file that all share, "
        "or env:// for $MASTER_ADDR and $MASTER_PORT (default: env://)",
    )
    add(
        "--backend",
        choices=BACKENDS,
        default="auto",
        help="how data travels between ranks (default: nccl on a GPU, else gloo)",
    )
    add(
        "--timeout",
        metavar="S",
        type=number,
        default=120.0,
        help="how long to wait for others (default: 120)",
    )
    add("--device", choices=DEVICES, default="auto", help="(default: the GPU with nccl, else the CPU)")
    add("--threads", metavar="N", type=count, help="CPU threads (default: $OMP_NUM_THREADS or 1)")
    return parser


def training(description: str) -> Parser:
    """A parser with the arguments of Options."""
    parser = starting(description)
    add_training(parser)
    return parser


def add_training(parser: Parser, *, lr: float = 0.004, of: str = "rank") -> None:
    """Add what to train on and how; `of` is what takes a batch in each step."""
    add = parser.add_argument_group("training").add_argument
    add("--data", metavar="DIR", type=Path, help="MNIST's four files, .gz or not (default: the digits)")
    add("--epochs", metavar="N", type=count, default=8, help="passes over the data (default: 8)")
    add("--batch-size", metavar="N", type=count, default=32, help=f"per step and {of} (default: 32)")
    add("--lr", metavar="X", type=number, default=lr, help="learning rate at the start (default: %(default)s)")
    add("--seed", metavar="N", type=int, default=1, help=f"same seed and {of}s, same losses (default: 1)")
    add("--log-every", metavar="N", type=count, default=10, help="steps between loss lines (default: 10)")


def count(text: str) -> int:
    """A whole number above 0, as argparse wants it."""
    value = int(text) if text.isascii() and text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def number(text: str) -> float:
    """A number above 0, as argparse wants it."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def threads(environ: Mapping[str, str]) -> int:
    """One thread per rank unless the environment says otherwise, as under torchrun.

    More would make the ranks of one host fight for its cores, and the order of sums, so the loss, would
    depend on how many cores a host has.
    """
    value = environ.get("OMP_NUM_THREADS", "")
    return int(value) if value.isdecimal() and int(value) else 1
