"""Which failure explains a run: clocks, doubts, echoes, torchrun's own report, and what a stop did."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.plan.model import Task
from distui.run.verdict.old import Evidence, Exit, corrected, first_failure, stopped_by_us
from fakehosts.runs import plan_for

PLAN = plan_for("h1", "h2", "h3")
ECHO = "RuntimeError: Connection closed by peer [10.0.0.11]:4711"
ROOT = "torch.OutOfMemoryError: CUDA out of memory."


def evidence(
    index: int, at: float, *lines: str, code: int | None = 1, doubt: float = 0.002, **exit: object
) -> Evidence:
    """A task that ended badly at `at`."""
    task = PLAN.tasks[index]
    return Evidence(task, Exit(code, **exit), at, doubt, {task.ranks[0]: lines})  # type: ignore[arg-type]


def first(*given: Evidence, announced: int | None = None) -> tuple[int | None, str]:
    """Rank and words of the first failure."""
    found = first_failure(given, announced)
    assert found is not None
    return found[1].rank, found[1].words


def test_nothing_failed() -> None:
    """No evidence, no failure."""
    assert first_failure([]) is None


def test_the_earliest_end_explains() -> None:
    """By time, whatever the order in which news came."""
    assert first(evidence(2, 10.0), evidence(0, 9.0, code=3), evidence(1, 11.0)) == (0, "exit 3")


def test_clocks_are_corrected() -> None:
    """h2's clock is 5 s ahead: its end at 12.0 was at 7.0 here, before h1's at 9.0."""
    at = corrected(12.0, 5000.0, otherwise=0.0)
    assert at == 7.0
    assert first(evidence(0, 9.0), evidence(1, at)) == (1, "exit 1")
    assert corrected(None, 5000.0, otherwise=3.0) == 3.0
    assert corrected(12.0, None, otherwise=3.0) == 12.0


def test_an_echo_within_the_doubt_is_not_first() -> None:
    """Ends closer than the clocks can tell: the one that names a cause of its own explains the other."""
    assert first(evidence(0, 10.00, ECHO), evidence(1, 10.04, ROOT)) == (1, "exit 1")
    assert first(evidence(0, 10.0, ECHO, doubt=0.5), evidence(1, 10.9, ROOT, doubt=0.5)) == (1, "exit 1")


def test_an_echo_long_before_is_first() -> None:
    """Beyond any doubt of the clocks, time decides."""
    assert first(evidence(0, 10.0, ECHO), evidence(1, 12.0, ROOT))[0] == 0


def test_the_headline_stays_among_equals() -> None:
    """What was announced is not replaced by one that is only as good."""
    one, two = evidence(0, 10.01), evidence(1, 10.0)
    assert first(one, two)[0] == 1
    assert first(one, two, announced=0)[0] == 0


def test_the_failure_in_full() -> None:
    """Cause, hint and last lines come from the failed rank."""
    found = first_failure([evidence(1, 10.0, "epoch 1", ROOT)])
    assert found is not None
    key, failure = found
    assert (key, failure.host, failure.exit, failure.at) == (1, "h2", 1, 10.0)
    assert failure.cause == "the GPU ran out of memory"
    assert failure.hint
    assert failure.excerpt == ("epoch 1", ROOT)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (Exit(137, oom=True), "out of memory: the kernel killed it (exit 137)"),
        (Exit(137), "killed by SIGKILL, exit 137"),
        (Exit(None, error="its container was removed by somebody else"), "its container was removed by somebody else"),
        (Exit(None), "ended without an exit status"),
    ],
)
def test_ends_in_words(end: Exit, words: str) -> None:
    """137 alone is no out-of-memory; an end nobody saw has words too."""
    assert first(Evidence(PLAN.tasks[0], end, 1.0, 0.0, {}))[1] == words


def torchrun_task() -> Task:
    """A task of two ranks."""
    task = plan_for("h1", launcher="torchrun", ranks=None, command=("train.py",)).tasks[0]
    return dataclasses.replace(task, ranks=(0, 1))


REPORT = (
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-01-01_00:00:00",
    "  rank      : 1 (local_rank: 1)",
    "  exitcode  : -11 (pid: 33)",
)


def test_torchrun_names_the_rank() -> None:
    """Its report wins over the task's own exit status, and that rank's lines are shown."""
    told = Evidence(torchrun_task(), Exit(1), 1.0, 0.0, {None: REPORT, 0: ("fine",), 1: ("segv",)})
    found = first_failure([told])
    assert found is not None
    assert (found[1].rank, found[1].exit, found[1].excerpt) == (1, 139, ("segv",))


def test_an_echo_of_another_rank_is_no_cause() -> None:
    """Rank 1 failed by itself, rank 0 of the same task says that a peer went away: that is not why rank 1 failed."""
    own = ("RuntimeError: mat1 and mat2 shapes cannot be multiplied",)
    told = Evidence(torchrun_task(), Exit(1), 1.0, 0.0, {None: REPORT, 0: (ECHO,), 1: own})
    found = first_failure([told])
    silent = first_failure([dataclasses.replace(told, tails={None: REPORT, 0: (ECHO,), 1: ()})])
    assert found is not None and (found[1].rank, "peer" in found[1].cause) == (1, False)
    assert silent is not None and "compiled code" in silent[1].cause  # its exit status says more than the echo


def test_torchrun_names_a_rank_by_its_place() -> None:
    """With c10d torchrun numbers the ranks as it likes: its RANK 1 is rank 3, the second on its host."""
    task = dataclasses.replace(torchrun_task(), ranks=(2, 3))
    found = first_failure([Evidence(task, Exit(1), 1.0, 0.0, {None: REPORT, 2: ("fine",), 3: ("segv",)})])
    assert found is not None
    assert (found[1].rank, found[1].exit, found[1].host, found[1].excerpt) == (3, 139, "h1", ("segv",))


@pytest.mark.parametrize("zone", [0, 2 * 3600, -8 * 3600, 5 * 3600 + 2700])
def test_torchruns_report_tells_when_the_rank_failed(zone: int) -> None:
    """The second of the report, not the container's end 30 s later, whatever the container's time zone is.

    The host's clock is 100 s ahead of ours, and node 1 had failed and ended before node 0 ended.
    """
    finished = 1767225600 + 30.25
    at = corrected(finished, 100_000.0, otherwise=0.0)
    told = Evidence(torchrun_task(), Exit(1, finished_at=finished), at, 0.0, {None: report(1767225600 + zone)})
    found = first_failure([told, evidence(1, at - 20.0)])
    assert found is not None
    assert (found[1].rank, found[1].at) == (1, 1767225500.5)
    assert found[1].host == "h1"


def report(second: int) -> tuple[str, ...]:
    """The report with that second, as a container of some time zone writes it."""
    text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d_%H:%M:%S")
    return tuple(line.replace("2026-01-01_00:00:00", text) for line in REPORT)


def test_seconds_of_a_report_that_are_too_close_are_ordered_by_words() -> None:
    """Whole seconds can't tell two nodes apart: the one that only echoes a peer's failure was not first."""
    node = Evidence(torchrun_task(), Exit(1, finished_at=1767225605.0), 1767225605.0, 0.0, {None: (*REPORT, ECHO)})
    found = first_failure([node, evidence(1, 1767225600.9, ROOT)])
    assert found is not None
    assert found[1].host == "h2"


def test_a_failure_is_never_after_its_container_s_end() -> None:
    """When the report's second is that of the end."""
    node = Evidence(torchrun_task(), Exit(1, finished_at=1767225600.2), 1767225600.2, 0.0, {None: REPORT})
    found = first_failure([node])
    assert found is not None
    assert found[1].at == 1767225600.2


