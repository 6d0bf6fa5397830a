"""What NCCL's RAS answers of the communicators of a job, as values; from JSON or text, as it prints them.

The shapes are those of NCCL's src/ras/client_support.cc, 2.24.3 to 2.30.7. The answer comes from a program that may say
whatever it likes: what is no report is None, what is no part of one is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from distui.facts.values import as_object, as_objects, loads
from distui.frozen import frozen
from distui.regex import regex
from distui.runs.insight.seen.answers import text_of, whole_of
from distui.whole import whole

MOST_COMMUNICATORS, MOST_RANKS, MOST_OPERATIONS = 256, 4096, 32
"""Of one answer; ranks of one communicator; operations that it counts."""
MOST_TEXT = 1 << 20

_NO_COMMA = regex(r'("nvml_dev": -?[0-9]{1,9})(\n {10}"status")')
"""2.28.7 and 2.28.9 leave a comma out between these two, of ranks that are missing."""

ERRORS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}
"""ncclResult_t in RAS's own words; 0 is success, and 7 an operation that goes on."""

DEAD, SILENT, LEFT = "is dead", "does not answer", "has left it"
"""What is said of a rank that has no counts."""


@frozen
class RasProcess:
    """The process of a rank: its number in its own container, and its host by an address."""

    host: str
    pid: int


@frozen
class Communicator:
    """One communicator. Its ranks are numbered on their own."""

    name: str
    """Its hash, as NCCL's log has it."""
    more: str
    """What tells it from others of that hash; empty in text."""
    size: int
    """0 where that is not known."""
    launched: Mapping[str, Mapping[int, int]]
    """Operation, such as `AllReduce` -> rank -> how many it has launched. Text has only those that differ."""
    processes: Mapping[int, RasProcess]
    """Rank -> its process, where that is known."""
    absent: Mapping[int, str]
    """Rank -> why nothing is counted of it."""
    failed: Mapping[int, str]
    """Rank -> the error that it reports."""


@frozen
class RasReport:
    """One answer."""

    version: str
    communicators: tuple[Communicator, ...]


def read_report(text: str) -> RasReport | None:
    """An answer; None for what is none."""
    text = text[:MOST_TEXT]
    if text.lstrip()[:1] == "{":
        return _of_json(text)
    found = re.match(r"NCCL version ([0-9.]{1,32})", text)
    return RasReport(found[1], tuple(_of_text(text))) if found else None


# JSON


def _of_json(text: str) -> RasReport | None:
    try:
        said = as_object(loads(_NO_COMMA.sub(r"\1,\2", text)))
    except ValueError:
        return None
    rows = as_objects(said.get("communicators"))[:MOST_COMMUNICATORS]
    version = text_of(said.get("nccl_version"))
    return RasReport(version, tuple(map(_communicator, rows))) if version else None


def _communicator(said: Mapping[str, object]) -> Communicator:
    ranks = _by_rank(as_objects(said.get("ranks")))
    missing = _by_rank(as_objects(said.get("missing_ranks")))
    launched: dict[str, dict[int, int]] = {}
    for rank, one in ranks.items():
        for name, value in list(as_object(one.get("collective_counts")).items())[:MOST_OPERATIONS]:
            if (count := whole_of(value)) is not None:
                launched.setdefault(text_of(name), {})[rank] = count
    return Communicator(
        name=_name(text_of(said.get("hash")).removeprefix("0x")),
        more=text_of(said.get("secondary_hash")),
        size=max(0, whole_of(said.get("size")) or 0),
        launched=launched,
        processes={rank: found for rank, one in {**missing, **ranks}.items() if (found := _process(one)) is not None},
        absent={rank: _why_absent(as_object(one.get("status"))) for rank, one in missing.items()},
        failed={rank: words for rank, one in ranks.items() if (words := _failure(as_object(one.get("status"))))},
    )


