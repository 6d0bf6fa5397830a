"""Runs recorded here: ps, show, logs, wait and rm without a single host."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from distui import config
from distui.cli.actions import ps
from distui.cli.console import Console
from distui.cli.printing.loglines import into_file, parse_grep, parse_moment
from distui.cli.printing.printer import LogView
from distui.cli.runs.ending import StopShown
from distui.cli.settings import Settings
from distui.cluster.attach import ending, following, listing, live_run, places, stopping
from distui.cluster.logs import from_files
from distui.cluster.logs.wanted import Wanted
from distui.errors import CheckFailed, NotFound, UsageError
from distui.facts.host import Trouble
from distui.plan.labels import TaskLabels
from distui.plan.serialize import to_json
from distui.runs.control.stopping import StopReport
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundState, FoundTask
from distui.runs.lines.events import AttemptEnded, Failure, LogLine, RankChanged, RunEnded, RunOpened, RunOutcome
from distui.runs.report import history, states
from distui.runs.store import runs as store_module
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.store.saved_hosts import save_hosts
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from fakehosts.runs import plan_for


def plan(run: str) -> dict[str, Any]:
    tasks = [{"index": r, "ranks": [r], "host": f"h{r}"} for r in (0, 1)]
    return {"run_id": run, "job": "smoke", "owner": "me@here", "world_size": 2, "launcher": "env", "tasks": tasks}


@pytest.fixture
def store(home: Path) -> RunStore:
    return RunStore(home / ".local/state/distui")


def record(store: RunStore, run: str = "r1", *, ended: RunEnded | None = None) -> StoredRun:
    """A run of two ranks as the controller would have recorded it."""
    stored = store.create(run)
    stored.write_plan(plan(run))
    journal = Journal(stored)
    journal.write([RunOpened(1.0, run, "smoke", "env", None, {0: "h0", 1: "h1"}, {0: (0,), 1: (1,)})])
    journal.write([RankChanged(2.0, 1, "h1", "exited", 3, words="exit 3")])
    if ended is not None:
        journal.write([ended])
    journal.close()
    for rank in (0, 1):
        stored.rank_log(rank).write_bytes(b"".join(b"line %d of %d\n" % (i, rank) for i in range(5)))
    return stored


FAILED = RunEnded(9.0, "failed", 1, Failure(1, "h1", 3, "exit 3", excerpt=("boom",)), took=8.0)


def test_ps_lists_what_is_recorded(cli: Any, store: RunStore) -> None:
    """-a shows ended runs with their first failure; without it there is nothing alive; JSON has the documented keys."""
    record(store, ended=FAILED)

    assert "r1" not in cli("ps").out
    row = cli("ps", "-a").out.splitlines()[1].split()
    assert row[:5] == ["r1", "smoke", "failed", "1", "h[0-1]"]
    assert "r1 h1 exit 3" in cli("ps", "-a").out
    (run,) = json.loads(cli("ps", "-a", "--json").out)["runs"]
    assert {"run", "job", "state", "hosts", "ranks"} <= set(run)
    assert (run["run"], run["state"], run["hosts"], run["ranks"]) == ("r1", "failed", ["h0", "h1"], 2)
    assert cli("ps", "-a", "-q").out == "r1\n"
    assert cli("ps", "-q").out == ""


def test_ps_lists_the_run_that_was_started_last_first(cli: Any, store: RunStore) -> None:
    """Whatever has become of an older one since: one that was attached to, or stopped, was listed above newer ones."""
    for run, started in (("newer", 200.0), ("newest", 300.0), ("older", 100.0)):
        journal = Journal(stored := store.create(run))
        journal.write([RunOpened(started, run, "smoke", "env", None, {0: "h0"}, {0: (0,)}), FAILED])
        journal.close()
        os.utime(stored.path, (1e9 - started, 1e9 - started))
    assert cli("ps", "-a", "-q").out.split() == ["newest", "newer", "older"]


def test_ps_of_one_state_shows_ended_runs_too(cli: Any, store: RunStore) -> None:
    """`ps --state failed` needs no -a: who asks for ended runs wants to see them."""
    record(store, "r1", ended=FAILED)
    assert cli("ps", "-q").out == ""
    assert cli("ps", "-q", "--state", "failed").out == "r1\n"
    assert cli("ps", "-q", "--state", "stopped").out == ""


def test_ps_survives_torn_files(cli: Any, store: RunStore) -> None:
    """A run whose files were cut at any byte is still listed, and nothing fails."""
    stored = record(store, ended=FAILED)
    events = (stored.path / "events.ndjson").read_bytes()
    for cut in range(0, len(events), 37):
        (stored.path / "events.ndjson").write_bytes(events[:cut])
        assert json.loads(cli("ps", "-a", "--json").out)["runs"][0]["run"] == "r1"
    (stored.path / "plan.json").write_bytes(b'{"torn')
    assert cli("ps", "-a").code == 0


def test_a_part_of_a_run_that_was_on_a_host_out_of_reach_is_gone_once_that_one_answers(store: RunStore) -> None:
    """It was stopped from a machine that knew it by its labels alone, and a host did not answer: it does now."""
    stored = record(store)
    part = plan("r1")["tasks"][:1]
    stored.write_plan(plan("r1") | {"tasks": [part[0] | {"labels": {"distui.tasks": "2"}}]})
    save_hosts(stored, [Host("h0"), Host("h1")])
    row = history.stored_row(stored)
    assert (row.hosts, row.elsewhere, row.unmet) == (("h0",), 1, ("h1",))
    late = {"h7": Trouble("timeout", "late")}
    states = [
        history.joined(found, [row])[0].state
        for found in (NOTHING, FoundRuns((), {}, frozenset({"h0"})), FoundRuns((), late, NOTHING.answered))
    ]
    assert states == ["gone", "unknown", "unknown"]


NOTHING = FoundRuns((), {}, frozenset({"h0", "h1"}))
"""What its hosts answer of a run that they do not have."""


def test_a_run_without_an_end_is_gone_only_when_all_its_hosts_say_so(store: RunStore) -> None:
    """One that did not answer, or was not asked, may have it; so may any host where the record does not name them."""
    row = history.stored_row(record(store))
    late = {"h1": Trouble("timeout", "late")}
    states = {
        asked: history.joined(found, [row])[0].state
        for asked, found in {
            "all": NOTHING,
            "one does not answer": FoundRuns((), late, frozenset({"h0"})),
            "one": FoundRuns((), {}, frozenset({"h0", "h7"})),
            "none": FoundRuns((), {}),
        }.items()
    }
    assert states == {"all": "gone", "one does not answer": "unknown", "one": "unknown", "none": "unknown"}
    assert (row.may_run, history.settled(row, ("h0", "h1")).may_run) == (True, False)
    assert history.settled(history.RunRow("r1", "", "unknown", (), 0), ("h0", "h1")).state == "unknown"


def test_hosts_that_have_answered_since_are_not_warned_of(store: RunStore) -> None:
    """Its record says that ranks may run where nobody answered: neither once it is gone nor once they are found."""
    loss, late = "the loss is NaN", "1 of the run's tasks may still be running where nobody answered: h1: late"
    row = replace(history.stored_row(record(store)), state="unknown", warnings=(loss, late))
    assert history.settled(row, ("h0",)).warnings == (loss, late)
    assert history.settled(row, ("h0", "h1")).warnings == (loss,)
    task = FoundTask("h1", "c0", TaskLabels("r1", 0, (0,), "h1", "j"), {}, True, "running")
    assert history.found_row(FoundRun("r1", (task,)), row).warnings == (loss,)
    assert history.found_row(FoundRun("r1", (task,)), row, "on h0, which did not answer").warnings == (loss, late)


def test_a_run_of_which_not_all_hosts_are_recorded_is_not_gone(store: RunStore) -> None:
    """Labels say how many tasks it has: who followed only a part of it (-H) has no word of the others' hosts."""
    stored = record(store)
    part = plan("r1")["tasks"][:1]
    stored.write_plan(plan("r1") | {"tasks": [part[0] | {"labels": {"distui.tasks": "2"}}]})
    row = history.stored_row(stored)
    assert (row.hosts, row.elsewhere) == (("h0",), 1)
    assert history.settled(row, ("h0", "h1")).state == "unknown"
    found = cast(FoundRun, SimpleNamespace(hosts=("h1",)))
    assert history._hosts(found, row) == ("h1", "h0")
    assert history._hosts(found, replace(row, elsewhere=0)) == ("h0",)
    ended = replace(row, state="failed", cleaned=False)
    assert not any(one.cleaned for one in history.with_launches([ended], (), {}, answered=("h0",)))


