"""Trains with DistributedDataParallel, saves its state as it goes, and goes on from there when it is started again.

Copy this folder as the start of your own. Start one process per rank, under torchrun or by any launcher that sets
RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT:

    torchrun --nproc-per-node 2 ddp.py --checkpoint /shared/ddp.pt

Mixed precision on a GPU, gradient accumulation. Started again with the same --checkpoint it ends with the same loss
as if it had never been ended. README.md has all arguments.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from distui.trainers import arguments, checkpoint, data, group, network, signals
else:  # run as a script: the modules beside this file, whatever its folder is called
    import arguments
    import checkpoint
    import data
    import group
    import network
    import signals

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset

PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
Batch = tuple[Tensor, Tensor]
"""Images (n, 1, rows, columns) and their classes (n)."""


@dataclass(frozen=True, slots=True)
class Options(arguments.Options):
    """What the command line says."""

    accumulate: int
    """Batches per step: gradients of so many are added up before the ranks exchange them."""
    amp: str
    """auto, off, bf16 or fp16."""
    checkpoint: Path | None
    save_every: int | None
    """Steps between two saves; None: at the end of every epoch only."""


@dataclass(slots=True)
class Training:
    """All that is needed to take the next step; `state` and `restore` keep the part that changes."""

    options: Options
    device: torch.device
    model: DistributedDataParallel
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    precision: torch.dtype | None
    """Of the forward pass; None: that of the parameters."""
    sampler: DistributedSampler[TensorDataset]
    step: int = 0
    """Steps taken."""
    epoch: int = 0
    """Whole passes over the data done."""
    images: int = 0
    """Images that all ranks together have seen of the pass that is under way."""


def main() -> int:
    """Train as the command line says; exit codes are in README.md."""
    options = arguments.parse(parser(), Options)
    signals.end_at_once(options.place.name)
    with group.told_in_words(options.place):
        digits = data.load(options.data)
        backend, device = group.choose(options.backend, options.device, options.place.local_rank)
        precision = choose_precision(options.amp, device)
        with group.joined(options.place, backend, device):
            train(options, digits, device, precision)
    return 0


def parser() -> arguments.Parser:
    """The command line."""
    made = arguments.training("Train with DistributedDataParallel, with checkpoints.")
    add = made.add_argument_group("of this trainer").add_argument
    add("--accumulate", metavar="N", type=arguments.count, default=1, help="batches per step (default: 1)")
    add("--amp", choices=("auto", "off", *PRECISIONS), default="auto", help="(default: auto, on a GPU only)")
    add("--checkpoint", metavar="FILE", type=Path, help="where rank 0 saves, and all go on from if it is there")
    add("--save-every", metavar="N", type=arguments.count, help="steps between saves (default: once an epoch)")
    return made


def choose_precision(amp: str, device: torch.device) -> torch.dtype | None:
    """The type to compute the forward pass in: on a GPU bfloat16 where it has that, else float16.

    Raises:
        group.NotAvailable: the device can't compute in it.
    """
    if amp == "off" or (amp == "auto" and device.type == "cpu"):
        return None
    if amp == "auto":
        # NVIDIA's from Ampere on; is_bf16_supported() says yes to older ones too, which emulate it slowly
        fast = torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)
        return torch.bfloat16 if fast else torch.float16
    if amp == "fp16" and device.type == "cpu":
        raise group.NotAvailable("--amp fp16 needs a GPU; the CPU can do --amp bf16")
    return PRECISIONS[amp]


def train(options: Options, digits: data.Data, device: torch.device, precision: torch.dtype | None) -> None:
    """Train on this rank's share of the data from where the checkpoint is; say how good the network is."""
    place = options.place
    place.say(f"rendezvous {place.meeting_text} backend {dist.get_backend()} device {device}")
    training = begin(options, digits, device, precision)
    while training.epoch < options.epochs:
        train_epoch(training, digits.train)
    loss, right = evaluate(training.model.module, digits.test, place.rank, place.world_size, device)
    place.say(f"final loss {loss:.6f} accuracy {right:.1%} params {network.fingerprint(training.model.module)}")
    if device.type == "cuda":
        place.say(f"peak memory {torch.cuda.max_memory_allocated(device) / (1 << 30):.2f} GiB")
    dist.barrier()  # rank 0 keeps the store, so no rank may still need it when rank 0 leaves


def begin(options: Options, digits: data.Data, device: torch.device, precision: torch.dtype | None) -> Training:
    """A new training, or the one in the checkpoint."""
    place = options.place
    network.make_deterministic(options.seed, options.threads)
    saved = checkpoint.load(options.checkpoint, device) if options.checkpoint else None
    model = network.build(digits.train.tensors[0], data.CLASSES).to(device)
    training = Training(
        options,
        device,
        DistributedDataParallel(model),
        torch.optim.Adam(model.parameters(), lr=options.lr),
        # float16 has so short a range that small gradients would be lost without it
        torch.amp.GradScaler(device.type, enabled=precision is torch.float16),
        precision,
        DistributedSampler(digits.train, place.world_size, place.rank, seed=options.seed),
    )
    order_gradients(training, digits.train)
    if saved is not None:
        restore(training, saved)
        place.say(f"resumed at step {training.step} epoch {training.epoch + 1} from {options.checkpoint}")
    return training


