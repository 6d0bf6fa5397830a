"""What earlier versions of distui wrote is read, and written to the byte as they wrote it: `tests/data/written`.

A file there is never changed: it lies in run folders and in labels of containers as it is. What is added to a format
later has a default, which is read where it is not there: its name is in `ADDED`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distui.codec import read, write
from distui.plan import labels, serialize
from distui.runs.follow.resume import Mark, ResumePoint, Seen
from distui.runs.launch.job_record import record_job, recorded_job
from distui.runs.lines.events import (
    AttemptEnded,
    Event,
    Failure,
    FailureFound,
    HostChanged,
    Notice,
    PhaseBegun,
    Progressed,
    RankChanged,
    RankSilent,
    RanksRestarted,
    RunEnded,
    RunOpened,
    StopAsked,
    TaskStarted,
)
from distui.runs.store.end_record import EndRecord, read_record
from distui.runs.store.journal import Journal
from distui.runs.store.recorded import Recorded
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.store.saved_hosts import save_hosts, saved_hosts
from distui.spec.hosts.inventory import DataNetwork, Host

ADDED = {"on_hang", "image_variables", "build.max_size"}
WRITTEN = Path(__file__).parents[1] / "data" / "written"

FIRST = Failure(
    1, "h1", 3, "exit 3", "a cause", "a hint", ("Traceback", "boom"), 5.25, "worker/1", (2, 3), 0.081, "who?"
)
PLAIN = Failure(None, "h0", None, "the image is not there", alike=())
SAID = Progressed(9.0, 0, "h0", {"step": 3.0, "loss": 2.5}, {"part": "eval"}, 0.5)
EVENTS: tuple[Event, ...] = (
    RunOpened(
        1.0, "r", "j", "env", "img", {0: "h0", 1: "h1"}, {0: (0,), 1: (1,)}, 2, True, "/l", 3,
        {1: "worker/1"}, 0.5, {1: 7},
    ),
    PhaseBegun(1.1, "start", "words"),
    HostChanged(1.2, "h0", "lost", "why"),
    TaskStarted(1.3, 0, "h0", "abc"),
    RankChanged(1.4, 1, "h1", "exited", 3, False, "exit 3", "first", "", 1.35),
    RankChanged(1.4, 0, "h0", "running"),
    RankSilent(1.5, 0, "h0", True, 3.0, 4.0),
    FailureFound(1.6, FIRST),
    FailureFound(1.6, PLAIN),
    StopAsked(1.7, "failure", 10.0),
    Notice(1.8, "error", "words", "h0"),
    Notice(1.8, "info", "words"),
    RanksRestarted(1.9, 0, 5, "h0", 1, 1, 3),
    AttemptEnded(2.0, 1, 2, FIRST, 5.0, "/l"),
    AttemptEnded(2.0, 1, 2, None, 0.0),
    RunEnded(9.0, "failed", 1, FIRST, "/l", ("left",), 8.125, SAID, 2, 3, ("beware",)),
    RunEnded(9.0, "succeeded", 0),
)  # fmt: skip
ENDED = RunEnded(9.0, "failed", 1, FIRST, took=8.0, progress=SAID)
RANKS = (RankChanged(9.0, 0, "h0", "stopped"), RankChanged(8.0, 1, "h1", "exited", 3, words="exit 3", ended_at=8.0))
END = EndRecord("beef-1", "ann@desk", ENDED, RANKS, ("TOKEN",))
LABELS = labels.TaskLabels(
    run="r", task=3, ranks=(4, 5, 6), host="h1", job="j", owner="ann@desk", version="1", plan="0123456789ab",
    role="chief", launcher="tf", backend="nccl", engine="podman", world_size=8, tasks=4, node_rank=2, attempt=2,
    attempts=3, launch="beef", max_duration=90.5, max_restarts=1, min_nodes=2, gpus=(0, 1, 3), ports=(29500,),
    grace=0.5, on_fail="wait", stall_after=60.0, started="2026-11-21T00:00:00Z", boot="b", progress="step (\\d+)",
    secrets=("A", "B"), name="chief/0", done_when="chief", success_file="/out/done", success_seconds=60.0,
    regexes=("success.regex", "same"), rendezvous_file="/s/distui-r-1", keep=True,
)  # fmt: skip
HOSTS = (
    Host(
        "h0", "10.0.0.1", "u", 2222, "podman", ("sudo", "-n", "podman"), (0, 2), 4, {"gpu": "h100"},
        DataNetwork("10.1.0.1", "ib0", "mlx5_0"), 5.0,
    ),
    Host("h1", engine="process", engine_command=(), gpus=2),
)  # fmt: skip
POINT = ResumePoint(
    12, 34, Mark(b"a", 1, 2), Mark(b"b", 3, 4), Mark(b"c", 5, 6), (Seen(b"d", 7, 8), None), (True, False), b"e", True
)


def written(name: str) -> str:
    """A file as an earlier version wrote it."""
    return (WRITTEN / name).read_text()


def as_before(value: Any, of: str = "") -> Any:
    """The same without what was added; `of` is the key it is at."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if ADDED.isdisjoint((key, f"{of}.{key}"))}
        return {key: as_before(one, key) for key, one in kept.items()}
    return [as_before(one) for one in value] if isinstance(value, list) else value


