"""The keys of a job file: the one table that its reader and its schema share."""

from __future__ import annotations

from distui.spec.hosts import names
from distui.spec.hosts.host_keys import (
    GPU_COUNT,
    GPU_LIST,
    HCAS,
    LABELS,
    PORT,
    VERSION,
)
from distui.spec.job import job_forms as forms
from distui.spec.job import role_keys
from distui.spec.job.build_keys import BUILD
from distui.spec.job.code_keys import CODE
from distui.spec.job.data_keys import DATA
from distui.spec.job.end_keys import SAME, SUCCESS
from distui.spec.job.job import Fabric, Rendezvous, Torchrun
from distui.spec.job.job_checks import check_job
from distui.spec.yaml import leaves
from distui.spec.yaml.shapes import ByKind, Key, Leaf, ListOf, MapOf, Record

PREFLIGHT = (
    "ssh", "docker", "driver", "image", "gpus_idle", "addresses", "ports", "ib", "limits", "clock", "disk",
)  # fmt: skip
MAX_HOSTS = names.MAX_NAMES
MAX_RETRIES = 100
MAX_DURATION = 366 * 86400

_NUMBER_OF_HOSTS = leaves.whole(1, MAX_HOSTS, "a number of hosts")
_GPUS_ON_HOST = ByKind(leaf=leaves.either(leaves.choice("all"), GPU_COUNT), items=GPU_LIST)
_GPUS_BY_HOST = MapOf(forms.host_name, _GPUS_ON_HOST, "GPUs for each host, such as {node01: [0, 1], node02: 2}")
_HOST_CHOICE = Record(
    (
        Key("names", forms.HOST_SETS, "Host names, ranges or @groups."),
        Key(
            "group",
            leaves.text("the name of a group", pattern=r"@?[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}"),
            "A group of hosts.yaml.",
        ),
        Key("label", LABELS, "Labels a host must have, all of them."),
        Key("count", _NUMBER_OF_HOSTS, "Take the first N of them."),
    ),
    "a mapping such as {group: h100, count: 4}",
    build=forms.host_choice,
    check=forms.check_host_choice,
    hints={"labels": "unknown key, did you mean 'label'?", "hosts": "unknown key, did you mean 'names'?"},
)
_FABRIC = Record(
    (
        Key("kind", leaves.choice("ib", "roce", "tcp", "auto"), "Network for the training data.", default="auto"),
        Key(
            "ifname",
            leaves.text("the name of an interface", pattern=r"[^\s]{1,120}"),
            "Interface, or NCCL's prefix form.",
        ),
        Key("hcas", HCAS, "InfiniBand devices; inherit takes those of hosts.yaml.", default="inherit"),
        Key(
            "gid_index",
            leaves.either(leaves.choice("auto"), leaves.whole(0, 255, "a GID index")),
            "NCCL_IB_GID_INDEX for RoCE.",
            default="auto",
        ),
        Key("gdr", leaves.choice("auto", "on", "off"), "GPU Direct RDMA.", default="auto"),
        Key(
            "require",
            leaves.choice("all", "any"),
            "all: the plan fails when a host lacks the network asked for; any: it warns and falls back.",
            default="all",
        ),
    ),
    "a mapping such as {kind: tcp}",
    build=Fabric,
    hints={"interface": "unknown key, did you mean 'ifname'?", "hca": "unknown key, did you mean 'hcas'?"},
)
_TORCHRUN = Record(
    (
        Key("rdzv", leaves.choice("static", "c10d"), "How torchrun's nodes meet.", default="static"),
        Key("port", PORT, "Port they meet at on the first host; free one by default."),
        Key("max_restarts", leaves.whole(0, 1000), "Restarts by torchrun itself.", default=0),
        Key(
            "nnodes",
            Leaf("nodes such as 1:3 or 2", forms.nnodes, {"type": ["integer", "string"], "pattern": forms.NNODES}),
            "MIN:MAX: torchrun goes on while MIN of the MAX nodes are left. With rdzv: c10d.",
        ),
        Key("last_call", leaves.duration(1, 3600), "How long c10d waits for more nodes once MIN are there; 30s."),
    ),
    "a mapping such as {rdzv: static}",
    build=Torchrun,
)
_RENDEZVOUS = ByKind(
    leaf=Leaf("env or tcp", forms.rendezvous_word, {"enum": ["env", "tcp"]}, ("env", "tcp")),
    table=Record(
        (
            Key(
                "file",
                leaves.text("an absolute folder inside the container", check=forms.absolute),
                "A shared folder as the container sees it.",
                required=True,
                field="directory",
            ),
        ),
        "{file: /shared/folder}",
        build=lambda directory: Rendezvous("file", directory),
    ),
)
_ULIMIT = ByKind(
    leaf=Leaf(
        "a limit such as 65536, soft:hard or -1 (none)",
        forms.ulimit,
        {"type": ["integer", "string"], "pattern": forms.ULIMIT},
    ),
    table=Record(
        (
            Key("soft", forms.LIMIT, "Soft limit.", required=True),
            Key("hard", forms.LIMIT, "Hard limit.", required=True),
        ),
        "{soft: N, hard: N}",
        build=lambda soft, hard: f"{soft}:{hard}",
    ),
)

