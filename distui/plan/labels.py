"""Labels of tasks: all that another machine needs to list, follow and stop a run without its plan."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from distui.amounts import plural
from distui.codec import Form, Key, parts, write
from distui.frozen import frozen
from distui.regex import regex
from distui.spec.job.job import OnHang
from distui.whole import whole

PREFIX = "distui."

REGEXES = ("success.regex", "same")
"""Keys of a job that say with a regular expression what its end must be like."""

MOST_RANKS = 65_536
"""As many as a job may have: a stranger's label is not to fill our memory."""

_MOST_SECRETS = 256
_VARIABLE = regex(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_NO_NAME = regex(r"[/\x00-\x1f\x7f]")


def format_ranks(ranks: Iterable[int]) -> str:
    """`0-7`, `0,2,5-6`: neighbours in a row are folded, the order is kept."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def named_ranks(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-2,5`: in order."""
    listed = sorted(ranks)
    return f"{plural(len(listed), 'rank')} {format_ranks(listed)}"


def parse_ranks(text: str) -> tuple[int, ...]:
    """The reverse of `format_ranks`; what can't be read is left out, and so is what follows the 65,536th."""
    ranks: list[int] = []
    for span in text.split(","):
        if len(ranks) > MOST_RANKS:
            break
        low, dash, high = span.partition("-")
        first = whole(low, 9)
        last = whole(high, 9) if dash else first
        if first is not None and last is not None and first <= last < first + MOST_RANKS:
            ranks.extend(range(first, last + 1))
    return tuple(ranks[:MOST_RANKS])


def _int(text: str) -> int:
    value = whole(text, 9)
    if value is None:
        raise ValueError(text)
    return value


def _float(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e9:
        raise ValueError(text)
    return value


def _variables(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",")[:_MOST_SECRETS] if _VARIABLE.fullmatch(name))


def _on_hang(text: str) -> OnHang:
    known: dict[str, OnHang] = {"stop": "stop", "restart": "restart"}
    return known.get(text, "tell")


# How fields stand in labels, which are text; empty text is left out.

Number = Annotated[int, Form(str, _int)]
Some = Annotated[int, Form(lambda count: str(count or ""), _int)]
Seconds = Annotated[float, Form("{:.15g}".format, _float)]
Limit = Annotated[float, Form(lambda seconds: f"{seconds:.15g}" if seconds else "", _float)]
Numbers = Annotated[tuple[int, ...], Form(format_ranks, parse_ranks)]
Flag = Annotated[bool, Form(lambda is_on: "yes" if is_on else "", "yes".__eq__)]
Hang = Annotated[OnHang, Form(lambda asked: "" if asked == "tell" else asked, _on_hang)]
Path = Annotated[str, Form(str, lambda path: path if path.startswith("/") else "")]
Variables = Annotated[tuple[str, ...], Form(",".join, _variables)]
Regexes = Annotated[tuple[str, ...], Form(",".join, lambda keys: tuple(k for k in REGEXES if k in keys.split(",")))]


@frozen
class TaskLabels:
    """What a task's labels say of it. Unreadable numbers are defaults: labels may be from another version."""

    run: str
    task: Number
    ranks: Annotated[Numbers, Key("rank")]
    host: str
    job: str
    owner: str = ""
    version: str = ""
    plan: str = ""
    role: str = "worker"
    launcher: str = "env"
    backend: str = ""
    engine: str = "docker"
    world_size: Number = 0
    tasks: Number = 0
    node_rank: Number = 0
    attempt: Number = 1
    attempts: Number = 1
    launch: str = ""
    """Random, the same for all tasks and attempts of one launch: two launches may share name, owner and second."""
    max_duration: Limit = 0.0
    """Seconds; 0 without limit."""
    max_restarts: Some = 0
    min_nodes: Some = 0
    """0 where the run needs all of its nodes."""
    gpus: Numbers = ()
    ports: Numbers = ()
    """Ports of the host where it listens sooner or later; none where the container has a network of its own."""
    grace: Seconds = 30.0
    on_fail: Literal["stop", "wait"] = "stop"
    on_hang: Hang = "tell"
    stall_after: Seconds = 120.0
    started: str = ""
    boot: str = ""
    """The host's boot id when the plan was made: with another one the host was restarted since."""
    progress: str = ""
    secrets: Variables = ()
    """Names of the variables whose values are to be hidden in what it prints; never values."""
    name: str = ""
    """What the task is called where its rank is more than a number: `worker/1`."""
    done_when: str = ""
    """`chief`, `worker` or `all` (launcher `tf`)."""
    success_file: Path = ""
    success_seconds: Limit = 0.0
    regexes: Regexes = ()
    """Keys of the job about its end that are regular expressions (REGEXES). Only that they are there is said: whoever
    may start containers writes labels, and none of their regexes would be tried.
    """
    rendezvous_file: str = ""
    """On the host, to be removed after; empty when there is none."""
    keep: Flag = False
    """Whether its container stays once the run has ended (`run --keep`), whoever cleans up; only a stop removes it."""

    @property
    def serves(self) -> bool:
        """Whether the task only serves others: it may be silent for as long as it likes."""
        return bool(self.done_when) and serves_others(self.role, self.done_when)

    @property
    def attempt_key(self) -> tuple[str, ...]:
        """What all tasks of one attempt of one launch have in common: two launches may have one name."""
        return (self.run, self.owner, self.started, self.plan, self.launch, str(self.attempt))


def serves_others(role: str, done_when: str | None) -> bool:
    """Whether a task of this role only serves others in a run that is done when those are done."""
    return role in ("ps", "evaluator") or (role == "worker" and done_when == "chief")


def to_labels(t: TaskLabels) -> dict[str, str]:
    """The labels in the order they are written; empty ones are left out."""
    return {PREFIX + key: text for key, text in write(t).items() if text}


def task_from_labels(labels: Mapping[str, str]) -> TaskLabels | None:
    """The task that labels describe, or None when distui did not write them. Never raises.

    Whoever may start containers on a host writes what labels he likes, and the run becomes the name of a folder.
    """
    known: dict[str, Any] = {"task": 0, "host": "", "job": ""}
    for part in parts(TaskLabels):
        with contextlib.suppress(KeyError, ValueError):  # what can't be read is left out
            known[part.name] = part.read(str(labels[PREFIX + part.key]))
    run = known.get("run", "")
    if PREFIX + "task" not in labels or not _is_name(run):
        return None
    known["ranks"] = known.get("ranks") or (known["task"],)
    if not _is_of(run, known.get("rendezvous_file", "")):
        known["rendezvous_file"] = ""
    words = {key: value.replace("\n", " ") for key, value in known.items() if isinstance(value, str)}
    return TaskLabels(**known | words)  # each is said in one line, and a line of ours would begin after another one


def _is_name(text: str) -> bool:
    """Whether this can be one folder's name, and no way to another."""
    return text not in ("", ".", "..") and len(text) < 256 and not _NO_NAME.search(text)


def _is_of(run: str, path: str) -> bool:
    """Whether a file can be the run's own: it is removed with the run, by a login that may do much."""
    folder, _, name = path.rpartition("/")
    return folder.startswith("/") and ".." not in folder.split("/") and name.startswith(f"distui-{run}-")


def container_name(run: str, task: int, attempt: int) -> str:
    """The name of a task's container as it is started."""
    return f"distui-{run}-{task}" + f"-attempt{attempt}" * (attempt > 1)


def token_of(labels: TaskLabels | None) -> str:
    """The token of the launch that these labels tell of; "" when they do not say."""
    return f"{labels.launch}-{labels.attempt}" if labels is not None and labels.launch else ""
