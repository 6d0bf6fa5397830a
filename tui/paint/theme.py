"""Colours: the two themes of distui, and the palette widgets paint with, which works with every theme.

One accent, three judgements, one ramp for quantity. With ANSI themes and NO_COLOR the weights of text are bold,
dim and reverse, and glyph and word carry the state.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from distui.frozen import frozen

DARK = Theme(
    name="distui-dark",
    primary="#7AA8F8",
    secondary="#909BAB",
    accent="#7AA8F8",
    success="#7CC58F",
    warning="#E9B45C",
    error="#FF7A80",
    foreground="#D8DEE7",
    background="#0F1318",
    surface="#161B22",
    panel="#1E2630",
    dark=True,
    variables={
        "muted": "#909BAB", "faint": "#6C7889", "rule": "#2B3440", "cursor": "#1F2C42",
        "warnbg": "#2C2415", "dangerbg": "#33191D",
        "data0": "#465262", "data1": "#3F6690", "data2": "#4F86BF", "data3": "#6BA9E3",
        "r0": "#6FA8DC", "r1": "#B294E0", "r2": "#58B5AE", "r3": "#D48FB8",
        "r4": "#8C9EFF", "r5": "#7FB0C4", "r6": "#C39A83", "r7": "#9DB07A",
        "scrollbar": "#2B3440", "scrollbar-hover": "#465262", "scrollbar-active": "#7AA8F8",
        "scrollbar-background": "#0F1318", "scrollbar-background-hover": "#0F1318",
        "scrollbar-background-active": "#0F1318", "scrollbar-corner-color": "#0F1318",
    },
)  # fmt: skip

LIGHT = Theme(
    name="distui-light",
    primary="#2257C9",
    secondary="#56616F",
    accent="#2257C9",
    success="#1E7B3A",
    warning="#9A5B00",
    error="#C0232C",
    foreground="#1B2330",
    background="#FAFBFC",
    surface="#EEF1F5",
    panel="#E3E8EF",
    dark=False,
    variables={
        "muted": "#56616F", "faint": "#6C7785", "rule": "#D3DAE3", "cursor": "#DCE7FB",
        "warnbg": "#FBF0DA", "dangerbg": "#FBE3E4",
        "data0": "#A9B4C1", "data1": "#8FB2DD", "data2": "#5F93D3", "data3": "#2F6FC4",
        "r0": "#2F74B5", "r1": "#7B55BD", "r2": "#1B857D", "r3": "#AD4E86",
        "r4": "#4B5CC9", "r5": "#3F7A92", "r6": "#90603F", "r7": "#5F7432",
        "scrollbar": "#D3DAE3", "scrollbar-hover": "#A9B4C1", "scrollbar-active": "#2257C9",
        "scrollbar-background": "#FAFBFC", "scrollbar-background-hover": "#FAFBFC",
        "scrollbar-background-active": "#FAFBFC", "scrollbar-corner-color": "#FAFBFC",
    },
)  # fmt: skip

THEMES = (DARK, LIGHT)

SHORT_NAMES = {"dark": "distui-dark", "light": "distui-light", "ansi": "ansi-dark"}
"""What `:theme` and the config file may say for short."""

_HUES = ("primary", "accent", "secondary", "success", "warning", "primary", "accent", "secondary")


def variables(theme: Theme) -> dict[str, str]:
    """distui's own variables for a theme that does not bring them: made from Textual's own."""
    if theme.ansi:
        return _ansi()
    made = theme.to_color_system().generate()
    fore, back, primary = (Color.parse(made[name]) for name in ("foreground", "background", "primary"))

    def mix(color: Color, part: float) -> str:
        return back.blend(color, part).hex

    own = {
        "muted": mix(fore, 0.65),
        "faint": mix(fore, 0.5),
        "rule": mix(fore, 0.18),
        "cursor": mix(primary, 0.2),
        "warnbg": mix(Color.parse(made["warning"]), 0.15),
        "dangerbg": mix(Color.parse(made["error"]), 0.2),
    }
    ramp = {f"data{i}": mix(primary, part) for i, part in enumerate((0.35, 0.5, 0.7, 0.95))}
    hues = {f"r{i}": made[name] for i, name in enumerate(_HUES)}
    return own | ramp | hues


def _ansi() -> dict[str, str]:
    plain = dict.fromkeys(("muted", "faint", "rule", "cursor", "warnbg", "dangerbg"), "ansi_default")
    ramp = {f"data{i}": color for i, color in enumerate(("ansi_default", "ansi_blue", "ansi_blue", "ansi_cyan"))}
    names = ("blue", "magenta", "cyan", "red", "green", "yellow", "bright_blue", "bright_magenta")
    return plain | ramp | {f"r{i}": f"ansi_{name}" for i, name in enumerate(names)}


@frozen
class Palette:
    """Styles by what they mean. Those that end in `fill` or `row` are backgrounds, laid under the others."""

    text: Style
    bold: Style
    muted: Style
    faint: Style
    rule: Style
    accent: Style
    key: Style
    """A key in the footer or the help: bold accent."""
    chip: Style
    """A key that touches a host or a run."""
    good: Style
    watch: Style
    wrong: Style
    cursor_row: Style
    bar_fill: Style
    tab_fill: Style
    warn_fill: Style
    danger_fill: Style
    fail_cell: Style
    """The one filled block of a screen: a FAIL cell."""
    data: tuple[Style, Style, Style, Style]
    hues: tuple[Style, ...]
    plain: bool
    """Whether there are only the terminal's own colours."""

    def quantity(self, part: float | None) -> Style:
        """The ramp: below 10, 50, 85 percent, and above. Unknown is faint."""
        if part is None:
            return self.faint
        return self.data[sum(part >= edge for edge in (0.10, 0.50, 0.85))]

    def state(self, word: str) -> Style:
        """The colour of a host's, rank's or run's state glyph."""
        return getattr(self, _STATES.get(word, "muted"))  # type: ignore[no-any-return]

    def judged(self, verdict: str) -> Style:
        """`ok`, `warn` or `fail` as a colour of text."""
        return {"warn": self.watch, "fail": self.wrong}.get(verdict, self.faint)


