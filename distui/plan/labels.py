"""Labels of tasks: all that another machine needs to list, follow and stop a run without its plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from distui.frozen import frozen
from distui.whole import whole

PREFIX = "distui."

REGEXES = ("success.regex", "same")
"""Keys of a job that say with a regular expression what its end must be like."""


@frozen
class TaskLabels:
    """What a task's labels say of it. Unreadable numbers are defaults: labels may be from another version."""

    run: str
    task: int
    ranks: tuple[int, ...]
    host: str
    job: str
    owner: str = ""
    version: str = ""
    plan: str = ""
    role: str = "worker"
    launcher: str = "env"
    backend: str = ""
    engine: str = "docker"
    world_size: int = 0
    tasks: int = 0
    node_rank: int = 0
    attempt: int = 1
    attempts: int = 1
    launch: str = ""
    """Random, the same for all tasks and attempts of one launch: two launches may share name, owner and second."""
    max_duration: float = 0.0
    """Seconds; 0 without limit."""
    max_restarts: int = 0
    min_nodes: int = 0
    """0 where the run needs all of its nodes."""
    gpus: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    """Ports of the host where it listens sooner or later; none where the container has a network of its own."""
    grace: float = 30.0
    on_fail: Literal["stop", "wait"] = "stop"
    stall_after: float = 120.0
    started: str = ""
    boot: str = ""
    """The host's boot id when the plan was made: with another one the host was restarted since."""
    progress: str = ""
    secrets: tuple[str, ...] = ()
    """Names of the variables whose values are to be hidden in what it prints; never values."""
    name: str = ""
    """What the task is called where its rank is more than a number: `worker/1`."""
    done_when: str = ""
    """`chief`, `worker` or `all` (launcher `tf`)."""
    success_file: str = ""
    success_seconds: float = 0.0
    regexes: tuple[str, ...] = ()
    """Keys of the job about its end that are regular expressions (REGEXES). Only that they are there is said: whoever
    may start containers writes labels, and none of their regexes would be tried.
    """
    rendezvous_file: str = ""
    """On the host, to be removed after; empty when there is none."""
    keep: bool = False
    """Whether its container stays once the run has ended (`run --keep`), whoever cleans up; only a stop removes it."""

    @property
    def attempt_key(self) -> tuple[str, ...]:
        """What all tasks of one attempt of one launch have in common: two launches may have one name."""
        return (self.run, self.owner, self.started, self.plan, self.launch, str(self.attempt))


def to_labels(t: TaskLabels) -> dict[str, str]:
    """The labels in the order they are written; empty ones are left out."""
    values = {
        "run": t.run,
        "task": str(t.task),
        "rank": format_ranks(t.ranks),
        "host": t.host,
        "job": t.job,
        "owner": t.owner,
        "version": t.version,
        "plan": t.plan,
        "role": t.role,
        "launcher": t.launcher,
        "backend": t.backend,
        "engine": t.engine,
        "world_size": str(t.world_size),
        "tasks": str(t.tasks),
        "node_rank": str(t.node_rank),
        "attempt": str(t.attempt),
        "attempts": str(t.attempts),
        "launch": t.launch,
        "max_duration": f"{t.max_duration:g}" if t.max_duration else "",
        "max_restarts": str(t.max_restarts or ""),
        "min_nodes": str(t.min_nodes or ""),
        "gpus": format_ranks(t.gpus),
        "ports": format_ranks(t.ports),
        "grace": f"{t.grace:g}",
        "on_fail": t.on_fail,
        "stall_after": f"{t.stall_after:g}",
        "started": t.started,
        "boot": t.boot,
        "progress": t.progress,
        "secrets": ",".join(t.secrets),
        "name": t.name,
        "done_when": t.done_when,
        "success_file": t.success_file,
        "success_seconds": f"{t.success_seconds:g}" if t.success_seconds else "",
        "regexes": ",".join(t.regexes),
        "rendezvous_file": t.rendezvous_file,
        "keep": "yes" if t.keep else "",
    }
    return {PREFIX + k: v for k, v in values.items() if v}


