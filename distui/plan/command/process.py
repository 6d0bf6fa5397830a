"""Tasks without a container: the same verbs as docker's, as sh scripts that take every value as an argument.

A task's folder on the host is `RUN_DIR/task-INDEX/`, 0700, and is all there is (no daemon, nothing installed):

- `labels.json`  the task's labels, as docker would hold them;
- `pid`, `pgid`  of the program, which leads a session of its own;
- `ident`        its start time in clock ticks and the boot id: a pid alone may be somebody else's by now;
- `started_ns`   host clock;
- `log`          stdout and stderr as they came, followed by byte offset;
- `keeper`       pid of the supervisor;
- `exit`         `CODE FINISHED_NS STARTED_NS`, both by the host clock as it is then, written by rename when the program
                 has ended (128 + signal number).

The program's parent is a small supervisor in a session of its own, so that a lost ssh connection changes
nothing. If it is killed the program runs on and only its exit code is lost (state `lost`).
A program counts as running until its exit is written, so that `lost` is never seen in passing.

The env file is opened before `start` returns and read by the program's own shell, so it may be removed at once
and its values are in the environment of the program only: never in an argv, nor in the supervisor.

Processes that left the program's session are found by its environment: the task's folder in `DISTUI_TASK_DIR`. Its
run's name would not do: containers of this machine, or another home's processes, may have a run of that name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from distui.facts.values import loads
from distui.frozen import frozen
from distui.plan.model import Task
from distui.whole import code, count

Argv = tuple[str, ...]

# The program's shell. $1 task folder, $2 umask, $3 working directory, then the command; fd 3 env file, fd 4 "begun".
# It opens the log itself, so that nothing its supervisor's shell says ("Killed") gets into it.
# What the login has in PYTHONPATH follows the hook (plan/command/insight.py), unless the job sets its own.
# Once read, the env file is emptied: the supervisor holds it open for as long as the program runs.
PROGRAM = r"""
exec >>"$1/log" 2>&1
stat=$(cat /proc/$$/stat); stat=${stat##*) }
echo $$ >"$1/pgid"
(set -- "$1" $stat; shift 20; echo "$1 $(cat /proc/sys/kernel/random/boot_id)") >"$1/ident"
echo $$ >"$1/pid"
unset stat
distui_own=$PYTHONPATH
while IFS= read -r distui_line; do export "$distui_line"; done <&3
unset distui_line
export DISTUI_TASK_DIR="$1"
[ -z "$distui_own" ] || [ "$PYTHONPATH" != "${1%/*}/hook" ] || PYTHONPATH=$PYTHONPATH:$distui_own
unset distui_own
true 2>/dev/null >/proc/self/fd/3
echo begun >&4
exec 3<&- 4>&-
umask "$2"
cd "$3" || { echo "distui: cannot enter $3" >&2; exit 126; }
shift 3
exec "$@"
""".strip()

# The supervisor. $1 PROGRAM, $2 task folder, and the rest of the program's shell's arguments.
# The program runs in the foreground: in the background it would ignore SIGINT.
# How long it ran is by the uptime, since the clock may be set meanwhile: it began by so much before its end.
SUPERVISOR = r"""
program=$1 task=$2; shift
echo $$ >"$task/keeper"
up() { read -r up more </proc/uptime && echo "${up%.*}${up#*.}"; }
begun=$(up)
if command -v setsid >/dev/null; then
  setsid sh -c "$program" sh "$@"
else
  python3 -c 'import os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.setsid()
os.execvp(sys.argv[1], sys.argv[1:])' sh -c "$program" sh "$@"
fi
code=$?
now=$(date +%s%N); case $now in *[!0-9]*) now=$(date +%s)000000000;; esac
ended=$(up) started=$(cat "$task/started_ns")
if [ -n "$begun" ] && [ -n "$ended" ]; then
  since=$((now - (ended - begun) * 10000000)); [ "$since" -lt 0 ] || started=$since
fi
echo "$code $now $started" >"$task/exit.tmp" && mv -f "$task/exit.tmp" "$task/exit"
""".strip()

# Detaching: `setsid -f` first, since a shell's `&` would make the program ignore SIGINT.
START = r"""
fail() { echo "distui: $1" >&2; exit 125; }
run=$1 index=$2 env=$3 dir=$4 labels=$5 supervisor=$6 program=$7; shift 7
task=$run/task-$index mask=$(umask)
umask 077
command -v setsid >/dev/null || command -v python3 >/dev/null || fail "the host has neither setsid nor python3"
[ ! -e "$task" ] || fail "task $index of this run was already started"
[ -r "$env" ] || fail "cannot read $env"
mkdir -p -- "$run" && mkdir -- "$task" || fail "cannot make $task"
printf '%s\n' "$labels" >"$task/labels.json" && : >"$task/log" || fail "cannot write in $task"
now=$(date +%s%N); case $now in *[!0-9]*) now=$(date +%s)000000000;; esac
echo "$now" >"$task/started_ns"
detach() {
  if setsid -f true 2>/dev/null; then setsid -f "$@"
  elif command -v python3 >/dev/null; then python3 -c 'import os, signal, sys
if os.fork(): os._exit(0)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.setsid()
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
  else setsid "$@" &
  fi
}
if detach sh -c "$supervisor" distui-task "$program" "$task" "$mask" "$dir" "$@" \
  4>&1 >/dev/null 2>&1 3<"$env" </dev/null | { read -r begun; [ "$begun" = begun ]; }
