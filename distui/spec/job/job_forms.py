"""Values of a job file with a form of their own: volumes, environment, rank layouts, ulimits, names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from distui.patterns import BadPattern, LimitedPattern
from distui.spec.hosts import names
from distui.spec.job.job import HostChoice, RankLayout, Rendezvous
from distui.spec.job.placeholders import slips
from distui.spec.yaml import leaves
from distui.spec.yaml.nodes import Items, Node, Scalar, Table, is_null
from distui.spec.yaml.problems import Problems, Wrong, did_you_mean, nearest, shown, unknown
from distui.spec.yaml.shapes import (
    MISSING,
    ByKind,
    Key,
    Leaf,
    ListOf,
    Look,
    MapOf,
    Record,
    Schema,
    join,
)

JOB_NAME = r"[a-z0-9][a-z0-9_.-]{0,62}"
MAX_RANKS = 65_536
ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,254}"


# names


def job_name(value: str) -> None:
    """Raise Wrong unless `value` can name containers, folders and labels everywhere."""
    if not re.fullmatch(JOB_NAME, value):
        usable = re.sub(r"[^a-z0-9_.]+", "-", value.lower()).strip("-_.")[:63]
        hint = f", for instance '{usable}'" if re.fullmatch(JOB_NAME, usable) else ""
        raise Wrong(
            f"{shown(value)} can't name a job: up to 63 small letters, digits, '_', '.' and '-'"
            f", beginning with a letter or digit{hint}"
        )


def env_name(word: Scalar) -> str:
    """The name of an environment variable. Raises Wrong."""
    name = word.text
    if not re.fullmatch(ENV_NAME, name):
        raise Wrong(f"{shown(name)} is not a variable's name: letters, digits and '_', not beginning with a digit")
    return name


def host_name(word: Scalar) -> str:
    """One host's name, as a key. Raises Wrong."""
    found = names.expand(word.text) if not word.text.startswith("@") else ()
    if len(found) != 1 or found[0] != word.text:
        raise Wrong(f"{shown(word.text)}: name each host by itself here")
    return word.text


# hosts


_ONE_SET = Leaf("host names such as node[01-04] or @group", lambda node: names.checked(node.text), {"type": "string"})
_SETS = ListOf(_ONE_SET, "a list of host names", at_least=1)
HOST_SET_CHOICE = Leaf(_ONE_SET.expected, lambda node: HostChoice(names=(_ONE_SET.take(node),)), _ONE_SET.form)
HOST_LIST_CHOICE = ListOf(_ONE_SET, _SETS.expected, lambda sets: HostChoice(names=sets), at_least=1)
HOST_SETS = ByKind(leaf=Leaf(_ONE_SET.expected, lambda node: (_ONE_SET.take(node),), _ONE_SET.form), items=_SETS)


def host_choice(**fields: Any) -> HostChoice:
    """HostChoice from the mapping form of `hosts`; a group may be written with its `@`."""
    if fields.get("group"):
        fields["group"] = fields["group"].removeprefix("@")
    return HostChoice(**fields)


def check_host_choice(look: Look) -> None:
    """Exactly one of names, group and label."""
    given = look.only_one("names", "group", "label")
    if not given and look.has("count"):
        look.note("count", "of which hosts? add names, group or label")
    elif not given:
        look.problems.add(look.table, look.at, "names no host: add names, group or label")


# ranks


_COUNTS = ("per_host", "per_gpu")


