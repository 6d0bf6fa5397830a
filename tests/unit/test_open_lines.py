"""A progress bar is one line for hours: what it shows counts while its line has no newline yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from distui.runs.control import supervise
from distui.runs.follow.followed import Records
from distui.runs.follow.resume import ResumePoint
from distui.runs.lines.batch import STDERR, STDOUT, Batch
from distui.runs.lines.events import LogLine, LogLines, Progressed, RankSilent, RanksStepped, RunStalled
from distui.runs.lines.text import MAX_OPEN, LineAssembler, excerpt, last_drawn
from distui.runs.state.progress import ProgressTeller
from distui.runs.store.logs import TaskLog
from distui.runs.store.masking import Mask
from distui.runs.store.runs import RunStore
from distui.runs.watch import lines as watched_lines
from distui.runs.watch.progress.steps import StepWatch
from distui.runs.watch.track import TaskTrack
from fakehosts.runs import Cluster, plan_for, two_hosts, until

PATTERN = r"(?P<step>\d+)/(?P<total>\d+) \[.*loss=(?P<loss>[\d.]+)"
STAMP = b"2026-11-21T01:02:03.000000001Z"


def bar(step: int) -> bytes:
    return b"\rEpoch 1: 50%%|#####     | %d/4000 [00:07<00:10, 9.9it/s, loss=0.%d]" % (step, step)


def printed(*pieces: bytes, stamp: bytes = b"") -> Batch:
    return Batch((STDERR,) * len(pieces), (stamp,) * len(pieces), pieces)


async def follow(cluster: Cluster, pieces: Sequence[bytes], *, pause: float, last: bytes = b"") -> None:
    """Both ranks print this piece by piece, and end."""
    for piece in pieces:
        for task, host in enumerate(cluster.hosts):
            await host.news.put(Records(task, printed(piece), ResumePoint(written=1)))
        await asyncio.sleep(pause)
    for task, host in enumerate(cluster.hosts):
        if last:
            await host.news.put(Records(task, printed(last), ResumePoint(written=1)))
        host.containers[0].end(0)


async def test_a_rank_that_draws_a_bar_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was called quiet, and the run was said to stand still, until the bar had its newline."""
    monkeypatch.setattr(supervise, "AFTER_ROOM", 0.0)
    monkeypatch.setattr(watched_lines, "DRAWN", 0.2)
    cluster = two_hosts(tmp_path, monkeypatch)

    async def meanwhile() -> None:
        await until(lambda: all(host.containers for host in cluster.hosts))
        await follow(cluster, [bar(i) for i in range(12)], pause=0.25)

    ended = await cluster.run(cluster.plan(stall_after=1.5), meanwhile())
    assert ended.outcome == "succeeded"
    assert (cluster.of(RankSilent), cluster.of(RunStalled)) == ([], [])
    texts = [line.text for event in cluster.of(LogLines) for line in event.lines]
    assert len(texts) == 2 and all(text.count("\r") == 12 for text in texts), "shown once, when it is a line"


async def test_progress_is_read_of_an_open_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the run and of each rank; it was known once the bar had its newline, and as its first 4,000 bytes had it."""
    monkeypatch.setattr(watched_lines, "DRAWN", 0.2)
    cluster = two_hosts(tmp_path, monkeypatch)

    async def meanwhile() -> None:
        await until(lambda: all(host.containers for host in cluster.hosts))
        pieces = [b"".join(bar(100 * part + i) for i in range(100)) for part in range(5)]
        await follow(cluster, pieces, pause=0.6, last=bar(500) + b"\n")

    await cluster.run(cluster.plan(progress=PATTERN), meanwhile())
    steps = [event.values["step"] for event in cluster.of(Progressed)]
    assert len(steps) >= 3 and steps == sorted(steps) and steps[-1] == 500, steps
    by_rank = [step.step for event in cluster.of(RanksStepped) for step in event.steps if step.rank == 1]
    assert len(by_rank) >= 3 and by_rank == sorted(by_rank) and by_rank[-1] == 500, by_rank


def test_what_a_bar_shows_that_is_surely_whole() -> None:
    """The last redraw may be half of one; nothing is a bar without a return."""
    assembler = LineAssembler()
    shown = []
    for piece in (b"Epoch 1", b"\rstep 1", b"0\rstep 1", b"1\r", b"step 12\n", b"Downloading ..."):
        list(assembler.feed("stderr", piece))
        shown.append(assembler.drawn)
    assert shown == [b"", b"Epoch 1", b"step 10", b"step 11", b"", b""]


def test_no_secret_of_an_open_bar_is_shown(tmp_path: Path) -> None:
    """What it shows goes to whoever reads progress, which may be words."""
    log = TaskLog(RunStore(tmp_path).create("r1"), 0, [4], mask=Mask({"TOKEN": "hunter2-long"}))
    log.feed(printed(b"\rsaved hunter2-long.pt\r"))
    part = log.drawn()
    assert part is not None and part.rank == 4 and part.lines.data == b"saved ***.pt"


def test_whose_an_open_line_is_must_be_known(tmp_path: Path) -> None:
    """A line of several ranks is known when its launcher's prefix is; nothing is open after a newline."""
    several = TaskLog(RunStore(tmp_path).create("r1"), 0, [0, 1], lambda line: [(0, line)])
    several.feed(printed(bar(1) + bar(2)))
    one = TaskLog(RunStore(tmp_path).create("r2"), 0, [0])
    one.feed(printed(bar(1) + b"\n"))
    assert (several.drawn(), one.drawn()) == (None, None)
    one.close()


