"""Runs found by labels on the hosts: states, times, hosts that don't answer, answers that can't be read."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from distui.cli.actions.ps import _next_step
from distui.errors import HostCommandError, HostUnreachable
from distui.facts.host import Trouble
from distui.monitor.containers import list_containers
from distui.plan.command import process
from distui.plan.labels import TaskLabels, task_from_labels
from distui.runs.hosts import asking, discover
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask, find_runs, list_tasks, rfc3339, run_folder
from distui.runs.report.history import RunRow, found_row, joined
from distui.session import Completed
from distui.spec.hosts.inventory import Host
from fakehosts.engine import Container
from fakehosts.hosts import FakeConnector, FakeHost
from fakehosts.runs import plan_for

H1, H2 = Host("h1"), Host("h2")


def started(*names: str, run_id: str = "r1") -> tuple[FakeConnector, list[FakeHost]]:
    """Hosts on which a run was started."""
    hosts = [FakeHost(name) for name in names]
    for host, task in zip(hosts, plan_for(*names, run_id=run_id).tasks, strict=True):
        host.files[task.env_file] = b""
        assert host.engine.run(task.start).ok
        host.files.clear()
    return FakeConnector(*hosts), hosts


def failing(words: str, out: str = "", status: int = 1) -> Completed:
    """A command that failed."""
    return Completed(("docker",), status, out.encode(), words.encode())


async def test_a_run_is_found_with_all_its_labels() -> None:
    """Name, job, owner, world size, hosts, start: everything `ps` shows comes from the hosts."""
    connector, hosts = started("h1", "h2")
    found = await find_runs(connector, [H1, H2])

    (run,) = found.runs
    assert (run.run, run.job, run.owner, run.world_size) == ("r1", "j", "ann@desk", 2)
    assert (run.hosts, run.state) == (("h1", "h2"), "running")
    assert run.started == 1767225600.5
    assert found.get("r1") is run
    assert found.get("r2") is None
    assert [h.open_sessions for h in hosts] == [0, 0]


async def test_only_the_run_asked_for() -> None:
    """With a name, other runs and containers of others are left out."""
    connector, (host,) = started("h1")
    host.containers.append(Container("c" * 64, "db", {"app": "db"}, "pg", {}))
    assert (await find_runs(connector, [H1], run="other")).runs == ()
    assert len((await find_runs(connector, [H1], run="r1")).runs) == 1
    assert len((await find_runs(connector, [H1])).runs) == 1


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        ((None, None), "running"),
        ((0, None), "partial"),
        ((0, 0), "succeeded"),
        ((0, 3), "failed"),
        ((143, 137), "ended"),
        ((0, 143), "ended"),
    ],
)
async def test_states(codes: Sequence[int | None], state: str) -> None:
    """What the hosts tell of all tasks together."""
    connector, hosts = started("h1", "h2")
    for host, code in zip(hosts, codes, strict=True):
        if code is not None:
            host.containers[0].end(code)
    (run,) = (await find_runs(connector, [H1, H2])).runs
    assert run.state == state


@pytest.mark.parametrize(
    ("lives", "says", "state"),
    [
        ("", "", "ended"),
        ("7\n", "", "running"),
        ("8\n", "", "running"),
        ("hidden\n", "", "running"),
        ("", "no", "running"),
    ],
)
@pytest.mark.parametrize("status", ["running", "stopping", "paused"])
async def test_a_podman_container_whose_conmon_was_killed_with_it_has_ended(
    status: str, lives: str, says: str, state: str
) -> None:
    """podman calls it so for ever, until somebody attaches; one whose conmon lives is about to be told."""
    _, (host,) = started("h1")
    value = host.containers[0].inspected()
    value["State"] |= {"Running": status == "running", "Status": status, "Pid": 7, "ConmonPid": 8}
    asked: list[tuple[str, ...]] = []

    async def run_argv(argv: Sequence[str]) -> Completed:
        asked.append(tuple(argv))
        if argv[0] == "sh":
            return failing(says) if says else Completed(tuple(argv), 0, lives.encode(), b"")
        return Completed(tuple(argv), 0, (value["Id"] if "ps" in argv else json.dumps([value])).encode(), b"")

    (task,) = await list_tasks(run_argv, "h1", "podman", ("podman",), unseen=True)
    assert FoundRun("r1", (task,)).state == state
    assert asked[-1][-2:] == ("7", "8")
    (task,) = await list_tasks(run_argv, "h1", "podman", ("podman",))
    assert task.running


@pytest.mark.parametrize(
    ("status", "seen", "state"),
    [
        ("configured", "created", "ended"),
        ("initialized", "created", "ended"),
        ("stopping", "stopping", "running"),
        ("paused", "paused", "running"),
    ],
)
async def test_a_container_that_podman_does_not_call_running_has_not_ended(status: str, seen: str, state: str) -> None:
    """It was not started yet, or is being stopped: the exit status of 0 that it has then was taken for a success."""
    _, (host,) = started("h1")
    value = host.containers[0].inspected()
    value["State"] |= {"Running": False, "Status": status, "ExitCode": 0}

    async def run_argv(argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, (value["Id"] if "ps" in argv else json.dumps([value])).encode(), b"")

    (task,) = await list_tasks(run_argv, "h1", "podman", ("podman",))
    assert (task.status, task.exit, FoundRun("r1", (task,)).state) == (seen, None, state)
    (listed,) = await list_containers(run_argv, Host("h1", engine="podman"))
    assert (listed.exit, listed.running) == (None, state == "running")


async def test_a_host_that_does_not_answer_is_named() -> None:
    """Its reason and hint are kept; the other's tasks are there."""
    connector, _ = started("h1", "h2")
    connector.down["h2"] = HostUnreachable("h2", "h2 does not answer", hint="ping h2", code="timeout")
    found = await find_runs(connector, [H1, H2])

    assert [t.host for t in found.runs[0].tasks] == ["h1"]
    trouble = found.unreachable["h2"]
    assert (trouble.code, trouble.message, trouble.hint) == ("timeout", "h2 does not answer", "ping h2")


