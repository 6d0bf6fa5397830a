"""What a plan is: a whole run as one frozen value that can be printed, compared and tested before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from distui.codec import Key
from distui.errors import PlanProblem
from distui.frozen import frozen
from distui.plan.labels import TaskLabels, container_name, serves_others, task_from_labels, token_of
from distui.spec.hosts.inventory import EngineName
from distui.spec.hosts.names import fold
from distui.spec.job.job import Backend, DoneWhen, FabricKind, Launcher, OnHang, Success
from distui.whole import whole


@frozen
class NoPlan:
    """Why job, inventory and facts give no plan: every reason at once, hosts in the order picked."""

    problems: tuple[PlanProblem, ...]


def in_words(problems: Iterable[PlanProblem]) -> list[tuple[str, str]]:
    """Why there is no plan, each with what to do about it; equal reasons of several hosts are one."""
    hosts: dict[tuple[bool, str, str], list[str]] = {}
    for problem in problems:
        hosts.setdefault((bool(problem.host), problem.message, problem.hint), []).append(problem.host or "")
    return [
        (f"{fold(dict.fromkeys(names))}: {message}" if of_hosts else message, hint)
        for (of_hosts, message, hint), names in hosts.items()
    ]


@dataclass(slots=True)
class Notes:
    """What is found on the way to a plan, in the order found."""

    problems: list[PlanProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def problem(self, code: str, host: str | None, message: str, hint: str = "", port: int = 0) -> None:
        """One reason why there is no plan."""
        self.problems.append(PlanProblem(code, host, message, hint, port))

    def add(self, other: Notes) -> None:
        """What was found in another part."""
        self.problems.extend(other.problems)
        self.warnings.extend(other.warnings)
        self.reasons.extend(other.reasons)

    def no_plan(self) -> NoPlan:
        """All problems, each once."""
        return NoPlan(tuple(dict.fromkeys(self.problems)))


@frozen
class HostNetwork:
    """The address and interface one host uses towards the other hosts of the run, and why."""

    host: str
    addr: str
    ifname: str
    fabric: FabricKind
    """What was chosen in the end: `ib`, `roce` or `tcp`."""
    hcas: tuple[str, ...] = ()
    """`hca:port` of the active RDMA ports that face peers."""
    reasons: tuple[str, ...] = ()
    """In words: why this interface, why not the others."""
    rdma_off: bool = False
    """Whether NCCL must be kept from RDMA because some host of the run can't do it, or TCP was asked for."""
    speed_mbps: Annotated[int, Key(brief=True)] = 0
    """Of the link, of several RDMA ports together; 0 where nobody knows."""


@frozen
class Fetch:
    """How a host gets data from elsewhere before the start."""

    folder: str
    """In the login's home on each host; what was fetched is `data` in it."""
    is_folder: bool
    sha256: str
    sums: str
    clients: tuple[str, ...]
    """Programs that can do it; the first that a host has does."""
    client_image: str | None
    endpoint: str
    secrets: tuple[str, ...]
    """Names of variables that the client gets."""


@frozen
class Mount:
    """Something that every task sees at `target`."""

    name: str
    kind: Literal["path", "nfs", "url"]
    source: str
    """A path of the hosts (`~/` is the login's home), `server:/export`, or a URL."""
    target: str
    mode: Literal["ro", "rw"]
    shared: bool
    """Whether it is, or must be proved to be, one storage on all hosts."""
    options: str = ""
    """Options that mount(2) gets for an NFS export."""
    fetch: Fetch | None = None
    """Of a URL."""


@frozen
class Task:
    """One container (or process) that distui starts on one host.

    `env` holds no secret; `secrets` are the names whose values are added to the env file at the start.
    `start` is the exact argv run on the host, as printed. Paths that begin with `~/` are in the login's home.
    """

    index: int
    name: str
    host: str
    engine: EngineName
    engine_command: tuple[str, ...]
    role: str
    node_rank: int
    ranks: tuple[int, ...]
    gpus: tuple[int, ...]
    image: str | None
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    env_file: str
    """Absolute path on the host; written 0600 before the start and removed as soon as the task has started."""
    run_dir: str
    """Absolute path of the run's private folder on the host."""
    labels: Mapping[str, str]
    start: tuple[str, ...]
    rank_gpus: tuple[tuple[int, ...], ...] = ()
    """For each of `ranks`, the GPUs meant for it (indices on the host); with `visible_gpus: all` it may see more."""
    port: int | None = None
    """Where it listens (launcher `tf`)."""
    hostfile: str = ""
    """Absolute path on the host of the list of all hosts, for `{hostfile}`; removed with the run."""
    hostfile_lines: tuple[str, ...] = ()
    """What is in it: `ADDRESS slots=N`."""
    insight: str = ""
    """Absolute path on the host of what its ranks open to be asked where they are; empty where they can't be."""

    @property
    def container(self) -> str:
        """Name of the task's container, `distui-RUN-INDEX`, later `distui-RUN-INDEX-attempt2`.

        Unique among the runs on a host, since run ids are; names are for people, distui finds by label.
        """
        attempt = whole(self.labels.get("distui.attempt", "")) or 0
        return container_name(self.labels.get("distui.run", ""), self.index, attempt)


