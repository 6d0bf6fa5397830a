"""The job file as a value: what to run, on how many hosts, with which launcher and network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from distui.frozen import frozen

Launcher = Literal["env", "torchrun", "tf", "command"]
RoleName = Literal["chief", "worker", "ps", "evaluator"]
ROLES: tuple[RoleName, ...] = ("chief", "worker", "ps", "evaluator")
"""TensorFlow's task types, in the order in which tasks are numbered and shown."""
DoneWhen = Literal["chief", "worker", "all"]
"""When a run of launcher `tf` is over: the chief (worker 0 without one), the chief and every worker, or every task."""
Backend = Literal["gloo", "nccl", "mpi"]
OnHang = Literal["tell", "stop", "restart"]
"""What is done when ranks stand still: only said, or the run is stopped as failed, or its next attempt begun."""
FabricKind = Literal["auto", "ib", "roce", "tcp"]
GpuRequest = Literal["all"] | int | tuple[int, ...]
"""GPUs on one host: all that the inventory allows, a count, or a list of indices."""


@frozen
class HostChoice:
    """Where a job runs. Exactly one of `names`, `group` and `label` is set; `count` takes the first N of them."""

    names: tuple[str, ...] = ()
    """Host expressions as written (`gw[1-2]`, `node01:0-3`, `@h100`), expanded against the inventory later."""
    group: str | None = None
    label: Mapping[str, str] = field(default_factory=dict)
    count: int | None = None


@frozen
class RankLayout:
    """How many ranks each host gets: N per host, N per GPU, or an explicit list of ranks for each host."""

    per_host: int | None = None
    per_gpu: int | None = None
    by_host: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@frozen
class Rendezvous:
    """How ranks find each other. `file` needs `directory`, a shared folder as the container sees it."""

    kind: Literal["env", "tcp", "file"] = "env"
    directory: str | None = None


@frozen
class Fabric:
    """Which network carries the training data.

    `require: all` fails the plan when a host lacks what is asked, `any` warns and falls back.
    """

    kind: FabricKind = "auto"
    ifname: str | None = None
    hcas: str = "inherit"
    gid_index: Literal["auto"] | int = "auto"
    gdr: Literal["auto", "on", "off"] = "auto"
    require: Literal["all", "any"] = "all"


@frozen
class Torchrun:
    """Settings of the `torchrun` launcher."""

    rdzv: Literal["static", "c10d"] = "static"
    port: int | None = None
    max_restarts: int = 0
    nnodes: tuple[int, int] | None = None
    """Fewest and most nodes, from `MIN:MAX`: the run goes on while MIN are left. None: all of the job's hosts."""
    last_call: float | None = None
    """Seconds that c10d waits for more nodes once MIN are there; torchrun's own default is 30."""


@frozen
class Role:
    """Tasks of one kind of launcher `tf`: `count` over its hosts together, or `per_host` on each of them.

    With neither it is one task, for workers one on each host.
    """

    count: int | None = None
    per_host: int | None = None
    hosts: tuple[str, ...] = ()
    """Host expressions within the run's hosts; empty: all of them."""
    gpus: Literal["all"] | int | None = None
    """GPUs for each task; None: the host's rest for those that train, none for the others."""
    port: int | None = None
    """Where the first task of this role on a host listens; its neighbours take the next ports. None: a free one."""
    env: Mapping[str, str] = field(default_factory=dict)
    """On top of the job's."""


@frozen
class Success:
    """What a run must show, beyond exit status 0, to have succeeded. Unset parts ask for nothing."""

    regex: str | None = None
    """Some rank, or a launcher, must print a line in which it is found."""
    file: str | None = None
    """Must be there after the end, as the container of some rank sees it; with engine `process` on its host."""
    min_seconds: float | None = None
    """The run must last so long, from the start of its first task to the end of its last."""


MODES = ("ro", "rw")


@frozen
class Code:
    """What the hosts get of this machine's files. Exactly one of `path` and `git` is set; sizes are bytes."""

    path: str | None = None
    """As written: relative to the job file's folder, or absolute, or below `~/`."""
    git: str | None = None
    ref: str | None = None
    """Branch, tag or commit; None: the repository's HEAD."""
    token: str | None = None
    """Name of the caller's variable with the password for `git`; its value is in no Job."""
    subdir: str | None = None
    to: str | None = None
    """Where the container sees it; None: the job's `workdir`, else `/work`."""
    mode: Literal["ro", "rw"] = "ro"
    ignore: tuple[str, ...] = ()
    max_size: int = 1 << 30
    max_file: int = 100 << 20


@frozen
class Build:
    """What the job's image is built from: a folder of this machine with a Dockerfile."""

    context: str = "."
    """As written: relative to the job file's folder, or absolute, or below `~/`."""
    dockerfile: str = "Dockerfile"
    """Within the context."""
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    where: Literal["hosts", "first"] = "hosts"
    """On every host that lacks it, or on one, which gives it to the others."""
    max_size: int = 10 << 30
    """Bytes of the folder that are read at most."""


