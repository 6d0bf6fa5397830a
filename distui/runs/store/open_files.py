"""How many files this process may have open: the limit is raised as far as it goes, and what is left is shared out.

A run has two files a rank and a connection a host. The usual soft limit of 1,024 is for programs that use select(2);
the hard one, up to which everybody may raise it, is far higher.
"""

from __future__ import annotations

import resource

from distui.amounts import counted
from distui.errors import CheckFailed

WANTED = 65_536
"""Raised to this where the hard limit is higher or none."""
BASE, PER_HOST = 32, 3
"""Files that distui has open besides logs: itself, the run's folder and the terminal; connections and what a host's
session costs while it is made."""
LEAST = 8
"""Log files that are open at once where the limit is lowest."""


def raise_limit() -> int:
    """Raise the soft limit as far as it goes; returns how many files may be open then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a system that allows less than it says
        return soft
    return wanted


def most_logs() -> int:
    """How many log files may be open at once: a quarter of what may be open, the others are opened when written to."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LEAST if soft == resource.RLIM_INFINITY else max(LEAST, soft // 4)


def refuse_too_few(hosts: int) -> None:
    """Raise CheckFailed when a run on so many hosts can't be followed with the files that may be open."""
    may, need = raise_limit(), BASE + PER_HOST * hosts + LEAST
    if may < need:
        raise CheckFailed(
            f"{need} files must be open at once for a run on {counted(hosts, 'host')}, and this login may have {may}; "
            "nothing was started",
            hint=f"`ulimit -n {max(1024, need)}`, or raise `nofile` in /etc/security/limits.conf",
        )
