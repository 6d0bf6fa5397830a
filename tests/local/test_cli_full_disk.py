"""stdout on a full disk (`> FILE`): what is lost is said once, and never taken for a success or a bug in distui."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.errors import OutputFailed
from distui.runs.lines.events import RankChanged, RunEnded, RunOpened
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore

LOST = "distui: can't write the output: No space left on device"

Full = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def full(home: Path, monkeypatch: pytest.MonkeyPatch) -> Full:
    """Calls distui with a stdout whose disk is full; its exit code, and the lines of its stderr."""
    from distui.cli.main import main

    def call(*words: str) -> tuple[int, list[str]]:
        # What distui has not given up by its end would make Python's exit fail: closing it here does.
        with open("/dev/full", "w", buffering=1024) as stdout, monkeypatch.context() as patch:  # noqa: PTH123
            stderr = io.StringIO()
            patch.setattr(sys, "stdout", stdout)
            patch.setattr(sys, "stderr", stderr)
            code = main(words)
        return code, stderr.getvalue().splitlines()

    return call


@pytest.fixture
def recorded(home: Path) -> None:
    """An inventory, a job and an ended run."""
    stored = RunStore(home / ".local/state/distui").create("r1")
    stored.rank_log(0).write_text("said\n")
    journal = Journal(stored)
    journal.write(
        [RunOpened(1.0, "r1", "j", "env", None, {0: "n1"}, {0: (0,)}), RankChanged(2.0, 0, "n1", "exited", 0)]
    )
    journal.write([RunEnded(9.0, "succeeded", 0, took=8.0)])
    journal.close()
    Path("hosts.yaml").write_text("version: 1\nhosts: {n1: {}}\n")
    Path("job.yaml").write_text("version: 1\nname: j\nimage: busybox\nhosts: n1\nranks: {per_host: 1}\ncommand: [a]\n")


PRINTS = [
    "ps -a", "ps -a -o json", "ps -a -o ndjson", "ps -a -q", "show r1", "show r1 -o json", "logs r1", "logs r1 --merge",
    "logs r1 -f", "hosts ls", "hosts ls -o json", "hosts show n1", "hosts export hostfile", "job ls",
    "job show job.yaml", "job new", "job validate job.yaml -o json", "schema hosts", "config show", "config path",
    "config allowed", "completion bash", "version", "version -o json", "probe", "probe -o json", "probe -o ndjson",
    "top --once", "doctor -o json", "help run", "--help", "run --help", "--version", "logs -h", "image ls busybox",
]  # fmt: skip
"""Calls that print, of every way to print."""


@pytest.mark.parametrize("words", PRINTS)
def test_what_is_lost_is_no_success(
    full: Full, recorded: None, fake_hosts: Callable[..., object], words: str, home: Path
) -> None:
    """Exit 2 and one sentence; it was exit 0 without a word (`logs`), or a crash file and 70."""
    fake_hosts()
    code, said = full(*words.split())
    assert (code, [line for line in said if "write" in line]) == (2, [LOST]), said
    assert not list(home.rglob("crash*"))


@pytest.mark.parametrize(("script", "code"), [("echo hello", 0), ("echo hello; exit 3", 1)])
@pytest.mark.parametrize("form", ["table", "json", "ndjson"])
def test_a_run_ends_as_it_ended(full: Full, demo_home: Path, form: str, script: str, code: int) -> None:
    """Its exit code is the run's own, with one line about what is lost; so it is for who only reads its end."""
    where = str(demo_home / ".local/state/distui/runs/r/")
    words = ("--name", "r", "-H", "demo1", "-o", form, "-y", "--", "sh", "-c", script)
    ended, said = full("run", "--headless", *words)
    assert ended == code, said
    (lost,) = [line for line in said if "No space left on device" in line]
    assert where in lost
    if form == "json":
        for verb in ("attach", "wait"):
            ended, said = full(verb, "r", "-o", form)
            assert (ended, said.count(LOST)) == (code, 1), said


