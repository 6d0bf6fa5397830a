"""What the usual last words of torch, NCCL, gloo, TensorFlow, Python and Docker mean, in plain words.

The patterns are those programs' own messages, over the versions that are in use (torch 1.10 to 2.13). The order counts:
of two rules that fit one line the first is taken, so what is more exact stands before what is more general.
"""

from __future__ import annotations

import re

from distui.regex import regex
from distui.runs.verdict.lines.rules import devices, mpi, peers, programs, resources
from distui.runs.verdict.lines.rules.cause import Cause

RULES: tuple[tuple[re.Pattern[str], Cause], ...] = tuple(
    (regex(pattern, re.IGNORECASE), cause)
    for pattern, cause in (*mpi.RULES, *resources.RULES, *devices.RULES, *programs.RULES, *peers.RULES)
)

NETWORK = frozenset(cause.text for _, cause in RULES if cause.network)
"""Texts of causes behind which a network that no longer carries may stand."""

ECHOES = frozenset(cause.text for _, cause in RULES if cause.secondary)
"""Texts of causes that only follow from another rank's failure."""


def may_be_network(text: str) -> bool:
    """Whether a failure's cause is one of them; what ranks answered may follow it."""
    return text in NETWORK or any(text.startswith(f"{cause}; ") for cause in NETWORK)
