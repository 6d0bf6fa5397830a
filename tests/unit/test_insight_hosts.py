"""What hosts tell beside their ranks where something stands still: connections, GPUs, and what work waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distui.agent.gpu_query import FIELDS
from distui.runs.insight.hang.alone import NETWORK
from distui.runs.insight.hang.explain_hosts import MOST_LINES, with_hosts
from distui.runs.insight.seen.answers import HostAnswer, Process, host_answer
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation

FOUND = Explanation("hang", "every rank has entered all_reduce #31, and it does not end", "likely", (), ("e",), NETWORK)
RANKS = [RankSeen(n, f"h{n // 2 + 1}", Process(100 + n, 1, "python", "S", 0.0, rank=n)) for n in range(4)]
GPUS = {0: (0,), 1: (1,), 2: (0,), 3: (1,)}

ROW: list[Any] = [100, "10.0.0.1:500", "10.0.0.2:600", 64000, 64000, 0, 6, False, 900, 46]
"""What rank 0 sends to rank 2 does not get through."""
OTHER: list[Any] = [102, "10.0.0.2:600", "10.0.0.1:500", 0, 0, 0, 0, False, 900, 0]


def reported(*rows: list[Any], other: Any = (OTHER,), found: Explanation = FOUND, **said: Any) -> Explanation:
    """What is said where h1 tells this."""
    answers = {
        "h1": host_answer("h1", {"connections": list(rows), **said}),
        "h2": host_answer("h2", {"connections": list(other)}),
    }
    return with_hosts(found, RANKS, answers, GPUS)


def test_what_is_sent_and_never_answered() -> None:
    """Between which ranks, how much, and between which hosts to look."""
    found = reported(ROW)
    assert found.evidence == (
        "e",
        "rank 0 on h1: 64 kB for rank 2 on h2 wait to be sent, sent again 6 times without an answer"
        "; 46 of 900 segments were sent again so far",
    )
    assert found.advice == "look at the network between h1 and h2: what h1 sends is not answered"
    assert replace(found, evidence=FOUND.evidence, advice=NETWORK) == FOUND


def test_what_two_ranks_of_one_host_send_each_other() -> None:
    """No network between hosts carries it: the advice names another connection's, or stays as it was."""
    own = [100, "10.0.0.1:500", "10.0.0.1:700", 64000, 64000, 0, 9, False, 900, 46]
    end = [101, "10.0.0.1:700", "10.0.0.1:500", 0, 0, 0, 0, False, 900, 0]
    found = reported(own, end)
    assert "rank 0 on h1: 64 kB for rank 1 on h1 wait to be sent, sent again 9 times" in found.evidence[1]
    assert found.advice == NETWORK
    assert reported(own, end, ROW).advice == "look at the network between h1 and h2: what h1 sends is not answered"


def test_ranks_of_one_host_have_no_network_between_them() -> None:
    """As where a kernel of the only rank does not end."""
    answers = {"h1": host_answer("h1", {})}
    assert with_hosts(FOUND, RANKS[:2], answers, GPUS).advice == (
        "look at what the GPUs of h1 were given before, and at the links between them: all ranks are there"
    )
    assert with_hosts(FOUND, RANKS[:2], answers, {}).advice == "look at what ranks do on h1"


def test_what_nobody_makes_room_for() -> None:
    """The network carries, and nobody reads at the other end: that is no reason to look at the network."""
    found = reported([*ROW[:6], 0, True, None, None])
    assert found.evidence[1:] == (
        "rank 0 on h1: 64 kB for rank 2 on h2 wait to be sent, for which nobody makes room there",
    )
    assert found.advice == NETWORK


