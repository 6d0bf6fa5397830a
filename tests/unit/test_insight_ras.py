"""What NCCL's RAS tells of a run: its answers as they are printed, whose they are, and who holds the others up by them.

The literals have the shape that NCCL's src/ras/client_support.cc prints, in the version that each of them names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from distui.runs.insight.hang.explain import explain
from distui.runs.insight.hang.ras.communicators import Counted, counted, to_be_sure
from distui.runs.insight.hang.ras.report import DEAD, LEFT, SILENT, Communicator, RasProcess, read_report
from distui.runs.insight.seen.answers import Collective, Frame, Group, HostAnswer, Network, Process, Stack, Thread
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.lines.explanation import Explanation
from fakehosts.ras import json_report

NOW = 1000.0

TEXT_2_27 = """\
NCCL version 2.27.7 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.03s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  INCOMPLETE,ERROR,MISMATCH
    1         2         1       1-2         2         4   RUNNING      OK

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 10.0.0.2 managing GPU 5

#0-0 (05f3a9c0e1234567) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 5 -- GPU 5 managed by process 3487984 on node 10.0.0.2
  Rank 7 -- [process information not found]

#0-0 (05f3a9c0e1234567) ERROR
  Asynchronous error on 1 rank
  Rank 1 reported System error -- GPU 1 managed by process 71 on node 10.0.0.1

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (05f3a9c0e1234567) MISMATCH
  Communicator ranks have different status
  5 ranks have status RUNNING
  Rank 4 has status NOCOMM -- GPU 0 (NVML 4) managed by process 74 on node 10.0.0.2
  Communicator ranks have different AllReduce operation counts
  4 ranks have launched up to operation 31
  Rank 2 has launched up to operation 30 -- GPU 2 managed by process 72 on node 10.0.0.1

  Communicator ranks have different Broadcast operation counts
  4 ranks have launched up to operation 1
  Rank 2 has not launched any operations -- GPU 2 managed by process 72 on node 10.0.0.1

"""

TEXT_2_24 = """\
NCCL version 2.24.3 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (5f3a9c0e12345678) MISMATCH
  Communicator ranks have different collective operation counts
  5 ranks have launched up to operation 31
  3 ranks have launched up to operation 30
  Rank 1 -- GPU 1 managed by process 71 on node 10.0.0.1
  Rank 2 -- GPU 2 managed by process 72 on node 10.0.0.1
  Rank 6 -- [process information not found]

