"""Attempts of a run that fails: what is retried and what not, what is kept of each, and what is left (nothing)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from distui.errors import PlanProblem
from distui.facts.host import HostDown, HostFacts, ProbeResult, Trouble
from distui.plan.model import NoPlan, RunPlan
from distui.plan.serialize import to_json
from distui.runs.attempt import replan, requests
from distui.runs.attempt.limits import Limits
from distui.runs.attempt.replan import NextAttempt
from distui.runs.control.onlooker import looking
from distui.runs.ending import next_attempt, others
from distui.runs.ending.next_attempt import pause_before
from distui.runs.hosts.discover import find_runs
from distui.runs.lines.events import AttemptEnded, PhaseBegun, RankChanged, RunOpened
from distui.runs.report.history import stored_row
from distui.runs.state.reducer import RunState, apply
from distui.runs.store.end_record import FILE
from distui.runs.store.recorded import stored_events
from distui.runs.store.runs import RunStore, StoredRun
from distui.session import Completed, Connector
from distui.spec.hosts.inventory import Host
from fakehosts.runs import Cluster, facts_of, plan_for, until, use_fake_follower


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts; the pause between attempts is short."""
    made = Cluster(tmp_path, 2)
    use_fake_follower(monkeypatch, made.connector)
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(requests, "LOOK_SECONDS", 0.001)
    return made


class Planner:
    """Plans attempt after attempt of one job."""

    def __init__(self, cluster: Cluster, **job: object) -> None:
        self.cluster, self.job = cluster, job

    @property
    def first(self) -> RunPlan:
        """The plan that the run begins with."""
        return plan_for(*self.cluster.names, **self.job)

    async def __call__(self, attempt: int, spent: float) -> NextAttempt | NoPlan:
        """See Again."""
        facts = {name: facts_of(name, 11 + n) for n, name in enumerate(self.cluster.names)}
        return NextAttempt(plan_for(*self.cluster.names, attempt=attempt, facts=facts, **self.job), facts)


def ends(cluster: Cluster, *codes: int) -> None:
    """Task 0 runs until it is stopped unless all is well; task 1 ends with these codes, one for each attempt."""
    left = iter(codes)
    real = cluster.hosts[1].engine.run

    def run(argv: tuple[str, ...]) -> object:
        if argv[1] == "run":
            code = next(left)
            cluster.hosts[1].engine.exits[1] = code
            cluster.hosts[0].engine.exits.pop(0, None)
            if code == 0:
                cluster.hosts[0].engine.exits[0] = 0  # or it has started already
                for container in cluster.hosts[0].containers:
                    container.end(0)
            cluster.hosts[1].files["log-1"] = f"attempt says {code}\n".encode()
        return real(argv)

    cluster.hosts[1].engine.run = run  # type: ignore[method-assign, assignment]


async def test_the_second_attempt_succeeds(cluster: Cluster) -> None:
    """Exit 0, no failure in the result; both attempts' logs are whole and apart, and nothing is left."""
    ends(cluster, 3, 0)
    again = Planner(cluster, retries=2)
    ended = await cluster.run(again.first, planner=again)

    assert (ended.outcome, ended.exit, ended.failure, ended.attempt, ended.attempts) == ("succeeded", 0, None, 2, 3)
    (past,) = cluster.of(AttemptEnded)
    assert (past.attempt, past.attempts, past.failure.rank, past.failure.exit) == (1, 3, 1, 3)
    assert [(e.attempt, e.attempts) for e in cluster.of(RunOpened)] == [(1, 3), (2, 3)]
    stored = cluster.store.need("r1")
    assert stored.rank_log(1).read_bytes() == b"attempt says 0\n"
    assert stored.earlier() == (1,)
    assert stored.attempt(1).rank_log(1).read_bytes() == b"attempt says 3\n"
    assert past.log_dir == str(stored.attempt(1).log_dir)
    assert cluster.left() == []


