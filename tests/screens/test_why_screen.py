"""The Why panel of a run: the last answer at once, what the ranks answer now, and what is kept of runs that ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeBackend, FakeLive, launching, screen_text, settle, shot
from standing import answer, calls, hang, moving, stands
from training import body, opened, settled, train, until

from distui.cluster.why import Why
from distui.errors import ContactLost
from distui.runs.insight.slow.lateness import Lateness
from distui.runs.insight.slow.slow import Slow
from distui.runs.lines.events import NetworkUsed, RankChanged, RanksAsked, RunEnded
from distui.runs.lines.explanation import Calls, Explanation, RankPlace
from distui.runs.store.masking import Mask
from distui.runs.store.why_records import WhyRecord, keep
from distui.tui.paint.glyphs import ASCII, UNICODE
from distui.tui.paint.paint import Line
from distui.tui.run.screen import RunScreen
from distui.tui.why.answers import Answer, Answers
from distui.tui.why.lines import folded, status_line, status_lines
from distui.tui.why.screen import WhyScreen
from distui.tui.why.table import BAR, Table, head_line, rank_line

# what is known


def record(live: FakeLive, at: float, **changes: Any) -> WhyRecord:
    return WhyRecord(at, "run", replace(hang(live.plan), **changes), calls(live.plan))


def test_answers_are_kept_newest_first_and_each_once(live: FakeLive) -> None:
    """Files have milliseconds, and the run's event is the same answer again; what was asked for here has figures."""
    answers = Answers(live)
    keep(live.stored, record(live, 100.0004))
    keep(live.stored, record(live, 200.0))
    live.fan.put((RanksAsked(200.0, hang(live.plan)),))
    answers.take(answers.read())
    assert [one.record.at for one in answers.all] == [200.0, 100.0]
    slow = Slow((), {}, Lateness((), None, (), 0.0, 0, 0.0, 0.0), (), {})
    answers.take([Answer(record(live, 100.0004), slow)])
    assert [one.slow is slow for one in answers.all] == [False, True]


def test_who_looks_at_an_older_answer_goes_on_doing_so(live: FakeLive) -> None:
    """And who looks at the newest sees what is newest then."""
    answers = Answers(live)
    answers.take([Answer(record(live, 100.0)), Answer(record(live, 200.0))])
    assert answers.step(1) and not answers.step(1)
    answers.take([Answer(record(live, 300.0))])
    assert answers.shown is not None and (answers.at, answers.shown.record.at) == (2, 100.0)
    answers.at = 0
    answers.take([Answer(record(live, 400.0))])
    assert answers.shown is not None and answers.shown.record.at == 400.0


def test_what_could_not_be_written_down_is_there_by_its_event(live: FakeLive) -> None:
    """A full disk here; values of secrets are hidden in what others wrote down."""
    live.fan.put((RanksAsked(50.0, hang(live.plan)),))
    live.mask = Mask({"TOKEN": "tok-secret"})
    answers = Answers(live)
    assert answers.shown is None
    keep(live.stored, record(live, 60.0, headline="reads /x/tok-secret"))
    answers.take(answers.read())
    assert [(one.record.at, one.record.by) for one in answers.all] == [(60.0, "run"), (50.0, "run")]
    assert answers.all[0].record.found.headline == "reads /x/***"


def test_news_of_the_run(live: FakeLive) -> None:
    """Each time it has told something, once; also that its ranks go on."""
    answers = Answers(live)
    assert not answers.has_news()
    for at, found in ((50.0, hang(live.plan)), (60.0, moving(live.plan))):
        live.fan.put((RanksAsked(at, found),))
        assert answers.has_news() and not answers.has_news()


@pytest.mark.parametrize(
    ("outcome", "may"), [(None, True), ("detached", True), ("unknown", True), ("failed", False), ("stopped", False)]
)
def test_which_ranks_may_be_asked(live: FakeLive, outcome: Any, may: bool) -> None:
    """Those of a run that was left may live."""
    live.fan.put(tuple(launching(live.plan, 1.0)))
    live.fan.put((RunEnded(9.0, outcome, 0),) if outcome else ())
    assert Answers(live).may_ask is may


