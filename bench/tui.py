"""The run view under load, under a real pty: lag of the event loop, keys, CPU, first paint, slow terminals, long logs.

A second process writes the log files of 80 ranks, 1,000 lines a second each; the app follows them as it follows a
run. 16 panes are visible, 64 streams are not. Beside each figure stands its target (docs/benchmarks.md).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import first_paint, hosts_screen, terminal
from bench.measure import REPO, Failed, machine_busy
from bench.report import limit, note, title
from bench.terminal import Reading
from bench.tui_app import LONG, RATE, VISIBLE, write_long

BUFFERS = 32
SLOW = 20_000
"""Bytes a second of a slow terminal: 200 kbit/s."""
STALL_S = 10.0


def measure(*, quick: bool) -> None:
    """Print what the run view costs."""
    seconds = 8.0 if quick else 20.0
    first_paint.measure(quick=quick)
    cached = _fast(seconds)
    title(f"tui: the same on a terminal that reads {SLOW / 1000:g} kB/s")
    _slow(seconds, Reading(rate=SLOW), cached)
    title(f"tui: the same on a terminal that reads nothing for {STALL_S:g} s")
    _slow(STALL_S + 8, Reading(stall=4, stall_end=4 + STALL_S), cached)
    _long(4 if quick else BUFFERS)
    title("tui: the hosts screen, 256 hosts with 8 GPUs at 1 Hz")
    _hosts(8.0 if quick else 20.0)
    title("tui: search of a million lines")
    with tempfile.TemporaryDirectory(prefix="distui-bench-") as folder:
        search(Path(folder) / "rank-00000.log")


def _fast(seconds: float) -> float:
    """Print it; the megabytes its caches of lines took."""
    title("tui: the run view, 16 visible panes at 1,000 lines/s each and 64 hidden streams")
    found = under_pty(seconds, Reading())
    limit("first paint", found["first_paint"] * 1000, "ms with imports", 500)
    limit("event loop lag, p99", found["lag_p99"], "ms", 50)
    print(f"  lag p50 {found['lag_p50']:.1f} ms, p95 {found['lag_p95']:.1f} ms, worst {found['lag_max']:.0f} ms")
    limit("key to handler, p95", found["key_p95"], "ms", 50)
    limit("CPU of the app", found["cpu"], "% of a core", 80)
    behind = (found["written"] - found["shown"]) / VISIBLE / RATE
    print(f"  lines shown {found['shown']:,} of {found['written']:,}, {behind:.2f} s behind")
    note(f"{found['output'] / seconds / 1000:.0f} kB/s to the terminal; lines are written by a process of their own")
    note(f"the machine was {100 * found['busy']:.0f} % busy meanwhile, this measure included")
    return float(found["grown"])


def _slow(seconds: float, reading: Reading, cached: float) -> None:
    found = under_pty(seconds, reading)
    limit("event loop lag, p99", found["lag_p99"], "ms", 50)
    limit("key to handler, p95", found["key_p95"], "ms", 50)
    limit("memory grown", found["grown"], "MB (the target is what lines on a fast terminal take)", round(cached + 5))
    behind = found["written"] / found["panes"] / RATE - found["newest"] / RATE
    limit("what is shown is late", behind, "s", 8)


def _long(ranks: int) -> None:
    title(f"tui: an ended run is opened, a million lines in each of {ranks} ranks ({ranks * 0.117:.1f} GB)")
    found = under_pty(240.0, Reading(), "--long", str(ranks))
    print(f"  visible panes complete after {found['visible']:.1f} s, all ranks after {found['all']:.1f} s,", end=" ")
    print(f"{found['cpu']:.1f} s of CPU; {found['lines']:,} lines, {found['merged']:,} merged")
    limit("memory a rank", found["grown"] / ranks, "MB", 10)
    limit("event loop lag, p99", found["lag_p99"], "ms", 50)
    note(f"the machine was {100 * found['busy']:.0f} % busy meanwhile, this measure included")


def _hosts(seconds: float) -> None:
    found = hosts_screen.measure(256, seconds)
    limit("CPU of the app", found["cpu_pct"], "% of a core", 15)
    limit("event loop lag, p99", found["lag_ms"][1], "ms", 50)
    limit("first paint", found["first_paint_s"] * 1000, "ms with imports", 500)
    note(f"{found['rate'] / 1000:.0f} kB/s to the terminal; {found['rss_mb']:.0f} MB")


# Under a pty.


def under_pty(seconds: float, reading: Reading, *mode: str) -> dict[str, Any]:
    """Run the app in a terminal of its own, press a key ten times a second, read what it draws."""
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(REPO)}
    with tempfile.TemporaryDirectory(prefix="distui-bench-") as name:
        folder = Path(name)
        more = (mode[0], name, *mode[1:]) if mode else (name, str(seconds))
        argv = (sys.executable, "-m", "bench.tui_app", *more)
        with machine_busy() as busy:
            shown = terminal.run(argv, env, seconds + 60, painted=b"Runs", key=b"y", reading=reading)
        if not (folder / "done.json").exists():
            error = folder / "error.txt"
            raise Failed(f"the app did not end well: {error.read_text()[-800:] if error.exists() else 'killed'}")
        found: dict[str, Any] = json.loads((folder / "done.json").read_text())
        begun = float((folder / "begun").read_text())
    late = sorted(1000 * (there - sent) for sent, there in zip(shown.keys, found.pop("keys"), strict=False))
    newest = max((int(n) for n in re.findall(rb"step (\d{6})", shown.tail)), default=0)
    key_p95 = late[int(len(late) * 0.95) - 1] if late else float("inf")
    return found | {
        "first_paint": shown.first - begun, "output": shown.output, "key_p95": key_p95, "newest": newest,
        "busy": busy.share,
    }  # fmt: skip


def search(path: Path) -> None:
    """How long the index of one log takes, and to look through all of it."""
    from distui.tui.logs.buffer import LogBuffer
    from distui.tui.logs.search import find, pattern_of

    write_long(path)
    buffer, stall, more, began = LogBuffer(path, 0), 0.0, True, time.monotonic()
    while more:
        at = time.monotonic()
        more = buffer.grow()
        stall = max(stall, time.monotonic() - at)
    took = time.monotonic() - began
    print(f"  index {took * 1000:.0f} ms in slices, longest slice {stall * 1000:.1f} ms")
    for words, text in (("literal", "step 999999"), ("regex", r"step 9{6}\b")):
        began = time.monotonic()
        assert asyncio.run(find(buffer, pattern_of(text), -1, 1)) == LONG - 1
        print(f"  search of {path.stat().st_size / 1e6:.0f} MB, {words}: {(time.monotonic() - began) * 1000:.0f} ms")