PLACE = (
    Key(
        "hosts",
        ByKind(leaf=forms.HOST_SET_CHOICE, items=forms.HOST_LIST_CHOICE, table=_HOST_CHOICE),
        "Where to run: names and ranges, @group, or {group|label: ..., count: N}. -H on the command line wins.",
    ),
    Key(
        "launcher",
        leaves.choice("env", "torchrun", "tf", "command"),
        "env: one container per rank; torchrun: one per host; tf: one per task of `roles`, with TF_CONFIG; "
        "command: any other launcher, one per host.",
        default="env",
    ),
    Key("roles", role_keys.ROLES, "Tasks of launcher: tf: chief, worker, ps, evaluator."),
    Key(
        "done_when",
        leaves.choice("chief", "worker", "all"),
        "When a run of launcher: tf is over; what still lives is then stopped. chief (worker 0 where there is none) "
        "with ps, worker (chief and all workers) without.",
    ),
    Key(
        "task_per",
        leaves.choice("host", "rank"),
        "Whether launcher: command starts one task on each host, or one for each rank.",
        default="host",
    ),
    Key("ranks", forms.Ranks(), "{per_host: N}, {per_gpu: N}, or a list of ranks for each host."),
    Key(
        "gpus_per_host",
        ByKind(leaf=leaves.either(leaves.choice("all"), GPU_COUNT), items=GPU_LIST, table=_GPUS_BY_HOST),
        "GPUs on each host: all, a number, a list of indices, or one of these for each host.",
    ),
    Key("gpus_by_host", _GPUS_BY_HOST, "GPUs for each host by name; the same as a mapping at gpus_per_host."),
    Key("gpus_per_rank", leaves.whole(1, names.MAX_GPU + 1, "a number of GPUs"), "GPUs for each rank."),
    Key(
        "visible_gpus",
        leaves.choice("all", "own"),
        "all: a rank sees every GPU the run has on its host and picks by LOCAL_RANK; own: only its own, as device 0.",
        default="all",
    ),
)
NETWORK = (
    Key("rendezvous", _RENDEZVOUS, "How ranks find each other: env, tcp or {file: DIR}.", default="env"),
    Key("backend", leaves.choice("gloo", "nccl", "mpi"), "Backend, for {backend} in the command."),
    Key("master_port", PORT, "Port on the first rank's host; a free one by default."),
    Key("fabric", _FABRIC, "Which network carries the training data."),
    Key("torchrun", _TORCHRUN, "Settings of launcher: torchrun."),
)
CONTAINER = (
    Key("build", BUILD, "Folder with a Dockerfile that the image is built from, where it is not there yet."),
    Key("image", leaves.text("an image such as pytorch/pytorch:2.5.1", check=forms.image), "Container image."),
    Key(
        "command",
        ByKind(
            leaf=leaves.text("a shell command", check=forms.shell_command, lines=True),
            items=ListOf(
                leaves.text("text", check=forms.command_word, verbatim=True, lines=True),
                "a list of words",
                forms.command_words,
                at_least=1,
            ),
        ),
        "What each rank runs: a list of words, or text for `sh -c`. {rank}, {world_size} ... are filled in.",
    ),
    Key("env", forms.ENV, "Environment of every rank."),
    Key("secrets", forms.SECRETS, "Names of variables whose values come from the caller and are never shown."),
    Key(
        "volumes",
        forms.VOLUMES,
        "Folders of the hosts: source:/target[:ro]. A source with ./ or ~/ is below the login's home there.",
    ),
    Key("code", CODE, "Files of this machine, or of a git repository, that every host gets before the start."),
    Key(
        "data",
        DATA,
        "Named mounts: paths of the hosts (proved to be shared where asked), NFS, or data that each host fetches.",
    ),
    Key("workdir", leaves.text("an absolute path", check=forms.workdir), "Working directory in the container."),
    Key(
        "user",
        leaves.text("a user", pattern=r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}", verbatim=True),
        "User in the container: name or uid[:gid].",
    ),
    Key("entrypoint", leaves.text("a program"), "Program that runs instead of the image's entry point."),
    Key(
        "network",
        leaves.text("a network such as host", pattern=r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"),
        "Docker network.",
        default="host",
    ),
    Key(
        "ipc",
        leaves.text("an ipc mode such as host", pattern=r"(none|private|shareable|host|container:[A-Za-z0-9_.-]+)"),
        "Docker ipc mode.",
    ),
    Key("shm_size", leaves.size(), "Size of /dev/shm, such as 64g."),
    Key(
        "ulimits",
        MapOf(forms.ulimit_name, _ULIMIT, "limits such as {memlock: -1}", names={"enum": list(forms.ULIMITS)}),
        "Resource limits.",
    ),
    Key(
        "devices",
        ListOf(leaves.text("a device such as /dev/fuse", pattern=forms.DEVICE), "a list of devices"),
        "Devices of the host.",
    ),
    Key(
        "cap_add",
        ListOf(leaves.text("a capability such as IPC_LOCK", pattern=r"[A-Za-z_]{2,40}"), "a list of capabilities"),
        "Capabilities to add.",
    ),
    Key(
        "docker_args",
        ListOf(leaves.text("text", check=forms.docker_arg, verbatim=True), "a list of words"),
        "More arguments for `docker run`.",
    ),
    Key("pull", leaves.choice("always", "missing", "never"), "When to pull the image.", default="missing"),
)
COURSE = (
    Key(
        "on_fail",
        leaves.choice("stop", "wait"),
        "When a rank fails: stop the others, or wait for them.",
        default="stop",
    ),
    Key(
        "on_hang",
        leaves.choice("tell", "stop", "restart"),
        "When ranks stand still for stall_after: tell who holds the others up, stop the run, or restart it (retries).",
        default="tell",
    ),
    Key(
        "retries",
        leaves.whole(0, MAX_RETRIES, "a number of retries"),
        "How often a run that failed is stopped, cleaned up and restarted.",
        default=0,
    ),
    Key("max_duration", leaves.duration(1, MAX_DURATION), "Time after which the run is stopped, also when detached."),
    Key("stop_grace", leaves.duration(0, 86400), "Time between SIGTERM and SIGKILL.", default="30s"),
    Key("stall_after", leaves.duration(0), "Silence after which a rank counts as stalled; 0 never.", default="120s"),
    Key(
        "insight",
        leaves.choice("auto", "on", "off"),
        "Whether `distui why` can ask ranks where they are in their collectives; auto: unless the launcher is tf.",
        default="auto",
    ),
    Key(
        "progress",
        Record(
            (
                Key(
                    "regex",
                    leaves.text("a regular expression", check=forms.progress),
                    "With named groups, each a figure: `step`, `total` (or `steps`: the last step), `epoch` and "
                    "`epochs`, `loss`, `checkpoint` (a step, or a file), `tokens_per_s`, `samples_per_s` (or `tokens`, "
                    "a count so far, or `tokens_per_step`), `step_time`; others are plotted, too. "
                    "Such as step (?P<step>\\d+)/(?P<total>\\d+) loss (?P<loss>\\S+).",
                    required=True,
                ),
            ),
            "{regex: ...}",
            build=lambda regex: regex,
        ),
        "How to read progress out of log lines.",
    ),
    Key("success", SUCCESS, "What must be so, beyond exit status 0; a run that does not meet it has failed."),
    Key(
        "same",
        SAME,
        "Regular expression for what must be the same in all ranks at the end, such as 'params (\\w+)': its last match "
        "in each rank's output, or the first group of it. A run whose ranks differ has failed.",
    ),
    Key(
        "preflight",
        ListOf(leaves.known_word("check", PREFLIGHT), "a list of checks"),
        "Checks that refuse instead of warning: gpus_idle, ib. ssh, docker, image and ports are always checked.",
    ),
)
JOB = Record(
    (
        VERSION,
        Key(
            "name",
            leaves.text("a name", check=forms.job_name, form={"pattern": f"^{forms.JOB_NAME}$"}),
            "Name of the job.",
            required=True,
        ),
        *PLACE,
        *NETWORK,
        *CONTAINER,
        *COURSE,
    ),
    "a mapping with `version: 1` and `name:`",
    check=check_job,
    hints=forms.HINTS,
    extensions=True,
)
