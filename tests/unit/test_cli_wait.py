"""`wait` for a run that nobody follows: its exit code is that of the statuses its ranks were seen to end with."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest

from distui.cli.actions import wait
from distui.cli.actions.wait import _as_found
from distui.cli.console import Console
from distui.cluster.attach.places import Asked, RunLocation
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.runs.lines.events import RunEnded
from distui.runs.report.history import found_row
from distui.runs.store.end_record import EndRecord


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


@pytest.mark.parametrize(
    ("codes", "asked", "words"),
    [
        ({0: 0, 1: 0}, {"regexes": ("success.regex", "same")}, "`success.regex` and `same` of its job do, too"),
        ({0: 0, 1: 0}, {"success_file": "/out/model.pt"}, "`success.file` of its job does, too"),
        ({0: 0, 1: 0}, {"success_seconds": 60.0}, "`success.min_seconds` of its job does, too"),
        ({0: 0, 1: 143}, {"done_when": "chief"}, "`done_when` of its job does, too"),
        ({0: 0, 1: 1}, {"min_nodes": 1}, "`min_nodes` of its job does, too"),
        ({0: 143, 1: 143}, {"max_duration": 60.0}, "`max_duration` of its job does, too"),
    ],
)
def test_what_statuses_alone_do_not_tell_is_no_verdict(
    codes: Mapping[int, int | None], asked: dict[str, Any], words: str
) -> None:
    """Whoever follows the run looks at these, too: a wait says neither that it succeeded nor that it failed."""
    labels = TaskLabels("r1", 0, (0, 1), "h1", "j", world_size=2, **asked)
    err = io.StringIO()
    found = FoundRun("r1", (FoundTask("h1", "c0", labels, {}, False, "exited", 143 if any(codes.values()) else 0),))
    assert _as_found(Console(io.StringIO(), err, False, False, 0), found, codes) == 6
    assert words in err.getvalue() and "`distui attach r1`" in err.getvalue()


def test_a_rank_that_failed_by_itself_failed_whatever_else_is_asked() -> None:
    """`success` is for runs that end well, and `max_duration` stops ranks with statuses of its own."""
    labels = TaskLabels("r1", 0, (0, 1), "h1", "j", world_size=2, success_file="/x", max_duration=60.0)
    found = FoundRun("r1", (FoundTask("h1", "c0", labels, {}, False, "exited", 3),))
    assert _as_found(Console(io.StringIO(), io.StringIO(), False, False, 0), found, {0: 3, 1: 143}) == 1


@pytest.mark.parametrize(("lasted", "other", "code"), [(60.0, 124, 124), (60.0, 0, 124), (60.0, 143, 6), (9.0, 0, 1)])
def test_ranks_that_max_duration_ended_end_the_wait_as_the_run(lasted: float, other: int, code: int) -> None:
    """124, as whoever follows it would say; 143 may be another's, and a program may say 124 long before."""
    tasks = tuple(
        FoundTask(
            "h1", f"c{rank}", TaskLabels("r1", rank, (rank,), "h1", "j", world_size=2, max_duration=60.0), {}, False,
            "exited", status, started=100.0, finished=100.0 + (lasted if status == 124 else 10.0),
        )
        for rank, status in enumerate((124, other))
    )  # fmt: skip
    found = FoundRun("r1", tasks)
    out = Console(io.StringIO(), io.StringIO(), False, False, 0)
    assert _as_found(out, found, {0: 124, 1: other}) == code
    assert found_row(found, None).exit == (124 if code == 124 else 1)


def test_ranks_on_hosts_that_were_not_asked_may_run() -> None:
    """With `-H`: nobody can say that nothing is left of them, nor how the run ended."""
    labels = TaskLabels("r1", 0, (0,), "h1", "j", world_size=2, success_file="/x")
    found, err = FoundRun("r1", (FoundTask("h1", "c0", labels, {}, False, "exited", 0),)), io.StringIO()
    assert _as_found(Console(io.StringIO(), err, False, False, 0), found, {0: 0}, chosen=True) == 6
    said = "rank 1 of r1 may still run on hosts that were not asked; `distui wait r1` asks all"
    assert err.getvalue().replace("\n", " ").strip() == f"distui: {said}"


class Judged:
    """Looks at a run that its owner is about to judge: it says how it ended after so many looks."""

    attempt, is_judged = 1, True

    def __init__(self, looks: int, *, attempts: int = 1, is_begun: bool = True) -> None:
        self.looks, self.attempts, self.is_begun = looks, attempts, is_begun

    async def look(self) -> EndRecord | None:
        """See Onlooker."""
        self.looks -= 1
        ended = RunEnded(100.0, "failed", 1, None, "", attempt=1, attempts=self.attempts)
        return EndRecord("beef-1", "ann@desk", ended) if self.looks < 0 else None


@pytest.mark.parametrize("is_begun", [True, False])
async def test_another_attempt_is_waited_for_where_somebody_may_begin_it(
    monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    """Whoever started the run was killed: nobody does, and it was waited for without a word."""
    asked: list[int] = []

    async def find_again(*_: object) -> Asked:
        asked.append(1)
        return None, {}

    async def tell_record(settings: object, out: object, run: str, record: EndRecord) -> RunEnded:
        return record.ended

    monkeypatch.setattr(wait.places, "find_again", find_again)
    monkeypatch.setattr(wait, "tell_record", tell_record)
    monkeypatch.setattr(wait, "JUDGED_SECONDS", -1.0)
    monkeypatch.setattr(wait, "REST_SECONDS", 0.3)
    monkeypatch.setattr(wait, "POLL_SECONDS", 0.01)
    errors = io.StringIO()
    out = Console(io.StringIO(), errors, False, False, 0)
    looker: Any = Judged(0, attempts=3, is_begun=is_begun)
    code = await wait._watch_attempt(None, None, out, RunLocation("r1", None, ()), looker, "finished")  # type: ignore[arg-type]
    said = "an attempt of r1 has ended; waiting whether another begins"
    assert (code, bool(asked), errors.getvalue().count(said)) == (1, is_begun, int(is_begun))


async def test_whoever_judges_a_run_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may still read logs and look for `success`: what the statuses say by then is no end."""
    labels = TaskLabels("r1", 0, (0,), "h1", "j", world_size=1)
    found = FoundRun("r1", (FoundTask("h1", "c0", labels, {}, False, "exited", 0),))

    async def find_again(*_: object) -> Asked:
        return found, {}

    async def tell_record(settings: object, out: object, run: str, record: EndRecord) -> RunEnded:
        return record.ended

    monkeypatch.setattr(wait.places, "find_again", find_again)
    monkeypatch.setattr(wait, "tell_record", tell_record)
    monkeypatch.setattr(wait, "JUDGED_SECONDS", -1.0)
    monkeypatch.setattr(wait, "POLL_SECONDS", 0.0)
    out = Console(io.StringIO(), io.StringIO(), False, False, 0)
    place = RunLocation("r1", None, ())
    code = await wait._watch_attempt(None, None, out, place, Judged(20), "finished")  # type: ignore[arg-type]
    assert code == 1
