"""The question when distui is left while it follows runs: leave them alone, or stop them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distui.amounts import counted
from distui.cluster.backend.values import LiveRun
from distui.spec.hosts.names import fold
from distui.tui.dialogs.confirm import Dialog
from distui.tui.frame.leaving import Leaving


class QuitScreen(Dialog):
    """Dismisses with `detach`, `now`, `stop` or "". `leaving` is what was answered before, and is waited for."""

    def __init__(
        self, living: Mapping[str, LiveRun], *, readonly: bool, stop_on_exit: bool, leaving: Leaving | None = None
    ) -> None:
        lines = [f"{name}  {live.state.summary}  on {fold(live.plan.hosts)}" for name, live in living.items()]
        lines += ["", *_words(living, readonly=readonly, stop_on_exit=stop_on_exit, leaving=leaving)]
        buttons = [("cancel", "Stay")]
        if leaving is not None:
            buttons.append(("now", "Leave now"))
        elif not stop_on_exit:
            buttons.append(("detach", "Detach"))
        if (stop_on_exit or not readonly) and (leaving is None or not leaving.stop):
            buttons.append(("stop", "Stop them"))
        title = f"Quit while {counted(len(living), 'run')} {'is' if len(living) == 1 else 'are'} still running?"
        super().__init__(leaving.words() if leaving is not None else title, tuple(lines), tuple(buttons))


def _words(
    living: Mapping[str, LiveRun], *, readonly: bool, stop_on_exit: bool, leaving: Leaving | None
) -> Iterator[str]:
    starting = any(live.state.begins for live in living.values())
    if leaving is not None:
        yield "Leave now: a start that has not begun is given up, one under way is finished first."
    elif not stop_on_exit:
        yield "Detach: they keep running; `distui attach RUN` follows one again."
        if any(live.plan.attempt < live.plan.attempts for live in living.values()):
            yield "No further attempt is begun then: retries need a distui that stays."
        if starting:
            yield "What is being started is waited for; q asks again meanwhile."
    if (stop_on_exit or not readonly) and (leaving is None or not leaving.stop):
        yield "Stop: SIGTERM on all their hosts, then clean up, then quit."
