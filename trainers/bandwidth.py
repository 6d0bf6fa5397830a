"""Measures how fast the ranks exchange data: time and bandwidth of each operation, for messages of growing size.

    torchrun --nproc-per-node 2 -- bandwidth.py --max 64M --json bandwidth.json

Sizes, algorithm bandwidth and bus bandwidth are what nccl-tests means by them
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), so that the figures can be compared. Every
result is checked. At the end each rank says which interfaces of its host the bytes went over. README.md has all
arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # no word of each try to reach rank 0
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # not needed here

import torch
import torch.distributed as dist
from torch import Tensor

ITEM = 4  # bytes of a float32
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv")
Row = dict[str, Any]

# newer torch has other names for two of them, and warns at the old ones
all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


def main() -> None:
    """Measure all; ends with 1 if a result was wrong, the other exit codes are in README.md."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(usage="%(prog)s [options]", formatter_class=shown, allow_abbrev=False)
    args = arguments(parser)
    end_on_signal(f"rank {args.rank}/{args.world_size}")
    if args.world_size == 1:
        parser.error("one rank alone has nobody to exchange data with: start two or more")
    before = traffic()
    try:
        device = join(args)
    except ValueError as problem:  # what was asked for is not there
        parser.error(str(problem))
    try:
        torch.set_num_threads(args.threads)
        rows = measure_all(args, device)
        dist.barrier()  # rank 0 keeps the store, so no rank may still need it when rank 0 leaves
        say(f"traffic of this host: {text_of(before, traffic())}")
        about = {"backend": dist.get_backend(), "device": device.type, "world_size": args.world_size}
        if args.json and dist.get_rank() == 0:
            try:
                args.json.write_text(json.dumps({**about, "torch": torch.__version__, "rows": rows}) + "\n")
            except OSError as problem:
                parser.error(f"can't write {args.json}: {problem}")
    finally:
        dist.destroy_process_group()
    sys.exit(any(row["wrong"] for row in rows))


def measure_all(args: argparse.Namespace, device: torch.device) -> list[Row]:
    """Every operation with every size; rank 0 prints each as a line of a table."""
    rows = []
    show(f"{'operation':<15}{'bytes':>12}{'time us':>12}{'algbw GB/s':>12}{'busbw GB/s':>12}{'wrong':>8}")
    for name in args.ops:
        size = args.min
        while size <= args.max:
            row = measure(name, size, args.warmup, args.iters, device)
            rows.append(row)
            begin = f"{name:<15}{row['size']:>12,}"
            if row["time_us"] is None:
                show(f"{begin}   not supported by this backend")
                break
            show(f"{begin}{row['time_us']:>12.1f}{row['algbw']:>12.4f}{row['busbw']:>12.4f}{row['wrong']:>8}")
            size *= args.factor
    return rows


def show(line: str) -> None:
    """Rank 0 prints a line of the table."""
    if dist.get_rank() == 0:
        print(line, flush=True)


