"""J: a run leads to the job that it was started from, not to another one of that name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import JOB, NOW, FakeBackend, FakeLive, launching, screen_text, settle
from training import failing_loudly, opened

from distui.runs.launch.job_record import record_job, record_text
from distui.spec.hosts.inventory import HostPick
from distui.tui.launch.screen import LaunchScreen

PICKS = (HostPick("node01"), HostPick("node02"))


def started_from(backend: FakeBackend, live: FakeLive, path: Path, text: str = JOB, name: str | None = None) -> None:
    """Record that the run was started from this file, which is there."""
    path.write_text(text)
    job = backend.draft(text, str(path), name).job
    assert job is not None
    record_job(live.stored, job, PICKS)


async def its_job(app: Any, pilot: Any) -> tuple[str, str]:
    """J in Runs, on the run llm-7f3: the path of what is opened, and what is said."""
    await pilot.press("J")
    await settle(pilot)
    screen = app.screen
    assert isinstance(screen, LaunchScreen)
    await screen.draft._fresh.wait()
    await settle(pilot)
    return screen.draft.path, "\n".join(notice.message for notice in app._notifications)


async def test_of_two_files_with_a_job_of_one_name_that_of_the_run(
    open_app: Any, backend: FakeBackend, live: FakeLive
) -> None:
    """A copy that was changed is what was started: what is mended there must not be the other."""
    backend.job_texts["copy"] = JOB.replace("per_host: 8}", "per_host: 4}")
    started_from(backend, live, backend.folder / "copy.yaml", backend.job_texts["copy"])
    async with open_app(start="runs") as (app, pilot):
        path, said = await its_job(app, pilot)
        assert (path, said) == (str(backend.folder / "copy.yaml"), "")
        assert "per_host: 4}" in app.screen.draft.text


async def test_a_file_that_has_changed_since(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """It is opened as it is now, and what R would start is told apart."""
    started_from(backend, live, backend.folder / "llm-pretrain.yaml")
    backend.job_texts["llm-pretrain"] = JOB + "# more\n"
    async with open_app(start="runs") as (app, pilot):
        path, said = await its_job(app, pilot)
        assert said == f"{path} has changed since llm-7f3 was started; R starts it as it was"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (JOB + "# edited\n", "llm-7f3 was started from a text that was not saved in {}; R starts it as it was"),
        (JOB + "hosts: node[03-04]\n", ""),
        (JOB, ""),
    ],
    ids=["edits that were thrown away", "other hosts", "saved"],
)
async def test_a_text_that_is_not_that_of_the_file(
    open_app: Any, backend: FakeBackend, live: FakeLive, text: str, words: str
) -> None:
    """The file is as it was, and what was started is not in it; that it was for other hosts is not worth a word."""
    file = backend.folder / "llm-pretrain.yaml"
    started_from(backend, live, file)
    record_text(live.stored, text, {})
    async with open_app(start="runs") as (app, pilot):
        assert await its_job(app, pilot) == (str(file), words.format(file))


@pytest.mark.parametrize("other", [True, False])
async def test_a_file_that_was_written_after_the_start(
    open_app: Any, backend: FakeBackend, live: FakeLive, other: bool
) -> None:
    """The run was started unsaved: another job that has the file by now is not opened in its place."""
    file = backend.folder / "llm-pretrain.yaml"
    job = backend.draft(JOB, str(file)).job
    assert job is not None and not file.exists()
    record_job(live.stored, job, PICKS)
    record_text(live.stored, JOB, {})
    backend.job_texts["llm-pretrain"] = JOB + "# another\n" * other
    async with open_app(start="runs") as (app, pilot):
        path, said = await its_job(app, pilot)
        words = f"{file} was written after llm-7f3 was started: this is the text that it was started from"
        assert (path, said) == (str(file), words * other)
        assert (app.screen.draft.text, app.screen.draft.saved) == (JOB, not other)


async def test_a_file_of_another_folder(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """The run was started there; of several jobs in it the run's is opened, and the first of this folder is left."""
    (backend.folder / "there").mkdir()
    file = backend.folder / "there" / "train.yaml"
    started_from(backend, live, file, f"{JOB.replace('llm-pretrain', 'first')}---\n{JOB}", "llm-pretrain")
    async with open_app(start="runs") as (app, pilot):
        path, said = await its_job(app, pilot)
        assert (path, said) == (str(file), "")
        assert app.screen.crumbs == ("Jobs", "train.yaml#llm-pretrain")
        assert app.screen.draft.job is not None and app.screen.draft.job.name == "llm-pretrain"
        assert "-/2" in screen_text(app)


async def test_a_file_that_was_renamed_or_has_another_job_now(
    open_app: Any, backend: FakeBackend, live: FakeLive
) -> None:
    """By its path where the job is called otherwise by now; by the name where the path is gone. Both is said."""
    file = backend.folder / "copy.yaml"
    started_from(backend, live, file)
    backend.job_texts = {"llm-pretrain": JOB, "copy": JOB.replace("llm-pretrain", "other")}
    async with open_app(start="runs") as (app, pilot):
        path, said = await its_job(app, pilot)
        assert path == str(file)
        assert "has the job other now: llm-7f3 was started as llm-pretrain" in said
    del backend.job_texts["copy"]
    file.unlink()
    async with open_app(start="runs") as (app, pilot):
        path, said = await its_job(app, pilot)
        assert path == str(backend.folder / "llm-pretrain.yaml")
        assert f"{file} has no such job any more: this is {path}, whose job has the same name" in said


@pytest.mark.parametrize("recorded", [False, True])
async def test_where_only_the_name_speaks_for_a_file(
    open_app: Any, backend: FakeBackend, live: FakeLive, recorded: bool
) -> None:
    """It is said, with how many there are: the run is of an older version, or was started by flags."""
    backend.job_texts["copy"] = JOB
    if recorded:
        job = backend.draft(JOB, "").job
        assert job is not None
        record_job(live.stored, job, PICKS)
    why = "llm-7f3 was started without a job file" if recorded else "no job file of llm-7f3 is recorded here"
    async with open_app(start="runs") as (app, pilot):
        path, said = await its_job(app, pilot)
        assert path == str(backend.folder / "llm-pretrain.yaml")
        assert f"{why}: this is {path}, whose job has the same name, one of 2 files that have such a job" in said


async def test_that_only_the_name_speaks_is_said_of_one_file_too(open_app: Any, backend: FakeBackend) -> None:
    """A colleague's run may be of another job of that name than the only one here."""
    async with open_app(start="runs") as (app, pilot):
        path, said = await its_job(app, pilot)
        assert path == str(backend.folder / "llm-pretrain.yaml")
        assert said == f"no job file of llm-7f3 is recorded here: this is {path}, whose job has the same name"


async def test_run_again_from_one_of_several_files_says_so(open_app: Any, backend: FakeBackend, live: FakeLive) -> None:
    """R of a run that did not record its job starts containers: the question says that it is a guess."""
    backend.job_texts["copy"] = JOB
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((160, 40)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("R")
        await settle(pilot)
        assert "one of 2 files that have a job llm-pretrain" in " ".join(screen_text(app).split())
