"""The launch form's fields: what a job says in each, and what a field writes into the job file. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from itertools import count

from distui.frozen import frozen
from distui.plan.labels import format_ranks
from distui.regex import regex
from distui.spec.hosts.names import fold
from distui.spec.job.job import GpuRequest, Job
from distui.spec.job.shell import uses_shell
from distui.spec.yaml.edit_text import nested_at, scalar, set_value, values_at, words
from distui.whole import whole

_LABEL = regex(r"([\w.-]+)=([\w.-]+)")


@frozen
class Field:
    """One row of the form. `choices` makes it a choice; without them it is text."""

    id: str
    label: str
    key: str
    """The dotted key in the job file."""
    read: Callable[[Job], str]
    write: Callable[[str], str | None]
    """The value as YAML; None removes the key."""
    choices: tuple[str, ...] = ()
    gap: bool = False
    """Whether an empty row comes before it."""
    help: str = ""


def hosts_text(job: Job) -> str:
    """Where the job runs, as one may type it: `node[01-04]`, `@h100`, `gpu=h100`."""
    choice = job.hosts
    if choice is None:
        return ""
    if choice.group:
        base = f"@{choice.group.removeprefix('@')}"
    elif choice.label:
        base = ",".join(f"{k}={v}" for k, v in choice.label.items())
    else:
        plain = all(re.fullmatch(r"[\w.-]+", n) for n in choice.names)
        base = fold(choice.names) if plain else ",".join(choice.names)
    return f"{base} x{choice.count}" if choice.count else base


def _hosts_yaml(text: str) -> str | None:
    text = text.strip()
    if not text:
        return None
    many = re.fullmatch(r"(.+?)\s+x(\d+)", text)
    base, count = (many[1], f", count: {many[2]}") if many else (text, "")
    labels = [_LABEL.fullmatch(part.strip()) for part in base.split(",")]
    if all(labels):
        pairs = (f"{scalar(label[1])}: {scalar(label[2])}" for label in labels if label)
        return "{label: {" + ", ".join(pairs) + "}" + count + "}"
    if group := re.fullmatch(r"@([\w.-]+)", base):
        return "{group: " + scalar(group[1]) + count + "}"
    return "{names: " + scalar(base) + count + "}" if count else scalar(base)


def gpus_text(job: Job) -> str:
    """GPUs of each host: `all`, `8`, `[0-3]`, host by host `node01 [0-3]; node02 2`; as hosts.yaml says is empty."""
    if job.gpus_by_host:
        return "; ".join(f"{host} {_gpus_words(gpus)}" for host, gpus in job.gpus_by_host.items())
    return "" if job.gpus_per_host is None else _gpus_words(job.gpus_per_host)


def _gpus_words(gpus: GpuRequest) -> str:
    return f"[{format_ranks(gpus)}]" if isinstance(gpus, tuple) else str(gpus)


def _gpus_yaml(text: str) -> str | None:
    text = text.strip()
    if not text:
        return None
    if whole(text) is not None:
        return text
    if inner := re.fullmatch(r"\[?([\d,\s-]+)\]?", text):
        spans = [re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", s.strip()) for s in inner[1].split(",")]
        if all(s and int(s[1]) <= int(s[2] or s[1]) for s in spans):
            found = [i for s in spans if s for i in range(int(s[1]), int(s[2] or s[1]) + 1)]
            return "[" + ", ".join(map(str, found)) + "]"
    return scalar(text)


def command_text(job: Job) -> str:
    """The command as one types it in a shell."""
    return job.command if isinstance(job.command, str) else shlex.join(job.command)


def _command_yaml(text: str) -> str | None:
    """As a list (exec form), or as text for the shell where only that knows what is meant."""
    if not text.strip():
        return None
    return scalar(text) if uses_shell(text) else words(shlex.split(text))


def _is_for_shell(text: str, name: str | None) -> bool:
    """Whether the job's command is text for a shell, and may be: torchrun takes a list only."""
    found = values_at(text, ["command", "launcher"], name=name) or {}
    command = found.get("command")
    return isinstance(command, str) and command.strip() != "" and found.get("launcher") != "torchrun"


def _rendezvous_yaml(text: str) -> str | None:
    return "{file: /rendezvous}" if text == "file" else scalar(text)


