"""The machine that distui runs on: killed, asleep, interrupted, with torn files or closed pipes, and two at once.

Closed terminals, SIGHUP, small windows and full disks are in test_tui.py, test_run.py and test_faults_smoke.py.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab.program import LIMIT
from lab.runs import (
    HELD_TICKS,
    IGNORES_TERM,
    TICKS,
    assert_clean,
    assert_complete,
    both_ignore,
    count_running,
    let_end,
    log_of,
    read_until,
    rest_of,
    times_asked,
    until,
)

pytestmark = pytest.mark.cluster

HELPERS = "pgrep -fc '[s]ys.stdin.buffer' || true"
"""How many of distui's helpers run on a host."""

READERS = "find ~/.local/state/distui/hosts/*/torn -name 'reader-*'"
"""Who follows the run `torn`."""

RACES = 8


@pytest.fixture
def other(lab: Any, home: Path, tmp_path: Path) -> Path:
    """The home of somebody else, on another machine, who knows the same hosts."""
    folder: Path = lab.ssh_home(tmp_path / "other")
    shutil.copy(home / "hosts.yaml", folder)
    return folder


def kill(program: Any) -> None:
    """kill -9, with all it started."""
    program.signal_group(signal.SIGKILL)
    program.wait(LIMIT)


def test_killed_with_torn_files_and_followed_from_two_machines(
    lab: Any, home: Path, other: Path, start: Callable[..., Any]
) -> None:
    """kill -9: helpers end, ranks live. With torn files here, attach here and elsewhere at once has every line."""
    program = start(HELD_TICKS % 500, "--name", "torn", "-o", "ndjson", "--log-to", "none")
    read_until(program, type="phase", phase="follow")
    until(lambda: all(int(h.out(HELPERS)) for h in lab.hosts[:2]))
    until(lambda: all(b"tick 50 " in log_of(home, "torn", rank) for rank in range(2)))
    kill(program)
    until(lambda: not any(int(h.out(HELPERS)) for h in lab.hosts))
    assert count_running(lab) == 2
    for host in lab.hosts[:2]:
        host.exec(f"{READERS} -delete")

    folder = home / ".local/state/distui/runs/torn"
    for path in (*folder.glob("*.ndjson"), folder / "logs/rank-00000.times", *folder.glob("follow/*0*.json")):
        path.write_bytes(path.read_bytes()[:-7])
    for path in (folder / "metrics.ndjson", folder / "follow/garbage.json"):
        path.write_bytes(b"\xff\x00{" * 50)
    argv = ("attach", "torn", "--headless", "-o", "json", "--log-to", "none")
    programs = [lab.spawn_distui(*argv, home=who) for who in (home, other)]
    until(lambda: all(h.out(READERS).count("reader-") == 2 for h in lab.hosts[:2]))
    let_end(lab)
    both = [program.finish() for program in programs]

    for done in both:
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert_complete(json.loads(done.stdout), 500)
    assert lab.distui("show", "torn", home=home).returncode == 0
    assert_clean(lab)


def test_killed_in_the_middle_of_a_start(lab: Any, home: Path, other: Path, start: Callable[..., Any]) -> None:
    """Rank 0 runs, rank 1's `docker run` is under way: no second copy of a rank, the name stays taken, stop ends it."""
    h2 = lab.host("h2")
    h2.fault("docker-hold")
    script = "echo token $${TOKEN}; sleep 3000"
    program = start(script, "--name", "half", "-o", "ndjson", wait=False, job={"secrets": ["TOKEN"]}, TOKEN="xyzzy")
    read_until(program, type="rank", rank=0, state="running")
    until(lambda: h2.out("pgrep -fc '[d]ocker run .*distui-half-1' || true") != "0")
    kill(program)
    again = lab.distui("run", "job.yaml", "--headless", "-y", "--name", "half", home=home, env={"TOKEN": "x"})
    fresh = lab.distui("run", "job.yaml", "--headless", "-y", "--name", "half", "-H", "h[1-2]", "--image",
                       "lab/python:1", "--", "true", home=other)  # fmt: skip

    assert again.returncode in (2, 3), again.stderr
    assert "half" in again.stderr
    assert fresh.returncode in (2, 3), fresh.stderr
    h2.fault("docker-fast")
    until(lambda: count_running(lab) == 2)
    listed = json.loads(lab.distui("ps", "--json", home=other).stdout)["runs"]
    assert [(run["run"], run["ranks"]) for run in listed] == [("half", 2)]
    stopped = lab.distui("stop", "half", "-y", "--grace", "1s", home=other)
    assert stopped.returncode == 0, stopped.stderr
    assert [host.leftovers() for host in lab.hosts] == [[], [], []]


