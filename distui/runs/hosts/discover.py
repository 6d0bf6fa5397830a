"""Runs found on the hosts by their labels: any machine with ssh can list, follow and stop them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Literal

from distui.errors import HostCommandError
from distui.facts.engine import classify
from distui.facts.host import Trouble
from distui.facts.values import as_object, integer, loads
from distui.frozen import frozen
from distui.plan.command import docker, process
from distui.plan.command.folders import run_folder as planned_folder
from distui.plan.command.limit import reached
from distui.plan.labels import MOST_RANKS, TaskLabels, task_from_labels
from distui.regex import regex
from distui.runs.hosts.asking import ask_each, run_with_retries
from distui.runs.hosts.inherited import inherited
from distui.runs.lines.text import safe
from distui.session import Completed, Connector, Session
from distui.spec.hosts.inventory import EngineName, Host
from distui.whole import moment, moment_ns

Runner = Callable[[Sequence[str]], Awaitable[Completed]]

LIST_SECONDS = 15.0
"""How long a host may take to list its tasks. An engine does it at once, or hangs; the rest is for slow logins."""

APART_S = 60.0
"""Tasks of a run start within this: one that is further from the first has a clock that is off."""

ALIVE = '[ -d /proc/1 ] || echo hidden; for pid; do [ ! -d "/proc/$pid" ] || echo "$pid"; done'
"""Prints those of these processes that are there, or that it can't be seen: /proc may be mounted with `hidepid`."""

_ID = regex(r"[0-9a-f]{12,64}")

FoundState = Literal["running", "failed", "succeeded", "partial", "ended", "unknown"]
"""`partial`: some tasks run and others have ended; `ended`: stopped, or their exit status is unknown; `unknown`: those
that were found have ended well, and others were not found.
"""


@frozen
class FoundTask:
    """One container or process of some run, as its host tells it. Times are the host's clock in UTC seconds."""

    host: str
    id: str
    labels: TaskLabels
    raw_labels: Mapping[str, str]
    running: bool
    status: str
    exit: int | None = None
    oom: bool = False
    started: float | None = None
    finished: float | None = None

    @property
    def failed(self) -> bool:
        """Whether it failed by itself: out of memory, or a status that neither a stop nor `max_duration` leaves."""
        return self.oom or not (self.exit in (0, None, 137, 143) or self.over_limit)

    @property
    def over_limit(self) -> bool:
        """Whether the job's `max_duration` ended it."""
        lasted = self.finished - self.started if self.finished is not None and self.started is not None else None
        return not self.oom and reached(self.exit, lasted, self.labels.max_duration or None)

    @property
    def words(self) -> str:
        """The task in a few words, for lists of what is left: a container's id is cut as engines do, a path is not."""
        name = self.id if "/" in self.id else self.id[:12]
        return f"{self.labels.engine} {name} (run {self.labels.run}, task {self.labels.task}, {self.status})"


