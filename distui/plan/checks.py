"""What can't be planned whatever the network is: job, container engine, GPUs for containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distui.amounts import counted
from distui.errors import PlanProblem
from distui.facts.host import HostFacts
from distui.facts.limits import slow_shell_words
from distui.plan.command import torchrun
from distui.plan.content import mounts
from distui.plan.model import HostNetwork
from distui.plan.ranks.placement import HostPlacement, busy_words, is_busy
from distui.regex import regex
from distui.spec.hosts.inventory import EngineName, Host, Inventory
from distui.spec.hosts.names import fold
from distui.spec.job.job import Backend, Job
from distui.spec.job.placeholders import used
from distui.whole import whole

RUN_ID = regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
"""A run id is part of container names and folders, so it holds nothing that either would mind."""


def engine_of(host: Host, facts: HostFacts) -> EngineName:
    """The engine that really answers: `docker` may be podman under docker's name."""
    if host.engine == "docker" and facts.engine.kind == "podman":
        return "podman"
    return host.engine


def check_job(job: Job, hosts: Sequence[Host], run_id: str) -> list[PlanProblem]:
    """What is wrong with the job whatever the hosts are."""
    return [PlanProblem("job", None, what, hint) for what, hint in _job_faults(job, hosts, run_id)]


def _job_faults(job: Job, hosts: Sequence[Host], run_id: str) -> Iterator[tuple[str, str]]:
    if not RUN_ID.fullmatch(run_id):
        yield f"run name {run_id!r} is not usable", "letters, digits, `_`, `.` and `-`, at most 63"
    if not job.command or (isinstance(job.command, str) and not job.command.strip()):
        yield "the job has no command", "set command: [python, train.py]"
    elif not isinstance(job.command, str) and not job.command[0]:
        yield "the command's first word is empty", "name a program"
    elif job.launcher != "torchrun" and job.command[0].startswith("-") and any(h.engine == "process" for h in hosts):
        yield f"the command begins with {job.command[0]!r}, which is no program", "without a container name the program"
    if any(h.engine != "process" for h in hosts):
        yield from _image_faults(job)
        if (job.workdir or "").startswith("~/"):
            yield f"workdir {job.workdir} is no folder in a container", "write an absolute path, such as /work"
    for key, text in _texts(job):
        if "\0" in text or _is_broken(text):
            yield f"{key} holds a NUL byte or is not valid UTF-8, which no command line can carry", ""


def _image_faults(job: Job) -> Iterator[tuple[str, str]]:
    if not job.image and job.build is not None:
        return
    if not job.image:
        hint = "set image:, or pass --image; `docker: process` in hosts.yaml runs it without containers"
        yield "the job has no image, and hosts with a container engine need one", hint
    elif job.image.startswith("-") or job.image != job.image.strip():
        yield f"image {job.image!r} is not an image name", "REPOSITORY[:TAG]"


def _texts(job: Job) -> Iterator[tuple[str, str]]:
    """Every text of the job that becomes an argument."""
    words = (job.command,) if isinstance(job.command, str) else job.command
    for key, values in (
        ("command", words),
        ("volumes", job.volumes),
        ("devices", job.devices),
        ("cap_add", job.cap_add),
        ("docker_args", job.docker_args),
        ("name", (job.name,)),
        ("ulimits", tuple(f"{k}={v}" for k, v in job.ulimits.items())),
    ):
        for value in values:
            yield key, value
    for key in ("image", "workdir", "user", "entrypoint", "network", "ipc", "shm_size", "progress"):
        value = getattr(job, key)
        if value is not None:
            yield key, value
    yield from mounts.texts(job)
    yield "rendezvous", job.rendezvous.directory or ""


def _is_broken(text: str) -> bool:
    """Whether a text holds lone surrogates, which can't be sent as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def check_engine(job: Job, host: Host, facts: HostFacts) -> list[PlanProblem]:
    """Why a host can't start this job's tasks."""
    problems = []
    if not facts.home:
        problems.append(
            PlanProblem("home", host.name, "the login has no home folder, where distui keeps the run's files")
        )
    if host.engine == "process":
        return problems
    engine = facts.engine
    if engine.problem is not None:
        problems.append(PlanProblem("engine", host.name, engine.problem.message, engine.problem.hint))
    elif engine.kind == "none":
        hint = f"install {host.engine}, or set `docker: process` for the host to run without containers"
        problems.append(PlanProblem("engine", host.name, f"no {host.engine} found", hint))
    return problems


def check_gpu_engine(places: Sequence[HostPlacement]) -> list[PlanProblem]:
    """Hosts whose docker can't hand out the NVIDIA GPUs the run asks for."""
    return [
        PlanProblem(
            "engine",
            p.name,
            f"GPUs {', '.join(map(str, p.gpu_indices))} asked, but docker there has no NVIDIA runtime",
            "install nvidia-container-toolkit on the host and restart docker",
        )
        for p in places
        if engine_of(p.host, p.facts) == "docker"
        and p.facts.engine.nvidia_runtime is False
        and any(g.vendor == "nvidia" for g in p.gpus)
    ]


