"""Ends that exit statuses do not tell, on real hosts: no success, replicas that differ, silence, a cut network."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]


def job(home: Path, script: str, **more: Any) -> str:
    """A job file whose ranks run a shell script."""
    path = home / "job.yaml"
    keys = {"version": 1, "name": "ends", "hosts": "h[1-2]", "image": "lab/python:1", "command": ["sh", "-c", script]}
    path.write_text(json.dumps({**keys, "stop_grace": "5s", **more}))
    return str(path)


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The last NDJSON event."""
    value = json.loads(done.stdout.splitlines()[-1])
    assert value["type"] == "result", value
    return dict(value)


def assert_clean(lab: Any) -> None:
    assert [left for host in lab.hosts for left in host.leftovers()] == []


CRASH = "python3 -c 'raise ValueError(7)' || true"


def test_a_traceback_before_exit_0_is_reported_everywhere(lab: Any, home: Path, distui: Distui) -> None:
    """SUCCEEDED with a warning: in the block at the end, the result, `show` and the report."""
    path = job(home, CRASH, progress={"regex": r"step (?P<step>\d+)"})
    done = distui("run", path, "--headless", "-y", "--name", "crash-1")
    words = "rank 0 and rank 1 ended with exit 0, but the last words are a traceback: ValueError: 7"
    assert done.returncode == 0, done.stderr
    assert "SUCCEEDED" in done.stderr and f"warn   {words}" in done.stderr
    assert "2 ranks matched `progress`" in done.stderr
    shown = json.loads(distui("show", "crash-1", "--json").stdout)
    assert (shown["state"], shown["warnings"][0]) == ("succeeded", words)
    assert words in distui("show", "crash-1").stdout
    assert words in distui("show", "crash-1", "--report").stdout
    assert_clean(lab)


OUT = 'test "$RANK" = 1 || { mkdir -p /out && echo x > /out/last.pt; }; echo all done'


@pytest.mark.parametrize(
    ("success", "words"),
    [
        ({"file": "/out/last.pt", "regex": "^all done$", "min_seconds": 0}, ""),
        ({"file": "/out/other.pt"}, "the file /out/other.pt of `success.file` is not there (looked on h1, h2)"),
        ({"regex": "never said"}, "no rank printed a line that matches `success.regex` 'never said'"),
        ({"min_seconds": "10m"}, "before the 600 s of `success.min_seconds`"),
    ],
)
def test_success_is_what_the_job_asks_for(
    lab: Any, home: Path, distui: Distui, success: dict[str, Any], words: str
) -> None:
    """A file in the container of one rank is enough; what is missing makes the run a failed one."""
    done = distui("run", job(home, OUT, success=success), "--headless", "-y", "-o", "ndjson")
    result = result_of(done)
    if not words:
        assert (done.returncode, result["state"], result["warnings"]) == (0, "succeeded", [])
    else:
        assert (done.returncode, result["state"]) == (1, "failed")
        assert words in result["first_failure"]["words"]
    assert_clean(lab)


def test_success_of_a_detached_run_is_judged_from_another_machine(lab: Any, home: Path, distui: Distui) -> None:
    """Its labels tell of the file; that a regular expression was not looked at is said."""
    path = job(home, "sleep 3; echo end", success={"file": "/out/x.pt", "regex": "end"}, same="(end)")
    assert distui("run", path, "-d", "-y", "--name", "far-1").returncode == 0
    done = distui("attach", "far-1", "--headless", "-o", "json", env={"XDG_STATE_HOME": str(home / "elsewhere")})
    result = json.loads(done.stdout)
    assert result["state"] == "failed", done.stdout + done.stderr
    assert "/out/x.pt of `success.file` is not there" in result["first_failure"]["words"]
    assert any("`success.regex` and `same` of the job was not looked at" in words for words in result["warnings"])
    assert_clean(lab)