async def test_each_attempt_has_its_own_names(cluster: Cluster) -> None:
    """Port, container names, labels and DISTUI_ATTEMPT tell attempts apart; the hash does not."""
    one, two = plan_for("h1", "h2", retries=1), plan_for("h1", "h2", retries=1, attempt=2)
    assert one.master_port != two.master_port
    assert one.hash == two.hash
    assert [t.container for t in two.tasks] == ["distui-r1-0-attempt2", "distui-r1-1-attempt2"]
    assert [t.container for t in one.tasks] == ["distui-r1-0", "distui-r1-1"]
    task = two.tasks[1]
    assert (task.env["DISTUI_ATTEMPT"], task.labels["distui.attempt"], task.labels["distui.attempts"]) == (
        "2",
        "2",
        "2",
    )
    assert "distui-r1-1-attempt2" in task.start


async def test_who_waits_elsewhere_sees_the_end_of_an_attempt_that_is_over_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    """It looks too seldom to see that attempt while it runs: the attempt waits for it to read how the run ended."""
    planner = Planner(cluster, retries=1, launch="beef")
    plans = [planner.first]

    async def again(attempt: int, spent: float) -> NextAttempt | NoPlan:
        following = await planner(attempt, spent)
        assert isinstance(following, NextAttempt)
        for host in cluster.hosts:
            host.engine.exits = dict.fromkeys((0, 1), 0)
        plans.append(following.plan)
        return following

    run = asyncio.create_task(cluster.run(planner.first, planner=again))
    await until(lambda: all(host.containers for host in cluster.hosts))
    await until(lambda: any("/reader-" in path for host in cluster.hosts for path in host.files))
    elsewhere = StoredRun(tmp_path / "elsewhere")
    async with looking(cluster.connector, plans[0], elsewhere) as onlooker:
        assert await onlooker.look() is None
        assert onlooker.is_judged, "its owner follows it"
        cluster.hosts[1].containers[0].end(3)
        await until(lambda: any(path.endswith("/verdict") for path in cluster.hosts[0].files))
        record = await onlooker.look()
        assert record is not None
        assert (record.may_go_on, onlooker.is_begun) == (True, True)
        await until(lambda: len(plans) == 2 and any(path.endswith("/verdict") for path in cluster.hosts[0].files))
        assert not run.done()
    async with looking(cluster.connector, plans[1], elsewhere) as onlooker:
        record = await onlooker.look()
        assert record is not None
        assert (record.ended.outcome, record.ended.attempt) == ("succeeded", 2)
    assert (await run).outcome == "succeeded"
    assert cluster.left() == []


async def test_who_waited_elsewhere_and_went_away_is_waited_for_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark that nobody touched in a whole attempt is not carried into the one after that."""
    monkeypatch.setattr(others, "OTHERS_SECONDS", 0.5)
    planner = Planner(cluster, retries=2, launch="beef")
    left: list[set[str]] = []

    async def again(attempt: int, spent: float) -> NextAttempt | NoPlan:
        left.append({waiter for host in controller.hosts.values() for waiter in host.waiters})
        if attempt == 2:
            ends(cluster, 4, 0)
        return await planner(attempt, spent)

    async def waits_and_is_killed() -> None:
        await until(lambda: all(host.containers for host in cluster.hosts))
        seen = await controller.hosts["h1"].notes.visit("abc-wait", "mark")
        assert seen.ours
        cluster.hosts[1].containers[0].end(3)

    controller = cluster.controller(planner.first, planner=again)
    ended = await cluster.drive(controller, waits_and_is_killed())
    assert (ended.outcome, ended.attempt) == ("succeeded", 3)
    assert left == [{"abc-wait"}, set()]
    assert cluster.left() == []


async def test_retries_used_up(cluster: Cluster) -> None:
    """The failure of the last attempt is the run's; events replayed from disk say the same."""
    ends(cluster, 3, 4, 5)
    again = Planner(cluster, retries=2)
    ended = await cluster.run(again.first, planner=again)

    assert (ended.outcome, ended.exit, ended.attempt, ended.attempts) == ("failed", 1, 3, 3)
    assert ended.failure is not None
    assert (ended.failure.rank, ended.failure.exit) == (1, 5)
    assert [p.failure.exit for p in cluster.of(AttemptEnded)] == [3, 4]
    stored = cluster.store.need("r1")
    logs = [s.rank_log(1).read_bytes() for s in (stored.attempt(1), stored.attempt(2), stored)]
    assert logs == [b"attempt says 3\n", b"attempt says 4\n", b"attempt says 5\n"]
    state = RunState()
    for event in stored_events(stored):
        state = apply(state, event)
    assert (state.summary, state.attempt, state.attempts, len(state.past)) == ("failed", 3, 3, 2)
    assert cluster.left() == []


