"""When tasks of runs that nobody follows said their last line, as their engines know: one command a host for all.

Times are told as ages by the host's own clock, so that one that goes wrong makes no run quiet.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from distui.plan.command import docker
from distui.regex import regex
from distui.runs.hosts.asking import ask_each
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask, Runner, rfc3339
from distui.runs.state.standstill import quiet_since
from distui.session import Connector, Session
from distui.spec.hosts.inventory import Host
from distui.whole import whole

SECONDS, MOST = 15.0, 1 << 20
"""How long a host may take to tell, and how many bytes."""

MOST_TASKS = 128
"""Tasks of one host that are asked for; of a run with more nothing is said."""

# $1 ids, the rest the engine's command for a last line with its time; a warning of the engine's has none.
_OF_CONTAINERS = """
LC_ALL=C; export LC_ALL
echo "now $(date +%s)"
ids=$1; shift
for id in $ids; do
  said=$("$@" "$id" 2>&1) || continue
  last=$(printf '%s\\n' "$said" | cut -c1-40 | grep '^[0-9]*-[0-9]*-[0-9]*[T ]' | sort | tail -n 1)
  printf 'at %s %s\\n' "$id" "$last"
done
""".strip()

# Each argument a task's folder: its log is only ever appended to.
_OF_PROCESSES = """
echo "now $(date +%s)"
n=0
for folder in "$@"; do
  said=$(date -r "$folder/log" +%s 2>/dev/null) && printf 'at %s %s\\n' "$n" "$said"
  n=$((n + 1))
done
""".strip()

_ID = regex(r"[0-9a-f]{12,64}")


async def with_quiet(
    connector: Connector, hosts: Sequence[Host], found: FoundRuns, runs: Collection[FoundRun]
) -> FoundRuns:
    """The same, with since when those of `runs` are quiet that seem to run. Where a host does not tell, none is.

    Uses the connections that are there, and none to a host without such a run.
    """
    asked = [run for run in runs if run.state == "running" and not run.unfound]
    tasks: dict[str, list[FoundTask]] = {}
    for task in (task for run in asked for task in run.tasks if _limit(task)):
        tasks.setdefault(task.host, []).append(task)
    by_name = {host.name: host for host in hosts if host.name in tasks}

    async def ask(name: str, session: Session) -> Mapping[str, float]:
        run_argv = partial(session.run, timeout=SECONDS, limit=MOST)
        return await ages_of(run_argv, by_name[name], tasks[name][:MOST_TASKS])

    answers, _ = await ask_each(connector, by_name, ask)
    now = time.time()

    def quiet(run: FoundRun) -> float | None:
        ages = [(answers.get(task.host, {}).get(task.id), _limit(task)) for task in run.tasks]
        return quiet_since([(now - age if age is not None else None, limit) for age, limit in ages], now)

    return replace(found, runs=tuple(replace(run, quiet=quiet(run)) if run in asked else run for run in found.runs))


def _limit(task: FoundTask) -> float:
    """For how long it may be silent; 0 for ever."""
    return 0.0 if task.labels.serves else task.labels.stall_after


async def ages_of(run_argv: Runner, host: Host, tasks: Sequence[FoundTask]) -> dict[str, float]:
    """How many seconds ago each of these tasks of one host said its last line, by its id. Raises HostError."""
    processes = [task for task in tasks if task.labels.engine == "process"]
    containers = {task.id: task for task in tasks if task.labels.engine != "process" and _ID.fullmatch(task.id)}
    ages: dict[str, float] = {}
    if containers:
        logs = docker.logs(host.engine_command, "", stamps=True, tail=1)[:-1]
        now, said = await _answer(run_argv, ("sh", "-c", _OF_CONTAINERS, "distui-said", " ".join(containers), *logs))
        for name, task in containers.items():  # one that said nothing yet is silent since its start
            at = (rfc3339(said[name]) if said[name] else task.started) if name in said else None
            ages |= {name: max(0.0, now - at)} if at is not None else {}
    if processes:
        folders = [task.id for task in processes]
        now, said = await _answer(run_argv, ("sh", "-c", _OF_PROCESSES, "distui-said", *folders))
        for number, folder in enumerate(folders):
            seconds = whole(said.get(str(number), ""))
            ages |= {folder: max(0.0, now - seconds)} if seconds is not None else {}
    return ages


async def _answer(run_argv: Runner, argv: Sequence[str]) -> tuple[float, Mapping[str, str]]:
    """The host's time, and what it says of each task; nothing where the time can't be read."""
    done = await run_argv(argv)
    now: int | None = None
    said: dict[str, str] = {}
    for line in done.text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "now":
            now = whole(rest)
        elif word == "at":
            task, _, text = rest.partition(" ")
            said[task] = text.strip()
    return (float(now), said) if now is not None else (0.0, {})
