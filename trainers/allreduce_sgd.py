"""Gradient descent that adds up the ranks' gradients by hand, with nothing but all_reduce.

Copy this file, and digits.csv.gz beside it, as the start of your own. The ranks may be started one by one, from
anywhere and in any order; each waits for the others:

    python allreduce_sgd.py --rank R --world-size N --init-method tcp://HOST:PORT --backend gloo

N ranks with a batch of B take the same steps as one process with a batch of N x B: the parameters differ by the
rounding of sums alone, and they are in double precision, so that the losses printed are the same.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import math
import os
import signal
import sys
import threading
import warnings
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # no word of each try to reach rank 0
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # not needed here

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import TensorDataset

DIGITS = Path(__file__).with_name("digits.csv.gz")
KINDS = ("images-idx3", "labels-idx1")  # of MNIST's files


def main() -> None:
    """Join the other ranks, train, leave; exit codes are in README.md."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(usage="%(prog)s [options]", formatter_class=shown, allow_abbrev=False)
    args = arguments(parser)
    end_on_signal(f"rank {args.rank}/{args.world_size}")
    try:
        train_set, test_set = load(args.data)
        device = join(args)
    except (OSError, EOFError, ValueError, zlib.error) as problem:  # what was asked for is not there
        parser.error(str(problem))
    try:
        train(args, device, train_set, test_set)
        dist.barrier()  # rank 0 keeps the store, so no rank may still need it when rank 0 leaves
    finally:
        dist.destroy_process_group()


def train(args: argparse.Namespace, device: torch.device, train_set: TensorDataset, test_set: TensorDataset) -> None:
    """Take every step together with the other ranks; say how the loss falls, and how good the network is."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs for the next line
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    images, classes = (tensor.to(device) for tensor in train_set.tensors)
    model = network(images).to(device).double()
    for value in model.state_dict().values():
        dist.broadcast(value, src=0)  # one network, even where the ranks' versions of torch draw other numbers
    step, loss = 0, torch.zeros(())
    for epoch in range(1, args.epochs + 1):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(args.seed + epoch))
        for batch in order.split(args.batch_size * world_size):  # the same on every rank
            mine = batch[rank::world_size].to(device)  # of a short batch it may be nothing
            loss = gradient(model, images[mine].double(), classes[mine], total=len(batch))
            add_over_ranks([loss, *(parameter.grad for parameter in model.parameters())])
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= args.lr * parameter.grad
            step += 1
            if step == 1 or step % args.log_every == 0:
                say(f"epoch {epoch} step {step} loss {loss.item():.6f}")
    say(f"final loss {loss.item():.6f} params {fingerprint(model)}")
    if rank == 0:
        say(f"test accuracy {accuracy(model.float(), test_set, device):.1%}")


def gradient(model: nn.Module, images: Tensor, classes: Tensor, total: int) -> Tensor:
    """Put this rank's part of a batch's mean gradient into the parameters' grad; its part of the mean loss.

    Divided by `total`, the images of the whole batch, and added over the ranks it is the mean over the batch, also
    where the ranks' shares are not of one size.
    """
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(images), classes, reduction="sum") / total
    loss.backward()
    return loss.detach()


def add_over_ranks(tensors: list[Tensor]) -> None:
    """Replace each tensor by its sum over all ranks. One message for all of them: each message costs a round trip."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat)
    for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(total.view_as(tensor))


def network(images: Tensor) -> nn.Sequential:
    """Two convolutions and two layers, for images (n, 1, rows, columns): a score for each digit, (n, 10)."""
    rows, columns = images.shape[-2] // 2, images.shape[-1] // 2
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * rows * columns, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def accuracy(model: nn.Module, test_set: TensorDataset, device: torch.device) -> float:
    """The share of the images, 0 to 1, that are read right."""
    images, classes = test_set.tensors
    with torch.no_grad():
        read = torch.cat([model(some.to(device)).argmax(1) for some in images.split(1000)])
    return float((read.cpu() == classes).float().mean())


def fingerprint(model: nn.Module) -> str:
    """A hash of every parameter: equal on two ranks only if they hold the same network to the last bit."""
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(bytes(value.cpu().flatten().view(torch.uint8).tolist()))
    return digest.hexdigest()[:12]


def load(folder: Path | None) -> tuple[TensorDataset, TensorDataset]:
    """Images (n, 1, rows, columns) of 0.0 to 1.0 with their classes (n): to train on, and held out for the test.

    From `folder`, in MNIST's format; without one, the digits beside this file.
    """
    if folder is not None:
        sets = [[read_idx(folder / f"{part}-{kind}-ubyte") for kind in KINDS] for part in ("train", "t10k")]
        for images, classes in sets:
            check(folder, images, classes, sets[0][0].shape[1:])
        train, test = (TensorDataset(images.unsqueeze(1) / 255, classes.long()) for images, classes in sets)
        return train, test
    with gzip.open(DIGITS, "rt") as lines:  # 8 x 8 pixels of 0 to 16 in a line, then the digit
        digits = torch.tensor([[int(value) for value in line.split(",")] for line in lines])
    images, classes = digits[:, :-1].view(-1, 1, 8, 8) / 16, digits[:, -1]
    fifth = torch.arange(1, len(digits) + 1) % 5 == 0
    return TensorDataset(images[~fifth], classes[~fifth]), TensorDataset(images[fifth], classes[fifth])