@pytest.mark.parametrize(("rank", "hosts"), [(0, ["h1"]), (1, ["h1", "h2"])])
async def test_where_one_task_is_enough_a_host_that_hangs_is_not_waited_for(
    rank: int, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one forgotten that is only slower; what was begun on the one that hangs is closed."""
    connector, machines = started("h1", "h2", "h3")
    monkeypatch.setattr(asking, "MORE_SECONDS", 0.3)
    seconds = {"h2": 0.01 if rank else 600.0, "h3": 600.0}

    async def slowly(run_argv: Any, host: str, *more: Any, **named: Any) -> tuple[FoundTask, ...]:
        await asyncio.sleep(seconds.get(host, 0.0))
        return await list_tasks(run_argv, host, *more, **named)

    monkeypatch.setattr(discover, "list_tasks", slowly)
    async with asyncio.timeout(20):
        found = await find_runs(connector, [H1, H2, Host("h3")], enough=lambda task: rank in task.labels.ranks)
    assert [task.host for task in found.runs[0].tasks] == hosts
    assert (found.unreachable["h3"].code, sorted(found.answered)) == ("timeout", hosts)
    assert [host.open_sessions for host in machines] == [0, 0, 0]


async def test_a_broken_engine_is_no_empty_host() -> None:
    """A daemon that is down is said, never taken for "nothing runs here"."""
    connector, hosts = started("h1", "h2")
    hosts[0].fails["ps"] = failing("Cannot connect to the Docker daemon")
    hosts[1].fails["inspect"] = failing("Cannot connect to the Docker daemon", out="[]")
    found = await find_runs(connector, [H1, H2])

    assert found.runs == ()
    assert {name: t.code for name, t in found.unreachable.items()} == {"h1": "daemon_down", "h2": "daemon_down"}


async def test_a_container_that_vanishes_meanwhile() -> None:
    """Gone between `ps` and `inspect`: the others are told."""
    connector, (host,) = started("h1")
    host.fails["ps"] = Completed(("docker",), 0, f"{host.containers[0].id}\n{'d' * 64}\n".encode(), b"")
    (run,) = (await find_runs(connector, [H1])).runs
    assert len(run.tasks) == 1


@pytest.mark.parametrize("text", ["[{", "\x00", "Welcome!"])
async def test_an_answer_that_cannot_be_read(text: str) -> None:
    """It is an error and not an empty list."""
    connector, (host,) = started("h1")
    host.fails["inspect"] = Completed(("docker",), 0, text.encode(), b"")
    with pytest.raises(HostCommandError, match="can't be read"):
        await list_tasks((await connector.connect("h1")).run, "h1", "docker", ("docker",))


@pytest.mark.parametrize("listed", [b"Welcome to h1\n", b"\0\xff\x07 --help\n", f"{'d' * 64} \0".encode()])
async def test_a_list_that_cannot_be_read(listed: bytes) -> None:
    """What is no container's id becomes no word of a command, nor of the message: that was as long as the answer."""
    connector, (host,) = started("h1")
    host.fails["ps"] = Completed(("docker",), 0, listed, b"")
    run = (await connector.connect("h1")).run
    for ask in (lambda: list_tasks(run, "h1", "docker", ("docker",)), lambda: list_containers(run, H1)):
        with pytest.raises(HostCommandError) as caught:
            await ask()
        assert caught.value.message == "h1: the engine's answer can't be read"


@pytest.mark.parametrize("value", ["7", '{"a": 1}', "[1, null]", "[{}]", '[{"Config": null, "State": null}]'])
async def test_odd_answers_hold_no_tasks(value: str) -> None:
    """JSON of another shape has no tasks in it."""
    connector, (host,) = started("h1")
    host.fails["inspect"] = Completed(("docker",), 0, value.encode(), b"")
    assert await list_tasks((await connector.connect("h1")).run, "h1", "docker", ("docker",)) == ()


async def test_two_names_of_one_host() -> None:
    """A machine that the inventory has twice tells its tasks once, under the name they were started on."""
    connector, (host,) = started("h1")
    connector.hosts["alias"] = host
    for order in ([H1, Host("alias")], [Host("alias"), H1]):
        (run,) = (await find_runs(connector, order)).runs
        assert [t.host for t in run.tasks] == ["h1"]


async def test_newest_run_first() -> None:
    """Runs are sorted by their start."""
    connector, (host,) = started("h1")
    task = plan_for("h1", run_id="r2").tasks[0]
    host.files[task.env_file] = b""
    host.engine.run(task.start)
    old = host.containers[0].inspected()
    old["State"]["StartedAt"] = "2020-01-01T00:00:00Z"
    host.fails["inspect"] = Completed((), 0, json.dumps([old, host.containers[1].inspected()]).encode(), b"")
    assert [r.run for r in (await find_runs(connector, [H1])).runs] == ["r2", "r1"]


async def test_processes_are_found_by_their_folders() -> None:
    """Engine `process`: the same questions, answered by the folders in the login's home."""
    labels = dict(plan_for("h1").tasks[0].labels) | {"distui.engine": "process"}
    output = {"state": "exited", "folder_index": 0, "exit": 3, "started_ns": 10**18, "finished_ns": 2 * 10**18}
    asked: list[tuple[str, ...]] = []

    async def run(argv: Sequence[str]) -> Completed:
        asked.append(tuple(argv))
        out = b"/home/u" if len(asked) == 1 else json.dumps(output | {"labels": labels}).encode() + b"\nrubbish\n"
        return Completed(tuple(argv), 0, out, b"")

    (task,) = await list_tasks(run, "h1", "process", ())
    assert asked[1] == process.list_tasks("/home/u")
    assert task.id == "/home/u/.local/state/distui/hosts/h1/r1/task-0"
    assert (task.running, task.exit, task.started, task.finished) == (False, 3, 1e9, 2e9)


async def test_a_login_without_a_home_cannot_have_processes() -> None:
    """It is said in words."""

    async def run(argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, b"", b"")

    with pytest.raises(HostCommandError, match="no home folder"):
        await list_tasks(run, "h1", "process", ())


@pytest.mark.parametrize("name", ["h1", "fe80::1", "a b", ".."])
def test_the_folder_is_the_one_the_plan_made(name: str) -> None:
    """Whatever the host is called, it is found again where the plan has put it."""
    task = plan_for(name).tasks[0] if name in ("h1", "fe80::1") else None
    labels = task_from_labels(dict(plan_for("h1").tasks[0].labels) | {"distui.host": name})
    assert labels is not None
    folder = run_folder("/home/u", labels)
    assert task is None or folder == task.run_dir
    assert folder.startswith("/home/u/.local/state/distui/hosts/")
    assert "/../" not in folder


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-01T00:00:00.5Z", 1767225600.5),
        ("2026-01-01T00:00:00.123456789Z", 1767225600.123456),
        ("2026-01-01T01:00:00+01:00", 1767225600.0),
        ("2026-01-01 01:00:00.25 +0100 CET", 1767225600.25),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("yesterday", None),
    ],
)
def test_times_of_engines(text: str, value: float | None) -> None:
    """Docker's and podman's forms; the zero time is no time."""
    assert rfc3339(text) == value


