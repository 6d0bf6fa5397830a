"""A run of 64 ranks that print little: what its follower takes, what the app takes, and their helper on a host."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from bench import terminal
from bench.cluster import NAME, Cluster
from bench.measure import command, machine_busy
from bench.processes import HELPER, AtRest, of_lab, watched
from bench.report import limit, note, title

RUN, RANKS_PER_HOST, EVERY_S = "rest", 32, 10
SETTLE_S = 15.0
"""Seconds from the start of a process to its measure: connections and the first screens are not rest."""
JOB = f"""version: 1
name: rest
hosts: h[1-2]
image: lab/python:1
ranks: {{per_host: {RANKS_PER_HOST}}}
pull: never
command: [sh, -c, "n=0; while :; do echo step $n loss 0.5; n=$((n + 1)); sleep {EVERY_S}; done"]
progress: {{regex: 'step (?P<step>\\d+) loss (?P<loss>\\S+)'}}
stop_grace: 0s
"""
DISTUI = (sys.executable, "-m", "distui.cli.main")


def measure(cluster: Cluster, *, quick: bool) -> None:
    """The follower first, then the app over the same run, each for 30 s and more."""
    title(f"rest: {2 * RANKS_PER_HOST} ranks that print a line every {EVERY_S} s, and are looked at once a second")
    seconds = 30.0 if quick else 90.0
    with _run(cluster):
        for name, percent, take in (("follower", 2.0, _follower), ("app", 10.0, _app)):
            with machine_busy() as busy:
                own, helpers = take(cluster, seconds)
            limit(f"{name}, of a core", own.percent, "%", percent)
            limit(f"{name}, memory", own.megabytes, "MB", 80.0) if name == "follower" else note(
                f"the app's memory: {own.megabytes:.0f} MB, of which Textual and what it imports are most"
            )
            limit(f"helper with the {name}", max(h.percent for h in helpers), "%", 0.5)
            limit(f"helper with the {name}", max(h.megabytes for h in helpers), "MB", 15.0)
            note(f"over {seconds:.0f} s; {busy}; nvidia-smi is a stand-in")


@contextmanager
def _run(cluster: Cluster) -> Iterator[None]:
    """The run, detached."""
    home = cluster.home
    (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
    (home / "rest.yaml").write_text(JOB)
    start = (*DISTUI, "run", "rest.yaml", "--headless", "-d", "-y", "--name", RUN)
    command(start, env=cluster.env, cwd=home, expect=RUN)
    try:
        yield
    finally:
        command((*DISTUI, "stop", RUN, "-y"), env=cluster.env, cwd=home)


def _follower(cluster: Cluster, seconds: float) -> tuple[AtRest, list[AtRest]]:
    """`distui attach --headless`. It is killed at the end, and the run goes on."""
    null = subprocess.DEVNULL
    argv = (*DISTUI, "attach", RUN, "--headless")
    program = subprocess.Popen(argv, env=cluster.env, cwd=cluster.home, stdin=null, stdout=null, stderr=null)
    try:
        return _rest(program.pid, seconds)
    finally:
        program.kill()
        program.wait()


def _app(cluster: Cluster, seconds: float) -> tuple[AtRest, list[AtRest]]:
    """`distui attach` in a terminal that is read as fast as it goes."""
    found: Future[tuple[AtRest, list[AtRest]]] = Future()

    def begun(pid: int) -> None:
        threading.Thread(target=_put, args=(found, pid, seconds)).start()

    env = cluster.env | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    shown = terminal.run(
        (*DISTUI, "attach", RUN), env, SETTLE_S + seconds + 3, painted=b"rest", begun=begun, cwd=cluster.home
    )
    note(f"the app's terminal got {shown.output / 1000:.0f} kB, its first screens included")
    return found.result(30)


def _put(found: Future[tuple[AtRest, list[AtRest]]], pid: int, seconds: float) -> None:
    try:
        found.set_result(_rest(pid, seconds))
    except Exception as error:
        found.set_exception(error)


def _rest(pid: int, seconds: float) -> tuple[AtRest, list[AtRest]]:
    """The process, and the helpers that it has on hosts by then."""
    time.sleep(SETTLE_S)
    own, *helpers = watched([pid, *of_lab(NAME, HELPER)], seconds)
    return own, helpers
