"""Shows plans, and asks whether one should be started."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Literal

from distui.amounts import counted
from distui.cli.console import Console, confirm_async
from distui.cli.settings import Settings
from distui.doctor.images import image_facts, image_words
from distui.errors import PlanError
from distui.plan.model import RunPlan
from distui.plan.serialize import to_json
from distui.plan.text.compare import compare
from distui.plan.text.render import render_text
from distui.runs.launch.gpu_users import gpu_users, user_lines
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import fold

MOST_LEFT_OUT = 3
"""Lines about what is left out of the code where a run starts; the plan has them all."""


def show_plan(out: Console, settings: Settings, plan: RunPlan, *, full: bool) -> None:
    """A plan on stdout: as text, with `full` every variable and command, or as JSON."""
    if settings.output in ("json", "ndjson"):
        out.json(to_json(plan))
        return
    out.print(render_text(plan, full=full, width=text_width(out)))


def show_diff(out: Console, settings: Settings, old: RunPlan, new: RunPlan) -> None:
    """What is different between two plans, on stdout; nothing there when they would run the same."""
    found = compare(old, new)
    if settings.output in ("json", "ndjson"):
        out.json({"schema": "distui/plan-diff/v1", "old": old.run_id, "new": new.run_id, "same": not found,
                  "diff": found.splitlines()})  # fmt: skip
    elif found:
        out.print(found)
    else:
        out.say(f"distui: {new.run_id} would run the same as {old.run_id}")


def show_problems(out: Console, settings: Settings, error: PlanError) -> None:
    """Why there is no plan, as JSON where that was asked for: the words are the error's own."""
    if settings.output in ("json", "ndjson"):
        values = [{"code": p.code, "host": p.host, "message": p.message, "hint": p.hint} for p in error.problems]
        out.json({"schema": "distui/no-plan/v1", "problems": values})


def text_width(out: Console) -> int:
    """How wide a plan is printed."""
    return max(60, min(out.width or 100, 120))


async def tell_images(connector: Connector, out: Console, hosts: Sequence[Host], plan: RunPlan) -> None:
    """Say on stderr where the plan's image is missing or another one, and what the start does about it."""
    chosen = [host for host in hosts if host.name in plan.hosts]
    if plan.image is not None:
        found = await image_facts(connector, chosen, (plan.image,))
        for words in image_words(plan, found[plan.image]):
            out.say(f"distui: {words}", "yellow")


ROWS = 24
"""Of a terminal that does not say how many it has."""

Answer = Literal["no", "yes", "share"]
"""Whether to start a plan; `share`: though other runs have its GPUs."""


async def confirm_plan(
    connector: Connector, out: Console, settings: Settings, plan: RunPlan, hosts: Sequence[Host], *, force: bool
) -> Answer:
    """Whether to start. Only a terminal is asked, about GPUs that others use too; scripts and -y go ahead, with
    the plan's warnings on stderr, and share GPUs only with `force`.
    """
    go: Answer = "share" if force else "yes"
    asked = not settings["yes"] and not settings["no_input"] and sys.stdin.isatty() and out.err.isatty()
    if asked:
        text = render_text(plan, width=text_width(out)).rstrip()
        out.warn(text)
        await tell_images(connector, out, hosts, plan)
        for line in _again(out, plan, text):
            out.warn(line)
    for text in (*plan.warnings, *_not_sent(plan)):  # the plan has them far above the question
        out.say(f"distui: warning: {text}", "yellow")
    if not asked:
        return go
    what = f"Start {plan.run_id}: {counted(plan.world_size, 'rank')} on {counted(len(plan.hosts), 'host')}"
    if not force and await _tell_users(connector, out, hosts, plan):
        return "share" if await confirm_async(out, settings, f"{what}, and share these GPUs?") else "no"
    return go if await confirm_async(out, settings, f"{what}?", default=True) else "no"


def _again(out: Console, plan: RunPlan, text: str) -> Iterator[str]:
    """What is asked about, in a few lines, where the plan's text has scrolled that away."""
    many = len(text.splitlines())
    try:
        rows = os.get_terminal_size(out.err.fileno()).lines
    except OSError:
        rows = 0
    if many < (rows or ROWS):
        return
    yield ""
    yield text.partition("\n\n")[0]
    yield f"hosts {fold(plan.hosts)}"
    yield f"the plan above has {many} lines: `distui plan` prints it, as for `| less`"


def _not_sent(plan: RunPlan) -> Iterator[str]:
    """What of the code's folder or repository ranks will not find, in a few lines."""
    left_out = plan.code.left_out if plan.code is not None else ()
    yield from (f"code: {text}" for text in left_out[:MOST_LEFT_OUT])
    if len(left_out) > MOST_LEFT_OUT:
        yield f"code: {len(left_out) - MOST_LEFT_OUT} more are left out: `distui plan` has them all"


async def _tell_users(connector: Connector, out: Console, hosts: Sequence[Host], plan: RunPlan) -> bool:
    """Say which runs have the plan's GPUs; whether there are any."""
    users = await gpu_users(connector, plan, hosts)
    for words in user_lines(users):
        out.warn(f"distui: {words}", "yellow")
    return bool(users)
