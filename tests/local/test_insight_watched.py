"""What a host tells after it has watched its ranks: a real answer, whatever else may come, and the asking itself."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.agent.ranks import connections as agent_connections
from distui.agent.ranks.watching import held_by_limit, of_main, short, since, waited_for_cpu
from distui.errors import SessionLost
from distui.facts.values import loads
from distui.runs.insight.asking import watching
from distui.runs.insight.asking.ask import unread
from distui.runs.insight.seen.answers import MOST_TEXT
from distui.runs.insight.seen.watched import MOST_CONNECTIONS, MOST_SAMPLES, Connection, watched
from distui.runs.task.host_access import HostAccess

REAL = {
    "seconds": 4.05,
    "pressure": {"cpu": 99.57, "io": 0.62, "memory": 0.0},
    "connections": [["10.77.0.11:41234", "10.77.0.12:38111", 2689212, 1567, 58, 0.482, 0, 480, 2.5e8]],
    "segments": 4100,
    "again": 58,
    "gpus": {
        "fields": ["index", "clocks.sm", "clocks_event_reasons.active"],
        "rows": ["0, 1980, 0x0000000000000000", "No devices were found"],
    },
    "tasks": [
        {
            "task": 2,
            "processes": [
                {
                    "pid": 7729, "parent": 6972, "name": "python", "state": "S", "cpu": 0.1, "read": 0, "written": 9,
                    "threads": [], "busy_with": None, "states": {"S hrtimer_nanosleep": 47, "R": 3, "D": -1},
                    "samples": [["S", "hrtimer_nanosleep", [["0x1", True, [["/work/a.py", 3, "<module>"]]]]]],
                    "seconds": 4.02, "delayed": 0.05, "held": None, "turns": 0.0,
                }
            ],
        }
    ],
    "at": 1795467539.1,
}  # fmt: skip


def test_a_real_answer() -> None:
    """Every part of it."""
    found = watched("h1", REAL)
    figures = found.figures[7729]
    assert found.answer.tasks[2][0].pid == 7729 and found.answer.pressure["cpu"] == 99.57
    assert (found.seconds, found.segments, found.again) == (4.05, 4100, 58)
    assert found.connections == (
        Connection("10.77.0.11:41234", "10.77.0.12:38111", 2689212, 1567, 58, 0.482, 0, 480, 2.5e8),
    )
    assert found.gpus == ({"index": "0", "clocks.sm": "1980", "clocks_event_reasons.active": "0x0000000000000000"},)
    assert figures.states == {"S hrtimer_nanosleep": 47, "R": 3}
    assert (figures.seconds, figures.delayed, figures.held, figures.turns) == (4.02, 0.05, None, 0)
    assert figures.samples[0].waits == "hrtimer_nanosleep" and figures.samples[0].stacks[0].frames[0].line == 3


NAMES = ["seconds", "connections", "segments", "gpus", "fields", "rows", "tasks", "task", "processes", "pid",
         "states", "samples", "delayed", "held", "turns", "pressure"]  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6))
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=8),
    max_leaves=40,
)
PROCESS = st.fixed_dictionaries(
    {"pid": st.integers(0, 9), "seconds": LEAVES}, optional=dict.fromkeys(["task", *NAMES[10:]], JSON)
)


@given(JSON, st.lists(PROCESS, max_size=3))
def test_any_json_is_an_answer(value: Any, processes: list[Any]) -> None:
    """What is none says nothing."""
    watched("h1", value)
    found = watched("h1", {"tasks": [{"task": 0, "processes": processes}], "connections": value, "gpus": value})
    assert all(figures.seconds > 0 for figures in found.figures.values())


def test_an_answer_is_bounded() -> None:
    """Texts, rows and stacks, whatever a host sends."""
    long = "x" * 10_000
    process = {"pid": 1, "seconds": 1, "states": {long: 5}, "samples": [["S", long, []]] * 1000}
    rows = [[long, long, 1, 1, 1, 1, 1, 1, 1]] * 5000
    found = watched("h1", {"tasks": [{"task": 0, "processes": [process]}], "connections": rows})
    assert len(found.connections) == MOST_CONNECTIONS and len(found.figures[1].samples) == MOST_SAMPLES
    assert max(len(name) for name in found.figures[1].states) <= MOST_TEXT
    assert len(found.connections[0].own) <= MOST_TEXT


# on the host

SS = """0      0               127.0.0.1:9          127.0.0.1:7
\t cubic rtt:0.02/0.01 bytes_sent:99 data_segs_out:3
0      1448      10.77.0.11%eth0:41234    10.77.0.12:38111
\t cubic wscale:7,7 rto:204 rtt:0.482/0.2 mss:1448 bytes_sent:2000 bytes_retrans:9 data_segs_out:12 retrans:1/4
0      0    [::ffff:10.77.0.11]:5      [::ffff:10.77.0.12]:6
\t rtt:3.5/1 bytes_sent:100 data_segs_out:2 retrans:0/3 dsack_dups:2 busy:100ms rwnd_limited:40ms delivery_rate 8000bps
0      0            [fe80::1]%eth0:5            [fe80::2]:6
\t cubic rtt:3.5/1
"""


def test_what_ss_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lines a connection; what goes to the host itself is left out; what the peer got twice was not lost."""
    monkeypatch.setattr(agent_connections, "output", lambda: SS)
    found = agent_connections.connections()
    first, second = ("10.77.0.11:41234", "10.77.0.12:38111"), ("10.77.0.11:5", "10.77.0.12:6")
    assert list(found) == [first, second, ("fe80::1:5", "fe80::2:6")]
    assert found[first] == {"queued": 1448, "rtt": 0.482, "bytes_sent": 2000, "data_segs_out": 12, "retrans": 4}
    before = {first: {"queued": 0, "bytes_sent": 500, "data_segs_out": 2, "retrans": 1}}
    assert agent_connections.grown(before, found) == [
        (*first, 1500, 10, 3, 0.482, 1448, 0, 0),
        (*second, 100, 2, 1, 3.5, 0, 60, 1000),
    ]


