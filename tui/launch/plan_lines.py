"""A plan for eyes: who runs where, on which network and why, what will bite, and the exact commands. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence

from rich.style import Style

from distui.amounts import counted
from distui.errors import PlanProblem, Problem
from distui.frozen import frozen
from distui.monitor.board import Board
from distui.monitor.host_board import GpuOwner
from distui.plan.command.process import program
from distui.plan.labels import format_ranks, named_ranks
from distui.plan.model import HostNetwork, NoPlan, RunPlan, Task, in_words
from distui.plan.text.render import folded, groups, quoted, start_lines
from distui.plan.visible import visible
from distui.spec.hosts.names import fold
from distui.tui.hosts.lines import title
from distui.tui.hosts.rows import process_words
from distui.tui.launch.before_lines import Checked, before_lines, preflight_lines
from distui.tui.launch.drafting import ImageState
from distui.tui.launch.plan_table import NAME_MOST, plan_table
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette

SHOWN_TASKS = 2
"""Commands that are listed; the others differ little and come with a key press."""
_KEPT = ("--name", "--network", "--gpus", "--env-file", "--device", "--runtime")
"""Flags of a folded command that somebody reads."""


@frozen
class PlanRow:
    """One painted row. `task` is the index of the task whose command it belongs to, `line` a line of the job file."""

    line: Line
    task: int | None = None
    place: int = 0
    key: str = ""
    """What the cursor keeps to when the plan changes."""


@frozen
class Preview:
    """What the launch screen knows of the job as it stands: problems, or a plan, or why there is none."""

    problems: tuple[Problem, ...] = ()
    plan: RunPlan | None = None
    reasons: tuple[PlanProblem, ...] = ()
    used: tuple[str, ...] = ()
    """Runs that have GPUs of the plan, by what the board knows: the launch asks the hosts again."""
    remarks: tuple[str, ...] = ()
    """What else will bite: processes of no run on its GPUs."""
    image: ImageState | None = None
    """Where the plan's image is; None when nobody was asked."""
    checked: Checked | None = None
    """The last preflight of this job."""
    checking: bool = False
    """Whether a preflight is being made."""

    @property
    def errors(self) -> int:
        """How many things keep it from being started."""
        return len(self.problems) + len(self.reasons)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What will bite without keeping it from being started."""
        other = self.image.warning if self.image is not None else ""
        return (*(self.plan.warnings if self.plan else ()), *self.used, *self.remarks, *([other] if other else []))


def preview_of(made: RunPlan | NoPlan, board: Board) -> Preview:
    """The preview of a plan, with what the board knows of its hosts."""
    if isinstance(made, NoPlan):
        return Preview(reasons=made.problems)
    runs, strangers = _in_use(made, board)
    return Preview(plan=made, used=runs, remarks=strangers)


def _in_use(made: RunPlan, board: Board) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who has GPUs of the plan: runs, and processes that are of no run."""
    runs: dict[tuple[str, str], list[int]] = {}
    strangers: dict[tuple[str, str], list[int]] = {}
    for host in made.hosts:
        known, wanted = board.hosts.get(host), made.gpus_on(host)
        for gpu in known.gpus_in_order() if known is not None else ():
            owner = known.owner(gpu) if known is not None and gpu.index in wanted else GpuOwner()
            if owner.use is not None:
                runs.setdefault((host, owner.use.run), []).append(gpu.index)
            elif owner.foreign:
                process = owner.foreign[0]
                strangers.setdefault((host, process_words(process.user, process.name)), []).append(gpu.index)
    return (
        tuple(f"{host}: {_many(gpus)} used by run {run}" for (host, run), gpus in runs.items()),
        tuple(f"{host}: {_many(gpus)} used by {who}, of no run" for (host, who), gpus in strangers.items()),
    )


def _many(gpus: Sequence[int]) -> str:
    return f"GPU {gpus[0]} is" if len(gpus) == 1 else f"GPUs {format_ranks(gpus)} are"


def status(shown: Preview, palette: Palette) -> Line:
    """`ready, 1 warning`; `2 errors`."""
    line = Line()
    if shown.errors:
        return line.put(counted(shown.errors, "error"), palette.wrong)
    if shown.plan is None:
        return line.put("no plan yet", palette.faint)
    line.put("ready", palette.text)
    count = len(folded_warnings(shown.warnings))
    if count:
        line.put(", ", palette.muted).put(counted(count, "warning"), palette.watch)
    if shown.checked is not None and shown.checked.plan == shown.plan.hash and shown.checked.failed:
        line.put(", ", palette.muted).put(f"preflight: {shown.checked.failed} failed", palette.wrong)
    if shown.image is not None and shown.image.missing:
        never = shown.plan.pull == "never"
        lacking = len(shown.image.missing)
        verb = "pull" if shown.plan.build is None else "build"
        message = f"{lacking} without the image" if never else f"{lacking} to {verb}"
        line.put(", ", palette.muted).put(message, palette.wrong if never else palette.text)
    return line


