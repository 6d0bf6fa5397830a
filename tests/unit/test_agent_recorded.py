"""torch's flight recorder in short, with batches: several operations that NCCL does as one.

Entries are as torch 2.13 records them over NCCL: names, numbers, states and what has none from ProcessGroupNCCL.cpp and
test_c10d_nccl.py; over gloo as it answered.
"""

from __future__ import annotations

from typing import Any

from distui.agent.ranks.recorded import MOST_DIRECT, MOST_NAMED, shorten
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Group, host_answer
from distui.runs.insight.seen.ranks import RankSeen, TaskRanks, ranks_of
from distui.runs.lines.explanation import Explanation

NOW = 1_795_457_849.0
AGO = 300.0


class Recorder:
    """One rank's, of its default group, as ProcessGroupNCCL fills it: `ago` seconds before now, over if `over`."""

    def __init__(self, rank: int, world: int = 2) -> None:
        self.rank, self.world = rank, world
        self.entries: list[dict[str, Any]] = []
        self.collective = self.p2p = 0
        self.handed = {"enqueued": -1, "completed": -1}

    def record(self, name: str, sizes: list[list[int]], ago: float, *, over: bool, p2p: bool) -> None:
        """One entry."""
        self.entries.append({
            "record_id": len(self.entries), "pg_id": 0, "process_group": ["0", "default_pg"],
            "collective_seq_id": self.collective, "p2p_seq_id": self.p2p, "op_id": len(self.entries) + 1,
            "profiling_name": name, "time_created_ns": int((NOW - ago) * 1e9),
            "input_sizes": sizes, "input_dtypes": ["Float"] * len(sizes), "output_sizes": sizes,
            "output_dtypes": ["Float"] * len(sizes), "state": "completed" if over else "scheduled",
            "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0, "retired": over,
            "timeout_ms": 600000, "is_p2p": p2p,
        })  # fmt: skip

    def ends(self, ago: float) -> None:
        """The watchdog notices the end of the newest entry, so many seconds before now."""
        self.entries[-1] |= {"time_discovered_completed_ns": int((NOW - ago) * 1e9)}

    def _hand_over(self, number: int, *, over: bool) -> None:
        """`workEnqueue`, and the watchdog after it: the number is of a collective, or of a send or a receive."""
        self.handed["enqueued"] = number
        self.handed["completed"] = number if over else self.handed["completed"]

    def all_reduce(self, ago: float, *, over: bool = True) -> None:
        """One collective of its own."""
        self.collective += 1
        self.record("nccl:all_reduce", [[1000]], ago, over=over, p2p=False)
        self._hand_over(self.collective, over=over)

    def uneven_all_gather(self, ago: float, *, over: bool = True, ended: bool = True) -> None:
        """Of tensors of different sizes: a broadcast of each, without a state, and the end."""
        self.collective += 1
        for rank in range(self.world):
            self.record("nccl:_broadcast_oop", [[rank + 1, 2]], ago, over=False, p2p=False)
        if ended:
            self.record("nccl:ALLGATHER_coalesced", [], ago, over=over, p2p=False)
            self._hand_over(self.collective, over=over)

    def batch(self, *names: str, ago: float, over: bool = True, ended: bool = True) -> None:
        """`batch_isend_irecv`, whose end `initWork` records as no send or receive, with the collectives' number."""
        self.p2p += 1
        for name in names:
            self.record(f"nccl:{name}", [[8, 8]], ago, over=False, p2p=True)
        if ended:
            self.record("nccl:coalesced", [], ago, over=over, p2p=False)
            self._hand_over(self.p2p, over=over)

    def one(self, name: str, ago: float, *, over: bool = True, captured: bool = False) -> None:
        """A `send` or `recv` of its own; one that is captured for a CUDA graph is not handed to NCCL."""
        self.p2p += 1
        self.record(f"nccl:{name}", [[8, 8]], ago, over=over, p2p=True)
        if not captured:
            self._hand_over(self.p2p, over=over)

    def dump(self) -> dict[str, Any]:
        """What `dump_nccl_trace_json` answers."""
        config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(self.world)))}}
        status = {f"last_{word}_collective": str(number) for word, number in self.handed.items()}
        return {"version": "2.10", "entries": self.entries, "pg_config": config, "pg_status": {"0": status}}


def group(recorder: Recorder, most: int = 400) -> Group:
    """What is made of it."""
    found = seen(recorder, most).groups["0:nccl"]
    assert found.enqueued == recorder.collective
    return found


