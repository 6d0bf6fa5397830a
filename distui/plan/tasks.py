"""The tasks of a plan: what is started on each host, with labels, environment and argv, once all is decided."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping

from distui.frozen import frozen
from distui.plan import checks
from distui.plan.command import docker_run, insight, limit, process, shell, tf, torchrun
from distui.plan.command.env import HOSTFILE, RankSlot, placeholders, task_env
from distui.plan.command.folders import run_folder
from distui.plan.content import mounts
from distui.plan.content.code import code_folder, code_workdir
from distui.plan.labels import TaskLabels, to_labels
from distui.plan.model import BuildPlan, CodePlan, HostNetwork, Task
from distui.plan.network.rendezvous import RendezvousPoint
from distui.plan.ranks.placement import Placement
from distui.plan.ranks.roles import roles_of
from distui.regex import regex
from distui.spec.hosts.inventory import EngineName
from distui.spec.job.job import Backend, Job
from distui.spec.job.placeholders import fill, used


@frozen
class RunId:
    """Who runs this and when: the part of a plan that changes from run to run."""

    run_id: str
    owner: str
    version: str
    attempt: int
    spent: float = 0.0
    started: str = ""
    launch: str = ""
    keep: bool = False


@frozen
class Draft:
    """Everything decided; tasks are written from it."""

    job: Job
    backend: Backend
    placement: Placement
    networks: tuple[HostNetwork, ...]
    rendezvous: RendezvousPoint
    who: RunId
    code: CodePlan | None = None
    build: BuildPlan | None = None


def tasks_of(draft: Draft, digest: str) -> tuple[Task, ...]:
    """One task per rank (in rank order within a host; with launcher `tf` throughout) or per host (`is_node`)."""
    placed = draft.placement
    totals = len(placed.places), placed.world_size, placed.processes  # counted once: ranks times hosts is much
    peers = tuple(net.addr for net in draft.networks)
    slots = [
        RankSlot(p, net, local, *totals, peers)
        for p, net in zip(placed.places, draft.networks, strict=True)
        for local in ((-1,) if is_node(draft.job) else range(len(p.ranks)))
    ]
    if draft.job.launcher == "tf":
        slots.sort(key=lambda slot: slot.rank)
    shared = _run_labels(draft, len(slots), digest)
    return tuple(_task(draft, shared, slot, index) for index, slot in enumerate(slots))


def is_node(job: Job) -> bool:
    """Whether a task is a host, on which a launcher of its own starts the processes."""
    return job.launcher == "torchrun" or (job.launcher == "command" and job.task_per == "host")


def _task(draft: Draft, shared: TaskLabels, slot: RankSlot, index: int) -> Task:
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


def _env(draft: Draft, slot: RankSlot, labels: TaskLabels) -> dict[str, str]:
    """What the task's process gets, with the names of run, task and attempt."""
    own = {"DISTUI_RUN": labels.run, "DISTUI_TASK": str(labels.task), "DISTUI_ATTEMPT": str(labels.attempt)}
    role = _role_env(draft, slot.rank) if draft.job.launcher == "tf" else None
    own |= shell.group_env(draft.job, slot.place.host.engine)
    return own | task_env(draft.job, draft.backend, slot, draft.rendezvous, visible=labels.gpus, role=role)


def _wants_hostfile(job: Job) -> bool:
    """Whether the job names `{hostfile}`."""
    words = (job.command,) if isinstance(job.command, str) else job.command
    return any("hostfile" in used(word) for word in (*words, *job.env.values()))


def _hostfile_lines(draft: Draft) -> tuple[str, ...]:
    """All hosts as launchers of MPI read them, by their addresses on the network that was chosen."""
    pairs = zip(draft.placement.places, draft.networks, strict=True)
    return tuple(f"{network.addr} slots={place.nproc}" for place, network in pairs)


def _ports(draft: Draft, engine: EngineName, ranks: tuple[int, ...], own: int | None) -> tuple[int, ...]:
    """The ports of its host that a task takes: its own (launcher `tf`), or the rendezvous point's with rank 0."""
    private = engine != "process" and draft.job.network != "host"
    port = own if own is not None else draft.rendezvous.master_port if 0 in ranks else 0
    return (port,) if port and not private else ()


def _role_env(draft: Draft, rank: int) -> dict[str, str]:
    """What makes a task of launcher `tf` this one, on top of its role's own variables."""
    task = draft.placement.roles[rank]
    return {**roles_of(draft.job)[task.role].env, **tf.task_env(task, draft.rendezvous.cluster)}


def _run_labels(draft: Draft, count: int, digest: str) -> TaskLabels:
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


def _labels(draft: Draft, shared: TaskLabels, slot: RankSlot, index: int, engine: EngineName) -> TaskLabels:
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


def _command(draft: Draft, slot: RankSlot, task: Task) -> tuple[str, ...]:
    """The program of a task, with placeholders filled in."""
    job, place, rendezvous = draft.job, slot.place, draft.rendezvous
    command = _filled(job.command, placeholders(job, draft.backend, slot, rendezvous))
    words = shell.words(job, command, task.engine)
    if job.launcher != "torchrun":
        return words
    return torchrun.argv(
        job,
        words if words is command else ("--no-python", *words),
        rendezvous,
        run_id=draft.who.run_id,
        node_rank=place.node_rank,
        addr=slot.network.addr,
        nnodes=slot.nnodes,
        nproc=len(place.ranks),
        log_dir=f"{process.task_folder(task.run_dir, task.index)}/torchrun" if task.engine == "process" else None,
    )


_SIX = regex(r"tcp://\[[0-9a-f:.]+\]:\d+", re.ASCII)


def _filled(command: tuple[str, ...] | str, values: Mapping[str, str]) -> tuple[str, ...] | str:
    """The command with its placeholders filled in; in text for a shell, values are quoted when they need it. IPv6 does
    not: its brackets match no file's name, and quotes would stay in `"{init_method}"`.
    """
    if isinstance(command, str):
        return fill(command, {k: v if _SIX.fullmatch(v) else shlex.quote(v) for k, v in values.items()})
    return tuple(fill(word, values) for word in command)


def _start(draft: Draft, slot: RankSlot, task: Task, command: tuple[str, ...]) -> tuple[str, ...]:
    """The exact argv that starts the task on its host."""
    place, seconds = slot.place, limit.left(draft.job, draft.who.spent)
    contained, sources = task.engine != "process", ""
    grouped = not contained or bool(shell.group_env(draft.job, task.engine))
    job, command = limit.limited(draft.job, command, seconds, contained=contained, grouped=grouped)
    if draft.code is not None:
        sources = code_folder(draft.code, place.facts.home or "~", task.run_dir, contained=contained)
    if not contained:
        workdir = code_workdir(job, sources)
        return process.start(task, command, workdir=process.workdir(workdir, place.facts.home))
    by_index = {g.index: g for g in place.gpus}
    container = docker_run.Container(
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
    return docker_run.run_argv(job, container)
