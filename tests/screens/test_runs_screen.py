"""Runs: what lives, what is recorded, and what can be done with it."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeBackend, failing, launching, press, screen_text, settle, shot
from measuring import measured

from distui.errors import ContactLost, DistuiError, NotFound
from distui.facts.host import Trouble
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask
from distui.runs.hosts.remains import Remain, Remains
from distui.runs.lines.events import AttemptEnded, RunOpened
from distui.runs.report.history import RunRow
from distui.runs.report.run_words import took_words
from distui.tui.dialogs.confirm import Confirm
from distui.tui.dialogs.text import TextScreen
from distui.tui.runs import compare_screen
from distui.tui.runs.compare_screen import CompareScreen
from distui.tui.runs.screen import RunsScreen
from distui.tui.widgets.rows import RowList


async def test_rows_tell_state_time_and_first_failure(open_app: Any) -> None:
    """Live runs first, those of others too; an ended one says who failed first."""
    async with open_app(start="runs") as (app, _):
        text = screen_text(app)
        shot(app, "runs")
        assert text.index("llm-7f3") < text.index("llm-7f2")
        assert "RUNNING" in text
        assert "failed 1" in text
        assert "r13 node02 CUDA" in text
        assert "2 live" in text


async def test_a_run_without_a_folder_here_is_told_apart(open_app: Any) -> None:
    """The preview says whose a run is, where it is recorded, and how it failed."""
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "j")
        assert "bob@desk" in screen_text(app)
        await press(pilot, "j")
        assert "CUDA error: an illegal memory access" in screen_text(app)


async def test_of_two_runs_of_a_name_what_lives_is_listed(open_app: Any, backend: FakeBackend) -> None:
    """The older one is what is recorded here, until it has a name of its own."""
    lives = backend.rows[0]
    backend.rows.append(replace(lives, state="failed", live=False, recorded=True))
    async with open_app(start="runs") as (app, _):
        assert app.screen.shown[lives.run] is lives
        assert list(app.screen.shown) == [row.run for row in backend.rows[:-1]]


async def test_what_has_ended_is_not_counted_as_live(open_app: Any, backend: FakeBackend) -> None:
    """A detached run that ended by itself is still on its hosts until somebody stops it."""
    goes_on = RunRow("on", "", "running", ("node01",), 1, "bob@desk", time.time(), live=True)
    backend.rows = [goes_on, *(replace(goes_on, run=state, state=state) for state in ("succeeded", "failed", "ended"))]
    async with open_app((120, 36), start="runs") as (app, _):
        assert "1 live   1 failed" in screen_text(app)


async def test_launches_and_what_was_left_are_told_apart(open_app: Any, backend: FakeBackend) -> None:
    """One that is being started can be stopped; of one that was killed, or has ended, a folder is to be removed."""
    old, hosts = time.time() - 3600, ("node01", "node02")
    starting = RunRow("new", "", "starting", hosts, 0, "bob@desk", old, live=True)
    killed = RunRow("killed", "", "left", hosts, 0, "bob@desk", old, live=True)
    ended = RunRow("over", "", "failed", hosts, 2, "bob@desk", old, 9.0, 1, live=True, left=hosts)
    backend.rows = [starting, killed, ended]
    reported = {
        "new": ("STARTING, no rank of it is there yet", ["S  stop"]),
        "killed": ("left: its launch was killed; X removes what it left on its hosts", ["S  stop", "X  prune"]),
        "over": ("failed 1, its folder is still on node[01-02]; X removes it", ["S  stop", "X  prune"]),
    }
    assert [took_words(row)[:2] for row in backend.rows] == ["1h", "", "9s"]
    async with open_app((120, 36), start="runs") as (app, pilot):
        assert "1 live" in screen_text(app)
        for run, (state, chips) in reported.items():
            assert app.screen.chosen.run == run
            text = screen_text(app)
            assert state in text
            last = text.splitlines()[-1]
            assert [chip for chip in ("S  stop", "X  prune") if chip in last] == chips
            await press(pilot, "j")
        await press(pilot, "g", "S")
        assert "its folder on node[01-02]" in screen_text(app)
        assert "It belongs to bob@desk, not to you." in screen_text(app)


async def test_of_one_name_what_has_most_on_hosts_is_shown(open_app: Any, backend: FakeBackend) -> None:
    """A name may be that of a run that lives, and of another launch that was killed; verbs mean the one that lives."""
    row = backend.rows[0]
    killed, starting, recorded = (replace(row, state=word) for word in ("left", "starting", "unknown"))
    recorded = replace(recorded, live=False)
    for rows, chosen in (
        ((killed, row, recorded), row),
        ((starting, row), row),
        ((killed, starting), starting),
        ((recorded, killed), killed),
        ((recorded, replace(recorded, size=1)), recorded),
    ):
        backend.rows = list(rows)
        async with open_app(start="runs") as (app, _):
            assert app.screen.shown == {row.run: chosen}


async def test_a_slow_host_is_not_asked_again_before_it_answers(open_app: Any, backend: FakeBackend) -> None:
    """A list that takes longer than the time between two of them would never be shown."""
    backend.slow = asyncio.Event()
    async with open_app(start="runs") as (app, pilot):
        asked = backend.calls.count(("runs",))
        for _ in range(3):
            app._ask_runs_again()
            await pilot.pause()
        assert backend.calls.count(("runs",)) == asked
        backend.slow.set()
        await settle(pilot)
        assert "llm-7f3" in screen_text(app)
        app._ask_runs_again()
        await settle(pilot)
        assert backend.calls.count(("runs",)) == asked + 1


async def test_enter_follows_what_lives_and_replays_what_ended(open_app: Any, backend: FakeBackend) -> None:
    """Enter attaches to a live run; an ended one is played again from its folder."""
    made = backend.plan("llm-7f2")
    backend.record(made, [*launching(made, 1.0), *failing(made, 5.0)])
    live = backend.follow(backend.plan())
    await live.feed(*launching(live.plan, 1.0))
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "enter")
        assert ("attach", "llm-7f3") in backend.calls
        assert app.screen.crumbs[-1] == "llm-7f3"
        await press(pilot, "escape")
        await press(pilot, "j", "j", "enter")
        assert ("replay", "llm-7f2") in backend.calls
        assert app.screen.crumbs[-1] == "llm-7f2"


async def test_enter_goes_on_with_the_next_attempt_of_a_run_of_another_terminal(
    open_app: Any, backend: FakeBackend
) -> None:
    """Between two attempts it is on no host, and lives all the same: what enter opens is no replay of the first one."""
    live = backend.follow(backend.plan())
    await live.feed(*launching(live.plan, 1.0), AttemptEnded(6.0, 1, 2, None, 2.0))
    backend.elsewhere.add("llm-7f3")
    backend.rows[0] = replace(backend.rows[0], state="retrying", live=False, attempts=2)
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "enter")
        assert [call for call in backend.calls if call[0] in ("attach", "replay")] == [("attach", "llm-7f3")]
        assert "RETRYING" in screen_text(app)
        again, *more = launching(live.plan, 8.0)
        assert isinstance(again, RunOpened)
        await live.feed(replace(again, attempt=2, attempts=2), *more)
        await settle(pilot)
        assert "RUNNING" in screen_text(app)
        assert "attempt 2" in screen_text(app)


async def test_enter_follows_a_run_that_another_terminal_starts(open_app: Any, backend: FakeBackend) -> None:
    """No host lists it before its first rank is there."""
    live = backend.follow(backend.plan())
    await live.feed(*launching(live.plan, 1.0)[:3])
    backend.elsewhere.add("llm-7f3")
    backend.rows[0] = replace(backend.rows[0], state="gone", live=False)
    with live.stored.followed():
        async with open_app(start="runs") as (app, pilot):
            await press(pilot, "enter")
            assert [call for call in backend.calls if call[0] in ("attach", "replay")] == [("attach", "llm-7f3")]
            assert app.screen.crumbs[-1] == "llm-7f3"


@pytest.mark.parametrize(
    "error",
    [
        ContactLost("run llm-7f3 is on no host that answers; not reached:\n  node01: timed out"),
        NotFound("there is no run 'llm-7f3': none of 2 hosts has it any more"),
    ],
)
async def test_enter_says_when_a_run_that_may_live_is_not_there(
    open_app: Any, backend: FakeBackend, error: DistuiError
) -> None:
    """Its hosts do not answer, or were not asked for the list and have nothing of it: what is recorded is shown."""
    made = backend.plan()
    backend.record(made, launching(made, 1.0))
    backend.elsewhere.add("llm-7f3")
    backend.rows[0] = replace(backend.rows[0], state="unknown", live=False)
    async with open_app(start="runs") as (app, pilot):
        backend.error = error
        await press(pilot, "enter")
        assert [call for call in backend.calls if call[0] in ("attach", "replay")] == [
            ("attach", "llm-7f3"),
            ("replay", "llm-7f3"),
        ]
        assert "what is recorded here is shown" in screen_text(app)
        assert app.screen.crumbs[-1] == "llm-7f3"


async def test_of_a_run_that_left_only_folders_enter_shows_what_is_recorded(
    open_app: Any, backend: FakeBackend
) -> None:
    """Nothing of it can be followed; where nothing is recorded, it says what there is."""
    made = backend.plan()
    backend.record(made, [*launching(made, 1.0), *failing(made, 5.0)])
    left = replace(backend.rows[0], state="failed", exit=1, left=("node01", "node02"))
    backend.rows = [left, replace(left, run="other", recorded=False)]
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "j", "enter")
        assert "other does not run any more" in screen_text(app)
        assert "X in Runs removes it" in screen_text(app)
        await press(pilot, "k", "enter")
        assert app.screen.crumbs[-1] == "llm-7f3"
        assert [call for call in backend.calls if call[0] in ("attach", "replay")] == [("replay", "llm-7f3")]


@pytest.mark.parametrize("recorded", [False, True])
async def test_enter_waits_for_the_next_attempt_of_a_run_that_is_elsewhere(
    open_app: Any, backend: FakeBackend, recorded: bool
) -> None:
    """Its hosts have no more than folders of the one that failed; what is recorded here may be older."""
    live = backend.follow(backend.plan())
    await live.feed(*launching(live.plan, 1.0))
    backend.elsewhere.add("llm-7f3")
    left = replace(backend.rows[0], state="failed", exit=1, left=("node01",), recorded=recorded)
    backend.rows = [replace(left, attempt=1, attempts=2)]
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "enter")
        assert [call for call in backend.calls if call[0] in ("attach", "replay")] == [("attach", "llm-7f3")]
        assert app.screen.crumbs[-1] == "llm-7f3"


async def test_who_goes_elsewhere_while_hosts_are_asked_for_a_run_is_left_there(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds with a host that is out of reach: what is typed by then is for another view."""
    live = backend.follow(backend.plan())
    await live.feed(*launching(live.plan, 1.0))
    backend.elsewhere.add("llm-7f3")
    for goes in (True, False):
        answers = asyncio.Event()

        async def attach(run: str, say: Any, answers: asyncio.Event = answers) -> Any:
            await answers.wait()
            return live

        monkeypatch.setattr(backend, "attach", attach)
        async with open_app(start="runs") as (app, pilot):
            await press(pilot, "enter", *(["1"] if goes else []))
            there = app.screen
            answers.set()
            await settle(pilot)
            assert (app.screen is there, "llm-7f3 can be opened now" in screen_text(app)) == (goes, goes)