def seen(recorder: Recorder, most: int = 400) -> RankSeen:
    """Its rank, as a host answers of it."""
    said = {
        "pid": 100 + recorder.rank, "state": "S", "recorder": shorten(recorder.dump(), most, ":nccl"),
        "hook": {"rank": str(recorder.rank), "torch": "2.13.0"},
    }  # fmt: skip
    answer = host_answer("h1", {"at": NOW, "tasks": [{"task": recorder.rank, "processes": [said]}]})
    (found,) = ranks_of([TaskRanks(recorder.rank, "h1", (recorder.rank,))], {"h1": answer}, {})
    return found


def explained(*recorders: Recorder) -> Explanation:
    """What is said of their ranks."""
    return explain([seen(one) for one in recorders])


def verdict(found: Explanation) -> tuple[str, str, tuple[int, ...]]:
    """What is claimed, how surely, of whom."""
    return found.kind, found.certainty, found.culprits


def test_what_was_begun_long_before_its_turn_does_not_stand_still() -> None:
    """Both ranks began all of it a minute ago, and their GPUs go on: the last end counts, not the beginning."""
    ranks = [Recorder(rank) for rank in range(2)]
    for one in ranks:
        one.all_reduce(60)
        one.all_reduce(60)
        one.ends(1.0)
        one.all_reduce(60, over=False)
    assert verdict(explained(*ranks)) == ("moving", "certain", ())
    for one in ranks:
        one.entries[1]["time_discovered_completed_ns"] = int((NOW - 50) * 1e9)
    assert verdict(explained(*ranks)) == ("hang", "likely", ())


def test_the_end_of_a_batch_of_sends_is_none_of_a_collective() -> None:
    """Two ranks that send each other batches keep no hang of the others hidden."""
    ranks = [Recorder(rank, world=3) for rank in range(3)]
    for one in ranks:
        one.all_reduce(60)
        one.ends(50)
    for one in ranks[:2]:
        one.all_reduce(45, over=False)
    ranks[2].batch("send 2->1", "recv 2<-1", ago=1.0)
    ranks[2].ends(0.1)
    assert verdict(explained(*ranks)) == ("hang", "certain", (2,))


# batches of collectives


def test_a_batch_is_over_when_its_end_is() -> None:
    """`test_allgather_uneven`: its broadcasts are `scheduled` for ever, in a run that goes on."""
    ranks = [Recorder(rank) for rank in range(2)]
    for one in ranks:
        one.uneven_all_gather(AGO)
        for step in range(50):
            one.all_reduce(AGO - step)
    assert verdict(explained(*ranks)) == ("moving", "certain", ())
    first = group(ranks[0]).recent[0]
    assert (first.number, first.name, first.sizes, first.over) == (1, "nccl:ALLGATHER_coalesced", "", True)
    assert len(group(ranks[0]).recent) == 51


def test_a_rank_that_is_missing_later_is_named_all_the_same() -> None:
    """Rank 1 sleeps before #52; what is scheduled for ever is not what is waited for."""
    waits, sleeps = Recorder(0), Recorder(1)
    for one in (waits, sleeps):
        one.uneven_all_gather(AGO + 60)
        for step in range(50):
            one.all_reduce(AGO + 50 - step)
    waits.all_reduce(AGO, over=False)
    found = explained(waits, sleeps)
    assert verdict(found) == ("hang", "certain", (1,))
    assert found.headline.startswith("rank 1 has not entered all_reduce #52 of 1000 Float in the default group")


def test_a_batch_that_does_not_end_is_waited_for() -> None:
    """It is one collective, begun with its first operation."""
    waits, sleeps = Recorder(0), Recorder(1)
    waits.uneven_all_gather(20.0, over=False)
    found = explained(waits, sleeps)
    assert verdict(found)[::2] == ("hang", (1,)) and found.collective == "ALLGATHER_coalesced #1 in the default group"
    assert found.since is not None and round(NOW - found.since) == 20


def test_a_batch_that_is_captured_for_a_graph_says_nothing() -> None:
    """Its end is not recorded then; the rank is not behind for that."""
    ranks = [Recorder(rank) for rank in range(2)]
    for one in ranks:
        one.all_reduce(AGO)
        one.uneven_all_gather(AGO, ended=False)
    assert verdict(explained(*ranks)) == ("moving", "certain", ())
    assert [one.number for one in group(ranks[0]).recent] == [1]


def test_what_came_before_one_that_is_over_is_over() -> None:
    """NCCL does a group's collectives in their order; gloo's threads need not, so there each counts for itself."""
    one = Recorder(0)
    one.all_reduce(30.0, over=False)
    one.all_reduce(20.0)
    one.all_reduce(10.0, over=False)
    assert [row[5] for row in shorten(one.dump(), 5, ":nccl")["groups"]["0:nccl"]["recent"]] == [True, True, False]
    assert [row[5] for row in shorten(one.dump(), 5)["groups"]["0"]["recent"]] == [False, True, False]