# how it is painted


@pytest.fixture
def palette(backend: FakeBackend) -> Any:
    from distui.tui.app import DistuiApp

    return DistuiApp(backend).palette


def table_of(*places: RankPlace, kind: Any = "hang") -> Table:
    return Table.of(Answer(WhyRecord(1.0, "run", Explanation(kind, "x", "certain", places))))


def painted(palette: Any, table: Table, width: int = 100, *, glyphs: Any = UNICODE) -> list[str]:
    rows = [rank_line(palette, glyphs, table, number, width) for number in range(len(table.rows))]
    return [line.plain for line in (head_line(palette, table, width), *rows)]


def test_the_bar_shows_how_far_behind_a_rank_is(palette: Any) -> None:
    """A cell each while that is enough, then parts of the most; half a cell at least, none where nobody is behind."""
    behind = (None, 0, 1, 8)
    one = painted(palette, table_of(*(RankPlace(n, "h1", "waits", behind=b) for n, b in enumerate(behind))))
    assert [row.split()[2:4] for row in one[1:]] == [
        ["·" * 8, "?"],
        ["·" * 8, "-"],
        ["━" + 7 * "·", "1"],
        ["━" * 8, "8"],
    ]
    far = painted(palette, table_of(RankPlace(0, "h1", "x", behind=1), RankPlace(1, "h1", "x", behind=1000)))
    assert [row.split()[2] for row in far[1:]] == ["╸" + 7 * "·", "━" * 8]
    late = table_of(RankPlace(0, "h1", "x", late=0.2), RankPlace(1, "h1", "x", late=0.0001), kind="straggler")
    assert late.heads == ("RANK", "HOST", "LATE", "AT", "DOES")
    assert [row.split()[2:4] for row in painted(palette, late)[1:]] == [["━" * 8, "200"], ["·" * 8, "-"]]
    plain = painted(palette, late, glyphs=ASCII)
    assert all(row.isascii() for row in plain) and "=" * BAR in plain[1]


@pytest.mark.parametrize("width", [10, 30, 60, 80, 120, 200])
def test_rows_are_never_wider_than_the_screen(palette: Any, width: int) -> None:
    """And what a rank does keeps its room before where it is does."""
    table = table_of(
        RankPlace(0, "h" * 40, "waits in all_reduce #31 at /work/train.py:24", "all_reduce #31 " * 5, 3, True)
    )
    rows = painted(palette, table, width)
    assert all(len(row) <= width for row in rows)
    assert ("AT" in rows[0]) is (width >= 100)
    assert ("DOES" in rows[0]) is (width >= 60)
    if width >= 100:
        assert "waits in all_reduce #31 at /work/train.py" in rows[1]


def test_figures_stay_where_what_ranks_do_is_short(palette: Any) -> None:
    """On a narrow window the columns of a run that was watched go one by one."""
    slow = Slow((), {}, Lateness((), None, (), 0.0, 0, 0.0, 0.0), (), {})
    for does, shown in (("sleeps", True), ("waits in all_reduce #31 at /work/train.py:24 in main", False)):
        found = Explanation("straggler", "x", "certain", (RankPlace(0, "h1", does, "all_reduce #31", late=0.2),))
        table = Table.of(Answer(WhyRecord(1.0, "user", found), slow))
        assert ("CPU" in painted(palette, table, 71)[0]) is shown
        assert table.cells_of(0)["CPU"] == "?"


def test_text_of_ranks_can_not_steer_the_terminal(palette: Any) -> None:
    """Names of files and functions are whatever a program makes of them."""
    rows = painted(palette, table_of(RankPlace(0, "h1", "at /x\x1b[2J\x07.py\n in f", "op\x1b]0;x\x07", 1, True)))
    assert all(row.isprintable() for row in rows)
    assert all(part.isprintable() for part in folded("a\x1b[31m b\rc " * 9, 30))


