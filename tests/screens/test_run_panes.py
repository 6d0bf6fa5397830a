"""Log panes of the run view: following, search, filter, marks, the mouse, the merged log, launchers."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import JOB, NOW, FakeBackend, FakeLive, launching, screen_text, shot
from textual.events import MouseScrollDown, MouseScrollUp
from training import TRACEBACK, body, hint, opened, saved, say, settled, train, until

from distui.patterns import given_up
from distui.plan.model import RunPlan
from distui.runs.lines.events import RunEnded, RunOpened
from distui.runs.lines.times import pack, times_of
from distui.spec.hosts.inventory import HostPick
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.run.screen import RunScreen


async def test_panes_follow_and_pause(open_app: Any, live: FakeLive) -> None:
    """A move up pauses and counts what is new; G follows again; sideways stays where it is."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.panes.grid.logs[0]
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


@pytest.mark.parametrize("merged", [False, True])
async def test_sideways_ends_where_the_lines_do(open_app: Any, live: FakeLive, merged: bool) -> None:
    """A key that was held left an empty pane, and as many steps back."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        await pilot.press(*(["M"] if merged else []))
        await settled(pilot)
        pane = screen.panes.active
        assert isinstance(pane, MergedPane) == merged
        longest = max(pane.row_strip(row).cell_length for row in range(pane.top, min(pane.top + pane.shown, pane.rows)))
        for _ in range(60):
            pane.action_right()
        assert longest - 8 <= pane.left < longest


async def test_a_line_that_has_no_end_yet(open_app: Any, live: FakeLive) -> None:
    """What is written without a newline is shown, and what is added to it: progress bars do that."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        pane = (await opened(pilot, live)).panes.grid.logs[0]
        for words in ("saving", " the", " checkpoint"):
            with live.stored.rank_log(0).open("a") as log:
                log.write(words)
            pane.flush(1.0)
            await pilot.pause()
        assert "saving the checkpoint" in screen_text(app)


