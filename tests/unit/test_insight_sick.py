"""A sick GPU: what its driver and the kernel's log tell, tied to its rank and to what that holds up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.agent.gpu_query import FIELDS
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.hang.explain_gpus import with_gpus
from distui.runs.insight.seen.answers import Collective, Group, HostAnswer, Process, Thread, host_answer
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.sick import Fault, Health, health
from distui.runs.lines.explanation import Explanation, RankPlace

NOW, BOOT, BEGAN = 1_000_000.0, 5000.0, 4000.0
"""The host's clock, its seconds since the boot, and when the run's processes began."""

GPUS = {0: (0,), 1: (1,), 2: (0,), 3: (1,)}
NAMES = [*FIELDS, "gpu_recovery_action"]


def row(index: int, **cells: str) -> str:
    """A row of `nvidia-smi --query-gpu`, as driver 590 prints one for an H100 that is at work."""
    well = {
        "index": str(index), "uuid": f"GPU-{index:08x}-77ab-4c1d-8e5f-000000000000", "utilization.gpu": "100",
        "memory.used": "19818", "memory.total": "81559", "temperature.gpu": "61", "power.draw": "631.95",
        "pci.bus_id": f"00000000:{0x19 + 0x11 * index:02X}:00.0", "clocks.sm": "1980", "power.limit": "700.00",
        "temperature.gpu.tlimit": "26", "clocks_event_reasons.active": "0x0000000000000004",
        "ecc.errors.uncorrected.volatile.total": "0", "gpu_recovery_action": "None",
    }  # fmt: skip
    return ", ".join((well | {name.replace("__", "."): cell for name, cell in cells.items()})[name] for name in NAMES)


def host(name: str = "h2", *rows: str, ahead: float = 0.0, **more: Any) -> HostAnswer:
    """What a host answers of its GPUs."""
    gpus = {
        "fields": NAMES,
        "rows": list(rows) or [row(0), row(1)],
        "boot": BOOT,
        "began": BEGAN,
        "xids": [],
        "order": [],
    }
    return HostAnswer(name, at=NOW + ahead, ahead=ahead, gpus=gpus | more)


def process(number: int, newest: int, *, waits: bool) -> Process:
    """A rank's, whose newest collective is over or not."""
    one = Collective(newest, "nccl:all_reduce", "1000", "Float", int((NOW - 20) * 1e9), not waits)
    group = Group("0:nccl", "default_pg", (one,), newest)
    sleeps = (Thread("python", "S", "hrtimer_nanosleep", 0.0),)
    return Process(
        100 + number, 1, "python", "S", 0.0, threads=sleeps, rank=number, torch="2.9.0", groups={"0:nccl": group}
    )


def ranks(*missing: int) -> list[RankSeen]:
    """Two ranks on each of two hosts; these have not entered #31, the others wait in it since 20 s."""
    own = [process(n, 30, waits=False) if n in missing else process(n, 31, waits=True) for n in range(4)]
    return [RankSeen(n, f"h{n // 2 + 1}", one, at=NOW) for n, one in enumerate(own)]


def reported(answer: HostAnswer, *missing: int, errors: Mapping[tuple[str, int], int] | None = None) -> Explanation:
    """What is said."""
    seen = ranks(*missing)
    return explain(seen, (), health(seen, {"h1": host("h1"), answer.host: answer}, GPUS, errors))


FELL = ["0000:2a:00", 79, BOOT - 32.0]


def test_a_gpu_that_fell_off_the_bus() -> None:
    """Named with the rank and the collective that it holds up, and how long before."""
    lost = (
        "Unable to determine the device handle for GPU1: 00000000:2A:00.0: GPU is lost.  Reboot the system to recover"
    )
    found = reported(host("h2", row(0), lost, xids=[["0000:2a:00", 154, BOOT - 33], FELL]), 3)
    assert (found.kind, found.culprits) == ("hang", (3,))
    assert found.headline == (
        "rank 3 has not entered all_reduce #31 of 1000 Float in the default group, for which ranks 0-2 wait: it sleeps"
        "; its GPU 1 reported Xid 79 (the GPU has fallen off the bus), 12s before"
    )
    assert found.evidence[1:] == (
        "rank 3 on h2: GPU 1 reported Xid 79 (the GPU has fallen off the bus), 12s before",
        "rank 3 on h2: GPU 1 is lost: it has fallen off the bus",
    )
    assert found.advice == "reset GPU 1 of h2 with `nvidia-smi -r` or reboot h2, and leave it out of runs until then"