@pytest.mark.parametrize("code", [125, 126, 127])
async def test_what_never_ran_is_not_retried(cluster: Cluster, code: int) -> None:
    """A command that can't be executed fails the same way again."""
    ends(cluster, code)
    again = Planner(cluster, retries=2)
    ended = await cluster.run(again.first, planner=again)
    assert (ended.outcome, ended.attempt) == ("failed", 1)
    assert "attempt 1 of 3 failed; the command can't be executed" in cluster.said()


async def test_a_stop_is_not_retried(cluster: Cluster) -> None:
    """What somebody stopped stays stopped."""
    again = Planner(cluster, retries=2)
    made = cluster.controller(again.first, planner=again)

    async def stop() -> None:
        await until(lambda: any(isinstance(e, PhaseBegun) and e.phase == "follow" for e in cluster.events))
        made.request_stop("user")

    ended = await cluster.drive(made, stop())
    assert (ended.outcome, ended.attempt, cluster.of(AttemptEnded)) == ("stopped", 1, [])


async def test_a_stop_asked_for_while_an_attempt_is_cleaned_up_is_heeded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another distui here: no further attempt is begun."""
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 30.0)
    ends(cluster, 3)
    reached = cluster.hosts[0].hold("folder")
    again = Planner(cluster, retries=2)
    made = cluster.controller(again.first, planner=again)

    async def stop() -> None:
        await reached.wait()
        made.stored.ask_stop()
        cluster.hosts[0].gates["folder"].set()

    ended = await cluster.drive(made, stop())
    assert (ended.outcome, ended.exit, ended.attempt) == ("failed", 1, 1)
    assert cluster.left() == []


@pytest.mark.parametrize("how", ["user", "detach", "word"])
async def test_in_the_pause(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A stop (also asked by another process here) or a detach ends the run between two attempts, as the attempt ended
    whose verdict is recorded: the record, `show` and `ps` and the result agree.
    """
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 30.0)
    ends(cluster, 3)
    again = Planner(cluster, retries=2, launch="beef")
    made = cluster.controller(again.first, planner=again)
    made.stored.write_plan(to_json(made.plan))
    recorded = []

    async def meanwhile() -> None:
        await until(lambda: bool(cluster.of(AttemptEnded)))
        recorded.append((made.stored.path / FILE).read_bytes())
        match how:
            case "user":
                made.request_stop("user")
            case "detach":
                made.request_detach()
            case "word":
                await asyncio.sleep(0.01)
                made.stored.ask_stop()

    ended = await cluster.drive(made, meanwhile())
    assert (ended.outcome, ended.exit) == ("failed", 1)
    assert ended.failure is not None and (ended.failure.rank, ended.failure.exit) == (1, 3)
    assert "attempt 2 is not begun" in cluster.said()
    assert [(made.stored.path / FILE).read_bytes()] == recorded
    row, result = stored_row(made.stored), made.stored.result()
    assert (row.state, row.exit, row.failure) == ("failed", 1, ended.failure)
    assert result is not None and (result["state"], result["exit"]) == ("failed", 1)
    assert cluster.left() == []


async def test_no_time_for_another(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """--timeout counts for all attempts together."""
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 100.0)
    ends(cluster, 3)
    again = Planner(cluster, retries=2)
    ended = await cluster.run(again.first, planner=again, limits=Limits(run=50))
    assert (ended.outcome, ended.attempt) == ("failed", 1)
    assert "the time limit leaves no room for another attempt" in cluster.said()


