"""The merged log: order by our clock, folding of equal lines, late lines."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distui.runs.lines.times import pack, times_of
from distui.tui.logs.buffer import LogBuffer
from distui.tui.logs.merged import log as module
from distui.tui.logs.merged.groups import FOLD_S, Group, fold_key, starred, unranked
from distui.tui.logs.merged.log import MergedLog, matching
from distui.tui.logs.merged.pane import MergedPane
from distui.tui.logs.merged.step_ranges import KEPT, LEAST, MOST
from distui.tui.logs.merged.why_apart import why_apart

Said = tuple[float, str]


def log(folder: Path, rank: int, *said: Said) -> LogBuffer:
    """A rank's log with times."""
    path = folder / f"rank-{rank:05d}.log"
    with path.open("ab") as file, times_of(path).open("ab") as times:
        file.write("".join(f"{text}\n" for _, text in said).encode())
        times.write(pack([at for at, _ in said]))
    buffer = LogBuffer(path, rank, f"node{rank // 2}")
    buffer.grow()
    return buffer


def read(merged: MergedLog, *, now: float = 1e9) -> list[Group]:
    """All rows, with the run over."""
    while merged.grow(now, 1.0, flush=True):
        pass
    return merged.groups


def test_lines_of_all_ranks_are_in_time(tmp_path: Path) -> None:
    """Ordered by when they were said, not by which file they came from."""
    buffers = {0: log(tmp_path, 0, (1.0, "a"), (3.0, "c")), 1: log(tmp_path, 1, (2.0, "b"), (4.0, "d"))}
    assert [g.text for g in read(MergedLog(buffers))] == ["a", "b", "c", "d"]


def test_equal_lines_are_one_row(tmp_path: Path) -> None:
    """What all ranks say at about the same time is one row that knows who said it."""
    buffers = {r: log(tmp_path, r, (1.0 + r / 100, f"step 7  loss 2.1{r}  41.{r}k tok/s")) for r in range(4)}
    (group,) = read(MergedLog(buffers))
    assert (group.said_by(), group.members, group.shown) == (frozenset(range(4)), 4, "step 7  loss 2.12  * tok/s")
    assert MergedLog(buffers).remark(group) == "loss ± 0.015"


def test_what_logs_had_at_the_beginning_is_one_row_though_some_are_read_later(tmp_path: Path) -> None:
    """Nothing is placed before every log was read up to there; a log that is cut meanwhile is not waited for."""
    said = [(1.0 + step, f"step {step}  loss 2.1") for step in range(12)]
    buffers = {rank: log(tmp_path, rank, *said) for rank in range(2)}
    late, gone = LogBuffer(buffers[1].path, 1), log(tmp_path, 2, (1.0, "here"))
    merged = MergedLog({0: buffers[0], 1: late, 2: gone})
    assert merged.grow(1e9, 1.0) and not merged.groups
    gone.path.write_bytes(b"")
    gone.grow()
    late.grow()
    assert {group.said_by() for group in read(merged)} == {frozenset({0, 1}), frozenset({2})}


@pytest.mark.parametrize(
    ("said", "shown", "spread"),
    [
        (("loss 0.0438", "loss 0.1848"), "loss 0.1143", "loss ± 0.0705"),
        (("took 4.0s", "took 5.0s", "took 4.2s"), "took 4.5s", "took ± 0.5"),
        (("lr 1.00e-4", "lr 3.00e-4"), "lr 2.00e-04", "lr ± 0.0001"),
        (("at -1.5% now", "at 2.5% now"), "at 0.5% now", "at ± 2"),
    ],
)
def test_what_stands_before_a_spread_is_its_middle(
    tmp_path: Path, said: tuple[str, ...], shown: str, spread: str
) -> None:
    """So that no rank's value lies outside of what is said, whichever rank spoke first."""
    buffers = {rank: log(tmp_path, rank, (1.0, text)) for rank, text in enumerate(said)}
    merged = MergedLog(buffers)
    (group,) = read(merged)
    assert (group.shown, merged.remark(group)) == (shown, spread)


