"""Exit status 0 that is no success, and replicas that do not hold the same: the pure rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from distui.runs.ending import review
from distui.runs.store.runs import RunStore
from distui.runs.verdict import success
from distui.runs.verdict.drift import Drift, Said, compared
from distui.runs.verdict.success import LastWords, Looked, suspicions, suspicious, unmet
from distui.spec.job.job import Launcher, Success
from fakehosts.runs import plan_for

TRACEBACK = ("Traceback (most recent call last):", '  File "t.py", line 3, in <module>', "    raise ValueError(7)")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["step 1", *TRACEBACK, "ValueError: 7"], "the last words are a traceback: ValueError: 7"),
        ([f"[rank0]: {line}" for line in (*TRACEBACK, "ValueError: 7")], "the last words are a traceback"),
        ([*TRACEBACK, "ValueError: 7", "", "  "], "the last words are a traceback"),
        (["\x1b[31mTrace\x1b[0mback (most recent call last):", "  x", "  y", "  z", "ValueError: 7"], "a traceback"),
        (["  Traceback (most recent call last):", '    File "t.py", line 1', "  mine.OwnError"], "traceback"),
        (["Unable to locate sufficient 2 gpus to run this example. Exiting."], "fewer GPUs than it uses"),
        (["AssertionError: Torch not compiled with CUDA enabled", "bye"], "built without CUDA"),
        (["ERROR: no such dataset"], "said last: ERROR: no such dataset"),
        (["error: 404"], "said last: error: 404"),
    ],
)
def test_last_words_that_do_not_go_with_success(lines: list[str], words: str) -> None:
    """They are told as they were said."""
    found = suspicious(lines)
    assert found is not None and words in found


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["", " "],
        ["final loss 0.31"],
        [*TRACEBACK, "ValueError: 7", "caught, going on", "final loss 0.31"],
        [*TRACEBACK, "ValueError: 7", "done"],
        ["CUDA out of memory, batch halved", "step 2", "step 3", "final loss 0.31"],
        ["UserWarning: CUDA initialization: Found no NVIDIA driver on your system."],
        ["Connection closed by peer"],
        ["error rate 0.02"],
        ["error: 0.0312"],
        ["Error: 3.1 %"],
        ["WARNING:root:No space left on device for the cache, going on without it", "bye"],
        ["CUDA out of memory. Tried to allocate 2 GiB; skipping batch", "epoch 3 done"],
        ["HTTPSConnectionPool(host='h', port=443): Read timed out.", "Retrying in 1s [Retry 1/5].", "pushed"],
        ["h1:41:88 [0] NCCL INFO NET/IB : No device found."],
        ["Error analysis written to out.csv"],
    ],
)
def test_an_ordinary_end_is_not_suspicious(lines: list[str]) -> None:
    """An error that was survived, a warning, a peer that ended a moment earlier, a word in a report."""
    assert suspicious(lines) is None


LATE = "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed."


@pytest.mark.parametrize("last", [LATE, "RuntimeError: x", "torch.distributed.DistStoreError: wait timeout"])
def test_torchrun_that_leaves_last_is_not_suspicious(last: str) -> None:
    """The agent of rank 0 took the store along while this one waited for it: torch prints a traceback and goes on.

    As torch 2.13 prints it (elastic/agent/server/api.py, `_exit_barrier`).
    """
    head = "E1126 07:58:12.314000 2071 torch/distributed/elastic/agent/server/api.py:1008] "
    said = [
        "Error waiting on exit barrier. Elapsed: 0.0021 seconds",
        "Traceback (most recent call last):",
        '  File "/x/torch/distributed/elastic/agent/server/api.py", line 993, in _exit_barrier',
        "    store_util.barrier(",
        last,
    ]
    assert suspicious(["W1126 07:58:01.1 2071 one", *(head + line for line in said)]) is None
    assert suspicious([head + line for line in said[1:]]) is not None


@pytest.mark.parametrize("launcher", ["torchrun", "command"])
def test_a_rank_that_torchrun_started_again_is_not_how_it_ended(home: Path, launcher: Launcher) -> None:
    """What it says of it is the last that it says in a good end. Of a script around one, which ends well, it counts."""
    plan = plan_for("h1", launcher=launcher)
    stored = RunStore(home / ".local/state/distui").create("r1")
    head = "E1128 02:26:54.939000 7 torch/distributed/elastic/multiprocessing/api.py:1002] "
    stored.node_log(0).write_text(f"{head}failed (exitcode: -9) local_rank: 0 (pid: 20) of binary: /usr/bin/python3\n")
    found = suspicions([*review._last_words(plan, stored, plan.tasks)])
    assert [words.partition(",")[0] for words in found] == (
        [] if launcher == "torchrun" else ["the launcher on h1 ended with exit 0"]
    )


def test_only_the_end_of_a_long_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing in it is told over several lines."""
    read: list[str] = []
    monkeypatch.setattr(success, "plain", lambda line: read.append(line) or line)
    long = [f"step {n}" for n in range(200)]
    assert suspicious([*long, "ERROR: no such dataset", "", " "]) == "said last: ERROR: no such dataset"
    assert len(read) == 5


