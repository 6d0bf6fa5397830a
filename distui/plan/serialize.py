"""Plans as JSON (`plan.json`, `-o json`) and back. No secret is in it, since none is in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distui.codec import read, write
from distui.errors import UsageError
from distui.plan.model import RunPlan
from distui.spec.hosts.host_keys import is_engine_command

SCHEMA = "distui/plan/v1"


def to_json(plan: RunPlan) -> dict[str, Any]:
    """The plan as plain JSON values, keys in the order of the fields."""
    return {"schema": SCHEMA, **write(plan)}


def from_json(data: Mapping[str, Any]) -> RunPlan:
    """The plan that `to_json` wrote; keys of later versions are left out. Raises UsageError when it is none."""
    if data.get("schema") != SCHEMA:
        raise UsageError(f"not a plan of this version of distui: schema is {data.get('schema')!r}, not {SCHEMA!r}")
    try:
        plan = read(RunPlan, data)
    except ValueError as error:
        raise UsageError(f"not a complete plan: {error}") from error
    for task in plan.tasks:
        if not is_engine_command(task.engine_command):
            words = " ".join(task.engine_command)
            raise UsageError(f"not a complete plan: engine_command can't be {words[:80]!r}")
    return plan
