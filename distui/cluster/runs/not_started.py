"""Why a run was not started, as an error."""

from __future__ import annotations

from distui.cluster.start.unusable import HostsUnreachable
from distui.errors import CheckFailed, DistuiError, ExitCode, LaunchFailed
from distui.runs.lines.events import RunEnded
from distui.runs.state.reducer import RunState

_KINDS: dict[int, type[DistuiError]] = {
    ExitCode.CHECK_FAILED: CheckFailed,
    ExitCode.UNREACHABLE: HostsUnreachable,
}
"""By the exit code of the run; LaunchFailed otherwise."""


def refuse_not_started(ended: RunEnded, state: RunState) -> None:
    """Raise CheckFailed, HostsUnreachable or LaunchFailed for a run that was not started, with every reason."""
    if ended.outcome != "launch_failed":
        return
    reasons = [notice.text for notice in state.notices if notice.level == "error"]
    words = [*reasons, *(f"left: {one}" for one in ended.leftovers)]
    raise _KINDS.get(ended.exit, LaunchFailed)("\n".join(words) or "the run was not started")
