"""Values of series for people, with their units."""

from __future__ import annotations

import math

from distui.amounts import memory_words, size_words
from distui.runs.series.values import UNITS


def value_words(name: str, value: float) -> str:
    """`2.104`, `96%`, `12 MB/s`, `240 ms`; `nan` for what is no number."""
    if not math.isfinite(value):
        return "nan"
    match UNITS.get(name, ""):
        case "%":
            return f"{value:.0f}%"
        case "W":
            return f"{value:.0f} W"
        case "MiB":
            return memory_words(value)
        case "B/s":
            return f"{size_words(value)}/s"
        case "s":
            return f"{value * 1000:.3g} ms" if abs(value) < 0.9995 else f"{_number(value)} s"
        case "1/s":
            return f"{_number(value)}/s"
        case _:
            return _number(value)


def _number(value: float) -> str:
    """Four digits: `2.104`, `0.0012`, `18,240`, `3.4e+38`."""
    size = abs(value)
    if 1000 <= size < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}"
