"""From where on a figure of a host is worth a look: the same for `probe`, `doctor`, `top` and the app."""

from __future__ import annotations

from distui.facts.host import HostFacts

CLOCK_MS, CLOCK_BAD_MS = 50.0, 5000.0
"""Above the first the order of log lines of different hosts is doubtful; above the second certificates suffer."""

WARM_C, HOT_C = 80.0, 90.0
"""A GPU above the first is watched (all-smi's default); above the second something is wrong."""


def is_clock_off(facts: HostFacts) -> bool:
    """Whether its clock is off; nobody can tell closer than the way there and back takes. False when it is unknown."""
    offset = facts.clock_offset_ms
    return offset is not None and abs(offset) > CLOCK_MS + (facts.rtt_ms or 0.0)


def clock_words(facts: HostFacts) -> str:
    """`its clock is 0.12 s ahead`; empty when it is right or unknown."""
    offset = facts.clock_offset_ms
    if offset is None or not is_clock_off(facts):
        return ""
    return f"its clock is {abs(offset) / 1000:.2f} s {'ahead' if offset > 0 else 'behind'}"