def test_how_asking_goes_in_words(palette: Any, live: FakeLive) -> None:
    """While they are asked, when that failed, and of a run that has ended."""
    now = [100.0]
    answers = Answers(live, clock=lambda: now[0])

    def said() -> str:
        return status_line(palette, answers).plain.strip()

    assert said() == ""
    answers.begin()
    now[0] = 103.0
    assert said() == "asking the ranks… 3 s"
    answers.end(ContactLost("no host answers", hint="try again"))
    assert said() == "can't be asked: no host answers; try again"
    answers.take([Answer(record(live, -30.0))])
    answers.begin()
    assert said() == "asking the ranks… 0 s   last answer 2m ago"
    answers.end()
    assert said() == "last answer 2m ago"
    live.fan.put((*launching(live.plan, 1.0), RunEnded(104.0, "stopped", 130)))
    assert said().startswith("llm-7f3 has ended; last answer at ")
    answers.all, answers.read_yet = (), True
    assert said() == "llm-7f3 has ended, and no answer of its ranks is kept; `distui show llm-7f3` tells how it ended"


def test_why_ranks_can_not_be_asked_is_whole_on_a_narrow_window(palette: Any, live: FakeLive) -> None:
    """It says what to do at its end."""
    answers = Answers(live, clock=lambda: 100.0)
    answers.end(ContactLost("h1 and h2 do not answer", hint="try again when they are back, or look at the way to them"))
    rows = status_lines(palette, answers, 60)
    assert len(rows) == 2 and all(row.width <= 60 for row in rows)
    assert rows[-1].plain.endswith("the way to them")
    assert len(status_lines(palette, answers, 200)) == 1


# on the screen


@pytest.fixture
def why(live: FakeLive, backend: FakeBackend) -> Callable[..., Any]:
    """Opens the run view and the panel over it; `error` is what comes of asking."""

    async def shown(pilot: Any, error: Exception | None = None) -> WhyScreen:
        train(live)
        await live.feed(*launching(live.plan, time.time() - 60))
        await opened(pilot, live)
        backend.error = error
        await pilot.press("w")
        await settle(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, WhyScreen)
        return screen

    return shown


async def test_what_was_told_last_is_there_while_the_ranks_are_asked(
    open_app: Any, live: FakeLive, backend: FakeBackend, why: Any
) -> None:
    """Then what they tell now; asking changes nothing, so a read-only app may, too."""
    keep(live.stored, WhyRecord(time.time() - 300, "run", moving(live.plan)))
    backend.silence.clear()
    backend.readonly = True
    backend.reported = answer(live.plan, time.time())
    async with open_app((80, 24)) as (app, pilot):
        screen = await why(pilot)
        await until(pilot, lambda: "no collective stands still" in screen_text(app))
        text = screen_text(app)
        assert "asking the ranks…" in text and "last answer 5m ago" in text and "goes on" in text
        await pilot.press("r")
        assert any("they are being asked" in str(note.message) for note in app._notifications)
        backend.silence.set()
        await until(pilot, lambda: "rank 13 has not entered" in screen_text(app))
        await settle(pilot)
        text = screen_text(app)
        shot(app, "why")
        assert "next  look at /work/train.py:6" in text and "asking" not in text
        assert screen.rows.key == "13" and "/work/train.py:21 in main" in text
        await pilot.press("j")
        await settle(pilot)
        assert "the same in ranks 1-12,14-15" in screen_text(app)
        await pilot.press("escape")
        assert isinstance(app.screen, RunScreen)
    assert [call for call in backend.calls if call[0] == "why"] == [("why", "llm-7f3", False)]


