"""What kernels and drivers reported of hosts and ranks, as JSON for `distui why`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from distui.runs.insight.seen.answers import HostAnswer
from distui.runs.insight.seen.watched import gpu_cells
from distui.runs.insight.slow.slow import Slow


def figures_json(slow: Slow) -> dict[str, Any]:
    """Everything of the watch that is not among the ranks' answers, bounded as it was read."""
    late = slow.lateness
    return {
        "lateness": {
            "late": [asdict(one) for one in late.late],
            "usual": {str(rank): seconds for rank, seconds in (late.usual or {}).items()},
            "pauses": [asdict(one) for one in late.pauses],
            "step_seconds": late.every, "steps": late.steps, "doubt": late.doubt, "uneven": late.uneven,
        },
        "links": [{**asdict(one), "share": one.share} for one in slow.links],
        "hosts": {
            host: {
                "pressure": dict(found.answer.pressure), "ahead": found.answer.ahead, "doubt": found.answer.doubt,
                "segments": found.segments, "again": found.again, "gpus": [dict(gpu) for gpu in found.gpus],
            }
            for host, found in sorted(slow.watched.items())
        },
        "kernel": {
            str(seen.rank): asdict(replace(figures, samples=())) | {"samples": len(figures.samples)}
            for seen in slow.ranks
            if (figures := slow.figures(seen.rank)) is not None
        },
    }  # fmt: skip


def hosts_json(hosts: Mapping[str, HostAnswer]) -> dict[str, Any]:
    """What hosts said beside their ranks when these were looked at once, bounded as it was read."""
    return {
        "hosts": {
            host: {
                "pressure": dict(answer.pressure), "ahead": answer.ahead, "doubt": answer.doubt,
                "gpus": list(gpu_cells(answer.gpus)), "connections": [asdict(one) for one in answer.connections],
            }
            for host, answer in sorted(hosts.items())
        }
    }  # fmt: skip
