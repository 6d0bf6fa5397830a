"""The keys of the run view that touch the run: stop, kill, run again, prune."""

from __future__ import annotations

from typing import ClassVar

from distui.cluster.backend.values import LiveRun
from distui.tui.frame.actions import Action
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.run import change


class RunActs(Part):
    """What touches the run, each after a question, and the way to its job."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("job", "its job", ("J",), "View", footer=True,
               help="The run's job in the launch form, on the same hosts: to be changed there, and started with L."),
        Action(
            "stop", "stop", ("S",), "Change", "stop", changes=True, footer=True,
            help="SIGTERM, the grace, then SIGKILL.",
        ),
        Action("kill", "kill", ("K",), "Change", "kill", changes=True, help="SIGKILL at once."),
        Action(
            "rerun", "run again", ("R",), "Change", "rerun", changes=True, footer=True,
            help="The job as it was started, on the same hosts, once this run has ended.",
        ),
        Action(
            "prune", "prune", ("X",), "Change", "prune", changes=True, footer=True,
            help="Remove what the run left on its hosts, and its folder here, once it has ended.",
        ),
    )  # fmt: skip

    def __init__(self, view: View, live: LiveRun) -> None:
        self.view = view
        self.live = live
        self._removed = False

    def action_job(self) -> None:
        """The job file in the launch form."""
        plan = self.live.plan
        app_of(self.view).open_job_of(plan.run_id, plan.job, plan.hosts)

    def action_stop(self) -> None:
        """Stop the run, after a question."""
        self.view.work(change.stop(self.view, self.live), name="stop", group="change")

    def action_kill(self) -> None:
        """Kill the run, after a question."""
        self.view.work(change.kill(self.view, self.live), name="kill", group="change")

    def action_rerun(self) -> None:
        """Run it again, after a question."""
        self.view.work(change.rerun(self.view, self.live), name="rerun", group="change")

    def action_prune(self) -> None:
        """Remove the run, after a question."""
        self.view.work(self._prune(), name="prune", group="change")

    async def _prune(self) -> None:
        plan, ended = self.live.plan, self.live.state.ended
        if ended is None or ended.outcome == "detached":
            app_of(self.view).tell(f"{plan.run_id} still runs; S stops it", level="warning")
        else:
            await change.prune(self.view, plan.run_id, plan.owner, plan.hosts, self._gone)

    def _gone(self) -> None:
        """Back from a run that is no more: now, or once a dialog is closed, or one comes back to it."""
        self._removed = True
        self.leave_removed()

    def leave_removed(self) -> None:
        """Back from the view that is shown, with nothing over it, when its run was removed."""
        if self._removed and self.view.is_active:
            self.view.app.pop_screen()