def test_ranks_that_say_the_same_are_reported_once() -> None:
    """With their numbers, and how many more."""
    said = ["Unable to locate sufficient 2 gpus to run this example. Exiting."]
    (words,) = suspicions([LastWords(r, "h1", said) for r in range(8)])
    assert words.startswith("rank 0 and 7 more ended with exit 0, but said at the end: Unable to locate")
    two = [LastWords(0, "h1", said), LastWords(1, "h2", ["fine"]), LastWords(None, "h2", said)]
    (words,) = suspicions(two)
    assert words.startswith("rank 0 and the launcher on h2 ended with exit 0")


@pytest.mark.parametrize(
    ("asked", "looked", "words"),
    [
        (Success(regex="done"), Looked(regex=False), "no rank printed a line that matches `success.regex` 'done'"),
        (Success(regex="a"), Looked(regex=False, regex_given_up="takes longer than 0.5 s"), "takes longer than 0.5 s"),
        (
            Success(file="/o"),
            Looked(file_on=(), file_asked=("h1", "h2")),
            "/o of `success.file` is not there (looked on h1",
        ),
        (Success(file="/o"), Looked(file_on=(), file_asked=("h1",), file_errors={"h1": "no answer"}), "h1: no answer"),
        (Success(min_seconds=60), Looked(seconds=1.23), "it was over after 1.2 s, before the 60 s"),
    ],
)
def test_the_part_of_success_that_is_not_met_is_named(asked: Success, looked: Looked, words: str) -> None:
    """One reason each."""
    (reason,) = unmet(asked, looked)
    assert words in reason


def test_success_that_is_met_or_unknown_says_nothing() -> None:
    """A length that no engine told is no reason to fail a run."""
    asked = Success("done", "/o", 60)
    assert unmet(asked, Looked(regex=True, file_on=("h2",), file_asked=("h1", "h2"), seconds=60.0)) == ()
    assert unmet(Success(min_seconds=60), Looked(seconds=None)) == ()
    assert len(unmet(asked, Looked(regex=False, file_on=(), seconds=1.0))) == 3


def said(value: str) -> Said:
    return Said(value, f"loss {value}")


@pytest.mark.parametrize(
    ("values", "drift"),
    [
        ("0.32 0.32 0.32", Drift()),
        ("0.32 0.320 3.2e-1", Drift()),
        ("a1 a1", Drift()),
        ("nan nan", Drift()),
        ("0.32 0.32 0.32 0.41", Drift("rank 3 ended with loss 0.41, the others with loss 0.32", (3,))),
        ("9 0 0 0 7", Drift("rank 0 ended with loss 9, rank 4 ended with loss 7, the others with loss 0", (0, 4))),
        ("0.41 0.32", Drift("rank 0 ended with loss 0.41, rank 1 ended with loss 0.32")),
        ("1 1 2 2", Drift("ranks 0-1 ended with loss 1, ranks 2-3 ended with loss 2")),
        ("12e998 12e999", Drift("rank 0 ended with loss 12e998, rank 1 ended with loss 12e999")),
        ("nan 0.1 0.1", Drift("rank 0 ended with loss nan, the others with loss 0.1", (0,))),
        ("ab 1 1", Drift("rank 0 ended with loss ab, the others with loss 1", (0,))),
        ("1 - 1", Drift(warning="rank 1 printed no line that matches `same`")),
        ("- -", Drift(warning="no rank printed a line that matches `same`: nothing was compared")),
    ],
)
def test_replicas_are_compared(values: str, drift: Drift) -> None:
    """Numbers as numbers; most ranks are the measure; two that differ are both named and none is blamed."""
    assert compared({r: None if v == "-" else said(v) for r, v in enumerate(values.split())}) == drift


def test_many_groups_and_long_words_are_cut() -> None:
    """The words stay short whatever ranks print."""
    drift = compared({r: Said(str(r), "x" * 500) for r in range(40)})
    assert drift.words.endswith("36 more differ, too") and len(drift.words) < 600
