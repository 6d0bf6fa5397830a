"""The run view over recorded events: ranks, hosts and figures at every size, in every theme."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import NOW, FakeBackend, FakeLive, colours, launching, sample, screen_text, settle, shot
from training import PATTERN, body, failing_loudly, opened, say, settled, train

from distui.runs.lines.events import (
    Carried,
    HostChanged,
    LogLine,
    LogLines,
    NetworkUsed,
    Notice,
    Progressed,
    RankChanged,
    RunEnded,
    RunOpened,
)
from distui.runs.store.runs import StoredRun
from distui.tui.logs.feed import RunFeed


async def test_a_healthy_run(open_app: Any, live: FakeLive) -> None:
    """Ranks, panes of the first rank of each host, the merged log, progress and figures, all on one screen."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await live.feed(*(sample(h, time.time()) for h in live.plan.hosts))
        await settled(pilot)
        text = screen_text(app)
        shot(app, "run")
        assert [p.rank for p in screen.panes.grid.log_panes] == [0]
    assert "RUNNING" in text and "16 of 16 ranks" in text and "step 39" in text and "loss 2.610" in text
    assert "step 39  loss 2.610" in text and "×16" in text
    assert "node01 gpu 0" in text and "all ranks  merged" in text and "96%" in text


async def test_ranks_that_are_out_of_reach_are_not_counted_as_running(open_app: Any, live: FakeLive) -> None:
    """Nobody knows whether they do."""
    now = time.time()
    lost = [RankChanged(now, rank, "node02", "lost", words="no answer") for rank in range(8, 16)]
    await live.feed(*launching(live.plan, now - 60), HostChanged(now, "node02", "lost", "no answer"), *lost)
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        assert "DEGRADED" in screen_text(app) and "8 of 16 ranks" in screen_text(app)


async def test_a_run_that_was_taken_up_took_what_the_lists_say(open_app: Any, live: FakeLive) -> None:
    """What its end has recorded: its log is read to the end, and it is said, seconds after it was over."""
    events = [
        dataclasses.replace(e, adopted=True) if isinstance(e, RunOpened) else e for e in launching(live.plan, NOW)
    ]
    await live.feed(*events, RunEnded(NOW + 83, "succeeded", 0, took=81.0))
    say(live, 0, "hello", at=NOW - 1)
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        assert "SUCCEEDED  after 1m 21s" in screen_text(app)


async def test_progress_of_the_rank_that_says_it(open_app: Any, backend: FakeBackend) -> None:
    """Megatron-LM prints it on the last rank: headline and plot are made of that one's log."""
    live = backend.follow(dataclasses.replace(backend.plan(), progress=PATTERN))
    say(live, 0, "building the model")
    say(live, 15, *(f"step {step}  loss {3 - step / 100:.3f}" for step in range(40)), every=1.0)
    await live.feed(*launching(live.plan, time.time() - 60))
    await live.feed(Progressed(time.time(), 15, "node02", {"step": 39.0, "loss": 2.61}, {}, 1.0))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        assert "step 39" in screen_text(app) and "loss 2.610" in screen_text(app)
        assert len(screen.feed.progress.points) == 40
        say(live, 3, "step 41  loss 2.500")
        await live.feed(Progressed(time.time(), 3, "node01", {"step": 41.0, "loss": 2.5}, {}, 1.0))
        await settled(pilot)
        assert "step 41" in screen_text(app) and "loss 2.500" in screen_text(app)


@pytest.mark.parametrize(("backend_of_job", "words"), [("nccl", "RDMA over mlx5_0-7"), ("gloo", "TCP over ib0")])
async def test_what_the_data_goes_over(open_app: Any, backend: FakeBackend, backend_of_job: Any, words: str) -> None:
    """As the backend can use it; where another interface carries it, that stands at its host, in amber."""
    live = backend.follow(dataclasses.replace(backend.plan(), backend=backend_of_job))
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 40)) as (app, pilot):
        screen = await opened(pilot, live)
        await live.feed(*(sample(host, time.time()) for host in live.plan.hosts))
        await settled(pilot)
        strip = screen_text(app).partition("GPUs and network")[2]
        assert words in strip and "carries it" not in strip
        assert {"RDMA", "TCP"} & set(strip.split()) == {words.split()[0]}
        carried = (Carried("node01", "ib0", 10, 10, planned=True), Carried("node01", "eno1", 400, 400))
        used = NetworkUsed(time.time(), "going", "eno1 98 % of 820 B", carried, ("800 B went over eno1",))
        await live.feed(used)
        await settled(pilot)
        assert "eno1 carries it" in next(row for row in body(app) if row.startswith(" node01 ▇"))
        assert screen_text(app).count("carries it") == 1
        assert colours(app, "eno1 carries it") == {screen.palette.watch.color}