@frozen
class FoundRun:
    """All tasks of one launch's attempt that were found, on whatever hosts answered.

    Another launch of that name, or one of somebody else, is another run, whatever its labels claim.
    """

    run: str
    tasks: tuple[FoundTask, ...]
    others: tuple[FoundTask, ...] = ()
    """Tasks of the same launch and owner that say they are of another attempt."""
    quiet: float | None = None
    """Since when none of its ranks said a line, on this machine's clock, where that was asked for (`last_said.py`) and
    is longer than its `stall_after`.
    """

    @property
    def job(self) -> str:
        """The job's name, from the labels."""
        return self.tasks[0].labels.job

    @property
    def owner(self) -> str:
        """Who started it, from the labels."""
        return self.tasks[0].labels.owner

    @property
    def launch(self) -> str:
        """What tells its launch from others of its name; "" where the labels do not say."""
        return self.tasks[0].labels.launch

    @property
    def token(self) -> str:
        """The same of its attempt, as in `RunRow.launch`."""
        return f"{self.launch}-{self.attempt}" if self.launch else ""

    @property
    def world_size(self) -> int:
        """How many ranks the run has, whether or not all were found."""
        return max(t.labels.world_size for t in self.tasks)

    @property
    def unfound(self) -> tuple[int, ...]:
        """Ranks of which nothing was found: removed, never started, or on a host that did not answer."""
        known = {rank for task in self.tasks for rank in task.labels.ranks}
        return tuple(rank for rank in range(min(self.world_size, MOST_RANKS)) if rank not in known)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts with tasks of the run, in node order."""
        return tuple(dict.fromkeys(t.host for t in self.tasks))

    @property
    def attempt(self) -> int:
        """Which attempt of the run its tasks are."""
        return self.tasks[0].labels.attempt

    @property
    def attempts(self) -> int:
        """How many attempts the run has in all, as its job says."""
        return self.tasks[0].labels.attempts

    @property
    def started(self) -> float | None:
        """When its first task started: by the host whose clock is nearest to that of who planned it, as labels say."""
        starts = sorted(t.started for t in self.tasks if t.started is not None)
        planned = rfc3339(self.tasks[0].labels.started)
        return min(starts, key=lambda at: abs(at - planned) if planned is not None else 0.0, default=None)

    @property
    def ended_at(self) -> float | None:
        """When its last task ended; where a host's clock is off, by how long its task lasted. None while one runs, or
        where a task or its time is not known.
        """
        times = [(t.started, t.finished) for t in self.tasks if t.started is not None and t.finished is not None]
        first = self.started
        if first is None or len(times) < len(self.tasks) or self.unfound:
            return None
        return max(end if abs(start - first) < APART_S else first + end - start for start, end in times)

    @property
    def bad(self) -> bool:
        """Whether a task has ended with another exit status than 0."""
        return any(task.exit for task in self.tasks)

    @property
    def over_limit(self) -> bool:
        """Whether all tasks were found, some ended badly, and all of these by `max_duration`."""
        return self.bad and not self.unfound and all(task.over_limit for task in self.tasks if task.exit)

    @property
    def state(self) -> FoundState:
        """The run's state as far as its hosts tell."""
        running = [t.running for t in self.tasks]
        if all(running):
            return "running"
        if any(running):
            return "partial"
        codes = [t.exit for t in self.tasks]
        if any(t.failed for t in self.tasks):
            return "failed"
        if any(code != 0 for code in codes):
            return "ended"
        return "unknown" if self.unfound else "succeeded"


@frozen
class FoundRuns:
    """The runs found, newest first, and the hosts that could not be asked."""

    runs: tuple[FoundRun, ...]
    unreachable: Mapping[str, Trouble]
    answered: frozenset[str] = frozenset()
    """Hosts that were asked, and answered. What others have is not known."""

    def named(self, run: str) -> tuple[FoundRun, ...]:
        """The runs of that name, newest first: a name may be used twice, or forged."""
        return tuple(r for r in self.runs if r.run == run)

    def get(self, run: str, token: str = "") -> FoundRun | None:
        """The run of that name, None when no host that answered knows it; with a token only that launch of it, the
        attempt with this one if any.
        """
        launch = token.rpartition("-")[0]
        named = [r for r in self.named(run) if not launch or r.launch in ("", launch)]
        return next((r for r in named if token and r.token == token), next(iter(named), None))


async def find_runs(
    connector: Connector,
    hosts: Sequence[Host],
    *,
    run: str | None = None,
    enough: Callable[[FoundTask], bool] | None = None,
    unseen: bool = False,
) -> FoundRuns:
    """Ask all hosts at once for distui's tasks, of one run or of all; `unseen` as `list_tasks`.

    Where one task is `enough`, a host that hangs is not waited for once that was found.
    """
    by_name = {host.name: host for host in hosts}

    async def ask(name: str, session: Session) -> tuple[FoundTask, ...]:
        host = by_name[name]
        listed = partial(session.run, timeout=LIST_SECONDS)
        return await list_tasks(listed, name, host.engine, host.engine_command, run=run, unseen=unseen)

    stops = (lambda found: any(map(enough, chain(*found)))) if enough is not None else None
    answers, unreachable = await ask_each(connector, by_name, ask, enough=stops)
    tasks: dict[tuple[str, str, str], list[FoundTask]] = {}
    for task in chain(*answers.values()):
        tasks.setdefault((task.labels.run, task.labels.launch, task.labels.owner), []).append(task)
    runs = [found_run(name, _each_once(found)) for (name, _, _), found in tasks.items()]
    runs.sort(key=lambda r: r.started or 0, reverse=True)
    return FoundRuns(tuple(runs), unreachable, frozenset(answers))


