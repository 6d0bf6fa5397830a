"""The app and `attach` follow one run on one machine: when its owner goes, the other goes on, and nobody notices."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.runs import assert_clean, log_of, read_until, rest_of, touch, until
from lab.terminal import Terminal

pytestmark = pytest.mark.cluster

UNTIL_TOLD = "i=0; while [ ! -e /tmp/go ]; do i=$((i+1)); echo needle-$i; sleep 0.05; done; printf bye"
"""A rank's script that counts until it is told to end."""


def begun(lab: Any, home: Path, start: Callable[..., Any], name: str) -> None:
    """A run that nobody follows, and whose ranks say something."""
    done = start(UNTIL_TOLD, "-d", "--name", name, wait=False).finish()
    assert done.returncode == 0, done.stderr


def end(lab: Any, name: str) -> None:
    """Tell each rank to end."""
    for rank in range(2):
        end_rank(lab, name, rank)


def end_rank(lab: Any, name: str, rank: int) -> None:
    (container,) = lab.hosts[rank].containers(f"distui.run={name}")
    touch(lab.hosts[rank], container, "/tmp/go")


def last(home: Path, name: str, rank: int) -> int:
    """The last number that is whole in a rank's log here; 0 before any."""
    found: list[bytes] = re.findall(rb"needle-(\d+)\n", log_of(home, name, rank))
    return int(found[-1]) if found else 0


def grown(home: Path, name: str) -> None:
    """Wait until each rank's log here is some lines longer."""
    before = [last(home, name, rank) for rank in range(2)]
    until(lambda: all(last(home, name, rank) > before[rank] + 20 for rank in range(2)))


def assert_whole(home: Path, name: str) -> int:
    """Each rank's log has every line once and in order; returns how many lines there are."""
    total = 0
    for rank in range(2):
        *lines, bye = log_of(home, name, rank).decode().split("\n")
        assert (lines, bye) == ([f"needle-{i}" for i in range(1, len(lines) + 1)], "bye")
        total += len(lines) + 1
    return total


def assert_one_end(lab: Any, home: Path, name: str) -> None:
    """Its end is recorded once, and shown."""
    folder = home / ".local/state/distui/runs" / name
    events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
    ends = [(e["state"], e["exit"]) for e in events if e["type"] == "result" and e["state"] != "detached"]
    assert ends == [("succeeded", 0)]
    shown = json.loads(lab.distui("show", name, "-o", "json", home=home).stdout)
    assert (shown["state"], shown["exit"]) == ("succeeded", 0)
    assert [(r["rank"], r["state"], r["exit"]) for r in shown["tasks"]] == [(0, "exited", 0), (1, "exited", 0)]
    assert_clean(lab)


def steps(events: Sequence[dict[str, Any]], rank: int) -> list[int]:
    """The numbers of the lines of a rank that a viewer printed."""
    said = [e["line"] for e in events if e["type"] == "log" and e["rank"] == rank]
    return [int(line.removeprefix("needle-")) for line in said if line.startswith("needle-")]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "detached"])
def test_the_app_goes_on_when_attach_goes(
    lab: Any, home: Path, start: Callable[..., Any], number: signal.Signals
) -> None:
    """The app reads beside `attach`, owns the run when that is killed or leaves, and shows its end."""
    begun(lab, home, start, "turns")
    with (
        lab.spawn_distui("attach", "turns", "--headless", "-o", "ndjson", home=home) as owner,
        Terminal(lab, home) as term,
    ):
        seen = read_until(owner, type="phase", phase="follow")
        term.enter("distui attach turns")
        term.wait("RUNNING", re.compile(r"needle-\d"))
        grown(home, "turns")
        while not all(steps(seen, rank) for rank in range(2)):
            seen += read_until(owner, type="log")
        owner.signal_group(number)
        seen += rest_of(owner)
        at = last(home, "turns", 0)
        grown(home, "turns")
        term.wait("RUNNING", lambda text: any(int(n) > at for n in re.findall(r"needle-(\d+)", text)))
        assert "What went wrong" not in term.screen()
        end(lab, "turns")
        term.wait("SUCCEEDED", "end of log", "bye")
        total = assert_whole(home, "turns")
        term.wait(f"{total:,} lines")
        term.keys("C-q")
        term.wait_shell()
    for rank in range(2):
        numbers = steps(seen, rank)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert_one_end(lab, home, "turns")


