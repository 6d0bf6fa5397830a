"""The owner of a run: launches it, follows it, decides when to stop it, drains it and cleans up.

Printers and the TUI only read its batches of events; they ask for a stop or a detach by method call. A run that is
not ended when its controller goes away lives on: the hosts remember it, and another controller can adopt it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from distui.errors import CheckFailed, DistuiError, ExitCode, HostCommandError, HostError
from distui.facts.host import HostFacts
from distui.plan.labels import task_from_labels
from distui.plan.model import RunPlan
from distui.run.asked import heeding
from distui.run.attempts import run_attempts
from distui.run.build.context import BuildSource
from distui.run.code.source import CodeSource
from distui.run.conclude import reading, recall
from distui.run.end_record import EndRecord, started_here
from distui.run.ending import ended, finish, left, refused
from distui.run.events import (
    Event,
    HostChanged,
    Notice,
    PhaseBegun,
    RankChanged,
    RunEnded,
    RunOpened,
    RunOutcome,
    StopReason,
)
from distui.run.folder import token_of
from distui.run.host_run import HostRun
from distui.run.journal import Journal
from distui.run.launch import launch
from distui.run.launch_steps import LaunchRefused
from distui.run.masking import Mask
from distui.run.outbox import Outbox
from distui.run.readers import reader_id
from distui.run.replan import Again, NextAttempt
from distui.run.silence import Silences
from distui.run.state import RunState, apply
from distui.run.store import StoredRun
from distui.run.supervise import STOP_CAUSES, supervise
from distui.run.verdict.evidence import Stop
from distui.run.verdict.network import NetworkFound
from distui.run.watch import Watch
from distui.session import Connector


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds."""

    run: float | None = None
    """`--timeout`: the run is stopped after this long."""
    lost: float = 600.0
    """A host that stays unreachable this long is given up: the run ends with its state unknown."""


