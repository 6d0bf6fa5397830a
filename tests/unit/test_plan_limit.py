"""`max_duration`: where it stands in what is started, and which ends it explains."""

from __future__ import annotations

import dataclasses

import pytest

from distui.plan.command import docker, limit
from distui.plan.command.process import PROGRAM
from distui.plan.labels import task_from_labels
from distui.plan.model import RunPlan
from distui.plan.plan import plan
from distui.plan.text.render import render_text
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Job
from fakehosts.runs import facts_of, plan_for

JOB = Job("j", image="img:1", command=("python", "t.py"), max_duration=7200.0, stop_grace=20.0)


def test_timeout_stands_around_the_command() -> None:
    """Of every task, in plain sight; labels tell other machines."""
    made = plan_for("h1", "h2", command=("python", "t.py"), max_duration=7200.0, stop_grace=20.0)
    for task in made.tasks:
        image = task.start.index("img:1")
        assert task.start[image + 1 :] == ("timeout", "--foreground", "-k", "20", "7200", "python", "t.py")
        assert task.labels["distui.max_duration"] == "7200"
    assert made.max_duration == 7200.0
    assert "Each task is stopped after 2h by `timeout` around its command." in render_text(made, width=1000)


def test_without_a_limit_nothing_is_added() -> None:
    """The command stands as it is."""
    made = plan_for("h1", command=("python", "t.py"))
    assert made.tasks[0].start[-2:] == ("python", "t.py")
    assert "distui.max_duration" not in made.tasks[0].labels


def test_an_entry_point_comes_inside() -> None:
    """`--entrypoint X` with a command would make X run `timeout`, not the other way round."""
    made = plan_for("h1", command=("a",), entrypoint="/run.sh", max_duration=60.0)
    start = made.tasks[0].start
    assert start[start.index("--entrypoint") + 1] == "timeout"
    assert start[start.index("img:1") + 1 :] == ("--foreground", "-k", "5", "60", "/run.sh", "a")


def test_an_entry_point_that_is_taken_away_is_no_word() -> None:
    """`entrypoint: ""` runs the command itself: timeout was told to run a program without a name."""
    start = plan_for("h1", command=("a",), entrypoint="", max_duration=60.0).tasks[0].start
    assert start[start.index("--entrypoint") + 1] == "timeout"
    assert start[start.index("img:1") + 1 :] == ("--foreground", "-k", "5", "60", "a")


def test_a_limit_of_weeks_is_told_to_the_second() -> None:
    """`1.23457e+06` is three seconds more, and a task that timeout ended sooner counted as failed."""
    (task,) = plan_for("h1", command=("a",), max_duration=1_234_567.0).tasks
    assert task.start[-3:] == ("5", "1234567", "a")
    labels = task_from_labels(task.labels)
    assert labels is not None and labels.max_duration == 1_234_567.0


def test_a_process_is_ended_with_its_group() -> None:
    """Without a container nothing takes its children along."""
    inventory = Inventory((Host("h1", engine="process", engine_command=("process",)),))
    made = plan(JOB, inventory, (HostPick("h1"),), {"h1": facts_of("h1")}, run_id="r1", owner="o", version="0")
    assert isinstance(made, RunPlan), made
    start = made.tasks[0].start
    assert start[start.index(PROGRAM) + 1 :] == ("timeout", "-k", "20", "7200", "python", "t.py")


def test_a_later_attempt_has_what_is_left() -> None:
    """The limit is of all attempts together; the plan's hash is the job's."""
    inventory, facts = Inventory((Host("h1"),)), {"h1": facts_of("h1")}
    job = dataclasses.replace(JOB, retries=1)
    made = [
        plan(job, inventory, (HostPick("h1"),), facts, run_id="r", owner="o", version="0", attempt=n, spent=spent)
        for n, spent in ((1, 0.0), (2, 7000.4))
    ]
    assert [m.max_duration for m in made if isinstance(m, RunPlan)] == [7200.0, 200.0]
    assert len({m.hash for m in made if isinstance(m, RunPlan)}) == 1


@pytest.mark.parametrize(
    ("code", "lasted", "seconds", "so"),
    [
        (124, 60.2, 60.0, True),
        (137, 63.0, 60.0, True),
        (143, 59.6, 60.0, True),
        (137, 59.6, 60.0, True),
        (1, 60.1, 60.0, True),
        (139, 59.8, 60.0, False),
        (1, 59.8, 60.0, False),
        (124, 30.0, 60.0, False),
        (0, 61.0, 60.0, False),
        (None, 61.0, 60.0, False),
        (1, None, 60.0, False),
        (124, 60.0, None, False),
    ],
)
def test_which_ends_are_the_limits(code: int | None, lasted: float | None, seconds: float | None, so: bool) -> None:
    """Bad ones at or after it; just before it, where that may only seem so, what a limit leaves."""
    assert limit.reached(code, lasted, seconds) is so


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ('{"Id": "x", "Config": {"Entrypoint": ["/opt/e.sh", "-x"]}}', "/opt/e.sh -x"),
        ('[{"Id": "x", "Config": {"Entrypoint": null}}]', ""),
        ('{"Id": "x"}', ""),
    ],
)
def test_an_images_own_entry_point(messages: str, words: str) -> None:
    """As docker and podman tell it."""
    assert docker.read_entrypoint(messages) == words
