"""A run's name used twice, by two machines of one person: two folders of records over the same hosts."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.runs.store.runs import RunStore

On = Callable[[str], contextlib.AbstractContextManager[None]]

DUP = f"dup{os.getpid()}"
"""The hosts are this machine, where other tests may run."""

A_SAYS = "while :; do echo from a; sleep 0.1; done"
B_SAYS = "while :; do echo from b; sleep 0.1; done"
B_ENDS = "for i in 1 2 3 4 5 6 7 8 9; do echo from b; sleep 0.1; done"


@pytest.fixture
def on(demo_home: Path, tmp_path: Path) -> Iterator[On]:
    """The calls inside the block are made on that machine."""

    @contextlib.contextmanager
    def machine(name: str) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(tmp_path / name))
            yield

    yield machine


def start(cli: Any, name: str, script: str, *flags: str) -> None:
    """A detached run of one rank, which has begun to print."""
    done = cli("run", "-d", "-y", "--name", name, "-H", "demo1", *flags, "--", "sh", "-c", script)
    assert done.code == 0, done.err
    while "from" not in cli("logs", name).out:
        time.sleep(0.1)


def fail(cli: Any, name: str) -> None:
    """A run that has ended, and was cleaned up."""
    done = cli("run", "--headless", "-y", "--name", name, "-H", "demo1", "--", "sh", "-c", "echo from a; exit 3")
    assert done.code == 1, done.err


def rows(cli: Any, *flags: str) -> list[tuple[str, str]]:
    """Names and states that `ps` tells."""
    return [(row["run"], row["state"]) for row in json.loads(cli("ps", "-o", "json", *flags).out)["runs"]]


def replaced(cli: Any, on: On, script: str) -> None:
    """A's run that goes on is stopped and purged by B, which starts its own under that name."""
    with on("a"):
        start(cli, DUP, A_SAYS)
    with on("b"):
        assert cli("stop", "-y", DUP).code == 0
        assert cli("rm", "-y", "--purge", DUP).code == 0
        start(cli, DUP, script)


def logs_of(tmp_path: Path, machine: str, run: str) -> set[str]:
    """The lines that are kept of rank 0."""
    log = tmp_path / machine / f"distui/runs/{run}/logs/rank-00000.log"
    return set(log.read_text().splitlines())


def test_what_is_attached_to_is_what_lives_and_its_lines_are_kept_apart(cli: Any, on: On, tmp_path: Path) -> None:
    """The record of the launch that is gone keeps what it has, under a name of its own, and is one line to read."""
    replaced(cli, on, B_ENDS)
    with on("a"):
        attached = cli("attach", DUP, "--headless", "--no-prefix")
        assert (attached.code, attached.out) == (0, "from b\n" * 9), attached.err
        assert attached.err.count(f"the older one of that name here (its end was not seen) is kept as {DUP}~1") == 1
        assert logs_of(tmp_path, "a", DUP) == {"from b"}
        assert "from b" not in (tmp_path / f"a/distui/runs/{DUP}~1/events.ndjson").read_text()
        assert sorted(rows(cli, "-a")) == [(DUP, "succeeded"), (f"{DUP}~1", "gone")]
        assert cli("rm", "-y", "--purge", f"{DUP}~1").code == 0
        assert [run.run_id for run in RunStore(tmp_path / "a/distui").all()] == [DUP]


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_stop_ends_what_lives_though_another_is_recorded(cli: Any, on: On, tmp_path: Path, verb: str) -> None:
    """A's own launch is gone: nothing of it is left to stop, and its follower is not hung on the other's tasks."""
    replaced(cli, on, B_SAYS)
    with on("a"):
        assert rows(cli) == [(DUP, "running")]
        assert sorted(rows(cli, "-a")) == [(DUP, "gone"), (DUP, "running")]
        stopped = cli(verb, "-y", DUP)
        assert stopped.code == 0, stopped.err
        assert sorted(rows(cli, "-a")) == [(DUP, "stopped"), (f"{DUP}~1", "gone")]
        assert logs_of(tmp_path, "a", DUP) == {"from b"}


