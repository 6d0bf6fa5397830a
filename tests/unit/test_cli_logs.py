"""`distui logs` from the files here: tails, times beside the lines, lines of any length."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.cli.printing.loglines import LogOut
from distui.cli.printing.outlet import Outlet
from distui.cli.printing.printer import LineWriter, LogView
from distui.cluster.attach.live_run import Live
from distui.cluster.attach.places import RunLocation
from distui.cluster.logs import from_files, from_hosts, of_run
from distui.cluster.logs.sink import LogSink
from distui.cluster.logs.wanted import Wanted
from distui.cluster.settings import ClusterSettings
from distui.errors import UsageError
from distui.facts.host import Trouble
from distui.plan.labels import TaskLabels
from distui.runs.follow.followed import Records, Removed
from distui.runs.follow.resume import ResumePoint
from distui.runs.hosts.discover import FoundRun, FoundTask
from distui.runs.lines.batch import Batch
from distui.runs.lines.events import LogLine, RunEnded, RunOpened
from distui.runs.lines.text import LONGEST, WholeLines
from distui.runs.lines.times import pack, times_of
from distui.runs.store.journal import Journal
from distui.runs.store.masking import Mask
from distui.runs.store.runs import RunStore, StoredRun
from distui.session import Completed
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import RankLayout
from fakehosts.runs import facts_of, plan_for

NOON = 1_795_176_000.0  # 2026-11-20T12:00:00Z


@pytest.fixture
def stored(home: Path) -> StoredRun:
    """An ended run of one rank that said a line every 0.25 s from noon on, the last without a newline."""
    made = RunStore(home / ".local/state/distui").create("r1")
    made.write_plan({"run_id": "r1", "job": "smoke", "tasks": [{"index": 0, "ranks": [0], "host": "h0"}]})
    journal = Journal(made)
    journal.write([RunOpened(1.0, "r1", "smoke", "env", None, {0: "h0"}, {0: (0,)}), RunEnded(9.0, "succeeded", 0)])
    journal.close()
    made.rank_log(0).write_bytes(b"\n".join(b"line %d" % n for n in range(8)))
    times_of(made.rank_log(0)).write_bytes(pack([NOON + n / 4 for n in range(8)]))
    return made


def test_times_come_from_the_file_beside_the_log(cli: Any, stored: StoredRun) -> None:
    """No host is asked, and a tail knows which lines it shows."""
    want = "2026-11-20T12:00:01.500000000Z line 6\n2026-11-20T12:00:01.750000000Z line 7\n"

    assert cli("logs", "r1", "-t", "-n", "2", "--no-prefix").out == want
    assert cli("logs", "r1", "-t", "--no-prefix").out.endswith(want)
    assert cli("logs", "r1", "--since", "2026-11-20T12:00:01.5Z", "--no-prefix").out == "line 6\nline 7\n"


def test_lines_without_a_time_are_shown_without_one(cli: Any, stored: StoredRun) -> None:
    """Nobody wrote it down: `-`, and new for --since."""
    times_of(stored.rank_log(0)).write_bytes(pack([NOON])[:-1])

    assert cli("logs", "r1", "-t", "-n", "1", "--no-prefix").out == "- line 7\n"
    assert len(cli("logs", "r1", "--since", "2026-12-01T00:00:00Z").out.splitlines()) == 8


def test_what_only_the_hosts_know_is_not_made_up(cli: Any, stored: StoredRun) -> None:
    """Files here do not tell stderr from stdout."""
    done = cli("logs", "r1", "--stderr")

    assert done.code != 0
    assert done.out == ""


@given(st.binary(max_size=40).map(lambda data: data.replace(b"\x00", b"\n")), st.integers(0, 9), st.integers(1, 9))
def test_a_tail_is_found_from_the_end(data: bytes, count: int, chunk: int) -> None:
    """As many lines as asked for, whatever the size of the reads, with or without a last newline."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_files, "CHUNK", chunk)
        start = from_files._tail_start(io.BytesIO(data), count)
    lines = io.BytesIO(data).readlines()

    assert data[start:] == b"".join(lines[max(0, len(lines) - count) :])