async def test_the_last_line_of_a_log_that_was_read_by_others(
    open_app: Any, live: FakeLive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The title may be painted after progress or the merged log has read on, before the pane has: all is shown."""
    say(live, 0, *(f"line {i}" for i in range(60)))
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.panes.grid.logs[0]
        say(live, 0, "the last words")
        pane.view.buffer.grow()
        monkeypatch.setattr(screen.feed, "lives", lambda rank: False)  # it is so, too, each time the screen looks
        pane.now_is(live=False, place="")
        await pilot.pause()
        pane.flush(1.0)
        await pilot.pause()
        assert f"end of log  {pane.rows:,} lines" in screen_text(app)
        assert "the last words" in screen_text(app)


async def four_panes(screen: RunScreen, pilot: Any) -> None:
    """Three ranks and the merged log, as `P` shows them."""
    screen.panes.grid.wanted = 4
    screen.panes.grid.fit()
    await settled(pilot)


async def test_the_mouse(open_app: Any, live: FakeLive) -> None:
    """A click on a rank shows it, one on a pane makes it the active one, the wheel pauses and follows again."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        await four_panes(screen, pilot)
        await pilot.click("RankRows", offset=(5, 5))
        await settled(pilot)
        assert (screen.panes.active, screen.panes.grid.logs[0].rank) == (screen.panes.grid.logs[0], 4)
        await pilot.click("#pane2", offset=(20, 3))
        await settled(pilot)
        assert screen.panes.active is screen.panes.grid.logs[1]
        assert screen.focused is screen.panes.grid.logs[1]
        pane = screen.panes.grid.logs[0]
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
        pane = screen.panes.grid.logs[0]
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
        await four_panes(screen, pilot)
        first, second = screen.panes.grid.logs[:2]
        first.focus()
        await pilot.press("ampersand", *"step 1", "enter")
        await settled(pilot)  # there is a line to mark
        await pilot.press("m", "u", "u")
        await settled(pilot)
        assert "since 5 min" in screen_text(app) and "filter step 1" in screen_text(app)
        await pilot.press("tab")
        await settled(pilot)
        assert screen.panes.active is second
        assert "since all" in screen_text(app) and "filter none" in screen_text(app)
        await pilot.press("shift+tab", "escape")
        await settled(pilot)
        assert (screen.panes.active is first, first.only, first.rows, len(first.marks)) == (True, "", 40, 1)


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
            seen.append((len(screen.panes.grid.shown), screen.panes.zoomed))
    assert seen == [(1, False), (1, True), (1, True), (1, False), (2, False), (4, False), (4, False)]


@pytest.mark.parametrize("key", ["M", "f"])
async def test_the_log_has_the_keys_where_the_list_of_ranks_has_no_room(
    open_app: Any, live: FakeLive, key: str
) -> None:
    """Also when one comes back from the merged log, or from the zoom."""
    say(live, 0, *map(str, range(60)))
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((80, 24)) as (_, pilot):
        screen = await opened(pilot, live)
        await pilot.press(key, key, "k")
        await settled(pilot)
        assert not screen.panes.active.follow


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
        pane = screen.panes.grid.logs[0]
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
        assert (screen.search.text, screen.search.only, pane.rows) == ("", "", 102)
        await pilot.press("slash", *"no such text", "enter")
        await settled(pilot)
        assert pane.rows == 102


async def test_a_search_ends_in_every_pane(open_app: Any, live: FakeLive) -> None:
    """esc in another pane than the one in which it was begun."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((200, 50)) as (_, pilot):
        screen = await opened(pilot, live)
        screen.search.command_search("step")
        await pilot.press("tab", "tab")
        assert screen.panes.active is screen.panes.grid.merged
        await pilot.press("escape")
        await settled(pilot)
        assert screen.search.text == ""
        assert [pane.pattern for pane in (*screen.panes.grid.logs, *screen.panes.merged) if pane.pattern] == []


@pytest.mark.parametrize(("typed", "marked"), [("(a+)+$", 0), ("(?L)needle", 6), ("näh", 3)])
async def test_what_is_searched_is_marked_in_bounded_time(
    open_app: Any, live: FakeLive, typed: str, marked: int
) -> None:
    """What backtracks for years on a line that is shown holds nothing up; what only bytes can be searched for, too."""
    train(live)
    say(live, 0, "a" * 25 + "!", "näh, a needle")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        pane = screen.panes.grid.logs[0]
        await pilot.press("slash", *typed)
        await settled(pilot)
        last = [segment for segment in pane.row_strip(pane.rows - 1) if segment.style and segment.style.reverse]
        assert sum(len(segment.text) for segment in last) == marked
        assert bool(given_up(pane.pattern)) == (not marked)


async def test_next_error_since_clear_and_marks(open_app: Any, live: FakeLive, tmp_path: Path) -> None:
    """e and E go from trouble to trouble; u shows the last minutes; C hides, 0 shows; m marks."""
    old = time.time() - 3000
    say(live, 0, "ERROR one", "fine", at=old)
    say(live, 0, *TRACEBACK, "fine again")
    await live.feed(*launching(live.plan, old))
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        pane = screen.panes.grid.logs[0]
        await pilot.press("E")
        await settled(pilot)
        assert pane.row_text(pane.at) == TRACEBACK[-1]
        await pilot.press("E")
        await settled(pilot)
        assert pane.row_text(pane.at) == TRACEBACK[0]
        await pilot.press("e", "m")
        await settled(pilot)
        assert pane.marks == {5}
        await pilot.press("u")
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
    """b wraps, t hides times, c copies the line as it was written, W copies the whole file and overwrites nothing."""
    monkeypatch.chdir(tmp_path)
    say(live, 0, "a " * 100 + "end")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        assert "end" not in screen_text(app).replace("send", "")
        await pilot.press("b")
        await settled(pilot)
        assert "a end" in screen_text(app)
        await pilot.press("t", "c")
        await settled(pilot)
        assert app.clipboard == "a " * 100 + "end"
        await pilot.press("W")
        await settled(pilot)
        await pilot.press("W")
        await settled(pilot)
        assert screen.panes.grid.logs[0].wrap
    names = [path.name for path in saved(tmp_path)]
    assert names == ["llm-7f3-rank-00000-2.log", "llm-7f3-rank-00000.log"]
    assert (tmp_path / names[0]).read_bytes() == live.stored.rank_log(0).read_bytes()


async def test_the_cursor_is_seen_among_wrapped_lines(open_app: Any, live: FakeLive) -> None:
    """Four rows a line: a pane has fewer lines than rows, however one moves, and its first ones can be reached."""
    say(live, 0, *(f"{i:03d} begins " + "x " * 120 for i in range(20)))
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.panes.grid.logs[0]
        pane.focus()
        for keys, at in ((("b", "k"), 18), (("pageup",), 16), (("pagedown",), 18), (("b", "b"), 18), (("g",), 0)):
            await pilot.press(*keys)
            await settled(pilot)
            shown = [row for row in body(app)[4 : 4 + pane.size.height] if f"{at:03d} begins" in row]
            assert (pane.at, len(shown)) == (at, 1), keys
        await pilot.press("G")
        await settled(pilot)
        pane.scroll(-100)
        await settled(pilot)
        assert (pane.follow, pane.top, pane.at) == (False, 0, pane.shown - 1)


async def test_the_next_attempt_has_nothing_of_the_one_before(open_app: Any, live: FakeLive) -> None:
    """Its log is another file: who read the old one follows it, and no line of it is to blame or marked."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = screen.panes.grid.logs[0]
        pane.focus()
        await pilot.press("u", "k", "k", "m")
        pane.blame(20)
        await settled(pilot)
        live.stored.rank_log(0).unlink()
        times_of(live.stored.rank_log(0)).unlink()
        say(live, 0, *(f"again {i}" for i in range(9)))
        began = next(event for event in launching(live.plan, time.time()) if isinstance(event, RunOpened))
        await live.feed(dataclasses.replace(began, attempt=2, attempts=2))
        await settled(pilot)
        assert (pane.follow, pane.rows, pane.blamed, pane.marks, pane.since) == (True, 9, None, set(), 0)
        assert "again 0" in screen_text(app)


async def test_a_run_of_one_rank_that_says_one_line(open_app: Any, backend: FakeBackend) -> None:
    """Each stands there as one, and no key is offered for more panes than the one."""
    made = backend.plan(hosts=("node01",))
    task = dataclasses.replace(made.tasks[0], ranks=(0,))
    live = backend.follow(dataclasses.replace(made, tasks=(task,), world_size=1))
    say(live, 0, "the only line")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        assert "1 of 1 rank\n" in screen_text(app)
        assert "M merged" in body(app)[-1] and "P panes" not in body(app)[-1]
        await live.feed(RunEnded(time.time(), "succeeded", 0))
        await settled(pilot)
        assert "end of log  1 line\n" in screen_text(app)
        await pilot.press("M")
        await settled(pilot)
        assert "1 of 1 line shown" in screen_text(app)


@pytest.mark.parametrize("key", ["c", "M,c", "M,b", "M,m"])
async def test_a_key_that_can_do_nothing_says_so(open_app: Any, live: FakeLive, key: str) -> None:
    """Nothing takes the place of what was copied before."""
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        app.copy_to_clipboard("before")
        await pilot.press(*key.split(","))
        await settled(pilot)
        assert app.clipboard == "before"
        assert [n.message for n in app._notifications if "line" in n.message]


async def test_a_folder_that_is_gone_is_no_log_without_lines(
    open_app: Any, live: FakeLive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank has written; there is no place to save it to."""
    gone = tmp_path / "gone"
    gone.mkdir()
    say(live, 0, "a line")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        monkeypatch.chdir(gone)
        gone.rmdir()
        await pilot.press("W")
        await settled(pilot)
        assert any("can't save llm-7f3-rank-00000.log: No such file" in n.message for n in app._notifications)
        monkeypatch.chdir(tmp_path)


async def test_the_log_of_a_run_that_was_removed_meanwhile(open_app: Any, live: FakeLive) -> None:
    """The rank has written; its lines are on the screen, and what is to be saved is not here any more."""
    say(live, 0, "a line")
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        live.stored.rank_log(0).unlink()
        await pilot.press("W")
        await settled(pilot)
        assert any(n.message == f"nothing to save: {live.stored.log_dir} was removed" for n in app._notifications)


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
        assert not screen.panes.merged_only


async def test_a_merged_log_that_is_read_to_its_end_says_so(open_app: Any, live: FakeLive) -> None:
    """Also where the last look found nothing new: its title goes with what is still to be read, not only with rows."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        pane = next(pane for pane in screen.panes.merged if pane.display)
        read, more = pane.reader, [True]
        pane.reader = lambda budget: read(budget) or more[0]
        await until(pilot, lambda: "reading on" in screen_text(app))
        more[0] = False
        await until(pilot, lambda: "reading on" not in screen_text(app))


async def test_launchers_have_their_log(open_app: Any, backend: FakeBackend) -> None:
    """torchrun's own words are in the merged log under its name, and in a pane, by the list and by [ ]."""
    job = backend.draft(JOB, "llm-pretrain.yaml").job
    assert job is not None
    backend.found = dict(backend.answers)
    picks = [HostPick("node03"), HostPick("node04")]
    job = dataclasses.replace(job, launcher="torchrun", command=("train.py",))
    made = backend.preview(job, picks, run_id="tr")
    assert isinstance(made, RunPlan), made
    live = backend.follow(made)
    say(live, 0, "step 1", at=NOW)
    for task in made.tasks[:1]:
        log = live.stored.node_log(task.index)
        log.write_text("W torch.distributed.run: master_addr is only used for static\nstep 1\n")
        times_of(log).write_bytes(pack([NOW, NOW]))
    await live.feed(*launching(made, NOW - 1))
    async with open_app((120, 36)) as (app, pilot):
        screen = await opened(pilot, live)
        assert "launcher's log" in screen_text(app)
        screen.panes.ranks.go(-1)
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
        assert screen.panes.grid.log_panes[0].rank == 15


async def test_what_a_rank_said_before_joins_the_steps_of_others(open_app: Any, live: FakeLive) -> None:
    """Its log comes after those of others were merged: the merged log has each step once, and no row beside."""
    began = time.time() - 600
    said = [(began + step, f"step {step}  loss 2.1") for step in range(60)]
    write_log(live.stored.rank_log(0), said)
    async with open_app((120, 36)) as (_, pilot):
        screen = await opened(pilot, live)
        await pilot.press("M")
        await settled(pilot)
        write_log(live.stored.rank_log(1), said)
        await live.feed(*launching(live.plan, began))
        await settled(pilot)
        await settled(pilot)
        rows = screen.feed.merged.groups
        assert not any(row.inserted for row in rows)
        assert all(row.said_by() == {0, 1} for row in rows) and sum(row.members for row in rows) == 120
        assert screen.panes.full_merged.merged is screen.feed.merged


def write_log(path: Path, said: list[tuple[float, str]]) -> None:
    """A rank's log with the times of its lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for _, text in said))
    times_of(path).write_bytes(pack([at for at, _ in said]))