async def test_a_run_that_can_be_followed_closes_no_question(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether to remove another, say: it was closed without an answer."""
    live = backend.follow(backend.plan())
    await live.feed(*launching(live.plan, 1.0))
    backend.elsewhere.add("llm-7f3")
    answers = asyncio.Event()

    async def attach(run: str, say: Any) -> Any:
        await answers.wait()
        return live

    monkeypatch.setattr(backend, "attach", attach)
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "enter", "S")
        there = app.screen
        assert isinstance(there, Confirm)
        answers.set()
        await settle(pilot)
        assert app.screen is there
        assert "llm-7f3 can be opened now" in str([notice.message for notice in app._notifications])


async def test_who_goes_elsewhere_while_the_next_attempt_is_waited_for_is_left_there(
    open_app: Any, backend: FakeBackend
) -> None:
    """It may take a minute: that it has begun is said, and enter opens it then; who stays is shown it."""
    live = backend.follow(backend.plan())
    await live.feed(*launching(live.plan, 1.0))
    backend.elsewhere.add("llm-7f3")
    backend.rows = [replace(backend.rows[0], state="failed", exit=1, left=("node01",), attempt=1, attempts=2)]
    for goes in (True, False):
        backend.next_attempt = asyncio.Event()
        async with open_app(start="runs") as (app, pilot):
            await press(pilot, "enter")
            assert "has failed; waiting" in screen_text(app)
            await press(pilot, *(["1"] if goes else []))
            there = app.screen
            backend.next_attempt.set()
            await settle(pilot)
            assert (app.screen is there, "llm-7f3 can be opened now" in screen_text(app)) == (goes, goes)
            if goes:
                await press(pilot, "3", "enter")
            assert app.screen.crumbs[-1] == "llm-7f3"


async def test_a_plan_is_a_text_and_two_are_compared(open_app: Any, backend: FakeBackend) -> None:
    """y shows the whole plan; space marks one run, d compares it with another."""
    for name, hosts in (("llm-7f2", ("node01", "node02")), ("llm-7f3", ("node03", "node04"))):
        made = backend.plan(name, hosts)
        backend.record(made, launching(made, 1.0))
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "y")
        assert isinstance(app.screen, TextScreen)
        assert "torch" in screen_text(app) or "pytorch" in screen_text(app)
        await press(pilot, "escape")
        await press(pilot, "space", "j", "j", "d")
        assert isinstance(app.screen, CompareScreen)
        while not app.screen.sides:
            await pilot.pause(0.02)
        await settle(pilot)
        shot(app, "diff")
        text = screen_text(app)
        assert "llm-7f3 to llm-7f2" in text
        assert "node01" in text and "neither has a curve" in text


async def test_over_time_both_curves_begin_where_their_run_did(open_app: Any, backend: FakeBackend) -> None:
    """One was taken up ten minutes after its start, and measured from then on for ten."""
    for number, started in (("llm-7f2", 600.0), ("llm-7f3", 1200.0)):
        live = backend.follow(backend.plan(number))
        measured(live)
        at = next(i for i, row in enumerate(backend.rows) if row.run == number)
        backend.rows[at] = replace(backend.rows[at], started=time.time() - started)
    async with open_app((120, 36), start="runs") as (app, pilot):
        await press(pilot, "space", "j", "j", "d")
        while not app.screen.sides:
            await pilot.pause(0.02)
        await press(pilot, "t")
        axis = next((line for line in screen_text(app).splitlines() if " 15m" in line), screen_text(app))
        assert axis.split()[:1] == ["0"]


async def test_a_long_difference_is_read_whole(open_app: Any, backend: FakeBackend) -> None:
    """On as many rows as it needs, again when the window changes."""
    long = " ".join(f"--option-{number} {number}" for number in range(20))
    for name, last in (("llm-7f2", "end-of-old"), ("llm-7f3", "end-of-new")):
        made = backend.plan(name, ("node01",))
        words = (*made.tasks[0].start, f"{long} {last}")
        made = replace(made, tasks=(replace(made.tasks[0], start=words), *made.tasks[1:]))
        backend.record(made, launching(made, 1.0))
    async with open_app((80, 24), start="runs") as (app, pilot):
        await press(pilot, "space", "j", "j", "d")
        while not app.screen.sides:
            await pilot.pause(0.02)
        await settle(pilot)
        narrow = len(app.screen.query_one(RowList).rows)
        shown = [text for _, text in app.screen._rows]
        assert any("end-of-old" in text for text in shown) and all(len(text) <= 77 for text in shown)
        await pilot.resize_terminal(200, 50)
        await settle(pilot)
        assert "end-of-old" in screen_text(app)
        assert len(app.screen.query_one(RowList).rows) < narrow


async def two_runs(backend: FakeBackend) -> tuple[Any, Any]:
    """Two runs of the table, as they are compared."""
    for name in ("llm-7f3", "llm-7f2"):
        live = backend.follow(backend.plan(name))
        await live.feed(*launching(live.plan, 1.0))
    one, other = ((row, backend.live[row.run]) for row in backend.rows if row.run in backend.live)
    return one, other


async def test_plans_are_compared_in_the_background(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of hundreds of ranks take long, in which nothing moved and no key was heard."""
    asked: list[bool] = []

    def slow(old: Any, new: Any) -> str:
        asked.append(threading.current_thread() is threading.main_thread())
        return "a line that differs"

    monkeypatch.setattr(compare_screen, "compare", slow)
    both = await two_runs(backend)
    async with open_app(start="runs") as (app, pilot):
        app.push_screen(CompareScreen(*both))
        await settle(pilot)
        assert asked == [False]
        assert "a line that differs" in screen_text(app)


async def test_plans_are_copied_once_they_are_compared(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that there is nothing to copy but that they are being compared."""
    goes_on = threading.Event()

    def slow(old: Any, new: Any) -> str:
        goes_on.wait(60)
        return "a line that differs"

    monkeypatch.setattr(compare_screen, "compare", slow)
    both = await two_runs(backend)
    async with open_app(start="runs") as (app, pilot):
        app.push_screen(CompareScreen(*both))
        while not app.screen.query(RowList) or "comparing the plans" not in screen_text(app):
            await pilot.pause(0.02)
        app.screen.action_copy_all()
        await pilot.pause()
        before, said = app.clipboard, [notice.message for notice in app._notifications]
        goes_on.set()
        while not app.screen.compared:
            await pilot.pause(0.02)
        app.screen.action_copy_all()
        assert (before, said) == ("", ["the plans are still being compared"])
        assert "a line that differs" in app.clipboard


async def test_two_marked_runs_are_compared_wherever_the_cursor_is(open_app: Any, backend: FakeBackend) -> None:
    """The older one first; a third mark takes the place of the oldest."""
    for name, hosts in (("llm-7f2", ("node01", "node02")), ("llm-7f3", ("node03", "node04"))):
        made = backend.plan(name, hosts)
        backend.record(made, launching(made, 1.0))
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "G", "space", "g", "space", "j", "j", "space", "k")
        assert app.screen.marked == ("llm-7f3", "llm-7f2")
        assert "2 marked" in screen_text(app)
        await press(pilot, "d")
        assert "llm-7f2 to llm-7f3" in screen_text(app)
        await press(pilot, "escape", "escape")
        assert app.screen.marked == ()


async def test_marks_are_of_runs_that_a_filter_hides(open_app: Any, backend: FakeBackend) -> None:
    """Of two marked runs the filter hides one: those two are compared, not the one under the cursor."""
    for name in ("llm-7f2", "llm-7f3", "llm-7f1"):
        backend.record(backend.plan(name), launching(backend.plan(name), 1.0))
    backend.rows.append(replace(backend.rows[2], run="llm-7f1", started=1.0))
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "space")
        app.screen.filter_text = "failed"
        app.screen.filter_changed()
        assert list(app.screen.shown) == ["llm-7f2", "llm-7f1"]
        await press(pilot, "g", "space", "G")
        assert (app.screen.marked, app.screen.chosen.run) == (("llm-7f3", "llm-7f2"), "llm-7f1")
        await press(pilot, "d")
        assert isinstance(app.screen, CompareScreen)
        assert "llm-7f2 to llm-7f3" in screen_text(app)


async def test_the_run_before_is_not_looked_for_in_a_filter(open_app: Any, backend: FakeBackend) -> None:
    """Without a mark: of all the job's runs, not the nearest that the filter shows."""
    for name in ("llm-7f2", "llm-7f3", "llm-7f1"):
        backend.record(backend.plan(name), launching(backend.plan(name), 1.0))
    backend.rows.append(replace(backend.rows[0], run="llm-7f1", live=False, started=1.0))
    async with open_app(start="runs") as (app, pilot):
        app.screen.filter_text = "running"
        app.screen.filter_changed()
        assert list(app.screen.shown) == ["llm-7f3", "vit-2b1", "llm-7f1"]
        await press(pilot, "g", "d")
        assert isinstance(app.screen, CompareScreen)
        assert "llm-7f2 to llm-7f3" in screen_text(app)


async def test_the_run_before_of_one_whose_name_another_job_has(open_app: Any, backend: FakeBackend) -> None:
    """A filter shows mine, not a colleague's of that name which lives."""
    for name in ("llm-7f2", "llm-7f1"):
        backend.record(backend.plan(name), launching(backend.plan(name), 1.0))
    mine = next(row for row in backend.rows if row.run == "llm-7f2")
    others = replace(backend.rows[0], run="llm-7f2", job="other", owner="bob@desk", recorded=False)
    backend.rows = [others, *backend.rows, replace(mine, run="llm-7f1", started=1.0)]
    async with open_app(start="runs") as (app, pilot):
        app.screen.filter_text = "failed"
        app.screen.filter_changed()
        assert (app.screen.shown["llm-7f2"].job, app.screen.known["llm-7f2"].job) == ("llm-pretrain", "other")
        await press(pilot, "g", "d")
        assert isinstance(app.screen, CompareScreen)
        assert "llm-7f1 to llm-7f2" in screen_text(app)


async def test_a_run_started_elsewhere_tells_what_its_labels_say(open_app: Any, backend: FakeBackend) -> None:
    """y shows tasks, ranks and owner of a run whose plan is not here, and says where the plan is."""
    labels = TaskLabels("vit-2b1", 0, (0, 1), "node04", "vit", "bob@desk", gpus=(0, 1), world_size=2)
    task = FoundTask("node04", "c0ffee" * 10, labels, {}, True, "running")
    async with open_app(start="runs") as (app, pilot):
        app._found = FoundRuns((FoundRun("vit-2b1", (task,)),), {})
        await press(pilot, "j", "y")
        text = screen_text(app)
        assert "Started by bob@desk" in text
        assert "0     node04  worker  0-1    0-1   running" in text
        assert "distui show --plan vit-2b1" in text


async def test_a_stop_of_a_part_of_a_run_says_what_was_not_found(open_app: Any, backend: FakeBackend) -> None:
    """Hosts that the app was not opened for may have the rest: the question names that, too."""
    labels = TaskLabels("vit-2b1", 0, (0, 1), "node04", "vit", "bob@desk", world_size=4)
    task = FoundTask("node04", "c0ffee" * 10, labels, {}, True, "running")
    async with open_app(start="runs") as (app, pilot):
        app._found = FoundRuns((FoundRun("vit-2b1", (task,)),), {})
        await press(pilot, "j", "S")
        assert isinstance(app.screen, Confirm)
        assert "not found: ranks 2-3, on hosts that were not asked, or removed" in screen_text(app)


@pytest.mark.parametrize("leaves_out", [False, True])
async def test_a_run_that_may_go_on_elsewhere_is_not_offered_for_removal(
    open_app: Any, backend: FakeBackend, leaves_out: bool
) -> None:
    """Opened for some hosts the app does not know what others have."""
    backend.leaves_out = leaves_out
    backend.rows = [RunRow("r", "", "left", ("node01",), 0, "bob@desk", 1.0, live=True, begun=True)]
    async with open_app((160, 36), start="runs") as (app, _):
        text = screen_text(app)
        assert ("X removes it" in text, "others were not asked (-H)" in text) == (not leaves_out, leaves_out)


async def test_a_stop_names_what_the_plan_has_on_hosts_that_were_not_asked(open_app: Any, backend: FakeBackend) -> None:
    """It is ended there, too, though the app was opened for others."""
    made = backend.plan("llm-7f3", ("node01", "node02"))
    backend.record(made, launching(made, 1.0))
    backend.elsewhere.add("llm-7f3")
    task = made.tasks[0]
    labels = TaskLabels("llm-7f3", 0, task.ranks, task.host, "llm", world_size=made.world_size)
    found = FoundTask(task.host, "c0ffee" * 10, labels, {}, True, "running")
    async with open_app(start="runs") as (app, pilot):
        app._found = FoundRuns((FoundRun("llm-7f3", (found,)),), {}, frozenset({task.host}))
        await press(pilot, "S")
        assert isinstance(app.screen, Confirm)
        text = " ".join(screen_text(app).split())
        assert "node01 docker c0ffee" in text
        assert "node02 ranks 8-15 by its plan not asked" in text
        assert "not found: ranks 1-7, on hosts" in text


async def test_prune_asks_and_only_takes_what_ended(open_app: Any, backend: FakeBackend) -> None:
    """X on a live run says to stop it first; on an ended one it asks, naming every thing that goes and its bytes."""
    box, folder = "docker container 0a1b2c3d4e5f, task 0, exited", "~/.local/state/distui/hosts/node01/llm-7f2"
    backend.left = Remains(
        (Remain("node01", box, 20_000_000), Remain("node01", folder, 4096), Remain("here", "/runs/llm-7f2, 9 files")),
        {"node02": Trouble("timeout", "node02 does not answer")},
        (0, 1, 2, 3, 6),
    )
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "X")
        assert not isinstance(app.screen, Confirm)
        await press(pilot, "j", "j", "X")
        assert isinstance(app.screen, Confirm)
        text = screen_text(app)
        shot(app, "prune")
        for words in (f"node01   {box}   20 MB", folder, "here     /runs/llm-7f2, 9 files", "20 MB in all",
                      "node02 can't be asked",
                      "The log of ranks 00-03 06 was not read to its end here."):  # fmt: skip
            assert words in text
        await press(pilot, "right", "enter")
        assert ("prune", "llm-7f2") in backend.calls
        await settle(pilot)
        assert "llm-7f2" not in app.screen.shown


async def test_a_removal_goes_on_while_another_is_asked_for(open_app: Any, backend: FakeBackend) -> None:
    """Several runs are removed one after the other; the question for the next one gives up none."""
    first, second = (replace(row, run=name) for name in ("old-1", "old-2") for row in backend.rows[2:3])
    backend.rows, backend.left = [first, second], Remains((Remain("node01", "its folder", 4096),), {}, ())
    backend.held.clear()
    async with open_app(start="runs") as (_, pilot):
        await press(pilot, "X")
        await press(pilot, "right", "enter")
        await press(pilot, "j", "X")
        await press(pilot, "right", "enter")
        backend.held.set()
        await settle(pilot)
        assert [call[1] for call in backend.calls if call[0] == "pruned"] == ["old-1", "old-2"]


async def test_a_stop_goes_on_under_another_question(open_app: Any, backend: FakeBackend) -> None:
    """S once more, and Cancel: the run is stopped to its end all the same."""
    row = next(row for row in backend.rows if row.run == "llm-7f2")
    backend.rows = [replace(row, state="detached", exit=None, failure=None)]
    backend.held.clear()
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "S")
        await press(pilot, "right", "enter")
        await press(pilot, "S")
        assert isinstance(app.screen, Confirm)
        await press(pilot, "escape")
        backend.held.set()
        await settle(pilot)
        assert ("stopped", "llm-7f2") in backend.calls