def test_the_words_of_a_task() -> None:
    """For lists of what is left."""

    async def tasks() -> Any:
        connector, _ = started("h1")
        return (await find_runs(connector, [H1])).runs[0]

    import asyncio

    run: FoundRun = asyncio.run(tasks())
    assert run.tasks[0].words == f"docker {run.tasks[0].id[:12]} (run r1, task 0, running)"


async def test_out_of_memory_is_a_failure_whatever_its_status() -> None:
    """137 alone is what a stop leaves; with the engine's flag it is not."""
    connector, hosts = started("h1", "h2")
    hosts[0].containers[0].end(137, oom=True)
    hosts[1].containers[0].end(143)
    (run,) = (await find_runs(connector, [H1, H2])).runs
    assert run.state == "failed"


def test_two_launches_of_one_second_are_two() -> None:
    """Name, owner, second and plan may be equal: the random id of the launch is not."""
    labels = {"distui.run": "r1", "distui.task": "0", "distui.owner": "ann", "distui.started": "2026-01-01T00:00:00Z"}
    one, two = (task_from_labels(labels | {"distui.launch": launch}) for launch in ("0a", "0b"))
    assert one is not None
    assert two is not None
    assert one.attempt_key != two.attempt_key
    assert one.attempt_key == dataclasses.replace(one, task=1, ranks=(1,), host="h2").attempt_key


