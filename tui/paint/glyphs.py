"""Every sign the app draws, and what stands for it with `--ascii`.

The Unicode ones are in Fira Code and in DejaVu Sans Mono; no emoji, no ligatures (`->`, `!=`). Lines of plots are dots
of braille (`plot/dots.py`).
"""

from __future__ import annotations

from dataclasses import fields

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from distui.frozen import frozen


@frozen
class Glyphs:
    """One set of signs; the words say what each one means."""

    up: str = "●"
    """Up, running."""
    bad: str = "×"
    """Down, failed first."""
    ended: str = "■"
    """Ended because of another, or stopped."""
    starting: str = "○"
    quiet: str = "◐"
    remark: str = "!"
    cursor: str = "▌"
    block: str = "▌"
    """Left edge of a banner."""
    hue: str = "▌"
    """The colour of a rank; nothing in ASCII."""
    folded: str = "▶"
    open: str = "▼"
    tree: str = "│"
    more: str = "›"
    """The line goes on to the right; also between crumbs."""
    present: str = "■"
    absent: str = "·"
    chosen: str = "◉"
    other: str = "○"
    rule: str = "─"
    times: str = "×"
    degree: str = "°"
    ellipsis: str = "…"
    tank: str = "▁▂▃▄▅▆▇"
    """One GPU, one row, from nothing to full."""
    area: str = "▁▂▃▄▅▆▇█"
    level: str = "━"
    level_half: str = "╸"
    level_track: str = "━"
    mark: str = "+"
    """A marked row."""

    def state(self, word: str) -> str:
        """The sign of a host's, rank's or run's state."""
        return getattr(self, _STATES.get(word, "starting"))  # type: ignore[no-any-return]

    def ramp(self, part: float | None) -> str:
        """One cell that shows `part` (0..1) by its height; a space when unknown."""
        if part is None:
            return " "
        return self.tank[min(len(self.tank) - 1, max(0, int(part * len(self.tank))))]


_STATES = {
    "up": "up", "running": "up", "unfollowed": "up", "succeeded": "up", "back": "up",
    "down": "bad", "failed": "bad", "lost": "bad", "oom": "bad", "launch_failed": "bad", "degraded": "bad",
    "killed": "ended", "stopped": "ended", "exited": "ended", "ended": "ended", "removed": "ended", "gone": "ended",
    "never_started": "ended", "detached": "ended",
    "starting": "starting", "waiting": "starting", "launching": "starting", "retrying": "starting",
    "connecting": "starting",
    "quiet": "quiet", "stopping": "quiet", "partial": "quiet", "unknown": "quiet",
}  # fmt: skip

UNICODE = Glyphs()

ASCII = Glyphs(
    up="*", bad="x", ended="-", starting="o", quiet="?", cursor=">", block="#", hue=" ", folded="+", open="-",
    tree=":", more=">", present="#", absent=".", chosen="(*)", other="( )", rule="-", times="x", degree="",
    ellipsis="~", tank="_.:-=+#", area="_.:-=+##", level="=", level_half="=", level_track="-",
)  # fmt: skip


class AsciiSigns(LineFilter):
    """The last word of `--ascii`: whatever is painted, and by whom, leaves as ASCII of the same width."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See textual."""
        return [s if s.text.isascii() else Segment(to_ascii(s.text), s.style, s.control) for s in segments]


def to_ascii(text: str) -> str:
    """`text` with an ASCII sign for every other character, as wide as before. Signs of the app keep their sense."""
    if text.isascii():
        return text
    return "".join(c if c.isascii() else _PLAIN.get(c) or "?" * max(0, cell_len(c)) for c in text)


def _plain_signs() -> dict[str, str]:
    pairs: dict[str, str] = {}
    for field in fields(UNICODE):
        for sign, plain in zip(getattr(UNICODE, field.name), getattr(ASCII, field.name).ljust(8), strict=False):
            pairs.setdefault(sign, plain)
    return pairs | {
        "▔": "-",
        "🔎": "/ ",
        "█": "#",
        "▎": "|",
        "°": " ",
        "…": "~",
        "–": "-",
        "│": "|",
        "±": "~",
        "µ": "u",
        "·": ".",
    }


_PLAIN = _plain_signs()
