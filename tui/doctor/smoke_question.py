"""The question before Doctor's all-reduce smoke: which job's image, and what is started on whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distui.amounts import counted
from distui.doctor.smoke import MEGABYTES, rounds
from distui.spec.hosts.names import fold
from distui.spec.job.job import Job
from distui.tui.dialogs.confirm import Dialog

MOST = 4
"""Jobs that are offered; the others are alike, or can be tried with `distui doctor --smoke --job`."""


def offered(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The first job of each image; those without one run as processes."""
    by_image: dict[str | None, Job] = {}
    for job in jobs:
        by_image.setdefault(job.image, job)
    return tuple(by_image.values())[:MOST]


class SmokeQuestion(Dialog):
    """Dismisses with the place of a job in the list (`job-0`), or ""."""

    def __init__(self, jobs: Sequence[Job], hosts: Sequence[str]) -> None:
        pairs = sum(len(r) for r in rounds(hosts))
        lines = [
            f"on {fold(hosts)} ({len(hosts)}): {counted(pairs, 'pair')} of neighbours, two ranks each",
            f"torch.distributed sums {MEGABYTES} MB; containers go after it; nothing is pulled",
            "",
            *(f"{job.image or 'processes without an image'}, as job {job.name}" for job in jobs),
        ]
        buttons = [("cancel", "Cancel"), *((f"job-{i}", f"In {_short(job)}") for i, job in enumerate(jobs))]
        super().__init__(f"Start {2 * pairs} containers for an all-reduce?", tuple(lines), tuple(buttons))


def _short(job: Job) -> str:
    """The image without its registry."""
    return (job.image or "no image").rpartition("/")[2][:24]
