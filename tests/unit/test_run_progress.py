"""Progress of a run out of the lines of a rank."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from distui.cli.printing.words import progress_words
from distui.patterns import LimitedPattern
from distui.runs.lines.event_json import progress_json, progress_of
from distui.runs.lines.events import LogLine, Progressed, RunEnded
from distui.runs.state.progress import POINTS, ProgressTeller, figure_name, number
from distui.runs.store.journal import Journal
from distui.runs.store.recorded import stored_progress
from distui.runs.store.runs import RunStore


@pytest.mark.parametrize(
    ("text", "want"), [("18,240", 18240.0), ("2.1e-4", 2.1e-4), ("-3", -3.0), ("abc", None), ("", None)]
)
def test_numbers_in_logs(text: str, want: float | None) -> None:
    """Groups of a pattern may be words."""
    assert number(text) == want


PATTERN = r"step (?P<step>\d+) loss (?P<loss>\S+)(?: (?P<stage>[a-z]+))?"


def said(*texts: str, stamp: str = "") -> list[LogLine]:
    """Lines as the follower gives them."""
    return [LogLine("stdout", text, stamp) for text in texts]


def test_the_newest_line_is_reported_once_a_second() -> None:
    """Of many lines the last that matches counts; within a second nothing is told, at the end what was held back."""
    teller = ProgressTeller(PATTERN, 0, "h1")
    first = teller.take(said("step 1 loss 3.0", "step 2 loss 2.5 eval", "other"), 100.0)
    assert first == Progressed(100.0, 0, "h1", {"step": 2.0, "loss": 2.5}, {"stage": "eval"}, None)
    assert teller.take(said("step 3 loss 2.4"), 100.4) is None
    last = teller.tell(100.5)
    assert last is not None and last.values["step"] == 3.0
    assert teller.tell(100.6) is None
    assert teller.take(said("nothing new"), 105.0) is None


def test_the_speed_is_by_the_stamps_of_the_lines() -> None:
    """A backlog that arrives at once still gives the seconds between its steps; the host's clock is corrected."""
    teller = ProgressTeller(PATTERN, 0, "h1")
    teller.offset = 3600.0
    teller.take(said("step 10 loss 1", stamp="2026-01-01T00:00:00.0Z"), 5.0)
    progress = teller.take(said("step 20 loss 1", stamp="2026-01-01T00:00:25.0Z"), 6.0)
    assert progress is not None and progress.seconds_per_step == 2.5