def test_the_end_of_a_bar_is_kept_for_the_verdict(tmp_path: Path) -> None:
    """A failure showed what a long bar had drawn first, cut somewhere: `Epoch`."""
    task = plan_for("h1").tasks[0]
    track = TaskTrack(task, TaskLog(RunStore(tmp_path).create("r1"), 0, [0]))
    track.remember(track.log.feed(printed(b"".join(bar(i) for i in range(900)) + b"\n", b"ValueError: x\n")))
    lines = track.seen().lines[0]
    track.log.close()
    assert excerpt(line.text for line in lines) == (bar(899)[1:].decode(), "ValueError: x")


def test_a_bar_that_ends_is_no_step_of_its_beginning() -> None:
    """The stamp of a line is that of its first byte: its last step would be older than those before it."""
    teller = ProgressTeller(PATTERN, 0, "h1")
    first = teller.take([LogLine("stderr", bar(700)[1:].decode())], 1_900_000_000.0)
    text = (bar(1) + bar(701)).decode()
    last = teller.take([LogLine("stderr", text, STAMP.decode())], 1_900_000_002.0)
    assert first is not None and last is not None
    assert (last.values["step"], last.at) == (701, first.at)


def test_the_last_step_of_a_bar_is_of_its_end(tmp_path: Path) -> None:
    """It came with the newline, and was dated an hour back, when the bar began: the run was said to stand still."""
    began = datetime.fromisoformat("2026-11-21T01:02:03+00:00").timestamp()
    plan = plan_for("h1", progress=PATTERN)
    track, watch = TaskTrack(plan.tasks[0], TaskLog(RunStore(tmp_path).create("r1"), 0, [0])), StepWatch(plan)
    track.remember(track.log.feed(printed(bar(1) + bar(97) + bar(98), stamp=STAMP)))
    drawn = track.log.drawn()
    assert drawn is not None
    track.draws(0, began + 3599, drawn.lines.data)
    before = watch.news([track], began + 3599)
    track.remember(track.log.feed(printed(bar(100) + b"\n", stamp=STAMP)))
    track.remember(track.log.feed(printed(b"epoch 1 done\n", stamp=b"2026-11-21T02:02:03.500000000Z")))
    after = watch.news([track], began + 3601)
    track.log.close()
    assert before is not None and [(step.step, step.at) for step in before.steps] == [(97, began + 3599)]
    assert after is not None and [(step.step, step.at) for step in after.steps] == [(100, began + 3601)]


async def test_a_bar_that_is_left_open_hides_no_later_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, while steps are said on stdout: it was taken for drawn anew with each of them."""
    monkeypatch.setattr(watched_lines, "DRAWN", 0.0)
    cluster = two_hosts(tmp_path, monkeypatch)

    async def meanwhile() -> None:
        await until(lambda: all(host.containers for host in cluster.hosts))
        for said in (
            printed(bar(10) + b"\r"),
            *(Batch((STDOUT,), (b"",), (bar(n)[1:] + b"\n",)) for n in (11, 12, 13)),
        ):
            for task, host in enumerate(cluster.hosts):
                await host.news.put(Records(task, said, ResumePoint(written=1)))
            await asyncio.sleep(1.1)
        for host in cluster.hosts:
            host.containers[0].end(0)

    await cluster.run(cluster.plan(progress=PATTERN), meanwhile())
    steps = [event.values["step"] for event in cluster.of(Progressed)]
    by_rank = [step.step for event in cluster.of(RanksStepped) for step in event.steps if step.rank == 1]
    assert (steps[:4], by_rank[:4]) == ([10, 11, 12, 13], [10, 11, 12, 13])


@pytest.mark.parametrize("secret", ["", "hunter2\rmore"])
def test_an_endless_bar_is_not_cut_within_a_number(secret: str) -> None:
    """It is passed on in parts; `step 12` of `step 1234` was read as a step. Nothing of it is lost."""
    assembler = LineAssembler(Mask({"TOKEN": secret} if secret else {}).cut)
    drawn = b"".join(b"step %d\r" % step for step in range(MAX_OPEN // 10))
    parts = [part for at in range(0, len(drawn), 1000) for part in assembler.feed("stderr", drawn[at : at + 1000])]
    parts += [part for _, part in assembler.flush()]
    assert b"".join(parts) == drawn and len(parts) > 1
    whole = {b"step %d" % step for step in range(MAX_OPEN // 10)}
    assert all(last_drawn(part) in whole and part.endswith(b"\r") for part in parts)
