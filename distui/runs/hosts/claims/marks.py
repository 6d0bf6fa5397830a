"""Who has what of a host, for those who can't see the run: another login's processes, another container engine.

Beside its labels, which only its own engine or login tells, a task that has GPUs or ports of its host leaves a file in
/tmp that all may read: the pid of its first process with its start time and the host's boot, and the labels that say
what it has. It counts while that process lives, and is removed with the task; one that does not count any more by the
next launch of whoever may remove it.

Anybody can write such a file. It is believed of its owner's own processes, of all that root says, and of containers
when its owner may use an engine; and of no more than a bounded number of GPUs and ports.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from distui.errors import HostCommandError
from distui.facts.values import as_object, loads
from distui.plan.command.process import TICKS
from distui.plan.labels import PREFIX, task_from_labels
from distui.plan.model import Task
from distui.regex import regex
from distui.runs.hosts.claims.claim_file import HEAD_OF
from distui.runs.hosts.claims.lease import PLACE
from distui.runs.hosts.discover import FoundTask, Runner, list_tasks
from distui.spec.hosts.inventory import Host

MARK_LABELS = (
    "run",
    "task",
    "rank",
    "host",
    "job",
    "owner",
    "plan",
    "engine",
    "attempt",
    "launch",
    "started",
    "gpus",
    "ports",
)
"""The labels that others see."""

MOST = 4096
"""Bytes of a mark; a longer one is none of ours."""

MANY = 1000
"""Marks that are read of a host: anybody may leave some, and one takes milliseconds."""

MOST_THINGS = 64
"""GPUs or ports of one mark; one with more is none of ours."""

MOST_OF_LOGIN = 1024
"""Ports that the marks of one login can have together."""

Tell = Callable[[str], object]
"""Is called with why, in words, not all marks of a host could be read."""

_TOKEN = regex(r"[A-Za-z0-9-]{1,64}")
"""Tokens are read from labels, which anybody may write, and become part of a file's name."""

_BOOT = """
boot=$(cat /proc/sys/kernel/random/boot_id)
"""

# $1 the file, $2 labels, $3 a process's folder or a container's id, then for a container the command that prints its
# pid. A pid of another namespace (an engine inside a container) is not the host's: its control group must name the
# container. What another login has put at the mark's name stays there, since /tmp is sticky; opened for writing, a pipe
# would block and a link be followed. So the mark is written to a file of a name nobody knows, and linked to its own,
# which fails where there is something. Then there is no mark. A signal in the middle would leave that file for good, as
# one that is being written.
_LEAVE = (
    TICKS
    + _BOOT
    + r"""
file=$1 labels=$2 ref=$3; shift 3
if [ $# -gt 0 ]; then
  pid=$("$@") && grep -qsF -- "$ref" "/proc/$pid/cgroup" && start=$(ticks "$pid") || exit 0
else
  read -r pid <"$ref/pid" && read -r start began <"$ref/ident" && [ "$began" = "$boot" ] || exit 0
fi
umask 022
trap '' HUP INT TERM PIPE
rm -f -- "$file" 2>/dev/null
[ ! -e "$file" ] && [ ! -L "$file" ] && new=$(mktemp "$file.XXXXXX") || exit 0
printf '%s %s %s\n%s\n' "$pid" "$start" "$boot" "$labels" | cat >"$new" && chmod 644 "$new" && ln -- "$new" "$file"
rm -f -- "$new"
"""
).strip()

# $1 a mark, $2 the process it names: whether whoever left it can know. A container's process is mostly another login's
# than the one that started it, which is in the group of the engine's socket, or may use sudo, or has the container in
# its own slice (rootless engines). What a kernel with hidden processes does not tell can't be believed.
_BELIEVED = r"""
by=
believed() {
  by=$(stat -c %u -- "$1" 2>/dev/null) && of=$(stat -c %u -- "/proc/$2" 2>/dev/null) || return 1
  [ "$by" != 0 ] && [ "$by" != "$of" ] || return 0
  grep -qs "/user-$by\.slice/" "/proc/$2/cgroup" && return
  [ "$2" != 1 ] && grep -Eqs '[0-9a-f]{64}' "/proc/$2/cgroup" || return 1
  socket=$(stat -L -c %G /var/run/docker.sock 2>/dev/null)
  for group in $(id -Gn -- "$(stat -c %U -- "$1")" 2>/dev/null); do
    case $group in root | docker | podman | sudo | wheel | admin | "$socket") return 0;; esac
  done
  return 1
}
"""