def stamp(at: float) -> str:
    """As Docker writes it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}.000000000Z"


NIGHT = 1_700_000_000.0


def test_what_was_said_while_nobody_followed_is_of_then() -> None:
    """Lines that come at once give several points, bounded, each of when its line was said; none of them is lost to
    the newest one.
    """
    teller = ProgressTeller(PATTERN, 0, "h1")
    teller.offset = 60.0
    lines = [
        LogLine("stdout", f"step {i} loss {3 - i / 1000:.3f}" if i % 2 else "other", stamp(NIGHT + 60 + i))
        for i in range(1000)
    ]
    earlier = list(teller.earlier(lines, NIGHT + 36_000))
    last = teller.take(lines, NIGHT + 36_000)
    assert last is not None and POINTS // 2 < len(earlier) < POINTS
    assert [reported.at - NIGHT for reported in (*earlier, last)] == [
        reported.values["step"] for reported in (*earlier, last)
    ]
    assert last.values["step"] == 999 and all(b.at - a.at < 100 for a, b in pairwise((*earlier, last)))


@pytest.mark.parametrize("first", range(4))
def test_a_line_that_is_read_late_is_one_point(first: int) -> None:
    """Few lines, of which every fourth tells a step: one hard batch among them is no loss that jumped."""
    teller = ProgressTeller(PATTERN, 0, "h1")
    for i in range(12):
        teller.take([LogLine("stdout", f"step {i} loss 2.{i}", stamp(NIGHT + i))], NIGHT + i)
    steps = range(100 + first, 120, 4)
    lines = [
        LogLine("stdout", f"step {i} loss {9 if i == steps[-1] else 2.5}" if i in steps else "other", stamp(NIGHT + i))
        for i in range(100, 120)
    ]
    reported = [*teller.earlier(lines, NIGHT + 500), teller.take(lines, NIGHT + 500), teller.tell(NIGHT + 501)]
    assert [(one.values["step"], one.at - NIGHT) for one in reported if one is not None] == [(i, i) for i in steps]
    assert teller.odd() == ()


@pytest.mark.parametrize("times", [[NIGHT + i / 2 for i in range(9)], [None] * 9], ids=["of now", "without times"])
def test_what_is_said_now_is_one_point_of_now(times: list[float | None]) -> None:
    """Of its line, and of the moment it is read where an engine gives no times."""
    teller = ProgressTeller(PATTERN, 0, "h1")
    lines = [LogLine("stdout", f"step {i} loss 1", stamp(at) if at else "") for i, at in enumerate(times)]
    assert not list(teller.earlier(lines, NIGHT + 4.9)) and not list(teller.earlier([], NIGHT))
    reported = teller.take(lines, NIGHT + 4.9)
    assert reported is not None and (reported.at, reported.values["step"]) == (
        NIGHT + (4.9 if times[0] is None else 4.0),
        8,
    )


def test_what_waits_for_its_second_is_reported_without_another_line() -> None:
    """Dated as it was said, and never ahead of our clock: three steps in the second before a rank hangs."""
    teller = ProgressTeller(PATTERN, 0, "h1")
    began = teller.take(said("step 1 loss 3", stamp=stamp(NIGHT)), NIGHT + 0.1)
    assert began is not None and began.at == NIGHT
    assert teller.take(said("step 2 loss 2", stamp="2023-11-14T22:13:20.400000000Z"), NIGHT + 0.5) is None
    assert teller.take(said("step 3 loss 1", stamp="2023-11-14T22:13:20.700000000Z"), NIGHT + 0.8) is None
    assert teller.due(NIGHT + 1.0) is None
    reported = teller.due(NIGHT + 1.2)
    assert reported is not None and (reported.at, reported.values["step"]) == (NIGHT + 0.7, 3)
    assert teller.due(NIGHT + 9) is None and teller.tell(NIGHT + 120) is None
    assert teller.take(said("step 4 loss 1", stamp=stamp(NIGHT + 300)), NIGHT + 10) == replace(
        reported, at=NIGHT + 10, values={"step": 4.0, "loss": 1.0}, seconds_per_step=100.0
    )
    late = teller.take(said("step 5 loss 1", stamp=stamp(NIGHT + 301)), NIGHT - 3600)
    assert late is not None, "a clock that is set back holds nothing back"


def test_what_waited_is_reported_before_what_came_late() -> None:
    """It keeps its own date, and is not told again with another one's."""
    teller = ProgressTeller(PATTERN, 0, "h1")
    teller.take(said("step 1 loss 3", stamp=stamp(NIGHT)), NIGHT)
    assert teller.take(said("step 2 loss 2", stamp=stamp(NIGHT)), NIGHT + 0.5) is None
    lines = [LogLine("stdout", f"step {i} loss 1", stamp(NIGHT + i)) for i in range(3, 60)]
    found = [*teller.earlier(lines, NIGHT + 90), teller.take(lines, NIGHT + 90), teller.tell(NIGHT + 91)]
    reported = [(one.at - NIGHT, one.values["step"]) for one in found if one is not None]
    assert reported[0] == (0, 2) and reported[-1] == (59, 59) and all(at == step for at, step in reported[1:])


SAVES = r"step (?P<step>\d+)/(?P<total>\d+) loss (?P<loss>\S+)|saved (?P<checkpoint>\S+)"


