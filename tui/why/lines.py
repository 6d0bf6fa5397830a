"""What stands around the table of the Why panel: how asking goes, headline, evidence, calls, the next step. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.style import Style

from distui.amounts import moment
from distui.cluster.why import not_asked
from distui.runs.lines.events import NetworkUsed, rank_words
from distui.runs.lines.explanation import Calls, Explanation, RankPlace
from distui.runs.lines.text import safe
from distui.runs.report.network_words import network_text
from distui.runs.report.why_words import NO_CALLS, NOT_CERTAIN, called, headline, is_unsure
from distui.tui.paint.figures import ago
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line, cut_left
from distui.tui.paint.theme import Palette
from distui.tui.why.answers import Answer, Answers
from distui.tui.why.table import Table

MORE_FROM = 3
"""Rows from which on one is taken to say how many are left out."""
KINDS = {"moving": "goes on", "unseen": "can't tell"}
"""Words for kinds whose names say little."""


def kind_words(found: Explanation) -> str:
    """`hang`, `straggler`, `goes on`."""
    return KINDS.get(found.kind, found.kind)


def kind_style(palette: Palette, found: Explanation) -> Style:
    """Something to look at, or not."""
    return {"moving": palette.good, "unseen": palette.muted}.get(found.kind, palette.watch)


def folded(text: str, width: int) -> list[str]:
    """A text from anywhere in rows of at most so many letters."""
    return wrap(safe(text).replace("\n", " "), max(10, width), break_on_hyphens=False)


# how asking goes


def status_line(palette: Palette, answers: Answers) -> Line:
    """Whether they are being asked, and of when what is shown is."""
    line, shown, now = Line().gap(1), answers.shown, answers.clock()
    last = f"last answer {ago(max(0.0, now - shown.record.at))}" if shown is not None else ""
    if answers.asking_since is not None:
        line.put("asking the ranks…", palette.accent).gap(1)
        line.put(f"{now - answers.asking_since:.0f} s", palette.accent)
        return line.put(f"   {last}" if last else "", palette.muted)
    if answers.trouble:
        line.put("can't be asked: ", palette.watch).put(answers.trouble, palette.text)
        return line.put(f"   {last}" if last else "", palette.muted)
    if answers.may_ask:
        return line.put(last, palette.muted)
    run = answers.live.plan.run_id
    if shown is not None:
        when = moment(shown.record.at)
        return line.put(f"{run} has ended; last answer at ", palette.muted).put(when, palette.text)
    if not answers.read_yet:
        return line
    error = not_asked(run)
    return line.put(f"{error.message}; {error.hint}", palette.muted)


def status_lines(palette: Palette, answers: Answers, width: int, most: int = 3) -> list[Line]:
    """The same in at most so many rows: why ranks can't be asked may be long."""
    line = status_line(palette, answers)
    if line.width <= width:
        return [line]
    style = palette.text if answers.trouble else palette.muted
    return [Line().gap(1).put(part, style) for part in folded(line.plain.strip(), width - 2)][:most]


def answers_line(palette: Palette, answers: Answers, width: int) -> Line:
    """All answers in a row, the newest first; the one that is shown stands out, and is never cut off."""
    pieces = [_answer(palette, one, here=n == answers.at) for n, one in enumerate(answers.all)]
    first = 0
    while first < answers.at and 10 + sum(piece.width + 1 for piece in pieces[first : answers.at + 1]) > width:
        first += 1
    line = Line().gap(1).put("answers", palette.faint).gap(1)
    for piece in pieces[first:]:
        if line.width + piece.width > width:
            break
        line.add(piece).gap(1)
    return line


def _answer(palette: Palette, answer: Answer, *, here: bool) -> Line:
    found, fill = answer.record.found, palette.tab_fill if here else Style()
    line = Line().put(f" {moment(answer.record.at)} ", fill + (palette.bold if here else palette.muted))
    return line.put(f"{kind_words(found)} ", fill + (kind_style(palette, found) if here else palette.muted))


