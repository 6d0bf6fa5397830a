"""Plans as JSON (`plan.json`, `-o json`) and back. No secret is in it, since none is in a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from distui.errors import UsageError
from distui.fits import check
from distui.plan.model import BuildPlan, CodePlan, Fetch, HostNetwork, Mount, RunPlan, Task
from distui.spec.host_keys import is_engine_command
from distui.spec.job import Success

SCHEMA = "distui/plan/v1"


def to_json(plan: RunPlan) -> dict[str, Any]:
    """The plan as plain JSON values, keys in the order of the fields."""
    return {"schema": SCHEMA, **_plain(dataclasses.asdict(plan))}


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(k): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case _:
            return value


def from_json(data: Mapping[str, Any]) -> RunPlan:
    """The plan that `to_json` wrote; keys of later versions are left out. Raises UsageError when it is none."""
    if data.get("schema") != SCHEMA:
        raise UsageError(f"not a plan of this version of distui: schema is {data.get('schema')!r}, not {SCHEMA!r}")
    try:
        networks = tuple(HostNetwork(**_fields(HostNetwork, n)) for n in data["networks"])
        tasks = tuple(map(_task, data["tasks"]))
        code = CodePlan(**_fields(CodePlan, data["code"])) if data.get("code") else None
        build = BuildPlan(**_fields(BuildPlan, data["build"])) if data.get("build") else None
        mounts = tuple(_mount(m) for m in data.get("mounts", ()))
        success = Success(**_fields(Success, data["success"])) if data.get("success") else None
        made = {"networks": networks, "tasks": tasks, "code": code, "build": build, "mounts": mounts}
        return check(RunPlan(**{**_fields(RunPlan, data), **made, "success": success}))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"not a complete plan: {error}") from error


def _task(data: Mapping[str, Any]) -> Task:
    task = Task(**_fields(Task, data))
    if not is_engine_command(task.engine_command):
        raise ValueError(f"engine_command can't be {' '.join(map(str, task.engine_command))[:80]!r}")
    return task


def _mount(data: Mapping[str, Any]) -> Mount:
    fetch = Fetch(**_fields(Fetch, data["fetch"])) if data.get("fetch") else None
    return Mount(**{**_fields(Mount, data), "fetch": fetch})


def _fields(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a dataclass's own fields, lists as tuples."""
    return {f.name: _frozen(data[f.name]) for f in dataclasses.fields(cls) if f.name in data}


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value
