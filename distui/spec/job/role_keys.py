"""The keys of `roles`, the tasks of launcher `tf`, and what roles must be to each other.

The rules are TensorFlow's: MultiWorkerMirroredStrategy knows workers and at most one chief, which then is worker 0;
ParameterServerStrategy needs one chief that coordinates, workers and parameter servers; an evaluator stands beside
either (`tensorflow/python/distribute/multi_worker_util.py`, `parameter_server_strategy_v2.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distui.spec.hosts.host_keys import GPU_COUNT, PORT
from distui.spec.job import job_forms as forms
from distui.spec.job.job import ROLES as NAMES
from distui.spec.job.job import Role
from distui.spec.yaml import leaves
from distui.spec.yaml.nodes import Node, Scalar, node_at
from distui.spec.yaml.problems import Wrong, shown, unknown
from distui.spec.yaml.shapes import Key, Look, MapOf, Record, join

MAX_TASKS = 4096
CONFIG = "TF_CONFIG"
MADE = "launcher tf makes it for each task; remove it"

_SAME_AS = {"master": "chief", "coordinator": "chief", "parameter_server": "ps", "server": "ps", "eval": "evaluator"}
"""What other systems call them."""

_TASKS = leaves.whole(1, MAX_TASKS, "a number of tasks")
_ONE_ONLY = ("chief", "evaluator")


def _role_name(word: Scalar) -> str:
    """A task type. Raises Wrong."""
    name = word.text
    if name in NAMES:
        return name
    same = _SAME_AS.get(name.lower())
    raise Wrong(f"unknown role {shown(name)}, did you mean '{same}'?" if same else unknown("role", name, NAMES))


def _check_role(look: Look) -> None:
    if look.has("count") and look.has("per_host"):
        look.note("per_host", "can't stand beside count; choose one")
    for node, at, name in forms.variables(look.table.get("env"), join(look.at, "env")):
        if name == CONFIG:
            look.problems.add(node, at, MADE)


ROLES = MapOf(
    _role_name,
    Record(
        (
            Key("count", _TASKS, "Tasks on all its hosts together, spread evenly."),
            Key("per_host", _TASKS, "Tasks on each of its hosts."),
            Key("hosts", forms.HOST_SETS, "Where they run: some of the job's hosts; all by default."),
            Key(
                "gpus",
                leaves.either(leaves.choice("all"), GPU_COUNT),
                "GPUs for each task: a number, or all that are left on its host.",
            ),
            Key("port", PORT, "Port of its first task on a host, the next ones for others; free ones by default."),
            Key("env", forms.ENV, "Environment of these tasks, on top of the job's."),
        ),
        "tasks such as {count: 2, gpus: 4}",
        build=Role,
        check=_check_role,
        hints={
            "replicas": "unknown key, did you mean 'count'?",
            "gpus_per_host": "unknown key, did you mean 'gpus'?",
            "command": "unknown key: all roles run the job's command, and read their own from TF_CONFIG",
        },
    ),
    "roles such as {worker: {per_host: 1}}",
    build=lambda read: {name: read[name] for name in NAMES if name in read},
    names={"enum": list(NAMES)},
)


_NOT_WITH_TF = {
    "ranks": "launcher tf starts the tasks of `roles`; write roles: {worker: {per_host: N}}",
    "gpus_per_rank": "launcher tf gives GPUs by role; write roles: {worker: {gpus: N}}",
    "visible_gpus": "launcher tf gives each task its own GPUs; write roles: {worker: {gpus: N}}",
    "rendezvous": "TensorFlow's tasks meet by TF_CONFIG; remove it",
    "master_port": "TensorFlow's tasks each have a port; write roles: {worker: {port: N}}",
    "torchrun": "only means something with launcher: torchrun",
}


def check_tf(look: Look) -> None:
    """Note what contradicts launcher `tf`, or means nothing without it."""
    if look.values.get("launcher", "env") != "tf":
        for key in ("roles", "done_when"):
            if look.written(key):
                look.note(key, "only means something with launcher: tf")
        return
    for key, why in _NOT_WITH_TF.items():
        if look.has(key):
            look.note(key, why)
    node = look.table.get("roles")
    roles = look.values.get("roles")
    if node is not None and isinstance(roles, Mapping):
        _check_together(look, node, roles)


def _check_together(look: Look, node: Node, roles: Mapping[str, Any]) -> None:
    for name in _ONE_ONLY:
        role = roles.get(name)
        if role is not None and ((role.count or 1) > 1 or (role.per_host or 1) > 1):
            look.problems.add(
                node_at(node, name) or node, f"roles.{name}", f"there is at most one {name}, write count: 1"
            )
    if "chief" not in roles and "worker" not in roles:
        look.problems.add(node, "roles", "nobody trains: add worker, or chief")
    elif "ps" in roles:
        lacking = [name for name in ("chief", "worker") if name not in roles]
        if lacking:
            why = f"ps needs a chief, which coordinates, and workers: add {' and '.join(lacking)}"
            look.problems.add(node_at(node, "ps") or node, "roles.ps", why)
        if look.values.get("done_when") == "all":
            look.note("done_when", "ps tasks never end by themselves, so the run would not; write chief")
    if look.values.get("done_when") == "worker" and "worker" not in roles:
        look.note("done_when", "there is no worker among the roles; write chief")
