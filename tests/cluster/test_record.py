"""What is recorded of a run stays true: a verdict never changes, whoever is killed, reads along or removes things."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.lab import Lab
from lab.program import LIMIT, Program
from lab.runs import assert_clean, ended_after, log_of, read_until, rest_of, until

Distui = Callable[..., Any]
Start = Callable[..., Program]

KILLS = 20


def row_of(distui: Distui, run: str) -> dict[str, Any]:
    """What `show -o json` says of a run."""
    row: dict[str, Any] = json.loads(distui("show", run, "-o", "json").stdout)
    return row


def detached(distui: Distui, home: Path, name: str, script: str, **keys: Any) -> None:
    """A run of two ranks that is started and left."""
    job = {"version": 1, "name": "smoke", "hosts": "h[1-2]", "image": "lab/python:1", "stop_grace": "3s"}
    (home / "job.yaml").write_text(json.dumps({**job, "command": ["sh", "-c", script], **keys}))
    done = distui("run", "job.yaml", "--headless", "-y", "-d", "--name", name)
    assert done.returncode == 0, done.stderr


def none_runs(lab: Lab) -> bool:
    """Whether no container of distui runs on any host."""
    return not any(host.running() for host in lab.hosts)


@pytest.mark.parametrize(("script", "state", "code"), [("exit 0", "succeeded", 0), ("exit $RANK", "failed", 1)])
def test_a_stop_does_not_change_how_a_run_had_ended(
    lab: Lab, home: Path, distui: Distui, script: str, state: str, code: int
) -> None:
    """It reads the logs and cleans up; the verdict is that of the ranks, which had ended by themselves."""
    detached(distui, home, "over", f"echo said; {script}")
    until(lambda: none_runs(lab))
    stopped = distui("stop", "over")
    assert stopped.returncode == 0, stopped.stderr
    row = row_of(distui, "over")
    assert (row["state"], row["exit"]) == (state, code), stopped.stderr
    assert (Path(row["log_dir"]) / "rank-00000.log").read_text() == "said\n"
    assert distui("stop", "over").returncode == 0
    assert (distui("wait", "over").returncode, row_of(distui, "over")["state"]) == (code, state)
    assert_clean(lab)


@pytest.mark.parametrize(("script", "state", "code"), [("exit 0", "succeeded", 0), ("exit $RANK", "failed", 1)])
def test_containers_that_were_kept_are_removed_by_a_stop_which_changes_no_verdict(
    lab: Lab, distui: Distui, start: Start, script: str, state: str, code: int
) -> None:
    """`run --keep` gave the verdict; one of the containers may even be gone by then."""
    program = start(f"echo said; {script}", "--keep", "--name", "kept", wait=False)
    program.finish()
    before = row_of(distui, "kept")
    assert (before["state"], before["exit"]) == (state, code)
    lab.hosts[0].out("docker", "container", "prune", "-f")
    stopped = distui("stop", "kept")
    assert stopped.returncode == 0, stopped.stderr
    after = row_of(distui, "kept")
    assert (after["state"], after["exit"], after["first_failure"]) == (state, code, before["first_failure"])
    assert_clean(lab)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_in_the_clean_up_changes_no_verdict_and_leaves_nothing(
    lab: Lab, distui: Distui, start: Start, seed: int
) -> None:
    """SIGKILL at some moment after "cleaning up" is said: what comes next finishes it and says the same."""
    chance = random.Random(seed)
    code = seed % 2
    program = start(f"echo said; exit $((RANK * {code}))", "-o", "ndjson", "--name", f"killed{seed}", wait=False)
    read_until(program, type="phase", phase="cleanup")
    time.sleep(chance.uniform(0.0, 0.4))  # the moment of the kill, not an order
    program.signal_group(signal.SIGKILL)
    program.wait(LIMIT)
    state = ("succeeded", "failed")[code]
    row = row_of(distui, f"killed{seed}")
    assert (row["state"], row["exit"]) == (state, code)
    verb = ("wait", "attach", "stop")[seed % 3]
    done = distui(verb, f"killed{seed}", *(["--headless"] if verb == "attach" else []))
    assert done.returncode == (code if verb != "stop" else 0), done.stderr
    row = row_of(distui, f"killed{seed}")
    assert (row["state"], row["exit"]) == (state, code), done.stderr
    if code:
        assert row["first_failure"]["rank"] == 1
    assert_clean(lab)


def containers(lab: Lab) -> list[int]:
    """How many containers of distui there are on each host, whatever they do."""
    return [len(host.states()) for host in lab.hosts]


@pytest.mark.parametrize("code", [0, 1])
def test_a_kill_in_the_clean_up_leaves_kept_containers_until_a_stop(
    lab: Lab, home: Path, distui: Distui, start: Start, tmp_path: Path, code: int
) -> None:
    """`run --keep` is killed after "cleaning up" is said: `wait` here and `attach` from a machine without its record
    give the verdict and leave the containers; `stop` removes them.
    """
    flags = ("--keep", "-o", "ndjson", "--name", "kept")
    program = start(f"echo said; exit $((RANK * {code}))", *flags, wait=False)
    read_until(program, type="phase", phase="cleanup")
    program.signal_group(signal.SIGKILL)
    program.wait(LIMIT)
    there = containers(lab)
    assert sum(there) == 2
    other = lab.ssh_home(tmp_path / "home1")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    for done in (
        distui("wait", "kept"),
        lab.distui("attach", "kept", "--headless", home=other),
        distui("wait", "kept"),
    ):
        assert done.returncode == code, done.stderr
        assert containers(lab) == there, done.stderr
    stopped = distui("stop", "kept")
    assert stopped.returncode == 0, stopped.stderr
    row = row_of(distui, "kept")
    assert (row["state"], row["exit"]) == (("succeeded", "failed")[code], code)
    assert_clean(lab)


SHARE = ["/mnt/pytorch:/pytorch"]
SLOW = (
    "i=0; while [ $i -lt 400 ]; do echo tick $i of $RANK; i=$((i+1)); sleep 0.02; "
    "until [ $i != 200 -o -e /pytorch/go ]; do sleep 0.1; done; done; printf end; exit $((3 * RANK))"
)
"""In the middle it waits for those who shall follow it."""


@pytest.fixture
def go(lab: Lab) -> Iterator[Path]:
    """What ranks wait for, when it is made."""
    yield lab.share / "go"
    (lab.share / "go").unlink(missing_ok=True)


def whole(output: str, begin: int | None = 0) -> bool:
    """Whether both ranks' lines are there once, in order, to their ends; with None from wherever the reader began."""
    return all(_whole(output, rank, begin) for rank in (0, 1)) and output.splitlines().count("end") == 2


