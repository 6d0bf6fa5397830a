"""What comes before a start, for eyes: logins, the image on each host, who must reach whom, and what a preflight
found. Pure.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.style import Style

from distui.amounts import plural
from distui.doctor.checks import counts
from distui.doctor.finding import CheckRow, SharedFinding, shared_findings
from distui.doctor.images import how_it_comes
from distui.facts.troubles import shared
from distui.frozen import frozen
from distui.plan.content import mounts
from distui.plan.content.build import build_lines
from distui.plan.content.code import code_words
from distui.plan.model import RunPlan
from distui.plan.text.render import end_words
from distui.plan.visible import visible
from distui.spec.hosts.names import fold
from distui.tui.hosts.lines import title
from distui.tui.launch.drafting import ImageState
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette


@frozen
class Checked:
    """A preflight as the screen keeps it: its rows, when it was made, and of which plan."""

    rows: tuple[CheckRow, ...]
    at: str
    plan: str
    """The plan's hash: another plan makes it old."""

    @property
    def failed(self) -> int:
        """How many findings would break the start."""
        return counts(self.rows)["fail"]


Said = tuple[str, str, Style]
"""A label, words, and their weight."""


def before_lines(
    plan: RunPlan,
    image: ImageState | None,
    checked: Checked | None,
    end: Line,
    width: int,
    palette: Palette,
    glyphs: Glyphs,
) -> list[Line]:
    """What is checked and done before anything starts, or was found when it was checked; `end` ends the rule."""
    now = checked if checked is not None and checked.plan == plan.hash else None
    lines = [title("Before it starts", width, palette, glyphs, end=end), Line()]
    before = ""
    for name, words, style in [*_steps(plan, image, now, palette), *_ending(plan, palette)]:
        for part in textwrap.wrap(visible(words), max(24, width - 13), break_on_hyphens=False):
            lines.append(
                Line().gap(1).put("" if name == before else name, palette.muted, width=8).gap(2).put(part, style)
            )
            before = name
    return lines


def _steps(plan: RunPlan, image: ImageState | None, checked: Checked | None, palette: Palette) -> Iterator[Said]:
    several = len(plan.hosts) > 1
    if several and (proved := _proved(checked, "login")) is not None:
        bad = f"{proved} of {len(plan.hosts)} hosts answer"
        yield "hosts", bad, palette.good if proved == len(plan.hosts) else palette.wrong
    elif several:
        yield "hosts", f"all {len(plan.hosts)} hosts are logged in to again, and must still be as probed", palette.text
    if plan.image:
        yield from _image(plan, image, palette)
    if plan.code is not None:
        yield "code", f"{code_words(plan.code)}, only what is missing is sent, to {plan.code.to} there", palette.text
        yield from (("code", left, palette.watch) for left in plan.code.left_out)
    yield from (("data", mounts.words(mount), palette.text) for mount in plan.mounts)
    if several and not plan.init_method.startswith("file"):
        ports = "every other, and the tasks' ports must be free"
        there = ports if plan.launcher == "tf" else f"{plan.master_addr} port {plan.master_port}"
        proved = _proved(checked, "reach")
        if proved is None:
            yield "reach", f"every host must reach {there}", palette.text
        elif proved == len(plan.hosts):
            yield (
                "reach",
                f"proven: every host reaches {'every other' if plan.launcher == 'tf' else there}",
                palette.good,
            )
        else:
            yield (
                "reach",
                f"{len(plan.hosts) - proved} of {len(plan.hosts)} hosts: not proven, see below",
                palette.wrong,
            )


def _proved(checked: Checked | None, check: str) -> int | None:
    """On how many hosts a check was ok; None when it was not made."""
    row = next((row for row in checked.rows if row.check.id == check), None) if checked is not None else None
    return None if row is None else sum(f.verdict == "ok" for f in row.findings)


