"""From the text of a job file to its plan: what the launch screen does beside the event loop, since the plan of a
few hundred tasks takes longer than a key press may.
"""

from __future__ import annotations

from collections.abc import Mapping

from distui.cluster.names import is_run_of
from distui.doctor.images import ImageId, as_planned, not_the_same
from distui.errors import DistuiError, PlanProblem, Problem
from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.plan.model import NoPlan, RunPlan
from distui.spec.job.job import Job
from distui.tui.frame.backend import Backend


@frozen
class Drafted:
    """What a text gives: a job or its problems, and of the job a plan or the reasons why there is none."""

    job: Job | None = None
    problems: tuple[Problem, ...] = ()
    made: RunPlan | NoPlan | None = None
    run_id: str = ""


def drafted(backend: Backend, text: str, path: str, document: str | None, run_id: str) -> Drafted:
    """Text -> job -> plan. `run_id` is the name the run had in the plan before; it stays while the job's name does."""
    draft = backend.draft(text, path, document)
    job = draft.job
    if job is None:
        return Drafted(problems=draft.problems, run_id=run_id)
    try:
        if not is_run_of(job.name, run_id):
            run_id = backend.run_name(job.name)
        made = backend.preview(job, backend.pick(job, ()), run_id=run_id)
    except DistuiError as error:
        made = NoPlan((PlanProblem("job", None, error.message, error.hint),))
    return Drafted(job, (), made, run_id)


@frozen
class ImageState:
    """Where a plan's image is, as far as its hosts were asked."""

    present: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    differ: str = ""
    """Which hosts have which, when it is not the same everywhere."""
    troubles: Mapping[str, Trouble] | None = None
    unknown: tuple[str, ...] = ()
    """Hosts that were not probed yet."""

    @property
    def warning(self) -> str:
        """What will bite: ranks that would run different programs."""
        return f"{self.differ}; `pull: always` or `distui image push` makes it so" if self.differ else ""


def image_state(plan: RunPlan, found: Mapping[str, ImageId]) -> ImageState:
    """`found` tells hosts' ids of the plan's image, as `images_present` does."""
    hosts = [t.host for t in plan.tasks if t.engine != "process"]
    known = as_planned(plan, {host: found[host] for host in dict.fromkeys(hosts) if host in found})
    return ImageState(
        present=tuple(host for host, there in known.items() if isinstance(there, str) and there),
        missing=tuple(host for host, there in known.items() if there == ""),
        differ=not_the_same(known),
        troubles={host: there for host, there in known.items() if isinstance(there, Trouble)} or None,
        unknown=tuple(host for host in dict.fromkeys(hosts) if host not in found),
    )
