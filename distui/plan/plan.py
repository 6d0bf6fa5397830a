"""plan(): job x inventory x facts -> the whole run as one frozen value, or every reason why there is none."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from distui.codec import write
from distui.facts.host import HostDown, HostFacts, ProbeResult
from distui.frozen import frozen
from distui.plan import checks, docker, insight, limit, mounts, process, tf, torchrun
from distui.plan.build import built_name
from distui.plan.code import code_folder, code_workdir
from distui.plan.env import HOSTFILE, RankSlot, check_env, placeholders, task_env
from distui.plan.labels import TaskLabels, to_labels
from distui.plan.machines import check_machines
from distui.plan.model import BuildPlan, CodePlan, HostNetwork, NoPlan, PlanProblem, RunPlan, Task, container_name
from distui.plan.placement import Candidate, HostPlacement, Placement, place
from distui.plan.rendezvous import ChosenRendezvous, RendezvousPoint, asked_port, meet
from distui.plan.roles import place_roles, roles_of
from distui.plan.routes import choose_routes
from distui.spec.hosts.inventory import EngineName, HostPick, Inventory
from distui.spec.job.job import Backend, Job
from distui.spec.job.placeholders import fill, used

__all__ = [
    "HostNetwork",
    "NoPlan",
    "PlanProblem",
    "RunPlan",
    "Task",
    "container_name",
    "plan",
]


def plan(
    job: Job,
    inventory: Inventory,
    picks: Sequence[HostPick],
    facts: Mapping[str, ProbeResult],
    *,
    run_id: str,
    owner: str,
    version: str,
    attempt: int = 1,
    spent: float = 0.0,
    started: str = "",
    launch: str = "",
    keep: bool = False,
    taken: Mapping[str, Collection[int]] | None = None,
    code: CodePlan | None = None,
    build: BuildPlan | None = None,
) -> RunPlan | NoPlan:
    """Make the plan of a run. Pure and total: any typed input gives a plan or a NoPlan, never an exception.

    `code` is what the job's `code:` was resolved to, `build` what was read for its `build:`.
    `spent` are the seconds that earlier attempts took of the job's `max_duration`. `started` (a time stamp),
    `launch` (random) and `keep` (whether ended containers stay) go into the labels when given. `taken` are ports by
    host that other runs have though nobody may listen on them yet. The hash leaves these, the run id, the attempt and
    the port that follows from them out, so that one job planned twice on unchanged hosts has one hash.
    """
    notes = _Notes()
    candidates = _candidates(inventory, picks, facts, notes)
    candidates = tuple(_without(c, taken.get(c.host.name, ())) for c in candidates) if taken else candidates
    notes.problems += checks.check_job(job, [c.host for c in candidates], run_id)
    notes.problems += [p for c in candidates for p in checks.check_engine(job, c.host, c.facts)]
    placement = place_roles(job, candidates, inventory.groups) if job.launcher == "tf" else place(job, candidates)
    notes.add(placement.problems, placement.warnings, placement.reasons)
    notes.problems += checks.check_gpu_engine(placement.places)
    notes.problems += checks.check_gpu_map(job, inventory)
    if placement.world_size == 0:
        if not notes.problems:
            notes.problems.append(PlanProblem(None, "no host gets any rank, so there is nothing to run", "see ranks:"))
        return notes.no_plan()
    who = _Id(run_id, owner, version, attempt, spent, started, launch, keep)
    return _planned(job, placement, who, notes, code, build)


@frozen
class _Id:
    """Who runs this and when: the part of a plan that changes from run to run."""

    run_id: str
    owner: str
    version: str
    attempt: int
    spent: float = 0.0
    started: str = ""
    launch: str = ""
    keep: bool = False


@dataclass(slots=True)
class _Notes:
    """What is found on the way; said together at the end."""

    problems: list[PlanProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, problems: Sequence[PlanProblem], warnings: Sequence[str], reasons: Sequence[str] = ()) -> None:
        self.problems += problems
        self.warnings += warnings
        self.reasons += reasons

    def no_plan(self) -> NoPlan:
        return NoPlan(tuple(dict.fromkeys(self.problems)))


def _candidates(
    inventory: Inventory, picks: Sequence[HostPick], facts: Mapping[str, ProbeResult], notes: _Notes
) -> tuple[Candidate, ...]:
    """The picked hosts that can be planned for; each other one is a problem."""
    if not picks:
        notes.problems.append(PlanProblem(None, "no hosts to run on", "name hosts in the job, or with -H"))
    found: dict[str, Candidate] = {}
    for pick in picks:
        candidate = _candidate(inventory, pick, facts.get(pick.name))
        if isinstance(candidate, PlanProblem):
            notes.problems.append(candidate)
        elif pick.name in found:
            notes.problems.append(PlanProblem(pick.name, "is named twice", "name each host once"))
        else:
            found[pick.name] = candidate
    return tuple(found.values())


def _candidate(inventory: Inventory, pick: HostPick, result: ProbeResult | None) -> Candidate | PlanProblem:
    host = inventory.get(pick.name)
    if host is None:
        known = ", ".join(h.name for h in inventory.hosts[:8]) or "none"
        return PlanProblem(pick.name, f"is not in the inventory (known: {known})", "add it to hosts.yaml")
    match result:
        case None:
            return PlanProblem(pick.name, "was not probed", f"run `distui probe -H {pick.name}`")
        case HostDown(error=error):
            return PlanProblem(pick.name, error.message, error.hint)
        case HostFacts():
            return Candidate(host, result, pick.gpus)


def _without(candidate: Candidate, ports: Collection[int]) -> Candidate:
    """The candidate with these ports in use."""
    in_use = candidate.facts.ports_in_use | frozenset(ports)
    return dataclasses.replace(candidate, facts=dataclasses.replace(candidate.facts, ports_in_use=in_use))


def _planned(
    job: Job, placement: Placement, who: _Id, notes: _Notes, code: CodePlan | None, build: BuildPlan | None
) -> RunPlan | NoPlan:
    """The rest, once ranks have hosts: networks, rendezvous point, tasks."""
    places = placement.places
    if job.code is not None and code is None:
        notes.problems.append(PlanProblem(None, "the job's code was not read", "give plan() what `code:` stands for"))
    if build is not None:
        job = dataclasses.replace(job, image=job.image or built_name(job.name, build.content))
    elif job.build is not None:
        notes.problems.append(PlanProblem(None, "the job's build was not read", "give plan() what `build:` stands for"))
    backend = _backend(job, places, notes)
    notes.add(*check_machines(places))
    routes = choose_routes(job, backend, [(p.host, p.facts) for p in places])
    notes.add(routes.problems, routes.warnings, routes.reasons)
    found = _meet(job, placement, routes.networks, who)
    notes.add(found.problems, found.warnings, found.reasons)
    without_container = any(p.host.engine == "process" for p in places)
    notes.add(*check_env(job, process=without_container, world_size=placement.world_size))
    notes.problems += checks.check_nodes(job, places)
    notes.problems += mounts.check(job, [(p, checks.engine_of(p.host, p.facts)) for p in places])
    notes.problems += checks.check_preflight(job, places, routes.networks)
    notes.warnings += checks.warn_job(job, places, backend)
    if notes.problems:
        return notes.no_plan()
    draft = _Draft(job, backend, placement, routes.networks, found.rendezvous, who, code, build)
    return _with_hash(draft, notes)


def _meet(
    job: Job, placement: Placement, networks: Sequence[HostNetwork], who: _Id, *, blank: bool = False
) -> ChosenRendezvous:
    if job.launcher == "tf":
        return tf.meet_tf(job, placement, networks, run_id=who.run_id, attempt=who.attempt, blank=blank)
    return meet(job, placement.places, networks, run_id=who.run_id, attempt=who.attempt)


def _backend(job: Job, places: Sequence[HostPlacement], notes: _Notes) -> Backend:
    """The job's backend, else nccl where every rank has a GPU and gloo where not."""
    if job.backend is not None:
        return job.backend
    gpus = all(p.gpus for p in places)
    if job.launcher == "tf":
        return "nccl" if gpus else "gloo"  # TensorFlow chooses itself; only whether RDMA is of use depends on it
    notes.reasons.append("backend nccl: every host has GPUs in the run" if gpus else "backend gloo: no GPUs asked")
    return "nccl" if gpus else "gloo"


