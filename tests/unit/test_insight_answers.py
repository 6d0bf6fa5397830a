"""A host's answer as values: a real one, and whatever else may come instead."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distui.agent.bundle import bundle, take
from distui.facts.values import loads
from distui.runs.insight.asking.ask import MODULES
from distui.runs.insight.seen.answers import MOST_TEXT, Collective, Frame, Process, Thread, host_answer
from distui.runs.insight.seen.ranks import TaskRanks, ranks_of

REAL = {
    "tasks": [
        {
            "task": 1,
            "processes": [
                {
                    "pid": 19172, "inner": 19172, "parent": 3798, "name": "python", "state": "S", "cpu": 0.98,
                    "read": 0, "written": 512,
                    "threads": [[19172, "python", "S", "do_epoll_wait", 0.0], [19203, "python", "R", "", 0.98]],
                    "busy_with": ["reading", "/data/shard-3.tar"],
                    "recorder": {
                        "version": "2.10",
                        "groups": {
                            "0": {
                                "about": "default_pg",
                                "recent": [
                                    [1, "gloo:all_reduce", "10", "Float", 1795457849498133633, True],
                                    [2, "gloo:all_reduce", "4x5", "Float", 1795457849500032362, False],
                                ],
                                "enqueued": 2, "completed": 1, "ranks": "[0, 1, 10]",
                            }
                        },
                    },
                    "stacks": {
                        "threads": [
                            ["0x00007fd17d2766c0", False, [["/work/prog.py", 11, "spin"]]],
                            ["0x00007fd1a3488b80", True, [["/work/prog.py", 15, "<module>"]]],
                        ]
                    },
                    "hook": {
                        "rank": "1", "local_rank": "", "world_size": "2", "stacks": True, "server": True,
                        "pid": 19172, "python": "3.11.7", "torch": "2.13.0+cpu",
                    },
                }
            ],
        }
    ],
    "pressure": {"cpu": 46.66, "io": 0.3, "memory": 0.0},
    "at": 1795458755.6390703,
}  # fmt: skip
"""As the asker wrote it of a process of torch 2.13."""


def process(**said: Any) -> Process:
    """What is read of one process."""
    (found,) = host_answer("h1", {"tasks": [{"task": 0, "processes": [said]}]}).tasks[0]
    return found


def test_a_real_answer() -> None:
    """Every part of it."""
    found = host_answer("h1", REAL)
    (one,) = found.tasks[1]
    assert (found.host, found.at, found.pressure["cpu"], found.why_not) == ("h1", 1795458755.6390703, 46.66, "")
    assert (one.pid, one.parent, one.name, one.state, one.cpu) == (19172, 3798, "python", "S", 0.98)
    assert (one.read, one.written, one.busy_with) == (0, 512, ("reading", "/data/shard-3.tar"))
    assert one.threads == (Thread("python", "S", "do_epoll_wait", 0.0), Thread("python", "R", "", 0.98))
    assert (one.rank, one.torch, one.unasked) == (1, "2.13.0+cpu", ())
    assert one.groups is not None and list(one.groups) == ["0"]
    group = one.groups["0"]
    assert (group.name, group.about, group.enqueued, group.ranks) == ("0", "default_pg", 2, (0, 1, 10))
    assert group.pending == Collective(2, "gloo:all_reduce", "4x5", "Float", 1795457849500032362, False)
    assert [stack.asked for stack in one.stacks] == [False, True]
    assert one.stacks[1].frames == (Frame("/work/prog.py", 15, "<module>"),)


def test_a_process_of_this_machine(sleeper: subprocess.Popen[str], tmp_path: Path) -> None:
    """Asked as over ssh; it has no hook, and what the kernel tells of it is there all the same."""
    program = bundle(*MODULES)
    tasks = [{"task": 3, "id": "", "folder": str(tmp_path), "hook": str(tmp_path)}]
    asked = {"tasks": tasks, "engine": [], "most": 4, "stacks": True}
    done = subprocess.run(take(program), input=program + json.dumps(asked).encode() + b"\n", capture_output=True)
    assert done.returncode == 0 and done.stdout.startswith(b"DISTUI-INSIGHT:"), done.stderr

    found = host_answer("h1", loads(done.stdout.partition(b":")[2]))

    (one,) = found.tasks[3]
    assert (one.pid, one.parent, one.state, one.cpu < 0.5) == (sleeper.pid, os.getpid(), "S", True)
    assert (one.rank, one.torch, one.groups, one.stacks, one.unasked) == (None, "", None, (), ())
    assert len(one.threads) == 1 and found.at > 1.7e9


def test_what_was_not_answered_is_said() -> None:
    """A recorder that fails is not one without collectives."""
    one = process(recorder={"why": "timed out"}, stacks={"why": "no answer within 2 s"})
    assert one.groups is None and one.unasked == ("collectives: timed out", "stacks: no answer within 2 s")
    assert process(recorder={"groups": {}}).groups == {} and process().groups is None
    assert process(stacks={"why": "no answer in time", "late": True}).late and not one.late


@pytest.mark.parametrize(
    "row",
    [[], [1], [1] * 7, ["1", "a", "", "", 5, True], [1, "a", "", "", -5, True], [1, "a", "", "", 1 << 63, True],
     [1.5, "a", "", "", 5, True], [True, "a", "", "", 5, True], [1 << 60, "a", "", "", 5, True], None, "123456"],
)  # fmt: skip
def test_rows_that_are_no_collectives_are_left_out(row: Any) -> None:
    """Of another width, or without a number or a moment; the others stay."""
    good = [2, "a", "", "", 5, True]
    groups = process(recorder={"groups": {"0": {"recent": [row, good]}}}).groups
    assert groups is not None and groups["0"].recent == (Collective(2, "a", "", "", 5, True),)
    assert groups["0"].enqueued == 2


@pytest.mark.parametrize("rank", [None, 3, -1, "", "-1", "x", "1.0", "99999999", " 1", "1\n", ["1"]])
def test_a_rank_that_is_none(rank: Any) -> None:
    """Nobody's."""
    assert process(hook={"rank": rank}).rank is None


