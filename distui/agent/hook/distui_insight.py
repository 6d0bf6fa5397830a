# ruff: noqa: PTH101, PTH104, PTH108, PTH112, PTH123, UP031
# Any Python from 3.6 on runs this, in the program of a rank.
"""Lets a program that uses torch.distributed, JAX or TensorFlow be asked where it is, without its help and without
stopping it.

Leaves in the folder $DISTUI_INSIGHT, which only the job's own user reaches, files named by the process:

- `PID.json`    who it is: rank, versions, what it can be asked for;
- `PID.sock`    torch's own worker server: its flight recorder, by HTTP, served by a C++ thread;
- `PID.ask`     a fifo: a byte written to it has the kernel send this process a signal of its own choice,
- `PID.stacks`  into which faulthandler then writes the stack of every thread, also when a thread holds the GIL;
- `PID.crash`   into which faulthandler writes them when compiled code crashes (SIGSEGV, SIGABRT and the like);
- `PID.last`    where it was when an exception that nobody caught ended it: its calls, and its newest collectives.

The signal comes from the kernel to the main thread of the process that asked for it (F_SETOWN_EX, F_SETSIG), and the
fifo is closed when that becomes another program: nobody ever has to send a signal to a process that might die of it.
"""

import atexit
import ctypes
import faulthandler
import fcntl
import json
import os
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any

F_SETSIG, F_SETOWN_EX, F_OWNER_TID = 10, 15, 0
"""Of Linux's fcntl.h."""

CRASHES = (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)
"""What faulthandler.enable() takes."""
ABOVE = 900
"""Numbers of files that a program closes and opens again are below this."""
RECORDERS = (("_dump_fr_trace_json", ""), ("_dump_nccl_trace_json", ":nccl"))
"""What torch's worker server answers with, and the marks of `agent/ranks/hooked.py`."""
MOST_CALLS, MOST_COLLECTIVES, MOST_SIZES = 100, 100, 151
"""Of what is left at the end; sizes of a collective's tensors, of which it may have thousands (`long_answers.py`)."""
OLDER = {
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE": "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}
"""Variables of torch's flight recorder -> their names before torch 2.8, which knows both."""
TORCH = "torch.distributed"
OTHERS = {"jax": "JAX", "tensorflow": "TensorFlow"}
"""Modules of frameworks that tell no collectives -> what they are called."""

_can = {}  # type: dict[int, dict[str, int]]
"""A process -> what it can be asked for. A forked child opens its own."""
_at_end = []  # type: list[Any]


def begin(module: str) -> None:
    """Open what can be opened; called right after torch.distributed, or another one that is watched for, was loaded:
    once for torch, and before that once for each of the others.
    """
    folder, own = os.environ.get("DISTUI_INSIGHT", ""), os.getpid()
    if not folder or not os.path.isdir(folder):
        return
    base = "%s/%d" % (folder, own)
    if own not in _can:
        number = _free_signal()
        _can[own] = {"signal": number, "stacks": _unless(_open_stacks, base, number)}
        _unless(_open_crash, base)
    if module == TORCH:
        _begin_torch(sys.modules["torch"], folder, base)
    else:
        uses = [name for module, name in OTHERS.items() if module in sys.modules]
        _say(base, _can[own], uses=" and ".join(uses))


def _begin_torch(torch: "Any", folder: str, base: str) -> None:
    """Open what torch itself tells of its collectives."""
    _older_names(torch)
    can = _can[os.getpid()]
    can["server"] = _unless(_open_server, torch, folder, base)
    atexit.register(_unless, _say_last, base, torch, os.getpid())
    _say(base, can, torch=str(torch.__version__))
    _unless(_watch_rank, torch, folder, can)


def end() -> None:
    """Close what must not be used once Python has ended; called after all that the program itself does at its end."""
    while _at_end:
        _unless(_at_end.pop())


def _unless(act: "Any", *args: "Any") -> bool:
    """What `act` gives, False where it fails: one that fails does not take the other along."""
    try:
        return bool(act(*args))
    except Exception:
        return False