async def test_which_interface_carries_how_much(open_app: Any, live: FakeLive, backend: FakeBackend, why: Any) -> None:
    """As it was told last, and what is odd in it, also in what is copied; in the run view beside GPUs and network."""
    odd = "node[01-02]: 40 GB went over eth0, hardly any over ib0, which the plan chose; look at it"
    backend.reported = Why("llm-7f3", WhyRecord(time.time(), "user", moving(live.plan)))
    async with open_app((120, 36)) as (app, pilot):
        await why(pilot)
        await until(pilot, lambda: "no collective stands still" in screen_text(app))
        assert "network:" not in screen_text(app)
        await live.feed(NetworkUsed(time.time(), "going", "eth0 98 % of 41 GB, ib0 2 %", (), (odd,)))
        await until(pilot, lambda: "network: eth0 98 % of 41 GB, ib0 2 % (until " in screen_text(app))
        text = screen_text(app)
        assert "40 GB went over eth0" in text
        shot(app, "why-network")
        await pilot.press("y")
        assert odd in app.clipboard and "no collective stands still" in app.clipboard
        await pilot.press("escape")
        await until(pilot, lambda: "GPUs and network   eth0 98 % of 41 GB, ib0 2 % " in screen_text(app))


async def test_hosts_that_can_not_be_asked_are_reported_in_words(
    open_app: Any, live: FakeLive, backend: FakeBackend, why: Any
) -> None:
    """And `r` asks again."""
    lost = ContactLost("run llm-7f3 is on no host that answers", hint="try again when the hosts are back")
    backend.reported = answer(live.plan, time.time())
    async with open_app((120, 40)) as (app, pilot):
        await why(pilot, lost)
        await until(
            pilot, lambda: "can't be asked: run llm-7f3 is on no host that answers; try again" in screen_text(app)
        )
        await pilot.press("r")
        await until(pilot, lambda: "rank 13 has not entered" in screen_text(app))
        assert "can't be asked" not in screen_text(app)


async def test_enter_goes_to_the_log_of_the_rank(open_app: Any, live: FakeLive, backend: FakeBackend, why: Any) -> None:
    """In the run view below."""
    backend.reported = answer(live.plan, time.time())
    async with open_app((120, 40)) as (app, pilot):
        screen = await why(pilot)
        await until(pilot, lambda: len(screen.table.places) == 16)
        await pilot.press("enter")
        await settled(pilot)
        assert isinstance(app.screen, RunScreen)
        assert app.screen.panes.active.rank == 13 and app.screen.panes.ranks.rank == 13


async def test_what_the_run_tells_by_itself_comes_while_it_is_open(
    open_app: Any, live: FakeLive, backend: FakeBackend, why: Any
) -> None:
    """Without a key."""
    backend.reported = Why("llm-7f3", WhyRecord(time.time() - 1, "user", moving(live.plan)))
    async with open_app((120, 40)) as (app, pilot):
        await why(pilot)
        await until(pilot, lambda: "no collective stands still" in screen_text(app))
        assert "calls are asked for by themselves only where" in " ".join(screen_text(app).split())
        await stands(live, time.time())
        app.screen._tick()
        await until(pilot, lambda: "rank 13 has not entered" in screen_text(app))


@pytest.mark.parametrize("replayed", [False, True])
async def test_a_run_that_has_ended_shows_what_was_kept(
    open_app: Any, live: FakeLive, backend: FakeBackend, why: Any, replayed: bool
) -> None:
    """Newest first, each with its time; nobody is asked."""
    for ago, found in ((900, hang(live.plan)), (30, moving(live.plan))):
        keep(live.stored, WhyRecord(time.time() - ago, "run", found, calls(live.plan)))
    await live.feed(*launching(live.plan, time.time() - 1000), RunEnded(time.time() - 5, "stopped", 130))
    async with open_app((120, 40)) as (app, pilot):
        app.open_run(backend.replay("llm-7f3") if replayed else live)
        await settled(pilot)
        await pilot.press("w")
        await until(pilot, lambda: "no collective stands still" in screen_text(app))
        text = screen_text(app)
        assert "llm-7f3 has ended; last answer at " in text and "ask again" not in text
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "rank 13 has not entered" in screen_text(app))
        await pilot.press("r", "right_square_bracket")
        said = " ".join(str(note.message) for note in app._notifications)
        assert "its ranks can't be asked any more" in said and "nothing older is kept" in said
    assert not [call for call in backend.calls if call[0] == "why"]


