"""What stays until somebody says otherwise: logs that nobody has read, containers of `run --keep`, and the
newest trees of code on a host.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.agent.code_store import Store
from distui.cli import console as consoles
from distui.cli.actions import rm
from distui.cluster.attach import ending, places
from distui.cluster.attach.front_end import Ended
from distui.cluster.attach.places import RunLocation
from distui.errors import ContactLost, UsageError
from distui.facts.host import Trouble
from distui.runs.lines.events import RunEnded, RunOpened
from distui.runs.report import history
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore
from fakehosts.runs import plan_for


def live(*ranks: tuple[int, ...]) -> Any:
    """A run that was found with a task of each of these ranks."""
    tasks = [SimpleNamespace(labels=SimpleNamespace(ranks=r)) for r in ranks]
    return SimpleNamespace(found=SimpleNamespace(tasks=tasks))


def answering(yes: bool) -> Any:
    return {"yes": yes, "no_input": True, "color": "never"}


async def test_rm_asks_for_logs_that_were_never_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the ranks in words: refused where nobody can answer, done with -y, not asked for what is here."""
    out = consoles.Console(sys.stdout, sys.stderr, False, False, 0)
    unread = RunLocation("r1", None, ())
    with pytest.raises(UsageError, match="Delete the log of ranks 0-2 of r1, unread"):
        await rm._may_lose(answering(False), out, unread, live((0, 1), (2,)))
    assert "`distui attach r1` reads the log of ranks 0-2" in capsys.readouterr().err
    assert await rm._may_lose(answering(True), out, unread, live((0, 1), (2,)))
    assert await rm._may_lose(answering(False), out, unread, live())

    stored = RunStore(home / "state").create("r1")
    begun = RunLocation("r1", stored, ())
    journal = Journal(stored)
    journal.write([RunOpened(1.0, "r1", "j", "env", None, {0: "h0"}, {0: (0,)})])
    with pytest.raises(UsageError, match="rank 0"):
        await rm._may_lose(answering(False), out, begun, live((0,)))
    journal.write([RunEnded(9.0, "failed", 1)])
    journal.close()
    assert await rm._may_lose(answering(False), out, begun, live((0,)))


def test_the_name_of_a_job_leads_to_its_newest_run(tmp_path: Path) -> None:
    """Of the runs that are recorded here, where no run has that name; else the one whose name is like it."""
    store = RunStore(tmp_path)
    for moment, name in enumerate(("train-ab12", "train-cd34", "sweep-ef56"), 1):
        os.utime(store.create(name).path, (moment, moment))
    settings: Any = SimpleNamespace(store=store)
    assert ": why, did you mean 'train-cd34'?" in places.not_found(settings, "train", "why").message
    assert ", did you mean 'sweep-ef56'?" in places.not_found(settings, "swep-ef56", "why").message
    assert "did you mean" not in places.not_found(settings, "other", "why").message
    down = {"h1": Trouble("unreachable", "h1 does not answer", "")}
    with pytest.raises(ContactLost, match=r"is on no host that answers, did you mean 'sweep-ef56'\? not reached:"):
        places.there(settings, RunLocation("swep-ef56", None, ()), None, down)


@pytest.mark.parametrize(("used", "idle"), [(1, 3), (2, 2), (5, 0)])
def test_no_more_trees_stay_than_are_kept(tmp_path: Path, used: int, idle: int) -> None:
    """Those in use are among the four: when their runs end, nothing looks again."""
    store = Store(os.fsencode(tmp_path / "code"))
    store.open()
    for number in range(9):
        (tmp_path / "code" / f"t{number}" / "tree").mkdir(parents=True)
        os.utime(tmp_path / "code" / f"t{number}", (number, number))
    kept = {f"t{number}" for number in range(used)}
    store.prune(4, kept)
    there = {path.name for path in (tmp_path / "code").iterdir()}
    assert kept <= there
    assert there - kept == {f"t{number}" for number in range(9 - idle, 9)}


@pytest.mark.parametrize(("keep", "owned"), [(True, ["own"]), (False, [])])
async def test_a_stop_that_comes_too_late_for_who_follows_removes_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, keep: bool, owned: list[str]
) -> None:
    """That one has just cleaned up after `run --keep`: the first stop removes its containers all the same."""
    stored = SimpleNamespace(is_followed=True)
    place, did = RunLocation("r1", None, ()), list[str]()

    async def beside(*_: Any) -> Ended:
        stored.is_followed = False
        return Ended()

    async def own(*_: Any) -> Ended:
        did.append("own")
        return Ended()

    async def find(*_: Any) -> Any:
        return SimpleNamespace(launch="beef", owner="ann@desk"), {}

    monkeypatch.setattr(history, "stored_row", lambda _: SimpleNamespace(over=True))
    monkeypatch.setattr(places, "find_again", find)
    monkeypatch.setattr(ending, "replace", lambda place, **_: place)
    monkeypatch.setattr(ending, "still_there", lambda _: ())
    monkeypatch.setattr(ending, "_beside", beside)
    monkeypatch.setattr(ending, "_own", own)
    live: Any = SimpleNamespace(plan=plan_for("h1", launch="beef", keep=keep))
    none: Any = None
    settings: Any = SimpleNamespace(store=SimpleNamespace(get=lambda _: stored))
    assert await ending._end(settings, none, none, place, live, None) == Ended()
    assert did == owned
