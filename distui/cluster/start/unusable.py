"""Hosts of a run that did not answer their probe: why a run is not planned."""

from __future__ import annotations

from collections.abc import Mapping

from distui.amounts import counted
from distui.errors import CheckFailed, ExitCode
from distui.facts.host import HostDown, ProbeResult
from distui.facts.troubles import lines

_FOUND_WRONG = {"rubbish", "command", "command_timeout", "bug"}
"""Codes of hosts that were reached."""


class HostsFailed(CheckFailed):
    """Hosts of a run can't be used. Exit 4 when a login failed, 3 when what was found is wrong."""


class HostsUnreachable(HostsFailed):
    """At least one host of a run can't be reached or refuses the login."""

    exit_code = ExitCode.UNREACHABLE


def refuse_unusable(results: Mapping[str, ProbeResult]) -> None:
    """Raise HostsUnreachable or HostsFailed when a host did not answer its probe, naming all of them."""
    down = [r for r in results.values() if isinstance(r, HostDown)]
    if not down:
        return
    kind = HostsFailed if all(d.error.code in _FOUND_WRONG for d in down) else HostsUnreachable
    count = f"{len(down)} of {counted(len(results), 'host')} can't be used, nothing was started:"
    raise kind("\n".join([count, *(f"  {line}" for line in lines({d.host: d.error for d in down}))]))