async def test_a_run_that_was_never_asked(open_app: Any, live: FakeLive) -> None:
    """It says so, every key has an answer, and none is offered that goes to a rank or copies what it said."""
    await live.feed(*launching(live.plan, time.time() - 60), RunEnded(time.time() - 5, "succeeded", 0))
    async with open_app((80, 24)) as (app, pilot):
        await opened(pilot, live)
        await pilot.press("w")
        await until(pilot, lambda: "no answer of its ranks is kept" in screen_text(app))
        assert body(app)[-1].split() == ["?", "help"]
        await pilot.press("y", "enter", "tab", "j", "right_square_bracket")
        assert any(note.message == "no answer is kept" for note in app._notifications)
        assert isinstance(app.screen, WhyScreen)


async def test_sixty_four_ranks_scroll(open_app: Any, live: FakeLive, backend: FakeBackend, why: Any) -> None:
    """Only rows on the screen are painted, and the cursor stays on its rank when the ranks tell something new."""
    places = tuple(RankPlace(n, f"h{n // 8}", "waits", f"all_reduce #{n}", 64 - n, n == 0) for n in range(64))
    found = Explanation("hang", "rank 0 sleeps", "certain", places)
    frames = tuple(f"/deep/{n}.py:{n} in f{n}" for n in range(60))
    record = WhyRecord(time.time(), "user", found, (Calls(tuple(range(64)), frames),))
    backend.reported = Why("llm-7f3", record)
    async with open_app((80, 24)) as (app, pilot):
        screen = await why(pilot)
        await until(pilot, lambda: len(screen.table.places) == 64)
        painted: list[int] = []
        plain = screen.rows.painter

        def counted(number: int, width: int, here: bool) -> Line:
            painted.append(number)
            return plain(number, width, here)

        screen.rows.painter = counted
        await pilot.press("G")
        await settle(pilot)
        assert screen.rows.key == "63" and "rank 63 on h7" in screen_text(app)
        assert len(set(painted)) <= 2 * screen.rows.size.height
        await pilot.press("tab", "G")
        await settle(pilot)
        assert "/deep/59.py:59 in f59" in screen_text(app)
        backend.reported = Why("llm-7f3", replace(record, at=record.at + 1))
        await pilot.press("r")
        await until(pilot, lambda: len(screen.answers.all) == 2)
        assert screen.rows.key == "63"


@pytest.mark.parametrize("size", [(200, 50), (80, 24), (60, 15), (40, 10), (20, 5), (1, 1)])
@pytest.mark.parametrize("ascii", [False, True])
async def test_every_size(
    open_app: Any, live: FakeLive, backend: FakeBackend, why: Any, size: tuple[int, int], ascii: bool
) -> None:
    """Nothing is wider than the screen or fails, whatever it becomes."""
    backend.reported = answer(live.plan, time.time())
    async with open_app(size, ascii=ascii) as (app, pilot):
        screen = await why(pilot)
        await until(pilot, lambda: len(screen.answers.all) == 1)
        for columns, rows in (size, (120, 36), size):
            await pilot.resize_terminal(columns, rows)
            await settle(pilot)
            text = screen_text(app)
            shown = text.splitlines()
            assert len(shown) <= rows and all(len(row) <= columns for row in shown)
            assert not ascii or text.isascii()
            if rows >= 10:
                assert "13" in text and "look at" in text


