"""A run from its first event to its last: outcomes, stops, lost hosts, stops from elsewhere, full disks."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import json
import time
from collections.abc import Callable

import pytest

from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.errors import ExitCode, HostCommandError, HostUnreachable
from distui.runs.attempt import outbox
from distui.runs.attempt.limits import Limits
from distui.runs.control import supervise
from distui.runs.control.controller import RunController
from distui.runs.ending import review
from distui.runs.follow.followed import Back, Drained, Exited, Lost, Note, Records, Removed
from distui.runs.follow.resume import ResumePoint
from distui.runs.hosts import asking
from distui.runs.hosts.stop_word import StopWord, read_word
from distui.runs.lines.batch import Batch
from distui.runs.lines.events import (
    FailureFound,
    HostChanged,
    LogLines,
    Notice,
    PhaseBegun,
    Progressed,
    RankChanged,
    RankSilent,
    RunEnded,
    RunOpened,
    StopAsked,
    iso,
)
from distui.runs.store.runs import AlreadyFollowed
from distui.runs.store.secret_checks import keep_checks
from distui.runs.watch import ends, tracker
from distui.runs.watch.tracker import RunTracker
from distui.session import Completed
from distui.spec.job.job import Success
from fakehosts.runs import Cluster, facts_of, until


def running(cluster: Cluster) -> Callable[[], bool]:
    """Whether the run is being followed."""
    return lambda: any(isinstance(e, PhaseBegun) and e.phase == "follow" for e in cluster.events)


def states(cluster: Cluster) -> dict[int, str]:
    """The last state of each rank."""
    return {e.rank: e.state for e in cluster.of(RankChanged)}


async def test_all_ranks_succeed(cluster: Cluster) -> None:
    """Exit 0; the first event opens the run, the last ends it, the journal holds them all and no log lines."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0
        host.files[f"log-{task}"] = b"hello\nend without newline"
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit, ended.failure, ended.leftovers) == ("succeeded", 0, None, ())
    assert isinstance(cluster.events[0], RunOpened)
    lines = [(e.rank, line.text) for e in cluster.of(LogLines) for line in e.lines]
    assert sorted(lines) == [(r, t) for r in (0, 1) for t in ("end without newline", "hello")]
    stored = [e["type"] for e in cluster.store.need("r1").events()]
    assert (stored[0], stored[-1]) == ("run", "result")
    assert "log" not in stored
    assert cluster.store.need("r1").rank_log(1).read_bytes() == b"hello\nend without newline"


async def test_a_rank_that_fails_stops_the_rest(cluster: Cluster) -> None:
    """Exit 1; the failed rank is named, the other is stopped by us and not blamed; nothing is left."""
    cluster.hosts[1].engine.exits[1] = 3
    cluster.hosts[1].files["log-1"] = b"boom\n"
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.host, ended.failure.words) == (1, "h2", "exit 3")
    assert ended.failure.excerpt == ("boom",)
    assert states(cluster) == {0: "stopped", 1: "exited"}
    (asked,) = cluster.of(StopAsked)
    assert (asked.reason, asked.grace) == ("failure", 5.0)
    assert cluster.left() == []


async def test_a_good_exit_after_bad_words_is_told_of_a_run_that_failed(cluster: Cluster) -> None:
    """The rank that failed may have missed the one whose traceback ended with 0."""
    cluster.hosts[0].engine.exits[0], cluster.hosts[1].engine.exits[1] = 0, 3
    cluster.hosts[0].files["log-0"] = b'Traceback (most recent call last):\n  File "t.py", line 3\nValueError: 7\n'
    ended = await cluster.run(cluster.plan())

    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.warnings == ("rank 0 ended with exit 0, but the last words are a traceback: ValueError: 7",)


async def ended_well(cluster: Cluster, *logs: bytes, **asked: object) -> RunEnded:
    """A run whose two ranks print this and end with exit status 0."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0
        host.files[f"log-{task}"] = logs[task]
    return await cluster.run(dataclasses.replace(cluster.plan(), **asked))  # type: ignore[arg-type]


async def test_a_good_exit_after_bad_words_is_a_success_with_a_warning(cluster: Cluster) -> None:
    """Exit 0 with a traceback as the last words, and a `progress` that never matched: the result says so."""
    crash = b'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nValueError: 7\n'
    ended = await ended_well(cluster, crash, b"fine\n", progress=r"step (?P<step>\d+)")

    assert (ended.outcome, ended.exit, ended.failure) == ("succeeded", 0, None)
    assert ended.warnings == (
        "rank 0 ended with exit 0, but the last words are a traceback: ValueError: 7",
        r"none of the 4 lines of 2 ranks matched `progress` 'step (?P<step>\\d+)'",
    )
    result = cluster.store.need("r1").result()
    assert result is not None and result["warnings"] == list(ended.warnings)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Success(regex="all done"), "ended with exit 0, but no rank printed a line that matches `success.regex`"),
        (Success(min_seconds=3600.0), "before the 3600 s of `success.min_seconds`"),
    ],
)
async def test_success_that_is_not_met_is_a_failure(cluster: Cluster, asked: Success, words: str) -> None:
    """FAILED, exit 1, with the part that was not met; nothing is left."""
    ended = await ended_well(cluster, b"done\n", b"fine\n", success=asked)
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None and words in ended.failure.words
    assert (ended.failure.rank, ended.failure.where) == (None, "the run")
    assert [e.failure for e in cluster.of(FailureFound)] == [ended.failure]
    assert cluster.left() == []


async def test_success_that_is_met_by_any_rank_is_one(cluster: Cluster) -> None:
    """Most programs say it on one rank only."""
    ended = await ended_well(cluster, b"x\n", b"all done\n", success=Success(regex="^all", min_seconds=0.0))
    assert (ended.outcome, ended.warnings) == ("succeeded", ())


@pytest.mark.parametrize("log", [b"all done\n" + b"more\n" * 1000, b"." * 10_000 + b" all done\n"])
async def test_success_is_found_in_a_long_log(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, log: bytes) -> None:
    """However much was printed after it, or before it in its line."""
    monkeypatch.setattr(review, "READ_BYTES", 1000 if b"more" in log else review.READ_BYTES)
    ended = await ended_well(cluster, log, b"x\n", success=Success(regex="all done"))
    assert (ended.outcome, ended.failure) == ("succeeded", None)


async def test_a_success_that_is_not_found_in_time_is_said_to_be_that(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of all logs are looked at whatever there is; the rest not for hours."""
    monkeypatch.setattr(review, "READ_BYTES", 1000)
    monkeypatch.setattr(review, "READ_SECONDS", -1.0)
    long = b"more\n" * 1000
    ended = await ended_well(cluster, long, b"x\n", success=Success(regex="all done"))
    assert ended.failure is not None and "was not found in what could be read" in ended.failure.words


