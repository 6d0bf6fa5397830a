"""Why a GPU's clocks are held down: the bits of `clocks_event_reasons.active` (nvml.h, nvmlClocksEventReasons)."""

from __future__ import annotations

from collections.abc import Mapping

_REASONS = (
    (0x40, "hot", "too hot (hardware slowdown)"),
    (0x20, "hot", "too hot (software slowdown)"),
    (0x80, "brake", "power brake from outside (supply or rack)"),
    (0x08, "slow", "hardware slowdown"),
    (0x04, "power", "its power limit"),
    (0x10, "sync", "sync boost with slower GPUs"),
    (0x02, "set", "clocks set by an administrator"),
    (0x100, "display", "display clocks"),
)
"""(bit, one word for a table, words for a sentence); 0x01 is left out: an idle GPU lowers its clocks by itself."""

SLOWED = 0x40 | 0x20 | 0x80 | 0x08
"""Bits that mean the machine is not well. Being at the power limit is how a busy GPU works."""


def bits_of(cells: Mapping[str, str]) -> int | None:
    """The bits out of nvidia-smi's fields of a GPU, `0x0000000000000004`; None where it does not tell."""
    text = cells.get("clocks_event_reasons.active") or cells.get("clocks_throttle_reasons.active") or ""
    try:
        return int(text, 16) if len(text) < 32 else None
    except ValueError:
        return None


def words(bits: int | None) -> tuple[str, ...]:
    """Every reason in words, the gravest first; a hardware slowdown whose cause is known is reported once."""
    return tuple(text for bit, _, text in _REASONS if _is_said(bits or 0, bit))


def word(bits: int | None) -> str:
    """The gravest reason in one word for a table; empty when nothing holds it down."""
    return next((short for bit, short, _ in _REASONS if _is_said(bits or 0, bit)), "")


def _is_said(bits: int, bit: int) -> bool:
    return bool(bits & bit) and not (bit == 0x08 and bits & 0xC0)