@frozen
class _Draft:
    """Everything decided; tasks are written from it."""

    job: Job
    backend: Backend
    placement: Placement
    networks: tuple[HostNetwork, ...]
    rendezvous: RendezvousPoint
    who: _Id
    code: CodePlan | None = None
    build: BuildPlan | None = None

    def anonymous(self) -> _Draft:
        """The same without what changes from run to run, for the hash."""
        port = self.rendezvous.master_port if asked_port(self.job) is not None else 0
        who = _Id("run", self.who.owner, self.who.version, 0)
        blank = dataclasses.replace(self, who=who)
        found = _meet(self.job, self.placement, self.networks, who, blank=True).rendezvous
        if self.job.launcher == "tf":
            return dataclasses.replace(blank, rendezvous=found)
        method = f"tcp://:{port}" if self.job.rendezvous.kind == "tcp" else found.init_method
        rendezvous = dataclasses.replace(found, master_port=port, init_method=method)
        return dataclasses.replace(blank, rendezvous=rendezvous)


def _with_hash(draft: _Draft, notes: _Notes) -> RunPlan:
    """The plan with its own hash in it and in every task's labels."""
    bare = _run_plan(draft.anonymous(), _Notes(), "")
    content = json.dumps(write(bare), sort_keys=True)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return _run_plan(draft, notes, digest)


