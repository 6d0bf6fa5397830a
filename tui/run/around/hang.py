"""A run that does not go on, in its view: the banner that says so, and the key to the Why panel."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from distui.amounts import duration, plural
from distui.plan.model import RunPlan
from distui.runs.lines.events import RanksAsked, ranks_words
from distui.runs.lines.text import safe
from distui.runs.report.rank_rows import RankRow
from distui.runs.state.reducer import RunState
from distui.runs.state.standstill import steps_done
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.keys import keys_of
from distui.tui.frame.parts import Part
from distui.tui.logs.feed import RunFeed
from distui.tui.paint.glyphs import Glyphs
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import Palette
from distui.tui.run.panes.failure import FailureNavigator
from distui.tui.run.words import gpu_words
from distui.tui.why.screen import WhyScreen

MOST = 4
"""Rows of the banner."""
LEFT, RIGHT = 2, 22
"""Cells beside the headline: the edge, and for how long it has been so with the key."""


class WhyPanel(Part):
    """Opens the Why panel over the run view, and tells in its banner what stands still."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action(
            "why", "why", ("w",), "View", "why", footer=True,
            help="Why it hangs or is slow: where each rank is and what it does. The ranks are asked, and keep running.",
            also="culprit stalled stuck waits deadlock stacks py-spy",
        ),
    )  # fmt: skip

    def __init__(self, view: View, feed: RunFeed, failures: FailureNavigator) -> None:
        self.view = view
        self.feed = feed
        self.failures = failures

    def action_why(self) -> None:
        """Over the run view; enter on a rank there goes to its log here."""
        self.view.app.push_screen(WhyScreen(self.feed.live, self.failures.command_number, clock=self.feed.clock))

    @property
    def stands(self) -> bool:
        """Whether the banner tells of a run that stands still."""
        return banner_rows(self.feed, self.view.size.width) > 0

    def banner(self, width: int, height: int) -> list[Line]:
        """What stands still now, for how long, and what to do."""
        view, why, guess = self.view, newest_answer(self.feed.state), headline(self.feed)
        key = keys_of(self.ACTIONS[0], app_of(view).keymap)[0]
        if why is not None:
            return banner_lines(view.palette, view.glyphs, why, width, height, now=self.feed.now, key=key)
        return [_row(view.palette, view.glyphs, guess, "", width, key)] if guess else []


def newest_answer(state: RunState) -> RanksAsked | None:
    """What stands still in a run that lives, and of which no failure is known."""
    return state.why if state.ended is None and state.failure is None else None


def headline(feed: RunFeed) -> str:
    """What is seen of a run that stands still before its ranks were asked: who is behind, and what its GPUs do."""
    if feed.stands is None:
        return ""
    late = [row for row in feed.rows() if row.word == "behind"]
    words = f"{_who(late, feed.live.plan)} behind the others" if late else _silence(feed)
    gpus = [gpu for row in feed.rows() for gpu in feed.gpus_of(row)]
    load = gpu_words(gpus, feed.live.plan.world_size)
    return f"{words[:1].upper()}{words[1:]}" + (f"; {plural(len(gpus), 'GPU')} {load}" if load else "")


def _silence(feed: RunFeed) -> str:
    """What does not come any more."""
    if steps_done(feed.state):
        return "all steps are done, and no rank says another line"
    return f"no rank says another {'step' if feed.state.steps else 'line'}"


def _who(late: Sequence[RankRow], plan: RunPlan) -> str:
    ranks = f"{ranks_words([row.rank for row in late], plan.rank_names)} {'is' if len(late) == 1 else 'are'}"
    most = max(row.lag or 0 for row in late)
    return f"{ranks} {most:,} {plural(most, 'step')}"


def banner_rows(feed: RunFeed, width: int) -> int:
    """How many rows it takes when there is room."""
    why = newest_answer(feed.state)
    if why is None:
        return int(feed.stands is not None)
    return min(MOST, len(_headline(why, width)) + bool(why.found.advice))


def _headline(why: RanksAsked, width: int) -> Sequence[str]:
    words = safe(why.found.headline).replace("\n", " ")
    return wrap(words[:1].upper() + words[1:], max(20, width - LEFT - RIGHT), break_on_hyphens=False)


def _row(palette: Palette, glyphs: Glyphs, words: str, since: str, width: int, key: str) -> Line:
    """The first row: what stands still at the left, for how long and the key at the right."""
    end = Line().put(since, palette.muted).gap(3 if since else 0)
    end.put(key, palette.key, click="screen.why").put(" why", palette.muted, click="screen.why").gap(1)
    left = _edge(palette, glyphs).put(words, palette.watch).cut(width - end.width - 1)
    return left.ends_with(end, width)


def banner_lines(
    palette: Palette, glyphs: Glyphs, why: RanksAsked, width: int, height: int, *, now: float, key: str
) -> list[Line]:
    """At most `height` rows: the headline, and the next step as the last one."""
    found = why.found
    since = f"for {duration(now - found.since, coarse=True)}" if found.since is not None else ""
    words = list(_headline(why, width))
    rows = words[: max(1, height - bool(found.advice))]
    lines = [_row(palette, glyphs, rows[0], since, width, key)]
    lines += [_edge(palette, glyphs).put(row, palette.text) for row in rows[1:]]
    if len(rows) < len(words):
        lines[-1].put(f" {glyphs.ellipsis}", palette.text)
    if found.advice:
        lines.append(_edge(palette, glyphs).put("next", palette.muted).gap(2).put(found.advice, palette.text))
    return lines[:height]


def _edge(palette: Palette, glyphs: Glyphs) -> Line:
    return Line().put(glyphs.block, palette.watch).gap(1)
