"""The run view over recorded events: ranks, panes, search, merged log, the first failure, stopping."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import JOB, NOW, FakeDesk, FakeLive, failing, launching, sample, screen_text, settle, shot
from textual.events import MouseScrollDown, MouseScrollUp

from distui.plan.model import RunPlan
from distui.run.events import LogLine, LogLines, Notice, RankChanged, RunEnded
from distui.run.job_record import record_job
from distui.run.times import pack, times_of
from distui.spec.inventory import HostPick
from tui.screens.run import RunScreen
from tui.widgets.log_pane import LogPane

PATTERN = r"step (?P<step>\d+)\s+loss (?P<loss>[\d.]+)"
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/work/train.py", line 214, in <module>',
    "    main(parse_args())",
    "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
)


def say(live: FakeLive, rank: int, *texts: str, at: float | None = None, every: float = 0.01) -> None:
    """Lines of a rank with their times, as the controller writes them."""
    log = live.stored.rank_log(rank)
    log.parent.mkdir(parents=True, exist_ok=True)
    when = time.time() - 5 if at is None else at
    with log.open("ab") as file, times_of(log).open("ab") as times:
        file.write("".join(f"{text}\n" for text in texts).encode())
        times.write(pack([when + i * every for i in range(len(texts))]))


def saved(folder: Path) -> list[Path]:
    """The logs that were saved to a folder."""
    return sorted(folder.glob("llm-7f3-*"))


def train(live: FakeLive, steps: int = 40) -> None:
    """Sixteen ranks that say the same steps."""
    began = time.time() - steps - 5
    for rank in range(16):
        at = began + rank / 1000
        say(live, rank, *(f"step {step}  loss {3 - step / 100:.3f}" for step in range(steps)), at=at, every=1.0)


@pytest.fixture
def live(desk: FakeDesk) -> FakeLive:
    """A followed run of 16 ranks that has a pattern for its progress."""
    return desk.follow(dataclasses.replace(desk.plan(), progress=PATTERN))


async def opened(pilot: Any, live: FakeLive) -> RunScreen:
    """The run view with everything that is there read."""
    app = pilot.app
    if not isinstance(app.screen, RunScreen):
        app.push_screen(RunScreen(live))
    await settled(pilot)
    assert isinstance(app.screen, RunScreen)
    return app.screen


async def settled(pilot: Any) -> None:
    """Until panes show what their files hold."""
    await settle(pilot)
    screen = pilot.app.screen
    if isinstance(screen, RunScreen):
        for _ in range(3):
            screen._tick()
            await pilot.pause()
            for pane in screen.visible_panes:
                while pane.flush(1.0):
                    pass
                pane.repaint()
            await pilot.pause()


def hint(live: FakeLive, rank: int, text: str) -> LogLines:
    """A line that comes as an event; the fake run writes it to the log, without a time."""
    host = next(t.host for t in live.plan.tasks if rank in t.ranks)
    return LogLines(time.time(), 0, rank, host, (LogLine("stdout", text),))


def body(app: Any) -> list[str]:
    """The screen's rows."""
    return screen_text(app).splitlines()


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
        assert [p.rank for p in screen.grid.log_panes] == [0, 8, 1]
    assert "RUNNING" in text and "16 of 16 ranks" in text and "step 39" in text and "loss 2.610" in text
    assert "step 39  loss 2.610" in text and "×16" in text
    assert "node02 gpu 0" in text and "all ranks  merged" in text and "96%" in text


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


async def test_at_80_by_24_hosts_are_rows(open_app: Any, live: FakeLive) -> None:
    """One row a host and one pane; [ and ] walk the ranks."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((80, 24)) as (app, pilot):
        screen = await opened(pilot, live)
        assert [len(screen.grid.shown), screen.grid.logs[0].rank] == [1, 0]
        assert "● node01  00-07" in screen_text(app)
        await pilot.press("right_square_bracket")
        await settled(pilot)
        assert "rank 2 of 16" in screen_text(app)
        await pilot.press("left_square_bracket", "left_square_bracket")
        await settled(pilot)
        assert screen.grid.logs[0].rank == 15


async def test_enter_shows_a_rank_in_the_active_pane(open_app: Any, live: FakeLive) -> None:
    """The cursor of the list chooses, tab chooses the pane, `:13` goes to a rank."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await pilot.press("j", "j", "enter")
        await settled(pilot)
        assert screen.grid.logs[0].rank == 2
        screen.command_number(13)
        await settled(pilot)
        assert (screen.grid.logs[0].rank, screen.ranks.rank) == (13, 13)
        assert "▌13  node02 gpu 5" in screen_text(app)
        await pilot.press("tab", "tab")
        assert screen.pane in screen.grid.shown


