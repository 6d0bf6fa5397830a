"""Jobs: what a job is and how its last run ended can be seen without opening it."""

from __future__ import annotations

from typing import Any

from fakes import NOW, FakeBackend, screen_text, settle

from distui.runs.lines.events import Failure
from distui.runs.report.history import RunRow
from distui.tui.launch.template_choice import TemplateChoice
from distui.tui.paint.paint import cut_left, cut_name

TF = """\
version: 1
name: tf
launcher: tf
image: tensorflow/tensorflow:2.16.1
hosts: node[01-02]
roles: {chief: {count: 1}, worker: {count: 1}, ps: {per_host: 2}}
command: [python, train.py]
"""
FAILURE = Failure(3, "node02", 1, "exit 1", "the GPU ran out of memory", "smaller batch")


async def test_without_job_files_it_is_said_how_to_make_one(open_app: Any, backend: FakeBackend) -> None:
    """And the key does that: it asks for a template."""
    backend.job_texts = {}
    async with open_app(start="jobs") as (app, pilot):
        await settle(pilot)
        assert "n makes one from a template, which runs as it is" in screen_text(app)
        await pilot.press("n")
        await settle(pilot)
        assert isinstance(app.screen, TemplateChoice)


async def test_the_job_under_the_cursor_and_its_last_run(open_app: Any, backend: FakeBackend) -> None:
    """The newest run of that name counts, with its failure and what to do next; a file that can't be read has none."""
    backend.rows = [
        RunRow("llm-2", "llm-pretrain", "failed", ("node01",), 8, "me", NOW, 190.0, 1, FAILURE, recorded=True),
        RunRow("llm-1", "llm-pretrain", "succeeded", ("node01",), 8, "me", NOW - 86400, 5.0, 0, recorded=True),
    ]
    backend.job_texts = {
        "llm-pretrain": backend.job_texts["llm-pretrain"],
        "tf": TF,
        "broken": backend.job_texts["broken"],
    }
    async with open_app(start="jobs") as (_, pilot):
        await settle(pilot)
        text = screen_text(pilot.app)
        for words in ("8 on each host", "env, 8 per host", "nvcr.io/nvidia/pytorch:25.01-py3", "Last run  llm-2",
                      "failed 1", "r3 node02 the GPU ran out of memory", "smaller batch"):  # fmt: skip
            assert words in text
        await pilot.press("j")
        text = screen_text(pilot.app)
        assert "tf, chief 1, worker 1, ps 2 per host" in text
        assert "not run yet" in text
        await pilot.press("j")
        assert "Last run" not in screen_text(pilot.app)


def test_of_a_long_path_the_end_is_kept() -> None:
    """The name of the file says the most."""
    assert cut_left("jobs/a.yaml", 11) == "jobs/a.yaml"
    assert cut_left("/home/me/jobs/a.yaml", 9) == "…s/a.yaml"


def test_a_long_name_keeps_both_ends() -> None:
    """Two runs of one job differ at the end."""
    assert cut_name("llm-7f3", 7) == "llm-7f3"
    assert cut_name("pretrain-of-a-language-model-7f3x", 20) == "pretrain-of-a-…-7f3x"
    assert [len(cut_name("pretrain-of-a-language-model-7f3x", width)) for width in (1, 2, 4, 10)] == [1, 2, 4, 10]


async def test_the_cursor_stays_on_its_job_when_another_file_comes(open_app: Any, backend: FakeBackend) -> None:
    """A colleague saves one that is listed above it: enter must not open, nor `L` start, another job."""
    backend.job_texts = {"tf": TF, "tg": TF.replace("name: tf", "name: tg")}
    async with open_app(start="jobs") as (app, pilot):
        await settle(pilot)
        await pilot.press("j")
        assert app.screen.chosen.name == "tg"
        backend.job_texts = {"aa": TF.replace("name: tf", "name: aa"), **backend.job_texts}
        await pilot.press("r")
        await settle(pilot)
        assert (app.screen.chosen.name, len(app.screen.files)) == ("tg", 3)
