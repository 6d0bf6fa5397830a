"""One host's part of a run: everything that is done *on* the host, by argv and over one connection."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import IO

from distui.errors import HostCommandError, HostError, SessionLost
from distui.facts.engine import classify, classify_read
from distui.facts.host import Trouble
from distui.facts.image import ImageFacts, read_image
from distui.plan import docker, process
from distui.plan.build import build_argv
from distui.plan.code import COPY, home_of_folder
from distui.plan.env import env_file_text
from distui.plan.labels import TaskLabels, task_from_labels, token_of
from distui.plan.model import RunPlan, Task
from distui.run import folder, lease, marks, readers, stop_word
from distui.run.asking import asked
from distui.run.build.on_host import Told, build_image
from distui.run.code.send import CodeSender
from distui.run.code.source import CodeSource
from distui.run.discover import LIST_SECONDS, FoundTask, home_of, list_tasks, run_folder
from distui.run.fetch import HostFetch
from distui.run.image_push import Engine
from distui.run.lease import Lease, Share, Thing, things_of, things_on
from distui.run.lines import safe
from distui.run.link import ASK_BOOT, HostLink
from distui.run.stop_word import StopWord
from distui.session import Completed, Connector

_REMOVE_FOLDER = (
    folder.TOKEN_IN
    + """
for name in launch launched; do
  [ -e "$1/$name" ] && [ "$(token_in "$1/$name")" != "$2" ] || continue
  [ -z "$2" ] && [ "$name" = launched ] || exit 0
