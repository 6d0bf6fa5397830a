"""Groups that have one name and are not one: made again in a process, or of other members.

`data/torch/made_again.json` has what torch 2.13 answered of ranks over gloo, with fewer words of each entry: `remade`
groups in which rank 2 then sleeps before #3; one that it has begun nothing in (`behind`); rank 2 `restarted` as another
process, where rank 1 sleeps; `pairs` that are made in another order the second time, of which rank 3 sleeps; names as
they are with TORCH_DISTRIBUTED_DEBUG=DETAIL (`detail`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distui.agent.ranks.recorded import shorten
from distui.runs.insight.hang.collectives import may_stand_from
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Collective, Frame, Group, Process, Stack, host_answer
from distui.runs.insight.seen.one_group import groups_apart
from distui.runs.insight.seen.ranks import RankSeen, TaskRanks, ranks_of
from distui.runs.insight.slow.lateness import lateness
from distui.runs.lines.explanation import Explanation

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data/torch/made_again.json").read_text("utf-8")
)
LATER = 60.0
"""Seconds after which the ranks are asked."""


def ranks(
    name: str, *, doubt: float | None = None, dropped: Mapping[int, int] | None = None, most: int = 400
) -> Sequence[RankSeen]:
    """What is seen of recorded ranks: on one host, or with clocks that may be wrong by `doubt` on a host each; of some
    recorders the oldest entries are `dropped`.
    """
    answers: dict[str, dict[str, Any]] = {}
    tasks = []
    for number, row in enumerate(RECORDED[name]):
        said = row["said"] | {"entries": row["said"]["entries"][(dropped or {}).get(number, 0) :]}
        hook = {"rank": str(number), "torch": "2.13.0", "torch_rank": number, "torch_world": len(RECORDED[name])}
        process = {"pid": 100 + number, "state": "S", "hook": hook, "recorder": shorten(said, most)}
        host = "h" if doubt is None else f"h{number}"
        there = answers.setdefault(host, {"at": row["at"] + LATER, "tasks": []})
        there["tasks"].append({"task": number, "processes": [process]})
        tasks.append(TaskRanks(number, host, (number,)))
    return ranks_of(tasks, {h: replace(host_answer(h, one), doubt=doubt or 0.0) for h, one in answers.items()}, {})


def verdict(found: Explanation) -> tuple[str, str, tuple[int, ...]]:
    """What is claimed, how surely, of whom."""
    return found.kind, found.certainty, found.culprits


# made again


@pytest.mark.parametrize("dropped", [{}, {0: 4}, {2: 4}, {0: 4, 1: 4}, {0: 4, 1: 4, 2: 4}, {0: 3, 1: 5}], ids=str)
@pytest.mark.parametrize("doubt", [None, 2.0])
def test_a_group_that_was_made_again_counts_from_one(doubt: float | None, dropped: dict[int, int]) -> None:
    """The older one's #3 is another collective, which is over; so it is where some recorders have forgotten it."""
    found = explain(ranks("remade", doubt=doubt, dropped=dropped))
    assert verdict(found) == ("hang", "certain", (2,))
    assert found.headline.startswith("rank 2 has not entered all_reduce #3 of 7 Float in the default group")
    assert found.ranks[0].behind == 1 and len(found.evidence) == 1


@pytest.mark.parametrize("dropped", [{}, {0: 4}], ids=str)
def test_a_rank_that_has_begun_nothing_in_the_new_group_is_behind(dropped: dict[int, int]) -> None:
    """What it shows is of the older one, where it was further."""
    found = explain(ranks("behind", dropped=dropped))
    assert verdict(found) == ("hang", "certain", (2,))
    assert found.headline.startswith("rank 2 has not entered all_reduce #1 of 7 Float in the default group")
    assert found.evidence[1] == "the default group was made again: all_reduce #4 of rank 2 was in the one before"
    assert (found.ranks[0].place, found.ranks[0].behind) == ("", None)


