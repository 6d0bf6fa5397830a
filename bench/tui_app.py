"""The app that `bench/tui.py` measures, and the process that writes its logs.

python -m bench.tui_app FOLDER SECONDS          in a terminal; leaves `done.json`, or `error.txt`
python -m bench.tui_app --write FOLDER SECONDS  appends to the logs of all ranks at their rate
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import REPO, resident

if TYPE_CHECKING:
    from distui.tui.app import DistuiApp
    from distui.tui.run.screen import RunScreen

VISIBLE, HIDDEN, RATE = 16, 64, 1000
CHUNK_S = 0.02
WARM_S = 2.0
LONG = 1_000_000
PATIENCE_S = 180.0
LINE = b"step %06d loss 2.104 grad_norm 0.482 lr 2.9e-4 tokens/s 41300 mem 71.2/80.0 GB, and words to fill the line\n"


def write_logs(logs: Sequence[Path], seconds: float) -> None:
    """Append to every log at its rate, with a time for each line."""
    from distui.runs.lines.times import pack, times_of

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
    argv = ("nice", "-n", "15", sys.executable, "-m", "bench.tui_app", "--write", str(folder), str(seconds))
    return subprocess.Popen(argv, cwd=REPO, stdin=subprocess.DEVNULL)


class Session:
    """The app over a followed run of 80 ranks, 16 of them visible, and what is measured of it."""

    def __init__(self, folder: Path, seconds: float, ranks: int = VISIBLE + HIDDEN) -> None:
        self.folder = folder
        self.seconds = seconds
        self.keys: list[float] = []
        self.lags: list[float] = []
        self.live = _followed(folder, ranks)
        self.app = _app(self)

    async def run(self) -> None:
        """Until the time is over. Raises what went wrong in the app."""
        driver = asyncio.create_task(self._drive())
        driver.add_done_callback(lambda task: self.app.exit(0))
        await self.app.run_async()
        if not driver.done():
            driver.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await driver

    async def _drive(self) -> None:
        screen = await self._opened()
        screen.panes.grid.wanted, screen.panes.grid.with_merged = VISIBLE, False
        screen.panes.grid.fit()
        writer = _writer(self.folder, self.seconds)
        beside = [asyncio.create_task(self._hints()), asyncio.create_task(self._probe())]
        try:
            await asyncio.sleep(WARM_S)
            self.lags.clear()
            used, began, held = resource.getrusage(resource.RUSAGE_SELF), time.monotonic(), resident()
            await asyncio.sleep(self.seconds - WARM_S - 1.0)
            spent, took = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began
            cpu = 100 * (spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime) / took
            found = {
                "cpu": cpu,
                "grown": (resident() - held) / 1e6,
                "keys": self.keys,
                **self._lags(),
                **_shown(screen),
            }
            (self.folder / "done.json").write_text(json.dumps(found))
        finally:
            for task in beside:
                task.cancel()
            writer.terminate()
            writer.wait()

    async def _opened(self) -> RunScreen:
        from textual.app import ScreenStackError

        from distui.tui.run.screen import RunScreen

        while True:
            await asyncio.sleep(0.05)
            with contextlib.suppress(ScreenStackError):
                screen = self.app.screen
                if isinstance(screen, RunScreen) and screen.folding.folded is not None:
                    return screen

    async def _probe(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            self.lags.append(1000 * (time.monotonic() - before - 0.005))

    async def _hints(self) -> None:
        """What the follower says: these ranks wrote lines."""
        from distui.runs.lines.events import LogLine, LogLines

        lines = tuple(LogLine("stdout", "x") for _ in range(int(RATE * CHUNK_S)))
        while True:
            now = time.time()
            self.live.fan.put([LogLines(now, t.index, t.index, t.host, lines) for t in self.live.plan.tasks])
            await asyncio.sleep(CHUNK_S)

    def _lags(self) -> dict[str, float]:
        ordered = sorted(self.lags)
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        return {f"lag_{n}": ordered[int(len(ordered) * share)] for n, share in shares.items()} | {
            "lag_max": ordered[-1]
        }


class LongSession(Session):
    """An ended run with long logs is opened and read to its ends."""

    async def _drive(self) -> None:
        began = time.monotonic()
        screen = await self._opened()
        held, used = resident(), resource.getrusage(resource.RUSAGE_SELF)
        beside = asyncio.create_task(self._probe())
        buffers = screen.feed.buffers
        shown = [buffers[pane.rank] for pane in screen.panes.grid.log_panes if pane.rank is not None]
        visible = await self._until(lambda: all(b.size and not b.behind for b in shown), began)
        all_read = await self._until(
            lambda: all(b.size and not b.behind for b in buffers.values()) and bool(screen.feed.merged.members), began
        )
        await asyncio.sleep(5.0)  # the merged log reads on
        beside.cancel()
        spent = resource.getrusage(resource.RUSAGE_SELF)
        found = {
            "visible": visible, "all": all_read, "grown": (resident() - held) / 1e6, "keys": self.keys,
            "cpu": spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime,
            "lines": sum(b.count for b in buffers.values()), "merged": screen.feed.merged.members, **self._lags(),
        }  # fmt: skip
        (self.folder / "done.json").write_text(json.dumps(found))

    async def _until(self, true: Callable[[], bool], began: float) -> float:
        while not true() and time.monotonic() - began < PATIENCE_S:  # noqa: ASYNC110 - the app tells nobody
            await asyncio.sleep(0.02)
        return time.monotonic() - began


def write_long(log: Path) -> None:
    """A log of a million lines, said in a quarter of an hour."""
    from distui.runs.lines.times import pack, times_of

    with log.open("wb") as file, times_of(log).open("wb") as times:
        for start in range(0, LONG, 10_000):
            file.write(b"".join(LINE % i for i in range(start, start + 10_000)))
            times.write(pack([1.7e9 + i / RATE for i in range(start, start + 10_000)]))


def _write_all(logs: Sequence[Path]) -> None:
    """The same million lines for every rank, each in a file of its own."""
    from distui.runs.lines.times import times_of

    write_long(logs[0])
    for log in logs[1:]:
        shutil.copyfile(logs[0], log)
        shutil.copyfile(times_of(logs[0]), times_of(log))


def _shown(screen: RunScreen) -> dict[str, int]:
    panes = screen.panes.grid.log_panes
    logs = [screen.feed.buffers[pane.rank].path for pane in panes if pane.rank is not None]
    written = sum(log.read_bytes().count(b"\n") for log in logs)
    return {"written": written, "shown": sum(pane.rows for pane in panes), "panes": len(panes)}


def _followed(folder: Path, ranks: int) -> Any:
    sys.path[:0] = [str(REPO / "tests" / "screens")]
    from fakes import FakeBackend, launching  # type: ignore[import-not-found,unused-ignore]

    hosts = tuple(f"n{i:02d}" for i in range(-(-ranks // 8)))
    backend = FakeBackend(folder, hosts=())
    backend.hosts, backend.answers = (), {}
    base = FakeBackend(folder / "plan").plan(hosts=("node01",))
    tasks = [
        dataclasses.replace(base.tasks[rank % len(base.tasks)], index=rank, ranks=(rank,), host=hosts[rank // 8])
        for rank in range(ranks)
    ]
    live = backend.follow(dataclasses.replace(base, tasks=tuple(tasks), networks=()))
    live.fan.put(launching(live.plan, time.time()))
    live.backend = backend
    return live


def _app(session: Session) -> DistuiApp:
    from textual.events import Key

    from distui.tui.app import DistuiApp

    class Measured(DistuiApp):
        """The app, with a clock at its keys."""

        def on_key(self, event: Key) -> None:
            if event.key == "y":
                session.keys.append(time.monotonic())

    return Measured(session.live.backend, start=session.live)


def _long(folder: Path, ranks: int) -> LongSession:
    from distui.runs.lines.events import RunEnded

    session = LongSession(folder, 0.0, ranks)
    stored = session.live.stored
    stored.log_dir.mkdir(parents=True, exist_ok=True)
    _write_all([stored.rank_log(rank) for rank in range(ranks)])
    session.live.fan.put([RunEnded(time.time(), "succeeded", 0, log_dir=str(stored.log_dir))])
    return session


def main() -> None:
    """See the module."""
    if sys.argv[1] == "--write":
        run = next((Path(sys.argv[2]) / "state" / "runs").iterdir()) / "logs"
        run.mkdir(parents=True, exist_ok=True)
        write_logs([run / f"rank-{rank:05d}.log" for rank in range(VISIBLE + HIDDEN)], float(sys.argv[3]))
        return
    with contextlib.suppress(PermissionError):
        os.nice(-15)  # neighbours on this machine are not what is measured
    folder = Path(sys.argv[2 if sys.argv[1] == "--long" else 1])
    try:
        began = time.monotonic()
        import distui.tui.app
        import distui.tui.run.screen  # noqa: F401 - what a person waits for before the first paint

        imported = time.monotonic() - began
        session = _long(folder, int(sys.argv[3])) if sys.argv[1] == "--long" else Session(folder, float(sys.argv[2]))
        (folder / "begun").write_text(str(time.monotonic() - imported))
        asyncio.run(session.run())
    except BaseException:
        (folder / "error.txt").write_text(traceback.format_exc())
        raise


if __name__ == "__main__":
    main()