def test_steps_are_never_folded_together() -> None:
    """Whole numbers tell lines apart, numbers with a point or a unit do not."""
    assert fold_key("step 7 loss 2.10") == fold_key("step 7 loss 2.11")
    assert fold_key("step 7 loss 2.10") != fold_key("step 8 loss 2.10")
    assert fold_key("rank13 done in 4.2 s") == "rank13 done in # s"


def test_whole_numbers_may_differ_from_rank_to_rank(tmp_path: Path) -> None:
    """`worker *`, with their range at the right; of one rank other numbers are other lines, and errors keep theirs."""
    said = {r: [(1.0 + r / 100, f"dataloader: worker {r + 3} restarted")] for r in range(4)}
    said[0].append((1.2, "dataloader: worker 9 restarted"))
    buffers = {r: log(tmp_path, r, *lines) for r, lines in said.items()}
    merged = MergedLog(buffers)
    first, second = read(merged)
    assert (first.members, first.shown, merged.remark(first)) == (4, "dataloader: worker * restarted", "worker 3 to 6")
    assert (second.members, second.shown) == (1, "dataloader: worker 9 restarted")


def test_errors_keep_their_numbers(tmp_path: Path) -> None:
    """Two exit codes are two things."""
    buffers = {r: log(tmp_path, r, (1.0, f"ERROR: worker ended with {r}")) for r in range(2)}
    assert [group.members for group in read(MergedLog(buffers))] == [1, 1]


@pytest.mark.parametrize("line", ["step {} gnorm 1", "12/{} seen", "epoch {}: on", "[{}/500] on", "{} items", "it={}"])
def test_numbers_that_count_tell_lines_apart(tmp_path: Path, line: str) -> None:
    """A rank that is a step ahead is not folded with the others."""
    buffers = {r: log(tmp_path, r, (1.0, line.format(7 + r))) for r in range(2)}
    assert len(read(MergedLog(buffers))) == 2


@given(st.lists(st.integers(0, 99), min_size=2, max_size=5), st.integers(0, 99))
def test_stars_stand_where_numbers_differ(values: list[int], step: int) -> None:
    """And nowhere else: what is the same in all lines is shown as it is."""
    texts = [f"step {step} loss {value / 10:.1f} gnorm {value} seed 5" for value in values]
    group = Group(0.0, 0.0, texts[0])
    for text in texts[1:]:
        group.compare(text)
    wanted = "*" if len(set(values)) > 1 else str(values[0])
    middle = (min(values) / 10 + max(values) / 10) / 2
    shown = f"step {step} loss {middle:.1f} gnorm {wanted} seed 5"
    assert starred(texts[0], group.differs) == shown


def test_a_rank_s_own_number_does_not_tell_its_lines_apart(tmp_path: Path) -> None:
    """`rank 3/4` said by rank 3 is what the others say; what is said of another rank stays."""
    buffers = {r: log(tmp_path, r, (1.0 + r / 100, f"rank {r}/4 epoch 2 loss 0.1{r}")) for r in range(4)}
    (group,) = read(MergedLog(buffers))
    assert (group.members, group.shown, group.text) == (4, "rank */4 epoch 2 loss 0.12", "rank 0/4 epoch 2 loss 0.10")
    assert unranked("[rank13]: lost rank 1", 13) == "[rank*]: lost rank 1"
    assert unranked("frank3 and rank 33", 3) == "frank3 and rank 33"
    assert unranked("rank 1", -1) == "rank 1"


def test_without_folding_each_line_is_a_row(tmp_path: Path) -> None:
    """D shows every line."""
    buffers = {r: log(tmp_path, r, (1.0, "same")) for r in range(4)}
    assert len(read(MergedLog(buffers, fold=False))) == 4


def test_a_rank_that_comes_late_says_so(tmp_path: Path) -> None:
    """Three ranks at once, the fourth 2.9 s after: a row of its own with the delay."""
    buffers = {r: log(tmp_path, r, (1.0, "step 1")) for r in range(3)} | {3: log(tmp_path, 3, (3.9, "step 1"))}
    merged = MergedLog(buffers)
    first, late = read(merged)
    assert (first.members, late.members, merged.remark(late)) == (3, 1, "2.9 s late")


