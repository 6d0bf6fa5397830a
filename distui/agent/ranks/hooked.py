# ruff: noqa: PTH208, UP031, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""Asks the programs that `hook/distui_insight.py` runs in: where they are in their collectives, and their stacks.

The folder belongs to the program, which may put there whatever it likes: a file is opened first and looked at then, by
its number, so that a link leads nowhere; every answer has a limit of bytes and of seconds.
"""

import errno
import fcntl
import json
import os
import re
import socket
import stat
import threading
import time

from distui.agent.ranks.long_answers import Answer
from distui.agent.ranks.processes import catches
from distui.agent.ranks.recorded import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

ANSWER_SECONDS, ANSWER_BYTES, LONGEST_BYTES = 5.0, 4 << 20, 64 << 20
"""Of the answers of torch's worker server; a recorder with 2,000 entries takes 1 MB, longer ones are shortened as they
come."""
ONE_AT_A_TIME = threading.Lock()
"""Held while a JSON answer is read: its every three bytes may be a list, which takes twenty times as much memory."""
RECORDERS = (("fr_trace_json", ""), ("dump_nccl_trace_json", ":nccl"))
"""Handlers of torch's server, for collectives over gloo and over NCCL, and with what the names of groups are marked: a
group that does both (`cpu:gloo,cuda:nccl`, as torch makes it when it is given no backend) counts each from one.
FlightRecorderCuda.cpp and control_plane/Handlers.cpp of torch 2.13."""
PICKLED = "/handler/dump_nccl_trace_pickle?includestacktraces=false"
"""Of torch 2.4, whose server tells of NCCL in no other way; NCCLUtils.cpp. Stacks would need the GIL."""
PICKLE_BYTES = 2 << 20
"""Of such an answer, whose every byte may be a list of its own; 2,000 entries take a quarter of a megabyte."""
STACK_SECONDS, STACK_BYTES = ANSWER_SECONDS, 256 * 1024
QUIET, SAMPLE_QUIET = (0.2, 1.0), (0.03, 0.03)
"""Seconds without another byte after which the stacks count as written, and where the last call is none that a program
begins with: a busy host may halt faulthandler there. Of one of many samples sooner."""
OUTERMOST = (
    *(b" in <module>", b" in _run_module_as_main"),
    *(b" in _shutdown", b" in _python_exit", b" in _exit_function"),
    *(b" in shutdown", b" in clean_up"),
)
"""Where a main thread begins, which faulthandler writes last: in a file, or with `python -m`; where its program has
ended, in what waits for threads and processes that it has started, or in JAX for the other ranks.
"""
SAMPLE_TURN = 0.5
"""Seconds that one of many samples waits for others who ask the same program."""
LAST_BYTES, MOST_LAST, MOST_FILES, MOST_LEFT = 1 << 20, 20, 4096, 128
"""Of what a program left at its end: bytes, collectives of a group; and of such programs in one folder."""
MOST_FRAMES, MOST_STACKS, MOST_TEXT = 100, 64, 300
"""faulthandler writes no more than a hundred calls of a thread."""

O_PATH = 0o10000000
"""Of Linux's fcntl.h: a file by its number alone, which may be a socket."""


def who(folder: str, pid: int) -> "Optional[dict[str, Any]]":
    """What the program said of itself; None when the hook does not run in it."""
    data = read_regular("%s/%d.json" % (folder, pid), 4096)
    try:
        said = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    plain = {str(name)[:32]: value for name, value in said.items() if isinstance(value, (str, int))}
    return {name: value for name, value in plain.items() if len(str(value)) < 64}


def hears(pid: int, hook: "Optional[dict[str, Any]]") -> bool:
    """Whether a process, by its number on the host, handles the signal that asks for its stacks."""
    number = hook.get("signal") if hook is not None else None
    return isinstance(number, int) and catches(pid, number)


