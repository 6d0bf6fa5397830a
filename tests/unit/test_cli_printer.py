"""What a run looks like: lines with prefixes, status lines, the report, NDJSON, and slow or absent readers."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.cli.console import Console, use_colour
from distui.cli.printing import words
from distui.cli.printing.outlet import Outlet
from distui.cli.printing.printer import HeadlessPrinter, Heard, LineWriter, LogView, NdjsonPrinter, ResultPrinter
from distui.cli.printing.ranks import Prefixes
from distui.cluster.logs.wanted import Wanted
from distui.columns import table
from distui.runs.lines.events import (
    NOBODY_ANSWERED,
    AttemptEnded,
    Failure,
    FailureFound,
    HostChanged,
    LogLine,
    LogLines,
    Notice,
    PhaseBegun,
    RankChanged,
    RanksRestarted,
    RunEnded,
    RunOpened,
    RunStalled,
    StopAsked,
)
from distui.runs.state.reducer import RunState, apply

OPENED = RunOpened(1.0, "llm-7f3", "llm", "env", "img", {0: "a", 13: "node02"}, {0: (0,), 1: (13,)}, log_dir="/runs/x")
FAILURE = Failure(13, "node02", 1, "exit 1", "the GPU ran out of memory", "smaller batch", ("Traceback", "boom"))


def lines(rank: int | None, *texts: str, host: str = "node02") -> LogLines:
    return LogLines(2.0, 1, rank, host, tuple(LogLine("stdout", t, "2026-01-02T03:04:05.000000000Z") for t in texts))


def fold(*events: Any) -> RunState:
    state = RunState()
    for event in events:
        state = apply(state, event)
    return state


class Pipe:
    """A pipe with a console and an outlet on its writing end."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        self.err = io.StringIO()
        self.outlet = Outlet(self.write_fd)
        self.console = Console(io.StringIO(), self.err, False, False, 0)

    def text(self) -> str:
        """All that was written; closes both ends."""
        os.close(self.write_fd)
        with os.fdopen(self.read_fd, "rb") as file:
            return file.read().decode()


def test_lines_carry_rank_and_host() -> None:
    """`013 node02 | text`, hosts padded to one width, the launcher's own words as `---`."""
    writer = LineWriter(LogView(), colour=False)
    writer.open(OPENED.ranks)

    assert writer.bytes(13, "node02", lines(13, "x", "y").lines) == b"013 node02 | x\n013 node02 | y\n"
    assert writer.bytes(0, "a", lines(0, "x").lines) == b"000 a      | x\n"
    assert writer.bytes(None, "a", lines(None, "x").lines) == b"--- a      | x\n"


def test_line_options() -> None:
    """--no-prefix and --timestamps change what a line looks like, --stderr which are shown."""
    stamped = LineWriter(LogView(prefix=False, timestamps=True), colour=False)
    assert stamped.bytes(0, "a", lines(0, "x").lines) == b"2026-01-02T03:04:05.000000000Z x\n"
    unstamped = (LogLine("stdout", "x"),)
    assert stamped.bytes(0, "a", unstamped, at=0.0) == b"1970-01-01T00:00:00.000Z x\n"
    both = (LogLine("stdout", "x"), LogLine("stderr", "y"))
    assert Wanted(stderr_only=True).kept(both) == [both[1]]


def test_colours_are_stable_and_end_with_the_prefix() -> None:
    """The same rank has the same colour in every run, and a rank's own colours do not leak."""
    first, second = Prefixes({3: "h"}, colour=True), Prefixes({3: "h", 9: "longer"}, colour=True)
    assert first.of(3, "h").partition("m")[0] == second.of(3, "h").partition("m")[0]
    writer = LineWriter(LogView(prefix=False), colour=True)
    assert writer.bytes(0, "h", (LogLine("stdout", "\x1b[31mred"),)) == b"\x1b[31mred\x1b[0m\n"