def _run_plan(draft: _Draft, notes: _Notes, digest: str) -> RunPlan:
    job, who, rendezvous = draft.job, draft.who, draft.rendezvous
    return RunPlan(
        run_id=who.run_id,
        job=job.name,
        owner=who.owner,
        version=who.version,
        attempt=who.attempt,
        attempts=job.retries + 1,
        max_duration=limit.left(job, who.spent),
        max_restarts=torchrun.max_restarts(job),
        min_nodes=torchrun.min_nodes(job),
        launcher=job.launcher,
        backend=draft.backend,
        init_method=rendezvous.init_method,
        rendezvous_file=rendezvous.file,
        rendezvous_host_path=rendezvous.host_file,
        master_addr=rendezvous.master_addr,
        master_port=rendezvous.master_port,
        world_size=draft.placement.world_size,
        image=job.image,
        pull=job.pull,
        on_fail=job.on_fail,
        on_hang=job.on_hang,
        stop_grace=job.stop_grace,
        stall_after=job.stall_after,
        progress=job.progress,
        networks=draft.networks,
        tasks=_tasks(draft, digest),
        reasons=tuple(notes.reasons),
        warnings=tuple(notes.warnings),
        hash=digest,
        done_when=tf.done_when(job),
        code=draft.code,
        mounts=mounts.mounts_of(job),
        build=draft.build,
        success=job.success,
        same=job.same,
    )


# tasks


def _tasks(draft: _Draft, digest: str) -> tuple[Task, ...]:
    """One task per rank (in rank order within a host; with launcher `tf` throughout) or per host (`is_node`)."""
    placed = draft.placement
    totals = len(placed.places), placed.world_size, placed.processes  # counted once: ranks times hosts is much
    peers = tuple(net.addr for net in draft.networks)
    seats = [
        RankSlot(p, net, local, *totals, peers)
        for p, net in zip(placed.places, draft.networks, strict=True)
        for local in ((-1,) if is_node(draft.job) else range(len(p.ranks)))
    ]
    if draft.job.launcher == "tf":
        seats.sort(key=lambda seat: seat.rank)
    shared = _run_labels(draft, len(seats), digest)
    return tuple(_task(draft, shared, seat, index) for index, seat in enumerate(seats))


def is_node(job: Job) -> bool:
    """Whether a task is a host, on which a launcher of its own starts the processes."""
    return job.launcher == "torchrun" or (job.launcher == "command" and job.task_per == "host")


