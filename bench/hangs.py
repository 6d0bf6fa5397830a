"""How soon whoever follows a run names a rank that holds the others up: ten ways to hang, on three real hosts."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.cluster import Cluster
from bench.measure import Failed
from bench.report import limit, note, title
from lab import hangs  # type: ignore[import-not-found,unused-ignore]

STALL_AFTER_S, MORE_S = 10.0, 10.0
"""Of the job, and how much more naming may take."""
RANKS, LATEST_S, RUN = 4, 240.0, "stuck"


def measure(hosts: Cluster, *, quick: bool) -> None:
    """Each way once: seconds from its beginning to the event that names it, with what that says."""
    title(f"hangs: {RANKS} ranks on 2 hosts (gloo), `stall_after` {STALL_AFTER_S:g} s; seconds until it is named")
    for name in list(hangs.HANGS)[:2] if quick else hangs.HANGS:
        try:
            seconds, said = _named(hosts.lab, hangs.HANGS[name])
        except Failed as error:
            seconds, said = float("inf"), str(error)
        limit(name, seconds, "s", STALL_AFTER_S + MORE_S)
        print(f"    {said}", flush=True)
    note("a hang begins as the last rank has said its 20th step, or as the fault strikes; the event has its own time")


def _named(lab: Any, hang: Any) -> tuple[float, str]:
    """Seconds, and the headline or cause. Raises Failed."""
    lab.heal()
    (lab.share / "hang.py").write_text(hang.text)
    keys = {"version": 1, "name": "hang", "hosts": "h[1-2]", **hangs.job(stall_after=f"{STALL_AFTER_S:g}s")}
    with tempfile.TemporaryDirectory(prefix="distui-bench-home-") as folder:
        home = lab.ssh_home(Path(folder) / "home")
        (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-2]: {}\n")
        (home / "job.yaml").write_text(json.dumps(keys))
        with _followed(lab, home) as program:
            begun = _begin(program, hangs.LAST)
            begun = max(begun, time.time()) if hang.evidence else begun
            hang.begin(lab)
            try:
                return _said(program, hang, begun)
            finally:
                hang.end(lab)
                lab.distui("stop", RUN, "-y", home=home)


@contextmanager
def _followed(lab: Any, home: Path) -> Iterator[Any]:
    """A run with all that it says as events; whatever of it is left afterwards is removed."""
    argv = ("run", "job.yaml", "--headless", "-y", "-o", "ndjson", "--name", RUN)
    with lab.spawn_distui(*argv, home=home) as program:
        timer = threading.Timer(LATEST_S, program.kill)
        timer.start()
        threading.Thread(target=program.stderr.read, daemon=True).start()
        try:
            yield program
        finally:
            timer.cancel()
            program.kill()
    for host in lab.hosts:
        host.remove_leftovers()


def _begin(program: Any, last: str) -> float:
    """When the last rank had said its last line. Raises Failed."""
    left = RANKS
    for line in program.stdout:
        left -= last in line
        if not left:
            return _at(json.loads(line))
    raise Failed("the ranks never came so far")


def _said(program: Any, hang: Any, begun: float) -> tuple[float, str]:
    """The event that names it as it is. Raises Failed."""
    for line in program.stdout:
        event = json.loads(line)
        failure = event.get("first_failure") or {}
        said = str(failure.get("cause", "") if hang.ends else event.get("headline", ""))
        if all(words in said for words in (hang.said or hang.words)):
            return _at(event) - begun, said
    raise Failed("it was never named")


def _at(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(str(event["ts"])).timestamp()