def test_the_name_of_a_detached_run_is_said(full: Full, demo_home: Path) -> None:
    """It runs: without its name nobody finds it."""
    code, said = full("run", "-d", "--name", "far", "-H", "demo1", "-y", "--", "true")
    assert (code, f"{LOST}; the run is far" in said) == (0, True), said
    assert full("wait", "far")[0] == 0


def test_a_result_of_a_run_that_could_not_be_started(full: Full, home: Path) -> None:
    """The reason and the loss, once each; the exit code is the reason's."""
    for form in ("json", "ndjson"):
        code, said = full("run", "none.yaml", "-o", form, "--headless")
        assert (code, said.count(LOST), len([s for s in said if "none.yaml" in s])) == (2, 1, 1), said


def test_a_result_that_nobody_reads_is_no_success(demo_home: Path) -> None:
    """`run -o json | true`: a run that failed failed."""
    from distui.cli.main import main

    reading, writing = os.pipe()
    os.close(reading)
    with pytest.MonkeyPatch.context() as patch, os.fdopen(writing, "w") as stdout:
        patch.setattr(sys, "stdout", stdout)
        words = ("--name", "r", "-H", "demo1", "-y", "-o", "json", "--", "sh", "-c", "exit 3")
        assert main(("run", "--headless", *words)) == 1


def test_a_full_disk_behind_stderr_changes_no_exit_code(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`2> FILE`: what is said there is lost, and nothing else; Python's own end made it exit 120."""
    from distui.cli.main import main

    for words, code in ((("show", "none"), 7), (("job", "new"), 0), (("job", "new", "x.yaml"), 0)):
        with open("/dev/full", "w", buffering=1) as stderr, monkeypatch.context() as patch:  # noqa: PTH123
            patch.setattr(sys, "stderr", stderr)
            assert main(words) == code, words


class Says:
    """A session whose every command says a line and ends with 3, or says no more and never ends."""

    host = "n1"

    def __init__(self) -> None:
        self.left = [b"said\n"]

    async def open(self, argv: object, **_: object) -> Says:
        return self

    async def read(self, _: int) -> bytes:
        return self.left.pop() if self.left else b""

    async def write_eof(self) -> None:
        return

    async def wait(self) -> int:
        return 3

    async def close(self) -> None:
        return


async def test_what_a_command_in_a_container_said(home: Path) -> None:
    """`exec`: its status says nothing of what is lost."""
    from distui.cli.runs.streams import pass_through

    with open("/dev/full", "wb") as stdout, pytest.raises(OutputFailed):  # noqa: PTH123, ASYNC230
        await pass_through(Says(), ("true",), stdin=None, stdout=stdout.fileno(), stderr=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["/dev/full", ""])
async def test_logs_that_are_followed_on_hosts_end(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """With a full disk, or a reader that left, there is nothing to follow them for; the run may last for days."""
    from distui.cli.printing.loglines import log_out
    from distui.cli.printing.printer import LogView
    from distui.cluster.logs import from_hosts
    from distui.cluster.logs.wanted import Wanted
    from distui.runs.lines.events import LogLine

    class Viewer:
        def __init__(self, host: object, live: object, out: Any, console: object) -> None:
            self.out = out
            self.misses = False

        async def run(self) -> None:
            await self.out.lines(0, "n1", [LogLine("stdout", "said")])
            await asyncio.Event().wait()

    monkeypatch.setattr(from_hosts, "_Viewer", Viewer)
    monkeypatch.setattr(from_hosts, "HostRun", lambda *_: None)
    live: Any = SimpleNamespace(plan=SimpleNamespace(hosts=["n1"], tasks=[], rank_names={}), unreachable={})
    if place:
        fd = os.open(place, os.O_WRONLY)
    else:
        reading, fd = os.pipe()
        os.close(reading)
    try:
        out = log_out(fd, LogView(), Wanted(), colour=False)
        async with asyncio.timeout(60):
            await from_hosts.follow(None, live, out, None)  # type: ignore[arg-type]
        assert (out.closed, out.outlet.lost is not None) == (True, bool(place))
    finally:
        os.close(fd)