def _by_rank(rows: Iterable[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    found = {rank: one for one in rows if (rank := whole_of(one.get("rank"))) is not None and rank >= 0}
    return dict(list(found.items())[:MOST_RANKS])


def _process(said: Mapping[str, object]) -> RasProcess | None:
    host, pid = text_of(said.get("host")), whole_of(said.get("pid"))
    return RasProcess(host, pid) if pid is not None and pid > 0 else None


def _why_absent(status: Mapping[str, object]) -> str:
    if status.get("considered_dead") is True:
        return DEAD
    return SILENT if status.get("unresponsive") is True else LEFT


def _failure(status: Mapping[str, object]) -> str:
    codes = [whole_of(status.get(name)) for name in ("async_error", "init_state")]
    return next((ERRORS[code] for code in codes if code in ERRORS), "")


def _name(digits: str) -> str:
    """JSON leaves out the zeros that text and NCCL's log begin a hash with."""
    return digits.rjust(16, "0")[:16]


# text

_SIZES = regex(
    r"\s{0,4}([0-9]{1,9})(?:\s+[0-9]{1,9}){2}\s+[0-9-]{1,19}\s+([0-9]{1,9})\s+[0-9]{1,9}\s+[A-Z]+\s+[A-Z,]+\s*"
)
"""A row of the table of communicators: group, ..., ranks per communicator, ..."""
_HEAD = regex(r"#([0-9]{1,9})-[0-9]{1,9} \(([0-9a-f]{1,16})\) (INCOMPLETE|ERROR|MISMATCH)\s*")
_DIFFER = regex(r"  Communicator ranks have different (?:(status)|(\w{1,32}) operation counts)\s*")
_SEVERAL = regex(r"  [0-9]{1,9} ranks (.*)")
_ONE = regex(r"  Rank ([0-9]{1,9})(?: (has .*?|reported .*?))? -- (.*)")
_PROCESS = regex(r"GPU .{0,40} managed by process ([0-9]{1,9}) on node (\S{1,64})")
_DEAD = regex(r"  Process ([0-9]{1,9}) on node (\S{1,64}) managing .*")
_LAUNCHED = regex(r"launched up to operation ([0-9]{1,19})")
_NONE = "not launched any operations"


def _of_text(text: str) -> Iterator[Communicator]:
    """Those that text tells of: where something is wrong."""
    reading: dict[str, _Reading] = {}
    sizes: dict[str, int] = {}
    dead: set[RasProcess] = set()
    now: _Reading | None = None
    head_line = ""
    for line in text.splitlines():
        if (row := _SIZES.fullmatch(line)) is not None:
            sizes[row[1]] = int(row[2])
        elif (head := _HEAD.fullmatch(line)) is not None and len(reading) < MOST_COMMUNICATORS:
            now = reading.setdefault(head[2], _Reading(head[2], sizes.get(head[1], 0)))
            now.begin(head[3])
        elif not line.startswith("  "):
            now, head_line = (None, line) if line.strip() else (now, head_line)
        elif now is not None:
            now.take(line)
        elif head_line == "DEAD" and (lost := _DEAD.fullmatch(line)) is not None:
            dead.add(RasProcess(text_of(lost[2]), int(lost[1])))
    yield from (one.done(dead) for one in reading.values())


class _Reading:
    """A communicator as its lines come, one after the other."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = _name(name), size
        self.launched: dict[str, dict[int, int]] = {}
        self.processes: dict[int, RasProcess] = {}
        self.absent: dict[int, str] = {}
        self.failed: dict[int, str] = {}
        self.unlisted: dict[str, list[int]] = {}
        """Operation -> counts that several ranks have."""
        self.part = self.words = ""

    def begin(self, part: str) -> None:
        """Another part of it: what is missing, failed or different."""
        self.part, self.words = part, ""

    def take(self, line: str) -> None:
        """One line of it."""
        if (differ := _DIFFER.fullmatch(line)) is not None:
            self.part, self.words = differ[1] or f"launched {differ[2]}", ""
        elif (several := _SEVERAL.fullmatch(line)) is not None:
            self.words = several[1]
            if self.part.startswith("launched ") and (count := _count(self.words)) is not None:
                self.unlisted.setdefault(self.part.split()[1], []).append(count)
        elif (one := _ONE.fullmatch(line)) is not None and len(self.processes) < MOST_RANKS:
            self.rank(int(one[1]), one[2] or self.words)
            if (process := _PROCESS.fullmatch(one[3])) is not None:
                self.processes[int(one[1])] = RasProcess(text_of(process[2]), int(process[1]))

    def rank(self, rank: int, words: str) -> None:
        """What is said of one rank in the part that is read."""
        if self.part == "INCOMPLETE":
            self.absent[rank] = SILENT
        elif self.part == "ERROR" and words.startswith("reported "):
            self.failed[rank] = text_of(words.removeprefix("reported "))
        elif self.part == "status" and words.endswith("NOCOMM"):
            self.absent[rank] = LEFT
        elif self.part.startswith("launched ") and (count := _count(words)) is not None:
            self.launched.setdefault(self.part.split()[1], {})[rank] = count

    def done(self, dead: Set[RasProcess]) -> Communicator:
        """All of it. Ranks that are not listed are those of the one count that several have, where there is one."""
        self.absent |= {rank: DEAD for rank in self.absent if self.processes.get(rank) in dead}
        for operation, counts in self.unlisted.items():
            known = self.launched.setdefault(operation, {})
            rest = [count for count in counts if count not in known.values()]
            if len(rest) == 1 and self.size <= MOST_RANKS:
                others = set(range(self.size)) - set(known) - set(self.absent)
                known.update(dict.fromkeys(others, rest[0]))
        parts = (self.launched, self.processes, self.absent, self.failed)
        return Communicator(self.name, "", self.size, *parts)


def _count(words: str) -> int | None:
    found = _LAUNCHED.search(words)
    return whole(found[1], 19) if found else 0 if _NONE in words else None
