"""Jobs that have no file: what was typed in a new one is found again, and so is what a run was started from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import NOW, FakeBackend, failing, launching, press, screen_text, settle

from distui.runs.launch.job_record import recorded_job
from distui.tui.dialogs.confirm import Confirm
from distui.tui.dialogs.text import TextScreen
from distui.tui.launch.jobs import JobsScreen
from distui.tui.launch.screen import LaunchScreen
from distui.tui.run.screen import RunScreen


@pytest.fixture(autouse=True)
def here(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """New jobs are named after what is in this folder."""
    monkeypatch.chdir(backend.folder)


def read(file: str) -> str:
    """What is in a file."""
    return Path(file).read_text()


def there(file: str) -> bool:
    """Whether there is a file."""
    return Path(file).exists()


async def planned(pilot: Any) -> LaunchScreen:
    """The launch form, once its plan is that of its text."""
    await settle(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, LaunchScreen)
    screen.draft._later(now=True)
    await screen.draft._fresh.wait()
    await settle(pilot)
    return screen


async def typed(pilot: Any) -> str:
    """Begin a new job and type in it; its text."""
    await press(pilot, "n", "enter")
    screen = await planned(pilot)
    screen.form.field("image").focus()
    await press(pilot, "enter", "x", "enter")
    assert screen.draft.text != screen.draft.read_text
    return screen.draft.text


async def test_a_new_job_that_was_left_is_in_the_list(open_app: Any) -> None:
    """With its text, under its name, until it is saved; enter, `:job` and the arrows of the form lead to it."""
    async with open_app(start="jobs") as (app, pilot):
        text = await typed(pilot)
        await press(pilot, "escape")
        row = next(line for line in screen_text(app).splitlines() if "new-job" in line)
        assert "new, not saved" in row and "new-job.yaml" in row
        await press(pilot, "G", "y")
        assert isinstance(app.screen, TextScreen)
        assert "new-job" in screen_text(app)
        await press(pilot, "escape", "enter")
        screen = await planned(pilot)
        assert (screen.draft.text, screen.crumbs) == (text, ("Jobs", "new-job.yaml"))
        assert "new, not saved" in screen_text(app)
        await press(pilot, "escape", "colon", *"job new-job", "enter")
        assert (await planned(pilot)).draft.text == text
        screen = await planned(pilot)
        screen.form.field("job").focus()
        await press(pilot, "right")
        assert screen.crumbs[-1] == "llm-pretrain.yaml"
        await press(pilot, "left")
        assert (screen.draft.text, screen.crumbs[-1]) == (text, "new-job.yaml")
        await planned(pilot)
        await press(pilot, "w")
        await press(pilot, "escape")
        assert read("new-job.yaml") == text
        assert isinstance(app.screen, JobsScreen)
        assert "not saved" not in screen_text(app)


async def test_where_no_file_is_a_new_job_is_still_listed(open_app: Any, backend: FakeBackend) -> None:
    """It is not said that there is none; who wanted to quit and did not finds it there."""
    backend.job_texts = {}
    backend.live = {}
    async with open_app(start="jobs") as (app, pilot):
        text = await typed(pilot)
        await press(pilot, "escape", "q")
        assert isinstance(app.screen, Confirm)
        assert "Jobs (2) lists them" in screen_text(app)
        await press(pilot, "enter")
        assert "No job files" not in screen_text(app) and "new, not saved" in screen_text(app)
        await press(pilot, "enter")
        assert (await planned(pilot)).draft.text == text


async def test_one_that_is_no_job_yet_says_why(open_app: Any) -> None:
    """Under the name of its file to be, with what is wrong at its line."""
    async with open_app(start="jobs") as (app, pilot):
        await press(pilot, "n", "enter")
        screen = await planned(pilot)
        screen.draft.set_text("version: 1\nimagee: x\n", now=True)
        await planned(pilot)
        await press(pilot, "escape")
        text = screen_text(app)
        assert "new-job" in text and "line 2" in text
        assert "imagee" in text


async def test_a_template_that_nobody_changed_is_no_unsaved_job(open_app: Any) -> None:
    """n makes it again; quitting does not ask for it."""
    async with open_app(start="jobs") as (app, pilot):
        await press(pilot, "n", "enter")
        await planned(pilot)
        await press(pilot, "escape")
        assert "not saved" not in screen_text(app)
        assert not app.drafts


@pytest.mark.parametrize("again", [False, True])
async def test_the_job_of_a_run_that_was_started_unsaved(open_app: Any, backend: FakeBackend, again: bool) -> None:
    """J opens what the run was started from, as a new job, in a later session, too; saved it is a file. What R starts
    keeps the text as well."""
    async with open_app(start="jobs") as (app, pilot):
        await press(pilot, "n", "enter")
        text = (await planned(pilot)).draft.text
        await press(pilot, "L")
        await press(pilot, "right", "enter")
        live = next(live for live in backend.live.values() if live.plan.job == "new-job")
        await live.feed(*launching(live.plan, NOW), *failing(live.plan, NOW + 60, 0))
        await settle(pilot)
        if again:
            backend.run_name = lambda job: f"{job}-2"  # type: ignore[method-assign]
            await press(pilot, "R")
            await press(pilot, "tab", "enter")
            live = backend.live["new-job-2"]
            found = recorded_job(live.stored)
            assert found is not None and found.text == text
    async with open_app(start=live) as (app, pilot):
        assert isinstance(app.screen, RunScreen)
        await press(pilot, "J")
        screen = await planned(pilot)
        assert (screen.draft.text, screen.crumbs) == (text, ("Jobs", "new-job.yaml"))
        assert "new, not saved" in screen_text(app)
        assert not there("new-job.yaml")
        assert not app.drafts, "nothing of it would be lost"
        await press(pilot, "w")
        assert read("new-job.yaml") == text


async def test_what_was_typed_since_the_start_is_what_j_opens(open_app: Any, backend: FakeBackend) -> None:
    """The job is still open here, and has edits that the run does not have."""
    async with open_app(start="jobs") as (app, pilot):
        await press(pilot, "n", "enter")
        await planned(pilot)
        await press(pilot, "L")
        await press(pilot, "right", "enter")
        await press(pilot, "2")
        screen = await planned(pilot)
        screen.form.field("image").focus()
        await press(pilot, "enter", "x", "enter")
        text = screen.draft.text
        await press(pilot, "3", "J")
        assert (await planned(pilot)).draft.text == text
        assert "new-job.yaml has changed since" in "\n".join(n.message for n in app._notifications)


async def test_without_a_file_and_a_text_it_is_said(open_app: Any, backend: FakeBackend) -> None:
    """A run of another machine, or one that was started by flags."""
    backend.job_texts = {}
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "J")
        assert "there is no job file for llm-pretrain here" in "\n".join(n.message for n in app._notifications)