@given(st.text(max_size=80).filter(lambda t: "\n" not in t))
def test_nothing_a_rank_prints_steers_the_terminal(text: str) -> None:
    """Whatever a line holds, what reaches the terminal is one line without control characters."""
    written = LineWriter(LogView(prefix=False), colour=False).bytes(0, "h", (LogLine("stdout", text),)).decode()

    assert written.endswith("\n")
    shown = written[:-1].replace("\t", "")
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)


async def test_headless_output() -> None:
    """Logs go to stdout, distui's own words to stderr; --rank chooses lines."""
    pipe = Pipe()
    printer = HeadlessPrinter(pipe.console, pipe.outlet, LogView(ranks=frozenset({13})))
    batch = (OPENED, PhaseBegun(1.0, "connect", "2 hosts"), lines(13, "hello"), lines(0, "other", host="a"))
    state = fold(*batch)
    ended = RunEnded(9.0, "succeeded", 0, log_dir="/runs/x", took=7.25)

    await printer.feed(batch, state)
    await printer.finish(ended, apply(state, ended))

    assert pipe.text() == "013 node02 | hello\n"
    assert pipe.err.getvalue().splitlines() == [
        "distui: starting llm-7f3: 2 ranks on a,node02",
        "distui: logs in /runs/x",
        "distui: connecting: 2 hosts",
        "",
        "SUCCEEDED  llm-7f3  2 ranks  after 7.2s  exit 0",
        "  logs   /runs/x",
    ]


async def test_a_failure_is_said_once_in_the_same_words() -> None:
    """More of its last lines became known, or another reader recorded it: the result has that. An attempt is new."""
    pipe = Pipe()
    printer = HeadlessPrinter(pipe.console, pipe.outlet, LogView())
    state = fold(OPENED, FailureFound(2.0, FAILURE))
    more = replace(FAILURE, excerpt=("Traceback", "boom", "bang"))
    for batch in ([FailureFound(2.0, FAILURE)], [FailureFound(3.0, more)], [FailureFound(4.0, replace(more, rank=0))]):
        await printer.feed(batch, state)
    assert pipe.err.getvalue().count("rank 13 on node02 failed first: exit 1") == 1
    assert pipe.err.getvalue().count("rank 0 on node02 failed first: exit 1") == 1
    await printer.feed([AttemptEnded(5.0, 1, 2, None, 0.0, ""), FailureFound(6.0, replace(more, rank=0))], state)
    assert pipe.err.getvalue().count("rank 0 on node02 failed first: exit 1") == 2
    assert pipe.text() == ""


@pytest.mark.parametrize(
    ("kept", "where"), [("/runs/x", "its logs are in /runs/x\n"), ("", "`distui logs llm-7f3` prints its logs\n")]
)
async def test_a_reader_that_leaves_is_reported_once_and_ends_nothing(kept: str, where: str) -> None:
    """After `| head` has left, feeding goes on in silence, and stderr says where the logs are: `attach --view` keeps
    none.
    """
    pipe = Pipe()
    os.close(pipe.read_fd)
    printer = HeadlessPrinter(pipe.console, pipe.outlet, LogView())
    state = fold(replace(OPENED, log_dir=kept))
    for _ in range(3):
        await printer.feed((lines(13, "x"),), state)
        await pipe.outlet.drain(5)
    os.close(pipe.write_fd)

    assert pipe.outlet.error is not None
    assert pipe.err.getvalue().count(f"the run is still running, {where}") == 1


