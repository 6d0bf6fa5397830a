"""What a launcher tells this process: which one it is among all, and where they meet.

Torch programs read RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, which torchrun and distui set
(https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables), or what mpirun sets. TensorFlow
programs read TF_CONFIG (https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable).
Needs only the standard library. Every EnvError is one line that says what is missing and what to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

TF_TYPES = ("chief", "worker", "ps", "evaluator")
"""The roles TensorFlow knows; of chief and evaluator there is at most one."""

_ALONE = '{"cluster": {"worker": ["localhost:12345"]}, "task": {"type": "worker", "index": 0}}'
_BY_MPIRUN = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
}
"""What Open MPI and MPICH call them."""


class EnvError(Exception):
    """An argument or a variable is missing or wrong: says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Process:
    """This process among the others, and where they meet."""

    rank: int
    world_size: int
    local_rank: int
    """Rank on this host, which picks the GPU."""
    meeting: tuple[str, int] | Path | None
    """Host and port that rank 0 or torchrun listens on, or a file all ranks share; None: no others, or MPI."""
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

    def say(self, text: str) -> None:
        """Print a line of this rank, at once and in one piece: ranks often share one pipe."""
        print(f"{self.name} {text}\n", end="", flush=True)


def place(
    environ: Mapping[str, str],
    *,
    rank: str | None = None,
    world_size: str | None = None,
    local_rank: str | None = None,
    init_method: str = "env://",
    by_mpi: bool = False,
    timeout: float,
) -> Process:
    """The place of this process by its command line, where that is silent by `environ`.

    Args:
        environ: the environment, usually os.environ.
        rank, world_size, local_rank: as given on the command line.
        init_method: `tcp://HOST:PORT`, `file:///PATH` or `env://`, for MASTER_ADDR and MASTER_PORT.
        by_mpi: MPI brings the ranks together, so no place to meet is needed.
        timeout: seconds to wait for other ranks.

    Raises:
        EnvError: something is missing or wrong.
    """
    count = _integer("--world-size", world_size, "WORLD_SIZE", environ, None)
    if count < 1:
        raise EnvError(f"the world size is {count}: it counts all ranks, so it is at least 1")
    mine = _integer("--rank", rank, "RANK", environ, 0 if count == 1 else None)
    if not 0 <= mine < count:
        raise EnvError(f"rank {mine} does not exist in a world of {count}: they go from 0 to {count - 1}")
    local = _integer("--local-rank", local_rank, "LOCAL_RANK", environ, 0)
    if local < 0:
        raise EnvError(f"local rank {local} does not exist: local ranks start from 0")
    return Process(mine, count, local, _meeting(init_method, environ, needed=count > 1 and not by_mpi), timeout)


def _meeting(url: str, environ: Mapping[str, str], *, needed: bool) -> tuple[str, int] | Path | None:
    """Where the ranks meet, by the init method `url`; None for env:// that names no place where none is needed."""
    match urlsplit(url).scheme:
        case "env":
            return _from_environment(environ, needed)
        case "tcp":
            return _from_tcp(url)
        case "file":
            return _from_file(url)
        case _:
            raise EnvError(f"--init-method {url}: give tcp://HOST:PORT, file:///PATH or env://")


def _from_environment(environ: Mapping[str, str], needed: bool) -> tuple[str, int] | None:
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environ.get(name)]
    if not needed and len(missing) == 2:
        return None
    if missing:
        raise EnvError(
            f"--init-method env:// needs {' and '.join(missing)} in the environment: the address of "
            "rank 0's host and a free port there; or give --init-method tcp://HOST:PORT"
        )
    port = environ["MASTER_PORT"]
    if not _is_port(port):
        raise EnvError(f"MASTER_PORT={port} in the environment: a port is a number from 1 to 65535")
    return environ["MASTER_ADDR"], int(port)