@pytest.mark.parametrize("number", [signal.SIGKILL, None], ids=["killed", "quit"])
def test_attach_goes_on_when_the_app_goes(
    lab: Any, home: Path, start: Callable[..., Any], number: signal.Signals | None
) -> None:
    """`attach` reads beside the app, owns the run when that is killed or quits, and prints its lines and end once."""
    begun(lab, home, start, "turns")
    with Terminal(lab, home) as term:
        term.enter("distui attach turns")
        term.wait("RUNNING", re.compile(r"needle-\d"))
        with lab.spawn_distui("attach", "turns", "--headless", "-o", "ndjson", home=home) as viewer:
            events = read_until(viewer, type="phase", phase="follow")
            grown(home, "turns")
            app = term.program()
            if number is not None:
                os.kill(app, number)
            else:
                term.keys("C-q")
                term.wait("Quit while 1 run is still running?", "Stay")
                term.keys("Right", "Enter")
            until(lambda: not Path(f"/proc/{app}").exists())
            grown(home, "turns")
            end(lab, "turns")
            events += rest_of(viewer)
    assert viewer.returncode == 0, viewer.stderr.read()
    assert [(e["state"], e["exit"]) for e in events if e["type"] == "result"] == [("succeeded", 0)]
    assert_whole(home, "turns")
    for rank in range(2):
        numbers = steps(events, rank)
        assert numbers == list(range(numbers[0], last(home, "turns", rank) + 1))
    assert_one_end(lab, home, "turns")


def view(lab: Any, home: Path) -> Any:
    """Somebody who only looks on, with events."""
    return lab.spawn_distui("attach", "turns", "--view", "--headless", "-o", "ndjson", home=home)


def test_views_beside_the_owner_and_elsewhere_see_what_it_does_and_own_nothing(
    lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    """One view in the owner's home, two in another, of which one leaves: lines once, one verdict, the owner's."""
    begun(lab, home, start, "turns")
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    with lab.spawn_distui("attach", "turns", "--headless", "-o", "ndjson", home=home) as owner:
        read_until(owner, type="phase", phase="follow")
        with view(lab, home) as near, view(lab, other) as far, view(lab, other) as leaving:
            seen = {viewer: read_until(viewer, type="phase", phase="follow") for viewer in (near, far, leaving)}
            grown(home, "turns")
            leaving.signal_group(signal.SIGINT)
            rest_of(leaving)
            grown(home, "turns")
            end(lab, "turns")
            for viewer in (near, far):
                seen[viewer] += rest_of(viewer)
        rest_of(owner)
    assert [v.returncode for v in (owner, near, far, leaving)] == [0, 0, 0, 0]
    total = assert_whole(home, "turns")
    for viewer in (near, far):
        assert [(e["state"], e["exit"]) for e in seen[viewer] if e["type"] == "result"] == [("succeeded", 0)]
    whole = [steps(seen[far], rank) for rank in range(2)]
    assert [numbers == list(range(1, len(numbers) + 1)) for numbers in whole] == [True, True]
    assert sum(map(len, whole)) == total - 2
    assert not (other / ".local/state/distui/runs/turns").exists()
    assert_one_end(lab, home, "turns")


def test_the_app_looks_on_at_a_run_of_another_machine(
    lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    """`attach --view` on a terminal: the run view, read-only, to the run's end; its owner is the other one."""
    begun(lab, home, start, "turns")
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    with (
        lab.spawn_distui("attach", "turns", "--headless", "-o", "ndjson", home=home) as owner,
        Terminal(lab, other) as term,
    ):
        read_until(owner, type="phase", phase="follow")
        term.enter("distui attach --view turns")
        term.wait("RUNNING", re.compile(r"needle-\d"), "read-only")
        term.keys("S")
        term.wait("is refused: distui was started read-only")
        grown(home, "turns")
        end(lab, "turns")
        term.wait("SUCCEEDED", "end of log", "bye")
        term.keys("C-q")
        term.wait("`distui logs turns` prints its logs")
        term.wait_shell()
        rest_of(owner)
    assert_whole(home, "turns")
    assert not (other / ".local/state/distui/runs/turns").exists()
    assert_one_end(lab, home, "turns")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "detached"])
