"""A run whose plan is on another machine, as its labels tell it."""

from __future__ import annotations

from distui.amounts import counted
from distui.columns import table
from distui.plan.labels import format_ranks
from distui.plan.visible import visible
from distui.runs.hosts.discover import FoundRun


def found_text(found: FoundRun) -> str:
    """Who started what where, rank by rank. What labels do not hold (env, addresses, exact commands) is said."""
    first = found.tasks[0].labels
    lines = [
        f"Run {found.run}, job {found.job}, {counted(found.world_size, 'rank')} on "
        f"{counted(len(found.hosts), 'host')}, "
        f"launcher {first.launcher}, backend {first.backend or '?'}",
        f"Started by {found.owner or '?'}"
        + (f" at {first.started}" if first.started else "")
        + f", distui {first.version}",
        "",
        "Its plan is on the machine it was started from: this is what the labels on its hosts tell.",
        f"Variables, addresses and exact commands are not among them; there: `distui show --plan {found.run}`",
        "",
    ]
    head, rows = ("TASK", "HOST", "ROLE", "RANKS", "GPUS", "STATE", "ID"), []
    for task in found.tasks:
        labels = task.labels
        gpus, state = format_ranks(labels.gpus), task.status + (f" {task.exit}" if task.exit else "")
        ranks = format_ranks(labels.ranks)
        rows.append((str(labels.task), task.host, labels.role, ranks, gpus, state, task.id[-12:]))
    lines += table(head, rows)
    fails = "the others are stopped" if first.on_fail == "stop" else "the others keep running"
    hangs = {"stop": "If ranks hang the run is stopped. ", "restart": "If ranks hang the run is restarted. "}
    course = f"If a rank fails {fails}; SIGKILL after {first.grace:g} s of grace."
    lines += ["", f"{course} {hangs.get(first.on_hang, '')}Plan {first.plan or '?'}."]
    return "\n".join(visible(line) for line in lines)