def test_clocks_that_are_years_off_make_no_run_older_or_longer() -> None:
    """It began by the clock that fits its labels best, and took as long as its tasks did on their own hosts."""
    labels = TaskLabels("r1", 0, (0,), "h1", "j", world_size=3, started="2026-01-01T00:00:00Z")
    began = 1767225600.0
    tasks = tuple(
        FoundTask(
            host, f"c{rank}", dataclasses.replace(labels, task=rank, ranks=(rank,), host=host), {}, False, "exited", 0,
            started=began + off + 2, finished=began + off + 5 + rank,
        )
        for rank, (host, off) in enumerate((("h1", 10800.0), ("h2", 0.0), ("h3", -94608000.0)))
    )  # fmt: skip
    found = FoundRun("r1", tasks)
    assert (found.started, found.ended_at) == (began + 2, began + 7)
    assert found_row(found, None).took == 5.0


def test_a_task_that_started_later_ended_when_it_did() -> None:
    """By a clock that is right: as on a host whose login is slow."""
    labels = TaskLabels("r1", 0, (0,), "h1", "j", world_size=2, started="2026-01-01T00:00:00Z")
    tasks = tuple(
        FoundTask(
            host, f"c{rank}", dataclasses.replace(labels, task=rank, ranks=(rank,), host=host), {}, False, "exited", 0,
            started=1767225600.0 + 20 * rank, finished=1767225700.0 + 15 * rank,
        )
        for rank, host in enumerate(("h1", "h2"))
    )  # fmt: skip
    assert found_row(FoundRun("r1", tasks), None).took == 115.0