def _whole(output: str, rank: int, begin: int | None) -> bool:
    ticks = [line for line in output.splitlines() if line.endswith(f" of {rank}")]
    first = int(ticks[0].split()[1]) if begin is None and ticks else begin or 0
    return ticks == [f"tick {i} of {rank}" for i in range(first, 400)]


def attach(lab: Lab, home: Path, run: str) -> Program:
    """A reader without prefixes."""
    return lab.spawn_distui("attach", run, "--headless", "--no-prefix", home=home)


def first_lines(readers: Sequence[Program]) -> list[str]:
    """The first line that each has read: from then on it follows."""
    lines = []
    for reader in readers:
        assert reader.stdout is not None
        with ended_after(reader, LIMIT):
            lines.append(reader.stdout.readline())
    return lines


def rest(reader: Program) -> subprocess.CompletedProcess[str]:
    """All that comes after its first line."""
    assert reader.stdout is not None and reader.stderr is not None
    with ended_after(reader, LIMIT):
        out, err = reader.stdout.read(), reader.stderr.read()
    return subprocess.CompletedProcess(reader.args, reader.finish().returncode, out, err)


def test_any_number_of_readers_of_one_home_follow_one_run(lab: Lab, home: Path, distui: Distui, go: Path) -> None:
    """All begin at one instant; whoever owns the run is killed; the others lose nothing and end as the run does."""
    began = time.monotonic()
    detached(distui, home, "many", SLOW, on_fail="wait", volumes=SHARE)
    readers = [attach(lab, home, "many") for _ in range(3)]
    waiter = lab.spawn_distui("wait", "many", home=home)
    heads = dict(zip(readers, first_lines(readers), strict=True))
    lock = home / ".local/state/distui/runs/many/lock"
    until(lambda: lock.exists() and lock.read_text().strip())
    logs = lock.parent / "logs/rank-00001.log"
    until(lambda: logs.exists() and len(logs.read_text().splitlines()) > 20)
    owner = int(lock.read_text())
    (killed,) = [p for p in (*readers, waiter) if p.pid == owner] or [readers[0]]
    killed.signal_group(signal.SIGKILL)
    killed.finish()
    go.touch()
    left = [p for p in (*readers, waiter) if p is not killed]
    done = [rest(p) for p in left]
    assert [d.returncode for d in done] == [1] * len(left), [d.stderr for d in done]
    for program, each in zip(left, done, strict=True):
        assert program is waiter or whole(heads[program] + each.stdout, None), each.stdout[-300:]
        assert program is waiter or "rank 1" in each.stderr
    row = row_of(distui, "many")
    assert (row["state"], row["exit"], row["first_failure"]["rank"]) == ("failed", 1, 1)
    assert 8.0 < row["took_s"] < time.monotonic() - began
    assert_clean(lab)


