"""Doctor's all-reduce: asked for, shown pair by pair, kept as one more row of the matrix."""

from __future__ import annotations

from abc import abstractmethod

from distui.doctor.finding import CheckRow, Finding
from distui.doctor.smoke import SMOKE, PairResult, rounds, smoke_row
from distui.tui.doctor.smoke_question import SmokeQuestion, offered
from distui.tui.frame import files
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of


class Smoking(View):
    """The part of Doctor that starts something."""

    def __init__(self) -> None:
        super().__init__()
        self.smoked: list[PairResult] = []
        self.smoking = 0
        """Pairs that are to be tried, while a smoke goes on."""

    @property
    @abstractmethod
    def up(self) -> tuple[str, ...]:
        """The hosts that answered."""

    @abstractmethod
    def _check(self) -> None:
        """Show every row again."""

    def smoke_rows(self) -> tuple[CheckRow, ...]:
        """The row of the smoke; before it was made it says how."""
        if len(self.up) < 2:
            return ()
        if self.smoked:
            return (smoke_row(self.up, self.smoked),)
        message = "not tried yet: N starts two containers a pair, after a question"
        return (CheckRow(SMOKE, tuple(Finding(SMOKE.id, host, "skip", message) for host in self.up)),)

    def action_smoke(self) -> None:
        """An all-reduce, after a question."""
        if self.smoking:
            app_of(self).tell("the smoke goes on; its results come pair by pair")
        elif len(self.up) < 2:
            app_of(self).tell("the smoke needs two hosts that answer", level="warning")
        else:
            self.work(self._run_smoke(), name="smoke")

    async def _run_smoke(self) -> None:
        found = (self.backend.draft(files.read(job.path), str(job.path), job.name).job for job in self.backend.jobs())
        jobs = offered(job for job in found if job is not None)
        if not jobs:
            app_of(self).tell("no job here names an image with torch: the smoke needs one", level="warning")
            return
        answer = await self.app.push_screen_wait(SmokeQuestion(jobs, self.up))
        if not answer:
            return
        self.smoked, self.smoking = [], sum(map(len, rounds(self.up)))
        self._check()
        try:
            await self.backend.smoke(jobs[int(answer.removeprefix("job-"))], self._pair)
        finally:
            self.smoking = 0
            self._check()

    def _pair(self, pair: PairResult) -> None:
        """One pair has ended."""
        self.smoked.append(pair)
        if self.is_running:
            self._check()
