"""The question when distui is left while it follows runs: leave them alone, or stop them."""

from __future__ import annotations

from collections.abc import Mapping

from distui.spec.names import fold
from tui.desk import LiveRun
from tui.screens.confirm import Dialog


class QuitScreen(Dialog):
    """Dismisses with `detach`, `stop` or ""."""

    def __init__(self, living: Mapping[str, LiveRun], *, readonly: bool, leash: bool) -> None:
        count = f"{len(living)} run{'s' * (len(living) != 1)}"
        lines = [f"{name}  {live.state.summary}  on {fold(live.plan.hosts)}" for name, live in living.items()]
        lines.append("")
        buttons = [("cancel", "Stay")]
        if not leash:
            lines.append("Detach: they go on; `distui attach RUN` follows one again.")
            buttons.append(("detach", "Detach"))
        if leash or not readonly:
            lines.append("Stop: SIGTERM on all their hosts, then clean up, then quit.")
            buttons.append(("stop", "Stop them"))
        super().__init__(f"Quit while {count} go{'es' * (len(living) == 1)} on?", tuple(lines), tuple(buttons))