@pytest.mark.parametrize(("size", "beside"), [((120, 36), False), ((159, 45), False), ((200, 50), True)])
async def test_one_rank_and_the_merged_log(open_app: Any, live: FakeLive, size: tuple[int, int], beside: bool) -> None:
    """Below each other at full width, beside each other where each has 80 columns; the rank is the cursor's."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app(size) as (_, pilot):
        screen = await opened(pilot, live)
        log, merged = screen.panes.visible
        assert log.region.width == merged.region.width or beside
        assert (log.region.y == merged.region.y) is beside
        assert not beside or min(log.region.width, merged.region.width) >= 80
        for rank in (1, 2):
            await pilot.press("j")
            await settled(pilot)
            assert screen.panes.grid.logs[0].rank == rank
        await pilot.press("P", "k")
        await settled(pilot)
        assert screen.panes.grid.logs[0].rank == 2, "panes that were asked for keep their ranks"


async def test_what_comes_while_the_app_closes_is_left_to_the_files(open_app: Any, live: FakeLive) -> None:
    """Panes go before what follows the run: a batch in between is no error."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        known = screen.feed.state
        await screen.query_one("#body").remove()
        screen.take((sample("node01", time.time()),))
        assert screen.feed.state is known


async def test_what_comes_while_parts_of_the_screen_are_gone(open_app: Any, live: FakeLive) -> None:
    """Textual takes the parts of a screen that closes away one by one: whatever goes first, no tick fails."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        part, closing = screen.panes.full_merged, screen.query_one("#body").remove()
        await part.remove()
        screen._tick()
        screen.take((sample("node01", time.time()),))
        await closing


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (60, 15), (40, 10), (20, 5), (1, 1)])
async def test_every_size(open_app: Any, live: FakeLive, size: tuple[int, int]) -> None:
    """From 200x50 to 20x5 nothing is wider than the screen, nothing crashes, and a log line is visible to the end."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app(size) as (app, pilot):
        await opened(pilot, live)
        rows = body(app)
        shot(app, f"run-{size[0]}x{size[1]}")
        assert len(rows) <= size[1]
        assert all(len(row) <= size[0] for row in rows)
        if size[1] >= 10:
            assert any("step 39" in row for row in rows)
        for key in ("M", "f", "P", "v"):
            await pilot.press(key)
            await settled(pilot)
        await pilot.resize_terminal(20, 5)
        await settled(pilot)
        await pilot.resize_terminal(120, 36)
        await settled(pilot)


async def test_a_run_is_opened_in_place_of_one_that_was_resized_unseen(
    open_app: Any, backend: FakeBackend, live: FakeLive
) -> None:
    """The window was resized while Jobs was looked at: the older view, laid out again as it goes, ends nothing."""
    await live.feed(*launching(live.plan, NOW))
    other = backend.follow(dataclasses.replace(backend.plan(), run_id="llm-8a4"))
    await other.feed(*launching(other.plan, NOW))
    async with open_app((120, 36)) as (app, pilot):
        app.open_run(live)
        await settled(pilot)
        await pilot.press("2")
        await settle(pilot)
        await pilot.resize_terminal(80, 24)
        app.open_run(other)
        await settled(pilot)
        assert app.screen.crumbs == ("Runs", "llm-8a4")


