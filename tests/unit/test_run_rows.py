"""Ranks of a run as rows to read, and what followed the first failure."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.plan.model import HostNetwork, Task
from distui.runs.lines.events import (
    AttemptEnded,
    Carried,
    Event,
    Failure,
    FailureFound,
    GpuReading,
    HostSampled,
    LogLine,
    LogLines,
    NetworkUsed,
    Notice,
    RankChanged,
    RankSilent,
    RunEnded,
    RunOpened,
    StopAsked,
)
from distui.runs.lines.severity import severity
from distui.runs.report.aftermath import aftermath, troubles
from distui.runs.report.history import RunRow
from distui.runs.report.rank_rows import RankRow, Tone, network_name, numbers, rank_row, remark
from distui.runs.report.run_words import attempt_words, failure_words, took_words
from distui.runs.series.measure import Measure
from distui.runs.state.load import carried_by_another, data_rate, link_share, load, used_networks
from distui.runs.state.reducer import RunState, apply
from distui.tui.run.around.strip import fabric_words
from fakehosts.runs import plan_for

TASK = Task(0, "t0", "h1", "docker", ("docker",), "", 0, (0, 1), (0, 1), None, {}, (), "", "", {}, ())


def state(*events: Event) -> RunState:
    """The state after these, of a run with ranks 0 and 1 on h1 and 2 on h2."""
    made = apply(RunState(), RunOpened(100.0, "r", "j", "env", None, {0: "h1", 1: "h1", 2: "h2"}, {0: (0, 1), 1: (2,)}))
    for event in events:
        made = apply(made, event)
    return made


def row(known: RunState, rank: int = 0, now: float = 200.0, *, spoke: bool = True) -> tuple[str, str, str]:
    """Sign, word and tone of a rank."""
    made = rank_row(rank, TASK, (0,), known, now=now, stall_after=60.0, spoke=spoke)
    return made.sign, made.word, made.tone


def test_beside_the_owner_a_rank_is_quiet_when_that_one_says_so() -> None:
    """It may draw a progress bar, which is in no log until its line ends. Whoever owned it before may have said so."""
    spoken = LogLines(110.0, 0, 0, "h1", [LogLine("stdout", "x")])
    beside = dataclasses.replace(state(RankChanged(100.0, 0, "h1", "running"), spoken), beside=True)
    quiet = apply(beside, RankSilent(180.0, 0, "h1", True, 70.0))
    again = apply(quiet, dataclasses.replace(spoken, at=190.0))
    assert [row(one)[1] for one in (beside, quiet, again)] == ["ok", "quiet", "ok"]
    assert row(dataclasses.replace(beside, beside=False))[1] == "quiet"


def with_rank(**changes: object) -> RunState:
    """A run whose rank 0 is so."""
    made = state()
    known = dataclasses.replace(made.ranks[0], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(made, ranks={**made.ranks, 0: known})


@pytest.mark.parametrize(
    ("changes", "spoke", "want"),
    [
        ({"state": "waiting"}, False, ("starting", "wait", "muted")),
        ({"state": "running"}, False, ("starting", "no line", "muted")),
        ({"state": "running", "last_line_at": 190.0}, True, ("running", "ok", "")),
        ({"state": "running", "last_line_at": 100.0}, True, ("quiet", "quiet", "watch")),
        ({"state": "exited", "exit": 0}, True, ("ended", "done", "muted")),
        ({"state": "exited", "exit": 3}, True, ("ended", "exit 3", "muted")),
        ({"state": "oom", "exit": 137}, True, ("oom", "OOM", "wrong")),
        ({"state": "killed", "words": "killed by SIGSEGV (x)"}, True, ("ended", "SIGSEGV", "muted")),
        ({"state": "lost"}, True, ("lost", "lost", "watch")),
        ({"state": "never_started"}, False, ("ended", "no start", "muted")),
    ],
)
def test_a_rank_in_a_word(changes: dict[str, object], spoke: bool, want: tuple[str, str, str]) -> None:
    """Every state has a sign, a word and a tone."""
    assert row(with_rank(**changes), spoke=spoke) == want


def test_a_busy_gpu_is_not_quiet() -> None:
    """A rank that says nothing while its GPU works is at work."""
    known = with_rank(state="running", last_line_at=100.0)
    busy = apply(known, HostSampled(199.0, "h1", (GpuReading(0, 90.0),)))
    assert row(busy)[0] == "running"
    idle = apply(known, HostSampled(199.0, "h1", (GpuReading(0, 1.0),)))
    assert row(idle)[0] == "quiet"


def failed() -> RunState:
    """Rank 1 fails at 150, the others are stopped 2 s later, the hosts are clean at 154."""
    failure = Failure(1, "h1", 1, "exit 1", excerpt=("Traceback", "ValueError: bad"), at=150.0)
    return state(
        Notice(149.5, "warning", "Xid 94", "h1"),
        Notice(10.0, "warning", "long ago", "h1"),
        RankChanged(150.1, 1, "h1", "exited", 1, words="exit 1"),
        StopAsked(150.5, "failure", 30.0),
        RankChanged(152.0, 0, "h1", "stopped", 143, words="stopped by distui (exit 143)"),
        RankChanged(152.2, 2, "h2", "stopped", 143, words="stopped by distui (exit 143)"),
        RunEnded(154.0, "failed", 1, failure),
    )


def test_what_followed_the_first_failure() -> None:
    """Zero is the failure; evidence stands before it, ranks that ended alike are one row, the promise is last."""
    rows = [(round(m.after, 1), m.who, m.what, m.tone) for m in aftermath(failed())]
    assert rows == [
        (-0.5, "h1", "warning", "watch"),
        (0.0, "01", "exit 1", "wrong"),
        (0.5, "distui", "stop", "muted"),
        (2.0, "00 02", "stopped", "muted"),
        (4.0, "distui", "cleaned up", "good"),
    ]


def test_what_is_left_is_said() -> None:
    """When something may still be on a host, the last row says so instead of the promise."""
    ended = dataclasses.replace(failed().ended or RunEnded(0, "failed", 1), leftovers=("container x on h2",))
    last = aftermath(apply(failed(), ended))[-1]
    assert (last.what, last.words, last.tone) == ("left over", "container x on h2", "watch")


def test_what_went_wrong_without_a_failure() -> None:
    """Warnings and errors since the start, the last ones; what is only told is none."""
    known = state(Notice(101.0, "info", "hello"), *(Notice(102.0 + i, "error", f"no {i}", "h1") for i in range(9)))
    rows = troubles(known, 2)
    assert [(m.after, m.who, m.words, m.tone) for m in rows] == [
        (9.0, "h1", "no 7", "wrong"),
        (10.0, "h1", "no 8", "wrong"),
    ]


def test_how_earlier_attempts_failed_stays_in_sight() -> None:
    """Whoever looks at the second attempt sees why there is one; warnings of the first went with it."""
    first = Failure(1, "h1", 1, "exit 1", excerpt=("Traceback", "ValueError: bad"), at=110.0)
    nobody = Failure(None, "", None, "no node joined", "a firewall", name="the launcher")
    began = state(
        Notice(105.0, "warning", "long ago", "h1"),
        AttemptEnded(112.0, 1, 3, first, 2.0),
        AttemptEnded(120.0, 2, 3, nobody, 2.0),
        Notice(121.0, "warning", "now", "h1"),
    )
    before = [
        (10.0, "01", "attempt 1", "exit 1, ValueError: bad", "wrong"),
        (20.0, "the launcher", "attempt 2", "no node joined, a firewall", "wrong"),
    ]
    rows = [(m.after, m.who, m.what, m.words, m.tone) for m in troubles(began)]
    assert rows == [*before, (21.0, "h1", "warning", "now", "watch")]
    ended = aftermath(apply(began, FailureFound(150.0, Failure(1, "h1", 1, "exit 1", at=150.0))))
    assert [(m.after, m.what, m.tone) for m in ended] == [
        (-40.0, "attempt 1", "watch"), (-30.0, "attempt 2", "watch"), (-29.0, "warning", "watch"),
        (0.0, "exit 1", "wrong"),
    ]  # fmt: skip


def test_a_clock_that_was_set_back_between_attempts_hides_no_warning() -> None:
    """What was said in an attempt is told by its place, not by its time; also when many were said before."""
    first = Failure(1, "h1", 1, "exit 1", at=110.0)
    before = [Notice(105.0, "warning", "before", "h1")] * 150
    ended = AttemptEnded(112.0, 1, 3, first, 2.0)
    began = state(*before, ended, Notice(60.0, "error", "refused", "h2"), AttemptEnded(61.0, 2, 3, None, 2.0))
    now = apply(began, Notice(30.0, "warning", "now", "h1"))
    assert [(m.what, m.words) for m in troubles(now)] == [
        ("attempt 1", "exit 1"), ("attempt 2", "refused"), ("warning", "now"),
    ]  # fmt: skip
    for number in range(100):
        now = apply(now, Notice(31.0, "warning", f"more {number}", "h1"))
    assert [m.words for m in troubles(now, 200)] == ["exit 1", "refused", "now", *(f"more {n}" for n in range(100))]


def test_an_attempt_that_could_not_start_says_why() -> None:
    """In the middle, and as the last one, after which the failure of the run is that of the attempt before."""
    first = Failure(1, "h1", 1, "exit 1", at=110.0)
    began = state(AttemptEnded(112.0, 1, 3, first, 2.0), Notice(115.0, "error", "h2: no image", "h2"))
    middle = troubles(apply(began, AttemptEnded(116.0, 2, 3, None, 2.0)))
    assert [(m.who, m.what, m.words) for m in middle] == [
        ("01", "attempt 1", "exit 1"), ("distui", "attempt 2", "h2: no image")
    ]  # fmt: skip
    last = aftermath(apply(began, RunEnded(116.0, "failed", 1, first, attempt=2, attempts=3)))
    assert [(m.after, m.who, m.what, m.words) for m in last if m.tone == "wrong"] == [
        (0.0, "01", "exit 1", ""), (6.0, "distui", "attempt 2", "h2: no image")
    ]  # fmt: skip


def test_without_a_failure_nothing_followed() -> None:
    """A run that goes well has no timeline."""
    assert aftermath(state()) == []


def test_the_first_failure_is_marked_and_times_count_from_it() -> None:
    """The list says who was first, and how long after it the others ended."""
    known = failed()
    first = rank_row(1, TASK, (1,), known, now=200, stall_after=60, spoke=True)
    other = rank_row(0, TASK, (0,), known, now=200, stall_after=60, spoke=True)
    assert (first.sign, first.tone, first.after) == ("failed", "wrong", 0.0)
    assert (other.word, other.after) == ("stopped", 2.0)


@pytest.mark.parametrize(
    ("ranks", "want"),
    [([], ""), ([3], "03"), ([0, 1], "00 01"), ([0, 1, 2, 5, 7, 8, 9], "00-02 05 07-09")],
)
def test_numbers_of_ranks(ranks: list[int], want: str) -> None:
    """Three and more in a row are a range."""
    assert numbers(ranks) == want


@given(st.sets(st.integers(0, 300), max_size=40))
def test_numbers_name_every_rank_once(ranks: set[int]) -> None:
    """The short form can be read back."""
    output: list[int] = []
    for part in numbers(sorted(ranks)).split():
        first, _, last = part.partition("-")
        output += range(int(first), int(last or first) + 1)
    assert output == sorted(ranks)


def test_loads_and_rates() -> None:
    """The load of a rank is that of its GPUs; the rate is that of the RDMA ports, else of the interface."""
    sample = HostSampled(1.0, "h1", (GpuReading(0, 90.0), GpuReading(1, 70.0), GpuReading(2)), {
        "eth0": (1.0, 2.0), "mlx5_0:1": (10.0, 20.0), "mlx5_1:1": (30.0, 40.0),
    })  # fmt: skip
    assert (load(sample, (0, 1)), load(sample, (2,)), load(None, (0,))) == (80.0, None, None)
    rdma = HostNetwork("h1", "10.0.0.1", "eth0", "ib", ("mlx5_0:1", "mlx5_1:1"))
    assert (data_rate(rdma, sample), network_name(rdma)) == ((40.0, 60.0), "mlx5_0-1")
    few = dataclasses.replace(rdma, hcas=tuple(f"mlx5_{number}:1" for number in (3, 4, 6)))
    assert network_name(few) == "mlx5_3 +2", "mlx5_5 is of another network"
    assert network_name(dataclasses.replace(few, hcas=("mlx5_9", "mlx5_11", "mlx5_10"))) == "mlx5_9-11"
    tcp = dataclasses.replace(rdma, rdma_off=True)
    assert (data_rate(tcp, sample), network_name(tcp)) == ((1.0, 2.0), "eth0")
    assert data_rate(None, sample) is None


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("ValueError: no", "error"),
        ("NCCL WARN x", "warn"),
        ("UserWarning: y", "warn"),
        ("step 3 loss 2.1", ""),
        ("0 errors", ""),
    ],
)
def test_severity(text: str, want: str) -> None:
    """Words that judge a line."""
    assert severity(text) == want


@pytest.mark.parametrize(
    ("loud", "want"),
    [
        ([], ""),
        ([(13, "quiet", "watch")], "13 quiet"),
        ([(1, "quiet", "watch"), (2, "exit 1", "wrong")], "02 exit 1"),
        ([(r, "lost", "watch") for r in (1, 3, 5, 7)], "4 lost"),
    ],
)
def test_what_to_look_at_on_a_host(loud: list[tuple[int, str, Tone]], want: str) -> None:
    """What is wrong before what is to be watched; numbers where they fit, else how many."""
    fine = RankRow(0, "h1", (), "running", "ok")
    assert remark([fine, *(RankRow(r, "h1", (), "x", word, tone) for r, word, tone in loud)]) == want


def test_how_much_of_its_link_a_host_uses() -> None:
    """Of the direction that uses more; nothing where the speed is not known."""
    sample = HostSampled(1.0, "h1", (), {"eth0": (2e9, 1e9)})
    assert link_share(HostNetwork("h1", "10.0.0.1", "eth0", "tcp", speed_mbps=200_000), sample) == 0.08
    assert link_share(HostNetwork("h1", "10.0.0.1", "eth0", "tcp"), sample) is None
    assert link_share(HostNetwork("h1", "10.0.0.1", "ib0", "tcp", speed_mbps=200_000), sample) is None


def test_gloo_uses_the_interface_whatever_rdma_ports_there_are() -> None:
    """One rule for what is measured, shown and watched: the ports count only where the backend can use them."""
    rdma = HostNetwork("h1", "10.0.0.1", "eth0", "roce", ("mlx5_0:1",), speed_mbps=200_000)
    made = dataclasses.replace(plan_for("h1"), networks=(rdma,), backend="nccl")
    sample = HostSampled(1.0, "h1", (), {"eth0": (2e9, 1e9), "mlx5_0:1": (0.0, 0.0)})
    (by_nccl,), (by_gloo,) = (
        used_networks(dataclasses.replace(made, backend=backend)).values() for backend in ("nccl", "gloo")
    )
    assert (network_name(by_nccl), data_rate(by_nccl, sample), link_share(by_nccl, sample)) == ("mlx5_0", (0, 0), 0)
    assert (network_name(by_gloo), data_rate(by_gloo, sample), link_share(by_gloo, sample)) == (
        "eth0",
        (2e9, 1e9),
        0.08,
    )
    assert (fabric_words([by_nccl]), fabric_words([by_gloo])) == ("RDMA over mlx5_0", "TCP over eth0")
    measured = {one.name: value for one, value in Measure(dataclasses.replace(made, backend="gloo")).figures(sample)}
    assert (measured["net_rx"], measured["net_tx"]) == (2e9, 1e9)
    assert not used_networks(dataclasses.replace(made, networks=(dataclasses.replace(rdma, rdma_off=True),)))["h1"].hcas


def test_which_other_interface_carries_it() -> None:
    """Only where that is worth a warning, and more than went over what the plan chose."""
    mine = (Carried("h1", "ib0", 10, 10, planned=True), Carried("h1", "eth0", 400, 400), Carried("h1", "lo", 9999, 0))
    used = NetworkUsed(1.0, "begun", "eth0 98 %", mine, ("800 B went over eth0",))
    assert (carried_by_another(used, "h1"), carried_by_another(used, "h2")) == ("eth0", "")
    assert carried_by_another(replace(used, warnings=()), "h1") == carried_by_another(None, "h1") == ""


def test_a_run_in_the_words_of_a_list() -> None:
    """How long it took where that is known, or since when it is on its way; what failed, with its cause."""
    row = RunRow("r", "j", "failed", ("h1",), 2, "ann@desk", time.time() - 3600, 9.0, 1, live=True)
    assert [took_words(row), took_words(replace(row, took=None))] == ["9s", ""]
    assert took_words(replace(row, took=None, state="retrying", live=True)) == "1h"
    assert took_words(replace(row, took=None, state="detached", live=False)) == ""
    assert (attempt_words(row), attempt_words(replace(row, attempt=2, attempts=3))) == ("", "attempt 2 of 3")
    failed = Failure(1, "h1", 3, "exit 3", "CUDA out of memory")
    assert failure_words(failed) == "r1 h1 exit 3: CUDA out of memory"
    assert failure_words(failed, brief=True) == "r1 h1 CUDA out of memory"
    assert failure_words(replace(failed, cause=""), brief=True) == "r1 h1 exit 3"
    assert failure_words(Failure(None, "", None, "its ranks stood still", name="the run")) == (
        "the run its ranks stood still"
    )
    assert failure_words(None) == ""