def _each_once(found: Sequence[FoundTask]) -> list[FoundTask]:
    """Tasks listed by two names of one engine count once, under the name they were started on."""
    once: dict[tuple[str, str], FoundTask] = {}
    for task in found:
        key = task.id, task.labels.host
        if key not in once or task.labels.host == task.host:
            once[key] = task
    return list(once.values())


def found_run(run: str, found: Sequence[FoundTask]) -> FoundRun:
    """The tasks of one launch: those of the attempt with the most, of several the newest.

    One before it may have left something on a host that was out of reach. What a stranger writes into labels of a few
    containers hides nothing: it is among the others.
    """
    attempts: dict[tuple[str, ...], list[FoundTask]] = {}
    for task in found:
        attempts.setdefault(task.labels.attempt_key, []).append(task)
    chosen = max(attempts.values(), key=lambda tasks: (len({t.labels.task for t in tasks}), tasks[0].labels.attempt))
    others = (task for tasks in attempts.values() if tasks is not chosen for task in tasks)
    return FoundRun(run, tuple(sorted(chosen, key=lambda t: t.labels.task)), tuple(others))


async def list_tasks(
    run_argv: Runner,
    host: str,
    engine: EngineName,
    engine_command: tuple[str, ...],
    *,
    run: str | None = None,
    unseen: bool = False,
) -> tuple[FoundTask, ...]:
    """The tasks one host knows of, in any state. Raises HostCommandError with the engine's words.

    Where `unseen` ends count, a container that podman calls running, and that has no process any more, is `lost`: one
    whose conmon was killed with it, as a logout does without lingering.
    """
    if engine == "process":
        return await _processes(run_argv, host, run)
    ids = listed_ids(host, await run_with_retries(run_argv, docker.list_ids(engine_command, run)))
    if not ids:
        return ()
    values = await inspected(run_argv, host, engine_command, ids)
    theirs = await inherited(run_argv, engine_command, values)
    found = (_container(host, value) for value in values)
    tasks = tuple(task for task in found if task is not None and task.id not in theirs)
    gone = await _vanished(run_argv, values) if unseen and engine == "podman" else frozenset()
    return tuple(replace(t, running=False, status="lost", exit=None) if t.id in gone else t for t in tasks)


