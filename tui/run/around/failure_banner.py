"""The first failure at the top: who, what, why, what next, and the key that jumps to the line."""

from __future__ import annotations

from collections.abc import Sequence

from distui.amounts import clock, counted
from distui.runs.lines.events import Failure
from distui.runs.lines.severity import headline_of, severity
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

ROWS = 4
NARROW = 90
"""Below this many cells the time has no fraction."""


def banner_lines(
    palette: Palette, glyphs: Glyphs, failure: Failure, width: int, height: int, *, gpus: str, again: bool
) -> list[Line]:
    """At most `height` rows, the most telling first. `gpus` says where the rank was, `again` whether R is offered."""
    rows = [_who(palette, glyphs, failure, width, gpus=gpus), _what(palette, glyphs, failure, width, again=again)]
    if failure.cause:
        rows.append(_labelled(palette, glyphs, "cause", failure.cause, width, _evidence(palette)))
    if failure.hint:
        rows.append(_labelled(palette, glyphs, "next", failure.hint, width, _chip(palette) if again else Line()))
    return rows[:height]


def _start(palette: Palette, glyphs: Glyphs) -> Line:
    return Line().put(glyphs.block, palette.wrong).gap(1)


def _who(palette: Palette, glyphs: Glyphs, failure: Failure, width: int, *, gpus: str) -> Line:
    who = failure.name or failure.who.capitalize() or "The launcher"
    who = f"{who[:1].upper()}{who[1:]} failed" if failure.is_of_all else f"{who} failed first"
    line = _start(palette, glyphs).put(who, palette.wrong).gap(3)
    line.put(" ".join(part for part in (failure.host, gpus) if part), palette.text)
    line.gap(3).put(failure.words, palette.text)
    if failure.at is not None:
        parts = f".{int(failure.at * 1000) % 1000:03d}" if width >= NARROW else ""
        line.gap(3).put(clock(failure.at) + parts, palette.text)
    end = (
        Line()
        .put("enter", palette.key, click="screen.jump")
        .put(" to the line", palette.muted, click="screen.jump")
        .gap(1)
    )
    return line.ends_with(end, width)


def _what(palette: Palette, glyphs: Glyphs, failure: Failure, width: int, *, again: bool) -> Line:
    words = headline_of(failure)
    line = _start(palette, glyphs)
    if severity(words) == "error" or not failure.excerpt:
        line.put(words, palette.bold)
    else:
        line.put("last line", palette.muted).gap(2).put(words, palette.text)
    end = Line() if failure.cause else _evidence(palette)
    if again and not failure.hint:
        end = end.gap(2).add(_chip(palette)) if end.width else _chip(palette)
    return line.ends_with(end.gap(1), width)


def _labelled(palette: Palette, glyphs: Glyphs, label: str, message: str, width: int, end: Line) -> Line:
    line = _start(palette, glyphs).put(label, palette.muted, width=5).gap(2).put(message, palette.text)
    return line.ends_with(end.gap(1), width)


def _evidence(palette: Palette) -> Line:
    return (
        Line().put("d", palette.key, click="screen.evidence").put(" evidence", palette.muted, click="screen.evidence")
    )


def _chip(palette: Palette) -> Line:
    line = Line().put("J", palette.key, click="screen.do('job')").put(" its job", palette.muted).gap(2)
    return line.put(" R ", palette.chip, click="screen.do('rerun')").put(" run again", palette.muted)


def warning_lines(palette: Palette, glyphs: Glyphs, warnings: Sequence[str], width: int, height: int) -> list[Line]:
    """What belongs to the verdict of a run without a failure; what has no row is counted in the last one."""
    shown = list(warnings[:height])
    if len(warnings) > height > 0:
        shown[-1] = f"{counted(len(warnings) - height + 1, 'more warning')}: see `distui show`"
    return [_labelled(palette, glyphs, "warn", words, width, Line()) for words in shown]


def banner_rows(failure: Failure | None, warnings: Sequence[str] = ()) -> int:
    """How many rows the banner takes when there is room."""
    if failure is None:
        return min(len(warnings), ROWS)
    return 2 + bool(failure.cause) + bool(failure.hint)
