"""The last words of a rank that failed: where they begin, when that was, and whether they name a cause of their own.

A log is read from its end. What belongs to the last error are tracebacks, lines that name an error, and what tools
print around them; lines of ordinary work after an error mean that the rank went on, and it was not the last one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from typing import Literal

from distui.frozen import frozen
from distui.regex import regex
from distui.runs.lines.prefixes import RANK_PREFIX
from distui.runs.lines.severity import severity
from distui.runs.lines.text import safe
from distui.runs.verdict.evidence import Line, Lines
from distui.runs.verdict.lines.diagnose import cause_of
from distui.runs.verdict.lines.plain import bare, heard, plain, without_own_ends
from distui.runs.verdict.lines.rules.cause import SERVICE, UNREACHED, Cause

Weight = Literal["own", "unclear", "waited", "echo"]
"""`own`: something went wrong here. `unclear`: here, or a peer went away. `waited`: it waited for others in vain.
`echo`: a peer went away.
"""

AFTERWARDS = 8
"""Ordinary lines that may follow the last error, later than what was flushed with it."""
FLUSH = 1.5
"""Seconds in which lines after an error may be older: Python writes what stdout had buffered when it ends."""
PACE = 0.3
"""Seconds between the first and the last line of work that was surely not flushed at once."""
PAUSE = 2.0
"""Seconds between two errors that are reported as one."""
LONG_PAUSE = 150.0
"""The same where NCCL's watchdog speaks: it waits that long for others to write their traces."""
POINTED = 60.0
"""Seconds by which an error may be older that another one points to: a server waits for its engine."""
EARLIER = 3
"""How often words about others may stand between an error of its own and the end."""
REASON = 8
"""Lines below an error in which its reason may stand."""
LONG_REASON = 60
"""The same where all that led to it is listed before."""
MESSAGE = 20
"""Lines of an exception's message that stand above the next exception of its chain."""

