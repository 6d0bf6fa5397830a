"""The environment of each task, and the env file that carries it to the host with the secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping

from distui.errors import UsageError
from distui.frozen import frozen
from distui.plan.command import torchrun
from distui.plan.command.insight import behind_hook
from distui.plan.model import HostNetwork, Notes, Task
from distui.plan.network.rendezvous import RendezvousPoint
from distui.plan.ranks.placement import HostPlacement
from distui.spec.job.job import Backend, Job
from distui.spec.job.placeholders import fill, used

LINE_LIMIT = 65_535
"""Bytes of one line of an env file: docker's reader gives up at 64 KiB (FAULTS M13)."""

HOSTFILE = "/run/distui/hostfile"
"""Where a container finds the list of all hosts, for `{hostfile}`."""


@frozen
class RankSlot:
    """Where one task sits in the run: a rank, or a node whose ranks a launcher starts (torchrun)."""

    place: HostPlacement
    network: HostNetwork
    local_rank: int
    """-1 for a node of torchrun, which counts local ranks itself."""
    nnodes: int
    world_size: int
    processes: int
    """Training processes of the run: the ranks, but where a launcher starts several for one (`command`)."""
    peers: tuple[str, ...] = ()
    """Addresses of all hosts of the run, in their order."""
    hostfile: str = ""
    """Where the task finds the file that lists them."""

    @property
    def rank(self) -> int:
        """Its rank, or the first of its node's."""
        return self.place.ranks[max(self.local_rank, 0)]

    @property
    def gpus(self) -> tuple[int, ...]:
        """GPUs meant for it (for a node: all of the run's on the host)."""
        return self.place.gpu_indices if self.local_rank < 0 else self.place.rank_gpus[self.local_rank]