@given(st.lists(st.sampled_from([b"", b"a", b"\n", b"b\nc", b"\n\n", b"\r"])))
def test_lines_do_not_depend_on_the_reads(reads: list[bytes]) -> None:
    """Every line once, without its newline, and the open end at the end."""
    lines = WholeLines()
    found = [line for read in reads for line in lines.feed(read)] + lines.rest()
    whole = b"".join(reads).split(b"\n")

    assert found == (whole if whole[-1] else whole[:-1])
    assert lines.rest() == []


def test_a_long_line_is_copied_once() -> None:
    """Parts of an open line are kept as they came, not joined again with each read."""
    lines, part = WholeLines(), b"x" * 10
    for _ in range(1000):
        assert lines.feed(part) == []

    assert lines._open == [part] * 1000
    assert lines.feed(b"\n") == [part * 1000]


def test_a_line_beyond_all_measure_is_printed_in_part() -> None:
    """With a mark that says so; the next line is whole."""
    lines = WholeLines()
    for _ in range(20):
        assert lines.feed(b"y" * (1 << 20)) == []
    first, second = lines.feed(b"\nnext\n")
    assert first == b"y" * LONGEST + b" ... and 4194304 bytes more in the log file"
    assert second == b"next"
    assert lines.rest() == []


# of several ranks


@pytest.fixture
def pair(home: Path) -> StoredRun:
    """An ended run of two ranks that took turns from noon on, a quarter of a second apart."""
    made = RunStore(home / ".local/state/distui").create("r2")
    tasks = [{"index": rank, "ranks": [rank], "host": f"h{rank}"} for rank in (0, 1)]
    made.write_plan({"run_id": "r2", "job": "smoke", "tasks": tasks})
    journal = Journal(made)
    ranks: dict[int, tuple[int, ...]] = {0: (0,), 1: (1,)}
    journal.write([RunOpened(1.0, "r2", "smoke", "env", None, {0: "h0", 1: "h1"}, ranks)])
    journal.write([RunEnded(9.0, "succeeded", 0)])
    journal.close()
    for rank in (0, 1):
        made.rank_log(rank).write_text("".join(f"{rank}.{n}\n" for n in range(4)))
        times_of(made.rank_log(rank)).write_bytes(pack([NOON + rank / 4 + n / 2 for n in range(4)]))
    return made


TURNS = [f"{rank}.{n}" for n in range(4) for rank in (0, 1)]


