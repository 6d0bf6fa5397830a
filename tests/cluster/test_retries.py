"""Attempts, limits and restarts on real hosts: what is tried again, what is kept of it, and what is left (nothing)."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.program import LIMIT
from lab.runs import ended_after, read_until, rest_of, until

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]

JOB = """
version: 1
name: again
hosts: h[1-2]
image: lab/python:1
command: %s
stop_grace: 3s
"""


@pytest.fixture
def distui(lab: Any, home: Path) -> Distui:
    """distui run from the home folder, where hosts.yaml is."""

    def call(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return lab.distui(*args, home=home, **options)

    return call


def job(home: Path, *script: str, extra: str = "", name: str = "job.yaml") -> str:
    """A job that runs a shell script on each rank."""
    path = home / name
    path.write_text(JOB % json.dumps(["sh", "-c", "\n".join(script)]) + extra)
    return str(path)


def events_of(done: subprocess.CompletedProcess[str], kind: str) -> list[dict[str, Any]]:
    """All NDJSON events of one type."""
    values = [json.loads(line) for line in done.stdout.splitlines()]
    return [v for v in values if v["type"] == kind]


def assert_clean(lab: Any) -> None:
    assert [left for host in lab.hosts for left in host.leftovers()] == []


def test_the_second_attempt_succeeds(lab: Any, home: Path, distui: Distui) -> None:
    """Exit 0; every attempt has a fresh port and a log of its own in which each line stands once."""
    text = job(
        home,
        'seq -f "attempt $DISTUI_ATTEMPT rank $RANK line %g" 2000',
        'echo "port $MASTER_PORT"',
        '[ "$RANK" = 1 ] || touch /pytorch/said',
        "until [ -e /pytorch/said ]; do sleep 0.1; done",
        '[ "$DISTUI_ATTEMPT$RANK" = 11 ] && { echo boom >&2; exit 3; }',
        '[ "$DISTUI_ATTEMPT" = 2 ] || sleep 600',
        extra='retries: 2\nvolumes: ["/mnt/pytorch:/pytorch"]\n',
    )
    done = distui("run", text, "--headless", "-y", "-o", "ndjson", "--name", "again-1")
    (lab.share / "said").unlink()

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    (result,) = events_of(done, "result")
    assert (result["state"], result["attempt"], result["attempts"]) == ("succeeded", 2, 3)
    (failed,) = events_of(done, "attempt")
    first = failed["first_failure"]
    assert (first["rank"], first["host"], first["exit"]) == (1, "h2", 3)
    ports = set()
    for number, folder in ((1, Path(failed["log_dir"])), (2, Path(result["log_dir"]))):
        for rank in (0, 1):
            *lines, port = [
                line for line in (folder / f"rank-0000{rank}.log").read_text().splitlines() if line != "boom"
            ]
            assert lines == [f"attempt {number} rank {rank} line {n}" for n in range(1, 2001)]
            ports.add((number, port))
    assert len(ports) == 2
    assert len({port for _, port in ports}) == 2
    shown = distui("logs", "again-1", "--attempt", "1", "--rank", "1", "-n", "1", "--no-prefix")
    assert shown.stdout.splitlines()[-1] in ("boom", sorted(ports)[0][1])
    assert_clean(lab)


def test_attempts_used_up(lab: Any, home: Path, distui: Distui) -> None:
    """Exit 1 with the last attempt's failure; people read which attempt it was."""
    text = job(home, '[ "$RANK" = 0 ] && exit $((10 + DISTUI_ATTEMPT))', "sleep 600", extra="retries: 1\n")
    done = distui("run", text, "--headless", "-y", "--name", "again-2")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "attempt 1 of 2 failed: rank 0 on h1: exit 11" in done.stderr
    assert "attempt 2 of 2" in done.stderr
    assert "first  rank 0 on h1: exit 12" in done.stderr
    reply = json.loads(distui("show", "again-2", "-o", "json").stdout)
    assert (reply["state"], reply["attempt"], reply["attempts"], reply["first_failure"]["exit"]) == ("failed", 2, 2, 12)
    assert_clean(lab)