@pytest.mark.parametrize("alive", [True, False], ids=["alive", "killed"])
def test_a_launch_without_containers_is_found_and_stopped(
    lab: Any, home: Path, other: Path, start: Callable[..., Any], alive: bool
) -> None:
    """Env files lie on the hosts and no container is there. Only this machine knows whether it lives: another one lists
    it as starting and does not `rm` it; `stop` takes everything away, and who is alive is told and undoes its start.
    """
    for host in lab.hosts[:2]:
        host.fault("docker-hold")
    program = start(
        "sleep 3000", "--name", "early", "-o", "ndjson", wait=False, job={"secrets": ["TOKEN"]}, TOKEN="xyzzy"
    )
    until(lambda: all("env-" in str(host.leftovers()) for host in lab.hosts[:2]))
    read_until(program, type="rank", rank=1, state="starting")
    if not alive:
        kill(program)
    listed = {who: json.loads(lab.distui("ps", "--json", home=who).stdout)["runs"] for who in (home, other)}
    removed = lab.distui("rm", "early", "-y", home=other)
    stopped = lab.distui("stop", "early", "-y", home=other)
    for host in lab.hosts[:2]:
        host.fault("docker-fast")
    if alive:
        events = rest_of(program)
        assert (events[-1]["state"], events[-1]["exit"], events[-1]["leftovers"]) == ("stopped", 143, [])
        assert "stopped from elsewhere while starting" in [event.get("text") for event in events]
    again = lab.distui("stop", "early", "-y", home=other)

    states = {who: [(run["run"], run["state"], run["hosts"]) for run in runs] for who, runs in listed.items()}
    assert states[home] == [("early", "starting" if alive else "left", ["h1", "h2"])]
    assert states[other] == [("early", "starting", ["h1", "h2"])]
    assert removed.returncode == 2, removed.stderr
    assert "run early is being started by root@" in removed.stderr
    assert stopped.returncode == 0, stopped.stderr
    assert "removed what a launch of early had left on h[1-2]" in stopped.stderr
    assert again.returncode == 7, again.stderr
    assert_clean(lab)