"""

MISSING_2_28_7 = """\
{
  "nccl_version": "2.28.7",
  "cuda_runtime_version": 13000,
  "cuda_driver_version": 13000,
  "timestamp": "2026-11-24 04:30:00",
  "communicators_count": 1,
  "communicators": [
    {
      "hash": "0x5f3a9c0e1234567",
      "secondary_hash": "0x1a2b:0x3c4d",
      "size": 2,
      "ranks_count": 1,
      "missing_ranks_count": 1,
      "ranks": [
        {
          "rank": 0,
          "host": "10.0.0.1",
          "pid": 70,
          "cuda_dev": 0,
          "nvml_dev": 0,
          "status": {
            "init_state": 0,
            "async_error": 6,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false
          },
          "collective_counts": {
            "Broadcast": 0,
            "Reduce": 0,
            "AllGather": 0,
            "ReduceScatter": 0,
            "AllReduce": 31
          }
        }
      ],
      "missing_ranks": [
        {
          "rank": 1,
          "host": "10.0.0.2",
          "pid": 71,
          "cuda_dev": 0,
          "nvml_dev": 0
          "status": {
            "unresponsive": true,
            "considered_dead": false
          }
        }
      ]
    }
  ],
  "ras": {
    "collection_time_sec": 2.001,
    "timeouts_count": 1
  }
}
"""


def only(text: str) -> Communicator:
    """The one communicator of an answer."""
    report = read_report(text)
    assert report is not None
    (one,) = report.communicators
    return one


def test_text_of_2_27_7() -> None:
    """Counts of ranks that differ are listed; those of the many are told by how many they are."""
    one = only(TEXT_2_27)
    assert (one.name, one.size) == ("05f3a9c0e1234567", 8)
    assert one.launched == {
        "AllReduce": {2: 30, 0: 31, 1: 31, 3: 31, 6: 31},
        "Broadcast": {2: 0, 0: 1, 1: 1, 3: 1, 6: 1},
    }
    assert one.absent == {4: LEFT, 5: DEAD, 7: SILENT}
    assert one.failed == {1: "System error"}
    assert one.processes[2] == RasProcess("10.0.0.1", 72) and one.processes[4] == RasProcess("10.0.0.2", 74)


def test_text_of_2_24_3() -> None:
    """Its counts are of all operations together."""
    one = only(TEXT_2_24)
    assert one.launched == {"collective": {1: 30, 2: 30, 6: 30, 0: 31, 3: 31, 4: 31, 5: 31, 7: 31}}
    assert one.processes == {1: RasProcess("10.0.0.1", 71), 2: RasProcess("10.0.0.1", 72)}


def test_text_that_lists_nobody_names_nobody() -> None:
    """Half of the ranks each: RAS lists neither half."""
    lines = [line for line in TEXT_2_24.splitlines() if "Rank " not in line]
    text = "\n".join(lines).replace("5 ranks", "4 ranks").replace("3 ranks", "4 ranks")
    assert only(text).launched == {"collective": {}}


def test_json_of_2_28_7_lacks_a_comma() -> None:
    """Of ranks that are missing, just when it is asked for: it is read all the same."""
    one = only(MISSING_2_28_7)
    assert (one.name, one.more, one.size) == ("05f3a9c0e1234567", "0x1a2b:0x3c4d", 2)
    assert one.launched["AllReduce"] == {0: 31} and one.absent == {1: SILENT} and one.failed == {0: ERROR}
    assert one.processes == {0: RasProcess("10.0.0.1", 70), 1: RasProcess("10.0.0.2", 71)}
    assert only(MISSING_2_28_7.replace('"nvml_dev": 0\n', '"nvml_dev": 0,\n')) == one, "as of 2.29.2"


ERROR = "Remote process error"


@pytest.mark.parametrize(
    "text",
    ["", "SSH-2.0", "{", "{}", "[]", '{"nccl_version": 7}', "NCCL version ", '{"nccl_version": "' + "[" * 9999],
)
def test_what_is_no_report_is_none(text: str) -> None:
    """Other programs listen on ports, too."""
    assert read_report(text) is None


def test_what_is_no_part_of_a_report_is_left_out() -> None:
    """Numbers that are none, ranks below zero, counts in words."""
    wild = (
        '{"nccl_version": "2.29.2", "communicators": [7, {"hash": 3, "size": -4, "ranks": [{"rank": -1}, {"rank": 1, '
    )
    wild += (
        '"pid": "x", "collective_counts": {"AllReduce": "many", "Reduce": 2}, "status": 5}, 9], "missing_ranks": 3}]}'
    )
    one = only(wild)
    assert (one.size, one.launched, one.processes, one.absent) == (0, {"Reduce": {1: 2}}, {}, {})


# whose they are


def answers(*texts: str, ranks: int = 4, pid: Any = lambda rank: 70 + rank, **more: Any) -> dict[str, HostAnswer]:
    """Two hosts with half of the ranks each, of which the first asked RAS for these texts, a second apart."""
    found = {}
    for number in range(2):
        those = range(number * ranks // 2, (number + 1) * ranks // 2)
        tasks = {rank: (process(rank, inner=pid(rank)),) for rank in those}
        said = ((NOW - 1, texts[0]), (NOW, texts[-1]))[-len(texts) :] if number == 0 else ()
        networks = (Network(tuple(those), (f"10.0.0.{number + 1}", "127.0.0.1"), (said,)),)
        found[f"h{number + 1}"] = HostAnswer(f"h{number + 1}", tasks, networks=networks, at=NOW, **more)
    return found


def process(number: int, **more: Any) -> Process:
    """A rank's, of a program that is no torch's."""
    sleeps = (Thread("train", "S", "hrtimer_nanosleep", 0.0),)
    return Process(100 + number, 1, "train", "S", 0.0, **({"threads": sleeps} | more))


def seen(found: Mapping[str, HostAnswer], **more: Any) -> list[RankSeen]:
    """The ranks of these answers."""
    rows = [(rank, host, own[0]) for host, answer in found.items() for rank, own in answer.tasks.items()]
    return [RankSeen(rank, host, own, at=NOW, **more) for rank, host, own in rows]


PLACES = [("10.0.0.1", 70), ("10.0.0.1", 71), ("10.0.0.2", 72), ("10.0.0.2", 73)]


def report(counts: Mapping[int, Mapping[str, int]], places: Sequence[tuple[str, int]] = PLACES, **more: Any) -> str:
    """An answer of JSON."""
    return json_report(places, counts, **more)


def all_reduced(*counts: int) -> dict[int, dict[str, int]]:
    """How many each rank has launched."""
    return {rank: {"AllReduce": count} for rank, count in enumerate(counts)}


LAGS = report(all_reduced(31, 31, 30, 31))


def known(*texts: str, before: Sequence[Counted] = (), **more: Any) -> tuple[Counted, ...]:
    """The communicators of the run."""
    found = answers(*texts, **more)
    return counted(seen(found), found, before)


def test_counts_that_do_not_grow_stand_since_the_first_answer() -> None:
    """By the clock of the one that asks; counts that grew go on."""
    (one,) = known(LAGS, LAGS)
    assert (one.since, one.at, one.goes_on, one.stood) == (NOW - 1, NOW, False, 1.0)
    assert one.ranks == {0: 0, 1: 1, 2: 2, 3: 3}
    (one,) = known(LAGS, LAGS, ahead=3.0)
    assert (one.since, one.at) == (NOW - 4, NOW - 3)
    (one,) = known(report(all_reduced(30, 30, 29, 30)), LAGS)
    assert (one.since, one.goes_on) == (NOW, True)
    (one,) = known(LAGS)
    assert (one.since, one.goes_on) == (NOW, False), "asked once only: nobody knows"


def test_the_same_counts_at_an_earlier_look_count() -> None:
    """They only grow; others begin again."""
    (earlier,) = known(LAGS, LAGS)
    old = Counted(earlier.one, earlier.version, {}, NOW - 60, NOW - 50, goes_on=False)
    assert [one.since for one in known(LAGS, LAGS, before=[old])] == [NOW - 60]
    assert [one.since for one in known(LAGS, before=[old])] == [NOW - 60]
    other = report(all_reduced(32, 32, 30, 32))
    assert [one.since for one in known(other, other, before=[old])] == [NOW - 1]


def test_another_job_s_communicators_are_none_of_the_run_s() -> None:
    """The port is shared by the jobs of a user: by process and host, and no larger than the run."""
    foreign = report(all_reduced(1, 2), [("10.0.0.1", 700), ("10.0.0.1", 701)])
    assert known(foreign, foreign) == ()
    elsewhere = report(all_reduced(1, 2), [("10.0.0.9", 70), ("10.0.0.9", 71)])
    assert known(elsewhere, elsewhere) == ()
    larger = report(all_reduced(1, 2, 1, 1, 1), [*PLACES, ("10.0.0.9", 70)])
    assert known(larger, larger) == ()
    more = report(all_reduced(1, 2, 1, 1, 1), [*PLACES, PLACES[0]])
    assert len(known(more, more)) == 1, "a program that starts ranks of its own"


def test_ranks_of_a_part_of_the_run_are_known_by_their_processes() -> None:
    """A communicator of two: its rank 1 is the run's rank 3."""
    pair = report(all_reduced(5, 4), [PLACES[1], PLACES[3]])
    assert [one.ranks for one in known(pair, pair)] == [{0: 1, 1: 3}]
    same = [("10.0.0.1", 7), ("10.0.0.1", 7)]
    found = known(report(all_reduced(5, 4), same), report(all_reduced(5, 4), same), pid=lambda _: 7)
    assert [one.ranks for one in found] == [{}], "in containers all have one number: nobody is named"