def test_the_end_of_an_older_run_is_not_that_of_the_one_that_is_stopped(cli: Any, on: On, tmp_path: Path) -> None:
    """Each has its events, its verdict and its lines; nothing of B's run is lost."""
    with on("a"):
        fail(cli, DUP)
    with on("b"):
        start(cli, DUP, f"echo first b; {B_SAYS}")
    with on("a"):
        stopped = cli("stop", "-y", DUP)
        assert stopped.code == 0, stopped.err
        assert f"the older one of that name here (failed, exit 1) is kept as {DUP}~1" in stopped.err
        assert logs_of(tmp_path, "a", DUP) == {"first b", "from b"}
        assert logs_of(tmp_path, "a", f"{DUP}~1") == {"from a"}
        for run, state in ((DUP, "stopped"), (f"{DUP}~1", "failed")):
            shown = json.loads(cli("show", run, "-o", "json").out)
            assert (shown["run"], shown["state"]) == (run, state)
            folder = tmp_path / f"a/distui/runs/{run}"
            events = map(json.loads, (folder / "events.ndjson").read_text().splitlines())
            results = [event for event in events if event["type"] == "result"]
            assert [result["state"] for result in results] == [state]
            assert json.loads((folder / "verdict.json").read_text())["result"]["state"] == state
        assert cli("logs", f"{DUP}~1", "--no-prefix").out == "from a\n"


VERBS = {
    "attach": (["attach", DUP, "--headless"], 0, B_ENDS),
    "wait": (["wait", DUP], 0, B_ENDS),
    "logs": (["logs", "-f", DUP], 0, B_ENDS),
    "exec": (["exec", DUP, "--", "true"], 2, B_SAYS),
    "rm": (["rm", "-y", "--purge", DUP], 2, B_SAYS),
    "stop": (["stop", "-y", DUP], 0, B_SAYS),
}


@pytest.mark.parametrize("verb", VERBS)
def test_all_verbs_mean_the_run_that_lives(cli: Any, on: On, tmp_path: Path, verb: str) -> None:
    """And say in one line that there is an older one here, which they leave as it is."""
    with on("a"):
        fail(cli, DUP)
        ended = cli("attach", DUP, "--headless")
        assert (ended.code, f"{DUP} has ended: failed" in ended.err) == (1, True), ended.err
    words, code, script = VERBS[verb]
    with on("b"):
        start(cli, DUP, script)
    with on("a"):
        done = cli(*words)
        assert done.code == code, done.err
        assert done.err.count(f"{DUP} is now a run of") == 1
        assert (verb in ("attach", "logs")) == ("from b" in done.out)
        assert {"exec": "runs without a container", "rm": "still runs"}.get(verb, "") in done.err
        assert json.loads(cli("show", f"{DUP}~1", "-o", "json").out)["exit"] == 1
        if verb not in ("attach", "stop"):
            again = cli("stop", "-y", DUP)
            assert (again.code, "is now a run of" in again.err) == (0, False), again.err


def test_who_may_only_look_changes_no_name(cli: Any, on: On, tmp_path: Path) -> None:
    """With --readonly the run that lives is shown, and the older one stays where it is."""
    with on("a"):
        fail(cli, DUP)
    with on("b"):
        start(cli, DUP, B_ENDS)
    with on("a"):
        looked = cli("--readonly", "logs", "-f", "--no-prefix", DUP)
        assert (looked.code, looked.out) == (0, "from b\n" * 9), looked.err
        assert "there is an older one of that name here (failed, exit 1)" in looked.err
        assert [run.run_id for run in RunStore(tmp_path / "a/distui").all()] == [DUP]
        assert cli("logs", DUP, "--no-prefix").out == "from a\n"
    with on("b"):
        assert cli("stop", "-y", DUP).code == 0