def test_words_are_short_and_safe_to_show() -> None:
    """Programs name their files, groups and threads as they like."""
    long = "\x1b[2J" + "x" * 10_000
    one = process(
        name=long, state=long, busy_with=["reading", long], threads=[[1, long, long, long, 0.5]],
        hook={"torch": long}, recorder={"groups": {long: {"about": long, "recent": [[1, long, long, long, 5, True]]}}},
        stacks={"threads": [[long, True, [[long, 1, long]]]]},
    )  # fmt: skip
    texts = list(texts_of(dataclasses.asdict(one)))
    assert len(texts) > 15 and all(len(text) <= MOST_TEXT and "\x1b" not in text for text in texts)


def test_states_are_one_letter() -> None:
    """As the kernel's, whatever comes in their place."""
    (one,) = host_answer("h", {"tasks": [{"task": 0, "processes": [
        {"pid": 1, "state": "SLEEPS", "threads": [[1, "python", "RUNS", "", 0.5]]}
    ]}]}).tasks[0]  # fmt: skip
    assert (one.state, one.threads[0].state) == ("S", "R")


def test_a_group_that_has_begun_nothing() -> None:
    """Whoever tells no number has begun as many as are listed: none."""
    said = {"pid": 1, "recorder": {"groups": {"0": {"recent": []}}}}
    (one,) = host_answer("h", {"tasks": [{"task": 0, "processes": [said]}]}).tasks[0]
    assert one.groups is not None and one.groups["0"].enqueued == 0


def test_what_is_no_number_is_zero() -> None:
    """And no other number, which could be some process's."""
    found = host_answer("h", {"at": "now", "tasks": [{"task": 0, "processes": [{"pid": "x"}]}]})
    (one,) = found.tasks[0]
    assert (found.at, one.pid, one.parent, one.cpu) == (0.0, 0, 0, 0.0)


def test_pressure_is_of_what_has_one() -> None:
    """Nothing else that a host says under that name."""
    assert host_answer("h1", {"pressure": {"cpu": 5, "x" * 10_000: 7, "io": "3"}}).pressure == {"cpu": 5.0}


KEYS = [
    "tasks", "task", "processes", "pressure", "cpu", "io", "at", "pid", "parent", "name", "state", "read", "threads",
    "busy_with", "recorder", "stacks", "hook", "groups", "recent", "direct", "enqueued", "ranks", "about", "why",
    "rank", "torch", "connections", "own", "peer",
]  # fmt: skip
TEXTS = st.text(max_size=8) | st.sampled_from(["0", "[0, 1]", "\x1b[4m"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=4)), inner, max_size=6),
    ),
    max_leaves=40,
)
PROCESS = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=8)


@given(JSON)
def test_any_json_is_an_answer(value: Any) -> None:
    """What is none says nothing."""
    bounded(value)


@given(st.lists(PROCESS, max_size=3))
@example([{"recorder": {"groups": {"0": {"recent": [[1, "a", "b", "c", 5, True]] * 3, "ranks": "9" * 5000}}}}])
def test_any_json_is_a_process(processes: list[Any]) -> None:
    """Its rank is one of the task's, or it is not seen."""
    bounded({"tasks": [{"task": 0, "processes": processes}], "at": 5})


def bounded(value: Any) -> None:
    """The answer is read, is short, and gives each rank once."""
    found = host_answer("h1", value)
    assert all(len(text) <= MOST_TEXT + len("collectives: ") for text in texts_of(dataclasses.asdict(found)))
    seen = ranks_of([TaskRanks(0, "h1", (0,)), TaskRanks(1, "h1", (1, 2))], {"h1": found}, {2: "exit 1"})
    assert [one.rank for one in seen] == [0, 1, 2]
    assert all(one.process is not None or one.why_not or one.ended for one in seen)


def texts_of(value: Any) -> Iterator[str]:
    """All text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from texts_of(key)
            yield from texts_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_of(one)
