"""What a run measured is read where it is written now: also when a view goes on in a copy of the run's folder."""

from __future__ import annotations

import dataclasses
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from every_key import a_run
from fakes import FakeBackend, FakeLive, history, screen_text, settle
from measuring import SECONDS, measured, write
from test_runs_preview import until

from distui.runs.lines.events import RunEnded
from distui.runs.store.runs import StoredRun
from distui.tui.metrics import screen as metrics
from distui.tui.metrics.screen import MetricsScreen


async def a_measured_run(backend: FakeBackend, *, end: float) -> FakeLive:
    """A run whose owner wrote down what it measured up to then."""
    live = await a_run(backend, fails=False)
    measured(live, end=end)
    return live


def handed_over(live: FakeLive, folder: Path, *, end: float) -> None:
    """Its owner has gone, and who looks on goes on in a copy: a minute more is there."""
    copy = StoredRun(folder / "copy" / live.stored.run_id)
    shutil.copytree(live.stored.path, copy.path)
    write(copy.series_dir, end - 60, 60, since=SECONDS)
    live.stored = copy


async def its_metrics(app: Any, pilot: Any, live: FakeLive) -> MetricsScreen:
    """The Metrics page of a run, once it has read what was measured."""
    app.open_run(live)
    await settle(pilot)
    await app.run_action("metrics", default_namespace=app.screen)
    page = app.screen
    assert isinstance(page, MetricsScreen)
    await until(pilot, lambda: page.window is not None)
    return page


async def test_a_metrics_page_goes_on(backend: FakeBackend, open_app: Any, tmp_path: Path) -> None:
    """With what was there before, and the newest value."""
    now = time.time()
    live = await a_measured_run(backend, end=now - 60)
    async with open_app((120, 36)) as (app, pilot):
        page = await its_metrics(app, pilot, live)
        before = page.window
        handed_over(live, tmp_path, end=now)
        await until(pilot, lambda: page.window is not None and page.window.end > before.end + 50)
        assert page.window.begin == before.begin
        assert "step 659" in screen_text(app)


async def test_a_metrics_page_shows_a_run_to_its_end(
    backend: FakeBackend, open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it measured last is written when it ends: later than the page has read it, which is seldom in a long one."""
    monkeypatch.setattr(metrics, "SLOWEST_S", 1e9)
    now = time.time()
    live = await a_measured_run(backend, end=now - 60)
    async with open_app((120, 36)) as (app, pilot):
        page = await its_metrics(app, pilot, live)
        page._read_at = page._clock() + 3600
        write(live.stored.series_dir, now - 60, 60, since=SECONDS)
        await live.feed(RunEnded(now, "succeeded", 0))
        await until(pilot, lambda: "step 659" in screen_text(app))


async def test_the_preview_of_a_run_goes_on(backend: FakeBackend, open_app: Any, tmp_path: Path) -> None:
    """Also of one that is not recorded on this machine, and is only looked on at."""
    now = time.time()
    live = await a_measured_run(backend, end=now - 60)
    backend.rows = [dataclasses.replace(row, recorded=False) for row in history(backend)[:1]]
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: "last step 599" in screen_text(app) or "step 599" in screen_text(app))
        handed_over(live, tmp_path, end=now)
        await until(pilot, lambda: "step 659" in screen_text(app))


async def test_the_metrics_of_a_run_that_was_removed_meanwhile(backend: FakeBackend, open_app: Any) -> None:
    """It was measured here; that this is gone is another thing than never to have been measured."""
    live = await a_measured_run(backend, end=time.time() - 60)
    async with open_app((80, 24)) as (app, pilot):
        app.open_run(live)
        await settle(pilot)
        shutil.rmtree(live.stored.path)
        await app.run_action("metrics", default_namespace=app.screen)
        page = app.screen
        assert isinstance(page, MetricsScreen)
        await until(pilot, lambda: page.read_yet)
        assert "the run's folder was removed from this machine, with what was measured" in screen_text(app)