def test_a_replica_that_differs_is_named(lab: Any, home: Path, distui: Distui) -> None:
    """Of three ranks one ends with another loss: FAILED, exit 1, that rank and both losses."""
    script = 'test "$RANK" = 2 && echo loss 0.41 || echo loss 0.32'
    path = job(home, script, same=r"loss (\S+)", hosts="h[1-3]")
    done = distui("run", path, "--headless", "-y")
    assert done.returncode == 1
    assert "rank 2 on h3: ended with exit 0, but `same`: rank 2 ended with loss 0.41, the others with loss 0.32" in (
        done.stderr
    )
    assert_clean(lab)


def stopped_silent(lab: Any, done: subprocess.CompletedProcess[str], distui: Distui, run: str) -> None:
    """The rank that had been silent is named in the result, in `show` and in the report, with its last line."""
    (words,) = [said for said in result_of(done)["warnings"] if "had said nothing" in said]
    assert words.startswith("rank 1 on h2 had said nothing for ") and words.endswith(" s; last: step 118")
    assert words in distui("show", run).stdout
    assert words in distui("show", run, "--report").stdout
    assert_clean(lab)


HALF = 'test "$RANK" = 0 && while :; do echo tick; sleep 0.2; done; echo step 118; exec sleep 600'


@pytest.mark.long
def test_a_run_that_ran_out_of_time_names_the_silent_rank(lab: Any, home: Path, distui: Distui) -> None:
    """--timeout: 124, STOPPED; rank 0 spoke to the end."""
    path = job(home, HALF, stall_after="15s")  # the limit is of the whole command, the start too
    done = distui("run", path, "--headless", "-y", "--timeout", "60s", "-o", "ndjson", "--name", "late-1")
    assert (done.returncode, result_of(done)["state"]) == (124, "stopped")
    stopped_silent(lab, done, distui, "late-1")


@pytest.mark.long
def test_max_duration_names_the_silent_rank(lab: Any, home: Path, distui: Distui) -> None:
    """The hosts end the tasks by themselves, and distui learns of it later."""
    path = job(home, HALF, stall_after="8s", max_duration="25s", image="lab/pytorch:1")
    done = distui("run", path, "--headless", "-y", "-o", "ndjson", "--name", "late-2")
    assert (done.returncode, result_of(done)["state"]) == (124, "stopped")
    stopped_silent(lab, done, distui, "late-2")


REDUCE = """
import datetime, os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
group = dist.new_group(timeout=datetime.timedelta(seconds=60))
step = 0
while True:
    dist.all_reduce(torch.ones(1000), group=group)
    step += 1
    print("step", step, flush=True)
    time.sleep(0.1)
"""


@pytest.mark.long
def test_a_cut_network_is_named_when_a_collective_times_out(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """gloo over ib0 of three hosts; the switch swallows h3's packets there, and ssh goes on over eth0.

    It is said while ranks are silent, also when they were so before, and in the result.
    """
    keys = {"hosts": "h[1-3]", "image": "lab/pytorch:1", "backend": "gloo", "fabric": {"kind": "ib"}}
    keys |= {"command": ["python3", "-c", REDUCE], "stall_after": "4s"}
    program = start("", "-o", "ndjson", job=keys)
    h3 = lab.host("h3")
    try:
        for line in program.stdout:
            if '"line":"step 5"' in line:
                break
        h3.fault("blackhole", "ib0")
        done = program.finish()
    finally:
        h3.fault("unblackhole", "ib0")
    result = result_of(done)
    assert (done.returncode, result["state"]) == (1, "failed")
    assert f"h3 no longer answers on ib0 ({h3.ib})" in result["first_failure"]["cause"]
    notices = [value for value in map(json.loads, done.stdout.splitlines()) if value["type"] == "notice"]
    assert any(f"h3 no longer answers on ib0 ({h3.ib})" in notice["text"] for notice in notices)
    assert_clean(lab)