async def test_the_ends_of_all_logs_are_looked_at_first(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most programs say there that they are done."""
    monkeypatch.setattr(review, "READ_BYTES", 1000)
    monkeypatch.setattr(review, "READ_SECONDS", -1.0)
    ended = await ended_well(cluster, b"more\n" * 1000, b"all done\n", success=Success(regex="all done"))
    assert ended.outcome == "succeeded"


async def test_a_regex_that_takes_for_ever_is_no_success_and_hangs_nothing(cluster: Cluster) -> None:
    """It is given up, and the failure says so."""
    ended = await ended_well(cluster, b"a" * 64 + b"!\n", b"x\n", success=Success(regex="(a+)+$"))
    assert ended.failure is not None and "takes longer than" in ended.failure.words


async def test_replicas_that_differ_are_a_failure(cluster: Cluster) -> None:
    """Of two nobody can say which is right: both are named, none is blamed."""
    logs = (b"loss 9\nloss 0.32\n", b"loss 0.41\nend\n")
    ended = await ended_well(cluster, *logs, same=r"loss (\S+)")
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None and ended.failure.rank is None
    assert "`same`: rank 0 ended with loss 0.32, rank 1 ended with loss 0.41" in ended.failure.words
    assert ended.failure.cause == "the replicas do not hold the same"


async def test_replicas_that_agree_and_one_that_says_nothing(cluster: Cluster) -> None:
    """What can't be compared is a warning."""
    ended = await ended_well(cluster, b"loss 0.32\n", b"end\n", same=r"loss \S+")
    assert (ended.outcome, ended.warnings) == ("succeeded", ("rank 1 printed no line that matches `same`",))


async def ended_without_lines(
    cluster: Cluster, patch: pytest.MonkeyPatch, missing: str, *logs: bytes, code: int = 0, **asked: object
) -> RunEnded:
    """The same where lines of rank 1 are missing here, which ends with `code`."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = (0, code)[task]
        host.files[f"log-{task}"] = logs[task]
    controller = cluster.controller(dataclasses.replace(cluster.plan(), **asked))  # type: ignore[arg-type]
    if missing == "cut":
        cluster.hosts[1].news.put_nowait(Note("its log was cut on the host", 1, lines_missing=True))
    else:
        patch.setattr(RunTracker, "unread_tasks", lambda self: frozenset({1}))
    return await cluster.drive(controller)


@pytest.mark.parametrize("missing", ["cut", "not read"])
async def test_what_is_not_in_a_log_that_is_not_whole_proves_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """No failure for a line that may be in what is missing, nor for one that is not the last; a warning."""
    asked = Success(regex="all done")
    ended = await ended_without_lines(
        cluster, monkeypatch, missing, b"x\nloss 3\n", b"loss 9\n", success=asked, same=r"loss (\S+)"
    )
    assert (ended.outcome, ended.exit, ended.failure) == ("succeeded", 0, None)
    assert ended.warnings == (
        "`success.regex` 'all done' was not found, but lines of rank 1 are missing here",
        "`same` leaves ranks out: lines of rank 1 are missing here",
    )


async def test_what_is_in_a_log_that_is_not_whole_counts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the logs that are whole are compared."""
    ended = await ended_without_lines(
        cluster, monkeypatch, "cut", b"x\n", b"all done\n", success=Success(regex="all done")
    )
    assert (ended.outcome, ended.warnings) == ("succeeded", ())


async def test_a_first_failure_whose_last_words_are_missing_is_not_certain(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it said last may name another rank, or an earlier time."""
    ended = await ended_without_lines(cluster, monkeypatch, "not read", b"x\n", b"y\n", code=3)
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.unsure) == (1, "lines of rank 1 are missing here")


async def test_same_and_progress_are_looked_for_in_whole_logs(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much was printed afterwards."""
    monkeypatch.setattr(review, "READ_BYTES", 1000)
    more = b"more\n" * 1000
    logs = (b"loss 0.32\n" + more, b"loss 0.41\n" + more)
    ended = await ended_well(cluster, *logs, same=r"loss (\S+)", progress=r"loss (?P<loss>\S+)")
    assert ended.failure is not None and "rank 1 ended with loss 0.41" in ended.failure.words
    assert ended.warnings == ()


async def test_ranks_whose_logs_were_not_read_whole_are_left_out_of_same(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not looked at is not said to be absent."""
    monkeypatch.setattr(review, "READ_BYTES", 1000)
    monkeypatch.setattr(review, "READ_SECONDS", -1.0)
    ended = await ended_well(cluster, b"loss 0.32\n" + b"more\n" * 1000, b"loss 0.41\n", same=r"loss (\S+)")
    assert (ended.outcome, ended.failure) == ("succeeded", None)
    assert ended.warnings == ("`same` leaves ranks out: the logs of rank 0 could not be read whole in -1 s",)


async def test_a_run_that_fails_anyway_is_not_looked_at_further(cluster: Cluster) -> None:
    """Its exit status is the reason; `success` adds nothing."""
    cluster.hosts[1].engine.exits[1] = 3
    ended = await cluster.run(dataclasses.replace(cluster.plan(), success=Success(regex="x"), same="y"))
    assert ended.failure is not None and (ended.failure.rank, ended.failure.words) == (1, "exit 3")
    assert ended.warnings == ()


async def test_progress_and_silence_are_reported(cluster: Cluster) -> None:
    """What the first rank says of its progress stands in the result; ranks that say nothing are named."""
    cluster.hosts[0].engine.exits[0] = 0
    cluster.hosts[0].files["log-0"] = b"step 1 loss 3.0\nstep 7 loss 2.5\n"
    plan = dataclasses.replace(cluster.plan(), stall_after=0.001, progress=r"step (?P<step>\d+) loss (?P<loss>\S+)")

    def silent() -> bool:
        return any(e.rank == 1 and e.quiet for e in cluster.of(RankSilent))

    controller = cluster.controller(plan)

    async def stop() -> None:
        await until(silent)
        controller.request_stop("user", grace=0)

    ended = await cluster.drive(controller, stop())
    assert ended.progress is not None and ended.progress.values == {"step": 7.0, "loss": 2.5}
    assert [e.values["step"] for e in cluster.of(Progressed)][-1] == 7.0


TRACEBACK = (
    b'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    step()\nValueError: no more data\n'
)


@pytest.mark.parametrize(
    ("said", "warned"), [(TRACEBACK, True), (TRACEBACK + b"retrying, step 4\n", False), (b"step 1\n", False)]
)
async def test_a_rank_that_raised_an_error_and_does_not_end_is_warned_of(
    cluster: Cluster, said: bytes, warned: bool
) -> None:
    """mpi4py's wait in MPI_Finalize for the others: "quiet" alone says nothing of the error, which scrolled by."""
    plan = dataclasses.replace(cluster.plan(), stall_after=0.3)
    controller = cluster.controller(plan)

    async def stop() -> None:
        await until(lambda: len(cluster.hosts[1].containers) > 0)
        lines = tuple(said.splitlines(keepends=True))
        batch = Batch((1,) * len(lines), (b"",) * len(lines), lines)
        cluster.hosts[1].news.put_nowait(Records(1, batch, ResumePoint(written=len(said))))
        await until(lambda: {e.rank for e in cluster.of(RankSilent) if e.quiet} == {0, 1})
        await asyncio.sleep(0.1)
        controller.request_stop("user", grace=0)

    await cluster.drive(controller, stop())
    words = [(e.level, e.host, e.text) for e in cluster.of(Notice) if "has not exited" in e.text]
    text = "rank 1 printed a traceback, but has not exited: ValueError: no more data"
    assert words == ([("warning", "h2", text)] if warned else [])


async def test_a_rank_that_says_nothing_more_stands_at_its_last_step(cluster: Cluster) -> None:
    """Of three steps within a second, then silence, the last one is told and dated as it was said; and so are those of
    all ranks that are said just before the end.
    """
    plan = dataclasses.replace(cluster.plan(), progress=r"step (?P<step>\d+)")
    controller, began = cluster.controller(plan), time.time() - 0.5

    def say(task: int, step: int) -> None:
        stamp = iso(began + step / 100).encode()
        batch = Batch((1,), (stamp,), (b"step %d\n" % step,))
        cluster.hosts[task].news.put_nowait(Records(task, batch, ResumePoint(written=8 * step)))

    async def talk() -> None:
        await until(running(cluster))
        for step in (1, 2, 3):
            say(0, step)
        await until(lambda: controller.state.progress is not None and controller.state.progress.values["step"] == 3)
        await until(lambda: 0 in controller.state.steps)
        for task in (0, 1):
            say(task, 4)
        await until(lambda: sum(len(e.lines) for e in cluster.of(LogLines)) == 5)
        controller.request_stop("user", grace=0)

    ended = await cluster.drive(controller, talk())
    assert [(e.values["step"], e.at) for e in cluster.of(Progressed)] == [
        (step, pytest.approx(began + step / 100, abs=1e-3)) for step in (1, 3, 4)
    ]
    assert ended.progress is not None and ended.progress.values == {"step": 4.0}
    assert {rank: pace.last.step for rank, pace in controller.state.steps.items()} == {0: 4, 1: 4}


async def test_a_loss_that_is_no_number_is_reported(cluster: Cluster) -> None:
    """As a warning, while the run goes on."""
    cluster.hosts[0].engine.exits[0] = cluster.hosts[1].engine.exits[1] = 0
    cluster.hosts[0].files["log-0"] = b"step 1 loss nan\n"
    plan = dataclasses.replace(cluster.plan(), progress=r"step (?P<step>\d+) loss (?P<loss>\S+)")
    assert (await cluster.run(plan)).failure is None
    assert any(e.level == "warning" and e.text.startswith("rank 0: loss is nan at step 1") for e in cluster.of(Notice))


async def test_a_stop_tells_who_had_been_silent(cluster: Cluster) -> None:
    """With its last line; the rank that goes on speaking is not named."""
    cluster.hosts[1].engine.exits[1] = 0
    cluster.hosts[1].files["log-1"] = b"end\n"
    controller = cluster.controller(dataclasses.replace(cluster.plan(), stall_after=0.001))

    async def stop() -> None:
        await until(lambda: any(e.rank == 0 and e.quiet for e in cluster.of(RankSilent)))
        controller.request_stop("user", grace=0)

    ended = await cluster.drive(controller, stop())
    assert ended.outcome == "stopped"
    (words,) = [words for words in ended.warnings if "had said nothing" in words]
    assert words.startswith("rank 0 on h1 had said nothing for ") and words.endswith(" s, since it began to run")


@pytest.mark.parametrize("code", [0, 1, 143])
async def test_ranks_that_end_after_our_stop_are_stopped(cluster: Cluster, code: int) -> None:
    """However a program ends on SIGTERM (torchrun with 1, one that saves its state with 0), we stopped it: 130."""
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await until(running(cluster))
        for host in cluster.hosts:
            host.containers[0].stop_code = code
        controller.request_stop("user")

    ended = await cluster.drive(controller, stop())
    assert (ended.outcome, ended.exit, ended.failure) == ("stopped", 130, None)
    assert states(cluster) == {0: "stopped", 1: "stopped"}
    assert cluster.of(FailureFound) == []
    assert cluster.left() == []


async def test_on_fail_wait_lets_the_others_go_on(cluster: Cluster) -> None:
    """`on_fail: wait` stops nobody."""
    cluster.hosts[1].engine.exits[1] = 3

    async def finish() -> None:
        await until(lambda: bool(cluster.of(FailureFound)))
        assert cluster.hosts[0].containers[0].status == "running"
        cluster.hosts[0].containers[0].end(0)

    ended = await cluster.run(cluster.plan(on_fail="wait"), finish())
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert cluster.of(StopAsked) == []


async def test_a_failure_is_said_though_judging_takes_long(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds of ranks not every fact is judged at once: what was read last is judged a moment later."""
    monkeypatch.setattr(tracker, "SLOW", -1.0)
    monkeypatch.setattr(tracker, "AT_REST", 1000)
    cluster.hosts[1].engine.exits[1] = 3

    async def finish() -> None:
        await until(lambda: bool(cluster.of(FailureFound)))
        cluster.hosts[0].containers[0].end(0)

    ended = await cluster.run(cluster.plan(on_fail="wait"), finish())
    assert (ended.outcome, ended.exit) == ("failed", 1)


async def test_a_second_stop_kills(cluster: Cluster) -> None:
    """SIGTERM ignored: asking again with grace 0 sends SIGKILL while the first still waits."""
    for host in cluster.hosts:
        host.hold("stop")
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await until(running(cluster))
        controller.request_stop("user")
        await cluster.hosts[0].at["stop"].wait()
        controller.request_stop("user", grace=0)

    ended = await cluster.drive(controller, stop())
    assert (ended.outcome, ended.exit) == ("stopped", 130)
    assert [e.grace for e in cluster.of(StopAsked)] == [5.0, 0]
    assert all("kill" in h.verbs() for h in cluster.hosts)
    assert cluster.left() == []


async def test_a_host_that_refuses_to_stop_is_said(cluster: Cluster) -> None:
    """The engine's words; the other hosts are stopped all the same."""
    words = Completed(("docker",), 1, b"", b"Cannot connect to the Docker daemon\n")
    cluster.hosts[0].fails["stop"] = words
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await until(running(cluster))
        controller.request_stop("user")
        await until(lambda: "can't stop" in cluster.said())
        cluster.hosts[0].containers[0].end(143)

    ended = await cluster.drive(controller, stop())
    assert ended.exit == 130
    assert "daemon does not run" in cluster.said()


async def stopped_late(cluster: Cluster, enough: Callable[[RunController], bool]) -> RunEnded:
    """The end of a run whose first host refuses to stop its rank until there was `enough` of that."""
    host, controller = cluster.hosts[0], cluster.controller(cluster.plan())
    host.fails["stop"] = HostCommandError("h1", "h1: docker did not finish within 65 s", code="command_timeout")

    async def stop() -> None:
        await until(running(cluster))
        controller.request_stop("user")
        await until(lambda: enough(controller))
        del host.fails["stop"]

    return await cluster.drive(controller, stop())


async def test_a_stop_that_was_refused_is_sent_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else would end what still runs there: an engine that answers again later gets the stop, which is over."""
    monkeypatch.setattr(supervise, "AGAIN_SECONDS", 0.01)
    verbs = cluster.hosts[0].verbs
    ended = await stopped_late(cluster, lambda _: verbs().count("stop") > 2)
    assert (ended.outcome, ended.exit) == ("stopped", 130)
    assert cluster.said().count("can't stop: h1: docker did not finish within 65 s") == 1
    assert cluster.left() == []


async def test_a_host_that_stops_its_ranks_at_last_is_not_given_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted as out of reach meanwhile: the run ends all the same as one that was stopped, and nothing is left."""
    for name, seconds in (("AGAIN_SECONDS", 0.01), ("REFUSED_SECONDS", 0.02)):
        monkeypatch.setattr(supervise, name, seconds)
    ended = await stopped_late(cluster, lambda controller: "h1" in controller.tracker.lost_hosts)
    assert (ended.outcome, ended.exit) == ("stopped", 130)
    assert cluster.left() == []


@pytest.mark.parametrize("flaps", [False, True])
async def test_a_run_that_can_not_be_stopped_keeps_nobody_for_ever(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, flaps: bool
) -> None:
    """What survives SIGKILL is given up as a host out of reach is, and is named as left; also where the engine answers
    now and then, as one does that hangs over some of its containers only.
    """
    for name, seconds in (("AGAIN_SECONDS", 0.01), ("REFUSED_SECONDS", 0.05), ("TO_END", 0.1)):
        monkeypatch.setattr(supervise, name, seconds)
    words = b"tried to kill container, but did not receive an exit event\n"
    for verb in ("kill", "rm"):
        cluster.hosts[0].fails[verb] = Completed(("docker",), 1, b"", words)
    monkeypatch.setattr(asking, "PAUSES", ())
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await until(running(cluster))
        controller.request_stop("user", grace=0)
        while flaps and controller.state.ended is None:
            for news in (Lost("engine", "no answer within 15 s"), Back("engine")):
                cluster.hosts[0].news.put_nowait(news)
                await asyncio.sleep(0.02)

    ended = await cluster.drive(controller, stop())
    assert (ended.outcome, ended.exit) == ("unknown", int(ExitCode.CONTACT_LOST))
    assert [left.partition(":")[0] for left in ended.leftovers] == ["h1"]
    assert "did not receive an exit event" in cluster.said()


async def test_timeout_stops_the_run(cluster: Cluster) -> None:
    """--timeout: exit 124."""
    ended = await cluster.run(cluster.plan(), limits=Limits(run=0.0))

    assert (ended.outcome, ended.exit) == ("stopped", int(ExitCode.TIMEOUT))
    assert [e.reason for e in cluster.of(StopAsked)] == ["timeout"]
    assert cluster.left() == []


async def test_a_detach_leaves_the_run_alone(cluster: Cluster) -> None:
    """Exit 0; containers run on."""
    controller = cluster.controller(cluster.plan())

    async def leave() -> None:
        await until(running(cluster))
        controller.request_detach()

    ended = await cluster.drive(controller, leave())
    assert (ended.outcome, ended.exit) == ("detached", 0)
    assert [c.status for h in cluster.hosts for c in h.containers] == ["running", "running"]
    assert not any(v in ("stop", "kill", "rm") for h in cluster.hosts for v in h.verbs())


async def test_a_reader_that_goes_away_ends_the_controller(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the context with the queue full and nobody reading ends; the run lives on."""
    monkeypatch.setattr(outbox, "QUEUE_EVENTS", 30)
    controller = cluster.controller(cluster.plan())
    async with asyncio.timeout(60):
        async with controller:
            await until(lambda: len(cluster.hosts[1].containers) > 0)
            for number in range(100):
                cluster.hosts[0].news.put_nowait(Note(f"note {number}"))
            await until(controller.attempt.run.events._outbox.full)
    assert [c.status for h in cluster.hosts for c in h.containers] == ["running", "running"]


async def test_a_reader_that_is_behind_holds_no_stop_up(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """`distui run | less`, not scrolled: the ranks end all the same, and what was printed is read later, in order."""
    monkeypatch.setattr(outbox, "QUEUE_EVENTS", 30)
    controller = cluster.controller(cluster.plan())
    async with asyncio.timeout(60), controller:
        await until(lambda: all(host.containers for host in cluster.hosts))
        for number in range(100):
            cluster.hosts[0].news.put_nowait(Note(f"note {number}"))
        await until(controller.attempt.run.events._outbox.full)
        controller.request_stop("user")
        await until(lambda: all(c.status != "running" for h in cluster.hosts for c in h.containers))
        async for batch in controller.batches():
            cluster.events += batch
    kinds = [type(event) for event in cluster.events]
    assert kinds.count(StopAsked) == 1
    ended = [n for n, e in enumerate(cluster.events) if isinstance(e, RankChanged) and e.state == "stopped"]
    assert kinds.index(StopAsked) < min(ended)
    assert cluster.events[-1].outcome == "stopped"  # type: ignore[union-attr]


def printed(number: int, lines: int = 1) -> Records:
    """So many lines of rank 0."""
    batch = Batch((1,) * lines, (b"",) * lines, tuple(b"%d.%d\n" % (number, line) for line in range(lines)))
    return Records(0, batch, ResumePoint(written=number + 1))


@pytest.mark.parametrize(
    ("fails", "timeout", "reason"), [(0, None, "failure"), (1, None, "failure"), (None, 1.0, "timeout")]
)
async def test_a_run_is_stopped_by_itself_while_its_reader_is_behind(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, fails: int | None, timeout: float | None, reason: str
) -> None:
    """`distui run | less`: a failure ends the others, also of a rank whose output waits, and so does a time limit."""
    monkeypatch.setattr(outbox, "QUEUE_EVENTS", 30)
    plan = cluster.plan(on_fail="stop")
    controller = cluster.controller(plan, limits=Limits(run=timeout) if timeout is not None else Limits())
    events = controller.attempt.run.events
    async with asyncio.timeout(60), controller:
        await until(lambda: all(host.containers for host in cluster.hosts))
        for number in range(200):
            cluster.hosts[0].news.put_nowait(printed(number))
        await until(lambda: len(cluster.hosts[0].news._queue) < 200 and events._outbox.qsize() >= 30)
        await asyncio.sleep(0.6)  # whatever is emitted waits by now
        if fails is not None:
            (failed,) = cluster.hosts[fails].containers
            failed.end(3)
        await until(lambda: all(c.status != "running" for h in cluster.hosts for c in h.containers))
        assert events._outbox.qsize() < 90
        assert cluster.hosts[0].news.qsize() > 100  # what is printed waits on its host, not here
        async for batch in controller.batches():
            cluster.events += batch
    assert [event.reason for event in cluster.of(StopAsked)] == [reason]
    lines = [line.text for event in cluster.of(LogLines) for line in event.lines]
    assert lines == [f"{number}.0" for number in range(len(lines))]  # this follower knows of no end of `news`
    assert cluster.events[-1].exit == (1 if fails is not None else int(ExitCode.TIMEOUT))  # type: ignore[union-attr]


async def test_no_rank_is_called_quiet_while_what_it_prints_waits_for_a_reader(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor just after, when its log is not read up to now: its last line is from before the reader was behind."""
    monkeypatch.setattr(outbox, "QUEUE_EVENTS", 30)
    plan = dataclasses.replace(cluster.plan(), stall_after=3.0)
    controller = cluster.controller(plan)
    async with asyncio.timeout(60), controller:
        await until(lambda: all(host.containers for host in cluster.hosts))
        number, news = 0, cluster.hosts[0].news
        while not controller.attempt.run.events.behind:
            news.put_nowait(printed(number))
            await until(news.empty)
            await asyncio.sleep(0.01)
            number += 1
        await asyncio.sleep(3.5)

        async def end() -> None:
            await asyncio.sleep(2.0)
            for host in cluster.hosts:
                for container in host.containers:
                    container.end(0)

        ending = asyncio.create_task(end())
        async for batch in controller.batches():
            cluster.events += batch
        await ending
    assert not [event for event in cluster.of(RankSilent) if event.rank == 0]


@pytest.mark.parametrize(("boot", "words"), [("b2", ": its host was restarted"), ("b1", "")])
async def test_a_boot_that_nobody_saw_is_found_before_the_verdict(cluster: Cluster, boot: str, words: str) -> None:
    """The containers of a host that shuts down end first; the run may be over when the host is back."""
    host = cluster.hosts[1]
    host.files["/proc/sys/kernel/random/boot_id"] = b"b1\n"
    facts = {name: facts_of(name, 11 + n, boot_id="b1") for n, name in enumerate(cluster.names)}

    async def end() -> None:
        await until(running(cluster))
        host.files["/proc/sys/kernel/random/boot_id"] = f"{boot}\n".encode()
        host.containers[0].end(143)

    ended = await cluster.run(cluster.plan(facts=facts), end())
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.words) == (1, f"killed by SIGTERM (terminated), exit 143{words}")


# lost and back


async def test_a_lost_host_comes_back(cluster: Cluster) -> None:
    """Its rank is lost, not ended, and runs again when the host is back."""
    host = cluster.hosts[1]

    async def cut() -> None:
        await until(running(cluster))
        host.news.put_nowait(Lost("host", "h2: connection lost"))
        host.news.put_nowait(Lost("engine", "no answer"))
        host.news.put_nowait(Back("host"))
        await until(lambda: len(cluster.of(HostChanged)) >= 4)
        assert states(cluster)[1] == "lost"
        host.news.put_nowait(Back("engine"))
        await until(lambda: states(cluster)[1] == "running")
        for one in cluster.hosts:
            one.containers[0].end(0)

    ended = await cluster.run(cluster.plan(), cut())
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    changes = [(e.state, e.reason) for e in cluster.of(HostChanged) if e.host == "h2"]
    assert changes == [
        ("up", ""),
        ("lost", "h2: connection lost"),
        ("lost", "its engine does not answer: no answer"),
        ("back", ""),
    ]
    assert [e.state for e in cluster.of(RankChanged) if e.rank == 1 and not e.relation][-3:-1] == ["lost", "running"]


async def test_a_host_that_stays_lost_leaves_the_run_unknown(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 6, with the host named in what may be left; the others are cleaned up."""
    monkeypatch.setattr("distui.runs.task.host_access.RECONNECT_TIMEOUT", 0.0)
    host = cluster.hosts[1]

    async def cut() -> None:
        await until(running(cluster))
        host.fails |= dict.fromkeys(("ps", "cat"), HostUnreachable("h2", "h2 does not answer"))
        host.news.put_nowait(Lost("host", "h2: connection lost"))
        cluster.hosts[0].containers[0].end(0)

    ended = await cluster.run(cluster.plan(), cut(), limits=Limits(lost=0.05))
    assert (ended.outcome, ended.exit) == ("unknown", 6)
    assert [left for left in ended.leftovers if left.startswith("h2: may still have rank1")]
    assert cluster.hosts[0].containers == []
    assert [c.status for c in host.containers] == ["running"]


async def test_ranks_elsewhere_are_stopped_before_a_host_is_given_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their grace, and their last words read; who stops the run once the host is back finds no end unseen."""
    monkeypatch.setattr("distui.runs.task.host_access.RECONNECT_TIMEOUT", 0.0)
    host = cluster.hosts[1]
    gone = dict.fromkeys(("ps", "cat", "stop"), HostUnreachable("h2", "h2 does not answer"))

    async def cut() -> None:
        await until(running(cluster))
        host.fails |= gone
        host.news.put_nowait(Lost("host", "h2: connection lost"))

    plan = cluster.plan()
    ended = await cluster.run(plan, cut(), limits=Limits(lost=0.05))
    assert (ended.outcome, ended.exit) == ("unknown", 6)
    assert [(e.reason, e.grace) for e in cluster.of(StopAsked)] == [("lost", plan.stop_grace)]
    assert [(e.state, e.exit) for e in cluster.of(RankChanged) if e.rank == 0][-1] == ("stopped", 143)
    assert cluster.hosts[0].containers == []

    for name in gone:
        del host.fails[name]
    cluster.events.clear()
    controller = cluster.controller(plan, adopted=True)
    controller.request_stop("user", exit=ExitCode.OK)
    ended = await cluster.drive(controller)
    assert (ended.outcome, ended.exit, ended.leftovers) == ("stopped", 0, ())
    assert cluster.left() == []


async def test_a_follower_that_cannot_go_on_is_no_success(cluster: Cluster) -> None:
    """An error of the follower ends the controller with `unknown`, and the run lives on."""

    async def fail() -> None:
        await until(running(cluster))
        cluster.hosts[0].news.put_nowait(HostCommandError("h1", "h1: no channel", code="command"))

    ended = await cluster.run(cluster.plan(), fail())
    assert (ended.outcome, ended.exit) == ("unknown", int(ExitCode.CONTACT_LOST))
    assert "h1: no channel" in cluster.said()
    assert [c.status for h in cluster.hosts for c in h.containers] == ["running", "running"]


async def test_a_run_that_can_not_be_followed_on_any_host_is_left_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody comes back of whom nothing is read any more: there is nothing to wait ten minutes for. The ranks go on."""
    monkeypatch.setattr("distui.runs.task.host_access.RECONNECT_TIMEOUT", 0.0)

    async def fail() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, reported: None)
        await until(running(cluster))
        for host in cluster.hosts:
            host.news.put_nowait(OverflowError("timestamp out of range"))

    ended = await cluster.run(cluster.plan(), fail())
    assert (ended.outcome, ended.exit) == ("unknown", int(ExitCode.CONTACT_LOST))
    assert cluster.of(StopAsked) == []
    assert [c.status for h in cluster.hosts for c in h.containers] == ["running", "running"]
    assert [left for left in ended.leftovers if left.startswith("h1")], ended.leftovers


async def test_a_host_that_says_what_cannot_be_borne_costs_that_host_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run keeps its owner: ranks elsewhere are stopped and cleaned up, what that host has is kept and named."""
    monkeypatch.setattr("distui.runs.task.host_access.RECONNECT_TIMEOUT", 0.0)
    kept = []

    async def fail() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, reported: kept.append(reported["exception"]))
        await until(running(cluster))
        cluster.hosts[1].news.put_nowait(OverflowError("timestamp out of range"))

    ended = await cluster.run(cluster.plan(), fail(), limits=Limits(lost=0.05))
    assert (ended.outcome, ended.exit) == ("unknown", int(ExitCode.CONTACT_LOST))
    assert [(e.host, e.state) for e in cluster.of(HostChanged) if e.state == "lost"] == [("h2", "lost")]
    assert [e.reason for e in cluster.of(StopAsked)] == ["lost"]
    assert [str(error) for error in kept] == ["timestamp out of range"]
    assert cluster.hosts[0].containers == []
    assert [c.status for c in cluster.hosts[1].containers] == ["exited"]
    assert any("kept for its log" in left for left in ended.leftovers)
    assert "a bug in distui" not in cluster.said()


async def test_a_bug_is_raised_after_it_was_said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader gets a last event, and the caller the exception for its crash file."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("distui.runs.control.controller.supervise", fail)
    with pytest.raises(ZeroDivisionError):
        await cluster.run(cluster.plan())
    last = cluster.events[-1]
    assert isinstance(last, RunEnded)
    assert (last.outcome, last.exit) == ("unknown", 70)


async def test_a_bug_in_a_stop_is_raised(cluster: Cluster) -> None:
    """A stop that fails otherwise than by its host ends the controller loudly; it does not wait for ever."""
    cluster.hosts[1].fails["stop"] = ZeroDivisionError("oops")
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await until(running(cluster))
        controller.request_stop("user")

    with pytest.raises(ZeroDivisionError):
        await cluster.drive(controller, stop())
    assert "a bug in distui" in cluster.said()


# ends in words


@pytest.mark.parametrize(
    ("event", "state", "words"),
    [
        (Exited(1, 137, "exited", oom=True), "oom", "out of memory: the kernel killed it (exit 137)"),
        (Exited(1, 139, "exited"), "killed", "killed by SIGSEGV (segmentation fault), exit 139"),
        (Exited(1, 127, "never_started", error="exec: nope"), "never_started", "command not found (exit 127)"),
        (Exited(1, None, "lost"), "exited", "its supervisor is gone"),
        (Exited(1, 3, "exited"), "exited", "exit 3"),
    ],
)
async def test_ends_in_words(cluster: Cluster, event: Exited, state: str, words: str) -> None:
    """Each way to end has its own state and words, and makes the run fail naming that rank."""

    async def tell() -> None:
        await until(running(cluster))
        cluster.hosts[1].news.put_nowait(event)
        cluster.hosts[1].news.put_nowait(Drained(1, ResumePoint()))

    ended = await cluster.run(cluster.plan(), tell())
    changed, last = [e for e in cluster.of(RankChanged) if e.rank == 1 and e.state == state]
    assert words in changed.words
    assert (changed.relation, last.relation, last.words) == ("", "first", changed.words)
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.host) == (1, "h2")


async def test_a_container_removed_by_somebody_else(cluster: Cluster) -> None:
    """The rank is `removed`; the run fails and says so."""

    async def remove() -> None:
        await until(running(cluster))
        cluster.hosts[1].engine.drop(cluster.hosts[1].containers[0])

    ended = await cluster.run(cluster.plan(), remove())
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert states(cluster) == {0: "stopped", 1: "removed"}
    assert ended.failure is not None
    assert ended.failure.words == "its container was removed by somebody else"


async def test_a_container_killed_and_removed_by_somebody_else(cluster: Cluster) -> None:
    """`docker rm -f` is a kill first: when the container is gone at the end, that is said."""
    host = cluster.hosts[1]

    async def remove() -> None:
        await until(running(cluster))
        host.containers[0].end(137)
        await until(lambda: bool(cluster.of(FailureFound)))
        host.engine.drop(host.containers[0])

    cluster.hosts[0].hold("stop")
    controller = cluster.controller(cluster.plan())

    async def both() -> None:
        await remove()
        cluster.hosts[0].gates["stop"].set()

    ended = await cluster.drive(controller, both())
    assert ended.failure is not None
    assert ended.failure.words == "killed by SIGKILL, exit 137: its container was removed by somebody else"


async def test_a_stop_at_a_failure_is_said_on_the_hosts_before_it_ends_ranks(cluster: Cluster) -> None:
    """Who follows elsewhere may see those end first: the word names the ranks that did not fail by themselves."""
    two = cluster.hosts[1]
    reached = two.hold("stop")
    controller = cluster.controller(cluster.plan())

    async def fail() -> None:
        await until(running(cluster))
        cluster.hosts[0].containers[0].end(3)
        await reached.wait()
        path = f"/home/u/.local/state/distui/hosts/{two.name}/r1/stopped"
        word = read_word(f"{two.files[path].decode()}\n", None)
        assert word is not None
        assert (word.cause, word.exit, word.tasks) == ("failure", 1, frozenset({1}))
        two.gates["stop"].set()

    assert (await cluster.drive(controller, fail())).outcome == "failed"


async def test_a_container_removed_after_its_end_is_a_warning(cluster: Cluster) -> None:
    """Its exit was seen: the result stands."""

    async def tell() -> None:
        await until(running(cluster))
        cluster.hosts[0].containers[0].end(0)
        cluster.hosts[1].news.put_nowait(Exited(1, 0, "exited"))
        cluster.hosts[1].news.put_nowait(Removed(1))

    ended = await cluster.run(cluster.plan(), tell())
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert "removed by somebody else" in cluster.said()


# stopped from elsewhere


async def test_a_stop_from_elsewhere_is_no_failure(cluster: Cluster) -> None:
    """`distui stop` by somebody leaves word on the host: 143 and who it was, though containers ended with 143."""

    async def stop() -> None:
        await until(running(cluster))
        for host in cluster.hosts:
            host.files[
                f"{host.containers[0].labels and '/home/u'}/.local/state/distui/hosts/{host.name}/r1/stopped"
            ] = b"bob@laptop"
            host.containers[0].end(143)

    ended = await cluster.run(cluster.plan(), stop())
    assert (ended.outcome, ended.exit) == ("stopped", 143)
    assert "stopped by bob@laptop" in cluster.said()
    assert cluster.of(StopAsked) == []
    assert cluster.left() == []


async def test_a_rank_that_loses_one_which_somebody_stops_has_not_failed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stops the run has not come to its host yet, and what was stopped on the other one saves what it has: no
    failure is reported, and none makes us stop the rest.
    """
    monkeypatch.setattr(ends, "ASKED_SECONDS", 60.0)

    async def stop() -> None:
        await until(running(cluster))
        one, two = cluster.hosts
        path = "/home/u/.local/state/distui/hosts/h1/r1/stopped"
        one.files[path], one.written[path] = StopWord("bob@laptop", "user", 143, 5.0).text().encode(), time.time()
        two.files["log-1"] = b"RuntimeError: Connection closed by peer [10.0.0.11]:4711\n"
        two.containers[0].end(1)
        await until(lambda: states(cluster)[1] != "running")
        one.containers[0].end(143)

    ended = await cluster.run(cluster.plan(), stop())
    assert (ended.outcome, ended.exit, ended.failure) == ("stopped", 143, None)
    assert [*cluster.of(FailureFound), *cluster.of(StopAsked)] == []
    assert cluster.left() == []


async def test_timeout_ends_what_a_stop_from_elsewhere_has_left(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stopped the run was killed, or could not reach the other host; not before its time for that is over."""
    monkeypatch.setattr(supervise, "TO_END", 0.0)
    monkeypatch.setattr(supervise, "passed", lambda: float("inf") if "by bob@laptop" in cluster.said() else 0.0)

    async def stop() -> None:
        await until(running(cluster))
        one = cluster.hosts[0]
        one.files["/home/u/.local/state/distui/hosts/h1/r1/stopped"] = b"bob@laptop"
        one.containers[0].end(143)

    ended = await cluster.run(cluster.plan(stop_grace=1.0), stop(), limits=Limits(run=60.0))
    assert (ended.outcome, ended.exit) == ("stopped", 143)
    assert [event.reason for event in cluster.of(StopAsked)] == ["timeout"]


async def test_word_of_a_stop_is_read_before_its_author_cleans_up(cluster: Cluster) -> None:
    """The run's folder is removed by the one who stops soon after: the word is read as soon as a rank ends."""

    async def stop() -> None:
        await until(running(cluster))
        one, two = cluster.hosts
        path = "/home/u/.local/state/distui/hosts/h1/r1/stopped"
        one.files[path] = b"bob@laptop"
        one.containers[0].end(143)
        await until(lambda: "stopped by bob@laptop" in cluster.said())
        del one.files[path]
        assert cluster.of(StopAsked) == []
        two.containers[0].end(143)

    ended = await cluster.run(cluster.plan(), stop())
    assert (ended.outcome, ended.exit) == ("stopped", 143)


async def test_ranks_that_another_stop_ended_before_ours_began(cluster: Cluster) -> None:
    """Two stop a run at one instant: the ranks end well on the other one's signal, and are seen to when ours begins."""
    controller = cluster.controller(cluster.plan())

    async def stop() -> None:
        await until(running(cluster))
        now = time.time()
        for host in cluster.hosts:
            path = f"/home/u/.local/state/distui/hosts/{host.name}/r1/stopped"
            host.files[path] = StopWord("bob@laptop", "user", 143, 5.0).text().encode()
            host.written[path] = now - 21
        reached = [host.hold("stop") for host in cluster.hosts]
        controller.request_stop("user", exit=ExitCode.TERMINATED)
        for one in reached:
            await one.wait()
        for task, host in enumerate(cluster.hosts):
            host.news.put_nowait(Exited(task, 0, "exited", finished_at=now - 20, signalled=True))
        await until(lambda: all(track.end is not None for track in controller.tracker.tracks.values()))
        for host in cluster.hosts:
            host.gates["stop"].set()

    ended = await cluster.drive(controller, stop())
    assert (ended.outcome, ended.exit) == ("stopped", 143)


# the folder here


async def test_a_full_disk_here_stops_the_journal_and_not_the_run(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clear notice; the run goes on to its end."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0

    def full(self: object, events: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("distui.runs.store.journal.Journal.write", full)
    ended = await cluster.run(cluster.plan())
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    errors = [e.text for e in cluster.of(Notice) if e.level == "error"]
    assert len(errors) == 1
    assert "No space left on device" in errors[0]


async def test_a_log_that_cannot_be_written_keeps_its_container(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a log is lost: the container stays and the notice says where the rest is and what to do."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0
        host.files[f"log-{task}"] = b"hello\n"
    plan = cluster.plan()
    stored = cluster.store.adopt("r1")
    stored.rank_log(0).mkdir()
    ended = await cluster.run(plan)

    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert [c.task for h in cluster.hosts for c in h.containers] == [0]
    assert "can't write the log" in cluster.said()
    assert "rank 0 on h1" in cluster.said()
    assert "distui logs -t r1" in cluster.said()


async def test_a_run_is_followed_once(cluster: Cluster) -> None:
    """A second controller for the same folder is refused before it touches a host."""
    plan = cluster.plan()
    with cluster.store.adopt("r1").followed(), pytest.raises(AlreadyFollowed, match="already followed here by process"):
        await cluster.run(plan)
    assert [h.ran for h in cluster.hosts] == [[], []]


async def test_adopting_meets_what_runs(cluster: Cluster) -> None:
    """A run left alone is followed by another controller to its end; a host out of reach counts once it is back."""
    plan = cluster.plan()
    await cluster.run(plan, detach=True)
    cluster.events.clear()
    cluster.connector.down["h2"] = HostUnreachable("h2", "h2 does not answer")

    async def finish() -> None:
        await until(running(cluster))
        assert states(cluster)[1] == "lost"
        del cluster.connector.down["h2"]
        for host in cluster.hosts:
            host.containers[0].end(0)

    ended = await cluster.run(plan, finish(), adopted=True)
    assert (ended.outcome, ended.exit) == ("succeeded", 0)
    assert [e.state for e in cluster.of(HostChanged) if e.host == "h2"] == ["lost", "back"]
    assert cluster.left() == []


async def test_taken_up_without_the_value_of_a_secret(cluster: Cluster) -> None:
    """What can't be hidden is said, and only where it is so."""
    plan = cluster.plan(secrets=("HF_TOKEN", "OTHER"))
    given = {"HF_TOKEN": "hunter2-hunter2", "OTHER": "5e1f-5e1f"}
    await cluster.run(plan, detach=True, secrets=given)
    for host in cluster.hosts:
        host.containers[0].end(0)
    await cluster.run(plan, adopted=True, secrets={"HF_TOKEN": "hunter2-hunter2"})
    words = "the value of secret OTHER is not set here: where ranks print it, it is not hidden"
    said = cluster.said().splitlines()
    assert [text for text in said if "OTHER" in text] == [f"{words}; set the variable, or give --env-file FILE"]


async def test_taken_up_with_another_value_of_a_secret(cluster: Cluster) -> None:
    """It hides nothing: that is said, once for all attempts, and not of the value that the run was started with."""
    plan = cluster.plan(secrets=("HF_TOKEN", "OTHER"))
    given = {"HF_TOKEN": "hunter2-hunter2", "OTHER": "5e1f-5e1f"}
    await cluster.run(plan, detach=True, secrets=given)
    stored = cluster.store.adopt(plan.run_id)
    keep_checks(stored, given)
    for host in cluster.hosts:
        host.containers[0].end(0)
    settings = ClusterSettings(environ={"HF_TOKEN": "an-old-value"}, secrets={"OTHER": "5e1f-5e1f"})
    await cluster.run(plan, adopted=True, mask=mask_of(settings, plan.secret_names, stored))
    said = [text for text in cluster.said().splitlines() if "HF_TOKEN" in text or "OTHER" in text]
    assert said == [
        "the value of secret HF_TOKEN is not the one that the run was started with: where ranks print that, "
        "it is not hidden; set the variable, or give --env-file FILE"
    ]


@pytest.mark.parametrize("asked", ["stop", "stop of what is over", "attach"])
async def test_a_task_whose_start_was_cut_off_was_removed_by_nobody(cluster: Cluster, asked: str) -> None:
    """Whoever launched the run was killed while the engine of its second host hung: no container was ever made."""
    plan = cluster.plan()
    await cluster.run(plan, detach=True)
    events = cluster.store.adopt(plan.run_id).path / "events.ndjson"
    known = [line for line in events.read_text().splitlines(True) if json.loads(line).get("task") != 1]
    events.write_text("".join(line for line in known if '"type":"task"' in line or json.loads(line)["type"] == "run"))
    cluster.hosts[1].containers.clear()
    cluster.events.clear()
    if asked != "stop":
        cluster.hosts[0].containers[0].end(0)
    later = cluster.controller(plan, adopted=True, found=frozenset({0}))
    if asked != "attach":
        later.request_stop("user")
    ended = await cluster.drive(later)

    (last,) = [e for e in cluster.of(RankChanged) if e.rank == 1][-1:]
    assert "removed" not in cluster.said() + last.words
    if asked == "stop":
        assert (ended.outcome, last.state) == ("stopped", "stopped")
    else:
        assert (ended.outcome, last.state, ended.failure and ended.failure.rank) == ("failed", "never_started", 1)
        assert last.words == "its start was cut off: nothing of it is there"


async def test_a_run_found_in_part_is_not_called_a_success(cluster: Cluster) -> None:
    """A plan rebuilt from the labels of one host of two says nothing of the other's rank."""
    plan = cluster.plan()
    await cluster.run(plan, detach=True)
    cluster.hosts[0].containers[0].end(0)
    part = dataclasses.replace(plan, tasks=plan.tasks[:1], networks=plan.networks[:1])

    ended = await cluster.run(part, adopted=True)

    assert (ended.outcome, ended.exit) == ("unknown", 6)
    unfound = "1 of the run's tasks was not found: never started, removed, or on hosts that were not asked"
    assert unfound in [e.text for e in cluster.of(Notice)]
    assert ended.warnings == (unfound,)


async def test_adopting_gives_a_dead_host_up(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that never answers is given up after the same time as one that is lost later."""
    monkeypatch.setattr("distui.runs.task.host_access.RECONNECT_TIMEOUT", 0.0)
    plan = cluster.plan()
    await cluster.run(plan, detach=True)
    cluster.events.clear()
    cluster.connector.down["h2"] = HostUnreachable("h2", "h2 does not answer")
    cluster.hosts[0].containers[0].end(0)
    ended = await cluster.run(plan, adopted=True, limits=Limits(lost=0.05))

    assert (ended.outcome, ended.exit) == ("unknown", 6)
    assert states(cluster) == {0: "exited", 1: "lost"}


async def test_a_stop_does_not_wait_for_a_host_that_never_answered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far shorter than for one that is lost on the way: there, the stop is still to be made, and that is said."""
    monkeypatch.setattr("distui.runs.task.host_access.RECONNECT_TIMEOUT", 0.0)
    plan = cluster.plan()
    await cluster.run(plan, detach=True)
    cluster.connector.down["h2"] = HostUnreachable("h2", "h2 does not answer")
    passed = 0.0
    controller = cluster.controller(plan, adopted=True, limits=Limits(lost=1e9))
    controller.attempt.tracker.waited = lambda: time.monotonic() + passed

    async def stop() -> None:
        nonlocal passed
        controller.request_stop("user", grace=0.0)
        while controller.state.ended is None:
            await asyncio.sleep(0.01)
            passed += 1.0

    ended = await cluster.drive(controller, stop())
    assert ended.exit == 6
    assert any(left.startswith("h2: ") for left in ended.leftovers)


async def test_results_are_json(cluster: Cluster) -> None:
    """The stored result is what `show` and `wait` read."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0
    began = time.time()
    await cluster.run(cluster.plan())
    result = cluster.store.need("r1").result()
    assert result is not None
    assert json.dumps(result)
    assert (result["state"], result["exit"], result["leftovers"]) == ("succeeded", 0, [])
    assert 0 <= result["took_s"] <= time.time() - began + 1


def test_the_controller_is_no_thread() -> None:
    """One task drives a run; asking for a stop is a plain call that may come from a signal handler."""
    assert not asyncio.iscoroutinefunction(RunController.request_stop)


async def test_what_has_been_asked_is_forgotten_and_its_bugs_are_not() -> None:
    """A run of a week asks its ranks tens of thousands of times."""

    async def asked() -> None:
        """Done at once."""

    async def fails() -> None:
        raise ZeroDivisionError

    async def waits() -> None:
        await asyncio.Event().wait()

    stays = asyncio.create_task(waits())
    tasks: list[asyncio.Task[None]] = [asyncio.create_task(asked()), stays, asyncio.create_task(asked())]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    supervise._drop_done(tasks)
    assert tasks == [stays]
    tasks.append(asyncio.create_task(fails()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(ZeroDivisionError):
        supervise._drop_done(tasks)
    stays.cancel()
