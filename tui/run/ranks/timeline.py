"""What followed the first failure, counted from it: before it is evidence, after it is muted."""

from __future__ import annotations

from collections.abc import Sequence

from distui.runs.report.aftermath import Moment
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run.ranks.rank_lines import tone_style

WHO = 16
WHAT = 13


def timeline_lines(
    palette: Palette,
    glyphs: Glyphs,
    moments: Sequence[Moment],
    width: int,
    height: int,
    title: str,
    *,
    head: str = "What followed",
) -> list[Line]:
    """Title and rows in at most `height`; what does not fit is counted in the last one."""
    if height <= 0 or not moments:
        return []
    room = height - 1
    shown = list(moments) if len(moments) <= room else _shortened(moments, room)
    end = Line().put(f"{len(moments) - len(shown)} more", palette.faint) if len(shown) < len(moments) else Line()
    top = Line().gap(1).put(head, palette.bold).gap(2).put(title, palette.muted).cut(width - end.width - 2)
    top.rule(width - end.width - 1, palette.rule, glyphs.rule)
    who = min(WHO, max(len(m.who) for m in moments))
    what = min(WHAT, max(len(m.what) for m in moments))
    rows = [_row(palette, glyphs, moment, who, what) for moment in shown]
    return [top.ends_with(end, width, gap=1), *rows][:height]


def _shortened(moments: Sequence[Moment], room: int) -> list[Moment]:
    """The failure itself always stays, then how it ended, then what came next."""
    first = next((i for i, m in enumerate(moments) if m.tone == "wrong"), 0)
    order = [first, len(moments) - 1, *range(first + 1, len(moments)), *range(first - 1, -1, -1)]
    kept = sorted(dict.fromkeys(order[: max(0, room)]))
    return [moments[i] for i in kept]


def _row(palette: Palette, glyphs: Glyphs, moment: Moment, who: int, what: int) -> Line:
    sign = "-" if moment.after <= -0.05 else "+" if moment.after >= 0.05 else " "
    style = tone_style(palette, moment.tone)
    quiet = moment.tone == "muted"
    line = (
        Line()
        .put(f"{sign} {abs(moment.after):.1f} s", palette.faint if quiet else palette.text, width=10, right=True)
        .gap(3)
    )
    line.put(moment.who, palette.muted if quiet else palette.text, width=who).gap(2)
    return line.put(moment.what, style, width=what).gap(2).put(moment.words, palette.muted if quiet else palette.text)


def rows_wanted(moments: Sequence[Moment]) -> int:
    """How many rows it takes in full."""
    return len(moments) + 1 if moments else 0
