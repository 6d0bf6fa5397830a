"""What is wrong with the GPUs of a run's ranks, out of what their drivers and the kernel's log tell. Pure.

Faults are those of the time since the run's processes began: a log goes back to the boot, a count of errors to when the
driver was loaded. What a busy GPU does by itself, such as staying at its power limit, is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distui.facts.gpus import throttle, xid
from distui.facts.gpus.gpu import broken_devices, pci_key
from distui.facts.values import known, number
from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.insight.seen.answers import HostAnswer, number_of, rows_of, text_of, whole_of
from distui.runs.insight.seen.ranks import RankSeen
from distui.whole import whole

MOST_GPUS, MOST_XIDS = 64, 64
EARLY_S = 1.0
"""What clocks of a process's start and of the kernel's log may differ by."""
RECOVERY_CHANGED = 154
"""The XID that says that `gpu_recovery_action` is another one now: that is asked for itself."""

RECOVERY = {
    "reset": "must be reset",
    "reboot": "is well only after a reboot of its host",
    "drain p2p": "must be reset once no other GPU talks to it",
    "drain and reset": "must be reset, and does no new work until then",
}
"""Values of `gpu_recovery_action` (NVML's nvmlDeviceGpuRecoveryAction), but None, in words."""

_LOST = ("gpu is lost", "fallen off the bus")

Errors = Mapping[tuple[str, int], int]
"""(host, GPU) -> uncorrected errors that it had counted when the run began."""


def gpus_of(plan: RunPlan) -> dict[int, tuple[int, ...]]:
    """The GPUs that are meant for each rank, on its host."""
    found = (pair for task in plan.tasks for pair in zip(task.ranks, task.rank_gpus, strict=False))
    return {rank: own for rank, own in found if own}


@frozen
class Fault:
    """Something that is wrong with a rank's GPU."""

    rank: int
    host: str
    gpu: int
    words: str
    """What follows the GPU's name: `must be reset`."""
    broken: bool
    """Whether it keeps the GPU from its work, and is no program's doing."""
    at: float | None = None
    """When it happened, on our clock, where that is known."""


@frozen
class Health:
    """What was found of the GPUs of a run."""

    faults: tuple[Fault, ...] = ()
    """Those of one GPU together, the gravest first."""
    unknown: tuple[str, ...] = ()
    """What could not be seen, in words."""


@dataclass
class _Gpu:
    """A GPU with all that is said of it."""

    index: int
    cells: Mapping[str, str]
    lost: bool = False
    xids: Sequence[tuple[int, float]] = ()


def health(
    ranks: Sequence[RankSeen],
    answers: Mapping[str, HostAnswer],
    gpus: Mapping[int, Sequence[int]],
    errors: Errors | None = None,
) -> Health:
    """What is wrong with the GPUs that the run's ranks have; `errors` is what they had counted at its beginning."""
    own = _by_rank(ranks, gpus)
    faults: list[Fault] = []
    unknown: list[str] = []
    for host, answer in sorted(answers.items()):
        there = [seen for seen in ranks if seen.host == host and own.get(seen.rank)]
        if not there or not answer.gpus:
            continue
        found = _gpus(answer)
        for seen in there:
            for index in own[seen.rank]:
                faults += (replace(one, rank=seen.rank) for one in _faults(host, found.get(index), errors or {}))
        unknown += _unknown(host, answer)
    return Health(tuple(faults), tuple(unknown))


def cells_of(
    ranks: Sequence[RankSeen], answers: Mapping[str, HostAnswer], gpus: Mapping[int, Sequence[int]]
) -> dict[int, tuple[Mapping[str, str], ...]]:
    """What its driver says of each rank's GPUs just now, by nvidia-smi's names of its fields."""
    own = _by_rank(ranks, gpus)
    hosts = {host: _gpus(answer) for host, answer in answers.items() if answer.gpus}
    found = {
        seen.rank: tuple(
            gpu.cells for index in own.get(seen.rank, ()) if (gpu := hosts.get(seen.host, {}).get(index)) is not None
        )
        for seen in ranks
    }
    return {rank: cells for rank, cells in found.items() if cells}


def _by_rank(ranks: Sequence[RankSeen], gpus: Mapping[int, Sequence[int]]) -> dict[int, Sequence[int]]:
    """The GPUs of each rank. Of ranks that one of the run has started each has one, where that comes out even."""
    several: dict[int, list[int]] = {}
    for seen in ranks:
        several.setdefault(seen.run_rank, []).append(seen.rank)
    found: dict[int, Sequence[int]] = {}
    for rank, those in several.items():
        there = gpus.get(rank, ())
        each = len(those) == len(there) > 1
        found |= {one: [there[place]] if each else there for place, one in enumerate(sorted(those))}
    return found


# what a host says


def _gpus(answer: HostAnswer) -> dict[int, _Gpu]:
    """Its GPUs by their number."""
    said = answer.gpus
    rows = [text_of(row) for row in _list(said.get("rows"))[:MOST_GPUS]]
    found = {one.index: one for row in rows if (one := _row(row, _list(said.get("fields")))) is not None}
    places = {pci_key(one.cells.get("pci.bus_id")): one.index for one in found.values() if "pci.bus_id" in one.cells}
    order = {pci_key(text_of(pci)): place for place, pci in enumerate(_list(said.get("order"))[:MOST_GPUS])}
    places = order | places
    for pci, broken in broken_devices("\n".join(rows)).items():
        index = broken.index if broken.index is not None else places.get(pci)
        if index is not None and broken.trouble.code == "gpu_lost":
            found.setdefault(index, _Gpu(index, {})).lost = True
            places[pci] = index
    for pci, events in _xids(answer).items():
        if (index := places.get(pci)) is not None:
            found.setdefault(index, _Gpu(index, {})).xids = events
    return found


def _row(row: str, fields: Sequence[object]) -> _Gpu | None:
    """A GPU's row; one that is lost may say so in each of its cells."""
    cells = [cell.strip() for cell in row.split(",")]
    if len(cells) != len(fields):
        return None
    named = {text_of(name): cell for name, cell in zip(fields, cells, strict=True)}
    index = whole(named.get("index", ""), 4)
    if index is None:
        return None
    return _Gpu(index, named, lost=any(word in row.lower() for word in _LOST))


def _xids(answer: HostAnswer) -> dict[str, list[tuple[int, float]]]:
    """Address -> the XIDs since the run's processes began, oldest first, and when each came, on our clock."""
    said = answer.gpus
    boot, began = number_of(said.get("boot")), number_of(said.get("began"))
    found: dict[str, list[tuple[int, float]]] = {}
    if boot is None or began is None:
        return found
    for pci, which, seconds in rows_of(said.get("xids"), 3)[-MOST_XIDS:]:
        event, since_boot = whole_of(which), number_of(seconds)
        if event is not None and since_boot is not None and since_boot >= began - EARLY_S:
            at = answer.at - answer.ahead - (boot - since_boot)
            found.setdefault(pci_key(text_of(pci)), []).append((event, at))
    return found


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _unknown(host: str, answer: HostAnswer) -> Iterator[str]:
    if answer.gpus.get("silent") is True:
        yield f"{host}: nvidia-smi did not answer in time, as with a driver that hangs"
    if answer.gpus.get("xids", 0) is None:
        yield f"{host}: whether its GPUs reported XIDs is not known, since this login may not read the kernel's log"


# what is wrong


def _faults(host: str, gpu: _Gpu | None, errors: Errors) -> Iterator[Fault]:
    """What is wrong with one GPU; its rank is filled in by who asks."""
    if gpu is None:
        return
    for words, broken, at in (*_events(gpu), *_states(gpu, errors.get((host, gpu.index)))):
        yield Fault(-1, host, gpu.index, words, broken, at)


def _events(gpu: _Gpu) -> Iterator[tuple[str, bool, float | None]]:
    """By its XIDs: the first one of the GPU's own, which others follow from; else the first one of a program."""
    reported = [event for event in gpu.xids if event[0] != RECOVERY_CHANGED]
    own = [event for event in reported if not xid.of_program(event[0])]
    if own or reported:
        which, at = (own or reported)[0]
        meaning = xid.words(which)
        yield f"reported Xid {which}" + (f" ({meaning})" if meaning else ""), bool(own), at


def _states(gpu: _Gpu, before: int | None) -> Iterator[tuple[str, bool, float | None]]:
    if gpu.lost:
        yield "is lost: it has fallen off the bus", True, None
    action = (known(gpu.cells.get("gpu_recovery_action")) or "none").lower()
    if action in RECOVERY:
        yield f"{RECOVERY[action]} (`gpu_recovery_action`)", True, None
    errors = number(gpu.cells.get("ecc.errors.uncorrected.volatile.total"))
    if errors and (before is None or errors > before):
        more = f"{errors - (before or 0):.0f}"
        since = "since the run began" if before is not None else "since its driver was loaded"
        yield f"counted {more} memory errors that ECC could not correct, {since}", before is not None, None
    if held := throttle.words((throttle.bits_of(gpu.cells) or 0) & throttle.SLOWED):
        yield f"is slowed down: {', '.join(held)}", False, None