_HEAD = regex(
    r"Traceback \(most recent call last\)|^terminate called|^Fatal Python error|^Exception in thread"
    r"|^thread '.{0,99}' (?:\(\d+\) )?panicked at|^Unhandled exception[.:]|^# A fatal error has been detected by "
    r"|^(?:\[\S{1,99}\] )?\*\*\* (?:Aborted at \d|An error occurred in |Process received signal)"  # glog, Open MPI
)
_NATIVE = regex(
    r"Segmentation fault|Bus error|Illegal instruction|core dumped|^Killed$|^Aborted|\[FATAL tini"
    r"|: (?:command )?not found$|can't open file '|cannot (?:create|open) |Permission denied$|error: unrecognized"
    r"|Received sigquit from a child process"  # SGLang
    r"|mpirun noticed that|srun: error|Check failed:|^panic:|: F (?:tensorflow|external)/|: Assertion `.{0,999}' failed"
    r"|^\*\*\* SIG[A-Z]{2,6} \(@"  # glog
    r"|^Abort\(\d+\) on node|\bFatal error in (?:internal_|P?MPI_)|^MPI_ABORT was invoked|^=+ +BAD TERMINATION"
    r"|^Error: (?!\W{0,3}\d)|^fatal error: |^SIGSEGV: segmentation violation"
    r"|(?:^|\] )signal \((?!1[05]\)|2\)|12\))\d+(?:\.\d+)?\): "  # Julia
    r"|^forrtl: (?:severe|error)|^Program received signal SIG(?!TERM|USR|INT)|^Fortran runtime error:"
    r"|: line \d+: +\d+ (?:Killed|Aborted|Floating point exception)\b"  # bash
)
_BY_SHELL = regex(r"^(?:\S+: line \d+: +\d+ (?:Aborted|Killed)\b|Aborted\b)")
"""What a shell says of a process that gave up, or that it killed: why the program failed stands in its own words."""
_RAISED = regex(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Failure|Timeout|Closed|Expired)(?::|$)")
_WARNS = regex(r"[A-Za-z_][\w.]*Warning(?::|$)")
"""A warning as Python names it: behind a traceback it was raised, with `-W error`."""
_EXCEPTION = regex(r"Traceback \(|^Unhandled exception[.:]|^Exception in thread")
"""What a runtime says of an exception that nobody caught."""
_LAUNCHER = regex(
    r"\b(?:ChildFailedError|CalledProcessError|ProcessExitedException)\b|\bHorovod detected that one or more processes"
)
"""What torchrun, accelerate, horovodrun and `mp.spawn` raise when a rank that they started has ended badly."""
CHAINED = regex(r"^During handling of the above exception|^The above exception was the direct cause")
WARNING = regex(
    r"Warning:|\bWARN(?:ING)?\b|^\[?[IW] ?\d{3,4} |: [IW] (?:tensorflow|external)/|failed call to cuInit"
    r"|\(ignored\)$"  # Open MPI, of each of its parts that can't be loaded
)
"""Lines that only warn."""
_AROUND = regex(
    r"^\s|^$|^frame #\d+|^Exception raised from |^CUDA kernel errors|^For debugging consider|^Compile with |^<\w"
    r"|^Last error:$"  # torch's, above NCCL's own
    r"|^#\d+ .{1,200} from .*:\d+$"  # where a collective was called that timed out, by torch's flight recorder
    r"|: E (?:tensorflow|external)/|^Additional GRPC error information|^:\{\"created\""  # TensorFlow's
    r"|^\[?E ?\d{3,4} |^\+ |resource_tracker|^Current thread|^Thread 0x|^Extension modules|^[│╭╰]"
    r"|^-{3,} [\w+ ]{0,40}stack ?trace -{3,}$|^\d{1,3}: 0x[0-9a-f]|^<--- "  # Node
    r"|: line \d+: +\d+ Terminated\b|^#(?!.{0,999}\b(?:epoch|step|iter|loss)\b)"  # Java
    r"|^in expression starting at |^Stacktrace:$|^Allocations: \d| \(unknown line\)$| \[inlined\]$"  # Julia
    r"|^(?:goroutine \d+ \[|runtime stack:$|created by )|^note: run with `RUST_BACKTRACE"
    r"|^Process \d+ exit with status code \d|^Terminating remaining workers"  # horovodrun
    r"|^[=-]{40,}$|^\S+ FAILED$|^Failures:$|^Root Cause \(first observed failure\):$|^\[\d+\]:$"  # torchrun's report
)
_ABOVE = regex(
    r"\b(?:cause|stack ?trace|traceback|logs?|errors?|exceptions?|output)\b[^.]{0,40}\babove\b"
    r"|\babove (?:logs?|errors?|output|stack ?trace|traceback)\b|\bsee stack ?trace for root cause",
    re.IGNORECASE,
)
_CHILD = regex(
    r"\bexits with return code = [1-9]|\breturned non-zero exit status [1-9]|\(exitcode: [1-9]"
    r"|\bbad command exit code\b|\bReceived sigquit from a child process\b"
    r"|\b(?:exited|crashed|terminated) with (?:exit )?code [1-9]|\bChildFailedError\b",
    re.IGNORECASE,
)
"""Launchers, of a child that has ended badly."""
_ENDING = regex(r"\b(?:kill|terminat|clos|stopp)(?:e|ed|ing)\b|\bSIG[A-Z]+\b|\bexit", re.IGNORECASE)
"""What launchers say while they end their children."""
_WATCHDOG = regex(r"watchdog|NCCL|taking the entire process down", re.IGNORECASE)
_WORK = regex(r"\b(?:step|epoch|iter(?:ation)?|batch|loss|acc(?:uracy)?)\b\W{0,4}\d|\bit/s\b|\bs/it\b", re.IGNORECASE)
_BAR = regex(
    r"\b([\d.]{1,12}[kMGT]?)(/(?:[\d.]{1,12}[kMGT]?|\?) | ?[A-Za-z]{1,12} (?=\[))"
    r"(?:\[\d{1,4}:\d\d(?::\d\d)?[<,]|\d:\d\d:\d\d\b(?! [AP]M))"
)
"""How far a progress bar of tqdm or rich is, and of how many; of a loader without a length tqdm says `7it [00:02,`. No
day before a time of day: `11/28 13:05:10`.
"""
_DRAWN = regex(r"\d{1,3}%.*|[^\w:]+")
"""What a bar has between its name and its numbers."""
WENT_ON = regex(r"\b(?:retry|retrying|ignored|ignoring|skipp(?:ed|ing)|recover(?:ed|ing))\b", re.IGNORECASE)
"""Words of a program that gets over an error."""
_BELOW = regex(r"\bNCCL error\b|\bRPC that terminated with:$|\berror stack:$")
"""Lines that name an error whose reason stands in the lines below it."""
_GRAPH = regex(r"\bGraph execution error:$|\broot error\(s\) found\.$")
"""How TensorFlow begins an error whose reason stands below all that led to it."""
_JAX = "JAX distributed service detected fatal errors"
"""How JAX begins to guess that another task died; which call of it failed stands two lines below."""
_CAUSED_BY = "Caused by:"
"""How anyhow and uv begin the reasons of an error, in lines below it."""
_OVER = regex(r"^\[?[EWIF] ?\d{3,4} |^$|Traceback \(most recent call last\)")
"""Where such lines are over."""
_CLIENT = regex(
    r"^(?:requests|urllib3|aiohttp|httpx|httpcore|botocore|s3fs|gcsfs|google|huggingface_hub|redis|pymongo|psycopg2?|asyncpg|pymysql"
    r"|sqlalchemy|clickhouse_\w+|kafka|minio|azure|boto3|mlflow|wandb)"
    r"\.[\w.]+(?::|$)"
)
"""Exceptions of clients of services that are no ranks, as a rule."""
_RESET = regex(r"^(?:[\w.]+\.)?(?:Connection\w*Error|BrokenPipeError|RemoteDisconnected)(?::|$)")
_OF_RANKS = regex(r"\bCheckpointException ranks:dict_keys\(\[(\d{1,9}(?:, \d{1,9})*)\]\)")
_WAITED = regex(r"\bran for (\d{1,12}) milliseconds before timing out|Timed out waiting (\d{1,12})ms for ")
_NUMBER = regex(r"\[rank(\d{1,9})\]:")
_NUMBERS = regex(r"0x[0-9a-fA-F]+|\d+")


