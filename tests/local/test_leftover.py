"""A run of which only folders with its verdict are left, told and cleaned up where nothing is recorded of it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distui import config
from distui.cli.printing.run_rows import row_json
from distui.cli.runs import opening
from distui.cli.settings import Settings
from distui.cluster.attach import ending, ending_launch, following, leftover, listing, places
from distui.cluster.backend.backend import ClusterBackend
from distui.cluster.backend.values import LiveRun
from distui.errors import ContactLost, NotFound
from distui.identity import owner
from distui.runs.hosts import discover
from distui.runs.hosts.claims import launches
from distui.runs.lines.events import Failure, RankChanged, RunEnded, RunOpened
from distui.runs.store.end_record import EndRecord, read_record
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore

SECRET = "hunter2-hunter2"
FAILURE = Failure(1, "demo2", 3, "exit 3", excerpt=("boom",))
RANKS = (RankChanged(8.0, 0, "demo1", "exited", 0), RankChanged(9.0, 1, "demo2", "exited", 3, words="exit 3"))
FAILED = EndRecord("beef-1", "ann@desk", RunEnded(9.0, "failed", 1, FAILURE, "/ann/logs", took=8.0), RANKS)
STOPPED = replace(FAILED, ended=RunEnded(9.0, "stopped", 143, took=8.0))


def tried_again() -> EndRecord:
    """The end of the first of three attempts, just now."""
    return replace(FAILED, ended=replace(FAILED.ended, at=time.time(), attempts=3))


def plant(home: Path, record: EndRecord | None, *, claimed: str = "", run: str = "r1", owner: str = "ann@desk") -> Path:
    """What a clean-up that was killed leaves on both hosts: the claim, and how the run ended."""
    token = claimed or (record.token if record is not None else "beef-1")
    for host in ("demo1", "demo2"):
        folder = home / host / f".local/state/distui/hosts/{host}/{run}"
        folder.mkdir(parents=True)
        (folder / "launched").write_text(f"{owner}\n2026-01-02 03:04:05 UTC\n{token}\n")
        if record is not None:
            (folder / "verdict").write_text(record.text(run))
    return folder


def left(home: Path) -> list[str]:
    """Names in the folders of runs."""
    return sorted(path.name for path in home.glob("demo*/.local/state/distui/hosts/*/*"))


def remove(home: Path) -> None:
    """As whoever has the run does."""
    for folder in home.glob("demo*/.local/state/distui/hosts/*/*"):
        shutil.rmtree(folder)


@pytest.mark.parametrize(("record", "code"), [(FAILED, 1), (STOPPED, 143)])
def test_who_waits_elsewhere_is_reported_the_recorded_end(
    cli: Any, demo_home: Path, record: EndRecord, code: int
) -> None:
    """Outcome, exit code, first failure and ranks as the owner has them; whoever only waits removes nothing."""
    plant(demo_home, record)
    done = cli("wait", "r1")
    assert done.code == code, done.err
    assert f"{record.ended.outcome.upper()}  r1  2 ranks  after 8s  exit {code}" in done.err
    assert ("rank 1 on demo2 failed first: exit 3" in done.err) == (record is FAILED)
    assert left(demo_home) == ["r1", "r1"]
    events = [json.loads(line) for line in cli("wait", "r1", "-o", "ndjson").out.splitlines()]
    assert [(e["rank"], e["state"], e["exit"]) for e in events if e["type"] == "rank"] == [
        (0, "exited", 0),
        (1, "exited", 3),
    ]
    assert (events[-1]["state"], events[-1]["exit"], events[-1]["log_dir"]) == (record.ended.outcome, code, None)
    (result,) = cli("wait", "r1", "-o", "json").out.splitlines()
    assert json.loads(result)["first_failure"] == events[-1]["first_failure"]


def test_who_attaches_elsewhere_is_reported_and_cleans_up(cli: Any, demo_home: Path) -> None:
    """As with a container that is left; `--exit-first` has the failed rank's own code."""
    plant(demo_home, FAILED)
    done = cli("attach", "r1", "--headless", "--exit-first")
    assert done.code == 3, done.err
    assert "r1 has ended: failed, as recorded by ann@desk" in done.err
    assert "rank 1 on demo2 failed first: exit 3" in done.err
    assert left(demo_home) == []
    assert cli("attach", "r1", "--headless").code == 7


