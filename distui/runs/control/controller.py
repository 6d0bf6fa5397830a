"""The owner of a run: launches it, follows it, decides when to stop it, drains it and cleans up.

Printers and the TUI only read its batches of events; they ask for a stop or a detach by method call. A run that is
not ended when its controller goes away lives on: the hosts remember it, and another controller can adopt it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from types import TracebackType

from distui.errors import DistuiError, ExitCode, HostCommandError, HostError, UsageError
from distui.facts.host import HostFacts
from distui.plan.model import RunPlan
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.run_context import RunContext
from distui.runs.attempt.steps import DEFAULTS, LaunchOptions, LaunchRefused, finished, outlast
from distui.runs.control.supervise import STOP_CAUSES, supervise
from distui.runs.ending.ask_ranks import ranks_seen
from distui.runs.ending.conclude import recall
from distui.runs.ending.finish import ended, finish, left, refused
from distui.runs.ending.looked_on import looked_on
from distui.runs.ending.next_attempt import next_attempt
from distui.runs.ending.visits import leave_early, marked_early, reading
from distui.runs.launch.launch import launch, without_taken_ports
from distui.runs.launch.leases import PLANS, PortsTaken
from distui.runs.lines.events import (
    Event,
    HostChanged,
    PhaseBegun,
    RankChanged,
    RunEnded,
    RunOpened,
    RunOutcome,
    StopReason,
)
from distui.runs.lines.explanation import Explanation
from distui.runs.state.reducer import RunState
from distui.runs.store.end_record import EndRecord, cut_off_here, started_here
from distui.runs.store.masking import Mask
from distui.runs.store.runs import AlreadyFollowed, StoredRun, cannot_write
from distui.runs.store.why_records import WhyRecord, keep
from distui.runs.task.host_run import HostRun
from distui.runs.verdict.evidence import Stop
from distui.runs.watch.tracker import RunTracker
from distui.spec.hosts.names import fold_texts


class RunController:
    """Runs one plan, or follows one that is already running (`adopted`).

    Use as an async context manager and read `batches()` to the end. Reading slowly slows the hosts' log streams
    down (back-pressure), holds no stop up and loses nothing.
    """

    def __init__(
        self,
        plan: RunPlan,
        context: RunContext,
        *,
        facts: Mapping[str, HostFacts] | None = None,
        options: LaunchOptions = DEFAULTS,
        found: frozenset[int] = frozenset(),
    ) -> None:
        """`plan` is that of the first attempt, or of the one that runs; `found` are tasks that the hosts had when an
        adopted run was looked for.
        """
        self._run = context
        self._options = options
        self._found = found
        self.attempt = Attempt(self._run, plan, facts or {})
        """The newest attempt."""
        for host, trouble in context.unreachable.items():
            if host in self.hosts and trouble.code == "command_timeout":
                self.hosts[host].silent = trouble
        self._lock = contextlib.ExitStack()
        """The run's lock, while it is in our hands."""
        self._no_lock: OSError | UsageError | None = None
        self._driver: asyncio.Task[None] | None = None
        self._starting = not context.adopted
        """Whether an attempt's tasks are not all started, and are to be."""
        self.undone = False
        """Whether it was left before its start was over, which was undone then: it never ran."""
        self._unmasked_said = False

    @property
    def plan(self) -> RunPlan:
        """The plan of the newest attempt."""
        return self.attempt.plan

    @property
    def state(self) -> RunState:
        """What the run's events add up to so far."""
        return self._run.events.state

    @property
    def stored(self) -> StoredRun:
        """The run's folder on this machine."""
        return self._run.stored

    @property
    def mask(self) -> Mask:
        """Hides values of the run's secrets."""
        return self._run.mask

    @property
    def hosts(self) -> Mapping[str, HostRun]:
        """The hosts of the newest attempt."""
        return self.attempt.hosts

    @property
    def tracker(self) -> RunTracker:
        """What is known of the newest attempt."""
        return self.attempt.tracker

    @property
    def recorded(self) -> EndRecord | None:
        """How the newest attempt ended, once that is recorded."""
        return self.attempt.recorded

    async def __aenter__(self) -> RunController:
        """Begin to launch, or to follow. Raises AlreadyFollowed when another process of this machine does."""
        try:
            self._lock.enter_context(self.stored.followed())
        except OSError as exc:
            self._no_lock = exc
        except UsageError as exc:
            if self._run.adopted or isinstance(exc, AlreadyFollowed):
                raise
            self._no_lock = exc  # a start that is refused, which leaves its name free
        self._driver = asyncio.create_task(self._drive(), name=f"run {self.plan.run_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the hosts. A run that did not end lives on there, but a start that is not over is undone, as by a
        stop: `state.ended` says then what could not be removed. Who is cancelled meanwhile is cancelled after that.
        """
        assert self._driver is not None
        unread = asyncio.create_task(self._run.events.discard())
        left_starting = self._starting and not self._driver.done()
        if left_starting:
            self._undo_start()
        elif not self._driver.done():
            self.request_detach()
            self._driver.cancel()
        try:
            await outlast(self._driver)
            if not self._driver.cancelled():
                self._driver.result()  # raises a bug
        finally:
            self.undone = left_starting and self._starting and self.plan.attempt == 1
            self._lock.close()  # one that was cancelled before its first step holds it still
            unread.cancel()
            await finished(self.attempt.close())

    def _undo_start(self) -> None:
        """Ask a start to stop, where nobody has: whoever only asked to leave it alone does not wait for its end."""
        requests = self._run.requests
        if requests.stop is None:
            requests.detach = False
            self.request_stop("user")

    async def why(self) -> Explanation:
        """Ask the ranks of the newest attempt where they are, and keep what they tell; they go on as they are."""
        seen = await ranks_seen(self.attempt)
        record = self.mask.event(WhyRecord(self.attempt.clock(), "user", seen.explanation, seen.calls))
        keep(self.stored, record)
        return record.found

    def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """See `Emitter.batches`."""
        return self._run.events.batches()

    def request_stop(
        self, reason: StopReason, *, grace: float | None = None, exit: ExitCode = ExitCode.INTERRUPTED
    ) -> None:
        """See `Requests.ask_stop`."""
        self._run.requests.ask_stop(reason, grace=grace, exit=exit)

    def request_detach(self) -> None:
        """Leave the run alone; it lives on."""
        self._run.requests.ask_detach()

    async def _drive(self) -> None:
        """The whole run, from the first event to the last."""
        with self._lock:
            try:
                if self._no_lock is not None:
                    why = self._no_lock
                    raise why if isinstance(why, UsageError) else cannot_write(self.stored.path, why)
                with self._run.events.writing():
                    await self._write_down()
            except DistuiError as exc:
                await self._give_up(exc, "unknown" if self._run.adopted else "launch_failed")

    async def _write_down(self) -> None:
        """The run while its events are written here."""
        try:
            await self._run.events.emit(await self._attempts())
        except DistuiError as exc:
            await self._give_up(exc, "unknown")
        except Exception:
            await self.attempt.notice("error", "a bug in distui ended the controller; the run may still be running")
            await self.attempt.emit(ended(self.attempt, "unknown", ExitCode.BUG))
            raise

    async def _attempts(self) -> RunEnded:
        """One attempt after the other, until one does not fail or none is left."""
        while True:
            self._run.events.measure(self.plan)
            await self.attempt.emit(self._opened())
            await self._say_unmasked()
            following = await next_attempt(self.attempt, await self._one_attempt())
            if isinstance(following, RunEnded):
                return following
            self.attempt, self._found = following, frozenset()

    async def _give_up(self, error: DistuiError, outcome: RunOutcome) -> None:
        await self.attempt.notice("error", error.message + (f" ({error.hint})" if error.hint else ""))
        code = ExitCode.CONTACT_LOST if isinstance(error, HostError) else error.exit_code
        await self.attempt.emit(ended(self.attempt, outcome, code))

    def _opened(self) -> RunOpened:
        run, plan = self._run, self.plan
        return RunOpened(
            at=run.clock(),
            run=plan.run_id,
            job=plan.job,
            launcher=plan.launcher,
            image=plan.image,
            ranks={rank: task.host for task in plan.tasks for rank in task.ranks},
            tasks={task.index: task.ranks for task in plan.tasks},
            attempt=plan.attempt,
            attempts=plan.attempts,
            adopted=run.adopted,
            log_dir="" if run.views else str(run.stored.log_dir),
            names=plan.rank_names,
            began=run.began if run.adopted else None,
            lines=self.attempt.watch.lines_before() if run.adopted else {},
        )

    async def _say_unmasked(self) -> None:
        """What can't be hidden in the logs: its value was given to another distui, or is too short. Once for a run."""
        if self._unmasked_said:
            return
        self._unmasked_said = True
        for words in await asyncio.to_thread(lambda: self.mask.warnings):
            await self.attempt.notice("warning", words)

    async def _say_unread(self) -> None:
        """Progress that a job has a regex for, which only the machine that started the run is believed."""
        label = self.plan.own_labels
        if self.plan.progress is None and label is not None and label.progress:
            message = "progress is not shown here: its regex counts only where the run was started"
            await self.attempt.notice("info", message)

    async def _one_attempt(self) -> RunEnded:
        """Launch or find the attempt's tasks, follow them to their end, or to a detach, and clean up."""
        requests = self._run.requests
        if self._run.adopted:
            try:
                await self._find_all()
            except BaseException:  # an app that is closed meanwhile, say: nobody waits for the run any more
                await leave_early(self.attempt)
                raise
        else:
            self._starting = True
            try:
                await self._launch()
            except LaunchRefused as exc:
                return await self._refused(exc)
            self._starting = False
        attempt = self.attempt
        if self._options.detach or requests.detach:
            await leave_early(attempt)
            return left(attempt)
        if self._run.adopted and requests.stop is not None:
            # what an earlier stop removed did not disappear
            attempt.tracker.stopped(Stop(attempt.clock(), STOP_CAUSES[requests.stop], exit=int(requests.exit)))
        await attempt.emit(PhaseBegun(attempt.clock(), "follow"))
        following = attempt.watch.following(attempt.hosts, adopted=self._run.adopted)
        async with requests.watching(self.stored), reading(attempt), following:
            await supervise(attempt)
        if requests.detach and not attempt.tracker.settled:
            return left(attempt)
        return await (looked_on(attempt) if self._run.views else finish(attempt))

    async def _launch(self) -> None:
        """A port that the plan chose and that another run has by now is no reason: it is planned again without it."""
        taken: dict[str, set[int]] = {}
        async with self._run.requests.watching(self.stored):
            for _ in range(PLANS - 1):
                try:
                    await launch(self.attempt, self._options)
                    return
                except PortsTaken as refusal:
                    self.attempt = await without_taken_ports(self.attempt, refusal, taken)
            await launch(self.attempt, self._options)

    async def _find_all(self) -> None:
        """Find an adopted run's tasks and what is recorded of its end."""
        attempt, requests = self.attempt, self._run.requests
        await self._say_unread()
        started = started_here(self.stored) | self._found
        cut_off = cut_off_here(self.stored, attempt.tracker.tracks) - self._found
        running = await asyncio.gather(*(self._find(host, started, cut_off) for host in attempt.hosts.values()))
        over = not any(running) and not attempt.tracker.unmet
        if over and requests.stop == "user":  # it stops nothing, and is not why the run ended: maybe an earlier one is
            requests.withdraw_stop()
        await recall(attempt)
        if attempt.recorded is not None and any(running) and requests.stop is None:
            self.request_stop("done", exit=ExitCode.OK)  # on a host that was out of reach when the run ended

    async def _find(self, host: HostRun, started: frozenset[int], cut_off: frozenset[int]) -> bool:
        """Meet an adopted run's tasks on one host; a host out of reach is followed once it is back.

        `started` were started as far as is known, `cut_off` were not. Whether any of them runs.
        """
        attempt = self.attempt
        try:
            await host.connect()
            async with marked_early(attempt, host):
                running = await host.find()
        except HostError as exc:
            engine = isinstance(exc, HostCommandError) and host.first.engine == "docker"
            await attempt.watch.hosts.unmet(host.host, exc.message, engine=engine)
            return False
        await attempt.emit(HostChanged(attempt.clock(), host.host, "up"))
        for task in host.tasks:
            track, there = attempt.tracker.tracks[task.index], task.index in host.ids
            track.unseen, track.cut_off = not there and task.index in started, not there and task.index in cut_off
            for rank in task.ranks if task.index in running else ():
                await attempt.emit(RankChanged(attempt.clock(), rank, host.host, "running"))
        return bool(running)

    async def _refused(self, refusal: LaunchRefused) -> RunEnded:
        for text in fold_texts(refusal.reasons, self.attempt.plan.hosts):
            await self.attempt.notice("error", text)
        return refused(self.attempt, refusal)