async def test_at_80_by_24_hosts_are_rows(open_app: Any, live: FakeLive) -> None:
    """One row a host and one pane; [ and ] walk the ranks."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((80, 24)) as (app, pilot):
        screen = await opened(pilot, live)
        assert [len(screen.panes.grid.shown), screen.panes.grid.logs[0].rank] == [1, 0]
        assert "● node01  00-07" in screen_text(app)
        await pilot.press("right_square_bracket")
        await settled(pilot)
        assert "rank 2 of 16" in screen_text(app)
        await pilot.press("left_square_bracket", "left_square_bracket")
        await settled(pilot)
        assert screen.panes.grid.logs[0].rank == 15


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_long_name_cuts_no_figure(open_app: Any, backend: FakeBackend, size: tuple[int, int]) -> None:
    """The name of a run is shortened in its middle as far as state, ranks, step and loss need room."""
    name = "pretraining-of-a-language-model-on-all-that-is-to-read-7f3x"
    live = backend.follow(dataclasses.replace(backend.plan(name), progress=PATTERN))
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app(size) as (app, pilot):
        await opened(pilot, live)
        (row,) = (row for row in screen_text(app).splitlines() if "Runs ›" in row)
    assert " Runs › pretrain" in row and "7f3x   ● RUNNING  1m" in row and "16 of 16" in row
    assert "step 39" in row and row.rstrip().endswith("loss 2.610")


async def test_enter_shows_a_rank_in_the_active_pane(open_app: Any, live: FakeLive) -> None:
    """The cursor of the list chooses, tab chooses the pane, `:13` goes to a rank."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await pilot.press("j", "j", "enter")
        await settled(pilot)
        assert screen.panes.grid.logs[0].rank == 2
        screen.failures.command_number(13)
        await settled(pilot)
        assert (screen.panes.grid.logs[0].rank, screen.panes.ranks.rank) == (13, 13)
        assert "▌13  node02 gpu 5" in screen_text(app)
        await pilot.press("tab", "tab")
        assert screen.panes.active in screen.panes.grid.shown


async def test_hostile_bytes_are_only_shown(open_app: Any, live: FakeLive) -> None:
    """Escapes, controls and torn UTF-8 of a rank do not reach the terminal; colours do."""
    say(live, 0, "\x1b]0;owned\x07\x1b[2Jplain \x1b[31mred\x1b[0m \x07\x9b5n end", "tab\there", "bar 10%\rbar 99%")
    with live.stored.rank_log(0).open("ab") as file:
        file.write(b"\xff\xfe torn\n")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        text = screen_text(app)
        strip = screen.panes.grid.logs[0].row_strip(0)
    assert "owned" not in text and "\x1b" not in text and "\x07" not in text
    assert "plain red" in text and "bar 99%" in text and "bar 10%" not in text and "torn" in text
    assert any(seg.style and seg.style.color and seg.style.color.number == 1 for seg in strip if "red" in seg.text)


async def test_a_launch_that_is_refused_says_why(open_app: Any, live: FakeLive) -> None:
    """Without a failed rank the reasons stand where the timeline would be."""
    await live.feed(
        *launching(live.plan, NOW)[:2],
        Notice(NOW + 1, "error", "node02: no space left for the image", "node02"),
        RunEnded(NOW + 2, "launch_failed", 5),
    )
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        text = screen_text(app)
    assert "NOT STARTED" in text and "no space left for the image" in text


async def test_a_lost_host(open_app: Any, live: FakeLive) -> None:
    """A host out of reach says why, its ranks are lost, not dead."""
    from distui.runs.lines.events import HostChanged

    await live.feed(*launching(live.plan, time.time() - 60))
    await live.feed(HostChanged(time.time(), "node02", "lost", "no answer for 30 s"))
    await live.feed(*(RankChanged(time.time(), r, "node02", "lost") for r in range(8, 16)))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        text = screen_text(app)
    assert "DEGRADED" in text and "lost: no answer for 30 s" in text and "8 to watch" in text


async def test_many_ranks_fold_by_host(open_app: Any, backend: FakeBackend) -> None:
    """Above sixteen ranks a host is a row; one with trouble is open and at the top."""
    made = backend.plan("big", ("node01", "node02", "node04"))
    live = backend.follow(made)
    await live.feed(*launching(made, NOW), *failing_loudly(made, NOW + 60))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        keys = [row.key for row in screen.panes.ranks.list.rows]
    assert keys[0] == "host node02"
    assert "13" in keys and "0" not in keys and "host node01" in keys


