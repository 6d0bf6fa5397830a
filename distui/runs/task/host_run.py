"""One host's part of a run: its tasks are started, found, stopped and removed there, by argv over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from distui.errors import HostCommandError, SessionLost
from distui.facts.host import Trouble
from distui.plan.command import docker, process
from distui.plan.command.docker_run import sweep, without_labels
from distui.plan.command.env import env_file_text
from distui.plan.command.insight import folder_of
from distui.plan.content.code import COPY, home_of_folder
from distui.plan.labels import TaskLabels, task_from_labels
from distui.plan.model import RunPlan, Task
from distui.runs.code.send import CodeSender
from distui.runs.code.source import CodeSource
from distui.runs.hosts import readers, stop_word
from distui.runs.hosts.asking import run_with_retries
from distui.runs.hosts.claims import folder
from distui.runs.hosts.discover import FoundTask
from distui.runs.hosts.link import ASK_BOOT
from distui.runs.lines.text import safe
from distui.runs.task import hook
from distui.runs.task.fetch import HostFetch
from distui.runs.task.host_access import REMOVE_SECONDS, HostAccess
from distui.runs.task.host_claim import HostClaim
from distui.runs.task.host_image import HostImage
from distui.runs.task.host_notes import HostNotes
from distui.session import Completed, Connector

_REMOVE_FOLDER = (
    folder.TOKEN_IN
    + readers.WAITERS_IN
    + readers.BEGUN_BY_ANOTHER
    + """
for name in launch launched; do
  [ -e "$1/$name" ] && [ "$(token_in "$1/$name")" != "$2" ] || continue
  [ -z "$2" ] && [ "$name" = launched ] || exit 0
done
if [ -n "$3" ] && begun_by_another "$1" "$3"; then echo begins; exit 0; fi
waiters_in "$1"
rm -rf -- "$1" 2>/dev/null; [ ! -d "$1" ] || { echo left; exit 0; }
for old in "${1%/*}"/.replaced-*; do [ ! -d "$old" ] || timeout 20 rm -rf -- "$old" 2>/dev/null; done
rmdir -- "${1%/*}" "${1%/*/*}" "${1%/*/*/*}" 2>/dev/null; :
"""
).strip()
"""A folder is only removed with the token ($2) of the launch that has it: a run that was stopped from elsewhere may
have been started again under its name. Without a token, since a task's labels do not tell it, only a launch under way
keeps its folder. A reader ($3) who waits for the run's next attempt leaves it to whoever begins that, with its mark in
it. Folders above are only removed when empty: on a machine that also runs distui they hold its own runs.
"""

_UNLESS_ANOTHERS = (
    folder.TOKEN_IN
    + """
for name in launch launched; do
  [ -z "$2" ] || [ ! -e "$1/$name" ] || [ "$(token_in "$1/$name")" = "$2" ] || exit 0
done
shift 2
exec "$@"
"""
).strip()
"""A command ($3 ...), unless the folder of the run ($1) is of another launch than that with the token $2 by now.
Without a token, since a task's labels do not tell it, it is run."""

START_TIMEOUT = 120.0

STARTS = 3
"""How often a start is sent whose connection breaks under it."""

STOPPED_AT_ONCE = {"docker": 50, "podman": 7}
"""How many containers an engine's client stops side by side (podman's three times as many as there are CPUs, and one):
it asks those beyond only once the first have ended.
"""