def task_from_labels(labels: Mapping[str, str]) -> TaskLabels | None:
    """The task that labels describe, or None when distui did not write them. Never raises.

    Whoever may start containers on a host writes what labels he likes, and the run becomes the name of a folder.
    """

    def text(key: str, default: str = "") -> str:
        return str(labels.get(PREFIX + key, default))

    run = text("run")
    if not run or PREFIX + "task" not in labels or not _is_name(run):
        return None

    return TaskLabels(
        run=run,
        task=(task := _int(text("task"), 0)),
        ranks=parse_ranks(text("rank")) or (task,),
        host=text("host"),
        job=text("job"),
        owner=text("owner"),
        version=text("version"),
        plan=text("plan"),
        role=text("role", "worker"),
        launcher=text("launcher", "env"),
        backend=text("backend"),
        engine=text("engine", "docker"),
        world_size=_int(text("world_size"), 0),
        tasks=_int(text("tasks"), 0),
        node_rank=_int(text("node_rank"), 0),
        attempt=_int(text("attempt"), 1),
        attempts=_int(text("attempts"), 1),
        launch=text("launch"),
        max_duration=_float(text("max_duration"), 0.0),
        max_restarts=_int(text("max_restarts"), 0),
        min_nodes=_int(text("min_nodes"), 0),
        gpus=parse_ranks(text("gpus")),
        ports=parse_ranks(text("ports")),
        grace=_float(text("grace"), 30.0),
        on_fail="wait" if text("on_fail") == "wait" else "stop",
        stall_after=_float(text("stall_after"), 120.0),
        started=text("started"),
        boot=text("boot"),
        progress=text("progress"),
        secrets=tuple(name for name in text("secrets").split(",")[:_MOST_SECRETS] if _VARIABLE.fullmatch(name)),
        name=text("name"),
        done_when=text("done_when"),
        success_file=text("success_file") if text("success_file").startswith("/") else "",
        success_seconds=_float(text("success_seconds"), 0.0),
        regexes=tuple(key for key in REGEXES if key in text("regexes").split(",")),
        rendezvous_file=_own_file(text("rendezvous_file"), run),
        keep=text("keep") == "yes",
    )


def _is_name(text: str) -> bool:
    """Whether this can be one folder's name, and no way to another."""
    return text not in (".", "..") and len(text) < 256 and not _NO_NAME.search(text)


def _own_file(path: str, run: str) -> str:
    """The path, where it can be the run's own: it is removed with the run, by a login that may do much."""
    folder, _, name = path.rpartition("/")
    return (
        path if folder.startswith("/") and ".." not in folder.split("/") and name.startswith(f"distui-{run}-") else ""
    )


_NO_NAME = re.compile(r"[/\x00-\x1f\x7f]")


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_MOST_SECRETS = 256


MOST_RANKS = 65_536
"""As many as a job may have: a stranger's label is not to fill our memory."""


def format_ranks(ranks: Iterable[int]) -> str:
    """`0-7`, `0,2,5-6`: neighbours in a row are folded, the order is kept."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def parse_ranks(text: str) -> tuple[int, ...]:
    """The reverse of `format_ranks`; what can't be read is left out, and so is what follows the 65,536th."""
    ranks: list[int] = []
    for span in text.split(","):
        if len(ranks) > MOST_RANKS:
            break
        low, dash, high = span.partition("-")
        first = _int(low, -1)
        last = _int(high, -1) if dash else first
        if 0 <= first <= last < first + MOST_RANKS:
            ranks.extend(range(first, last + 1))
    return tuple(ranks[:MOST_RANKS])


def _int(text: str, default: int) -> int:
    value = whole(text, 9)
    return default if value is None else value


def _float(text: str, default: float) -> float:
    try:
        value = float(text)
    except ValueError:
        return default
    return value if 0 <= value < 1e9 else default


def token_of(labels: TaskLabels | None) -> str:
    """The token of the launch that these labels tell of; "" when they do not say."""
    return f"{labels.launch}-{labels.attempt}" if labels is not None and labels.launch else ""
