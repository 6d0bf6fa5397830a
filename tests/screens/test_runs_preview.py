"""What the preview in Runs says of the run under the cursor, without asking any host."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace
from typing import Any

import pytest
from every_key import a_run
from fakes import FakeBackend, FakeLive, colours, history, sample, screen_text, settle
from measuring import measured, write
from training import say

from distui.monitor.figures import HostNews
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask
from distui.runs.lines.events import Progressed, RunEnded
from distui.runs.store.journal import Journal
from distui.runs.store.masking import Mask
from distui.runs.store.runs import StoredRun


async def until(pilot: Any, what: Any) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        await pilot.pause(0.02)


async def test_a_run_that_lives_shows_how_it_goes(backend: FakeBackend, open_app: Any) -> None:
    """Step of how many, time left, the curve with its scale, GPUs and link of each host, the last line."""
    live = await a_run(backend, fails=False)
    measured(live)
    values = {"step": 300.0, "total": 600.0, "loss": 0.75}
    await live.feed(Progressed(time.time(), 0, "node01", values, {}, 2.0))
    async with open_app((120, 36), start="runs") as (app, pilot):
        await backend.say(
            *(HostNews(host, "sample", sample=sample(host, time.time())) for host in ("node01", "node02"))
        )
        await settle(pilot)
        await until(pilot, lambda: "last  step 39  loss 2.610" in screen_text(app))
        text = screen_text(app)
        assert "progress  step 300 of 600   10m left   loss 0.75   2.00 s/it" in text
        assert "    loss       3" in text and "8m" in text
        assert all(f"{host}  " in text and "21.3  tx 20.9 GB/s" in text for host in ("node01", "node02"))
        one = sample("node01", time.time())
        gpus = tuple(replace(gpu, utilization_pct=3.0 if gpu.index == 7 else 99.0) for gpu in one.gpus)
        await backend.say(HostNews("node01", "sample", sample=replace(one, gpus=gpus)))
        await settle(pilot)
        assert "  99%" in next(row for row in screen_text(app).splitlines() if "node01  " in row), "the median"
        await backend.say(HostNews("node02", "lost", "it no longer answers"))
        backend.rows[0] = replace(backend.rows[0], state="stopping")
        app.ask_runs()
        await until(pilot, lambda: "  node02  lost  seen " in screen_text(app))
        assert "progress  last step 300 of 600   loss 0.75\n" in screen_text(app), (
            "no time left of a run that is stopped"
        )


async def test_a_run_that_nobody_follows_here_says_what_is_recorded(backend: FakeBackend, open_app: Any) -> None:
    """Its last step and loss, from its folder; one that is recorded nowhere says nothing of that."""
    live = await a_run(backend, fails=True)
    measured(live)
    backend.rows = [dataclasses.replace(row, live=False, state="failed") for row in history(backend)[:2]]
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: "progress" in screen_text(app))
        assert "progress  last step 599   loss 0.4292" in screen_text(app)
        assert "node01  " not in screen_text(app)
        await pilot.press("down")
        await settle(pilot)
        assert "progress" not in screen_text(app)


async def test_a_run_that_ended_since_it_was_looked_at_says_its_end(backend: FakeBackend, open_app: Any) -> None:
    """What was read while it lived is not its end; nor is what was read before its logs were fetched."""
    live = await a_run(backend, fails=False)
    measured(live, end=time.time() - 60, loss=6.0)
    del backend.live[live.plan.run_id]
    backend.rows = [next(row for row in backend.rows if row.run == live.plan.run_id)]
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: "last step 599   loss 0.8584" in screen_text(app))
        begin = time.time() - 660
        for steps, state in ((700, "ended"), (800, "succeeded")):
            write(live.stored.series_dir, begin + steps - 100, 100, since=steps - 100)
            say(live, 0, f"step {steps - 1}")
            backend.rows = [dataclasses.replace(backend.rows[0], live=False, state=state, took=42.0)]
            app.ask_runs()
            await until(pilot, lambda want=steps - 1: f"last step {want}" in screen_text(app))
            assert f"last  step {steps - 1}" in screen_text(app)


async def test_the_preview_hides_values_of_secrets(backend: FakeBackend, open_app: Any) -> None:
    """Of a run that was recorded by a distui which did not know them."""
    live = await a_run(backend, fails=True)
    say(live, 0, "the token is hunter2-hunter2")
    del backend.live[live.plan.run_id]
    backend.hides = Mask({"TOKEN": "hunter2-hunter2"})
    backend.rows = [dataclasses.replace(row, live=False, state="failed") for row in history(backend)[:2]]
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: "last  the token is" in screen_text(app))
        assert "the token is ***" in screen_text(app)


async def test_the_last_step_is_the_one_that_show_has(backend: FakeBackend, open_app: Any) -> None:
    """What was measured is a mean, where it is coarse; what was said last stands in the result, with its checkpoint."""
    live = await a_run(backend, fails=False)
    measured(live)
    said = Progressed(time.time(), 0, "node01", {"step": 600.0, "total": 600.0, "loss": 0.25, "checkpoint": 600.0})
    journal = Journal(live.stored)
    journal.write([RunEnded(time.time(), "succeeded", 0, progress=said)])
    journal.close()
    del backend.live[live.plan.run_id]
    row = next(row for row in backend.rows if row.run == live.plan.run_id)
    backend.rows = [dataclasses.replace(row, live=False, state="succeeded")]
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: "progress" in screen_text(app))
        assert "progress  last step 600 of 600   loss 0.25   checkpoint 600" in screen_text(app)


@pytest.mark.parametrize(
    ("age", "said"),
    [(0, "step 599   loss 0.4292   1.00 s/it"), (240, "last step 599   loss 0.4292   4m")],
    ids=["now", "4 minutes ago"],
)
async def test_figures_of_a_run_that_nobody_follows_say_how_old_they_are(
    backend: FakeBackend, open_app: Any, age: float, said: str
) -> None:
    """It lives, but what is recorded of it ends where its owner left: then no speed of now, and since when."""
    live = await a_run(backend, fails=False)
    measured(live, end=time.time() - age)
    del backend.live[live.plan.run_id]
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: "progress" in screen_text(app))
        row = next(row for row in screen_text(app).splitlines() if "progress" in row)
        assert f"progress  {said}" in row and row.endswith(" ago") == bool(age)


def found_task(live: FakeLive, *ranks: int, running: bool = True) -> FoundTask:
    labels = TaskLabels(live.plan.run_id, ranks[0], ranks, f"node{ranks[0]:02}", live.plan.job, "alice@laptop")
    return FoundTask(labels.host, "c0ffee" * 10, labels, {}, running, "running" if running else "exited")


async def test_what_a_run_that_nobody_follows_says_is_asked_for_at_its_host(
    backend: FakeBackend, open_app: Any
) -> None:
    """Of the first rank that runs, and not with every repaint; a run that is followed here is read here."""
    live = await a_run(backend, fails=False)
    del backend.live[live.plan.run_id]
    tasks = (found_task(live, 0, running=False), found_task(live, 2, 3), found_task(live, 1))
    backend.found_runs = FoundRuns((FoundRun(live.plan.run_id, tasks),), {})
    backend.said = "step 77  loss 1.770"
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: "last  step 77  loss 1.770" in screen_text(app))
        app.screen.news(frozenset())
        await settle(pilot)
        assert [call for call in backend.calls if call[0] == "last_line"] == [("last_line", "node01", (1,))]
        backend.live[live.plan.run_id] = live
        app.screen.news(frozenset())
        await until(pilot, lambda: "last  step 39  loss 2.610" in screen_text(app))


async def test_nobody_is_asked_for_the_log_of_a_run_that_another_distui_here_follows(
    backend: FakeBackend, open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written here as it goes on."""
    live = await a_run(backend, fails=False)
    del backend.live[live.plan.run_id]
    asked = []
    monkeypatch.setattr(StoredRun, "is_followed", property(lambda stored: asked.append(stored) or True))
    backend.found_runs = FoundRuns((FoundRun(live.plan.run_id, (found_task(live, 1),)),), {})
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: asked and "last  step 39  loss 2.610" in screen_text(app))
        assert not any(call[0] == "last_line" for call in backend.calls)