def test_a_host_without_ss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there are the kernel's own counters."""
    monkeypatch.setattr(agent_connections, "COMMAND", ("no-such-program",))
    assert agent_connections.connections() == {}
    assert set(agent_connections.host_counters()) == {"segments", "again"}


def test_what_the_kernel_counts_of_a_thread() -> None:
    """Of this process; nothing of one that is none."""
    assert (waited_for_cpu(f"/proc/{os.getpid()}/task/{os.getpid()}") or 0) >= 0
    assert waited_for_cpu("/proc/0/task/0") is None and held_by_limit(0) is None
    assert since(3.0, 1.0) == 2.0 and since(None, 1.0) is None and since(1.0, None) is None


def test_stacks_are_cut_in_the_middle() -> None:
    """The outermost call tells whose a stack is."""
    frames = [["/a.py", line, "f"] for line in range(99)] + [["/a.py", 1, "<module>"]]
    kept = short(["0x1", False, frames])[2]
    assert len(kept) == 41 and kept[-1][2] == "<module>"
    assert of_main(["0x1", True, []]) and of_main(["0x1", False, frames])
    assert not of_main(["0x1", False, frames[:5]]) and not of_main(["0x1", False, []])
    assert of_main(["0x1", False, [["<frozen runpy>", 198, "_run_module_as_main"]]])