async def test_a_later_attempt_that_cannot_start(cluster: Cluster) -> None:
    """The run did run and failed: its first failure stays the result."""
    ends(cluster, 3)
    again = Planner(cluster, retries=1)

    async def gone(attempt: int, spent: float) -> NextAttempt | NoPlan:
        cluster.hosts[0].engine.images.clear()
        return await again(attempt, spent)

    ended = await cluster.run(again.first, planner=gone)
    assert (ended.outcome, ended.exit, ended.attempt) == ("failed", 1, 2)
    assert ended.failure is not None
    assert ended.failure.exit == 3
    assert cluster.left() == []


async def test_an_attempt_that_could_not_start_has_no_failure_of_another(cluster: Cluster) -> None:
    """It was said to have failed as the one before it did, at that one's time. The result still knows that failure."""
    ends(cluster, 3)
    again = Planner(cluster, retries=2)

    async def gone(attempt: int, spent: float) -> NextAttempt | NoPlan:
        cluster.hosts[0].engine.images.clear()
        return await again(attempt, spent)

    ended = await cluster.run(again.first, planner=gone)
    failures = [past.failure.exit if past.failure else None for past in cluster.of(AttemptEnded)]
    assert (failures, ended.attempt) == ([3, None], 3)
    assert ended.failure is not None and ended.failure.exit == 3


async def test_without_a_plan_there_is_no_other_attempt(cluster: Cluster) -> None:
    """The reason is said."""
    ends(cluster, 3)
    again = Planner(cluster, retries=1)

    async def none(attempt: int, spent: float) -> NextAttempt | NoPlan:
        return NoPlan(tuple(PlanProblem("port", host, "has no free port") for host in cluster.names))

    ended = await cluster.run(again.first, planner=none)
    assert (ended.outcome, ended.attempt) == ("failed", 1)
    assert "there is no plan for attempt 2: h[1-2]: has no free port" in cluster.said()