def _watch_rank(torch: "Any", folder: str, can: "dict[str, int]") -> None:
    """Have torch's own rank reported once its default group is made: torchrun's and mp.spawn's ranks are not the run's.

    A forked child that becomes a rank opens what its parent has opened for itself.
    """
    place, owner = torch._C._distributed_c10d, os.getpid()
    take = place._set_global_rank  # distributed_c10d.py calls it by this name whenever the default group changes

    def set_global_rank(rank: int) -> None:
        take(rank)
        if os.getpid() != owner:
            place._set_global_rank = take
            _unless(begin, TORCH)
            _unless(place._set_global_rank, rank)
        elif rank >= 0:
            own = {"torch_rank": rank, "torch_world": torch.distributed.get_world_size()}
            _unless(_say, "%s/%d" % (folder, owner), can, str(torch.__version__), "", own)

    place._set_global_rank = set_global_rank


def _say(base: str, can: "dict[str, int]", torch: str = "", uses: str = "", own: "Any" = ()) -> None:
    """Who this is. Written whole or not at all."""
    who = {name: os.environ.get(name.upper(), "") for name in ("rank", "local_rank", "world_size")}  # type: dict[str, object]
    who.update(can, **dict(own), pid=os.getpid(), python=sys.version.split()[0], torch=torch, uses=uses)
    with open(base + ".json.new", "w") as file:
        json.dump(who, file)
    _for_the_asker(base + ".json.new", 0o644)
    os.rename(base + ".json.new", base + ".json")


def _older_names(torch: "Any") -> None:
    """Before torch 2.8 the flight recorder's variables had other names, of which later ones complain."""
    version = [int(part) for part in str(torch.__version__).split(".")[:2]]
    for name, older in OLDER.items() if version < [2, 8] else ():
        if name in os.environ:
            os.environ.setdefault(older, os.environ[name])


