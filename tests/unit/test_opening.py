"""Opening a run that is there: what there is of it, by the same rules for `attach`, `wait` and the app."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from distui import config
from distui.cli.actions import wait
from distui.cli.runs import opening
from distui.cli.settings import Settings
from distui.cluster.attach import following, places
from distui.cluster.attach.beside import Beside
from distui.cluster.attach.following import GoesOn, Over, follow_run, open_run
from distui.cluster.attach.live_run import Live
from distui.cluster.attach.places import RunLocation
from distui.cluster.settings import ClusterSettings
from distui.errors import ContactLost, DistuiError, NotFound, UsageError
from distui.plan.serialize import to_json
from distui.runs.control.beside import StoredReader
from distui.runs.lines.events import RunEnded, RunOpened
from distui.runs.store.journal import Journal
from distui.runs.store.runs import AlreadyFollowed, RunStore, StoredRun
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from fakehosts.runs import plan_for

NOBODY = cast(Connector, None)
"""Connections that are not to be used."""

PLAN = plan_for("h1", "h2", launch="beef")


@pytest.fixture
def stored(home: Path) -> StoredRun:
    """A run that was begun here, with its plan."""
    stored = RunStore(home / ".local/state/distui").create("r1")
    stored.write_plan(to_json(PLAN))
    journal = Journal(stored)
    journal.write([RunOpened(1.0, "r1", "j", "env", None, {0: "h1", 1: "h2"}, {0: (0,), 1: (1,)})])
    journal.close()
    return stored


def place(stored: StoredRun) -> RunLocation:
    """Where it may be."""
    return RunLocation("r1", stored, (Host("h1"), Host("h2")))


def ended(stored: StoredRun) -> None:
    """Whoever follows it here has just recorded its end."""
    journal = Journal(stored)
    journal.write([RunEnded(9.0, "succeeded", 0, took=8.0)])
    journal.close()


async def opened(stored: StoredRun) -> Any:
    """What there is of it."""
    return await open_run(ClusterSettings({}), NOBODY, pytest.fail, place(stored))


async def test_of_a_run_that_another_distui_here_has_no_host_is_asked(stored: StoredRun) -> None:
    """Also while it has no task there: between two attempts, or before the first rank."""
    with stored.followed():
        run = await opened(stored)
    assert isinstance(run, GoesOn)
    assert (run.plan.run_id, run.live) == ("r1", None)


async def test_one_that_is_just_writing_the_next_attempt_s_plan_is_waited_for(stored: StoredRun) -> None:
    """For a moment there is none to read."""
    with stored.followed():
        stored.set_aside(1)
        opening = asyncio.create_task(opened(stored))
        await asyncio.wait([opening], timeout=0.1)
        assert not opening.done()
        stored.write_plan(to_json(plan_for("h1", "h2", launch="beef", attempt=2)))
        run = await opening
    assert (run.plan.attempt, run.live) == (2, None)


async def test_an_end_that_is_being_written_out_needs_no_hosts(stored: StoredRun) -> None:
    """Whoever followed it still holds it, and closes its connections."""
    ended(stored)
    with stored.followed():
        run = await opened(stored)
    assert isinstance(run, Over)
    assert (run.row.state, run.row.exit) == ("succeeded", 0)


@pytest.mark.parametrize("error", [NotFound("none has it"), ContactLost("it is on no host that answers")])
async def test_a_run_that_ends_here_while_it_is_taken_up_is_over(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch, error: DistuiError
) -> None:
    """Whoever followed it here has just cleaned up; without an end it stays an error."""

    async def find(*_: Any) -> Any:
        return None, {"h1": None}  # so that what is recorded here is no proof that it is over

    async def gone(*_: Any) -> Any:
        if taken:
            ended(stored)
        raise error

    taken: list[str] = []
    monkeypatch.setattr(places, "find", find)
    monkeypatch.setattr("distui.cluster.attach.leftover.find_launches", nothing)
    monkeypatch.setattr("distui.cluster.attach.following.attach", gone)
    with pytest.raises(type(error)):
        await opened(stored)
    taken.append("r1")
    assert isinstance(await opened(stored), Over)


@pytest.mark.parametrize("name", [None, 5, "", "../x"])
def test_what_is_no_name_of_a_run(name: Any) -> None:
    """Programs may give anything."""
    with pytest.raises(UsageError, match=f"'{name or ''}.*' is not a run's name"):
        places.check_name(name)


def test_a_name_that_no_host_knows_may_be_of_a_run_that_pauses_elsewhere(stored: StoredRun) -> None:
    """Between two attempts nothing of it is on its hosts, nor is of one that was not started; of one that is recorded
    here more is known.
    """
    for known, said in ((None, True), (stored, False)):
        with pytest.raises(NotFound, match="none of 2 hosts has it") as caught:
            places.there(ClusterSettings({}), RunLocation("r1", known, place(stored).hosts), None, {})
        for words in ("one that was not started is not kept", "pauses between two attempts"):
            assert (words in (caught.value.hint or "")) is said


async def nothing(*_: Any) -> tuple[()]:
    """No launch on any host."""
    return ()


async def test_what_another_takes_up_first_is_read_beside_that_one(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From what was recorded when it was looked for, so that nothing said since is missed."""
    settings, tried = ClusterSettings({"HOME": str(stored.path)}), list[object]()

    async def follow(controller: object) -> object:
        tried.append(controller)
        if len(tried) == 1:
            raise AlreadyFollowed("another was faster")
        return controller

    monkeypatch.setattr(following, "adopt", lambda *_: "its owner")
    run = GoesOn(PLAN, Live(None, PLAN, {}, {}), StoredReader(stored))
    done = await follow_run(settings, NOBODY, place(stored), run, follow, connect=pytest.fail, folder=pytest.fail)
    assert tried == ["its owner", done]
    assert isinstance(done, Beside)
    assert done._reader is run.reader


def test_who_waits_goes_on_beside_a_distui_that_has_taken_it_up_meanwhile(
    cli: Any, stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody followed it when it was looked at first."""
    looks: list[str] = []

    async def beside(stored: StoredRun, goal: str) -> bool:
        looks.append(goal)
        return len(looks) == 2

    monkeypatch.setattr(wait, "_beside", beside)
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  h[1-2]: {}\n")
    with stored.followed():
        done = cli("wait", "r1", "--for", "running")
    assert (done.code, looks) == (0, ["running"] * 2), done.err


@pytest.mark.parametrize(
    ("environ", "plain"),
    [
        ({}, False),
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "C.UTF-8"}, False),
        ({"LC_ALL": "C", "DISTUI_ASCII": "0"}, False),
        ({"DISTUI_ASCII": "1"}, True),
    ],
)
def test_the_app_has_the_signs_of_the_locale(home: Path, environ: dict[str, str], plain: bool) -> None:
    """Unless somebody has set which ones it has."""
    environ = {"HOME": str(home), **environ}
    assert opening.look(Settings(environ, home, config.load({}, environ, home)))["ascii"] == plain


def test_a_terminal_that_can_t_be_sent_other_signs_gets_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would be a question mark."""
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), "iso-8859-1"))
    environ = {"HOME": str(home)}
    assert opening.look(Settings(environ, home, config.load({}, environ, home)))["ascii"]
