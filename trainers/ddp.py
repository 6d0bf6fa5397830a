"""Trains with DistributedDataParallel, saves its state as it goes, and goes on from there when it is started again.

Copy this file, and digits.csv.gz beside it, as the start of your own. Start one process per rank, under torchrun or by
any launcher that sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT:

    torchrun --nproc-per-node 2 ddp.py --checkpoint /shared/ddp.pt

Mixed precision on a GPU, gradient accumulation. Started again with the same --checkpoint it ends with the same loss
as if it had never been ended. README.md has all arguments.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import hashlib
import io
import math
import os
import pickle
import signal
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # no word of each try to reach rank 0
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # not needed here

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

DIGITS = Path(__file__).with_name("digits.csv.gz")
KINDS = ("images-idx3", "labels-idx1")  # of MNIST's files


def main() -> None:
    """Join the other ranks, train from where the checkpoint is, leave; exit codes are in README.md."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(usage="%(prog)s [options]", formatter_class=shown, allow_abbrev=False)
    args = arguments(parser)
    end_on_signal(f"rank {args.rank}/{args.world_size}")
    try:
        train_set, test_set = load(args.data)
        saved = read_checkpoint(args.checkpoint) if args.checkpoint and args.rank == 0 else b""
        device = join(args)
    except (OSError, EOFError, ValueError, zlib.error) as problem:  # what was asked for is not there
        parser.error(str(problem))
    try:
        training = Training(args, device, train_set)
        training.restore(from_rank_0(saved, device))
        training.run()
        loss, right = evaluate(training.model.module, test_set, device)
        say(f"final loss {loss:.6f} accuracy {right:.1%} params {fingerprint(training.model.module)}")
        if device.type == "cuda":
            say(f"peak memory {torch.cuda.max_memory_allocated(device) / (1 << 30):.2f} GiB")
        dist.barrier()  # rank 0 keeps the store, so no rank may still need it when rank 0 leaves
    except CheckpointError as problem:
        parser.error(str(problem))
    finally:
        dist.destroy_process_group()


class CheckpointError(Exception):
    """The checkpoint can't be written, is of another training, or is none at all."""