async def _vanished(run_argv: Runner, values: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The ids of containers that run, as podman has it, though neither their process nor the conmon that would see its
    end is there.
    """
    pids: dict[str, tuple[str, ...]] = {}
    for value in values:
        state = as_object(value.get("State"))
        known = tuple(str(pid) for key in ("Pid", "ConmonPid") if (pid := integer(state.get(key))))
        if docker.runs(state) and len(known) == 2:
            pids[str(value.get("Id", ""))] = known
    if not pids:
        return frozenset()
    done = await run_argv(("sh", "-c", ALIVE, "sh", *chain(*pids.values())))
    alive = set(done.text.split())
    hidden = not done.ok or "hidden" in alive
    return frozenset(one for one, known in pids.items() if not hidden and alive.isdisjoint(known))


def listed_ids(host: str, done: Completed) -> list[str]:
    """The containers in the answer of `docker.list_ids`. Raises HostCommandError for what is none.

    They become words of the next command, and of what is said when that fails.
    """
    if not done.ok:
        raise refused(host, done)
    ids = done.text.split()
    if not all(map(_ID.fullmatch, ids)):
        raise unreadable(host)
    return ids


async def inspected(
    run_argv: Runner, host: str, engine_command: tuple[str, ...], ids: Sequence[str]
) -> list[dict[str, Any]]:
    """What the engine knows of these containers; those that vanished meanwhile are left out."""
    answer = await run_with_retries(run_argv, docker.inspect(engine_command, ids))
    if not answer.ok and classify(answer.error_text, answer.status).code != "no_such_container":
        raise refused(host, answer)
    return _json_list(host, answer)


def refused(host: str, done: Completed) -> HostCommandError:
    """The engine's refusal in words."""
    if done.truncated:
        message = f"{host}: the engine prints without end, beginning with {safe(done.text.lstrip()[:60])!r}"
        return HostCommandError(host, message, hint=f"see what `docker` is on {host}", code="rubbish")
    trouble = classify(done.error_text, done.status)
    return HostCommandError(host, trouble.message, hint=trouble.hint, code=trouble.code)


def unreadable(host: str) -> HostCommandError:
    """What answers there is no engine, or not only that."""
    message = f"{host}: the engine's answer can't be read"
    return HostCommandError(host, message, hint=f"see what `docker` is on {host}", code="rubbish")


def _json_list(host: str, answer: Completed) -> list[dict[str, Any]]:
    """What `inspect` found; it prints that also when a container vanished meanwhile (exit 1).

    An answer that can't be read is an error: "no containers" would be believed, and the run with them.
    """
    try:
        value = loads(answer.text or "[]")
    except ValueError as exc:
        raise unreadable(host) from exc
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _container(host: str, value: Mapping[str, Any]) -> FoundTask | None:
    raw = {str(k): str(v) for k, v in as_object(as_object(value.get("Config")).get("Labels")).items()}
    labels = task_from_labels(raw)
    state = as_object(value.get("State"))
    if labels is None:
        return None
    running, status = docker.runs(state), str(state.get("Status", "unknown"))
    status = "created" if status in docker.UNSTARTED else status
    ended = not running and status not in ("created", "restarting")
    return FoundTask(
        host=host,
        id=str(value.get("Id", "")),
        labels=labels,
        raw_labels=raw,
        running=running,
        status=status,
        exit=integer(state.get("ExitCode", 0)) if ended or state.get("ExitCode") else None,
        oom=bool(state.get("OOMKilled")),
        started=rfc3339(str(state.get("StartedAt", ""))),
        finished=None if running else rfc3339(str(state.get("FinishedAt", ""))),
    )


_TIME = regex(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?) ?(Z|[+-]\d\d:?\d\d)")


def rfc3339(text: str) -> float | None:
    """Docker's and podman's times in UTC seconds; None for the zero time of something that never happened, and for one
    that can't be said here.
    """
    match = _TIME.match(text)
    if match is None:
        return None
    try:
        at = datetime.fromisoformat("{}T{}{}".format(*match.groups()))
    except ValueError:
        return None
    return moment(at.timestamp()) if at.year > 1 else None


async def _processes(run_argv: Runner, host: str, run: str | None) -> tuple[FoundTask, ...]:
    home = await home_of(run_argv, host)
    done = await run_argv(process.list_tasks(home, run_id=run))
    if not done.ok:
        raise HostCommandError(host, f"can't list processes: {done.error_text or done.status}")
    found = (_process(host, home, state) for state in process.parse_states(done.stdout))
    return tuple(task for task in found if task is not None)


async def home_of(run_argv: Runner, host: str) -> str:
    """The login's home folder. Raises HostCommandError when it has none."""
    done = await run_argv(("sh", "-c", 'printf %s "$HOME"'))
    if not done.ok or not done.text.startswith("/"):
        raise HostCommandError(host, f"{host}: the login has no home folder")
    return done.text


def run_folder(home: str, labels: TaskLabels) -> str:
    """The run's folder on the host: by the name the host had when the run was started."""
    return planned_folder(home, labels.host, labels.run)


def _process(host: str, home: str, state: process.ProcessState) -> FoundTask | None:
    labels = task_from_labels(state.labels)
    if labels is None:
        return None
    return FoundTask(
        host=host,
        id=process.task_folder(run_folder(home, labels), labels.task),
        labels=labels,
        raw_labels=state.labels,
        running=state.state in ("created", "running"),
        status=state.state,
        exit=state.exit,
        started=moment_ns(state.started_ns),
        finished=moment_ns(state.finished_ns),
    )
