"""Whatever lies in a run's folder, the run can be looked at: what can't be read is left out, counted, and said."""

from __future__ import annotations

import copy
import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distui.cli.actions import show, wait
from distui.cli.printing.run_rows import row_json
from distui.cluster.logs import from_files
from distui.codec import write
from distui.plan import serialize
from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import (
    AttemptEnded,
    Carried,
    Event,
    Failure,
    FailureFound,
    GpuReading,
    HostChanged,
    HostSampled,
    NetworkUsed,
    Notice,
    PhaseBegun,
    Progressed,
    RankChanged,
    RanksAsked,
    RankSilent,
    RanksMoved,
    RanksRestarted,
    RunEnded,
    RunOpened,
    StopAsked,
    TaskStarted,
)
from distui.runs.lines.explanation import Explanation, RankPlace
from distui.runs.report.history import stored_row
from distui.runs.report.summary import FILE, summary
from distui.runs.report.text import evidence
from distui.runs.state.reducer import RunState, apply
from distui.runs.store import journal as journal_module
from distui.runs.store.journal import Journal
from distui.runs.store.recorded import Recorded, first_errors, stored_events, stored_progress, stored_samples
from distui.runs.store.runs import RunStore, StoredRun
from fakehosts.runs import plan_for

HANG = Explanation(
    "hang", "rank 1 sleeps", "certain",
    (RankPlace(1, "h1", "sleeps", "all_reduce #30", 1, True), RankPlace(0, "h0", "waits")),
    ("rank 0 entered",), "look", 1.0, "all_reduce #31",
)  # fmt: skip
FAILURE = Failure(1, "h1", 3, "exit 3", "a cause", "a hint", ("boom",), 5.0, "worker/1")
EVENTS: tuple[Event, ...] = (
    RunOpened(1.0, "r", "j", "env", "img", {0: "h0", 1: "h1"}, {0: (0,), 1: (1,)}, 1, False, "/l", 2, {1: "worker/1"}),
    PhaseBegun(1.1, "start", "words"),
    HostChanged(1.2, "h0", "lost", "why"),
    TaskStarted(1.3, 0, "h0", "abc"),
    RankChanged(1.4, 1, "h1", "exited", 3, False, "exit 3"),
    RankSilent(1.5, 0, "h0", True, 3.0, 4.0),
    RanksMoved(1.52, (0, 1), 1.5),
    RanksAsked(1.55, HANG),
    NetworkUsed(1.57, "begun", "ib0 100 % of 41 GB", (Carried("h0", "ib0", 20, 21, True),), ("a warning",)),
    FailureFound(1.6, FAILURE),
    StopAsked(1.7, "failure", 10.0),
    Notice(1.8, "error", "words", "h0"),
    RanksRestarted(1.9, 0, 0, "h0", 1, 1, 3),
    AttemptEnded(2.0, 1, 2, FAILURE, 5.0, "/l"),
    RunEnded(9.0, "failed", 1, FAILURE, "/l", ("left",), 8.0, Progressed(9.0, 0, "h0", {"step": 3.0}, {"p": "x"}, 0.5)),
)
SAMPLED = HostSampled(1.0, "h0", (GpuReading(0, 50.0, 10, None, 60.0, 70.0),), {"eth0": (1.0, 2.0)})
VALUES = [value for event in EVENTS for value in to_json(event, "r")]
METRICS = [*to_json(SAMPLED, "r"), *to_json(Progressed(1.0, 0, "h0", {"step": 3.0}), "r")]


@pytest.fixture
def stored(home: Path) -> StoredRun:
    return RunStore(home / ".local/state/distui").create("r")


def record(stored: StoredRun, *values: Any) -> None:
    (stored.path / "events.ndjson").write_text("".join(json.dumps(v) + "\n" for v in values))


def test_every_event_comes_back_as_it_was(stored: StoredRun) -> None:
    """What distui itself writes is never taken for garbage."""
    journal = Journal(stored)
    journal.write([*EVENTS, SAMPLED])
    journal.close()
    recorded = Recorded(stored)
    assert tuple(recorded) == EVENTS
    assert recorded.left_out == 0
    assert stored_samples(stored)[0].gpus[0].power_w == 70.0


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("phase", '"phase": "start", "detail": "words"'),
        ("host", '"host": "h0", "state": "lost", "reason": "why"'),
        ("task", '"task": 0, "host": "h0", "id": "abc"'),
        ("moved", '"ranks": [0, 1], "last": "1970-01-01T00:00:01.500Z"'),
        ("stop", '"reason": "failure", "grace": 10.0'),
        ("notice", '"level": "error", "host": "h0", "text": "words"'),
        ("restart", '"rank": 0, "task": 0, "host": "h0", "exit": 1, "count": 1, "allowed": 3'),
    ],
)
def test_events_are_stored_in_these_words(type_: str, text: str) -> None:
    """Byte for byte: others read them, and later versions of distui."""
    (stored_text,) = [json.dumps(value) for value in VALUES if value["type"] == type_]
    assert stored_text.endswith(f'"run": "r", "type": "{type_}", {text}}}')