def test_a_communicator_of_all_ranks_may_number_them_otherwise() -> None:
    """As their processes tell, unless one number stands for all of them: each container counts from one."""
    one = report(all_reduced(31, 31, 30, 31), [PLACES[3]] * 4)
    assert [each.ranks for each in known(one, one)] == [{0: 0, 1: 1, 2: 2, 3: 3}]
    turned = report(all_reduced(31, 31, 30, 31), PLACES[::-1])
    assert [one.ranks for one in known(turned, turned)] == [{0: 3, 1: 2, 2: 1, 3: 0}]


def test_several_answers_make_up_for_each_other() -> None:
    """A network that is split: each side counts its own ranks, and the others as missing."""
    found = answers(report({0: {"AllReduce": 31}, 1: {"AllReduce": 31}}, missing={2: {"unresponsive": True}, 3: {}}))
    right = report({2: {"AllReduce": 30}}, missing={0: {}, 1: {}, 3: {"considered_dead": True}})
    network = found["h2"].networks[0]
    found["h2"] = HostAnswer(
        "h2", found["h2"].tasks, networks=(Network(network.tasks, network.addresses, (((NOW, right),),)),), at=NOW
    )
    (one,) = counted(seen(found), found)
    assert one.one.launched["AllReduce"] == {0: 31, 1: 31, 2: 30} and set(one.one.absent) == {3}


# who holds the others up