def test_the_next_attempt_takes_a_restarted_host_as_it_is_now(lab: Any, start: Callable[..., Any]) -> None:
    """It is asked again before the next attempt is planned; the restart is the cause of the first one's failure."""
    h2 = lab.host("h2")
    program = start('[ "$DISTUI_ATTEMPT" = 2 ] || sleep 600', "--name", "again-9", "-o", "ndjson", job={"retries": 1})
    read_until(program, type="phase", phase="follow")
    h2.fault("crash")
    read_until(program, type="rank", rank=1, state="lost")
    h2.fault("poweron")
    events = rest_of(program)

    (failed,) = (e for e in events if e["type"] == "attempt")
    assert failed["first_failure"]["words"] == "exit 255: its host was restarted"
    assert (events[-1]["state"], events[-1]["attempt"]) == ("succeeded", 2), program.stderr.read()
    assert_clean(lab)


def test_an_attempt_is_seen_from_another_machine(lab: Any, home: Path, distui: Distui, tmp_path: Path) -> None:
    """Labels tell the attempt: `ps` and `attach` elsewhere say it; who leaves is told what is not done then."""
    held = "until [ -e /pytorch/seen ]; do sleep 0.1; done"
    text = job(home, held, 'exit "$RANK"', extra='retries: 2\nvolumes: ["/mnt/pytorch:/pytorch"]\n')
    left = distui("run", text, "-d", "-y", "--name", "again-3")
    assert left.returncode == 0, left.stderr
    assert "no further attempt is begun" in left.stderr

    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    (row,) = json.loads(lab.distui("ps", "-o", "json", home=other).stdout)["runs"]
    assert (row["run"], row["attempt"], row["attempts"]) == ("again-3", 1, 3)
    with lab.spawn_distui("attach", "again-3", "--headless", home=other) as viewer:
        with ended_after(viewer, LIMIT):
            assert any("following again-3, attempt 1 of 3" in line for line in viewer.stderr)
        (lab.share / "seen").touch()
        done = viewer.finish()
    (lab.share / "seen").unlink()
    assert done.returncode == 1, done.stderr
    assert "only the distui that started the run begins the next attempt" in done.stderr
    assert_clean(lab)


