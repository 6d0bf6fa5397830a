"""Trains a small convolutional network on handwritten digits with DistributedDataParallel.

Copy this file, and digits.csv.gz beside it, as the start of your own. Run it, one process per rank, as

    python mnist.py --rank R --world-size N --init-method tcp://HOST:PORT --backend gloo

or with nothing but the environment that torchrun and distui set. README.md has all arguments.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import math
import os
import signal
import threading
import warnings
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # no word of each try to reach rank 0
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # not needed here

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

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
    """Train on this rank's share of the data; say how the loss falls, and how good the network is."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs for the next line
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(network(train_set.tensors[0]).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, args.epochs)
    sampler = DistributedSampler(train_set, seed=args.seed)
    batches = DataLoader(train_set, args.batch_size, sampler=sampler)
    step, mean = 0, torch.zeros(())
    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)  # another order in every epoch
        losses = []
        for images, classes in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(device)), classes.to(device))
            loss.backward()  # averages the gradient over the ranks
            optimizer.step()
            step += 1
            losses.append(loss.detach())
            if step == 1 or step % args.log_every == 0:
                say(f"epoch {epoch} step {step} loss {loss.item():.4f}, {args.epochs * len(batches)} steps in all")
        schedule.step()
        mean = torch.stack(losses).mean()
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
        say(f"epoch {epoch} mean loss {mean.item():.4f}")
    say(f"final loss {mean.item():.4f} params {fingerprint(model.module)}")
    if dist.get_rank() == 0:
        say(f"test accuracy {accuracy(model.module, test_set, device):.1%}")


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
    add("--lr", type=positive, default=0.004, help="learning rate at the start; it falls to a tenth")
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
