"""`cluster.stop` where it warns of secrets, and warnings are errors."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cluster.runs import cluster_runs
from distui.cluster.runs.cluster_runs import ClusterRuns
from distui.cluster.runs.unasked import Unasked
from distui.cluster.secret_warning import SecretWarning

PLAIN = "the value of secret TOKEN is not set here"
LEFT = ("container r-1 on h2",)


class OneRun(ClusterRuns):
    """A run that can be stopped."""

    def __init__(self) -> None:
        self.settings = SimpleNamespace(refuse_readonly=lambda what: None)  # type: ignore[assignment]
        self._connect = lambda hosts: nullcontext(None)  # type: ignore[assignment,return-value]

    async def _at(self, name: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
        return await work(SimpleNamespace(hosts=()))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ClusterRuns:
    """Its stop meets a secret that it can't hide, and leaves something on a host."""

    async def end(settings: Any, connector: Any, front: Unasked, place: Any, *, grace: float | None) -> Any:
        front.plain.extend([PLAIN, PLAIN])
        return SimpleNamespace(left=LEFT)

    monkeypatch.setattr(cluster_runs, "end_run", end)
    return OneRun()


async def test_a_stop_warns_once_and_returns_what_is_left(run: ClusterRuns) -> None:
    """In the line of who called it."""
    with pytest.warns(SecretWarning) as warned:
        assert await run.stop("r") == LEFT
    assert [(str(one.message), one.filename) for one in warned] == [(PLAIN, __file__)]


async def test_where_warnings_are_errors_they_have_what_the_stop_has_left(run: ClusterRuns) -> None:
    """The run is stopped; what that left would be lost with the result."""
    with warnings.catch_warnings(action="error"), pytest.raises(SecretWarning, match="TOKEN") as raised:
        await run.stop("r")
    assert raised.value.left == LEFT
    assert raised.value.__notes__ == ["left on hosts: container r-1 on h2"]
