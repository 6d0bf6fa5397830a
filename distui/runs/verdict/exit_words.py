"""Exit statuses in words.

Exit codes follow Docker's reference (125 engine, 126/127 command) and the shell's 128 + signal. 137 alone is not
out-of-memory: only the engine's own flag says so (FAULTS 2.8).
"""

from __future__ import annotations

import signal

KILLED = 128 + signal.SIGKILL

SIGNAL_WORDS = {
    signal.SIGABRT: "abort: an assertion or NCCL gave up",
    signal.SIGBUS: "bus error: often /dev/shm is full",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction: the image was built for another CPU",
    signal.SIGINT: "interrupted",
    signal.SIGPIPE: "broken pipe",
    signal.SIGSEGV: "segmentation fault",
    signal.SIGTERM: "terminated",
}


def exit_words(code: int | None, *, oom: bool = False, error: str = "", engine: str = "docker") -> str:
    """An exit status in words: `exit 3`, `out of memory (exit 137)`, `killed by SIGSEGV (segmentation fault)`.

    Without an engine it is the program's own: neither that nor a shell ended it.
    """
    if oom and code == 0:
        return "out of memory: the kernel killed a process of it, which ended with exit 0 all the same"
    if oom:
        return f"out of memory: the kernel killed {'it' if code == KILLED else 'a process of it'} (exit {code})"
    if code is None:
        return error or "ended without an exit status"
    if not engine:
        return f"exit {code}{_because(error)}"
    if code == 125 and engine != "process":
        return f"{engine} could not start it (exit 125){_because(error)}"
    if code == 126:
        return f"the command can't be executed (exit 126){_because(error)}"
    if code == 127:
        return f"command not found (exit 127){_because(error)}"
    if 128 < code < 128 + signal.NSIG:
        return _signal_words(code) + _because(error)
    return f"exit {code}{_because(error)}"


def _because(error: str) -> str:
    return f": {error}" if error else ""


def _signal_words(code: int) -> str:
    name = signal_name(code)
    if name is None:  # forrtl's 174 and the like: a program's own status, as a rule
        return f"exit {code}"
    words = SIGNAL_WORDS.get(signal.Signals[name], "")
    return f"killed by {name}" + (f" ({words})" if words else "") + f", exit {code}"


def signal_name(code: int | None) -> str | None:
    """`SIGSEGV` for 139; None for a status that is no signal's."""
    try:
        return signal.Signals(code - 128).name if code is not None and code > 128 else None
    except ValueError:
        return None