async def test_calls_are_seen_however_much_proves_the_finding(
    open_app: Any, live: FakeLive, backend: FakeBackend, why: Any
) -> None:
    """On a busy machine each host says that it waits for a core: on 24 rows that is cut, and not the calls."""
    found = hang(live.plan)
    busy = tuple(f"h{number}: work waited for cpu 72 % of the last 10 s" for number in range(4))
    found = replace(found, ranks=found.ranks[:4], evidence=(*found.evidence, *busy))
    backend.reported = Why("llm-7f3", WhyRecord(time.time(), "user", found, calls(live.plan)))
    keep(live.stored, record(live, time.time() - 60))
    async with open_app((80, 24)) as (app, pilot):
        screen = await why(pilot)
        await until(pilot, lambda: len(screen.answers.all) == 2)
        await until(pilot, lambda: "/work/train.py:21 in main" in screen_text(app))
        text = screen_text(app)
        assert "rank 13 has not entered all_reduce #31" in text and "more rows: y copies all of it" in text


# in the run view


async def test_a_hang_is_seen_without_a_key(open_app: Any, live: FakeLive) -> None:
    """Banner, state and rank say so, and that `w` tells more; when the ranks go on they say that, too."""
    train(live)
    await live.feed(*launching(live.plan, time.time() - 60))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        assert "RUNNING" in screen_text(app)
        await stands(live, time.time())
        await settled(pilot)
        text = screen_text(app)
        shot(app, "hangs")
        assert "STALLED" in text and "RUNNING" not in text and "Rank 13 has not entered all_reduce #31" in text
        assert "for 2m   w why" in text and "next  look at /work/train.py:6" in text
        assert "13  stuck" in text and "1 to watch" in text
        await live.feed(RanksAsked(time.time(), moving(live.plan)))
        await settled(pilot)
        text = screen_text(app)
        assert "RUNNING" in text and "STALLED" not in text and "Rank 13 has not" not in text and "stuck" not in text


async def test_a_stall_is_reported_and_no_hang(open_app: Any, live: FakeLive) -> None:
    """A checkpoint that is written: what the others wait for is said, and the run runs."""
    stall = replace(hang(live.plan), kind="stall", headline="rank 13 saves or loads a checkpoint", advice="")
    await live.feed(*launching(live.plan, time.time() - 60), RanksAsked(time.time(), stall))
    async with open_app((80, 24)) as (app, pilot):
        await opened(pilot, live)
        text = screen_text(app)
        assert "Rank 13 saves or loads a checkpoint" in text and "RUNNING" in text and "stuck" not in text


async def test_a_failure_is_more_than_a_hang(open_app: Any, live: FakeLive, backend: FakeBackend) -> None:
    """Its banner has the place; of a run that was stopped nothing stands still any more."""
    await live.feed(*launching(live.plan, time.time() - 60), RanksAsked(time.time(), hang(live.plan)))
    await live.feed(RankChanged(time.time(), 0, "node01", "stopped"), RunEnded(time.time(), "stopped", 130))
    async with open_app((80, 24)) as (app, pilot):
        await opened(pilot, live)
        text = screen_text(app)
        assert "STOPPED" in text and "Rank 13 has not" not in text and "STALLED" not in text


async def test_a_click_on_the_banner_opens_it(open_app: Any, live: FakeLive, backend: FakeBackend) -> None:
    """As enter on a failure's goes to the line."""
    backend.reported = answer(live.plan, time.time())
    await live.feed(*launching(live.plan, time.time() - 60), RanksAsked(time.time(), hang(live.plan)))
    async with open_app((120, 36)) as (app, pilot):
        await opened(pilot, live)
        await pilot.click("#banner", offset=(10, 0))
        await until(pilot, lambda: isinstance(app.screen, WhyScreen))


def test_a_moved_key_is_the_one_that_is_named(open_app: Any) -> None:
    """`keymap: {wrap: w, why: b}` gives the keys back as they were."""
    from distui.tui.registry import keymap_of

    keys, wrong = keymap_of({"wrap": "w", "why": "b"})
    assert (dict(keys), wrong) == ({"wrap": "w", "why": "b"}, ())
