"""What happened at a host while we looked, as sentences with a time: since when it is well or not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from distui.amounts import counted
from distui.facts.gpus import throttle, xid
from distui.frozen import frozen
from distui.plan.labels import named_ranks

if TYPE_CHECKING:
    from distui.runs.hosts.uses import Use
    from distui.runs.lines.events import GpuReading

MOST = 500
"""Notes kept for each host."""


@frozen
class Note:
    """One thing that happened, on our clock."""

    at: float
    level: Literal["info", "good", "watch", "wrong"]
    text: str


def of_gpu(before: GpuReading, now: GpuReading, at: float) -> Iterator[Note]:
    """What changed at a GPU between two samples; the same trouble is reported once."""
    held, holds = ((r.throttle or 0) & throttle.SLOWED for r in (before, now))
    if holds and not held:
        yield Note(at, "watch", f"GPU {now.index} is slowed down: {' and '.join(throttle.words(holds))}")
    elif held and not holds and now.throttle is not None:
        yield Note(at, "good", f"GPU {now.index} runs at its own clock again")
    if now.ecc is not None and before.ecc is not None and now.ecc > before.ecc:
        yield Note(at, "wrong", f"GPU {now.index} counts {ecc_words(now.ecc)}")
    if now.xid is not None and (now.xid, now.xid_at) != (before.xid, before.xid_at) and _later(before, now):
        words = xid.words(now.xid)
        level: Literal["watch", "wrong"] = "watch" if xid.of_program(now.xid) else "wrong"
        yield Note(now.xid_at or at, level, f"GPU {now.index}: XID {now.xid}" + (f", {words}" if words else ""))


def ecc_words(count: int) -> str:
    """`2 memory errors that ECC could not correct`."""
    return f"{counted(count, 'memory error')} that ECC could not correct"


def _later(before: GpuReading, now: GpuReading) -> bool:
    """Whether an XID is another one: the clock it is reported by wavers by less than a second."""
    return before.xid != now.xid or abs((now.xid_at or 0.0) - (before.xid_at or 0.0)) > 1.0


def of_temperature(index: int, celsius: float | None, limit: float, *, warm: bool, at: float) -> Note:
    """A GPU became too warm, or is no more."""
    shown = "" if celsius is None else f" at {celsius:.0f} °C"
    if warm:
        return Note(at, "watch", f"GPU {index}{shown}, above {limit:.0f} °C")
    return Note(at, "good", f"GPU {index}{shown}, below {limit:.0f} °C again")


def of_uses(before: Iterable[Use], now: Iterable[Use], at: float) -> Iterator[Note]:
    """Tasks that came and went."""
    known, found = ({(u.run, u.task): u for u in uses} for uses in (before, now))
    for key in found.keys() - known.keys():
        yield Note(found[key].started or at, "info", f"runs here: {_task(found[key])}")
    for key in known.keys() - found.keys():
        yield Note(at, "info", f"gone: {_task(known[key])}")


def _task(use: Use) -> str:
    ranks = f" ({named_ranks(use.ranks)})" if use.ranks else ""
    return f"task {use.task}{ranks} of {use.run}"  # its name may be longer than a row
