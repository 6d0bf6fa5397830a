"""The owner of a run: launches it, follows it, decides when to stop it, drains it and cleans up.

Printers and the TUI only read its batches of events; they ask for a stop or a detach by method call. A run that is
not ended when its controller goes away lives on: the hosts remember it, and another controller can adopt it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType

from distui.errors import CheckFailed, DistuiError, ExitCode, HostError
from distui.facts.host import HostFacts
from distui.plan.model import RunPlan, Task
from distui.run import elastic
from distui.run.attempts import Again, run_attempts, why_last
from distui.run.build.context import BuildSource
from distui.run.cleanup import clean_up
from distui.run.code.source import CodeSource
from distui.run.events import (
    Event,
    HostChanged,
    LogLines,
    Notice,
    PhaseBegun,
    RankChanged,
    RunEnded,
    RunOpened,
    RunOutcome,
    StopAsked,
    StopReason,
)
from distui.run.host_run import HostRun
from distui.run.launch import launch
from distui.run.launch_steps import LaunchRefused
from distui.run.silence import Silences
from distui.run.state import RunState, apply
from distui.run.store import Journal, StoredRun
from distui.run.watch import Watch
from distui.session import Connector

BATCH_SECONDS = 0.02
NEVER_MET = 10.0
"""Seconds that a stop waits for a host which did not answer from its beginning on."""
QUEUE_EVENTS = 2000
QUEUE_LINES = 100_000
"""Log lines that may wait for a slow reader, some 25 MB; beyond that the hosts wait."""


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


class _Waiting(asyncio.Queue[Event]):
    """Events on their way to the reader: one at full speed holds thousands of lines, so those are counted too."""

    lines = 0

    def full(self) -> bool:
        """Whether the next event has to wait."""
        return self.lines >= QUEUE_LINES or super().full()

    def _put(self, item: Event) -> None:
        self.lines += _lines(item)
        super()._put(item)

    def _get(self) -> Event:
        item = super()._get()
        self.lines -= _lines(item)
        return item


def _lines(event: Event) -> int:
    return len(event.lines) if isinstance(event, LogLines) else 0


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
        keep: bool = False,
        detach: bool = False,
        preflight: bool = True,
        force: bool = False,
        again: Again | None = None,
        code: CodeSource | None = None,
        build: BuildSource | None = None,
        limits: Limits = Limits(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan = plan
        self.state = RunState()
        self.stored = stored
        self.facts = facts or {}
        self.secrets = secrets or {}
        self.adopted = adopted
        self.keep = keep
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
        """Who stops an adopted run, in words: left on the hosts for whoever else follows it."""
        self._queue = _Waiting(QUEUE_EVENTS)
        self._journal: Journal | None = None
        self._driver: asyncio.Task[None] | None = None
        self.began = clock()
        self.deadline = None if limits.run is None else self.began + limits.run
        """When the run is stopped, in our clock."""
        self._connector = connector
        self._prepare()

    def _prepare(self) -> None:
        """What is known of an attempt before it begins."""
        plan = self.plan
        self.attempt_began = self.clock()
        self._silences = Silences(plan)
        self.watch = Watch(
            plan, emit=self.emit, stored=self.stored, facts=self.facts, clock=self.clock, secrets=self.secrets
        )
        self.hosts = {host: HostRun(host, plan, self._connector) for host in plan.hosts}

    async def __aenter__(self) -> RunController:
        """Begin to launch, or to follow."""
        self._driver = asyncio.create_task(self._drive(), name=f"run {self.plan.run_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the hosts. A run that did not end lives on there."""
        assert self._driver is not None
        unread = asyncio.create_task(self._discard())
        if not self._driver.done():
            self.request_detach()
            self._driver.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._driver
        finally:
            unread.cancel()
            await asyncio.gather(*(h.link.close() for h in self.hosts.values()))

    async def _discard(self) -> None:
        """Take what nobody reads any more: a full queue would hold the followers up, which must end by themselves."""
        while True:
            await self._queue.get()

    async def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        """Events as they come, some 20 ms of them at a time; ends after the batch that holds RunEnded."""
        while True:
            batch = [await self._queue.get()]
            if self._queue.empty() and not isinstance(batch[-1], RunEnded):
                await asyncio.sleep(BATCH_SECONDS)
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            yield tuple(batch)
            if isinstance(batch[-1], RunEnded):
                return

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
        """Fold, store and hand on one event; waits while the reader is behind."""
        self.state = apply(self.state, event)
        if self._journal is not None:
            try:
                self._journal.write((event,))
            except OSError as exc:
                self._close_journal()
                await self.notice("error", f"can't write {self.stored.path}: {exc.strerror}; the run goes on")
        await self._queue.put(event)

    async def notice(self, level: str, text: str) -> None:
        """Emit words that change no state; `level` is info, warning or error."""
        assert level in ("info", "warning", "error")
        await self.emit(Notice(self.clock(), level, text))  # type: ignore[arg-type]

    async def _drive(self) -> None:
        """The whole run, from the first event to the last."""
        with contextlib.ExitStack() as held:
            try:
                self._open(held)
            except DistuiError as exc:
                await self._give_up(exc, "unknown" if self.adopted else "launch_failed")
                return
            try:
                await self.emit(await run_attempts(self))
            except DistuiError as exc:
                await self._give_up(exc, "unknown")
            except Exception:
                await self.notice("error", "a bug in distui ended the controller; the run may live on")
                await self.emit(self._ended("unknown", ExitCode.BUG))
                raise

    def _open(self, held: contextlib.ExitStack) -> None:
        """Take the run's lock and begin its journal. Raises UsageError or CheckFailed."""
        try:
            held.enter_context(self.stored.followed())
            self._journal = Journal(self.stored)
        except OSError as exc:
            hint = "free some space there, or set XDG_STATE_HOME to a folder on another disk"
            raise CheckFailed(f"can't write {self.stored.path}: {exc.strerror}", hint=hint) from exc
        held.callback(self._close_journal)

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    async def _give_up(self, error: DistuiError, outcome: RunOutcome) -> None:
        await self.notice("error", error.message + (f" ({error.hint})" if error.hint else ""))
        code = ExitCode.CONTACT_LOST if isinstance(error, HostError) else error.exit_code
        await self.emit(self._ended(outcome, code))

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
        )

    async def attempt(self) -> RunEnded:
        """One attempt from its first event on; returns its end, which may not be the run's."""
        await self.emit(self._opened())
        return await self._run()

    async def _say_unmasked(self) -> None:
        """What can't be hidden in the logs, since its value was given to another distui."""
        if unknown := [name for name in self.plan.secret_names if name not in self.secrets]:
            words = f"the value of secret {', '.join(unknown)} is not set here: where ranks print it, it is not hidden"
            await self.notice("warning", words)

    async def renew(self, plan: RunPlan) -> None:
        """Let go of the attempt that has ended and get ready for the next."""
        await asyncio.gather(*(h.link.close() for h in self.hosts.values()))
        self.plan = plan
        self._prepare()

    async def _run(self) -> RunEnded:
        if not self.adopted:
            try:
                await launch(self)
            except LaunchRefused as exc:
                return await self._refused(exc)
        else:
            await self._say_unmasked()
            await asyncio.gather(*(self._find(host) for host in self.hosts.values()))
        if self.detach or self.requests.detach:
            return self._ended("detached", ExitCode.OK)
        if self.adopted and self.requests.stop is not None:
            self.watch.begin_stop(self.clock())  # what an earlier stop removed did not disappear
        await self.emit(PhaseBegun(self.clock(), "follow"))
        async with self.watch.following(self.hosts, adopted=self.adopted):
            await self._supervise()
        if self.requests.detach and not self.watch.settled:
            return self._ended("detached", ExitCode.OK)
        return await self._finish()

    async def _find(self, host: HostRun) -> None:
        """Meet an adopted run's tasks on one host; a host out of reach is followed once it is back."""
        try:
            await host.connect()
            running = await host.find()
        except HostError as exc:
            await self.watch.unmet(host.host, exc.message)
        else:
            await self.emit(HostChanged(self.clock(), host.host, "up"))
            for task in host.tasks:
                for rank in task.ranks if task.index in running else ():
                    await self.emit(RankChanged(self.clock(), rank, host.host, "running"))

    async def _refused(self, refusal: LaunchRefused) -> RunEnded:
        for text in refusal.reasons:
            await self.notice("error", text)
        outcome: RunOutcome = (
            "stopped" if refusal.exit_code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED) else "launch_failed"
        )
        if outcome == "launch_failed" and self.state.past:  # the run did run, and failed
            ended = self._ended("failed", ExitCode.RANK_FAILED, leftovers=refusal.leftovers)
            return replace(ended, failure=self.state.past[-1].failure)
        return self._ended(outcome, refusal.exit_code, leftovers=refusal.leftovers)

    async def _supervise(self) -> None:
        """Until every task is read to its end, a detach is asked for, or lost hosts are given up."""
        stops: list[asyncio.Task[None]] = []
        try:
            await self._until_over(stops)
        finally:
            for task in stops:
                task.cancel()
            await asyncio.gather(*stops, return_exceptions=True)
        _raise_bugs(stops)

    async def _until_over(self, stops: list[asyncio.Task[None]]) -> None:
        """Wait, and begin the stops that are asked for; they go on in `stops`. Raises what made one fail."""
        while not (self.watch.settled or self.watch.broken or self.requests.detach):
            if self.watch.lost_longer_than(self._patience()):
                for host in self.watch.lost_hosts:
                    self.hosts[host].patience = 0.0
                break
            if self.deadline is not None and self.clock() >= self.deadline and self.watch.stop_began is None:
                self.request_stop("timeout", exit=ExitCode.TIMEOUT)
            if self.requests.stop is None:
                self._stop_by_itself()
            if self.requests.changed.is_set() and self.requests.stop is not None:
                self.requests.changed.clear()
                stops.append(asyncio.create_task(self._stop(self.requests.stop, self.requests.grace)))
            await self._wait_for_change()
            if self.watch.stop_began is None:
                for silence in self._silences.news(self.state, self.clock()):
                    await self.emit(silence)
            _raise_bugs(stops)

    def _stop_by_itself(self) -> None:
        """Ask for the stops that the plan asks for: at a failure, and once nothing is waited for any more."""
        if self.watch.over_limit:
            if self.watch.live_tasks():
                self.request_stop("max_duration", exit=ExitCode.TIMEOUT)
        elif self.watch.failed and self.plan.on_fail == "stop":
            self.request_stop("failure", exit=ExitCode.RANK_FAILED)
        elif self.watch.done_at is not None and self.watch.live_tasks():
            self.request_stop("done", exit=ExitCode.OK)

    def _patience(self) -> float:
        """How long a lost host is waited for: less once the run is being stopped anyway."""
        if self.watch.done_without:
            return min(self.limits.lost, elastic.WAIT_FOR_LOST)
        if self.watch.stop_began is None:
            return self.limits.lost
        if self.watch.only_unmet:  # a stop from elsewhere is pending there, and is said to be
            return min(self.limits.lost, NEVER_MET)
        return min(self.limits.lost, self.requests.grace + 30)

    async def _wait_for_change(self) -> None:
        waits = [asyncio.create_task(e.wait()) for e in (self.watch.changed, self.requests.changed)]
        try:
            await asyncio.wait(waits, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self.watch.changed.clear()

    async def _stop(self, reason: StopReason, grace: float) -> None:
        """Stop what still lives, on all hosts at once."""
        if reason == "done" and self.watch.done_at is not None:
            self.watch.begin_end(self.watch.done_at)
        self.watch.begin_stop(self.clock())
        await self.emit(StopAsked(self.clock(), reason, grace))
        live = self.watch.live_tasks()
        results = await asyncio.gather(
            *(self._stop_on(h, [t for t in h.tasks if t.index in live], grace) for h in self.hosts.values()),
            return_exceptions=True,
        )
        for host, result in zip(self.hosts, results, strict=True):
            if isinstance(result, DistuiError):
                await self.emit(Notice(self.clock(), "warning", f"can't stop: {result.message}", host))
            elif isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    async def _stop_on(self, host: HostRun, tasks: list[Task], grace: float) -> None:
        if self.adopted and self.signs and tasks:
            with contextlib.suppress(DistuiError):
                await host.say_stopped(self.signs)
        await host.stop(tasks, grace)

    async def _finish(self) -> RunEnded:
        """Everything is read: clean up the hosts and give the verdict."""
        stopped_by = "" if self.requests.stop else await self.watch.stopped_elsewhere()
        retried = (
            self.watch.failed and self.watch.judged() != ExitCode.OK and why_last(self, self.watch.failure()) is None
        )
        leftovers = await clean_up(self, keep=self.keep and not retried)
        self.watch.missed(index for host in self.hosts.values() for index in host.missing)
        failure = self.watch.failure() if self.watch.failed else None
        await self.watch.announce(failure)
        if failure is not None and (words := self.watch.uncertain()):
            await self.notice("warning", words)
        if missing := self._unfound():
            text = (
                f"{missing} of the run's tasks were not found: their hosts did not answer, or are not in the inventory"
            )
            await self.notice("warning", text)
        outcome, code = self._outcome(failed=failure is not None, stopped_by=stopped_by)
        return self._ended(outcome, code, leftovers=leftovers)

    def _unfound(self) -> int:
        """Tasks of an adopted run that no host which answered knows of, by the number its labels give."""
        told = self.plan.tasks[0].labels.get("distui.tasks", "")
        return max(0, int(told) - len(self.plan.tasks)) if told.isdigit() else 0

    def _outcome(self, *, failed: bool, stopped_by: str) -> tuple[RunOutcome, int]:
        if self.watch.unknown_tasks() or self._unfound():
            return "unknown", ExitCode.CONTACT_LOST
        if self.watch.over_limit:
            return "stopped", ExitCode.TIMEOUT
        if (code := self.watch.judged()) is not None:
            return ("failed", code) if code else ("succeeded", ExitCode.OK)
        if self.requests.stop in ("user", "timeout"):
            if self.watch.all_succeeded():
                return "succeeded", ExitCode.OK
            return "stopped", self.requests.exit
        if stopped_by and not failed:
            return "stopped", ExitCode.TERMINATED
        failed = failed or self.requests.stop == "failure"
        return ("failed", ExitCode.RANK_FAILED) if failed else ("succeeded", ExitCode.OK)

    def _ended(self, outcome: RunOutcome, code: int, *, leftovers: tuple[str, ...] = ()) -> RunEnded:
        return RunEnded(
            at=self.clock(),
            outcome=outcome,
            exit=int(code),
            failure=self.state.failure,
            log_dir="" if outcome == "launch_failed" else str(self.stored.log_dir),
            leftovers=leftovers,
            took=self.clock() - self.began,
            progress=self.state.progress,
            attempt=self.plan.attempt,
            attempts=self.plan.attempts,
        )


def _raise_bugs(stops: Iterable[asyncio.Task[None]]) -> None:
    """Raise what made a stop fail: hosts' errors are told by the stop itself, so this is a bug."""
    for task in stops:
        if task.done() and not task.cancelled():
            task.result()