def test_views_go_on_from_the_hosts_when_the_owner_goes(
    lab: Any, home: Path, start: Callable[..., Any], number: signal.Signals
) -> None:
    """Two readers in its home, one of them the app: lines once, the end; what is left is there for `attach`."""
    begun(lab, home, start, "turns")
    with (
        lab.spawn_distui("attach", "turns", "--headless", "-o", "ndjson", home=home) as owner,
        view(lab, home) as near,
        Terminal(lab, home) as term,
    ):
        read_until(owner, type="phase", phase="follow")
        events = read_until(near, type="phase", phase="follow")
        term.enter("distui attach --view turns")
        term.wait("RUNNING", re.compile(r"needle-\d"), "read-only")
        grown(home, "turns")
        owner.signal_group(number)
        rest_of(owner)
        at = last(home, "turns", 0)
        term.wait("RUNNING", lambda text: any(int(n) > at + 20 for n in re.findall(r"needle-(\d+)", text)))
        assert last(home, "turns", 0) == at
        end(lab, "turns")
        events += rest_of(near)
        term.wait("SUCCEEDED", "end of log", "bye")
        term.keys("C-q")
        term.wait_shell()
    assert near.returncode == 0, near.stderr.read()
    assert [(e["state"], e["exit"]) for e in events if e["type"] == "result"] == [("succeeded", 0)]
    done = lab.distui("attach", "turns", "--headless", home=home)
    assert done.returncode == 0, done.stderr
    assert_whole(home, "turns")
    for rank in range(2):
        numbers = steps(events, rank)
        assert numbers == list(range(numbers[0], last(home, "turns", rank) + 1))
    assert_one_end(lab, home, "turns")


FAILS_ONCE = f'[ "$DISTUI_ATTEMPT" = 2 ] && {{ echo second; exit 0; }}; {UNTIL_TOLD}; exit 3'
"""A rank's script whose first attempt fails when it is told to end; the second is over at once."""


def test_views_go_on_with_the_next_attempt(lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path) -> None:
    """One in the owner's home, one elsewhere: both attempts' lines, and the end of the second."""
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    owner = start(FAILS_ONCE, "--name", "turns", "-o", "ndjson", job={"retries": 1})
    with view(lab, home) as near, view(lab, other) as far:
        seen = {viewer: read_until(viewer, type="phase", phase="follow") for viewer in (near, far)}
        grown(home, "turns")
        end_rank(lab, "turns", 1)
        for viewer in (near, far):
            seen[viewer] += rest_of(viewer)
        rest_of(owner)
    assert [v.returncode for v in (owner, near, far)] == [0, 0, 0]
    for viewer in (near, far):
        results = [(e["state"], e["exit"], e["attempt"]) for e in seen[viewer] if e["type"] == "result"]
        assert results == [("succeeded", 0, 2)]
        assert [e["attempt"] for e in seen[viewer] if e["type"] == "attempt"] == [1]
        assert sorted(e["rank"] for e in seen[viewer] if e["type"] == "log" and e["line"] == "second") == [0, 1]
    assert not (other / ".local/state/distui/runs/turns").exists()
    assert_clean(lab)


def attach(lab: Any, home: Path) -> Any:
    """Somebody who follows the run, with events."""
    return lab.spawn_distui("attach", "turns", "--headless", "-o", "ndjson", home=home)


def notices(events: Sequence[dict[str, Any]]) -> str:
    """All that was said in words."""
    return "\n".join(event["text"] for event in events if event["type"] == "notice")