@frozen
class LastWords:
    """What a rank said of its end. `at` is when it began to, None where lines have no time."""

    at: float | None
    headline: str
    weight: Weight
    cause: Cause | None
    start: int
    """Which of its lines is the first."""
    raised: bool = True
    """Whether it is an exception's, with a traceback or its name; else some other line that names an error."""
    quiet_for: float = 0.0
    """Seconds from the last of them until the rank last said something ordinary; 0 where it said no more."""
    own: tuple[str, ...] = ()
    """The lines of its own error, as they came, where another's or a launcher's report follows, or many other lines;
    else empty.
    """
    number: int | None = None
    """The rank as torch counts, where it says so before its lines."""
    blamed: frozenset[int] = frozenset()
    """The ranks, as torch counts, that failed by these words, which all ranks say; empty where they name none."""
    earlier: LastWords | None = None
    """An error of its own that it had raised before, where these words only tell of others and it said nothing else
    in between.
    """
    lingered: float = 0.0
    """Seconds from an earlier error to the words about others."""

    @property
    def gist(self) -> str:
        """The headline without numbers: two ranks with the same gist failed alike."""
        return _NUMBERS.sub("#", self.headline)[:200]


@lru_cache(1024)
def last_words(lines: Lines) -> LastWords | None:
    """What the end of a log says of a failure; None when it says nothing of one, or the rank worked on after it."""
    words = _words(lines)
    if words is None or words.weight == "own":
        return words
    return replace(words, earlier=_earlier(lines, words))


def numbers(lines: Lines) -> set[int]:
    """The ranks, as torch counts, that it says lines are from."""
    return {int(found[1]) for line in lines if (found := _NUMBER.search(safe(line.text)))}


def _earlier(lines: Lines, words: LastWords) -> LastWords | None:
    """What it had raised itself before it said these words, and nothing else since."""
    before: LastWords | None = words
    for _ in range(EARLIER):
        before = _words(lines[: before.start]) if before is not None else None
        if before is None or before.quiet_for > FLUSH:
            return None
        if before.weight == "own":
            kept = before.raised and not _worked_on(lines[before.start :], words, before.at)
            return replace(before, lingered=_apart(before.at, words.at)) if kept else None
    return None