class Ranks:
    """`{per_host: N}`, `{per_gpu: N}`, or a list of ranks for each host."""

    expected = "{per_host: N}, {per_gpu: N}, or a list of ranks for each host"
    _counts = Record(
        (
            Key("per_host", leaves.whole(1, 1024, "a number of ranks"), "Ranks on each host."),
            Key("per_gpu", leaves.whole(1, 1024, "a number of ranks"), "Ranks for each GPU."),
        ),
        expected,
        build=RankLayout,
    )
    _lists = MapOf(
        host_name,
        ListOf(leaves.whole(0, MAX_RANKS - 1, "a rank"), "a list of ranks such as [0, 1]", at_least=1),
        expected,
        build=lambda by_host: RankLayout(by_host=by_host),
    )

    def read(self, node: Node, at: str, problems: Problems) -> Any:
        """A RankLayout, or MISSING."""
        if not isinstance(node, Table) or not node.pairs:
            problems.add(node, at, f"expected {self.expected}")
            return MISSING
        listed = any(isinstance(ranks, Items) for _, ranks in node.pairs.values())
        if any(key in _COUNTS or (not listed and nearest(key, _COUNTS)) for key in node.pairs):
            return self._read_counts(node, at, problems)
        layout = self._lists.read(node, at, problems)
        if layout is not MISSING:
            _check_ranks(node, layout, at, problems)
        return layout

    def _read_counts(self, node: Table, at: str, problems: Problems) -> Any:
        if all(is_null(count) for _, count in node.pairs.values()):
            problems.add(node, at, f"expected {self.expected}; no number is written here")
            return MISSING
        layout = self._counts.read(node, at, problems)
        if len(node.pairs.keys() & set(_COUNTS)) == 2:
            problems.add(node.pairs["per_gpu"][0], join(at, "per_gpu"), "can't stand beside per_host; choose one")
        return layout

    def schema(self, variables: bool) -> Schema:
        """JSON Schema of both forms."""
        counts = self._counts.schema(variables) | {"minProperties": 1, "maxProperties": 1}
        return {"anyOf": [counts, self._lists.schema(variables) | {"minProperties": 1}]}


def _check_ranks(table: Table, layout: RankLayout, at: str, problems: Problems) -> None:
    """Note a rank that is given twice, and the first one missing."""
    owner: dict[int, str] = {}
    for host, ranks in layout.by_host.items():
        node = table.get(host)
        for item, rank in zip(node.items if isinstance(node, Items) else (), ranks, strict=True):
            if rank in owner:
                problems.add(item, join(at, host), f"rank {rank} is given twice: {owner[rank]} has it, too")
            owner.setdefault(rank, host)
    missing = next(r for r in range(len(owner) + 1) if r not in owner)
    if missing < len(owner):
        problems.add(table, at, f"rank {missing} is missing: ranks go from 0 to {max(owner)} without a gap")


# environment


def _env_value(node: Scalar) -> str:
    if "\n" in node.text or "\r" in node.text:
        raise Wrong(
            "a newline can't be passed: env files hold one line for each variable; put it in a file or encode it"
        )
    leaves.plain_text(node.text)
    return node.text


_ENV_VALUE = Leaf(
    'a value (write "" for an empty one, ${NAME} for the caller\'s)',
    _env_value,
    {"type": ["string", "number", "boolean"]},
)


def _env_line(node: Scalar) -> tuple[str, str]:
    name, equals, _ = node.text.partition("=")
    key = env_name(Scalar(node.source, node.line, node.column, name, name))
    if not equals:
        raise Wrong(f"write {key}=value; ${{{key}}} is the caller's value, and `secrets` is for what must not be shown")
    return key, _env_value(node)[len(name) + 1 :]


