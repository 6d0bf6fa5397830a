"""Nothing of a host is used twice without a word: GPUs and ports, while a run is launched and by runs that live.

GPUs can be shared, and are by `--force`; a port can't be, but what only marks and leases of another login claim stops
no launch with `--force`. A port that the job names is refused when another has it, one that the plan chose is changed
for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distui.doctor.reach import ReachProblem
from distui.errors import DistuiError, ExitCode
from distui.plan.command.tf import own_ports
from distui.plan.model import NoPlan
from distui.plan.serialize import to_json
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.replan import AttemptPlanner, NextAttempt
from distui.runs.attempt.steps import LaunchRefused, each, finished, raise_errors, together
from distui.runs.hosts.claims.folder import Claim
from distui.runs.hosts.claims.lease import Conflict, Lease, Resource
from distui.runs.task.host_run import HostRun

PLANS = 5
"""How many plans are tried while others have the ports that the plan chose: each time at least one is known more."""

FRESH_SECONDS = 60.0
"""How long after a launch began nobody can have taken over its leases, which are anybody's after STALE_MINUTES."""

SHARE_HINT = "wait, take other GPUs (`-H host:1`) or other hosts, or share them: `distui run --force`, in the app `R`"
PORT_HINT = "wait, or name another port, or none and let the plan choose: two programs can't share one, --force or not"

Held = tuple[str, Conflict]
"""A host, and who has what there."""


class PortsTaken(LaunchRefused):
    """Others have ports that the plan chose itself, and nothing else is in the way."""

    def __init__(self, held: Sequence[Held]) -> None:
        words = [f"{host}: {conflict.message}" for host, conflict in held]
        super().__init__([*words, "start it again: the plan takes other ports then"], ExitCode.CHECK_FAILED)
        self.held = tuple(held)


async def hold(attempt: Attempt, claim: Claim, *, force: bool) -> None:
    """Lease the GPUs and ports of the run on all hosts, before anything is tried on them.

    A port that the job names is refused at once when a live run has it, though nobody listens on it yet: the program of
    that run is being started, and could not listen while this one tries who reaches it there.
    """
    leases: dict[str, Lease] = {}
    found: dict[str, tuple[Conflict, ...] | DistuiError] = {}

    async def lease_all() -> None:
        leases.update(await _lease(attempt, claim, force=force))

    async def look() -> None:
        chosen = own_ports(attempt.plan.reasons)
        ports = {(h.host, t.number) for h in _with_resources(attempt) for t in h.claim.resources if t.kind == "port"}
        named = [attempt.hosts[host] for host in sorted({host for host, _ in ports - set(chosen)})]
        found.update(await each(named, lambda host: host.claim.sharers()))

    await together(lease_all(), look())
    for host, lease in leases.items():
        kinds = _kinds(lease.resources or _exclusive(attempt.hosts[host].claim.resources, force=force))
        text = f"can't hold {kinds} while starting ({lease.why})"
        await attempt.notice("warning", f"{text}: a launch at this moment would go unseen", host)
    shared = [(host, conflict) for host, answer in found.items() if isinstance(answer, tuple) for conflict in answer]
    _refuse(attempt, [one for one in shared if any(t.kind == "port" for t in one[1].resources)], force=force)


async def hold_still(attempt: Attempt, claim: Claim, *, force: bool) -> None:
    """See that the leases are still the run's, before it starts: images and data may have taken long to come. And that
    no run that lives has any of these resources.

    At once where nobody can have taken over a lease of ours: then others' tasks have been there since before it, and
    are seen whenever one looks. Else one looks after it is known to be ours.
    """
    unread: list[tuple[str, str]] = []
    found: dict[str, tuple[Conflict, ...] | DistuiError] = {}

    async def look() -> None:
        tell = unread.append
        found.update(
            await each(_with_resources(attempt), lambda host: host.claim.sharers(lambda why: tell((host.host, why))))
        )

    if 0 <= attempt.clock() - claim.at < FRESH_SECONDS:
        await together(_lease(attempt, claim, force=force), look())
    else:
        await _lease(attempt, claim, force=force)
        await look()
    for name, why in unread:
        text = f"can't read what all tasks have ({why}): one of another login may go unseen"
        await attempt.notice("warning", text, name)
    raise_errors(found, ExitCode.CHECK_FAILED)
    shared = [(host, conflict) for host, answer in found.items() if isinstance(answer, tuple) for conflict in answer]
    _refuse(attempt, shared, force=force)
    for host, conflict in shared:
        await attempt.notice("warning", f"{conflict.message}, and by this run too (--force)", host)


