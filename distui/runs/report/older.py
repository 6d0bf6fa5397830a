"""What is recorded here of a run whose name another launch has by now: kept under a name of its own, `NAME~1`.

A name means the launch that is recorded here while it lives; else one that lives on the hosts under that name, whoever
started it; else what is recorded here. Only what has ended, or is on none of its hosts though all of them answer, gives
its name away: whoever may start containers on a host writes labels, and takes over nothing that lives.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from distui.plan.model import RunPlan
from distui.plan.serialize import to_json
from distui.runs.report.history import stored_row
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import RunStore, StoredRun

LaunchKey = tuple[str, str]
"""What tells a launch from others of its name: its token without the attempt, and its owner."""


def launch_of(plan: RunPlan | None) -> LaunchKey | None:
    """The launch that a plan is of; None where it does not say."""
    labels = plan.own_labels if plan is not None else None
    return (labels.launch, labels.owner) if labels is not None and labels.launch else None


def is_recorded(launch: LaunchKey | None, stored: StoredRun) -> bool:
    """Whether it is this launch that is recorded here; a record that does not say of which it is may be of any."""
    return launch_of(stored_plan(stored)) in (None, launch)


def may_live(stored: StoredRun, answered: Collection[str]) -> bool:
    """Whether a run of which no host that `answered` has a task may live all the same.

    Between two attempts nothing of it is anywhere: a run that may have another one keeps its name to its end.
    """
    if stored.is_followed:
        return True
    row = stored_row(stored)
    return not row.over and (row.attempt < row.attempts or not set(row.hosts) <= set(answered))


def set_aside(store: RunStore, run: str, launch: LaunchKey | None) -> StoredRun | None:
    """Let `launch` have the name: what is recorded here of another one of that name is kept as `NAME~1`, `NAME~2` ...

    None when there is no such record, as when another process was faster. Raises AlreadyFollowed, OSError.
    """
    with store.changing():
        stored = store.get(run)
        if stored is None or is_recorded(launch, stored):
            return None
        plan, name = stored_plan(stored), store.older_name(run)
        with stored.followed():
            if plan is not None:
                stored.write_plan(to_json(replace(plan, run_id=name)))
            return StoredRun(stored.path.rename(store.root / name))
