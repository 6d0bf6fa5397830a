"""Which host holds which TensorFlow task (launcher `tf`), and which GPUs each gets.

Tasks are numbered as ranks in the order chief, worker, ps, evaluator. Those of one type are spread evenly, neighbours
in a row, so that worker 0 is on the first host. The ones that train get GPUs unless the job says otherwise; a
coordinating chief, parameter servers and the evaluator do not (FACTS 2.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.amounts import counted
from distui.errors import UsageError
from distui.plan.model import Notes
from distui.plan.ranks.placement import Candidate, HostPlacement, Placement, RoleTask, gpus_of, named_gpus
from distui.spec.hosts import names
from distui.spec.job.job import ROLES, GpuRequest, Job, Role, RoleName


def roles_of(job: Job) -> Mapping[RoleName, Role]:
    """The job's roles; one worker on each host where it names none."""
    return job.roles or {"worker": Role()}


def place_roles(
    job: Job, candidates: Sequence[Candidate], groups: Mapping[str, tuple[str, ...]], notes: Notes
) -> Placement:
    """Give every task a host and its GPUs. Never raises: what can't be is a problem."""
    tasks: list[RoleTask] = []
    for name in ROLES:
        role = roles_of(job).get(name)
        if role is not None:
            tasks += _spread(name, role, _hosts(name, role, candidates, groups, notes))
    for one in (
        "chief",
        "evaluator",
    ):  # only shows once hosts are known: `per_host: 1` is several tasks on several hosts
        if (count := sum(t.role == one for t in tasks)) > 1:
            notes.problem(
                "roles", None, f"{count} tasks are {one}, and TensorFlow allows one", f"roles.{one}: {{count: 1}}"
            )
    ranks: dict[str, list[int]] = {c.host.name: [] for c in candidates}
    for rank, task in enumerate(tasks):
        ranks[task.host].append(rank)
    used = sorted((c for c in candidates if ranks[c.host.name]), key=lambda c: ranks[c.host.name][0])
    for c in candidates:
        if not ranks[c.host.name] and tasks:
            notes.warnings.append(f"{c.host.name}: no task of the roles runs here")
    places = tuple(_place(job, c, node, tasks, tuple(ranks[c.host.name]), notes) for node, c in enumerate(used))
    _compare_workers(job, places, tasks, notes)
    return Placement(places, tuple(tasks))


def _hosts(
    name: RoleName, role: Role, candidates: Sequence[Candidate], groups: Mapping[str, tuple[str, ...]], notes: Notes
) -> list[str]:
    """The hosts that a role may use, in the run's order."""
    run = [c.host.name for c in candidates]
    if not role.hosts:
        return run
    try:
        wanted = [pick.name for expr in role.hosts for pick in names.picks(expr, {"all": tuple(run), **groups})]
    except UsageError as error:
        notes.problem("roles", None, f"roles.{name}.hosts: {error.message}", error.hint)
        return []
    for host in dict.fromkeys(wanted):
        if host not in run:
            notes.problem(
                "roles", host, f"roles.{name}.hosts names it, but it is not a host of this run", "add it to hosts:"
            )
    return [host for host in run if host in wanted]


def _spread(name: RoleName, role: Role, hosts: Sequence[str]) -> list[RoleTask]:
    """The tasks of one role, host by host."""
    if role.per_host is not None or (role.count is None and name == "worker"):
        counts = [role.per_host or 1] * len(hosts)
    else:
        share, rest = divmod(role.count or 1, len(hosts) or 1)
        counts = [share + (i < rest) for i in range(len(hosts))]
    where = [host for host, count in zip(hosts, counts, strict=True) for _ in range(count)]
    return [RoleTask(name, i, host) for i, host in enumerate(where)]


def trains(role: RoleName, job: Job) -> bool:
    """Whether tasks of this role compute gradients: workers, and a chief that does not coordinate."""
    return role == "worker" or (role == "chief" and "ps" not in roles_of(job))


# GPUs


def _place(
    job: Job, c: Candidate, node: int, tasks: Sequence[RoleTask], ranks: tuple[int, ...], notes: Notes
) -> HostPlacement:
    wants = [_want(job, tasks[rank]) for rank in ranks]
    named = named_gpus(job, c)
    request: GpuRequest
    if named is not None:
        request = named
    elif any(roles_of(job)[tasks[rank].role].gpus == "all" for rank in ranks):
        request = "all"
    else:
        request = sum(w for w in wants if isinstance(w, int))
    gpus = gpus_of(request, c, notes)
    if gpus is None:
        return HostPlacement(c.host, c.facts, node, ranks, (), ((),) * len(ranks))
    shares = _dealt(c.host.name, [tasks[r] for r in ranks], wants, tuple(g.index for g in gpus), notes)
    return HostPlacement(c.host, c.facts, node, ranks, gpus, shares)


def _want(job: Job, task: RoleTask) -> int | None:
    """GPUs that a task asks for; None for a share of what is left."""
    asked = roles_of(job)[task.role].gpus
    if asked == "all":
        return None
    if asked is not None:
        return asked
    return None if trains(task.role, job) else 0


def _dealt(
    host: str, tasks: Sequence[RoleTask], wants: Sequence[int | None], gpus: tuple[int, ...], notes: Notes
) -> tuple[tuple[int, ...], ...]:
    """The GPUs of each task: numbers asked for first, then equal shares of the rest."""
    asked = sum(w for w in wants if w)
    if asked > len(gpus):
        shares = ", ".join(f"{t.name} {w}" for t, w in zip(tasks, wants, strict=True) if w)
        notes.problem(
            "gpus",
            host,
            f"{counted(asked, 'GPU')} asked ({shares}), the run has {len(gpus)} on it",
            "see gpus_per_host",
        )
        return ((),) * len(tasks)
    sharers = sum(w is None for w in wants)
    share, rest = divmod(len(gpus) - asked, sharers) if sharers else (0, 0)
    if rest:
        notes.warnings.append(
            f"{host}: {counted(len(gpus) - asked, 'GPU')} can't be divided evenly among {sharers} tasks"
        )
    dealt: list[tuple[int, ...]] = []
    at = 0
    for want in wants:
        number = want if want is not None else share + (rest > 0)
        rest -= want is None and rest > 0
        dealt.append(gpus[at : at + number])
        at += number
    return tuple(dealt)


def _compare_workers(job: Job, places: Sequence[HostPlacement], tasks: Sequence[RoleTask], notes: Notes) -> None:
    """TensorFlow's strategies want the same number of GPUs in every worker."""
    counts = {
        tasks[rank].name: len(gpus)
        for place in places
        for rank, gpus in zip(place.ranks, place.rank_gpus, strict=True)
        if trains(tasks[rank].role, job)
    }
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {n}" for name, n in counts.items())
        notes.warnings.append(f"workers have different numbers of GPUs ({listed}); TensorFlow expects equal")