def stood(*texts: str, seconds: float = 20.0, **more: Any) -> Explanation:
    """What is told of communicators that have stood for so long."""
    found = answers(*texts, **more)
    ranks = seen(found)
    before = [Counted(one.one, one.version, {}, NOW - seconds, NOW - 1, goes_on=False) for one in counted(ranks, found)]
    return explain(ranks, counted(ranks, found, before))


def test_the_rank_that_launched_less_is_named() -> None:
    """By RAS alone: no torch, or one without a recorder."""
    found = stood(LAGS, LAGS)
    assert (found.kind, found.certainty, found.culprits) == ("hang", "certain", (2,))
    assert found.headline == (
        "rank 2 has not launched AllReduce #31 in NCCL's communicator of all ranks, for which ranks 0-1,3 wait: "
        "it sleeps"
    )
    assert found.evidence == (
        "NCCL's RAS (2.29.2), communicator 5f3a9c0e12345678: AllReduce launched: 30 by rank 2 on h2, "
        "31 by ranks 0-1,3 on h1, h2",
    )
    assert found.since == NOW - 20 and found.collective == "AllReduce #31 in NCCL's communicator of all ranks"
    first, second, *_ = found.ranks
    assert (first.rank, first.behind, first.place, first.does) == (2, 1, "AllReduce #30", "sleeps")
    assert (second.rank, second.behind, second.does) == (0, 0, "waits in AllReduce #31")


def test_a_moment_is_no_hang() -> None:
    """Ranks launch one after the other: what stands for less than five seconds is looked at again."""
    found = stood(LAGS, LAGS, seconds=2.0)
    assert (found.kind, found.culprits) == ("unseen", ())
    assert "AllReduce launched" in found.evidence[-1]
    assert to_be_sure(known(LAGS, LAGS)) == 4.0
    grown = report(all_reduced(32, 32, 31, 32))
    assert to_be_sure(known(LAGS, grown)) == 0.0, "it goes on"
    even = report(all_reduced(31, 31, 31, 31))
    assert to_be_sure(known(even, even)) == 0.0
    assert stood(even, even).kind == "unseen", "all have launched the same: a long computation, for all that is known"


def test_one_far_behind_and_one_between() -> None:
    """Who launched least holds up the rest, also those that are between."""
    counts = {0: {"AllReduce": 31, "Broadcast": 9}, 1: {"AllReduce": 30, "Broadcast": 9}}
    counts |= {2: {"AllReduce": 30, "Broadcast": 8}, 3: {"AllReduce": 31, "Broadcast": 9}}
    found = stood(report(counts), report(counts))
    assert (found.kind, found.culprits) == ("hang", (2,)) and "Broadcast #9" in found.headline


def test_ranks_that_launched_different_things() -> None:
    """Each has launched something that the other has not."""
    counts = all_reduced(31, 31, 31, 30) | {3: {"AllReduce": 30, "Broadcast": 1}}
    found = stood(report(counts), report(counts))
    assert (found.kind, found.culprits) == ("mismatch", (3,))
    assert (
        "rank 3 launched 30 AllReduce and 1 Broadcast, ranks 0-2 launched 31 AllReduce and 0 Broadcast"
        in found.headline
    )


def test_a_rank_that_waits_elsewhere_for_the_culprit_is_none() -> None:
    """Rank 1 lags among all ranks, since it waits for rank 3 in a communicator of those two."""
    both = merged(report(all_reduced(31, 30, 31, 30)), report(all_reduced(5, 4), [PLACES[1], PLACES[3]], comm=7))
    found = stood(both, both)
    assert (found.kind, found.culprits) == ("hang", (3,))


def test_ranks_that_wait_for_each_other() -> None:
    """Each is ahead in one communicator of the same two."""
    pair = [PLACES[0], PLACES[2]]
    both = merged(report(all_reduced(5, 4), pair, comm=7), report(all_reduced(4, 5), pair, comm=8))
    found = stood(both, both)
    assert (found.kind, found.certainty, found.culprits) == ("deadlock", "likely", (0, 2))
    assert "rank 0 in AllReduce #5 of communicator 0000000000000007 for rank 2" in found.headline


def test_who_waits_for_ranks_of_a_deadlock_is_none_of_it() -> None:
    """Ranks 0 and 2 wait for each other; 1 waits for 0, and nobody for it."""
    pair = [PLACES[0], PLACES[2]]
    both = [report(all_reduced(5, 4), pair, comm=7), report(all_reduced(4, 5), pair, comm=8)]
    outside = report(all_reduced(8, 9), [PLACES[0], PLACES[1]], comm=9)
    found = stood(merged(*both, outside), merged(*both, outside))
    assert (found.kind, found.culprits) == ("deadlock", (0, 2)) and "rank 1" not in found.headline


