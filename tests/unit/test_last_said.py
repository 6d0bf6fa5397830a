"""Whether a run that nobody follows is quiet: asked of its hosts' engines, by their own clocks."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from distui.cli.actions import ps
from distui.cli.printing.run_rows import row_json
from distui.cluster.attach import listing
from distui.cluster.attach.listing import RecordedRuns
from distui.plan.labels import TaskLabels, to_labels
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask
from distui.runs.hosts.last_said import AGAIN, LastSaid, ages_of, with_quiet
from distui.runs.hosts.reuse import reusing
from distui.runs.report.history import RunRow, found_row
from distui.runs.state.standstill import quiet_since
from distui.session import Completed, Connector
from distui.spec.hosts.inventory import Host

ENGINE = r"""#!/bin/sh
# docker, as far as the last line of a log goes: its words are in a file by the container's id
[ "$1 $2 $3 $4" = "logs --timestamps --tail 1" ] || exit 64
[ -f "$0.$5" ] || { echo "Error: No such container: $5" >&2; exit 1; }
echo "WARN a warning of the engine" >&2
cat "$0.$5"
"""
LABELS = TaskLabels("r", 0, (0,), "h1", "job", "ann@desk", stall_after=60.0, world_size=1)


def stamp(ago: float) -> str:
    """A time as docker prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.123456789Z", time.gmtime(time.time() - ago))


def task(name: str, *, ago: float = 900.0, **labels: Any) -> FoundTask:
    """One that runs since `ago` seconds."""
    known = dataclasses.replace(LABELS, **labels)
    return FoundTask(known.host, name, known, {}, True, "running", started=time.time() - ago)


async def here(argv: Sequence[str]) -> Completed:
    """Runs it on this machine."""
    process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    return Completed(tuple(argv), process.returncode or 0, out, err)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host whose engine is the script above."""
    engine = tmp_path / "docker"
    engine.write_text(ENGINE)
    engine.chmod(0o700)
    return Host("h1", engine_command=(str(engine),))


def said(host: Host, container: str, *lines: str) -> None:
    Path(f"{host.engine_command[0]}.{container}").write_text("".join(f"{line}\n" for line in lines))


async def test_containers_tell_when_they_said_their_last_line(host: Host) -> None:
    """All with one command; what the engine warns of is no line, one that said nothing is silent since its start.

    Of one that has no log nothing is known.
    """
    names = [letter * 64 for letter in "abcd"]
    said(host, names[0], f"{stamp(300)} step 22")
    said(host, names[1], f"{stamp(2)} \x1b[31m2999-01-01T00:00:00Z " + "x" * 5000)
    said(host, names[2])
    ran = []

    async def run(argv: Sequence[str]) -> Completed:
        ran.append(argv)
        return await here(argv)

    ages = await ages_of(run, host, [*map(task, names), task("0; touch no")])
    assert len(ran) == 1 and set(ages) == set(names[:3])
    assert "touch" not in " ".join(ran[0])
    for name, ago in zip(names, (300, 2, 900), strict=False):
        assert ago - 1 <= ages[name] <= ago + 60


async def test_processes_tell_by_their_log(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is only ever appended to; a folder's name is never read by a shell."""
    monkeypatch.chdir(tmp_path)
    folders = [tmp_path / "a $(touch b)/task-0", tmp_path / "-c/task-1", tmp_path / "none"]
    for ago, folder in zip((500, 4), folders, strict=False):
        folder.mkdir(parents=True)
        (folder / "log").write_text("step 1\n")
        os.utime(folder / "log", (time.time() - ago,) * 2)
    ages = await ages_of(here, host, [task(str(folder), engine="process") for folder in folders])
    assert set(ages) == {str(folder) for folder in folders[:2]} and not (tmp_path / "b").exists()
    assert 499 <= ages[str(folders[0])] <= 560 and ages[str(folders[1])] <= 64


async def test_ages_are_by_the_clock_of_the_host(host: Host) -> None:
    """One that is an hour ahead says the same of a line of a minute ago."""

    async def run(argv: Sequence[str]) -> Completed:
        text = f"now {int(time.time()) + 3600}\nat {'a' * 64} {stamp(60 - 3600)}\n"
        return Completed(tuple(argv), 0, text.encode(), b"")

    (age,) = (await ages_of(run, host, [task("a" * 64)])).values()
    assert 59 <= age <= 120


