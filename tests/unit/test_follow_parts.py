"""Figures, podman's log, inspect and the helper's frames: text and bytes in, values out."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distui.agent import bundle as helper
from distui.agent.helper.files import Wait
from distui.agent.helper.wire import GREETING
from distui.errors import SessionLost
from distui.runs.follow.feed import EngineAccess, Stream
from distui.runs.follow.files import process_exit
from distui.runs.follow.follower import HostFollower
from distui.runs.follow.helper import HelperFeed, HelperStream
from distui.runs.follow.inspect import container_state
from distui.runs.lines.cri import CriParser
from distui.runs.lines.frames import Frame, FrameReader, NoHelper
from distui.runs.state.samples import Sampler
from distui.whole import whole


def frame(ident: int, kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">IHcx", len(payload), ident, kind) + payload


@example(GREETING + b"\n", [(7, b"x")], 1)
@example(GREETING + b"0000\n" + GREETING, [(7, b"x")], 3)
@given(st.binary(max_size=40), st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=30))), st.integers(1, 50))
def test_frames_follow_the_greeting_whatever_a_login_shell_printed(
    noise: bytes, payloads: list[tuple[int, bytes]], size: int
) -> None:
    """Cut anywhere, behind any noise, that of another helper's greeting too."""
    data = noise + GREETING + b"5e1f\n" + b"".join(frame(ident, b"D", payload) for ident, payload in payloads)
    reader = FrameReader("5e1f")
    got = [f for start in range(0, len(data), size) for f in reader.feed(data[start : start + size])]
    assert got == [Frame(ident, b"D", payload) for ident, payload in payloads]


def test_a_login_that_only_prints_is_no_helper() -> None:
    """Memory stays bounded."""
    reader = FrameReader("5e1f")
    with pytest.raises(NoHelper):
        for _ in range(40):
            list(reader.feed(b"y\n" * 20_000))


def test_a_frame_beyond_what_a_helper_sends_is_refused() -> None:
    """At its head: it would be waited for, and what has come of it copied with each read."""
    reader = FrameReader("5e1f")
    with pytest.raises(NoHelper):
        list(reader.feed(GREETING + b"5e1f\n" + struct.pack(">IHcx", 5 << 20, 1, b"D")))


def test_the_start_is_words_every_shell_reads_alike() -> None:
    """No backslash, `!` or newline; the number of bytes is exact."""
    argv = helper.start("5e1f")
    assert not set('\\!\n$`"') & set("".join(argv))
    assert argv[-2].endswith(f"({len(helper.program())}))")


def hello(**changes: Any) -> dict[str, Any]:
    base = {
        "wall": 1000.0,
        "boot": 50.0,
        "cpu": [100, 200],
        "load": "0.58",
        "memory": ["1048576", "524288"],
        "net": {"eth0": [1000, 2000]},
        "ib": {"mlx5_0:1": ["10", "20"], "mlx5_1:1": ["", ""]},
        "amd": [],
        "disks": {"/": [5, 10], "/gone": []},
        "gpus": {"fields": [], "rows": [], "error": "", "pcie": {}, "xid": None},
    }
    return {**base, **changes}


def test_rates_are_per_second_of_the_boot_clock_and_unknown_at_first() -> None:
    """A wall clock that jumps makes no traffic."""
    sampler = Sampler()
    first = sampler.take(hello())
    assert (first.net["eth0"].rx_rate, first.cpu_pct) == (None, None)
    later = hello(wall=0.0, boot=52.0, cpu=[150, 300], net={"eth0": [3000, 2000]}, ib={"mlx5_0:1": ["110", "20"]})
    second = sampler.take(later)
    assert (second.net["eth0"].rx_rate, second.net["eth0"].tx_rate, second.cpu_pct) == (1000.0, 0.0, 50.0)
    assert (second.ib["mlx5_0:1"].rx_bytes, second.ib["mlx5_0:1"].rx_rate) == (440, 200.0)
    assert (first.memory_total_mib, first.memory_available_mib, dict(first.disks)) == (1024, 512, {"/": (5, 10)})
    assert "mlx5_1:1" not in first.ib


def test_counters_that_fell_give_no_rate() -> None:
    """The interface was made again, or the host booted."""
    sampler = Sampler()
    sampler.take(hello())
    assert sampler.take(hello(boot=51.0, net={"eth0": [5, 5]})).net["eth0"].rx_rate is None


