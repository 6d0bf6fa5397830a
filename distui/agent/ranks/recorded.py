# ruff: noqa: UP031, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""What torch's flight recorder says of a process, in short: where it is in the collectives of each of its groups. Pure.

Some calls make several operations one batch, which NCCL does as one: `all_gather` of tensors of different sizes,
`batch_isend_irecv`, `_coalescing_manager`. torch records each operation of it, which never gets a state, and last the
batch's end, which has no sizes and alone says whether the batch is over (`endCoalescing` in ProcessGroupNCCL.cpp,
`test_allgather_uneven` and `test_batched_send_recv` in torch's test_c10d_nccl.py). One whose end was not recorded, as
while a CUDA graph is captured, says nothing.

In torch 2.4 a batch of sends and receives takes a number of the collectives, and none of its own (`startCoalescing`
there; torch's pull request 135132 mends it): ranks with more of them than others number the same collective otherwise.

A program that destroys its groups and makes them again has the same names again: `destroy_process_group` sets the count
back that numbers them, and torch's recorder keeps what the old ones did. `pg_id` tells them apart: it counts all groups
that a process ever made.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

MOST_TEXT, MOST_GROUPS, MOST_DIRECT, MOST_NAMED = 300, 64, 100, 8
"""Characters of a text; groups; sends and receives of a group; of which so many are named of one batch."""


def shorten(said: "dict[str, Any]", most: int, mark: str = "") -> "dict[str, Any]":
    """Of torch's answer what tells where a process is: for each group how far it is, its newest collectives, and its
    sends and receives, which torch counts apart; and when torch last noticed that a collective was over. Groups get
    their name and `mark`.

    A row is number, name, sizes and types in words, nanoseconds of its beginning, whether it is over.
    """
    made = {}  # type: dict[int, Recorded]
    entries = said.get("entries", []) if "version" in said else said["entries"]  # torch has no list of none
    for entry in entries:
        name, about = [str(word)[:MOST_TEXT] for word in entry["process_group"][:2]]
        made.setdefault(int(entry["pg_id"]), Recorded(name, about, bool(mark))).take(entry)
    statuses = dict(said.get("pg_status", {}).items())
    for number, group in made.items():
        if str(number) in statuses:
            group.newest_handed_over(statuses[str(number)])
        whole = not entries[0].get("record_id", 0)  # else the recorder has dropped its oldest entries
        group.lost = not whole and lacks_some(made, number, statuses)
    groups = in_use(made)
    for name, config in said.get("pg_config", {}).items():
        if name in groups:
            groups[name].ranks = str(config.get("ranks", ""))[:4096]
    first = sorted(groups.items())[:MOST_GROUPS]
    answers = {name + mark: group.answer(most) for name, group in first}
    return {"version": str(said.get("version", ""))[:16], "groups": answers}


def in_use(made: "dict[int, Recorded]") -> "dict[str, Recorded]":
    """Of the groups of each name the newest one. A name that is a number no higher than that of a group before it shows
    that all of those were destroyed: torch counts names from the first again then. Other names are hashes, of which the
    same one comes again where a group alone was destroyed.

    Groups of one name that are in use at a time can't be distinguished on other ranks: `TORCH_DISTRIBUTED_DEBUG=DETAIL`
    leaves all of gloo's without a name.
    """
    found, top = {}, -1  # type: dict[str, Recorded], int
    times, before = 0, 0
    for _, group in sorted(made.items()):
        known, count = found.get(group.name), whole(group.name)
        if known is not None and known.newest > group.oldest:
            group.mixed, group.newest = True, max(known.newest, group.newest)
            group.times, group.before = known.times, known.before
        elif count is not None and count <= top:
            times, before = times + 1, max([before] + [one.newest for one in found.values()])
            found, top = {}, -1
            group.times, group.before = times, before
        elif known is not None:
            group.times, group.before = known.times + 1, known.newest
        else:
            group.times, group.before = times, before
        found[group.name] = group
        top = max(top, count if count is not None else -1)
    return found


def lacks_some(made: "dict[int, Recorded]", number: int, statuses: "dict[str, Any]") -> bool:
    """Whether a group was made before this one of which no entry is left. torch keeps the status of each."""
    if statuses:
        return any(int(one) < number and int(one) not in made for one in statuses)
    return sum(one < number for one in made) < number


class Recorded:
    """What is recorded of one group, entry by entry in their order. NCCL alone makes batches, and does the collectives
    of a group in their order; gloo has threads for them, and torch does not record what is sent and received over it.
    """

    def __init__(self, name: str, about: str, nccl: bool) -> None:
        self.name, self.about, self.ranks, self.nccl = name, about, "", nccl
        self.enqueued, self.ended = 0, 0
        self.oldest, self.newest = 0, 0
        self.times, self.before, self.lost = 0, 0, False
        self.done = None  # type: Optional[int]
        self.collectives, self.direct, self.batches = [], [], []  # type: list[list[Any]], list[list[Any]], list[list[Any]]
        self.open = []  # type: list[dict[str, Any]]
        self.mixed, self.last_batch = False, -1

    def take(self, entry: "dict[str, Any]") -> None:
        """Note an entry. Sends and receives, too, have the number of the newest collective."""
        self.enqueued = max(self.enqueued, int(entry["collective_seq_id"]))
        self.newest = max(self.newest, int(entry["time_created_ns"]))
        self.oldest = self.oldest or self.newest
        if not self.nccl:
            self.take_collective(entry, row_of(entry))
        elif ends_batch(entry):
            self.end_batch(entry)
        else:
            if self.open and count_of(self.open[-1]) != count_of(entry):
                self.end_one()
            self.open.append(entry)

    def take_collective(self, entry: "dict[str, Any]", row: "list[Any]") -> None:
        """Note a collective, and when torch noticed that it was over, if it has."""
        self.ended = max(self.ended, int(entry.get("time_discovered_completed_ns") or 0))
        self.collectives.append(row)

    def end_one(self) -> None:
        """What was open is one operation of its own; or a batch whose end was not recorded, which says nothing."""
        opened, self.open = self.open, []
        if len(opened) == 1 and is_direct(opened[0]):
            self.direct.append(row_of(opened[0]))
        elif len(opened) == 1:
            self.take_collective(opened[0], row_of(opened[0]))

    def end_batch(self, end: "dict[str, Any]") -> None:
        """What was open is a batch that ends with this, if that has its number; a batch of sends and receives ends with
        the number of the newest collective, as if it was one. Old torches recorded the end alone.
        """
        if self.open and (is_direct(self.open[0]) or count_of(self.open[0]) == count_of(end)):
            opened, self.open = self.open, []
        else:
            self.end_one()
            opened = []
        row = row_of(end)
        row[4] = int(opened[0]["time_created_ns"]) if opened else row[4]
        if opened and is_direct(opened[0]):
            row[:2] = [count_of(opened[0])[1], batch_name(opened)]
            self.mixed = self.mixed or row[0] == self.last_batch
            self.last_batch = row[0]
            self.batches.append(row)
        else:
            self.take_collective(end, row)

    def newest_handed_over(self, status: "dict[str, Any]") -> None:
        """Note the number of what was handed to NCCL last, if that is over: of a collective, of a send or a receive.
        Over gloo it counts what is not recorded, too.
        """
        begun, over = (whole(status.get("last_%s_collective" % word)) for word in ("enqueued", "completed"))
        self.done = over if begun == over else None

    def answer(self, most: int) -> "dict[str, Any]":
        """In rows, the newest of each last. `times`: how many groups of its name are known from before it; `before`:
        when the last collective of those began; `lost`: there may have been more of them.
        """
        self.end_one()
        for row in self.direct if self.done is not None else ():
            row[5] = row[5] or row[0] != self.done  # captured for a CUDA graph, it has no state for ever
        last = max((row[0] for row in self.collectives if row[5]), default=0) if self.nccl else 0
        for row in self.collectives:
            row[5] = row[5] or row[0] < last
        found = {"about": self.about, "recent": sorted(self.collectives)[-most:], "enqueued": self.enqueued}
        direct = sorted(self.direct + self.batches, key=lambda row: row[4])[-MOST_DIRECT:]
        more = {"direct": direct, "ranks": self.ranks, "mixed": self.mixed, "ended": self.ended}
        more.update({"times": self.times, "before": self.before, "lost": self.lost})
        found.update({name: value for name, value in more.items() if value})
        return found


def is_direct(entry: "dict[str, Any]") -> bool:
    """Whether it is a send or a receive."""
    return bool(entry.get("is_p2p"))


def count_of(entry: "dict[str, Any]") -> "tuple[bool, int]":
    """Its number, in which of torch's two counts: each rank counts its own sends and receives."""
    direct = is_direct(entry)
    return direct, int(entry["p2p_seq_id" if direct else "collective_seq_id"])


def ends_batch(entry: "dict[str, Any]") -> bool:
    """Whether it is the end of a batch: `nccl:coalesced`, `nccl:ALLGATHER_coalesced`."""
    name = str(entry["profiling_name"])
    return not entry["input_sizes"] and name.endswith((":coalesced", "_coalesced"))


def batch_name(entries: "list[dict[str, Any]]") -> str:
    """Which sends and receives: `nccl:send 0->1, recv 0<-1`."""
    names = [str(entry["profiling_name"])[:MOST_TEXT] for entry in entries[:MOST_NAMED]]
    more = ", ..." if len(entries) > MOST_NAMED else ""
    return ", ".join(names[:1] + [name.partition(":")[2] for name in names[1:]])[: MOST_TEXT - len(more)] + more


def row_of(entry: "dict[str, Any]") -> "list[Any]":
    """One entry."""
    sizes = ",".join("x".join(map(str, size)) or "1" for size in entry["input_sizes"])
    kinds = ",".join(sorted(set(map(str, entry.get("input_dtypes", [])))))
    over = bool(entry.get("retired")) or entry.get("state") == "completed"
    name = str(entry["profiling_name"])[:MOST_TEXT]
    return [count_of(entry)[1], name, sizes[:MOST_TEXT], kinds[:64], int(entry["time_created_ns"]), over]


def whole(value: object) -> "Optional[int]":
    """A number that comes as text; None for "-1" and all else."""
    text = str(value)
    return int(text) if text.isdigit() else None
