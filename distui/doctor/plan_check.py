"""Whether a job can be planned on hosts as they are: every reason why not is a finding, and every warning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.doctor.finding import Check, CheckRow, Finding
from distui.errors import DistuiError, UsageError
from distui.facts.host import HostFacts, ProbeResult
from distui.plan.checks import check_job
from distui.plan.model import BuildPlan, CodePlan, NoPlan
from distui.plan.plan import plan
from distui.spec.choose import hosts_of_job
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job

_RUN = "doctor"
_NO_PYTHON = ("no python3, which puts the job's code there", "install python3, or mount the code with `volumes`")
PLAN = Check("plan", "Software", "the job can be planned", "distui plan JOB")


def plan_rows(
    job: Job,
    inventory: Inventory,
    hosts: Sequence[Host],
    results: Mapping[str, ProbeResult],
    *,
    named: bool,
    code: CodePlan | None = None,
    build: BuildPlan | None = None,
    refused: Sequence[DistuiError] = (),
) -> tuple[CheckRow, ...]:
    """The row of the plan: on these hosts when they were `named`, else on the job's own, of which each is to be asked.

    `code` and `build` are what the job's were read as; what could not be taken from this machine is `refused`. A host
    that does not answer is a finding of its own, and no reason here.
    """
    wrong = [_fail(hosts[0].name, one.message, one.hint) for one in refused]
    try:
        picks = _picks(job, inventory, hosts, named=named)
    except UsageError as exc:
        return (CheckRow(PLAN, (*wrong, _fail(hosts[0].name, exc.message, exc.hint))),)
    up = tuple(pick for pick in picks if isinstance(results.get(pick.name), HostFacts))
    if len(up) < len(picks) or not up:
        chosen = inventory.chosen(picks)
        wrong += [_fail(hosts[0].name, p.message, p.hint) for p in check_job(job, chosen, _RUN)]
        skipped = Finding(PLAN.id, hosts[0].name, "skip", "not all hosts of the job answer")
        return (CheckRow(PLAN, (*wrong, skipped)),)
    bare = _without_unread(job, code, build)
    made = plan(
        bare, inventory, up, facts=results, code=code, build=build,
        run_id=_RUN, owner="", version="", started="", launch="",
    )  # fmt: skip
    if isinstance(made, NoPlan):
        wrong += [_fail(p.host or up[0].name, p.message, p.hint) for p in made.problems]
        return (CheckRow(PLAN, tuple(wrong)),)
    if job.code is not None:
        wrong += [_fail(pick.name, *_NO_PYTHON) for pick in up if not _python(results[pick.name])]
    warned = [Finding(PLAN.id, up[0].name, "warn", text) for text in made.warnings]
    return (CheckRow(PLAN, (*wrong, *warned) or tuple(Finding(PLAN.id, pick.name, "ok") for pick in up)),)


def _python(found: ProbeResult) -> bool:
    return isinstance(found, HostFacts) and found.python3 is not None


def hosts_wanted(job: Job, inventory: Inventory, hosts: Sequence[Host], *, named: bool) -> frozenset[str]:
    """Which of these hosts the job would run on; none where that can't be said: why not is in the plan's row."""
    try:
        return frozenset(pick.name for pick in _picks(job, inventory, hosts, named=named))
    except UsageError:
        return frozenset()


def _fail(host: str, saw: str, do: str) -> Finding:
    return Finding(PLAN.id, host, "fail", saw, "the start is refused", do)


def _without_unread(job: Job, code: CodePlan | None, build: BuildPlan | None) -> Job:
    """The job without what could not be read, for which there are reasons: the others are found all the same."""
    if code is None:
        job = replace(job, code=None)
    if build is None and job.build is not None:
        job = replace(job, build=None, image=job.image or "built:1")
    return job


def _picks(job: Job, inventory: Inventory, hosts: Sequence[Host], *, named: bool) -> tuple[HostPick, ...]:
    if named or job.hosts is None:
        return tuple(HostPick(host.name) for host in hosts)
    return hosts_of_job(inventory, job.hosts)