def measure(name: str, size: int, warmup: int, iters: int, device: torch.device) -> Row:
    """Time an operation with messages of about `size` bytes, on all ranks at once.

    A row has bytes as nccl-tests counts them, microseconds of one call as the mean over calls and ranks (None: the
    backend can't do it), 10^9 bytes a second, and the items that were wrong over all ranks.
    """
    rank, count = dist.get_rank(), dist.get_world_size()
    part = max(1, size // ITEM // count)  # items; as nccl-tests does, sizes are cut to equal parts
    whole = part * count if name in ("all_gather", "reduce_scatter") else max(1, size // ITEM)
    sent = pattern(part if name == "all_gather" else whole, rank, device)
    got = torch.zeros(part if name == "reduce_scatter" else whole, device=device)
    if name in ("all_reduce", "broadcast"):
        got = sent  # these work in one tensor
    row = {"op": name, "size": whole * ITEM, "time_us": None, "algbw": None, "busbw": None, "wrong": 0}
    try:
        call(name, sent, got)
    except (RuntimeError, NotImplementedError) as problem:
        if "support" not in str(problem):
            raise
        return row
    wrong = (got != expected(name, whole, rank, count, device)).sum().double()
    sent.zero_()  # sums that go round would overflow
    for _ in range(warmup):
        call(name, sent, got)
    seconds = timed(lambda: call(name, sent, got), iters, device)
    sums = torch.tensor([seconds / count, wrong.item()], dtype=torch.float64, device=device)
    dist.all_reduce(sums)
    mean, all_wrong = sums.tolist()
    algbw = whole * ITEM / mean / 1e9
    return row | {"time_us": mean * 1e6, "algbw": algbw, "busbw": algbw * bus(name, count), "wrong": int(all_wrong)}


def call(name: str, sent: Tensor, got: Tensor) -> None:
    """Do the operation, from what this rank gives to what it gets."""
    match name:
        case "all_reduce":
            dist.all_reduce(got)
        case "all_gather":
            all_gather(got, sent)
        case "reduce_scatter":
            reduce_scatter(got, sent)
        case "broadcast":
            dist.broadcast(got, src=0)
        case _:  # send_recv: to the next rank and from the one before, all at once
            rank, count = dist.get_rank(), dist.get_world_size()
            sending = dist.P2POp(dist.isend, sent, (rank + 1) % count)
            receiving = dist.P2POp(dist.irecv, got, (rank - 1) % count)
            for work in dist.batch_isend_irecv([sending, receiving]):
                work.wait()


def expected(name: str, length: int, rank: int, count: int, device: torch.device) -> Tensor:
    """What a rank must get of messages of `length` items."""
    if name == "all_gather":
        return torch.cat([pattern(length // count, each, device) for each in range(count)])
    if name in ("broadcast", "send_recv"):
        return pattern(length, 0 if name == "broadcast" else (rank - 1) % count, device)
    total = pattern(length, 0, device) * (count * (count + 1) // 2)  # rank r gives r + 1 times what rank 0 gives
    return total.chunk(count)[rank] if name == "reduce_scatter" else total


def pattern(length: int, rank: int, device: torch.device) -> Tensor:
    """Values that tell ranks and places apart and whose sums are exact in float32 (below 2^24 up to 360 ranks)."""
    return (1 + torch.arange(length, dtype=torch.float32, device=device) % 251) * (rank + 1)


def bus(name: str, count: int) -> float:
    """Bus bandwidth divided by algorithm bandwidth: what each rank's link carries, whatever the number of ranks."""
    share = (count - 1) / count
    return {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share}.get(name, 1)


def timed(work: Callable[[], None], iters: int, device: torch.device) -> float:
    """Seconds of one call, mean over `iters`, from when all ranks are ready until this rank is through."""
    dist.barrier()
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None  # a GPU works on after the call
    wait()
    started = time.perf_counter()
    for _ in range(iters):
        work()
    wait()
    return (time.perf_counter() - started) / iters


def traffic(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> dict[str, tuple[int, int]]:
    """Bytes sent and received so far by each interface, and by each port of InfiniBand; Linux counts them."""
    found = {}
    table = proc / "net/dev"  # two lines of head, then `name: received ... (8 columns) sent ...`
    for line in table.read_text().splitlines()[2:] if table.exists() else ():
        name, _, columns = line.rpartition(":")
        found[name.strip()] = int(columns.split()[8]), int(columns.split()[0])
    for port in sorted(sys.glob("class/infiniband/*/ports/*/counters")):  # which the interfaces don't see
        sent, received = (port / "port_xmit_data", port / "port_rcv_data")
        if sent.exists() and received.exists():  # in words of 4 bytes
            found[f"{port.parts[-4]}:{port.parts[-2]}"] = 4 * int(sent.read_text()), 4 * int(received.read_text())
    return found


def text_of(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> str:
    """What each interface carried in MB (10^6 bytes), those with the most first, without those that were idle."""
    carried = [(n, after[n][0] - before[n][0], after[n][1] - before[n][1]) for n in after if n in before]
    busy = sorted((row for row in carried if row[1] + row[2] > 0), key=lambda row: -row[1] - row[2])
    parts = [f"{name} {sent / 1e6:,.1f} MB out {received / 1e6:,.1f} MB in" for name, sent, received in busy]
    return ", ".join(parts) or "nothing that can be seen here"


def arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line. What a launcher knows is in the environment: as torch calls it, or Open MPI and MPICH."""
    add = parser.add_argument
    size = env("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    add("--rank", type=int, default=env("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"), help="this process, from 0")
    add("--world-size", type=count, default=size, required=not size, help="number of processes")
    local = env("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID") or 0
    add("--local-rank", "--local_rank", type=int, default=local, help="this process on its host; picks the GPU")
    add("--init-method", default="env://", help="tcp://HOST:PORT of rank 0, file:///PATH of a new file, or env://")
    add("--backend", choices=("auto", "gloo", "nccl", "mpi"), default="auto", help="auto: nccl on a GPU, else gloo")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: the GPU with nccl, else the CPU")
    add("--timeout", type=positive, default=120, help="seconds to wait for other ranks")
    threads = (env("OMP_NUM_THREADS") or "1").partition(",")[0]  # 4,2: four, and two in each of them
    add("--threads", type=count, default=threads, help="CPU threads of a rank")
    add("--ops", type=operations, default=",".join(OPERATIONS), help="what to measure")
    add("--min", type=size_in_bytes, default="1K", help="bytes of the smallest message")
    add("--max", type=size_in_bytes, default="64M", help="bytes of the largest message")
    add("--factor", type=count, default=4, help="from one size to the next")
    add("--warmup", type=count, default=5, help="calls before timing")
    add("--iters", type=count, default=20, help="calls timed")
    add("--json", type=Path, help="where rank 0 writes the figures")
    args = parser.parse_args()
    if args.factor < 2:
        parser.error("argument --factor: from 2 on, or the sizes would never end")
    if args.min > args.max:
        parser.error(f"--min is {args.min:,} bytes and --max {args.max:,}: there is nothing to measure")
    args.rank = 0 if args.rank is None and args.world_size == 1 else args.rank
    if args.rank is None or not 0 <= args.rank < args.world_size:
        parser.error(f"--rank or $RANK is needed, from 0 to {args.world_size - 1}; it is {args.rank}")
    if not args.init_method.startswith(("tcp://", "file:///", "env://")):
        parser.error("argument --init-method: give tcp://HOST:PORT, file:///PATH or env://")
    folder = Path(args.init_method.removeprefix("file://")).parent
    if args.init_method.startswith("file:///") and not folder.is_dir():  # torch would wait for it
        parser.error(f"argument --init-method: this host has no folder {folder}")
    if args.json and args.rank == 0 and not args.json.parent.is_dir():  # said now, not after everything is measured
        parser.error(f"argument --json: rank 0's host has no folder {args.json.parent}")
    return args


def env(*names: str) -> str | None:
    """The first of these variables that is there."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def count(text: str) -> int:
    """A whole number above 0, of 31 bits: what libraries of C take."""
    if not 0 < int(text) < 1 << 31:
        raise ValueError
    return int(text)


def positive(text: str) -> float:
    """A number above 0 that is not infinite, nor longer than a timeout may be."""
    if not 0 < float(text) < 1e9:
        raise ValueError
    return float(text)


def size_in_bytes(text: str) -> int:
    """A number of bytes, as 4096, 64K, 8M or 1G."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    return count(text if unit == 1 else text[:-1]) * unit


def operations(text: str) -> list[str]:
    """Names of operations, with commas between them."""
    names = text.split(",")
    if unknown := [name for name in names if name not in OPERATIONS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(OPERATIONS)}")
    return names


def join(args: argparse.Namespace) -> torch.device:
    """Become a rank of the group; the device to compute on. ValueError says what this torch or host lacks."""
    gpus = 0 if args.device == "cpu" else torch.cuda.device_count()
    backend = args.backend
    if backend == "auto":
        backend = "nccl" if gpus and dist.is_nccl_available() else "gloo"
    if not dist.is_backend_available(backend):
        raise ValueError(f"torch {torch.__version__} has no backend {backend}")
    device = torch.device("cpu")
    if backend == "nccl" or args.device == "cuda":
        device = torch.device("cuda", args.local_rank if gpus > 1 else 0)  # a rank may see only its own GPU
        if device.index >= gpus:
            raise ValueError(f"local rank {args.local_rank} has {gpus} GPUs to use: try --backend gloo --device cpu")
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend,
        init_method=args.init_method,
        rank=args.rank,
        world_size=args.world_size,
        timeout=timedelta(seconds=args.timeout),
        device_id=device if backend == "nccl" else None,
    )
    if dist.get_world_size() != args.world_size:  # MPI brings its own ranks together
        raise ValueError(f"MPI knows of {dist.get_world_size()} ranks, not {args.world_size}: start them with mpirun")
    say(f"rendezvous {args.init_method} backend {backend} device {device}")
    return device


def say(text: str) -> None:
    """Print a line of this rank, at once and in one piece: ranks often share one pipe."""
    print(f"rank {dist.get_rank()}/{dist.get_world_size()} {text}\n", end="", flush=True)


def end_on_signal(name: str) -> None:
    """From now on SIGTERM and Ctrl-C end this process at once, also while it waits for another one.

    Python calls handlers only after such a wait, but writes to the wakeup pipe at any time: a thread reads there.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)

    def end() -> None:
        number = os.read(reading, 1)[0]
        print(f"{name} stopped by {signal.Signals(number).name}\n", end="", flush=True)
        os._exit(128 + number)

    threading.Thread(target=end, daemon=True).start()


if __name__ == "__main__":
    main()