_STATES = {
    **dict.fromkeys(("up", "running", "succeeded", "back"), "good"),
    **dict.fromkeys(("down", "failed", "lost", "oom", "launch_failed"), "wrong"),
    **dict.fromkeys(("quiet", "degraded", "partial", "unknown", "retrying"), "watch"),
    **dict.fromkeys(("ended", "stopped", "killed", "exited", "removed", "gone", "never_started", "detached"), "faint"),
}


def palette(theme: Theme, values: Mapping[str, str]) -> Palette:
    """The palette of a theme. `values` are the app's CSS variables (`App.theme_variables`)."""
    return _plain(values) if theme.ansi else _full(values)


def _full(values: Mapping[str, str]) -> Palette:
    def ink(name: str, *, bold: bool = False) -> Style:
        return Style(color=Color.parse(values[name]).rich_color, bold=bold or None)

    def fill(name: str) -> Style:
        return Style(bgcolor=Color.parse(values[name]).rich_color)

    return Palette(
        text=ink("foreground"),
        bold=ink("foreground", bold=True),
        muted=ink("muted"),
        faint=ink("faint"),
        rule=ink("rule"),
        accent=ink("accent"),
        key=ink("accent", bold=True),
        chip=ink("foreground", bold=True) + fill("rule"),
        good=ink("success"),
        watch=ink("warning", bold=True),
        wrong=ink("error", bold=True),
        cursor_row=fill("cursor"),
        bar_fill=fill("surface"),
        tab_fill=fill("panel"),
        warn_fill=fill("warnbg"),
        danger_fill=fill("dangerbg"),
        fail_cell=Style(bold=True) + ink("background") + fill("error"),
        data=(ink("data0"), ink("data1"), ink("data2"), ink("data3")),
        hues=tuple(ink(f"r{i}") for i in range(8)),
        plain=False,
    )


def _plain(values: Mapping[str, str]) -> Palette:
    def ink(name: str, *, bold: bool = False, dim: bool = False) -> Style:
        return Style(color=Color.parse(values[name]).rich_color, bold=bold or None, dim=dim or None)

    nothing, dim, bold, reverse = Style(), Style(dim=True), Style(bold=True), Style(reverse=True)
    return Palette(
        text=nothing,
        bold=bold,
        muted=nothing,
        faint=dim,
        rule=dim,
        accent=ink("primary"),
        key=ink("primary", bold=True),
        chip=Style(bold=True, reverse=True),
        good=ink("success"),
        watch=ink("warning", bold=True),
        wrong=ink("error", bold=True),
        cursor_row=bold,
        bar_fill=nothing,
        tab_fill=reverse,
        warn_fill=nothing,
        danger_fill=nothing,
        fail_cell=ink("error", bold=True) + reverse,
        data=(ink("data0", dim=True), ink("data1"), ink("data2"), ink("data3", bold=True)),
        hues=tuple(ink(f"r{i}") for i in range(8)),
        plain=True,
    )
