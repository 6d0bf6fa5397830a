"""What the follower follows and what it reports: targets and a closed union of events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Literal

from distui.frozen import frozen
from distui.runs.follow.resume import ResumePoint
from distui.runs.lines.batch import Batch
from distui.runs.state.samples import Sample


def is_set() -> asyncio.Event:
    """An event that is set."""
    event = asyncio.Event()
    event.set()
    return event


@frozen
class FollowTarget:
    """One task of the host. `ref` is the container's id (never its name), or a process's task folder; "" where that is
    not known yet, since the host was out of reach: then `find` asks it.
    """

    task: int
    ref: str
    resume: ResumePoint | None = None
    """Where an earlier distui stopped; the log file must have been cut to its `written` bytes.

    When that was the log's end (`done`), the task's end is reported again and its log is not read again.
    """
    room: asyncio.Event | None = None
    """Not set: what is printed can't be kept here now. Its log is let go of, and read on from there once it is set."""
    adopted: bool = False
    """Whether it was started by an earlier distui, so that it may have run while nobody followed it."""
    find: Callable[[], Awaitable[str | None]] | None = None
    """Tells the `ref`, None when the host has nothing of the task: what has its name there may be another run's. Raises
    HostError when the host can't tell.
    """
    grace: float = 30.0
    """Seconds that a stop leaves it to end."""
    taken: asyncio.Event = field(default_factory=is_set, compare=False)
    """Not set, by its follower: who takes what is printed is behind, and has been for a while. It is let go of, too."""

    @property
    def has_room(self) -> bool:
        """Whether its log may be read."""
        return self.taken.is_set() and (self.room is None or self.room.is_set())


@frozen
class Records:
    """What a task printed, exactly once. Write `batch.data` first, then store `resume`."""

    task: int
    batch: Batch
    resume: ResumePoint


@frozen
class Exited:
    """A task's program ended; its last lines may still come. Times are UTC seconds of the host's clock.

    `never_started`: the engine could not start it (`error` says why). `lost`: its supervisor vanished without an
    exit code (killed, or the host rebooted). `oom` is None when the engine could not be asked.
    """

    task: int
    code: int | None
    state: Literal["exited", "never_started", "lost"]
    oom: bool | None = None
    error: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    signalled: bool | None = False
    """Whether somebody had the engine send it a signal that may have ended it (`docker stop`, `docker kill`): us or
    another. None where nobody followed it then.
    """


@frozen
class Drained:
    """The task ended and everything it printed was emitted: its container may be removed."""

    task: int
    resume: ResumePoint


@frozen
class Removed:
    """The container or task folder is gone though nobody here removed it; nothing more comes."""

    task: int
    read: bool = False
    """Whether its log had been read to its end by then."""


@frozen
class Sampled:
    """The host's figures, once a second."""

    sample: Sample


@frozen
class Lost:
    """Contact is lost with the host, or only with its engine: the tasks' state is unknown, not ended."""

    what: Literal["host", "engine"]
    reason: str


@frozen
class Back:
    """Contact is back; what happened meanwhile follows."""

    what: Literal["host", "engine"]
    rebooted: bool = False
    """Whether the host was restarted meanwhile: its boot id is another one."""


@frozen
class Note:
    """Something a person should read; changes no state. `task` is None when it concerns the host."""

    text: str
    task: int | None = None
    lines_missing: bool = False
    """Whether lines of the task may be missing here."""


FollowEvent = Records | Exited | Drained | Removed | Sampled | Lost | Back | Note

Emit = Callable[[FollowEvent], Awaitable[None]]
"""Takes one event; waiting in it slows the host down. Never called twice at once by one follower."""
Room = Callable[[], Awaitable[None]]
"""Waits while who takes the events is behind with what is printed and measured."""


async def no_wait() -> None:
    """Who is never behind."""
