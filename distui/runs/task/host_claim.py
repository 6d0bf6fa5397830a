"""What a launch has of one host before and while its tasks run: the run's name and folder, GPUs and ports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial

from distui.amounts import counted
from distui.errors import HostError
from distui.plan.command import docker
from distui.plan.labels import task_from_labels, token_of
from distui.plan.model import Task
from distui.runs.hosts.claims import folder, lease, marks
from distui.runs.hosts.claims.lease import Conflict, Lease, Resource, resources_of, resources_on
from distui.runs.lines.text import safe
from distui.runs.task.host_access import HostAccess


class HostClaim:
    """A launch's claim on one host. Every method may raise HostError."""

    def __init__(self, access: HostAccess) -> None:
        self._at = access
        self.taken = False
        """Whether this launch has the run's folder here: only then may there be tasks that it started."""
        self.leased = False
        """Whether what the run uses here may still be leased for its launch."""
        self._claimed = ""
        """The token of the launch that this is, once it has taken or leased something here."""

    @property
    def resources(self) -> frozenset[Resource]:
        """The GPUs and ports that the run has here."""
        return resources_on(self._at.plan, self._at.host)

    @property
    def token(self) -> str:
        """The token of the launch that the plan is of."""
        return self._claimed or token_of(self._at.labels)

    async def holder(self) -> str:
        """Who already has a run of this name on this host, in words; empty when nobody."""
        found = await self._at.all_tasks()
        if not found:
            return ""
        labels = found[0].labels
        since = f", since {safe(labels.started)}" if labels.started else ""
        tasks = counted(len(found), "task")
        return f"of {labels.owner or '?'}, job {labels.job or '?'}{since}, {tasks}, {found[0].status}"

    async def take(self, claim: folder.Claim) -> str:
        """Take the run's folder here for the launch; returns who has it, in words, and "" when it is taken.

        Raises HostCommandError when it can't be made.
        """
        path = self._at.first.run_dir
        self._claimed = claim.token
        make = partial(folder.take, self._at.run_repeatable, self._at.host, path, claim, engine=self._at.first.engine)
        folder_claim = await make()
        if folder_claim.state == "stale" and not await self._at.all_tasks():
            folder_claim = await make(over=True)
        self.taken = folder_claim.state == "taken"
        return folder_claim.who

    async def holds(self, *, over: bool = False) -> bool:
        """Whether the launch still has the run's folder: a stop from elsewhere takes it away.

        With `over` all tasks have started: from now on they hold the run's name, not the launch.
        """
        return await folder.holds(
            self._at.run_repeatable, self._at.host, await self._at.run_dir(), self._claimed, over=over
        )

    async def lease(self, claim: folder.Claim, resources: Iterable[Resource], *, force: bool = False) -> Lease:
        """Hold these resources of the host while the run is launched."""
        self._claimed, self.leased = claim.token, True
        return await lease.lease(self._at.run_repeatable, claim, resources, force=force)

    async def sharers(self, tell: marks.Tell = str) -> tuple[Conflict, ...]:
        """Who has the run's GPUs and ports here already: tasks that the engine knows of, or that left a mark.

        `tell` is called with why not all marks could be read.
        """
        tasks = await marks.tasks_on(self._at.listed, self._at.host, self._at.first, sweep=True, tell=tell)
        return lease.sharers(tasks, self._at.plan, self.resources)

    async def free(self) -> None:
        """Give the lease back: by its launch's token, so also that of a launch that was killed."""
        if self.resources and self.token:
            await lease.free(self._at.run_repeatable, self.token)
            self.leased = False

    async def mark(self, task: Task, ref: str) -> None:
        """Tell everybody on the host what a task has of it, whose id is `ref`. Not worth a launch that fails."""
        labels = task_from_labels(task.labels)
        if labels is None or not resources_of(labels) or not self.token:
            return
        pid = docker.pid_of(task.engine_command, ref) if task.engine != "process" else ()
        with contextlib.suppress(HostError):
            await marks.leave(self._at.run_repeatable, self.token, task.labels, ref, pid)

    async def unmark(self) -> None:
        """Take back what the run's tasks wrote."""
        if self.resources:
            await marks.remove(self._at.run_repeatable, self.token)