def test_an_event_that_can_t_be_is_left_out_and_counted(cli: Any, stored: StoredRun) -> None:
    """`"rank": []` and its like end neither show nor ps; show says how many lines are missing."""
    stored.write_plan(serialize.to_json(plan_for("h0", "h1")))
    bad = [{**VALUES[4], "rank": []}, {**VALUES[4], "host": 7}, {**VALUES[0], "ranks": [{"rank": {}}]}, [1]]
    record(stored, *VALUES, *bad)
    with (stored.path / "events.ndjson").open("a") as file:
        file.write("torn {\n" + "[" * 100_000 + "\n")
    recorded = Recorded(stored)
    assert tuple(recorded) == EVENTS
    assert recorded.left_out == 6
    shown = cli("show", "r")
    assert shown.code == 0
    assert "6 lines of " in shown.err
    assert "worker/1 on h1 failed first: exit 3" in shown.out
    assert cli("show", "r", "--report").code == 0
    assert cli("ps", "-a").code == 0


def test_a_log_that_is_none_is_named_and_the_others_are_printed(cli: Any, stored: StoredRun) -> None:
    """A folder, a FIFO: in words, exit 6, after all that can be read. Also without a plan, as far as files tell."""
    record(stored, *VALUES)
    for rank in (0, 3):
        stored.rank_log(rank).write_text(f"words of {rank}\n")
    stored.rank_log(1).mkdir()
    os.mkfifo(stored.rank_log(2))
    for plan in ({"tasks": [{"index": r, "ranks": [r], "host": "h"} for r in range(4)]}, {"tasks": 7}, {}):
        stored.write_plan(plan)
        for more in ((), ("--merge",), ("-n", "1"), ("-t",)):
            done = cli("logs", "r", *more)
            assert done.code == 6
            assert "words of 0" in done.out and "words of 3" in done.out
            assert "rank-00001.log is a folder, not a file" in done.err
            assert "rank-00002.log is a FIFO, not a regular file" in done.err


def test_half_a_character_anywhere_ends_no_verb(cli: Any, stored: StoredRun) -> None:
    """JSON may hold `\\ud800`, which no terminal takes: it is shown as one that can't be read."""

    kept = ("type", "state", "phase", "engine", "engine_command")

    def halved(value: Any) -> Any:
        match value:
            case dict():
                return {key: inner if key in kept else halved(inner) for key, inner in value.items()}
            case list():
                return [halved(inner) for inner in value]
            case str() if not re.match(r"\d{4}-\d\d-", value):
                return value + "\ud800"
        return value

    plan = serialize.to_json(plan_for("h0", "h1"))
    stored.write_plan({**plan, "tasks": halved(plan["tasks"]), "job": "j\udcff", "owner": "\udbffo"})
    record(stored, *(halved(value) for value in VALUES))
    (stored.path / "metrics.ndjson").write_text("".join(json.dumps(halved(v)) + "\n" for v in METRICS))
    stored.rank_log(0).write_text("words of 0\n")
    said = ""
    for words in ("show", "show --report", "show -o json", "logs", "logs --merge", "wait", "wait -o json", "attach"):
        verb, *flags = words.split()
        done = cli(verb, "r", *flags)
        assert done.code == (1 if verb in ("wait", "attach") else 0), (words, done.err)
        said += done.out
    for words in (("ps", "-a"), ("ps", "-a", "-o", "json")):
        done = cli(*words)
        assert done.code == 0
        said += done.out
    assert "\ufffd" in said


