"""Runs through trouble on real hosts: cut networks, killed sessions and daemons, removed containers, full disks."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab.program import LIMIT
from lab.runs import (
    HELD_TICKS,
    LET_END,
    TICKS,
    assert_clean,
    assert_complete,
    let_end,
    read_until,
    rest_of,
    touch,
    until,
)

pytestmark = pytest.mark.cluster

NOTICED = 15 * 8
"""Seconds until a host that went silent is lost: what docs/reliability.md promises, with room for a busy machine.
Without keepalives it would be TCP's quarter of an hour.
"""


def test_a_host_cut_off_comes_back(lab: Any, start: Callable[..., Any]) -> None:
    """Silence: its rank is lost within the time promised, not ended; healed, it runs again; the run succeeds with every
    byte of its logs.
    """
    program = start(HELD_TICKS % 1300, "-o", "ndjson", "--log-to", "none")
    read_until(program, type="rank", rank=1, state="running")
    began = time.time()
    lab.host("h2").fault("blackhole")
    *_, lost = read_until(program, type="rank", rank=1, state="lost")
    lab.host("h2").fault("unblackhole")
    read_until(program, type="rank", rank=1, state="running")
    let_end(lab)
    *_, result = rest_of(program)

    silent = datetime.fromisoformat(lost["ts"]).timestamp() - began
    assert silent < NOTICED
    assert (result["state"], result["exit"], result["leftovers"]) == ("succeeded", 0, [])
    assert_complete(result, 1300)
    assert_clean(lab)


def test_a_short_cut_is_ridden_out(lab: Any, start: Callable[..., Any]) -> None:
    """Eight seconds of silence lose nothing, whether or not they are noticed."""
    program = start(TICKS % 500, "-o", "json")
    lab.host("h2").fault("blackhole")
    time.sleep(8)
    lab.host("h2").fault("unblackhole")
    done = program.finish()

    assert done.returncode == 0, done.stderr
    assert_complete(json.loads(done.stdout), 500)
    assert_clean(lab)


def test_killed_ssh_sessions_lose_nothing(lab: Any, start: Callable[..., Any]) -> None:
    """Every session of a host killed four times: found again each time, each line once."""
    program = start(HELD_TICKS % 350, "-o", "ndjson", "--log-to", "none")
    read_until(program, type="phase", phase="follow")
    for _ in range(4):
        lab.host("h2").fault("ssh-killall")
        read_until(program, type="host", host="h2", state="back")
    let_end(lab)
    *_, result = rest_of(program)

    assert (result["state"], result["leftovers"]) == ("succeeded", [])
    assert_complete(result, 350)
    assert_clean(lab)


def test_a_docker_daemon_that_dies_and_starts_again(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Without live-restore it takes its containers along: the run fails and says that it was the engine."""
    program = start("sleep 3000", "--name", "engine")
    lab.host("h2").fault("docker-kill")
    journal = home / ".local/state/distui/runs/engine/events.ndjson"
    until(lambda: "its engine does not answer" in journal.read_text())
    lab.host("h2").fault("docker-up")
    done = program.finish()

    assert done.returncode == 1, done.stderr
    assert "h2 lost: its engine does not answer" in done.stderr
    assert "its ranks may still run" in done.stderr
    assert "rank 1 on h2 failed first" in done.stderr
    assert "its container engine was stopped or restarted" in done.stderr
    assert "rank 0 on h1 stopped by distui" in done.stderr
    assert_clean(lab)


def test_a_container_removed_by_somebody_else(lab: Any, start: Callable[..., Any]) -> None:
    """The run fails, names the rank and says what happened to it."""
    program = start("sleep 3000")
    lab.host("h2").fault("container-rm", lab.host("h2").containers()[0])
    done = program.finish()

    assert done.returncode == 1, done.stderr
    assert "rank 1 on h2" in done.stderr
    assert "its container was removed by somebody else" in done.stderr
    assert "Traceback" not in done.stderr
    assert_clean(lab)