done
rm -rf -- "$1" 2>/dev/null; [ ! -d "$1/code" ] || { echo left; exit 0; }
rm -rf -- "$1"; rmdir -- "${1%/*}" "${1%/*/*}" "${1%/*/*/*}" 2>/dev/null; :
"""
).strip()
"""A folder is only removed with the token ($2) of the launch that has it: a run that was stopped from elsewhere may
have been started again under its name. Without a token, since a task's labels do not tell it, only a launch under way
keeps its folder. Folders above are only removed when empty: on a machine that also runs distui they hold its own runs.
"""

GIVE_UP = 20.0
"""Seconds a command waits for a lost connection before its host counts as out of reach."""

LAST_LOOK = 5.0
"""Seconds to list its tasks for a host that was given up: its engine may hang."""

START_TIMEOUT = 120.0

STARTS = 3
"""How often a start is sent, or a file, whose connection breaks under it."""

PULL_TIMEOUT = 3600.0


class HostRun:
    """What a run does on one host. Every method may raise HostError; none leaves something half-done unsaid."""

    def __init__(self, host: str, plan: RunPlan, connector: Connector) -> None:
        self.host = host
        self.plan = plan
        self.link = HostLink(connector, host)
        self._connector = connector
        self.tasks = plan.tasks_on(host)
        self.ids: dict[int, str] = {}
        """Task index -> the engine's id, for tasks that were started."""
        self.missing: frozenset[int] = frozenset()
        """Started tasks that were not there any more at the last `look`."""
        self.taken = False
        """Whether this launch has the run's folder here: only then may there be tasks that it started."""
        self.patience = GIVE_UP
        """Seconds a command waits for a lost connection; 0 once the host was waited for long enough."""
        self.silent: Trouble | None = None
        """Why its engine did not list its tasks a moment ago, for whoever has just waited for that."""
        self._run_dir: str | None = None
        self._word_left = False
        self._sign = token_hex(4)
        self._image = self.first.image
        """Of the run's containers; a plan made from labels does not have it."""
        self._claimed = ""
        """The token of the launch that this is, once it has taken or leased something here."""
        self.leased = False
        """Whether what the run uses here may still be leased for its launch."""

    @property
    def things(self) -> frozenset[Thing]:
        """The GPUs and ports that the run has here."""
        return things_on(self.plan, self.host)

    @property
    def first(self) -> Task:
        """Any task of this host: all share engine and run folder."""
        return self.tasks[0]

    @property
    def planned_boot(self) -> str:
        """The host's boot when the run was planned, by its labels; "" where nobody noted it."""
        labels = task_from_labels(self.first.labels)
        return labels.boot if labels is not None else ""

    async def connect(self) -> None:
        """Connect once; raises HostError at once when that fails, where the link would go on trying."""
        session = await self._connector.connect(self.host)
        self.link = HostLink(self._connector, self.host, session=session)

    async def holder(self) -> str:
        """Who already has a run of this name on this host, in words; empty when nobody."""
        found = await self._told()
        if not found:
            return ""
        labels = found[0].labels
        since = f", since {safe(labels.started)}" if labels.started else ""
        return f"of {labels.owner or '?'}, job {labels.job or '?'}{since}, {len(found)} task(s), {found[0].status}"

    async def found(self) -> tuple[FoundTask, ...]:
        """This host's tasks of the run that its engine knows of, whatever their state.

        Two names may lead to one engine (the demo's hosts share this machine's): the other's tasks are not ours.
        Neither are those of another launch with the run's name, or of another attempt.
        """
        ours = {task.index: _labels(task) for task in self.tasks}
        return tuple(t for t in await self._told() if t.labels.task in ours and _same(t.labels, ours[t.labels.task]))

    async def _told(self) -> tuple[FoundTask, ...]:
        """Every task of this run that the host's engine knows of."""
        first = self.first
        return await list_tasks(self._listed, self.host, first.engine, first.engine_command, run=self.plan.run_id)

    async def _others(self) -> list[FoundTask]:
        """Tasks of the run's launch, or where its token is not known of any of its name, that are still there."""
        ours = _labels(self.first)
        told = await self._told()
        if ours is None or not ours.launch:
            return list(told)
        return [t for t in told if (t.labels.launch, t.labels.owner) == (ours.launch, ours.owner)]

    async def take(self, claim: folder.Claim) -> str:
        """Take the run's folder here for the launch; returns who has it, in words, and "" when it is taken.

        Raises HostCommandError when it can't be made.
        """
        path = self.first.run_dir
        self._claimed = claim.token
        told = await folder.take(self._again, self.host, path, claim)
        if told.state == "stale" and not await self._told():
            told = await folder.take(self._again, self.host, path, claim, over=True)
        self.taken = told.state == "taken"
        return told.who

    async def holds(self, *, over: bool = False) -> bool:
        """Whether the launch still has the run's folder: a stop from elsewhere takes it away.

        With `over` all tasks have started: from now on they hold the run's name, not the launch.
        """
        return await folder.holds(self._again, self.host, await self.run_dir(), self._claimed, over=over)

    async def lease(self, claim: folder.Claim, things: Iterable[Thing], *, force: bool = False) -> Lease:
        """Hold these things of the host while the run is launched."""
        self._claimed, self.leased = claim.token, True
        return await lease.lease(self._again, claim, things, force=force)

    async def sharers(self, tell: marks.Tell = str) -> tuple[Share, ...]:
        """Who has the run's GPUs and ports here already: tasks that the engine knows of, or that left a mark.

        `tell` is told why not all marks could be read.
        """
        tasks = await marks.tasks_on(self._listed, self.host, self.first, sweep=True, tell=tell)
        return lease.sharers(tasks, self.plan, self.things)

    @property
    def _token(self) -> str:
        """The token of the launch that the plan is of."""
        return self._claimed or token_of(_labels(self.first))

    async def free(self) -> None:
        """Give the lease back: by its launch's token, so also that of a launch that was killed."""
        if self.things and self._token:
            await lease.free(self._again, self._token)
            self.leased = False

    async def _mark(self, task: Task) -> None:
        """Tell everybody on the host what the task has of it. Not worth a launch that fails for it."""
        labels = _labels(task)
        if labels is None or not things_of(labels) or not self._token:
            return
        ref = self.ids[task.index]
        pid = docker.pid_of(task.engine_command, ref) if task.engine != "process" else ()
        with contextlib.suppress(HostError):
            await marks.leave(self._again, self._token, task.labels, ref, pid)

    async def _unmark(self) -> None:
        """Take back what the run's tasks told."""
        if self.things:
            await marks.remove(self._again, self._token)

    async def _again(self, argv: Sequence[str]) -> Completed:
        """Run something that may be repeated when the connection breaks under it."""
        return await self.link.run(argv, idempotent=True, give_up=self.patience)

    async def _listed(self, argv: Sequence[str]) -> Completed:
        """Ask what there is. A host that was waited for long enough is asked once more, but not waited for."""
        limit = LIST_SECONDS if self.patience else LAST_LOOK
        return await self.link.run(argv, timeout=limit, idempotent=True, give_up=self.patience)

    async def image(self) -> ImageFacts | None:
        """The image on this host, None when it is not there."""
        assert self.plan.image is not None
        done = await asked(self._again, docker.image_id(self.first.engine_command, self.plan.image))
        if done.ok:
            try:
                return read_image(done.text)
            except ValueError as exc:
                raise HostCommandError(self.host, f"{self.host}: {exc}", code="rubbish") from exc
        trouble = classify_read(done.error_text, done.status)
        if trouble.code == "image_missing":
            return None
        raise HostCommandError(self.host, trouble.message, hint=trouble.hint, code=trouble.code)

    async def image_entrypoint(self) -> str:
        """The image's own entry point in one line, empty when it has none or is not there."""
        assert self.plan.image is not None
        done = await asked(self._again, docker.image_id(self.first.engine_command, self.plan.image))
        try:
            return docker.read_entrypoint(done.text) if done.ok else ""
        except ValueError as exc:
            raise HostCommandError(self.host, f"{self.host}: {exc}", code="rubbish") from exc

    async def pull(self) -> None:
        """Pull the image. Raises HostCommandError with the engine's words."""
        assert self.plan.image is not None
        done = await self.link.run(docker.pull(self.first.engine_command, self.plan.image), timeout=PULL_TIMEOUT)
        if not done.ok:
            raise self._refused(f"can't pull {self.plan.image}", done)

    def code_sender(self, source: CodeSource, progress: Callable[[int], None]) -> CodeSender:
        """What gives this host the run's code."""
        run_dir = self.first.run_dir
        return CodeSender(
            self.link,
            source,
            home=home_of_folder(run_dir),
            run_dir=run_dir,
            contained=self.first.engine != "process",
            give_up=self.patience,
            progress=progress,
        )

    async def build(self, context: IO[bytes], told: Told) -> None:
        """Build the image. Raises BuildFailed, SessionLost."""
        assert self.plan.image is not None and self.plan.build is not None
        argv = build_argv(self.first.engine_command, self.plan.image, self.plan.build, self.plan.pull)
        session = await self.link.session(give_up=GIVE_UP)
        try:
            await build_image(session, argv, context, told)
        except SessionLost as exc:
            self.link.lost(session, exc)
            raise

    async def engine(self) -> Engine:
        """The host's engine, for copying images."""
        return Engine(self.host, self.first.engine_command, await self.link.session(give_up=GIVE_UP))

    async def push(self, task: Task, secrets: Mapping[str, str]) -> None:
        """Write the task's env file, 0600 in the run's 0700 folder."""
        await self._put(task.env_file, env_file_text(task, secrets))

    async def _put(self, path: str, data: bytes) -> None:
        """Write a file; sent again when the connection breaks, since it appears whole or not at all."""
        for left in reversed(range(STARTS)):
            session = await self.link.session(give_up=self.patience)
            try:
                await session.put(path, data)
            except SessionLost as exc:
                self.link.lost(session, exc)
                if not left:
                    raise
            else:
                return

    async def start(self, task: Task) -> str:
        """Run the task's printed start line; returns the engine's id.

        When the connection breaks under it nobody knows whether it ran: the host is asked, and only a task that is
        not there is started again. A first line that comes late is no danger: engines refuse a name that is taken.
        The env file is removed right after: the engine's client has read it.
        Raises HostCommandError with the engine's words when the engine refuses, SessionLost when the host stays away.
        """
        identity = await self._start_once(task)
        for _ in range(STARTS - 1):
            if identity is not None:
                break
            identity = await self._identity(task) or await self._start_once(task, again=True)
        if identity is None and (identity := await self._identity(task)) is None:
            raise SessionLost(self.host, f"{self.host}: the connection broke {STARTS} times while {task.name} started")
        self.ids[task.index] = identity
        await asyncio.gather(self.forget(task), self._mark(task))
        return identity

    async def _start_once(self, task: Task, *, again: bool = False) -> str | None:
        """The engine's id of the started task; None when the connection broke, and nobody knows."""
        try:
            done = await self.link.run(task.start, timeout=START_TIMEOUT, give_up=self.patience)
        except SessionLost:
            return None
        if done.ok:
            words = done.text.split()
            return words[-1] if words else task.name
        if again and (identity := await self._identity(task)) is not None:
            return identity
        raise self._refused(f"can't start {task.name}", done)

    async def _identity(self, task: Task) -> str | None:
        """The engine's id of a task of ours, whatever its state; None when it is not there."""
        return next((found.id for found in await self.found() if found.labels.task == task.index), None)

    async def forget(self, task: Task) -> None:
        """Remove the task's env file."""
        await self._again(("rm", "-f", "--", task.env_file))

    async def find(self) -> frozenset[int]:
        """Learn the engine's ids of an adopted run's tasks; returns the tasks that run now."""
        if self.silent is not None:
            raise HostCommandError(self.host, self.silent.message, hint=self.silent.hint, code=self.silent.code)
        found = await self.found()
        self.ids = {task.labels.task: task.id for task in found}
        return frozenset(task.labels.task for task in found if task.running)

    async def ref(self, task: Task) -> str | None:
        """The engine's id of a task, asked for where it is not known; None when nothing of it is here.

        Never its name: another launch of the run's name may have that by now. Raises HostError.
        """
        if task.index not in self.ids:
            self.ids |= {found.labels.task: found.id for found in await self.found()}
        return self.ids.get(task.index)

    def data_fetch(self) -> HostFetch:
        """What this host fetches of the job's data."""
        return HostFetch(self.host, self.link, self.first, self.plan.mounts, home_of_folder(self.first.run_dir))

    def _refused(self, what: str, done: Completed) -> HostCommandError:
        """The engine's refusal: its class in our words, then its own last line."""
        trouble = classify(done.error_text, done.status)
        said = _last_words(done.error_text)
        own = f"; {self.first.engine} said: {safe(said)[:500]}" if said and said not in trouble.message else ""
        return HostCommandError(
            self.host, f"{what} on {self.host}: {trouble.message}{own}", hint=trouble.hint, code=trouble.code
        )

    async def run_dir(self) -> str:
        """The run's private folder on the host; for an adopted run it follows from its labels."""
        if self._run_dir is None:
            labels = _labels(self.first)
            assert labels is not None
            self._run_dir = self.first.run_dir or run_folder(await home_of(self._again, self.host), labels)
        return self._run_dir

    async def stop(self, tasks: Sequence[Task], grace: float) -> None:
        """SIGTERM, `grace` seconds, then SIGKILL; at once SIGKILL when grace is 0. Raises HostCommandError."""
        refs = {task.index: ref for task in tasks if (ref := await self.ref(task)) is not None}
        if refs:
            await self._stop(refs, grace)
        if tasks and not self.taken and self.first.engine != "process":
            await self._drop_unstarted(tasks)

    async def _stop(self, refs: Mapping[int, str], grace: float) -> None:
        """Stop tasks by the engine's ids: somebody may have renamed a container, and another may have its name."""
        if self.first.engine == "process":
            run_dir = await self.run_dir()
            await asyncio.gather(*(self._stop_process(run_dir, index, grace) for index in refs))
            return
        command = self.first.engine_command
        ids = list(refs.values())
        argv = docker.stop(command, ids, grace) if grace > 0 else docker.kill(command, ids)

        async def end(words: Sequence[str]) -> Completed:
            return await self.link.run(words, timeout=grace + 60, idempotent=True)

        done = await asked(end, argv)
        if not done.ok and not _already_over(done.error_text):
            raise self._refused("can't stop the run", done)

    async def _drop_unstarted(self, tasks: Sequence[Task]) -> None:
        """Remove containers that a killed launch made and never started: nothing ends them, so nobody would."""
        asked = {task.index for task in tasks}
        made = [t.id for t in await self.found() if t.status == "created" and t.labels.task in asked]
        if made:
            await self._again(docker.remove(self.first.engine_command, made))

    async def _stop_process(self, run_dir: str, index: int, grace: float) -> None:
        argv = process.stop(run_dir, index, grace) if grace > 0 else process.kill(run_dir, index)
        done = await self.link.run(argv, timeout=grace + 60, idempotent=True)
        if not done.ok:
            raise HostCommandError(self.host, f"{self.host}: task {index} survives SIGKILL: {done.error_text}")

    async def look(self) -> None:
        """Note which started tasks are not there any more, before anything of the run is removed."""
        self.missing = frozenset(self.ids) - {task.labels.task for task in await self.found()}

    async def remove(self, *, keep: frozenset[int] = frozenset()) -> tuple[str, ...]:
        """Remove the run's containers and folder by label; returns what is left, in words.

        Tasks whose index is in `keep` stay. Safe to repeat.
        """
        found = await self.found()
        doomed = [task for task in found if task.labels.task not in keep]
        if doomed:
            await self._delete(doomed)
        left = [task for task in await self.found() if task.labels.task not in keep]
        if not left:
            await self._unmark()
        if not left and not keep:
            if not await self._remove_folder():
                return (f"{self.host}: folder {await self.run_dir()}/{COPY}, which this login can't remove",)
        elif not left:
            await self.remove_file(f"{await self.run_dir()}/{stop_word.FILE}")  # the kept task is not stopped
        return tuple(f"{self.host}: {task.words}" for task in left)

    async def _remove_folder(self) -> bool:
        """Remove the run's folder, unless another launch, or the run's next attempt begun by somebody else, has it now.

        What a container wrote as root into its copy of the code only a container can remove. False when it stays.
        """
        if not self.taken and await self._others():
            return True
        argv = ("sh", "-c", _REMOVE_FOLDER, "sh", await self.run_dir(), self._token)
        done = await self._again(argv)
        if done.text.strip() == "left" and self._image is not None:
            await self._again(docker.sweep(self.first.engine_command, self._image, await self.run_dir(), COPY))
            done = await self._again(argv)
        if self.leased or not self.taken:  # the host was lost when it was to be given back, or the launch was killed
            await self.free()
        return done.text.strip() != "left"

    async def _delete(self, doomed: Sequence[FoundTask]) -> None:
        if self.first.engine == "process":
            run_dir = await self.run_dir()
            await asyncio.gather(
                *(self._again(process.remove(run_dir, task.labels.task, force=True)) for task in doomed)
            )
        else:
            ids = [task.id for task in doomed]
            if self._image is None:
                told = await asked(self._again, docker.image_of(self.first.engine_command, ids[0]))
                self._image = told.text.strip() or None
            await asked(self._again, docker.remove(self.first.engine_command, ids, force=True))

    async def remove_file(self, path: str) -> None:
        """Remove one file that the run made (the `file` rendezvous)."""
        await self._again(("rm", "-f", "--", path))

    async def stopped_by(self, offset_ms: float | None, task: int | None = None) -> StopWord | None:
        """Who else stopped the run, or this task alone, when and why; None when nobody said so, or only we did.

        `offset_ms` is of the host's clock.
        """
        path = f"{await self.run_dir()}/{stop_word.file_of(task)}"
        done = await self._again(("sh", "-c", stop_word.ASK, "distui-stopped", path))
        word = stop_word.read_word(done.text, offset_ms) if done.ok else None
        return None if word is not None and word.mark == self._sign else word

    async def restarted(self) -> bool:
        """Whether the host was restarted since the run was planned, as far as known.

        A host that does not answer now is not waited for.
        """
        if not self.planned_boot:
            return False
        told = await self.link.run(ASK_BOOT, timeout=10, idempotent=True, give_up=0.0)
        return told.text.strip() not in ("", self.planned_boot)

    async def visit(self, reader: str, act: readers.Act = "look", tasks: Iterable[int] = ()) -> readers.Visit:
        """Look into the run's folder for other readers and the verdict, and mark there that `reader` reads, or not."""
        if not self._token:
            return readers.Visit(ours=False)
        return await readers.visit(self._again, self.host, await self.run_dir(), self._token, reader, act, tasks)

    async def record(self, reader: str, verdict: str) -> str:
        """Let `verdict` be the run's, unless another is written here already; returns the one that is.

        "" when the run's folder is gone, or another launch's by now.
        """
        if not (await self.visit(reader)).ours:
            return ""
        await self._put(f"{await self.run_dir()}/.verdict-{reader}", verdict.encode())
        return (await self.visit(reader, "record")).verdict

    async def say_stopped(self, word: StopWord) -> None:
        """Leave word on the host that somebody stops this run, for whoever follows it. The first word stays, also of
        somebody else's stop just before.
        """
        if not self._word_left:
            await self._say(replace(word, mark=self._sign), None)
            self._word_left = True

    async def say_ended(self, word: StopWord, tasks: Iterable[Task]) -> None:
        """The same of these tasks alone: the run is not stopped."""
        await asyncio.gather(*(self._say(word, task.index) for task in tasks))

    async def _say(self, word: StopWord, task: int | None) -> None:
        path = f"{await self.run_dir()}/{stop_word.file_of(task)}"
        beside = f"{path}-{token_hex(4)}"
        await self._again(("sh", "-c", stop_word.SAY, "distui-say", path, word.text(), beside, str(word.minutes)))


def _labels(task: Task) -> TaskLabels | None:
    return task_from_labels(task.labels)


def _same(found: TaskLabels, ours: TaskLabels | None) -> bool:
    """Whether a task that was found is of the launch and the attempt that planned ours, on the same host."""
    return ours is not None and found.host == ours.host and found.attempt_key == ours.attempt_key


_ADVICE = re.compile(r"(See|Run) '.* --help'")


def _last_words(error: str) -> str:
    """An engine's last line that says something; its client may add where to read about its flags."""
    lines = [line.strip() for line in error.splitlines()]
    return next((line for line in reversed(lines) if line and not _ADVICE.match(line)), "")


def _already_over(words: str) -> bool:
    """Whether the engine refused to stop something because it had ended, or was gone, already."""
    lines = [line for line in words.lower().splitlines() if line.strip()]
    return all("no such container" in line or "is not running" in line or "no container with" in line for line in lines)
