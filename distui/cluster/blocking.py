"""A whole run in one call, for scripts and notebooks: in a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from os import PathLike
from typing import Any

from distui.cluster.cluster import Cluster
from distui.cluster.runs.run import Run
from distui.cluster.settings import ClusterSettings
from distui.errors import DistuiError, UsageError
from distui.runs.lines.events import Event, RunEnded
from distui.spec.job.read_job import AnyJob
from distui.spec.yaml.problems import shown

_LISTEN_EVERY = 0.2
"""Seconds. Python runs a signal's handler in the main thread once that wakes; the kernel may wake another one."""


def run(
    job: AnyJob,
    inventory: str | PathLike[str] | Sequence[str] = "hosts.yaml",
    *,
    hosts: str | Sequence[str] = (),
    name: str = "",
    keep: bool = False,
    preflight: bool = True,
    force: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
    settings: ClusterSettings | None = None,
) -> RunEnded:
    """Run a job and wait for its end: ask its hosts, plan, start, follow, clean up. Returns how it ended.

    A rank that fails is a result and no error: `result.outcome` is `"succeeded"`, `"failed"`, `"stopped"` or
    `"unknown"` (contact was lost), `result.exit` the exit code that `distui run` has, `result.failure` who failed first
    and why, `result.log_dir` the folder with every rank's log, `result.took` its duration in seconds. A run that was
    not started is an error; only `on_event` sees its last event, with the outcome `"launch_failed"`.

    Works where an event loop runs already, as in a notebook: the run has a thread of its own. `on_event` is called
    there with each event as it comes; what it raises stops the run, and is raised here after that.

    Ctrl-C stops the run on all hosts, a second one kills it, a third one leaves it there; KeyboardInterrupt is raised
    when that is done, and the last event says how it ended. A process that is killed leaves the run alone:
    `distui attach` follows it, `distui stop` ends it.

    Args:
        job: a job file (`job.yaml`, `job.yaml#name`), a job, or its keys as a dict.
        inventory: a hosts.yaml, or names of hosts as a list (`["node[01-04]"]`), which ssh finds by its config.
        hosts: names, ranges and groups that take the place of the job's own hosts.
        name: of the run; `JOB-xxxx` otherwise.
        keep: leave ended containers on the hosts, until `distui stop`.
        preflight: prove that the hosts reach each other before anything starts.
        force: start though somebody else uses the same GPUs.
        on_event: see above.
        settings: see ClusterSettings; those of the command line otherwise.

    Raises:
        SpecError: hosts.yaml or the job file is wrong; every problem with its place.
        UsageError: an unknown host, a secret without a value, an `on_event` that is no plain function (nothing was
            contacted), a name that is taken.
        HostsUnreachable, HostsFailed: a host of the run can't be used; nothing was started.
        PlanError: the job does not fit the hosts; nothing was started.
        CheckFailed: a check before the start failed; nothing was started.
        LaunchFailed: the start failed part way; what had been started was stopped again, or is named.
        KeyboardInterrupt: Ctrl-C, after the run has ended.
    """

    async def run_in(cluster: Cluster, owner: _Owner) -> RunEnded:
        async with cluster:
            planned = await cluster.prepare(job, hosts=hosts, name=name, keep=keep)
            async with cluster.launch(planned, preflight=preflight, force=force) as started:
                return await owner.follow(started)

    _refuse_what_cannot_be_called(on_event)
    opened = Cluster.open(inventory, settings=settings)
    opened.settings.refuse_readonly("a run")
    return _Owner(on_event).own(lambda owner: run_in(opened, owner))


def _refuse_what_cannot_be_called(on_event: Callable[[Event], None]) -> None:
    """Raises UsageError, before anything is started."""
    hint = "give a plain function, or leave it out"
    if not callable(on_event):
        raise UsageError(f"on_event is {shown(repr(on_event))}, which is no function", hint=hint)
    if any(map(inspect.iscoroutinefunction, (on_event, type(on_event).__call__))):
        raise UsageError("on_event is an async function, whose calls nobody awaits", hint=hint)


class _Owner:
    """Work in a thread and a loop of its own, the run it starts, and what Ctrl-C does to both."""

    def __init__(self, on_event: Callable[[Event], None]) -> None:
        self._on_event = on_event
        self._done: Future[RunEnded] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[RunEnded] | None = None
        self._run: Run | None = None
        self._stops = 0

    def own(self, work: Callable[[_Owner], Coroutine[Any, Any, RunEnded]]) -> RunEnded:
        """Do it, in this thread's eyes as if it were done here: what it raises is raised, Ctrl-C reaches it."""
        with self._interrupts():
            threading.Thread(target=self._work, args=(work,), name="distui run", daemon=True).start()
            while wait([self._done], timeout=_LISTEN_EVERY).not_done:
                pass
            try:
                ended = self._done.result()
            except asyncio.CancelledError:
                raise KeyboardInterrupt("nothing was started") from None
        if self._stops:
            raise KeyboardInterrupt(f"the run has ended: {ended.outcome}")
        return ended

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Take Ctrl-C for the block, where this thread gets it and the caller does not ignore it."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
            yield
            return
        signal.signal(signal.SIGINT, lambda number, frame: self._interrupted())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _work(self, work: Callable[[_Owner], Coroutine[Any, Any, RunEnded]]) -> None:
        """The thread: what comes out of it is what comes out of the work."""
        try:
            self._done.set_result(asyncio.run(self._begin(work)))
        except BaseException as exc:
            self._done.set_exception(exc)

    async def _begin(self, work: Callable[[_Owner], Coroutine[Any, Any, RunEnded]]) -> RunEnded:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._stops:
            raise asyncio.CancelledError
        return await work(self)

    def _interrupted(self) -> None:
        """Ctrl-C, in the thread of who called: between any two steps of it."""
        self._stops += 1
        if self._loop is not None:
            with suppress(RuntimeError):  # it has just ended
                self._loop.call_soon_threadsafe(self._stop, self._stops)

    def _stop(self, count: int) -> None:
        """What the `count`th Ctrl-C does, as on the command line."""
        if self._run is None:
            assert self._task is not None
            self._task.cancel()
        elif count == 1:
            print("distui: stopping the run; Ctrl-C again kills it", file=sys.stderr)
            self._run.stop()
        elif count == 2:
            print("distui: killing the run; Ctrl-C again leaves without waiting", file=sys.stderr)
            self._run.stop(grace=0)
        else:
            self._run.detach()

    async def follow(self, run: Run) -> RunEnded:
        """Read a run to its end. Raises why it did not start, and what `on_event` raised once it has ended."""
        self._run = run
        broken: BaseException | None = None
        refused: DistuiError | None = None
        try:
            async for event in run.events():
                try:
                    if broken is None:
                        self._on_event(event)
                except BaseException as exc:
                    broken = exc
                    run.stop()
        except DistuiError as exc:
            refused = exc
        if broken is not None:
            raise broken
        if refused is not None and not self._stops:
            raise refused
        assert run.result is not None  # events() ends with it
        return run.result