async def refuse_taken(attempt: Attempt, problems: Sequence[ReachProblem], *, force: bool) -> None:
    """Refuse ports on which somebody listens since the hosts were asked, when nothing else is wrong: one that the plan
    chose is changed, of one that the job names it is said which run has it, where that can be known.
    """
    if not all(problem.port for problem in problems):
        return
    held = [(p.host, Conflict(p.message, frozenset([Resource("port", p.port)]))) for p in problems]
    holders = await each((attempt.hosts[host] for host, _ in held), lambda host: host.claim.sharers())
    known = [(host, conflict) for host, conflict in held for conflict in _who_has(conflict.resources, holders[host])]
    _refuse(attempt, known if len(known) == len(held) else held if _chosen(attempt, held) else [], force=force)


def _who_has(resources: frozenset[Resource], conflicts: tuple[Conflict, ...] | DistuiError) -> list[Conflict]:
    """The first of these holders that has one of the resources."""
    return (
        [Conflict(s.message, resources) for s in conflicts if s.resources & resources][:1]
        if isinstance(conflicts, tuple)
        else []
    )


async def _lease(attempt: Attempt, claim: Claim, *, force: bool) -> dict[str, Lease]:
    """Lease what nobody else may have; returns what can't be, by host.

    The first host by name decides between launches on the same hosts; nobody waits, so nothing can lock up.
    """
    failed: dict[str, Lease] = {}

    async def lease(host: HostRun) -> Lease:
        return await host.claim.lease(claim, _exclusive(host.claim.resources, force=force), force=force)

    hosts = [h for h in _with_resources(attempt) if _exclusive(h.claim.resources, force=force)]
    for some in (hosts[:1], hosts[1:]):
        leases = await finished(each(some, lease))
        raise_errors(leases, ExitCode.LAUNCH_FAILED)
        answers = [(host, lease) for host, lease in leases.items() if isinstance(lease, Lease)]
        failed |= {host: answer for host, answer in answers if answer.state == "failed"}
        held = [(host, Conflict(answer.why, answer.resources)) for host, answer in answers if answer.state == "held"]
        _refuse(attempt, held, force=force)
    return failed


def _with_resources(attempt: Attempt) -> list[HostRun]:
    return sorted((h for h in attempt.hosts.values() if h.claim.resources), key=lambda h: h.host)


def _exclusive(resources: frozenset[Resource], *, force: bool) -> frozenset[Resource]:
    """What nobody else may have: with `force` GPUs may be shared."""
    return frozenset(t for t in resources if t.kind == "port" or not force)


def _kinds(resources: Iterable[Resource]) -> str:
    kinds = {resource.kind for resource in resources}
    return "the GPUs" if kinds == {"gpu"} else "the ports" if kinds == {"port"} else "the GPUs and ports"


def _refuse(attempt: Attempt, held: Sequence[Held], *, force: bool) -> None:
    """Raise what these holders are a reason for. With `force` GPUs are none, nor is what only a mark claims."""
    bad = [
        (host, conflict)
        for host, conflict in held
        if _exclusive(conflict.resources, force=force) and not (force and conflict.marked)
    ]
    kinds = {resource.kind for _, conflict in bad for resource in _exclusive(conflict.resources, force=force)}
    if not bad:
        return
    if kinds == {"port"} and _chosen(attempt, bad):
        raise PortsTaken(bad)
    hints = [hint for kind, hint in (("gpu", SHARE_HINT), ("port", PORT_HINT)) if kind in kinds]
    raise LaunchRefused([*(f"{host}: {conflict.message}" for host, conflict in bad), *hints], ExitCode.CHECK_FAILED)


def _chosen(attempt: Attempt, held: Sequence[Held]) -> bool:
    """Whether the plan chose all ports of these by itself."""
    chosen = own_ports(attempt.plan.reasons)
    return all(
        (host, resource.number) in chosen
        for host, conflict in held
        for resource in conflict.resources
        if resource.kind == "port"
    )


async def with_other_ports(
    attempt: Attempt, planner: AttemptPlanner, refusal: PortsTaken, taken: dict[str, set[int]]
) -> NextAttempt:
    """The same attempt planned without the ports in `taken`, which gets those of the refusal; recorded here.

    Raises LaunchRefused where there is no such plan.
    """
    for host, conflict in refusal.held:
        taken.setdefault(host, set()).update(t.number for t in conflict.resources if t.kind == "port")
    spent = attempt.run.spent if attempt.plan.attempt > 1 else 0.0
    found = await planner(attempt.plan.attempt, spent, taken)
    if isinstance(found, NoPlan):
        raise LaunchRefused([*map(str, found.problems)], ExitCode.CHECK_FAILED) from refusal
    for host, conflict in refusal.held:
        await attempt.notice("info", f"{conflict.message}: the plan takes another", host)
    try:
        attempt.run.stored.write_plan(to_json(found.plan))
    except OSError as exc:
        raise LaunchRefused([f"can't write {attempt.run.stored.path}: {exc.strerror}"], ExitCode.CHECK_FAILED) from exc
    return found