class HostRun(HostAccess):
    """What a run does on one host. Every method may raise HostError; none leaves something half-done unsaid."""

    def __init__(self, host: str, plan: RunPlan, connector: Connector) -> None:
        super().__init__(host, plan, connector)
        self.image = HostImage(self)
        self.claim = HostClaim(self)
        self.notes = HostNotes(self, self.claim)
        self.ids: dict[int, str] = {}
        """Task index -> the engine's id, for tasks that were started."""
        self.waiters: frozenset[str] = frozenset()
        """Who waited for the end of the run when its folder here was removed."""
        self.left_to_starter = False
        """Whether its folder was left here to whoever begins the run's next attempt."""
        self.missing: frozenset[int] = frozenset()
        """Started tasks that were not there any more at the last `look`."""
        self.there: tuple[FoundTask, ...] = ()
        """The tasks that were there then."""
        self.silent: Trouble | None = None
        """Why its engine did not list its tasks a moment ago, for whoever has just waited for that."""
        self._image = self.first.image
        """Of the run's containers; a plan made from labels does not have it."""

    @property
    def planned_boot(self) -> str:
        """The host's boot when the run was planned, by its labels; "" where nobody noted it."""
        labels = task_from_labels(self.first.labels)
        return labels.boot if labels is not None else ""

    async def found(self) -> tuple[FoundTask, ...]:
        """This host's tasks of the run that its engine knows of, whatever their state.

        Two names may lead to one engine (the demo's hosts share this machine's): the other's tasks are not ours.
        Neither are those of another launch with the run's name, or of another attempt.
        """
        ours = {task.index: task_from_labels(task.labels) for task in self.tasks}
        return tuple(
            t for t in await self.all_tasks() if t.labels.task in ours and _same(t.labels, ours[t.labels.task])
        )

    async def _others(self) -> list[FoundTask]:
        """Tasks of the run's launch, or where its token is not known of any of its name, that are still there."""
        ours = self.labels
        tasks = await self.all_tasks()
        if ours is None or not ours.launch:
            return list(tasks)
        return [t for t in tasks if (t.labels.launch, t.labels.owner) == (ours.launch, ours.owner)]

    async def push(self, task: Task, secrets: Mapping[str, str]) -> None:
        """Write the task's env file, 0600 in the run's 0700 folder, and its list of hosts where it asks for one."""
        await self.put(task.env_file, env_file_text(task, secrets, self.image.pythonpath))
        if task.hostfile:
            await self.put(task.hostfile, "".join(f"{line}\n" for line in task.hostfile_lines).encode(), mode=0o644)

    async def push_hook(self) -> None:
        """Put the hook into the run's folder, and make the folders for what ranks open, where they can be asked.

        Raises HostCommandError.
        """
        folders = [task.insight for task in self.tasks if task.insight]
        if folders:
            argv, files = hook.put(await self.run_dir(), folders)
            done = await self.link.run(argv, input=files, idempotent=True, give_up=self.reconnect_timeout)
            if not done.ok:
                raise HostCommandError(self.host, f"{self.host}: can't write the hook: {safe(done.error_text)[:300]}")

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
            identity = await self._identity(task) or await self._start_once(task, repeated=True)
        if identity is None and (identity := await self._identity(task)) is None:
            raise SessionLost(self.host, f"{self.host}: the connection broke {STARTS} times while {task.name} started")
        self.ids[task.index] = identity
        await asyncio.gather(self.forget(task), self.claim.mark(task, identity))
        return identity

    async def _start_once(self, task: Task, *, repeated: bool = False) -> str | None:
        """The engine's id of the started task; None when the connection broke, and nobody knows."""
        try:
            argv = without_labels(task.engine_command, task.start, self._inherited(task))
            done = await self.link.run(argv, timeout=START_TIMEOUT, give_up=self.reconnect_timeout)
        except SessionLost:
            return None
        if done.ok:
            words = done.text.split()
            return words[-1] if words else task.name
        if repeated and (identity := await self._identity(task)) is not None:
            return identity
        raise self.refused(f"can't start {task.name}", done)

    def _inherited(self, task: Task) -> list[str]:
        """Labels that the container would have from its image, which was made of another task's container."""
        return [name for name in self.image.task_labels if name not in task.labels]

    async def _identity(self, task: Task) -> str | None:
        """The engine's id of a task of ours, whatever its state; None when it is not there."""
        return next((found.id for found in await self.found() if found.labels.task == task.index), None)

    async def forget(self, task: Task) -> None:
        """Remove the task's env file."""
        await self.run_repeatable(("rm", "-f", "--", task.env_file))

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

    async def stop(self, tasks: Sequence[Task], grace: float, *, give_up: float | None = None) -> None:
        """SIGTERM, `grace` seconds, then SIGKILL; at once SIGKILL when grace is 0. Raises HostError.

        A connection that breaks is waited for: `give_up` seconds, or None: until whoever watches the host gives it up.
        """
        refs = {task.index: ref for task in tasks if (ref := await self.ref(task)) is not None}
        if refs:
            await self._stop(refs, grace, give_up)
        if tasks and not self.claim.taken and self.first.engine != "process":
            await self._drop_unstarted(tasks)

    async def _stop(self, refs: Mapping[int, str], grace: float, give_up: float | None) -> None:
        """Stop tasks by the engine's ids: somebody may have renamed a container, and another may have its name."""
        if self.first.engine == "process":
            run_dir = await self.run_dir()
            await asyncio.gather(*(self._stop_process(run_dir, index, grace, give_up) for index in refs))
            return
        ids = list(refs.values())
        many = STOPPED_AT_ONCE[self.first.engine] if grace > 0 else len(ids)  # a kill waits for nobody

        async def end(words: Sequence[str]) -> Completed:
            return await self.link.run(words, timeout=grace + 60, idempotent=True, give_up=give_up)

        async def stop(some: Sequence[str]) -> Completed:
            command = self.first.engine_command
            argv = docker.stop(command, some, grace) if grace > 0 else docker.kill(command, some)
            done = await run_with_retries(end, argv)
            if not done.ok and "paused" in done.error_text:  # podman stops none that is; docker lets it go on first
                await end(docker.unpause(command, some))
                done = await run_with_retries(end, argv)
            return done

        for done in await asyncio.gather(*(stop(ids[at : at + many]) for at in range(0, len(ids), many))):
            if not done.ok and not _already_over(done.error_text):
                raise self.refused("can't stop the run", done)

    async def _drop_unstarted(self, tasks: Sequence[Task]) -> None:
        """Remove containers that a killed launch made and never started: nothing ends them, so nobody would."""
        asked = {task.index for task in tasks}
        made = [t.id for t in await self.found() if t.status == "created" and t.labels.task in asked]
        if made:
            await self.run_repeatable(docker.remove(self.first.engine_command, made))

    async def _stop_process(self, run_dir: str, index: int, grace: float, give_up: float | None) -> None:
        argv = process.stop(run_dir, index, grace) if grace > 0 else process.kill(run_dir, index)
        done = await self.link.run(
            self._unless_anothers(run_dir, argv), timeout=grace + 60, idempotent=True, give_up=give_up
        )
        if not done.ok:
            raise HostCommandError(self.host, f"{self.host}: task {index} survives SIGKILL: {done.error_text}")

    async def look(self) -> None:
        """Note which started tasks are not there any more, before anything of the run is removed."""
        self.there = await self.found()
        self.missing = frozenset(self.ids) - {task.labels.task for task in self.there}

    async def remove(self, *, keep: frozenset[int] = frozenset(), awaits_as: str = "") -> tuple[str, ...]:
        """Remove the run's containers and folder by label; returns what is left, in words.

        Tasks whose index is in `keep` stay. The folder stays where somebody is there to begin the next attempt for
        which the reader `awaits_as` waits: that one removes it. Safe to repeat.
        """
        left = await self._remove_tasks(keep)
        if left:
            return tuple(f"{self.host}: {task.words}" for task in left)
        if keep:
            await asyncio.gather(self.claim.unmark(), self._keep_going())
            return ()
        _, removed = await asyncio.gather(self.claim.unmark(), self._remove_folder(awaits_as))
        return () if removed else (f"{self.host}: folder {await self.run_dir()}, which this login can't remove",)

    async def _remove_tasks(self, keep: frozenset[int]) -> list[FoundTask]:
        """Remove them; returns those that are still there.

        Those that the last `look` saw go first, by their ids; then one looks which are there all the same.
        """
        seen, self.there = [task for task in self.there if task.labels.task not in keep], ()
        if seen and self.first.engine != "process":
            await self._delete(seen)
        if left := await self._but_for(keep):
            await self._delete(left)
            left = await self._but_for(keep)
        if self.first.engine == "process":
            await self._kill_without_folder()
        return left

    async def _kill_without_folder(self) -> None:
        """Kill what runs on of processes whose folder somebody removed: nothing lists it, and nothing of it is kept.

        One that has the same place by now, of another launch, is left alone.
        """
        if self.missing and self.claim.token:
            await self._remove_processes(sorted(self.missing))

    async def _remove_processes(self, indices: Iterable[int]) -> None:
        run_dir = await self.run_dir()
        scripts = (process.remove(run_dir, index, force=True) for index in indices)
        await asyncio.gather(*(self.run_repeatable(self._unless_anothers(run_dir, argv)) for argv in scripts))

    def _unless_anothers(self, run_dir: str, argv: Sequence[str]) -> Sequence[str]:
        """A command for a process of ours, which is known by its place alone: the next attempt has the same ones, and
        may have begun since that was listed, or while a connection that broke was waited for.
        """
        return ("sh", "-c", _UNLESS_ANOTHERS, "sh", run_dir, self.claim.token, *argv)

    async def _but_for(self, keep: frozenset[int]) -> list[FoundTask]:
        return [task for task in await self.found() if task.labels.task not in keep]

    async def _keep_going(self) -> None:
        """A task that is kept is not stopped, whatever was asked for before."""
        await self.remove_file(f"{await self.run_dir()}/{stop_word.FILE}")

    async def _remove_folder(self, awaits_as: str = "") -> bool:
        """Remove the run's folder, unless another launch, or the run's next attempt begun by somebody else, has it now.

        Who waits for that attempt leaves the folder to whoever begins it: our mark in it would go with it. What a
        container wrote as root into its copy of the code, or beside its hook, only a container can remove. False when
        it stays.
        """
        if not self.claim.taken and await self._others():
            return True
        argv = ("sh", "-c", _REMOVE_FOLDER, "sh", await self.run_dir(), self.claim.token, awaits_as)
        done = await self.run_repeatable(argv, timeout=REMOVE_SECONDS)
        self.left_to_starter = "begins" in done.text.splitlines()
        if self.left_to_starter:
            return True
        self.waiters |= readers.waiters_of(done.text)
        if _is_left(done) and self._image is not None:
            names = [COPY, *(PurePosixPath(folder_of("", task.index)).name for task in self.tasks)]
            swept = sweep(self.first.engine_command, self._image, await self.run_dir(), names)
            await self.run_repeatable(swept, timeout=REMOVE_SECONDS)
            done = await self.run_repeatable(argv, timeout=REMOVE_SECONDS)
        if (
            self.claim.leased or not self.claim.taken
        ):  # the host was lost when it was to be given back, or the launch was killed
            await self.claim.free()
        return not _is_left(done)

    async def _delete(self, doomed: Sequence[FoundTask]) -> None:
        if self.first.engine == "process":
            await self._remove_processes(task.labels.task for task in doomed)
        else:
            ids = [task.id for task in doomed]
            if self._image is None:
                answer = await run_with_retries(self.run_repeatable, docker.image_of(self.first.engine_command, ids[0]))
                self._image = answer.text.strip() or None
            await run_with_retries(self.run_repeatable, docker.remove(self.first.engine_command, ids, force=True))

    async def remove_file(self, path: str) -> None:
        """Remove one file that the run made (the `file` rendezvous)."""
        await self.run_repeatable(("rm", "-f", "--", path))

    async def restarted(self) -> bool:
        """Whether the host is known to have been restarted since the run was planned.

        A host that does not answer now is not waited for.
        """
        if not self.planned_boot:
            return False
        answer = await self.link.run(ASK_BOOT, timeout=10, idempotent=True, give_up=0.0)
        return answer.text.strip() not in ("", self.planned_boot)

    def code_sender(self, source: CodeSource, progress: Callable[[int], None]) -> CodeSender:
        """What gives this host the run's code."""
        run_dir = self.first.run_dir
        return CodeSender(
            self.link,
            source,
            home=home_of_folder(run_dir),
            run_dir=run_dir,
            contained=self.first.engine != "process",
            give_up=self.reconnect_timeout,
            progress=progress,
        )

    def data_fetch(self) -> HostFetch:
        """What this host fetches of the job's data."""
        home = home_of_folder(self.first.run_dir)
        return HostFetch(self.host, self.link, self.first, self.plan.mounts, home, give_up=self.reconnect_timeout)


def _is_left(removed: Completed) -> bool:
    return "left" in removed.text.splitlines()


def _same(found: TaskLabels, ours: TaskLabels | None) -> bool:
    """Whether a task that was found is of the launch and the attempt that planned ours, on the same host."""
    return ours is not None and found.host == ours.host and found.attempt_key == ours.attempt_key


def _already_over(message: str) -> bool:
    """Whether the engine refused to stop something because it had ended, or was gone, already."""
    lines = [line for line in message.lower().splitlines() if line.strip()]
    return all("no such container" in line or "is not running" in line or "no container with" in line for line in lines)
