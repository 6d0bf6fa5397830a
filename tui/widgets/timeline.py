"""What followed the first failure, counted from it: before it is evidence, after it is muted."""

from __future__ import annotations

from collections.abc import Sequence

from distui.run.aftermath import Moment
from tui.glyphs import Glyphs
from tui.paint import Line
from tui.theme import Palette
from tui.widgets.rank_list import tone_style

WHO = 16
WHAT = 13


def timeline_lines(
    look: Palette,
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
    top = Line().gap(1).put(head, look.bold).gap(2).put(title, look.muted)
    lines = [top.cut(width - 1).rule(width - 1, look.rule, glyphs.rule)]
    who = min(WHO, max(len(m.who) for m in moments))
    what = min(WHAT, max(len(m.what) for m in moments))
    room = height - 1
    shown = list(moments) if len(moments) <= room else _shortened(moments, room - 1)
    lines += [_row(look, glyphs, moment, who, what) for moment in shown]
    if len(shown) < len(moments) and room > 0:
        lines.append(Line().gap(1).put(f"{len(moments) - len(shown)} more", look.muted))
    return lines[:height]


def _shortened(moments: Sequence[Moment], room: int) -> list[Moment]:
    """The failure itself always stays."""
    first = next((i for i, m in enumerate(moments) if m.tone == "wrong"), 0)
    begin = max(0, min(first, len(moments) - room))
    return list(moments[begin : begin + max(0, room)])


def _row(look: Palette, glyphs: Glyphs, moment: Moment, who: int, what: int) -> Line:
    sign = "-" if moment.after <= -0.05 else "+" if moment.after >= 0.05 else " "
    style = tone_style(look, moment.tone)
    quiet = moment.tone == "muted"
    line = (
        Line().put(f"{sign} {abs(moment.after):.1f} s", look.faint if quiet else look.text, width=10, right=True).gap(3)
    )
    line.put(moment.who, look.muted if quiet else look.text, width=who).gap(2)
    return line.put(moment.what, style, width=what).gap(2).put(moment.words, look.muted if quiet else look.text)


def rows_wanted(moments: Sequence[Moment]) -> int:
    """How many rows it takes in full."""
    return len(moments) + 1 if moments else 0