@pytest.mark.parametrize("answer", [b"", b"rubbish\n", b"now x\nat 0 5\n", b"\xff now 5\nat"])
async def test_an_answer_that_cannot_be_read_tells_nothing(host: Host, answer: bytes) -> None:
    """Nothing is quiet by it."""

    async def run(argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, answer, b"")

    both = [task("a" * 64), task("/home/u/task-0", engine="process")]
    assert await ages_of(run, host, both) == {}


class Sessions:
    """Hosts that answer with when containers said something, and which of them were asked how often."""

    connected_ms = 0.0

    def __init__(self, **ages: float) -> None:
        self.ages = ages
        self.asked: list[str] = []
        self.host = ""

    async def connect(self, host: str) -> Sessions:
        self.asked.append(host)
        self.host = host
        return self

    async def run(self, argv: Sequence[str], **limits: object) -> Completed:
        at = [f"at {name} {stamp(self.ages[name[0]])}" for name in argv[4].split() if name[0] in self.ages]
        return Completed(tuple(argv), 0, "\n".join([f"now {int(time.time())}", *at]).encode(), b"")

    async def close(self) -> None:
        pass


async def quiet_of(
    sessions: Sessions, *tasks: FoundTask, followed: bool = False, known: LastSaid | None = None
) -> float | None:
    """Since how many seconds a run of these tasks is quiet."""
    run = FoundRun("r", tasks)
    found = FoundRuns((run,), {}, frozenset({"h1", "h2"}))
    asked = () if followed else (run,)
    answer = await with_quiet(cast(Connector, sessions), [Host("h1"), Host("h2")], found, asked, known)
    quiet = answer.runs[0].quiet
    return None if quiet is None else time.time() - quiet


A, B = "a" * 64, "b" * 64
TWO = (task(A, world_size=2), task(B, task=1, ranks=(1,), host="h2", world_size=2))


async def test_a_run_is_quiet_when_all_of_it_is() -> None:
    """Since its newest line; each host is asked once, and none of a run that is followed here."""
    sessions = Sessions(a=500, b=200)
    quiet = await quiet_of(sessions, *TWO)
    assert quiet is not None and 199 <= quiet <= 260
    assert sorted(sessions.asked) == ["h1", "h2"]
    assert await quiet_of(Sessions(a=500, b=5), *TWO) is None
    assert await quiet_of(Sessions(a=500), *TWO) is None, "of the other nothing is known"
    followed = Sessions(a=500, b=500)
    assert await quiet_of(followed, *TWO, followed=True) is None and not followed.asked


async def test_a_run_is_asked_for_again_only_when_it_may_be_quiet() -> None:
    """Not before its newest line is as old as it may be; one that is quiet, or not told of, once a minute."""
    now = 1000.0
    known = LastSaid(lambda: now)
    run = tuple(dataclasses.replace(one, labels=dataclasses.replace(one.labels, launch="t0ken")) for one in TWO)

    async def asked(at: float, **ages: float) -> tuple[int, bool]:
        nonlocal now
        now = 1000.0 + at
        sessions = Sessions(**ages)
        quiet = await quiet_of(sessions, *run, known=known)
        return len(sessions.asked), quiet is not None

    assert await asked(0, a=500, b=20) == (2, False)
    assert await asked(30, a=500, b=500) == (0, False), "by what it said it can't be quiet yet"
    assert await asked(45, a=500, b=65) == (2, True)
    assert await asked(45 + AGAIN - 1, a=500, b=1) == (0, True)
    assert await asked(45 + AGAIN + 1, a=500) == (2, False)
    assert await asked(45 + 2 * AGAIN, a=500, b=500) == (0, False)
    assert await asked(47 + 2 * AGAIN, a=500, b=500) == (2, True)
    again = tuple(dataclasses.replace(one, labels=dataclasses.replace(one.labels, launch="other")) for one in run)
    sessions = Sessions(a=500, b=500)
    assert await quiet_of(sessions, *again, known=known) is not None and len(sessions.asked) == 2
    assert len(known._known) == 1, "nothing is kept of what is not listed"


async def test_a_run_without_a_token_is_asked_for_each_time() -> None:
    """Another one of that name can't be told from it."""
    known, sessions = LastSaid(), Sessions(a=500, b=5)
    for _ in range(2):
        assert await quiet_of(sessions, *TWO, known=known) is None
    assert len(sessions.asked) == 4


