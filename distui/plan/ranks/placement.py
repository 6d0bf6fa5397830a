"""Which host holds which ranks and which GPUs: picks x job x facts -> places, or every reason why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.amounts import counted, memory_words
from distui.facts.host import Gpu, GpuProcess, HostFacts
from distui.facts.limits import is_taken
from distui.frozen import frozen
from distui.plan.model import Notes
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import GpuRequest, Job, RoleName


@frozen
class Candidate:
    """A picked host that answered its probe; `gpus` are those of `-H node01:0-3` (None: as the job says)."""

    host: Host
    facts: HostFacts
    gpus: tuple[int, ...] | None = None


@frozen
class HostPlacement:
    """One host's share of the run: its ranks in local order, its GPUs, and the GPUs meant for each rank."""

    host: Host
    facts: HostFacts
    node_rank: int
    ranks: tuple[int, ...]
    gpus: tuple[Gpu, ...]
    rank_gpus: tuple[tuple[int, ...], ...]
    processes: int = 0
    """Training processes that a launcher of its own starts here (launcher `command`, one task a host); else 0."""

    @property
    def nproc(self) -> int:
        """Training processes on this host."""
        return self.processes or len(self.ranks)

    @property
    def name(self) -> str:
        """The host's name."""
        return self.host.name

    @property
    def gpu_indices(self) -> tuple[int, ...]:
        """Indices of the run's GPUs on this host, as nvidia-smi counts them."""
        return tuple(g.index for g in self.gpus)


@frozen
class RoleTask:
    """One task of launcher `tf`: its type and its number among those of its type."""

    role: RoleName
    index: int
    host: str

    @property
    def name(self) -> str:
        """`worker/1`, as it is shown."""
        return f"{self.role}/{self.index}"


@frozen
class Placement:
    """Where every rank goes. With problems noted, `places` is as far as it got and must not be started."""

    places: tuple[HostPlacement, ...]
    roles: tuple[RoleTask, ...] = ()
    """By rank; empty but for launcher `tf`."""

    @property
    def world_size(self) -> int:
        """Number of ranks in the run."""
        return sum(len(p.ranks) for p in self.places)

    @property
    def processes(self) -> int:
        """Number of training processes: the ranks, but where a launcher of its own starts several for one."""
        return sum(p.nproc for p in self.places)


def place(job: Job, candidates: Sequence[Candidate], notes: Notes) -> Placement:
    """Give every host its GPUs and ranks. Never raises: what can't be is a problem that names the host."""
    chosen = {c.host.name: gpus_of(_request(job, c), c, notes) for c in candidates}
    ranks = _ranks(job, candidates, chosen, notes)
    used = [c for c in candidates if ranks[c.host.name]]
    order = sorted(used, key=lambda c: min(ranks[c.host.name]))
    places = tuple(
        _place(job, c, node, ranks[c.host.name], chosen[c.host.name] or (), notes) for node, c in enumerate(order)
    )
    if job.launcher == "torchrun":
        _check_torchrun(places, notes)
    if job.launcher == "command" and job.task_per == "host":
        # a launcher of its own starts and numbers a host's processes: one rank for distui
        places = tuple(
            replace(p, ranks=(p.node_rank,), rank_gpus=(p.gpu_indices,), processes=len(p.ranks)) for p in places
        )
    return Placement(places)


# GPUs


def gpus_of(request: GpuRequest, c: Candidate, notes: Notes) -> tuple[Gpu, ...] | None:
    """The GPUs this run uses on a host, lowest index first; None, with the problem noted, when it can't have them."""
    if request == 0 or request == ():
        return ()
    usable = _usable(c, notes)
    if usable is None:
        return None
    match request:
        case "all":
            chosen = _all(c, usable, notes)
        case int():
            chosen = _first_idle(c, usable, request, notes)
        case _:
            chosen = _by_index(c, usable, request, notes)
    for gpu in chosen or ():
        _warn_about(c.host.name, gpu, notes)
    return chosen


