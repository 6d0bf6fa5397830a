"""A training of sixteen ranks for the tests of the run view: what they say, how they fail, until all is shown."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fakes import FakeLive, failing, screen_text, settle

from distui.plan.model import RunPlan
from distui.runs.lines.events import LogLine, LogLines, RunEnded
from distui.runs.lines.times import pack, times_of
from distui.tui.run.screen import RunScreen

PATTERN = r"step (?P<step>\d+)\s+loss (?P<loss>[\d.]+)"


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/work/train.py", line 214, in <module>',
    "    main(parse_args())",
    "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
)


LONG = (
    *TRACEBACK[:3],
    '  File "/usr/lib/python3.11/site-packages/torch/_tensor.py", line 521, in backward',
    "    torch.autograd.backward(",
    '  File "/usr/lib/python3.11/site-packages/torch/autograd/__init__.py", line 289, in backward',
    "    _engine_run_backward(",
    TRACEBACK[3],
    "CUDA kernel errors might be asynchronously reported at some other API call",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
)


def say(live: FakeLive, rank: int, *texts: str, at: float | None = None, every: float = 0.01) -> None:
    """Lines of a rank with their times, as the controller writes them."""
    log = live.stored.rank_log(rank)
    log.parent.mkdir(parents=True, exist_ok=True)
    when = time.time() - 5 if at is None else at
    with log.open("ab") as file, times_of(log).open("ab") as times:
        file.write("".join(f"{text}\n" for text in texts).encode())
        times.write(pack([when + i * every for i in range(len(texts))]))


def saved(folder: Path) -> list[Path]:
    """The logs that were saved to a folder."""
    return sorted(folder.glob("llm-7f3-*"))


def train(live: FakeLive, steps: int = 40) -> None:
    """Sixteen ranks that say the same steps."""
    began = time.time() - steps - 5
    for rank in range(16):
        at = began + rank / 1000
        say(live, rank, *(f"step {step}  loss {3 - step / 100:.3f}" for step in range(steps)), at=at, every=1.0)


async def opened(pilot: Any, live: FakeLive) -> RunScreen:
    """The run view with everything that is there read."""
    app = pilot.app
    if not isinstance(app.screen, RunScreen):
        app.push_screen(RunScreen(live))
    await settled(pilot)
    assert isinstance(app.screen, RunScreen)
    return app.screen


async def settled(pilot: Any) -> None:
    """Until panes show what their files hold."""
    await settle(pilot)
    screen = pilot.app.screen
    if isinstance(screen, RunScreen):
        for _ in range(3):
            screen._tick()
            await pilot.pause()
            for pane in screen.panes.visible:
                while pane.flush(1.0):
                    pass
                pane.repaint()
            await pilot.pause()


async def until(pilot: Any, condition: Callable[[], bool]) -> None:
    """Until something that a thread has to do first is done."""
    async with asyncio.timeout(60):
        while not condition():
            await pilot.pause()


def hint(live: FakeLive, rank: int, text: str) -> LogLines:
    """A line that comes as an event; the fake run writes it to the log, without a time."""
    host = next(t.host for t in live.plan.tasks if rank in t.ranks)
    return LogLines(time.time(), 0, rank, host, (LogLine("stdout", text),))


def body(app: Any) -> list[str]:
    """The screen's rows."""
    return screen_text(app).splitlines()


def failing_loudly(plan: RunPlan, at: float) -> Sequence[Any]:
    return [
        dataclasses.replace(e, failure=dataclasses.replace(e.failure, excerpt=TRACEBACK))
        if isinstance(e, RunEnded) and e.failure is not None
        else e
        for e in failing(plan, at)
    ]