async def test_a_run_that_nobody_follows_is_never_green(backend: FakeBackend, open_app: Any) -> None:
    """That it goes on is not known: muted, amber once it is quiet, in Runs, in its preview and among the problems.

    Green it is when it is followed.
    """
    live = await a_run(backend, fails=False)
    del backend.live[live.plan.run_id]
    row = next(row for row in backend.rows if row.run == live.plan.run_id)
    async with open_app((120, 36), start="runs") as (app, pilot):
        shown = app.screen.palette

        async def look(**changes: Any) -> tuple[str, set[Any]]:
            backend.rows = [dataclasses.replace(row, **changes)]
            app.ask_runs()
            await until(pilot, lambda: app.rows and (app.rows[0].quiet, app.rows[0].followed) == tuple(want))
            await settle(pilot)
            return screen_text(app), colours(app, words)

        words, want = "RUNNING", [None, False]
        text, seen = await look()
        assert "RUNNING, on its hosts now, nobody follows it here" in text
        assert shown.muted.color in seen and shown.good.color not in seen | colours(app, app.screen.glyphs.up)
        words, want = "QUIET 9h", [time.time() - 9 * 3600 - 60, False]
        text, seen = await look(quiet=want[0])
        assert "QUIET 9h: no rank said a line since, and nobody follows it here" in text
        assert shown.watch.color in seen and shown.good.color not in seen
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "no rank said a line for 9h" in screen_text(app))
        await pilot.press("escape")
        words, want = "RUNNING", [None, True]
        await look(followed=True)
        await until(pilot, lambda: words in screen_text(app))
        text, seen = screen_text(app), colours(app, words)
        assert shown.good.color in seen and "nobody follows" not in text
