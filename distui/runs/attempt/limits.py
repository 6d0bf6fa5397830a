"""How long a run may take, and a host that is lost."""

from __future__ import annotations

import time

from distui.frozen import frozen


@frozen
class Limits:
    """How long things may take, in seconds."""

    run: float | None = None
    """`--timeout`: the run is stopped after this long."""
    lost: float = 600.0
    """A host that stays unreachable this long is given up: the run ends with its state unknown."""


NO_LIMITS = Limits()


def passed() -> float:
    """Seconds for what a run may take, however our clock is set: those that a laptop sleeps count, since its hosts go
    on.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