def test_a_stop_from_another_machine_is_no_failure(
    lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    """Whoever follows the run is told who stopped it, and exits 143. A renamed container is stopped all the same."""
    program = start("sleep 3000", "--name", "away")
    lab.host("h2").exec("docker", "rename", "distui-away-1", "renamed")
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    stopped = lab.distui("stop", "away", "-y", home=other)
    done = program.finish()

    assert stopped.returncode == 0, stopped.stderr
    assert done.returncode == 143, done.stderr
    assert "stopped by root@" in done.stderr
    assert "failed" not in done.stderr
    assert_clean(lab)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of `size` at `folder`."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "distui-test", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_here_keeps_the_logs_on_the_hosts(
    lab: Any, home: Path, tmp_path: Path, start: Callable[..., Any]
) -> None:
    """The run goes on to its end; one clear notice; containers stay until their logs can be read."""
    script = "i=0; while [ $i -lt 3000 ]; do printf '%01000d\\n' $i; i=$((i+1)); done; echo end of $RANK"
    with small_disk(tmp_path / "state", "1m") as state:
        done = start(script, "--name", "full", "--log-to", "none", wait=False, XDG_STATE_HOME=str(state)).finish()

        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.count("can't write the log") == 1
        assert "No space left on device" in done.stderr
        assert [h.containers() for h in lab.hosts[:2]] == [["distui-full-0"], ["distui-full-1"]]
        read = lab.distui("logs", "-t", "full", home=home, env={"XDG_STATE_HOME": str(state)})
        assert "end of 0" in read.stdout
        assert "end of 1" in read.stdout
        subprocess.run(["mount", "-o", "remount,size=64m", str(state)], check=True)
        stopped = lab.distui("stop", "full", "-y", home=home, env={"XDG_STATE_HOME": str(state)})

        assert stopped.returncode == 0, stopped.stderr
        logs = [(state / f"distui/runs/full/logs/rank-0000{rank}.log").read_text() for rank in range(2)]
        assert [text.splitlines()[-1] for text in logs] == ["end of 0", "end of 1"]
        assert [len(text.splitlines()) for text in logs] == [3001, 3001]
    assert_clean(lab)


def test_with_room_on_the_disk_again_a_run_goes_on_by_itself(
    lab: Any, tmp_path: Path, start: Callable[..., Any]
) -> None:
    """Said once when its logs stop and once when they go on; every byte of logs and events is there in the end."""
    go = lab.share / "room-again"
    many = "i=0; while [ $i -lt 3000 ]; do printf '%01000d\\n' $i; i=$((i+1)); done; echo many"
    script = f"{many}; until [ -e /shared/{go.name} ]; do sleep 0.1; done; echo end of $RANK"
    flags = ("--name", "room", "-o", "ndjson", "--log-to", "none")
    with small_disk(tmp_path / "state", "1m") as state:
        job = {"volumes": ["/mnt/pytorch:/shared"]}
        program = start(script, *flags, wait=False, job=job, XDG_STATE_HOME=str(state))
        output: list[dict[str, Any]] = []
        while not any("can't write the log" in event.get("text", "") for event in output):
            output += read_until(program, type="notice", level="error")
        subprocess.run(["mount", "-o", "remount,size=64m", str(state)], check=True)
        output += read_until(program, text="there is room here again: all logs are read on from where they stopped")
        go.touch()
        output += rest_of(program)
        go.unlink()
        folder = state / "distui/runs/room"
        stored = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
        logs = [(folder / f"logs/rank-0000{rank}.log").read_text() for rank in range(2)]

    assert (output[-1]["type"], output[-1]["state"], output[-1]["leftovers"]) == ("result", "succeeded", [])
    events = [event for event in output if event["type"] not in ("gpu", "host_metrics")]
    assert sorted(map(json.dumps, stored)) == sorted(map(json.dumps, events))
    numbers = "".join(f"{n:01000d}\n" for n in range(3000))
    assert logs == [f"{numbers}many\nend of {rank}\n" for rank in range(2)]
    assert sum("can't write the log" in event.get("text", "") for event in output) == 1
    assert_clean(lab)


def test_a_disk_too_full_to_begin(lab: Any, tmp_path: Path, start: Callable[..., Any]) -> None:
    """Not even the run's folder fits: one clear message before any host is changed."""
    with small_disk(tmp_path / "state", "4k") as state:
        done = start("true", "--name", "nofit", wait=False, XDG_STATE_HOME=str(state)).finish()

        assert done.returncode == 3, done.stderr
        assert "No space left on device; nothing was started" in done.stderr
        assert "XDG_STATE_HOME" in done.stderr
        assert "a bug" not in done.stderr
    assert_clean(lab)