def test_at_a_terminal_the_end_is_reported_in_words(cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing that the terminal UI could show of it; what is not there at all stays an error."""
    monkeypatch.setattr(opening, "wanted", lambda *_, **__: True)
    plant(demo_home, FAILED)
    done = cli("attach", "r1")
    assert done.code == 1, done.err
    assert "rank 1 on demo2 failed first: exit 3" in done.err
    assert cli("attach", "r1").code == 7


def test_at_a_terminal_the_hosts_are_asked_once(cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is dead is not waited for a second time to tell what is left on the others."""
    monkeypatch.setattr(opening, "wanted", lambda *_, **__: True)
    asked: list[str] = []
    find = discover.find_runs

    async def counted(*args: Any, **options: Any) -> Any:
        asked.append("hosts")
        return await find(*args, **options)

    for module in (places, listing):
        monkeypatch.setattr(module, "find_runs", counted)
    plant(demo_home, FAILED)
    done = cli("attach", "r1")
    assert (done.code, asked) == (1, ["hosts"]), done.err


@pytest.mark.parametrize(("error", "code"), [(NotFound("it went away"), 7), (ContactLost("it went away"), 6)])
def test_an_error_in_the_app_leads_to_no_other_attach(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    """Only that nothing of the run was found at the start does."""

    async def attached(*_: Any) -> Any:
        return object()

    async def show(*_: Any) -> int:
        raise error

    monkeypatch.setattr(opening, "wanted", lambda *_, **__: True)
    monkeypatch.setattr(ClusterBackend, "attach_at", attached)
    monkeypatch.setattr(opening, "show", show)
    plant(demo_home, FAILED)
    done = cli("attach", "r1")
    assert (done.code, "it went away" in done.err, left(demo_home)) == (code, True, ["r1", "r1"]), done.err


def test_at_a_terminal_the_next_attempt_is_shown_once_it_has_begun(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody elsewhere has the run, which is between two attempts when it is looked for first."""
    done = cli("run", "-d", "--name", "r1", "-H", "demo1,demo2", "--", "sleep", "60")
    assert done.code == 0, done.err
    asked: list[str] = []
    shown: list[tuple[str, ...]] = []
    find = places.find

    async def found(*args: Any) -> Any:
        asked.append("hosts")
        return await find(*args) if len(asked) > 2 else (None, {})

    async def rests(*_: Any) -> Any:
        return (launches.Launch("r1", "demo1", "beef-1", "ann@desk", "", begun=True, aged=False, record=tried_again()),)

    async def show(settings: object, backend: ClusterBackend, live: LiveRun) -> int:
        shown.append((live.plan.run_id, *backend.following))
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(opening, "wanted", lambda *_, **__: True)
        patched.setattr(opening, "show", show)
        patched.setattr(places, "find", found)
        patched.setattr(leftover, "find_launches", rests)
        patched.setattr(leftover, "POLL_SECONDS", 0.01)
        patched.setenv("XDG_STATE_HOME", str(demo_home / "elsewhere"))
        done = cli("attach", "r1")
    assert (done.code, shown) == (0, [("r1", "r1")]), done.err
    assert "an attempt of r1 has failed; waiting whether another begins" in done.err
    assert "distui: r1 is still running" in done.err
    assert cli("stop", "r1", "-y").code == 0


def test_the_app_says_what_is_left_of_a_run_that_is_over(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How it ended, and what tells more: there is nothing to follow, nor to play again."""
    monkeypatch.setattr(opening, "on_terminal", lambda: True)
    plant(demo_home, FAILED)
    done = cli("tui", "r1")
    assert done.code == 7, done.err
    assert "r1 has ended: failed, as recorded by ann@desk" in done.err
    assert "`distui attach r1`" in done.err
    assert left(demo_home) == ["r1", "r1"]


def test_show_elsewhere_has_the_recorded_end_and_ranks(cli: Any, demo_home: Path) -> None:
    """As `ps` lists it, and rank by rank."""
    plant(demo_home, FAILED)
    done = cli("show", "r1")
    assert done.code == 0, done.err
    assert "failed, exit 1" in done.out
    assert "on the hosts" not in done.out
    assert "rank 1 on demo2 failed first: exit 3" in done.out
    reply = json.loads(cli("show", "r1", "-o", "json").out)
    assert (reply["state"], reply["exit"], reply["ranks"]) == ("failed", 1, 2)
    assert [(rank["rank"], rank["host"], rank["exit"]) for rank in reply["tasks"]] == [(0, "demo1", 0), (1, "demo2", 3)]
    assert cli("show", "r2").code == 7


def test_a_stop_elsewhere_cleans_up_and_names_the_verdict(cli: Any, demo_home: Path) -> None:
    """It exits as a stop of a run that has ended does: 0 whatever the verdict, which it does not change."""
    plant(demo_home, FAILED)
    done = cli("stop", "r1", "-y")
    assert done.code == 0, done.err
    assert "rank 1 on demo2 failed first: exit 3" in done.err
    assert left(demo_home) == []
    plant(demo_home, replace(FAILED, ended=replace(FAILED.ended, outcome="unknown", exit=6)))
    assert cli("stop", "r1", "-y").code == 6


def test_ps_elsewhere_lists_the_recorded_end_of_what_is_left(cli: Any, demo_home: Path) -> None:
    """With what is still to be removed, and from where."""
    plant(demo_home, FAILED)
    (row,) = json.loads(cli("ps", "-o", "json").out)["runs"]
    assert (row["run"], row["state"], row["exit"], row["ranks"]) == ("r1", "failed", 1, 2)
    assert (row["hosts"], row["left"], row["owner"]) == (["demo1", "demo2"], ["demo1", "demo2"], "ann@desk")
    assert (row["first_failure"]["rank"], row["took_s"]) == (1, 8.0)
    output = cli("ps")
    assert "r1 demo2 exit 3" in output.out
    assert "its folder is still on demo1, demo2; `distui stop r1` removes it" in output.err
    assert cli("ps", "-q", "--state", "left").out == ""


def test_ps_and_show_tell_our_own_end_of_two_of_a_name(cli: Any, demo_home: Path) -> None:
    """Somebody else ended a run of that name later, by the same login."""
    folder = plant(demo_home, FAILED, owner=owner())
    later = replace(STOPPED, token="cafe-1", by="bob@desk")
    (folder / "launched").write_text(f"bob@desk\n2026-01-03 03:04:05 UTC\n{later.token}\n")
    (folder / "verdict").write_text(later.text("r1"))
    shown = json.loads(cli("show", "r1", "-o", "json").out)
    (row,) = json.loads(cli("ps", "-o", "json").out)["runs"]
    assert [(done["state"], done["owner"], done["left"]) for done in (shown, row)] == [
        ("failed", owner(), ["demo1"])
    ] * 2


NOWHERE = "{addr: 127.0.0.1, port: 1, connect_timeout: 1s}"


@pytest.mark.parametrize(("away", "whole"), [("other", True), ("demo3", False)])
def test_a_host_out_of_reach_matters_where_the_run_had_ranks(cli: Any, demo_home: Path, away: str, whole: bool) -> None:
    """The verdict is told all the same; what may be left is said where it may be."""
    Path("hosts.yaml").write_text(
        f"version: 1\ndefaults: {{docker: process}}\nhosts:\n  demo[1-2]: {{}}\n  {away}: {NOWHERE}\n"
    )
    ranks = RANKS if whole else (*RANKS, replace(RANKS[1], rank=2, host=away))
    plant(demo_home, replace(FAILED, ranks=ranks))
    assert cli("wait", "r1").code == 1
    done = cli("attach", "r1", "--headless")
    assert (done.code, f"left   {away}: not reached" in done.err) == (1, not whole), done.err
    plant(demo_home, replace(FAILED, ranks=ranks))
    stopped = cli("stop", "r1", "-y")
    assert (stopped.code, "exit 3" in stopped.err) == (0 if whole else 6, True), stopped.err
    assert left(demo_home) == []


def test_the_app_lists_what_ps_lists(cli: Any, demo_home: Path) -> None:
    """Launches under way, what was left, runs on a host that is not in hosts.yaml, and what is recorded here."""
    plant(demo_home, FAILED, run="ended")
    plant(demo_home, None, run="killed", claimed="dead-1")
    plant(demo_home, None, run="starting", claimed="cafe-1")
    for launched in demo_home.glob("demo*/.local/state/distui/hosts/*/starting/launched"):
        launched.rename(launched.with_name("launch"))
    name = f"listed{os.getpid()}"
    began = cli("run", "-d", "-y", "--name", name, "-H", "demo2", "--", "sh", "-c", "echo begun; sleep 300")
    assert began.code == 0, began.err
    while "begun" not in cli("logs", name).out:
        time.sleep(0.1)
    Path("hosts.yaml").write_text("version: 1\ndefaults: {docker: process}\nhosts:\n  demo1: {}\n")

    async def in_app() -> list[Any]:
        settings = Settings(dict(os.environ), Path.cwd(), config.load({}, os.environ, Path.cwd()))
        inventory = settings.selection.inventory()
        async with ClusterBackend(settings.places, inventory, inventory.hosts) as backend:
            for _ in range(2):
                rows, found = await backend.runs()
            assert found.answered == {"demo1", "demo2"}
            running = found.get(name)
            assert running is not None
            assert await backend.last_line(running.tasks[0]) == "begun"
            backend.settings.store.remove(name)
            assert (await backend.attach(name)).plan.run_id == name
            return [row_json(row) for row in rows]

    try:
        listed = json.loads(cli("ps", "-a", "-o", "json").out)["runs"]
        assert {row["run"]: row["state"] for row in listed} == {
            "ended": "failed",
            "killed": "left",
            "starting": "starting",
            name: "running",
        }
        assert asyncio.run(in_app()) == listed
    finally:
        assert cli("kill", "-y", name).code == 0


def _token(folder: Path) -> None:
    (folder / "verdict").write_text(replace(FAILED, token="bad0-1").text("r1"))


def _link(folder: Path) -> None:
    (folder / "verdict").rename(folder / "elsewhere")
    (folder / "verdict").symlink_to("elsewhere")


def _pipe(folder: Path) -> None:
    (folder / "verdict").unlink()
    os.mkfifo(folder / "verdict")


def _huge(folder: Path) -> None:
    with (folder / "verdict").open("r+b") as file:
        file.truncate(1 << 40)


def _rubbish(folder: Path) -> None:
    (folder / "verdict").write_bytes(b"\0end\0\xff\n" * 1000)


@pytest.mark.parametrize("forge", [_token, _link, _pipe, _huge, _rubbish])
def test_what_is_no_verdict_of_the_launch_counts_for_nothing(cli: Any, demo_home: Path, forge: Any) -> None:
    """Another launch's, a link, a pipe nobody writes to, a file without end, no JSON: as if none were there."""
    for folder in {plant(demo_home, FAILED), demo_home / "demo1/.local/state/distui/hosts/demo1/r1"}:
        forge(folder)
    (row,) = json.loads(cli("ps", "-o", "json").out)["runs"]
    assert (row["run"], row["state"], row["exit"]) == ("r1", "left", None)
    assert cli("wait", "r1").code == 7
    assert cli("attach", "r1", "--headless").code == 7
    assert left(demo_home) == ["r1", "r1"]
    assert cli("stop", "r1", "-y").code == 0
    assert left(demo_home) == []


def test_values_of_secrets_are_hidden_that_the_writer_did_not_know(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record has the names; the values are this machine's."""
    monkeypatch.setenv("HF_TOKEN", SECRET)
    failure = replace(FAILURE, excerpt=(f"no such user: {SECRET}",), cause=f"{SECRET} is wrong")
    ended = replace(FAILED.ended, failure=failure)
    plant(demo_home, replace(FAILED, ended=ended, ranks=(replace(RANKS[1], words=SECRET),), secrets=("HF_TOKEN",)))
    for words in (("ps",), ("ps", "-o", "json"), ("wait", "r1"), ("wait", "r1", "-o", "ndjson"), ("stop", "r1", "-y")):
        done = cli(*words)
        assert SECRET not in done.out + done.err, words
        assert "***" in done.out + done.err, words


@pytest.mark.parametrize(
    ("words", "code"), [(("wait", "r1"), 1), (("attach", "r1", "--headless"), 1), (("stop", "r1", "-y"), 0)]
)
def test_who_comes_while_another_attempt_may_begin(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], code: int
) -> None:
    """The end of an attempt is the run's only once the next should have begun."""
    monkeypatch.setattr(leftover, "POLL_SECONDS", 0.01)
    looked: list[str] = []
    find = launches.find_launches

    async def found(*args: Any) -> Any:
        looked.append("r1")
        if len(looked) == 3:
            monkeypatch.setattr(leftover, "REST_SECONDS", 0.0)
        return await find(*args)

    for module in (leftover, ending_launch):
        monkeypatch.setattr(module, "find_launches", found)
    plant(demo_home, tried_again())
    done = cli(*words)
    assert (done.code, len(looked) > 2) == (code, True), done.err
    assert "rank 1 on demo2 failed first: exit 3" in done.err
    assert left(demo_home) == (["r1", "r1"] if words[0] == "wait" else [])


def test_who_may_only_look_is_reported_the_end_and_removes_nothing(cli: Any, demo_home: Path) -> None:
    """`attach` cleans up what a killed clean-up left, but for --readonly."""
    plant(demo_home, FAILED)
    for verb in ("attach", "wait"):
        done = cli("--readonly", verb, "r1", *["--headless"] * (verb == "attach"))
        assert (done.code, "rank 1 on demo2 failed first: exit 3" in done.err) == (1, True), done.err
    assert left(demo_home) == ["r1", "r1"]


@pytest.mark.parametrize("words", [("wait", "r1"), ("attach", "r1", "--headless")])
def test_a_run_that_ends_here_while_its_hosts_are_asked(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    """Whoever followed it here has just cleaned up: its end is recorded, though no host has it any more."""
    journal = Journal(RunStore(Path(os.environ["HOME"], ".local/state/distui")).create("r1"))
    journal.write([RunOpened(1.0, "r1", "smoke", "env", None, {0: "demo1", 1: "demo2"}, {0: (0,), 1: (1,)})])

    async def find(*_: Any) -> Any:
        journal.write([FAILED.ended])
        journal.close()
        return None, {}

    monkeypatch.setattr(places, "find", find)
    done = cli(*words)
    assert (done.code, "r1 has ended: failed" in done.err) == (1, True), done.err


@pytest.mark.parametrize("verb", ["wait", "attach", "stop"])
def test_nobody_waits_for_an_attempt_that_should_have_begun_long_ago(cli: Any, demo_home: Path, verb: str) -> None:
    """Whoever had the run gave it up, and its folder stayed on a host."""
    plant(demo_home, replace(tried_again(), ended=replace(tried_again().ended, at=time.time() - 3600)))
    done = cli(verb, "r1", *{"attach": ["--headless"], "stop": ["-y"]}.get(verb, []))
    assert "rank 1 on demo2 failed first: exit 3" in done.err
    assert "waiting whether another begins" not in done.err


@pytest.mark.parametrize("words", [("attach", "r1", "--headless"), ("stop", "r1", "-y")])
def test_the_attempt_that_begins_is_taken_up(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    """Whoever has the run removes what was left of the one before it first."""
    monkeypatch.setattr(leftover, "POLL_SECONDS", 0.01)
    plant(demo_home, tried_again())
    asked: list[str] = []

    async def find(*_: Any) -> Any:
        asked.append("r1")
        if len(asked) == 2:
            remove(demo_home)
        return "attempt 2" if len(asked) == 4 else None, {}

    async def attach(
        settings: object, connector: object, place: object, asked: tuple[str, object], *_: object, **__: object
    ) -> None:
        raise NotFound(f"{asked[0]} is taken up")

    monkeypatch.setattr(places, "find", find)
    for module in (following, ending):
        monkeypatch.setattr(module, "attach", attach)
    done = cli(*words)
    assert "attempt 2 is taken up" in done.err, done.err
    assert "FAILED" not in done.err


def test_a_stop_of_what_is_removed_meanwhile_names_its_end(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt might have begun, and did not."""
    monkeypatch.setattr(leftover, "POLL_SECONDS", 0.01)
    plant(demo_home, tried_again())
    find = launches.find_launches
    looked: list[str] = []

    async def once(*args: Any) -> Any:
        looked.append("r1")
        if len(looked) == 3:
            monkeypatch.setattr(leftover, "REST_SECONDS", 0.0)
        found = await find(*args)
        remove(demo_home)
        return found

    for module in (leftover, ending_launch):
        monkeypatch.setattr(module, "find_launches", once)
    done = cli("stop", "r1", "-y")
    assert (done.code, len(looked) > 2) == (0, True), done.err
    assert "rank 1 on demo2 failed first: exit 3" in done.err


def test_what_another_engine_runs_is_neither_killed_nor_stopped_for_those_who_do_not_see_it(
    cli: Any, demo_home: Path
) -> None:
    """hosts.yaml of this machine has another engine than that of whoever started the run, which goes on."""
    plant(demo_home, None)
    for launched in demo_home.glob("demo*/.local/state/distui/hosts/*/r1/launched"):
        launched.write_text(f"{launched.read_text().rstrip()}\npodman")
    before = left(demo_home)
    listed, stopped = cli("ps"), cli("stop", "r1", "-y")
    assert "unknown" in listed.out and "r1 was started with `docker: podman`" in listed.err
    assert (stopped.code, left(demo_home)) == (6, before)
    assert "left: what r1 has on demo1: started with `docker: podman`" in stopped.err


@pytest.mark.parametrize("verb", ["attach", "wait", "show", "logs", "why", "exec", "rm"])
def test_a_run_of_another_engine_is_none_that_is_not_there(cli: Any, demo_home: Path, verb: str) -> None:
    """It can't be seen from here, which is said as by `ps`; `rm` leaves it the folders that its tasks use."""
    plant(demo_home, None)
    for launched in demo_home.glob("demo*/.local/state/distui/hosts/*/r1/launched"):
        launched.write_text(f"{launched.read_text().rstrip()}\npodman")
    before = left(demo_home)
    words = {"attach": ["--headless"], "exec": ["--rank", "0", "--", "true"], "rm": ["-y"]}.get(verb, [])
    done = cli(verb, "r1", *words)
    assert (done.code, done.out, left(demo_home)) == (6, "", before), done.err
    assert "r1 was started with `docker: podman`, and hosts.yaml here has another engine" in done.err
    assert "write `docker: podman` into hosts.yaml for demo" in done.err


def test_a_stop_of_a_launch_that_another_stop_ends_meanwhile_is_done(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two people stop what a killed launch has left: it is gone for both."""
    plant(demo_home, None)

    async def seen(*args: Any) -> Any:
        found = await launches.find_launches(*args)
        remove(demo_home)
        return found

    monkeypatch.setattr(ending_launch, "find_launches", seen)
    done = cli("stop", "r1", "-y")
    assert (done.code, "r1 is not running; there is nothing to stop" in done.err) == (0, True), done.err
    assert cli("stop", "r1", "-y").code == 7


def test_a_stop_of_a_run_that_another_stop_here_has_ended_meanwhile_is_done(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was recorded here when it began; by the time that the hosts are asked the other one has removed all."""

    async def seen(*args: Any) -> Any:
        RunStore(demo_home / ".local/state/distui").adopt("r1")
        return await launches.find_launches(*args)

    monkeypatch.setattr(ending_launch, "find_launches", seen)
    done = cli("stop", "r1", "-y")
    assert (done.code, "r1 is not running; there is nothing to stop" in done.err) == (0, True), done.err


@pytest.mark.parametrize("verb", ["attach", "wait", "show", "logs", "why", "exec"])
def test_a_launch_without_a_task_is_named_where_a_run_is_asked_for(cli: Any, demo_home: Path, verb: str) -> None:
    """`ps` lists it as starting: that there is no such run would be wrong."""
    for folder in (plant(demo_home, None), *demo_home.glob("demo1/.local/state/distui/hosts/*/r1")):
        (folder / "launched").rename(folder / "launch")
    words = {"attach": ["--headless"], "exec": ["--rank", "0", "--", "true"]}.get(verb, [])
    done = cli(verb, "r1", *words)
    assert (done.code, done.out) == (7, ""), done.err
    assert "r1 is being started by ann@desk since 2026-01-02 03:04:05 UTC: no rank of it is there yet" in done.err
    assert "`distui stop r1` ends it" in done.err


@pytest.mark.parametrize("verb", ["logs", "why", "exec"])
def test_who_asks_for_ranks_of_what_is_left_is_told_that_it_has_ended(cli: Any, demo_home: Path, verb: str) -> None:
    """`ps` and `show` have the run: that there is none of that name would be wrong."""
    plant(demo_home, FAILED)
    before = left(demo_home)
    done = cli(verb, "r1", *(["--rank", "0", "--", "true"] if verb == "exec" else []))
    assert (done.code, done.out, left(demo_home)) == (7, "", before), done.err
    assert "r1 has ended: failed, and its ranks were removed; its logs are where it was followed" in done.err
    assert "`distui show r1` tells how it ended, `distui stop r1` removes what is left on its hosts" in done.err


@pytest.mark.parametrize("verb", ["logs", "why", "exec"])
@pytest.mark.parametrize("away", ["demo3", "other"])
def test_a_silent_host_that_had_ranks_may_still_have_them(cli: Any, demo_home: Path, verb: str, away: str) -> None:
    """The run has not ended for that; one that had none is in nobody's way."""
    Path("hosts.yaml").write_text(
        f"version: 1\ndefaults: {{docker: process}}\nhosts:\n  demo[1-2]: {{}}\n  {away}: {NOWHERE}\n"
    )
    plant(demo_home, replace(FAILED, ranks=(*RANKS, replace(RANKS[1], rank=2, host="demo3"))))
    if away == "other":
        remove(demo_home)
        plant(demo_home, FAILED)
    done = cli(verb, "r1", *(["--rank", "0", "--", "true"] if verb == "exec" else []))
    assert (done.code, "its ranks were removed" in done.err) == ((6, False) if away == "demo3" else (7, True)), done.err
    assert away == "other" or "not reached" in done.err


@pytest.mark.parametrize("verb", ["logs", "why", "exec"])
def test_a_run_that_may_be_tried_again_has_not_ended(cli: Any, demo_home: Path, verb: str) -> None:
    """A stop is nothing to advise then."""
    plant(demo_home, tried_again())
    done = cli(verb, "r1", *(["--rank", "0", "--", "true"] if verb == "exec" else []))
    assert (done.code, "distui stop" in done.err) == (7, False), done.err
    assert "attempt 1 of 3 of r1 has failed, and another may begin" in done.err


def test_whoever_has_the_logs_is_told_where(cli: Any, demo_home: Path) -> None:
    """A stop where the run was followed to its end, of what a host that was away then still has."""
    plant(demo_home, FAILED)
    stored = RunStore(demo_home / ".local/state/distui").adopt("r1")
    stored.write_plan(
        {
            "tasks": [
                {"labels": {"distui.run": "r1", "distui.task": "0", "distui.launch": "beef", "distui.attempt": "1"}}
            ]
        }
    )
    done = cli("stop", "r1", "-y")
    assert f"r1 has ended: failed, as recorded by {FAILED.by}; its logs are in {stored.log_dir}" in done.err
    assert left(demo_home) == []


def test_names_of_secrets_come_back_as_they_were_written() -> None:
    """And a record without them is read as before."""
    named = replace(FAILED, secrets=("A", "B"))
    for record in (FAILED, named):
        output = replace(record, ended=replace(record.ended, log_dir=""))  # a path of Ann's machine, of an older distui
        assert read_record(record.text("r1"), record.token) == output
    value = {**json.loads(named.text("r1")), "secrets": ["A", 1, None]}
    read = read_record(json.dumps(value), named.token)
    assert read is not None and read.secrets == ("A",)
    assert read_record(json.dumps({**value, "secrets": 5}), named.token) is None


ESCAPE = "\x1b[2J\x1b]0;title\x07"


def test_nothing_that_a_verdict_says_steers_the_terminal(cli: Any, demo_home: Path) -> None:
    """Whoever can write to the folder chooses its words, and the folder's name."""
    failure = Failure(1, ESCAPE, 3, ESCAPE, cause=ESCAPE, hint=ESCAPE, excerpt=(ESCAPE,), name=ESCAPE)
    ended = replace(FAILED.ended, failure=failure, warnings=(ESCAPE,))
    ranks = tuple(replace(rank, host=ESCAPE, words=ESCAPE, of=ESCAPE, relation="followed") for rank in RANKS)
    folder = plant(demo_home, EndRecord("beef-1", ESCAPE, ended, ranks), owner=ESCAPE)
    folder.parent.rename(folder.parent.with_name(ESCAPE.replace("/", "")))
    for words in (("ps",), ("show", "r1"), ("wait", "r1"), ("stop", "r1", "-y")):
        done = cli(*words)
        assert "r1" in done.out + done.err, words
        assert not {"\x1b", "\x07"} & set(done.out + done.err), (words, done)


def test_a_clean_up_that_was_killed_half_way_is_told_as_it_ended(
    cli: Any, demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One host has nothing of the run any more, the other all: every rank is told elsewhere, and that a log lacks."""
    name = f"half{os.getpid()}"
    words = ("-H", "demo1,demo2", "--", "sh", "-c", "echo said $RANK; exit $((RANK * 3))")
    assert cli("run", "-d", "-y", "--name", name, *words).code == 0
    while json.loads(cli("ps", "-o", "json").out)["runs"][0]["state"] in ("running", "partial"):
        time.sleep(0.1)
    for folder in demo_home.glob(f"demo*/.local/state/distui/hosts/*/{name}"):
        token = (folder / "launched").read_text().splitlines()[2]
        (folder / "verdict").write_text(replace(FAILED, token=token).text(name))
        if folder.parent.name == "demo1":
            shutil.rmtree(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))

    (row,) = json.loads(cli("ps", "-o", "json").out)["runs"]
    shown = json.loads(cli("show", name, "-o", "json").out)
    for reported in (row, shown):
        assert (reported["state"], reported["exit"], reported["hosts"]) == ("failed", 1, ["demo1", "demo2"])
        assert (reported["warnings"], reported["first_failure"]["rank"]) == ([], 1)
    assert [(rank["rank"], rank["state"], rank["exit"]) for rank in shown["tasks"]] == [
        (0, "exited", 0),
        (1, "exited", 3),
    ]
    done = cli("attach", name, "--headless", "--no-prefix")
    assert (done.code, done.out) == (1, "said 1\n"), done.err
    assert "1 of the run's tasks is on no host any more: logs are where the run was followed" in done.err
    assert name not in left(demo_home)