def test_the_end_of_a_batch_alone() -> None:
    """Before version 2.7 of the dump the operations of such collectives were not recorded (`find_coalesced_group` in
    torch's flight_recorder/components/utils.py).
    """
    one = Recorder(0)
    one.all_reduce(30.0)
    one.collective += 1
    one.record("nccl:coalesced", [], 20.0, over=False, p2p=False)
    assert [(row.number, row.what, row.over) for row in group(one).recent] == [
        (1, "all_reduce", True), (2, "coalesced", False),
    ]  # fmt: skip


# sends and receives


def pipeline(batches: int) -> list[Recorder]:
    """Two stages, the first of which has done twice as many batches; now and then all meet."""
    ranks = [Recorder(rank) for rank in range(2)]
    for one in ranks:
        one.all_reduce(AGO)
        for step in range(batches * (2 - one.rank)):
            one.batch("send 0->1" if one.rank == 0 else "recv 1<-0", ago=AGO - step / 100)
        one.all_reduce(AGO - 60)
    return ranks


def test_batches_of_sends_and_receives_are_no_collectives() -> None:
    """Each rank counts its own; their end has the number of the newest collective."""
    ranks = pipeline(40)
    assert verdict(explained(*ranks)) == ("moving", "certain", ())
    found = group(ranks[0])
    assert [(one.number, one.what) for one in found.recent] == [(1, "all_reduce"), (2, "all_reduce")]
    assert [(one.number, one.name, one.over) for one in found.direct][-1] == (80, "nccl:send 0->1", True)


def test_a_batch_in_the_middle_is_no_mismatch_and_blames_nobody() -> None:
    """Of ranks that wait in their 41st and 20th batch, neither lacks a collective."""
    ranks = pipeline(20)
    ranks[0].batch("send 0->1", "recv 0<-1", ago=20.0, over=False)
    ranks[1].all_reduce(20.0, over=False)
    found = explained(*ranks)
    assert found.kind != "mismatch" and found.collective.startswith("all_reduce #3") and found.culprits == (0,)
    assert group(ranks[0]).direct[-1].name == "nccl:send 0->1, recv 0<-1" and group(ranks[0]).pending is None


def test_batches_that_take_numbers_of_the_collectives() -> None:
    """As torch 2.4 numbers them (`startCoalescing` bumps `seqCollective_`, and `pointToPoint` nothing): a stage
    with more batches numbers the same all_reduce otherwise, which is neither a mismatch nor a hang.
    """
    ranks = [Recorder(rank) for rank in range(2)]
    for one in ranks:
        for _ in range(4 - one.rank):
            one.collective += 1
            one.p2p = -1
            one.batch("send 0->1" if one.rank == 0 else "recv 1<-0", ago=30.0)
        one.all_reduce(20.0, over=False)
    assert [group(one).recent[-1].number for one in ranks] == [5, 4]
    assert verdict(explained(*ranks)) == ("moving", "likely", ())
    assert not group(pipeline(3)[0]).mixed


def test_many_sends_leave_room_for_collectives() -> None:
    """Their numbers are higher; those that are told are the newest, and of a batch the first few."""
    one = Recorder(0)
    one.all_reduce(AGO)
    for step in range(MOST_DIRECT + 50):
        one.one("send 0->1", AGO - step)
    one.batch(*["send 0->1"] * 20, ago=1.0)
    found = group(one, most=2)
    assert [row.number for row in found.recent] == [1]
    assert len(found.direct) == MOST_DIRECT and found.direct[-1].number == MOST_DIRECT + 51
    assert found.direct[-1].name == "nccl:" + ", ".join(["send 0->1"] * MOST_NAMED) + ", ..."


def test_a_receive_that_is_captured_for_a_graph_is_none_that_is_waited_for() -> None:
    """It has no state for ever; all that was handed to NCCL is over."""
    one = Recorder(0)
    for _ in range(5):
        one.all_reduce(AGO)
    one.one("recv 0<-1", AGO, captured=True, over=False)
    assert [row.over for row in group(one).direct] == [True]
    one.one("recv 0<-1", 20.0, over=False)
    assert not group(one).direct[-1].over


def test_sends_over_gloo_are_no_collectives_that_were_begun() -> None:
    """gloo's counters count what torch does not record, too: torch 2.13 said `last_enqueued_collective: 8` of three
    collectives and five sends.
    """
    said = Recorder(0)
    for _ in range(3):
        said.all_reduce(AGO)
    said.handed = {"enqueued": 8, "completed": 8}
    assert shorten(said.dump(), 5)["groups"]["0"]["enqueued"] == 3