def test_who_may_wait_in_another_communicator_is_not_certain() -> None:
    """Rank 2 has launched there what the others have, and it does not end; in the other one it lacks."""
    pairs = [PLACES[0], PLACES[2]], [PLACES[2], PLACES[3]]
    both = merged(report(all_reduced(5, 4), pairs[0], comm=7), report(all_reduced(9, 9), pairs[1], comm=8))
    found = stood(both, both)
    assert (found.kind, found.certainty, found.culprits) == ("hang", "likely", (2,))


def merged(*texts: str) -> str:
    """Communicators of several answers in one."""
    head, tail = texts[0].split('"communicators": [', 1)
    rows = [text.split('"communicators": [', 1)[1].rsplit('],\n  "ras"', 1)[0] for text in texts]
    return f'{head}"communicators": [{",".join(rows)}],\n  "ras"{tail.rsplit(chr(34) + "ras" + chr(34), 1)[1]}'


def test_ranks_that_ras_does_not_reach() -> None:
    """Nothing more is launched, and one rank is dead: that is likely it."""
    gone = report(
        dict(list(all_reduced(31, 31, 31).items())), missing={3: {"unresponsive": True, "considered_dead": True}}
    )
    found = stood(gone, gone)
    assert (found.kind, found.certainty, found.culprits) == ("hang", "likely", (3,))
    assert found.headline.startswith("rank 3 is dead, says NCCL's RAS, and nothing more is launched in NCCL's")
    assert found.evidence == ("NCCL's RAS (2.29.2), communicator 5f3a9c0e12345678: rank 3 on h2 is dead",)
    left = gone.replace("true", "false")
    assert stood(left, left).kind == "unseen", "a rank that has left has ended its part"


def test_processes_of_which_nobody_knows_the_rank() -> None:
    """Named by number and host, and not certain."""
    same = report(all_reduced(5, 4), [("10.0.0.1", 7), ("10.0.0.1", 7)])
    found = stood(same, same, pid=lambda _: 7)
    assert (found.kind, found.certainty, found.culprits) == ("hang", "likely", ())
    assert found.headline == (
        "process 7 on 10.0.0.1 has not launched AllReduce #5 in NCCL's communicator 5f3a9c0e12345678 of 2 ranks, "
        "for which process 7 on 10.0.0.1 waits"
    )


def test_an_error_that_a_rank_reports_is_reported() -> None:
    """In NCCL's words."""
    failed = report(all_reduced(31, 31, 31, 31), error={1: 2})
    found = stood(failed, failed)
    assert found.evidence[-1].endswith("rank 1 on h1 reports `System error`")


# beside torch's recorder


def torch_rank(rank: int, newest: int, *, pending: bool) -> Process:
    """A rank whose recorder tells of NCCL."""
    row = Collective(newest, "nccl:all_reduce", "1000", "Float", int((NOW - 30) * 1e9), not pending)
    group = Group("0:nccl", "default_pg", (row,), newest)
    stack = (Stack("0x1", True, (Frame("/work/train.py", 7, "<module>"),)),)
    return process(rank, rank=rank, torch="2.9.0", groups={"0:nccl": group}, stacks=stack, inner=70 + rank)


@pytest.mark.parametrize("pending", [True, False])
def test_torch_tells_better_and_ras_confirms(pending: bool) -> None:
    """Torch knows for how long; what RAS counts is evidence. Where torch sees nothing stand still, neither does RAS."""
    found = answers(LAGS, LAGS)
    tasks = {r: torch_rank(r, 31 if pending and r != 2 else 30, pending=pending and r != 2) for r in range(4)}
    ranks = [RankSeen(rank, f"h{rank // 2 + 1}", own, at=NOW) for rank, own in tasks.items()]
    old = [Counted(one.one, one.version, {}, NOW - 30, NOW - 1, goes_on=False) for one in counted(ranks, found)]
    reported = explain(ranks, counted(ranks, found, old))
    if pending:
        assert (reported.kind, reported.culprits) == (
            "hang",
            (2,),
        ) and "has not entered all_reduce #31" in reported.headline
        assert reported.evidence[-1].startswith(
            "NCCL's RAS (2.29.2), communicator 5f3a9c0e12345678: AllReduce launched"
        )
    else:
        assert (reported.kind, reported.evidence) == ("moving", ())
