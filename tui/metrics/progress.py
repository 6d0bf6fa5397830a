"""How far a run is, in one row: step of how many, speed, when it will be done, figure, last checkpoint; or since when
it stands still. Pure."""

from __future__ import annotations

from distui.amounts import duration
from distui.runs.lines.events import Progressed
from distui.runs.series.words import value_words
from distui.runs.state.progress import CHECKPOINTS, figure_name, last_step_of, total_of
from distui.runs.state.standstill import Standstill
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette


def seconds_left(progress: Progressed) -> float | None:
    """Seconds until the last step at the speed of the last steps; None where something of it is not known."""
    step, total, pace = progress.values.get("step"), last_step_of(progress), progress.seconds_per_step
    if step is None or total is None or not pace or not step <= total < float("inf"):
        return None
    return (total - step) * pace


def stalled_words(stands: Standstill, now: float) -> str:
    """`STALLED 37s, last step 22`."""
    last = f", last step {stands.step:,.0f}" if stands.step is not None else ""
    return f"STALLED {duration(max(0.0, now - stands.since), coarse=True)}{last}"


def progress_line(
    palette: Palette,
    progress: Progressed | None,
    *,
    over: bool,
    room: int,
    stands: Standstill | None = None,
    now: float = 0.0,
) -> Line:
    """As much as has room, the first ones first. A run that stands still says since when, and nothing of its speed."""
    line, parts = Line(), [Line().put(stalled_words(stands, now), palette.watch)] if stands is not None else []
    if progress is not None:
        parts += _parts(palette, progress, over=over, stands=stands is not None)
    for part in parts:
        if line.width + part.width + 3 > room:
            break
        line.gap(3 if line.width else 0).add(part)
    return line


def _parts(palette: Palette, progress: Progressed, *, over: bool, stands: bool) -> list[Line]:
    step, total, pace = progress.values.get("step"), total_of(progress), progress.seconds_per_step
    found: list[Line] = []
    if step is not None and not stands:
        words = Line().put("last step " if over else "step ", palette.muted).put(f"{step:,.0f}", palette.bold)
        found.append(words.put(f" of {total:,.0f}" if total is not None else "", palette.muted))
    left = None if over or stands else seconds_left(progress)
    if left is not None:
        found.append(Line().put(duration(left), palette.bold).put(" left", palette.muted))
    if (name := figure_name(progress.values)) is not None:
        shown = value_words(name, progress.values[name])
        found.append(Line().put(f"{name} ", palette.muted).put(shown, palette.bold))
    if pace and not over and not stands:
        value = (f"{pace:.2f}", " s/it") if pace >= 0.5 else (f"{1 / pace:.1f}", " it/s")
        found.append(Line().put(value[0], palette.bold).put(value[1], palette.muted))
    saved = next((progress.words[name] for name in CHECKPOINTS if name in progress.words), None)
    if saved is None:
        saved = next((f"{progress.values[name]:,.0f}" for name in CHECKPOINTS if name in progress.values), None)
    if saved is not None:
        found.append(Line().put("checkpoint ", palette.muted).put(saved, palette.text))
    return found