def _task(draft: _Draft, shared: TaskLabels, slot: RankSlot, index: int) -> Task:
    job, place = draft.job, slot.place
    engine = checks.engine_of(place.host, place.facts)
    run_dir = run_folder(place.facts.home or "~", place.name, draft.who.run_id)
    labels = _labels(draft, shared, slot, index, engine)
    listed = _wants_hostfile(job)
    hostfile = f"{run_dir}/hostfile-{index}" if listed else ""
    slot = dataclasses.replace(slot, hostfile=hostfile if engine == "process" else HOSTFILE)
    asked = insight.folder_of(run_dir, index) if insight.wanted(job) else ""
    env = _env(draft, slot, labels)
    task = Task(
        index=index,
        name=labels.name or (f"node{place.node_rank}" if slot.local_rank < 0 else f"rank{slot.rank}"),
        host=place.name,
        engine=engine,
        engine_command=place.host.engine_command if engine != "process" else (),
        role=labels.role,
        node_rank=place.node_rank,
        ranks=labels.ranks,
        gpus=labels.gpus,
        image=job.image if engine != "process" else None,
        env=insight.with_hook(env, asked, run_dir, engine) if asked else env,
        secrets=job.secrets,
        env_file=f"{run_dir}/env-{index}",
        run_dir=run_dir,
        labels=to_labels(labels),
        start=(),
        rank_gpus=place.rank_gpus if slot.local_rank < 0 else (slot.gpus,),
        port=draft.rendezvous.ports[slot.rank] if job.launcher == "tf" else None,
        hostfile=hostfile,
        hostfile_lines=_hostfile_lines(draft) if listed else (),
        insight=asked,
    )
    return dataclasses.replace(task, start=_start(draft, slot, task, _command(draft, slot, task)))


def _env(draft: _Draft, slot: RankSlot, labels: TaskLabels) -> dict[str, str]:
    """What the task's process gets, with the names of run, task and attempt."""
    own = {"DISTUI_RUN": labels.run, "DISTUI_TASK": str(labels.task), "DISTUI_ATTEMPT": str(labels.attempt)}
    role = _role_env(draft, slot.rank) if draft.job.launcher == "tf" else None
    return own | task_env(draft.job, draft.backend, slot, draft.rendezvous, visible=labels.gpus, role=role)


def _wants_hostfile(job: Job) -> bool:
    """Whether the job names `{hostfile}`."""
    words = (job.command,) if isinstance(job.command, str) else job.command
    return any("hostfile" in used(word) for word in (*words, *job.env.values()))


def _hostfile_lines(draft: _Draft) -> tuple[str, ...]:
    """All hosts as launchers of MPI read them, by their addresses on the network that was chosen."""
    pairs = zip(draft.placement.places, draft.networks, strict=True)
    return tuple(f"{network.addr} slots={place.nproc}" for place, network in pairs)


def _ports(draft: _Draft, engine: EngineName, ranks: tuple[int, ...], own: int | None) -> tuple[int, ...]:
    """The ports of its host that a task takes: its own (launcher `tf`), or the rendezvous point's with rank 0."""
    private = engine != "process" and draft.job.network != "host"
    port = own if own is not None else draft.rendezvous.master_port if 0 in ranks else 0
    return (port,) if port and not private else ()


def _role_env(draft: _Draft, rank: int) -> dict[str, str]:
    """What makes a task of launcher `tf` this one, on top of its role's own variables."""
    task = draft.placement.roles[rank]
    return {**roles_of(draft.job)[task.role].env, **tf.task_env(task, draft.rendezvous.cluster)}


def _run_labels(draft: _Draft, count: int, digest: str) -> TaskLabels:
    """What the labels of all of the run's tasks have in common."""
    job, who = draft.job, draft.who
    return TaskLabels(
        run=who.run_id,
        task=0,
        ranks=(),
        host="",
        job=job.name,
        owner=who.owner,
        version=who.version,
        plan=digest,
        launcher=job.launcher,
        backend=draft.backend,
        world_size=draft.placement.world_size,
        tasks=count,
        attempt=who.attempt,
        attempts=job.retries + 1,
        launch=who.launch,
        max_duration=limit.left(job, who.spent) or 0.0,
        max_restarts=torchrun.max_restarts(job),
        min_nodes=torchrun.min_nodes(job) or 0,
        grace=job.stop_grace,
        on_fail=job.on_fail,
        on_hang=job.on_hang,
        stall_after=job.stall_after,
        started=who.started,
        progress=job.progress or "",
        secrets=job.secrets,
        done_when=tf.done_when(job) or "",
        rendezvous_file=draft.rendezvous.host_file or "",
        success_file=(job.success.file if job.success else None) or "",
        success_seconds=(job.success.min_seconds if job.success else None) or 0.0,
        regexes=job.end_regexes,
        keep=who.keep,
    )


