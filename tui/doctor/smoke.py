"""Doctor's all-reduce: asked for, shown pair by pair, kept as one more row of the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from distui.doctor.finding import CheckRow, Finding
from distui.doctor.smoke import SMOKE, PairResult, rounds, smoke_row
from distui.tui.doctor.smoke_question import SmokeQuestion, offered
from distui.tui.frame import files
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part


class Smoke(Part):
    """The one thing that Doctor starts."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("smoke", "smoke test", ("N",), "Change", "smoke", changes=True, footer=True,
               help="A real all-reduce between neighbours, in a job's image: starts containers and removes them."),
    )  # fmt: skip

    def __init__(self, view: View, up: Callable[[], tuple[str, ...]], show: Callable[[], None]) -> None:
        self.view = view
        self.up = up
        """The hosts that answered."""
        self.show = show
        """Shows every row again."""
        self.done: list[PairResult] = []
        self.pairs = 0
        """Pairs that are to be tried, while a smoke goes on."""

    def rows(self) -> tuple[CheckRow, ...]:
        """The row of the smoke; before it was made it says how."""
        if len(self.up()) < 2:
            return ()
        if self.done:
            return (smoke_row(self.up(), self.done),)
        message = "not tried yet: N starts two containers a pair, after a question"
        return (CheckRow(SMOKE, tuple(Finding(SMOKE.id, host, "skip", message) for host in self.up())),)

    def action_smoke(self) -> None:
        """An all-reduce, after a question."""
        if self.pairs:
            app_of(self.view).tell("the smoke test is still running; its results come pair by pair")
        elif len(self.up()) < 2:
            app_of(self.view).tell("the smoke needs two hosts that answer", level="warning")
        else:
            self.view.work(self._run_smoke(), name="smoke")

    async def _run_smoke(self) -> None:
        found = (
            self.view.backend.draft(files.read(job.path), str(job.path), job.name).job
            for job in self.view.backend.jobs()
        )
        jobs = offered(job for job in found if job is not None)
        if not jobs:
            app_of(self.view).tell("no job here names an image with torch: the smoke needs one", level="warning")
            return
        answer = await self.view.app.push_screen_wait(SmokeQuestion(jobs, self.up()))
        if not answer:
            return
        self.done, self.pairs = [], sum(map(len, rounds(self.up())))
        self.show()
        try:
            await self.view.backend.smoke(jobs[int(answer.removeprefix("job-"))], self._pair)
        finally:
            self.pairs = 0
            self.show()

    def _pair(self, pair: PairResult) -> None:
        """One pair has ended."""
        self.done.append(pair)
        if self.view.is_running:
            self.show()