@pytest.mark.parametrize(
    ("doubt", "dropped", "most"), [(2.0, {}, 400), (None, {0: 4, 1: 4}, 400), (0.0, {0: 4, 1: 4}, 1), (None, {}, 1)]
)
def test_where_nobody_knows_which_group_a_rank_is_in_less_is_claimed(
    doubt: float | None, dropped: dict[int, int], most: int
) -> None:
    """Clocks that differ by more than the older group took; it is forgotten by all others; its end alone is told."""
    found = explain(ranks("behind", doubt=doubt, dropped=dropped, most=most))
    assert verdict(found) == ("hang", "likely", (2,))
    assert found.headline.startswith("ranks 0-1 wait in all_reduce #1 of 7 Float in the default group for rank 2")
    assert (
        found.evidence[1] == "the default group was made again: all_reduce #4 of rank 2 may have been in the one before"
    )


@pytest.mark.parametrize(("doubt", "certainty"), [(None, "certain"), (2.0, "likely")])
def test_a_rank_that_was_started_again_has_had_no_group_before(doubt: float | None, certainty: str) -> None:
    """It waits in the new group as the others do, though its process has made but one."""
    assert verdict(explain(ranks("restarted", doubt=doubt))) == ("hang", certainty, (1,))


def test_names_that_go_to_other_ranks_when_groups_are_made_again() -> None:
    """Group 1 was that of ranks 0-1: what they did there is over. gloo tells no members, so that it is not certain."""
    found = explain(ranks("pairs"))
    assert verdict(found) == ("hang", "likely", (3,))
    assert found.headline.startswith("rank 3 has not entered all_reduce #3 of 6 Float in group 1")
    assert found.evidence[1] == "group 1 was made again: all_reduce #3 of ranks 0-1 was in the one before"


def test_groups_that_have_no_names_are_not_compared() -> None:
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL all of gloo's have none, and a second one each that checks the first."""
    seen = ranks("detail")
    assert [list(one.groups) for one in seen] == [[""]] * 3 and all(one.groups[""].mixed for one in seen)
    assert verdict(explain(seen)) == ("moving", "likely", ())


def over_nccl(said: Mapping[str, Any]) -> dict[str, Any]:
    """What NCCL's recorder has, of the same collectives."""
    rows = [one | {"profiling_name": one["profiling_name"].replace("gloo", "nccl")} for one in said["entries"]]
    return {**said, "entries": rows, "pg_config": {"0": {"name": "0", "ranks": "[0, 1, 2]"}}}


def test_a_group_over_gloo_and_nccl_is_made_again_in_both() -> None:
    """Each has its own recorder: over gloo nobody has begun anything since."""
    seen = []
    for one in ranks("behind"):
        said = RECORDED["behind"][one.rank]["said"]
        once = {**said, "entries": said["entries"][:1]}
        groups = shorten(once, 9)["groups"] | shorten(over_nccl(said), 9, ":nccl")["groups"]
        (process,) = host_answer("h", {"tasks": [{"task": 0, "processes": [{"recorder": {"groups": groups}}]}]}).tasks[
            0
        ]
        assert one.process is not None and process.groups is not None
        seen.append(replace(one, process=replace(one.process, groups=process.groups)))
    found = explain(seen)
    assert verdict(found) == ("hang", "certain", (2,)) and "all_reduce #1" in found.headline
    assert found.evidence[1:] == ("the default group was made again: all_reduce #4 of rank 2 was in the one before",)


def entries(*groups: tuple[int, str, float, float]) -> dict[str, Any]:
    """Of each group, by pg_id and name, two collectives: when they began."""
    one = RECORDED["behind"][0]["said"]["entries"][0]
    rows = [
        one
        | {"pg_id": number, "process_group": [name, ""], "collective_seq_id": count, "time_created_ns": int(at * 1e9)}
        for number, name, *moments in groups
        for count, at in enumerate(moments, 1)
    ]
    return {"version": "2.10", "entries": sorted(rows, key=lambda row: row["time_created_ns"])}