def look(stored: StoredRun) -> None:
    """Everything that reads a recorded run."""
    state = RunState()
    for event in stored_events(stored):
        state = apply(state, event)
        json.dumps(to_json(event, "r"), ensure_ascii=False).encode()
    evidence(plan_for("h0", "h1"), state, {}, "/l")
    json.dumps(row_json(stored_row(stored)), ensure_ascii=False).encode()
    show.read_record(stored)
    wait._all_running(stored)
    stored_progress(stored)
    stored_samples(stored)
    from_files.rank_files(stored)
    summary(stored)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just(10**400), st.just("nan"),
    st.just([]), st.just({}), st.just([[]]), st.just([{}]), st.just({"rank": []}), st.just("0001-01-01T00:00:00"),
    st.just("half \ud800"), st.just("\udcff"), st.just({"\udc80": "\udbff"}),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a JSON value with something else at one place."""
    if not path:
        return new
    made = at = copy.deepcopy(value)
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return made


many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(data=st.data())
@many
def test_anything_at_any_place_of_an_event(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A whole run with one value replaced by anything can be looked at, and gives back no event that can't be."""
    stored = RunStore(tmp_path_factory.mktemp("state")).create("r")
    number = data.draw(st.integers(0, len(VALUES) - 1))
    path = data.draw(st.sampled_from(list(places(VALUES[number]))))
    changed = put(VALUES[number], path, data.draw(LEAVES))
    record(stored, *VALUES[:number], changed, *VALUES[number + 1 :])
    look(stored)


@given(data=st.data())
@many
def test_anything_at_any_place_of_a_sample_or_a_summary(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    stored = RunStore(tmp_path_factory.mktemp("state")).create("r")
    record(stored, *VALUES)
    value = data.draw(st.sampled_from(METRICS))
    changed = put(value, data.draw(st.sampled_from(list(places(value)))), data.draw(LEAVES))
    (stored.path / "metrics.ndjson").write_text(json.dumps(changed) + "\n")
    kept = write(summary(stored))
    path = data.draw(st.sampled_from([p for p in places(kept) if p[:1] != ("of",)]))
    (stored.path / FILE).write_text(json.dumps(put(kept, path, data.draw(LEAVES))))
    look(stored)


@given(data=st.data())
@many
def test_anything_at_any_place_of_a_plan(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """It is the plan, or none."""
    stored = RunStore(tmp_path_factory.mktemp("state")).create("r")
    value = serialize.to_json(plan_for("h0", "h1"))
    path = data.draw(st.sampled_from(list(places(value))[1:]))
    stored.write_plan(put(value, path, data.draw(LEAVES)))
    record(stored, *VALUES)
    look(stored)
    try:
        plan = serialize.from_json(stored.read_plan() or {})
    except serialize.UsageError:
        return
    assert serialize.from_json(json.loads(json.dumps(serialize.to_json(plan)))) == plan


def test_what_gpus_had_counted_when_a_run_began(tmp_path: Path) -> None:
    """By the first sample of each host; a GPU that does not tell has none, and a torn line is left out."""
    stored = RunStore(tmp_path).adopt("r")
    assert first_errors(stored) == {}
    samples = [
        HostSampled(1.0, "h1"),
        HostSampled(2.0, "h1", (GpuReading(0, ecc=3), GpuReading(1))),
        HostSampled(3.0, "h1", (GpuReading(0, ecc=5), GpuReading(1, ecc=2))),
        HostSampled(4.0, "h2", (GpuReading(0, ecc=0),)),
    ]
    journal = Journal(stored)
    for sample in samples:
        journal.write([sample])
    journal.close()
    with (stored.path / "metrics.ndjson").open("ab") as file:
        file.write(b'{"type":"gpu"')
    assert first_errors(stored) == {("h1", 0): 3, ("h2", 0): 0}


def test_figures_of_a_long_run_take_bounded_room(stored: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the newest stay, in order and whole, whoever writes; a full disk costs none of them."""
    for name, value in (("FIRST_BYTES", 2_000), ("MOST_FIGURES", 20_000), ("NEWEST_FIGURES", 6_000)):
        monkeypatch.setattr(journal_module, name, value)
    sizes = []
    for part in range(4):
        with closing(Journal(stored)) as journal:
            for at in range(part * 100, part * 100 + 100):
                journal.write([HostSampled(float(at), "h1", (GpuReading(0, 50.0, ecc=at),))])
                sizes.append((stored.path / "metrics.ndjson").stat().st_size)
    assert max(sizes) < 20_500 and sizes != sorted(sizes)
    times = [sample.at for sample in stored_samples(stored)]
    assert times == sorted(times)
    assert times[:5] == [0.0, 1.0, 2.0, 3.0, 4.0] and times[-20:] == [float(at) for at in range(380, 400)]
    assert first_errors(stored) == {("h1", 0): 0}
    with monkeypatch.context() as full:
        full.setattr(journal_module, "write_private", no_room)
        with closing(Journal(stored)) as journal:
            for at in range(400, 500):
                journal.write([HostSampled(float(at), "h1", (GpuReading(0, 50.0),))])
    assert [sample.at for sample in stored_samples(stored)] == [*times, *map(float, range(400, 500))]


def no_room(path: Path, data: bytes) -> None:
    """A full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
