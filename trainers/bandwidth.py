"""Measures how fast the ranks exchange data: time and bandwidth of each operation, for messages of growing size.

    torchrun --nproc-per-node 2 bandwidth.py --max 64M --json bandwidth.json

Sizes, algorithm bandwidth and bus bandwidth are what nccl-tests means by them
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), so that the figures can be compared. Every
result is checked. At the end each rank says which interfaces of its host the bytes went over. README.md has all
arguments.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from distui.trainers import arguments, group, signals, traffic
else:  # run as a script: the modules beside this file, whatever its folder is called
    import arguments
    import group
    import signals
    import traffic

import torch
import torch.distributed as dist
from torch import Tensor

ITEM = 4
"""Bytes of a float32."""
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
Given = Callable[[int], Tensor]
"""What a rank gives, by its number."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One way for ranks to exchange data."""

    call: Callable[[Tensor, Tensor], object]
    """Does it, from what this rank gives to what it gets; all_reduce and broadcast work in one tensor."""
    bus: Callable[[int], float]
    """Bus bandwidth divided by algorithm bandwidth, for n ranks."""
    expected: Callable[[Given, int, int], Tensor]
    """What rank r of n gets, by what each rank gives."""
    in_place: bool = False
    gives_part: bool = False
    """Of a message of S bytes a rank gives S/n; else all S."""
    gets_part: bool = False
    """A rank gets S/n; else all S."""


@dataclass(frozen=True, slots=True)
class Options(arguments.Start):
    """What the command line says."""

    ops: list[str]
    min: int
    max: int
    """Bytes of the smallest and the largest message."""
    factor: int
    """Each message is so many times the one before."""
    warmup: int
    """Calls before those that are timed."""
    iters: int
    """Calls that are timed."""
    json: Path | None


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement."""

    op: str
    size: int
    """Bytes of the message, as nccl-tests counts them: all that is gathered, all that is scattered."""
    time_us: float | None
    """Microseconds of one call, mean over the calls and the ranks; None: the backend can't do this operation."""
    algbw: float | None
    """10^9 bytes a second: size / time."""
    busbw: float | None
    """10^9 bytes a second that each rank's link carried, whatever the number of ranks."""
    wrong: int
    """Items, over all ranks, that were not what they should be."""


def send_to_next(sent: Tensor, got: Tensor) -> None:
    """Each rank sends to the next and receives from the one before, all at once."""
    rank, count = dist.get_rank(), dist.get_world_size()
    sending = dist.P2POp(dist.isend, sent, (rank + 1) % count)
    receiving = dist.P2POp(dist.irecv, got, (rank - 1) % count)
    for work in dist.batch_isend_irecv([sending, receiving]):
        work.wait()


# newer torch has other names for two of them, and warns at the old ones
all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)

OPERATIONS = {
    "all_reduce": Operation(
        call=lambda sent, got: dist.all_reduce(got),
        bus=lambda n: 2 * (n - 1) / n,
        expected=lambda given, r, n: total(given, n),
        in_place=True,
    ),
    "all_gather": Operation(
        call=lambda sent, got: all_gather(got, sent),
        bus=lambda n: (n - 1) / n,
        expected=lambda given, r, n: torch.cat([given(rank) for rank in range(n)]),
        gives_part=True,
    ),
    "reduce_scatter": Operation(
        call=lambda sent, got: reduce_scatter(got, sent),
        bus=lambda n: (n - 1) / n,
        expected=lambda given, r, n: total(given, n).chunk(n)[r],
        gets_part=True,
    ),
    "broadcast": Operation(
        call=lambda sent, got: dist.broadcast(got, src=0),
        bus=lambda n: 1,
        expected=lambda given, r, n: given(0),
        in_place=True,
    ),
    "send_recv": Operation(
        call=send_to_next,
        bus=lambda n: 1,
        expected=lambda given, r, n: given((r - 1) % n),
    ),
}


def main() -> int:
    """Measure as the command line says; 1 if a result was wrong, the other exit codes are in README.md."""
    options = arguments.parse(parser(), Options)
    place = options.place
    signals.end_at_once(place.name)
    with group.told_in_words(place):
        if place.world_size == 1:
            raise group.NotAvailable("one rank alone has nobody to exchange data with: start two or more")
        backend, device = group.choose(options.backend, options.device, place.local_rank)
        before = traffic.counters()
        with group.joined(place, backend, device):
            place.say(f"rendezvous {place.meeting_text} backend {backend} device {device}")
            torch.set_num_threads(options.threads)
            rows = list(measure_all(options, device))
            dist.barrier()  # rank 0 keeps the store, so no rank may still need it when rank 0 leaves
        carried = traffic.between(before, traffic.counters())
        place.say(f"traffic of this host: {traffic.text(carried)}")
        if place.rank == 0 and options.json:
            write(options.json, {"backend": backend, "device": device.type, "world_size": place.world_size}, rows)
    return 1 if any(row.wrong for row in rows) else 0


