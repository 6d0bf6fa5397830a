"""How ranks are made to answer `distui why`: a hook first on Python's path, and a folder for what it opens.

The hook (`agent/hook`) is copied into the run's folder on each host. Containers see it read-only, and beside it a
folder of their own which only the job's user reaches: on the host it lies in the run's private folder.
"""

from __future__ import annotations

from collections.abc import Mapping

from distui.plan.content.mounts import bind
from distui.plan.model import Task
from distui.spec.hosts.inventory import EngineName
from distui.spec.job.job import Job

HOOK, FOLDER = "/run/distui/hook", "/run/distui/insight"
"""Where a container finds the hook, and where that opens its files."""

RECORDED = "2000"
"""Collectives that torch's flight recorder remembers; its own size where it is on by default (since torch 2.9)."""

OLDER = {
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE": "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}
"""The flight recorder's variables before torch 2.8, which the hook sets where that is what the rank has; later ones
know both, and the newer one holds.
"""


def wanted(job: Job) -> bool:
    """Whether ranks get the hook. Of TensorFlow it tells calls alone: its launcher has it where the job asks for it.

    A secret PYTHONPATH can't be added to in the open.
    """
    return (job.insight == "on" or (job.insight == "auto" and job.launcher != "tf")) and "PYTHONPATH" not in job.secrets


def hook_folder(run_dir: str) -> str:
    """Where a host keeps the hook for the run's ranks."""
    return f"{run_dir}/hook"


def folder_of(run_dir: str, index: int) -> str:
    """Where a host reaches what a task's hook opens."""
    return f"{run_dir}/insight-{index}"


def with_hook(env: Mapping[str, str], task_folder: str, run_dir: str, engine: EngineName) -> dict[str, str]:
    """A task's environment with what the hook needs; what the job sets itself stays, its PYTHONPATH behind the hook.

    Where the job sets none, the image's or the login's follows when the task is started.
    """
    hook, folder = (HOOK, FOLDER) if engine != "process" else (hook_folder(run_dir), task_folder)
    own = env.get("PYTHONPATH")
    recorder = {"TORCH_FR_BUFFER_SIZE": RECORDED, "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/trace_"}
    added = {name: env.get(name, env.get(OLDER[name], value)) for name, value in recorder.items()}
    return {**env, "DISTUI_INSIGHT": folder, "PYTHONPATH": f"{hook}:{own}" if own else hook, **added}


def words(task: Task) -> tuple[str, ...]:
    """What a task gets so that it can be asked, beside the variables that its environment has: lines of a plan."""
    if not task.insight:
        return ()
    hook, folder = hook_folder(task.run_dir), task.insight
    container = task.engine != "process"
    there = (f"{hook}, mounted read-only at {HOOK}", f"{folder}, mounted at {FOLDER}") if container else (hook, folder)
    inherited = f"PYTHONPATH of the {'image' if container else 'login'} follows the hook"
    own = ":" in task.env["PYTHONPATH"]
    return (
        f"the hook: {there[0]}",
        f"what it opens: {there[1]}",
        *(() if own else (inherited,)),
        f"set by the hook with torch before 2.8: {_older(task.env)}",
    )


def _older(env: Mapping[str, str]) -> str:
    """What the hook itself sets, in the rank's process, unless the job has."""
    return " ".join(f"{older}={env.get(older, env[name])}" for name, older in OLDER.items())


def flags(task_folder: str, run_dir: str) -> tuple[str, ...]:
    """The mounts of a container that has the hook."""
    return (*bind(hook_folder(run_dir), HOOK, readonly=True), *bind(task_folder, FOLDER))


def behind_hook(task: Task, inherited: str) -> dict[str, str]:
    """A task's environment with the PYTHONPATH of its image behind the hook, where the job sets none itself."""
    env = dict(task.env)
    if task.insight and inherited and env.get("PYTHONPATH") == HOOK:
        env["PYTHONPATH"] = f"{HOOK}:{inherited}"
    return env
