"""distui: one distributed training run over many ssh hosts, from a terminal, a script or a notebook.

    async with distui.Cluster.open("hosts.yaml") as cluster:
        plan = await cluster.prepare("job.yaml")
        async with cluster.launch(plan) as run:
            async for event in run.events(): ...
        result = run.result

    result = distui.run("job.yaml")    # the same, blocking; Ctrl-C stops the run

What this module names in `__all__` is the Python API, as docs/python.md tells it; the other modules may change with any
version. Names are loaded when they are first used, so that importing distui costs nothing.
"""

from distui.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # for mypy and editors; the same names are in _HOMES
    from distui.cluster.blocking import run
    from distui.cluster.cluster import Cluster
    from distui.cluster.logs.iterating import RankLines
    from distui.cluster.runs.run import Run
    from distui.cluster.runs.run_list import RunList
    from distui.cluster.secret_warning import SecretWarning
    from distui.cluster.settings import ClusterSettings
    from distui.cluster.start.planning import PlannedRun
    from distui.cluster.start.unusable import HostsFailed, HostsUnreachable
    from distui.errors import (
        CheckFailed,
        ContactLost,
        DistuiError,
        ExitCode,
        HostAuthError,
        HostCommandError,
        HostError,
        HostKeyError,
        HostUnreachable,
        LaunchFailed,
        NotFound,
        PlanError,
        PlanProblem,
        Problem,
        SessionLost,
        SpecError,
        UsageError,
    )
    from distui.facts.host import (
        Address,
        Disk,
        Engine,
        Gpu,
        GpuProcess,
        Gpus,
        HostDown,
        HostFacts,
        IbPort,
        MigDevice,
        Nic,
        ProbeResult,
        Trouble,
    )
    from distui.plan.model import RunPlan
    from distui.runs.lines.events import (
        AttemptEnded,
        Carried,
        Event,
        Failure,
        FailureFound,
        GpuReading,
        HostChanged,
        HostSampled,
        LogLine,
        LogLines,
        NetworkUsed,
        Notice,
        PhaseBegun,
        Progressed,
        RankChanged,
        RanksAsked,
        RankSilent,
        RanksMoved,
        RanksRestarted,
        RanksStepped,
        RankStep,
        RunEnded,
        RunOpened,
        RunStalled,
        StopAsked,
        TaskStarted,
    )
    from distui.runs.lines.explanation import Explanation, RankPlace
    from distui.runs.report.history import RunRow
    from distui.runs.series.reader import SeriesReader
    from distui.runs.series.values import Series
    from distui.runs.state.reducer import RunState
    from distui.runs.store.runs import AlreadyFollowed
    from distui.spec.hosts.inventory import Host, Inventory
    from distui.spec.job.job import Job
    from distui.spec.job.read_job import AnyJob, load_job

_HOMES = {
    "distui.cluster.blocking": "run",
    "distui.cluster.cluster": "Cluster",
    "distui.cluster.logs.iterating": "RankLines",
    "distui.cluster.start.planning": "PlannedRun",
    "distui.cluster.runs.run": "Run",
    "distui.cluster.runs.run_list": "RunList",
    "distui.cluster.secret_warning": "SecretWarning",
    "distui.cluster.settings": "ClusterSettings",
    "distui.cluster.start.unusable": "HostsFailed HostsUnreachable",
    "distui.errors": "CheckFailed ContactLost DistuiError ExitCode HostAuthError HostCommandError HostError "
    "HostKeyError HostUnreachable LaunchFailed NotFound PlanError PlanProblem Problem SessionLost SpecError "
    "UsageError",
    "distui.facts.host": "Address Disk Engine Gpu GpuProcess Gpus HostDown HostFacts IbPort MigDevice Nic ProbeResult "
    "Trouble",
    "distui.plan.model": "RunPlan",
    "distui.runs.lines.events": "AttemptEnded Carried Event Failure FailureFound GpuReading HostChanged HostSampled "
    "LogLine LogLines NetworkUsed Notice PhaseBegun Progressed RankChanged RankSilent RankStep RanksAsked "
    "RanksMoved RanksRestarted RanksStepped RunEnded RunOpened RunStalled StopAsked TaskStarted",
    "distui.runs.lines.explanation": "Explanation RankPlace",
    "distui.runs.report.history": "RunRow",
    "distui.runs.series.reader": "SeriesReader",
    "distui.runs.series.values": "Series",
    "distui.runs.state.reducer": "RunState",
    "distui.runs.store.runs": "AlreadyFollowed",
    "distui.spec.hosts.inventory": "Host Inventory",
    "distui.spec.job.job": "Job",
    "distui.spec.job.read_job": "AnyJob load_job",
}
"""Where the names of the API are, by module."""

__all__ = [
    "Address",
    "AlreadyFollowed",
    "AnyJob",
    "AttemptEnded",
    "Carried",
    "CheckFailed",
    "Cluster",
    "ClusterSettings",
    "ContactLost",
    "Disk",
    "DistuiError",
    "Engine",
    "Event",
    "ExitCode",
    "Explanation",
    "Failure",
    "FailureFound",
    "Gpu",
    "GpuProcess",
    "GpuReading",
    "Gpus",
    "Host",
    "HostAuthError",
    "HostChanged",
    "HostCommandError",
    "HostDown",
    "HostError",
    "HostFacts",
    "HostKeyError",
    "HostSampled",
    "HostUnreachable",
    "HostsFailed",
    "HostsUnreachable",
    "IbPort",
    "Inventory",
    "Job",
    "LaunchFailed",
    "LogLine",
    "LogLines",
    "MigDevice",
    "NetworkUsed",
    "Nic",
    "NotFound",
    "Notice",
    "PhaseBegun",
    "PlanError",
    "PlanProblem",
    "PlannedRun",
    "ProbeResult",
    "Problem",
    "Progressed",
    "RankChanged",
    "RankLines",
    "RankPlace",
    "RankSilent",
    "RankStep",
    "RanksAsked",
    "RanksMoved",
    "RanksRestarted",
    "RanksStepped",
    "Run",
    "RunEnded",
    "RunList",
    "RunOpened",
    "RunPlan",
    "RunRow",
    "RunStalled",
    "RunState",
    "SecretWarning",
    "Series",
    "SeriesReader",
    "SessionLost",
    "SpecError",
    "StopAsked",
    "TaskStarted",
    "Trouble",
    "UsageError",
    "__version__",
    "load_job",
    "run",
]


def __getattr__(name: str) -> object:
    """Load a name of the API when it is first asked for (PEP 562)."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names.split():
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'distui' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What a notebook completes to."""
    return sorted({*globals(), *__all__})