def _request(job: Job, c: Candidate) -> GpuRequest:
    """What the run asks of a host: `-H host:0-3`, then the job's map, then its default, then what ranks imply."""
    named = named_gpus(job, c)
    if named is not None:
        return named
    layout = job.ranks
    if layout is not None and layout.per_gpu is not None:
        return "all"
    if job.gpus_per_rank:
        per_host = layout.per_host if layout is not None else c.host.slots
        return per_host * job.gpus_per_rank if per_host else "all"
    return 0


def named_gpus(job: Job, c: Candidate) -> GpuRequest | None:
    """What `-H host:0-3`, the job's map or its default say of a host; None when nothing does."""
    if c.gpus is not None:
        return c.gpus
    return job.gpus_by_host.get(c.host.name, job.gpus_per_host)


def _usable(c: Candidate, notes: Notes) -> tuple[Gpu, ...] | None:
    """Healthy GPUs that the inventory allows; None when the driver or the inventory says there are not enough."""
    host, found = c.host, c.facts.gpu
    if found.problem is not None:
        notes.problem("gpus", host.name, f"GPUs asked, but {found.problem.message}", found.problem.hint)
        return None
    healthy = tuple(sorted((g for g in found.gpus if g.problem is None), key=lambda g: g.index))
    match host.gpus:
        case "auto":
            return healthy
        case int() as declared:
            if len(healthy) < declared:
                notes.problem(
                    "gpus",
                    host.name,
                    f"hosts.yaml declares {counted(declared, 'GPU')}, found {_found(c, healthy)}",
                    "repair the host, or set its `gpus:` to what it has",
                )
                return None
            return healthy[: max(declared, 0)]
        case allowed:
            return tuple(g for g in healthy if g.index in allowed)


def _found(c: Candidate, usable: Sequence[Gpu]) -> str:
    """`7 (GPU 3: GPU is lost)`: how many GPUs count, and why the others do not."""
    broken = [f"GPU {g.index}: {g.problem.message}" for g in c.facts.gpu.gpus if g.problem is not None]
    counted = {g.index for g in usable}
    barred = [
        f"GPU {g.index}: not allowed by hosts.yaml"
        for g in c.facts.gpu.gpus
        if g.problem is None and g.index not in counted
    ]
    why = "; ".join([*broken, *barred])
    return f"{len(usable)}" + (f" ({why})" if why else "")


def _all(c: Candidate, usable: tuple[Gpu, ...], notes: Notes) -> tuple[Gpu, ...] | None:
    if not usable:
        hint = f"gpus_per_host: 0 for none anywhere, or gpus_by_host in its place, with 0 for {c.host.name}"
        notes.problem("gpus", c.host.name, f"all GPUs asked, found {_found(c, usable)}", hint)
        return None
    if len(usable) < len(c.facts.gpu.gpus):
        notes.reasons.append(f"{c.host.name}: all GPUs means {_found(c, usable)}")
    return usable


def _first_idle(c: Candidate, usable: tuple[Gpu, ...], count: int, notes: Notes) -> tuple[Gpu, ...] | None:
    """The `count` lowest GPUs that nobody uses; busy ones only when there are not enough idle ones."""
    if count < 0 or count > len(usable):
        notes.problem(
            "gpus",
            c.host.name,
            f"{counted(count, 'GPU')} asked, found {_found(c, usable)}",
            "ask for fewer with gpus_per_host, or take another host",
        )
        return None
    ranked = sorted(usable, key=lambda g: (is_busy(g), g.index))
    chosen = tuple(sorted(ranked[:count], key=lambda g: g.index))
    top = max((g.index for g in chosen), default=-1)
    passed = [g for g in usable if g not in chosen and g.index < top]
    notes.reasons.extend(f"{c.host.name}: GPU {g.index} passed over, {busy_words(g)}" for g in passed)
    return chosen


