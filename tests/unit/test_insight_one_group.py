"""Groups that have one name and are not one: made anew in a process, or of other members.

`data/torch/made_anew.json` has what torch 2.13 answered of ranks over gloo, with fewer words of each entry: `remade`
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

from distui.agent.recorded import shorten
from distui.runs.insight.hang.collectives import may_stand_from
from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Collective, Group, host_answer
from distui.runs.insight.seen.ranks import RankSeen, TaskRanks, ranks_of
from distui.runs.insight.slow.lateness import lateness
from distui.runs.lines.explanation import Explanation

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "data/torch/made_anew.json").read_text("utf-8")
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


# made anew


@pytest.mark.parametrize("dropped", [{}, {0: 4}, {2: 4}, {0: 4, 1: 4}, {0: 4, 1: 4, 2: 4}, {0: 3, 1: 5}], ids=str)
@pytest.mark.parametrize("doubt", [None, 2.0])
def test_a_group_that_was_made_anew_counts_from_one(doubt: float | None, dropped: dict[int, int]) -> None:
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
    assert found.evidence[1] == "the default group was made anew: all_reduce #4 of rank 2 was in the one before"
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
        found.evidence[1] == "the default group was made anew: all_reduce #4 of rank 2 may have been in the one before"
    )


@pytest.mark.parametrize(("doubt", "certainty"), [(None, "certain"), (2.0, "likely")])
def test_a_rank_that_was_started_again_has_had_no_group_before(doubt: float | None, certainty: str) -> None:
    """It waits in the new group as the others do, though its process has made but one."""
    assert verdict(explain(ranks("restarted", doubt=doubt))) == ("hang", certainty, (1,))


def test_names_that_go_to_other_ranks_when_groups_are_made_anew() -> None:
    """Group 1 was that of ranks 0-1: what they did there is over. gloo tells no members, so that it is not certain."""
    found = explain(ranks("pairs"))
    assert verdict(found) == ("hang", "likely", (3,))
    assert found.headline.startswith("rank 3 has not entered all_reduce #3 of 6 Float in group 1")
    assert found.evidence[1] == "group 1 was made anew: all_reduce #3 of ranks 0-1 was in the one before"


def test_groups_that_have_no_names_are_not_compared() -> None:
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL all of gloo's have none, and a second one each that checks the first."""
    seen = ranks("detail")
    assert [list(one.groups) for one in seen] == [[""]] * 3 and all(one.groups[""].mixed for one in seen)
    assert verdict(explain(seen)) == ("moving", "likely", ())


def over_nccl(said: Mapping[str, Any]) -> dict[str, Any]:
    """What NCCL's recorder has, of the same collectives."""
    rows = [one | {"profiling_name": one["profiling_name"].replace("gloo", "nccl")} for one in said["entries"]]
    return {**said, "entries": rows, "pg_config": {"0": {"name": "0", "ranks": "[0, 1, 2]"}}}


def test_a_group_over_gloo_and_nccl_is_made_anew_in_both() -> None:
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
    assert found.evidence[1:] == ("the default group was made anew: all_reduce #4 of rank 2 was in the one before",)


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
    ("groups", "told"),
    [
        ([(0, "0", 1, 2), (1, "1", 3, 4)], {"0": (0, 0), "1": (0, 0)}),
        ([(0, "0", 1, 2), (1, "1", 3, 4), (2, "0", 5, 6)], {"0": (1, 4)}),
        ([(1, "2", 1, 2), (3, "1", 3, 4)], {"1": (1, 2)}),
        ([(0, "0", 1, 2), (1, "0", 3, 4), (2, "0", 5, 6), (3, "1", 7, 8)], {"0": (2, 4), "1": (2, 4)}),
        ([(0, "0", 1, 8), (1, "f00", 2, 3), (2, "f00", 4, 5)], {"0": (0, 0), "f00": (1, 3)}),
    ],
)
def test_which_groups_of_a_process_are_in_use(groups: list[Any], told: dict[str, tuple[int, int]]) -> None:
    """Once a number comes again all before it were destroyed; of a hash the one before."""
    found = shorten(entries(*groups), 9)["groups"]
    assert {name: (one.get("times", 0), one.get("before", 0) // 10**9) for name, one in found.items()} == told


def test_groups_that_are_used_in_turn_are_not_made_anew() -> None:
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
    """A rank with forty steps in a group that was made anew; one that is `late` there shows only forty of before."""
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


def test_who_is_late_is_not_told_by_an_older_group() -> None:
    """Its steps were long before those of the others, which have the same numbers."""
    found = lateness([again(0), again(1), again(2, late=0.5)])
    assert found.late == () and set(found.usual or {}) == {0, 1}


def test_what_may_stand_still_is_told_by_the_newest_group() -> None:
    """Of the older one nothing is waited for any more."""
    first, *rest = ranks("behind")
    assert may_stand_from([first, *rest]) is None
    soon = [replace(one, at=one.at - LATER) for one in (first, *rest)]
    found = may_stand_from(soon)
    assert found is not None and 0 < found - soon[0].at < 5
