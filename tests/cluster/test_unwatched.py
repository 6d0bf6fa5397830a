"""Runs that nobody follows for a while: what is pruned or printed meanwhile is told, and counted from the start."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab.runs import TICKS, assert_clean, log_of, until
from lab.terminal import Terminal

pytestmark = pytest.mark.cluster

RUNS = ".local/state/distui/runs"
UNKNOWN_END = "it is not on its host any more, and how it ended was not seen from here"


def detached(start: Callable[..., Any], script: str, name: str) -> None:
    """A run on h1 and h2 that nobody follows."""
    done = start(script, "-d", "--name", name, wait=False).finish()
    assert done.returncode == 0, done.stderr


def ended(lab: Any) -> bool:
    """Whether the ranks on h1 and h2 have ended, and are still there."""
    return [host.states() for host in lab.hosts[:2]] == [["exited"], ["exited"]]


@pytest.fixture
def other(lab: Any, home: Path, tmp_path: Path) -> Path:
    """The home of the same login on another machine, who knows the same hosts."""
    folder: Path = lab.ssh_home(tmp_path / "other")
    shutil.copy(home / "hosts.yaml", folder)
    return folder


def test_a_prune_before_anybody_has_read(lab: Any, home: Path, other: Path, start: Callable[..., Any]) -> None:
    """`ps`, `show`, `logs` and `wait` name the rank whose end and lines nobody knows; none is blamed; 6."""

    def ask(*words: str, who: Path = home) -> Any:
        return lab.distui(*words, home=who)

    detached(start, TICKS % 20, "pruned")
    until(lambda: ended(lab))
    lab.host("h2").out("docker", "container", "prune", "-f")

    for who in (home, other):
        [listed] = json.loads(ask("ps", "-o", "json", who=who).stdout)["runs"]
        assert (listed["state"], listed["exit"], listed["took_s"]) == ("unknown", None, None)
        assert "nothing of rank 1 is on the hosts that answered" in str(listed["warnings"])
        assert "nothing of rank 1 is on the hosts that answered" in ask("ps", who=who).stderr
        said = ask("show", "pruned", who=who).stdout
        assert "nothing of rank 1 is on the hosts that answered" in said
        logs = ask("logs", "pruned", who=who)
        assert logs.returncode == 6, logs.stderr
        where = "h2 any more" if who is home else "the hosts that answered"
        assert f"nothing of rank 1 is on {where}" in logs.stderr
        assert (logs.stdout.count("tick "), "001" in logs.stdout) == (20, False)
    shown = json.loads(ask("show", "pruned", "-o", "json").stdout)
    assert [(r["rank"], r["state"], r["exit"], r["words"]) for r in shown["tasks"]] == [
        (0, "exited", 0, ""),
        (1, "removed", None, UNKNOWN_END),
    ]

    waited = ask("wait", "pruned", "-o", "json")
    result = json.loads(waited.stdout)
    assert (waited.returncode, result["state"], result["exit"]) == (6, "unknown", 6)
    assert result["first_failure"] is None
    assert "rank 1 on h2: its container was removed before its end was seen and its log read" in waited.stderr
    assert "nothing that it said is here" in waited.stderr
    after = json.loads(ask("show", "pruned", "-o", "json").stdout)
    assert (after["state"], after["exit"], after["first_failure"]) == ("gone", 6, None)
    assert [(r["state"], r["exit"]) for r in after["tasks"]] == [("exited", 0), ("removed", None)]
    assert log_of(home, "pruned", 0).count(b"tick") == 20
    assert_clean(lab)


COUNTS = (
    "trap 'exit 0' TERM; i=0; "
    "while :; do i=$((i+1)); echo line $i; [ $i -lt 100 ] || touch /tmp/hundred; sleep 0.02; done"
)
HUNDRED = ("sh", "-c", "while [ ! -e /tmp/hundred ]; do sleep 0.05; done")


def at(stamp: str) -> float:
    """A time of an event, in UTC seconds."""
    return datetime.fromisoformat(stamp).timestamp()


def test_a_run_attached_late_counts_from_its_start(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Lines in the app's header and in events, and times in `ps`, `show` and the result, count from the run's start."""
    detached(start, COUNTS, "late")
    for rank in ("0", "1"):
        assert lab.distui("exec", "late", "--rank", rank, "--", *HUNDRED, home=home).returncode == 0
    began = json.loads(lab.distui("ps", "-o", "json", home=home).stdout)["runs"][0]["started"]

    with lab.spawn_distui("attach", "late", "--headless", "-o", "ndjson", "--log-to", "none", home=home) as viewer:
        opened = json.loads(viewer.stdout.readline())
        until(lambda: all(log_of(home, "late", rank).count(b"\n") > 100 for rank in range(2)))
        asked = time.time()
        viewer.terminate()
        *_, left = [json.loads(line) for line in viewer.finish().stdout.splitlines()]
    assert at(opened["started"]) == pytest.approx(began, abs=0.01)
    assert asked - began - 0.1 <= left["took_s"] <= at(left["ts"]) - began + 0.1
    counts = [log_of(home, "late", rank).count(b"\n") for rank in range(2)]

    with Terminal(lab, home) as term:
        term.enter("distui attach late")
        shown = term.wait("RUNNING", re.compile(r"[\d,]+ lines"))
        found = re.search(r"([\d,]+) lines", shown)
        assert found
        assert int(found[1].replace(",", "")) >= sum(counts)
        term.keys("S")
        term.wait("Stop late", "Cancel")
        term.keys("Right", "Enter")
        term.wait("STOPPED")
        total = sum(log_of(home, "late", rank).count(b"\n") for rank in range(2))
        term.wait(f"{total:,} lines")
        term.keys("C-q")
        term.wait_shell()

    events = [json.loads(line) for line in (home / RUNS / "late/events.ndjson").read_text().splitlines()]
    last = [event for event in events if event["type"] == "run"][-1]
    assert [rank["lines"] for rank in last["ranks"]] == counts
    result = events[-1]
    ends = [at(event["ended_at"]) for event in events if event["type"] == "rank" and event["ended_at"]]
    assert result["took_s"] == pytest.approx(max(ends) - began, abs=0.1)
    [listed] = json.loads(lab.distui("ps", "-a", "-o", "json", home=home).stdout)["runs"]
    shown = json.loads(lab.distui("show", "late", "-o", "json", home=home).stdout)
    for row in (listed, shown):
        assert (row["started"], row["took_s"], row["state"]) == (began, result["took_s"], "stopped")
    for rank in range(2):
        lines = log_of(home, "late", rank).decode().splitlines()
        assert lines == [f"line {i}" for i in range(1, len(lines) + 1)]
    assert_clean(lab)


