"""What every action of the registry does, as checks: one for each place and action. A new action needs one.

A check is an async generator: what must be before the key, `yield` (the key is pressed), what must be after it.

    @effect("Hosts", "raw")
    async def raw(case):
        yield
        assert case.screen.crumbs[-1] == "node01.json"
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fakes import FakeBackend, FakeFirst, FakeLive, failing, launching, screen_text, settle
from textual.widgets import Button

from distui.runs.lines.times import pack, times_of
from distui.tui.app import DistuiApp
from distui.tui.dialogs.confirm import Dialog
from distui.tui.frame.bars import FilterBar

Check = Callable[["Case"], AsyncIterator[None]]
EFFECTS: dict[tuple[str, str], Check] = {}
PATTERN = r"step (?P<step>\d+)\s+loss (?P<loss>[\d.]+)"


def effect(place: str, *actions: str) -> Callable[[Check], Check]:
    """Register the check of some actions of a place."""

    def register(check: Check) -> Check:
        EFFECTS.update(dict.fromkeys([(place, action) for action in actions], check))
        return check

    return register


@dataclasses.dataclass
class Case:
    """One app in which one action is done."""

    app: DistuiApp
    pilot: Any
    backend: FakeBackend
    live: FakeLive
    folder: Path
    lent: list[tuple[str, ...]]
    """Programs that had the terminal."""
    action: str = ""
    before: list[Any] = dataclasses.field(default_factory=list)
    first: FakeFirst = dataclasses.field(default_factory=FakeFirst)
    """What the first start works at."""
    outcomes: list[str] = dataclasses.field(default_factory=list)
    """How the first start was left."""

    @property
    def screen(self) -> Any:
        """The screen on top."""
        return self.app.screen

    @property
    def text(self) -> str:
        """What is on the screen."""
        return screen_text(self.app)

    @property
    def notified(self) -> str:
        """What was said in the corner."""
        return "\n".join(str(note.message) for note in self.app._notifications)

    @property
    def filtering(self) -> bool:
        """Whether the row for a filter or a search is open."""
        return bool(self.screen.query_one(FilterBar).has_class("-open"))

    def did(self, *call: Any) -> bool:
        """Whether the backend was asked to do this."""
        return call in self.backend.calls

    async def press(self, *keys: str) -> None:
        """Keys, and what follows from them."""
        await self.pilot.press(*keys)
        await settle(self.pilot)

    async def until(self, what: Callable[[], Any], seconds: float = 60) -> None:
        """Until this holds; AssertionError with the screen when it does not."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(Exception):
                if what():
                    return
            assert time.monotonic() < deadline, f"not so after {self.action}; told: {self.notified}\n{self.text}"
            await self.pilot.pause(0.02)

    async def answer(self, *, yes: bool) -> None:
        """Answer the question that is asked: Cancel has the focus, the answer beside it does it."""
        await self.until(lambda: isinstance(self.screen, Dialog))
        first = self.screen.focused
        assert isinstance(first, Button)
        assert first.id == "cancel"
        await self.press(*(("right",) if yes else ()), "enter")
        await self.until(lambda: not isinstance(self.screen, Dialog))

    async def settled(self) -> None:
        """Until panes show what their files hold."""
        await settle(self.pilot)
        for _ in range(2):
            self.screen._tick()
            await self.pilot.pause()
            for pane in self.screen.panes.visible:
                while pane.flush(1.0):
                    pass
                pane.repaint()
            await self.pilot.pause()


def write_log(live: FakeLive, rank: int, texts: list[str], began: float) -> None:
    """Lines of a rank with their times, as the controller writes them: one a second."""
    log = live.stored.rank_log(rank)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(f"{text}\n" for text in texts))
    times_of(log).write_bytes(pack([began + i for i in range(len(texts))]))


async def a_run(backend: FakeBackend, *, fails: bool) -> FakeLive:
    """The run llm-7f3 with a log for each rank; rank 13 has failed, if asked."""
    made = dataclasses.replace(backend.plan(), progress=PATTERN)
    live = backend.follow(made)
    now = time.time()
    for rank in range(16):
        lines = [f"step {step}  loss {3 - step / 100:.3f}" for step in range(40)]
        lines[20:20] = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "ValueError: odd"]
        if fails and rank == 13:
            lines.append("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")
        write_log(live, rank, lines, now - 45)
    await live.feed(*launching(made, now - 60))
    if fails:
        await live.feed(*failing(made, now - 2))
    return live


async def do(case: Case, check: Check, press: Callable[[], Any], *, asks: bool) -> None:
    """Do an action and check its effect. With `asks` it is done twice: the first time the answer is Cancel."""
    running = check(case)
    await anext(running)
    if asks:
        quiet, stops = list(case.backend.calls), list(case.live.asked)
        await press()
        await case.answer(yes=False)
        changing = [call for call in case.backend.calls[len(quiet) :] if call[0] in CHANGING]
        assert not changing, f"{case.action} did {changing} though Cancel was chosen"
        assert case.live.asked == stops
    await press()
    if asks:
        await case.answer(yes=True)
    with contextlib.suppress(StopAsyncIteration):
        await anext(running)
        raise AssertionError("a check yields once")
    await asyncio.sleep(0)


CHANGING = {"launch", "stop", "prune", "signal", "smoke"}
"""What the backend can be asked that changes a host or a run."""
