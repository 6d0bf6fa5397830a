"""What one rank does instead of going on, in words, from its stack and from what the kernel tells. Pure."""

from __future__ import annotations

from distui.frozen import frozen
from distui.regex import regex
from distui.runs.insight.seen.answers import Frame, Process, Stack
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.stalls import LOADER, hangs, moves, saves, stall_of

_TORCH = r"/torch/(distributed|nn|autograd|optim|utils|multiprocessing|_\w+)[/.]"
_FOREIGN = regex(rf"(^<|/site-packages/|/dist-packages/|/lib/python3[.0-9]*/|/importlib/|distui_insight|{_TORCH})")
"""Files that are not the user's own: installed packages, torch wherever it is, and Python itself."""

BUSY = 0.5
"""Cores from which on a process counts as at work."""


@frozen
class Doing:
    """What a rank does, and where."""

    words: str
    frame: Frame | None = None
    """The innermost call in the user's own files."""
    stall: bool = False
    """Whether it is something that takes long now and then and is no fault: a checkpoint, a compile, a download."""
    unsure: bool = False
    """Whether nothing of that was seen to move, so that it may also hang."""
    seen: bool = True
    """Whether anything is known at all."""
    busy: bool = False
    """Whether it is at work: it computes, reads or writes."""

    @property
    def at(self) -> str:
        """Where, as it follows other words; empty where that is not known."""
        return f" at {self.frame}" if self.frame is not None else ""

    @property
    def text(self) -> str:
        """Both in one line."""
        return self.words + self.at


_CUDA = regex(r"/torch/(cuda|xpu|accelerator)/")

WAITS = {
    "hrtimer_nanosleep": "sleeps",
    "do_nanosleep": "sleeps",
    "clock_nanosleep": "sleeps",
    "wait_for_partner": "waits for somebody to open the other end of a fifo",
    "fifo_open": "waits for somebody to open the other end of a fifo",
    "pipe_read": "waits for data from a pipe",
    "anon_pipe_read": "waits for data from a pipe",
    "do_wait": "waits for a process that it started",
    "kernel_wait4": "waits for a process that it started",
    "sk_wait_data": "waits for data from the network",
    "wait_woken": "waits for data from the network",
    "unix_stream_read_generic": "waits for data from a socket",
    "unix_stream_data_wait": "waits for data from a socket",
    "inet_csk_accept": "waits for somebody to connect",
    "inet_csk_wait_for_connect": "waits for somebody to connect",
    "locks_lock_inode_wait": "waits for a lock on a file",
    "flock_lock_inode_wait": "waits for a lock on a file",
    "posix_lock_inode_wait": "waits for a lock on a file",
    "fcntl_setlk": "waits for a lock on a file",
    "ptrace_stop": "is being traced",
}
"""Functions of Linux in which a thread waits -> what that means."""

LOCKED = dict.fromkeys(
    ("futex_do_wait", "futex_wait_queue", "futex_wait_queue_me"), "waits for a lock or another thread"
)
"""The same of what every rank does that waits for others, too: nothing of it explains why one is late."""


def doing(seen: RankSeen) -> Doing:
    """What a rank does, by the surest sign first."""
    process = seen.process
    if process is None:
        return Doing(_not_there(seen), seen=bool(seen.ended or seen.why_not))
    frame = own_frame(seen)
    if process.state == "T":
        return Doing("is stopped by a signal (SIGSTOP)", frame)
    if seen.held:
        return Doing("is being traced, and stopped by that (a debugger?)", frame)
    if process.state in ("Z", "X"):
        return Doing("has ended")
    stack, at_file = seen.main_stack, _at_file(process)
    files = [one.file for one in stack.frames] if stack else []
    if stall := stall_of(files):
        return _stalls(seen, f"{stall} (it is {at_file})" if at_file else stall, frame)
    if saves(process, stack):
        return _stalls(seen, f"is {at_file}" if at_file else "saves to a file", frame)
    if at_file:
        return Doing(f"is {at_file}", frame, busy=True)
    if any(LOADER.search(file) for file in files):
        return Doing("waits for its data loader", frame)
    main = process.threads[0] if process.threads else None
    if main is not None and main.state == "D":
        return Doing("waits for a disk", frame, busy=True)
    if _waits_for_gpu(stack):
        return Doing("waits for its GPU", frame, busy=True)
    if _at_work(process):
        return Doing("is busy with code of its own", frame, busy=True)
    waits = (WAITS | LOCKED).get(main.waits, "") if main is not None else ""
    return Doing(waits or ("is" if frame else "waits"), frame, seen=bool(waits or frame))


def _stalls(seen: RankSeen, words: str, frame: Frame | None) -> Doing:
    """What takes long now and then; once nothing of it has moved for long, that is what is said of it."""
    if hangs(seen):
        return Doing(f"{words}, but nothing moves", frame, unsure=True)
    return Doing(words, frame, stall=True, unsure=not moves(seen))


def _at_file(process: Process) -> str:
    """What it does with which file just now: `writing /nfs/step100.pt`."""
    does, path = process.busy_with or ("", "")
    return f"{does} {path}" if path.startswith("/") and not path.startswith("/dev/") else ""


def _waits_for_gpu(stack: Stack | None) -> bool:
    """Whether it waits for what it gave its GPU to do: the main thread of CUDA asks again and again meanwhile."""
    inner = stack.frames[0] if stack is not None and stack.frames else None
    return inner is not None and inner.function == "synchronize" and bool(_CUDA.search(inner.file))


def _at_work(process: Process) -> bool:
    """Whether its main thread computes. On a host with more to do than cores it may only be ready to."""
    main = process.threads[0] if process.threads else None
    if main is None:
        return process.cpu >= BUSY
    return main.state == "R" or (process.cpu >= BUSY and main.cpu >= BUSY / 2)


def at_work(seen: RankSeen, act: Doing) -> bool:
    """Whether a rank that does this is at work, or lets threads or processes of its own work."""
    others = (seen.process, *seen.helpers) if not seen.stopped else ()
    return act.busy or any(one is not None and one.cpu >= BUSY for one in others)


def advice(act: Doing, *, stall: bool) -> str:
    """What to do about a rank for which others wait; `stall`: it does what takes long now and then."""
    if stall:
        return "this takes long now and then: wait, or raise `stall_after`"
    if "SIGSTOP" in act.words:
        return "`kill -CONT` its process on its host lets it go on"
    if "traced" in act.words:
        return "look for what traces its process on its host (`TracerPid` in /proc/PID/status)"
    if act.frame is not None:
        return f"look at {act.frame.file}:{act.frame.line}"
    return ""


def own_frame(seen: RankSeen) -> Frame | None:
    """The innermost call in a file of the user's; where there is none, the innermost of all."""
    return own_of(seen.main_stack)


def own_of(stack: Stack | None) -> Frame | None:
    """The same of one stack."""
    if stack is None:
        return None
    own = next((frame for frame in stack.frames if not _FOREIGN.search(frame.file)), None)
    return own or next(iter(stack.frames), None)


def _not_there(seen: RankSeen) -> str:
    if seen.ended:
        return f"has ended: {seen.ended}"
    return seen.why_not or "can't be seen"