async def test_hosts_that_cannot_be_asked_are_one_line_for_one_reason(open_app: Any) -> None:
    """With all their names."""
    async with open_app(start="runs") as (app, pilot):
        down = {f"n{i}": Trouble("refused", f"n{i} (10.0.0.{i}) refuses connections") for i in (1, 2, 3)}
        app._found = FoundRuns((), down)
        app.screen.filter_changed()
        await settle(pilot)
        assert screen_text(app).count("refuses connections") == 1
        assert "not asked: n[1-3]: refuses connections" in screen_text(app)


async def test_no_runs_say_what_to_do(open_app: Any, backend: FakeBackend) -> None:
    """An empty history says where runs come from."""
    backend.rows = []
    async with open_app(start="runs") as (app, _):
        assert "no runs yet" in screen_text(app)
        assert app.found == FoundRuns((), {})


async def test_back_from_a_run_the_list_tells_how_it_ended(open_app: Any, backend: FakeBackend) -> None:
    """It is asked again at once: a run seen to fail must not stand there as running."""
    live = backend.follow(backend.plan())
    await live.feed(*launching(live.plan, 1.0))
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, "enter")
        backend.rows = [replace(row, state="failed", live=False, exit=1) for row in backend.rows]
        await press(pilot, "escape")
        assert "RUNNING" not in screen_text(app)


