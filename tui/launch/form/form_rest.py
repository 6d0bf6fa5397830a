"""What the form shows and does not edit: environment and mounts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from distui.amounts import counted
from distui.plan.model import RunPlan
from distui.plan.visible import visible
from distui.spec.job.job import DataMount, Job
from distui.tui.hosts.lines import title
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

SHOWN = 4
"""Variables and mounts listed before they are only counted."""


def rest_lines(job: Job, plan: RunPlan | None, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    """Environment with what distui adds, then mounts; secrets by name only."""
    return [*_environment(job, plan, width, palette, glyphs), *_mounts(job, width, palette, glyphs)]


def _environment(job: Job, plan: RunPlan | None, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    own = len(job.env) + len(job.secrets)
    task = plan.tasks[0] if plan else None
    added = len([k for k in task.env if k not in job.env]) if task else 0
    end = Line().put(counted(own, "variable"), palette.muted)
    if job.secrets:
        end.put(f", {len(job.secrets)} secret", palette.muted)
    lines = [Line(), title("Environment", width, palette, glyphs, end=end), Line()]
    pairs = [
        *((k, v, palette.text) for k, v in job.env.items()),
        *((s, "from your shell, hidden", palette.faint) for s in job.secrets),
    ]
    name = min(20, max([8, *(len(k) for k, _, _ in pairs)]))
    for key, value, style in pairs[:SHOWN]:
        lines.append(Line().gap(2).put(key, palette.muted, width=name).gap(2).put(value, style).cut(width - 1))
    more = [
        *([f"{len(pairs) - SHOWN} more"] if len(pairs) > SHOWN else []),
        *([f"{added} set by distui"] if added else []),
    ]
    if more:
        lines.append(Line().gap(2).put(f"{glyphs.folded} {', '.join(more)}", palette.faint))
    return lines


def _mounts(job: Job, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    found = [*(_parts(volume.split(":")) for volume in job.volumes), *(_data(mount) for mount in job.data.values())]
    if not found:
        return []
    lines = [Line(), title("Mounts", width, palette, glyphs), Line()]
    for source, target, options in found[:SHOWN]:
        line = Line().gap(2).put(source, palette.text).put(f" {glyphs.more} ", palette.faint).put(target, palette.text)
        lines.append(line.gap(2).put(options, palette.faint).cut(width - 1))
    if len(found) > SHOWN:
        lines.append(Line().gap(2).put(f"{glyphs.folded} {len(found) - SHOWN} more", palette.faint))
    return lines


def _data(mount: DataMount) -> tuple[str, str, str]:
    words = [*(["read-only"] if mount.mode == "ro" else []), *(["shared"] if mount.shared else [])]
    return visible(mount.path or mount.nfs or mount.url or ""), visible(mount.to), ", ".join(words)


def _parts(words: Sequence[str]) -> tuple[str, str, str]:
    source, target = words[0], words[1] if len(words) > 1 else words[0]
    return source, target, {"ro": "read-only"}.get(":".join(words[2:]), ":".join(words[2:]))