async def test_the_next_attempt_is_planned_for_hosts_as_they_are_by_then(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """h2 was restarted and is taken as it is now; h1 does not answer the probe and is taken as it was known."""
    known = {"h1": facts_of("h1", 11, boot_id="a1"), "h2": facts_of("h2", 12, boot_id="b1")}

    async def probed(connector: Connector, hosts: Sequence[Host], *, parallel: int) -> dict[str, ProbeResult]:
        cluster.hosts[1].files["/proc/sys/kernel/random/boot_id"] = b"b2\n"
        return {"h1": HostDown("h1", Trouble("timeout", "no answer")), "h2": facts_of("h2", 12, boot_id="b2")}

    def planner(*, facts: Mapping[str, HostFacts], attempt: int, spent: float, taken: object) -> RunPlan | NoPlan:
        return plan_for("h1", "h2", facts=facts, attempt=attempt, retries=1)

    async def connector() -> Connector:
        return cluster.connector

    monkeypatch.setattr(replan, "probe_all", probed)
    ends(cluster, 3, 0)
    again = replan.Replanner(planner, connector, [Host("h1"), Host("h2")], known, 8)
    ended = await cluster.run(plan_for("h1", "h2", facts=known, retries=1), facts=known, planner=again)

    assert (ended.outcome, ended.attempt) == ("succeeded", 2), cluster.said()
    plan = cluster.store.need("r1").read_plan()
    assert plan is not None
    assert [task["labels"]["distui.boot"] for task in plan["tasks"]] == ["a1", "b2"]


async def test_an_adopted_run_is_not_retried(cluster: Cluster) -> None:
    """Whoever takes a run up has neither job nor secrets; it knows which attempt it follows."""
    plan = plan_for(*cluster.names, attempt=2, retries=2)
    await cluster.run(plan, detach=True)
    (found,) = (await find_runs(cluster.connector, [Host("h1"), Host("h2")])).runs
    assert (found.attempt, found.attempts) == (2, 3)
    cluster.events.clear()
    cluster.hosts[1].engine.by_label(1).end(3)
    ended = await cluster.run(plan, adopted=True)
    assert (ended.outcome, ended.attempt, ended.attempts) == ("failed", 2, 3)
    assert "only the distui that started the run begins the next attempt" in cluster.said()


async def test_who_follows_an_old_attempt_leaves_the_new_one_alone(cluster: Cluster) -> None:
    """Another machine may clean up attempt 1 while attempt 2 begins: it removes nothing of it."""
    one = plan_for(*cluster.names, retries=1)
    await cluster.run(one, detach=True)
    for number, host in enumerate(cluster.hosts):
        host.engine.by_label(number).end(3)
    other = cluster.controller(one, adopted=True)
    two = plan_for(*cluster.names, retries=1, attempt=2)
    for host in other.hosts.values():
        await host.connect()
        await host.remove()
    await cluster.run(two, detach=True)
    for host in other.hosts.values():
        await host.remove()
        await host.link.close()
    assert [c.labels["distui.attempt"] for h in cluster.hosts for c in h.containers] == ["2", "2"]


async def test_tasks_of_the_newest_attempt_count(cluster: Cluster) -> None:
    """What an attempt left on a host that was out of reach does not make the run look failed."""
    await cluster.run(plan_for(*cluster.names, retries=1), detach=True)
    cluster.hosts[0].engine.by_label(0).end(3)
    two = plan_for(*cluster.names, retries=1, attempt=2)
    left = cluster.hosts[0].containers[0]
    cluster.hosts[1].containers.clear()
    cluster.hosts[1].files.clear()
    made = dataclasses.replace(left, labels=dict(two.tasks[1].labels), status="running", id="f" * 64)
    cluster.hosts[1].containers.append(made)
    (found,) = (await find_runs(cluster.connector, [Host("h1"), Host("h2")])).runs
    assert (found.attempt, found.state, found.hosts) == (2, "running", ("h2",))


@pytest.mark.parametrize(("attempt", "seconds"), [(2, 2.0), (3, 4.0), (4, 8.0), (7, 60.0), (100, 60.0)])
def test_pauses_grow_to_a_minute(attempt: int, seconds: float) -> None:
    """2, 4, 8 ... 60 seconds."""
    assert pause_before(attempt) == seconds


async def test_max_duration_ends_a_run(cluster: Cluster) -> None:
    """Stopped, 124, not retried; what the others did of it is no failure, whoever's end is seen first."""
    again = Planner(cluster, retries=2, max_duration=60.0)
    made = cluster.controller(again.first, planner=again)

    async def meanwhile() -> None:
        await until(lambda: any(isinstance(e, PhaseBegun) and e.phase == "follow" for e in cluster.events))
        container = cluster.hosts[1].engine.by_label(1)
        container.lasted = 60.4
        container.end(124)

    ended = await cluster.drive(made, meanwhile())
    assert (ended.outcome, ended.exit, ended.failure, ended.attempt) == ("stopped", 124, None, 1)
    assert "the job's max_duration is over: tasks end 1m after their start" in cluster.said()
    assert {(e.rank, e.state) for e in cluster.of(RankChanged) if e.exit is not None} == {
        (0, "stopped"),
        (1, "stopped"),
    }
    assert cluster.left() == []


async def test_a_detached_run_ended_by_its_limit(cluster: Cluster) -> None:
    """Another distui that finds it says so, and `ps` does not call it failed."""
    plan = plan_for(*cluster.names, max_duration=60.0)
    await cluster.run(plan, detach=True)
    for number, host in enumerate(cluster.hosts):
        container = host.engine.by_label(number)
        container.lasted = 60.1
        container.end(124, finished="2026-01-01T00:01:00.7Z")
    (found,) = (await find_runs(cluster.connector, [Host("h1"), Host("h2")])).runs
    assert found.state == "ended"
    ended = await cluster.run(plan, adopted=True)
    assert (ended.outcome, ended.exit) == ("stopped", 124)


async def test_a_program_may_end_with_124_too(cluster: Cluster) -> None:
    """Before the limit it is a failure like any other."""
    ends(cluster, 124)
    ended = await cluster.run(plan_for(*cluster.names, max_duration=60.0))
    assert (ended.outcome, ended.failure.exit if ended.failure else None) == ("failed", 124)


async def test_the_limit_counts_for_all_attempts(cluster: Cluster) -> None:
    """The next attempt is told what was spent; with nothing left there is none."""
    ends(cluster, 3, 0)
    asked: list[float] = []
    again = Planner(cluster, retries=1, max_duration=60.0)

    async def note(attempt: int, spent: float) -> NextAttempt | NoPlan:
        asked.append(spent)
        return await again(attempt, spent)

    ended = await cluster.run(again.first, planner=note)
    assert (ended.outcome, ended.attempt) == ("succeeded", 2)
    assert len(asked) == 1
    assert 0 < asked[0] < 20


async def test_no_attempt_when_the_limit_is_near(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause would outlast it."""
    monkeypatch.setattr(next_attempt, "FIRST_PAUSE", 59.0)
    monkeypatch.setattr(next_attempt, "LONGEST_PAUSE", 100.0)
    ends(cluster, 3)
    again = Planner(cluster, retries=1, max_duration=30.0)
    ended = await cluster.run(again.first, planner=again)
    assert (ended.outcome, ended.attempt) == ("failed", 1)
    assert "the time limit leaves no room for another attempt" in cluster.said()


async def test_an_image_with_an_entry_point_is_remarked(cluster: Cluster) -> None:
    """`timeout` is that program's argument then."""
    image = json.dumps({"Id": "sha256:" + "a" * 64, "Config": {"Entrypoint": ["/e.sh"]}}).encode()
    for number, host in enumerate(cluster.hosts):
        host.fails["image"] = lambda argv: Completed(argv, 0, image, b"")
        host.engine.exits[number] = 0
    ended = await cluster.run(plan_for(*cluster.names, max_duration=60.0))
    assert ended.outcome == "succeeded"
    assert "the image's entry point (/e.sh) must run `timeout` for max_duration" in cluster.said()


async def test_a_full_disk_here_is_no_reason_to_lose_the_result(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt that failed is the run's end; that no other is begun is said."""

    def full(stored: StoredRun, number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StoredRun, "set_aside", full)
    ends(cluster, 3)
    again = Planner(cluster, retries=1)
    ended = await cluster.run(again.first, planner=again)
    assert (ended.outcome, ended.exit, ended.failure.exit if ended.failure else None) == ("failed", 1, 3)
    assert "No space left on device; attempt 2 is not begun" in cluster.said()
    assert cluster.left() == []


@pytest.mark.parametrize("renames", range(6))
def test_an_attempt_that_was_set_aside_in_part_is_set_aside_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """Whoever was killed in it left some folders here and some there; whoever takes the run up next goes on."""
    store = RunStore(tmp_path)
    stored = store.create("r1")
    stored.write_plan({"attempt": 1})
    stored.rank_log(0).write_bytes(b"first try\n")
    stored.follow_file(0).write_text("{}")
    (stored.path / "verdict.json").write_text("{}")
    really, done = Path.rename, list[Path]()

    def rename(self: Path, target: Path) -> Path:
        if len(done) == renames:
            raise KeyboardInterrupt
        done.append(target)
        return really(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        with contextlib.suppress(KeyboardInterrupt):
            stored.set_aside(1)
    again = store.adopt("r1")
    if (again.read_plan() or {}).get("attempt") == 1:
        if renames == 2:
            again.rank_log(0).write_bytes(b"first\n")  # read again in part
        again.set_aside(1)
    again.write_plan({"attempt": 2})
    kept = again.attempt(1)
    assert kept.rank_log(0).read_bytes() == b"first try\n"
    assert kept.read_plan() == {"attempt": 1}
    assert (kept.path / "verdict.json").exists() and not (again.path / "verdict.json").exists()
    assert kept.follow_file(0).exists()
    assert [path.name for path in again.log_dir.iterdir()] == []
