"""What signals mean while a run is followed, with a controller made of a script."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from distui.cli.console import Console
from distui.cli.runs.follow import follow
from distui.errors import ExitCode
from distui.runs.lines.events import Event, RunEnded
from distui.runs.state.reducer import RunState


class Script:
    """A controller that waits for requests and ends when `until` of them came."""

    def __init__(self, until: int = 1) -> None:
        self.state = RunState(run="r")
        self.asked: list[tuple[Any, ...]] = []
        self.until = until
        self.changed = asyncio.Event()
        self.begun = asyncio.Event()
        self.news: asyncio.Queue[None] = asyncio.Queue()

    async def __aenter__(self) -> Script:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    def request_stop(self, reason: str, *, grace: float | None = None, exit: ExitCode = ExitCode.INTERRUPTED) -> None:
        self.asked.append((reason, grace, int(exit)))
        self.changed.set()
        self.news.put_nowait(None)

    def request_detach(self) -> None:
        self.asked.append(("detach",))
        self.changed.set()
        self.news.put_nowait(None)

    async def batches(self) -> AsyncIterator[tuple[Event, ...]]:
        self.begun.set()
        while len(self.asked) < self.until:
            await self.changed.wait()
            self.changed.clear()
        yield (RunEnded(1.0, "stopped", 130),)


class Silent:
    """A printer that shows nothing and remembers being hurried."""

    hurried = False
    finished: RunEnded | None = None

    async def feed(self, batch: Sequence[Event], state: RunState) -> None:
        return

    async def finish(self, ended: RunEnded, state: RunState) -> None:
        self.finished = ended

    def hurry(self) -> None:
        self.hurried = True


async def deliver(script: Script, numbers: Sequence[int], *, stop_on_exit: bool) -> tuple[Silent, str]:
    """Follow `script` while this process gets the signals."""
    sink, err = Silent(), io.StringIO()
    console = Console(io.StringIO(), err, False, False, 0)
    following = asyncio.ensure_future(follow(script, sink, console, stop_on_exit=stop_on_exit))  # type: ignore[arg-type]
    await script.begun.wait()
    for number in numbers:
        os.kill(os.getpid(), number)
        await script.news.get()
    await following
    return sink, err.getvalue()


async def test_ctrl_c_stops_then_kills_then_leaves() -> None:
    """The first stops with the job's grace, the second kills, the third leaves without waiting."""
    script = Script(until=3)
    sink, said = await deliver(script, [signal.SIGINT] * 3, stop_on_exit=True)

    assert script.asked == [("user", None, 130), ("user", 0, 130), ("detach",)]
    assert "Ctrl-C again kills" in said
    assert sink.hurried
    assert sink.finished is not None


async def test_sigterm_stops_with_its_own_exit_code() -> None:
    """A run ended by SIGTERM exits 143; whoever sends it is told of no keys."""
    script = Script(until=2)
    _, said = await deliver(script, [signal.SIGTERM] * 2, stop_on_exit=True)

    assert script.asked == [("user", None, 143), ("user", 0, 143)]
    assert "another SIGTERM kills it" in said and "another SIGTERM leaves" in said
    assert "Ctrl-C" not in said


@pytest.mark.parametrize(
    ("number", "stop_on_exit"),
    [(signal.SIGHUP, True), (signal.SIGHUP, False), (signal.SIGINT, False), (signal.SIGTERM, False)],
)
async def test_a_closed_terminal_and_a_viewer_leave_the_run_alone(number: int, stop_on_exit: bool) -> None:
    """SIGHUP never stops a run, and no signal to a viewer does."""
    script = Script()
    await deliver(script, [number], stop_on_exit=stop_on_exit)

    assert script.asked == [("detach",)]


async def test_a_terminal_that_is_closed_after_ctrl_c_does_not_end_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is stopped to its end, with the kill after its grace: nobody is left who could ask for it again."""
    script, sink, hurried = Script(until=2), Silent(), asyncio.Event()
    monkeypatch.setattr(sink, "hurry", hurried.set)
    console = Console(io.StringIO(), io.StringIO(), False, False, 0)
    following = asyncio.ensure_future(follow(script, sink, console, stop_on_exit=True))  # type: ignore[arg-type]
    await script.begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
    await script.news.get()
    os.kill(os.getpid(), signal.SIGHUP)
    async with asyncio.timeout(60):
        await hurried.wait()
    script.request_stop("done")
    await following

    assert script.asked == [("user", None, 130), ("done", None, 130)]


async def test_handlers_are_gone_afterwards() -> None:
    """What signals meant before is what they mean after."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # pytest's own, where no test has changed it yet
    try:
        await deliver(Script(), [signal.SIGTERM], stop_on_exit=True)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_ignored_signals_stay_ignored() -> None:
    """Under nohup, SIGHUP is ignored by the caller's will."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        script = Script()
        sink, err = Silent(), io.StringIO()
        console = Console(io.StringIO(), err, False, False, 0)
        following = asyncio.ensure_future(follow(script, sink, console, stop_on_exit=True))  # type: ignore[arg-type]
        await script.begun.wait()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        script.request_detach()
        await following
    finally:
        signal.signal(signal.SIGHUP, before)