def test_lines_wait_for_earlier_ones(tmp_path: Path) -> None:
    """A line is shown half a second after it was said; one that comes later still is put where it belongs."""
    buffers = {0: log(tmp_path, 0, (10.0, "b")), 1: log(tmp_path, 1)}
    merged = MergedLog(buffers)
    merged.grow(10.2)
    assert merged.groups == []
    merged.grow(10.6)
    assert [g.text for g in merged.groups] == ["b"]
    log(tmp_path, 1, (9.0, "a"))
    buffers[1].grow()
    merged.grow(10.7)
    assert [(g.text, merged.remark(g)) for g in merged.groups] == [("a", "~"), ("b", "")]


def test_without_times_ranks_go_side_by_side(tmp_path: Path) -> None:
    """A log from before times were kept is still readable: line by line."""
    buffers = {r: log(tmp_path, r, (0.0, "one"), (0.0, "two")) for r in range(2)}
    for buffer in buffers.values():
        times_of(buffer.path).unlink()
    merged = MergedLog(buffers)
    assert [(g.text, g.members) for g in read(merged)] == [("one", 2), ("two", 2)]
    assert not merged.timed


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old rows go from the front; the files have them."""
    buffer = log(tmp_path, 0, *((float(i), f"line {i}") for i in range(3000)))
    monkeypatch.setattr("distui.tui.logs.merged.log.KEPT_LINES", 500)
    merged = MergedLog({0: buffer}, first=10_000)
    read(merged)
    assert merged.trimmed > 0
    assert merged.groups[-1].text == "line 2999"


def test_what_ranks_say_every_second_for_days_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is folded with the one before; rows that are too old go, and lines that come then are in others."""
    monkeypatch.setattr(module, "KEPT_LINES", 500)
    monkeypatch.setattr(module, "MOST_IN_ROW", 100)
    buffer = log(tmp_path, 0)
    merged = MergedLog({0: buffer}, first=10_000)
    for begin in range(0, 3000, 20):
        log(tmp_path, 0, *((float(n), f"loss {n}.5") for n in range(begin, begin + 20)))
        buffer.grow()
        rows = read(merged)
        assert merged.members == sum(row.members for row in rows) <= 500
        assert rows[-1].last == begin + 19
    assert merged.members > 300 and all(row.members <= 100 for row in rows)


def pane_of(merged: MergedLog) -> MergedPane:
    """A pane of it, read on as the app does."""
    pane = MergedPane(0)
    pane.merged, pane.hosts = merged, {}
    pane.reader = lambda budget: merged.grow(1e9, 1.0, flush=True)
    return pane


def grown(pane: MergedPane) -> None:
    """All is read, and what is too old is gone."""
    while pane.grow(1.0) or pane.merged.members > module.KEPT_LINES:
        pass