def plan_rows(
    shown: Preview,
    width: int,
    palette: Palette,
    glyphs: Glyphs,
    *,
    unfolded: Collection[int] = (),
    all_tasks: bool = False,
) -> list[PlanRow]:
    """Everything about the plan, top down: table, warnings, why, commands, what happens before the start."""
    plan = shown.plan
    facts = [_counts(plan)] if plan else []
    rows = [
        PlanRow(title("Plan", width, palette, glyphs, facts=facts, end=status(shown, palette)), key="title"),
        PlanRow(Line()),
    ]
    rows += [r for p in shown.problems for r in _problem(p, width, palette, glyphs)]
    rows += _reasons(shown.reasons, width, palette, glyphs)
    if plan is None:
        return rows
    rows += [*(PlanRow(line) for line in plan_table(plan, width, palette)), PlanRow(Line())]
    for words, more in folded_warnings(shown.warnings):
        rows += _block(visible(words), more, width, palette.warn_fill, palette.watch, palette, glyphs)[:-1]
    rows += [PlanRow(Line())] if shown.warnings else []
    rows += [PlanRow(line) for line in _why(plan, width, palette, glyphs)]
    rows += _commands(plan, width, palette, glyphs, unfolded, all_tasks)
    offer = Line().put("P ", palette.key).put("check now", palette.muted)
    end = Line().put("checking", palette.text) if shown.checking else offer
    rows += [PlanRow(line) for line in before_lines(plan, shown.image, shown.checked, end, width, palette, glyphs)]
    if shown.checked is not None:
        rows += [PlanRow(line) for line in preflight_lines(shown.checked, plan, width, palette, glyphs)]
    return rows


def _counts(plan: RunPlan) -> str:
    what = "process" if plan.tasks and plan.tasks[0].engine == "process" else "container"
    return f"{counted(len(plan.tasks), what)}, {counted(plan.world_size, 'rank')}"


