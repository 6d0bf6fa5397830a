"""plan(): job x inventory x facts -> the whole run as one frozen value, or every reason why there is none."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence

from distui.codec import write
from distui.errors import PlanProblem
from distui.facts.host import HostDown, HostFacts, ProbeResult
from distui.plan import checks
from distui.plan.command import limit, tf, torchrun
from distui.plan.command.env import check_env
from distui.plan.content import mounts
from distui.plan.content.build import built_name
from distui.plan.model import BuildPlan, CodePlan, HostNetwork, NoPlan, Notes, RunPlan
from distui.plan.network.rendezvous import RendezvousPoint, asked_port, meet
from distui.plan.network.routes import choose_routes
from distui.plan.ranks.machines import check_machines
from distui.plan.ranks.placement import Candidate, HostPlacement, Placement, place
from distui.plan.ranks.roles import place_roles
from distui.plan.tasks import Draft, RunId, tasks_of
from distui.spec.hosts.inventory import HostPick, Inventory
from distui.spec.hosts.names import fold_texts
from distui.spec.job.job import Backend, Job


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
    notes = Notes()
    candidates = _candidates(inventory, picks, facts, notes)
    candidates = tuple(_without(c, taken.get(c.host.name, ())) for c in candidates) if taken else candidates
    notes.problems += checks.check_job(job, [c.host for c in candidates], run_id)
    notes.problems += [p for c in candidates for p in checks.check_engine(job, c.host, c.facts)]
    if job.launcher == "tf":
        placement = place_roles(job, candidates, inventory.groups, notes)
    else:
        placement = place(job, candidates, notes)
    notes.problems += checks.check_gpu_engine(placement.places)
    notes.problems += checks.check_gpu_map(job, inventory)
    if placement.world_size == 0:
        if not notes.problems:
            notes.problem("ranks", None, "no host gets any rank, so there is nothing to run", "see ranks:")
        return notes.no_plan()
    who = RunId(run_id, owner, version, attempt, spent, started, launch, keep)
    return _planned(job, placement, who, notes, code, build)


def _candidates(
    inventory: Inventory, picks: Sequence[HostPick], facts: Mapping[str, ProbeResult], notes: Notes
) -> tuple[Candidate, ...]:
    """The picked hosts that can be planned for; each other one is a problem."""
    if not picks:
        notes.problem("hosts", None, "no hosts to run on", "name hosts in the job, or with -H")
    found: dict[str, Candidate] = {}
    for pick in picks:
        candidate = _candidate(inventory, pick, facts.get(pick.name))
        if isinstance(candidate, PlanProblem):
            notes.problems.append(candidate)
        elif pick.name in found:
            notes.problem("hosts", pick.name, "is named twice", "name each host once")
        else:
            found[pick.name] = candidate
    return tuple(found.values())


def _candidate(inventory: Inventory, pick: HostPick, result: ProbeResult | None) -> Candidate | PlanProblem:
    host = inventory.get(pick.name)
    if host is None:
        known = ", ".join(h.name for h in inventory.hosts[:8]) or "none"
        return PlanProblem("hosts", pick.name, f"is not in the inventory (known: {known})", "add it to hosts.yaml")
    match result:
        case None:
            return PlanProblem("not_probed", pick.name, "was not probed", f"run `distui probe -H {pick.name}`")
        case HostDown(error=error):
            return PlanProblem(error.code, pick.name, error.words(pick.name), error.hint)
        case HostFacts():
            return Candidate(host, result, pick.gpus)


def _without(candidate: Candidate, ports: Collection[int]) -> Candidate:
    """The candidate with these ports in use."""
    in_use = candidate.facts.ports_in_use | frozenset(ports)
    return dataclasses.replace(candidate, facts=dataclasses.replace(candidate.facts, ports_in_use=in_use))


def _planned(
    job: Job, placement: Placement, who: RunId, notes: Notes, code: CodePlan | None, build: BuildPlan | None
) -> RunPlan | NoPlan:
    """The rest, once ranks have hosts: networks, rendezvous point, tasks."""
    places = placement.places
    if job.code is not None and code is None:
        notes.problem("not_read", None, "the job's code was not read", "give plan() what `code:` stands for")
    if build is not None:
        job = dataclasses.replace(job, image=job.image or built_name(job.name, build.content))
    elif job.build is not None:
        notes.problem("not_read", None, "the job's build was not read", "give plan() what `build:` stands for")
    backend = _backend(job, places, notes)
    check_machines(places, notes)
    networks = choose_routes(job, backend, [(p.host, p.facts) for p in places], notes)
    rendezvous = _meet(job, placement, networks, who, notes)
    without_container = any(p.host.engine == "process" for p in places)
    check_env(job, notes, process=without_container, world_size=placement.world_size)
    notes.problems += checks.check_nodes(job, places)
    notes.problems += mounts.check(job, [(p, checks.engine_of(p.host, p.facts)) for p in places])
    notes.problems += checks.check_preflight(job, places, networks)
    notes.warnings += checks.warn_job(job, places, backend)
    if notes.problems:
        return notes.no_plan()
    return _with_hash(Draft(job, backend, placement, networks, rendezvous, who, code, build), notes)


def _meet(
    job: Job, placement: Placement, networks: Sequence[HostNetwork], who: RunId, notes: Notes, *, blank: bool = False
) -> RendezvousPoint:
    if job.launcher == "tf":
        return tf.meet_tf(job, placement, networks, notes, run_id=who.run_id, attempt=who.attempt, blank=blank)
    return meet(job, placement.places, networks, notes, run_id=who.run_id, attempt=who.attempt)


def _backend(job: Job, places: Sequence[HostPlacement], notes: Notes) -> Backend:
    """The job's backend, else nccl where every rank has a GPU and gloo where not."""
    if job.backend is not None:
        return job.backend
    gpus = all(p.gpus for p in places)
    if job.launcher == "tf":
        return "nccl" if gpus else "gloo"  # TensorFlow chooses itself; only whether RDMA is of use depends on it
    notes.reasons.append("backend nccl: every host has GPUs in the run" if gpus else _without_gpus(job, places))
    return "nccl" if gpus else "gloo"