def read_regular(path: str, most: int) -> bytes:
    """A regular file's first bytes; empty for anything else."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(number, most) if stat.S_ISREG(os.fstat(number).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(number)


# the flight recorder


def recorder(folder: str, pid: int, most: int) -> "dict[str, Any]":
    """The newest collectives of a process, at most so many of each group; {"why": ...} when it does not say.

    A torch without NCCL has one recorder, an old one with it only the other.
    """
    until = time.monotonic() + ANSWER_SECONDS
    answers, missing = [], []  # type: list[dict[str, Any]], list[Exception]
    for name, mark in RECORDERS:
        try:
            answers.append(ask_recorder("%s/%d.sock" % (folder, pid), name, until, most, mark))
        except NotServed as error:
            missing.append(error)
        except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError) as error:
            return why_not(error)
    if not answers:
        return {"why": str(missing[0])}
    groups = {}  # type: dict[str, Any]
    for answer in answers:
        groups.update(answer["groups"])
    return {"version": answers[0]["version"], "groups": groups}


def ask_recorder(path: str, name: str, until: float, most: int, mark: str) -> "dict[str, Any]":
    """What one recorder answers, in short. Raises NotServed, OSError, ValueError, and what is no such answer raises."""
    try:
        text = ask_server(path, "/handler/" + name, until).decode("utf-8", "replace")
    except NotServed:
        if "nccl" not in name:
            raise
        return shorten(unpickle(ask_server(path, PICKLED, until)), most, mark)
    with ONE_AT_A_TIME:
        return shorten(json.loads(text), most, mark)


def unpickle(data: bytes) -> "dict[str, Any]":
    """What torch pickles: texts, numbers, lists and dicts. Raises ValueError for all else.

    Python's reader in Python, knowing only what torch's Pickler writes: no globals, no persistent ids, no decimal
    numbers of any length. The one in C sets gigabytes aside when the memo has one high number. Only texts come again
    (frames of stacks do, too, and are None then), and no more of them than an answer may have bytes.
    """
    import io  # noqa: PLC0415
    import pickle  # noqa: PLC0415

    twice = 0

    def texts(load: "Any") -> "Any":
        def act(reader: "Any") -> None:
            nonlocal twice
            load(reader)
            top = reader.stack[-1]
            parts = top if isinstance(top, tuple) else (top,)
            if all(isinstance(part, str) for part in parts):
                twice += sum(map(len, parts))
            elif parts is top:
                raise TypeError("a pair that is not of texts")
            else:
                reader.stack[-1] = None
            if twice > ANSWER_BYTES:
                raise ValueError("it unfolds to more than %d bytes" % ANSWER_BYTES)

        return act

    if len(data) > PICKLE_BYTES:
        raise ValueError("a pickle of more than %d bytes" % PICKLE_BYTES)
    reader = pickle._Unpickler(io.BytesIO(data))
    known = reader.dispatch
    reader.dispatch = {code: known[code] for code in PLAIN}  # type: ignore[misc]
    reader.dispatch.update((code, texts(known[code])) for code in TEXTS)
    try:
        return reader.load()  # type: ignore[no-any-return]
    except Exception as error:
        raise ValueError("no pickle of torch's: %s: %s" % (type(error).__name__, error)) from None


PLAIN = b"\x80.(N\x88\x89KMJ\x8aGX]}aesuqr"
"""PROTO STOP MARK, NONE NEWTRUE NEWFALSE BININT1 BININT2 BININT LONG1 BINFLOAT BINUNICODE, EMPTY_LIST EMPTY_DICT,
APPEND APPENDS SETITEM SETITEMS, BINPUT LONG_BINPUT: torch/csrc/jit/serialization/pickler.cpp."""
TEXTS = b"hj\x86"
"""BINGET LONG_BINGET TUPLE2, the pair being the name of a group and what it is for."""


def why_not(error: Exception) -> "dict[str, Any]":
    """In words, for people."""
    words = str(error) if type(error) is ValueError else "%s: %s" % (type(error).__name__, error)
    return {"why": words[:MOST_TEXT]}


class NotServed(ValueError):
    """The server has no such handler."""


def ask_server(path: str, what: str, until: float) -> bytes:
    """The body of one answer. Raises OSError, ValueError."""
    number = os.open(path, O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX)
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            raise ValueError("not a socket")
        sock.settimeout(max(0.1, until - time.monotonic()))
        sock.connect("/proc/self/fd/%d" % number)
        sock.sendall(("POST %s HTTP/1.0\r\nHost: distui\r\nContent-Length: 0\r\n\r\n" % what).encode())
        return body_of(take(sock, until))
    finally:
        sock.close()
        os.close(number)


def take(sock: socket.socket, until: float) -> bytes:
    """All that comes until the other end closes. Raises OSError, ValueError for too much or too slow."""
    answer = Answer(ANSWER_BYTES, LONGEST_BYTES)
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise ValueError("no whole answer within %d s" % ANSWER_SECONDS)
        sock.settimeout(left)
        data = sock.recv(1 << 18)
        if not data:
            return answer.whole()
        answer.add(data)


def body_of(answer: bytes) -> bytes:
    """What follows the head. Raises NotServed, ValueError for another status than 200."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].split(None, 2)
    if words[1:2] == [b"404"]:
        raise NotServed("this torch has no flight recorder that can be read")
    if words[1:2] != [b"200"]:
        raise ValueError("status " + b" ".join(words)[:40].decode("utf-8", "replace"))
    return body