then rm -f -- "$env"; echo "$task"
else said=$(tail -c 500 "$task/log"); rm -rf -- "$task" "$env"; fail "task $index did not start: $said"
fi
""".strip()

TICKS = r"""
ticks() {
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  stat=${stat##*) }
  set -- $stat
  case $1 in Z|X) return 1;; esac
  shift 19; echo "$1"
}
"""
"""Prints the start time of a process, which tells it from a later one with its pid; fails when it has ended."""

_COMMON = (
    TICKS
    + r"""
alive() {
  [ -s "$1/pid" ] && [ -s "$1/ident" ] || return 1
  read -r pid <"$1/pid"; read -r start boot <"$1/ident"
  [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] && [ "$(ticks "$pid")" = "$start" ]
}
kept() {
  [ ! -s "$1/exit" ] && [ -s "$1/keeper" ] && read -r keeper <"$1/keeper" &&
    grep -qsF -- "$1" "/proc/$keeper/cmdline"
}
number() { n=; [ -s "$1" ] && read -r n more <"$1"; case $n in ''|*[!0-9]*) n=null;; esac; echo "$n"; }
show() {
  [ -d "$1" ] || { echo '{"state":"missing"}'; return; }
  code=null finished=null began= state=lost
  if alive "$1" || kept "$1"; then state=running
  elif [ ! -s "$1/pid" ]; then state=created
  fi
  if [ -s "$1/exit" ]; then state=exited; read -r code finished began <"$1/exit"; fi
  labels=$(cat "$1/labels.json" 2>/dev/null)
  printf '{"state":"%s","folder_index":%s,"pid":%s,"exit":%s,"started_ns":%s,"finished_ns":%s,' \
    "$state" "${1##*task-}" "$(number "$1/pid")" "$code" "${began:-$(number "$1/started_ns")}" "$finished"
  printf '"labels":%s}\n' "${labels:-null}"
}
marked() {
  for p in $(grep -lszFx -- "DISTUI_TASK_DIR=$1/task-$2" /proc/[0-9]*/environ 2>/dev/null); do
    p=${p#/proc/}; echo "${p%/environ}"
  done
}
group_of() {
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  stat=${stat##*) }
  set -- $stat
  echo "$3"
}
signal() {
  group=none
  if alive "$1/task-$2"; then group=$pid; kill -s "$3" -- "-$pid" 2>/dev/null; fi
  for p in $(marked "$1" "$2"); do
    [ "$(group_of "$p")" = "$group" ] || kill -s "$3" "$p" 2>/dev/null
  done
}
busy() { alive "$1/task-$2" || [ -n "$(marked "$1" "$2")" ]; }
nap() { sleep 0.1 2>/dev/null || sleep 1; }
ended() {
  tries=$3
  while busy "$1" "$2" || kept "$1/task-$2"; do
    tries=$((tries - 1)); [ "$tries" -gt 0 ] || return 1
    nap
  done
}
"""
)

_STOP = r"""
signal "$1" "$2" TERM
end=$(($(date +%s) + $3))
while busy "$1" "$2" && [ "$(date +%s)" -lt "$end" ]; do nap; done
busy "$1" "$2" && signal "$1" "$2" KILL
ended "$1" "$2" 20
show "$1/task-$2"
! busy "$1" "$2"
"""

_KILL = r"""
signal "$1" "$2" "$3"
[ "$3" = KILL ] && ended "$1" "$2" 20
show "$1/task-$2"
"""

_INSPECT = r"""
run=$1; shift
for index in "$@"; do show "$run/task-$index"; done
"""

_LIST = r"""
each() { [ "$1" = "*" ] && set -- "$2"/* || set -- "$2/$1"; for path in "$@"; do [ -d "$path" ] && echo "$path"; done; }
each "$2" "$1" | while IFS= read -r host; do
  each "$3" "$host" | while IFS= read -r run; do
    for task in "$run"/task-*; do [ -d "$task" ] && show "$task"; done
  done
done
:
"""

_REMOVE = r"""
task=$1/task-$2
if [ "$3" != force ] && alive "$task"; then echo "distui: task $2 still runs (pid $pid)" >&2; exit 1; fi
signal "$1" "$2" KILL
ended "$1" "$2" 20
if busy "$1" "$2"; then echo "distui: task $2 survives SIGKILL" >&2; exit 1; fi
rm -rf -- "$task" && rm -f -- "$1/env-$2" || exit 1
rmdir -- "$1" 2>/dev/null && rmdir -- "${1%/*}" 2>/dev/null
:
"""


def _script(body: str, *args: str) -> Argv:
    return ("sh", "-c", (_COMMON + body).strip(), "distui", *args)


def workdir(path: str | None, home: str | None) -> str:
    """Where a program starts: `workdir` of the job, relative to the login's home; else the home itself."""
    home = home or "/"
    if not path or path == "~":
        return home
    if path.startswith("~/"):
        return f"{home.rstrip('/')}/{path[2:]}"
    return path if path.startswith("/") else f"{home.rstrip('/')}/{path}"


def start(task: Task, command: Argv, *, workdir: str) -> Argv:
    """Start a task detached and print its folder. Exit status 125, with the reason, when it can't be started.

    Starting a task twice is refused. A program that does not exist ends 127, one that can't be executed or whose
    working directory is missing 126, with the reason in its log, as under docker.
    """
    values = (task.run_dir, str(task.index), task.env_file, workdir, json.dumps(dict(task.labels)))
    return ("sh", "-c", START, "distui", *values, SUPERVISOR, PROGRAM, *command)


def program(task: Task) -> Argv:
    """The program a task's `start` runs, without the scripts around it."""
    return task.start[task.start.index(PROGRAM) + 1 :] if PROGRAM in task.start else task.start


def task_folder(run_dir: str, index: int) -> str:
    """The folder of one task."""
    return f"{run_dir}/task-{index}"


def log_path(run_dir: str, index: int) -> str:
    """The log of one task: stdout and stderr together, only ever appended to."""
    return f"{task_folder(run_dir, index)}/log"


def stop(run_dir: str, index: int, grace: float) -> Argv:
    """SIGTERM to the program's group and to what escaped from it, SIGKILL after `grace` seconds; prints the state.

    Also where its folder was removed under it: it is found as what escaped is. Blocks for `grace` and about two
    seconds more at most. Status 1 when something survived SIGKILL.
    """
    return _script(_STOP, run_dir, str(index), str(max(0, -int(-grace // 1))))


def kill(run_dir: str, index: int, signal: str = "KILL") -> Argv:
    """Send a signal at once to the program's group and to what escaped from it; prints the state."""
    return _script(_KILL, run_dir, str(index), signal)


def inspect(run_dir: str, indices: tuple[int, ...]) -> Argv:
    """Prints one JSON line per task, for `parse_states`."""
    return _script(_INSPECT, run_dir, *map(str, indices))


def list_tasks(home: str, *, host: str | None = None, run_id: str | None = None) -> Argv:
    """Prints one JSON line per task on the host: of all runs or one, of all names the host goes by or one."""
    root = f"{home.rstrip('/')}/.local/state/distui/hosts"
    return _script(_LIST, root, host or "*", run_id or "*")


def remove(run_dir: str, index: int, *, force: bool = False) -> Argv:
    """Delete a task's folder, once it has ended; kills what it left behind.

    Status 1 while it runs; with `force` it is killed first, as `docker rm -f` does. Status 1 too when something
    survives SIGKILL: the folder stays then, as the only trace of it. Without a folder what runs on is killed.
    """
    return _script(_REMOVE, run_dir, str(index), "force" if force else "ended")


# reading


State = Literal["created", "running", "exited", "lost", "missing"]


@frozen
class ProcessState:
    """A task as its host shows it. `lost`: it is gone and nobody saw how (supervisor killed, host restarted)."""

    state: State
    index: int | None = None
    pid: int | None = None
    exit: int | None = None
    started_ns: int | None = None
    finished_ns: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def parse_states(output: bytes) -> tuple[ProcessState, ...]:
    """The states printed by `inspect`, `list_tasks`, `stop` or `kill`; lines that are none are left out."""
    states = (_parse_state(line) for line in output.splitlines())
    return tuple(s for s in states if s is not None)


def _parse_state(line: bytes) -> ProcessState | None:
    try:
        data = loads(line)
    except ValueError:
        return None
    states: tuple[State, ...] = ("created", "running", "exited", "lost", "missing")
    if not isinstance(data, dict) or data.get("state") not in states:
        return None
    labels = data.get("labels")
    return ProcessState(
        state=data["state"],
        index=count(data.get("folder_index")),
        pid=count(data.get("pid")),
        exit=code(data.get("exit")),
        started_ns=count(data.get("started_ns")),
        finished_ns=count(data.get("finished_ns")),
        labels={str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {},
    )
