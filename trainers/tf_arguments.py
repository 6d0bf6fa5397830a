"""The command lines of the TensorFlow trainers. Imported before TensorFlow, whose first words would fill the log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING or __package__:
    from distui.trainers import arguments, env, idx
else:  # run as a script: the modules beside this file, whatever its folder is called
    import arguments
    import env
    import idx

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors; what goes wrong is raised as well
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # its sums come in another order on another CPU


@dataclass(frozen=True, slots=True)
class Options:
    """How to train."""

    data: Path | None
    """Folder with the four IDX files; None for the digits."""
    epochs: int
    batch_size: int
    """Images per step and replica."""
    lr: float
    seed: int
    log_every: int
    """Steps between two lines of loss."""
    threads: int
    """CPU threads of one operation."""


Kind = TypeVar("Kind", bound=Options)


def training(description: str, *, lr: float = 0.004) -> arguments.Parser:
    """A parser with the arguments of Options; `lr` is the learning rate without --lr."""
    parser = arguments.Parser(description=description, allow_abbrev=False)
    arguments.add_training(parser, lr=lr, of="replica")
    parser.add_argument(
        "--threads", metavar="N", type=arguments.count, help="CPU threads (default: $OMP_NUM_THREADS or 1)"
    )
    return parser


def parse(
    parser: arguments.Parser,
    kind: type[Kind],
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Kind:
    """What is given in `argv` (default: this process's arguments); every field of `kind` is an argument.

    Raises:
        SystemExit: with code 2 and one line on stderr when an argument is wrong.
    """
    given = parser.parse_args(argv)
    given.threads = given.threads or arguments.threads(environ)
    return kind(**{field.name: getattr(given, field.name) for field in fields(kind)})


def task(parser: arguments.Parser, environ: Mapping[str, str] = os.environ) -> env.TfTask:
    """This process in its cluster, by TF_CONFIG.

    Raises:
        SystemExit: with code 2 and one line on stderr when TF_CONFIG is missing or wrong.
    """
    try:
        return env.tf_task(environ)
    except env.EnvError as problem:
        parser.error(str(problem))


@contextmanager
def told_in_words(name: str) -> Iterator[None]:
    """In the block, what is wrong with the data, the devices or the cluster ends the process with one line.

    Raises:
        SystemExit: with code 2 for the data and what was asked for, 1 when another task is gone.
    """
    try:
        yield
    except idx.DataError as problem:
        _end(name, problem, 2)
    except Exception as problem:
        import tensorflow as tf

        if not isinstance(problem, tf.errors.OpError):
            raise
        _end(name, problem, 1)


def _end(name: str, problem: Exception, code: int) -> NoReturn:
    print(f"{name} error: {str(problem).strip().partition(chr(10))[0]}\n", end="", file=sys.stderr, flush=True)
    sys.exit(code)


def say(name: str, text: str) -> None:
    """Print a line of this task, at once and in one piece: tasks often share one pipe."""
    print(f"{name} {text}\n", end="", flush=True)
