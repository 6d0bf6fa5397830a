"""What is known of the run under the cursor, below the list: nothing is asked for it."""

from __future__ import annotations

from collections.abc import Sequence

from distui.amounts import counted, size_words
from distui.runs.hosts.discover import FoundRuns
from distui.runs.report.history import RunRow
from distui.runs.report.run_words import took_words
from distui.spec.hosts.names import fold, fold_sorted
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run.words import state_words


def preview(
    row: RunRow,
    found: FoundRuns,
    width: int,
    palette: Palette,
    glyphs: Glyphs,
    goes: Sequence[Line] = (),
    *,
    leaves_out: bool = False,
) -> list[Line]:
    """Title and facts, how it goes, the tasks on the hosts, the first failure with its last lines. `leaves_out`: other
    hosts were not asked.
    """
    title = Line().gap(1).put(row.run, palette.bold).gap(2).put(row.job, palette.muted).gap(3)
    ranks = f"{counted(row.ranks, 'rank')} " if row.ranks else ""
    title.put(f"{ranks}on {fold_sorted(row.hosts) or 'no host'}", palette.muted)
    right = Line().put(took_words(row) or "-", palette.text).gap(1)
    lines = [title.rule(width - right.width - 2, palette.rule, glyphs.rule).ends_with(right, width, gap=1), Line()]
    lines += [_fact("state", state_words(row) + _where(row, leaves_out=leaves_out), palette)]
    lines += [_fact("owner", row.owner or "unknown", palette)]
    lines += [_fact("here", f"plan, events and logs, {size_words(row.size)}" if row.recorded else "nothing", palette)]
    lines += [_fact("warning", words, palette) for words in row.warnings]
    lines += [Line(), *goes] if goes else []
    return lines + _failure(row, palette, glyphs, width) + _tasks(row, found, palette, glyphs, width)


def _where(row: RunRow, *, leaves_out: bool) -> str:
    """What of it is on its hosts now, in words. With `leaves_out` it may go on elsewhere."""
    if row.state == "left" and row.begun and leaves_out:
        return f": it had started, and has its folder and no task on {fold(row.hosts)}; others were not asked (-H)"
    if row.state == "left" and row.begun:
        return ": it had started, and has its folder and no task on its hosts; X removes it"
    if row.state == "left":
        return ": its launch was killed; X removes what it left on its hosts"
    if row.left:
        return f", its folder is still on {fold(row.left)}; X removes it"
    if row.state == "starting":
        return ", no rank of it is there yet"
    if row.silent:
        return ": no rank said a line since, and nobody follows it here; enter does"
    unread = ", nobody follows it here" if row.state == "running" and not row.followed else ""
    return f", on its hosts now{unread}" if row.live else ""


def _fact(label: str, message: str, palette: Palette) -> Line:
    return Line().put(label, palette.faint, width=8, right=True).gap(2).put(message, palette.text)


def _heading(message: str, palette: Palette, glyphs: Glyphs, width: int) -> list[Line]:
    return [Line(), Line().gap(1).put(message, palette.bold).rule(width - 1, palette.rule, glyphs.rule), Line()]


def _failure(row: RunRow, palette: Palette, glyphs: Glyphs, width: int) -> list[Line]:
    failure = row.failure
    if failure is None:
        return []
    lines = _heading("First failure", palette, glyphs, width)
    lines.append(Line().gap(3).put(failure.where, palette.wrong).gap(2).put(failure.words, palette.text))
    for label, words in (("cause", failure.cause), ("next", failure.hint)):
        if words:
            lines.append(_fact(label, words, palette))
    return lines + [Line().gap(10).put(text, palette.muted) for text in failure.excerpt]


def _tasks(row: RunRow, found: FoundRuns, palette: Palette, glyphs: Glyphs, width: int) -> list[Line]:
    run = found.get(row.run, row.launch)
    if run is None:
        return []
    lines = _heading("On the hosts", palette, glyphs, width)
    for task in run.tasks:
        state = "running" if task.running else "ended"
        line = (
            Line().gap(3).put(glyphs.state(state), palette.state(state)).gap(1).host(task.host, palette.text, width=14)
        )
        line.gap(2).put(f"{task.labels.engine} {task.id[-12:]}", palette.muted, width=22).gap(2)
        lines.append(line.put(task.status, palette.muted))
    return lines
