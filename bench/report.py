"""Tables of rivals with their ratios, targets met or missed, and what was not measured."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from bench.measure import Spent, middle, ratio


@dataclass(frozen=True, slots=True)
class Target:
    """A promise of the design: distui's `what` is at most `limit` times the rival's, or at most `limit` seconds."""

    rival: str
    """Empty for seconds."""
    what: Literal["wall", "cpu"]
    limit: float


missed: list[str] = []
"""Targets that were missed so far, in words."""


def title(words: str) -> None:
    """Begin a measure."""
    print(f"\n{words}", flush=True)


def note(words: str) -> None:
    """A line below a measure: what was not measured and why, or what to keep in mind."""
    print(f"  ({words})", flush=True)


def limit(name: str, value: float, unit: str, most: float) -> None:
    """One figure beside its target."""
    words = f"{name:22} {value:8.1f} {unit}, target {most:g}"
    _tell(words, met=value <= most)


def _tell(words: str, *, met: bool) -> None:
    print(f"  {words}: {'met' if met else 'MISSED'}", flush=True)
    if not met:
        missed.append(" ".join(words.split()))


def table(taken: Mapping[str, Sequence[Spent]], mine: str, targets: Sequence[Target] = ()) -> None:
    """Rivals by name, `mine` first, each with distui's share of its cost."""
    if mine not in taken:
        return
    width = max(len(name) for name in taken)
    print(f"  {'':{width}}  {'wall ms':>9} {'cpu ms':>9}   distui/it wall   cpu")
    for name, samples in taken.items():
        spent = middle(samples)
        row = f"  {name:{width}}  {spent.wall * 1000:9.1f} {spent.cpu * 1000:9.1f}"
        if name != mine:
            share = ratio(taken[mine], samples)
            row += f"   {share.wall:14.2f} {share.cpu:5.2f}"
        print(row)
    for target in targets:
        _verdict(taken, mine, target)


def _verdict(taken: Mapping[str, Sequence[Spent]], mine: str, target: Target) -> None:
    if target.rival and target.rival not in taken:
        return
    found = ratio(taken[mine], taken[target.rival]) if target.rival else middle(taken[mine])
    value = found.wall if target.what == "wall" else found.cpu
    if target.rival:
        words = f"{target.what} at most {target.limit:.2g} x {target.rival}: {value:.2f}"
    else:
        words = f"{target.what} at most {target.limit * 1000:.0f} ms: {value * 1000:.0f}"
    _tell(f"target {words}", met=value <= target.limit)


def machine() -> str:
    """The machine and the versions that matter, in one line."""
    ssh = "no ssh"
    if shutil.which("ssh"):
        ssh = subprocess.run(("ssh", "-V"), capture_output=True, text=True, check=False).stderr.split(",")[0]
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"asyncssh {metadata.version('asyncssh')}, {ssh}; load {load}"
    )
