"""What somebody who says a step says with it: its own values, time of a step, throughput. Pure.

Throughput is known by the names of the job's `progress`: `tokens_per_s` is taken as it is, `tokens_per_step` is divided
by the time of a step, of `tokens`, a count so far, it is how fast that grows; `samples` likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distui.frozen import frozen
from distui.runs.series.values import Series
from distui.runs.state.progress import COUNTS

Figure = tuple[Series, float]
THROUGHPUT = ("tokens", "samples")


@frozen
class Said:
    """Values, and when they were said."""

    at: float
    values: Mapping[str, float]


def figures_of(now: Said, before: Said | None, seconds: float | None) -> Iterator[tuple[str, float]]:
    """The job's own values and no count; then time of a step and throughput, where it tells none.

    `before` is what was said the last time, `seconds` the time of a step.
    """
    for name, value in now.values.items():
        if name not in COUNTS:
            yield name, value
    if "step_time" not in now.values and seconds is not None and seconds > 0:
        yield "step_time", seconds
    for name in THROUGHPUT:
        if f"{name}_per_s" not in now.values and (rate := _rate(name, now, before, seconds)) is not None:
            yield f"{name}_per_s", rate


def _rate(name: str, now: Said, before: Said | None, seconds: float | None) -> float | None:
    per_step = now.values.get(f"{name}_per_step")
    if per_step is not None:
        return per_step / seconds if seconds is not None and seconds > 0 else None
    count, last = now.values.get(name), before.values.get(name) if before is not None else None
    if count is None or last is None or before is None or now.at <= before.at or count < last:
        return None
    return (count - last) / (now.at - before.at)