@pytest.mark.parametrize(
    ("row", "other", "words"),
    [
        ([*ROW[:6], 2, False, 900, 3], (OTHER,), "rank 0 on h1: 64 kB for rank 2 on h2 wait to be sent, sent again 2"),
        ([0, *ROW[1:6], 2, False, 9, None], (OTHER,), "h1: 64 kB for rank 2 on h2 wait to be sent, sent again 2"),
        ([*ROW[:8], 9, 0], (), "rank 0 on h1: 64 kB for 10.0.0.2:600 wait to be sent, sent again 6 times"),
        ([*ROW[:8], 9, 0], ([102, "10.0.0.2:7", *OTHER[2:]],), "rank 0 on h1: 64 kB for h2 wait to be sent"),
        ([*ROW[:6], 2, True, 9, 0], (OTHER,), "wait to be sent, asked for room 2 times without an answer"),
        (None, (OTHER,), ""),
        ([*ROW[:6], 1, False, 900, 0], (OTHER,), ""),
        ([*ROW[:3], 0, *ROW[4:]], (OTHER,), ""),
        ([*ROW[:4], 0, *ROW[5:]], (OTHER,), ""),
        ([0, *ROW[1:]], (), ""),
        ([0, "10.0.0.1:22", "10.0.0.1:600", *ROW[3:]], (OTHER,), ""),
        (["x"] * 10, (OTHER,), ""),
        (ROW[:9], (OTHER,), ""),
    ],
    ids=["sent again twice", "whose is not seen", "to nobody known", "to that host", "no room and no answer",
         "none", "sent again once", "has just begun", "is over", "a stranger's", "the host's own", "rubbish", "short"],
)  # fmt: skip
def test_what_is_said_of_a_connection(row: list[Any] | None, other: Any, words: str) -> None:
    """Something always waits in a busy one; that of another program is no rank's."""
    lines = reported(*([row] if row else ()), other=other).evidence[1:]
    assert len(lines) == bool(words)
    assert all(words in line for line in lines)


def test_few_connections_are_reported() -> None:
    """The ones that were tried most often."""
    rows = [[100, f"10.0.0.1:{n}", "10.0.0.2:600", 9, 9, 0, n, False, None, None] for n in range(2, 12)]
    lines = reported(*rows).evidence[1:]
    assert len(lines) == MOST_LINES + 1 and "sent again 11 times" in lines[0]
    assert lines[-1] == "something waits in 6 more connections"


def cells(load: str, power: str) -> str:
    """A row of nvidia-smi, of an H100."""
    known = {"index": "0", "utilization.gpu": load, "power.draw": power, "power.limit": "700.00"}
    return ", ".join(known.get(name, "1") for name in FIELDS)


@pytest.mark.parametrize(
    ("first", "second", "lines"),
    [
        (
            ("100", "121.20"), ("100", "640.00"),
            ["rank 2: GPU at work (640 W)",
             "rank 0: GPU busy at low power (121 W), as with NCCL's kernels that wait for others"],
        ),
        (
            ("100", "121.20"), ("100", "130.00"),
            ["ranks 0,2: GPU busy at low power (121 to 130 W), as with NCCL's kernels that wait for others"],
        ),
        (("99", "600"), ("0", "70"), ["rank 0: GPU at work (600 W)", "rank 2: GPU idle (70 W)"]),
        (("0", "70"), ("0", "70"), []),
        (("60", "300"), ("[N/A]", "[N/A]"), []),
    ],
)  # fmt: skip
def test_what_gpus_do(first: tuple[str, str], second: tuple[str, str], lines: list[str]) -> None:
    """NCCL's kernels spin at full load and at low power; where none is at work there is nothing to say."""
    answers = {
        host: HostAnswer(host, gpus={"fields": list(FIELDS), "rows": [cells(*row)]})
        for host, row in (("h1", first), ("h2", second))
    }
    assert with_hosts(FOUND, RANKS, answers, GPUS).evidence[1:] == tuple(lines)


def test_what_work_waits_for() -> None:
    """A host short of CPU or memory, as far as it is much."""
    found = reported(pressure={"cpu": 81.4, "io": 3.0, "memory": 40.0})
    assert found.evidence[1:] == ("h1: work waited for cpu 81 %, memory 40 % of the last 10 s",)


def test_of_a_run_that_goes_on_nothing_is_said() -> None:
    """There is always something that waits."""
    going = replace(FOUND, kind="moving")
    assert reported(ROW, found=going, pressure={"cpu": 90.0}) == going