def test_all_entered_and_one_gpu_is_gone() -> None:
    """NCCL's kernels wait for it: nobody else is at fault."""
    found = reported(host(xids=[FELL]))
    assert (found.kind, found.culprits) == ("hang", (3,)) and found.ranks[0].rank == 3
    assert found.headline == (
        "every rank has entered all_reduce #31 of 1000 Float in the default group, and it does not end; "
        "rank 3's GPU 1 reported Xid 79 (the GPU has fallen off the bus), 12s before"
    )
    well = reported(host())
    assert well.culprits == () and well.headline.endswith("and it does not end")


@pytest.mark.parametrize(
    ("answer", "words", "broken"),
    [
        (host("h2", row(0), row(1, gpu_recovery_action="Reset")), "must be reset (`gpu_recovery_action`)", True),
        (host("h2", row(0), row(1, gpu_recovery_action="Reboot")), "is well only after a reboot of its host", True),
        (host("h2", row(0), row(1, gpu_recovery_action="Drain P2P")), "must be reset once no other GPU talks", True),
        (host("h2", row(0), row(1, gpu_recovery_action="Drain and Reset")), "does no new work until then", True),
        (host(xids=[["0000:2a:00", 31, BOOT - 22]]), "Xid 31 (the program touched memory that is not its own)", False),
        (host(xids=[["0000:2a:00", 31, BOOT - 22], ["0000:2a:00", 48, BOOT - 21]]), "reported Xid 48", True),
        (host(xids=[["0000:2a:00", 9999, BOOT - 22]]), "reported Xid 9999", True),
        (host("h2", row(0), row(1, clocks_event_reasons__active="0x0000000000000048")), "too hot (hardware", False),
        (host("h2", row(0), row(1, clocks_event_reasons__active="0x0000000000000080")), "power brake", False),
    ],
)
def test_what_is_wrong_with_a_gpu(answer: HostAnswer, words: str, broken: bool) -> None:
    """In words; what a program did to itself is no reason to reset anything."""
    found = reported(answer, 3)
    assert words in found.headline and any(line.startswith("rank 3 on h2: GPU 1 ") for line in found.evidence)
    assert ("nvidia-smi -r" in found.advice) is broken
    everyone = reported(answer)
    assert everyone.culprits == ((3,) if broken else ())


@pytest.mark.parametrize(
    "answer",
    [
        host(),
        host("h2", row(0), row(1, gpu_recovery_action="[N/A]", ecc__errors__uncorrected__volatile__total="[N/A]")),
        host(xids=[["0000:2a:00", 79, BEGAN - 60]]),
        host(xids=[["0000:99:00", 79, BOOT - 1]]),
        host(xids=[["0000:2a:00", 154, BOOT - 1]]),
        host(xids=[FELL], began=None),
        host(xids=[["0000:2a:00"], 7, [None, None, None], ["x", "79", "1"]]),
        HostAnswer("h2"),
        HostAnswer("h2", gpus={"fields": 3, "rows": {"a": 1}, "xids": "x", "order": 5}),
    ],
    ids=["well", "not told", "before the run", "of another GPU", "another action", "nobody knows since when", "rubbish",
         "no GPU", "no list"],
)  # fmt: skip
def test_what_is_no_fault(answer: HostAnswer) -> None:
    """A busy GPU at its power limit, an XID of another time, of another GPU, numbers that are none."""
    found = reported(answer, 3)
    assert "GPU" not in found.headline and len(found.evidence) == 1


def test_errors_that_ecc_could_not_correct() -> None:
    """Those of the run are a fault; those of before it are told for what they are."""
    answer = host("h2", row(0), row(1, ecc__errors__uncorrected__volatile__total="5"))
    found = reported(answer, 3, errors={("h2", 1): 3})
    assert "its GPU 1 counted 2 memory errors that ECC could not correct, since the run began" in found.headline
    assert "nvidia-smi -r" in found.advice
    assert len(reported(answer, 3, errors={("h2", 1): 5}).evidence) == 1
    old = reported(answer, 3)
    assert "5 memory errors that ECC could not correct, since its driver was loaded" in old.headline
    assert old.advice == "", "nobody knows whether it is of this run"