def test_torchrun_without_a_report_blames_no_rank() -> None:
    """Two ranks in one task and no word which: the host is named, all lines are shown."""
    found = first_failure([Evidence(torchrun_task(), Exit(1), 1.0, 0.0, {None: ("nope",), 0: ()})])
    assert found is not None
    assert (found[1].rank, found[1].host, found[1].excerpt) == (None, "h1", ("nope",))


@pytest.mark.parametrize(
    ("code", "after", "ours"),
    [
        (143, 0.5, True),
        (137, 0.5, True),
        (1, 0.5, True),
        (0, 0.5, True),
        (143, -0.01, True),
        (1, -0.01, False),
        (143, -1.0, False),
        (None, 0.5, False),
    ],
)
def test_what_a_stop_did(code: int | None, after: float, ours: bool) -> None:
    """After the stop began every end is its effect; within the clocks' doubt before it, only a stop's own status."""
    assert stopped_by_us(Exit(code), 10.0 + after, 10.0, 0.05) is ours


def test_out_of_memory_is_never_a_stop() -> None:
    """The kernel's word is kept."""
    assert not stopped_by_us(Exit(137, oom=True), 11.0, 10.0, 0.05)
    assert not stopped_by_us(Exit(143), 11.0, None, 0.05)


def test_bad_ends() -> None:
    """Status 0 is good unless the engine says out of memory; no status is bad."""
    assert [Exit(c, oom=o).bad for c, o in ((0, False), (0, True), (1, False), (None, False))] == [
        False,
        True,
        True,
        True,
    ]


@given(st.permutations(range(3)), st.lists(st.floats(0, 1e6), min_size=3, max_size=3))
def test_the_order_of_news_never_matters(order: list[int], times: list[float]) -> None:
    """Any order of the same evidence names the same failure."""
    given_ = [evidence(i, times[i]) for i in range(3)]
    assert first(*given_) == first(*(given_[i] for i in order))
