"""A task as the `run` line of docker or podman; what comes after it is in `docker.py`.

Which flags by default, and why (FACTS 1.1):
- no `--rm`: exit code, times and log tail must survive, and with live-restore it kills (LAB section 4); no `-t`:
  a tty's log is unframed; `--init`: python as pid 1 ignores SIGTERM;
- log rotation off whatever the daemon says: a rotating log loses lines while followed (FAULTS M2);
- host network, so that NCCL and gloo see the host's interfaces; hostname untouched;
- private ipc with a larger /dev/shm (docker's 64 MiB breaks data loaders and NCCL), so that systemd's RemoveIPC
  can't delete it; the host's ipc only when several containers with GPUs share a host, since their NCCL ranks
  meet in /dev/shm;
- memlock and stack limits with GPUs or RDMA only; no nofile, since a value above the daemon's own hard limit
  stops the container from starting and the plan can't know that limit;
- `/dev/infiniband` and IPC_LOCK only when the run uses RDMA: without them NCCL silently falls back to sockets.
"""

from __future__ import annotations

from collections.abc import Sequence

from distui.facts.host import Gpu
from distui.frozen import frozen
from distui.plan.command.docker import LOG_SIZE, Argv
from distui.plan.content.mounts import bind
from distui.plan.network.rendezvous import resolve_volume
from distui.spec.hosts.inventory import EngineName
from distui.spec.job.job import Job, destination


@frozen
class Container:
    """What a task's `run` line is made from, beside the job."""

    engine: EngineName
    engine_command: Argv
    name: str
    labels: dict[str, str]
    env_file: str
    home: str | None
    gpus: tuple[Gpu, ...]
    """The GPUs the container sees."""
    rdma: bool
    """Whether the ranks in it use RDMA."""
    gpu_tasks: int
    """Tasks of the run on this host that use GPUs."""
    command: Argv
    code_mount: Argv = ()
    mounts: Argv = ()
    """`--mount` flags of the job's `data`."""


def run_argv(job: Job, c: Container) -> Argv:
    """The whole `docker run -d` line; the container's command comes last, `docker_args` just before the image."""
    flags: list[str] = ["run", "-d", "--name", c.name, "--init"]
    for key, value in c.labels.items():
        flags += ["--label", f"{key}={value}"]
    flags += _log_flags(c)
    flags += ["--network", job.network]
    flags += _memory_flags(job, c)
    flags += _limit_flags(job, c)
    flags += _device_flags(job, c)
    flags += ["--env-file", c.env_file]
    flags += _user_flags(job, c)
    return (*c.engine_command, *flags, *job.docker_args, job.image or "", *c.command)


def without_labels(engine_command: Argv, run: Argv, names: Sequence[str]) -> Argv:
    """A `run -d` line whose container has nothing in these labels, whatever its image has: no flag leaves one out."""
    at = len(engine_command) + len(("run", "-d"))
    return (*run[:at], *(word for name in names for word in ("--label", f"{name}=")), *run[at:])


_LOG_OPTIONS = (f"max-size={LOG_SIZE}", "max-file=1", "compress=false", "mode=blocking")
"""What daemon.json says holds for every option left out here: its `compress` is refused beside one file, and its
non-blocking mode drops lines of a rank that prints fast."""


def _log_flags(c: Container) -> list[str]:
    if c.engine == "podman":
        return ["--log-driver", "k8s-file"]  # a file that can be followed by offset; never rotated by default
    return ["--log-driver", "json-file", *(word for option in _LOG_OPTIONS for word in ("--log-opt", option))]


def _memory_flags(job: Job, c: Container) -> list[str]:
    """ipc namespace and size of /dev/shm, which is the host's own (and has no size) with `--ipc host`."""
    ipc = job.ipc or ("host" if c.gpu_tasks > 1 else "private")
    size = job.shm_size or (None if ipc == "host" else f"{max(4, 2 * len(c.gpus))}g")
    return ["--ipc", ipc, *(["--shm-size", size] if size else [])]


def _limit_flags(job: Job, c: Container) -> list[str]:
    """ulimits: 64 MiB of stack, since `unlimited` makes NCCL's threads crash; locked memory for pinned buffers."""
    limits = {"memlock": "-1:-1", "stack": "67108864"} if c.gpus or c.rdma else {}
    limits |= job.ulimits
    return [word for name, value in limits.items() for word in ("--ulimit", f"{name}={value}")]


def _device_flags(job: Job, c: Container) -> list[str]:
    devices = [*(["/dev/infiniband"] if c.rdma else []), *_gpu_devices(c), *job.devices]
    caps = [*(["IPC_LOCK"] if c.rdma else []), *(["SYS_NICE"] if _nvidia(c) else []), *job.cap_add]
    flags = _gpu_flags(c)
    flags += [word for d in dict.fromkeys(devices) for word in ("--device", d)]
    return flags + [word for cap in dict.fromkeys(caps) for word in ("--cap-add", cap)]


def _nvidia(c: Container) -> bool:
    return any(g.vendor == "nvidia" for g in c.gpus)


def _gpu_devices(c: Container) -> list[str]:
    """CDI names for podman, whose `--gpus` is accepted and ignored (LAB section 5); AMD's nodes for both."""
    if c.gpus and not _nvidia(c):
        return ["/dev/kfd", "/dev/dri"]
    return [f"nvidia.com/gpu={g.index}" for g in c.gpus] if c.engine == "podman" else []


def _gpu_flags(c: Container) -> list[str]:
    """`--gpus` by index: a count always means the first ones. The inner quotes are docker's own CSV syntax."""
    if c.gpus and not _nvidia(c):
        return ["--group-add", "video"]
    if not c.gpus or c.engine == "podman":
        return []
    return ["--gpus", f'"device={",".join(str(g.index) for g in c.gpus)}"']


def _user_flags(job: Job, c: Container) -> list[str]:
    flags = [word for v in job.volumes for word in ("-v", resolve_volume(v, c.home))]
    flags += c.mounts
    flags += c.code_mount
    workdir = job.workdir if job.code is None else job.workdir or destination(job.code, None)
    for flag, value in (("-w", workdir), ("--user", job.user), ("--entrypoint", job.entrypoint)):
        flags += [flag, value] if value is not None else []
    return flags + (["--pull", "never"] if job.pull == "never" or job.build is not None else [])


def sweep(engine_command: Argv, image: str, folder: str, names: Sequence[str]) -> Argv:
    """Remove `names` in a folder of the host, whoever owns what is in it: root of a container made it."""
    flags = ("--rm", "--network", "none", "--pull", "never", "--user", "0:0", "--entrypoint", "rm")
    return (
        *engine_command,
        "run",
        *flags,
        *bind(folder, "/distui"),
        image,
        "-rf",
        *(f"/distui/{name}" for name in names),
    )
