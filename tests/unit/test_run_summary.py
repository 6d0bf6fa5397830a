"""What lists show of ended runs is kept, and never trusted beyond the files it was made from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from distui.codec import write
from distui.runs.lines.events import RunEnded, RunOpened, RunStalled
from distui.runs.report.history import stored_row
from distui.runs.report.summary import FILE, summary
from distui.runs.state.standstill import Standstill
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore, StoredRun


@pytest.fixture
def stored(tmp_path: Path) -> StoredRun:
    """A run of two ranks without an end."""
    made = RunStore(tmp_path).create("r1")
    tasks = [{"index": r, "ranks": [r], "host": f"h{r}"} for r in (0, 1)]
    made.write_plan({"run_id": "r1", "job": "smoke", "owner": "me", "world_size": 2, "attempt": 2, "tasks": tasks})
    journal = Journal(made)
    journal.write([RunOpened(1.0, "r1", "smoke", "env", None, {0: "h0", 1: "h1"}, {0: (0,), 1: (1,)})])
    journal.close()
    return made


def end(stored: StoredRun, outcome: str) -> None:
    """One more event at the end of the journal."""
    journal = Journal(stored)
    journal.write([RunEnded(9.0, outcome, 1)])  # type: ignore[arg-type]
    journal.close()


def test_a_run_without_an_end_is_read_each_time(stored: StoredRun) -> None:
    """Its files still grow."""
    summed = write(summary(stored))

    assert (summed["job"], summed["owner"], summed["hosts"], summed["ranks"]) == ("smoke", "me", ["h0", "h1"], 2)
    assert (summed["attempt"], summed["attempts"], summed["result"]) == (2, 1, None)
    assert not (stored.path / FILE).exists()


def test_an_ended_run_is_read_once(stored: StoredRun) -> None:
    """The same is told from the summary, which alone is read then; the folder's place in time stays."""
    end(stored, "failed")
    os.utime(stored.path, ns=(1, 1))
    first = write(summary(stored))
    kept = json.loads((stored.path / FILE).read_text())
    (stored.path / FILE).write_text(json.dumps(kept | {"job": "from the summary"}))
    os.utime(stored.path, ns=(1, 1))

    assert first["result"]["state"] == "failed"
    assert kept == first
    assert write(summary(stored)) == first | {"job": "from the summary"}
    assert stored.path.stat().st_mtime_ns == 1


@pytest.mark.parametrize("what", ["events", "plan", "torn"])
def test_a_summary_of_other_files_counts_for_nothing(stored: StoredRun, what: str) -> None:
    """A run that was taken up again, planned again, or whose summary is not whole is read again."""
    end(stored, "detached")
    assert write(summary(stored))["result"]["state"] == "detached"
    if what == "events":
        end(stored, "succeeded")
    elif what == "plan":
        stored.write_plan({"job": "other", "tasks": []})
    else:
        (stored.path / FILE).write_bytes(b'{"of": [')

    summed = write(summary(stored))
    assert summed["result"]["state"] == ("succeeded" if what == "events" else "detached")
    assert summed["job"] == ("other" if what == "plan" else "smoke")


def test_a_summary_that_can_not_be_kept_is_told_all_the_same(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full or read-only disk is no reason to list nothing."""
    end(stored, "failed")

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("distui.runs.report.summary.write_private", refuse)
    assert write(summary(stored))["result"]["state"] == "failed"
    assert not (stored.path / FILE).exists()


def test_a_run_that_stands_still_is_reported_while_somebody_follows_it(stored: StoredRun) -> None:
    """The last word of its newest attempt counts; where nobody follows it nobody knows."""
    journal = Journal(stored)
    journal.write([RunStalled(182.0, True, 121.0, 22)])
    with stored.followed():
        row = stored_row(stored)
        assert row.stalled == Standstill(121.0, 22)
        assert not row.stands, "its hosts have not said that it runs"
        assert row.followed
        journal.write([RunStalled(190.0, False, 190.0)])
        assert stored_row(stored).stalled is None
        journal.write([RunStalled(382.0, True, 321.0)])
    assert stored_row(stored).stalled is None and not stored_row(stored).followed
    journal.write([RunOpened(400.0, "r1", "smoke", "env", None, {0: "h0"}, {0: (0,)}, attempt=2)])
    journal.close()
    assert summary(stored).stalled is None