@pytest.mark.parametrize(
    ("saved", "values", "words"), [("a.pt", {}, {"checkpoint": "a.pt"}), ("5", {"checkpoint": 5.0}, {})]
)
def test_a_checkpoint_stands_until_the_next_one_and_takes_no_step_away(
    saved: str, values: dict[str, float], words: dict[str, str]
) -> None:
    """Also where its line is one among others that come at once, or the newest of them; the speed is that of steps."""
    teller = ProgressTeller(SAVES, 0, "h1")
    steps = {"step": 1.0, "total": 9.0, "loss": 3.0}
    first = teller.take(said("step 1/9 loss 3", stamp="2026-01-01T00:00:00Z"), 10.0)
    assert first is not None and (first.values, first.words) == (steps, {})
    alone = teller.take(said(f"saved {saved}", stamp="2026-01-01T00:00:01Z"), 20.0)
    assert alone is not None and (alone.values, alone.words) == (steps | values, words)
    after = teller.take(said("step 3/9 loss 2", stamp="2026-01-01T00:00:04Z"), 30.0)
    assert after is not None and (after.values, after.words) == (
        {"step": 3.0, "total": 9.0, "loss": 2.0} | values,
        words,
    )
    assert after.seconds_per_step == 2.0
    among = teller.take(said("saved b.pt", "step 4/9 loss 1"), 40.0)
    assert among is not None and (among.values["step"], among.words) == (4.0, {"checkpoint": "b.pt"})


@pytest.mark.parametrize(
    ("lines", "step", "saved"),
    [
        (["step 200/200 loss 1", "saved 200"], 200, 200),
        (["saved 190", "step 199/200 loss 1", "step 200/200 loss 1", "saved 200", "bye"], 200, 200),
        (["step 200/200 loss 1", *["saved 200"] * 500, "bye"], 200, 200),
        (["step 200/200 loss 1", "saved 200", *["bye"] * 500], 200, 200),
        (["step 199/200 loss 1", "saved 199", "step 200/200 loss 1"], 200, 199),
    ],
)
def test_a_step_and_what_is_saved_at_it_count_though_they_are_read_at_once(
    lines: list[str], step: float, saved: float
) -> None:
    """As every run ends that saves at its end. A step is dated by its own line, not by that of the checkpoint."""
    teller = ProgressTeller(SAVES, 0, "h1")
    teller.take(said("step 198/200 loss 1"), NIGHT - 10)
    at = next(i for i in reversed(range(len(lines))) if lines[i].startswith("step"))
    stamped = [LogLine("stdout", text, stamp(NIGHT + i)) for i, text in enumerate(lines)]
    reported = teller.take(stamped, NIGHT + 4.5) if len(lines) < 10 else teller.take(said(*lines), NIGHT)
    assert reported is not None and (reported.values["step"], reported.values["checkpoint"]) == (step, saved)
    assert reported.at == NIGHT + (at if len(lines) < 10 else 0)


def test_a_checkpoint_alone_is_dated_by_its_own_line() -> None:
    """It may be saved long after its step."""
    teller = ProgressTeller(SAVES, 0, "h1")
    teller.take(said("step 5/9 loss 1", stamp=stamp(NIGHT)), NIGHT)
    reported = teller.take(said("saved 5", stamp=stamp(NIGHT + 40)), NIGHT + 41)
    assert reported is not None and (reported.at, reported.values["step"], reported.values["checkpoint"]) == (
        NIGHT + 40,
        5,
        5,
    )