async def test_a_paused_reader_does_not_block_the_loop() -> None:
    """Writing waits for a reader that does not read, the loop goes on, and `abandon` ends the wait."""
    pipe = Pipe()
    writing = asyncio.ensure_future(pipe.outlet.write(b"x" * (8 << 20)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not writing.done()
    pipe.outlet.abandon()
    await writing
    os.close(pipe.read_fd)
    writer = pipe.outlet._thread
    assert writer is not None
    await asyncio.to_thread(writer.join)  # it must be out of write() before the number is used again
    os.close(pipe.write_fd)


async def test_ndjson_ends_with_the_result() -> None:
    """Every event is an object a line; the last one is the result; lines of other ranks are left out."""
    pipe = Pipe()
    printer = NdjsonPrinter(pipe.outlet, LogView(ranks=frozenset({13})), pipe.console)
    ended = RunEnded(9.0, "failed", 1, FAILURE, took=7.0)
    batch = (OPENED, lines(13, "a", "b"), lines(0, "c"), ended)
    state = fold(*batch)

    await printer.feed(batch, state)
    await printer.finish(ended, state)

    values = [json.loads(line) for line in pipe.text().splitlines()]
    assert [v["type"] for v in values] == ["run", "log", "log", "result"]
    assert {v["run"] for v in values} == {"llm-7f3"}
    assert values[-1]["first_failure"]["rank"] == 13


async def test_json_is_only_the_result() -> None:
    """With -o json stdout holds one value."""
    pipe = Pipe()
    ended = RunEnded(9.0, "succeeded", 0)
    state = fold(OPENED, ended)
    printer = ResultPrinter(pipe.console)
    await printer.feed((OPENED, lines(13, "x"), ended), state)
    await printer.finish(ended, state)
    pipe.text()

    assert isinstance(pipe.console.out, io.StringIO)
    assert json.loads(pipe.console.out.getvalue())["type"] == "result"


def test_equal_changes_become_one_line() -> None:
    """32 ranks that start to run are one line; different ends are told apart."""
    started = [RankChanged(1.0, r, "h", "running") for r in range(32)]
    ended = [
        RankChanged(2.0, 0, "h", "exited", 0, words="exit 0"),
        RankChanged(2.0, 1, "h", "exited", 3, words="exit 3"),
        RankChanged(2.0, 2, "h", "exited", 0, words="exit 0"),
    ]

    assert [text for text, _ in words.of_batch([*started, *ended])] == [
        "distui: ranks 0-31 running",
        "distui: ranks 0,2 ended: exit 0",
        "distui: rank 1 on h ended: exit 3",
    ]


def test_events_in_words() -> None:
    """Lost hosts, failures, stops and notices say what, where and what happens next."""
    events = [
        HostChanged(1.0, "a", "up"),
        HostChanged(1.0, "a", "lost", "timed out"),
        HostChanged(1.0, "a", "back"),
        FailureFound(1.0, FAILURE),
        StopAsked(1.0, "failure", 30.0),
        StopAsked(1.0, "user", 0.0),
        Notice(1.0, "warning", "disk is full", "a"),
    ]

    assert [text for text, _ in words.of_batch(events)] == [
        "distui: a lost: timed out; its ranks may still run, trying again",
        "distui: a is back",
        "distui: rank 13 on node02 failed first: exit 1",
        "distui: stopping all ranks (a rank failed), killing what is left after 30s",
        "distui: killing all ranks (asked to)",
        "distui: warning: a: disk is full",
    ]


def test_the_report_of_a_failure() -> None:
    """Result, who failed first, why, what to do, its last lines, logs and what is left."""
    ended = RunEnded(9.0, "failed", 1, FAILURE, log_dir="/runs/x", leftovers=("container 1234 on a",), took=190.0)

    assert [text for text, _ in words.report(ended, fold(OPENED, ended))] == [
        "",
        "FAILED  llm-7f3  2 ranks  after 3m 10s  exit 1",
        "  first  rank 13 on node02: exit 1",
        "  cause  the GPU ran out of memory",
        "  try    smaller batch",
        "  said   | Traceback",
        "         | boom",
        "  logs   /runs/x",
        "  left   container 1234 on a",
        "  then   `distui stop llm-7f3` removes what is left",
    ]


def test_a_run_whose_rank_fails_makes_no_progress() -> None:
    """That it stands still is not said of it any more; but in its next attempt it may."""
    stands, goes_on = RunStalled(2.0, True, 1.0), RunStalled(4.0, False, 4.0)
    heard = Heard()
    assert heard.news([stands, goes_on]) == [stands, goes_on]
    assert heard.news([stands, FailureFound(3.0, FAILURE), goes_on])[2:] == []
    assert heard.news([AttemptEnded(5.0, 1, 2, None, 0.0, ""), stands, goes_on])[1:] == [stands, goes_on]


def test_a_run_that_its_time_limit_ends_makes_no_progress() -> None:
    """Nothing stands still in it any more, since nothing runs; one whose rank ended well may go on."""
    stands, goes_on = RunStalled(2.0, True, 1.0), RunStalled(4.0, False, 4.0)
    for status, shown in ((124, []), (0, [goes_on])):
        end = RankChanged(3.0, 1, "node01", "stopped" if status else "exited", status, words="...", ended_at=3.0)
        assert Heard().news([stands, end, goes_on])[2:] == shown


def test_the_result_counts_what_torchrun_started_again() -> None:
    """Also where the run ended well; what is not there is not said."""
    again = RanksRestarted(3.0, 0, 13, "node02", 1, 1, 3)
    ended = RunEnded(9.0, "succeeded", 0, took=1.0)
    said = [text for text, _ in words.report(ended, fold(OPENED, again, ended))]
    assert "  again  torchrun started the ranks again once: after rank 13 on node02 (exit 1)" in said
    assert not [text for text, _ in words.report(ended, fold(OPENED, ended)) if "again" in text]


def test_a_rank_that_failed_before_a_stop_is_reported() -> None:
    """Also one that had raised and was ended by the stop; a stop alone is no failure to explain."""
    failed = Failure(13, "node02", 143, "raised an error, and had not ended when stopped (exit 143)")
    for output, shown in ((failed, True), (None, False)):
        ended = RunEnded(9.0, "stopped", 130, output, took=1.0)
        assert any("first" in text for text, _ in words.report(ended, fold(OPENED, ended))) == shown


def test_an_end_is_said_once_in_an_attempt() -> None:
    """Its time may become known better, and what it has to do with the failure; another attempt's end is said again."""
    end = RankChanged(8.0, 1, "node01", "exited", 1, words="exit 1", ended_at=7.0)
    later = [replace(end, ended_at=7.2), replace(end, ended_at=7.2, relation="first")]
    heard = Heard()
    assert heard.news([end, *later]) == [end]
    assert heard.news(later) == []
    over = AttemptEnded(9.0, 1, 2, None, 1.0)
    assert heard.news([over, end]) == [over, end]


def test_the_result_says_what_became_of_every_rank() -> None:
    """Who failed alike, who may have been first, and the others, those that ended alike in one line."""
    failure = Failure(0, "node01", 1, "exit 1", alike=(1,), within=0.08, unsure="rank 4 failed at the same time")
    ends = [
        RankChanged(8.0, 0, "node01", "exited", 1, words="exit 1", relation="first"),
        RankChanged(8.0, 1, "node01", "exited", 1, words="exit 1", relation="alike", of="rank 0"),
        *(
            RankChanged(8.0, r, "node02", "stopped", 143, words="stopped by distui (exit 143)", relation="stopped")
            for r in (2, 3)
        ),
        RankChanged(
            8.0, 4, "node02", "killed", 143, words="killed by SIGTERM, by torchrun", relation="followed", of="rank 0"
        ),
        RankChanged(8.0, 5, "node02", "exited", 0, words="exit 0", relation="before"),
    ]
    ended = RunEnded(9.0, "failed", 1, failure, took=1.0)
    output = [text for text, _ in words.report(ended, fold(OPENED, *ends, ended))]
    assert "  also   ranks 0 and 1 failed with the same error within 0.1 s" in output
    assert "  unsure rank 4 failed at the same time" in output
    others = output.index("  others ranks 2-3: stopped by distui (exit 143)")
    assert output[others + 1 : others + 3] == [
        "         rank 4: killed by SIGTERM, by torchrun after rank 0",
        "         rank 5: exit 0 ended before the failure",
    ]


def test_the_result_calls_tasks_by_their_names() -> None:
    """Those of launchers that start ranks themselves, and of TensorFlow, have no rank's number."""
    names = {r: f"node{r}" for r in range(5)}
    opened = RunOpened(1.0, "mpi-1", "mpi", "command", "img", dict.fromkeys(names, "h1"), {}, names=names)
    ends = [
        RankChanged(8.0, r, "h1", "stopped", 143, words="stopped by distui (exit 143)", relation="stopped")
        for r in (1, 2, 4)
    ]
    ended = RunEnded(9.0, "failed", 1, Failure(0, "h1", 1, "exit 1", name="node0"), took=1.0)
    output = [text for text, _ in words.report(ended, fold(opened, *ends, ended))]
    assert "  others node[1-2,4]: stopped by distui (exit 143)" in output
    assert any(text.startswith("FAILED  mpi-1  5 tasks  after ") for text in output)
    assert "distui: starting mpi-1: 5 tasks on h1" in [text for text, _ in words.of_batch([opened])]


def test_the_report_says_how_to_remove_what_is_left() -> None:
    """Whatever its end: a host was out of reach at the clean-up of a run that had failed, too."""
    for outcome in ("succeeded", "failed", "stopped"):
        ended = RunEnded(9.0, outcome, 1, log_dir="/runs/x", took=1.0, leftovers=("h2: may still have rank1",))  # type: ignore[arg-type]
        text = "\n".join(t for t, _ in words.report(ended, fold(OPENED, ended)))
        assert "then   `distui stop llm-7f3` removes what is left, as soon as it can be reached" in text


def test_what_became_of_a_container_is_said_as_an_end() -> None:
    """It read `rank 13 on node02 its container was removed`."""
    gone = RankChanged(3.0, 13, "node02", "removed", words="its container was removed by somebody else")
    assert [text for text, _ in words.of_batch([gone])] == [
        "distui: rank 13 on node02 ended: its container was removed by somebody else"
    ]


def test_tasks_that_failed_alike_or_are_gone_have_their_names() -> None:
    """As the first one has."""
    names = {r: f"worker/{r}" for r in range(3)}
    opened = RunOpened(1.0, "tf-1", "tf", "tf", "img", dict.fromkeys(names, "h1"), {}, names=names)
    exits = [RankChanged(7.0, rank, "h1", "exited", 1, words="exit 1") for rank in (0, 1)]
    gone = RankChanged(8.0, 2, "h1", "removed", words="its container was removed")
    failure = Failure(0, "h1", 1, "exit 1", name="worker/0", alike=(1,), within=0.1)
    ended = RunEnded(9.0, "unknown", 6, failure, took=1.0)
    output = [text for text, _ in words.report(ended, fold(opened, *exits, gone, ended))]
    assert "  also   worker/[0-1] failed with the same error within 0.1 s" in output
    assert "  gone   worker/2 on h1: its container was removed" in output
    lost = replace(gone, state="lost", words="")
    output = [text for text, _ in words.report(ended, fold(opened, *exits, lost, ended))]
    assert "  lost   h1 (worker/2): what runs there may still run" in output


def test_who_failed_first_is_none_of_the_others() -> None:
    """A run that was stopped for a hang elsewhere: here its ranks were seen to be stopped, that one, too."""
    ends = [RankChanged(8.0, rank, host, "stopped", 143, words="stopped by ann@desk", relation="stopped")
            for rank, host in OPENED.ranks.items()]  # fmt: skip
    ended = RunEnded(9.0, "failed", 1, FAILURE, took=1.0)
    text = "\n".join(t for t, _ in words.report(ended, fold(OPENED, *ends, ended)))
    assert "  others rank 0: stopped by ann@desk" in text


def test_the_report_of_lost_contact_names_hosts_and_the_way_back() -> None:
    """When nobody knows how a run goes on, the hosts are named and both commands are there."""
    ended = RunEnded(9.0, "unknown", 6, log_dir="/runs/x", took=1.0)
    state = fold(OPENED, RankChanged(2.0, 13, "node02", "lost"), ended)
    text = "\n".join(t for t, _ in words.report(ended, state))

    assert "node02 (rank 13): what runs there may still run" in text
    opened = dataclasses.replace(OPENED, ranks={0: "node01", 13: "node02"})
    more = fold(opened, *(RankChanged(2.0, rank, host, "lost") for rank, host in opened.ranks.items()), ended)
    assert any("node[01-02] (ranks 0,13): what runs" in line for line, _ in words.report(ended, more))
    assert "`distui attach llm-7f3`" in text
    assert "`distui stop llm-7f3`" in text


def test_the_report_of_a_run_whose_containers_were_removed_leads_nowhere() -> None:
    """Nothing runs any more: the ranks whose ends nobody knows are named, and no command to follow or stop them."""
    ended = RunEnded(9.0, "unknown", 6, log_dir="/runs/x", took=1.0)
    ends = [RankChanged(2.0, rank, host, "exited", 0) for rank, host in OPENED.ranks.items()]
    gone = RankChanged(3.0, 13, OPENED.ranks[13], "removed", words="its container was removed before its end was seen")
    text = "\n".join(t for t, _ in words.report(ended, fold(OPENED, *ends, gone, ended)))

    assert f"  gone   rank 13 on {OPENED.ranks[13]}: its container was removed before its end was seen" in text
    assert "still run" not in text and "distui attach" not in text and "distui stop" not in text


def test_the_report_of_a_run_that_is_known_in_part_says_that_nothing_is_left() -> None:
    """Its other ranks were removed by whoever owns it, and all hosts answered: nothing is out of reach."""
    unfound = "1 of the run's tasks was not found: never started, removed, or on hosts that were not asked"
    ended = RunEnded(9.0, "unknown", 6, log_dir="/runs/x", took=1.0, warnings=(unfound,))
    stopped = [RankChanged(2.0, rank, host, "stopped", 143) for rank, host in OPENED.ranks.items()]
    assert [text for text, _ in words.report(ended, fold(OPENED, *stopped, ended))] == [
        "",
        "UNKNOWN  llm-7f3  2 ranks  after 1s  exit 6",
        f"  warn   {unfound}",
        "  logs   /runs/x",
    ]


def test_the_report_of_a_run_of_which_a_host_was_not_asked_leads_back_to_it() -> None:
    """The warning names the host and why: no line says `contact`, and both commands are there."""
    away = f"1 of the run's tasks {NOBODY_ANSWERED}: h3 does not answer"
    ended = RunEnded(9.0, "unknown", 6, took=1.0, warnings=(away,))
    stopped = [RankChanged(2.0, rank, host, "stopped", 143) for rank, host in OPENED.ranks.items()]
    output = [text for text, _ in words.report(ended, fold(OPENED, *stopped, ended))]
    assert f"  warn   {away}" in output and not any("lost" in text for text in output)
    assert output[-1] == "  stop   `distui stop llm-7f3`"


def test_colour_rules() -> None:
    """--color wins, then NO_COLOR, FORCE_COLOR, TERM=dumb and the terminal."""
    assert use_colour("always", {"NO_COLOR": "1"}, False)
    assert not use_colour("never", {"FORCE_COLOR": "1"}, True)
    assert not use_colour("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm"}, True)
    assert use_colour("auto", {"FORCE_COLOR": "1"}, False)
    assert not use_colour("auto", {"TERM": "dumb"}, True)
    assert use_colour("auto", {"TERM": "xterm"}, True)
    assert not use_colour("auto", {"TERM": "xterm"}, False)


def test_tables_are_plain_columns() -> None:
    """Columns two blanks apart, empty cells as `-`, cut at the terminal's edge."""
    assert table(("A", "BB"), [("x", ""), ("long", "y")]) == ["A     BB", "x     -", "long  y"]
    assert table(("A",), [("abcdefgh",)], width=5)[1] == "abcd…"
