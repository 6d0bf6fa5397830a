"""What processes of this machine, those of the lab's hosts among them, have taken: from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
HELPER = b"-c\0import sys;exec("
"""In the command line of distui's helper on a host."""


def of_lab(name: str, words: bytes) -> list[int]:
    """Processes of a lab with these words in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if words in (folder / "cmdline").read_bytes() and name in (folder / "cgroup").read_text():
                found.append(int(folder.name))
    return found


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has taken. Raises OSError when it is gone."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_of(pid: int) -> int:
    """Bytes of memory that it holds. Raises OSError when it is gone."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class AtRest:
    """What a process takes of a core, in percent, and its memory in MB at the end."""

    percent: float
    megabytes: float


def watched(pids: Sequence[int], seconds: float) -> list[AtRest]:
    """Each of these over so many seconds. Raises OSError when one is gone."""
    began, before = time.monotonic(), [cpu_of(pid) for pid in pids]
    time.sleep(seconds)
    passed = time.monotonic() - began
    spent = [cpu_of(pid) - cpu for pid, cpu in zip(pids, before, strict=True)]
    return [AtRest(100 * cpu / passed, resident_of(pid) / 1e6) for cpu, pid in zip(spent, pids, strict=True)]
