"""What the list of jobs says of the one under the cursor."""

from __future__ import annotations

import pytest

from distui.spec.job.job import Build, Job, RankLayout
from distui.tui.launch.job_lines import _facts


@pytest.mark.parametrize(
    ("job", "label", "words"),
    [
        (Job("x", build=Build("./docker")), "image", "named by its content, built from ./docker"),
        (Job("x", image="team/net:dev", build=Build()), "image", "team/net:dev, built from ."),
        (Job("x", image="team/net:dev"), "image", "team/net:dev"),
        (Job("x"), "image", "none: processes on the hosts"),
        (Job("x"), "GPUs", "none"),
        (Job("x", gpus_per_host="all"), "GPUs", "all on each host"),
        (Job("x", ranks=RankLayout(per_gpu=1)), "GPUs", "all"),
        (Job("x", gpus_per_rank=2), "GPUs", "2 for each rank"),
        (Job("x", launcher="tf"), "GPUs", "as its roles say"),
    ],
)
def test_the_facts_are_those_of_the_plan(job: Job, label: str, words: str) -> None:
    """A job that builds its image was one without a container, and one that asks for no GPU got some."""
    assert dict(_facts(job))[label] == words