def same(now: str, name: str) -> bool:
    """Whether a file has what an earlier version wrote, in its order."""
    return json.dumps(as_before(json.loads(now))) == json.dumps(json.loads(written(name)))


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    """The folder of a run."""
    return RunStore(tmp_path).create("r")


def test_events(stored: StoredRun) -> None:
    """All that are stored, with every field and with the fewest."""
    journal = Journal(stored)
    journal.write(EVENTS)
    journal.close()
    events = stored.path / "events.ndjson"
    assert events.read_text() == written("events.ndjson")
    stored.write_plan({"tasks": [{"index": 0, "ranks": [0]}, {"index": 1, "ranks": [1]}]})
    recorded = Recorded(stored)
    assert tuple(recorded) == EVENTS and recorded.left_out == 0


def test_the_recorded_end() -> None:
    """As it lies here and on the hosts."""
    assert END.text("r") == written("verdict.json")
    assert read_record(written("verdict.json"), "beef-1") == END


def test_a_failure_of_a_first_version_has_fewer_keys() -> None:
    """What was added since has its default."""
    value = json.loads(written("verdict.json"))
    for key in ("alike", "within_s", "uncertain", "name"):
        del value["result"]["first_failure"][key]
    for key in ("warnings", "attempt", "attempts"):
        del value["result"][key]
    for key in ("relation", "of", "ended_at"):
        del value["ranks"][1][key]
    found = read_record(json.dumps(value), "beef-1")
    assert found is not None and found.ended.failure is not None
    assert (found.ended.failure.words, found.ended.failure.alike, found.ended.attempts) == ("exit 3", (), 1)
    assert found.ranks[1].exit == 3


def test_labels() -> None:
    """In the order in which the engine gets them."""
    assert list(labels.to_labels(LABELS).items()) == list(json.loads(written("labels.json")).items())
    assert labels.task_from_labels(json.loads(written("labels.json"))) == LABELS
    few = labels.TaskLabels("r", 0, (0,), "h", "j")
    assert list(labels.to_labels(few).items()) == list(json.loads(written("few_labels.json")).items())
    assert labels.task_from_labels(json.loads(written("few_labels.json"))) == few


def test_hosts(stored: StoredRun) -> None:
    """How the hosts of a run are reached."""
    save_hosts(stored, HOSTS)
    assert (stored.path / "hosts.json").read_text() == written("hosts.json")
    assert saved_hosts(stored) == HOSTS


def test_a_point_to_read_on_from() -> None:
    """As checkpoints have it."""
    for name, point in (("point.json", POINT), ("first_point.json", ResumePoint())):
        assert json.dumps(write(point)) == written(name)
        assert read(ResumePoint, json.loads(written(name))) == point


def test_a_job(stored: StoredRun) -> None:
    """The job as it was started."""
    (stored.path / "job.json").write_text(written("job.json"))
    found = recorded_job(stored)
    assert found is not None
    record_job(stored, found.job, found.picks)
    assert same((stored.path / "job.json").read_text(), "job.json")
    assert found.job.on_hang == "tell"
    assert found.job.build is not None and found.job.build.max_size == 10 << 30


@pytest.mark.parametrize("name", ["plan.json", "tf_plan.json"])
def test_plans(stored: StoredRun, name: str) -> None:
    """A plan with code, data, an image that is built and rules of its end; one of roles."""
    value: dict[str, Any] = json.loads(written(name))
    plan = serialize.from_json(value)
    stored.write_plan(serialize.to_json(plan))
    assert same((stored.path / "plan.json").read_text(), name)
    assert plan.on_hang == "tell"