async def test_panes_follow_and_pause(open_app: Any, live: FakeLive) -> None:
    """A move up pauses and counts what is new; G follows again; sideways stays where it is."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.grid.logs[0]
        pane.focus()
        await pilot.press("k", "l")
        assert (pane.follow, pane.left) == (False, 8)
        say(live, 0, "step 40  loss 2.5")
        await live.feed(hint(live, 0, "step 41  loss 2.5"))
        await settled(pilot)
        assert pane.new_rows == 2
        assert "paused, 2 new" in screen_text(app)
        await pilot.press("G")
        await settled(pilot)
        assert (pane.follow, pane.left) == (True, 8)
        await pilot.press("h")
        await settled(pilot)
        assert "step 41" in screen_text(app)


async def test_the_mouse(open_app: Any, live: FakeLive) -> None:
    """A click on a rank shows it, one on a pane makes it the active one, the wheel pauses and follows again."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await pilot.click("RankRows", offset=(5, 5))
        await settled(pilot)
        assert (screen.pane, screen.grid.logs[0].rank) == (screen.grid.logs[0], 4)
        await pilot.click("#pane2", offset=(20, 3))
        await settled(pilot)
        assert screen.pane is screen.grid.logs[1]
        assert screen.focused is screen.grid.logs[1]
        pane = screen.grid.logs[0]
        wheel = {"x": 5, "y": 3, "delta_x": 0, "delta_y": 0, "button": 0, "shift": False, "meta": False, "ctrl": False}
        pane.post_message(MouseScrollUp(pane, **wheel))
        await settled(pilot)
        assert not pane.follow and "paused" in screen_text(app)
        for _ in range(3):
            pane.post_message(MouseScrollDown(pane, **wheel))
        await settled(pilot)
        assert pane.follow


async def test_marked_text_is_copied(open_app: Any, live: FakeLive) -> None:
    """Dragging marks text across lines; following pauses, so that it stays; c copies just that, without times."""
    say(live, 0, *(f"line {i:02d} of it" for i in range(30)))
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.grid.logs[0]
        first = pane.row_text(pane.top + 1)
        await pilot.mouse_down("#pane1", offset=(11, 2))
        await pilot.hover("#pane1", offset=(15, 3))
        await pilot.mouse_up("#pane1", offset=(15, 3))
        await settled(pilot)
        shot(app, "run-marked")
        assert not pane.follow
        await pilot.press("c")
        await settled(pilot)
        copied = app.clipboard.splitlines()
        assert copied == [first, "line "]


async def test_panes_keep_what_is_theirs(open_app: Any, live: FakeLive) -> None:
    """Filter and `since` belong to a pane: another one shows all, and coming back takes the filter away again."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        first, second = screen.grid.logs[:2]
        first.focus()
        await pilot.press("ampersand", *"step 1", "enter", "m", "1")
        await settled(pilot)
        assert "since 1 min" in screen_text(app) and "filter step 1" in screen_text(app)
        await pilot.press("tab")
        await settled(pilot)
        assert screen.pane is second
        assert "since all" in screen_text(app) and "filter none" in screen_text(app)
        await pilot.press("shift+tab", "escape")
        await settled(pilot)
        assert (screen.pane is first, first.only, first.rows, len(first.marks)) == (True, "", 40, 1)


async def test_larger_and_smaller(open_app: Any, live: FakeLive) -> None:
    """+ takes panes away down to one and then all that is beside it; _ brings them back."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        seen = []
        for key in ("plus", "plus", "plus", "underscore", "underscore", "underscore", "underscore"):
            await pilot.press(key)
            await settled(pilot)
            seen.append((len(screen.grid.shown), screen.zoomed))
    assert seen == [(2, False), (1, False), (1, True), (1, False), (2, False), (4, False), (4, False)]


async def test_titles_say_when_a_rank_has_ended(open_app: Any, live: FakeLive) -> None:
    """Also when its log had been read to the end before."""
    train(live)
    await live.feed(*launching(live.plan, NOW))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await live.feed(RunEnded(NOW + 60, "stopped", 130))
        screen._tick()
        await pilot.pause()
        text = screen_text(app)
    assert "end of log" in text and "follow" not in text.replace("follow end", "")