def check(folder: Path, images: Any, classes: Any, size: Any) -> None:
    """Raise ValueError for images that the network can't learn, that are not of that size, or not of the classes."""
    shape = tuple(images.shape)
    if len(shape) != 3 or not shape[0] or min(shape[1:]) < 2:
        raise ValueError(f"{folder}: images of shape {shape}; needed are some of at least 2 x 2: (n, rows, columns)")
    if shape[1:] != tuple(size):
        raise ValueError(f"{folder}: images of {shape[1:]} to test with, and of {tuple(size)} to learn from")
    if tuple(classes.shape) != shape[:1]:
        raise ValueError(f"{folder}: {shape[0]} images, but classes of shape {tuple(classes.shape)}: fetch both again")
    if int(classes.max()) > 9:
        raise ValueError(f"{folder}: class {int(classes.max())}; the network tells 0 to 9 apart")


def read_idx(path: Path) -> Tensor:
    """A file of MNIST's format, plain or .gz: 0 0 8, the number of dimensions, each in 4 bytes, then the values."""
    content = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    start = 4 + 4 * int.from_bytes(content[3:4], "big")
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if content[:3] != bytes((0, 0, 8)) or len(content) != start + math.prod(shape):
        raise ValueError(f"{path} is not a whole IDX file of bytes: fetch it again")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)[start:].view(shape)


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
    add("--data", type=Path, help="folder with MNIST's four files, .gz or not; else the digits")
    add("--epochs", type=count, default=8, help="passes over the data")
    add("--batch-size", type=count, default=32, help="images per step and rank")
    add("--lr", type=positive, default=0.3, help="learning rate")
    add("--seed", type=seed, default=1, help="same seed and number of ranks: the same losses")
    add("--log-every", type=count, default=10, help="steps between two lines of loss")
    args = parser.parse_args()
    args.rank = 0 if args.rank is None and args.world_size == 1 else args.rank
    if args.rank is None or not 0 <= args.rank < args.world_size:
        parser.error(f"--rank or $RANK is needed, from 0 to {args.world_size - 1}; it is {args.rank}")
    if not args.init_method.startswith(("tcp://", "file:///", "env://")):
        parser.error("argument --init-method: give tcp://HOST:PORT, file:///PATH or env://")
    folder = Path(args.init_method.removeprefix("file://")).parent
    if args.init_method.startswith("file:///") and not folder.is_dir():  # torch would wait for it
        parser.error(f"argument --init-method: this host has no folder {folder}")
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


def seed(text: str) -> int:
    """A whole number of 32 bits, which every generator takes."""
    if not 0 <= int(text) < 1 << 32:
        raise ValueError
    return int(text)


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
    if args.world_size == 1 and not os.environ.get("MASTER_ADDR"):  # nobody to meet
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    store = meet(args)
    dist.init_process_group(
        backend,
        store=store,
        init_method=None if store else args.init_method,
        rank=args.rank,
        world_size=args.world_size,
        timeout=timedelta(seconds=args.timeout),
        device_id=device if backend == "nccl" else None,
    )
    if dist.get_world_size() != args.world_size:  # MPI brings its own ranks together
        raise ValueError(f"MPI knows of {dist.get_world_size()} ranks, not {args.world_size}: start them with mpirun")
    say(f"all ranks are here, backend {backend} device {device}")
    return device


def meet(args: argparse.Namespace) -> Any:
    """The store at tcp://HOST:PORT, once all ranks are there; init_process_group would not say who is missing."""
    url, wait = urlsplit(args.init_method), timedelta(seconds=args.timeout)
    if url.scheme != "tcp" or not url.port:
        return None
    here = [f"rank {rank}" for rank in range(args.world_size)]
    print(
        f"{here[args.rank]}/{args.world_size} waits for all {args.world_size} ranks at {args.init_method}", flush=True
    )
    late = f"of {args.world_size} did not come to {args.init_method} within {args.timeout:g} s"
    try:
        store = dist.TCPStore(url.hostname, url.port, is_master=args.rank == 0, timeout=wait, wait_for_workers=False)
    except dist.DistNetworkError:
        if args.rank == 0:  # it makes the store, so its port is taken
            raise
        sys.exit(f"rank 0 {late}")
    try:
        store.set(here[args.rank], "here")
        try:
            store.wait(here)
        except dist.DistStoreError:
            sys.exit(f"{', '.join(rank for rank in here if not store.check([rank]))} {late}")
    except dist.DistNetworkError:  # also while it is asked who is missing: it waited just as long
        sys.exit(f"rank 0 of {args.world_size} has left {args.init_method}: it says which ranks it waited for")
    return store


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