def _labels(draft: _Draft, shared: TaskLabels, slot: RankSlot, index: int, engine: EngineName) -> TaskLabels:
    """The labels of one task."""
    job, place, whole = draft.job, slot.place, slot.local_rank < 0
    ranks = place.ranks if whole else (slot.rank,)
    role = draft.placement.roles[slot.rank] if job.launcher == "tf" else None
    alone = not whole and (job.visible_gpus == "own" or role is not None)
    return dataclasses.replace(
        shared,
        task=index,
        ranks=ranks,
        host=place.name,
        engine=engine,
        node_rank=place.node_rank,
        gpus=slot.gpus if alone else place.gpu_indices,
        ports=_ports(draft, engine, ranks, draft.rendezvous.ports[slot.rank] if role else None),
        boot=(place.facts.boot_id or "") if shared.plan else "",  # the hash is none of a moment
        role=role.role if role else "worker",
        name=role.name if role else f"node{place.node_rank}" if whole and job.launcher == "command" else "",
    )


def run_folder(home: str, host: str, run_id: str) -> str:
    """The run's private folder on a host; hosts may share a home or be one machine, so their names are in it."""
    safe = re.sub(r"[^A-Za-z0-9._@-]", "_", host)
    return f"{home.rstrip('/')}/.local/state/distui/hosts/{safe if safe.strip('.') else '_'}/{run_id}"


def _command(draft: _Draft, slot: RankSlot, task: Task) -> tuple[str, ...]:
    """The program of a task, with placeholders filled in."""
    job, place, rendezvous = draft.job, slot.place, draft.rendezvous
    command = _filled(job.command, placeholders(job, draft.backend, slot, rendezvous))
    if job.launcher != "torchrun":
        return docker.shell_command(command)
    return torchrun.argv(
        dataclasses.replace(job, command=command),
        rendezvous,
        run_id=draft.who.run_id,
        node_rank=place.node_rank,
        addr=slot.network.addr,
        nnodes=slot.nnodes,
        nproc=len(place.ranks),
        log_dir=f"{process.task_folder(task.run_dir, task.index)}/torchrun" if task.engine == "process" else None,
    )


def _filled(command: tuple[str, ...] | str, values: Mapping[str, str]) -> tuple[str, ...] | str:
    """The command with its placeholders filled in; in text for a shell, values are quoted when they need it."""
    if isinstance(command, str):
        return fill(command, {k: shlex.quote(v) for k, v in values.items()})
    return tuple(fill(word, values) for word in command)


def _start(draft: _Draft, slot: RankSlot, task: Task, command: tuple[str, ...]) -> tuple[str, ...]:
    """The exact argv that starts the task on its host."""
    place, seconds = slot.place, limit.left(draft.job, draft.who.spent)
    job, command = limit.limited(draft.job, command, seconds, contained=task.engine != "process")
    contained, sources = task.engine != "process", ""
    if draft.code is not None:
        sources = code_folder(draft.code, place.facts.home or "~", task.run_dir, contained=contained)
    if not contained:
        workdir = code_workdir(job, sources)
        return process.start(task, command, workdir=process.workdir(workdir, place.facts.home))
    by_index = {g.index: g for g in place.gpus}
    container = docker.Container(
        engine=task.engine,
        engine_command=task.engine_command,
        name=task.container,
        labels=dict(task.labels),
        env_file=task.env_file,
        home=place.facts.home,
        gpus=tuple(by_index[i] for i in task.gpus if i in by_index),
        rdma=bool(slot.network.hcas) and draft.backend != "gloo",
        gpu_tasks=0 if is_node(job) else sum(bool(share) for share in place.rank_gpus),
        command=command,
        code_mount=mounts.bind(sources, draft.code.to, readonly=draft.code.mode == "ro") if draft.code else (),
        mounts=(
            *mounts.flags(mounts.mounts_of(job), mounts.Site(place.facts.home, draft.who.run_id)),
            *(mounts.bind(task.hostfile, HOSTFILE, readonly=True) if task.hostfile else ()),
            *(insight.flags(task.insight, task.run_dir) if task.insight else ()),
        ),
    )
    return docker.run_argv(job, container)