def test_amd_gpus_come_from_the_kernel_in_its_units() -> None:
    """Bytes, thousandths of a degree, millionths of a watt; a missing file is unknown."""
    sample = Sampler().take(hello(amd=[["12", "1073741824", "17163091968", "41000", ""]]))
    gpu = sample.gpus[0]
    assert (gpu.utilization_pct, gpu.memory_used_mib, gpu.temperature_c, gpu.power_w) == (12.0, 1024, 41.0, None)


POD = (
    b"2026-11-21T03:00:00.1+00:00 stdout F one\n"
    b"2026-11-21T03:00:00.2+00:00 stderr P two and\n"
    b"2026-11-21T03:00:00.3+00:00 stderr F  more\n"
    b"garbage\n"
    b"2026-11-21T03:00:00.4+00:00 stdout F \n"
)


@given(st.integers(1, 120))
def test_podman_s_lines_may_be_cut_anywhere_and_are_counted_whole(size: int) -> None:
    """P goes on without a newline; the offset never points into a line."""
    parser = CriParser()
    parts = [parser.feed(POD[start : start + size]) for start in range(0, len(POD), size)]
    found = [piece for p in parts for piece in zip(p.batch.streams, p.batch.pieces, strict=True)]
    assert found == [(1, b"one\n"), (2, b"two and"), (2, b" more\n"), (1, b"\n")]
    assert (sum(p.size for p in parts), sum(p.bad for p in parts)) == (len(POD), 1)


def inspected(**state: Any) -> dict[str, Any]:
    base = {"Status": "exited", "Running": False, "ExitCode": 3, "StartedAt": "2026-11-21T02:07:54.5Z"}
    return {"State": {**base, "FinishedAt": "0001-01-01T00:00:00Z", **state}}


@pytest.mark.parametrize(
    ("state", "begun", "ended"),
    [
        ({}, True, True),
        ({"Status": "running", "Running": True, "ExitCode": 0}, True, False),
        ({"Status": "paused", "Running": True}, True, False),
        ({"Status": "restarting", "Running": True}, True, False),
        ({"Status": "created", "ExitCode": 0}, False, False),
        ({"Status": "created", "ExitCode": 127, "Error": "no such file"}, True, True),
        ({"Status": "dead"}, True, True),
    ],
)
def test_what_has_begun_and_what_has_ended(state: dict[str, Any], begun: bool, ended: bool) -> None:
    """`created` with an error was never startable; without one it only waits."""
    told_state = container_state(inspected(**state))
    assert (told_state.begun, told_state.ended) == (begun, ended)


def test_the_exit_says_code_times_and_memory() -> None:
    """The engines' year 1 is no time."""
    exited = container_state(inspected(OOMKilled=True, ExitCode=137)).exited(4)
    assert (exited.task, exited.code, exited.oom, exited.state) == (4, 137, True, "exited")
    assert (exited.started_at, exited.finished_at) == (1795226874.5, None)


@pytest.mark.parametrize(
    ("driver", "options", "said"),
    [
        ("json-file", {"max-size": "1000g", "max-file": "1", "mode": "blocking"}, ""),
        ("json-file", None, ""),
        ("json-file", {"max-size": "10m"}, "rotated at 10m"),
        ("json-file", {"mode": "non-blocking"}, "drops lines"),
        ("local", {}, "rotated"),
        ("journald", {}, "journal"),
        ("none", {}, ""),
    ],
)
def test_a_log_that_may_have_gaps_is_known_by_its_driver(
    driver: str, options: dict[str, str] | None, said: str
) -> None:
    """An admin's settings show in inspect; a driver that can't be read at all says so when it is asked."""
    hello = inspected() | {"HostConfig": {"LogConfig": {"Type": driver, "Config": options}}}
    words = container_state(hello).log_gaps
    assert said in words
    assert bool(words) == bool(said)


@pytest.mark.parametrize("text", ["", "1", "x 2", "1 2 3 4", "0 soon", "--5 1", "0 ²", "0 " + "9" * 400])
def test_an_exit_file_that_makes_no_sense_is_no_exit_code(text: str) -> None:
    """Unknown, never 0."""
    exited = process_exit(0, text)
    assert (exited.code, exited.state) == (None, "lost")


def test_an_exit_file_gives_code_and_time() -> None:
    """Written by the supervisor as `code finished_ns started_ns`, by older ones without the last."""
    exited = process_exit(0, "137 1795226874473189101 1795226800000000000\n")
    assert (exited.code, exited.finished_at, exited.started_at) == (137, 1795226874.473189101, 1795226800.0)
    assert process_exit(0, "137 1795226874473189101\n").started_at is None


