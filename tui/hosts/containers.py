"""The containers of a host as rows: name, image, state, age and owner. Pure."""

from __future__ import annotations

from distui.amounts import duration
from distui.monitor.containers import HostContainer
from distui.plan.labels import format_ranks
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette


def _widths(width: int) -> tuple[int, int, int, int]:
    """NAME, IMAGE, STATE, AGE; the owner takes the rest, and the image folds first."""
    if width < 90:
        return 24, 0, 11, 10
    spare = min(30, max(0, width - 120) // 2)
    return 24 + spare, 25 + spare, 11, 10


def header(width: int, palette: Palette) -> Line:
    """The heads."""
    name, image, state, age = _widths(width)
    line = Line().gap(2).put("CONTAINER", palette.faint, width=name).gap(2)
    if image:
        line.put("IMAGE", palette.faint, width=image).gap(2)
    return line.put("STATE", palette.faint, width=state).gap(2).put("SINCE", palette.faint, width=age).gap(2).put(
        "WHOSE", palette.faint
    )  # fmt: skip


def row(found: HostContainer, width: int, now: float, palette: Palette, *, bold: bool) -> Line:
    """One container. Those that distui did not start are plain: they are other people's business."""
    name, image, state, age = _widths(width)
    ink = palette.bold if bold else palette.text if found.running else palette.muted
    line = Line().gap(2).name(found.name or found.id[:12], ink, width=name).gap(2)
    if image:
        line.put(_short(found.image) or "-", palette.muted if found.image else palette.faint, width=image).gap(2)
    words, bad = state_words(found)
    line.put(words, palette.wrong if bad else palette.text if found.running else palette.faint, width=state).gap(2)
    line.put("-" if found.since is None else duration(now - found.since, coarse=True), palette.muted, width=age).gap(2)
    if found.task is None:
        return line.put("not distui's", palette.faint)
    ranks = format_ranks(found.task.ranks)
    line.put(found.task.run, palette.text).put(f" rank {ranks}" if ranks else "", palette.muted)
    return line.put(f"  {found.task.owner}", palette.muted) if found.task.owner else line


def state_words(found: HostContainer) -> tuple[str, bool]:
    """(`running`, `exited 1`, `OOM`, whether it went wrong). Ended by a signal from outside is not wrong by itself."""
    if found.oom:
        return "OOM", True
    if found.running or found.exit is None:
        return found.status, found.status == "dead"
    return f"{found.status} {found.exit}", found.exit not in (0, 137, 143)


def _short(image: str) -> str:
    """An image without its registry's host, and a bare id in twelve letters."""
    if image.startswith("sha256:"):
        return image.removeprefix("sha256:")[:12]
    first, slash, rest = image.partition("/")
    return rest if slash and ("." in first or ":" in first) else image
