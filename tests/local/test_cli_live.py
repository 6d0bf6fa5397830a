"""Whole runs over real ssh on loopback, through the command line, without containers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_a_run_from_start_to_clean_hosts(cli: Any, demo_home: Path) -> None:
    """A rank that fails is named with its last lines, exit 1; logs are kept here, nothing on the hosts."""
    script = "echo hello from $RANK of $WORLD_SIZE; if [ $RANK = 1 ]; then echo boom >&2; exit 3; fi; sleep 60"
    done = cli("run", "--headless", "--name", "live", "-H", "demo1,demo2", "--", "sh", "-c", script)

    assert done.code == 1, done.err
    assert "000 demo1 | hello from 0 of 2\n" in done.out
    assert "rank 1 on demo2 failed first: exit 3" in done.err
    assert "| boom" in done.err
    assert cli("logs", "live", "--rank", "1", "--no-prefix").out == "hello from 1 of 2\nboom\n"
    assert json.loads(cli("ps", "--json").out)["runs"] == []
    assert list(demo_home.rglob("*.env*")) == []
    again = cli("run", "--headless", "--name", "live", "-H", "demo1", "--", "true")
    assert again.code == 2
    assert "already recorded" in again.err


def test_a_detached_run_is_listed_read_and_stopped(cli: Any, demo_home: Path) -> None:
    """`run -d` prints the name; ps, show and logs find it on the hosts; stop drains its logs and cleans up."""
    started = cli("run", "-d", "--name", "far", "-H", "demo1,demo2", "--", "sh", "-c", "echo tick; exec sleep 60")
    assert (started.code, started.out) == (0, "far\n"), started.err

    (run,) = json.loads(cli("ps", "--json").out)["runs"]
    assert (run["run"], run["state"], run["ranks"], run["hosts"]) == ("far", "running", 2, ["demo1", "demo2"])
    assert cli("show", "far").out.count("running") == 3
    assert cli("wait", "far", "--for", "running").code == 0
    some = cli("wait", "far", "--for", "running", "-H", "demo1", "--timeout", "2s")
    assert some.code == 124, "of rank 1 nobody knows there whether it runs"
    assert cli("logs", "far", "-n", "1").out == "000 demo1 | tick\n001 demo2 | tick\n"
    assert cli("rm", "far").code == 2
    assert cli("kill", "far", "--rank", "7").code == 2
    one = cli("kill", "far", "--rank", "1")
    assert (one.code, "rank 1 of far ended" in one.err) == (0, True), one.err
    (run,) = json.loads(cli("ps", "--json").out)["runs"]
    assert run["state"] == "partial"
    stopped = cli("stop", "far", "--grace", "5s")
    assert stopped.code == 0, stopped.err
    assert json.loads(cli("ps", "--json").out)["runs"] == []
    assert cli("logs", "far", "--no-prefix").out.splitlines().count("tick") == 2
    assert cli("stop", "far").code == 0
    assert cli("rm", "--purge", "-y", "far").code == 0


@pytest.mark.parametrize("words", [("attach", "--view"), ("--readonly", "attach")], ids=["view", "readonly"])
def test_who_only_looks_on_sees_lines_and_end_and_touches_nothing(
    cli: Any, demo_home: Path, words: tuple[str, ...]
) -> None:
    """A run that nobody follows: its ranks end while it is looked at, and what they leave waits for its owner."""
    script = "echo tick; sleep 2; echo boom >&2; exit 3"
    started = cli("run", "-d", "--name", "far", "-H", "demo1,demo2", "--", "sh", "-c", script)
    assert started.code == 0, started.err
    before = recorded(demo_home, "far")
    seen = cli(*words, "far", "--headless", "--no-prefix")
    assert (seen.code, sorted(seen.out.split())) == (1, ["boom", "boom", "tick", "tick"]), seen.err
    assert "failed first: exit 3" in seen.err and "nobody has recorded how far ended" in seen.err
    assert recorded(demo_home, "far") == before
    (run,) = json.loads(cli("ps", "--json").out)["runs"]
    assert run["run"] == "far"
    owned = cli("attach", "far", "--headless", "--no-prefix")
    assert (owned.code, sorted(owned.out.split())) == (1, ["boom", "boom", "tick", "tick"]), owned.err
    assert json.loads(cli("ps", "--json").out)["runs"] == []


def recorded(home: Path, run: str) -> dict[str, bytes]:
    """What is in the folder of a run here, but for the summary that readers keep."""
    (folder,) = home.rglob(f"runs/{run}")
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "summary.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_plan_contacts_the_hosts_and_starts_nothing(cli: Any, demo_home: Path) -> None:
    """`plan` and `run --dry-run` print the same plan; as JSON it is the versioned object."""
    words = ("--name", "p", "-H", "demo1", "--", "true")
    shown = cli("plan", *words)
    assert shown.code == 0, shown.err
    assert cli("run", "--dry-run", *words).out == shown.out
    assert json.loads(cli("plan", "-o", "json", *words).out)["run_id"] == "p"
    assert json.loads(cli("ps", "--json").out)["runs"] == []


def test_a_plan_is_compared_with_a_run_s(cli: Any, demo_home: Path) -> None:
    """`plan --diff RUN` prints what is different, nothing when both would run the same; an unknown run is exit 7."""
    where = ("-H", "demo1", "--image", "any")
    assert cli("run", "--headless", "--name", "old", *where, "--", "true").code == 0
    same = cli("plan", "--diff", "old", "--name", "new", *where, "--", "true")
    assert (same.code, same.out) == (0, "")
    assert "new would run the same as old" in same.err
    other = cli("run", "--dry-run", "--diff", "old", *where, "-e", "LR=0.1", "--", "true")
    assert '+tasks/0/env/LR = "0.1"' in other.out
    assert all(line.startswith(("+", "-")) for line in other.out.splitlines())
    assert cli("plan", "--diff", "odl", *where, "--", "true").code == 7


def test_a_rank_that_the_run_does_not_have_is_refused(cli: Any, demo_home: Path) -> None:
    """Nothing is started for `--rank 7` of a run with two ranks, and its name stays free."""
    done = cli("run", "--headless", "--name", "two", "-H", "demo1,demo2", "--rank", "7", "--", "true")
    assert done.code == 2
    assert "--rank 7: the run has ranks 0 to 1" in done.err
    assert json.loads(cli("ps", "-a", "--json").out)["runs"] == []


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_rank_that_is_stopped_alone_is_told_as_stopped(cli: Any, demo_home: Path, verb: str) -> None:
    """Whoever follows the run hears who did it; the run fails."""
    assert cli("run", "-d", "--name", "far", "-H", "demo1,demo2", "--", "sleep", "60").code == 0
    assert cli(verb, "far", "--rank", "1").code == 0
    done = cli("attach", "far", "--headless")
    assert done.code == 1, done.err
    line = next(line for line in done.err.splitlines() if "rank 1 on demo2 failed first" in line)
    assert ": stopped by " in line and f"with `distui {verb} --rank`" in line, done.err
    assert list(demo_home.rglob("stopped*")) == []


def test_a_run_that_somebody_else_cleaned_up_is_not_listed(cli: Any, demo_home: Path) -> None:
    """Killed at its clean-up, which another machine finished: no host has anything of it, as all of them say."""
    assert cli("run", "--headless", "--name", "old", "-H", "demo1,demo2", "--", "sh", "-c", "exit 3").code == 1
    events = demo_home / ".local/state/distui/runs/old/events.ndjson"
    whole = events.read_text().splitlines(keepends=True)
    events.write_text("".join(line for line in whole if '"type":"result"' not in line))
    assert len(events.read_text().splitlines()) == len(whole) - 1

    assert [run["run"] for run in json.loads(cli("ps", "--json").out)["runs"]] == []
    (run,) = json.loads(cli("ps", "-a", "--json").out)["runs"]
    assert (run["run"], run["state"], run["exit"]) == ("old", "failed", 1)
    assert [run["run"] for run in json.loads(cli("ps", "--json", "-H", "demo1").out)["runs"]] == ["old"]

    assert cli("rm", "-y", "old", "-H", "demo1").code == 0
    assert "result" not in events.read_text().splitlines()[-1]  # only one of its hosts was asked
    removed = cli("rm", "-y", "old")
    assert (removed.code, "nothing of it is on its hosts" in removed.err) == (0, True), removed.err
    assert '"type":"result"' in events.read_text().splitlines()[-1]
    assert cli("ps", "-q", "-H", "demo1").out == ""
    assert cli("wait", "old").code == 1