def _env_pairs(pairs: tuple[Any, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Wrong(f"{name} is set twice")
        found[name] = value
    return found


ENV = ByKind(
    items=ListOf(Leaf("NAME=value", _env_line, {"type": "string"}), "a list of NAME=value", _env_pairs),
    table=MapOf(env_name, _ENV_VALUE, "variables such as {NCCL_DEBUG: WARN}", names={"pattern": f"^{ENV_NAME}$"}),
)


def _secret(node: Scalar) -> str:
    if "=" in node.text:
        raise Wrong("write the name only: the value comes from your environment, and stays out of files")
    return env_name(node)


def variables(node: Node | None, at: str) -> Iterator[tuple[Node, str, str]]:
    """The variables that `env` or `secrets` name: where each is written, its dotted key, its name."""
    match node:
        case Table():
            yield from ((word, join(at, name), name) for name, (word, _) in node.pairs.items())
        case Items():
            for i, item in enumerate(node.items):
                if isinstance(item, Scalar):
                    yield item, f"{at}[{i}]", item.text.partition("=")[0]
        case _:
            return


SECRETS = ListOf(
    Leaf("a variable's name", _secret, {"type": "string", "pattern": f"^{ENV_NAME}$"}),
    "a list of variable names such as [HF_TOKEN]",
    leaves.once,
)


# container


def image(value: str) -> None:
    """Raise Wrong unless `value` looks like an image reference; Docker knows the rest."""
    if not re.fullmatch(r"[A-Za-z0-9][\x21-\x7e]{0,511}", value):
        raise Wrong(f"{shown(value)} is not an image: letters, digits and '/:._@-', without spaces")
    registry, slash, rest = value.partition("/")
    name = rest if slash and (registry == "localhost" or "." in registry or ":" in registry) else value
    name = name.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    repository = folder + slash + last.partition(":")[0]
    if repository != repository.lower():
        raise Wrong(f"{shown(value)}: an image's name has only small letters (its tag may have others)")


def registry(image: str, values: Iterable[str] = ()) -> str:
    """The registry that an image is pulled from, as its name says; where a variable says it, `${NAME}` stays in it.

    `values` are those of its variables: a slash in one makes what stands before it the registry.
    """
    first, slash, _ = image.partition("/")
    if not slash and not any("/" in value for value in values):
        first = re.split(r"[:@]", first)[0]
    if "${" in first:
        return first
    return first.lower() if slash and (first == "localhost" or "." in first or ":" in first) else "docker.io"


def absolute(value: str) -> None:
    """Raise Wrong unless `value` is an absolute path."""
    if not value.startswith("/"):
        raise Wrong(f"{shown(value)} must be an absolute path inside the container, such as /work")


def workdir(value: str) -> None:
    """Raise Wrong unless `value` is an absolute path, or below the login's home (engine `process` only)."""
    if not value.startswith(("/", "~/")):
        raise Wrong(f"{shown(value)} must be an absolute path, such as /work (or ~/work on hosts without containers)")


_EMPTY = "the command is empty; leave the key away to run what the image runs by itself"


def shell_command(value: str) -> None:
    """Raise Wrong for a command that does nothing, or a slip in a placeholder."""
    if not value.strip():
        raise Wrong(_EMPTY)
    command_word(value)


def command_words(values: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command, of which some may be empty: `[prog, ""]`. Raises Wrong when all are."""
    if not any(word.strip() for word in values):
        raise Wrong(_EMPTY)
    return values


def command_word(value: str) -> None:
    """Raise Wrong for a slip in a placeholder."""
    for word, near in slips(value):
        raise Wrong(f"unknown placeholder {{{word}}}, did you mean {{{near}}}? {{{{{word}}}}} keeps it as it is")


_VOLUME_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_PROPAGATION = ("shared", "rshared", "slave", "rslave", "private", "rprivate")
_VOLUME_OPTIONS = ("ro", "rw", "z", "Z", "nocopy", "cached", "delegated", "consistent", "U", "O", *_PROPAGATION)
"""Those of Docker, and Podman's own."""


def _volume(value: str) -> None:
    source, target, options = volume_parts(value)
    if not source or not target.startswith("/"):
        raise Wrong(f"{shown(value)}: expected source:/target or source:/target:ro")
    if not (source.startswith(("/", "./", "../", "~/")) or source in (".", "..", "~")) and not re.fullmatch(
        _VOLUME_NAME, source
    ):
        raise Wrong(f"{shown(source)} is neither a path (/, ./, ~/) nor the name of a volume")
    for option in options.split(",") if options else ():
        if option not in _VOLUME_OPTIONS:
            raise Wrong(f"unknown option {shown(option)}{did_you_mean(option, _VOLUME_OPTIONS)}; ro makes it read-only")


def volume_parts(value: str) -> tuple[str, str, str]:
    """`src:dst:ro` -> ("src", "dst", "ro"); the last is "" when there is none."""
    source, _, rest = value.partition(":")
    target, _, options = rest.partition(":")
    return source, target, options


def _volumes(values: tuple[Any, ...]) -> tuple[Any, ...]:
    targets: dict[str, str] = {}
    for value in values:
        target = volume_parts(value)[1].rstrip("/")
        if target in targets:
            raise Wrong(f"{target or '/'} is the target of two volumes, {shown(targets[target])} and {shown(value)}")
        targets[target] = value
    return values


VOLUMES = ListOf(leaves.text("source:/target[:ro]", check=_volume), "a list of source:/target[:ro]", _volumes)

DEVICE = r"/[^:\s]+(:/[^:\s]+(:[rwm]{1,3})?)?"

_OWNED_FLAGS = {
    "--rm": "distui removes containers once their logs are read",
    "-d": "distui starts containers detached",
    "--detach": "distui starts containers detached",
    "-i": "ranks have no terminal",
    "-t": "ranks have no terminal",
    "-it": "ranks have no terminal",
    "--name": "distui names containers after run and rank",
    "--restart": "a restarted rank can't join a run again",
}


def docker_arg(value: str) -> None:
    """Raise Wrong for the few `docker run` flags that would break a run."""
    why = _OWNED_FLAGS.get(value.partition("=")[0])
    if why:
        raise Wrong(f"{value} can't be used here: {why}")


ULIMITS = (
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
    "rttime", "sigpending", "stack",
)  # fmt: skip
ULIMIT = r"^(-1|[0-9]{1,19})(:(-1|[0-9]{1,19}))?$"
LIMIT = leaves.whole(-1, 2**63 - 1, "a limit")


def ulimit_name(word: Scalar) -> str:
    """The name of a resource limit. Raises Wrong."""
    if word.text not in ULIMITS:
        raise Wrong(unknown("limit", word.text, ULIMITS))
    return word.text


def ulimit(node: Scalar) -> str:
    """`-1`, `65536` or `1024:65536`. Raises Wrong."""
    if not re.fullmatch(ULIMIT, node.text):
        raise Wrong("")
    return node.text


# the rest


def rendezvous_word(node: Scalar) -> Rendezvous:
    """`env` or `tcp`. Raises Wrong."""
    match node.text:
        case "env":
            return Rendezvous("env")
        case "tcp":
            return Rendezvous("tcp")
        case "file":
            raise Wrong("file needs a shared folder, as the container sees it: {file: /shared}")
        case _:
            raise Wrong("")


NNODES = r"^[1-9][0-9]{0,3}(:[1-9][0-9]{0,3})?$"


def nnodes(node: Scalar) -> tuple[int, int]:
    """`1:3` -> (1, 3), `2` -> (2, 2), as torchrun takes them. Raises Wrong."""
    if not re.match(NNODES, node.text):
        raise Wrong("")
    low, _, high = node.text.partition(":")
    if high and int(low) > int(high):
        raise Wrong(f"the smaller number comes first: {high}:{low}")
    return int(low), int(high or low)


def regex(value: str) -> tuple[str, ...]:
    """The named groups of a regular expression. Raises Wrong unless `value` is one."""
    try:
        return LimitedPattern(value).check()
    except BadPattern as error:
        raise Wrong(str(error)) from None


def progress(value: str) -> None:
    """Raise Wrong unless `value` is a regular expression with a named group."""
    if not regex(value):
        raise Wrong("has no named group; write (?P<loss>[0-9.]+) around what should be shown")


_KEYS_OF_OTHERS = {
    "env": ("environment", "envs", "env_vars"),
    "workdir": ("working_dir",),
    "command": ("run", "cmd", "commands"),
    "image": ("container", "docker_image", "container_image"),
    "volumes": ("mounts",),
    "shm_size": ("shm",),
    "gpus_per_host": ("gpu", "gpus", "num_gpus", "gpus_per_node", "gres"),
    "master_port": ("port",),
    "max_duration": ("timeout", "time", "time_limit", "max_time", "max_run_time", "walltime"),
}
_RANKS = ("replicas", "nproc", "nprocs", "nproc_per_node", "nproc_per_host", "procs_per_node", "per_host",
          "tasks", "ntasks", "ranks_per_host", "ranks_per_node", "tasks_per_node", "ntasks_per_node", "num_processes",
          "processes", "slots")  # fmt: skip
HINTS = {
    **{name: f"unknown key, did you mean '{key}'?" for key, names in _KEYS_OF_OTHERS.items() for name in names},
    **dict.fromkeys(_RANKS, "unknown key; write `ranks: {per_host: N}`"),
    **dict.fromkeys(
        ("nnodes", "num_nodes", "num_machines", "nodes", "node"), "unknown key; write `hosts: {group: NAME, count: N}`"
    ),
    **dict.fromkeys(("memory", "mem_limit", "memory_limit"), "unknown key; write `docker_args: [--memory, 64g]`"),
    **dict.fromkeys(("env_file", "envfile"), "unknown key; write `env: {NAME: VALUE}`, or call with `--env-file FILE`"),
    **dict.fromkeys(("setup", "pre_run"), "unknown key; write `command: |` and these lines first in it"),
    "workers": "unknown key; write `roles: {worker: {count: N}}`, or `ranks: {per_host: N}`",
    "sync": "unknown key, did you mean 'code'? `code: ./` sends the job file's folder to the hosts",
    "args": "unknown key: the words of a command are one list, `command: [python, train.py, --lr, '0.1']`",
    "script": "unknown key; write `command: [python, train.py]`",
    "backoff": "unknown key: distui waits by itself, longer each time, before it retries",
    "type": "unknown key; write `launcher: NAME`, and `torchrun: {...}` or `backend:` where they are needed",
    "max_restarts": "unknown key; write `retries: N`, or `torchrun: {max_restarts: N}`",
    **dict.fromkeys(
        ("rdzv", "rdzv_backend", "rdzv_endpoint"), "unknown key; write `torchrun: {rdzv: ...}` or `rendezvous:`"
    ),
    "elastic": "unknown key; write `torchrun: {rdzv: c10d, nnodes: MIN:MAX}`",
    "world_size": "unknown key: it follows from `hosts` and `ranks`",
    "master_addr": "unknown key: distui takes the first host's address; pin it with `data: {addr: ...}` in hosts.yaml",
    "ports": "unknown key: with the host's network every port is reachable; otherwise docker_args: [-p, ...]",
    "privileged": "unknown key; write `docker_args: [--privileged]`",
    "runtime": "unknown key; write `docker_args: [--runtime, NAME]`",
    "resources": "unknown key; write `gpus_per_host: N`, and the rest as `docker_args: [--memory, 64g, --cpus, '8']`",
    **dict.fromkeys(("cpus", "cpus_per_task", "cpus_per_rank"), "unknown key; write `docker_args: [--cpus, '8']`"),
    **dict.fromkeys(("ifname", "interface"), "unknown key; write `fabric: {ifname: NAME}`"),
    "dockerfile": "unknown key; write `build: {dockerfile: PATH}`",
    "build_args": "unknown key; write `build: {args: {NAME: VALUE}}`",
    "restart": f"unknown key: {_OWNED_FLAGS['--restart']}",
}
"""What to say about keys that come later, and about those that people know from compose, dstack or SkyPilot."""
