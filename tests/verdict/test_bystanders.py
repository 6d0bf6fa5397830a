"""What helpers, handlers and files of a rank's own say names no other rank first; and no line takes long to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from distui.runs.verdict.judge import judge
from distui.runs.verdict.lines.diagnose import cause_of
from distui.runs.verdict.lines.plain import plain
from distui.runs.verdict.outcome import Verdict
from verdict.load import evidence_of

LOST = ("RuntimeError: [../gloo/pair.cc:534] Connection reset by peer [10.0.0.2]:1234",)
KILLED = "/code/run.sh: line 9:    55 Killed                  nvidia-smi dmon > /tmp/gpu.log"
TERMINATED = "/code/run.sh: line 9:    55 Terminated              tail -f /tmp/train.log"
TRACEBACK = ("Traceback (most recent call last):", '  File "/code/train.py", line 8, in main', "    run()")
OWN, SENT_NOTHING = (*TRACEBACK, "ValueError: shapes differ"), (*TRACEBACK, "RuntimeError: rank 1 sent nothing")
CUT_OFF = (
    *TRACEBACK,
    '  File "/usr/lib/python3/dist-packages/torch/serialization.py", line 1035, in _legacy_load',
    "    magic_number = pickle_module.load(f, **pickle_load_args)",
    "_pickle.UnpicklingError: pickle data was truncated",
)

Said = Sequence[tuple[float, Sequence[str]]]


def task(rank: int, code: int, over: float, said: Said, *, signalled: bool = False) -> dict[str, Any]:
    """One rank that worked, said this, and ended."""
    work = [[float(at), rank, f"step {at} loss {3 / at:.3f}"] for at in range(2, 29, 3)]
    words = [[at + n * 0.0002, rank, line] for at, lines in said for n, line in enumerate(lines)]
    end = {"state": "exited", "code": code, "oom": False, "error": "", "finished_at": over, "started_at": 1.0}
    end |= {"signalled": signalled, "seen_at": over + 0.05}
    return {"index": rank, "host": f"h{rank + 1}", "ranks": [rank], "role": "worker", "end": end, "lines": work + words}


def verdict(*tasks: dict[str, Any], stop: float) -> Verdict:
    """What is said of two ranks of which the run was stopped then."""
    hosts = {host: {"offset_ms": 0.2, "rtt_ms": 6.0, "rebooted": False, "lost_at": None} for host in ("h1", "h2")}
    stops = [{"at": stop, "reason": "failure"}]
    return judge(evidence_of({"launcher": "env", "engine": "docker", "hosts": hosts, "tasks": tasks, "stops": stops}))


@pytest.mark.parametrize(
    ("other", "first", "stop"),
    [
        (task(0, 1, 30.1, [(30.0, (*LOST, KILLED))]), task(1, 1, 30.3, [(30.2, OWN)]), 30.5),
        (task(0, 1, 30.3, [(30.0, LOST)]), task(1, 1, 30.1, [(29.9, OWN), (29.95, (KILLED,))]), 30.5),
        (task(0, 1, 32.1, [(32.0, SENT_NOTHING)]), task(1, 1, 33.1, [(30.0, OWN), (33.0, (TERMINATED,))]), 33.4),
        (
            task(0, 1, 30.5, [(29.0, ("received signal (10): saving a checkpoint",)), (30.3, LOST)]),
            task(1, 1, 30.4, [(30.0, OWN)]),
            30.6,
        ),
        (
            task(0, 1, 30.4, [(30.2, SENT_NOTHING)]),
            task(1, 1, 32.4, [(30.0, ("[ERROR] Error: 3 of 4 shards are missing",))]),
            32.6,
        ),
        (
            task(0, 1, 31.1, [(31.0, SENT_NOTHING)]),
            task(1, 1, 32.6, [(30.0, OWN), (32.5, ("Worker 1 terminated.",))]),
            32.8,
        ),
        (task(0, 1, 30.4, [(30.2, SENT_NOTHING)]), task(1, 1, 30.5, [(30.0, CUT_OFF)]), 30.7),
    ],
    ids=[
        "a helper killed",
        "its helper killed",
        "a helper ended",
        "a handler",
        "an error with a number",
        "a pool",
        "a file cut off",
    ],
)
def test_who_failed_by_itself_stays_first(other: dict[str, Any], first: dict[str, Any], stop: float) -> None:
    """Whatever is said beside it, and by no cause of something else."""
    found = verdict(other, first, stop=stop)
    assert (found.first, found.certainty) == ((1,), "certain")
    assert found.failure is not None and not re.search("memory|killed", found.failure.cause)


@pytest.mark.parametrize("signalled", [True, False])
def test_who_worked_on_and_crashed_as_it_was_stopped_is_not_first(signalled: bool) -> None:
    """Teardown by SIGTERM may crash: it is not the peer that the other one had lost."""
    lost = task(0, 1, 30.2, [(30.0, LOST)])
    found = verdict(lost, task(1, 139, 31.5, [(30.7, ("step 32 loss 0.1",))], signalled=signalled), stop=30.5)
    assert found.first == (0,) and found.certainty == "uncertain"


def test_a_metric_is_no_reason_for_which_a_rank_was_killed() -> None:
    """`Error: mse=0.12` is its result."""
    lost = task(1, 1, 30.7, [(30.6, LOST)])
    found = verdict(task(0, 137, 30.5, [(30.0, ("Error: mse=0.12",))]), lost, stop=30.9)
    assert found.first == (0,)
    assert found.failure is not None and found.failure.cause == "something outside distui killed it"


@pytest.mark.parametrize(
    "line",
    ["endpoint timeout: 30", "heartbeat timeout = 30", "connection to mlflow returned 200 after 2 tries, 1 timed out"],
)
def test_settings_and_successes_name_no_cause(line: str) -> None:
    """They have words of failures."""
    assert cause_of([line]) is None


def test_no_line_takes_long() -> None:
    """Each of these took minutes, or would not have ended."""
    assert plain("ERROR - " * 400 + "x").endswith("ERROR - x")
    assert cause_of(["connection to 10.0.0.7:2379 failed: refused; " * 2000]) is None
    assert cause_of(['{"url": "connecting to 10.0.0.1", "status": "returned 200"}, ' * 2000]) is None
    assert cause_of(["NCCL_NETIB" * 6000]) is None