def order_gradients(training: Training, images: TensorDataset) -> None:
    """One backward pass for nothing, by which DistributedDataParallel settles in which order it sends gradients.

    It would do so after the first step. Then that step of a run that goes on would add up the ranks' gradients in
    another order than the run before it did, and end a last bit apart from it.
    """
    some, _ = next(steps(training, images))[0]
    training.model(some.to(training.device)).sum().backward()
    training.optimizer.zero_grad()


def train_epoch(training: Training, images: TensorDataset) -> None:
    """This rank's share of what is left of one pass over the data."""
    options, place = training.options, training.options.place
    started, before = time.monotonic(), training.images
    for batches in steps(training, images):
        training.optimizer.param_groups[0]["lr"] = options.lr * falling(training)
        loss = take_step(training, batches)
        training.step += 1
        training.images += place.world_size * sum(len(classes) for _, classes in batches)
        if training.step == 1 or training.step % options.log_every == 0:
            place.say(f"epoch {training.epoch + 1} step {training.step} loss {loss.item():.4f}")
        if options.save_every and training.step % options.save_every == 0:
            save(training)
    speed = (training.images - before) / (time.monotonic() - started)
    training.epoch, training.images = training.epoch + 1, 0
    place.say(f"epoch {training.epoch} done, {speed:,.0f} images/s over all ranks")
    save(training)


def steps(training: Training, images: TensorDataset) -> Iterator[list[Batch]]:
    """The batches of each step that this rank has still to take in this pass.

    The order of the images follows from the seed and the epoch, so nothing is drawn that a checkpoint would have
    to keep; and as all ranks take turns in one order, another number of ranks can go on with what is left.
    """
    training.sampler.set_epoch(training.epoch)
    left = list(training.sampler)[training.images // training.options.place.world_size :]
    batches: Iterable[Batch] = DataLoader(Subset(images, left), training.options.batch_size)
    taken: list[Batch] = []
    for batch in batches:
        taken.append(batch)
        if len(taken) == training.options.accumulate:
            yield taken
            taken = []
    if taken:
        yield taken


def falling(training: Training) -> float:
    """The share of the learning rate to use now: from 1 at the start it falls to a tenth at the end."""
    done: float = training.epoch + training.images / training.sampler.total_size
    return 1 - 0.9 * done / training.options.epochs


def take_step(training: Training, batches: list[Batch]) -> Tensor:
    """One step down the gradient of all `batches` together; this rank's mean loss.

    DistributedDataParallel averages the gradient over the ranks during backward(): of the last batch only, since
    no_sync() leaves what the others give where it is, to be added up.
    """
    device, model = training.device, training.model
    training.optimizer.zero_grad()
    total = sum(len(classes) for _, classes in batches)
    losses = []
    for number, (images, classes) in enumerate(batches, 1):
        with nullcontext() if number == len(batches) else model.no_sync():
            with torch.autocast(device.type, training.precision, enabled=training.precision is not None):
                loss = nn.functional.cross_entropy(model(images.to(device)), classes.to(device), reduction="sum")
            training.scaler.scale(loss / total).backward()
        losses.append(loss.detach() / total)
    training.scaler.step(training.optimizer)
    training.scaler.update()
    return torch.stack(losses).sum()


def evaluate(
    model: nn.Module, images: TensorDataset, rank: int, world_size: int, device: torch.device
) -> tuple[float, float]:
    """Mean loss, and the share of images read right, over all of `images`; each rank reads some, all learn both."""
    model.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    with torch.no_grad():
        for some, classes in DataLoader(Subset(images, range(rank, len(images), world_size)), batch_size=1000):
            scores, named = model(some.to(device)), classes.to(device)
            sums[0] += nn.functional.cross_entropy(scores, named, reduction="sum")
            sums[1] += (scores.argmax(1) == named).sum()
    dist.all_reduce(sums)
    loss, right = (sums / len(images)).tolist()
    return loss, right


def save(training: Training) -> None:
    """Rank 0 writes the checkpoint; the others go on, and wait for it in the next step."""
    options = training.options
    if options.checkpoint and options.place.rank == 0:
        checkpoint.save(options.checkpoint, state(training))
        options.place.say(f"saved step {training.step}")


def state(training: Training) -> dict[str, Any]:
    """What a checkpoint holds."""
    return {
        "model": training.model.module.state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "scaler": training.scaler.state_dict(),
        "seed": training.options.seed,
        "step": training.step,
        "epoch": training.epoch,
        "images": training.images,
    }


def restore(training: Training, saved: dict[str, Any]) -> None:
    """Make `training` the one that was saved.

    Raises:
        checkpoint.CheckpointError: it is of another program, network or seed.
    """
    file, seed = training.options.checkpoint, training.options.seed
    try:
        if saved["seed"] != seed:
            raise checkpoint.CheckpointError(f"{file} was made with --seed {saved['seed']}: give that, or another file")
        training.model.module.load_state_dict(saved["model"])
        training.optimizer.load_state_dict(saved["optimizer"])
        if training.scaler.is_enabled() and saved["scaler"]:
            training.scaler.load_state_dict(saved["scaler"])
        training.step, training.epoch, training.images = saved["step"], saved["epoch"], saved["images"]
    except (KeyError, TypeError, ValueError, RuntimeError) as problem:
        said = str(problem).strip().split("\n")[0]
        raise checkpoint.CheckpointError(f"{file} is of another training ({said}): give another file") from None


if __name__ == "__main__":
    sys.exit(main())
