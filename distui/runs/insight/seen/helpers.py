"""What a process of a rank does, and which of those that the rank has started holds it up. Pure."""

from __future__ import annotations

from distui.runs.insight.seen.answers import Process
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.waits import AT_FILES, waits_of

BUSY = 0.5
"""Cores from which on a process counts as at work."""


def at_file_of(process: Process) -> str:
    """What it does with which file just now: `writing /nfs/step100.pt`."""
    does, path = process.busy_with or ("", "")
    return f"{does} {path}" if path.startswith("/") and not path.startswith("/dev/") else ""


def computes(process: Process) -> bool:
    """Whether its main thread computes. On a host with more to do than cores it may only be ready to."""
    main = process.threads[0] if process.threads else None
    if main is None:
        return process.cpu >= BUSY
    return main.state == "R" or (process.cpu >= BUSY and main.cpu >= BUSY / 2)


def of_loader(seen: RankSeen) -> str:
    """What a process of its data loader does that is held up by a file, or else computes; empty where none is."""
    held = ((one.pid, what) for one in seen.helpers if (what := _held_up(one)))
    busy = ((one.pid, "is busy") for one in seen.helpers if computes(one))
    pid, what = next(held, next(busy, (0, "")))
    return f" (its process {pid} {what})" if what else ""


def _held_up(process: Process) -> str:
    """What it does at a file that may hold it up; empty for all else."""
    main = process.threads[0] if process.threads else None
    if at_file := at_file_of(process):
        return f"is {at_file}"
    if main is None:
        return ""
    waits = waits_of(main.waits, disk=main.state == "D")
    return waits if main.state == "D" or waits in AT_FILES else ""


def which(seen: RankSeen) -> str:
    """Which process it waits for, where it has started one; of a chain of them, such as a shell's, the last one."""
    live = [one for one in seen.helpers if one.state not in ("Z", "X")]
    parents = {one.parent for one in live}
    last = [one for one in live if one.pid not in parents]
    return f" ({last[0].name}, process {last[0].pid})" if len(last) == 1 else ""