def test_a_filter_shows_what_matches_though_old_rows_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that come are not taken for those that are gone, nor a range for what it was with fewer steps."""
    monkeypatch.setattr(module, "KEPT_LINES", 300)
    buffer = log(tmp_path, 0)
    pane = pane_of(MergedLog({0: buffer}, first=10_000))
    pane.filter = re.compile(rb"step [0-9]*7 ")
    for begin in range(0, 3000, 50):
        said = (
            (float(n), f"step {n} loss 2.5" if n // 50 % 3 else f"at {n}.5 ({n})") for n in range(begin, begin + 50)
        )
        log(tmp_path, 0, *said)
        buffer.grow()
        grown(pane)
        shown = [pane.item(row)[0] for row in range(pane.rows)]
        wanted = [pane.merged.groups[at] for at in matching(pane.merged.groups, pane.filter)]
        assert [group.text for group in shown] == [group.text for group in wanted]
    assert pane.merged.trimmed and len(pane._hits) <= 2 * len(pane.merged.groups)


def test_a_filter_looks_only_at_the_rows_that_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds of thousands of rows all would be looked at with each line; lines that join rows change none."""
    looked_at: list[Group] = []
    wanted = MergedPane._wanted
    monkeypatch.setattr(MergedPane, "_wanted", lambda pane, group: looked_at.append(group) or wanted(pane, group))
    buffers = {rank: log(tmp_path, rank, *((float(n), f"line {n} of all") for n in range(200))) for rank in range(2)}
    pane = pane_of(MergedLog(buffers, first=10_000))
    pane.filter = re.compile(rb"line [0-9]*[05] ")
    grown(pane)
    assert pane.rows == 40 and len(looked_at) == 200
    for n in range(200, 205):
        for rank, buffer in buffers.items():
            log(tmp_path, rank, (float(n), f"line {n} of all"))
            buffer.grow()
        grown(pane)
        pane.item(0)
    assert pane.rows == 41 and len(looked_at) == 205
    log(tmp_path, 1, (99.5, "line 995 that came late"))
    buffers[1].grow()
    grown(pane)
    assert [pane.item(row)[0].text for row in (19, 20, 21)] == [
        "line 95 of all", "line 995 that came late", "line 100 of all",
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["plain", "unfolded", "filtered"])
def test_who_reads_stays_at_its_row_though_old_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(module, "KEPT_LINES", 300)
    monkeypatch.setattr(MergedPane, "refresh", lambda self, **kwargs: self)
    buffer = log(tmp_path, 0, *((float(n), f"line ({n})") for n in range(250)), (250.0, "a"), (250.1, "a"))
    pane = pane_of(MergedLog({0: buffer}, first=10_000))
    pane.grow(1.0)
    if how == "filtered":
        pane.filter = re.compile(rb"a|[02468]\)")
    pane.go(pane.rows - 1)
    if how == "unfolded":
        pane.toggle()
    group = pane.item(pane.at)[0]
    assert group.text == "a"
    log(tmp_path, 0, *((float(n), f"line ({n})") for n in range(260, 420)))
    buffer.grow()
    grown(pane)
    assert pane.merged.trimmed > 100 and pane.item(pane.at)[0] is group
    log(tmp_path, 0, *((float(n), f"line ({n})") for n in range(420, 1000)))
    buffer.grow()
    grown(pane)
    assert pane.cursor == 0 and not pane.open, "it is gone itself by then"