def test_a_run_of_which_not_all_hosts_are_recorded_is_looked_for_on_all(store: RunStore) -> None:
    """Where the inventory has the others, they are asked, too."""
    stored = record(store)
    save_hosts(stored, [Host("h0")])
    chosen = SimpleNamespace(hosts=(), narrows=False, chosen=lambda: (Host("h1"), Host("h2")))
    where = places.Places(cast(Any, SimpleNamespace(store=store)), cast(Any, chosen))
    assert [host.name for host in where.locate("r1").hosts] == ["h0"]
    part = plan("r1")["tasks"][0] | {"labels": {"distui.tasks": "2"}}
    stored.write_plan(plan("r1") | {"tasks": [part]})
    assert sorted(host.name for host in where.locate("r1").hosts) == ["h0", "h1", "h2"]


@pytest.mark.parametrize("ended", [None, FAILED])
def test_hosts_that_are_named_are_asked_for_the_engine_that_the_run_was_started_with(
    store: RunStore, ended: RunEnded | None
) -> None:
    """hosts.yaml may have another one by now, which has nothing of the run: it is still there. Its name may be used
    again once it is over.
    """
    stored = record(store, ended=ended)
    save_hosts(stored, [Host("h0", engine="process", engine_command=())])
    chosen = SimpleNamespace(
        hosts=("h0", "h2"),
        narrows=True,
        known=None,
        hostfile=None,
        path=None,
        chosen=lambda: (Host("h0", addr="moved"), Host("h2")),
    )
    where = places.Places(cast(Any, SimpleNamespace(store=store)), cast(Any, chosen))
    first, second = where.locate("r1").hosts
    assert (first.addr, first.engine) == ("moved", "process" if ended is None else "docker")
    assert second == Host("h2")