@pytest.mark.parametrize("theme", ["distui-light", "ansi-dark"])
async def test_other_themes(open_app: Any, live: FakeLive, theme: str) -> None:
    """Light and the terminal's own colours show the same words."""
    train(live)
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36), theme=theme) as (app, pilot):
        await opened(pilot, live)
        shot(app, f"run-failed-{theme}")
        assert "Rank 13 failed first" in screen_text(app)


async def test_ascii(open_app: Any, live: FakeLive) -> None:
    """With --ascii nothing but ASCII is drawn."""
    train(live)
    await live.feed(*launching(live.plan, NOW), *failing_loudly(live.plan, NOW + 60))
    async with open_app((120, 36), ascii=True) as (app, pilot):
        await opened(pilot, live)
        rest = "\n".join(body(app)[2:])
    assert rest.isascii(), sorted({c for c in rest if not c.isascii()})


def test_logs_are_indexed_in_turn(live: FakeLive, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short the time, every log comes to its end, and more that is written afterwards is read too."""
    train(live)
    feed = RunFeed(live)
    clock = itertools.count()
    monkeypatch.setattr("distui.tui.logs.feed.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    calls = 0
    while feed._index(next(clock) + 3):  # time for two looks
        calls += 1
    assert calls > 3
    assert not any(buffer.behind for buffer in feed.sources.values())
    with live.stored.rank_log(3).open("ab") as file:
        file.write(b"one more\n")
    while feed._index(next(clock) + 3):
        pass
    assert feed.buffers[3].behind == 0


async def test_while_a_long_log_is_read_the_newest_step_is_reported(live: FakeLive) -> None:
    """As whoever follows the run has read it: that of a run of days is read here for minutes."""
    live.plan = dataclasses.replace(live.plan, progress=r"step (?P<step>\d+) loss (?P<loss>[\d.]+)")
    say(live, 0, *(f"step {i} loss 2.5" for i in range(2000)))
    feed = RunFeed(live)
    await live.feed(Progressed(NOW, 0, "node01", {"step": 1999.0, "loss": 2.25}, {}, 0.5))
    feed.progress.grow() if feed.progress is not None else None
    assert feed.behind
    assert (feed.value("step"), feed.value("loss"), feed.figure, feed.seconds_per_step) == (1999.0, 2.25, "loss", 0.5)
    while feed.grow_progress():
        pass
    assert (feed.value("step"), feed.value("loss"), feed.behind) == (1999.0, 2.5, False)


def test_lines_are_not_told_before_all_are_counted(live: FakeLive) -> None:
    """A run that was read from its files said the lines of the logs that had been looked at, for those of all."""
    train(live)
    feed = RunFeed(live)
    files = [live.stored.rank_log(rank).read_bytes() for rank in feed.buffers]
    size = sum(map(len, files))
    feed.buffers[0].grow(1.0)
    assert feed.totals() == (None, size)
    while feed._index(time.perf_counter() + 1.0):
        pass
    assert feed.totals() == (sum(data.count(b"\n") for data in files), size)


def test_logs_are_read_on_in_the_copy_of_a_run_that_is_only_looked_on_at(live: FakeLive, tmp_path: Path) -> None:
    """Its owner has left: the lines that were there stay, further ones come from where they are written now."""
    train(live)
    feed = RunFeed(live)
    before = live.stored.rank_log(3).read_bytes().count(b"\n")
    feed.buffers[3].grow(1.0)
    copy = StoredRun(tmp_path / "copy" / live.stored.run_id)
    shutil.copytree(live.stored.path, copy.path)
    live.stored = copy
    with copy.rank_log(3).open("ab") as file:
        file.write(b"one more\n")
    feed.take([LogLines(NOW, 3, 3, "h1", [LogLine("stdout", "one more")])])
    feed.buffers[3].grow(1.0)
    assert feed.buffers[3].raw(before, 9) == [b"one more"]