def folded_warnings(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Warnings that differ only in numbers as one: (the first, how many more there are)."""
    groups_: dict[str, list[str]] = {}
    for words in warnings:
        groups_.setdefault(re.sub(r"\d+", "#", words), []).append(words)
    return [(g[0], f"and {len(g) - 1} more like it" if len(g) > 1 else "") for g in groups_.values()]


# what is wrong


def _problem(problem: Problem, width: int, palette: Palette, glyphs: Glyphs) -> list[PlanRow]:
    place = f"line {problem.line}  " if problem.line else ""
    message = f"{place}{problem.key}" if problem.key else place.strip() or "the job"
    return _block(
        message, problem.message, width, palette.danger_fill, palette.wrong, palette, glyphs, place=problem.line
    )


def _reasons(reasons: Sequence[PlanProblem], width: int, palette: Palette, glyphs: Glyphs) -> list[PlanRow]:
    rows: list[PlanRow] = []
    for words, hint in in_words(reasons):
        rows += _block(visible(words), visible(hint), width, palette.danger_fill, palette.wrong, palette, glyphs)
    return rows


def _block(
    head: str, text: str, width: int, fill: Style, ink: Style, palette: Palette, glyphs: Glyphs, *, place: int = 0
) -> list[PlanRow]:
    """A filled block: what, then effect and way out."""
    rows = []
    room = max(20, width - 5)
    parts = [(part, ink) for part in _wrapped(head, room)] + [(part, palette.text) for part in _wrapped(text, room)]
    for part, style in parts:
        line = Line().gap(1).put(glyphs.block, ink + fill).put(f" {part}", style + fill)
        rows.append(PlanRow(line.put(" " * (width - 1 - line.width), fill), place=place))
    return [*rows, PlanRow(Line())]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) if text else []


# who, where, why


def _why(plan: RunPlan, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    """Reasons of the run, then of the first host; hosts like it are not repeated."""
    first, *others = plan.networks
    same = [n.host for n in others if _kind(n) == _kind(first)]
    lines = [title("Why this network", width, palette, glyphs), Line()]
    label = min(NAME_MOST, max(4, *(len(n.host) for n in plan.networks)))
    for where, reasons in [("run", plan.reasons), *((n.host, n.reasons) for n in plan.networks if n.host not in same)]:
        for i, reason in enumerate(_unused_together(reasons)):
            for j, part in enumerate(_wrapped(visible(reason), max(24, width - label - 5))):
                line = Line().gap(1).host(where if i == j == 0 else "", palette.muted, width=label).gap(2)
                lines.append(line.put(part, palette.text))
    if same:
        lines.append(Line().gap(3 + label).put(f"the same on {fold(same)}", palette.faint))
    return [*lines, Line()]


def _unused_together(reasons: Sequence[str]) -> list[str]:
    """Interfaces that are not used, without a reason of their own, in one line at the end."""
    unused = [m[1] for r in reasons if (m := re.fullmatch(r"(\S+) \S+ not used", r))]
    reasons = [re.sub(r"[\w.-]+:\d+(?:, [\w.-]+:\d+)+", _folded_ports, r) for r in reasons]
    kept = [r for r in reasons if not re.fullmatch(r"\S+ \S+ not used", r)]
    return [*kept, *([f"not used: {fold(unused)}"] if unused else [])]


def _folded_ports(found: re.Match[str]) -> str:
    """`mlx5_0:1, mlx5_1:1` -> `mlx5_[0-1]`, when all are port 1."""
    ports = [p.partition(":") for p in found[0].split(", ")]
    return fold(p[0] for p in ports) if all(p[2] == "1" for p in ports) else found[0]


def _kind(net: HostNetwork) -> tuple[object, ...]:
    """A host's reasons without what is bound to differ: its addresses."""
    plain = tuple(re.sub(r"[0-9a-fA-F:.]*[.:][0-9a-fA-F:.]+", "", r) for r in net.reasons)
    return (net.ifname, net.fabric, net.hcas, plain)


# commands


def command_text(task: Task) -> str:
    """The whole of a task's start, to be pasted into bash or zsh on its host; secrets come from that shell."""
    if task.engine == "process":
        return folded(program(task), 100) + "\n"
    return "\n".join(start_lines(task, 100)) + "\n"


def _commands(
    plan: RunPlan, width: int, palette: Palette, glyphs: Glyphs, unfolded: Collection[int], all_tasks: bool
) -> list[PlanRow]:
    shown = plan.tasks if all_tasks else plan.tasks[:SHOWN_TASKS]
    rows: list[PlanRow] = []
    names = plan.rank_names
    for task in shown:
        is_open = task.index in unfolded
        mark = glyphs.open if is_open else glyphs.folded
        end = Line().put("enter ", palette.key).put("fold" if is_open else "unfold", palette.muted)
        end.put("  c ", palette.key).put("copy", palette.muted)
        ranks = names.get(task.ranks[0]) or named_ranks(task.ranks)
        head = title(f"Command on {task.host}", width - 2, palette, glyphs, facts=[ranks], end=end)
        head = Line().gap(1).put(mark, palette.accent).add(head)
        rows += [PlanRow(head, task.index, key=f"task-{task.index}"), PlanRow(Line(), task.index)]
        lines = _unfolded(task, width, palette) if is_open else _folded(task, width, palette, glyphs)
        rows += [*(PlanRow(line, task.index) for line in lines), PlanRow(Line(), task.index)]
    rest = len(plan.tasks) - len(shown)
    if rest:
        message = f"{counted(rest, 'more command')} like these"
        rows += [
            PlanRow(Line().gap(1).put(glyphs.folded, palette.accent).put(f" {message}", palette.muted), -1, key="more"),
            PlanRow(Line()),
        ]
    return rows


def _unfolded(task: Task, width: int, palette: Palette) -> list[Line]:
    """Every line that is run, as `c` copies it."""
    lines, room = [], max(20, width - 4)
    for text in command_text(task).splitlines():
        for i, part in enumerate(textwrap.wrap(text, room, break_on_hyphens=False, drop_whitespace=False) or [""]):
            lines.append(
                Line().gap(3 if i else 1).put(visible(part), palette.text if text.startswith("  ") else palette.muted)
            )
    return lines


def _folded(task: Task, width: int, palette: Palette, glyphs: Glyphs) -> list[Line]:
    """The flags somebody reads, the image, and the program as the brightest line."""
    argv = program(task) if task.engine == "process" else task.start
    parts = list(groups([quoted(w) for w in argv]))
    at = next((i for i, p in enumerate(parts) if p == quoted(task.image or "")), None)
    if at is None:
        return [Line().gap(1).put(text.strip("\\ "), palette.bold).cut(width - 1) for text in [" ".join(parts)]]
    head = [p for p in parts[:at] if not p.startswith("-")]
    flags = [p for p in parts[:at] if p.startswith("-")]
    kept = [f for f in flags if f.split("=")[0].split()[0] in _KEPT]
    more = len(flags) - len(kept)
    lines = [Line().gap(1).put(" ".join(head), palette.text).put(" \\", palette.faint)]
    lines += [Line().gap(3).put(flag, palette.muted).put(" \\", palette.faint) for flag in kept]
    if more > 0:
        lines.append(
            Line().gap(3).put(f"{glyphs.folded} {counted(more, 'more flag')}", palette.faint).put(" \\", palette.faint)
        )
    lines.append(Line().gap(3).put(parts[at], palette.muted).put(" \\", palette.faint))
    lines.append(Line().gap(3).put(" ".join(parts[at + 1 :]) or "(the image's own command)", palette.bold))
    return [line.cut(width - 1) for line in lines]
