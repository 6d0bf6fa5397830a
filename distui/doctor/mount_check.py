"""The mounts of a plan as rows of Doctor: whether each is on every host, and one storage where it must be."""

from __future__ import annotations

from collections.abc import Sequence

from distui.doctor.finding import Check, CheckRow, Finding
from distui.doctor.mounts import MountReport
from distui.plan.model import Mount

MEANS = "ranks would fail to start, or read and write different files"


def mount_rows(mounts: Sequence[Mount], hosts: Sequence[str], report: MountReport) -> tuple[CheckRow, ...]:
    """A row for each path that is mounted, and each NFS server; what is fetched is looked for elsewhere."""
    return tuple(_row(mount, hosts, report) for mount in mounts if mount.kind != "url")


def _row(mount: Mount, hosts: Sequence[str], report: MountReport) -> CheckRow:
    check = mount_check(mount, *_asked(mount))
    return CheckRow(check, tuple(_finding(check, mount, host, report) for host in hosts))


def _asked(mount: Mount) -> tuple[str, str]:
    """What a mount must be, and what was done to see it."""
    if mount.kind == "nfs":
        return "is reached", "python3: connect to the server's port"
    if mount.shared:
        return "is one storage on all hosts", "a file written on one host, looked for on the others"
    return "is there", f"test -e {mount.source}"


def mount_check(mount: Mount, message: str, ran: str) -> Check:
    """The check of one mount."""
    return Check(f"data:{mount.name}", "Software", f"data {mount.name}: {mount.source} {message}", ran)


def _finding(check: Check, mount: Mount, host: str, report: MountReport) -> Finding:
    for verdict, found in (("fail", report.problems), ("warn", report.doubts)):
        for problem in found:
            if (problem.host, problem.mount) == (host, mount.name):
                return Finding(check.id, host, verdict, problem.message, MEANS, problem.hint)  # type: ignore[arg-type]
    return Finding(
        check.id, host, "ok", report.proofs.get(mount.name, "is reached" if mount.kind == "nfs" else "is there")
    )