class Training:
    """What is trained, and how far it is."""

    def __init__(self, args: argparse.Namespace, device: torch.device, train_set: TensorDataset) -> None:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs for the next line
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)
        self.args, self.device, self.train_set = args, device, train_set
        self.precision = precision(args.amp, device)
        self.model = DistributedDataParallel(network(train_set.tensors[0]).to(device))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        # float16 has so short a range that small gradients would be lost without it
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.precision is torch.float16)
        self.sampler = DistributedSampler(train_set, seed=args.seed)
        self.step = 0
        self.epoch = 0  # passes over the data that are done
        self.images = 0  # that all ranks together have seen of the pass that is under way
        # The first backward pass settles in which order gradients are sent. This one is for nothing, so that a training
        # that goes on adds them up in the order that it had before, and ends the same to the last bit.
        some, _ = next(self.steps())[0]
        self.model(some.to(device)).sum().backward()

    def run(self) -> None:
        """Train until all epochs are done; say how the loss falls, and save."""
        args = self.args
        while self.epoch < args.epochs:
            started, before = time.monotonic(), self.images
            for batches in self.steps():
                done = self.epoch + self.images / self.sampler.total_size
                self.optimizer.param_groups[0]["lr"] = args.lr * (1 - 0.9 * done / args.epochs)  # to a tenth
                loss = self.take_step(batches)
                self.step += 1
                self.images += dist.get_world_size() * sum(len(classes) for _, classes in batches)
                if self.step == 1 or self.step % args.log_every == 0:
                    say(f"epoch {self.epoch + 1} step {self.step} loss {loss.item():.4f}")
                if args.save_every and self.step % args.save_every == 0:
                    self.save()
            speed = (self.images - before) / (time.monotonic() - started)
            self.epoch, self.images = self.epoch + 1, 0
            say(f"epoch {self.epoch} done, {speed:,.0f} images/s over all ranks")
            self.save()

    def steps(self) -> Iterator[list[list[Tensor]]]:
        """The batches (images, classes) of each step that this rank has still to take in this pass.

        The order of the images follows from the seed and the epoch, so nothing is drawn that a checkpoint would have
        to keep; and as all ranks take turns in one order, another number of ranks can go on with what is left.
        """
        self.sampler.set_epoch(self.epoch)
        left = list(self.sampler)[self.images // dist.get_world_size() :]
        taken: list[list[Tensor]] = []
        for batch in DataLoader(Subset(self.train_set, left), self.args.batch_size):
            taken.append(batch)
            if len(taken) == self.args.accumulate:
                yield taken
                taken = []
        if taken:
            yield taken

    def take_step(self, batches: list[list[Tensor]]) -> Tensor:
        """One step down the gradient of all `batches` together; this rank's mean loss.

        DistributedDataParallel averages the gradient over the ranks during backward(): of the last batch only, since
        no_sync() leaves what the others give where it is, to be added up.
        """
        self.optimizer.zero_grad()
        total = sum(len(classes) for _, classes in batches)
        losses = []
        for number, (images, classes) in enumerate(batches, 1):
            with nullcontext() if number == len(batches) else self.model.no_sync():
                with torch.autocast(self.device.type, self.precision, enabled=self.precision is not None):
                    scores = self.model(images.to(self.device))
                    loss = nn.functional.cross_entropy(scores, classes.to(self.device), reduction="sum")
                self.scaler.scale(loss / total).backward()
            losses.append(loss.detach() / total)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return torch.stack(losses).sum()

    def save(self) -> None:
        """Rank 0 writes the checkpoint, whole or not at all: beside the old one, which it then takes the place of.

        A symbolic link stays, and the file that it leads to is replaced.
        """
        path = self.args.checkpoint
        if path is None or dist.get_rank() != 0:
            return
        state = {name: getattr(self, name).state_dict() for name in ("optimizer", "scaler")}
        state |= {"model": self.model.module.state_dict(), "seed": self.args.seed}
        state |= {"step": self.step, "epoch": self.epoch, "images": self.images}
        whole = Path(os.path.realpath(path))
        content, new = io.BytesIO(), Path(f"{whole}.new")
        torch.save(state, content)  # into memory: of a full disk torch says no word that is to be understood
        try:
            with new.open("wb") as file:
                file.write(content.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            new.replace(whole)
        except OSError as problem:
            with suppress(OSError):
                new.unlink()  # a disk that is full is not left full
            raise CheckpointError(f"can't save {path}: {problem}; give --checkpoint another place") from problem
        say(f"saved step {self.step}")

    def restore(self, content: bytes) -> None:
        """Go on from a checkpoint, if there is one."""
        if not content:
            return
        file, seed = self.args.checkpoint, self.args.seed
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as parts:
                damaged = parts.testzip()  # by checksums, which torch does not look at
                folders = any(part.external_attr & 0x10 for part in parts.infolist())  # of these torch reads nothing
                if damaged or folders:
                    raise zipfile.BadZipFile(damaged)
            saved: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except (RuntimeError, ValueError, KeyError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile, zlib.error):
            raise CheckpointError(f"{file} is not a checkpoint, or damaged: move it away to start again") from None
        try:
            if saved["seed"] != seed:
                raise CheckpointError(f"{file} was made with --seed {saved['seed']}: give that, or another file")
            self.model.module.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            if self.scaler.is_enabled() and saved["scaler"]:
                self.scaler.load_state_dict(saved["scaler"])
            self.step, self.epoch, self.images = (int(saved[name]) for name in ("step", "epoch", "images"))
        except (LookupError, AttributeError, TypeError, ValueError, RuntimeError) as problem:
            said = str(problem).strip().partition("\n")[0]
            raise CheckpointError(f"{file} is of another training ({said}): give another file") from None
        say(f"resumed at step {self.step} epoch {self.epoch + 1} from {file}")


def precision(amp: str, device: torch.device) -> torch.dtype | None:
    """The type to compute the forward pass in: on a GPU bfloat16 where it has that, else float16."""
    if amp == "off" or (amp == "auto" and device.type == "cpu"):
        return None
    if amp == "auto":
        # NVIDIA's from Ampere on; is_bf16_supported() says yes to older ones too, which emulate it slowly
        fast = torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)
        return torch.bfloat16 if fast else torch.float16
    return {"bf16": torch.bfloat16, "fp16": torch.float16}[amp]


def read_checkpoint(path: Path) -> bytes:
    """What is in the file; nothing where there is none yet."""
    if not path.parent.is_dir():  # said now, not when the first state can't be saved
        raise ValueError(f"rank 0's host has no folder {path.parent} for the checkpoint")
    if path.exists() and not (path.is_file() or path.is_dir()):  # /dev/zero has no end
        raise ValueError(f"{path} is not a file: give --checkpoint another place")
    content = path.read_bytes() if path.exists() else b""
    if path.exists() and not content:
        raise ValueError(f"{path} is not a checkpoint: move it away to start again")
    return content


def from_rank_0(content: bytes, device: torch.device) -> bytes:
    """The same bytes on all ranks, whose hosts need not share a folder."""
    size = torch.tensor(len(content), device=device)
    dist.broadcast(size, src=0)
    if not size:
        return b""
    carried = torch.frombuffer(bytearray(content or int(size)), dtype=torch.uint8).to(device)
    dist.broadcast(carried, src=0)
    carried = carried.cpu()
    return ctypes.string_at(carried.data_ptr(), int(size))  # .numpy() would need numpy


def evaluate(model: nn.Module, test_set: TensorDataset, device: torch.device) -> tuple[float, float]:
    """Mean loss, and the share of images read right, over all of them; each rank reads some, all learn both."""
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    mine = Subset(test_set, range(dist.get_rank(), len(test_set), dist.get_world_size()))
    with torch.no_grad():
        for images, classes in DataLoader(mine, batch_size=1000):
            scores, named = model(images.to(device)), classes.to(device)
            sums[0] += nn.functional.cross_entropy(scores, named, reduction="sum")
            sums[1] += (scores.argmax(1) == named).sum()
    dist.all_reduce(sums)
    loss, right = (sums / len(test_set)).tolist()
    return loss, right


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
    add("--accumulate", type=count, default=1, help="batches per step")
    add("--amp", choices=("auto", "off", "bf16", "fp16"), default="auto", help="auto: bf16 or fp16, on a GPU only")
    add("--checkpoint", type=Path, help="where rank 0 saves, and all go on from if it is there")
    add("--save-every", type=count, help="steps between saves; else once an epoch")
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
    if args.amp == "fp16" and device.type == "cpu":
        raise ValueError("--amp fp16 needs a GPU; the CPU can do --amp bf16")
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