def _without_gpus(job: Job, places: Sequence[HostPlacement]) -> str:
    """Why gloo; whoever did not know how GPUs are asked for reads it where there are some."""
    if any(p.gpus for p in places):
        return "backend gloo: not every host has GPUs in the run"
    asked = job.gpus_per_host is not None or job.gpus_by_host
    unused = not asked and any(g.problem is None for p in places for g in p.facts.gpu.gpus)
    return "backend gloo: no GPUs asked" + (" (`gpus_per_host: all` asks for those of each host)" if unused else "")


def _anonymous(draft: Draft) -> Draft:
    """The same without what changes from run to run, for the hash."""
    port = draft.rendezvous.master_port if asked_port(draft.job) is not None else 0
    who = RunId("run", draft.who.owner, draft.who.version, 0)
    found = _meet(draft.job, draft.placement, draft.networks, who, Notes(), blank=True)
    if draft.job.launcher != "tf":
        method = f"tcp://:{port}" if draft.job.rendezvous.kind == "tcp" else found.init_method
        found = dataclasses.replace(found, master_port=port, init_method=method)
    return dataclasses.replace(draft, who=who, rendezvous=found)


def _with_hash(draft: Draft, notes: Notes) -> RunPlan:
    """The plan with its own hash in it and in every task's labels."""
    bare = _run_plan(_anonymous(draft), Notes(), "")
    content = json.dumps(write(bare), sort_keys=True)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return _run_plan(draft, notes, digest)


def _run_plan(draft: Draft, notes: Notes, digest: str) -> RunPlan:
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
        tasks=tasks_of(draft, digest),
        reasons=tuple(notes.reasons),
        warnings=tuple(fold_texts(notes.warnings, [place.name for place in draft.placement.places])),
        hash=digest,
        done_when=tf.done_when(job),
        code=draft.code,
        mounts=mounts.mounts_of(job),
        build=draft.build,
        success=job.success,
        same=job.same,
    )
