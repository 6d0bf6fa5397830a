"""Back, and out of the app: after a question where runs are followed, texts not saved, or something is being done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from distui.cluster.backend.values import LiveRun
from distui.tui.copying import copy_text
from distui.tui.frame.actions import Action
from distui.tui.frame.bars import TopBar
from distui.tui.frame.context import undone
from distui.tui.frame.leaving import Leaving
from distui.tui.frame.parts import Part
from distui.tui.places import Places


class Quitting(Part):
    """Runs keep going unless the answer is to stop them; what is waited for is said in the bar at the top."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("leave", "back or quit", ("q",), "Global", "q", help="Back; at the top, quit. Runs keep going."),
        Action("copy_or_hint", "copy", ("ctrl+c",), "Global", help="Copy what is selected."),
        Action(
            "leave_now", "quit", ("ctrl+q",), "Global", "quit", help="Quit, after a question when runs are followed."
        ),
    )

    def __init__(self, app: Places) -> None:
        self.app = app
        self.leaving: Leaving | None = None
        """What is waited for before the app quits."""

    async def action_leave(self) -> None:
        """Back; at the top of a view, and while the app waits to leave, quit."""
        if len(self.app.screen_stack) > 1 and self.leaving is None:
            self.app.pop_screen()
        else:
            await self.action_leave_now()

    async def action_leave_now(self) -> None:
        """Quit: at once when no run is followed, nothing unsaved and nothing being done, else after a question."""
        if not self.app.drafts and not self._living() and not undone(self.app):
            self.app.exit(0)
            return
        self.app.run_worker(self._ask_and_leave(), name="quit", group="quit", exclusive=True)

    def action_copy_or_hint(self) -> None:
        """Ctrl-C: copy a selection; without one say how to quit."""
        selected = self.app.screen.get_selected_text()
        if selected:
            copy_text(self.app, selected)
        elif self.leaving is not None:
            self.app.call_later(self.action_leave_now)
        else:
            self.app.tell("q to quit; runs keep going")

    async def _ask_and_leave(self) -> None:
        from distui.tui.dialogs.quit import QuitScreen

        app, backend = self.app, self.app.backend
        if app.drafts and not await app.confirm("Quit without saving?", _unsaved(app.drafts), "Throw away"):
            return
        if going := undone(app):
            lines = [*going, "", "It is given up halfway if you quit now; what was done stays done."]
            if not await app.confirm("Quit before this is done?", lines, "Quit now"):
                return
        living = self._living()
        if not living and self.leaving is None:
            app.exit(0)
            return
        question = QuitScreen(
            living, readonly=backend.readonly, stop_on_exit=backend.stop_on_exit, leaving=self.leaving
        )
        match await app.push_screen_wait(question):
            case "now":
                app.exit(0)
            case "detach":
                self._leave_after(Leaving(living, stop=False))
            case "stop":
                for live in living.values():
                    live.request_stop("user")
                self._leave_after(Leaving(living, stop=True))
            case _:
                self.leaving = None

    def _living(self) -> dict[str, LiveRun]:
        """The runs that are followed here and have not ended."""
        return {name: live for name, live in self.app.backend.following.items() if live.state.ended is None}

    def _leave_after(self, leaving: Leaving) -> None:
        """Quit as soon as what is waited for has come; the bar says what that is, and `q` asks again."""
        self.leaving = leaving

        def look() -> None:
            if self.leaving is not leaving:
                timer.stop()
            elif not leaving.waiting:
                timer.stop()
                self.app.exit(0)

        timer = self.app.set_interval(0.2, look)
        look()
        for bar in self.app.screen.query(TopBar):
            bar.refresh()


def _unsaved(drafts: Iterable[str]) -> list[str]:
    names = [f"{name}   in {folder or '.'}" for folder, _, name in (draft.rpartition("/") for draft in drafts)]
    return [*names, "", "They were edited in the launch form and not saved.", "Jobs (2) lists them; w saves."]
