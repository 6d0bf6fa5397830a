"""What is said of a run that was stopped: that nothing of it is left only where its end was seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from distui.cluster.attach import ending
from distui.cluster.attach.front_end import Ended
from distui.cluster.attach.places import RunLocation
from distui.runs.lines.events import RunEnded

LEFT = "h2: not reached, may still run"
ENDS = [
    ("stopped", (), Ended()),
    ("failed", (), Ended()),
    ("stopped", (LEFT,), Ended(failed=(LEFT,))),
    ("unknown", (LEFT,), Ended(failed=(LEFT,))),
    ("unknown", (), Ended(failed=("how r1 ended is not known",))),
    ("detached", (), Ended(remaining=("r1 was left alone before its end",))),
]


@pytest.mark.parametrize(("outcome", "leftovers", "done"), ENDS)
async def test_what_is_left_of_a_run_that_is_followed_to_its_end_here(
    outcome: Any, leftovers: tuple[str, ...], done: Ended
) -> None:
    """One that the app's user leaves alone meanwhile goes on, though nothing has failed."""

    async def follow(*_: Any) -> RunEnded:
        return RunEnded(9.0, outcome, 143, leftovers=leftovers)

    front: Any = SimpleNamespace(follow=follow)
    unused: Any = None
    assert await ending._own(unused, unused, front, RunLocation("r1", None, ()), unused, None) == done
    assert bool(done.left) == (done != Ended())


def test_what_fails_later_comes_after_what_failed_before() -> None:
    """And what somebody else still has in hand stays as it was."""
    done = Ended(failed=("a",), remaining=("r1 is still being read to its end",)).then("b")
    assert done.failed == ("a", "b")
    assert done.left == ("a", "b", "r1 is still being read to its end")