@pytest.mark.parametrize("part", [3, 1 << 16])
def test_all_ranks_in_the_order_of_time(cli: Any, pair: StoredRun, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """--merge, however much is read at once; prefixes, -n of each rank, --rank and --grep as without it."""
    monkeypatch.setattr(from_files, "PART", part)
    assert cli("logs", "r2", "--merge", "--no-prefix").out.split() == TURNS
    assert cli("logs", "r2", "--merge", "-n", "1").out.splitlines() == ["000 h0 | 0.3", "001 h1 | 1.3"]
    assert cli("logs", "r2", "--merge", "-n", "2", "--no-prefix").out.split() == TURNS[4:]
    assert cli("logs", "r2", "--merge", "--grep", "[.]2", "--no-prefix").out.split() == ["0.2", "1.2"]
    assert cli("logs", "r2", "--merge", "-f", "--no-prefix").out.split() == TURNS
    assert cli("logs", "r2", "--no-prefix").out.split() == sorted(TURNS)


def test_up_to_a_moment(cli: Any, pair: StoredRun) -> None:
    """--until, alone and after --since; words that are no time are refused with the flag's name."""
    some = cli("logs", "r2", "--merge", "--no-prefix", "--until", "2026-11-20T12:00:00.5Z")
    assert some.out.split() == TURNS[:3]
    last = ("-n", "1", "--until", "2026-11-20T12:00:01.1Z")
    assert cli("logs", "r2", "--merge", "--no-prefix", *last).out.split() == ["1.1", "0.2"]
    assert cli("logs", "r2", "--no-prefix", "-n", "1", "--grep", "[12]$").out.split() == ["0.2", "1.2"]
    assert cli("logs", "r2", "--no-prefix", "-f", "-n", "1", "--grep", "[12]$").out.split() == ["0.2", "1.2"]
    both = ("--since", "2026-11-20T12:00:00.5Z", "--until", "2026-11-20T12:00:01Z")
    assert cli("logs", "r2", "--no-prefix", *both).out.split() == ["0.1", "0.2", "1.1"]
    wrong = cli("logs", "r2", "--until", "tomorrow")
    assert wrong.code == 2
    assert "--until tomorrow" in wrong.err


def test_saved_logs(cli: Any, pair: StoredRun) -> None:
    """A file for each rank, or with --merge one of all; nothing on stdout, and nothing is overwritten."""
    done = cli("logs", "r2", "--save", "kept/all")
    assert (done.code, done.out) == (0, ""), done.err
    assert "kept/all" in done.err
    kept = Path("kept/all")
    assert {p.name: p.read_text() for p in kept.iterdir()} == {
        f"rank-{rank:05d}.log": pair.rank_log(rank).read_text() for rank in (0, 1)
    }
    assert cli("logs", "r2", "--merge", "--save", "kept/one.log", "--rank", "1", "-t").code == 0
    assert Path("kept/one.log").read_text().splitlines()[0] == "001 h1 | 2026-11-20T12:00:00.250000000Z 1.0"

    for words in (("--save", "kept/all"), ("--merge", "--save", "kept/one.log"), ("--merge", "--save", "no/such/f")):
        refused = cli("logs", "r2", *words)
        assert refused.code == 2, words
        assert "exists" in refused.err or "can't be written" in refused.err


def test_what_was_not_saved_leaves_nothing(cli: Any, pair: StoredRun) -> None:
    """A rank that is not there: no empty file, no empty folder."""
    for words in (("--merge", "--save", "one.log"), ("--save", "all")):
        assert cli("logs", "r2", "--rank", "9", *words).code == 2
    assert not Path("one.log").exists()
    assert not Path("all").exists()


async def test_hosts_that_have_different_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the hosts have is fetched, and put in order on our clock: h1's is five seconds ahead."""
    plan = plan_for("h1", "h2")
    facts = {"h1": replace(facts_of("h1"), clock_offset_ms=5000.0), "h2": facts_of("h2")}
    live: Any = SimpleNamespace(plan=plan, facts=facts, unreachable={})
    said = {"h1": [("05.5", "second"), ("07.5", "fourth")], "h2": [("00.0", "first"), ("01.0", "third")]}

    async def show_task(connector: Any, live: Any, task: Any, out: Any, *, stamps: bool) -> None:
        lines = [LogLine("stdout", text, f"2026-11-20T12:00:{at}00000000Z") for at, text in said[task.host]]
        await out.lines(task.ranks[0], task.host, lines)

    class Kept(LogOut):
        async def write(self, rank: int | None, host: str, lines: Any) -> None:
            messages.extend((rank, line.text, line.stamp[17:21]) for line in lines)

    messages: list[tuple[int | None, str, str]] = []
    monkeypatch.setattr(from_hosts, "_show_task", show_task)
    out = Kept(Outlet(-1), LineWriter(LogView(), colour=False), Wanted(until="2026-11-20T12:00:02.000000000Z"))
    assert await from_hosts.show(None, live, out, None, stamps=False, merge=True)  # type: ignore[arg-type]
    assert messages == [(1, "first", "00.0"), (0, "second", "00.5"), (1, "third", "01.0")]


async def test_a_host_that_did_not_answer_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each of its tasks: with a docker that hangs that is 15 seconds each."""
    why = Trouble("command_timeout", "h2: docker did not finish within 15 s", "")
    plan = plan_for("h1", "h2", ranks=RankLayout(per_host=2), backend="gloo")
    live: Any = SimpleNamespace(plan=plan, facts={}, unreachable={"h2": why})
    asked: list[str] = []
    reported: list[str] = []

    async def show_task(connector: Any, live: Any, task: Any, out: Any, *, stamps: bool) -> None:
        asked.append(task.host)

    monkeypatch.setattr(from_hosts, "_show_task", show_task)
    out = LogOut(Outlet(-1), LineWriter(LogView(), colour=False), Wanted())
    assert not await from_hosts.show(None, live, out, reported.append, stamps=False)  # type: ignore[arg-type]
    assert (asked, reported) == (["h1", "h1"], ["h2: docker did not finish within 15 s"])


@pytest.mark.parametrize("merge", [True, False])
async def test_only_the_hosts_of_the_ranks_that_are_asked_for_are_read(
    monkeypatch: pytest.MonkeyPatch, merge: bool
) -> None:
    """A run may have thousands of ranks with long logs elsewhere; that a host of those is silent is nothing either."""
    why = Trouble("command_timeout", "h2: docker did not finish within 15 s", "")
    live = Live(None, plan_for("h1", "h2", "h3"), {"h2": why}, {})
    asked: list[str] = []
    reported: list[str] = []

    async def show_task(connector: Any, live: Any, task: Any, out: Any, *, stamps: bool) -> None:
        asked.append(task.host)

    monkeypatch.setattr(from_hosts, "_show_task", show_task)

    async def read(*ranks: int) -> bool:
        out = LogOut(Outlet(-1), LineWriter(LogView(), colour=False), Wanted(ranks=frozenset(ranks)))
        return await of_run._read_hosts(
            None, live, out, lambda words, _: reported.append(words), follow=False, merge=merge
        )  # type: ignore[arg-type]

    assert await read(2)
    assert (asked, reported) == (["h3"], [])
    assert not await read(0, 1)
    assert asked == ["h3", "h1"]
    assert "h2 did not answer; its ranks are missing here" in reported


async def test_a_rank_that_may_be_on_a_host_that_did_not_answer_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the hosts know the run, nobody knows what that one has."""
    live = Live(None, plan_for("h1"), {"h2": Trouble("timeout", "h2: no answer", "")}, {})
    reported: list[str] = []
    out = LogOut(Outlet(-1), LineWriter(LogView(), colour=False), Wanted(ranks=frozenset({5})))
    assert not await of_run._read_hosts(
        None, live, out, lambda words, _: reported.append(words), follow=False, merge=False
    )  # type: ignore[arg-type]
    assert reported[0] == "h2 did not answer; its ranks are missing here"


@pytest.mark.parametrize("whole", [True, False])
async def test_whoever_followed_a_run_is_gone_before_its_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """Killed, detached, or on a full disk: `logs -f` ended with 0, as if the run were over."""
    monkeypatch.setattr(from_files, "HANDED_OVER_SECONDS", 0.0)
    followed, reported = iter([True, True, True]), list[str]()
    monkeypatch.setattr(StoredRun, "is_followed", property(lambda _: next(followed, False)))
    stored = RunStore(home / ".local/state/distui").create("r1")
    journal = Journal(stored)
    ended = [RunEnded(9.0, "succeeded", 0)] if whole else []
    journal.write([RunOpened(1.0, "r1", "smoke", "env", None, {0: "h0"}, {0: (0,)}), *ended])
    journal.close()
    out = LogOut(Outlet(-1), LineWriter(LogView(), colour=False), Wanted())
    place = RunLocation("r1", stored, ())
    settings = ClusterSettings({})
    good = await of_run.read_run(
        settings, pytest.fail, place, out, lambda words, _: reported.append(words), follow=True
    )  # type: ignore[arg-type]
    words = "is not followed here any more, and its logs here are not whole"
    assert (good, reported) == (whole, [] if whole else [f"r1 {words}: `distui logs -f r1` reads on from its hosts"])


async def test_logs_are_followed_on_beside_the_next_owner(stored: StoredRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first one is killed: `logs -f` ended, though another one went on. A log that was removed meanwhile is written
    again by that one: all of it was printed twice.
    """
    monkeypatch.setattr(from_files, "HANDED_OVER_SECONDS", 60.0)
    (stored.path / "events.ndjson").rename(ended := stored.path / "events")

    def looks() -> Iterator[bool]:
        stored.rank_log(0).write_bytes(b"one\ntwo\nth")
        times_of(stored.rank_log(0)).write_bytes(pack([NOON, NOON + 1, NOON + 2]))
        yield True
        yield False
        for path in (stored.rank_log(0), times_of(stored.rank_log(0))):
            path.rename(f"{path}.old")  # its inode stays in use
        stored.cut_file.write_bytes(b"")
        times_of(stored.rank_log(0)).write_bytes(pack([NOON, NOON + 1, NOON + 2, NOON + 3]))
        stored.rank_log(0).write_bytes(b"one\n")
        yield True
        stored.rank_log(0).write_bytes(b"one\ntwo\nthree\nfour\n")
        yield True
        ended.rename(stored.path / "events.ndjson")
        yield False

    looking = looks()
    monkeypatch.setattr(StoredRun, "is_followed", property(lambda _: next(looking)))
    out = Kept(Wanted(), timestamps=True)
    assert await from_files.show(stored, out, follow=True) == ()
    assert out.said == [
        (f"2026-11-20T12:00:0{n}.000000000Z", text) for n, text in enumerate(["one", "two", "three", "four"])
    ]


async def test_logs_of_a_run_whose_name_is_used_again_end_with_it(
    stored: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They went on with those of the new one."""
    stored.rank_log(0).write_bytes(b"one\n")

    def looks() -> Iterator[bool]:
        yield True
        with stored.rank_log(0).open("ab") as log:
            log.write(b"two\n")
        stored.path.rename(stored.path.with_name("r1~1"))
        RunStore(stored.path.parents[1]).create("r1").rank_log(0).write_bytes(b"of the new one\n")
        while True:
            yield True

    looking = looks()
    monkeypatch.setattr(StoredRun, "is_followed", property(lambda _: next(looking)))
    out = Kept(Wanted())
    async with asyncio.timeout(30):
        await from_files.show(stored, out, follow=True)
    assert [text for _, text in out.said] == ["one", "two"]


@pytest.mark.parametrize(("kept", "made"), [(True, True), (True, False), (False, True)])
async def test_a_run_whose_name_is_used_again_before_its_logs_are_whole(
    home: Path, monkeypatch: pytest.MonkeyPatch, kept: bool, made: bool
) -> None:
    """It ended well, as the new one is followed: nothing said that lines are missing. Or that one is just about to be
    made.
    """
    store = RunStore(home / ".local/state/distui")
    stored = store.create("r1")
    stored.write_plan({"run_id": "r1", "job": "smoke", "tasks": [{"index": 0, "ranks": [0], "host": "h0"}]})
    reported = list[str]()

    def looks() -> Iterator[bool]:
        yield True
        yield True
        if kept:
            stored.path.rename(stored.path.with_name("r1~1"))
        else:
            store.remove("r1")
        if made:
            store.create("r1").rank_log(0).write_bytes(b"of the new one\n")
        while True:
            yield True

    looking = looks()
    old = property(lambda run: next(looking) if run.run_id == "r1" else False)
    monkeypatch.setattr(StoredRun, "is_followed", old)
    out = Kept(Wanted())
    async with asyncio.timeout(30):
        good = await of_run.read_run(
            ClusterSettings({}),
            pytest.fail,
            RunLocation("r1", stored, ()),
            out,
            lambda words, _: reported.append(words),
            follow=True,
        )  # type: ignore[arg-type]
    words = (
        "r1 is not followed here any more: another run has its name, and its logs here, kept as r1~1, are not whole"
        if kept
        else "r1 was removed here: another run has its name"
    )
    assert (good, reported, out.said) == (False, [words], [])


class Kept(LogSink):
    """Keeps the lines, each with its moment."""

    def __init__(self, wanted: Wanted, *, timestamps: bool = False) -> None:
        super().__init__(wanted, timestamps=timestamps)
        self.said: list[tuple[str, str]] = []

    async def write(self, rank: int | None, host: str, lines: Sequence[LogLine]) -> None:
        """See LogSink."""
        self.said += [(line.stamp, line.text) for line in lines]


async def test_that_another_attempt_may_come_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """`logs -f` from the hosts reads the attempt that it found, and ended as if the run were over."""
    reported: list[str] = []

    async def follow(*_: object) -> bool:
        return True

    monkeypatch.setattr(from_hosts, "follow", follow)
    for attempt in (1, 2):
        labels = TaskLabels("r1", 0, (0,), "h1", "j", attempt=attempt, attempts=2)
        live = Live(FoundRun("r1", (FoundTask("h1", "c0", labels, {}, True, "running"),)), plan_for("h1"), {}, {})
        out = LogOut(Outlet(-1), LineWriter(LogView(), colour=False), Wanted())
        assert await of_run._read_hosts(
            None, live, out, lambda words, _: reported.append(words), follow=True, merge=False
        )  # type: ignore[arg-type]
    assert reported == [
        "that was attempt 1 of 2: if it failed, `distui logs -f r1` shows the next one once that has begun"
    ]


@pytest.mark.parametrize("follow", [True, False])
async def test_a_rank_on_a_host_that_did_not_answer_is_no_unknown_rank(
    monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    """Only the hosts know the run, and how many ranks it has: another one is refused, one of these is missing."""
    labels = TaskLabels("r1", 0, (0,), "h1", "j", world_size=2)
    found = FoundRun("r1", (FoundTask("h1", "c0", labels, {}, True, "running"),))
    live = Live(found, plan_for("h1"), {"h2": Trouble("timeout", "h2: no answer", "")}, {})
    reported: list[str] = []

    @asynccontextmanager
    async def connect(_: object) -> AsyncIterator[Any]:
        yield None

    async def attach(*_: object) -> Live:
        return live

    monkeypatch.setattr(of_run, "attach", attach)

    async def read(rank: int) -> bool:
        out = LogOut(Outlet(-1), LineWriter(LogView(), colour=False), Wanted(ranks=frozenset({rank})))
        place = RunLocation("r1", None, (Host("h1"), Host("h2")))
        return await of_run.read_run(
            ClusterSettings({}), connect, place, out, lambda words, _: reported.append(words), follow=follow
        )

    with pytest.raises(UsageError, match="there is no rank 2: the run has ranks 0 to 1"):
        await read(2)
    assert not await read(1)
    assert "h2 did not answer; its ranks are missing here" in reported


@pytest.mark.parametrize("stamps", [True, False])
async def test_a_long_line_has_one_stamp(stamps: bool) -> None:
    """The engine puts one before each 16 KiB of it, and so into a value of a secret, too."""

    class Kept(LogOut):
        async def write(self, rank: int | None, host: str, lines: Any) -> None:
            said.extend((line.stamp, line.text) for line in lines)

    said: list[tuple[str, str]] = []
    out = Kept(Outlet(-1), LineWriter(LogView(), colour=False), Wanted())
    out.mask = Mask({"TOKEN": "hunter2-hunter2"})
    stamp = "2026-11-20T12:00:00.123456789Z"
    text = "x" * (16384 - 4) + "hunter2-hunter2" + "y" * 20_000
    pieces = [f"{stamp} " * stamps + text[at : at + 16384] for at in range(0, len(text), 16384)]
    lines = ["".join(pieces).encode(), b"a " + b"b" * 9, b""]
    await from_hosts._write(out, "h0", lambda line: ((0, line),), lines, stamps=stamps)
    assert said[0] == (stamp * stamps, text.replace("hunter2-hunter2", "***"))
    assert said[1:] == ([("a", "b" * 9), ("", "")] if stamps else [("", "a " + "b" * 9), ("", "")])


@dataclass
class FollowedHost:
    """The host of a run whose tasks are looked at: rank 0 in a container, rank 1 a process."""

    tasks: Any
    host: str = "h0"
    ids: Any = field(default_factory=lambda: {0: "c0", 1: "/runs/r1/task-1"})
    asked: list[tuple[str, ...]] = field(default_factory=list)
    last: bytes = b"2026-11-20T12:00:03.000000000Z old 3\n"

    @property
    def link(self) -> Any:
        async def session() -> Any:
            return SimpleNamespace(run=self.run)

        return SimpleNamespace(session=session)

    async def run_dir(self) -> str:
        return "/runs/r1"

    async def run(self, argv: Any) -> Completed:
        self.asked.append(tuple(argv))
        return Completed(tuple(argv), 0, b"12 /runs/r1/task-1/log\n" if argv[0] == "wc" else self.last, b"")


def records(task: int, *said: tuple[str, str]) -> Records:
    """Lines with the second they were said at."""
    stamps = tuple(f"2026-11-20T12:00:{at}.000000000Z".encode() for at, _ in said)
    batch = Batch((1,) * len(said), stamps, tuple(f"{text}\n".encode() for _, text in said))
    return Records(task, batch, ResumePoint())


async def test_a_tail_that_is_followed_is_shown_when_the_old_lines_are_there() -> None:
    """At the record, or the byte, that was the log's last: not when a host was quiet for a while."""
    plan = plan_for("h0", "h1")
    tasks = (plan.tasks[0], replace(plan.tasks[1], host="h0", engine="process"))
    host, output = FollowedHost(tasks), []

    class Kept(LogOut):
        async def write(self, rank: int | None, host: str, lines: Any) -> None:
            output.extend((rank, line.text) for line in lines)

    def said() -> list[tuple[int | None, str]]:
        now = list(output)
        output.clear()
        return now

    out = Kept(Outlet(-1), LineWriter(LogView(), colour=False), Wanted(tail=2))
    out.open({0: "h0", 1: "h0"}, {}, hold=True)
    live: Any = SimpleNamespace(plan=plan)
    viewer = from_hosts._Viewer(host, live, out, None)  # type: ignore[arg-type]
    for task in tasks:
        await viewer._look_at(task)
    assert host.asked[0][-4:-1] == ("--timestamps", "--tail", "1")
    assert host.asked[1][:2] == ("wc", "-c")

    await viewer._take(records(0, ("01", "old 1"), ("02", "old 2")))
    assert said() == []
    await viewer._take(records(0, ("03", "old 3")))
    assert said() == [(0, "old 2"), (0, "old 3")]
    await viewer._take(records(0, ("03", "new 1")))
    assert said() == [(0, "new 1")]
    await viewer._take(records(1, ("00", "a1"), ("00", "a2"), ("00", "a3")))
    assert said() == []
    await viewer._take(records(1, ("00", "a4")))
    assert said() == [(1, "a3"), (1, "a4")]
    await viewer._take(records(1, ("00", "b")))
    assert said() == [(1, "b")]


@pytest.mark.parametrize(("last", "shown"), [(b"", ["one", "two"]), (b"no stamp\n", ["one", "two"]), (None, [])])
async def test_a_log_without_old_lines_is_live_at_once(last: bytes | None, shown: list[str]) -> None:
    """Nothing is waited for that will not come; a task that ended while its old lines came shows its tail."""
    plan = plan_for("h0")
    messages: list[str] = []

    class Kept(LogOut):
        async def write(self, rank: int | None, host: str, lines: Any) -> None:
            messages.extend(line.text for line in lines)

    out = Kept(Outlet(-1), LineWriter(LogView(), colour=False), Wanted(tail=2))
    out.open({0: "h0"}, {}, hold=True)
    live: Any = SimpleNamespace(plan=plan)
    host = FollowedHost(plan.tasks, last=b"2027-01-01T00:00:00Z never\n" if last is None else last)
    viewer = from_hosts._Viewer(host, live, out, None)  # type: ignore[arg-type]
    await viewer._look_at(plan.tasks[0])
    await viewer._take(records(0, ("01", "one"), ("02", "two")))
    assert messages == shown
    await viewer._take(Removed(0, read=True))
    assert (messages, viewer.misses) == (["one", "two"], False)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((), "nothing of rank 0 is on h0 any more"),
        ((("01", "one"),), "h0: rank 0: removed there before its log was read to its end: lines may be missing here"),
    ],
)
async def test_what_is_removed_before_it_was_read_is_said(lines: tuple[tuple[str, str], ...], words: str) -> None:
    """By `rm` from elsewhere while `logs -f` reads: it ended with 0, without a word."""
    plan, reported = plan_for("h0"), list[str]()
    out = LogOut(Outlet(-1), LineWriter(LogView(), colour=False), Wanted())
    out.open({0: "h0"}, {}, hold=True)
    live: Any = SimpleNamespace(plan=plan)
    viewer = from_hosts._Viewer(FollowedHost(plan.tasks), live, out, lambda words, _: reported.append(words))  # type: ignore[arg-type]
    if lines:
        await viewer._take(records(0, *lines))
    await viewer._take(Removed(0))
    assert (reported, viewer.misses) == ([words], True)