def test_readers_of_other_homes_give_the_same_verdict(
    lab: Lab, home: Path, distui: Distui, tmp_path: Path, go: Path
) -> None:
    """One that attaches, two that do from one other home, and one that only waits in a third."""
    detached(distui, home, "apart", SLOW, on_fail="wait", volumes=SHARE)
    homes = [lab.ssh_home(tmp_path / f"home{i}") for i in range(2)]
    for other in homes:
        (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    programs = [attach(lab, home, "apart"), attach(lab, homes[0], "apart"), attach(lab, homes[0], "apart")]
    waiter = lab.spawn_distui("wait", "apart", home=homes[1])
    heads = first_lines(programs)
    until(lambda: marks(lab, "reader-*-wait"))
    go.touch()
    done = [rest(p) for p in (*programs, waiter)]
    assert [d.returncode for d in done] == [1, 1, 1, 1], [d.stderr for d in done]
    said = [head + d.stdout for head, d in zip(heads, done[:3], strict=True)]
    assert all(whole(text, None) for text in said), [text[-300:] for text in said]
    assert whole(said[0])
    for place in (home, homes[0]):
        row = json.loads(lab.distui("show", "apart", "-o", "json", home=place).stdout)
        assert (row["state"], row["exit"], row["first_failure"]["rank"]) == ("failed", 1, 1)
    assert_clean(lab)


def marks(lab: Lab, name: str) -> list[str]:
    """Who reads a run, as it stands on the first host."""
    return lab.hosts[0].out(f"find /root/.local/state/distui/hosts -name '{name}'").split()


def test_stops_at_one_instant_agree(lab: Lab, home: Path, distui: Distui, tmp_path: Path, go: Path) -> None:
    """Two of one home, and one of another. The ranks go when both homes have found the run."""
    held = "trap 'until [ -e /pytorch/go ]; do sleep 0.1; done; exit 0' TERM; sleep 600 & wait"
    detached(distui, home, "ends", held, stop_grace="120s", volumes=SHARE)
    other = lab.ssh_home(tmp_path / "home1")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    programs = [lab.spawn_distui("stop", "ends", "-y", home=place) for place in (home, home, other)]
    until(lambda: len(marks(lab, "reader-*")) > 1)
    go.touch()
    done = [p.finish() for p in programs]
    assert [d.returncode for d in done] == [0, 0, 0], [d.stderr for d in done]
    row = row_of(distui, "ends")
    assert (row["state"], row["exit"]) == ("stopped", 143), [d.stderr for d in done]
    assert_clean(lab)


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "code", "on_term", "engine"),
    [
        ("Ctrl-C", 130, "exit 0", "docker"),
        ("Ctrl-C", 130, "exit 3", "docker"),
        ("Ctrl-C", 130, "", "docker"),
        ("Ctrl-C", 130, "exit 0", "process"),
        ("--timeout", 124, "exit 3", "docker"),
        ("--timeout", 124, "exit 3", "process"),
    ],
)
def test_a_stop_is_none_of_the_ranks_doing_to_whoever_else_follows(
    lab: Lab, home: Path, tmp_path: Path, how: str, code: int, on_term: str, engine: str
) -> None:
    """Whatever status a rank gives on SIGTERM: a viewer elsewhere, who is told of no stop, is first to see all ends."""
    trap = f"trap '{on_term}' TERM; " if on_term else ""
    job = {"version": 1, "name": "seen", "hosts": "h[1-2]", "image": "lab/python:1", "stop_grace": "5s"}
    (home / "job.yaml").write_text(json.dumps(job | {"command": ["sh", "-c", f"{trap}echo up; sleep 3000 & wait"]}))
    other = lab.ssh_home(tmp_path / "other")
    for place in (home, other):
        (place / "hosts.yaml").write_text(f"version: 1\nhosts:\n  h[1-3]: {{docker: {engine}}}\n")
    flags = ("--headless", "-o", "ndjson", "--log-to", "none")
    limit = ("--timeout", "60s") if how == "--timeout" else ()
    with lab.spawn_distui("run", "job.yaml", "-y", "--name", "seen", *flags, *limit, home=home) as run:
        read_until(run, type="phase", phase="follow")
        with lab.spawn_distui("attach", "seen", *flags, home=other) as viewer:
            until(lambda: all(log_of(other, "seen", rank) == b"up\n" for rank in range(2)))
            if how == "Ctrl-C":
                run.send_signal(signal.SIGINT)
            results = [rest_of(run)[-1], rest_of(viewer)[-1]]
    assert [(r["state"], r["exit"], r["first_failure"]) for r in results] == [("stopped", code, None)] * 2
    assert_clean(lab)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_forged_container_masks_no_rank(lab: Lab, home: Path, distui: Distui, tmp_path: Path, recorded: bool) -> None:
    """On a shared host, with the run's name and a high attempt: it is another run; both real ranks are stopped."""
    detached(distui, home, "real", "sleep 3000", stop_grace="1s")
    labels = {
        "run": "real",
        "task": "0",
        "rank": "0",
        "host": "h1",
        "job": "smoke",
        "attempt": "999",
        "attempts": "999",
    }
    more = {"owner": "mallory@elsewhere", "world_size": "1", "tasks": "1", "launch": "0bad0bad"}
    flags = [word for key, value in {**labels, **more}.items() for word in ("--label", f"distui.{key}={value}")]
    host = lab.hosts[0]
    forged = host.out("docker", "run", "-d", *flags, "lab/python:1", "sleep", "3000").strip()
    try:
        place = home
        if not recorded:
            place = lab.ssh_home(tmp_path / "home1")
            (place / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
        rows = json.loads(lab.distui("ps", "-o", "json", home=place).stdout)["runs"]
        assert sorted((row["run"], len(row["hosts"])) for row in rows) == [("real", 1), ("real", 2)]
        stopped = lab.distui("stop", "real", home=place)
        assert stopped.returncode == 0, stopped.stderr
        assert "another run named real, of mallory@elsewhere" in stopped.stderr
        left = [h.out("docker", "ps", "-q", "--no-trunc", "--filter", "label=distui.run") for h in lab.hosts[:2]]
        assert [text.strip() for text in left] == [forged, ""]
    finally:
        host.out("docker", "rm", "-f", forged)


@pytest.fixture
def other(lab: Lab, home: Path, tmp_path: Path) -> Path:
    """The home of the same person on another machine, over the same hosts."""
    made = lab.ssh_home(tmp_path / "other")
    (made / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    return made


def for_ever(lab: Lab, home: Path, name: str, word: str) -> None:
    """A run of two ranks that print the word for ever, which is started and left once both did."""
    script = f"trap 'exit 0' TERM; while :; do echo {word} of $RANK; sleep 0.1; done"
    detached(lambda *words: lab.distui(*words, home=home), home, name, script)
    for rank, host in enumerate(lab.hosts[:2]):
        until(lambda host=host, rank=rank: word in host.exec("docker", "logs", f"distui-{name}-{rank}").stdout)


def test_a_stop_elsewhere_while_an_engine_was_away_is_finished_by_the_next_one(
    lab: Lab, home: Path, distui: Distui, other: Path
) -> None:
    """The first one names the host and leaves its rank, which the second one ends."""
    for_ever(lab, home, "away", "word")
    lab.host("h2").fault("docker-gone")
    first = lab.distui("stop", "-y", "away", "-o", "json", home=other)
    assert first.returncode == 6, first.stderr
    (warning,) = json.loads(first.stdout)["warnings"]
    assert "1 of the run's tasks may still be running where nobody answered: h2: " in warning
    lab.host("h2").fault("heal")
    second = lab.distui("stop", "-y", "away", home=other)
    assert second.returncode == 0, second.stderr
    assert "rank 1 on h2 stopped by distui" in second.stderr
    assert row_of(lambda *words: lab.distui(*words, home=other), "away")["state"] == "stopped"
    assert_clean(lab)


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_name_that_was_used_again_elsewhere_is_of_the_run_that_lives(
    lab: Lab, home: Path, distui: Distui, other: Path, verb: str
) -> None:
    """The first launch is removed from elsewhere, and another started there: their containers have the same names."""
    for_ever(lab, home, "dup", "ALINE")
    for words in (("stop", "-y", "dup"), ("rm", "-y", "--purge", "dup")):
        assert lab.distui(*words, home=other).returncode == 0
    for_ever(lab, other, "dup", "BLINE")
    (row,) = json.loads(distui("ps", "-o", "json").stdout)["runs"]
    assert (row["run"], row["state"], row["here"]) == ("dup", "running", False)
    with attach(lab, home, "dup") as reader:
        (line,) = first_lines([reader])
        reader.send_signal(signal.SIGINT)
        attached = reader.finish()
    assert attached.returncode == 0, attached.stderr
    assert "the older one of that name here (its end was not seen) is kept as dup~1" in attached.stderr
    assert line in ("BLINE of 0\n", "BLINE of 1\n")
    stopped = distui(verb, "-y", "dup")
    assert stopped.returncode == 0, stopped.stderr
    for rank in range(2):
        assert set(log_of(home, "dup", rank).splitlines()) == {f"BLINE of {rank}".encode()}
        assert b"BLINE" not in log_of(home, "dup~1", rank)
    assert row_of(distui, "dup")["state"] == "stopped"
    assert_clean(lab)


def test_the_end_of_an_older_run_is_not_that_of_the_one_that_is_stopped(
    lab: Lab, home: Path, distui: Distui, start: Start, other: Path
) -> None:
    """The first run failed and was cleaned up: what is recorded of it stays, and of the second all is read."""
    start("echo ALINE of $RANK; exit $((3 - 3 * RANK))", "--name", "dup2", wait=False).finish()
    assert row_of(distui, "dup2")["state"] == "failed"
    for_ever(lab, other, "dup2", "BLINE")
    stopped = distui("stop", "-y", "dup2")
    assert stopped.returncode == 0, stopped.stderr
    assert "the older one of that name here (failed, exit 1) is kept as dup2~1" in stopped.stderr
    for run, word, state in (("dup2", "BLINE", "stopped"), ("dup2~1", "ALINE", "failed")):
        assert set(log_of(home, run, 0).splitlines()) == {f"{word} of 0".encode()}
        text = (home / f".local/state/distui/runs/{run}/events.ndjson").read_text()
        events = [json.loads(line) for line in text.splitlines()]
        assert [event["state"] for event in events if event["type"] == "result"] == [state]
        assert row_of(distui, run)["state"] == state
    assert_clean(lab)


@pytest.mark.parametrize("verb", ["attach", "stop"])
def test_what_a_killed_clean_up_left_is_reported_elsewhere(
    lab: Lab, home: Path, distui: Distui, start: Start, tmp_path: Path, verb: str
) -> None:
    """SIGKILL when the containers are gone and the folders are not: whoever knows nothing of it is told its end."""
    for host in lab.hosts[:2]:
        host.fault("rm-hold")
    program = start("echo said; exit $((RANK * 3))", "--name", "cut", wait=False, job={"on_fail": "wait"})
    until(lambda: all(host.out("cat", "/run/lab-rm-held").strip() for host in lab.hosts[:2]))
    program.signal_group(signal.SIGKILL)
    program.wait(LIMIT)
    for host in lab.hosts[:2]:
        host.fault("rm-back")
    look = "find /root/.local/state/distui/hosts -name verdict"
    assert [bool(host.out("sh", "-c", look)) for host in lab.hosts[:2]] == [True, True]
    assert [host.containers() for host in lab.hosts] == [[], [], []]
    owned = row_of(distui, "cut")
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())

    (row,) = json.loads(lab.distui("ps", "-o", "json", home=other).stdout)["runs"]
    assert [row[key] for key in ("run", "state", "exit", "ranks", "left")] == ["cut", "failed", 1, 2, ["h1", "h2"]]
    waited = lab.distui("wait", "cut", "-o", "ndjson", home=other)
    assert waited.returncode == 1, waited.stderr
    *ranks, _, result = (json.loads(line) for line in waited.stdout.splitlines())
    assert [(rank["rank"], rank["host"], rank["exit"]) for rank in ranks] == [(0, "h1", 0), (1, "h2", 3)]
    assert (result["state"], result["exit"], result["first_failure"]) == ("failed", 1, owned["first_failure"])
    assert row["first_failure"] == owned["first_failure"]
    done = lab.distui(verb, "cut", *(["--headless"] if verb == "attach" else []), home=other)
    assert done.returncode == (1 if verb == "attach" else 0), done.stderr
    assert "rank 1 on h2 failed first: exit 3" in done.stderr
    assert_clean(lab)
    assert json.loads(lab.distui("ps", "-o", "json", home=other).stdout)["runs"] == []
    assert (distui("wait", "cut").returncode, row_of(distui, "cut")["state"]) == (1, "failed")