async def test_a_run_that_ends_while_its_hosts_are_asked_is_not_gone(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have nothing of it any more when they answer; how it ended is recorded by then."""
    stored = record(store)

    async def find(connector: object, hosts: Sequence[Host], *, unseen: bool) -> FoundRuns:
        journal = Journal(stored)
        journal.write([FAILED])
        journal.close()
        return FoundRuns((), {}, frozenset(host.name for host in hosts))

    async def no_launches(connector: object, hosts: Sequence[Host]) -> tuple[()]:
        return ()

    monkeypatch.setattr(listing, "find_runs", find)
    monkeypatch.setattr(listing, "find_launches", no_launches)
    settings = Settings(dict(os.environ), Path.cwd(), config.load({}, os.environ, Path.cwd()))
    hosts = (Host("h0"), Host("h1"))
    listed = await listing.list_runs(settings.places, hosts, lambda _: contextlib.nullcontext(cast(Connector, None)))
    assert [(row.run, row.state) for row in listed.rows] == [("r1", "failed")]


def test_hosts_that_are_named_tell_nothing_of_others(cli: Any, demo_home: Path) -> None:
    """A run may live on a host that was not asked: it is not gone, and no rank of it was removed. What those that are
    named can't have is listed with -a.
    """
    store = RunStore(demo_home / ".local/state/distui")
    for run, hosts in (("both", ("demo1", "demo2")), ("second", ("demo2",))):
        stored = store.create(run)
        stored.write_plan(to_json(plan_for(*hosts, run_id=run)))
        save_hosts(stored, [Host(name, engine="process") for name in hosts])
        journal = Journal(stored)
        ranks = dict(enumerate(hosts))
        journal.write([RunOpened(1.0, run, "smoke", "env", None, ranks, {rank: (rank,) for rank in ranks})])
        journal.write([RankChanged(2.0, rank, host, "running") for rank, host in ranks.items()])
        journal.close()

    def listed(*words: str) -> dict[str, str]:
        return {row["run"]: row["state"] for row in json.loads(cli("ps", "-o", "json", *words).out)["runs"]}

    def shown(*words: str) -> tuple[str, list[str]]:
        value = json.loads(cli("show", "-o", "json", *words).out)
        return value["state"], [rank["state"] for rank in value["tasks"]]

    assert listed("-a") == {"both": "gone", "second": "gone"}
    assert listed() == {}
    assert listed("-a", "-H", "demo1") == {"both": "unknown", "second": "unknown"}
    assert listed("-H", "demo1") == {"both": "unknown"}
    assert listed("-a", "-H", "demo2") == {"both": "unknown", "second": "gone"}
    assert shown("both") == ("gone", ["removed", "removed"])
    assert shown("both", "-H", "demo1") == ("unknown", ["removed", "lost"])
    assert "demo2 was not asked" in cli("show", "both", "-H", "demo1").out


def test_a_launch_that_was_killed_before_its_plan_was_recorded(cli: Any, demo_home: Path) -> None:
    """Its hosts have nothing of it: that is said, and what removes it, in place of `ranks 0` and an empty table."""
    stored = RunStore(demo_home / ".local/state/distui").create("r1")
    said = "its launch was killed before its plan was recorded; {}: `distui rm --purge r1` removes it here"
    assert cli("show", "r1").out.splitlines() == [
        "run      r1",
        "state    unknown",
        f"logs     {stored.log_dir}",
        "warn     " + said.format("demo[1-2] have nothing of it"),
    ]
    one = json.loads(cli("show", "-o", "json", "r1", "-H", "demo1").out)
    assert one["warnings"] == [said.format("demo1 has nothing of it")]
    assert cli("rm", "--purge", "-y", "r1").code == 0
    assert cli("show", "r1").code == 7


def test_a_run_that_was_left_has_not_the_exit_of_who_left(cli: Any, store: RunStore) -> None:
    """Nothing of it is on its hosts: how it ended and how long it took nobody here knows; 0 would be a success."""
    stored = record(store, ended=RunEnded(3.0, "detached", 0, took=2.5))
    row = history.stored_row(stored)
    (gone,) = history.joined(NOTHING, [row])
    assert [(one.state, one.exit, one.took) for one in (row, gone)] == [("detached", None, None), ("gone", None, None)]
    shown = cli("show", "r1").out
    assert "exit 0" not in shown and "took" not in shown


def test_show_tells_ranks_and_the_first_failure(cli: Any, store: RunStore) -> None:
    """`show` has every rank with its state, and the failure with its last lines."""
    record(store, ended=FAILED)
    done = cli("show", "r1")

    assert done.code == 0
    assert "rank 1 on h1 failed first: exit 3" in done.out
    assert "| boom" in done.out
    assert re.search(r"^1 +h1 +exited +3 +exit 3$", done.out, re.M)
    tasks = json.loads(cli("show", "r1", "--json").out)["tasks"]
    assert [(t["rank"], t["state"]) for t in tasks] == [(0, "waiting"), (1, "exited")]


def test_show_makes_a_report(cli: Any, store: RunStore) -> None:
    """`show --report` is a text to pass on; a record without a plan gives none."""
    stored = record(store, ended=FAILED)
    stored.write_plan(to_json(plan_for("h0", "h1")))
    done = cli("show", "r1", "--report")
    assert done.code == 0
    assert "FIRST FAILURE: rank 1 on h1, exit 3" in done.out and "| line 4 of 1" in done.out
    (stored.path / "plan.json").unlink()
    assert cli("show", "r1", "--report").code == 7


def test_logs_of_an_ended_run(cli: Any, store: RunStore) -> None:
    """Rank after rank with prefix; --rank, -n, --grep and --no-prefix choose."""
    record(store, ended=FAILED)

    assert cli("logs", "r1").out.splitlines()[0] == "000 h0 | line 0 of 0"
    assert len(cli("logs", "r1").out.splitlines()) == 10
    assert cli("logs", "r1", "-n", "1").out.splitlines() == ["000 h0 | line 4 of 0", "001 h1 | line 4 of 1"]
    assert cli("logs", "r1", "--rank", "1", "--grep", "line [02]", "--no-prefix").out == "line 0 of 1\nline 2 of 1\n"
    assert cli("logs", "r1", "-f", "-n", "0").out == ""
    wrong = cli("logs", "r1", "--rank", "7")
    assert wrong.code == 2
    assert "ranks 0 to 1" in wrong.err
    assert cli("logs", "r1", "--grep", "(").code == 2


def test_logs_keep_a_last_line_without_newline(cli: Any, store: RunStore) -> None:
    """What a rank printed last is shown, newline or not; bytes that are no UTF-8 do no harm."""
    record(store, ended=FAILED).rank_log(0).write_bytes(b"one\n\xff\xfetwo")
    assert cli("logs", "r1", "--rank", "0", "--no-prefix").out == "one\n\ufffd\ufffdtwo\n"


def test_wait_for_an_ended_run_exits_as_it_did(cli: Any, store: RunStore) -> None:
    """The exit code is the run's; attach says that it has ended."""
    record(store, ended=FAILED)
    assert cli("wait", "r1").code == 1
    attached = cli("attach", "r1")
    assert attached.code == 1
    assert "has ended: failed" in attached.err


@pytest.mark.parametrize("verb", ["show", "logs", "attach", "wait", "stop", "kill", "rm"])
def test_an_unknown_run_is_exit_7_with_the_nearest_name(cli: Any, store: RunStore, verb: str) -> None:
    """A name that is nowhere is named, with the one that was meant."""
    record(store, "llm-7f3", ended=FAILED)
    done = cli(verb, "llm-7f4")

    assert done.code == 7
    assert re.search(r"there is no run '[^']*': [^:]+, did you mean 'llm-7f3'\?$", done.err, re.M)


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "-x", "a/b", "x" * 64])
def test_names_that_are_none_are_exit_2(cli: Any, name: str) -> None:
    """A run's name can't lead out of the runs' folder."""
    assert cli("show", "--", name).code == 2 or cli("show", name).code == 2
    with pytest.raises(UsageError):
        places.check_name(name)


