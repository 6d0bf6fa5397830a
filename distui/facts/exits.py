"""How a container or process ended, in a class and in words, from Docker's State object or a bare exit code."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from distui.facts.values import integer

ExitClass = Literal[
    "running", "never_started", "oom", "killed", "terminated", "interrupted", "segfault", "aborted", "bus_error",
    "signal", "exited",
]  # fmt: skip

_SIGNALS: Mapping[int, tuple[ExitClass, str]] = {
    2: ("interrupted", "interrupted (SIGINT)"),
    6: ("aborted", "aborted (SIGABRT): NCCL's watchdog and C++ exceptions end so"),
    7: ("bus_error", "bus error (SIGBUS): often /dev/shm is too small, see `shm_size`"),
    9: ("killed", "killed from outside (SIGKILL)"),
    11: ("segfault", "segmentation fault (SIGSEGV)"),
    15: ("terminated", "stopped (SIGTERM)"),
}


@dataclass(frozen=True, slots=True)
class Exit:
    """An end: its class, exit code (None while running or unknown) and words for people."""

    cls: ExitClass
    code: int | None
    words: str

    @property
    def ok(self) -> bool:
        """Whether it ran and ended with 0."""
        return self.cls == "exited" and self.code == 0


def exit_in_words(state: Mapping[str, object]) -> Exit:
    """The end that `docker inspect` (or podman's) `.State` tells.

    137 alone is not out-of-memory: only the OOMKilled flag says so. A container of status `created` never
    ran, whatever its exit code.
    """
    status = state.get("Status")
    code = integer(state.get("ExitCode"))
    if status in ("running", "paused", "restarting"):
        return Exit("running", None, str(status))
    if status in ("created", "configured", "initialized"):
        reason = str(state.get("Error") or "").strip()
        return Exit("never_started", code, f"never started: {reason}" if reason else "never started")
    return code_in_words(code, oom=state.get("OOMKilled") is True)


def code_in_words(code: int | None, *, oom: bool = False) -> Exit:
    """The end that an exit code tells (128 + N: ended by signal N), for engines and plain processes alike."""
    if oom:
        return Exit("oom", code, "out of memory: the kernel killed it at its memory limit")
    if code is None:
        return Exit("exited", None, "ended with unknown exit code")
    if code == 0:
        return Exit("exited", 0, "succeeded")
    number = code - 128
    if number in _SIGNALS:
        cls, words = _SIGNALS[number]
        return Exit(cls, code, f"{words}, exit code {code}")
    if number in {int(s) for s in signal.Signals}:
        return Exit("signal", code, f"ended by {signal.Signals(number).name}, exit code {code}")
    return Exit("exited", code, f"exit code {code}")