def _open_stacks(base: str, number: int) -> bool:
    """Whether the stacks of all threads can be asked for, by this signal."""
    if not number or not hasattr(faulthandler, "register") or not hasattr(os, "register_at_fork"):  # Python 3.6
        return False
    stacks = os.open(base + ".stacks", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
    _for_the_asker(base + ".stacks", 0o666)
    faulthandler.register(number, file=stacks, all_threads=True, chain=False)
    _remove(base + ".ask")  # of an earlier process with this number
    os.mkfifo(base + ".ask")
    _for_the_asker(base + ".ask", 0o666)
    asked = os.open(base + ".ask", os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(asked, F_SETSIG, number)
    # the main thread: another one would read its calls while it goes on
    fcntl.fcntl(asked, F_SETOWN_EX, struct.pack("ii", F_OWNER_TID, os.getpid()))
    fcntl.fcntl(asked, fcntl.F_SETFL, fcntl.fcntl(asked, fcntl.F_GETFL) | os.O_ASYNC)
    files = [(number, _identity(number)) for number in (asked, stacks)]
    os.register_at_fork(after_in_child=lambda: _close(files))
    owner = os.getpid()
    _at_end.append(lambda: _end_asking(base + ".ask", files[:1], owner))
    return True


def _open_crash(base: str) -> bool:
    """Whether a crash will be reported; a program that sees to that itself, or handles these signals, is left alone."""
    taken = any(signal.getsignal(number) != signal.SIG_DFL for number in CRASHES)
    if taken or faulthandler.is_enabled() or not hasattr(os, "register_at_fork"):  # Python 3.6
        return False
    low = os.open(base + ".crash", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
    number = _high(low)
    _for_the_asker(base + ".crash", 0o644)
    faulthandler.enable(file=number, all_threads=True)
    files = [(number, _identity(number))]
    os.register_at_fork(after_in_child=lambda: _to_nowhere(files))
    return True


def _high(number: int) -> int:
    """The same file under a high number; as it is where so many files are not allowed."""
    try:
        high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, ABOVE)
    except OSError:
        return number
    os.close(number)
    return high


def _to_nowhere(files: "Any") -> None:
    """A child's crash is not its parent's."""
    for number, identity in files:
        try:
            if _identity(number) == identity:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, number, False)
                os.close(null)
        except OSError:
            continue


def _say_last(base: str, torch: "Any", owner: int) -> bool:
    """Whether it was said where the program was, which an exception ends that nobody caught."""
    error = getattr(sys, "last_value", None)
    if error is None or os.getpid() != owner:
        return False
    said = {
        "calls": _calls(error.__traceback__),
        "recorders": {mark: _recorder(torch, name) for name, mark in RECORDERS},
    }
    with open(base + ".last.new", "w") as file:
        json.dump(said, file)
    _for_the_asker(base + ".last.new", 0o644)
    os.rename(base + ".last.new", base + ".last")
    return True


def _calls(traceback: "Any") -> "list[list[Any]]":
    """The calls that the exception went through, innermost first."""
    found = []  # type: list[list[Any]]
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found.append([code.co_filename, traceback.tb_lineno, code.co_name])
        traceback = traceback.tb_next
    return found[::-1][:MOST_CALLS]


def _recorder(torch: "Any", name: str) -> "Any":
    """The flight recorder's newest entries; None where this torch has none."""
    dump = getattr(torch._C._distributed_c10d, name, None)
    if dump is None:
        return None
    said = json.loads(dump().decode("utf-8", "replace"))
    said["entries"] = [_short(one) for one in said.get("entries", [])[-MOST_COLLECTIVES:]]
    return said


def _short(entry: "Any") -> "Any":
    """A collective without the tensors that it gives, and with no more than is reported of those that it takes."""
    found = {name: value for name, value in entry.items() if not name.startswith("output_")}
    found["input_sizes"] = found.get("input_sizes", [])[:MOST_SIZES]
    found["input_dtypes"] = sorted(set(found.get("input_dtypes", [])))
    return found


def _end_asking(path: str, files: "Any", owner: int) -> None:
    """Until this a program can be asked that waits at its end, as for other ranks.

    Python gives its signals back before compiled code has ended: one that came then would end the process by it.
    """
    if os.getpid() == owner:
        _remove(path)
        _close(files)


def _free_signal() -> int:
    """A real-time signal that nobody has taken; 0 when there is none."""
    last = int(getattr(signal, "SIGRTMAX", 0))
    for number in range(last - 3, last - 12, -1) if last else ():
        if signal.getsignal(number) == signal.SIG_DFL:
            return number
    return 0


def _identity(number: int) -> "tuple[int, int]":
    """Which file this is, whatever its number is."""
    found = os.fstat(number)
    return (found.st_dev, found.st_ino)


def _close(files: "Any") -> None:
    """Close what has not been closed by the program, which may have given the number to another file by now."""
    for number, identity in files:
        try:
            if _identity(number) == identity:
                os.close(number)
        except OSError:
            continue


def _open_server(torch: "Any", folder: str, base: str) -> bool:
    """Whether torch's worker server listens. It says so on stderr, which is the job's log: not there."""
    kind = getattr(getattr(torch._C, "_distributed_c10d", None), "_WorkerServer", None)
    if kind is None:
        return False
    server = _quietly(lambda: _listen(kind, folder, base))
    if server is None:
        return False
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))  # its end would be said in the job's log, too
    atexit.register(_remove_own, base + ".sock", os.getpid())  # nobody asks a process that is ending
    return True


def _listen(kind: "Any", folder: str, base: str) -> "Any":
    """A socket's path has 107 bytes at most; through an open folder it is short."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    _remove(base + ".sock")
    try:
        server = kind("/proc/self/fd/%d/%d.sock" % (number, os.getpid()))
    finally:
        os.close(number)
    _for_the_asker(base + ".sock", 0o666)
    return server


def _remove_own(path: str, owner: int) -> None:
    """Remove what this process made: a forked child that ends has the same to do, and may not."""
    if os.getpid() == owner:
        _remove(path)


def _remove(path: str) -> None:
    """Remove a file that may not be there."""
    try:
        os.unlink(path)
    except OSError:
        return


def _quietly(act: "Any") -> "Any":
    """What `act` gives, with stderr closed meanwhile; None when it fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        return act()
    except Exception:
        return None
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def _for_the_asker(path: str, mode: int) -> None:
    """Whoever logs in to the host may be another user than the container's; both reach only this folder's files."""
    os.chmod(path, mode)