class LocalChannel:
    """A program of this machine with its stdin and stdout."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def read(self, limit: int) -> bytes:
        """See ByteChannel."""
        assert self.process.stdout is not None
        return await self.process.stdout.read(limit)

    async def write(self, data: bytes) -> None:
        """See ByteChannel."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    async def wait(self) -> int:
        """See ByteChannel."""
        return await self.process.wait()

    def stderr_tail(self) -> bytes:
        """See ByteChannel."""
        stderr: Any = self.process.stderr
        return bytes(stderr._buffer)

    async def close(self) -> None:
        """See ByteChannel."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()  # wait() alone never ends where more has come than was read


class LocalHost:
    """As much of a host as is asked: its programs run here, under `wrong` instead when that is given."""

    host = "h1"

    def __init__(self, folder: Path, wrong: str = "", lost: bool = False) -> None:
        self.folder, self.wrong, self.lost = folder, wrong, lost
        self.link = self

    async def session(self, **_: Any) -> LocalHost:
        """The connection."""
        if self.lost:
            raise SessionLost("h1", "gone")
        return self

    async def open(self, argv: tuple[str, ...]) -> LocalChannel:
        """Start a program."""
        argv = (sys.executable, "-c", self.wrong) if self.wrong else argv
        pipe = asyncio.subprocess.PIPE
        return LocalChannel(await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe))


async def ask(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is told of a task in the host's folder."""

    async def request(access: Any, ids: Any, *, most: int, stacks: bool) -> dict[str, Any]:
        task = {"task": 3, "id": "", "folder": str(host.folder), "hook": str(host.folder)}
        return {"tasks": [task], "engine": [], "most": most, "stacks": stacks}

    monkeypatch.setattr(watching, "request", request)
    monkeypatch.setattr(watching, "SECONDS", 0.5)
    return (await watching.watch_hosts([cast(HostAccess, host)], {3: "x"}))["h1"]


async def test_a_process_of_this_machine(
    sleeper: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watched as over ssh, with a clock that is known well, since it is ours."""
    found = await ask(LocalHost(tmp_path), monkeypatch)
    (one,) = found.answer.tasks[3]
    assert one.pid == sleeper.pid and found.figures[one.pid].states.keys() <= {"S hrtimer_nanosleep", "S"}
    assert abs(found.answer.ahead) <= found.answer.doubt < 30


NO_PYTHON = "sh: 1: exec: python3: not found"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("print('hello')", "what host h1 answered can't be read"),
        ("print('DISTUI-INSIGHT:{}'); print('DISTUI-INSIGHT:no json')", "what host h1 answered can't be read"),
        ("while True: print('x' * 65536)", "what host h1 answered can't be read"),
        ("while True: print('DISTUI-INSIGHT:{\"at\": 1}')", "what host h1 answered can't be read"),
        (f"raise SystemExit({NO_PYTHON!r})", "host h1 has no python3, which would ask its ranks"),
        ("import time; time.sleep(60)", "host h1 did not answer within 1 s"),
    ],
    ids=["another program", "no JSON", "endless", "endless lines", "no python3", "silent"],
)
async def test_answers_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, words: str) -> None:
    """Bounded in bytes and time, and said."""
    monkeypatch.setattr(watching, "ANSWER_BYTES", 1 << 20)
    monkeypatch.setattr(watching, "LIMIT", 1.0 if "sleep" in wrong else 60.0)
    assert (await ask(LocalHost(tmp_path, wrong), monkeypatch)).answer.why_not == words


def test_the_same_where_ranks_are_asked_once() -> None:
    """In both places it is the host that lacks it, not its answer that is odd."""
    assert unread("h1", NO_PYTHON) == "host h1 has no python3, which would ask its ranks"
    assert unread("h1", "no answer") == "what host h1 answered can't be read"


async def test_a_host_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said, too."""
    found = await ask(LocalHost(tmp_path, lost=True), monkeypatch)
    assert found.answer.why_not == "host h1 can't be asked: gone"


def test_no_answer_can_be_written_that_json_has_not() -> None:
    """A clock that nobody has read is a number, too."""
    assert json.loads(json.dumps(watching.NOBODY_KNOWS)) == watching.NOBODY_KNOWS
    assert dataclasses.asdict(watched("h1", loads("{}")))["figures"] == {}
