"""Programs that hang, each in its own way: for tests of who is named, and for the bench that measures how soon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.lab import Lab

BEGIN = """
import os, re, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, x = dist.get_rank(), torch.ones(1000)
pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
def load():
    {load}
for step in range(100000):
    if step == 20 and rank == {who}:
        load()
    {collective}
    if step < 20:
        print("step", step, flush=True)
"""
FILE, LINE, CALL = "/pytorch/hang.py", 7, 11
"""Where hosts have the program; in it, the line of what `load` does and that of the collective of every step."""

LAST = "step 19"
"""What each rank says last before it hangs."""

LATE = f"""print("{LAST}", flush=True)
if os.environ["RANK"] == "2": time.sleep(600)
"""
"""Before all ranks have come together one of them sleeps."""

PACED = "dist.all_reduce(x); time.sleep(0.01)"


def program(load: str, *, who: int = 2, collective: str = "dist.all_reduce(x)") -> str:
    """Four ranks that work together until one of them does something else at step 20."""
    return BEGIN.format(load=load, who=who, collective=collective)


def job(**more: Any) -> dict[str, Any]:
    """The keys of a job that runs it as four ranks on two hosts."""
    keys = {"ranks": {"per_host": 2}, "image": "lab/pytorch:1", "volumes": ["/mnt/pytorch:/pytorch:ro"]}
    return keys | {"command": ["python3", FILE], "stop_grace": "1s"} | more


@dataclass(frozen=True, slots=True)
class Hang:
    """One way to hang, and what must be said of it."""

    text: str
    kind: str
    culprits: tuple[int, ...]
    words: tuple[str, ...]
    """Of the headline: rank, collective, file and line. Who waits in it is not in each: a collective that is cut in the
    middle has ended for ranks that have all they need of it, and those wait in the next one; and not all may have come
    to a start yet.
    """
    begin: Callable[[Lab], object] = field(default=lambda lab: None)
    """What is done to the hosts once the ranks work together."""
    end: Callable[[Lab], object] = field(default=lambda lab: None)
    said: tuple[str, ...] = ()
    """Of what whoever follows the run says, where that is less: it is said once, perhaps before others wait for it."""
    evidence: str = ""
    """Where the line of a rank can't be seen: what is said of it."""
    ends: bool = False
    """Whether gloo ends the run for it, so that its end says why."""


HANGS: Mapping[str, Hang] = {
    "sleeps before a collective": Hang(
        program("time.sleep(600)"),
        "hang",
        (2,),
        ("rank 2 has not entered all_reduce #21", f"it sleeps at {FILE}:{LINE} in load"),
    ),
    "collectives in another order": Hang(
        program("dist.broadcast(x, 0)", who=1),
        "mismatch",
        (1,),
        (
            "ranks called different collectives as #21 of the default group",
            f"rank 1 called broadcast of 1000 Float at {FILE}:{LINE} in load",
            f"ranks 0,2-3 called all_reduce of 1000 Float at {FILE}:{CALL} in <module>",
        ),
    ),
    "another shape": Hang(
        program("dist.all_reduce(torch.ones(100000))"),
        "mismatch",
        (2,),
        (
            f"rank 2 called all_reduce of 100000 Float at {FILE}:{LINE} in load",
            f"called all_reduce of 1000 Float at {FILE}:{CALL} in <module>",
        ),
        ends=True,
    ),
    "stopped by SIGSTOP": Hang(
        program("pass", collective=PACED),
        "hang",
        (3,),
        (" in all_reduce #", f"at {FILE}:{CALL} in <module> for rank 3: it is stopped by a signal"),
        lambda lab: lab.host("h2").fault("rank-stop", "distui-stuck-3"),
        lambda lab: lab.host("h2").fault("rank-cont"),
        ("rank 3", "is stopped by a signal"),
        "where in the program rank 3 is can't be seen while that is stopped",
    ),
    "spins with the interpreter's lock": Hang(
        program("re.match('(a+)+$', 60 * 'a' + 'b')", who=0),
        "hang",
        (0,),
        ("rank 0 has not entered all_reduce #21", f"is busy with code of its own at {FILE}:{LINE} in load"),
    ),
    "reads a fifo nobody writes": Hang(
        program("os.mkfifo('/tmp/f'); open('/tmp/f')", who=3),
        "hang",
        (3,),
        ("rank 3 has not entered all_reduce #21", f"a fifo at {FILE}:{LINE} in load"),
    ),
    "host cut off": Hang(
        program("pass", collective=PACED),
        "hang",
        (2, 3),
        (" in all_reduce #", f"at {FILE}:{CALL} in <module> for ranks 2-3: host h2 can't be asked"),
        lambda lab: lab.host("h2").fault("unplug"),
        lambda lab: lab.host("h2").fault("plug"),
        evidence="where in the program ranks 2-3 are can't be seen: host h2 can't be asked",
    ),
    "one group of two": Hang(
        program("time.sleep(600)", who=1, collective="dist.all_reduce(x, group=pair); time.sleep(0.01)"),
        "hang",
        (1,),
        (
            "rank 1 has not entered all_reduce #21",
            "in group 1, for which rank 0 waits",
            f"it sleeps at {FILE}:{LINE} in load",
        ),
    ),
    "one is late to make a group": Hang(
        program("time.sleep(600)", collective="dist.new_group() if step == 20 else dist.all_reduce(x)"),
        "hang",
        (2,),
        ("rank 2 is not in new_group, in which rank", f"it sleeps at {FILE}:{LINE} in load"),
    ),
    "one does not come to the start": Hang(
        program("pass").replace("dist.init_process_group(", LATE + "dist.init_process_group("),
        "hang",
        (2,),
        (
            "rank 2 is not in init_process_group, in which rank",
            f"it sleeps at {FILE}:4 in <module>",
        ),
    ),
}
"""Those that a run must name."""