def parser() -> arguments.Parser:
    """The command line."""
    made = arguments.starting("Measure how fast the ranks exchange data.")
    add = made.add_argument_group("what to measure").add_argument
    add("--ops", metavar="A,B", type=operations, default=list(OPERATIONS), help=f"of {','.join(OPERATIONS)} (all)")
    add("--min", metavar="BYTES", type=size_in_bytes, default="1K", help="smallest message (default: 1K)")
    add("--max", metavar="BYTES", type=size_in_bytes, default="64M", help="largest message (default: 64M)")
    add("--factor", metavar="N", type=factor, default=4, help="from one size to the next (default: 4)")
    add("--warmup", metavar="N", type=arguments.count, default=5, help="calls before timing (default: 5)")
    add("--iters", metavar="N", type=arguments.count, default=20, help="calls timed (default: 20)")
    add("--json", metavar="FILE", type=Path, help="where rank 0 writes the figures")
    return made


def measure_all(options: Options, device: torch.device) -> Iterator[Row]:
    """Every operation with every size; rank 0 prints each as a line of a table."""
    first = options.place.rank == 0
    if first:
        print(
            f"{'operation':<15}{'bytes':>12}{'time us':>12}{'algbw GB/s':>12}{'busbw GB/s':>12}{'wrong':>8}", flush=True
        )
    for name in options.ops:
        for size in sizes(options.min, options.max, options.factor):
            row = measure(name, size, options.warmup, options.iters, device)
            if first:
                print(line(row), flush=True)
            yield row
            if row.time_us is None:
                break


def measure(name: str, size: int, warmup: int, iters: int, device: torch.device) -> Row:
    """Time `name` with messages of about `size` bytes; to be called by all ranks."""
    operation, rank, count = OPERATIONS[name], dist.get_rank(), dist.get_world_size()
    part = max(1, size // ITEM // count)  # items; as nccl-tests does, sizes are cut to equal parts
    whole = part * count if operation.gives_part or operation.gets_part else max(1, size // ITEM)

    def given(of: int) -> Tensor:
        return pattern(part if operation.gives_part else whole, of, device)

    sent = given(rank)
    got = sent if operation.in_place else torch.zeros(part if operation.gets_part else whole, device=device)
    try:
        operation.call(sent, got)
    except (RuntimeError, NotImplementedError) as problem:
        if "support" not in str(problem):
            raise
        return Row(name, whole * ITEM, None, None, None, 0)
    wrong = (got != operation.expected(given, rank, count)).sum().double()
    sent.zero_()  # sums that go round would overflow
    for _ in range(warmup):
        operation.call(sent, got)
    seconds = timed(lambda: operation.call(sent, got), iters, device)
    sums = torch.tensor([seconds, wrong.item()], dtype=torch.float64, device=device)
    dist.all_reduce(sums)
    mean, all_wrong = (sums / torch.tensor([count, 1], device=device)).tolist()
    algbw = whole * ITEM / mean / 1e9
    return Row(name, whole * ITEM, mean * 1e6, algbw, algbw * operation.bus(count), int(all_wrong))


def timed(call: Callable[[], object], iters: int, device: torch.device) -> float:
    """Seconds of one call, mean over `iters`, from when all ranks are ready until this rank is through."""
    dist.barrier()
    wait_for(device)
    started = time.perf_counter()
    for _ in range(iters):
        call()
    wait_for(device)
    return (time.perf_counter() - started) / iters


def wait_for(device: torch.device) -> None:
    """A GPU does its work after the call that asks for it has returned."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def pattern(length: int, rank: int, device: torch.device) -> Tensor:
    """Values that tell ranks and places apart and whose sums are exact in float32 (below 2^24 up to 360 ranks)."""
    return (1 + torch.arange(length, dtype=torch.float32, device=device) % 251) * (rank + 1)


def total(given: Given, count: int) -> Tensor:
    """The sum of what all ranks give, one at a time, since all at once may be too much to hold."""
    result = given(0)
    for rank in range(1, count):
        result += given(rank)
    return result


def line(row: Row) -> str:
    """A line of the table."""
    begin = f"{row.op:<15}{row.size:>12,}"
    if row.time_us is None or row.algbw is None or row.busbw is None:
        return f"{begin}   not supported by this backend"
    return f"{begin}{row.time_us:>12.1f}{row.algbw:>12.4f}{row.busbw:>12.4f}{row.wrong:>8}"


def write(path: Path, about: dict[str, object], rows: list[Row]) -> None:
    """The figures as JSON: what was measured, then a list of rows with the names and units of Row.

    Raises:
        group.NotAvailable: the file can't be written.
    """
    try:
        path.write_text(json.dumps(about | {"torch": torch.__version__, "rows": [asdict(row) for row in rows]}) + "\n")
    except OSError as problem:
        raise group.NotAvailable(f"can't write {path}: {problem.strerror}; give --json another place") from None


def sizes(smallest: int, largest: int, step: int) -> Iterator[int]:
    """Bytes of each message, `smallest` first and none above `largest`."""
    while smallest <= largest:
        yield smallest
        smallest *= step


def operations(text: str) -> list[str]:
    """Names of operations, with commas between them."""
    names = text.split(",")
    if unknown := [name for name in names if name not in OPERATIONS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(OPERATIONS)}")
    return names


def size_in_bytes(text: str) -> int:
    """A number of bytes, as 4096, 64K, 8M or 1G."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    if unit not in UNITS or not number.isascii() or not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, as 4096, 64K, 8M or 1G")
    return int(number) * UNITS[unit]


def factor(text: str) -> int:
    """A whole number above 1: with 1 the sizes would never end."""
    value = arguments.count(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