def check_gpu_map(job: Job, inventory: Inventory) -> list[PlanProblem]:
    """Hosts in `gpus_per_host: {...}` that do not exist: a typing error would pass in silence."""
    return [
        PlanProblem("hosts", name, "gpus_per_host names it, but it is not in the inventory")
        for name in job.gpus_by_host
        if inventory.get(name) is None
    ]


def check_nodes(job: Job, places: Sequence[HostPlacement]) -> list[PlanProblem]:
    """`torchrun.nnodes` against the hosts: with a larger MAX torchrun would wait for nodes that never come."""
    if job.launcher != "torchrun" or job.torchrun.nnodes is None or job.torchrun.nnodes[1] == len(places):
        return []
    low, high = job.torchrun.nnodes
    asked = f"{low}:{high}" if low < high else str(high)
    fit = f"{min(low, len(places))}:{len(places)}" if low < high else str(len(places))
    has = counted(len(places), "host")
    return [
        PlanProblem(
            "nodes", None, f"torchrun.nnodes {asked} names {counted(high, 'node')}, the run has {has}", f"write {fit}"
        )
    ]


def check_preflight(job: Job, places: Sequence[HostPlacement], networks: Sequence[HostNetwork]) -> list[PlanProblem]:
    """What the job's `preflight:` asks for beyond what is always checked (ssh, engine, image, ports).

    `gpus_idle` turns the warning about a GPU in use into a refusal, `ib` a fall-back to TCP.
    """
    found: list[PlanProblem] = []
    if "gpus_idle" in job.preflight:
        busy = [(p.host.name, g) for p in places for g in p.gpus if is_busy(g)]
        hint = "wait, take other GPUs, or leave gpus_idle out of preflight:"
        found += [PlanProblem("gpus_busy", host, f"GPU {g.index} is {busy_words(g)}", hint) for host, g in busy]
    if "ib" in job.preflight:
        hint = "see `distui probe`, or leave ib out of preflight:"
        found += [
            PlanProblem("rdma", n.host, "has no InfiniBand for this run", hint) for n in networks if n.fabric == "tcp"
        ]
    return found


VISIBLE = "CUDA_VISIBLE_DEVICES"


def _gpus_out_of_reach(job: Job, places: Sequence[HostPlacement]) -> Iterator[str]:
    """GPUs that `env` names by number and a task does not have: in a container its GPUs are counted from 0."""
    words = job.env.get(VISIBLE, "").split(",")
    asked = {number for word in words if (number := whole(word.strip())) is not None}
    for place in places if asked else ():
        own, has = _gpus_seen(job, place)
        if missing := sorted(asked - own):
            yield (
                f"env sets {VISIBLE}={job.env[VISIBLE]}, and a task on {place.name} has {has}: "
                f"{', '.join(map(str, missing))} is not among them, so fewer or none are seen; drop it"
            )
            return


def _gpus_seen(job: Job, place: HostPlacement) -> tuple[set[int], str]:
    """The numbers of the GPUs that a task of a host sees, and the same in words."""
    if place.host.engine == "process":
        return set(place.gpu_indices), f"GPUs {', '.join(map(str, place.gpu_indices)) or 'none'}"
    whole = job.launcher == "torchrun" or bool(place.processes) or (job.visible_gpus == "all" and job.launcher != "tf")
    count = len(place.gpus) if whole else min((len(gpus) for gpus in place.rank_gpus), default=0)
    return set(range(count)), f"{counted(count, 'GPU')}, counted from 0 in its container"


def _networks_apart(job: Job, places: Sequence[HostPlacement]) -> Iterator[str]:
    """Hosts whose docker can't give a container the host's network."""
    for place in places if job.network == "host" else ():
        if place.host.engine == "docker" and (why := place.facts.engine.apart):
            yield (
                f"{place.name}: docker there is {why}; its `--network host` is a network of its own, without the "
                "host's interfaces, so ranks can't meet (take the system's docker, podman, or `docker: process`)"
            )


_LABELS = regex(r"(?:--security-opt=)?label[=:]")
"""Settings of SELinux among words for the engine."""


