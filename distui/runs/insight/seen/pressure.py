"""What work on a host had to wait for, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PRESSED = 30.0
"""Percent of the time from which on it is reported that something of a host waited for CPU, disk or memory."""


def pressed(host: str, pressure: Mapping[str, float]) -> Iterator[str]:
    """`h1: work waited for cpu 45 % of the last 10 s`; nothing where that is little."""
    found = [f"{name} {share:.0f} %" for name, share in pressure.items() if share >= PRESSED]
    if found:
        yield f"{host}: work waited for {', '.join(found)} of the last 10 s"
