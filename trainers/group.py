"""Joins the process group and names the ranks that did not come; says what goes wrong in one line."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from distui.trainers import checkpoint, idx, memory
    from distui.trainers.env import Process
else:  # run as a script: the modules beside this file, whatever its folder is called
    import checkpoint
    import idx
    import memory
    from env import Process

import torch
import torch.distributed as dist

_PAUSE = 0.2
"""Seconds between two tries to reach rank 0."""


class NotAvailable(Exception):
    """This torch or this host lacks what was asked for: says what, and what to use instead."""


class JoinFailed(Exception):
    """The ranks did not come together: says where they were to meet and which are missing."""


@contextmanager
def told_in_words(place: Process) -> Iterator[None]:
    """Ends the process with one line where the block raises what a user can mend; bugs keep their traceback.

    Raises:
        SystemExit: with 2 for a request that can't be met here, 1 where ranks or memory were missing.
    """
    try:
        yield
    except (idx.DataError, checkpoint.CheckpointError, NotAvailable) as problem:
        code, words = 2, str(problem)
    except JoinFailed as problem:
        code, words = 1, str(problem)
    except (RuntimeError, MemoryError) as problem:
        found = memory.explain(problem)
        if found is None:
            raise
        code, words = 1, found
    else:
        return
    print(f"{place.name} error: {words}\n", end="", file=sys.stderr, flush=True)
    raise SystemExit(code)


def choose(backend: str, device: str, local_rank: int) -> tuple[str, torch.device]:
    """The backend and the device to use: this rank's GPU with nccl, else the CPU unless CUDA is asked for.

    Raises:
        NotAvailable: this torch has no such backend, or there is no such GPU.
    """
    if backend == "auto":
        has_gpu = torch.cuda.is_available() and dist.is_nccl_available()
        backend = "nccl" if has_gpu and device != "cpu" else "gloo"
    if not dist.is_backend_available(backend):
        has = [name for name in ("gloo", "nccl", "mpi") if dist.is_backend_available(name)]
        raise NotAvailable(f"torch {torch.__version__} has no backend {backend}; it has {', '.join(has)}")
    if device == "cuda" or backend == "nccl":
        return backend, _gpu(local_rank)
    return backend, torch.device("cpu")


def _gpu(local_rank: int) -> torch.device:
    """The GPU of this rank; the only one when each rank is shown just its own."""
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not seen:
        raise NotAvailable("this rank sees no GPU; give it one, or use --backend gloo --device cpu")
    if seen > 1 and local_rank >= seen:
        raise NotAvailable(f"local rank {local_rank} has no GPU, since it sees {seen}; start fewer ranks on this host")
    index = local_rank if seen > 1 else 0
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


@contextmanager
def joined(place: Process, backend: str, device: torch.device) -> Iterator[None]:
    """In the block this process is one rank of the group; after it, also after an error, the group is gone.

    Raises:
        JoinFailed: some rank did not come in time, or the ranks could not connect to each other.
    """
    if backend == "mpi":
        _join_mpi(place)
    else:
        _join(place, backend, device)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _join(place: Process, backend: str, device: torch.device) -> None:
    store = _meet(place)
    try:
        dist.init_process_group(
            backend,
            store=store,
            rank=place.rank,
            world_size=place.world_size,
            timeout=timedelta(seconds=place.timeout),
            device_id=device if backend == "nccl" else None,
        )
    except RuntimeError as problem:
        variable = f"{backend.upper()}_SOCKET_IFNAME"
        raise JoinFailed(
            f"all ranks are here, but {backend} could not connect them: {_first_line(problem)}; {variable} names "
            f"the interface to use, now {os.environ.get(variable) or 'not set'}"
        ) from problem


def _meet(place: Process) -> dist.Store:
    """The store all ranks share, once all are there.

    `init_process_group(init_method=...)` does the same, but does not name the ranks that are missing.
    """
    deadline = time.monotonic() + place.timeout
    try:
        store = _store(place, deadline)
    except (RuntimeError, OSError) as problem:
        raise JoinFailed(f"{_no_store(place)} ({_first_line(problem)})") from problem
    # torchrun keeps one store over its restarts, so each attempt needs keys of its own
    store = dist.PrefixStore(f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    _call_the_roll(place, store, deadline)
    return store


def _store(place: Process, deadline: float) -> dist.Store:
    timeout = timedelta(seconds=place.timeout)
    match place.meeting:
        case None:
            return dist.HashStore()
        case Path() as path:
            store = dist.FileStore(str(path), place.world_size)
            store.set_timeout(timeout)
            return store
        case host, port:
            master = _listens(place)
            if not master:
                _wait_until_open(host, port, deadline)
            return dist.TCPStore(host, port, None, is_master=master, timeout=timeout, wait_for_workers=False)


def _listens(place: Process) -> bool:
    """Rank 0 opens the port of the store, unless torchrun's agent has."""
    return place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


def _wait_until_open(host: str, port: int, deadline: float) -> None:
    """Wait for rank 0, which may start later; TCPStore would wait too, but fill the log with stack traces."""
    while True:
        try:
            left = deadline - time.monotonic()
            socket.create_connection((host, port), timeout=max(left, 0.1)).close()
            return
        except OSError:
            if time.monotonic() + _PAUSE > deadline:
                raise
            time.sleep(_PAUSE)


def _call_the_roll(place: Process, store: dist.Store, deadline: float) -> None:
    """Say that this rank is here, and wait for all others."""
    if store.add(f"here/{place.rank}", 1) > 1:
        raise JoinFailed(
            f"a rank {place.rank} has already joined at {place.meeting_text}: either two processes have this "
            "rank, or the address was used before; give every run a new port or file"
        )
    keys = [f"here/{rank}" for rank in range(place.world_size)]
    try:
        store.wait(keys, timedelta(seconds=max(deadline - time.monotonic(), 0.1)))
    except RuntimeError as problem:
        raise JoinFailed(_absence(place, store, keys)) from problem


def _absence(place: Process, store: dist.Store, keys: list[str]) -> str:
    """Which ranks did not come, as far as the store can still tell."""
    try:
        missing = [str(rank) for rank, key in enumerate(keys) if not store.check([key])]
    except RuntimeError:
        return f"rank 0, which keeps {place.meeting_text}, ended before all ranks were there; see its output"
    who = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {', '.join(missing)}"
    reach = "share this folder" if isinstance(place.meeting, Path) else "reach this address"
    return (
        f"{who} of {place.world_size} did not come to {place.meeting_text} within {place.timeout:g} s: "
        f"see what they print, and whether their hosts {reach}"
    )


def _no_store(place: Process) -> str:
    where = place.meeting_text
    match place.meeting:
        case host, port if _listens(place):
            return f"could not listen at {where}: is port {port} free, and is {host} this host?"
        case _, _:
            return f"found no rank 0 at {where} within {place.timeout:g} s: does it run, and is that its host?"
        case _:
            return f"could not use {where}: is its folder writable, and on a file system with locks?"


def _join_mpi(place: Process) -> None:
    """MPI brings the ranks together itself, so it must have been what started them."""
    dist.init_process_group("mpi")
    found = dist.get_rank(), dist.get_world_size()
    if found != (place.rank, place.world_size):
        dist.destroy_process_group()
        raise JoinFailed(
            f"MPI says this is rank {found[0]} of {found[1]}: start the ranks with mpirun, in the same order"
        )


def _first_line(problem: BaseException) -> str:
    return str(problem).strip().split("\n")[0].rstrip(".")
