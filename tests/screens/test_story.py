"""A day with it on recorded events: probe, launch, watch, search, lose a rank, stop, run again, detach, attach."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from every_key import Case, write_log
from fakes import FakeBackend, FakeLive, failing, launching, sample, settle

from distui.monitor.figures import HostNews
from distui.runs.lines.events import Failure, RankChanged, RunEnded


@pytest.fixture
def painted_when_looked_at() -> None:
    """Every frame is painted here, also those that are out of date at once."""


async def begin(case: Case, run: str) -> FakeLive:
    """The hosts start a run that was launched."""
    live = case.backend.live[run]
    now = time.time()
    for rank in range(16):
        write_log(live, rank, [f"step {step}  loss {3 - step / 100:.3f}" for step in range(40)], now - 45)
    await live.feed(*launching(live.plan, now - 60))
    await case.until(lambda: "RUNNING" in case.text)
    await case.settled()
    return live


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_day_on_recorded_events(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """By keys alone, on a backend whose hosts do what was recorded of real ones."""
    for host in ("node01", "node02"):
        idle = tuple(dataclasses.replace(card, processes=()) for card in backend.answers[host].gpu.gpus)  # type: ignore[union-attr]
        gpu = dataclasses.replace(backend.answers[host].gpu, gpus=idle)  # type: ignore[union-attr]
        backend.answers[host] = dataclasses.replace(backend.answers[host], gpu=gpu)  # type: ignore[arg-type]
    backend.rows = []
    async with open_app(size) as (app, pilot):
        case = Case(app, pilot, backend, FakeLive(None, None), backend.folder, [])  # type: ignore[arg-type]
        await case.press("p")
        await case.until(lambda: "5 up" in case.text and "publickey refused" in case.text)
        await backend.say(*(HostNews("node02", "sample", sample=sample("node02", time.time())) for _ in range(2)))
        await case.press("j", "enter")
        await case.until(lambda: case.screen.crumbs == ("Hosts", "node02"))
        await case.press("escape")

        await case.press("2", "enter")
        await case.until(lambda: case.screen.crumbs[-1] == "llm-pretrain.yaml" and case.screen.draft.preview.plan)
        await case.press("L")
        await case.answer(yes=True)
        await case.until(lambda: case.screen.crumbs == ("Runs", "llm-pret-new"))
        live = await begin(case, "llm-pret-new")
        await case.until(lambda: "step 39" in case.text)

        await case.press("slash", *"step", "space", *"11", "enter")
        await case.until(lambda: "step 11 " in case.screen.panes.active.row_text(case.screen.panes.active.at))
        await case.press("escape")

        hosts = {rank: task.host for task in live.plan.tasks for rank in task.ranks}
        failure = Failure(13, hosts[13], 137, "killed by SIGKILL", "somebody or something killed it", "", ())
        killed = RankChanged(time.time(), 13, hosts[13], "killed", 137, words="killed by SIGKILL")
        await live.feed(killed)
        await case.until(lambda: "15 of 16" in case.text)
        await case.press("S")
        await case.answer(yes=True)
        assert live.asked == [("stop", None)]
        *stopped, _ = failing(live.plan, time.time())
        await live.feed(*stopped[1:], RunEnded(time.time(), "stopped", 137, failure, "", (), 60.0))
        await case.until(lambda: "STOPPED" in case.text and "ank 13 failed first" in case.text)

        backend.live["llm-pret-old"] = backend.live.pop("llm-pret-new")
        await case.press("R")
        await case.answer(yes=True)
        await case.until(lambda: case.backend.calls.count(("launch", "llm-pret-new", ("node01", "node02"))) >= 1)
        again = await begin(case, "llm-pret-new")
        assert again is not live

        await case.press("ctrl+q")
        await case.until(lambda: "Quit while 1 run is still running?" in case.text)
        await case.press("right", "enter")
        await case.until(lambda: app._exit)
        assert again.asked == []

    async with open_app(size, start=again) as (app, pilot):
        case = Case(app, pilot, backend, again, backend.folder, [])
        await settle(pilot)
        await case.until(lambda: case.screen.crumbs == ("Runs", "llm-pret-new"))
        await case.settled()
        assert "RUNNING" in case.text
        assert "step 39" in case.text
