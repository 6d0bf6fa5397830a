"""A run's name used twice, by two machines of one person: two folders of records over the same hosts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.run.store import RunStore

On = Callable[[str], contextlib.AbstractContextManager[None]]

A_SAYS = "while :; do echo from a; sleep 0.1; done"
B_SAYS = "while :; do echo from b; sleep 0.1; done"


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
    """A detached run of one rank."""
    done = cli("run", "-d", "-y", "--name", name, "-H", "demo1", *flags, "--", "sh", "-c", script)
    assert done.code == 0, done.err


def fail(cli: Any, name: str) -> None:
    """A run that has ended, and was cleaned up."""
    done = cli("run", "--headless", "-y", "--name", name, "-H", "demo1", "--", "sh", "-c", "echo from a; exit 3")
    assert done.code == 1, done.err


def rows(cli: Any, *flags: str) -> list[tuple[str, str]]:
    """Names and states that `ps` tells."""
    return [(row["run"], row["state"]) for row in json.loads(cli("ps", "-o", "json", *flags).out)["runs"]]


def replaced(cli: Any, on: On, name: str = "dup") -> None:
    """A's run that goes on is stopped and purged by B, which starts its own under that name."""
    with on("a"):
        start(cli, name, A_SAYS)
    with on("b"):
        assert cli("stop", "-y", name).code == 0
        assert cli("rm", "-y", "--purge", name).code == 0
        start(cli, name, B_SAYS)


def logs_of(tmp_path: Path, machine: str, run: str) -> set[str]:
    """The lines that are kept of rank 0."""
    log = tmp_path / machine / f"distui/runs/{run}/logs/rank-00000.log"
    return set(log.read_text().splitlines())


def test_what_is_attached_to_is_what_lives_and_its_lines_are_kept_apart(cli: Any, on: On, tmp_path: Path) -> None:
    """The record of the launch that is gone keeps what it has, under a name of its own, and is one line to read."""
    replaced(cli, on)
    with on("a"):
        assert rows(cli) == [("dup", "running")]
        assert sorted(rows(cli, "-a")) == [("dup", "gone"), ("dup", "running")]
        attached = cli("--timeout", "4s", "attach", "dup", "--headless")
        assert attached.code == 124, attached.err
        assert attached.err.count("the older one of that name here (its end was not seen) is kept as dup~1") == 1
        assert "from b" in attached.out
        assert "from a" not in attached.out
        assert logs_of(tmp_path, "a", "dup") == {"from b"}
        assert "from b" not in (tmp_path / "a/distui/runs/dup~1/events.ndjson").read_text()
        assert sorted(rows(cli, "-a")) == [("dup", "running"), ("dup~1", "gone")]
        stopped = cli("stop", "-y", "dup")
        assert stopped.code == 0, stopped.err
        assert rows(cli) == []
        assert json.loads(cli("show", "dup", "-o", "json").out)["state"] == "stopped"
        assert cli("rm", "-y", "--purge", "dup~1").code == 0
        assert [run.run_id for run in RunStore(tmp_path / "a/distui").all()] == ["dup"]


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_stop_ends_what_lives_though_another_is_recorded(cli: Any, on: On, tmp_path: Path, verb: str) -> None:
    """A's own launch is gone: nothing of it is left to stop, and its follower is not hung on the other's tasks."""
    replaced(cli, on)
    with on("a"):
        stopped = cli(verb, "-y", "dup")
        assert stopped.code == 0, stopped.err
        assert rows(cli) == []
        assert logs_of(tmp_path, "a", "dup") == {"from b"}


def test_the_end_of_an_older_run_is_not_that_of_the_one_that_is_stopped(cli: Any, on: On, tmp_path: Path) -> None:
    """Each has its events, its verdict and its lines; nothing of B's run is lost."""
    with on("a"):
        fail(cli, "dup2")
    with on("b"):
        start(cli, "dup2", f"echo first b; {B_SAYS}")
    with on("a"):
        stopped = cli("stop", "-y", "dup2")
        assert stopped.code == 0, stopped.err
        assert "the older one of that name here (failed, exit 1) is kept as dup2~1" in stopped.err
        assert logs_of(tmp_path, "a", "dup2") == {"first b", "from b"}
        assert logs_of(tmp_path, "a", "dup2~1") == {"from a"}
        for run, state in (("dup2", "stopped"), ("dup2~1", "failed")):
            shown = json.loads(cli("show", run, "-o", "json").out)
            assert (shown["run"], shown["state"]) == (run, state)
            folder = tmp_path / f"a/distui/runs/{run}"
            events = map(json.loads, (folder / "events.ndjson").read_text().splitlines())
            results = [event for event in events if event["type"] == "result"]
            assert [result["state"] for result in results] == [state]
            assert json.loads((folder / "verdict.json").read_text())["result"]["state"] == state
        assert cli("logs", "dup2~1", "--no-prefix").out == "from a\n"


VERBS = {
    "attach": (["--timeout", "3s", "attach", "dup", "--headless"], 124),
    "wait": (["--timeout", "3s", "wait", "dup"], 124),
    "logs": (["--timeout", "3s", "logs", "-f", "dup"], 124),
    "exec": (["exec", "dup", "--", "true"], 2),
    "rm": (["rm", "-y", "--purge", "dup"], 2),
    "stop": (["stop", "-y", "dup"], 0),
}


@pytest.mark.parametrize("verb", VERBS)
def test_all_verbs_mean_the_run_that_lives(cli: Any, on: On, tmp_path: Path, verb: str) -> None:
    """And say in one line that there is an older one here, which they leave as it is."""
    with on("a"):
        fail(cli, "dup")
        ended = cli("attach", "dup", "--headless")
        assert (ended.code, "dup has ended: failed" in ended.err) == (1, True), ended.err
    with on("b"):
        start(cli, "dup", B_SAYS)
    words, code = VERBS[verb]
    with on("a"):
        done = cli(*words)
        assert done.code == code, done.err
        assert done.err.count("dup is now a run of") == 1
        assert (verb in ("attach", "logs")) == ("from b" in done.out)
        assert {"exec": "runs without a container", "rm": "still runs"}.get(verb, "") in done.err
        assert json.loads(cli("show", "dup~1", "-o", "json").out)["exit"] == 1
        if verb != "stop":
            again = cli("stop", "-y", "dup")
            assert (again.code, "is now a run of" in again.err) == (0, False), again.err


def test_who_may_only_look_changes_no_name(cli: Any, on: On, tmp_path: Path) -> None:
    """With --readonly the run that lives is shown, and the older one stays where it is."""
    with on("a"):
        fail(cli, "dup")
    with on("b"):
        start(cli, "dup", B_SAYS)
    with on("a"):
        looked = cli("--readonly", "--timeout", "3s", "logs", "-f", "dup")
        assert (looked.code, "from b" in looked.out) == (124, True), looked.err
        assert "there is an older one of that name here (failed, exit 1)" in looked.err
        assert [run.run_id for run in RunStore(tmp_path / "a/distui").all()] == ["dup"]
        assert cli("logs", "dup", "--no-prefix").out == "from a\n"
    with on("b"):
        assert cli("stop", "-y", "dup").code == 0