@frozen
class CodePlan:
    """The job's code: one tree for all hosts, resolved on the control machine before anything is contacted."""

    source: str
    """The folder as it was named, or the repository's URL, which holds no secret."""
    tree: str
    """Id of its content (`plan/content/tree.py`)."""
    files: int
    bytes: int
    to: str
    """Where the container sees it."""
    mode: Literal["ro", "rw"] = "ro"
    commit: str = ""
    """Empty where there is no git."""
    ref: str = ""
    """Branch or tag that the commit was found by."""
    dirty: bool = False
    """Whether the folder differs from its commit."""
    stat: str = ""
    """What differs from the commit: a line for each file."""
    diff: str = ""
    left_out: tuple[str, ...] = ()
    """What is not sent and why, in words, beyond what the ignore files name."""


@frozen
class BuildPlan:
    """What the run's image is built from: one content for all hosts, read on the control machine beforehand."""

    context: str
    """The folder as it was named."""
    content: str
    """Hash of files, Dockerfile, arguments and stage: the image's label `distui.build`."""
    files: int
    bytes: int
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    where: Literal["hosts", "first"] = "hosts"

    @property
    def identity(self) -> str:
        """What `ImageFacts.identity` says of an image built from this."""
        return f"build:{self.content}"


@frozen
class RunPlan:
    """A whole run, frozen. What runs is what this says."""

    run_id: str
    job: str
    owner: str
    version: str
    attempt: int
    launcher: Launcher
    backend: Backend
    init_method: str
    rendezvous_file: str | None
    """Path of the `file` rendezvous as the container sees it; a fresh one for each attempt."""
    rendezvous_host_path: str | None
    """The same file as the hosts see it through the job's volumes, to be removed after; None when unknown."""
    master_addr: str
    master_port: int
    world_size: int
    image: str | None
    pull: Literal["always", "missing", "never"]
    on_fail: Literal["stop", "wait"]
    stop_grace: float
    stall_after: float
    progress: str | None
    networks: tuple[HostNetwork, ...]
    tasks: tuple[Task, ...]
    attempts: int = 1
    """How many attempts the run has in all: one, and the job's `retries`."""
    on_hang: OnHang = "tell"
    """What is done when ranks stand still for `stall_after`."""
    max_duration: float | None = None
    """Seconds that each task may last from its own start, by `timeout` on its host; None without limit."""
    max_restarts: int = 0
    """How often torchrun itself starts its ranks again."""
    min_nodes: int | None = None
    """The run goes on while this many nodes are left; None where it needs all of them."""
    reasons: tuple[str, ...] = ()
    """Choices that concern the whole run, in words (port, fabric, GPUs)."""
    warnings: tuple[str, ...] = ()
    hash: str = ""
    """SHA-256 (first 12 hex digits) over everything above but the run id and attempt."""
    code: CodePlan | None = None
    build: BuildPlan | None = None
    """What `image` is built from; None for an image that is pulled."""
    done_when: DoneWhen | None = None
    """Whose end is the run's (launcher `tf`); None: every task's."""
    mounts: tuple[Mount, ...] = ()
    """The job's `data`."""
    success: Success | None = None
    """What must be so at the end, beyond exit status 0."""
    same: str | None = None
    """What must be the same in all ranks' output at the end."""
    unchecked: tuple[str, ...] = ()
    """Keys of the job about its end that can't be looked at from here, since only labels tell of them."""

    @property
    def own_labels(self) -> TaskLabels | None:
        """The labels of its first task as values: what tells its launch and attempt from others of its name."""
        return task_from_labels(self.tasks[0].labels) if self.tasks else None

    @property
    def keeps(self) -> bool:
        """Whether its ended containers stay (`run --keep`)."""
        return self.own_labels is not None and self.own_labels.keep

    @property
    def token(self) -> str:
        """The token of its launch and attempt; "" where its labels do not tell."""
        return token_of(self.own_labels)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the run, in node order, each once."""
        return tuple(dict.fromkeys(t.host for t in self.tasks))

    @property
    def rank_names(self) -> Mapping[int, str]:
        """Names of the ranks that are more than a number: `worker/1`, `node/0` for a host's own launcher."""
        return {t.ranks[0]: t.name for t in self.tasks if t.labels.get("distui.name") and t.ranks}

    @property
    def judges(self) -> tuple[int, ...]:
        """Indices of the tasks whose end is the run's: the chief (worker 0 without one), or it and all workers."""
        ordered = sorted(self.tasks, key=lambda t: min(t.ranks, default=t.index))
        leader = next((t for t in ordered if t.role == "chief"), ordered[0])
        match self.done_when:
            case "chief":
                return (leader.index,)
            case "worker":
                return (leader.index, *(t.index for t in ordered if t.role == "worker" and t is not leader))
            case _:
                return tuple(t.index for t in self.tasks)

    def stall_after_of(self, task: Task) -> float:
        """Seconds of silence after which a rank of the task is quiet; 0, never, for tasks that only serve others."""
        serves = self.done_when is not None and serves_others(task.role, self.done_when)
        return 0.0 if serves else self.stall_after

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Names of the secrets that any task gets."""
        return tuple(sorted({name for task in self.tasks for name in task.secrets}))

    def tasks_on(self, host: str) -> tuple[Task, ...]:
        """The tasks of one host, by index."""
        return tuple(t for t in self.tasks if t.host == host)

    def gpus_on(self, host: str) -> tuple[int, ...]:
        """The GPUs of one host that the run uses."""
        return tuple(sorted({gpu for task in self.tasks_on(host) for gpu in task.gpus}))
