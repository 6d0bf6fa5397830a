"""When tasks of runs that nobody follows said their last line, as their engines know: one command a host for all.

Times are reported as ages by the host's own clock, so that one that goes wrong makes no run quiet. An engine needs a
process for each task to tell: who lists runs again and again asks for those only that may be quiet by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
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

AGAIN = 60.0
"""Seconds until a run is asked for again that is quiet, or of which nothing is reported."""

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


_Key = tuple[str, str, str]


class LastSaid:
    """What is known of runs that nobody follows, from one list of runs to the next: who said a line just now can't be
    quiet before `stall_after` has passed. Pure; keeps nothing of a run that is not listed any more.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[_Key, tuple[float, float | None]] = {}
        """When to ask for a run again, and since when it is quiet."""

    def due(self, runs: Collection[FoundRun]) -> list[FoundRun]:
        """Those of all these that are to be asked for now."""
        keys = {_key(run) for run in runs}
        self._known = {key: known for key, known in self._known.items() if key in keys}
        now = self._clock()
        return [run for run in runs if self._known.get(_key(run), (now, None))[0] <= now]

    def take(self, run: FoundRun, quiet: float | None, ages: Collection[tuple[float | None, float]]) -> None:
        """What was reported of a run: how many seconds ago each task said a line, and how long it may say none."""
        may_be = max((limit - age for age, limit in ages if limit and age is not None), default=0.0)
        wait = (may_be if may_be > 0 else AGAIN) if run.launch else 0.0  # without a token it may be another run
        self._known[_key(run)] = (self._clock() + wait, quiet)

    def quiet(self, run: FoundRun) -> float | None:
        """Since when it is quiet, by what was reported."""
        return self._known.get(_key(run), (0.0, None))[1]


def _key(run: FoundRun) -> _Key:
    return run.run, run.owner, run.token


async def with_quiet(
    connector: Connector,
    hosts: Sequence[Host],
    found: FoundRuns,
    runs: Collection[FoundRun],
    known: LastSaid | None = None,
) -> FoundRuns:
    """The same, with since when those of `runs` are quiet that seem to run. Where a host does not tell, none is.

    Uses the connections that are there, and none to a host without such a run, or with such only that can't be quiet
    by what is `known`.
    """
    known = LastSaid() if known is None else known
    asked = [run for run in runs if run.state == "running" and not run.unfound]
    due = known.due(asked)
    tasks: dict[str, list[FoundTask]] = {}
    for task in (task for run in due for task in run.tasks if _limit(task)):
        tasks.setdefault(task.host, []).append(task)
    by_name = {host.name: host for host in hosts if host.name in tasks}

    async def ask(name: str, session: Session) -> Mapping[str, float]:
        run_argv = partial(session.run, timeout=SECONDS, limit=MOST)
        return await ages_of(run_argv, by_name[name], tasks[name][:MOST_TASKS])

    answers, _ = await ask_each(connector, by_name, ask)
    now = time.time()
    for run in due:
        ages = [(answers.get(task.host, {}).get(task.id), _limit(task)) for task in run.tasks]
        said = [(now - age if age is not None else None, limit) for age, limit in ages]
        known.take(run, quiet_since(said, now), ages)
    return replace(
        found, runs=tuple(replace(run, quiet=known.quiet(run)) if run in asked else run for run in found.runs)
    )


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
