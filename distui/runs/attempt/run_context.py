"""What all attempts of a run share: how its hosts are reached, where it is recorded, and what was asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field

from distui.facts.host import Trouble
from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.attempt.emitter import Emitter
from distui.runs.attempt.limits import NO_LIMITS, Limits, passed
from distui.runs.attempt.replan import AttemptPlanner
from distui.runs.attempt.requests import Requests
from distui.runs.hosts.readers import reader_id, waiter_id
from distui.runs.store.masking import Mask
from distui.runs.store.runs import StoredRun
from distui.session import Connector


@frozen
class RunContext:
    """What all attempts of a run share."""

    connector: Connector
    stored: StoredRun
    events: Emitter
    requests: Requests
    secrets: Mapping[str, str] = field(repr=False)
    mask: Mask
    clock: Callable[[], float]
    limits: Limits
    began: float
    """When the run began, in our clock."""
    began_from: float
    """The same in seconds of `passed`, which nobody sets."""
    deadline: float | None
    """When the run is stopped, in those."""
    reader: str
    """What tells this follower from others of the run, on its hosts."""
    adopted: bool
    """Whether it was running already when we came."""
    views: bool
    """Whether it is only looked on at: nothing is stopped, recorded or removed on its hosts from here."""
    keep: bool
    """Whether ended containers stay."""
    removes_all: bool
    """Whether nothing is spared that somebody else may want."""
    stopped_as: str
    """Who stops the run from here, in words, left on the hosts for others."""
    planner: AttemptPlanner | None
    """Plans an attempt again; where the job and the values of its secrets are not known, it waits for the one that is
    begun elsewhere. None where no other attempt is followed.
    """
    left_by: StoredRun | None
    """The folder here of whoever had the run before it was only looked on at from a copy of that."""

    unreachable: Mapping[str, Trouble] = field(default_factory=dict)
    """Why hosts did not answer that may have tasks of an adopted run: when it was looked for."""

    @property
    def spent(self) -> float:
        """For how long the run has gone on, however our clock was set meanwhile."""
        return passed() - self.began_from

    @property
    def gone(self) -> str:
        """The reader whose marks on the hosts are of somebody that was killed; "" where none is known to be."""
        return reader_id(self.left_by) if self.left_by is not None and not self.left_by.is_followed else ""


def run_context(
    plan: RunPlan,
    *,
    connector: Connector,
    stored: StoredRun,
    secrets: Mapping[str, str] | None = None,
    mask: Mask | None = None,
    adopted: bool = False,
    views: bool = False,
    left_by: StoredRun | None = None,
    keep: bool | None = None,
    planner: AttemptPlanner | None = None,
    limits: Limits = NO_LIMITS,
    began: float | None = None,
    stopped_as: str = "",
    unreachable: Mapping[str, Trouble] | None = None,
    clock: Callable[[], float] = time.time,
) -> RunContext:
    """What is shared by the attempts of a run that begins now with `plan`, or that is followed as it is (`adopted`).

    `keep` is what was asked for when the run was started, where nothing else is said. Who only `views` an adopted run
    stops, records and removes nothing of it. The `mask` is one that knows `secrets`, where none is given.
    """
    now = passed()
    if mask is None:
        mask = Mask(secrets or {}, plan.secret_names)
    return RunContext(
        connector=connector,
        stored=stored,
        events=Emitter(stored, mask, clock),
        requests=Requests(plan.stop_grace, views=views),
        secrets=secrets or {},
        mask=mask,
        clock=clock,
        limits=limits,
        began=clock() if began is None else began,
        began_from=now if began is None else now - max(0.0, clock() - began),
        deadline=None if limits.run is None else now + limits.run,
        reader=waiter_id(stored) if views else reader_id(stored),
        adopted=adopted,
        views=views,
        keep=plan.keeps if keep is None else keep,
        removes_all=keep is False,
        stopped_as=stopped_as or plan.owner,
        planner=planner,
        left_by=left_by,
        unreachable=unreachable or {},
    )