def test_who_waits_on_another_machine_waits_for_the_next_attempt(
    lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    """An attempt that failed has a verdict on the hosts; it is not the run's while another follows. The next one
    is over before anybody elsewhere could have seen it by looking now and then.
    """
    script = 'until [ -e /pytorch/go ]; do sleep 0.1; done; [ "$DISTUI_ATTEMPT" = 2 ] || exit 3'
    keys = {"retries": 1, "volumes": ["/mnt/pytorch:/pytorch"]}
    program = start(script, "--name", "again-10", "-o", "ndjson", job=keys)
    read_until(program, type="phase", phase="follow")
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    waiter = lab.spawn_distui("wait", "again-10", home=other)
    look = "find /root/.local/state/distui/hosts -name 'reader-*-wait'"
    until(lambda: bool(lab.host("h1").out("sh", "-c", look).strip()))
    (lab.share / "go").write_text("")
    events = rest_of(program)
    (lab.share / "go").unlink()
    assert (events[-1]["state"], events[-1]["attempt"]) == ("succeeded", 2), program.stderr.read()
    done = waiter.finish()
    assert done.returncode == 0, done.stderr
    assert_clean(lab)


STEPS = """
import datetime, os, signal, sys, time
import torch
import torch.distributed as dist

restart, place = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["DISTUI_TASK"] + os.environ["LOCAL_RANK"]
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=25))
for step in range(int(sys.argv[1])):
    while step == 4 and sys.argv[2] == "none" and not os.path.exists("/pytorch/cut"):
        time.sleep(0.1)  # a machine that is busy cuts late
    world = torch.ones(1)
    try:
        dist.all_reduce(world)
    except RuntimeError:
        if sys.argv[2] != "none":
            signal.pause()  # torchrun ends it, and has nothing to say but that the other one died
        raise
    if step == 2 and restart == "0" and place == sys.argv[2]:
        os._exit(7)
    print(f"step {step} world {int(world.item())} rank {os.environ['RANK']}", flush=True)
    time.sleep(0.3)
print("finished", flush=True)
"""

TORCHRUN = """
version: 1
name: steps
hosts: h[1-2]
image: lab/pytorch:1
launcher: torchrun
torchrun: {rdzv: c10d, max_restarts: 2%s}
ranks: {per_host: %d}
backend: gloo
volumes: ["/mnt/pytorch:/pytorch"]
workdir: /pytorch
command: [steps.py, "%d", "%s"]
stop_grace: 3s
"""


def torchrun_job(lab: Any, home: Path, more: str, per_host: int, steps: int, dies: str) -> str:
    """A job of all-reduces, in which the rank at a place (task and local rank) dies once."""
    (lab.share / "steps.py").write_text(STEPS)
    path = home / "job.yaml"
    path.write_text(TORCHRUN % (more, per_host, steps, dies))
    return str(path)


def test_torchrun_starts_a_rank_again(lab: Any, home: Path, distui: Distui) -> None:
    """c10d, two nodes with two ranks, one of which dies once: exit 0, the restart is told, no line is missing."""
    done = distui("run", torchrun_job(lab, home, "", 2, 6, "10"), "--headless", "-y", "-o", "ndjson")

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    restarts = events_of(done, "restart")
    assert (restarts[0]["rank"], restarts[0]["host"], restarts[0]["exit"], restarts[0]["count"]) == (2, "h2", 7, 1)
    (result,) = events_of(done, "result")
    for rank in range(4):
        lines = (Path(result["log_dir"]) / f"rank-0000{rank}.log").read_text().splitlines()
        steps = [line.split()[1] for line in lines if line.startswith("step")]
        assert steps[-6:] == list("012345"), lines
        assert steps[:-6] == list("012")[: len(steps) - 6]
        assert "finished" in lines
    assert_clean(lab)


@pytest.mark.long
def test_a_node_that_vanishes(lab: Any, home: Path, distui: Distui) -> None:
    """Elastic 1:2: a host cut off does not end the run; what is left on it is named, and `stop` ends it."""
    path = torchrun_job(lab, home, ', nnodes: "1:2", last_call: 2s', 1, 25, "none")
    began = threading.Event()

    def cut() -> None:
        log = home / ".local/state/distui/runs/gone-1/logs/rank-00000.log"
        # With a node that comes late the other one begins alone.
        while not (log.exists() and "step 3 world 2 " in log.read_text()):
            time.sleep(0.1)
        lab.host("h2").fault("blackhole")
        (lab.share / "cut").touch()
        began.set()

    cutter = threading.Thread(target=cut, daemon=True)
    cutter.start()
    done = distui("run", path, "--headless", "-y", "-o", "ndjson", "--name", "gone-1")
    assert began.is_set(), done.stdout[-3000:] + done.stderr
    lab.host("h2").fault("unblackhole")
    (lab.share / "cut").unlink()

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    (result,) = events_of(done, "result")
    assert (result["state"], [left.partition(":")[0] for left in result["leftovers"]]) == ("succeeded", ["h2"])
    lines = (Path(result["log_dir"]) / "rank-00000.log").read_text().splitlines()
    assert "step 3 world 2 rank 0" in lines
    assert "step 24 world 1 rank 0" in lines
    notices = [e["text"] for e in events_of(done, "notice")]
    assert any("without node1: the run goes on with 1 of 2 nodes" in text for text in notices)
    until(lambda: lab.ssh("h2", "true", home=home).returncode == 0)  # the network has to find it again
    assert distui("stop", "gone-1", "-y").returncode == 0
    assert_clean(lab)


def test_max_duration(lab: Any, home: Path, distui: Distui) -> None:
    """The run is stopped after it with 124, also when nobody is attached; whoever comes later is told why."""
    text = job(home, 'trap "echo saved; exit 0" TERM', "sleep 100 & wait", extra="max_duration: 12s\n")
    Path(text).write_text(Path(text).read_text().replace("stop_grace: 3s", "stop_grace: 120s"))  # time to say it
    assert distui("run", text, "-d", "-y", "--name", "limit-1").returncode == 0
    done = distui("run", text, "--headless", "-y", "-o", "ndjson", "--name", "limit-2")

    assert done.returncode == 124, done.stdout + done.stderr
    (result,) = events_of(done, "result")
    assert (result["state"], result["exit"], result["first_failure"]) == ("stopped", 124, None)
    said = [(e["rank"], e["line"]) for e in events_of(done, "log")]
    assert sorted(said) == [(0, "saved"), (1, "saved")]

    def found() -> dict[str, str]:
        return {row["run"]: row["state"] for row in json.loads(distui("ps", "-o", "json").stdout)["runs"]}

    assert found().keys() == {"limit-1"}
    until(lambda: found() == {"limit-1": "ended"})
    later = distui("attach", "limit-1", "--headless")
    assert later.returncode == 124, later.stderr
    assert "max_duration is over" in later.stderr
    assert sorted(line.rpartition("| ")[2] for line in later.stdout.splitlines()) == ["saved", "saved"]
    assert_clean(lab)