@pytest.mark.parametrize("odd", [{"wall": float("nan")}, {"wall": 1e18}, {"wall": "1"}, {"boot": float("inf")}])
async def test_a_clock_that_goes_as_none_does_is_not_believed(odd: dict[str, Any]) -> None:
    """What says so is no helper of ours (`_UNREADABLE`)."""
    follower = HostFollower(cast("Any", None), EngineAccess("process", ()), cast("Any", None), run_id="")
    follower._hello({"boot_id": "b", "wall": 1000.0, "boot": 5.0})
    with pytest.raises(ValueError, match="no clock"):
        follower._hello({"boot_id": "b", "wall": 1000.0, "boot": 5.0} | odd)


def test_engine_access_is_docker_s_usual_one_by_default() -> None:
    """Only the kind must be said."""
    assert json.dumps(EngineAccess("docker").command) == '["docker"]'


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task's folder as the process engine leaves it, whose program is this process."""
    start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    (tmp_path / "ident").write_text(f"{start} {Path('/proc/sys/kernel/random/boot_id').read_text()}")
    return tmp_path


def waited(folder: Path) -> list[Any]:
    """What the helper says at once, and ten seconds later."""
    wait = Wait(str(folder / "exit"))
    return [wait.step(1.0), wait.step(11.0)]


def test_file_times_do_not_end_a_program(task: Path) -> None:
    """A touched pid file, or a clock that jumped, says nothing about who has the pid."""
    os.utime(task / "pid", (60, 60))
    assert waited(task) == [0, 0]


@pytest.mark.parametrize("ident", ["1 {boot}", "{start} 00000000-0000-0000-0000-000000000000", "", "{start}"])
def test_a_pid_of_another_start_or_boot_is_lost(task: Path, ident: str) -> None:
    """It is somebody else's process by now."""
    start, boot = (task / "ident").read_text().split()
    (task / "ident").write_text(ident.format(start=start, boot=boot))
    assert waited(task) == [0, {"lost": True}]


def test_a_supervisor_about_to_write_the_exit_is_waited_for(task: Path) -> None:
    """Its command line holds the folder; any other process of that pid does not."""
    (task / "pid").write_text("0\n")
    script = "echo up; read line; :"
    with subprocess.Popen(("sh", "-c", script, "sh", str(task)), stdin=PIPE, stdout=PIPE) as keeper:
        assert keeper.stdout is not None and keeper.stdout.readline()
        (task / "keeper").write_text(f"{keeper.pid}\n")
        assert waited(task) == [0, 0]
        keeper.communicate(b"\n")
    assert waited(task) == [0, {"lost": True}]
    (task / "keeper").write_text(f"{os.getpid()}\n")
    assert waited(task) == [0, {"lost": True}]


@pytest.mark.parametrize(
    ("said", "number"),
    [("137", 137), (0, 0), ("²", None), ("-1", None), (True, None), (None, None), ([1], None), (10**400, None)],
)
def test_a_whole_number_is_plain_digits(said: object, number: int | None) -> None:
    """What Python calls a digit is not always a number to it, and a number not always one that fits."""
    assert whole(str(said), 20) == number


async def test_an_end_that_says_nothing_readable_is_an_end() -> None:
    """Any JSON may stand there."""
    feed = HelperFeed(None, "word", None, None)  # type: ignore[arg-type]
    stream = HelperStream(feed, 1)
    feed._give(stream, Frame(1, b"E", b"[1]"))
    assert stream.ended == {}


async def test_an_id_of_the_helper_is_a_number_of_16_bits_that_nobody_has() -> None:
    """And none is given again before all others were; 0 is the helper itself."""
    feed = HelperFeed(SimpleNamespace(), "word", None, None)  # type: ignore[arg-type]
    first = [feed._next_ident() for _ in range(65535)]
    assert sorted(first) == list(range(1, 65536))
    feed._streams = {first[0]: Stream(), first[1]: Stream()}
    assert feed._next_ident() == first[2]


async def test_a_helper_that_has_ended_costs_its_connection_nothing() -> None:
    """Who writes to it before its end was read broke off all commands on the host."""

    class Ended:
        async def write(self, data: bytes) -> None:
            raise SessionLost("h1", "it has ended", code="channel_ended")

        def stderr_tail(self) -> bytes:
            return b"Killed\n"

    feed = HelperFeed(Ended(), "word", None, None)  # type: ignore[arg-type]
    await feed.send({"op": "ping", "n": 1})
    assert repr(feed.lost.result()) == repr(ConnectionError("Killed"))