def task_env(
    job: Job,
    backend: Backend,
    slot: RankSlot,
    rendezvous: RendezvousPoint,
    *,
    visible: tuple[int, ...],
    role: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What the task's process gets beside the names of run, task and attempt, as printed; what the job sets wins.

    `role` is what makes it a task of launcher `tf`, with the role's own variables.
    """
    env = {"PYTHONUNBUFFERED": "1"}
    match job.launcher:
        case "env":
            env |= rank_env(slot, rendezvous)
        case "torchrun":
            env |= torchrun.env(job)
        case "command":
            env |= command_env(job, slot, rendezvous)
        case "tf":
            pass  # its variables come last: TF_CONFIG is never the job's
    if job.launcher != "tf":
        if len(slot.place.ranks) > 1:
            env["OMP_NUM_THREADS"] = "1"  # as torchrun would, with a banner: each rank would take every core
        env |= {"DISTUI_INIT_METHOD": rendezvous.init_method, "DISTUI_BACKEND": backend}
    env |= network_env(job, slot)
    env |= gpu_env(job, slot, visible)
    env |= _own_env(job, backend, slot, rendezvous)
    env |= role or {}
    return {k: v for k, v in env.items() if k not in job.secrets}


def _own_env(job: Job, backend: Backend, slot: RankSlot, rendezvous: RendezvousPoint) -> Mapping[str, str]:
    """The job's `env`; with launcher `command` its placeholders are filled in, as in the command."""
    if job.launcher != "command":
        return job.env
    values = placeholders(job, backend, slot, rendezvous)
    return {name: fill(value, values) for name, value in job.env.items()}


def placeholders(job: Job, backend: Backend, slot: RankSlot, rendezvous: RendezvousPoint) -> dict[str, str]:
    """What `{node_rank}`, `{world_size}` ... stand for in one task; a node has no `{rank}` of its own."""
    values = {
        "world_size": str(slot.processes),
        "init_method": rendezvous.init_method,
        "backend": backend,
        "local_world_size": str(slot.place.nproc),
        "nproc": str(slot.place.nproc),
        "node_rank": str(slot.place.node_rank),
        "nnodes": str(slot.nnodes),
        "master_addr": rendezvous.master_addr,
        "master_port": str(rendezvous.master_port),
        "peers": ",".join(slot.peers),
        "hostfile": slot.hostfile,
    }
    if slot.local_rank >= 0:
        values |= {"rank": str(slot.rank), "local_rank": str(slot.local_rank)}
    return values


def command_env(job: Job, slot: RankSlot, rendezvous: RendezvousPoint) -> dict[str, str]:
    """What launcher `command` tells: where to meet, and numbers under names of our own.

    RANK and WORLD_SIZE mean the process to some launchers and the host to others (FACTS 2.4), so that neither is set
    unless the job does: `env: {RANK: "{node_rank}"}`.
    """
    values = placeholders(job, "gloo", slot, rendezvous)
    names = ("rank", "local_rank", "world_size", "node_rank", "nnodes", "nproc")
    numbers = {f"DISTUI_{name.upper()}": values[name] for name in names if name in values}
    return {"MASTER_ADDR": rendezvous.master_addr, "MASTER_PORT": str(rendezvous.master_port), **numbers}


def rank_env(slot: RankSlot, rendezvous: RendezvousPoint) -> dict[str, str]:
    """What torch's `env://` reads, under torch's names (FACTS 2.4: other systems use them differently)."""
    return {
        "RANK": str(slot.rank),
        "WORLD_SIZE": str(slot.world_size),
        "LOCAL_RANK": str(slot.local_rank),
        "LOCAL_WORLD_SIZE": str(len(slot.place.ranks)),
        "NODE_RANK": str(slot.place.node_rank),
        "MASTER_ADDR": rendezvous.master_addr,
        "MASTER_PORT": str(rendezvous.master_port),
    }


def network_env(job: Job, slot: RankSlot) -> dict[str, str]:
    """Variables that tie gloo, RPC and NCCL to the chosen interface (DESIGN section 5, FACTS 1.2 and 1.3).

    NCCL reads prefixes, so it gets `=name`; gloo and TensorPipe read literal names. NCCL_IB_GID_INDEX is only
    set when the job asks: NCCL 2.21 and later choose it and say it should not be set.
    """
    net = slot.network
    env = {
        "GLOO_SOCKET_IFNAME": net.ifname,
        "TP_SOCKET_IFNAME": net.ifname,
        "NCCL_SOCKET_IFNAME": f"={net.ifname}",
    }
    if ":" in net.addr:
        env["NCCL_SOCKET_FAMILY"] = "AF_INET6"
    if net.hcas:
        env["NCCL_IB_HCA"] = "=" + ",".join(net.hcas)
    if net.rdma_off:
        env["NCCL_IB_DISABLE"] = "1"
    if net.fabric != "tcp":
        env |= _rdma_env(job)
    return env


def _rdma_env(job: Job) -> dict[str, str]:
    env: dict[str, str] = {}
    if job.fabric.kind in ("ib", "roce") and job.fabric.require == "all":
        env["NCCL_NET"] = "IB"  # a missing device is then an error, not ten times slower sockets
    if job.fabric.gid_index != "auto":
        env["NCCL_IB_GID_INDEX"] = str(job.fabric.gid_index)
    if job.fabric.gdr != "auto":
        env["NCCL_NET_GDR_LEVEL"] = "SYS" if job.fabric.gdr == "on" else "LOC"
    return env


def gpu_env(job: Job, slot: RankSlot, visible: tuple[int, ...]) -> dict[str, str]:
    """Which GPUs a task sees when no container runtime cuts them out: engine `process`, and AMD everywhere."""
    place = slot.place
    listed = ",".join(map(str, visible))
    if any(g.vendor == "amd" for g in place.gpus):
        return {"HIP_VISIBLE_DEVICES": listed}
    if place.host.engine != "process":
        return {}
    if visible:
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": listed}
    none = job.gpus_per_host == 0 or (job.launcher == "tf" and bool(place.gpus))
    return {"CUDA_VISIBLE_DEVICES": ""} if none else {}


# what can't be


def check_env(job: Job, notes: Notes, *, process: bool, world_size: int) -> None:
    """Problems and warnings of the job's own `env` and `secrets`."""
    lines = [("env", k, v) for k, v in _all_env(job)] + [("secret", k, "") for k in job.secrets]
    for kind, k, v in lines:
        for why in line_faults(k, v, process):
            notes.problem("env", None, f"{kind} {k!r}: {why}")
    if "RANK" in job.env and world_size > 1 and job.launcher == "env":
        notes.problem(
            "env",
            None,
            f"env sets RANK={job.env['RANK']} for all {world_size} ranks, so it would be given twice",
            "drop RANK: distui sets it for each rank",
        )
    notes.warnings.extend(_env_warnings(job, world_size))


def _all_env(job: Job) -> list[tuple[str, str]]:
    """What the job sets, for all tasks or for those of a role."""
    return [item for env in (job.env, *(role.env for role in job.roles.values())) for item in env.items()]


def _env_warnings(job: Job, world_size: int) -> list[str]:
    warnings: list[str] = []
    if job.launcher == "env":
        named = [n for n in ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE") if n in job.env]
        if world_size > 1:
            warnings += [f"env sets {n}={job.env[n]} for every rank; distui's own value is not used" for n in named]
    elif job.launcher == "torchrun" and torchrun.PREFIX_VARIABLE in job.env:
        warnings.append(f"env sets {torchrun.PREFIX_VARIABLE}, so logs can't be split by rank")
    if job.launcher != "command":
        warnings += [
            f"env {name}: {{{word}}} stays as it is: `env` has placeholders with launcher command only"
            for name, value in _all_env(job)
            for word in sorted(used(value))
        ]
    secretive = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|PRIVATE_?KEY)$", re.IGNORECASE)
    warnings += [
        f"env {name} looks like a secret: name it under secrets: to keep it out of plan, files and terminal"
        for name, value in _all_env(job)
        if value and secretive.search(name)
    ]
    return warnings


def line_faults(name: str, value: str, process: bool = False) -> tuple[str, ...]:
    """Why NAME=VALUE can't be a line of an env file; empty when it can (docker's rules: FAULTS M13)."""
    faults: list[str] = []
    if not name or re.search(r"[\s=\0]", name) or name.startswith("#"):
        faults.append("the name must not be empty, hold blanks, `=` or NUL, or begin with `#`")
    elif process and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        faults.append("without a container the name must be letters, digits and `_`, as a shell takes it")
    if "\n" in value:
        faults.append("the value holds a newline, which no env file can carry; encode it (base64) or mount a file")
    if value.endswith("\r"):
        faults.append("the value ends with a carriage return, which docker drops")
    if "\0" in value:
        faults.append("the value holds a NUL byte")
    try:
        length = len(f"{name}={value}".encode())
    except UnicodeEncodeError:
        faults.append("name or value is not valid UTF-8 text")
    else:
        if length > LINE_LIMIT:
            faults.append(f"{length} bytes are more than docker reads in one line ({LINE_LIMIT}); mount a file")
    return tuple(faults)


# the file


def env_file_text(task: Task, secret_values: Mapping[str, str], inherited: str = "") -> bytes:
    """The env file of a task with its secrets, one NAME=VALUE a line, for `docker run --env-file`.

    `inherited` is the PYTHONPATH of its image, which would be lost where the task sets one; what no line can carry is
    left out.

    Values are literal: quotes and blanks are kept. Raises UsageError when a secret is missing or can't be
    carried; the message names the secret and never its value.
    """
    env = behind_hook(task, inherited)
    if line_faults("PYTHONPATH", env.get("PYTHONPATH", "")):
        env = dict(task.env)
    lines = [f"{k}={v}" for k, v in env.items()]
    for name in task.secrets:
        if name not in secret_values:
            raise UsageError(
                f"secret {name} is not set in your environment", hint=f"export {name}=..., or use --env-file"
            )
        faults = line_faults(name, secret_values[name], task.engine == "process")
        if faults:
            raise UsageError(f"secret {name}: {'; '.join(faults)}")
        lines.append(f"{name}={secret_values[name]}")
    return "".join(f"{line}\n" for line in lines).encode()


def masked(task: Task) -> tuple[str, ...]:
    """The env file's lines for eyes: secrets as `NAME=***`."""
    return (*(f"{k}={v}" for k, v in task.env.items()), *(f"{name}=***" for name in task.secrets))