# what a program that has ended left behind


def left(folder: str) -> "list[dict[str, Any]]":
    """The programs that reported where they were when they ended, in rows as of running programs, newest first."""
    begun = []
    try:
        for name in os.listdir(folder)[:MOST_FILES]:
            if re.match(r"\d{1,9}\.json\Z", name):
                begun.append((os.lstat(folder + "/" + name).st_mtime, int(name[:-5])))
    except OSError:
        return []
    known = {}  # type: dict[str, float]
    rows = [left_by(folder, pid, since, known) for since, pid in sorted(begun, reverse=True)[:MOST_LEFT]]
    return [row for row in rows if row]


def left_by(folder: str, pid: int, since: float, known: "dict[str, float]") -> "dict[str, Any]":
    """What one program left that spoke at a time; empty where it said nothing at its end. `known`: when the newest
    program of each rank spoke that has been seen. To it belongs what torch itself wrote; what another one left before
    that is of an earlier try of the rank.
    """
    hook = who(folder, pid)
    until = known.get(rank_of(hook or {}), 0.0)
    crash = read_after(until, "%s/%d.crash" % (folder, pid), STACK_BYTES)
    last = read_after(until, "%s/%d.last" % (folder, pid), LAST_BYTES)
    traced = trace_of(folder, hook or {}, since, known)
    row = {"pid": pid, "state": "X", "hook": hook}  # type: dict[str, Any]
    if traced:
        row["recorder"] = traced
    if last:
        row.update(last_words(last))
    if crash:
        row["stacks"] = {"threads": read_stacks(crash.decode("utf-8", "replace"))}
    return row if crash or last or traced else {}


def read_after(moment: float, path: str, most: int) -> bytes:
    """What is in a file that was written after a moment."""
    try:
        return read_regular(path, most) if os.lstat(path).st_mtime >= moment else b""
    except OSError:
        return b""


def rank_of(hook: "dict[str, Any]") -> str:
    """The rank of a program that has the hook, as torch counts where that is known."""
    return str(hook.get("torch_rank", hook.get("rank", "")))