def test_a_stop_beside_a_launch_on_the_same_machine(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """No task is there yet that could be stopped: the distui that starts the run is asked to end, and does."""
    lab.host("h2").fault("docker-hold")
    program = start("sleep 3000", "--name", "early", "-o", "ndjson", wait=False, job={"hosts": "h2"})
    read_until(program, type="rank", rank=0, state="starting")
    asked = home / ".local/state/distui/runs/early/stop"
    program.signal_group(signal.SIGSTOP)  # so that it does not take up what it is asked before that is seen here
    with lab.spawn_distui("stop", "early", "-y", home=home) as stop:
        until(lambda: stop.poll() is not None or asked.exists())
        program.signal_group(signal.SIGCONT)
        until(lambda: stop.poll() is not None or not asked.exists())
        lab.host("h2").fault("docker-fast")
        stopped = stop.finish()
    *_, result = rest_of(program)

    assert stopped.returncode == 0, stopped.stderr
    assert "early is stopped" in stopped.stderr
    assert (result["state"], result["exit"], result["leftovers"]) == ("stopped", 143, [])
    assert_clean(lab)


def test_interrupted_at_any_point_of_a_start(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Ctrl-C before, while and after ranks are started: 130 in bounded time, and nothing of it is left."""
    lab.host("h2").fault("docker-slow", 1)
    points: list[dict[str, object]] = [{"type": "phase", "phase": phase} for phase in ("connect", "image", "push")]
    points += [{"type": "rank", "rank": 1, "state": "starting"}, {"type": "rank", "rank": 0, "state": "running"}]
    for turn, point in enumerate([*points, {"type": "phase", "phase": "follow"}]):
        program = start("sleep 3000", "--name", f"int{turn}", "-o", "ndjson", "--log-to", "none", wait=False)
        read_until(program, **point)
        program.send_signal(signal.SIGINT)
        *_, result = rest_of(program)
        assert (result["state"], result["exit"], result["leftovers"]) == ("stopped", 130, []), point
        assert program.returncode == 130
        assert "Traceback" not in program.stderr.read()
        assert_clean(lab)


def test_a_terminal_closed_while_connecting(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """SIGHUP before the first rank: the run is started all the same and goes on, and whoever reads gets the result."""
    program = start("sleep 3000", "--name", "hup", "-o", "ndjson", wait=False)
    read_until(program, type="phase", phase="connect")
    program.send_signal(signal.SIGHUP)
    events = rest_of(program)
    assert [(e["state"], e["exit"]) for e in events if e["type"] == "result"] == [("detached", 0)]
    assert count_running(lab) == 2
    assert lab.distui("stop", "hup", "-y", "--grace", "1s", home=home).returncode == 0
    assert_clean(lab)


def test_a_third_ctrl_c_leaves_with_a_result(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """A daemon that hangs keeps the run from its end; who waits no longer gets 130, and exactly one result."""
    program = start("sleep 3000", "--name", "thrice", "-o", "ndjson")
    read_until(program, type="phase", phase="follow")
    lab.host("h2").fault("docker-hang")
    for said in ("stopping the run", "killing the run"):
        program.send_signal(signal.SIGINT)
        assert any(said in line for line in program.stderr)
    program.send_signal(signal.SIGINT)
    events = rest_of(program)
    assert [(e["state"], e["exit"]) for e in events if e["type"] == "result"] == [("detached", 130)]
    assert program.returncode == 130
    lab.heal()
    assert lab.distui("stop", "thrice", "-y", "--grace", "1s", home=home).returncode == 0
    assert_clean(lab)


WAITERS = "find ~/.local/state/distui/hosts/*/seen -name 'reader-*-wait'"
"""Who waits for the end of the run `seen`."""


def test_interrupted_viewers_leave_the_run_alone(lab: Any, home: Path, other: Path, start: Callable[..., Any]) -> None:
    """Ctrl-C and SIGTERM in `attach`, `logs -f` and `wait`: they end, say how to go on, and the ranks live."""
    assert start("echo here; sleep 3000", "-d", "--name", "seen", wait=False).finish().returncode == 0
    for number in (signal.SIGINT, signal.SIGTERM):
        for host in lab.hosts[:2]:
            host.exec(f"{WAITERS} -delete")
        viewers = [lab.spawn_distui(*verb, "seen", home=folder) for verb, folder in (
            (("attach", "--headless"), home), (("logs", "-f"), other), (("wait",), other))]  # fmt: skip
        while viewers[0].stderr.readline() != "distui: following\n":
            assert viewers[0].poll() is None
        assert "here" in viewers[1].stdout.readline()
        until(lambda: all(h.out(WAITERS) for h in lab.hosts[:2]))
        for viewer in viewers:
            viewer.send_signal(number)
        ends = [viewer.finish() for viewer in viewers]
        assert all(end.returncode in (0, 130, -number) for end in ends), [(e.returncode, e.stderr) for e in ends]
        assert "distui attach seen" in ends[0].stderr
        assert "distui stop seen" in ends[0].stderr
        assert not any("Traceback" in end.stderr for end in ends), [end.stderr for end in ends]
        assert count_running(lab) == 2
    assert lab.distui("kill", "seen", "-y", home=home).returncode == 0
    assert_clean(lab)


def test_a_tail_is_followed_from_the_line_where_the_log_was(
    lab: Any, home: Path, other: Path, start: Callable[..., Any]
) -> None:
    """`logs -f -n 2` elsewhere: each rank's last two lines, then what comes, also where no rank is ever quiet."""
    script = (
        'seq -f "old %g" 1 50; while [ ! -e /tmp/go ]; do [ $RANK = 0 ] || date +busy; '
        "sleep 0.05; done; echo new; sleep 3000"
    )
    assert start(script, "-d", "--name", "tail", wait=False).finish().returncode == 0
    for host, last in zip(lab.hosts[:2], ("old 50\n", "busy\nbusy\n"), strict=False):
        until(lambda host=host, last=last: host.exec("docker logs $(docker ps -q)").stdout.endswith(last))
    with lab.spawn_distui("logs", "-f", "-n", "2", "--rank", "0", "--no-prefix", "tail", home=other) as viewer:
        assert [viewer.stdout.readline() for _ in range(2)] == ["old 49\n", "old 50\n"]
        assert lab.distui("exec", "tail", "--rank", "0", "--", "touch", "/tmp/go", home=home).returncode == 0
        assert viewer.stdout.readline() == "new\n"
        viewer.send_signal(signal.SIGINT)
        viewer.finish()
    with lab.spawn_distui("logs", "-f", "-n", "2", "--rank", "1", "--no-prefix", "tail", home=other) as viewer:
        assert [viewer.stdout.readline() for _ in range(5)] == ["busy\n"] * 5
        viewer.send_signal(signal.SIGINT)
        viewer.finish()
    assert lab.distui("kill", "tail", "-y", home=home).returncode == 0
    assert_clean(lab)


STOP_IS_SAID = "test -e ~/.local/state/distui/hosts/h*/slow/stopped"


def test_a_stop_that_is_interrupted_can_be_finished(
    lab: Any, home: Path, other: Path, start: Callable[..., Any]
) -> None:
    """Ranks that ignore SIGTERM: the run is killed while it stops them, then `stop` is; another one ends it."""
    program = start(IGNORES_TERM, "--name", "slow", job={"stop_grace": "600s"})
    until(lambda: both_ignore(home, "slow"))
    program.send_signal(signal.SIGINT)
    until(lambda: times_asked(lab, "slow") == [1, 1])
    kill(program)
    with lab.spawn_distui("stop", "slow", "-y", home=other) as stop:
        until(lambda: all(host.exec(STOP_IS_SAID, check=False).returncode == 0 for host in lab.hosts[:2]))
        stop.send_signal(signal.SIGTERM)
        interrupted = stop.finish()
    assert interrupted.returncode == -signal.SIGTERM, interrupted.stderr
    assert "Traceback" not in interrupted.stderr
    assert count_running(lab) == 2
    finished = lab.distui("stop", "slow", "-y", "--grace", "1s", home=home)

    assert finished.returncode == 0, finished.stderr
    assert_clean(lab)


def test_a_laptop_that_sleeps(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Stopped for six seconds while its links die, one with a word and one without: awake, it has every line."""
    h1, h2 = lab.hosts[:2]
    program = start(TICKS % 500, "--name", "asleep", "-o", "ndjson", "--log-to", "none")
    until(lambda: all(b"tick 20 " in log_of(home, "asleep", rank) for rank in range(2)))
    program.signal_group(signal.SIGSTOP)
    h2.fault("ssh-killall")
    h1.fault("blackhole")
    h1.exec("pkill -KILL -x sshd; while pgrep -x sshd; do sleep 0.02; done; $(command -v sshd)")  # its port is free
    time.sleep(5)
    h1.fault("unblackhole")
    program.signal_group(signal.SIGCONT)
    *_, result = rest_of(program)

    assert (result["state"], result["leftovers"]) == ("succeeded", []), program.stderr.read()
    assert_complete(result, 500)
    assert_clean(lab)


def test_a_laptop_that_sleeps_over_the_end_calls_it_no_failure(
    lab: Any, home: Path, other: Path, start: Callable[..., Any]
) -> None:
    """Another machine ends the run meanwhile, with its verdict: awake, it starts no attempt and records no end."""
    keys = {"retries": 2, "volumes": ["/mnt/pytorch:/pytorch"]}
    flags = ("--name", "slept", "-o", "ndjson", "--log-to", "none")
    program = start("echo said; until [ -e /pytorch/go ]; do sleep 0.1; done", *flags, job=keys)
    old = "find ~/.local/state/distui/hosts/*/slept -name '%s' -mmin %s"
    until(lambda: all(host.out(old % ("begins-*", "-1")) for host in lab.hosts[:2]))
    program.signal_group(signal.SIGSTOP)
    for host in lab.hosts[:2]:
        host.fault("ssh-killall")
    until(lambda: not any(int(host.out(HELPERS)) for host in lab.hosts[:2]))  # else one might touch its marks once more
    for host in lab.hosts[:2]:
        host.exec(f"{old % ('*s-*', '-9')} -exec touch -d '2 minutes ago' {{}} +; {old % ('reader-*', '-9')} -delete")
    there = lab.spawn_distui("attach", "slept", "--headless", home=other)
    until(lambda: all(host.out(old % ("reader-*", "-1")) for host in lab.hosts[:2]))
    (lab.share / "go").touch()
    ended = there.finish()
    (lab.share / "go").unlink()
    assert ended.returncode == 0, ended.stderr
    program.signal_group(signal.SIGCONT)
    *_, result = events = rest_of(program)

    assert (result["state"], result["exit"], result["first_failure"]) == ("unknown", 6, None), program.stderr.read()
    assert "whoever else followed it" in " ".join(result["warnings"])
    assert not [event for event in events if event["type"] in ("attempt", "failure", "stop")]
    assert_clean(lab)


@pytest.mark.parametrize("engine", ["docker", "process"])
def test_a_laptop_that_sleeps_over_a_stop_does_not_start_the_run_again(
    lab: Any, home: Path, other: Path, start: Callable[..., Any], engine: str
) -> None:
    """Its connections live on: awake, it hears how the ranks ended, and the word of the stop is gone by then.

    Those that exit 0 have not succeeded.
    """
    for folder in (home, other):
        hosts = {"h1": {"docker": engine}, "h2": {"docker": engine}}
        (folder / "hosts.yaml").write_text(json.dumps({"version": 1, "hosts": hosts}))
    flags = ("--name", "dozed", "-o", "ndjson", "--log-to", "none")
    program = start(f"trap 'exit 0' TERM; {TICKS % 5000}", *flags, job={"retries": 2}, wait=engine == "docker")
    until(lambda: all(b"tick 5 " in log_of(home, "dozed", rank) for rank in range(2)))
    program.signal_group(signal.SIGSTOP)
    stopped = lab.spawn_distui("stop", "dozed", "-y", home=other).finish()
    assert stopped.returncode == 0, stopped.stderr
    program.signal_group(signal.SIGCONT)
    *_, result = events = rest_of(program)

    assert (result["state"], result["exit"], result["first_failure"]) == ("unknown", 6, None), program.stderr.read()
    assert "whoever else followed it" in " ".join(result["warnings"])
    assert not [event for event in events if event["type"] in ("attempt", "failure", "stop")]
    assert_clean(lab)


def test_nobody_reads_what_it_prints(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Closed stdout and stderr, no terminal, TERM=dumb: no traceback, the documented exit, and all is in the files."""
    program = start(TICKS % 60, "--name", "pipe", wait=False, TERM="dumb")
    program.stdout.readline()
    program.stdout.close()
    program.stderr.close()
    assert program.wait(LIMIT) == 0
    logs = home / ".local/state/distui/runs/pipe/logs"
    assert_complete({"log_dir": str(logs)}, 60)
    assert_clean(lab)
    for words in ("logs pipe", "ps", "show pipe", "probe", "plan job.yaml", "--help"):
        line = f'"$0" -m distui.cli.main {words} 2>err | head -c1 >out; cat err; exit "${{PIPESTATUS[0]}}"'
        env = {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = lab.spawn("bash", "-c", line, sys.executable, home=home, env=env).finish()
        assert done.returncode == 0, (words, done.stdout)
        assert "Traceback" not in done.stdout
        assert "BrokenPipe" not in done.stdout


def test_two_machines_start_one_name_at_one_instant(
    lab: Any, home: Path, other: Path, start: Callable[..., Any]
) -> None:
    """Each time exactly one wins, the other is refused with 3 and the name; one container a rank."""
    job = {"version": 1, "name": "race", "hosts": "h[1-2]", "image": "lab/python:1", "command": ["sleep", "3000"]}
    for folder in (home, other):
        (folder / "job.yaml").write_text(json.dumps(job))
    for turn in range(RACES):
        flags = ("run", "job.yaml", "-d", "-y", "--no-preflight", "--name", f"race{turn}")
        both = [lab.spawn_distui(*flags, home=folder) for folder in (home, other)]
        done = [program.finish() for program in both]
        assert sorted(d.returncode for d in done) == [0, 3], [d.stderr for d in done]
        lost = max(done, key=lambda d: d.returncode)
        assert f"a run named race{turn} is" in lost.stderr
        assert re.search(r"\(of root@\S+,? .*since \d{4}-\d\d-\d\d", lost.stderr), lost.stderr
        assert "Traceback" not in lost.stderr
    counts = [len(host.containers()) for host in lab.hosts]
    assert counts == [RACES, RACES, 0]
    with ThreadPoolExecutor(2) as pool:
        ends = pool.map(lambda turn: lab.distui("kill", f"race{turn}", "-y", home=home), range(RACES))
    assert {end.returncode for end in ends} == {0}
    assert_clean(lab)