def _ending(plan: RunPlan, palette: Palette) -> Iterator[Said]:
    fails = "the others are stopped" if plan.on_fail == "stop" else "the others keep running"
    yield "failure", f"{fails}; SIGKILL after {plan.stop_grace:g} s of grace", palette.text
    if plan.on_hang != "tell":
        then = "the run is restarted" if plan.on_hang == "restart" else "the run is stopped"
        yield "hang", f"after {plan.stall_after:g} s {then}", palette.text
    if words := end_words(plan).strip():
        yield "end", words.removesuffix("."), palette.text


def _image(plan: RunPlan, image: ImageState | None, palette: Palette) -> Iterator[Said]:
    """Where it is, where it is pulled or built, and what is not known."""
    if plan.build is not None:
        yield "image", f"built {next(build_lines(plan.build))}", palette.text
    if image is None or (plan.pull == "always" and plan.build is None):
        policy = {
            "missing": "pulled where it is missing", "always": "pulled on every host", "never": "must be there already",
        }  # fmt: skip
        yield "image", policy[plan.pull] if plan.build is None else "built where it is missing", palette.text
        return
    if image.missing:
        where = fold(image.missing)
        if plan.pull == "never":
            copy = "; `distui image push` copies it there" if image.present else ""
            yield "image", f"missing on {where}, and the job says `pull: never`{copy}", palette.wrong
        else:
            yield "image", f"missing on {where}: {how_it_comes(plan, image.present)}", palette.bold
    if image.present:
        yield "image", f"present on {fold(image.present)}", palette.text
    for trouble in shared(image.troubles or {}):
        yield "image", f"unknown: {trouble.message}", palette.muted
    if image.unknown:
        yield "image", f"asking {fold(image.unknown)}", palette.faint


def preflight_lines(checked: Checked, plan: RunPlan, width: int, palette: Palette, glyphs: Glyphs) -> Iterator[Line]:
    """What a preflight found: how many checks are well, and every finding with what to do."""
    yield Line()
    total = counts(checked.rows)
    end = Line().put(f"{total['ok']} ok", palette.muted)
    warned = plural(total["warn"], "warning")
    for verdict, words, style in (("pull", "to pull", palette.text), ("warn", warned, palette.watch),
                                  ("fail", "failed", palette.wrong)):  # fmt: skip
        if total[verdict]:
            end.put(f"  {total[verdict]} {words}", style)
    yield title("Preflight", width, palette, glyphs, facts=[f"at {checked.at}"], end=end)
    yield Line()
    if checked.plan != plan.hash:
        yield Line().gap(1).put("the plan has changed since: P checks it", palette.muted)
        yield Line()
    wrong = [(row, s) for row in checked.rows for s in shared_findings(row) if s.finding.verdict in ("warn", "fail")]
    for row, several in sorted(wrong, key=lambda pair: pair[1].finding.verdict != "fail"):
        yield from _finding(row, several, width, palette)
    reach = next((row for row in checked.rows if row.check.id == "reach"), None)
    if not wrong:
        proved = f", {len(reach.findings)} hosts reach each other" if reach is not None else ""
        yield Line().gap(1).put(f"nothing is wrong{proved}", palette.good)


def _finding(row: CheckRow, several: SharedFinding, width: int, palette: Palette) -> Iterator[Line]:
    found = several.finding
    style = palette.wrong if found.verdict == "fail" else palette.watch
    head = f"{fold(several.hosts)}  {row.check.title}" + (f": {several.saw}" if several.saw else "")
    room = max(24, width - 13)
    for label, words, ink in (
        ("FAIL" if found.verdict == "fail" else "warn", head, style), ("", found.means, palette.text),
        ("do", found.do, palette.muted),
    ):  # fmt: skip
        for k, part in enumerate(textwrap.wrap(visible(words), room, break_on_hyphens=False)):
            weight = style if label in ("FAIL", "warn") else palette.muted
            yield Line().gap(1).put("" if k else label, weight, width=8).gap(2).put(part, ink)