async def test_search_and_filter(open_app: Any, live: FakeLive) -> None:
    """/ finds upwards and downwards round the end, & shows only what matches, esc takes both back."""
    train(live)
    say(live, 0, "needle one", *("hay" for _ in range(30)), "needle two", *("hay" for _ in range(30)))
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.grid.logs[0]
        await pilot.press("slash", *"needle", "enter")
        await settled(pilot)
        assert pane.row_text(pane.at) == "needle one"
        await pilot.press("n")
        await settled(pilot)
        assert pane.row_text(pane.at) == "needle two"
        await pilot.press("N")
        await settled(pilot)
        assert pane.row_text(pane.at) == "needle one"
        await pilot.press("ampersand", *"needle", "enter")
        await settled(pilot)
        assert pane.rows == 2
        assert "filtered" in screen_text(app)
        await pilot.press("escape", "escape")
        await settled(pilot)
        assert (screen.search_text, screen.only_text, pane.rows) == ("", "", 102)
        await pilot.press("slash", *"no such text", "enter")
        await settled(pilot)
        assert pane.rows == 102


async def test_next_error_since_clear_and_marks(open_app: Any, live: FakeLive, tmp_path: Path) -> None:
    """e and E go from trouble to trouble; digits show the last minutes; C hides, 0 shows; m marks."""
    old = time.time() - 3000
    say(live, 0, "ERROR one", "fine", at=old)
    say(live, 0, *TRACEBACK, "fine again")
    await live.feed(*launching(live.plan, old))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        pane = screen.grid.logs[0]
        await pilot.press("E")
        await settled(pilot)
        assert pane.row_text(pane.at) == TRACEBACK[-1]
        await pilot.press("E")
        await settled(pilot)
        assert pane.row_text(pane.at) == TRACEBACK[0]
        await pilot.press("e", "m")
        await settled(pilot)
        assert pane.marks == {5}
        await pilot.press("1")
        await settled(pilot)
        assert (pane.rows, pane.since) == (5, 1)
        await pilot.press("C")
        await settled(pilot)
        assert pane.rows == 0
        await pilot.press("0")
        await settled(pilot)
        assert pane.rows == 7


