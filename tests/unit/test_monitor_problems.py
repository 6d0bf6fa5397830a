"""Problems of all hosts and runs in one list: which there are, and in which order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from distui.facts.host import Disk, Engine, HostDown, HostFacts, Trouble
from distui.monitor.board import Board
from distui.monitor.problems import Problem, folded, of_row, problems, report
from distui.runs.lines.events import (
    Failure,
    FailureFound,
    HostChanged,
    NetworkUsed,
    RankChanged,
    RanksAsked,
    RankSilent,
    RanksStepped,
    RankStep,
    RunEnded,
    RunOpened,
    RunStalled,
)
from distui.runs.lines.explanation import Explanation
from distui.runs.report.history import RunRow
from distui.runs.state.reducer import RunState, apply
from distui.runs.state.standstill import Standstill
from distui.spec.hosts.inventory import Host


def facts(**more: Any) -> HostFacts:
    """What a host says."""
    return HostFacts("h", "h", **more)


def board(*names: str) -> Board:
    """A board of these hosts."""
    return Board([Host(name) for name in names])


HANG = Explanation("hang", "rank 1 has not entered all_reduce #3", "certain", (), advice="look at train.py:6")
WIRE = "h1 and h2 exchange 98 % over eth0, not over ib0; NCCL_DEBUG=INFO tells why"


def state(*events: object, names: Mapping[int, str] | None = None) -> RunState:
    """A run of two ranks on two hosts after these events."""
    opened = RunOpened(1.0, "a", "job", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)}, names=names or {})
    running = [RankChanged(2.0, rank, host, "running") for rank, host in ((0, "h1"), (1, "h2"))]
    found = RunState()
    for event in (opened, *running, *events):
        found = apply(found, event)  # type: ignore[arg-type]
    return found


def test_the_worst_comes_first() -> None:
    """A host that is gone, what is wrong with runs and then hosts, then what is to be watched in the same order."""
    b = board("h1", "h2", "h3")
    b.probed("h1", dataclasses.replace(facts(), clock_offset_ms=-800.0), 1)
    missing = Trouble("engine_missing", "docker is not installed", "install it")
    b.probed("h2", dataclasses.replace(facts(), engine=Engine("docker", ("docker",), problem=missing)), 1)
    b.probed("h3", HostDown("h3", Trouble("auth", "h3: publickey refused", "ssh -v h3")), 1)
    runs = {"a": state(RanksAsked(9.0, HANG), NetworkUsed(9.0, "going", "", (), (WIRE,)))}
    found = problems(b.hosts.values(), runs, (), 10.0)
    assert [(one.kind, one.name, one.level, one.text) for one in found] == [
        ("host", "h3", "wrong", "publickey refused"),
        ("run", "a", "wrong", "rank 1 has not entered all_reduce #3"),
        ("host", "h2", "wrong", "docker: docker is not installed"),
        ("run", "a", "watch", "h1 and h2 exchange 98 % over eth0, not over ib0"),
        ("host", "h1", "watch", "its clock is 0.80 s behind"),
    ]
    assert found[3].hint == "NCCL_DEBUG=INFO tells why"


def test_hosts_that_are_down_for_one_reason_are_one_problem() -> None:
    """Whatever their addresses are; one alone has its address."""
    b = board("n1", "n2", "n3")
    for number in (1, 2):
        said = f"n{number} (10.0.0.{number}:22) refuses connections: no ssh server listens on port 22"
        hint = f"start sshd there: `ssh -v -o HostName=10.0.0.{number} n{number}`"
        b.probed(f"n{number}", HostDown(f"n{number}", Trouble("refused", said, hint)), 1)
    found = problems(b.hosts.values(), {}, (), 2.0)
    assert [one.text for one in found] == [
        f"10.0.0.{number}:22 refuses connections: no ssh server listens on port 22" for number in (1, 2)
    ]
    (both,) = folded(found)
    assert (both.name, both.text) == ("n[1-2]", "refuses connections: no ssh server listens on port 22")


def test_a_disk_that_is_full_is_remarked() -> None:
    """By the rule of doctor: little room is watched, none is wrong."""
    b = board("h1", "h2", "h3")
    for name, free in (("h1", 100), ("h2", 5), ("h3", 1)):
        b.probed(name, dataclasses.replace(facts(), disks=(Disk("/", free << 30, 900 << 30),)), 1)
    found = problems(b.hosts.values(), {}, (), 2.0)
    assert [(one.name, one.level) for one in found] == [("h3", "wrong"), ("h2", "watch")]
    assert all(one.text.startswith("disk: only ") for one in found)


def test_a_run_says_what_failed_which_hosts_are_lost_and_who_is_silent() -> None:
    """A failure explains more than who waits; a run that has ended is no problem of now."""
    failure = Failure(1, "h2", 1, "exit 1", "CUDA error", "leave GPU 5 out")
    runs = {
        "failed": state(RanksAsked(8.0, HANG), FailureFound(9.0, failure)),
        "lost": state(
            HostChanged(9.0, "h2", "lost", "no answer for 15 s"), RankSilent(9.0, 1, "h2", True, 40.0, util=0.0)
        ),
        "cpu": state(RankSilent(9.0, 1, "h2", quiet=True, seconds=40.0)),
        "still": state(RunStalled(9.0, True, 2.0, 22)),
        "late": state(
            RanksStepped(2.0, (RankStep(0, 22, 2.0), RankStep(1, 9, 1.0), RankStep(2, 22, 2.0))),
            RunStalled(9.0, True, 2.0, 22),
        ),
        "over": state(FailureFound(9.0, failure), RunEnded(10.0, "failed", 1, failure, "", (), 9.0)),
    }
    found = problems((), runs, (RunRow("failed", "job", "partial", ("h1",), 2, live=True),), 10.0)
    assert [(one.name, one.level, one.text) for one in found] == [
        ("failed", "wrong", "rank 1 on h2 failed first: CUDA error"),
        ("lost", "wrong", "contact with h2 is lost: no answer for 15 s"),
        ("still", "wrong", "it stands still: no step for 8s, the last was 22"),
        ("late", "wrong", "it stands still: no step for 8s, the last was 22; rank 1 is behind"),
        ("lost", "watch", "rank 1 says nothing, and the GPUs do nothing"),
        ("cpu", "watch", "rank 1 says nothing"),
    ]


def test_rows_tell_of_runs_that_nobody_follows_here() -> None:
    """Parts that are over, starts that broke off, ends that were not cleaned up; others are no problem."""
    row = RunRow("a", "job", "running", ("h1", "h2"), 2, live=True)
    assert not list(of_row(row, 10.0))
    for changed, key in (("partial", "enter"), ("left", "X"), ("unknown", "enter")):
        (found,) = of_row(dataclasses.replace(row, state=changed), 10.0)
        assert (found.level, found.hint.split()[0]) == ("watch", key)
    assert not list(of_row(dataclasses.replace(row, state="succeeded"), 10.0))
    for cleaned in (False, True):  # what is recorded here, and what other machines left
        left = dataclasses.replace(row, state="failed", cleaned=cleaned, left=("h1", "h2"))
        (found,) = of_row(left, 10.0)
        assert "was not cleaned up on h[1-2]" in found.text


def test_a_run_that_nobody_follows_and_that_is_quiet_is_to_be_watched() -> None:
    """It may stand still, or say little: who follows it is told which. One that is followed is no problem by that."""
    row = RunRow("a", "job", "running", ("h1", "h2"), 2, live=True, quiet=10.0)
    (found,) = problems((), {}, (row,), 10.0 + 9 * 3600)
    assert (found.level, found.text) == ("watch", "no rank said a line for 9h, and nobody follows it here")
    assert found.hint.startswith("enter follows it")
    assert not list(of_row(dataclasses.replace(row, followed=True), 1e5))


def test_a_run_that_another_terminal_follows_stands_still_here_too() -> None:
    """What stands in the list of runs stands among the problems; once it is followed here, its events tell."""
    row = RunRow("a", "job", "running", ("h1", "h2"), 2, live=True, stalled=Standstill(2.0, 22))
    (found,) = problems((), {}, (row,), 10.0)
    assert (found.name, found.level) == ("a", "wrong") and "asks the ranks" in found.hint
    assert found.text == "it stands still: no step for 8s, the last was 22"
    (silent,) = of_row(dataclasses.replace(row, stalled=Standstill(2.0)), 10.0)
    assert silent.text == "it stands still: no line for 8s"
    (twice,) = problems((), {"a": state(RunStalled(9.0, True, 3.0, 22))}, (row,), 10.0)
    assert "no step for 7s" in twice.text
    ended = dataclasses.replace(row, state="succeeded")
    assert not list(of_row(ended, 10.0)), "what was said of it before it ended"


def test_a_run_that_failed_is_reported_for_a_day_unless_somebody_looked() -> None:
    """With who failed first; one with an attempt to come, one that was stopped and one of last week are not told."""
    failure = Failure(13, "h2", 1, "exit 1", "CUDA out of memory")
    row = RunRow("a", "job", "failed", ("h1",), 2, started=100.0, took=50.0, failure=failure, recorded=True)
    (found,) = problems((), {}, (row,), 7400.0)
    assert (found.kind, found.name, found.level) == ("run", "a", "watch")
    assert found.text == "it failed 2h ago: r13 h2 exit 1: CUDA out of memory"
    assert found.hint.startswith("enter ")
    ended = state(FailureFound(9.0, failure), RunEnded(150.0, "failed", 1, failure))
    assert problems((), {"a": ended}, (row,), 7400.0) == [found], "also while it is still open here"
    assert problems((), {"a": state()}, (row,), 7400.0) == [], "a run of this name that goes on"
    assert problems((), {}, (row,), 7400.0, {("a", "")}) == []
    (start,) = problems((), {}, (dataclasses.replace(row, state="launch_failed", failure=None),), 7400.0)
    assert start.text == "it could not be started 2h ago"
    others = ({"state": "stopped"}, {"started": 100.0 - 90_000}, {"started": None}, {"state": "succeeded"})
    for changed in others:
        assert problems((), {}, (dataclasses.replace(row, **changed),), 7400.0) == []  # type: ignore[arg-type]
    retried = dataclasses.replace(row, attempt=1, attempts=3, live=True)
    for there in (retried, dataclasses.replace(retried, left=("h1",))):  # its containers have ended, or are gone, too
        assert not [one for one in problems((), {}, (there,), 7400.0) if "ago" in one.text]
    for last in ({"attempt": 3}, {"collected": True}, {"live": False}):
        assert problems((), {}, (dataclasses.replace(retried, **last),), 7400.0) == [found]  # type: ignore[arg-type]


def test_tasks_that_have_names_are_called_by_them() -> None:
    """A number among all tasks of TensorFlow is nothing that its users know."""
    names = {0: "chief/0", 1: "worker/0"}
    steps = RanksStepped(2.0, (RankStep(0, 22, 2.0), RankStep(1, 9, 1.0), RankStep(2, 22, 2.0)))
    silent = RankSilent(9.0, 1, "h2", quiet=True, seconds=40.0)
    failure = Failure(1, "h2", 1, "exit 1", name="worker/0")
    runs = {
        "failed": state(FailureFound(9.0, failure), names=names),
        "late": state(steps, RunStalled(9.0, True, 2.0, 22), silent, names=names),
    }
    assert [one.text for one in problems((), runs, (), 10.0)] == [
        "worker/0 on h2 failed first: exit 1",
        "it stands still: no step for 8s, the last was 22; worker/0 is behind",
        "worker/0 says nothing",
    ]


def test_a_name_that_was_used_again_is_another_failure() -> None:
    """Who looked at the first one's end has not seen the second's; of its attempts one end is looked at."""
    row = RunRow("a", "job", "failed", ("h1",), 2, started=100.0, took=50.0, recorded=True, launch="beef-2")
    for seen, reported in (("beef", 0), ("cafe", 1), ("", 0)):
        assert len(problems((), {}, (row,), 7400.0, {("a", seen), ("b", "beef")})) == reported
    assert problems((), {}, (dataclasses.replace(row, launch=""),), 7400.0, {("a", "cafe")}) == []


def test_of_a_failed_run_that_is_not_recorded_here_only_folders_are_reported() -> None:
    """Enter has nothing to show of it, and X removes it: one problem, not two."""
    row = RunRow("a", "job", "failed", ("h1",), 2, started=100.0, took=50.0, live=True, left=("h1",))
    (found,) = problems((), {}, (row,), 7400.0)
    assert (found.text, found.hint) == ("it has ended, and was not cleaned up on h1", "X in Runs removes what is left")
    assert len(problems((), {}, (dataclasses.replace(row, recorded=True),), 7400.0)) == 2


def test_hosts_with_the_same_problem_are_reported_once() -> None:
    """But for their own names; runs and other words stay apart."""
    found = [
        Problem("host", "h1", "wrong", "h1 refuses connections", "ssh -v h1"),
        Problem("run", "h1", "wrong", "h1 refuses connections"),
        Problem("host", "h2", "wrong", "h2 refuses connections", "ssh -v h2"),
        Problem("host", "h3", "wrong", "publickey refused"),
    ]
    first, *others = folded(found)
    assert (first.name, first.text) == ("h[1-2]", "refuses connections")
    assert [len(one.problems) for one in others] == [1, 1]
    assert "wrong h[1-2]: refuses connections\n      do    ssh -v h1" in report(found)


def test_a_healthy_cluster_has_none() -> None:
    """Being busy is not a judgement."""
    b = board()
    b.probed("h1", dataclasses.replace(facts(), clock_offset_ms=3.0), 1)
    assert problems(b.hosts.values(), {"a": state()}, (), 3.0) == []
