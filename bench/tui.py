"""The run view under load, under a real pty: lag of the event loop, keys, CPU, first paint, memory of long logs.

A second process writes the log files of 80 ranks, 1,000 lines a second each; the app follows them as it follows a
run. 16 panes are visible, 64 streams are not. Beside each figure stands its target (docs/tui.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import json
import os
import pty
import resource
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measure import REPO, Failed
from bench.report import note, title

VISIBLE, HIDDEN, RATE = 16, 64, 1000
COLUMNS, ROWS = 240, 64
CHUNK_S = 0.02
LINE = b"step %06d loss 2.104 grad_norm 0.482 lr 2.9e-4 tokens/s 41300 mem 71.2/80.0 GB, and words to fill the line\n"
LONG = 1_000_000
BUFFERS = 32


def measure(*, quick: bool) -> None:
    """Print what the run view costs."""
    title("tui: the run view, 16 visible panes at 1,000 lines/s each and 64 hidden streams")
    seconds = 8.0 if quick else 20.0
    with tempfile.TemporaryDirectory(prefix="distui-bench-") as folder:
        found = under_pty(Path(folder), seconds)
        _verdict("first paint", found["first_paint"] * 1000, "ms with imports", 500)
        _verdict("event loop lag, p99", found["lag_p99"], "ms", 50)
        print(f"  lag p50 {found['lag_p50']:.1f} ms, p95 {found['lag_p95']:.1f} ms, worst {found['lag_max']:.0f} ms")
        _verdict("key to handler, p95", found["key_p95"], "ms", 50)
        _verdict("CPU of the app", found["cpu"], "% of a core", 80)
        behind = found["written"] - found["shown"]
        print(f"  lines shown {found['shown']:,} of {found['written']:,}, {behind / VISIBLE / RATE:.2f} s behind")
        note(
            f"{found['output'] / seconds / 1000:.0f} kB/s to the terminal; lines are written by a process of their own"
        )
    ranks = 4 if quick else BUFFERS
    title(f"tui: logs of a million lines in {ranks} ranks")
    with tempfile.TemporaryDirectory(prefix="distui-bench-") as folder:
        long_logs(Path(folder), ranks=ranks)


def _verdict(name: str, value: float, unit: str, limit: float) -> None:
    print(f"  {name:22} {value:8.1f} {unit}, target {limit:g}: {'met' if value <= limit else 'MISSED'}", flush=True)


# Under a pty.


def under_pty(folder: Path, seconds: float) -> dict[str, Any]:
    """Run the app in a terminal of its own, press a key ten times a second, read what it draws."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(REPO)}
    argv = (sys.executable, "-m", "bench.tui", str(folder), str(seconds))
    began = time.monotonic()
    app = subprocess.Popen(
        argv, stdin=follower, stdout=follower, stderr=follower, cwd=REPO, env=env, start_new_session=True
    )
    os.close(follower)
    try:
        told = _drive(app, leader, began, seconds)
    finally:
        os.close(leader)
        if app.poll() is None:
            app.send_signal(signal.SIGKILL)
        app.wait()
    done = folder / "done.json"
    if not done.exists():
        words = (folder / "error.txt").read_text() if (folder / "error.txt").exists() else "it was killed"
        raise Failed(f"the app did not end well: {words[-800:]}")
    found: dict[str, Any] = json.loads(done.read_text())
    late = [1000 * (there - sent) for sent, there in zip(told["keys"], found.pop("keys"), strict=False)]
    key_p95 = sorted(late)[int(len(late) * 0.95) - 1] if late else float("inf")
    first = told["first"] - float((folder / "begun").read_text())
    return found | {"first_paint": first, "output": told["output"], "key_p95": key_p95}


def _drive(app: subprocess.Popen[bytes], leader: int, began: float, seconds: float) -> dict[str, Any]:
    keys: list[float] = []
    first, output, next_key = 0.0, 0, 0.0
    until = began + seconds + 60
    while app.poll() is None and time.monotonic() < until:
        ready, _, _ = select.select([leader], [], [], 0.02)
        if ready:
            try:
                data = os.read(leader, 1 << 16)
            except OSError:
                break
            output += len(data)
            if not first and b"Runs" in data:
                first = time.monotonic()
                next_key = time.monotonic() + 3.0
        if next_key and time.monotonic() >= next_key and len(keys) < int(10 * seconds):
            keys.append(time.monotonic())
            os.write(leader, b"y")
            next_key += 0.1
    return {"keys": keys, "first": first, "output": output}


# In the terminal: the app, and the process that writes logs.


def write_logs(logs: Sequence[Path], seconds: float) -> None:
    """Append to every log at its rate, with a time for each line."""
    from distui.run.times import pack, times_of

    files = [(log.open("ab", buffering=0), times_of(log).open("ab", buffering=0)) for log in logs]
    per = int(RATE * CHUNK_S)
    began, count = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        now = time.time()
        data, times = b"".join(LINE % (count + i) for i in range(per)), pack([now] * per)
        for log, stamps in files:
            log.write(data)
            stamps.write(times)
        count += per
        time.sleep(max(0.0, began + count / RATE - time.monotonic()))


def _writer(folder: Path, seconds: float) -> subprocess.Popen[bytes]:
    argv = ("nice", "-n", "15", sys.executable, "-m", "bench.tui", "--write", str(folder), str(seconds))
    return subprocess.Popen(argv, cwd=REPO, stdin=subprocess.DEVNULL)