async def test_who_may_be_silent_makes_no_run_quiet() -> None:
    """`stall_after: 0`, a server of others, ranks that were not found, tasks that have ended: no host is asked."""
    old = Sessions(a=5000, b=5000)
    assert await quiet_of(old, task(A, stall_after=0.0)) is None
    assert await quiet_of(old, task(A, world_size=2)) is None
    assert await quiet_of(old, dataclasses.replace(TWO[0], running=False, exit=0), TWO[1]) is None
    assert not old.asked
    server = task(B, task=1, ranks=(1,), host="h2", world_size=2, role="ps", done_when="chief")
    quiet = await quiet_of(Sessions(a=300), TWO[0], server)
    assert quiet is not None and quiet <= 360, "the server is not asked"


class Engine(Sessions):
    """A host that has one run in a container, or none; what it was asked for."""

    def __init__(self, *found: FoundTask) -> None:
        super().__init__(a=500)
        self.found = found
        self.commands: list[str] = []

    async def run(self, argv: Sequence[str], **limits: object) -> Completed:
        word = argv[3] if argv[0] == "sh" else argv[1]
        self.commands.append(word)
        state = {"Running": True, "Status": "running", "StartedAt": stamp(900)}
        config = [{"Id": one.id, "Config": {"Labels": to_labels(one.labels)}, "State": state} for one in self.found]
        ids = "".join(f"{one.id}\n" for one in self.found)
        answers = {"ps": ids, "inspect": json.dumps(config), "distui-launches": "end\0"}
        if word in answers:
            return Completed(tuple(argv), 0, answers[word].encode(), b"")
        return await super().run(argv)


@pytest.mark.parametrize(
    ("there", "followed", "commands"),
    [
        (False, False, ["ps", "distui-launches"]),
        (True, True, ["ps", "inspect", "distui-launches"]),
        (True, False, ["ps", "inspect", "distui-launches", "distui-said"]),
    ],
    ids=["no run", "followed here", "followed by nobody"],
)
async def test_what_a_refresh_costs(tmp_path: Path, there: bool, followed: bool, commands: list[str]) -> None:
    """One command more at a host with a run that nobody follows, by the connection that is there."""
    engine = Engine(*[task(A)] * there)
    asked = RecordedRuns([RunRow("r", "job", "unknown", ("h1",), 1, "ann@desk", followed=followed)], (Host("h1"),))
    async with reusing(cast(Connector, engine)) as connector:
        found, _ = await listing._find_all(connector, asked)
    assert engine.commands == commands and engine.asked == ["h1"]
    assert [run.quiet is not None for run in found.runs] == [not followed] * there


def test_the_rule() -> None:
    """Each by its own `stall_after`; what is not known makes nothing quiet."""
    assert quiet_since([(10.0, 60.0), (30.0, 60.0)], 91.0) == 30.0
    assert quiet_since([(10.0, 60.0), (30.0, 60.0)], 90.0) is None
    assert quiet_since([(10.0, 60.0), (None, 60.0)], 500.0) is None
    assert quiet_since([(10.0, 60.0), (None, 0.0)], 500.0) == 10.0
    assert quiet_since([], 500.0) is None


def test_ps_says_for_how_long_a_run_is_quiet() -> None:
    """In the table and as JSON; `state` stays what it is."""
    row = RunRow("r", "job", "running", ("h1",), 1, live=True, quiet=time.time() - 9 * 3600 - 60)
    assert ps._cells(row)[2] == "quiet 9h"
    assert (row_json(row)["state"], row_json(row)["quiet"]) == ("running", {"since": row.quiet})
    followed = dataclasses.replace(row, followed=True)
    assert ps._cells(followed)[2] == "running"
    assert (row_json(followed)["followed"], row_json(followed)["quiet"]) == (True, None)


@pytest.mark.parametrize("followed", [False, True])
def test_a_row_is_silent_only_where_nobody_follows_it(followed: bool) -> None:
    """Who follows it knows better."""
    recorded = RunRow("r", "job", "unknown", ("h1",), 1, "ann@desk", followed=followed)
    row = found_row(FoundRun("r", (task(A),), quiet=5.0), recorded)
    assert (row.followed, row.silent, row.stands) == (followed, not followed, False)
    assert not dataclasses.replace(row, state="failed").silent
