"""Logs go wrong, on the hosts and here: nothing waits for them for ever, and what is lost of them is said."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPO
from lab.runs import HELD_TICKS, TICKS, assert_clean, let_end, log_of, read_until, rest_of, until

pytestmark = pytest.mark.cluster

REMOVE_LOG = "rm \"$(docker inspect -f '{{.LogPath}}' $(docker ps -q --filter label=distui.run))\""


@pytest.mark.parametrize("end", ["itself", "ctrl-c", "stop", "kill"])
def test_a_log_that_was_removed_on_its_host(lab: Any, home: Path, start: Callable[..., Any], end: str) -> None:
    """Whatever ends the run, it ends with its result; the host and the moment from which lines are missing are said."""
    script = HELD_TICKS % 20 if end == "itself" else TICKS % 100_000
    program = start(script, "--name", "bare", "-o", "ndjson", "--log-to", "none")
    until(lambda: b"tick 5 " in log_of(home, "bare", 1))
    lab.host("h2").out(REMOVE_LOG)
    if end == "ctrl-c":
        program.send_signal(signal.SIGINT)
    elif end == "itself":
        let_end(lab)
    else:
        assert lab.distui(end, "bare", "-y", home=home).returncode == 0
    events = rest_of(program)
    assert events[-1]["type"] == "result"
    assert events[-1]["state"] == ("succeeded" if end == "itself" else "stopped")
    said = [e for e in events if e["type"] == "notice" and "its log was removed" in e["text"]]
    assert {e["host"] for e in said} == {"h2"}, [e["text"] for e in events if e["type"] == "notice"]
    assert "what it printed after 20" in said[-1]["text"]
    assert_clean(lab)


@pytest.mark.parametrize("files", [64, 40])
def test_few_files_may_be_open(lab: Any, home: Path, files: int) -> None:
    """36 ranks with `ulimit -n 64`: every line of every rank. With too few for any run: refused before the start."""
    keys = {"hosts": "h[1-3]", "ranks": {"per_host": 12}}
    given = {"version": 1, "name": "few", "image": "lab/python:1", "command": ["sh", "-c", TICKS % 20]}
    (home / "job.yaml").write_text(json.dumps(given | keys))
    words = ("run", "job.yaml", "--headless", "-y", "-o", "json", "--log-to", "none")
    argv = (str(files), sys.executable, "-m", "distui.cli.main", *words)
    program = lab.spawn("sh", "-c", 'ulimit -n "$0"; exec "$@"', *argv, home=home, env={"PYTHONPATH": str(REPO)})
    result = json.loads(program.finish().stdout)
    if files == 64:
        assert (result["state"], result["exit"]) == ("succeeded", 0)
        want = [f"tick {i} of %d" for i in range(20)] + ["end"]
        logs = {rank: Path(result["log_dir"], f"rank-{rank:05d}.log").read_text().splitlines() for rank in range(36)}
        assert logs == {rank: [line.replace("%d", str(rank)) for line in want] for rank in range(36)}
    else:
        assert (result["state"], result["exit"]) == ("launch_failed", 3)
        assert "files must be open at once" in str(result["errors"])
    assert_clean(lab)


def test_a_log_here_that_is_emptied(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """It is said, its container stays, and `stop` reads every line of it again."""
    program = start(HELD_TICKS % 200, "--name", "wiped", "-o", "ndjson", "--log-to", "none")
    log = home / ".local/state/distui/runs/wiped/logs/rank-00000.log"
    until(lambda: b"tick 199 " in log_of(home, "wiped", 0))  # else it might be emptied while a line is written to it
    log.write_bytes(b"")  # as `truncate -s0` does
    let_end(lab)
    events = rest_of(program)
    assert not log.read_bytes()  # nothing is written behind the gap
    said = " ".join(e["text"] for e in events if e["type"] == "notice")
    assert "emptied, removed or changed rank-00000.log here" in said
    assert "`distui stop wiped` reads it again from its start" in said
    assert "kept for its log" in str(events[-1]["leftovers"])
    assert lab.distui("stop", "wiped", "-y", home=home).returncode == 0
    assert log.read_text().splitlines() == [f"tick {i} of 0" for i in range(200)] + ["end"]
    assert_clean(lab)


def test_a_log_here_that_is_emptied_when_its_rank_had_ended(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """All of it was read, and nothing more comes that could notice: the container stays for it all the same."""
    script = f"[ $RANK = 0 ] || while [ ! -e /tmp/go ]; do sleep 0.1; done; {TICKS % 20}"
    program = start(script, "--name", "early", "-o", "ndjson", "--log-to", "none")
    read_until(program, type="rank", rank=0, state="exited")
    folder = home / ".local/state/distui/runs/early"
    point = folder / "follow/task-00000.json"
    until(lambda: point.exists() and '"done": true' in point.read_text())
    (folder / "logs/rank-00000.log").write_bytes(b"")
    assert lab.distui("exec", "early", "--rank", "1", "--", "touch", "/tmp/go", home=home).returncode == 0
    events = rest_of(program)
    said = " ".join(e["text"] for e in events if e["type"] == "notice")
    assert "the log of rank 0 on h1 is not complete here" in said
    assert "`distui stop early` reads it again from its start" in said
    assert "kept for its log" in str(events[-1]["leftovers"])
    assert lab.distui("stop", "early", "-y", home=home).returncode == 0
    assert log_of(home, "early", 0).decode().splitlines() == [f"tick {i} of 0" for i in range(20)] + ["end"]
    assert_clean(lab)
