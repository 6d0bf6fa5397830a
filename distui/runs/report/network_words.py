"""Which interface carried how much of a run, as a line and its remarks: for `distui why` and the app."""

from __future__ import annotations

from distui.amounts import duration
from distui.runs.lines.events import NetworkUsed

NOTHING = "hardly anything so far"


def network_line(used: NetworkUsed, now: float) -> str:
    """`ib0 98 % of 41 GB, eth0 2 %`; of a run that goes on also how old that is."""
    words = used.words or NOTHING
    return words if used.moment == "ended" else f"{words} (until {duration(max(0.0, now - used.at))} ago)"


def network_text(used: NetworkUsed, now: float) -> tuple[str, ...]:
    """That, and below it what is odd, each in one line."""
    return (f"network: {network_line(used, now)}", *(f"  {words}" for words in used.warnings))