def network_lines(palette: Palette, used: NetworkUsed | None, now: float, width: int, most: int) -> list[Line]:
    """Which interface carried how much, and below it what is odd in it, in at most so many rows."""
    if used is None:
        return []
    first, *odd = network_text(used, now)
    style = palette.watch if odd else palette.muted
    parts = [part for words in (first, *(words.strip() for words in odd)) for part in folded(words, width - 2)]
    return [Line().gap(1).put(part, style) for part in parts][:most]


# what they answered


def head_lines(palette: Palette, answer: Answer | None, width: int, most: int) -> list[Line]:
    """The headline and what proves it, in at most so many rows."""
    if answer is None or most <= 0:
        return []
    found, room = answer.record.found, width - 2
    rows = [Line().gap(1).put(part, kind_style(palette, found)) for part in folded(headline(answer.record), room)]
    if is_unsure(found):
        rows.append(Line().gap(1).put(NOT_CERTAIN, palette.text))
    for words in found.evidence:
        rows += [Line().gap(3).put(part, palette.muted) for part in folded(words, room - 2)]
    if len(rows) <= most:
        return rows
    if most < MORE_FROM:
        rows[most - 1].put(" …", palette.text)
        return rows[:most]
    left = len(rows) - most + 1
    return [*rows[: most - 1], Line().gap(3).put(f"{left} more rows: y copies all of it", palette.faint)]


def next_lines(palette: Palette, answer: Answer | None, width: int, most: int) -> list[Line]:
    """What to do next."""
    if answer is None or not answer.record.found.advice:
        return []
    first, *more = folded(answer.record.found.advice, width - 8) or [""]
    rows = [Line().gap(1).put("next", palette.muted).gap(2).put(first, palette.bold)]
    return [*rows, *(Line().gap(7).put(part, palette.bold) for part in more)][:most]


# one rank


def rank_title(palette: Palette, glyphs: Glyphs, place: RankPlace | None, width: int) -> Line:
    """Which rank it is."""
    line = Line().gap(1)
    if place is not None:
        line.put(rank_words(place.rank, place.name), palette.watch if place.culprit else palette.bold)
        line.put(f" on {place.host}" if place.host else "", palette.muted)
    return line.rule(width - 1, palette.rule, glyphs.rule).cut(width)


def rank_lines(palette: Palette, answers: Answers, table: Table, place: RankPlace, width: int) -> list[Line]:
    """What a rank does in full, its figures, and its calls with those of ranks that are in the same."""
    rows = [Line().gap(1).put(part, palette.text) for part in folded(place.does, width - 2)]
    cells = table.cells_of(place.rank)
    shown = [head for head in ("AT", "BEHIND", "LATE", "CPU", "NO CORE", "READ", "WRITTEN") if cells.get(head)]
    words = "   ".join(f"{head.lower()} {cells[head]}" for head in shown)
    rows += [Line().gap(1).put(part, palette.muted) for part in folded(words, width - 2)]
    return [*rows, Line(), *_calls(palette, answers, place, width)]


def _calls(palette: Palette, answers: Answers, place: RankPlace, width: int) -> Iterator[Line]:
    answer = answers.shown
    record = answer.record if answer is not None else None
    own = _calls_of(record.calls if record is not None else (), place.rank)
    if own is None or not own.frames:
        for part in folded(_no_calls(answers, own), width - 2):
            yield Line().gap(1).put(part, palette.muted)
        return
    others = tuple(rank for rank in own.ranks if rank != place.rank)
    same = f", the same in {called(others, answer.record.found)}" if others and answer is not None else ""
    for part in folded(f"calls, innermost first{same}", width - 2):
        yield Line().gap(1).put(part, palette.muted)
    for frame in own.frames:
        here = frame in place.does
        yield Line().gap(2).put(cut_left(safe(frame), width - 3), palette.bold if here else palette.text)


def _calls_of(calls: Sequence[Calls], rank: int) -> Calls | None:
    return next((one for one in calls if rank in one.ranks), None)


def _no_calls(answers: Answers, own: Calls | None) -> str:
    """Why there are none."""
    record = answers.shown.record if answers.shown is not None else None
    asked = record is not None and any(one.frames for one in record.calls)
    if asked and own is not None:
        return NO_CALLS
    if not answers.may_ask:
        return "its calls were not kept"
    return "calls are asked for by themselves only where something stands still: s asks for them"