async def test_wrap_times_copy_and_save(
    open_app: Any, live: FakeLive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """w wraps, t hides times, c copies the line as it was written, W copies the whole file and overwrites nothing."""
    monkeypatch.chdir(tmp_path)
    say(live, 0, "a " * 100 + "end")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        assert "end" not in screen_text(app).replace("send", "")
        await pilot.press("w")
        await settled(pilot)
        assert "a end" in screen_text(app)
        await pilot.press("t", "c")
        await settled(pilot)
        assert app.clipboard == "a " * 100 + "end"
        await pilot.press("W")
        await settled(pilot)
        await pilot.press("W")
        await settled(pilot)
        assert screen.grid.logs[0].wrap
    names = [path.name for path in saved(tmp_path)]
    assert names == ["llm-7f3-rank-00000-2.log", "llm-7f3-rank-00000.log"]
    assert (tmp_path / names[0]).read_bytes() == live.stored.rank_log(0).read_bytes()


async def test_the_merged_log(open_app: Any, live: FakeLive) -> None:
    """M shows all ranks in one log with a strip of who said what; z unfolds, D shows each line, esc goes back."""
    train(live)
    say(live, 13, "dataloader: worker 3 restarted")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await pilot.press("M")
        await settled(pilot)
        text = screen_text(app)
        shot(app, "run-merged")
        assert "merged log" in text and "■■■■■■■■ ■■■■■■■■" in text and "16 ranks" in text
        assert "········ ·····■··" in text
        await pilot.press("k", "z")
        await settled(pilot)
        assert "13 more lines" in screen_text(app)
        await pilot.press("D")
        await settled(pilot)
        assert len(screen.feed.merged.groups) == 641
        await pilot.press("escape")
        await settled(pilot)
        assert not screen.merged_only


async def test_launchers_have_their_log(open_app: Any, desk: FakeDesk) -> None:
    """torchrun's own words are in the merged log under its name, and in a pane, by the list and by [ ]."""
    job = desk.draft(JOB, "llm-pretrain.yaml").job
    assert job is not None
    desk.found = dict(desk.answers)
    picks = [HostPick("node03"), HostPick("node04")]
    job = dataclasses.replace(job, launcher="torchrun", command=("train.py",))
    made = desk.preview(job, picks, run_id="tr")
    assert isinstance(made, RunPlan), made
    live = desk.follow(made)
    say(live, 0, "step 1", at=NOW)
    for task in made.tasks[:1]:
        log = live.stored.node_log(task.index)
        log.write_text("W torch.distributed.run: master_addr is only used for static\nstep 1\n")
        times_of(log).write_bytes(pack([NOW, NOW]))
    await live.feed(*launching(made, NOW - 1))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        assert "launcher's log" in screen_text(app)
        screen.ranks.go(-1)
        await pilot.press("enter")
        await settled(pilot)
        text = screen_text(app)
        shot(app, "run-launcher")
        assert "torchrun  node03 launcher" in text and "W torch.distributed.run" in text
        await pilot.press("M")
        await settled(pilot)
        rows = [" ".join(row.split()) for row in body(app)]
        assert any("torchrun node03 W torch" in row for row in rows)
        assert any("torchrun node03 step 1" in row for row in rows)
        assert any("00 node03 step 1" in row for row in rows)
        await pilot.press("escape", "left_square_bracket")
        await settled(pilot)
        assert screen.grid.log_panes[0].rank == 15


async def test_the_first_failure(open_app: Any, live: FakeLive) -> None:
    """A failed run shows who, why and what next, the blamed line, and what followed; nothing is left."""
    train(live)
    say(live, 13, *TRACEBACK, "CUDA kernel errors might be asynchronously reported")
    await live.feed(*launching(live.plan, NOW), Notice(NOW + 59.6, "warning", "NVRM: Xid 94", "node02"))
    await live.feed(*_failing(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        text = screen_text(app)
        shot(app, "run-failed")
        pane = screen.grid.logs[0]
        assert (pane.rank, pane.blamed) == (13, 43)
    assert "Rank 13 failed first" in text and "cause" in text and "leave GPU 5 out" in text
    assert "15 ranks ended because of rank 13" in text
    assert "nothing of this run is left" in text
    assert "× 13  exit 1" in text
    assert "FAILED" in text and "run again" in text


def _failing(plan: RunPlan, at: float) -> Sequence[Any]:
    return [
        dataclasses.replace(e, failure=dataclasses.replace(e.failure, excerpt=TRACEBACK))
        if isinstance(e, RunEnded) and e.failure is not None
        else e
        for e in failing(plan, at)
    ]


LONG = (
    *TRACEBACK[:3],
    '  File "/usr/lib/python3.11/site-packages/torch/_tensor.py", line 521, in backward',
    "    torch.autograd.backward(",
    '  File "/usr/lib/python3.11/site-packages/torch/autograd/__init__.py", line 289, in backward',
    "    _engine_run_backward(",
    TRACEBACK[3],
    "CUDA kernel errors might be asynchronously reported at some other API call",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
)


async def test_library_frames_fold(open_app: Any, live: FakeLive) -> None:
    """At the failure library frames and CUDA's advice are one row each; z unfolds and folds, search unfolds, too."""
    train(live)
    say(live, 13, *LONG)
    await live.feed(*launching(live.plan, NOW), *_failing(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        pane = screen.grid.logs[0]
        text = screen_text(app)
        shot(app, "run-folded")
        assert "▶ 2 frames in torch/_tensor.py, torch/autograd/__init__.py" in text
        assert "▶ 2 lines: CUDA kernel errors" in text and "_engine_run" not in text
        assert pane.row_text(pane.at) == TRACEBACK[-1]
        pane.focus()
        await pilot.press("k", "z")
        await settled(pilot)
        assert "_engine_run_backward(" in screen_text(app)
        assert pane.row_text(pane.at) == LONG[3]
        await pilot.press("j", "z")
        await settled(pilot)
        assert "_engine_run" not in screen_text(app)
        await pilot.press("slash", *"_engine_run", "enter")
        await settled(pilot)
        assert pane.row_text(pane.at) == LONG[6]


async def test_the_line_to_blame_is_the_only_red_one(open_app: Any, live: FakeLive) -> None:
    """Other errors of that log are bold, not red."""
    say(live, 13, "ERROR something else", *LONG)
    await live.feed(*launching(live.plan, NOW), *_failing(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        pane, red = screen.grid.logs[0], app.look.wrong.color
        hot = [row for row in range(pane.rows) if any(s.style and s.style.color == red for s in pane.row_strip(row))]
        assert [pane.row_text(row) for row in hot] == [TRACEBACK[-1]]


async def test_from_failure_to_failure(open_app: Any, live: FakeLive) -> None:
    """n and N walk the ranks that failed by themselves, A gives each a pane; those we stopped are none of them."""
    train(live)
    say(live, 13, *LONG)
    say(live, 5, "RuntimeError: peer gone")
    say(live, 9, "fine")
    told = _failing(live.plan, NOW + 60)
    ends = [e for e in told if not (isinstance(e, RankChanged) and e.rank in (5, 9))]
    ends[1:1] = [RankChanged(NOW + 61, 9, "node02", "killed", 139), RankChanged(NOW + 62, 5, "node01", "exited", 1)]
    await live.feed(*launching(live.plan, NOW), *ends)
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        assert "n next failure" in screen_text(app)
        seen = [screen.grid.logs[0].rank]
        for key in ("n", "n", "n", "N"):
            await pilot.press(key)
            await settled(pilot)
            seen.append(screen.grid.logs[0].rank)
        assert seen == [13, 9, 5, 13, 5]
        assert screen.grid.logs[0].row_text(screen.grid.logs[0].at) == "RuntimeError: peer gone"
        await pilot.press("A")
        await settled(pilot)
        assert [p.rank for p in screen.grid.log_panes] == [13, 9, 5]
        shot(app, "run-pinned")


async def test_evidence_and_report(open_app: Any, live: FakeLive) -> None:
    """d opens what is known of every rank, y copies the report that `show --report` prints."""
    train(live)
    say(live, 13, *LONG)
    await live.feed(*launching(live.plan, NOW), *_failing(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("y")
        await settled(pilot)
        assert "FIRST FAILURE: rank 13 on node02, GPU 5, exit 1" in app.clipboard
        await pilot.press("d")
        await settled(pilot)
        shot(app, "run-evidence")
        text = screen_text(app)
        assert app.screen.crumbs == ("Runs", "llm-7f3 evidence")
        assert "| torch.AcceleratorError" in text and "| step 39" not in text and "WHAT FOLLOWED" in text


async def test_a_click_on_the_banner_goes_to_the_line(open_app: Any, live: FakeLive) -> None:
    """Anywhere on it, but on the word of another key."""
    train(live)
    say(live, 13, *LONG)
    await live.feed(*launching(live.plan, NOW), *_failing(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await settled(pilot)
        pane = screen.grid.logs[0]
        pane.go(0)
        await pilot.click("#banner", offset=(20, 1))
        await settled(pilot)
        assert pane.row_text(pane.at) == TRACEBACK[-1]
        column = body(app)[6].index("d evidence")
        await pilot.click("#banner", offset=(column, 2))
        await settled(pilot)
        assert app.screen.crumbs[-1] == "llm-7f3 evidence"


async def test_who_reads_is_not_moved(open_app: Any, live: FakeLive) -> None:
    """When the run fails while somebody has scrolled, the banner comes and the panes stay; enter jumps."""
    train(live)
    say(live, 13, *TRACEBACK)
    await live.feed(*launching(live.plan, NOW))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.grid.logs[0]
        pane.focus()
        await pilot.press("k")
        await live.feed(*_failing(live.plan, NOW + 60))
        await settled(pilot)
        assert pane.rank == 0
        assert "Rank 13 failed first" in screen_text(app)
        await pilot.press("enter")
        await settled(pilot)
        shown = screen.pane
        assert isinstance(shown, LogPane)
        assert (shown.rank, shown.row_text(shown.at)) == (13, TRACEBACK[-1])


async def test_stop_and_kill_ask_first(open_app: Any, live: FakeLive) -> None:
    """S and K name their targets and do nothing without a yes."""
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("S")
        await settle(pilot)
        assert "node02   ranks 08-15" in screen_text(app)
        await pilot.press("escape")
        await settle(pilot)
        assert live.asked == []
        await pilot.press("K")
        await settle(pilot)
        await pilot.press("tab", "enter")
        await settle(pilot)
        assert live.asked == [("stop", 0)]


async def test_prune_asks_and_goes_back(open_app: Any, desk: FakeDesk, live: FakeLive) -> None:
    """X removes an ended run, not one that goes on, and leaves its screen."""
    await live.feed(*launching(live.plan, NOW))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("X")
        await settle(pilot)
        assert "still runs" in screen_text(app)
        await live.feed(*_failing(live.plan, NOW + 60))
        await settled(pilot)
        await pilot.press("X")
        await settle(pilot)
        assert "This can't be undone" in screen_text(app)
        await pilot.press("tab", "enter")
        await settle(pilot)
        assert not isinstance(app.screen, RunScreen)
    assert ("prune", "llm-7f3") in desk.calls


async def test_run_again(open_app: Any, desk: FakeDesk, live: FakeLive) -> None:
    """R starts the same job on the same hosts under a new name, once the run has ended and the answer is yes."""
    await live.feed(*launching(live.plan, NOW), *_failing(live.plan, NOW + 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("R")
        await settle(pilot)
        text = screen_text(app)
        assert "node01" in text and "llm-pre" in text
        await pilot.press("tab", "enter")
        await settle(pilot)
        assert "did not record its job" in " ".join(text.split())
    assert ("launch", "llm-pret-new", ("node01", "node02"), "llm-7f3") in desk.calls


async def test_run_again_is_what_was_started(open_app: Any, desk: FakeDesk, live: FakeLive) -> None:
    """R takes the job the run recorded, not the file as it is now, and says that the file has changed."""
    path = desk.folder / "llm-pretrain.yaml"
    path.write_text(JOB)
    job = desk.draft(JOB, str(path)).job
    assert job is not None
    record_job(live.stored, job, (HostPick("node02", (0, 1, 2, 3)), HostPick("node01")))
    desk.job_texts["llm-pretrain"] = JOB.replace("train.py", "other.py")
    await live.feed(*launching(live.plan, NOW), *_failing(live.plan, NOW + 60))
    desk.found = dict(desk.answers)
    async with open_app((120, 36)) as (app, pilot):
        desk.jobs()
        await opened(pilot, live)
        await pilot.press("R")
        await settle(pilot)
        text = screen_text(app)
        shot(app, "run-again")
    assert "has changed since and is not read" in " ".join(text.split())
    assert "train.py" in text and "other.py" not in text


async def test_hostile_bytes_are_only_shown(open_app: Any, live: FakeLive) -> None:
    """Escapes, controls and torn UTF-8 of a rank do not reach the terminal; colours do."""
    say(live, 0, "\x1b]0;owned\x07\x1b[2Jplain \x1b[31mred\x1b[0m \x07\x9b5n end", "tab\there", "bar 10%\rbar 99%")
    with live.stored.rank_log(0).open("ab") as file:
        file.write(b"\xff\xfe torn\n")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        text = screen_text(app)
        strip = screen.grid.logs[0].row_strip(0)
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
    from distui.run.events import HostChanged

    await live.feed(*launching(live.plan, time.time() - 60))
    await live.feed(HostChanged(time.time(), "node02", "lost", "no answer for 30 s"))
    await live.feed(*(RankChanged(time.time(), r, "node02", "lost") for r in range(8, 16)))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        text = screen_text(app)
    assert "DEGRADED" in text and "lost: no answer for 30 s" in text and "8 to watch" in text


async def test_many_ranks_fold_by_host(open_app: Any, desk: FakeDesk) -> None:
    """Above sixteen ranks a host is a row; one with trouble is open and at the top."""
    made = desk.plan("big", ("node01", "node02", "node04"))
    live = desk.follow(made)
    await live.feed(*launching(made, NOW), *_failing(made, NOW + 60))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        keys = [row.key for row in screen.ranks.list.rows]
    assert keys[0] == "host node02"
    assert "13" in keys and "0" not in keys and "host node01" in keys


@pytest.mark.parametrize("theme", ["distui-light", "ansi-dark"])
async def test_other_themes(open_app: Any, live: FakeLive, theme: str) -> None:
    """Light and the terminal's own colours show the same words."""
    train(live)
    await live.feed(*launching(live.plan, NOW), *_failing(live.plan, NOW + 60))
    async with open_app((120, 36), theme=theme) as (app, pilot):
        await opened(pilot, live)
        shot(app, f"run-failed-{theme}")
        assert "Rank 13 failed first" in screen_text(app)


async def test_ascii(open_app: Any, live: FakeLive) -> None:
    """With --ascii nothing but ASCII is drawn."""
    train(live)
    await live.feed(*launching(live.plan, NOW), *_failing(live.plan, NOW + 60))
    async with open_app((120, 36), ascii=True) as (app, pilot):
        await opened(pilot, live)
        rest = "\n".join(body(app)[2:])
    assert rest.isascii(), sorted({c for c in rest if not c.isascii()})
