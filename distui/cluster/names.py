"""Names of runs."""

from __future__ import annotations

import secrets

LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
"""Without those that look like others."""


def run_name(job: str) -> str:
    """`JOB-xxxx`: a name nobody has yet, in letters that are easy to say."""
    return f"{job[:58]}-{''.join(secrets.choice(LETTERS) for _ in range(4))}"


def is_run_of(job: str, run: str) -> bool:
    """Whether a run's name is one that `run_name` gives for this job."""
    return run[:-5] == job[:58]