def _optional(text: str) -> str | None:
    return None if text == "auto" or not text.strip() else scalar(text.strip())


FIELDS = (
    Field("hosts", "Hosts", "hosts", hosts_text, _hosts_yaml, help="node[01-04], @group, label=value, node01:0-3"),
    Field("gpus", "GPUs", "gpus_per_host", gpus_text, _gpus_yaml, help="on each host: 8, all, or 0-3"),
    Field("launcher", "Launcher", "launcher", lambda j: j.launcher, scalar,
          ("env", "torchrun", "tf", "command"), gap=True),
    Field("backend", "Backend", "backend", lambda j: j.backend or "auto", _optional, ("auto", "gloo", "nccl", "mpi")),
    Field("rendezvous", "Rendezvous", "rendezvous", lambda j: j.rendezvous.kind, _rendezvous_yaml,
          ("env", "tcp", "file")),
    Field("fabric", "Fabric", "fabric.kind", lambda j: j.fabric.kind, scalar, ("auto", "ib", "roce", "tcp")),
    Field("image", "Image", "image", lambda j: j.image or "", _optional, gap=True),
    Field("command", "Command", "command", command_text, _command_yaml),
    Field("on_fail", "If one fails", "on_fail", lambda j: j.on_fail, scalar, ("stop", "wait"), gap=True),
    Field("on_hang", "If it hangs", "on_hang", lambda j: j.on_hang, scalar, ("tell", "stop", "restart")),
)  # fmt: skip


HOSTS = FIELDS[0]


def changed(text: str, field: Field, value: str, name: str | None) -> str | None:
    """The job file with the field set; None when the text can't be changed that way. A command that was text for a
    shell stays so."""
    stays = field.id == "command" and value.strip() != "" and _is_for_shell(text, name)
    return set_value(text, field.key, scalar(value) if stays else field.write(value), name=name)


def values(text: str, job: Job | None, job_text: str, name: str | None) -> dict[str, str]:
    """What each field says of the text: as `job` reads it, which was made of `job_text`; what is written otherwise
    since then, and can't be read, stands as it is written. Every field is empty while the text is no YAML."""
    keys = [field.key for field in FIELDS]
    now = values_at(text, keys, name=name)
    if now is None:
        return dict.fromkeys((field.id for field in FIELDS), "")
    then = now if text == job_text else values_at(job_text, keys, name=name) or {}
    return {f.id: _value(f, job if now[f.key] == then.get(f.key) else None, now[f.key]) for f in FIELDS}


def only_in_text(text: str, job: Job | None, job_text: str, name: str | None) -> dict[str, int]:
    """The fields that can't say what is written, and the line of each: a key typed there would take the place of all of
    it. `job` was made of `job_text`."""
    texts = {field.key: field for field in FIELDS if not field.choices}
    nested = nested_at(text, list(texts), name=name)
    now = values_at(text, list(nested), name=name) or {}
    then = now if text == job_text else values_at(job_text, list(nested), name=name) or {}
    known = {key: job if now.get(key) == then.get(key) else None for key in nested}
    return {texts[key].id: line for key, line in nested.items() if not _says_all(texts[key], known[key])}


def _says_all(field: Field, job: Job | None) -> bool:
    """Whether a field has words for all that a job says with a mapping."""
    if job is None or field.id != "hosts":
        return False
    return job.hosts is None or all(_LABEL.fullmatch(f"{k}={v}") for k, v in job.hosts.label.items())


def _value(field: Field, job: Job | None, written: str | tuple[str, ...]) -> str:
    """What a field says. A `$` as it is written: the job has the value of `${VAR}`, which would be written for it."""
    as_written = field.id in ("command", "image") and any("$" in part for part in written)
    return _plain(field, written) if job is None or as_written else field.read(job)


def _plain(field: Field, written: str | tuple[str, ...]) -> str:
    if isinstance(written, str):
        return written
    return shlex.join(written) if field.id == "command" else f"[{', '.join(written)}]"


def new_name(taken: Callable[[str], bool]) -> str:
    """The name of a job that is new: the first whose file is not there."""
    names = (f"new-job-{number}" if number > 1 else "new-job" for number in count(1))
    return next(name for name in names if not taken(f"{name}.yaml"))
