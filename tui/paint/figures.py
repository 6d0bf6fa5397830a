"""Figures as text and bars: percentages, sizes, rates, ages; tanks, levels and histories. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from rich.style import Style

from distui import amounts
from distui.facts.host import Gpu
from distui.facts.limits import HOT_C, WARM_C
from distui.regex import regex
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

STALE_S = 4.0
"""Values older than this are muted: three samples did not come."""
OLD_S = 15.0
"""Values older than this are faint, and their age is reported."""


def percent(value: float | None) -> str:
    """`96%`, or `-` when unknown."""
    return "-" if value is None else f"{value:.0f}%"


def gib(mib: float | None) -> str:
    """GiB without unit: `612`, below ten with one digit, `-` when unknown."""
    return "-" if mib is None else amounts.gib(mib)


def short_rate(rate: float | None) -> str:
    """Bytes per second in four letters at most, decimal: `21G`, `2.7G`, `12M`; `-` when unknown."""
    if rate is None:
        return "-"
    if rate < 0.95e6:
        return "<1M" if rate else "0"
    if rate < 0.9995e9:
        return f"{rate / 1e6:.0f}M"
    return f"{rate / 1e9:.1f}G" if rate < 9.95e9 else f"{rate / 1e9:.0f}G"


IDLE_RATES = ("-", "0", "<1M")
"""What `short_rate` says where next to nothing is carried."""


_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))


def rates(*values: float | None) -> tuple[list[str], str]:
    """Bytes per second in the one unit that fits the largest, decimal as networks count: (["12", "9"], "MB/s")."""
    known = [v for v in values if v is not None]
    factor, unit = next((u for u in _UNITS if max(known, default=0.0) >= u[0] * 0.9995), _UNITS[-1])
    return ["-" if v is None else _rate(v / factor, unit) for v in values], unit


def _rate(value: float, unit: str) -> str:
    if unit != "GB/s":
        return f"{value:.0f}"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}"


def share(part: float, mbps: int) -> str:
    """How much of a link is used: `8 % of 200G`, `<1 % of 10G`."""
    used = "0" if part <= 0 else "<1" if part < 0.01 else f"{100 * part:.0f}"
    return f"{used} % of {speed(mbps)}G"


def speed(mbps: int | None) -> str:
    """A link's speed: `400`, `10`, `0.1` (Gbit/s); nothing when unknown."""
    return f"{mbps / 1000:g}" if mbps and mbps > 0 else ""


def ago(seconds: float) -> str:
    """`2s ago`, `4m ago`, `3h ago`."""
    return f"{amounts.duration(seconds, coarse=True)} ago"


_NOISE = regex(r"NVIDIA|AMD|Tesla|Instinct|GeForce|HBM\w*|PCIe|SXM\d*|\d+GB?", re.IGNORECASE)


def model(gpu: Gpu) -> str:
    """A GPU's model in as few letters as tell it: `H100`, `RTX 4090`, `MI300X`."""
    words = [w for w in re.split(r"[ -]", gpu.name) if w and not _NOISE.fullmatch(w)]
    return " ".join(words) or gpu.name


def models(gpus: Sequence[Gpu]) -> str:
    """All GPUs of a host in one word: `H100 80`; several kinds are only counted."""
    names = dict.fromkeys((model(g), _nominal(g.memory_total_mib)) for g in gpus)
    if len(names) == 1:
        return " ".join(part for part in next(iter(names)) if part)
    return f"{len(names)} kinds"


def _nominal(mib: int | None) -> str:
    """The memory a GPU is sold with: 81559 MiB is `80`."""
    return "" if not mib else f"{mib / 1024:.0f}"


def heat(palette: Palette, celsius: float | None) -> Style:
    """The style of a temperature: a judgement only above the limits."""
    if celsius is None:
        return palette.faint
    return palette.wrong if celsius > HOT_C else palette.watch if celsius > WARM_C else palette.text


def tank(line: Line, palette: Palette, glyphs: Glyphs, load: float | None, cells: int, *, old: bool = False) -> Line:
    """One GPU as a tank of `cells`; nothing known is a faint dot, nothing to do a faint floor."""
    if load is None:
        return line.put(glyphs.absent * cells, palette.rule)
    part = load / 100
    style = palette.rule if old else palette.faint if load < 1 else palette.quantity(part)
    return line.put(glyphs.ramp(part) * cells, style)


def level(
    line: Line, palette: Palette, glyphs: Glyphs, part: float | None, cells: int, style: Style | None = None
) -> Line:
    """A thin bar of one value among others: filled, a half step, then the track."""
    halves = 0 if part is None else round(max(0.0, min(1.0, part)) * cells * 2)
    if part is not None and part > 0.005:
        halves = max(1, halves)
    full, half = divmod(halves, 2)
    ink = palette.quantity(part) if style is None else style
    line.put(glyphs.level * full, ink)
    if half:
        line.put(glyphs.level_half, ink)
    return line.put(glyphs.level_track * (cells - full - half), palette.rule)


def spark(
    line: Line, palette: Palette, glyphs: Glyphs, samples: Sequence[float | None], cells: int, top: float, seconds: int
) -> Line:
    """The last `seconds` of samples in `cells`, newest right; time before the first sample is empty."""
    means = resampled(samples, cells, seconds)
    ramp = "".join(glyphs.ramp(None if v is None else v / top if top else 0.0) for v in means)
    return line.put(ramp, palette.data[1])


def resampled(samples: Sequence[float | None], cells: int, seconds: int) -> list[float | None]:
    """Means of equal parts of the last `seconds` samples, newest last; None where nothing is known."""
    recent = samples[-seconds:]
    missing: list[float | None] = [None] * (seconds - len(recent))
    padded = [*missing, *recent]
    edges = [round(i * seconds / cells) for i in range(cells + 1)] if cells else []
    return [mean(padded[low : max(high, low + 1)]) for low, high in pairwise(edges)]


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of what is known."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
