"""Drives a controller to the end of its run: its events to a printer, signals and limits to the controller."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from distui.cli.console import Console
from distui.cli.printing.printer import Sink
from distui.cli.signals import is_terminated
from distui.cluster.attach.beside import Beside
from distui.errors import ExitCode
from distui.runs.control.controller import RunController
from distui.runs.lines.events import RunEnded
from distui.runs.report.attention import Attention, terminal_of
from distui.runs.state.reducer import RunState


class Signals:
    """What Ctrl-C and its kin mean while a run is followed.

    A starter (`stop_on_exit`) stops its run: SIGINT or SIGTERM stops, the second kills, the third leaves. A viewer
    leaves at once and never touches the run. A closed terminal (SIGHUP) leaves in both cases: training that dies with a
    terminal is the oldest way to lose a run over ssh (FAULTS 5). A stop that was asked for before goes on to its end:
    whoever presses Ctrl-C and closes the terminal wants the run to be gone. Signals the caller ignores (nohup, `&` in
    a script) stay ignored.
    """

    def __init__(self, controller: RunController | Beside, sink: Sink, console: Console, *, stop_on_exit: bool) -> None:
        self._controller = controller
        self._sink = sink
        self._console = console
        self._stop_on_exit = stop_on_exit
        self._count = 0
        self._installed: list[signal.Signals] = []

    def __enter__(self) -> Signals:
        if self._stop_on_exit and is_terminated():  # before these were there: its start is undone
            self._controller.request_stop("user", exit=ExitCode.TERMINATED)
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: lambda: self._asked(ExitCode.INTERRUPTED),
            signal.SIGTERM: lambda: self._asked(ExitCode.TERMINATED),
            signal.SIGHUP: self._hung_up,
        }
        for number, handler in handlers.items():
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, handler)
                self._installed.append(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in self._installed:
            loop.remove_signal_handler(number)

    def _asked(self, code: ExitCode) -> None:
        self._count += 1
        again = "Ctrl-C again" if code == ExitCode.INTERRUPTED else "another SIGTERM"
        match self._count if self._stop_on_exit else 3:
            case 1:
                self._console.warn(f"\ndistui: stopping the run; {again} kills it", "yellow")
                self._controller.request_stop("user", exit=code)
            case 2:
                self._console.warn(f"\ndistui: killing the run; {again} leaves without waiting", "yellow")
                self._sink.hurry()
                self._controller.request_stop("user", grace=0, exit=code)
            case _:
                self._leave()

    def _hung_up(self) -> None:
        if self._count and self._stop_on_exit:
            self._sink.hurry()
        else:
            self._leave()

    def _leave(self) -> None:
        self._sink.hurry()
        self._controller.request_detach()


@contextlib.contextmanager
def attending(console: Console) -> Iterator[Callable[[RunState], None]]:
    """Has the terminal ring and show progress, where a run that is shown to this calls for it."""
    attention = Attention(terminal_of(console.notify, os.environ))

    def say(text: str) -> None:
        if text:
            with contextlib.suppress(OSError):
                console.err.write(text)
                console.err.flush()

    try:
        yield lambda state: say(attention.look([state], time.monotonic()))
    finally:
        say(attention.end())


async def follow(controller: RunController | Beside, sink: Sink, console: Console, *, stop_on_exit: bool) -> RunEnded:
    """Run `controller` to its end, show everything, and return how it ended."""
    ended: RunEnded | None = None
    async with controller:
        with Signals(controller, sink, console, stop_on_exit=stop_on_exit), attending(console) as attend:
            async for batch in controller.batches():
                await sink.feed(batch, controller.state)
                attend(controller.state)
                if isinstance(batch[-1], RunEnded):
                    ended = batch[-1]
    assert ended is not None  # batches() ends with it
    await sink.finish(ended, controller.state)
    return ended
