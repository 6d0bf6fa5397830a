"""TF_CONFIG: where each TensorFlow task listens, and what each knows of the others (launcher `tf`).

Read in TensorFlow's source (`distribute/cluster_resolver/tfconfig_cluster_resolver.py`, `multi_worker_util.py`,
`parameter_server_strategy_v2.py`): `cluster` is the same for all and maps a task type to `host:port`s, `task` is each
one's own. The evaluator is no part of the cluster, and must stand in its own `cluster`, since a task type that is
missing there is refused. GRPC_FAIL_FAST=use_caller must be set on every task of a cluster with parameter servers.
A cluster of one worker is a cluster: the same program runs with one and with many.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from distui.plan.command.env import LINE_LIMIT
from distui.plan.model import HostNetwork, Notes
from distui.plan.network.rendezvous import RendezvousPoint, bracketed, ephemeral_warning, free_port, free_words
from distui.plan.ranks.placement import HostPlacement, Placement, RoleTask
from distui.plan.ranks.roles import roles_of
from distui.spec.job.job import DoneWhen, Job

Cluster = Mapping[str, Sequence[str]]
"""`host:port` of every task, by type, in the order of their index."""

VARIABLE = "TF_CONFIG"
METHOD = "TF_CONFIG"
"""What stands for the init method in a plan of launcher `tf`."""


def meet_tf(
    job: Job,
    placement: Placement,
    networks: Sequence[HostNetwork],
    notes: Notes,
    *,
    run_id: str,
    attempt: int,
    blank: bool = False,
) -> RendezvousPoint:
    """A port for every task on its host's address; `blank` leaves those that are not the job's own 0. Never raises."""
    places = {p.name: p for p in placement.places}
    ports = _asked(job, placement.roles)
    holders: dict[tuple[str, int], RoleTask] = {}
    for rank, port in ports.items():
        task = placement.roles[rank]
        _check_port(task, port, places[task.host], holders.setdefault((task.host, port), task), notes)
        notes.warnings.extend(ephemeral_warning(places[task.host], port))
    taken = set(ports.values())
    chosen: dict[str, list[int]] = {}
    for rank, task in enumerate(placement.roles):
        if rank not in ports:
            ports[rank] = 0 if blank else free_port(places[task.host], f"{run_id}/{attempt}/{rank}", taken) or 0
            taken.add(ports[rank])
            chosen.setdefault(task.host, []).append(ports[rank])
            if not ports[rank] and not blank:
                notes.problem("port", task.host, "no port is free", "see what listens there: ss -ltnp")
    addresses = {n.host: n.addr for n in networks}
    listed = tuple(ports[rank] for rank in range(len(placement.roles)))
    cluster = _cluster(placement.roles, addresses, listed)
    longest = len(config(placement.roles[0], cluster))
    if longest > LINE_LIMIT - len(VARIABLE) - 1:
        why = f"TF_CONFIG of {len(ports)} tasks is {longest} bytes, more than docker reads in one line ({LINE_LIMIT})"
        notes.problem("roles", None, why, "use fewer tasks, each with more GPUs")
    for host, found in chosen.items():
        warned = (ephemeral_warning(places[host], port) for port in found)
        notes.warnings.extend(next(filter(None, warned), []))
        notes.reasons.append(_free_words(places[host], found))
    return RendezvousPoint(addresses.get(placement.roles[0].host, ""), listed[0], METHOD, ports=listed, cluster=cluster)


def _asked(job: Job, tasks: Sequence[RoleTask]) -> dict[int, int]:
    """Ports that the job names, by rank: the role's for its first task on a host, the next ones for its neighbours."""
    ports: dict[int, int] = {}
    before: Counter[tuple[str, str]] = Counter()
    for rank, task in enumerate(tasks):
        first = roles_of(job)[task.role].port
        if first is not None:
            ports[rank] = first + before[task.role, task.host]
        before[task.role, task.host] += 1
    return ports


def _check_port(task: RoleTask, port: int, place: HostPlacement, holder: RoleTask, notes: Notes) -> None:
    """Note why a task can't listen on the port that the job names; `holder` is the first task that would."""
    if port > 65535:
        notes.problem(
            "port", place.name, f"{task.name} would listen on port {port}; ports end at 65535", "name a lower one"
        )
    if port in place.facts.ports_in_use:
        why = f"port {port} is taken: somebody listens on it on this host, where {task.name} runs"
        hint = f"name another roles.{task.role}.port, or drop it and let the plan choose"
        notes.problem("port_taken", place.name, why, hint, port)
    if holder is not task:
        why = f"{holder.name} and {task.name} would both listen on port {port}"
        notes.problem("port", place.name, why, "give the roles ports further apart")


def _free_words(place: HostPlacement, ports: Sequence[int]) -> str:
    word = "port" if len(ports) == 1 else "ports"
    listed = ", ".join(str(p) for p in sorted(ports))
    return f"{word} {listed}: {free_words(place, ports)}"


def own_ports(reasons: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """The ports that a plan chose itself, each with its host, read from its reasons; they differ from run to run."""
    found = (re.match(r"ports? ([0-9, ]+): free on ([^ ,]+),", reason) for reason in reasons)
    return tuple((match[2], int(port)) for match in found if match for port in match[1].split(", "))


# what a task is given


def task_env(task: RoleTask, cluster: Cluster) -> dict[str, str]:
    """The variables that make a process this task."""
    env = {VARIABLE: config(task, cluster)}
    if "ps" in cluster:
        env["GRPC_FAIL_FAST"] = "use_caller"
    return env


def _cluster(tasks: Sequence[RoleTask], addresses: Mapping[str, str], ports: Sequence[int]) -> Cluster:
    """`host:port` of every task by type."""
    found: dict[str, list[str]] = {}
    for task, port in zip(tasks, ports, strict=True):
        found.setdefault(task.role, []).append(f"{bracketed(addresses.get(task.host, ''))}:{port}")
    return found


def config(task: RoleTask, cluster: Cluster) -> str:
    """TF_CONFIG of one task: the cluster without the evaluator, or for the evaluator itself alone."""
    alone = task.role == "evaluator"
    seen = {role: listed for role, listed in cluster.items() if (role == "evaluator") == alone}
    return json.dumps({"cluster": seen, "task": {"type": task.role, "index": task.index}}, separators=(",", ":"))


# when a run is over


def done_when(job: Job) -> DoneWhen | None:
    """The job's own word, else `chief` with parameter servers, whose workers never end, and `worker` without."""
    if job.launcher != "tf":
        return None
    return job.done_when or ("chief" if "ps" in roles_of(job) else "worker")