def test_ranks_of_which_nothing_is_there() -> None:
    """Pruned, or on a host that did not answer: a run is no success by the ranks that are left of it."""
    labels = TaskLabels("r1", 0, (0,), "h1", "j", world_size=4)
    there = FoundTask("h1", "c0", labels, {}, False, "exited", 0, started=10.0, finished=12.0)
    found = FoundRun("r1", (there,))
    row = found_row(found, None)
    assert (found.state, found.unfound, found.ended_at) == ("unknown", (1, 2, 3), None)
    assert (row.state, row.exit, row.took) == ("unknown", None, None)
    assert "nothing of ranks 1-3 is on the hosts that answered" in row.warnings[0]
    failed = found_row(FoundRun("r1", (dataclasses.replace(there, exit=3),)), None)
    assert (failed.state, failed.exit, len(failed.warnings)) == ("failed", 1, 1)
    whole = found_row(
        FoundRun("r1", (dataclasses.replace(there, labels=dataclasses.replace(labels, world_size=1)),)), None
    )
    assert (whole.state, whole.exit, whole.took, whole.warnings) == ("succeeded", 0, 2.0, ())


@pytest.mark.parametrize(
    ("hosts", "answered", "silent", "chosen", "where"),
    [
        ((), {"h1"}, {"h2"}, False, "on h2, which did not answer"),
        (("h1", "h2"), {"h1"}, {"h2", "h7"}, False, "on h2, which did not answer"),
        (("h1", "h2"), {"h1"}, set(), True, "on h2, which was not asked"),
        ((), {"h1"}, set(), True, "on hosts that were not asked"),
        (("h1", "h2"), {"h1", "h2"}, {"h7"}, True, ""),
        ((), {"h1", "h2"}, set(), False, ""),
    ],
)
def test_a_run_of_which_some_host_says_nothing_may_go_on(
    hosts: tuple[str, ...], answered: set[str], silent: set[str], chosen: bool, where: str
) -> None:
    """It was said to have ended, with a command that would end what runs there."""
    labels = TaskLabels("r1", 0, (0,), "h1", "j", world_size=2)
    run = FoundRun("r1", (FoundTask("h1", "c0", labels, {}, False, "exited", 0, started=10.0, finished=12.0),))
    recorded = [RunRow("r1", "j", "detached", hosts, 2, recorded=True)] if hosts else []
    found = FoundRuns((run,), dict.fromkeys(silent, Trouble("timeout", "no answer")), frozenset(answered))
    (row,) = joined(found, recorded, chosen=chosen)
    assert (row.state, row.apart) == ("unknown", where)
    assert ("distui stop r1" in _next_step(row, [])) is not bool(where)
    assert row.warnings[0].startswith(f"rank 1 may still run {where}" if where else "nothing of rank 1 is on the hosts")


def test_a_run_took_no_longer_than_since_its_start() -> None:
    """By our clock, whatever that of its host says."""
    began = time.time() - 20
    there = FoundTask("h1", "c0", TaskLabels("r1", 0, (0,), "h1", "j", world_size=1), {}, False, "exited", 0)
    row = found_row(FoundRun("r1", (dataclasses.replace(there, started=began, finished=began + 10_000),)), None)
    assert row.took is not None and 20 <= row.took < 60