def _worked_on(lines: Lines, words: LastWords, error: float | None) -> bool:
    """Whether it waited for what it had begun after its error: that was no end of its work."""
    waits = [(line.at, found) for line in lines if (found := _WAITED.search(line.text))]
    if not waits:
        return words.weight == "waited"
    at, found = waits[0]
    return at is None or error is None or at - int(found[1] or found[2]) / 1000 > error + PAUSE


def _words(lines: Lines) -> LastWords | None:
    texts = without_own_ends(heard(bare([plain(line.text) for line in lines])))
    end = _last_error(texts, lines)
    if end is None:
        return None
    start = _pointed_at(texts, lines, _first_error(texts, lines, end), end)
    said = texts[start : _end_of_message(texts, end)]
    named = [i for i in range(start, end + 1) if _names_error(texts, i) and not _announces(texts, i)]
    named = [i for i in named if not _ABOVE.search(texts[i])] or named
    if any(_HEAD.search(text) for text in said):
        named = [i for i in named if not _BY_SHELL.match(texts[i])]
        said = [text for text in said if not _BY_SHELL.match(text)]
    meant = {i: _meant(texts, i) for i in named}
    cause = cause_of(said)
    weight = _weight(meant.values(), cause)
    if weight == "echo":  # what was heard first says most of it
        cause = next((c for c in meant.values() if c is not None), cause)
    elif weight == "own" and cause is not None and _of(cause) != "own":  # that came of its own error
        named = [i for i in named if _of(meant[i]) == "own"]
        cause = cause_of([texts[i] for i in named])
    if cause is not None and cause.aftermath and _raised_before(texts, meant, cause):
        cause = None
    heads = [texts[i] for i in named]
    others = [texts[i] for i, one in meant.items() if one is not None and (one.secondary or one.network)]
    if cause is not None and (weight == "echo" or cause.network) and _of_service(others):
        cause = SERVICE if weight == "echo" else UNREACHED
        weight = "unclear"
    raised = any(_EXCEPTION.search(text) or _RAISED.match(text) for text in said)
    own = _own_lines(texts, lines, start, end) or _above_others(texts, lines, start, end)
    later = _later(texts, lines, end)
    number = _NUMBER.search(safe(lines[start].text))
    return LastWords(
        at=lines[start].at,
        headline=_headline(heads, said),
        weight=weight,
        cause=cause,
        start=start,
        raised=raised,
        quiet_for=later,
        own=own,
        number=int(number[1]) if number else None,
        blamed=_blamed(said),
    )


def _raised_before(texts: Sequence[str], meant: Mapping[int, Cause | None], cause: Cause) -> bool:
    """Whether an error of its own was raised before a line that names this cause."""
    last = max((i for i, one in meant.items() if one == cause), default=-1)
    return any(one is None and i < last and _RAISED.match(texts[i]) for i, one in meant.items())


def _end_of_message(texts: Sequence[str], error: int) -> int:
    """The line after an error's message: C++ gives it a line of its own, and Python's may begin with a newline."""
    after = error + 1
    if after < len(texts) and texts[after].lstrip().startswith("what():"):
        return after + 1
    if _RAISED.match(texts[error]) and texts[error].endswith(":"):
        while after < min(len(texts), error + 1 + REASON) and texts[after][:1] in ("", " ", "\t"):
            after += 1
    return after


def _blamed(said: Sequence[str]) -> frozenset[int]:
    """The ranks that torch.distributed.checkpoint names on all ranks."""
    found = [_OF_RANKS.search(text) for text in said]
    return frozenset(int(rank) for one in found if one is not None for rank in one[1].split(","))


def _of_service(heads: Sequence[str]) -> bool:
    """Whether a client of some service lost its connection: that service need be no rank."""
    clients = [text for text in heads if _CLIENT.match(text)]
    return bool(clients) and all(_CLIENT.match(text) or _RESET.match(text) for text in heads)


def _meant(texts: Sequence[str], i: int) -> Cause | None:
    """The cause that a line names; where its reason stands below it, that one."""
    cause = cause_of([texts[i]])
    if _JAX in texts[i]:
        return cause_of(texts[i + 1 : i + 3]) or cause
    if cause is None and (_GRAPH.search(texts[i]) or _CAUSED_BY in texts[i + 1 : i + 3]):
        return cause_of(takewhile(lambda text: not _HEAD.search(text), texts[i + 1 : i + 1 + LONG_REASON]))
    if not _BELOW.search(texts[i]) or not (cause is None or cause.unclear):
        return cause
    below = list(takewhile(lambda text: not _OVER.search(text), texts[i + 1 : i + 1 + REASON]))
    return cause_of(below) or cause