def trace_of(folder: str, hook: "dict[str, Any]", since: float, known: "dict[str, float]") -> "dict[str, Any]":
    """What torch wrote of a rank's collectives over NCCL before its watchdog ended it, which runs nothing of Python's
    at the end (DebugInfoWriter in torch's NCCLUtils.cpp); empty where there is none, or it is an older program's.
    """
    rank = rank_of(hook)
    path = "%s/trace_%s" % (folder, rank)
    if not re.match(r"\d{1,7}\Z", rank) or rank in known:
        return {}
    known[rank] = since
    try:
        if os.lstat(path).st_mtime < since:
            return {}
        return shorten(unpickle(read_regular(path, PICKLE_BYTES + 1)), MOST_LAST, ":nccl")
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError):
        return {}


def last_words(text: bytes) -> "dict[str, Any]":
    """Where the main thread was, and its newest collectives, by the hook's `PID.last`."""
    try:
        said = json.loads(text.decode("utf-8", "replace"))
        calls = [[str(f)[:MOST_TEXT], int(n), str(name)[:MOST_TEXT]] for f, n, name in said["calls"][:MOST_FRAMES]]
        groups = {}  # type: dict[str, Any]
        for mark in ("", ":nccl"):
            recorder = said["recorders"].get(mark)
            groups.update(shorten(recorder, MOST_LAST, mark)["groups"] if recorder else {})
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError):
        return {}
    return {"recorder": {"groups": groups}, "stacks": {"threads": [["main", True, calls]]}}


# stacks


def stacks(folder: str, pid: int) -> "dict[str, Any]":
    """The stack of every thread, innermost frame first; {"why": ...} when it does not come, and whether that is for
    want of time (`late`).
    """
    base, until = "%s/%d" % (folder, pid), time.monotonic() + STACK_SECONDS
    try:
        text = ask_stacks(base + ".ask", base + ".stacks")
    except OSError as error:
        return {"why": error.strerror or str(error), "late": isinstance(error, BlockingIOError)}
    if not text:
        return {"why": "no answer within %d s" % STACK_SECONDS, "late": True}
    threads = read_stacks(text.decode("utf-8", "replace"))
    if threads and (is_whole(text) or is_said_again(base, text, until - time.monotonic())):
        return {"threads": threads}
    if any(frames for _, _, frames in threads):
        return {"threads": threads, "late": True}
    return {"why": "no whole answer within %d s" % STACK_SECONDS, "late": True}


def is_said_again(base: str, text: bytes, seconds: float) -> bool:
    """Whether a program that is asked once more says the same calls of its last thread: then they are all. A function
    that a package has called at exit was called by none that a program begins with, and faulthandler that was halted
    goes on where that was.
    """
    if not ends_whole(text) or seconds <= 0:
        return False
    try:
        again = ask_stacks(base + ".ask", base + ".stacks", seconds=seconds)
    except OSError:
        return False
    return again.rpartition(HEAD_END)[1:] == text.rpartition(HEAD_END)[1:]


def stacks_now(base: str) -> str:
    """The stacks of every thread as faulthandler writes them, one sample of many: those cut short do no harm.

    Raises OSError: BlockingIOError while others ask.
    """
    return ask_stacks(base + ".ask", base + ".stacks", SAMPLE_QUIET, SAMPLE_TURN).decode("utf-8", "replace")


def ask_stacks(
    asked: str,
    written: str,
    quiet: "tuple[float, float]" = QUIET,
    turn: float = STACK_SECONDS,
    seconds: "float | None" = None,
) -> bytes:
    """Have the kernel send the program its signal, and read what faulthandler writes then, for so many `seconds`;
    `turn` is how long others are waited for that ask the same program. Raises OSError.
    """
    seconds = STACK_SECONDS if seconds is None else seconds
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fifo = os.open(asked, os.O_RDWR | flags)
    try:
        stack = os.open(written, os.O_RDWR | flags)
        try:
            if not (stat.S_ISFIFO(os.fstat(fifo).st_mode) and stat.S_ISREG(os.fstat(stack).st_mode)):
                raise OSError("what should be a fifo and a file is something else")
            until = time.monotonic() + seconds
            take_turn(stack, time.monotonic() + min(turn, seconds))
            os.ftruncate(stack, 0)
            put(fifo)
            return settled(stack, quiet, until)
        finally:
            os.close(stack)
    finally:
        os.close(fifo)


