"""The command line of a trainer: which rank this process is, where the ranks meet, how to train.

Every argument that a launcher knows defaults from the variables that torchrun and distui set
(https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables).
Needs only the standard library.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

BACKENDS = ("auto", "gloo", "nccl", "mpi")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Place:
    """This process among the others, and where they meet."""

    rank: int
    world_size: int
    local_rank: int
    """Rank on this host, which picks the GPU."""
    meeting: tuple[str, int] | Path | None
    """Host and port that rank 0 or torchrun listens on, or a file all ranks share; None: no others."""
    timeout: float
    """Seconds to wait for the other ranks, at the start and in every step."""

    @property
    def name(self) -> str:
        """What this rank calls itself in its output."""
        return f"rank {self.rank}/{self.world_size}"

    @property
    def meeting_text(self) -> str:
        """Where the ranks meet, as the user writes it."""
        match self.meeting:
            case None:
                return "none"
            case Path():
                return f"file://{self.meeting}"
            case host, port:
                return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line and the environment together say."""

    place: Place
    backend: str
    """gloo, nccl or mpi, or auto: nccl where there is a GPU to use, else gloo."""
    device: str
    """auto, cpu or cuda."""
    data: Path | None
    """Folder with the four IDX files; None for the digits."""
    epochs: int
    batch_size: int
    """Images per step and rank."""
    lr: float
    seed: int
    log_every: int
    """Steps between two lines of loss."""
    threads: int
    """CPU threads of this rank."""


class _Wrong(Exception):
    """One argument or variable is wrong."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line: a launcher shows the last lines of a rank, not its usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def parse(argv: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ) -> Options:
    """The options given in `argv` (default: this process's arguments), filled up from `environ`.

    Raises:
        SystemExit: with code 2 and one line on stderr when an argument or a variable is wrong or missing.
    """
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        return _options(given, environ)
    except _Wrong as wrong:
        parser.error(str(wrong))


def _parser() -> _Parser:
    parser = _Parser(description="Train a small network on handwritten digits.", allow_abbrev=False)
    _add_place(parser.add_argument_group("where this rank is (a launcher fills these in)"))
    _add_training(parser.add_argument_group("training"))
    return parser


def _add_place(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
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
        help="how the ranks exchange gradients (default: nccl on a GPU, else gloo)",
    )
    add(
        "--timeout",
        metavar="S",
        type=_number,
        default=120.0,
        help="how long to wait for others (default: 120)",
    )


def _add_training(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--data", metavar="DIR", type=Path, help="MNIST's four files, .gz or not (default: the digits)")
    add("--device", choices=DEVICES, default="auto", help="(default: the GPU with nccl, else the CPU)")
    add("--epochs", metavar="N", type=_count, default=8, help="passes over the data (default: 8)")
    add("--batch-size", metavar="N", type=_count, default=32, help="per step and rank (default: 32)")
    add("--lr", metavar="X", type=_number, default=0.004, help="learning rate at the start (default: 0.004)")
    add("--seed", metavar="N", type=int, default=1, help="same seed and ranks, same losses (default: 1)")
    add("--log-every", metavar="N", type=_count, default=10, help="steps between loss lines (default: 10)")
    add("--threads", metavar="N", type=_count, help="CPU threads (default: $OMP_NUM_THREADS or 1)")


def _options(given: argparse.Namespace, environ: Mapping[str, str]) -> Options:
    if given.device == "cpu" and given.backend == "nccl":
        raise _Wrong("--backend nccl moves data between GPUs only: use --backend gloo with --device cpu")
    return Options(
        place=_place(given, environ),
        backend=given.backend,
        device=given.device,
        data=given.data,
        epochs=given.epochs,
        batch_size=given.batch_size,
        lr=given.lr,
        seed=given.seed,
        log_every=given.log_every,
        threads=given.threads or _threads(environ),
    )


def _place(given: argparse.Namespace, environ: Mapping[str, str]) -> Place:
    world_size = _integer("--world-size", given.world_size, "WORLD_SIZE", environ, None)
    if world_size < 1:
        raise _Wrong(f"the world size is {world_size}: it counts all ranks, so it is at least 1")
    rank = _integer("--rank", given.rank, "RANK", environ, 0 if world_size == 1 else None)
    if not 0 <= rank < world_size:
        raise _Wrong(f"rank {rank} does not exist in a world of {world_size}: they go from 0 to {world_size - 1}")
    local_rank = _integer("--local-rank", given.local_rank, "LOCAL_RANK", environ, 0)
    if local_rank < 0:
        raise _Wrong(f"local rank {local_rank} does not exist: local ranks start from 0")
    meeting = meeting_place(given.init_method, environ, alone=world_size == 1)
    return Place(rank, world_size, local_rank, meeting, given.timeout)


def meeting_place(url: str, environ: Mapping[str, str], *, alone: bool) -> tuple[str, int] | Path | None:
    """Where the ranks meet, by the init method `url`; None for env:// that names no place to a rank alone."""
    match urlsplit(url).scheme:
        case "env":
            return _from_environment(environ, alone)
        case "tcp":
            return _from_tcp(url)
        case "file":
            return _from_file(url)
        case _:
            raise _Wrong(f"--init-method {url}: give tcp://HOST:PORT, file:///PATH or env://")


def _from_environment(environ: Mapping[str, str], alone: bool) -> tuple[str, int] | None:
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environ.get(name)]
    if alone and len(missing) == 2:
        return None
    if missing:
        raise _Wrong(
            f"--init-method env:// needs {' and '.join(missing)} in the environment: the address of "
            "rank 0's host and a free port there; or give --init-method tcp://HOST:PORT"
        )
    port = environ["MASTER_PORT"]
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise _Wrong(f"MASTER_PORT={port} in the environment: a port is a number from 1 to 65535")
    return environ["MASTER_ADDR"], int(port)


def _from_tcp(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as problem:
        raise _Wrong(f"--init-method {url}: {problem}") from None
    if not host or not port:
        raise _Wrong(f"--init-method {url}: give the address of rank 0's host and a port, as tcp://10.0.0.1:29500")
    return host, port


def _from_file(url: str) -> Path:
    parts = urlsplit(url)
    path = Path(parts.path)
    if parts.netloc or not path.name:
        raise _Wrong(f"--init-method {url}: give three slashes and an absolute path, as file:///shared/meeting")
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"can't be made: this host has no folder {path.parent}"
        raise _Wrong(f"--init-method {url}: {path} {what}; name a new file in a folder that all ranks share")
    return path


def _integer(flag: str, text: str | None, variable: str, environ: Mapping[str, str], default: int | None) -> int:
    """The whole number given by `flag`, else by `variable`, else `default`."""
    source, value = (flag, text) if text is not None else (variable, environ.get(variable, ""))
    if value:
        return _whole(source, value)
    if default is None:
        raise _Wrong(
            f"{flag} is not given and {variable} is not in the environment: start this under a launcher "
            "(distui, torchrun), or alone with --world-size 1"
        )
    return default


def _whole(source: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise _Wrong(f"{source} is {value!r}, which is not a whole number") from None


def _threads(environ: Mapping[str, str]) -> int:
    """One thread per rank unless the environment says otherwise, as under torchrun.

    More would make the ranks of one host fight for its cores, and the order of sums, so the loss, would
    depend on how many cores a host has.
    """
    value = environ.get("OMP_NUM_THREADS", "")
    return int(value) if value.isdecimal() and int(value) else 1


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value