def _own_lines(texts: Sequence[str], lines: Sequence[Line], start: int, end: int) -> tuple[str, ...]:
    """What its own error said, where a program that starts several ranks has said more of it, or others have."""
    raised = [i for i in range(start, end + 1) if _RAISED.match(texts[i])]
    own = [i for i in raised if _of(cause_of([texts[i]])) == "own" and not _LAUNCHER.search(texts[i])]
    if not own or own[-1] == raised[-1]:
        return ()
    rank = _rank_prefix(lines[own[0]].text)
    of_rank = [i for i in range(start, end + 1) if _rank_prefix(lines[i].text) == rank]
    after = _end_of_message(texts, max(i for i in own if i in of_rank))
    return tuple(lines[i].text for i in of_rank if i < after)


def _above_others(texts: Sequence[str], lines: Sequence[Line], start: int, end: int) -> tuple[str, ...]:
    """What the error said, where what other processes of the task printed below it fills a whole excerpt."""
    after = _end_of_message(texts, end)
    below = [text for text in texts[after:] if not _stands_around(text)]
    return tuple(line.text for line in lines[start:after]) if len(below) >= AFTERWARDS else ()


def _rank_prefix(text: str) -> str:
    """torch's `[rank3]: `, or a launcher's tag, before a line of a rank that raised; empty where there is none."""
    found = RANK_PREFIX.match(safe(text))
    return found[0].rstrip() if found else ""


def _later(texts: Sequence[str], lines: Sequence[Line], end: int) -> float:
    """Seconds from the last error to the last line after it that is of no error's kind."""
    redrawn = _redrawn(lines)
    ordinary = [i for i in range(end + 1, len(texts)) if not _stands_around(texts[i]) and i not in redrawn]
    return max((_apart(lines[end].at, lines[i].at) for i in ordinary), default=0.0)


def _last_error(texts: Sequence[str], lines: Sequence[Line]) -> int | None:
    """The last line that names an error, when no ordinary work follows it."""
    after, redrawn = list[int](), _redrawn(lines)
    for i in range(len(texts) - 1, -1, -1):
        if _HEAD.search(texts[i]) or _names_error(texts, i):
            return None if _went_on(texts, lines, i, after) else i
        if not _stands_around(texts[i]) and i not in redrawn:
            after.append(i)
            if len(after) > AFTERWARDS and _went_on(texts, lines, i, after):
                return None
    return None


def _redrawn(lines: Sequence[Line]) -> set[int]:
    """Which lines are progress bars that are no further than they were before: each is drawn once more when it is
    closed, which may be long after an error. Of several, one in another, each is compared with itself.
    """
    found, known = set[int](), dict[tuple[str, str], str]()
    for i, line in enumerate(lines):
        text = plain(line.text)
        if (bar := _BAR.search(text)) is not None:
            which = _DRAWN.sub(" ", text[: bar.start()]).strip(), bar[2]
            if known.get(which) == bar[1]:
                found.add(i)
            known[which] = bar[1]
    return found


def _went_on(texts: Sequence[str], lines: Sequence[Line], error: int, after: Sequence[int]) -> bool:
    """Whether lines that are later than the error, not only flushed after it, tell of ordinary work."""
    if any(WENT_ON.search(text) and "[c10d]" not in text for text in texts[error + 1 :]):
        return True  # torch that tries its rendezvous again still waits for it
    later = [i for i in after if _apart(lines[error].at, lines[i].at, unknown=FLUSH + 1) > FLUSH]
    work = [lines[i].at for i in after if _WORK.search(texts[i])]
    return len(later) > AFTERWARDS or any(_WORK.search(texts[i]) for i in later) or _paced(work)


def _paced(times: Sequence[float | None]) -> bool:
    """Whether these were said one after the other, not flushed at once."""
    known = [at for at in times if at is not None]
    return bool(known) and max(known) - min(known) > PACE


