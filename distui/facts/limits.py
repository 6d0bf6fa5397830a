"""From where on a figure of a host is worth a look: the same for `probe`, `doctor`, `top` and the app."""

from __future__ import annotations

from distui.facts.host import HostFacts

CLOCK_MS, CLOCK_BAD_MS = 50.0, 5000.0
"""Above the first the order of log lines of different hosts is doubtful; above the second certificates suffer."""

WARM_C, HOT_C = 80.0, 90.0
"""A GPU above the first is watched (all-smi's default); above the second something is wrong."""

SLOW_SHELL_S = 2.0
"""A run has some ten commands on a host, one after the other, and each waits for its login shell."""

TAKEN = 0.05
"""A GPU of whose memory more than this part is taken is somebody's, though no process is seen (those of containers are
not, for many logins) and it computes nothing."""


def is_taken(used_mib: float | None, total_mib: float | None) -> bool:
    """Whether so much of a GPU's memory is taken that somebody has it; False when it is unknown."""
    return used_mib is not None and bool(total_mib) and used_mib > TAKEN * (total_mib or 0)


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


def slow_shell_words(shell_s: float | None) -> str:
    """That a login shell takes long to begin; empty where it does not, or that is unknown."""
    if shell_s is None or shell_s < SLOW_SHELL_S:
        return ""
    seconds = f"{shell_s:.0f} s"
    return f"its login shell takes {seconds} to start (~/.bashrc or the like), and each step of a run waits for that"