def in_terminal(folder: Path, seconds: float) -> None:
    """The app over a followed run of 80 ranks; leaves its figures in `done.json`."""
    began = time.monotonic()
    from tui.app import DistuiApp
    from tui.screens.run import RunScreen

    imported = time.monotonic() - began
    sys.path[:0] = [str(REPO / "tests" / "screens")]
    from fakes import FakeDesk, FakeLive, facts, launching  # type: ignore[import-not-found,unused-ignore]
    from textual.app import ScreenStackError
    from textual.events import Key

    from distui.run.events import LogLine, LogLines

    hosts = tuple(f"n{i:02d}" for i in range((VISIBLE + HIDDEN) // 8))
    desk = FakeDesk(folder, hosts=())
    desk.hosts, desk.answers = (), {}
    base = FakeDesk(folder / "plan").plan(hosts=("node01",))
    tasks = [
        dataclasses.replace(base.tasks[rank % len(base.tasks)], index=rank, ranks=(rank,), host=hosts[rank // 8])
        for rank in range(VISIBLE + HIDDEN)
    ]
    live: FakeLive = desk.follow(dataclasses.replace(base, tasks=tuple(tasks), networks=()))
    live.fan.put(launching(live.plan, time.time()))
    assert facts is not None
    keys: list[float] = []
    lags: list[float] = []

    class Measured(DistuiApp):
        """The app, with a clock at its keys."""

        def on_key(self, event: Key) -> None:
            if event.key == "y":
                keys.append(time.monotonic())

    app = Measured(desk, start=live)

    async def opened() -> RunScreen:
        while True:
            await asyncio.sleep(0.05)
            with contextlib.suppress(ScreenStackError):
                if isinstance(app.screen, RunScreen) and app.screen.folded is not None:
                    return app.screen

    async def probe() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            lags.append(1000 * (time.monotonic() - before - 0.005))

    async def hints() -> None:
        """What the follower says: these ranks wrote lines."""
        lines = tuple(LogLine("stdout", "x") for _ in range(int(RATE * CHUNK_S)))
        while True:
            now = time.time()
            live.fan.put([LogLines(now, t.index, t.index, t.host, lines) for t in live.plan.tasks])
            await asyncio.sleep(CHUNK_S)

    async def drive() -> None:
        screen = await opened()
        screen.grid.wanted, screen.grid.with_merged = VISIBLE, False
        screen.grid.fit()
        writer = _writer(folder, seconds)
        beside = [asyncio.create_task(hints()), asyncio.create_task(probe())]
        await asyncio.sleep(2.0)
        lags.clear()
        used, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        await asyncio.sleep(seconds - 3.0)
        spent, took = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began
        panes = screen.grid.log_panes
        written = sum(screen.feed.buffers[p.rank].path.read_bytes().count(b"\n") for p in panes if p.rank is not None)
        shown = sum(pane.rows for pane in panes)
        for task in beside:
            task.cancel()
        cpu = 100 * (spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime) / took
        ordered = sorted(lags)
        found = {
            "lag_p50": statistics.median(ordered), "lag_p95": ordered[int(len(ordered) * 0.95)],
            "lag_p99": ordered[int(len(ordered) * 0.99)], "lag_max": ordered[-1], "cpu": cpu,
            "written": written, "shown": shown, "panes": len(panes), "keys": keys,
        }  # fmt: skip
        (folder / "done.json").write_text(json.dumps(found))
        writer.terminate()
        writer.wait()
        app.exit(0)

    (folder / "begun").write_text(str(time.monotonic() - imported))

    async def both() -> None:
        driver = asyncio.create_task(drive())
        driver.add_done_callback(lambda task: app.exit(0))
        await app.run_async()
        if not driver.done():
            driver.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await driver

    asyncio.run(both())


# Long logs.


def long_logs(folder: Path, *, ranks: int) -> None:
    """Index a million lines for each of `ranks` ranks: memory, time, and how long a search takes."""
    from tui.logs.buffer import LogBuffer
    from tui.logs.search import find, pattern_of

    path = folder / "rank-00000.log"
    with path.open("wb") as file:
        for start in range(0, LONG, 10_000):
            file.write(b"".join(LINE % i for i in range(start, start + 10_000)))
    buffers = [LogBuffer(path, rank) for rank in range(ranks)]
    before, began, stall = _resident(), time.monotonic(), 0.0
    for buffer in buffers:
        more = True
        while more:
            at = time.monotonic()
            more = buffer.grow()
            stall = max(stall, time.monotonic() - at)
    took = (time.monotonic() - began) / ranks
    grown = (_resident() - before) / ranks / 1e6
    assert all(buffer.count == LONG for buffer in buffers)
    _verdict("memory a rank", grown, "MB", 10)
    print(f"  index of a million lines {took * 1000:.0f} ms in slices, longest slice {stall * 1000:.1f} ms")
    for words, text in (("literal", "step 999999"), ("regex", r"step 9{6}\b")):
        began = time.monotonic()
        assert asyncio.run(find(buffers[0], pattern_of(text), -1, 1)) == LONG - 1
        print(f"  search of {path.stat().st_size / 1e6:.0f} MB, {words}: {(time.monotonic() - began) * 1000:.0f} ms")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        stored = Path(sys.argv[2]) / "state" / "runs"
        run = next(stored.iterdir()) / "logs"
        run.mkdir(parents=True, exist_ok=True)
        write_logs([run / f"rank-{rank:05d}.log" for rank in range(VISIBLE + HIDDEN)], float(sys.argv[3]))
    elif sys.argv[1] in ("-q", "--quick", "all"):
        measure(quick=sys.argv[1] != "all")
    else:
        with contextlib.suppress(PermissionError):
            os.nice(-15)  # neighbours on this machine are not what is measured
        try:
            in_terminal(Path(sys.argv[1]), float(sys.argv[2]))
        except BaseException:
            (Path(sys.argv[1]) / "error.txt").write_text(traceback.format_exc())
            raise