def test_a_followed_run_is_not_attached_twice(cli: Any, store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process here follows the run, and nothing to read is recorded: rm and attach refuse, and say what to do."""
    monkeypatch.setattr(following, "LEAVING_SECONDS", 0.2)
    stored = record(store)
    lock = os.open(stored.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        assert stored.is_followed
        attached = cli("attach", "r1")
        assert attached.code == 2
        assert "`distui logs -f r1`" in attached.err
        assert cli("rm", "r1").code == 2
    finally:
        os.close(lock)
    assert not stored.is_followed


async def test_one_that_is_leaving_is_waited_for(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distui whose terminal was just closed holds its run for a moment: the next one does not fail for that."""
    stored, looks, is_followed = record(store), list[bool](), StoredRun.is_followed.fget

    def look(run: StoredRun) -> bool:
        looks.append(is_followed(run))
        return looks[-1]

    monkeypatch.setattr(StoredRun, "is_followed", property(look))
    with stored.followed():
        waiting = asyncio.create_task(following._plan_of_owner(stored))
        while len(looks) < 2:
            await asyncio.sleep(0)
            assert not waiting.done()
    await waiting
    assert looks == [True] * (len(looks) - 1) + [False]


@pytest.mark.parametrize("error", [OSError(errno.EROFS, "Read-only file system"), FileNotFoundError(2, "gone", "x")])
def test_rm_purge_of_a_folder_that_can_not_be_deleted(
    cli: Any, store: RunStore, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """It is said, without a traceback; what somebody deletes at the same time is deleted."""
    path, rmtree = record(store, ended=FAILED).path, shutil.rmtree

    def delete(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise error
        rmtree(path)

    monkeypatch.setattr("distui.runs.store.runs.shutil.rmtree", delete)
    done = cli("rm", "--purge", "-y", "r1")
    if error.errno == errno.EROFS:
        assert (done.code, path.exists()) == (3, True)
        assert f"can't delete {path}: Read-only file system" in done.err
    else:
        assert (done.code, path.exists()) == (0, False)


def test_rm_purge_deletes_the_folder_when_told_twice(cli: Any, store: RunStore) -> None:
    """Off a terminal --purge needs -y; then the run's folder is gone."""
    stored = record(store, ended=FAILED)
    refused = cli("rm", "--purge", "r1")
    assert refused.code == 2
    assert "-y" in refused.err
    assert stored.path.exists()
    assert cli("rm", "--purge", "-y", "r1").code == 0
    assert not stored.path.exists()


def test_since_compares_with_the_engine_s_stamps() -> None:
    """A duration or a time becomes a stamp of the engine's form; lines without a stamp count as new."""
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert parse_moment("--since", "5m", now) == "2026-01-02T02:59:05.000000000Z"
    assert parse_moment("--since", "2026-01-02T00:00:00+01:00", now) == "2026-01-01T23:00:00.000000000Z"
    assert parse_moment("--since", "0999-05-05T00:00:00Z", now) == "0999-05-05T00:00:00.000000000Z"
    for odd in ("yesterday", "999999999d", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"):
        with pytest.raises(UsageError):
            parse_moment("--since", odd, now)
    wanted = Wanted(since=parse_moment("--since", "5m", now), grep=parse_grep("x"))
    new, old = "2026-01-02T03:00:00.000000001Z", "2026-01-02T02:00:00.000000001Z"
    lines = [LogLine("stdout", "x", new), LogLine("stdout", "x", old), LogLine("stdout", "x"), LogLine("stdout", "y")]
    assert wanted.kept(lines) == [lines[0], lines[2]]


def test_every_run_named_is_ended_whatever_is_wrong_with_another(cli: Any, home: Any) -> None:
    """An unknown name among several is said, gives the exit code, and stops nothing but itself."""
    done = cli("stop", "nope", "nada", "-y")

    assert done.code == 7
    assert "nope" in done.err
    assert "nada" in done.err


def test_every_run_named_is_removed_whatever_is_wrong_with_another(cli: Any, store: RunStore) -> None:
    """One that is followed here, among several, is said and gives the exit code; the others go."""
    stored, busy = record(store, ended=FAILED), record(store, "busy")
    with busy.followed():
        done = cli("rm", "--purge", "-y", "busy", "r1")
    assert done.code == 2
    assert "run busy is followed on this machine" in done.err
    assert (stored.path.exists(), busy.path.exists()) == (False, True)


def _unwritable(path: Path, data: bytes) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


def test_a_stop_that_cannot_be_asked_for_is_reported(
    cli: Any, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch here that has nothing on its hosts yet can only be asked: exit 3 and why."""
    stored = record(store)
    monkeypatch.setattr(store_module, "write_private", _unwritable)
    with stored.followed():
        done = cli("stop", "r1", "-y")
    assert done.code == 3
    assert "Read-only file system" in done.err


async def test_ranks_are_stopped_though_the_disk_here_is_full(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The distui that follows the run sees them end."""
    asked: list[float] = []

    async def stop_found(*_: object, grace: float, **__: object) -> StopReport:
        asked.append(grace)
        return StopReport({}, ())

    place = places.RunLocation("r1", record(store), ())
    monkeypatch.setattr(store_module, "write_private", _unwritable)
    monkeypatch.setattr(stopping, "stop_found", stop_found)
    live: Any = SimpleNamespace(plan=plan_for("h1"), found=None, unreachable={}, runs=True)
    out = Console(sys.stdout, sys.stderr, out_colour=False, err_colour=False, width=0)
    connector: Any = None
    settings: Any = None
    done = await ending._beside(connector, StopShown(settings, out), place, live, 2.0)
    assert done.left == ()
    assert asked == [2.0]
    assert "Read-only file system; its ranks are stopped all the same" in capsys.readouterr().err


async def test_a_run_that_is_over_while_it_is_looked_for_is_taken_up(store: RunStore, tmp_path: Path) -> None:
    """Whoever follows it has cleaned up since: that is no run that there is none of."""
    place, plan = places.RunLocation("r1", record(store, ended=FAILED), ()), plan_for("h1")
    environ: dict[str, str] = {"HOME": str(tmp_path)}
    settings, connector = Settings(environ, tmp_path, config.load({}, environ, tmp_path)), None
    with pytest.raises(NotFound):
        await live_run.attach(settings.cluster, connector, place, (None, {}))  # type: ignore[arg-type]
    live = await live_run.attach(settings.cluster, connector, place, (None, {}), plan)  # type: ignore[arg-type]
    assert (live.plan, live.found) == (plan, None)


async def test_a_run_of_which_nothing_runs_is_not_stopped_when_that_cannot_be_asked_for(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else ends it the stop is refused, in the app as here."""
    stored = record(store)
    monkeypatch.setattr(store_module, "write_private", _unwritable)
    live: Any = SimpleNamespace(plan=plan_for("h1"), found=None, unreachable={}, runs=False)
    connector: Any = None
    with pytest.raises(CheckFailed, match="Read-only file system"):
        await stopping.stop_beside(connector, stored, live, None)


def test_a_file_of_logs_that_somebody_removes_meanwhile(tmp_path: Path) -> None:
    """It was there to be read, and is no reason to fail."""
    path = tmp_path / "all.log"
    with into_file(path, LogView(), Wanted()):
        path.unlink()
    assert not path.exists()


def test_every_state_a_run_may_have_can_be_asked_for() -> None:
    """`ps --state` knows the words of outcomes, of runs found on hosts or being started there, of those that are gone
    or between attempts.
    """
    known = {*get_args(RunOutcome), *get_args(FoundState), "gone", "unknown", "retrying", "starting", "left"}
    assert set(states.STATES) == known


def two_attempts(store: RunStore) -> StoredRun:
    """A run whose first attempt failed and whose second has ended well."""
    stored = record(store)
    stored.rank_log(0).write_bytes(b"first try\n")
    stored.set_aside(1)
    stored.write_plan({**plan("r1"), "attempt": 2, "attempts": 3})
    stored.rank_log(0).write_bytes(b"second try\n")
    journal = Journal(stored)
    journal.write([AttemptEnded(3.0, 1, 3, FAILED.failure, 2.0, str(stored.attempt(1).log_dir))])
    journal.write([RunEnded(9.0, "succeeded", 0, attempt=2, attempts=3)])
    journal.close()
    return stored


def test_logs_of_each_attempt(cli: Any, store: RunStore) -> None:
    """The newest by default; an attempt that is not here is an error that names those that are."""
    two_attempts(store)
    assert cli("logs", "r1", "--rank", "0", "--no-prefix").out == "second try\n"
    assert cli("logs", "r1", "--rank", "0", "--no-prefix", "--attempt", "2").out == "second try\n"
    assert cli("logs", "r1", "--rank", "0", "--no-prefix", "--attempt", "1").out == "first try\n"
    done = cli("logs", "r1", "--attempt", "3")
    assert done.code == 2
    assert "attempt 3 of r1 is not recorded here (attempts here: 1, 2)" in done.err
    assert cli("logs", "r1", "--attempt", "1", "--stderr").code == 2


def test_lists_say_which_attempt(cli: Any, store: RunStore) -> None:
    """ps and show, for people and as JSON."""
    two_attempts(store)
    assert "succeeded, attempt 2 of 3" in cli("ps", "-a").out
    assert "succeeded, attempt 2 of 3" in cli("show", "r1").out.replace(", exit 0", "")
    (run,) = json.loads(cli("ps", "-a", "--json").out)["runs"]
    assert (run["attempt"], run["attempts"]) == (2, 3)


def test_a_run_between_two_attempts_is_retrying(cli: Any, store: RunStore) -> None:
    """It is on no host and has no end, but somebody here follows it; without that it is gone."""
    stored = record(store)
    journal = Journal(stored)
    journal.write([AttemptEnded(3.0, 1, 3, FAILED.failure, 2.0, "")])
    journal.close()
    with stored.followed():
        row = history.stored_row(stored)
        assert (row.state, row.may_live) == ("retrying", True)
        assert history.joined(NOTHING, [row])[0].state == "retrying"
    assert history.joined(NOTHING, [history.stored_row(stored)])[0].state == "gone"


def test_followed_logs_go_on_with_the_next_attempt(store: RunStore) -> None:
    """Each attempt has a file of its own; no line is missed or comes twice."""
    stored = record(store)
    stored.rank_log(0).write_bytes(b"one\ntwo")
    reader = from_files._Reader(from_files.RankFile(0, "h0", stored.rank_log(0)), timed=False)
    said = [line.text for lines in reader.lines(to_end=False) for line in lines]
    with stored.rank_log(0).open("ab") as file:
        file.write(b" and a half\nthree")
    stored.set_aside(1)
    said += [line.text for lines in reader.lines(to_end=False) for line in lines]
    stored.rank_log(0).write_bytes(b"new one\nnew")
    said += [line.text for lines in reader.lines(to_end=False) for line in lines]
    said += [line.text for lines in reader.lines(to_end=True) for line in lines]
    reader.close()
    assert said == ["one", "two and a half", "three", "new one", "new"]


NOWHERE = "version: 1\nhosts:\n  a: {addr: 127.0.0.1, port: 1, connect_timeout: 1s}\n"


@pytest.mark.parametrize("verb", ["show", "logs", "attach", "wait", "stop", "kill", "rm", "exec"])
@pytest.mark.parametrize(("inventory", "code"), [(None, 7), (NOWHERE, 6)], ids=["nobody to ask", "no answer"])
def test_a_run_that_is_not_known_is_7_and_one_that_may_be_where_nobody_answers_is_6(
    cli: Any, store: RunStore, verb: str, inventory: str | None, code: int
) -> None:
    """As docs/cli.md says of the exit codes, by every verb that takes a run."""
    if inventory is not None:
        Path("hosts.yaml").write_text(inventory)
    more = {"stop": ["-y"], "kill": ["-y"], "rm": ["-y"], "exec": ["--", "true"]}.get(verb, [])
    done = cli(verb, "never-was", *more)
    assert done.code == code, done.err
    assert "never-was" in done.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("ssh", "nope"), 7), (("hosts", "show", "nope"), 7), (("hosts", "rm", "nope"), 7),
        (("image", "push", "img:1", "--from", "nope"), 7), (("probe", "nope"), 2), (("plan", "nope.yaml"), 2),
        (("run", "nope.yaml", "--headless", "-y"), 2), (("job", "validate", "nope.yaml"), 2),
        (("plan", "-H", "nope", "--image", "x", "--", "true"), 2),
    ],
)  # fmt: skip
def test_hosts_and_job_files_that_there_are_none_of(cli: Any, words: tuple[str, ...], code: int) -> None:
    """The one host that is asked for is 7; what a run or a probe is to be made of is bad input."""
    Path("hosts.yaml").write_text(NOWHERE)
    done = cli(*words)
    assert done.code == code, done.err
    assert "nope" in done.err


@pytest.mark.parametrize("by", ["the environment", "--env-file"])
@pytest.mark.parametrize(
    "words",
    [
        ("ps", "-a"),
        ("ps", "-a", "-o", "json"),
        ("show", "s1"),
        ("show", "s1", "-o", "json"),
        ("logs", "s1"),
        ("logs", "s1", "--merge"),
        ("attach", "s1", "-o", "json"),
        ("wait", "s1", "-o", "json"),
    ],
)
def test_a_value_that_was_recorded_unknown_is_hidden_once_it_is_known(
    cli: Any, store: RunStore, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], by: str
) -> None:
    """It was followed where the variable was not set, and a rank's last words had it."""
    value = "hunter2-hunter2"
    stored = store.create("s1")
    made = plan("s1")
    made["tasks"][0]["secrets"] = ["TOKEN"]
    stored.write_plan(made)
    journal = Journal(stored)
    failure = Failure(0, "h0", 1, f"ValueError: {value}", excerpt=(f"ValueError: {value}",))
    journal.write(
        [
            RunOpened(1.0, "s1", "smoke", "env", None, {0: "h0", 1: "h1"}, {0: (0,), 1: (1,)}),
            RunEnded(9.0, "failed", 1, failure, warnings=(f"it said {value}",), took=8.0),
        ]
    )
    journal.close()
    stored.rank_log(0).write_text(f"a line with {value}\n")
    before = cli(*words)
    assert value in str(before)
    if by == "--env-file":
        Path("vars").write_text(f"# what the job gets\nTOKEN={value}\n")
        words = (*words, "--env-file", "vars")
    else:
        monkeypatch.setenv("TOKEN", value)
    shown = cli(*words)
    assert shown.code == before.code and value not in str(shown) and "***" in shown.out + shown.err


def test_hosts_of_a_run_are_listed_in_the_order_of_their_names() -> None:
    """That of a run whose rank 0 is on h2 was `h[2,1,10]`."""
    row = history.RunRow("r", "j", "running", ("h2", "h1", "h10", "h3"), 4)
    assert ps._cells(row)[3] == "h[1-3,10]"