def test_a_full_disk_on_a_host_stops_the_start(lab: Any, start: Callable[..., Any]) -> None:
    """The env file does not fit: exit 5, the host and its words, nothing left on any host."""
    h2 = lab.host("h2")
    h2.exec("mkdir -p ~/.local/state && mount -t tmpfs -o size=4k none ~/.local/state && echo >~/.local/state/fill")
    try:
        done = start("true", wait=False).finish()
        left = h2.out("sh", "-c", "ls -A ~/.local/state")
    finally:
        h2.exec("umount ~/.local/state")

    assert done.returncode == 5, done.stderr
    assert "h2" in done.stderr
    assert "No space left on device" in done.stderr
    assert "NOT STARTED" in done.stderr
    assert left == "fill"
    assert_clean(lab)


def test_a_kept_run_is_stopped(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """--keep leaves ended containers whose logs are read; `distui stop` still ends, and removes them; one that somebody
    else has removed meanwhile is simply gone.
    """
    kept = start("echo hello", "--keep", "--name", "kept", wait=False).finish()
    assert kept.returncode == 0, kept.stderr
    assert [h.containers() for h in lab.hosts[:2]] == [["distui-kept-0"], ["distui-kept-1"]]

    lab.host("h2").exec("docker", "rm", "distui-kept-1")
    stopped = lab.distui("stop", "kept", "-y", home=home)
    assert stopped.returncode == 0, stopped.stderr
    assert_clean(lab)


def test_attach_after_all_was_read(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """distui is killed when one rank had ended and was read: attach tells both ends, each log line once."""
    script = f'echo line of $RANK; [ "$RANK" = 0 ] || until [ -e {LET_END} ]; do sleep 0.1; done'
    program = start(script, "--name", "late", "-o", "ndjson", "--log-to", "none", wait=False)
    read_until(program, type="rank", rank=0, state="exited")
    stored = home / ".local/state/distui/runs/late"
    until(lambda: any('"done": true' in path.read_text() for path in stored.rglob("*") if path.suffix == ".json"))
    program.signal_group(signal.SIGKILL)
    program.wait(LIMIT)
    touch(lab.host("h2"), "distui-late-1", LET_END)

    attached = lab.distui("attach", "late", "--headless", "-o", "json", home=home)
    assert attached.returncode == 0, attached.stderr
    logs = Path(json.loads(attached.stdout)["log_dir"])
    assert [(logs / f"rank-0000{rank}.log").read_text() for rank in range(2)] == ["line of 0\n", "line of 1\n"]
    assert_clean(lab)


def test_two_starts_with_one_name_at_once(lab: Any, home: Path, tmp_path: Path) -> None:
    """From two homes at one moment: exactly one starts, its ranks run to their end; the other is refused, exit 3."""
    job = {"version": 1, "name": "race", "hosts": "h[1-2]", "image": "lab/python:1"}
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    script = f"until [ -e {LET_END} ]; do sleep 0.1; done; echo end of $RANK"
    for folder in (home, other):
        (folder / "job.yaml").write_text(json.dumps(job | {"command": ["sh", "-c", script]}))
    for turn in range(3):
        flags = ("run", "job.yaml", "--headless", "-y", "-o", "json", "--no-preflight", "--name", f"race{turn}")
        both = [lab.spawn_distui(*flags, home=folder) for folder in (home, other)]
        until(lambda both=both: any(program.poll() is not None for program in both), 120)
        until(lambda: [host.running() for host in lab.hosts] == [1, 1, 0])
        let_end(lab)
        done = [program.finish() for program in both]
        assert sorted(d.returncode for d in done) == [0, 3], [d.stderr for d in done]
        won, lost = sorted(done, key=lambda d: d.returncode)
        assert f"a run named race{turn} is" in lost.stderr
        assert "Traceback" not in lost.stderr
        logs = Path(json.loads(won.stdout)["log_dir"])
        assert [(logs / f"rank-0000{rank}.log").read_text() for rank in range(2)] == ["end of 0\n", "end of 1\n"]
        assert_clean(lab)
