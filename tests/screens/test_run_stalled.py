"""A run that stands still, in its view and in the list of runs: never green, and the culprit a key away."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from fakes import FakeBackend, FakeLive, colours, launching, lines, sample, screen_text, shot
from measuring import measured
from standing import answer, hang
from training import PATTERN, opened, settled, until

from distui.monitor.problems import of_run
from distui.plan.model import RunPlan
from distui.runs.lines.events import GpuReading, Progressed, RanksAsked, RankSilent, RanksStepped, RankStep, RunStalled
from distui.runs.lines.explanation import Explanation, RankPlace
from distui.runs.state.standstill import Standstill, standstill
from distui.tui.metrics.screen import MetricsScreen
from distui.tui.run.ranks.rank_list import RankList
from distui.tui.why.screen import WhyScreen

SIZES = [(80, 24), (120, 36), (200, 50)]


def big(backend: FakeBackend) -> RunPlan:
    """24 ranks on three hosts."""
    return dataclasses.replace(backend.plan("big", ("node01", "node02", "node04")), progress=PATTERN, stall_after=300.0)


def steps(made: RunPlan, at: float, step: int, **other: int) -> RanksStepped:
    """All ranks are at this step, but for those named: `r7=35`."""
    ranks = sorted(rank for task in made.tasks for rank in task.ranks)
    return RanksStepped(at, tuple(RankStep(rank, other.get(f"r{rank}", step), at) for rank in ranks))


async def stuck(backend: FakeBackend, *, ago: float = 3.5 * 3600, **other: int) -> FakeLive:
    """A run of 24 whose last step came so many seconds ago."""
    made, now = big(backend), time.time()
    live = backend.follow(made)
    await live.feed(*launching(made, now - 4 * 3600))
    await live.feed(*(lines(made, rank, now - ago, "on") for task in made.tasks for rank in task.ranks))
    await live.feed(*(steps(made, now - ago - 20 + i, i, **(other if i == 20 else {})) for i in range(21)))
    return live


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_without_steps_is_not_green(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """Busy GPUs or not: the headline says since when and after which step, and its sign is that of a quiet one."""
    live = await stuck(backend)
    async with open_app(size) as (app, pilot):
        screen = await opened(pilot, live)
        await live.feed(*(sample(host, time.time()) for host in live.plan.hosts))
        await settled(pilot)
        text = screen_text(app)
        shot(app, f"stalled-{size[0]}")
        assert "STALLED" in text and "last step 20" in text and "RUNNING" not in text
        assert not any(row.sign == "running" for row in screen.feed.rows())
        amber, green = screen.palette.watch.color, screen.palette.good.color
        assert colours(app, "STALLED 3h, last step 20") == {amber} != {green}
        assert colours(app, f"{screen.glyphs.state('quiet')} STALLED") == {amber}
        await live.feed(steps(live.plan, time.time(), 21))
        await settled(pilot)
        assert "RUNNING" in screen_text(app) and "STALLED" not in screen_text(app)
        assert colours(app, "RUNNING") == {green}


async def test_what_its_gpus_do_stands_beside_it(open_app: Any, backend: FakeBackend) -> None:
    """Full load at little power is waiting; at much power it is not said."""
    live = await stuck(backend)
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        for watts, waits in ((110.0, True), (650.0, False)):
            for host in live.plan.hosts:
                seen = sample(host, time.time())
                cards = tuple(dataclasses.replace(gpu, power_w=watts, power_limit_w=700.0) for gpu in seen.gpus)
                await live.feed(dataclasses.replace(seen, gpus=cards))
            await settled(pilot)
            assert ("96 % at 110 W: waiting in a collective" in screen_text(app)) is waits


@pytest.mark.parametrize("size", SIZES)
async def test_n_goes_to_the_culprit(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """One of 24 that is a step behind, where no more steps come; then the Why panel tells of it: two keys."""
    live = await stuck(backend, r13=19)
    backend.reported = answer(live.plan, time.time())
    async with open_app(size) as (app, pilot):
        screen = await opened(pilot, live)
        assert screen.panes.log_pane.rank != 13
        await pilot.press("n")
        await settled(pilot)
        assert screen.panes.log_pane.rank == 13 and screen.panes.ranks.rank == 13
        await pilot.press("w")
        await settled(pilot)
        assert isinstance(app.screen, WhyScreen)


async def test_the_culprit_is_named_though_the_others_differ_by_a_step(open_app: Any, backend: FakeBackend) -> None:
    """Half of 24 are a step ahead of the others, and one is far behind: the banner and `n` know only that one."""
    live = await stuck(backend, **{f"r{rank}": 19 for rank in range(12)}, r13=9)
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        assert "STALLED" in screen_text(app) and "Rank 13 is 11 steps behind the others" in screen_text(app)
        assert screen.failures.suspects == [13] and "culprit" in screen_text(app)
        await pilot.press("n")
        await settled(pilot)
        assert screen.panes.log_pane.rank == 13
    await live.feed(RunStalled(time.time(), True, time.time() - 3.5 * 3600, 20))
    assert [problem.text.partition("; ")[2] for problem in of_run("big", live.state, time.time())] == [
        "rank 13 is behind"
    ]


async def test_n_begins_with_the_culprit_though_a_pane_has_it(open_app: Any, backend: FakeBackend) -> None:
    """Rank 0, which the view opens with, holds the others up, and 5 is behind: the worst is not passed over."""
    live = await stuck(backend, r5=19)
    await live.feed(RanksAsked(time.time(), hang(live.plan, rank=0, since=time.time() - 400)))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        assert screen.panes.log_pane.rank == 0 and screen.failures.suspects == [0, 5]
        gone = []
        for key in ("n", "n", "n", "N"):
            await pilot.press(key)
            await settled(pilot)
            gone.append((screen.panes.log_pane.rank, screen.panes.ranks.rank))
        assert gone == [(0, 0), (5, 5), (0, 0), (5, 5)]
        screen.failures.command_number(7)
        await settled(pilot)
        await pilot.press("n")
        await settled(pilot)
        assert screen.panes.log_pane.rank == 0


async def test_one_of_two_ranks_is_the_culprit(open_app: Any, backend: FakeBackend) -> None:
    """Half of them are behind: in a run that stands still the one that is waited for is named all the same."""
    made = dataclasses.replace(backend.plan("two", ("node01", "node02")), progress=PATTERN, stall_after=300.0)
    made = dataclasses.replace(made, tasks=(made.tasks[0], made.tasks[8]))
    live, now = backend.follow(made), time.time()
    await live.feed(*launching(made, now - 3000), *(lines(made, rank, now - 600, "on") for rank in (0, 8)))
    await live.feed(RanksStepped(now - 600, (RankStep(0, 104, now - 600), RankStep(8, 35, now - 600))))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        assert "Rank 8 is 69 steps behind the others" in screen_text(app)
        await pilot.press("n")
        await settled(pilot)
        assert screen.panes.log_pane.rank == 8


async def test_step_and_lag_in_the_list(open_app: Any, backend: FakeBackend) -> None:
    """A rank far behind is named though the run goes on; its host is open and at the top."""
    live = await stuck(backend, ago=0.0, r13=3)
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        text = screen_text(app)
        keys = [row.key for row in screen.panes.ranks.list.rows]
        assert "RUNNING" in text and "1 to watch" in text and "behind" in text
        assert "STEP" in text and "LAG" in text
        assert keys[:2] == ["heads", "host node02"] and "13" in keys and "0" not in keys
        row = next(line for line in text.splitlines() if "13  behind" in line)
        assert row[:39].split()[-2:] == ["3", "17"]


async def test_a_host_that_was_opened_by_hand_stays_open_when_it_has_a_problem(
    open_app: Any, backend: FakeBackend
) -> None:
    """Whoever walked through its ranks sees the one that falls behind.

    Folded by hand it stays so, until another one does.
    """
    live = await stuck(backend, ago=0.0)
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        ranks: RankList = screen.panes.ranks

        def keys() -> list[str]:
            return [row.key for row in ranks.list.rows]

        assert "13" not in keys()
        ranks.go(13)
        await settled(pilot)
        assert "13" in keys() and keys()[1] == "host node01"
        now = time.time()
        await live.feed(*(steps(live.plan, now, 21 + i, r13=20) for i in range(20)))
        await settled(pilot)
        assert keys()[1] == "host node02" and "13" in keys() and "0" not in keys()
        ranks.list.focus()
        ranks.list.go("host node02")
        await pilot.press("enter")
        await settled(pilot)
        assert "13" not in keys()
        await live.feed(steps(live.plan, now + 1, 41, r13=20))
        await settled(pilot)
        assert "13" not in keys(), "the problem is the same"
        await live.feed(*(steps(live.plan, now + 2 + i, 42 + i, r13=20, r12=41) for i in range(20)))
        await settled(pilot)
        assert "13" in keys() and "12" in keys()
        await pilot.press("enter", "enter")
        await settled(pilot)
        assert "13" in keys()


async def test_o_orders_by_lag(open_app: Any, backend: FakeBackend) -> None:
    """Who is furthest behind first, across hosts, and back; the cursor is on the first one."""
    live = await stuck(backend, ago=0.0, r13=3, r20=10)
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        ranks: RankList = screen.panes.ranks
        await pilot.press("o")
        await settled(pilot)
        assert [row.key for row in ranks.list.rows][:4] == ["heads", "13", "20", "0"] and ranks.rank == 13
        assert "by lag" in screen_text(app)
        await pilot.press("o")
        await settled(pilot)
        assert ranks.list.rows[1].key == "host node02"


async def test_what_ranks_reported_stands_there(open_app: Any, backend: FakeBackend) -> None:
    """Who holds the others up is stuck, comes first, and `n` goes there though others are behind, too."""
    live = await stuck(backend, r20=19)
    place = RankPlace(13, "node02", "stopped by a signal", culprit=True)
    found = Explanation("hang", "rank 13 has not entered all_reduce #21", "certain", (place,), since=time.time() - 40)
    await live.feed(RanksAsked(time.time(), found))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        assert "13  stuck" in screen_text(app) and "Rank 13 has not entered all_reduce #21" in screen_text(app)
        await pilot.press("n")
        await settled(pilot)
        assert screen.panes.log_pane.rank == 13
        assert "stopped by a signal" in screen_text(app)


async def test_a_run_that_is_quiet_all_over(open_app: Any, live: FakeLive) -> None:
    """Without steps the rule of silence holds; the headline has no step then."""
    now = time.time()
    await live.feed(*launching(live.plan, now - 300))
    hosts = {rank: task.host for task in live.plan.tasks for rank in task.ranks}
    await live.feed(*(RankSilent(now, rank, host, True, 120.0) for rank, host in hosts.items()))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        assert "STALLED" in screen_text(app) and "last step" not in screen_text(app)
        assert "No rank says another line" in screen_text(app)


async def test_one_rank_with_one_gpu_waits_for_nobody(open_app: Any, backend: FakeBackend) -> None:
    """What its GPU does stands there, not that it waits in a collective."""
    made = backend.plan("alone", ("node01",))
    task = made.tasks[0]
    one = dataclasses.replace(task, ranks=(0,), gpus=(0,), rank_gpus=((0,),))
    made = dataclasses.replace(made, tasks=(one,), world_size=1, progress=PATTERN, stall_after=300.0)
    live, now = backend.follow(made), time.time()
    await live.feed(*launching(made, now - 4 * 3600))
    await live.feed(*(steps(made, now - 3 * 3600 + i, i) for i in range(21)))
    seen = sample("node01", now, count=1)
    await live.feed(dataclasses.replace(seen, gpus=(GpuReading(0, 96.0, power_w=110.0, power_limit_w=700.0),)))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        text = screen_text(app)
        assert "STALLED" in text
        assert "No rank says another step; GPU 96 % at 110 W" in text
        assert "waiting" not in text


async def test_a_silent_run_whose_gpus_spin(open_app: Any, live: FakeLive) -> None:
    """No steps, no lines, and GPUs at full load that only wait: amber, and what they do stands beside it."""
    now = time.time()
    await live.feed(*launching(live.plan, now - 3.5 * 3600))
    for host in live.plan.hosts:
        seen = sample(host, now)
        cards = tuple(dataclasses.replace(gpu, power_w=110.0, power_limit_w=700.0) for gpu in seen.gpus)
        await live.feed(dataclasses.replace(seen, gpus=cards))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        text = screen_text(app)
        assert "STALLED 3h" in text and "RUNNING" not in text
        assert "No rank says another line; GPUs 96 % at 110 W: waiting in a collective" in text
        assert not any(row.sign == "running" for row in screen.feed.rows())


async def test_a_last_save_that_hangs(open_app: Any, backend: FakeBackend) -> None:
    """All steps are done and no rank says a line: amber, and it is not steps that are waited for."""
    live, now = await stuck(backend), time.time()
    await live.feed(Progressed(now, 0, "node01", {"step": 20.0, "total": 20.0}))
    hosts = {rank: task.host for task in live.plan.tasks for rank in task.ranks}
    await live.feed(*(RankSilent(now, rank, host, True, 400.0) for rank, host in hosts.items()))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        text = screen_text(app)
        assert "STALLED" in text and "last step 20" in text and "RUNNING" not in text
        assert "All steps are done, and no rank says another line" in text


async def test_the_list_of_runs_says_so(open_app: Any, backend: FakeBackend) -> None:
    """The same rule: a row that runs and stands still is amber and says since when."""
    now = time.time()
    row = next(row for row in (await backend.runs())[0] if row.state == "running")
    backend.rows = [dataclasses.replace(row, stalled=Standstill(now - 3 * 3600, 22))]
    async with open_app((120, 36), start="runs") as (app, _):
        text = screen_text(app)
        shot(app, "runs-stalled")
        assert "STALLED 3h" in text and "RUNNING" not in text
        assert colours(app, "STALLED 3h  ") == {app.screen.palette.watch.color}


async def test_its_metrics_and_its_preview_have_no_speed(open_app: Any, backend: FakeBackend) -> None:
    """Both say since when it stands, in amber, and no time left; the speed of before is not one of now."""
    live, now = await stuck(backend), time.time()
    measured(live)
    values = {"step": 20.0, "total": 600.0, "loss": 2.25}
    await live.feed(Progressed(now, 0, "node01", values, {}, 2.0))
    row = next(row for row in (await backend.runs())[0] if row.state == "running")
    backend.rows = [dataclasses.replace(row, run=live.plan.run_id, stalled=Standstill(now - 3.5 * 3600, 20))]
    async with open_app((120, 36), start="runs") as (app, pilot):
        await until(pilot, lambda: "progress" in screen_text(app))
        assert "progress  STALLED 3h, last step 20   loss 2.25" in screen_text(app)
        await opened(pilot, live)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, MetricsScreen) and "Step time" in screen_text(app))
        head = line_of(app, "STALLED")
        assert "STALLED 3h, last step 20" in head and "loss 2.25" in head
        assert "left" not in head and "s/it" not in head
        assert colours(app, "STALLED 3h, last step 20") == {app.screen.palette.watch.color}


async def test_its_metrics_end_with_what_the_run_said_last(open_app: Any, backend: FakeBackend) -> None:
    """The same step and loss in the headline, in the title of the curve and below it."""
    live, now = await stuck(backend), time.time()
    measured(live, end=now - 100)
    await live.feed(Progressed(now - 98.5, 0, "node01", {"step": 604.0, "loss": 0.0625}, {}, 2.0))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, MetricsScreen) and "Step time" in screen_text(app))
        assert line_of(app, "Loss").endswith(" 0.0625") and "loss 0.0625" in line_of(app, "STALLED")
        assert "step 604" in line_of(app, "smooth")


async def test_the_fake_runs_really_stand(backend: FakeBackend) -> None:
    """What these tests show is what the rule of the core says."""
    live = await stuck(backend)
    found = standstill(live.plan, live.state, time.time())
    assert found is not None and found.step == 20


async def test_the_preview_of_a_host_says_how_far_its_run_is(open_app: Any, backend: FakeBackend) -> None:
    """Step and loss of a run that is followed here; since when it stands still, and then nothing green."""
    live = await stuck(backend)
    await live.feed(Progressed(time.time(), 0, "node01", {"step": 20.0, "loss": 2.25}, {}, 0.5))
    async with open_app((120, 36)) as (app, pilot):
        await until(pilot, lambda: "last step 20" in line_of(app, "ranks 0-7 of 24"))
        assert "STALLED" in line_of(app, "ranks 0-7 of 24")
        assert colours(app, "STALLED 3h, last step 20") == {app.screen.palette.watch.color}
        await live.feed(steps(live.plan, time.time(), 21))
        await live.feed(Progressed(time.time(), 0, "node01", {"step": 21.0, "loss": 2.125}, {}, 0.5))
        await until(pilot, lambda: "step 21" in line_of(app, "ranks 0-7 of 24"))
        assert "loss 2.125" in line_of(app, "ranks 0-7 of 24") and "STALLED" not in screen_text(app)


def line_of(app: Any, words: str) -> str:
    """The line of the screen in which these words stand."""
    return next((line for line in screen_text(app).splitlines() if words in line), "")