def take_turn(stack: int, until: float) -> None:
    """Wait for others on this host that ask the same program, `distui why` beside whoever follows the run: each would
    empty the file of the other's answer. The lock ends with its holder. Raises BlockingIOError.
    """
    while True:
        try:
            fcntl.flock(stack, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise BlockingIOError(errno.EAGAIN, "somebody else asks for them just now") from None
            time.sleep(0.01)
        except OSError:  # a file system without locks
            return


def put(fifo: int) -> None:
    """Have the program signalled once.

    Reading from the fifo signals as well (`pipe_read` of Linux's fs/pipe.c), and two signals at once may be handled by
    two threads, whose stacks are mixed then. Linux 5.5 to 5.13 signal only for a byte that comes into an empty fifo.
    """
    numbers = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
    if (5, 5) <= numbers < (5, 14):
        drain(fifo)
    try:
        os.write(fifo, b".")
    except BlockingIOError:
        drain(fifo)
        os.write(fifo, b".")


def drain(fifo: int) -> None:
    """Take out what earlier askers left: no more than a fifo holds, since the program may fill it meanwhile."""
    try:
        for _ in range(16):
            os.read(fifo, 65536)
    except BlockingIOError:
        return


def settled(number: int, quiet: "tuple[float, float]" = QUIET, until: float = 0.0) -> bytes:
    """The file once nothing more is written to it, or as it is at a time, `until`."""
    until = until or time.monotonic() + STACK_SECONDS
    size = since = 0.0
    while time.monotonic() < until:
        now = os.fstat(number).st_size
        if now != size:
            size, since = now, time.monotonic()
        elif size and time.monotonic() - since > quiet[0]:
            text = os.pread(number, STACK_BYTES, 0)
            if ends_whole(text) and (is_whole(text) or time.monotonic() - since > quiet[1]):
                return text
        time.sleep(0.01)
    return os.pread(number, STACK_BYTES, 0)


def ends_whole(text: bytes) -> bool:
    """Whether this may be all: a busy host may halt faulthandler in a line, or between a thread and its calls; what
    came of an earlier question has no thread at its beginning.
    """
    return HEAD_END in text and text.endswith(b"\n") and not text.endswith((b"\n\n", HEAD_END))


def is_whole(text: bytes) -> bool:
    """Whether the last thread's calls are all there: to where a program begins, or with a line of faulthandler's own in
    place of those, or of the threads, that it leaves out.
    """
    last = text.rstrip(b"\n").rpartition(b"\n")[2]
    return last.endswith((*OUTERMOST, b"...")) or (last.startswith(b"  ") and not last.startswith(b"  File "))


HEAD_END = b"(most recent call first):\n"
"""Ends the line with which faulthandler begins each thread."""
FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
HEAD = re.compile(r"(Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*?)\])? \(most recent call first\):")


def read_stacks(text: str) -> "list[list[Any]]":
    """faulthandler's text as `[thread, whether it got the signal, [[file, line, function], ...]]`.

    Of too many threads the last one is among those that are kept: the main thread is written last.
    """
    found = []  # type: list[list[Any]]
    known = set()
    for line in text.splitlines():
        head, frame = HEAD.match(line), FRAME.match(line)
        if head and head.group(2) in known:
            break  # the kernel may tell of one byte twice
        if head:
            del found[MOST_STACKS - 1 :]
            known.add(head.group(2))
            found.append([head.group(3) or head.group(2), head.group(1).startswith("Current"), []])
        elif frame and found and len(found[-1][2]) < MOST_FRAMES:
            line_no = int(frame.group(2)) if frame.group(2).isdigit() else 0
            found[-1][2].append([frame.group(1)[:MOST_TEXT], line_no, frame.group(3)[:MOST_TEXT]])
    return found