@pytest.mark.parametrize("regex", [PATTERN, SAVES])
def test_lines_that_come_at_once_are_asked_about_once(regex: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question goes to another process: one for a batch, whatever the pattern tells; none as time goes by."""
    asked = []
    ask = LimitedPattern._ask
    monkeypatch.setattr(LimitedPattern, "_ask", lambda self, *given: asked.append(given[1]) or ask(self, *given))
    teller = ProgressTeller(regex, 0, "h1")
    reported = []
    for i in range(100):
        lines = [f"step {i}/99 loss 1" if "saved" in regex else f"step {i} loss 1", "saved 1", *["other"] * 8]
        reported += [teller.take(said(*lines), 10 + i / 10), teller.due(10 + i / 10 + 0.05)]
    assert len(asked) == 100 and sum(map(len, asked)) <= 1000
    assert sum(one is not None for one in reported) == 10


def test_progress_as_json_and_back() -> None:
    """NaN is no JSON: it stands as a word, and is a number again when it is read."""
    progress = Progressed(1.0, 0, "h1", {"step": 7.0, "loss": float("nan")}, {"stage": "eval"}, 0.5)
    value = json.loads(json.dumps(progress_json(progress), allow_nan=False))
    assert value["values"] == {"step": 7.0, "loss": "nan", "stage": "eval"}
    again = progress_of(1.0, value)
    assert again is not None and math.isnan(again.values["loss"]) and again.words == {"stage": "eval"}


def test_the_last_progress_of_a_recorded_run(tmp_path: Path) -> None:
    """Of a run that goes on the newest sample, of one that has ended what its result says."""
    stored = RunStore(tmp_path).create("r-1")
    assert stored_progress(stored) is None
    journal = Journal(stored)
    journal.write([Progressed(1.0, 0, "h1", {"step": 1.0}), Progressed(2.0, 0, "h1", {"step": 2.0})])
    going_on = stored_progress(stored)
    journal.write([RunEnded(3.0, "succeeded", 0, progress=Progressed(3.0, 0, "h1", {"step": 3.0}))])
    journal.close()
    ended = stored_progress(stored)
    assert going_on is not None and going_on.values == {"step": 2.0}
    assert ended is not None and ended.values == {"step": 3.0}


def test_the_last_progress_of_a_run_that_was_left_running_and_is_followed_on(tmp_path: Path) -> None:
    """What the one who left it had seen last is old by then."""
    stored = RunStore(tmp_path).create("r-1")
    journal = Journal(stored)
    journal.write([Progressed(1.0, 0, "h1", {"step": 1.0})])
    journal.write([RunEnded(3.0, "detached", 0, progress=Progressed(3.0, 0, "h1", {"step": 1.0}))])
    left = stored_progress(stored)
    journal.write([Progressed(4.0, 0, "h1", {"step": 9.0})])
    journal.close()
    newest = stored_progress(stored)
    assert left is not None and left.values == {"step": 1.0}
    assert newest is not None and newest.values == {"step": 9.0}


@pytest.mark.parametrize(
    ("names", "want"),
    [
        (("step", "loss", "acc"), "loss"),
        (("epoch", "acc"), "acc"),
        (("step",), None),
        ((), None),
        (("step", "checkpoint"), None),
        (("ckpt", "acc"), "acc"),
    ],
)
def test_the_figure_that_tells_how_it_goes(names: tuple[str, ...], want: str | None) -> None:
    """The loss, else the first group that does not count."""
    assert figure_name(names) == want


@pytest.mark.parametrize("speed", [0.0, -1.0])
def test_a_speed_that_is_none_is_not_said(speed: float) -> None:
    """A verdict is read from hosts, as somebody wrote it."""
    assert progress_words(Progressed(1.0, 0, "h1", {"step": 3.0}, seconds_per_step=speed)) == "step 3"


def test_progress_in_words() -> None:
    """What the report at the end and `show` say."""
    progress = Progressed(1.0, 0, "h1", {"step": 18974.0, "loss": 2.061}, {"stage": "eval"}, 2.31)
    assert progress_words(progress) == "step 18,974  loss 2.061  stage eval  2.31 s/it"
    known = Progressed(1.0, 0, "h", {"epoch": 2.0, "step": 18974.0, "loss": 2.061, "total": 20000.0})
    assert progress_words(known) == "step 18,974 of 20,000  epoch 2  loss 2.061"


def test_a_step_of_the_next_epoch_is_not_as_slow_as_an_epoch() -> None:
    """Ten steps a second; that of step 3 to step 7 of the next epoch was 1.5 s each."""
    teller = ProgressTeller(PATTERN, 0, "h1")
    at = NIGHT
    for step in [*range(3, 60), *range(3, 8)]:
        teller.take([LogLine("stdout", f"step {step} loss 1", f"{stamp(at)[:19]}.{int(at % 1 * 10)}00000000Z")], at)
        at += 0.1
    last = teller.tell(at)
    assert last is not None and last.values["step"] == 7
    assert last.seconds_per_step is not None and 0.05 < last.seconds_per_step < 0.2
