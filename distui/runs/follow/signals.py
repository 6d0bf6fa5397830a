"""Signals that an engine sent a container: which of them may be what ended it."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from typing import Any

from distui.facts.values import as_object
from distui.frozen import frozen
from distui.whole import moment_ns, whole

ENDING = frozenset({signal.SIGINT, signal.SIGKILL, signal.SIGTERM})
"""What people and programs end a container with. Others ask it for something: a checkpoint, its stacks, a new log."""
SLACK = 5.0
"""Seconds beyond the grace within which a stopped container has ended."""
BY_SIGNAL = 128
"""Exit statuses above say which signal ended a program."""
NAMED: Mapping[str, int] = {s.name: s.value for s in signal.Signals}


@frozen
class Sent:
    """A signal and when it was sent, by the host's clock; None where the engine does not tell."""

    signal: int | None
    at: float | None

    def may_end(self, code: int | None, ended: float | None, grace: float, own: int) -> bool:
        """Whether a container that ended then may have ended by it: one to end with, at most a stop's grace before, or
        at any time before where its exit status says so. `docker stop -t` of others may give it longer.

        `own` is what the container's image asks to be stopped by.
        """
        if self.signal is not None and self.signal not in (*ENDING, own):
            return False
        if self.signal is not None and code == BY_SIGNAL + self.signal:
            return True
        return self.at is None or ended is None or ended - self.at <= grace + SLACK


def sent(event: Mapping[str, Any]) -> Sent:
    """What an engine's event `kill` tells."""
    attributes = as_object(as_object(event.get("Actor")).get("Attributes"))
    nanos = whole(str(event.get("timeNano")), 20)
    return Sent(number(str(attributes.get("signal", ""))), moment_ns(nanos))


def number(text: str) -> int | None:
    """`15`, `TERM`, `SIGTERM` as a number; None for what is no signal here."""
    word = text.strip().upper()
    return NAMED.get(word) or NAMED.get(f"SIG{word}") or whole(word, 3)


def any_may_end(signals: Iterable[Sent], code: int | None, ended: float | None, grace: float, own: int) -> bool:
    """Whether one of these may have ended it."""
    return any(one.may_end(code, ended, grace, own) for one in signals)