@dataclass(slots=True)
class _Requests:
    """What was asked of the controller from outside."""

    stop: StopReason | None = None
    grace: float = 0.0
    exit: ExitCode = ExitCode.INTERRUPTED
    detach: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class RunController:
    """Runs one plan, or follows one that is already running (`adopted`).

    Use as an async context manager and read `batches()` to the end. Reading slowly slows the hosts' log streams
    down (back-pressure) and loses nothing.
    """

    def __init__(
        self,
        plan: RunPlan,
        *,
        connector: Connector,
        stored: StoredRun,
        facts: Mapping[str, HostFacts] | None = None,
        secrets: Mapping[str, str] | None = None,
        adopted: bool = False,
        keep: bool | None = None,
        detach: bool = False,
        preflight: bool = True,
        force: bool = False,
        again: Again | None = None,
        code: CodeSource | None = None,
        build: BuildSource | None = None,
        limits: Limits = Limits(),
        began: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan = plan
        self.state = RunState()
        self.stored = stored
        self.facts = facts or {}
        self.secrets = secrets or {}
        self.mask = Mask(self.secrets, plan.secret_names)
        self.adopted = adopted
        self.keep = _asked_to_keep(plan) if keep is None else keep
        """Whether ended containers stay: as it was asked for when the run was started, where nothing else is said."""
        self.removes_all = keep is False
        """Whether nothing is spared that somebody else may want."""
        self.detach = detach
        self.preflight = preflight
        self.force = force
        """Whether GPUs that another run uses are shared."""
        self.again = again
        self.code = code
        """What `plan.code` stands for; None for a run without code, and for one that runs already."""
        self.build = build
        """What `plan.build` stands for, likewise."""
        self.limits = limits
        self.clock = clock
        self.requests = _Requests()
        self.signs = ""
        """Who stops the run from here where that is not its owner, in words: left on the hosts for others."""
        self._outbox = Outbox()
        self.met: frozenset[int] = frozenset()
        """Tasks that the hosts had when an adopted run was looked for."""
        self._started: frozenset[int] = frozenset()
        """Tasks that were started, as it is recorded here, of a run that is taken up."""
        self._held = contextlib.ExitStack()
        """The run's lock and its journal, while it is in our hands."""
        self._no_lock: OSError | None = None
        self._journal: Journal | None = None
        self._unwritten = False
        """Whether events wait for room on the disk here."""
        self._driver: asyncio.Task[None] | None = None
        self.reader = reader_id(stored)
        """What tells this follower from others of the run, on its hosts."""
        self.began = clock() if began is None else began
        """When the run began, in our clock."""
        self.deadline = None if limits.run is None else clock() + limits.run
        """When the run is stopped, in our clock."""
        self._connector = connector
        self._prepare()

    def _prepare(self) -> None:
        """What is known of an attempt before it begins."""
        plan = self.plan
        self.attempt_began = self.clock()
        self.silences = Silences(plan)
        self.network = NetworkFound()
        """What was found of the network when ranks were silent."""
        self.watch = Watch(plan, emit=self.emit, stored=self.stored, facts=self.facts, clock=self.clock, mask=self.mask)
        self.known = self.watch.known
        self.recorded: EndRecord | None = None
        """How the attempt ended, once that is recorded: from then on nothing changes it."""
        self.token = token_of(task_from_labels(plan.tasks[0].labels))
        self.hosts = {host: HostRun(host, plan, self._connector) for host in plan.hosts}

    async def __aenter__(self) -> RunController:
        """Begin to launch, or to follow. Raises AlreadyFollowed when another process of this machine does."""
        try:
            self._held.enter_context(self.stored.followed())
        except OSError as exc:
            self._no_lock = exc
        self._driver = asyncio.create_task(self._drive(), name=f"run {self.plan.run_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the hosts. A run that did not end lives on there."""
        assert self._driver is not None
        unread = asyncio.create_task(self._outbox.discard())
        if not self._driver.done():
            self.request_detach()
            self._driver.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._driver
        finally:
            unread.cancel()
            await asyncio.gather(*(h.link.close() for h in self.hosts.values()))

    def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """Events as they come, some 20 ms of them at a time; ends after the batch that holds RunEnded."""
        return self._outbox.batches()

    def request_stop(
        self, reason: StopReason, *, grace: float | None = None, exit: ExitCode = ExitCode.INTERRUPTED
    ) -> None:
        """Ask for a stop: SIGTERM and the plan's grace, or SIGKILL at once with `grace=0`. May be asked again."""
        self.requests.stop = reason
        self.requests.grace = self.plan.stop_grace if grace is None else grace
        self.requests.exit = exit
        self.requests.changed.set()

    def request_detach(self) -> None:
        """Leave the run alone; it lives on."""
        self.requests.detach = True
        self.requests.changed.set()

    async def emit(self, event: Event) -> None:
        """Fold, store and hand on one event, without values of secrets; waits while the reader is behind."""
        event = self.mask.event(event)
        self.state = apply(self.state, event)
        news = self._store(self._journal, event) if self._journal is not None else None
        await self._outbox.put(event)
        if news is not None and not isinstance(event, RunEnded):
            await self.emit(news)

    def _store(self, journal: Journal, event: Event) -> Notice | None:
        """Write it to the journal; what is to be said when that can't be done, and when it can be again."""
        before = self._unwritten
        try:
            journal.write((event,))
        except OSError as exc:
            self._unwritten = True
            words = f"can't write {self.stored.path}: {exc.strerror}; the run goes on"
            return None if before else Notice(self.clock(), "error", words)
        self._unwritten = False
        missing = "events and figures" if journal.lost else "only figures"
        words = f"{self.stored.path} is written on; {missing} of that time are missing there"
        return Notice(self.clock(), "info", words) if before else None

    async def notice(self, level: str, text: str) -> None:
        """Emit words that change no state; `level` is info, warning or error."""
        assert level in ("info", "warning", "error")
        await self.emit(Notice(self.clock(), level, text))  # type: ignore[arg-type]

    async def _drive(self) -> None:
        """The whole run, from the first event to the last."""
        with self._held:
            try:
                self._open()
            except DistuiError as exc:
                await self._give_up(exc, "unknown" if self.adopted else "launch_failed")
                return
            try:
                await self.emit(await run_attempts(self))
            except DistuiError as exc:
                await self._give_up(exc, "unknown")
            except Exception:
                await self.notice("error", "a bug in distui ended the controller; the run may live on")
                await self.emit(ended(self, "unknown", ExitCode.BUG))
                raise

    def _open(self) -> None:
        """Begin the run's journal. Raises CheckFailed, also when its lock could not be written."""
        try:
            if self._no_lock is not None:
                raise self._no_lock
            self._journal = Journal(self.stored)
        except OSError as exc:
            hint = "free some space there, or set XDG_STATE_HOME to a folder on another disk"
            raise CheckFailed(f"can't write {self.stored.path}: {exc.strerror}", hint=hint) from exc
        self._held.callback(self._close_journal)

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    async def _give_up(self, error: DistuiError, outcome: RunOutcome) -> None:
        await self.notice("error", error.message + (f" ({error.hint})" if error.hint else ""))
        code = ExitCode.CONTACT_LOST if isinstance(error, HostError) else error.exit_code
        await self.emit(ended(self, outcome, code))

    def _opened(self) -> RunOpened:
        plan = self.plan
        return RunOpened(
            at=self.clock(),
            run=plan.run_id,
            job=plan.job,
            launcher=plan.launcher,
            image=plan.image,
            ranks={rank: task.host for task in plan.tasks for rank in task.ranks},
            tasks={task.index: task.ranks for task in plan.tasks},
            attempt=plan.attempt,
            attempts=plan.attempts,
            adopted=self.adopted,
            log_dir=str(self.stored.log_dir),
            names=plan.rank_names,
            began=self.began if self.adopted else None,
            lines=self.watch.lines_before() if self.adopted else {},
        )

    async def attempt(self) -> RunEnded:
        """One attempt from its first event on; returns its end, which may not be the run's."""
        await self.emit(self._opened())
        return await self._run()

    async def _say_unmasked(self) -> None:
        """What can't be hidden in the logs: its value was given to another distui, or is too short."""
        for words in self.mask.warnings:
            await self.notice("warning", words)

    async def _say_unread(self) -> None:
        """Progress that a job has a regex for, which only the machine that started the run is believed."""
        label = task_from_labels(self.plan.tasks[0].labels)
        if self.plan.progress is None and label is not None and label.progress:
            words = "progress is not shown here: its regex counts only where the run was started"
            await self.notice("info", words)

    async def renew(self, following: NextAttempt) -> None:
        """Let go of the attempt that has ended and get ready for the next."""
        await asyncio.gather(*(h.link.close() for h in self.hosts.values()))
        self.plan, self.facts = following.plan, following.facts
        self._prepare()

    async def _run(self) -> RunEnded:
        await self._say_unmasked()
        if not self.adopted:
            try:
                await launch(self)
            except LaunchRefused as exc:
                return await self._refused(exc)
        else:
            await self._say_unread()
            self._started = started_here(self.stored) | self.met
            running = await asyncio.gather(*(self._find(host) for host in self.hosts.values()))
            await recall(self)
            if not any(running) and not self.known.unmet:
                self._nothing_to_stop()
            elif self.recorded is not None and any(running) and self.requests.stop is None:
                self.request_stop("done", exit=ExitCode.OK)  # on a host that was out of reach when the run ended
        if self.detach or self.requests.detach:
            return left(self)
        if self.adopted and self.requests.stop is not None:
            # what an earlier stop removed did not disappear
            self.known.stopped(Stop(self.clock(), STOP_CAUSES[self.requests.stop], exit=int(self.requests.exit)))
        await self.emit(PhaseBegun(self.clock(), "follow"))
        async with heeding(self), reading(self), self.watch.following(self.hosts, adopted=self.adopted):
            await supervise(self)
        if self.requests.detach and not self.known.settled:
            return left(self)
        return await finish(self)

    def _nothing_to_stop(self) -> None:
        """All had ended before a stop was asked for: it stops nothing, and is not why the run ended."""
        if self.requests.stop == "user":
            self.requests.stop = None
            self.requests.changed.clear()

    async def _find(self, host: HostRun) -> bool:
        """Meet an adopted run's tasks on one host; a host out of reach is followed once it is back.

        Whether any of them runs.
        """
        try:
            await host.connect()
            running = await host.find()
        except HostError as exc:
            engine = isinstance(exc, HostCommandError) and host.first.engine == "docker"
            await self.watch.hosts.unmet(host.host, exc.message, engine=engine)
            return False
        await self.emit(HostChanged(self.clock(), host.host, "up"))
        for task in host.tasks:
            self.known.tracks[task.index].unseen = task.index not in host.ids and task.index in self._started
            for rank in task.ranks if task.index in running else ():
                await self.emit(RankChanged(self.clock(), rank, host.host, "running"))
        return bool(running)

    async def _refused(self, refusal: LaunchRefused) -> RunEnded:
        for text in refusal.reasons:
            await self.notice("error", text)
        return refused(self, refusal)


def _asked_to_keep(plan: RunPlan) -> bool:
    labels = task_from_labels(plan.tasks[0].labels)
    return labels is not None and labels.keep