def _by_index(c: Candidate, usable: tuple[Gpu, ...], wanted: tuple[int, ...], notes: Notes) -> tuple[Gpu, ...] | None:
    """Exactly the GPUs named; each one that can't be had is named with its reason."""
    by_index = {g.index: g for g in usable}
    twice = [i for i, n in Counter(wanted).items() if n > 1]
    missing = [i for i in dict.fromkeys(wanted) if i not in by_index]
    if twice:
        notes.problem("gpus", c.host.name, f"GPU {_commas(twice)} asked twice", "name each GPU once")
    if missing:
        notes.problem(
            "gpus",
            c.host.name,
            f"GPU {_commas(missing)} asked, found {_found(c, usable)}" + (f": {_commas(by_index)}" if by_index else ""),
            "name GPUs that the host has (`distui probe` lists them)",
        )
    if twice or missing:
        return None
    return tuple(by_index[i] for i in wanted)


def is_busy(gpu: Gpu) -> bool:
    """Whether somebody computes on the GPU: a process holds its memory, or more than 5 % of it is taken.

    Utilisation decides nothing: an idle card without persistence mode reads 100 % (FAULTS section 4).
    """
    if gpu.processes:
        return True
    return is_taken(gpu.memory_used_mib, gpu.memory_total_mib)


def busy_words(gpu: Gpu) -> str:
    """`busy: python (pid 17, alice) holds 40 GiB`."""
    if not gpu.processes:
        return f"busy: {memory_words(gpu.memory_used_mib or 0)} of {memory_words(gpu.memory_total_mib or 0)} are taken"
    return "busy: " + "; ".join(_process_words(p) for p in gpu.processes)


def _process_words(p: GpuProcess) -> str:
    who = f"pid {p.pid}" + (f", {p.user}" if p.user else "")
    held = "memory" if p.memory_mib is None else memory_words(p.memory_mib)
    return f"{p.name} ({who}) holds {held}"


def _warn_about(host: str, gpu: Gpu, notes: Notes) -> None:
    if is_busy(gpu):
        notes.warnings.append(f"{host}: GPU {gpu.index} is {busy_words(gpu)}")
    if gpu.mig:
        notes.warnings.append(
            f"{host}: GPU {gpu.index} is split by MIG; a program sees its MIG devices, not the whole card"
        )


# ranks


def _ranks(
    job: Job, candidates: Sequence[Candidate], gpus: Mapping[str, tuple[Gpu, ...] | None], notes: Notes
) -> Mapping[str, tuple[int, ...]]:
    """Rank numbers of each host: as listed by `by_host`, else dense and host by host."""
    if job.ranks is not None and job.ranks.by_host:
        return _listed_ranks(job.ranks.by_host, candidates, notes)
    ranks: dict[str, tuple[int, ...]] = {}
    first = 0
    for c in candidates:
        count = max(0, _rank_count(job, c, gpus[c.host.name], notes))
        ranks[c.host.name] = tuple(range(first, first + count))
        first += count
    return ranks


def _rank_count(job: Job, c: Candidate, chosen: tuple[Gpu, ...] | None, notes: Notes) -> int:
    """How many ranks a host gets: the job's layout, a hostfile's slots, one for each GPU, or one."""
    layout, slots, gpus = job.ranks, c.host.slots, len(chosen or ())
    if layout is not None and layout.per_gpu is not None:
        if chosen == ():
            notes.problem(
                "ranks", c.host.name, "ranks per GPU asked, but the run has no GPU on it", "use ranks: {per_host: N}"
            )
        return layout.per_gpu * gpus
    if layout is not None and layout.per_host is not None:
        if slots is not None and layout.per_host > slots:
            notes.warnings.append(
                f"{c.host.name}: {counted(layout.per_host, 'rank')} on {counted(slots, 'slot')} of the hostfile"
            )
        return layout.per_host
    if slots is not None:
        return slots
    if not gpus:
        return 1
    if not job.gpus_per_rank:
        return gpus
    if gpus % job.gpus_per_rank:
        notes.problem(
            "ranks",
            c.host.name,
            f"{counted(gpus, 'GPU')} can't be divided into ranks of {counted(job.gpus_per_rank, 'GPU')}",
            "change gpus_per_host or gpus_per_rank",
        )
    return gpus // job.gpus_per_rank