def _from_tcp(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as problem:
        raise EnvError(f"--init-method {url}: {problem}") from None
    if not host or not port:
        raise EnvError(f"--init-method {url}: give the address of rank 0's host and a port, as tcp://10.0.0.1:29500")
    return host, port


def _from_file(url: str) -> Path:
    parts = urlsplit(url)
    path = Path(parts.path)
    if parts.netloc or not path.name:
        raise EnvError(f"--init-method {url}: give three slashes and an absolute path, as file:///shared/meeting")
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"can't be made: this host has no folder {path.parent}"
        raise EnvError(f"--init-method {url}: {path} {what}; name a new file in a folder that all ranks share")
    return path


def _integer(flag: str, text: str | None, variable: str, environ: Mapping[str, str], default: int | None) -> int:
    """The whole number given by `flag`, else by `variable` or what mpirun calls it, else `default`."""
    if text is not None:
        return _whole(flag, text)
    for name in (variable, *_BY_MPIRUN[variable]):
        if value := environ.get(name, ""):
            return _whole(name, value)
    if default is None:
        raise EnvError(
            f"{flag} is not given and {variable} is not in the environment{_other_launcher(environ)}: start this "
            "under a launcher (distui, torchrun), or alone with --world-size 1"
        )
    return default


def _other_launcher(environ: Mapping[str, str]) -> str:
    """What there is instead, when another launcher, or one for other programs, started this."""
    if environ.get("TF_CONFIG"):
        return ", only TF_CONFIG, which TensorFlow programs read (in distui `launcher: env`, not `tf`)"
    if environ.get("SLURM_PROCID"):
        return ' (under srun give --rank "$SLURM_PROCID" --world-size "$SLURM_NTASKS" --local-rank "$SLURM_LOCALID")'
    return ""


def _whole(source: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise EnvError(f"{source} is {value!r}, which is not a whole number") from None


@dataclass(frozen=True, slots=True)
class TfTask:
    """This process in a TensorFlow cluster."""

    cluster: Mapping[str, tuple[str, ...]]
    """`host:port` of every task, by type, in the order of their index."""
    type: str
    """chief, worker, ps or evaluator."""
    index: int

    @property
    def name(self) -> str:
        """What this task calls itself in its output."""
        return f"{self.type} {self.index}/{len(self.cluster[self.type])}"

    @property
    def address(self) -> str:
        """`host:port` that this task listens on."""
        return self.cluster[self.type][self.index]


def tf_task(environ: Mapping[str, str]) -> TfTask:
    """The place of this process in its cluster, by TF_CONFIG.

    TensorFlow checks some of this too, but says it as a KeyError or waits for ever.

    Raises:
        EnvError: TF_CONFIG is missing, or is not what TensorFlow's resolver takes.
    """
    text = environ.get("TF_CONFIG", "")
    if not text:
        instead = ", only RANK, which torch programs read" if environ.get("RANK") else ""
        raise EnvError(
            f"TF_CONFIG is not in the environment{instead}: start this under a launcher (in distui `launcher: tf`), "
            f"or alone with TF_CONFIG='{_ALONE}'"
        )
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise EnvError(f"TF_CONFIG is not JSON ({problem}): it looks like {_ALONE}") from None
    if not isinstance(value, dict) or not isinstance(value.get("cluster"), dict):
        raise EnvError(f"TF_CONFIG has no cluster: it looks like {_ALONE}")
    cluster = {kind: _addresses(kind, found) for kind, found in value["cluster"].items()}
    _check_cluster(cluster)
    return TfTask(cluster, *_task(value.get("task"), cluster))


def _addresses(kind: str, found: object) -> tuple[str, ...]:
    if kind not in TF_TYPES:
        raise EnvError(f"TF_CONFIG's cluster has a {kind!r}: TensorFlow knows {', '.join(TF_TYPES)}")
    if not isinstance(found, list) or not found:
        raise EnvError(f'TF_CONFIG\'s cluster has no list of addresses for {kind}: give ["HOST:PORT", ...]')
    for address in found:
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not _is_port(port):
            raise EnvError(f"TF_CONFIG's cluster has {address!r} as a {kind}: give HOST:PORT")
    if len(found) > 1 and kind in ("chief", "evaluator"):
        raise EnvError(f"TF_CONFIG's cluster has {len(found)} of {kind}: there is at most one")
    return tuple(found)


def _check_cluster(cluster: Mapping[str, tuple[str, ...]]) -> None:
    """No two tasks can listen on one port."""
    seen: set[str] = set()
    for address in (address for addresses in cluster.values() for address in addresses):
        if address in seen:
            raise EnvError(f"TF_CONFIG's cluster has {address} twice: every task needs a port of its own")
        seen.add(address)


def _task(found: object, cluster: Mapping[str, tuple[str, ...]]) -> tuple[str, int]:
    kind, index = (found.get("type"), found.get("index")) if isinstance(found, dict) else (None, None)
    if not isinstance(kind, str) or kind not in cluster:
        raise EnvError(f"TF_CONFIG's task has the type {kind!r}: its cluster has {', '.join(cluster) or 'nothing'}")
    count = len(cluster[kind])
    if isinstance(index, str) and index.isdecimal():
        index = int(index)  # TensorFlow takes both
    if type(index) is not int or not 0 <= index < count:
        raise EnvError(f"TF_CONFIG's task has the index {index!r}: {kind} goes from 0 to {count - 1}")
    return kind, index


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text) < 65536