def _kept_out(job: Job, places: Sequence[HostPlacement]) -> Iterator[str]:
    """Hosts whose SELinux keeps containers from what they are given, unless the job says otherwise."""
    names = [p.name for p in places if p.host.engine != "process" and p.facts.engine.selinux]
    if names and "--privileged" not in job.docker_args and not any(map(_LABELS.match, job.docker_args)):
        yield (
            f"{fold(names)}: SELinux there may keep containers from the code, from folders without `:z` and from GPUs "
            "(Permission denied); `docker_args: [--security-opt, label=disable]` lets them in"
        )


_OF_CONTAINERS = (
    "entrypoint", "volumes", "user", "network", "ipc", "shm_size", "ulimits", "devices", "cap_add", "docker_args",
)  # fmt: skip


def _without_effect(job: Job, places: Sequence[HostPlacement]) -> Iterator[str]:
    """Keys that only a container has, on hosts without one, but for what these have anyway: their own paths and IPC."""
    names = [place.name for place in places if place.host.engine == "process"]
    own = Job(
        job.name,
        entrypoint=None if job.entrypoint else job.entrypoint,
        volumes=tuple(v for v in job.volumes if len({*v.split(":")[:2]}) == 1),
        ipc="host" if job.ipc == "host" else None,
    )
    if names and (keys := [key for key in _OF_CONTAINERS if getattr(job, key) != getattr(own, key)]):
        yield f"{fold(names)}: without a container there, these keys of the job are ignored: {', '.join(keys)}"


def _short(text: str, most: int = 40) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def warn_job(job: Job, places: Sequence[HostPlacement], backend: Backend) -> list[str]:
    """What will probably not work as meant."""
    warnings = []
    without = [p.name for p in places if not p.gpus]
    if backend == "nccl" and without:
        warnings.append(f"backend nccl needs GPUs, the run has none on {fold(without)}; set gpus_per_host")
    warnings += _warn_command(job)
    if job.launcher == "torchrun":
        warnings += torchrun.warnings(job, len(places))
    if job.network != "host" and len(places) > 1:
        warnings.append(f"network {job.network}: ranks on other hosts can't reach addresses of the host from there")
    elif job.network != "host" and any(len(p.ranks) > 1 and p.host.engine != "process" for p in places):
        warnings.append(
            f"network {job.network}: MASTER_ADDR and the interface for gloo and NCCL are the host's, which containers "
            "there do not have, so ranks can't meet; drop network"
        )
    warnings += [f"{p.name}: {words}" for p in places if (words := slow_shell_words(p.facts.shell_s))]
    warnings += _networks_apart(job, places)
    warnings += _kept_out(job, places)
    warnings += _without_effect(job, places)
    warnings += _gpus_out_of_reach(job, places)
    if backend == "mpi" and job.launcher == "env":
        warnings.append(
            "backend mpi: an MPI library takes its ranks from mpirun, and here none starts it; each task would "
            "be rank 0 of 1 (take `launcher: command` with mpirun, or backend gloo or nccl)"
        )
    if job.launcher == "command" and len(places) > 1 and torchrun.guesses_its_store(job.command):
        warnings.append(
            "rdzv_backend c10d: torch compares host names to find out which host holds the rendezvous, and where none "
            "finds its own all wait (take `launcher: torchrun` with `torchrun: {rdzv: c10d}`, or, where command is a "
            "text, add --rdzv-conf is_host=$((! {node_rank})))"
        )
    if job.docker_args:
        warnings.append(f"docker_args go to the engine as they are: {' '.join(job.docker_args)}")
    if "--rm" in job.docker_args:
        warnings.append("docker_args --rm: exit codes and the ends of logs may be lost")
    return warnings


def _warn_command(job: Job) -> list[str]:
    """What of a command is probably not read as it is meant."""
    warnings = []
    words = (job.command,) if isinstance(job.command, str) else job.command
    if words is job.command and words and len(words[0].split()) > 1 and not job.entrypoint:
        warnings.append(
            f"the command's first word is {_short(words[0])!r}, spaces included: it names one program, unless the "
            "image's own entrypoint is a shell. Write a list of words, or a text for a shell (after `--`: "
            "sh -c 'TEXT')"
        )
    unknown = frozenset().union(*map(used, words)) & {"rank", "local_rank"}
    names = ", ".join("{" + n + "}" for n in sorted(unknown))
    if job.launcher == "torchrun" and unknown:
        warnings.append(f"{names} stays as it is under torchrun: read RANK and LOCAL_RANK from the environment")
    if job.launcher == "command" and job.task_per == "host" and unknown:
        warnings.append(f"{names} stays as it is: a host's launcher numbers ranks itself; or write task_per: rank")
    return warnings
