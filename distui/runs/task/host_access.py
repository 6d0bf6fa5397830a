"""One host of a run as everything that is done there reaches it: its connection, its engine, the run's folder."""

from __future__ import annotations

from collections.abc import Sequence

from distui.errors import HostCommandError, SessionLost
from distui.facts.engine import classify
from distui.plan.labels import TaskLabels, task_from_labels
from distui.plan.model import RunPlan, Task
from distui.regex import regex
from distui.runs.hosts.discover import LIST_SECONDS, FoundTask, home_of, list_tasks, run_folder
from distui.runs.hosts.link import HostLink
from distui.runs.lines.text import safe
from distui.session import Completed, Connector

RECONNECT_TIMEOUT = 20.0
"""Seconds a command waits for a lost connection before its host counts as out of reach."""

LAST_LOOK = 5.0
"""Seconds to list its tasks for a host that was given up: its engine may hang."""

REMOVE_SECONDS = 120.0
"""How long one host may take to remove what it has of a run, all in all: code with many files on NFS takes long."""

PUTS = 3
"""How often a file is sent whose connection breaks under it."""


class HostAccess:
    """A host of a run. Every method may raise HostError."""

    def __init__(self, host: str, plan: RunPlan, connector: Connector) -> None:
        self.host = host
        self.plan = plan
        self.link = HostLink(connector, host)
        self.tasks = plan.tasks_on(host)
        self.reconnect_timeout = RECONNECT_TIMEOUT
        """Seconds a command waits for a lost connection; 0 once the host was waited for long enough."""
        self._connector = connector
        self._run_dir: str | None = None

    @property
    def first(self) -> Task:
        """Any task of this host: all share engine and run folder."""
        return self.tasks[0]

    @property
    def labels(self) -> TaskLabels | None:
        """The labels of any task of this host."""
        return task_from_labels(self.first.labels)

    async def connect(self) -> None:
        """Connect once; raises HostError at once when that fails, where the link would go on trying."""
        session = await self._connector.connect(self.host)
        self.link = HostLink(self._connector, self.host, session=session)

    async def run_repeatable(self, argv: Sequence[str], data: bytes = b"", *, timeout: float = 60.0) -> Completed:
        """Run something, with `data` as its input, that may be repeated when the connection breaks under it."""
        return await self.link.run(argv, input=data, timeout=timeout, idempotent=True, give_up=self.reconnect_timeout)

    async def listed(self, argv: Sequence[str]) -> Completed:
        """Ask what there is. A host that was waited for long enough is asked once more, but not waited for."""
        limit = LIST_SECONDS if self.reconnect_timeout else LAST_LOOK
        return await self.link.run(argv, timeout=limit, idempotent=True, give_up=self.reconnect_timeout)

    async def all_tasks(self) -> tuple[FoundTask, ...]:
        """Every task of this run that the host's engine knows of."""
        first = self.first
        return await list_tasks(self.listed, self.host, first.engine, first.engine_command, run=self.plan.run_id)

    async def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """Write a file; sent again when the connection breaks, since it appears whole or not at all."""
        for left in reversed(range(PUTS)):
            session = await self.link.session(give_up=self.reconnect_timeout)
            try:
                await session.put(path, data, mode=mode)
            except SessionLost as exc:
                self.link.lost(session, exc)
                if not left:
                    raise
            else:
                return

    async def run_dir(self) -> str:
        """The run's private folder on the host; for an adopted run it follows from its labels."""
        if self._run_dir is None:
            assert self.labels is not None
            self._run_dir = self.first.run_dir or run_folder(await home_of(self.run_repeatable, self.host), self.labels)
        return self._run_dir

    def refused(self, what: str, done: Completed) -> HostCommandError:
        """The engine's refusal: its class in our words, then its own last line."""
        trouble = classify(done.error_text, done.status, self.first.engine)
        said = _last_words(done.error_text)
        own = f"; {self.first.engine} said: {safe(said)[:500]}" if said and said not in trouble.message else ""
        return HostCommandError(
            self.host, f"{what} on {self.host}: {trouble.message}{own}", hint=trouble.hint, code=trouble.code
        )


_ADVICE = regex(r"(See|Run) '.* --help'")


def _last_words(error: str) -> str:
    """An engine's last line that says something; its client may add where to read about its flags."""
    lines = [line.strip() for line in error.splitlines()]
    return next((line for line in reversed(lines) if line and not _ADVICE.match(line)), "")
