"""What one rank does instead of going on, in words, from its stack and from what the kernel tells. Pure."""

from __future__ import annotations

from re import Pattern

from distui.frozen import frozen
from distui.regex import regex
from distui.runs.insight.seen.answers import PAUSED, Frame, Stack
from distui.runs.insight.seen.helpers import BUSY, at_file_of, computes, of_loader, which
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.stalls import LOADER, hangs, moves, saves, stall_of
from distui.runs.insight.seen.waits import STARTED, waits_of

_TORCH = r"/torch/(distributed|nn|autograd|optim|utils|multiprocessing|_\w+)[/.]"
_FOREIGN = regex(rf"(^<|/site-packages/|/dist-packages/|/lib/python3[.0-9t]*/|/importlib/|distui_insight|{_TORCH})")
"""Files that are not the user's own: installed packages, torch wherever it is, and Python itself."""


@frozen
class Doing:
    """What a rank does, and where."""

    words: str
    frame: Frame | None = None
    """The innermost call in the user's own files."""
    more: str = ""
    """What tells more of it, as it follows the place: of a process that it waits for."""
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
        """All of it in one line."""
        return self.words + self.at + self.more


_CUDA = regex(r"/torch/(cuda|xpu|accelerator)/")
_LOOKS_UP = regex(r"/python3[.0-9t]*/socket\.py$")
_STARTS = regex(r"/python3[.0-9t]*/(subprocess|multiprocessing/(popen_\w+|pool)|concurrent/futures/process)\.py$")
_THREAD, _PROCESS = "a thread of its own", "a process of its own"
_ENDS = (
    (regex(r"/python3[.0-9t]*/threading\.py$"), "_shutdown", _THREAD),
    (regex(r"/python3[.0-9t]*/concurrent/futures/thread\.py$"), "_python_exit", _THREAD),
    (regex(r"/python3[.0-9t]*/concurrent/futures/process\.py$"), "_python_exit", _PROCESS),
    (regex(r"/python3[.0-9t]*/multiprocessing/util\.py$"), "_exit_function", _PROCESS),
    (regex(r"/jax/_src/distributed\.py$"), "shutdown", "the other ranks in JAX's shutdown"),
)
"""Where a program that has come to its end waits for what it has left running: file, function, what that is."""


def doing(seen: RankSeen) -> Doing:
    """What a rank does, by the surest sign first."""
    process = seen.process
    if process is None:
        return Doing(_not_there(seen), seen=bool(seen.ended or seen.why_not))
    frame = own_frame(seen)
    if process.state == "T":
        return Doing("is stopped by a signal (SIGSTOP)", frame)
    if process.state == PAUSED:
        return Doing("is paused with its container", frame)
    if seen.held:
        return Doing("is being traced, and stopped by that (a debugger?)", frame)
    if process.state in ("Z", "X"):
        return Doing("has ended")
    stack, at_file = seen.main_stack, at_file_of(process)
    if left := _has_ended(stack):
        where = _left(seen, stack) if left in (_THREAD, _PROCESS) else own_of(stack)
        return Doing(f"has come to its end, perhaps by an exception, and waits for {left}", where)
    if _inner(stack, _LOOKS_UP, "getaddrinfo"):
        return Doing("looks up the name of a host (DNS)", frame)
    files = [one.file for one in stack.frames] if stack else []
    if stall := stall_of(files):
        return _stalls(seen, f"{stall} (it is {at_file})" if at_file else stall, frame)
    if saves(process, stack):
        return _stalls(seen, f"is {at_file}" if at_file else "saves to a file", frame)
    if at_file:
        return Doing(f"is {at_file}", frame, busy=True)
    if any(LOADER.search(file) for file in files):
        return Doing("waits for its data loader", frame, of_loader(seen))
    main = process.threads[0] if process.threads else None
    if main is not None and main.state == "D":
        return Doing(waits_of(main.waits, disk=True), frame, busy=True)
    if _waits_for_gpu(stack):
        return Doing("waits for its GPU", frame, busy=True)
    if computes(process):
        return Doing("is busy with code of its own", frame, busy=True)
    waits = waits_of(main.waits) if main is not None else ""
    if waits and any(_STARTS.search(file) for file in files):
        waits = STARTED  # that it reads its output, or looks now and then, says less
    more = which(seen) if waits == STARTED else ""
    return Doing(waits or ("is" if frame else "waits"), frame, more, seen=bool(waits or frame))


def _stalls(seen: RankSeen, words: str, frame: Frame | None) -> Doing:
    """What takes long now and then; once nothing of it has moved for long, that is what is said of it."""
    if hangs(seen):
        return Doing(f"{words}, but nothing moves", frame, unsure=True)
    return Doing(words, frame, stall=True, unsure=not moves(seen))


def _inner(stack: Stack | None, file: Pattern[str], function: str) -> bool:
    """Whether the innermost call is this one."""
    inner = stack.frames[0] if stack is not None and stack.frames else None
    return inner is not None and inner.function == function and bool(file.search(inner.file))


def _has_ended(stack: Stack | None) -> str:
    """What the main thread waits for that has come to the end of its program; empty where it has not."""
    frames = stack.frames if stack is not None else ()
    own = any(not _FOREIGN.search(frame.file) for frame in frames)
    called = (
        what for file, function, what in _ENDS for one in frames if one.function == function and file.search(one.file)
    )
    return "" if own else next(called, "")


def _left(seen: RankSeen, stack: Stack | None) -> Frame | None:
    """Where a thread is that still runs; where that is not known, the main one."""
    others = (one for one in seen.process.stacks if one is not stack) if seen.process is not None else ()
    frames = (frame for one in others for frame in one.frames if not _FOREIGN.search(frame.file))
    return next(frames, own_of(stack))


def _waits_for_gpu(stack: Stack | None) -> bool:
    """Whether it waits for what it gave its GPU to do: the main thread of CUDA asks again and again meanwhile."""
    inner = stack.frames[0] if stack is not None and stack.frames else None
    return inner is not None and inner.function == "synchronize" and bool(_CUDA.search(inner.file))


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
    if "paused" in act.words:
        return "`docker unpause` (or `podman unpause`) of its container on its host lets it go on"
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
    return _own(stack) or next(iter(stack.frames), None)


def is_cut(seen: RankSeen) -> bool:
    """Whether its calls came in part only, and none of the user's own among them, as from a busy host."""
    stack = seen.main_stack
    return seen.late and stack is not None and _own(stack) is None


def _own(stack: Stack) -> Frame | None:
    return next((frame for frame in stack.frames if not _FOREIGN.search(frame.file)), None)


def _not_there(seen: RankSeen) -> str:
    if seen.ended:
        return f"has ended: {seen.ended}"
    return seen.why_not or "can't be seen"
