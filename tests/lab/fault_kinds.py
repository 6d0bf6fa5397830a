"""The register of faults: each kind's action, and the kind that mends it."""

from __future__ import annotations

from collections.abc import Callable

Action = Callable[..., None]
"""Takes the host and the fault's arguments as text."""

KINDS: dict[str, Action] = {}
CURES: dict[str, str] = {}


def fault(kind: str, cure: str = "") -> Callable[[Action], Action]:
    """Register a way to break a host, with the kind that mends it; a cure has none itself."""

    def register(action: Action) -> Action:
        KINDS[kind] = action
        if cure:
            CURES[kind] = cure
        return action

    return register