@pytest.mark.parametrize(
    ("groups", "reported"),
    [
        ([(0, "0", 1, 2), (1, "1", 3, 4)], {"0": (0, 0), "1": (0, 0)}),
        ([(0, "0", 1, 2), (1, "1", 3, 4), (2, "0", 5, 6)], {"0": (1, 4)}),
        ([(1, "2", 1, 2), (3, "1", 3, 4)], {"1": (1, 2)}),
        ([(0, "0", 1, 2), (1, "0", 3, 4), (2, "0", 5, 6), (3, "1", 7, 8)], {"0": (2, 4), "1": (2, 4)}),
        ([(0, "0", 1, 8), (1, "f00", 2, 3), (2, "f00", 4, 5)], {"0": (0, 0), "f00": (1, 3)}),
    ],
)
def test_which_groups_of_a_process_are_in_use(groups: list[Any], reported: dict[str, tuple[int, int]]) -> None:
    """Once a number comes again all before it were destroyed; of a hash the one before."""
    found = shorten(entries(*groups), 9)["groups"]
    assert {name: (one.get("times", 0), one.get("before", 0) // 10**9) for name, one in found.items()} == reported


def test_groups_that_are_used_in_turn_are_not_made_again() -> None:
    """A count of its own each, under one name."""
    (one,) = shorten(entries((0, "0", 1, 3), (1, "0", 2, 4)), 9)["groups"].values()
    assert one["mixed"] is True and "times" not in one


@pytest.mark.parametrize(
    ("number", "record", "status", "lost"),
    [(0, 7, {}, False), (1, 7, {}, True), (1, 0, {}, False), (3, 7, {"3": {}}, False), (3, 7, {"2": {}, "3": {}}, True),
     (3, 7, {"3": {}, "4": {}}, False)],
)  # fmt: skip
def test_whether_the_recorder_has_dropped_an_older_group(
    number: int, record: int, status: dict[str, Any], lost: bool
) -> None:
    """It keeps the newest entries, and the status of every group."""
    said = entries((number, "0", 1, 2)) | {"pg_status": status}
    said["entries"][0]["record_id"] = record
    assert shorten(said, 9)["groups"]["0"].get("lost", False) is lost


def again(number: int, late: float = 0.0) -> RankSeen:
    """A rank with forty steps in a group that was made again; one that is `late` there shows only forty of before."""
    old, new = (
        Group(
            "0",
            "default_pg",
            tuple(
                Collective(n, "gloo:all_reduce", "9", "Float", int((begin + n + late) * 1e9), True)
                for n in range(1, 41)
            ),
            40,
            times=times,
            before_ns=before * 10**9,
        )
        for begin, times, before in ((1000, 0, 0), (2000, 1, 1040))
    )
    one = ranks("behind")[0]
    assert one.process is not None
    return replace(one, rank=number, process=replace(one.process, groups={"0": old if late else new}))


def test_who_is_late_is_not_reported_by_an_older_group() -> None:
    """Its steps were long before those of the others, which have the same numbers."""
    found = lateness([again(0), again(1), again(2, late=0.5)])
    assert found.late == () and set(found.usual or {}) == {0, 1}


def test_what_may_stand_still_is_reported_by_the_newest_group() -> None:
    """Of the older one nothing is waited for any more."""
    first, *rest = ranks("behind")
    assert may_stand_from([first, *rest]) is None
    soon = [replace(one, at=one.at - LATER) for one in (first, *rest)]
    found = may_stand_from(soon)
    assert found is not None and 0 < found - soon[0].at < 5


# of one name, with other members


LOW, HIGH = (0, 1), (2, 3)
NOW = 1_000_000.0


def part(
    number: int,
    newest: int,
    members: tuple[int, ...],
    *,
    pending: float | None = None,
    sizes: str = "1000",
    kinds: str = "Float",
    ago: float = 0.1,
    name: str = "1:nccl",
) -> RankSeen:
    """A rank in its part of a split, with a collective each second; the newest was begun so long `ago`, and is over, or
    `pending` seconds ago, and is not.
    """
    last = NOW - (ago if pending is None else pending)
    rows = tuple(
        Collective(n, "nccl:all_reduce", sizes, kinds, int((last - (newest - n)) * 1e9), n < newest or pending is None)
        for n in range(max(1, newest - 40), newest + 1)
    )
    group = Group(name, "default_pg" if name.startswith("0") else "mesh_tp", rows, newest, members)
    process = Process(
        100 + number, 1, "python", "S", 0.0, rank=number, world=len(members), torch="2.7.0", groups={name: group},
        stacks=(Stack("0x1", True, (Frame("/work/train.py", 7, "<module>"),)),),
    )  # fmt: skip
    return RankSeen(number, "h", process, at=NOW)


@pytest.mark.parametrize(("newest", "sizes"), [(9, "1000"), (30, "1000"), (31, "500"), (900, "500")])
def test_parts_of_a_split_that_have_one_name_are_not_compared(newest: int, sizes: str) -> None:
    """One hangs; the other is further back, or further, or has tensors of another size, as a stage of a pipeline."""
    waits, sleeps = part(0, 31, LOW, pending=60), part(1, 30, LOW, ago=60)
    found = explain([waits, sleeps, *(part(n, newest, HIGH, sizes=sizes) for n in HIGH)])
    assert verdict(found) == ("hang", "certain", (1,))
    which = "all_reduce #31 of 1000 Float in group 1 of ranks 0-1 (mesh_tp)"
    assert found.headline.startswith(f"rank 1 has not entered {which}, for which rank 0 waits")
    assert found.evidence == (f"{which}: rank 0 entered, rank 1 did not",)


def test_parts_of_a_split_hang_each_for_itself() -> None:
    """Both stand still, in another number of another group."""
    ranks = [
        part(0, 31, LOW, pending=60),
        part(1, 30, LOW, ago=60),
        part(2, 80, HIGH, ago=60),
        part(3, 81, HIGH, pending=50),
    ]
    found = explain(ranks)
    assert verdict(found) == ("hang", "certain", (1, 2)) and len(found.evidence) == 2


@pytest.mark.parametrize("pending", [None, 3.0])
def test_parts_of_a_split_go_on_each_for_itself(pending: float | None) -> None:
    """With tensors of other types, and one of them far ahead."""
    ranks = [part(0, 31, LOW, pending=pending), part(1, 31, LOW), *(part(n, 90, HIGH, kinds="Half") for n in HIGH)]
    found = explain(ranks)
    assert verdict(found) == ("moving", "certain", ()) and found.evidence == ()
    soon = may_stand_from(ranks)
    assert (soon is None) is (pending is None)


def test_parts_of_a_split_are_late_each_for_itself() -> None:
    """Two that go on half a step apart; then a rank that is late in its own."""
    ranks = [part(n, 200, LOW) for n in LOW] + [part(n, 200, HIGH, ago=-0.3) for n in HIGH]
    assert lateness(ranks).late == ()
    slow = part(3, 200, HIGH, ago=-0.5)
    assert {one.rank: round(one.seconds, 1) for one in lateness([*ranks[:3], slow]).late} == {3: 0.2}


def test_who_tells_no_members_is_in_the_part_that_has_it() -> None:
    """As of a rank whose answer had no room for them."""
    found = explain([part(0, 31, LOW, pending=60), part(1, 30, (), ago=60), *(part(n, 9, HIGH) for n in HIGH)])
    assert verdict(found) == ("hang", "certain", (1,)) and "of ranks 0-1" in found.collective


@pytest.mark.parametrize(("shown", "certainty"), [(1, "likely"), (40, "certain")])
def test_a_part_that_was_made_again(shown: int, certainty: str) -> None:
    """Rank 1 has begun nothing in its new one: what it shows is of the old one, as clocks tell of enough of it."""
    new = [part(0, 2, LOW, pending=60), *(part(n, 3, HIGH) for n in HIGH)]
    again = [_with(one, times=1, before_ns=int((NOW - 65) * 1e9)) for one in new]
    old = replace(part(1, 40, LOW, ago=65.5), host="far", doubt=1.0)
    found = explain([*again, _with(old, recent=old.groups["1:nccl"].recent[-shown:])])
    assert verdict(found) == ("hang", certainty, (1,))
    assert found.collective == "all_reduce #2 of 1000 Float in group 1 of ranks 0-1 (mesh_tp)"
    assert found.evidence[1].startswith("group 1 of ranks 0-1 (mesh_tp) was made again: all_reduce #40 of rank 1")


def _with(seen: RankSeen, **more: Any) -> RankSeen:
    """A rank whose group has something else."""
    assert seen.process is not None
    groups = {name: replace(group, **more) for name, group in seen.groups.items()}
    return replace(seen, process=replace(seen.process, groups=groups))


def test_two_default_groups_of_one_run() -> None:
    """Each half of the ranks has made its own: what the other one does is no matter."""
    ranks = [part(0, 31, LOW, pending=60, name="0:nccl"), part(1, 30, LOW, ago=60, name="0:nccl")]
    found = explain([*ranks, *(part(n, 9, HIGH, name="0:nccl") for n in HIGH)])
    assert verdict(found) == ("hang", "certain", (1,))
    assert found.collective == "all_reduce #31 of 1000 Float in the default group of ranks 0-1"


def test_members_that_ranks_tell_otherwise_make_nothing_certain() -> None:
    """Rank 0 says that rank 1 is in its group, which rank 1 does not."""
    found = explain(
        [part(0, 31, (0, 1), pending=60), part(1, 30, (1, 2), ago=60), part(2, 30, (1, 2), sizes="500", ago=60)]
    )
    assert found.kind == "hang" and found.certainty == "likely"


def test_collectives_that_contradict_each_other_make_nothing_certain() -> None:
    """Where no members are told: under each number both halves have done something else, and it is over."""
    ranks = [
        part(0, 31, (), pending=60),
        part(1, 30, (), ago=60),
        *(part(n, 31, (), sizes="500", ago=60) for n in HIGH),
    ]
    assert verdict(explain(ranks)) == ("hang", "likely", (1,))
    on = [part(n, 31, (), sizes="500") for n in HIGH]
    assert verdict(explain([*ranks[:2], *on])) == ("moving", "likely", ())
    others = [part(n, 200, (), sizes="500", ago=-0.3) for n in HIGH]
    assert lateness([*(part(n, 200, ()) for n in LOW), *others]).late == ()


def test_a_mismatch_where_no_members_are_reported_is_one_all_the_same() -> None:
    """Nothing of what is over contradicts it."""
    ranks = [part(n, 31, (), pending=60) for n in range(3)]
    group = ranks[0].groups["1:nccl"]
    odd = replace(group, recent=(*group.recent[:-1], replace(group.recent[-1], sizes="500")))
    assert ranks[0].process is not None
    ranks[0] = replace(ranks[0], process=replace(ranks[0].process, groups={"1:nccl": odd}))
    found = explain(ranks)
    assert verdict(found) == ("mismatch", "certain", (0,))


def test_groups_are_told_apart_once() -> None:
    """Names that have their members stay as they are, and groups that nothing is odd about do, too."""
    ranks = [*(part(n, 31, LOW) for n in LOW), *(part(n, 31, HIGH) for n in HIGH)]
    once = groups_apart(ranks)
    assert [list(seen.groups) for seen in once] == [["1 of ranks 0-1:nccl"]] * 2 + [["1 of ranks 2-3:nccl"]] * 2
    assert all(name == group.name for seen in once for name, group in seen.groups.items())
    assert groups_apart(once) is once and groups_apart(ranks[:2]) == ranks[:2]
