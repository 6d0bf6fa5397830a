"""What can be broken on a host, and how it is mended. `KINDS` has every kind; `fault list` prints them.

A fault notes its cure in the host's folder, so that `heal` mends what any process has broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab import faults_clock, faults_engine, faults_machine, faults_network, faults_ssh
from lab.fault_kinds import CURES, KINDS
from lab.paths import LabError

if TYPE_CHECKING:
    from lab.host import Host

__all__ = ["KINDS", "apply_fault", "heal"]

MODULES = (faults_network, faults_ssh, faults_engine, faults_machine, faults_clock)
"""Read for their effect: each registers its kinds."""

CURE_ORDER = (
    *("poweron", "thaw", "cpu-free", "plug", "ifup", "unblackhole", "uncut", "unshape"),
    *("ssh-cont", "ssh-hostkey-old", "ssh-unset", "clock-right", "ssh-unsetenv", "ssh-allow", "ssh-up"),
    *("docker-cont", "docker-back", "docker-fast", "docker-large", "docker-log-own", "docker-up"),
    *("gpu-hook", "rank-cont", "unfill", "gpu-ok", "ib-up", "nfs-ok", "hosts-ok", "sudo-gone"),
    "tools-back",
)
"""First what makes the host alive and reachable, then the rest."""


def apply_fault(host: Host, kind: str, *args: str) -> None:
    """Do it; LabError for an unknown kind or wrong arguments, naming what there is."""
    if kind == "heal":
        return heal(host)
    if kind not in KINDS:
        raise LabError(f"no fault {kind!r}; there are: heal, {', '.join(sorted(KINDS))}")
    if kind in CURES:
        with (host.folder / "cures").open("a") as notes:
            notes.write(CURES[kind] + "\n")
    call(host, kind, args)
    return None


def call(host: Host, kind: str, args: tuple[str, ...]) -> None:
    try:
        KINDS[kind](host, *args)
    except TypeError as error:
        raise LabError(f"fault {kind}: {error}; {KINDS[kind].__doc__}") from error


def heal(host: Host) -> None:
    """Run the cure of everything that was broken on a host since it was last well."""
    notes = host.folder / "cures"
    if not notes.exists():
        return
    needed = set(notes.read_text().split())
    for cure in CURE_ORDER:
        if cure in needed:
            call(host, cure, ())
    notes.unlink()
