"""Pictures of the main screens at three sizes in two themes, compared with those stored in snapshots/.

`DISTUI_PICTURES=write pytest tests/screens/test_pictures.py` stores them again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from arriving import STALLED, arrive, opened
from every_key import Case
from fakes import FakeBackend, history, sample, settle
from pictures import NOW, compare, picture, rows_of, stop_the_clock

from distui.monitor.figures import HostNews
from distui.tui.run.screen import RunScreen

SIZES = [(80, 24), (120, 40), (200, 50)]
SCREENS = {
    "hosts": ("Hosts", "", ""),
    "host": ("One host", "", ""),
    "jobs": ("Jobs", "", ""),
    "launch": ("Launch", "", ""),
    "runs": ("Runs", "", ""),
    "run": ("One run", "", ""),
    "run-merged": ("One run", "", "M"),
    "run-stalled": ("One run", STALLED, ""),
    "run-failed": ("One run", "jump", ""),
    "doctor": ("Doctor", "", ""),
    "problems": ("Problems", "", ""),
    "first": ("First start", "", ""),
    "help": ("Runs", "", "question_mark"),
    "question": ("Runs", "", "S"),
    "why": ("Why", "", ""),
}
"""Name of the picture -> place, what is to be done there, key."""


async def still(case: Case) -> None:
    """Until the screen does not change any more, whatever its timers would do next: they are not waited for."""
    last: Any = None
    for _ in range(100):
        await settle(case.pilot)
        if isinstance(case.screen, RunScreen):
            await case.settled()
            for buffer in case.screen.feed.buffers.values():
                buffer.grow(1.0)
        elif tick := getattr(case.screen, "_tick", None):
            tick()
            await case.pilot.pause()
        now = rows_of(case.app)
        if now == last:
            return
        last = now
    raise AssertionError(f"the screen never stands still\n{case.text}")


@pytest.fixture
def clock(backend: FakeBackend) -> Iterator[None]:
    """It stands still, in UTC."""
    with pytest.MonkeyPatch.context() as patch:
        stop_the_clock(patch)
        patch.chdir(backend.folder)
        yield
    time.tzset()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_pictures(size: tuple[int, int], open_app: Any, backend: FakeBackend, clock: None) -> None:
    """Text row by row, and each row's colours."""
    backend.rows, backend.folder = history(backend), Path()
    wrong = []
    async with opened(open_app, backend, [], size=size, theme="dark") as case:
        for host in ("node01", "node02", "node04"):
            seconds = [HostNews(host, "sample", sample=sample(host, NOW - 5 + i)) for i in range(5)]
            await backend.say(*seconds)
        for name, (place, action, key) in SCREENS.items():
            await arrive(case, place, action)
            if key:
                await case.press(key)
            sums = []
            for theme in ("distui-dark", "distui-light"):
                case.app.theme = theme
                await still(case)
                texts, found = rows_of(case.app)
                sums.append(found)
            wrong.append(compare(f"{name}-{size[0]}x{size[1]}", picture(texts, *sums)))
    assert not any(wrong), "\n\n".join(filter(None, wrong))
