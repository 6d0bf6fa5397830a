"""Whether a job can be planned on hosts as they are: every reason why not is a finding, and every warning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.doctor.finding import Check, CheckRow, Finding
from distui.errors import UsageError
from distui.facts.host import HostFacts, ProbeResult
from distui.plan.model import NoPlan
from distui.plan.plan import plan
from distui.spec.choose import hosts_of_job
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job

PLAN = Check("plan", "Software", "the job can be planned", "distui plan JOB")


def plan_rows(
    job: Job, inventory: Inventory, hosts: Sequence[Host], results: Mapping[str, ProbeResult], *, named: bool
) -> tuple[CheckRow, ...]:
    """The row of the plan: on these hosts when they were `named`, else on the job's own, of which each is to be asked.

    Code and images to be built are left out: they are read only for a plan. A host that does not answer is a finding
    of its own, and no reason here.
    """
    try:
        picks = _picks(job, inventory, hosts, named=named)
    except UsageError as exc:
        return (
            CheckRow(PLAN, (Finding(PLAN.id, hosts[0].name, "fail", exc.message, "the start is refused", exc.hint),)),
        )
    up = tuple(pick for pick in picks if isinstance(results.get(pick.name), HostFacts))
    if len(up) < len(picks) or not up:
        return (CheckRow(PLAN, (Finding(PLAN.id, hosts[0].name, "skip", "not all hosts of the job answer"),)),)
    image = job.image or ("built:1" if job.build is not None else None)
    bare = replace(job, code=None, build=None, image=image)
    made = plan(bare, inventory, up, facts=results, run_id="doctor", owner="", version="", started="", launch="")
    if not isinstance(made, NoPlan):
        warned = tuple(Finding(PLAN.id, up[0].name, "warn", text) for text in made.warnings)
        return (CheckRow(PLAN, warned or tuple(Finding(PLAN.id, pick.name, "ok") for pick in up)),)
    wrong = (
        Finding(PLAN.id, p.host or up[0].name, "fail", p.message, "the start is refused", p.hint) for p in made.problems
    )
    return (CheckRow(PLAN, tuple(wrong)),)


def _picks(job: Job, inventory: Inventory, hosts: Sequence[Host], *, named: bool) -> tuple[HostPick, ...]:
    if named or job.hosts is None:
        return tuple(HostPick(host.name) for host in hosts)
    return hosts_of_job(inventory, job.hosts)
