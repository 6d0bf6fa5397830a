"""The engine's answer to `inspect` -> the few facts the follower needs; docker and podman agree on them."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from distui.frozen import frozen
from distui.plan.command.docker import LOG_SIZE, UNSTARTED
from distui.runs.follow.followed import Exited
from distui.runs.follow.signals import number
from distui.runs.lines.docker_frames import stamp_ns
from distui.whole import code, count, moment_ns


@frozen
class ContainerState:
    """One container as the engine sees it now."""

    status: str
    running: bool
    code: int
    oom: bool
    error: str
    started_at: float | None
    finished_at: float | None
    tty: bool
    log_driver: str
    log_path: str
    log_options: Mapping[str, str] = field(default_factory=dict)
    stop_signal: int = signal.SIGTERM
    """What it asks to be stopped by."""
    pids: tuple[int, ...] = ()
    """Of its first process and, with podman, of the conmon that sees its end."""

    @property
    def log_gaps(self) -> str:
        """Why the engine may not give every line of its log, in words; "" when it keeps them all (FAULTS M2)."""
        options = self.log_options
        if options.get("mode") == "non-blocking":
            return "its log is written in non-blocking mode: the engine drops lines when many come at once"
        size = options.get("max-size", "")
        if self.log_driver == "local" or (self.log_driver == "json-file" and size not in ("", "-1", LOG_SIZE)):
            at = f" at {size}" if size else ""
            return f"its log is rotated{at} (log driver {self.log_driver}): lines may be missing or come twice"
        if self.log_driver == "journald":
            return "its log is in the host's journal, which may drop and remove lines"
        return ""

    @property
    def ended(self) -> bool:
        """Whether it will print nothing more. `created` with an error or a code was never startable (FAULTS M7)."""
        if self.status in UNSTARTED:
            return bool(self.error or self.code)
        return not self.running and self.status not in ("restarting", "paused", "stopping")

    @property
    def begun(self) -> bool:
        """Whether it was started, or never will be."""
        return self.ended or self.status not in UNSTARTED

    def exited(self, task: int) -> Exited:
        """The event of its end."""
        never = self.status in UNSTARTED or self.started_at is None
        return Exited(
            task,
            self.code,
            "never_started" if never else "exited",
            self.oom,
            self.error,
            self.started_at,
            self.finished_at,
        )


def container_state(state: Mapping[str, Any]) -> ContainerState:
    """Read one object of `inspect`. Raises ValueError when it is none."""
    try:
        return _state(state)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not an answer of inspect: {error!r}") from error


def _state(inspected: Mapping[str, Any]) -> ContainerState:
    state, config, host = inspected["State"], inspected.get("Config") or {}, inspected.get("HostConfig") or {}
    log = host.get("LogConfig") or {}
    return ContainerState(
        status=str(state["Status"]),
        running=bool(state["Running"]),
        code=_code(state["ExitCode"]),
        oom=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        started_at=moment(state.get("StartedAt")),
        finished_at=moment(state.get("FinishedAt")),
        tty=bool(config.get("Tty")),
        log_driver=str(log.get("Type") or ""),
        log_path=str(log.get("Path") or inspected.get("LogPath") or ""),
        log_options={str(k): str(v) for k, v in (log.get("Config") or {}).items()},
        stop_signal=number(str(config.get("StopSignal") or "")) or signal.SIGTERM,
        pids=tuple(pid for key in ("Pid", "ConmonPid") if (pid := count(state.get(key)))),
    )


def moment(text: str | None) -> float | None:
    """UTC seconds; None for the engines' year 1, which means never, and for times that can't be said here."""
    if not text or text.startswith("0001"):
        return None
    return moment_ns(stamp_ns(text.encode()))


def _code(value: Any) -> int:
    """The exit status. Raises ValueError for what can be none."""
    if (found := code(int(value))) is None:
        raise ValueError("an exit status that is none")
    return found