def _listed_ranks(
    by_host: Mapping[str, tuple[int, ...]], candidates: Sequence[Candidate], notes: Notes
) -> Mapping[str, tuple[int, ...]]:
    """Ranks as the job lists them; every rank from 0 must be there exactly once."""
    names = [c.host.name for c in candidates]
    for name in by_host:
        if name not in names:
            notes.problem("ranks", name, "the job gives it ranks, but it is not a host of this run", "add it to hosts:")
    for name in names:
        if not by_host.get(name):
            notes.problem("ranks", name, "the job lists ranks for other hosts but none for it", "add it to ranks:")
    listed = Counter(r for name in names for r in by_host.get(name, ()))
    for rank, times in sorted(listed.items()):
        if times > 1:
            holders = [n for n in names if rank in by_host.get(n, ())]
            notes.problem(
                "ranks", None, f"rank {rank} is given {times} times ({', '.join(holders)})", "give each rank once"
            )
    outside = [r for r in listed if r < 0 or r >= len(listed)]
    if outside:
        gaps = [r for r in range(len(listed)) if r not in listed]
        notes.problem(
            "ranks",
            None,
            f"ranks must be 0 to {len(listed) - 1} without a gap; missing {_commas(gaps)}, found {_commas(outside)}",
        )
    return {name: tuple(by_host.get(name, ())) for name in names}


def _commas(numbers: object) -> str:
    """`1, 2, 5`, cut after ten."""
    values = [str(n) for n in numbers]  # type: ignore[attr-defined]
    return ", ".join(values[:10]) + (" ..." if len(values) > 10 else "")


def _place(
    job: Job, c: Candidate, node: int, ranks: tuple[int, ...], gpus: tuple[Gpu, ...], notes: Notes
) -> HostPlacement:
    shares = _shares(job, c, tuple(g.index for g in gpus), len(ranks), notes)
    return HostPlacement(c.host, c.facts, node, ranks, gpus, shares)


def _shares(job: Job, c: Candidate, gpus: tuple[int, ...], ranks: int, notes: Notes) -> tuple[tuple[int, ...], ...]:
    """The GPUs meant for each local rank: neighbours in a row; shared when there are more ranks than GPUs."""
    if not gpus:
        return ((),) * ranks
    each = job.gpus_per_rank
    if each:
        if each * ranks > len(gpus):
            notes.problem(
                "ranks",
                c.host.name,
                f"{counted(ranks, 'rank')} with {counted(each, 'GPU')} each: that is {each * ranks}, "
                f"the run has {len(gpus)} on it",
                "change ranks, gpus_per_rank or gpus_per_host",
            )
        return tuple(gpus[i * each : (i + 1) * each] for i in range(ranks))
    if ranks > len(gpus):
        notes.warnings.append(
            f"{c.host.name}: {ranks} ranks share {counted(len(gpus), 'GPU')}, so LOCAL_RANK is not a device number"
            + (", and NCCL refuses two ranks on one GPU" if job.backend == "nccl" else "")
        )
        return tuple((gpus[i * len(gpus) // ranks],) for i in range(ranks))
    share, rest = divmod(len(gpus), ranks)
    if rest:
        notes.warnings.append(f"{c.host.name}: {counted(len(gpus), 'GPU')} can't be divided evenly among {ranks} ranks")
    starts = [i * share + min(i, rest) for i in range(ranks + 1)]
    return tuple(gpus[starts[i] : starts[i + 1]] for i in range(ranks))


def _check_torchrun(places: Sequence[HostPlacement], notes: Notes) -> None:
    """torchrun numbers ranks itself, node after node, so an own order can't be had with it."""
    expected = [r for p in places for r in p.ranks]
    if expected != list(range(len(expected))):
        notes.problem(
            "ranks",
            None,
            "torchrun numbers ranks host by host; the ranks listed in the job are in another order",
            "list neighbouring ranks on each host, or use launcher: env",
        )
    counts = {p.name: len(p.ranks) for p in places}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {n}" for name, n in counts.items())
        notes.warnings.append(f"hosts have different numbers of ranks ({listed}); torchrun programs often assume equal")