def test_a_run_that_was_not_attached_takes_as_long_as_it_did(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """What `ps` says of a run that has ended and nobody has read is what is recorded of it once somebody has."""
    detached(start, "sleep 1", "short")
    until(lambda: ended(lab))
    [before] = json.loads(lab.distui("ps", "-o", "json", home=home).stdout)["runs"]
    assert lab.distui("wait", "short", home=home).returncode == 0
    after = json.loads(lab.distui("show", "short", "-o", "json", home=home).stdout)
    assert (before["state"], before["started"]) == (after["state"], after["started"])
    assert before["took_s"] == pytest.approx(after["took_s"], abs=0.2)
    assert_clean(lab)


def test_rm_is_refused_while_somebody_else_reads(
    lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    """All ranks have ended, and who reads on another machine is named; once its mark is old the run goes."""
    detached(start, TICKS % 20, "read")
    until(lambda: ended(lab))
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    mark = "$(echo ~/.local/state/distui/hosts/*/read)/reader-0123456789ab"
    for host in lab.hosts[:2]:
        host.exec(f'printf bob@laptop >"{mark}"')
    refused = lab.distui("rm", "read", "-y", home=other)
    assert refused.returncode == 2, refused.stderr
    assert "run read is still read by bob@laptop, so nothing was removed" in refused.stderr
    assert ended(lab)
    for host in lab.hosts[:2]:
        host.exec(f"touch -d '2 minutes ago' \"{mark}\"")
    removed = lab.distui("rm", "read", "-y", home=other)
    assert removed.returncode == 0, removed.stderr
    assert_clean(lab)


def test_rm_asks_before_unread_logs_go(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """`rm` names the ranks whose logs are not whole here; without a terminal it is refused, and nothing goes."""
    detached(start, TICKS % 20, "unread")
    until(lambda: ended(lab))
    refused = lab.distui("rm", "unread", home=home)
    assert refused.returncode == 2, refused.stderr
    assert "`distui attach unread` reads the log of ranks 0-1 of unread, which is not whole here" in refused.stderr
    assert "-y" in refused.stderr
    assert ended(lab)
    with Terminal(lab, home) as term:
        term.enter("distui rm unread")
        term.wait("Delete the log of ranks 0-1 of unread, unread?")
        term.enter("n")
        term.wait_shell()
        assert ended(lab)
        term.enter("clear; distui rm unread; echo status $?")
        term.wait("Delete the log of ranks 0-1 of unread, unread?")
        term.enter("y")
        term.wait("status 0")
    assert_clean(lab)
