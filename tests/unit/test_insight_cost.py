"""What it costs to explain a large run: the follower does that every few seconds, between all else that it does."""

from __future__ import annotations

import sys
from collections.abc import Callable

from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Collective, Frame, Group, Process, Stack
from distui.runs.insight.seen.ranks import RankSeen

NOW = 1_000_000.0
FILE = "/x/torch/distributed/distributed_c10d.py"
ROWS = 30


def place(name: str, *, late: bool) -> Group:
    """A rank's place in a group: it waits for 20 s, or has not come."""
    last = NOW - (500.0 if late else 20.0)
    newest = 30 if late else 31
    rows = (
        Collective(n, "gloo:all_reduce", "1000", "Float", int((last - 0.1 * (newest - n)) * 1e9), late or n < newest)
        for n in range(newest - ROWS + 1, newest + 1)
    )
    return Group(name, "default_pg" if name == "0" else "undefined", tuple(rows), newest)


def run(size: int) -> list[RankSeen]:
    """So many ranks in as many groups, in each of which all wait for the last rank."""
    stack = Stack("0x1", True, (Frame(FILE, 9, "all_reduce"), Frame("/work/train.py", 7, "<module>")))
    ranks = []
    for number in range(size):
        late = number == size - 1
        groups = {str(name): place(str(name), late=late) for name in range(size)}
        stacks = (stack,) if not late else ()
        process = Process(
            100 + number, 1, "python", "S", 0.0, rank=number, torch="2.13.0", groups=groups, stacks=stacks
        )
        ranks.append(RankSeen(number, f"h{number}", process, at=NOW))
    return ranks


def calls(act: Callable[[], object]) -> int:
    """How many functions of Python are called by it, generators' turns among them: no clock of a busy machine."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def test_each_collective_is_looked_at_a_few_times() -> None:
    """However many ranks and groups there are: none is looked at again for each of the others."""
    ranks = run(24)
    assert explain(ranks).culprits == (23,)
    assert calls(lambda: explain(ranks)) < 14 * 24 * 24 * ROWS