# $1 place, $2 "sweep" to remove those that do not count. One that is being written is not whole yet and stays. Exit 3
# when there are more than are read. $3 "own" for this login's only: how many others there are is nothing to it.
_READ = (
    (
        TICKS
        + HEAD_OF
        + _BOOT
        + _BELIEVED
        + r"""
count=0
for file in "$1"/distui-task-*; do
  [ -f "$file" ] && [ ! -L "$file" ] || continue
  [ "$3" != own ] || [ -O "$file" ] || continue
  [ "$((count += 1))" -le @MANY@ ] || exit 3
  head_of "$file" @MOST@ | (
    read -r pid start on && IFS= read -r labels || exit 0
    case $pid$start in '' | *[!0-9]*) exit 0;; esac
    if [ "$on" = "$boot" ] && [ "$(ticks "$pid")" = "$start" ]; then
      believed "$file" "$pid" && printf '%s %s\n' "$by" "$labels"
    elif [ "$2" = sweep ]; then rm -f -- "$file" 2>/dev/null
    fi
  )
done
:
"""
    )
    .strip()
    .replace("@MOST@", str(MOST))
    .replace("@MANY@", str(MANY))
)

_REMOVE = 'rm -f -- "$1/distui-task-$2".*'


async def leave(
    run_argv: Runner,
    token: str,
    labels: Mapping[str, str],
    ref: str,
    pid_argv: Sequence[str] = (),
    *,
    place: str = PLACE,
) -> None:
    """Leave the mark of a task that has started: `ref` is its folder, or its container's id with `pid_argv`.

    A task that has ended already gets none, nor does one whose process can't be known. Safe to repeat.
    """
    known = task_from_labels(labels)
    if known is None or not _TOKEN.fullmatch(token):
        return
    record = json.dumps({PREFIX + key: labels[PREFIX + key] for key in MARK_LABELS if PREFIX + key in labels})
    file = f"{place}/distui-task-{token}.{known.task}"
    await run_argv(("sh", "-c", _LEAVE, "distui-mark", file, record, ref, *pid_argv))


async def read(
    run_argv: Runner,
    host: str,
    *,
    sweep: bool = False,
    own: bool = False,
    tell: Tell | None = None,
    place: str = PLACE,
) -> tuple[FoundTask, ...]:
    """The live tasks that have left a mark on a host, `own` only those of this login. `sweep` removes marks of tasks
    that have ended.

    Marks that can't all be read are given to `tell`, with those that could be: anybody may have left them. Without it
    that raises HostCommandError, for those who do something where nobody lives.
    """
    found: tuple[FoundTask, ...] = ()
    try:
        done = await run_argv(
            ("sh", "-c", _READ, "distui-marks", place, "sweep" if sweep else "", "own" if own else "")
        )
        found = parse(done.text, host)
        if done.status == 3:
            raise HostCommandError(host, f"more than {MANY} files {place}/distui-task-* on {host}")
    except HostCommandError as exc:
        if tell is None:
            raise
        tell(exc.message)
    return found


async def tasks_on(
    run_argv: Runner, host: str, like: Task | Host, *, sweep: bool = False, tell: Tell = str
) -> tuple[FoundTask, ...]:
    """The tasks that the engine of `like` knows of on a host, and live ones that only their marks tell of.

    `tell` is called with why not all marks could be read.
    Raises HostCommandError with the engine's words.
    """
    known, marked = await asyncio.gather(
        list_tasks(run_argv, host, like.engine, like.engine_command), read(run_argv, host, sweep=sweep, tell=tell)
    )
    return added(known, marked)


async def remove(run_argv: Runner, token: str, *, place: str = PLACE) -> None:
    """Remove the marks of a launch's attempt by its token. Safe to repeat."""
    if _TOKEN.fullmatch(token):
        await run_argv(("sh", "-c", _REMOVE, "distui-unmark", place, token))


def parse(text: str, host: str) -> tuple[FoundTask, ...]:
    """The tasks that marks tell of, one a line after the uid of its login; lines that are none are left out, and so is
    what is more than one login can have. Never raises.
    """
    found: list[FoundTask] = []
    ports: Counter[str] = Counter()
    for line in text.splitlines():
        login, _, record = line.partition(" ")
        task = _task(record, host)
        if task is None or max(len(task.labels.gpus), len(task.labels.ports)) > MOST_THINGS:
            continue
        ports[login] += len(task.labels.ports)
        if ports[login] <= MOST_OF_LOGIN:
            found.append(task)
    return tuple(found)


def _task(line: str, host: str) -> FoundTask | None:
    try:
        raw = {str(key): str(value) for key, value in as_object(loads(line)).items()}
    except ValueError:
        return None
    labels = task_from_labels(raw)
    if labels is None:
        return None
    return FoundTask(host=host, id="", labels=labels, raw_labels=raw, running=True, status="running")


def added(known: Sequence[FoundTask], marked: Sequence[FoundTask]) -> tuple[FoundTask, ...]:
    """The tasks an engine knows of, with those that only marks tell of: the engine knows its own better."""
    seen = {(t.labels.attempt_key, t.labels.host, t.labels.task) for t in known}
    return (*known, *(t for t in marked if (t.labels.attempt_key, t.labels.host, t.labels.task) not in seen))