def test_attach_goes_on_with_the_next_attempt(lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path) -> None:
    """One in the owner's home, one elsewhere, which has a record of its own: both attempts' lines, one end."""
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    owner = start(FAILS_ONCE, "--name", "turns", "-o", "ndjson", job={"retries": 1})
    read_until(owner, type="phase", phase="follow")
    with attach(lab, home) as near, attach(lab, other) as far:
        seen = {reader: read_until(reader, type="phase", phase="follow") for reader in (near, far)}
        grown(other, "turns")
        end_rank(lab, "turns", 1)
        for reader in (near, far):
            seen[reader] += rest_of(reader)
        rest_of(owner)
    assert [reader.returncode for reader in (owner, near, far)] == [0, 0, 0]
    for reader in (near, far):
        results = [(e["state"], e["exit"], e["attempt"]) for e in seen[reader] if e["type"] == "result"]
        assert results == [("succeeded", 0, 2)]
        assert sorted(e["rank"] for e in seen[reader] if e["type"] == "log" and e["line"] == "second") == [0, 1]
    for place in (home, other):
        assert [log_of(place, "turns", rank) for rank in range(2)] == [b"second\n"] * 2
        kept = lab.distui("logs", "turns", "--attempt", "1", "--rank", "1", "-n", "1", "--no-prefix", home=place)
        assert kept.stdout == "bye\n", kept.stderr
        shown = json.loads(lab.distui("show", "turns", "-o", "json", home=place).stdout)
        assert (shown["state"], shown["exit"], shown["attempt"]) == ("succeeded", 0, 2)
    assert_clean(lab)


def test_the_app_opens_a_run_between_two_attempts_and_goes_on_with_the_next(
    lab: Any, home: Path, start: Callable[..., Any]
) -> None:
    """Its owner, in another terminal, is held in the pause: no host has anything of the run then."""
    script = f'[ "$DISTUI_ATTEMPT" -lt 4 ] && exit 3; {UNTIL_TOLD}'
    owner = start(script, "--name", "turns", "-o", "ndjson", job={"retries": 3}, wait=False)
    read_until(owner, type="attempt", attempt=3)
    owner.signal_group(signal.SIGSTOP)
    with Terminal(lab, home) as term:
        try:
            term.enter("distui")
            term.wait("Hosts › all", "h1")
            term.keys("3")
            term.wait("turns", "RETRYING", "FIRST FAILURE")
            term.keys("Enter")
            term.wait("Runs › turns", "RETRYING")
        finally:
            owner.signal_group(signal.SIGCONT)
        term.wait("Runs › turns", "RUNNING", "attempt 4", re.compile(r"needle-\d"))
        end(lab, "turns")
        term.wait("SUCCEEDED", "bye")
        term.keys("C-q")
        term.wait_shell()
    rest_of(owner)
    assert owner.returncode == 0
    assert_whole(home, "turns")
    assert_clean(lab)


@pytest.mark.long
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
def test_an_attempt_that_fails_after_its_owner_was_killed_is_the_last(
    lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path, *, elsewhere: bool
) -> None:
    """Whoever follows it then says so at once, and ends as the attempt did."""
    place = lab.ssh_home(tmp_path / "other") if elsewhere else home
    (place / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    owner = start(FAILS_ONCE, "--name", "turns", "-o", "ndjson", job={"retries": 1})
    read_until(owner, type="phase", phase="follow")
    with attach(lab, place) as reader:
        events = read_until(reader, type="phase", phase="follow")
        owner.signal_group(signal.SIGKILL)
        rest_of(owner)
        grown(place, "turns")
        end_rank(lab, "turns", 1)
        events += rest_of(reader)
    assert reader.returncode == 1
    assert [(e["state"], e["exit"], e["attempt"]) for e in events if e["type"] == "result"] == [("failed", 1, 1)]
    words = "attempt 1 of 2 failed; only the distui that started the run begins the next attempt"
    assert f"{words}, and that one follows it no more" in notices(events)
    assert_clean(lab)