def _names_error(texts: Sequence[str], i: int) -> bool:
    text = texts[i]
    if text[:1] in ("", " ", "\t"):
        return False
    if _RAISED.match(text) or (_WARNS.match(text) and _closes_traceback(texts, i)):
        return True  # whatever else it says: NCCL's errors name NCCL_DEBUG=WARN
    if WARNING.search(text):
        return "NCCL WARN" in text and cause_of([text]) is not None
    if severity(text) == "error" or _NATIVE.search(text) or cause_of([text]) is not None:
        return True
    return _closes_traceback(texts, i)


def _announces(texts: Sequence[str], i: int) -> bool:
    """Whether a logged line only says that the traceback below it follows (`logging.exception`, loguru)."""
    below = next((text for text in texts[i + 1 :] if text), "")
    return _HEAD.search(below) is not None and cause_of([texts[i]]) is None and not _RAISED.match(texts[i])


def _closes_traceback(texts: Sequence[str], i: int) -> bool:
    """Whether it is what a traceback was raised with, by any name."""
    above = i - 1
    while above >= 0 and texts[above][:1] in (" ", "\t"):
        above -= 1
    return 0 <= above < i - 1 and _HEAD.search(texts[above]) is not None


def _stands_around(text: str) -> bool:
    """Whether a line is of the kind that stands between errors and says nothing by itself."""
    return bool(_AROUND.search(text) or WARNING.search(text) or CHAINED.match(text))


def _first_error(texts: Sequence[str], lines: Sequence[Line], end: int) -> int:
    """Where the errors that end at `end` begin: the first traceback of a chain, the first word of a watchdog."""
    start, spare = end, 0
    for i in range(end - 1, -1, -1):
        if _HEAD.search(texts[i]) or _names_error(texts, i):
            if _apart(lines[i].at, lines[start].at) > (LONG_PAUSE if _WATCHDOG.search(texts[i]) else PAUSE):
                break
            start, spare = i, 0
        elif CHAINED.match(texts[i]):
            spare = MESSAGE
        elif not _stands_around(texts[i]):
            if not spare:
                break
            spare -= 1
    return start


def _points(text: str) -> bool:
    """Whether an error only points to another above it: a launcher's, too, a child of which has ended badly."""
    if _ABOVE.search(text):
        return True
    return _CHILD.search(text) is not None and (not _RAISED.match(text) or _LAUNCHER.search(text) is not None)


def _pointed_at(texts: Sequence[str], lines: Sequence[Line], start: int, end: int) -> int:
    """Where the errors begin to which these point: a process of theirs had printed them a little before."""
    points = [texts[i] for i in range(start, end + 1) if _points(texts[i]) and _names_error(texts, i)]
    if not points:
        return start
    launched = not any(_ABOVE.search(text) for text in points)
    spare = MESSAGE
    said: float | None = None
    for i in range(start - 1, -1, -1):
        if _names_error(texts, i):
            went_on = launched and _apart(lines[i].at, said) > FLUSH
            near = _apart(lines[i].at, lines[start].at) <= POINTED
            return _first_error(texts, lines, i) if near and not went_on else start
        if _stands_around(texts[i]):
            continue
        if said is None and not _ENDING.search(texts[i]):
            said = lines[i].at
        spare -= 1
        if not spare:
            break
    return start


def _apart(before: float | None, after: float | None, unknown: float = 0.0) -> float:
    return unknown if before is None or after is None else after - before


def _headline(heads: Sequence[str], said: Sequence[str]) -> str:
    """What was raised last, else the last error."""
    heads = [text for text in heads if not _LAUNCHER.search(text)] or heads
    raised = [text for text in heads if _RAISED.match(text)]
    return (raised or heads or [text.strip() for text in said])[-1]


def _weight(meant: Iterable[Cause | None], cause: Cause | None) -> Weight:
    """The first error of a chain decides: later ones are what came of it. A cause of its own anywhere outweighs."""
    if cause is not None and not (cause.secondary or cause.waited or cause.vague or cause.unclear):
        return "own"
    first = next((one for one in meant if one is None or not one.vague), cause)
    return _of(first)


def _of(cause: Cause | None) -> Weight:
    if cause is None:
        return "own"
    return "echo" if cause.secondary else "waited" if cause.waited else "unclear" if cause.unclear else "own"
