"""What the ranks of a run answered, the newest first, and how asking them goes. No widgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from distui.cluster.backend.values import LiveRun
from distui.errors import DistuiError
from distui.frozen import frozen
from distui.runs.insight.slow.slow import Slow
from distui.runs.store.why_records import WhyRecord, kept

SAME_S = 0.05
"""Answers closer together than this are one: files have milliseconds."""


@frozen
class Answer:
    """The answer of one time; `slow` where ranks were watched from here."""

    record: WhyRecord
    slow: Slow | None = None


class Answers:
    """Those that are kept, those that were asked for here, and which of them is shown."""

    def __init__(self, live: LiveRun, *, clock: Callable[[], float] = time.time) -> None:
        self.live = live
        self.clock = clock
        self.all: tuple[Answer, ...] = ()
        self.at = 0
        """The place of the one that is shown."""
        self.read_yet = False
        """Whether what is kept was read."""
        self.asking_since: float | None = None
        self.trouble = ""
        """Why they could not be asked, in words."""
        self._mark = self._event_mark()

    @property
    def shown(self) -> Answer | None:
        """The answer that is looked at."""
        return self.all[self.at] if self.all else None

    @property
    def may_ask(self) -> bool:
        """Whether there may be ranks to ask: a run that was left, or of which nobody knows, may live."""
        ended = self.live.state.ended
        return ended is None or ended.outcome in ("detached", "unknown")

    # What comes in.

    def read(self) -> Sequence[Answer]:
        """What is kept here, without values of secrets. Blocks."""
        return [Answer(self.live.mask.event(record)) for record in kept(self.live.stored)]

    def take(self, found: Sequence[Answer]) -> None:
        """Put answers among the others. Who looks at the newest sees the one that is newest then."""
        before = self.shown
        own = self._of_the_run()
        every = [*self.all, *found, *([own] if own is not None else [])]
        every.sort(key=lambda one: (-one.record.at, one.slow is None))
        one_each: list[Answer] = []
        for one in every:
            if not one_each or not _same(one_each[-1], one):
                one_each.append(one)
        self.all = tuple(one_each)
        same = (n for n, one in enumerate(self.all) if before is not None and _same(one, before))
        self.at = next(same, 0) if self.at else 0

    def _of_the_run(self) -> Answer | None:
        """What the run's own events say, where it could not be written down."""
        why = self.live.state.why
        return Answer(WhyRecord(why.at, "run", why.found)) if why is not None else None

    def has_news(self) -> bool:
        """Whether the run has answered since this was asked last."""
        before, self._mark = self._mark, self._event_mark()
        return before != self._mark

    def _event_mark(self) -> object:
        state = self.live.state
        reported = (
            state.why.at if state.why is not None else None,
            state.network.at if state.network is not None else None,
        )
        return state.attempt, reported

    # Asking.

    def begin(self) -> None:
        """They are being asked."""
        self.asking_since, self.trouble = self.clock(), ""

    def end(self, error: DistuiError | None = None) -> None:
        """They have answered, or could not be asked."""
        self.asking_since = None
        if error is not None:
            self.trouble = "; ".join(part for part in (error.message, error.hint) if part)

    def step(self, number: int) -> bool:
        """To an answer that is so many places older; False at the end."""
        at = max(0, min(self.at + number, len(self.all) - 1))
        moved, self.at = at != self.at, at
        return moved


def _same(one: Answer, other: Answer) -> bool:
    return abs(one.record.at - other.record.at) < SAME_S and one.record.found.kind == other.record.found.kind