async def test_a_run_of_hosts_that_were_not_asked_can_be_stopped(open_app: Any, backend: FakeBackend) -> None:
    """It may live; one of which all its hosts say that they have nothing can't."""
    row = next(row for row in backend.rows if row.run == "llm-7f2")
    states = ("unknown", "detached", "retrying", "gone")
    backend.rows = [replace(row, run=state, state=state, exit=None, failure=None) for state in states]
    async with open_app((120, 36), start="runs") as (app, pilot):
        for state in states:
            assert app.screen.chosen.run == state
            assert ("S  stop" in screen_text(app).splitlines()[-1]) == (state != "gone")
            await press(pilot, "S")
            assert isinstance(app.screen, Confirm) == (state != "gone")
            if state != "gone":
                assert "16 ranks on node[01-02]" in screen_text(app)
                await press(pilot, "right", "enter")
                assert ("stop", state, None, row.owner) in backend.calls
            await press(pilot, "j")


async def test_chips_are_those_that_the_run_can_be_asked_for(open_app: Any, backend: FakeBackend) -> None:
    """What lives can be stopped, what has ended runs again or is removed; of no run there is nothing."""
    async with open_app((120, 36), start="runs") as (app, pilot):
        await press(pilot, "g")
        assert app.screen.chosen.live
        assert [word for word in ("S  stop", "R  run again", "X  prune") if word in screen_text(app)] == ["S  stop"]
        await press(pilot, "G", "slash", *"llm-7f2", "enter")
        assert not app.screen.chosen.live
        row = screen_text(app).splitlines()[-1]
        assert "R  run again" in row and "X  prune" in row and "S  stop" not in row
        await press(pilot, "slash", *"nothing", "enter")
        row = screen_text(app).splitlines()[-1]
        assert not [word for word in ("stop", "run again", "prune", "open", "plan") if word in row], row