def destination(code: Code, workdir: str | None) -> str:
    """Where the container sees the code."""
    chosen = code.to or (workdir if workdir and workdir.startswith("/") and workdir.strip("/") else "/work")
    return chosen.rstrip("/")


@frozen
class DataMount:
    """One of `data:`: something ranks see at `to`. Exactly one of `path`, `nfs` and `url` is set."""

    to: str
    path: str | None = None
    """On the hosts; absolute, or below the login's home with `~/`."""
    nfs: str | None = None
    """`server:/export`."""
    options: str = ""
    """Of the NFS mount, joined by commas."""
    mode: Literal["ro", "rw"] = "ro"
    shared: bool = False
    """Whether `path` must be one storage on all hosts."""
    url: str | None = None
    """What every host fetches before the start: a file, or with `/` at its end a folder."""
    sha256: str | None = None
    """Of the file at `url`; for a folder of its file `sums`."""
    sums: str | None = None
    """Name of a file in the folder at `url` with the sums of the others, as sha256sum writes it."""
    endpoint: str | None = None
    """Of an object store that is not its scheme's own."""
    client: str | None = None
    """The program that fetches; None: the first of those for the scheme that the host has."""
    client_image: str | None = None
    """Image with that program, for hosts that lack it."""
    secrets: tuple[str, ...] = ()
    """Names of variables for the client, which ranks don't get."""


@frozen
class Job:
    """One job. Field names are the keys of the job file; defaults are distui's. The last two say where it comes from.

    Times are seconds, sizes keep Docker's spelling (`64g`). `command` is a tuple (exec form) or a string
    (`sh -c`). `secrets` are names only: values come from the caller's environment at the start.
    """

    name: str
    hosts: HostChoice | None = None
    image: str | None = None
    launcher: Launcher = "env"
    ranks: RankLayout | None = None
    gpus_per_host: GpuRequest | None = None
    gpus_by_host: Mapping[str, GpuRequest] = field(default_factory=dict)
    """From `gpus_per_host: {node01: [0, 1], node02: 2}`."""
    gpus_per_rank: int | None = None
    visible_gpus: Literal["all", "own"] = "all"
    rendezvous: Rendezvous = Rendezvous()
    backend: Backend | None = None
    master_port: int | None = None
    fabric: Fabric = Fabric()
    torchrun: Torchrun = Torchrun()
    roles: Mapping[RoleName, Role] = field(default_factory=dict)
    """Of launcher `tf`, in the order of ROLES; empty: one worker on each host."""
    done_when: DoneWhen | None = None
    """None: `chief` with parameter servers, `worker` without."""
    task_per: Literal["host", "rank"] = "host"
    """Whether launcher `command` starts one task on each host, or one for each rank."""
    command: tuple[str, ...] | str = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    code: Code | None = None
    data: Mapping[str, DataMount] = field(default_factory=dict)
    build: Build | None = None
    """`image` is then the name it gets; None: one that follows from the content."""
    workdir: str | None = None
    user: str | None = None
    entrypoint: str | None = None
    network: str = "host"
    ipc: str | None = None
    shm_size: str | None = None
    ulimits: Mapping[str, str] = field(default_factory=dict)
    """`memlock: -1` -> {"memlock": "-1"}; `nofile: {soft: 1, hard: 2}` -> {"nofile": "1:2"}."""
    devices: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    docker_args: tuple[str, ...] = ()
    pull: Literal["always", "missing", "never"] = "missing"
    on_fail: Literal["stop", "wait"] = "stop"
    on_hang: OnHang = "tell"
    """What is done when its ranks stand still for `stall_after`, as they tell themselves."""
    retries: int = 0
    """How often a run that failed is restarted."""
    max_duration: float | None = None
    """Seconds after which the run is stopped, all its attempts together."""
    stop_grace: float = 30.0
    stall_after: float = 120.0
    progress: str | None = None
    """A regex with named groups, from `progress: {regex: ...}`."""
    success: Success | None = None
    same: str | None = None
    """A regex, from whose last match in each rank's output all ranks must show the same."""
    insight: Literal["auto", "on", "off"] = "auto"
    """Whether ranks can be asked where they are (`distui why`); `auto`: unless the launcher is `tf`."""
    preflight: tuple[str, ...] = ()
    path: str = ""
    image_variables: tuple[tuple[str, str], ...] = ()
    """The caller's variables whose values the file puts into `image`, each with the registry that would see it."""

    @property
    def end_regexes(self) -> tuple[str, ...]:
        """Keys that say with a regular expression what the end must be like."""
        found = {"success.regex": self.success and self.success.regex, "same": self.same}
        return tuple(key for key, regex in found.items() if regex)

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """Names of the variables whose values a start needs: for ranks, and for what fetches data."""
        return tuple(dict.fromkeys((*self.secrets, *(s for mount in self.data.values() for s in mount.secrets))))
