"""`wait` for a run that nobody follows: its exit code is that of the statuses its ranks were seen to end with."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest

from distui.cli.actions.wait import _as_found
from distui.cli.console import Console
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundRun, FoundTask


@pytest.mark.parametrize(
    ("codes", "code", "said"),
    [
        ({0: 0, 1: 0, 2: 0}, 0, ""),
        ({0: 0, 1: 0, 2: None}, 6, "rank 2 of r1"),
        ({0: 0}, 6, "ranks 1-2 of r1"),
        ({0: 0, 1: 3}, 1, ""),
    ],
)
def test_ranks_that_were_removed_are_no_success(codes: Mapping[int, int | None], code: int, said: str) -> None:
    """Rank 0 is there; the others were removed after they ended, or before anybody saw them end."""
    labels = TaskLabels("r1", 0, (0,), "h1", "j", world_size=3)
    err = io.StringIO()
    found = FoundRun("r1", (FoundTask("h1", "c0", labels, {}, False, "exited", 0),))
    assert _as_found(Console(io.StringIO(), err, False, False, 0), found, codes) == code
    assert said in err.getvalue()
    assert bool(err.getvalue()) == bool(said)