@pytest.mark.parametrize("key", ["y", "d"])
async def test_what_is_read_opens_over_no_other_view(
    open_app: Any, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The records of long runs take a moment, in which one may have gone elsewhere."""
    for name in ("llm-7f2", "llm-7f3"):
        backend.record(backend.plan(name), launching(backend.plan(name), 1.0))
    read, live = asyncio.Event(), RunsScreen._live

    async def late(screen: RunsScreen, row: RunRow) -> Any:
        await read.wait()
        return await live(screen, row)

    monkeypatch.setattr(RunsScreen, "_live", late)
    async with open_app(start="runs") as (app, pilot):
        await press(pilot, key, "1")
        read.set()
        while any(worker.name in ("plan", "diff") and not worker.is_finished for worker in app.workers):
            await pilot.pause(0.01)
        await settle(pilot)
        assert len(app.screen_stack) == 1


async def test_the_cursor_stays_in_sight_when_other_runs_come(backend: FakeBackend, open_app: Any) -> None:
    """Its keys are about the run that is seen under it."""
    one = replace(backend.rows[3], recorded=False)
    backend.rows = [replace(one, run=f"old-{number:02d}") for number in range(40)]
    async with open_app((120, 36), start="runs") as (app, pilot):
        await press(pilot, *["down"] * 12)
        backend.rows = [*(replace(one, run=f"new-{number:02d}") for number in range(30)), *backend.rows]
        app.ask_runs()
        await settle(pilot)
        await settle(pilot)
        rows = app.screen.query_one(RowList)
        assert (rows.key, rows.at) == ("old-12", 42)
        listed = screen_text(app).splitlines()[: rows.region.bottom]
        assert any(row.startswith("▌") and "old-12" in row for row in listed)