def test_what_can_t_be_seen_is_said_where_something_stands() -> None:
    """A kernel's log that this login may not read, and a driver that does not answer."""
    found = reported(host(xids=None), 3)
    assert (
        "h2: whether its GPUs reported XIDs is not known, since this login may not read the kernel's log"
        in found.evidence
    )
    assert any(
        "h2: nvidia-smi did not answer in time" in line for line in reported(host("h2", "", silent=True), 3).evidence
    )
    moving = with_gpus(Explanation("moving", "no collective stands still", "certain", ()), Health((), ("h2: x",)), NOW)
    assert moving.evidence == ()


def test_the_clock_of_the_host_is_put_right() -> None:
    """When an XID came is told by ours."""
    assert "12s before" in reported(host(xids=[FELL], ahead=300.0), 3).headline
    late = reported(host(xids=[["0000:2a:00", 79, BOOT - 15]]), 3)
    assert late.headline.endswith("(the GPU has fallen off the bus), 5s after that")


def test_a_gpu_of_a_run_that_goes_on() -> None:
    """Told beside, with how long ago, and nobody is blamed."""
    going = Explanation("moving", "no collective stands still", "certain", (RankPlace(3, "h2", ""),))
    found = with_gpus(going, Health((Fault(3, "h2", 1, "reported Xid 48", True, NOW - 32),)), NOW)
    assert found == Explanation(
        "moving",
        "no collective stands still",
        "certain",
        going.ranks,
        ("rank 3 on h2: GPU 1 reported Xid 48, 32s ago",),
    )


def test_a_lost_gpu_is_numbered_by_the_kernel_s_list() -> None:
    """Older drivers name its address only, and its row is missing."""
    lost = "Unable to determine the device handle for GPU0000:2A:00.0: GPU is lost."
    order = ["0000:19:00.0", "0000:2a:00.0"]
    found = reported(host("h2", row(0), lost, order=order), 3)
    assert "its GPU 1 is lost: it has fallen off the bus" in found.headline
    silent = host("h2", "", silent=True, xids=[FELL], order=order)
    assert "its GPU 1 reported Xid 79" in reported(silent, 3).headline, "where the driver says nothing at all"
    cells = ", ".join(["1", *["[GPU is lost]"] * (len(NAMES) - 1)])
    assert "its GPU 1 is lost" in reported(host("h2", row(0), cells), 3).headline


def test_ranks_that_a_program_started_itself_have_one_gpu_each() -> None:
    """Where there are as many; else each has all of them."""
    seen = [RankSeen(n, "h2", process(n, 31, waits=True), within=0) for n in (0, 1)]
    answers = {"h2": host(xids=[FELL])}
    assert [one.rank for one in health(seen, answers, {0: (0, 1)}).faults] == [1]
    assert [one.rank for one in health(seen, answers, {0: (1,)}).faults] == [0, 1]


def test_two_who_hold_up_the_others() -> None:
    """The headline has the one whose GPU is broken."""
    found = reported(host(xids=[FELL]), 2, 3)
    assert found.culprits == (2, 3) and "; rank 3's GPU 1 reported Xid 79" in found.headline


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
    max_leaves=12,
)


@given(gpus=st.dictionaries(st.sampled_from(["fields", "rows", "xids", "boot", "began", "order", "silent"]), VALUES))
def test_whatever_a_host_says_of_its_gpus(gpus: dict[str, Any]) -> None:
    """It is read, or left out; who holds the others up is known without it, and no other host's ranks are blamed."""
    answer = host_answer("h2", {"at": NOW, "tasks": [], "gpus": gpus | {"at": 1}})
    found = health(ranks(3), {"h2": answer}, GPUS, {})
    assert {fault.rank for fault in found.faults} <= {2, 3}
    said = explain(ranks(3), (), found)
    assert (said.kind, said.culprits) == ("hang", (3,))
