"""The mounts of a plan as rows of Doctor: whether each is on every host, and one storage where it must be."""

from __future__ import annotations

from collections.abc import Sequence

from distui.doctor.finding import Check, CheckRow, Finding
from distui.doctor.mounts import MountReport
from distui.plan.model import Mount

MEANS = "ranks would fail to start, or read and write different files"


def mount_rows(mounts: Sequence[Mount], hosts: Sequence[str], report: MountReport) -> tuple[CheckRow, ...]:
    """A row for each path that is mounted; NFS is first seen when the container starts."""
    return tuple(_row(mount, hosts, report) for mount in mounts if mount.kind == "path")


def _row(mount: Mount, hosts: Sequence[str], report: MountReport) -> CheckRow:
    ran = "a file written on one host, looked for on the others" if mount.shared else f"test -e {mount.source}"
    title = f"data {mount.name}: {mount.source}" + (" is one storage on all hosts" if mount.shared else " is there")
    check = Check(f"data:{mount.name}", "Software", title, ran)
    return CheckRow(check, tuple(_finding(check, mount, host, report) for host in hosts))


def _finding(check: Check, mount: Mount, host: str, report: MountReport) -> Finding:
    for verdict, found in (("fail", report.problems), ("warn", report.doubts)):
        for problem in found:
            if (problem.host, problem.mount) == (host, mount.name):
                return Finding(check.id, host, verdict, problem.message, MEANS, problem.hint)  # type: ignore[arg-type]
    return Finding(check.id, host, "ok", report.proofs.get(mount.name, "is there"))