def test_a_row_that_is_full_makes_nobody_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_IN_ROW", 10)
    said = [(float(n), "waiting") for n in range(30)]
    buffers = {0: log(tmp_path, 0, *said), 1: log(tmp_path, 1, *said[15:])}
    assert [(row.members, row.shift) for row in read(MergedLog(buffers))] == [(10, 0.0)] * 4 + [(5, 0.0)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(said=st.lists(st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc")), max_size=25), max_size=4))
def test_no_line_is_lost_or_doubled(tmp_path: Path, said: list[list[tuple[int, str]]]) -> None:
    """Every line is in exactly one row, rows are in time, and a folded row spans no longer than folding allows."""
    for path in tmp_path.iterdir():
        path.unlink()
    buffers = {r: log(tmp_path, r, *sorted((at / 10, text) for at, text in lines)) for r, lines in enumerate(said)}
    groups = read(MergedLog(buffers))
    output = sorted((rank, line) for g in groups for rank, line, _ in g.each())
    assert output == [(r, line) for r, lines in enumerate(said) for line in range(len(lines))]
    assert [g.at for g in groups] == sorted(g.at for g in groups)
    for group in groups:
        times = sorted(at for _, _, at in group.each())
        assert all(b - a <= FOLD_S for a, b in itertools.pairwise(times))
        assert {buffers[r].text(line, 1)[0] for r, line, _ in group.each()} == {group.text}


def test_the_merge_of_big_logs_begins_near_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the end is nobody knows before they are indexed: until then nothing is read."""
    monkeypatch.setattr(module, "MUCH", 10)
    buffer = log(tmp_path, 0, *((float(n), f"line {n}") for n in range(300)))
    buffer.renew()
    merged = MergedLog({0: buffer}, first=3)

    assert merged.grow(1e9)
    assert merged.groups == []
    while buffer.grow():
        pass
    assert [group.text for group in read(merged)] == ["line 297", "line 298", "line 299"]


def test_lines_that_are_written_again_after_a_cut_are_there_once(tmp_path: Path) -> None:
    """Whoever goes on with a run cuts a log to what is sure and writes the same lines again."""
    said = [(float(n), f"line {n}") for n in range(8)]
    buffer = log(tmp_path, 0, *said[:6])
    merged = MergedLog({0: buffer}, fold=False)
    read(merged)
    whole, times = buffer.path.read_bytes(), times_of(buffer.path).read_bytes()
    buffer.path.write_bytes(whole[: whole.index(b"line 2")])
    buffer.grow()
    read(merged)
    buffer.path.write_bytes(whole)
    times_of(buffer.path).write_bytes(times)
    log(tmp_path, 0, *said[6:])
    buffer.grow()
    assert [group.text for group in read(merged)] == [text for _, text in said]


def test_the_lines_of_another_attempt_are_all_new(tmp_path: Path) -> None:
    """Also those that are there when its log is looked at first."""
    buffer = log(tmp_path, 0, (1.0, "a"), (2.0, "b"))
    merged = MergedLog({0: buffer}, fold=False)
    read(merged)
    buffer.path.unlink()
    times_of(buffer.path).unlink()
    log(tmp_path, 0, (3.0, "c"), (4.0, "d"), (5.0, "e"))
    buffer.renew()
    buffer.grow()
    assert [group.text for group in read(merged)] == ["a", "b", "c", "d", "e"]


def test_many_different_lines_at_once_cost_what_each_costs(tmp_path: Path) -> None:
    """Lines that may still be folded are sifted when they have doubled, not with each line."""
    buffer = log(tmp_path, 0, *((n / 1000, f"step {n}") for n in range(3 * module.OPEN_LINES)))
    merged = MergedLog({0: buffer}, first=10**6)
    read(merged)

    assert merged.members == 3 * module.OPEN_LINES
    assert merged._open_limit >= 2 * module.OPEN_LINES


# Steps, one after another, as one row.


def stepping(folder: Path, ranks: int, steps: range, *, every: float = 3.0) -> dict[int, LogBuffer]:
    """Logs of ranks that all say each step."""
    return {
        r: log(folder, r, *((i * every + r / 100, f"step {i}/900 loss {3 - i / 100:.3f} gnorm 1.{r}") for i in steps))
        for r in range(ranks)
    }


def test_one_step_after_another_is_one_row(tmp_path: Path) -> None:
    """From which to which, the first figure too; the newest rows stand alone, and no line is lost."""
    merged = MergedLog(stepping(tmp_path, 2, range(10, 30)))
    first, *rest = read(merged)
    assert (first.shown, merged.remark(first)) == ("step 10..24/900 loss 2.900 to 2.760 gnorm *", "15 steps")
    assert (first.members, first.said_by(), len(rest)) == (30, {0, 1}, KEPT)
    assert rest[-1].text.startswith("step 29/900")
    assert sum(group.members for group in merged.groups) == merged.members == 40


def test_a_range_is_bounded_and_short_ones_are_none(tmp_path: Path) -> None:
    """So that it can be seen what was when."""
    many = read(MergedLog(stepping(tmp_path, 1, range(2 * MOST + KEPT))))
    assert [len(group.parts) for group in many[:2]] == [MOST, MOST]
    (tmp_path / "few").mkdir()
    few = read(MergedLog(stepping(tmp_path / "few", 1, range(LEAST - 1 + KEPT))))
    assert all(not group.parts for group in few)


@pytest.mark.parametrize(
    ("odd", "ranges"),
    [
        ("rank 1 is missing", ["0..7", "9..14"]),
        ("warning", ["0..8", "9..14"]),
        ("said between", ["0..8", "9..14"]),
        ("again", ["0..7", "7..14"]),
    ],
)
def test_what_is_odd_stands_alone(tmp_path: Path, odd: str, ranges: list[str]) -> None:
    """A step that not the same ranks said, that warns, that comes again, or between which something else was said."""
    said = [[(i * 3.0, f"step {i} loss 2.5") for i in range(20)] for _ in range(2)]
    if odd == "rank 1 is missing":
        del said[1][8]
    elif odd == "again":
        said[0][8] = said[1][8] = (24.0, "step 7 loss 2.5")
    else:
        said[0].insert(9, (25.0, "WARNING: slow" if odd == "warning" else "saved"))
    logs = {r: log(tmp_path, r, *lines) for r, lines in enumerate(said)}
    groups = read(MergedLog(logs))
    assert [group.text for group in groups if group.parts] == [f"step {steps} loss 2.5" for steps in ranges]


def test_a_line_that_comes_late_is_a_row_beside_its_range(tmp_path: Path) -> None:
    """Its step is folded by then; it says how late it was, and the range keeps its ranks."""
    logs = stepping(tmp_path, 2, range(20))
    logs[2] = log(
        tmp_path, 2, *((i * 3.0 + (2.5 if i == 6 else 0.0), f"step {i}/900 loss 2.5 gnorm 1.0") for i in range(20))
    )
    merged = MergedLog(logs)
    groups = read(merged)
    (late,) = [group for group in groups if group.shift]
    assert (late.text, late.said_by()) == ("step 6/900 loss 2.5 gnorm 1.0", {2})
    assert sum(group.members for group in groups) == 60


def test_what_came_late_is_merged_again(tmp_path: Path) -> None:
    """A rank whose lines come after ranges were made stands in rows beside them; merged again it is in them."""
    said = [(1.0 + step, f"step {step}  loss 2.1") for step in range(60)]
    buffers = {0: log(tmp_path, 0, *said), 1: log(tmp_path, 1, said[0])}
    merged = MergedLog(buffers)
    read(merged)
    assert not merged.scattered
    log(tmp_path, 1, *said[1:])
    buffers[1].grow()
    late = read(merged)
    assert merged.scattered and sum(row.inserted for row in late) > 40
    again = merged.again()
    assert not again.reaches(merged)
    rows = read(again)
    assert again.reaches(merged) and not again.scattered
    wanted = MergedLog({rank: log(tmp_path, rank) for rank in range(2)})
    assert [(row.text, row.said_by()) for row in rows] == [(row.text, row.said_by()) for row in read(wanted)]


def test_of_a_long_run_only_what_is_kept_is_merged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A week that was watched has hundreds of millions of lines before that; rows that are read back come as ever."""
    monkeypatch.setattr(module, "KEPT_LINES", 300)
    buffers = {rank: log(tmp_path, rank) for rank in range(2)}
    merged = MergedLog(buffers, many=1)
    for begin in range(0, 2000, 100):
        for rank, buffer in buffers.items():
            log(tmp_path, rank, *((n + 0.5 * rank, f"line ({n}) of {rank}") for n in range(begin, begin + 100)))
            buffer.grow()
        while merged.grow(1e9, 1.0, flush=True) or merged.members > module.KEPT_LINES:
            pass
    merged._between = 1
    assert merged.scattered
    again = merged.again()
    rows = [(row.text, row.said_by()) for row in read(again)]
    assert rows == [(row.text, row.said_by()) for row in merged.groups] and not again.from_start
    assert sum(reader.line - reader.begin for reader in again._readers) == merged.members
    twice = again.again()
    read(twice)
    assert sum(reader.line - reader.begin for reader in twice._readers) == merged.members


def test_what_is_read_is_not_merged_again(tmp_path: Path) -> None:
    """Neither while the rows are held, nor once a range was opened."""
    said = [(1.0 + step, f"step {step}  loss 2.1") for step in range(60)]
    buffers = {0: log(tmp_path, 0, *said), 1: log(tmp_path, 1, said[0])}
    merged = MergedLog(buffers)
    merged_range = next(row for row in read(merged) if row.parts)
    log(tmp_path, 1, *said[1:])
    buffers[1].grow()
    read(merged)
    merged.held = True
    assert not merged.scattered
    merged.held = False
    assert merged.scattered
    merged.open(merged_range)
    assert not merged.scattered


def test_a_range_is_opened_and_searched_by_its_steps(tmp_path: Path) -> None:
    """Opened it stays so, also when more is read."""
    logs = stepping(tmp_path, 2, range(20))
    merged = MergedLog(logs)
    groups = read(merged)
    assert matching(groups, re.compile(rb"step 7/")) == [0]
    merged.open(groups[0])
    assert [group.text[:8] for group in merged.groups[:3]] == ["step 0/9", "step 1/9", "step 2/9"]
    for rank, buffer in logs.items():
        log(tmp_path, rank, *((i * 3.0, f"step {i}/900 loss 1.0 gnorm 1.0") for i in range(20, 40)))
        buffer.grow()
    groups = read(merged)
    assert [len(group.parts) for group in groups[:16]] == [0] * 15 + [20]


def test_rows_that_are_read_stay(tmp_path: Path) -> None:
    """Nothing is folded under the eyes of who has scrolled up; without folding never."""
    merged = MergedLog(stepping(tmp_path, 1, range(20)))
    merged.held = True
    assert len(read(merged)) == 20
    merged.held = False
    assert len(read(merged)) == 1 + KEPT
    assert len(read(MergedLog(merged.buffers, fold=False))) == 20


@pytest.mark.parametrize(
    ("mine", "other", "why"),
    [
        ((1.0, "saved"), (9.0, "saved"), "rank 1 said it 8.0 s after; 2 s and more are not folded"),
        ((1.0, "step 7 loss 2.5"), (1.5, "step 6 loss 2.5"), "rank 1 said another step 0.5 s after"),
        ((1.0, "RuntimeError: 3 of 4"), (1.5, "RuntimeError: 7 of 9"), "rank 1 said other numbers; errors keep theirs"),
        ((1.0, "alone"), (1.5, "other"), ""),
    ],
)  # fmt: skip
def test_why_a_line_is_a_row_of_its_own(tmp_path: Path, mine: Said, other: Said, why: str) -> None:
    """In words, for the panel below the merged log."""
    groups = read(MergedLog({0: log(tmp_path, 0, mine), 1: log(tmp_path, 1, other)}))
    row = next(group for group in groups if 0 in group.ranks)
    assert why_apart(groups, row, fold=True) == why
    assert why_apart(groups, row, fold=False) == "folding is off (D)"


def test_steps_are_one_row_though_epochs_are_said_between_them(tmp_path: Path) -> None:
    """Each kind of line that counts is a row, where its first one was; a step follows that of an epoch before."""
    said = []
    for step in range(0, 200, 10):
        said.append((step * 1.0, f"rank 0/2 epoch {step // 40} step {step % 40} loss 2.5"))
        if step % 40 == 30:
            said.append((step + 1.0, f"rank 0/2 epoch {step // 40} mean loss 2.25"))
    groups = read(MergedLog({0: log(tmp_path, 0, *said)}))
    assert [group.shown for group in groups if group.parts] == [
        "rank */2 epoch 0..3 step 0..30 loss 2.5",
        "rank */2 epoch 0..3 mean loss 2.25",
    ]
    assert sum(group.members for group in groups) == 25


LOGGING = "2026-11-26 10:{m:02}:{s:02},{ms:03} INFO train: step {i} loss {loss:.3f}"
MEGATRON = (
    " [2026-11-26 10:{m:02}:{s:02}] iteration {i:8}/  500000 | consumed samples: {samples:12} | elapsed time per"
    " iteration (ms): {ms}.5 | learning rate: 1.500E-04 | lm loss: {loss:.6E} | loss scale: 1.0 | number of skipped"
    " iterations:   0 |"
)
TQDM = "{pct:3}%|{bar}| {i}/500 [{m:02}:{s:02}<05:{s:02},  2.{pct:02}it/s, loss={loss:.3f}]"
BARS = ("▏         ", "▎         ", "▍         ", "▌         ", "▋         ")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (LOGGING, "* INFO train: step 0..24 loss 3.000 to 2.760"),
        ("10:{m:02}:{s:02} step {i} loss {loss:.3f}", "* step 0..24 loss 3.000 to 2.760"),
        ("[26/11/05 10:{m:02}:{s:02}] step {i} loss {loss:.3f}", "[*] step 0..24 loss 3.000 to 2.760"),
        ("11/26/2026 10:{m:02}:{s:02} AM step {i} loss {loss:.3f}", "* AM step 0..24 loss 3.000 to 2.760"),
        ("2026-11-26T10:{m:02}:{s:02}.{ms:03}Z step {i} loss {loss:.3f}", "* step 0..24 loss 3.000 to 2.760"),
        ("Nov 26 10:{m:02}:{s:02} h1 train[4711]: step {i}", "Nov 26 * h1 train[4711]: step 0..24"),
        (MEGATRON, " [*] iteration        0..24/  500000 | consumed samples:            * | elapsed time per"
                   " iteration (ms): * | learning rate: 1.500E-04 | lm loss: 3.000000E+00 to 2.760000E+00 | loss"
                   " scale: 1.0 | number of skipped iterations:   0 |"),
        (TQDM, "  0..4%|*| 0..24/500 [*<*,  */s, loss=3.000 to 2.760]"),
        ("step {i} loss {loss:.3f} mem={samples}", "step 0..24 loss 3.000 to 2.760 mem=*"),
        ("step {i} mem={samples}", "step 0..24 mem=0 to 6144"),
        ("{i}: loss {loss:.3f}", "0..24: loss 3.000 to 2.760"),
    ],
)  # fmt: skip
def test_steps_are_one_row_whatever_else_counts_or_tells_the_time(tmp_path: Path, line: str, shown: str) -> None:
    """Thirty lines that differ only in numbers: the last ones, and one row for the others."""
    said = [
        (i * 3.0, line.format(i=i, m=i * 3 // 60, s=i * 3 % 60, ms=(i * 377) % 1000, loss=3 - i / 100,
                              samples=i * 256, pct=i // 5, bar=BARS[i // 5 % 5]))
        for i in range(30)
    ]  # fmt: skip
    merged = MergedLog({0: log(tmp_path, 0, *said)})
    first, *rest = read(merged)
    assert (first.shown, merged.remark(first), len(rest)) == (shown, "25 steps", KEPT)


def test_what_counts_something_else_keeps_a_row_of_its_own_each(tmp_path: Path) -> None:
    """Two workers that say their steps in turn are two rows, though their lines differ only in numbers."""
    said = [(i * 3.0 + w, f"worker {w} step {i} loss 2.5") for i in range(20) for w in range(2)]
    groups = read(MergedLog({0: log(tmp_path, 0, *said)}))
    assert [group.shown for group in groups if group.parts] == [
        "worker 0 step 0..17 loss 2.5", "worker 1 step 0..16 loss 2.5",
    ]  # fmt: skip


def test_what_ranks_say_at_their_own_times_is_one_row(tmp_path: Path) -> None:
    """The time in a line is no figure of it, nor what tells two errors apart; a step is."""
    texts = [f"2026-11-26 10:00:0{r}.{r}23 INFO step 7 loss 2.1{r}" for r in range(4)]
    buffers = {r: log(tmp_path, r, (1.0, text)) for r, text in enumerate(texts)}
    merged = MergedLog(buffers)
    (group,) = read(merged)
    assert (group.shown, merged.remark(group)) == ("* INFO step 7 loss 2.12", "loss ± 0.015")
    errors = {r: log(tmp_path, 10 + r, (1.0, f"2026-11-26 10:00:01,{r}23 ERROR lost a peer")) for r in range(4)}
    assert [group.members for group in read(MergedLog(errors))] == [4]
    other = {r: log(tmp_path, 20 + r, (1.0, f"2026-11-26 10:00:01,123 INFO step {r}")) for r in range(2)}
    assert len(read(MergedLog(other))) == 2


@pytest.mark.parametrize("text", ["at h1:29500", "on node01:30", "ids 1-2-3", "v1.2:3", "took 3 of 4/5"])
def test_what_only_looks_like_a_time_is_kept(text: str) -> None:
    """Addresses and names are told apart."""
    assert fold_key(text) == text


def test_steps_of_several_ranks_show_the_middle_of_the_figure(tmp_path: Path) -> None:
    """Also when each says its own time."""
    line = "10:00:{i:02},{r} step {i} loss 2.{r}0 mem={mem}"
    buffers = {
        r: log(tmp_path, r, *((i * 3.0 + r / 100, line.format(i=i, r=r, mem=i + r)) for i in range(20)))
        for r in range(2)
    }
    first = read(MergedLog(buffers))[0]
    assert first.shown == "* step 0..14 loss 2.05 mem=*"
