"""One host's clock while its run is followed: how far it is ahead of ours, and since when that is known how well.

A clock is measured when the run is planned or attached to, and read again with every ping. Runs last for days: a clock
that nobody sets goes wrong, one that is set jumps, and so does ours when a laptop wakes.
"""

from __future__ import annotations

from distui.runs.insight.seen.clocks import Reading, clock
from distui.runs.verdict.evidence import CLOCK_DOUBT, DRIFT, Unsteady

KEPT = 64
"""Stretches that are kept apart, at most."""
BETTER = 0.8
"""A reading that leaves no less than this share of the doubt is no news."""
SET = 1.0
"""Seconds by which a clock has jumped that was set; less is the doubt of its readings."""
CLOSE = 0.02
"""Seconds: a reading that is no worse than this, or than twice the doubt, shows that the clock was not set."""


class HostClock:
    """What readings tell, one after another. `offset` is what a time of the host is corrected by when it is learned."""

    def __init__(self, offset: float, doubt: float, at: float) -> None:
        self.offset = offset
        self.doubt = doubt
        self.read_from = self.read_until = at
        """When it was read first, and last."""
        self.unsteady: tuple[Unsteady, ...] = ()
        self.set_by = 0.0
        """By how many seconds it was set, in all."""
        self.ours_by = 0.0
        """By how many ours was since the last reading that can tell."""
        self._since = at
        """From when on its times are known as well as now."""
        self._sure = at
        """When it had surely not been set."""

    def take(self, reading: Reading) -> bool:
        """Take in one more reading; whether times are corrected otherwise from now on, or known otherwise."""
        found = clock((reading,))
        if found is None or reading.heard < reading.asked:  # our own clock was set back meanwhile
            return False
        ahead, error = found
        doubt = self.doubt + DRIFT * max(0.0, reading.heard - self.read_until)
        self.read_from, self.read_until = min(self.read_from, reading.heard), max(self.read_until, reading.heard)
        if error < SET:
            own, self.ours_by = ahead - self.offset + self.ours_by, 0.0
            self.set_by += own if abs(own) > max(SET, error + doubt) else 0.0
        if abs(ahead - self.offset) > error + doubt:
            self._set(ahead, error, doubt, reading)
            return True
        changed = abs(ahead - self.offset) > error
        if changed:
            self._recentre(ahead, error, doubt, reading)
        elif (known := max(CLOCK_DOUBT, abs(ahead - self.offset) + error)) < BETTER * self.doubt:
            changed = True
            self._from_now_on(self.offset, known, self.doubt, 0.0, reading)
        else:
            self.doubt = max(self.doubt, min(doubt, known))
        if error <= max(CLOSE, 2 * self.doubt):
            self._sure = reading.heard
        return changed

    def _set(self, ahead: float, error: float, doubt: float, reading: Reading) -> None:
        """It was set, or ours was, at some time since it was last known not to be."""
        shift = abs(ahead - self.offset)
        self._keep(Unsteady(self._since, self._sure, self.doubt))
        self._since = min(self._sure, reading.asked)
        self._from_now_on(ahead, max(CLOCK_DOUBT, error), shift + error + doubt, shift, reading)
        self._sure = reading.heard

    def _recentre(self, ahead: float, error: float, doubt: float, reading: Reading) -> None:
        """It is not where it was taken to be, but no further off than that was in doubt."""
        low, high = max(self.offset - doubt, ahead - error), min(self.offset + doubt, ahead + error)
        middle = (low + high) / 2
        shift = abs(middle - self.offset)
        self._from_now_on(middle, max(CLOCK_DOUBT, (high - low) / 2), doubt + shift, shift, reading)

    def _from_now_on(self, offset: float, doubt: float, before: float, shift: float, reading: Reading) -> None:
        self._keep(Unsteady(self._since, reading.heard, before, shift))
        self.offset, self.doubt, self._since = offset, doubt, reading.heard

    def _keep(self, stretch: Unsteady) -> None:
        """The two oldest are taken together where there are too many: as far in doubt as the worse of them."""
        found = (*self.unsteady, stretch)
        if len(found) > KEPT:
            one, two, *rest = found
            both = Unsteady(
                min(one.since, two.since), max(one.until, two.until), max(one.doubt, two.doubt),
                max(one.shift, two.shift),
            )  # fmt: skip
            found = (both, *rest)
        self.unsteady = found
