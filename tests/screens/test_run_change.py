"""What changes a run from its view: stop, kill, prune, run again; always after a question."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from fakes import JOB, NOW, FakeBackend, FakeLive, launching, press, screen_text, settle, shot
from training import failing_loudly, opened, settled

from distui.runs.launch.gpu_users import GpuUser
from distui.runs.launch.job_record import record_job
from distui.runs.lines.events import RunEnded
from distui.spec.hosts.inventory import HostPick
from distui.tui.dialogs.help import HelpScreen
from distui.tui.run.screen import RunScreen
from distui.tui.runs.screen import RunsScreen


async def test_stop_and_kill_ask_first(open_app: Any, live: FakeLive) -> None:
    """S and K name their targets and do nothing without a yes."""
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("S")
        await settle(pilot)
        assert "node02   ranks 08-15" in screen_text(app)
        await pilot.press("escape")
        await settle(pilot)
        assert live.asked == []
        await pilot.press("K")
        await settle(pilot)
        await pilot.press("tab", "enter")
        await settle(pilot)
        assert live.asked == [("stop", 0)]


async def test_prune_asks_and_goes_back(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """X removes an ended run, not one that goes on, and leaves its screen."""
    await live.feed(*launching(live.plan, NOW))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("X")
        await settle(pilot)
        assert "still runs" in screen_text(app)
        await live.feed(*failing_loudly(live.plan, NOW + 60))
        await settled(pilot)
        await pilot.press("X")
        await settle(pilot)
        assert "This can't be undone" in screen_text(app)
        await pilot.press("tab", "enter")
        await settle(pilot)
        assert not isinstance(app.screen, RunScreen)
    assert ("prune", "llm-7f3") in backend.calls


@pytest.mark.parametrize(("key", "over"), [("S", False), ("K", False), ("X", True)])
async def test_the_question_says_whose_run_it_is(
    open_app: Any, backend: FakeBackend, live: FakeLive, key: str, over: bool
) -> None:
    """Who has opened it may have forgotten that it is somebody else's."""
    backend.owner = "bob@desk"
    await live.feed(*launching(live.plan, NOW), *(failing_loudly(live.plan, NOW + 60) if over else ()))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await press(pilot, key)
        assert "It belongs to alice@laptop, not to you." in screen_text(app)


async def removing(pilot: Any, backend: FakeBackend, live: FakeLive) -> None:
    """An ended run is being removed, on a host that takes its time."""
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    backend.held.clear()
    await opened(pilot, live)
    await press(pilot, "X")
    await press(pilot, "tab", "enter")


async def test_a_removal_goes_on_when_its_view_is_left(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """It takes a while on a slow host; and where one is by then nothing is closed."""
    async with open_app((120, 36), start="runs") as (app, pilot):
        await removing(pilot, backend, live)
        await press(pilot, "X")
        assert "llm-7f3 is being removed" in screen_text(app)
        await press(pilot, "escape")
        assert not isinstance(app.screen, RunScreen)
        app.open_host("node01")
        await settle(pilot)
        there = app.screen
        backend.held.set()
        await settle(pilot)
        assert ("pruned", "llm-7f3") in backend.calls
        assert app.screen is there and "llm-7f3 is removed" in screen_text(app)


async def test_a_removal_closes_no_dialog(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """One reads the help by then; the view of the run that is no more is left once that is closed."""
    async with open_app((120, 36), start="runs") as (app, pilot):
        await removing(pilot, backend, live)
        await press(pilot, "question_mark")
        there = app.screen
        assert isinstance(there, HelpScreen)
        backend.held.set()
        await settle(pilot)
        assert ("pruned", "llm-7f3") in backend.calls
        assert app.screen is there
        await press(pilot, "escape")
        assert isinstance(app.screen, RunsScreen)


@pytest.mark.parametrize("key", ["S", "K"])
async def test_a_run_that_ends_under_the_question_is_not_stopped(open_app: Any, live: FakeLive, key: str) -> None:
    """Nobody would hear it: what became of the run is said."""
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await press(pilot, key)
        await live.feed(RunEnded(time.time(), "unknown", 6))
        await press(pilot, "tab", "enter")
        assert live.asked == []
        said = [notice.message for notice in app._notifications]
        assert said[-1:] == ["llm-7f3 is not followed here any more; S in Runs stops it"]


@pytest.mark.parametrize(("key", "asking", "words"), [("R", "gpu_users", "run again"), ("X", "remains", "removed")])
@pytest.mark.parametrize("elsewhere", ["1", "slash"])
async def test_a_question_that_comes_late_takes_no_key(
    open_app: Any, backend: FakeBackend, live: FakeLive, monkeypatch: pytest.MonkeyPatch, elsewhere: str, key: str,
    asking: str, words: str,
) -> None:  # fmt: skip
    """Where one is elsewhere, or types, when the hosts have answered: the next keys would answer it."""
    answered, ask = asyncio.Event(), getattr(backend, asking)

    async def slowly(*given: Any) -> Any:
        await answered.wait()
        return await ask(*given)

    monkeypatch.setattr(backend, asking, slowly)
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36), start="runs") as (app, pilot):
        await opened(pilot, live)
        await press(pilot, key)
        await press(pilot, elsewhere)
        there = app.screen
        answered.set()
        await settle(pilot)
        assert app.screen is there
        assert f"is not {words}: {key} asks again" in screen_text(app)


async def test_run_again(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """R starts the same job on the same hosts under a new name, once the run has ended and the answer is yes."""
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("R")
        await settle(pilot)
        text = screen_text(app)
        assert "node01" in text and "llm-pre" in text
        await pilot.press("tab", "enter")
        await settle(pilot)
        assert "the job of llm-7f3 is not recorded here" in " ".join(text.split())
    assert ("launch", "llm-pret-new", ("node01", "node02"), "llm-7f3") in backend.calls


async def test_run_again_on_gpus_that_others_use(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """R meets a run that has them: it says whose, and S shares them."""
    backend.users = (GpuUser("node02", "GPU 5 is being taken by a launch of bob@desk since 12:00"),)
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((80, 24)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("R")
        await settle(pilot)
        text = " ".join(screen_text(app).split())
        shot(app, "run-again-share")
        assert "again on GPUs that are in use?" in text
        assert "! node02: GPU 5 is being taken by a launch of bob@desk since 12:00" in text
        await pilot.press("S")
        await settle(pilot)
    assert ("launch", "llm-pret-new", ("node01", "node02"), "llm-7f3", "force") in backend.calls


async def test_run_again_is_what_was_started(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """R takes the job the run recorded, not the file as it is now, and says that the file has changed."""
    path = backend.folder / "llm-pretrain.yaml"
    path.write_text(JOB)
    job = backend.draft(JOB, str(path)).job
    assert job is not None
    record_job(live.stored, job, (HostPick("node02", (0, 1, 2, 3)), HostPick("node01")))
    backend.job_texts["llm-pretrain"] = JOB.replace("train.py", "other.py")
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    backend.found = dict(backend.answers)
    async with open_app((120, 36)) as (app, pilot):
        backend.jobs()
        await opened(pilot, live)
        await pilot.press("R")
        await settle(pilot)
        text = screen_text(app)
        shot(app, "run-again")
    assert "has changed since and is not read" in " ".join(text.split())
    assert "train.py" in text and "other.py" not in text
