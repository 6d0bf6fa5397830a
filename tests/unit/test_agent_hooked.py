"""What the asker on a host takes from programs: their stacks and collectives, and nothing that harms it."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.agent.ranks import hooked, insight, processes, watching
from distui.agent.ranks.processes import Look
from distui.agent.ranks.recorded import shorten
from distui.runs.insight.seen.answers import host_answer
from distui.runs.insight.seen.ranks import TaskRanks, ranks_of

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\n\r\nHandler not found"
PID = 4711

STACKS = """\
Thread 0x00007fd17d2766c0 (most recent call first):
  File "/work/prog.py", line 11 in spin
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007fd1a3488b80 (most recent call first):
  File "/site-packages/torch/distributed/distributed_c10d.py", line ??? in recv
  File "/work/a "b", line 3 in c.py", line 15 in <module>
"""


def entry(number: int, group: int = 0, **more: Any) -> dict[str, Any]:
    """A collective as torch 2.13 records it, over gloo."""
    name = ["0", "default_pg"] if group == 0 else ["1", "undefined"]
    return {
        "collective_seq_id": number, "input_dtypes": ["Float"], "input_sizes": [[10, 3]], "is_p2p": False,
        "op_id": number, "output_dtypes": ["Float"], "output_sizes": [[10, 3]], "p2p_seq_id": 0, "pg_id": group,
        "process_group": name, "profiling_name": "gloo:all_reduce", "record_id": number, "retired": True,
        "state": "scheduled", "thread_id": "140538364332928", "thread_name": "python",
        "time_created_ns": 1795457849498133633 + number, "time_discovered_completed_ns": 0,
        "time_discovered_started_ns": 0, "timeout_ms": 1800000, **more,
    }  # fmt: skip


def recorded(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    """All that torch 2.13 answers."""
    status = {"last_completed_collective": "30", "last_enqueued_collective": "31", "last_started_collective": "-1"}
    config = {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}
    base = {"comm_lib_version": "", "nccl_comm_state": {}, "pg_config": {"0": config}, "version": "2.10"}
    return {**base, "entries": list(entries), "pg_status": {"0": status}, **more}


Serve = Callable[..., Path]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Has a process's socket answer each question with some pieces, and then close unless told otherwise.

    `nccl` is its answer for collectives over NCCL, which a torch without it does not have.
    """
    over = threading.Event()
    servers: list[tuple[socket.socket, threading.Thread]] = []

    def start(
        *pieces: bytes,
        name: str = f"{PID}.sock",
        endless: bool = False,
        silent: bool = False,
        nccl: bytes = NOT_FOUND,
        pickled: bytes = NOT_FOUND,
    ) -> Path:
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(tmp_path / name))
        server.listen(8)

        def answer() -> None:
            with server:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        if over.is_set():
                            return
                        question = connection.recv(4096)
                        try:
                            reported = (
                                (pickled,) if b"pickle" in question else (nccl,) if b"nccl" in question else pieces
                            )
                            for piece in reported:
                                connection.sendall(piece)
                            while endless:
                                connection.sendall(b" " * (1 << 16))
                            if silent:
                                over.wait()
                        except OSError:
                            continue

        thread = threading.Thread(target=answer)
        thread.start()
        servers.append((server, thread))
        return tmp_path

    yield start
    over.set()
    for server, thread in servers:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(server.getsockname())
        thread.join()


def why(said: dict[str, Any], *, late: bool = False) -> str:
    """The reason that there is no answer, whether that is for want of time, and nothing else."""
    assert set(said) - {"late"} == {"why"} and 0 < len(said["why"]) <= hooked.MOST_TEXT
    assert said.get("late", False) is late
    return str(said["why"])


# torch's flight recorder


def test_collectives_are_reported_group_by_group(serve: Serve) -> None:
    """The newest of each, how far it is, its members where torch tells them."""
    pending = entry(31, retired=False)
    body = json.dumps(recorded(*(entry(n) for n in range(1, 31)), pending, entry(1, group=1))).encode()
    folder = serve(OK, body[:100], body[100:])

    said = hooked.recorder(str(folder), PID, 2)

    row = [30, "gloo:all_reduce", "10x3", "Float", 1795457849498133663, True]
    assert said["version"] == "2.10" and list(said["groups"]) == ["0", "1"]
    default = said["groups"]["0"]
    assert default["recent"] == [row, [31, "gloo:all_reduce", "10x3", "Float", 1795457849498133664, False]]
    assert (default["enqueued"], default["ranks"]) == (31, "[0, 1]")
    other = said["groups"]["1"]
    assert (other["about"], other["enqueued"]) == ("undefined", 1) and "ranks" not in other


def test_collectives_over_nccl_are_reported_beside_those_over_gloo(serve: Serve) -> None:
    """A group that does both counts each from one."""
    over_gloo, over_nccl = recorded(entry(4)), recorded(entry(31, profiling_name="nccl:all_reduce", retired=False))
    folder = serve(OK, json.dumps(over_gloo).encode(), nccl=OK + json.dumps(over_nccl).encode())

    groups = hooked.recorder(str(folder), PID, 5)["groups"]

    newest = {name: group["recent"][-1][:2] for name, group in groups.items()}
    assert newest == {"0": [4, "gloo:all_reduce"], "0:nccl": [31, "nccl:all_reduce"]}


def test_an_old_torch_tells_only_of_nccl(serve: Serve) -> None:
    """The recorder of gloo came later."""
    said = hooked.recorder(str(serve(NOT_FOUND, nccl=OK + json.dumps(recorded(entry(7))).encode())), PID, 5)
    assert list(said["groups"]) == ["0:nccl"]


# the same, pickled


def torch_pickle(value: Any) -> bytes:
    """As torch's Pickler writes it (torch/csrc/jit/serialization/pickler.cpp): protocol 2, texts told once."""
    known: dict[str, int] = {}

    def put(one: Any) -> bytes:
        if one is None or isinstance(one, bool):
            return {None: b"N", True: b"\x88", False: b"\x89"}[one]
        if isinstance(one, int):
            short, word = b"K%c" % one if 0 <= one < 256 else b"", b"\x8a\x08" + struct.pack("<q", one)
            return short or (b"J" + struct.pack("<i", one) if abs(one) < 1 << 31 else word)
        if isinstance(one, str):
            if one in known:
                return b"j" + struct.pack("<I", known[one])
            known[one] = len(known)
            return b"X" + struct.pack("<I", len(one.encode())) + one.encode() + b"r" + struct.pack("<I", known[one])
        if isinstance(one, tuple):
            return b"".join(map(put, one)) + b"\x86"
        if isinstance(one, dict):
            return b"}(" + b"".join(put(key) + put(item) for key, item in one.items()) + b"u"
        return b"](" + b"".join(map(put, one)) + b"e"

    return b"\x80\x02" + put(value) + b"."


def recorded_by_2_4(*numbers: int) -> dict[str, Any]:
    """What the recorder of torch 2.4 dumps (TraceUtils.h and NCCLUtils.cpp, version 2.2 of the dump).

    Other than in JSON the group is a tuple, what was not seen is None, and there are no counters of the group.
    """
    entries = [
        {
            "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
            "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce",
            "time_created_ns": 1795457849498133633 + number, "input_sizes": [[300, 3]], "input_dtypes": ["Float"],
            "output_sizes": [[300, 3]], "output_dtypes": ["Float"],
            "state": "started" if number == numbers[-1] else "completed", "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None, "retired": number != numbers[-1], "timeout_ms": 600000,
            "is_p2p": False,
        }
        for number in numbers
    ]  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return {"version": "2.2", "pg_config": config, **({"entries": entries} if entries else {})}


def pickled_recorder(serve: Serve, data: bytes) -> dict[str, Any]:
    """What is made of it where the server has no other handler."""
    return hooked.recorder(str(serve(NOT_FOUND, pickled=OK + data)), PID, 2)


def test_a_torch_that_only_pickles_tells_of_nccl(serve: Serve) -> None:
    """torch 2.4, whose server has dump_nccl_trace_pickle alone."""
    said = pickled_recorder(serve, torch_pickle(recorded_by_2_4(29, 30, 31)))
    newest = [
        [30, "nccl:all_reduce", "300x3", "Float", 1795457849498133663, True],
        [31, "nccl:all_reduce", "300x3", "Float", 1795457849498133664, False],
    ]
    group = {"about": "default_pg", "recent": newest, "enqueued": 31, "ranks": "[0, 1]"}
    assert said == {"version": "2.2", "groups": {"0:nccl": group}}


def test_before_its_first_collective_it_has_begun_nothing(serve: Serve) -> None:
    """Then the list is left out, too."""
    assert pickled_recorder(serve, torch_pickle(recorded_by_2_4())) == {"version": "2.2", "groups": {}}


def test_stacks_that_nobody_asked_for_are_no_hindrance(serve: Serve) -> None:
    """A frame that several collectives have is pickled once, and named by its number then."""
    frame = b"}q\x07(X\4\0\0\0nameX\4\0\0\0mainu"
    stack = b"X\6\0\0\0frames](" + frame + b"h\x07h\x07e"
    data = torch_pickle(recorded_by_2_4(1)).replace(b"X\x09\0\0\0record_id", stack + b"X\x09\0\0\0record_id")
    assert pickled_recorder(serve, data)["groups"]["0:nccl"]["recent"][0][0] == 1


class Plants:
    """Has the reader of a pickle make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_something_runs_nothing(serve: Serve, tmp_path: Path, protocol: int) -> None:
    """Whatever the protocol that names it."""
    data = pickle.dumps({"version": "2.2", "entries": [Plants(tmp_path / "planted")]}, protocol)
    assert "no pickle of torch's" in why(pickled_recorder(serve, data))
    assert not (tmp_path / "planted").exists()


WHOLE = torch_pickle(recorded_by_2_4(1, 2))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"rubbish", b"\0" * 1000, b"{}", WHOLE[:-1], WHOLE[: len(WHOLE) // 2], b".", b"\x80\x02.", b"\x80\x63N.",
        b"\x80\x02cos\nsystem\n.", b"\x80\x02X\2\0\0\0osX\6\0\0\0system\x93.", b"\x80\x02\x82\1.",  # globals
        b"\x80\x02Pid\n.", b"\x80\x02K\1Q.",  # persistent ids
        b"\x80\x02Nr\xff\xff\xff\x7f.",  # a memo of gigabytes
        b"\x80\x02L" + b"9" * 1_000_000 + b"L\n.", b"\x80\x02I" + b"9" * 1_000_000 + b"\n.",  # digits
        b"\x80\x02\x8b\xff\xff\xff\x7f.", b"\x80\x02X\xff\xff\xff\xff.",  # lengths that are not there
        b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f.", b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.",
        b"\x80\x02]" + b"q\0h\0a" * 3 + b".",  # a list that holds itself
        b"\x80\x02)" + b"q\0h\0\x86" * 100 + b".",  # two to the hundredth
        b"\x80\x02X\0\0\0\0" + b"q\0h\0\x86" * 100 + b".",
        b"\x80\x02})" + b"\x85" * 1_000_000 + b"Ns.",  # a key so deep that hashing it ends the process
        b"\x80\x02" + b"]" * 1_000_000 + b"a" * 999_999 + b".",
        b"\x80\x02" + b"(" * 1_000_000 + b".",
        b"\x80\x02}" + b"X\7\0\0\0entries](" + b"]" * 500_000 + b"a" * 499_999 + b"es.",
        b"\x80\x02X\0\0\x10\0" + b"x" * (1 << 20) + b"q\0](" + b"h\0" * 1_000_000 + b"e.",  # a terabyte of text
        b"N" * (hooked.PICKLE_BYTES + 1),
        torch_pickle([]), torch_pickle("version"), torch_pickle(7), torch_pickle({"entries": 1}),
        torch_pickle({"version": "2.2", "entries": [[1]]}), torch_pickle({"entries": [{}]}),
        torch_pickle({**recorded_by_2_4(1), "pg_config": [1]}),
        torch_pickle({**recorded_by_2_4(1), "pg_status": {"0": 1}}),
    ],
    ids=range(38),
)  # fmt: skip
def test_a_pickle_that_torch_would_not_write_is_said_in_words(serve: Serve, data: bytes) -> None:
    """Rubbish, cut short, what would run something or take all memory, other shapes."""
    why(pickled_recorder(serve, data))


@pytest.mark.parametrize("nccl", [b"HTTP/1.1 200 OK\r\n\r\nrubbish", b"HTTP/1.1 500 Oh\r\n\r\n", b""])
def test_a_rank_whose_nccl_does_not_tell_is_not_taken_for_one_that_did_nothing(serve: Serve, nccl: bytes) -> None:
    """What it began over gloo is not all that it began."""
    said = hooked.recorder(str(serve(OK, json.dumps(recorded(entry(4))).encode(), nccl=nccl)), PID, 5)
    assert why(said)


def test_a_recorder_without_members_or_counters_is_told_as_far_as_it_goes() -> None:
    """gloo's has one group without a name, older ones have no counters; a barrier has no sizes."""
    nameless = {"": {"desc": "", "name": "", "ranks": "[]"}}
    said = shorten(recorded(entry(1, input_sizes=[[]]), pg_config=nameless, pg_status={}), 5)
    assert said["groups"]["0"] == {
        "about": "default_pg",
        "recent": [[1, "gloo:all_reduce", "1", "Float", 1795457849498133634, True]],
        "enqueued": 1,
    }


def test_before_the_first_collective_there_is_no_list_of_them() -> None:
    """torch leaves it out then: the rank is known to have begun nothing."""
    said = recorded()
    del said["entries"]
    assert shorten(said, 5) == {"version": "2.10", "groups": {}}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"rubbish", b"\xff\xfe", b"null", b"[]", b"{}", b'{"entries": 1}', b'{"entries": [1]}',
        b'{"entries": [{}]}',
        b'{"entries": [], "pg_status": []}', b"[" * 100_000, b'{"entries":' + b"[" * 100_000,
        json.dumps(recorded(entry(1, collective_seq_id=float("inf")))).encode(),
        json.dumps(recorded(entry(1, collective_seq_id="\u00b2"))).encode(),
        json.dumps(recorded(entry(1, process_group=["0"]))).encode(),
        json.dumps(recorded(entry(1, input_sizes=7))).encode(),
        json.dumps(recorded(entry(1), pg_status={"0": {"last_enqueued_collective": "\u00b2"}})).encode(),
    ],
)  # fmt: skip
def test_what_is_no_recorder_is_said_in_words(serve: Serve, body: bytes) -> None:
    """Rubbish, another shape, JSON nested without end, numbers that are none."""
    why(hooked.recorder(str(serve(OK, body)), PID, 5))


def test_what_torch_calls_things_is_cut(serve: Serve) -> None:
    """A program names its groups and operations itself."""
    long = "x" * 10_000
    odd = entry(1, process_group=[long, long], profiling_name=long, input_sizes=[[1] * 10_000], input_dtypes=[long])
    said = hooked.recorder(str(serve(OK, json.dumps(recorded(odd)).encode())), PID, 5)
    assert len(json.dumps(said)) < 2000


@pytest.mark.parametrize("head", [b"HTTP/1.1 503\r\nContent-Length: 9\r\n\r\n", b"\0" * 100, b""])
def test_another_status_is_said(serve: Serve, head: bytes) -> None:
    """As is a server that speaks something else: in one line."""
    said = why(hooked.recorder(str(serve(head)), PID, 5))
    assert "status" in said and "\n" not in said


def test_a_torch_without_any_recorder_is_reported_in_words(serve: Serve) -> None:
    """As torch 2.4.1 answers, over gloo."""
    head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 69\r\nContent-Type: text/plain\r\n\r\n"
    body = b"Handler fr_trace_json not found: Failed to find handler fr_trace_json"
    said = why(hooked.recorder(str(serve(head + body)), PID, 5))
    assert said == "this torch has no flight recorder that can be read"


def test_an_endless_answer_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many bytes."""
    monkeypatch.setattr(hooked, "ANSWER_BYTES", 1 << 20)
    assert "more than 1048576 bytes" in why(hooked.recorder(str(serve(OK, endless=True)), PID, 5))


def test_a_long_answer_is_read(serve: Serve) -> None:
    """Collectives over long lists of tensors, of which torch writes down each."""
    sizes, kinds = [[10, 3]] * 300, ["Float"] * 300
    more = {"input_sizes": sizes, "output_sizes": sizes, "input_dtypes": kinds, "output_dtypes": kinds}
    said = recorded(*(entry(number, **more) for number in range(700)))
    text = json.dumps(said, separators=(",", ":"), sort_keys=True).encode()
    assert len(text) > hooked.ANSWER_BYTES
    found = hooked.recorder(str(serve(OK + text)), PID, 700)["groups"]["0"]
    assert (found["enqueued"], len(found["recent"])) == (699, 700)


def flood(entries: int) -> bytes:
    """Collectives of 64 groups in long words, whose every byte is told in six."""
    word = b"\x80" * 300
    rows = [
        {**entry(number, group=number % 64), "process_group": [f"g{number % 64}", "WORD"], "profiling_name": "WORD"}
        for number in range(entries)
    ]
    return json.dumps(recorded(*rows)).encode().replace(b"WORD", word)


@pytest.fixture
def sleepers() -> Iterator[list[int]]:
    """Two processes that do nothing."""
    with subprocess.Popen(["sleep", "600"]) as one, subprocess.Popen(["sleep", "600"]) as other:
        yield [one.pid, other.pid]
        one.kill()
        other.kill()


def test_what_one_rank_says_at_length_leaves_room_for_the_others(
    serve: Serve, sleepers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of a host is cut after so many bytes: then nothing of its other ranks would be known."""
    for module in (hooked, insight):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 60.0)
    bodies = [flood(3000), json.dumps(recorded(*(entry(n) for n in range(1, 40)))).encode()]
    tasks = []
    for number, pid in enumerate(sleepers):
        folder = serve(OK + bodies[number], name=f"{pid}.sock")
        (folder / f"{pid}.json").write_text(json.dumps({"rank": str(number), "torch": "2.13.0", "server": True}))
        (folder / f"{number}").mkdir()
        (folder / f"{number}/pid").write_text(str(pid))
        tasks.append({"task": number, "id": "", "folder": str(folder / f"{number}"), "hook": str(folder)})

    said = insight.all_seen({"tasks": tasks, "engine": [], "most": 400, "stacks": False})

    (long,), (short,) = (task["processes"] for task in said["tasks"])
    assert len(json.dumps(long)) <= insight.ROW_BYTES and len(long["recorder"]["groups"]) == 64
    assert all(group["recent"] for group in long["recorder"]["groups"].values())
    assert len(short["recorder"]["groups"]["0"]["recent"]) == 39


DOWN = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (["sh", "-c", "exec sleep 60"], "did not answer in time"),
        (["sh", "-c", f"echo '{DOWN}' >&2; exit 1"], f"can't be asked: {DOWN}"),
        (["false"], "can't be asked: it ended with an error"),
        (["/nowhere/docker"], "can't be asked: [Errno 2] No such file or directory: '/nowhere/docker'"),
        (["sh", "-c", "echo 'Error response from daemon: No such container: c1' >&2; exit 1"], ""),
        (["sh", "-c", "echo 'Error: no such object: \"c1\"' >&2; exit 125"], ""),
    ],
)
def test_an_engine_that_can_not_tell_is_told_from_one_that_has_no_such_container(
    monkeypatch: pytest.MonkeyPatch, engine: list[str], why: str
) -> None:
    """Asked again it may tell; of a run whose dockerd restarts it was said that nothing of it runs."""
    monkeypatch.setattr(insight, "ENGINE_SECONDS", 0.2 if "sleep" in engine[-1] else 60)
    assert insight.first_processes(engine, ["c1"]) == ({}, why)
    task = {"task": 0, "id": "c1", "folder": "", "hook": ""}
    said = insight.all_seen({"tasks": [task], "engine": engine, "most": 400, "stacks": False})
    assert (said["late"], said["engine"], said["tasks"]) == (bool(why), why, [{"task": 0, "processes": []}])
    (seen,) = ranks_of([TaskRanks(0, "h", (0,))], {"h": host_answer("h", said)}, {})
    assert seen.why_not == (f"its engine {why}" if why else "nothing of it runs")


def test_of_several_containers_one_is_gone() -> None:
    """Its engine's exit status is an error then, with rows for the others."""
    text = "echo c2 17; echo 'Error response from daemon: No such container: c1' >&2; exit 1"
    assert insight.first_processes(["sh", "-c", text], ["c1", "c2"]) == ({"c2": 17}, "")


def test_an_answer_that_unfolds_is_not_read(serve: Serve) -> None:
    """Each list of nothing takes twenty times its bytes in memory, of every rank at once."""
    body = b'{"entries": [' + b"[]," * (hooked.ANSWER_BYTES // 3) + b"[]]}"
    assert "more than 4194304 bytes" in why(hooked.recorder(str(serve(OK, body)), PID, 5))


@pytest.mark.parametrize(
    ("most", "reported"),
    [(1 << 20, (8, True, True)), (3000, (2, True, True)), (1000, (1, False, True)), (300, (0, False, False))],
)
def test_what_is_told_of_a_process_is_made_to_fit(most: int, reported: tuple[int, bool, bool]) -> None:
    """Its newest collectives, then its stacks, then less and less of them."""
    rows = [[number, "x" * 300, "", "", 1, True] for number in range(8)]
    groups = {"0": {"about": "", "recent": rows, "enqueued": 7}}
    frames = [["main", True, [["y" * 300, 1, "f"]] * 3]]
    row = {"pid": 7, "recorder": {"groups": groups}, "stacks": {"threads": frames}, "hook": None}

    found = insight.fitted(row, most)

    kept = found["recorder"].get("groups", {}).get("0", {}).get("recent", [])
    assert len(json.dumps(found)) <= most and kept == rows[8 - len(kept) :]
    assert (len(kept), "threads" in found["stacks"], "groups" in found["recorder"]) == reported


def test_sampled_calls_are_thinned_before_collectives() -> None:
    """They are most of what a watched rank says, and a part of them tells as much."""
    groups = {"0": {"recent": [[n, "all_reduce", "x" * 60] for n in range(400)]}}
    samples = [[n, [["/work/train.py" * 20, n, "f"]] * 12] for n in range(80)]
    found = insight.fitted({"pid": 7, "recorder": {"groups": groups}, "samples": samples}, 100_000)
    assert len(found["recorder"]["groups"]["0"]["recent"]) == 400
    assert 4 < len(found["samples"]) < 80 and found["samples"][0] == samples[0]


def test_a_server_that_never_answers_is_given_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many seconds, also when it has begun to."""
    monkeypatch.setattr(hooked, "ANSWER_SECONDS", 0.2)
    why(hooked.recorder(str(serve(OK, b"{", silent=True)), PID, 5))


def test_a_server_that_drips_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is of the whole answer, not of each piece."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x")
        with pytest.raises(ValueError, match="no whole answer"):
            hooked.take(ours, time.monotonic() - 1)


def test_a_socket_that_nobody_serves_is_said(tmp_path: Path) -> None:
    """Of a process that was killed; or there is none at all."""
    assert "No such file" in why(hooked.recorder(str(tmp_path), PID, 5))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / f"{PID}.sock"))
    assert "refused" in why(hooked.recorder(str(tmp_path), PID, 5))


def test_a_link_is_not_followed_to_another_socket(serve: Serve, tmp_path: Path) -> None:
    """Docker's, for example; nor is a file or a folder taken for a socket."""
    serve(OK, json.dumps(recorded(entry(1))).encode(), name="other")
    place = tmp_path / f"{PID}.sock"
    place.symlink_to(tmp_path / "other")
    assert "not a socket" in why(hooked.recorder(str(tmp_path), PID, 5))
    place.unlink()
    place.write_text("x")
    assert "not a socket" in why(hooked.recorder(str(tmp_path), PID, 5))
    place.unlink()
    place.mkdir()
    assert "not a socket" in why(hooked.recorder(str(tmp_path), PID, 5))


# who it is


def said_of_itself(folder: Path, data: bytes) -> dict[str, Any] | None:
    """What is taken of a PID.json."""
    (folder / f"{PID}.json").write_bytes(data)
    return hooked.who(str(folder), PID)


def test_who_a_process_is(tmp_path: Path) -> None:
    """Plain values; long ones and lists are left out."""
    data = {"rank": "2", "stacks": True, "torch": "2.13.0", "long": "x" * 100, "list": [1], "null": None}
    assert said_of_itself(tmp_path, json.dumps(data).encode()) == {"rank": "2", "stacks": True, "torch": "2.13.0"}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 4096, b'{"a":' * 1000, b'{"a": "' + b"x" * 9000])
def test_what_says_nothing_of_itself_has_no_hook(tmp_path: Path, data: bytes) -> None:
    """Also what is nested deeper than Python reads."""
    assert said_of_itself(tmp_path, data) is None


def test_a_process_file_that_is_none_is_not_opened_further(tmp_path: Path) -> None:
    """A link out of the folder, a fifo that nobody writes to, a folder."""
    place = tmp_path / f"{PID}.json"
    (tmp_path / "real").write_text('{"rank": "0"}')
    place.symlink_to(tmp_path / "real")
    assert hooked.who(str(tmp_path), PID) is None
    place.unlink()
    os.mkfifo(place)
    assert hooked.who(str(tmp_path), PID) is None
    place.unlink()
    place.mkdir()
    assert hooked.who(str(tmp_path), PID) is None


# stacks


def test_stacks_are_read() -> None:
    """Innermost call first; a line that is not known is 0; a file may be called as it likes."""
    assert hooked.read_stacks(STACKS) == [
        [
            "0x00007fd17d2766c0",
            False,
            [["/work/prog.py", 11, "spin"], ["/usr/lib/python3.11/threading.py", 982, "run"]],
        ],
        [
            "0x00007fd1a3488b80",
            True,
            [
                ["/site-packages/torch/distributed/distributed_c10d.py", 0, "recv"],
                ['/work/a "b", line 3 in c.py', 15, "<module>"],
            ],
        ],
    ]


def test_stacks_told_twice_are_read_once() -> None:
    """A kernel may send its signal twice for one byte, and the second may come while the first is written."""
    assert hooked.read_stacks(STACKS + STACKS) == hooked.read_stacks(STACKS)


def test_a_thread_with_a_name_is_reported_by_it() -> None:
    """As Python 3.14 writes it."""
    text = 'Thread 0x00007fd17d2766c0 [loader] (most recent call first):\n  File "a.py", line 1 in f\n'
    assert hooked.read_stacks(text) == [["loader", False, [["a.py", 1, "f"]]]]


def test_the_outermost_call_of_a_deep_stack_is_reported() -> None:
    """faulthandler writes a hundred calls of a thread; the last one tells whose thread it is."""
    calls = "".join(f'  File "m.py", line {n} in forward\n' for n in range(1, 100))
    text = f'Current thread 0x01 (most recent call first):\n{calls}  File "train.py", line 7 in <module>\n'
    ((_, _, frames),) = hooked.read_stacks(text)
    assert len(frames) == 100 and frames[-1] == ["train.py", 7, "<module>"]


@pytest.mark.parametrize("text", ["", "rubbish\n", '  File "a", line 1 in f\n', "\0" * 1000, "Thread 0x1\n" * 1000])
def test_rubbish_is_no_stack(text: str) -> None:
    """Calls of no thread, too."""
    assert hooked.read_stacks(text) == []


def test_many_threads_and_calls_are_cut() -> None:
    """The program writes the file itself, if it likes."""
    call = f'  File "{"f" * 1000}", line 1 in {"g" * 1000}\n'
    text = "".join(f"Thread {n:#x} (most recent call first):\n{call * 120}" for n in range(80))
    found = hooked.read_stacks(text)
    assert len(found) == hooked.MOST_STACKS
    assert all(len(frames) == hooked.MOST_FRAMES for _, _, frames in found)
    assert all(len(file) + len(function) <= 2 * hooked.MOST_TEXT for file, _, function in found[0][2])


def test_of_many_threads_each_has_its_own_calls_and_the_main_one_is_kept() -> None:
    """faulthandler writes it last."""
    text = "".join(f'Thread {n:#x} (most recent call first):\n  File "f{n}", line {n} in g\n' for n in range(1, 101))
    found = hooked.read_stacks(text)
    assert len(found) == hooked.MOST_STACKS
    assert found[-1] == ["0x64", False, [["f100", 100, "g"]]]
    assert all(frames == [[f"f{int(thread, 16)}", int(thread, 16), "g"]] for thread, _, frames in found)


def program(folder: Path, *texts: bytes) -> None:
    """What a program leaves there; each byte in the fifo has it write its stacks once."""
    os.mkfifo(folder / f"{PID}.ask")
    (folder / f"{PID}.stacks").write_bytes(b"older")

    def answer() -> None:
        with (folder / f"{PID}.ask").open("r+b", buffering=0) as asked:
            for text in texts:
                asked.read(1)
                with (folder / f"{PID}.stacks").open("ab") as file:
                    file.write(text)

    threading.Thread(target=answer, daemon=True).start()


def test_a_program_is_asked_by_a_byte(tmp_path: Path) -> None:
    """What an earlier asker got is gone by then."""
    program(tmp_path, STACKS.encode())
    assert hooked.stacks(str(tmp_path), PID) == {"threads": hooked.read_stacks(STACKS)}


@pytest.mark.parametrize("cut", ['  File "/work/a', "\nCurrent thread"], ids=["its outermost call", "its main thread"])
def test_stacks_that_came_in_part_are_marked(tmp_path: Path, cut: str) -> None:
    """So that the program is asked once more: what is missing is where it is in the user's own files."""
    part = STACKS.partition(cut)[0]
    program(tmp_path, part.encode(), STACKS.removeprefix(part).encode())
    assert hooked.stacks(str(tmp_path), PID) == {"threads": hooked.read_stacks(part), "late": True}


@pytest.mark.parametrize(
    "last",
    [
        '  File "/a.py", line 8 in _run_module_as_main',
        '  File "/usr/lib/python3.11/threading.py", line 1590 in _shutdown',
        '  File "/usr/lib/python3.8/concurrent/futures/thread.py", line 31 in _python_exit',
        '  File "/usr/lib/python3.11/multiprocessing/util.py", line 357 in _exit_function',
        '  File "/usr/lib/python3.11/site-packages/jax/_src/distributed.py", line 380 in shutdown',
        '  File "/usr/lib/python3.11/site-packages/jax/_src/api.py", line 2582 in clean_up',
        "  ...",
        "  <truncated rest of calls>",
        "\n...",
    ],
)
def test_stacks_that_are_whole(last: str) -> None:
    """As `python -m` ends them, programs that have ended and wait for what they have started, and faulthandler where
    there are too many calls or threads.
    """
    text = f'Current thread 0x01 (most recent call first):\n  File "/a.py", line 3 in f\n{last}\n'
    assert hooked.is_whole(text.encode()) and not hooked.is_whole(text[: text.index(last)].encode())


AT_EXIT = """Current thread 0x01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/site-packages/tracker/run.py", line 52 in finish
"""


def test_what_a_package_does_at_exit_is_whole(tmp_path: Path) -> None:
    """Nothing of a program calls it: it is asked twice and says the same. Calls of which others came first are cut."""
    program(tmp_path, AT_EXIT.encode(), AT_EXIT.encode(), AT_EXIT.encode(), AT_EXIT.replace("52", "53").encode())
    assert hooked.stacks(str(tmp_path), PID) == {"threads": hooked.read_stacks(AT_EXIT)}
    assert hooked.stacks(str(tmp_path), PID) == {"threads": hooked.read_stacks(AT_EXIT), "late": True}


def slow_program(folder: Path, asks: int) -> list[str]:
    """The same of one that halts in the middle of each answer; what it answers."""
    answers = [STACKS.replace("/work/prog.py", f"/work/prog{number}.py") for number in range(asks)]
    os.mkfifo(folder / f"{PID}.ask")
    (folder / f"{PID}.stacks").touch()
    asked = os.open(folder / f"{PID}.ask", os.O_RDWR)

    def answer() -> None:
        for text in answers:
            os.read(asked, 1)
            for piece in (text[:100], text[100:]):
                with (folder / f"{PID}.stacks").open("a") as file:
                    file.write(piece)
                time.sleep(0.1)
        os.close(asked)

    threading.Thread(target=answer, daemon=True).start()
    return answers


def test_two_who_ask_at_once_get_an_answer_each(tmp_path: Path) -> None:
    """`distui why` beside whoever follows the run: neither empties the file of the other's answer."""
    answers, got = slow_program(tmp_path, 3), list[bytes]()

    def ask() -> None:
        got.append(hooked.ask_stacks(f"{tmp_path}/{PID}.ask", f"{tmp_path}/{PID}.stacks"))

    askers = [threading.Thread(target=ask) for _ in answers]
    for asker in askers:
        asker.start()
        time.sleep(0.05)
    for asker in askers:
        asker.join()
    assert sorted(got) == [text.encode() for text in answers]


def test_who_asks_while_another_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program itself may hold the lock."""
    monkeypatch.setattr(hooked, "SAMPLE_TURN", 0.1)
    slow_program(tmp_path, 1)
    held = os.open(tmp_path / f"{PID}.stacks", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(BlockingIOError):
        hooked.stacks_now(f"{tmp_path}/{PID}")
    monkeypatch.setattr(hooked, "ask_stacks", partial(hooked.ask_stacks, turn=0.1))
    assert why(hooked.stacks(str(tmp_path), PID), late=True) == "somebody else asks for them just now"
    os.close(held)
    assert "threads" in hooked.stacks(str(tmp_path), PID)


def test_a_sample_that_others_are_in_the_way_of_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next ones are taken."""
    monkeypatch.setattr(watching, "hears", lambda pid, hook: True)
    monkeypatch.setattr(watching, "SAMPLE_EVERY", 0.0)
    one, turns = watching.Watched(os.getpid(), str(tmp_path), True), [BlockingIOError(), STACKS, OSError()]

    def stacks_now(_: str) -> str:
        turn = turns.pop(0)
        if isinstance(turn, OSError):
            raise turn
        return str(turn)

    monkeypatch.setattr(watching, "stacks_now", stacks_now)
    one.sample()
    assert (len(one.samples), turns) == (1, [])


class Clock:
    """A host's time, in which a file grows piece by piece, each half a second after the last."""

    def __init__(self, path: Path, *pieces: bytes) -> None:
        self.now, self.path, self.pieces = 0.0, path, list(pieces)

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Time goes on, and so does what writes."""
        self.now += seconds
        if self.pieces and self.now > 2 - len(self.pieces) * 0.5:
            with self.path.open("ab") as file:
                file.write(self.pieces.pop(0))


@pytest.mark.parametrize(
    "cut",
    [
        "Thread 0x0000",
        "in run\n\n",
        "(most recent call first):",
        "first):\n",
        '  File "',
        ", line 11 in spi",
        "in run\n",
        "in recv\n",
    ],
)
def test_stacks_that_are_half_written_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    """A busy host halts the program in the middle of a line, before the first call of a thread, or between two."""
    place = tmp_path / "stacks"
    place.touch()
    first, _, rest = STACKS.partition(cut)
    monkeypatch.setattr(hooked, "time", Clock(place, (first + cut).encode(), rest.encode()))
    with place.open("rb") as file:
        assert hooked.settled(file.fileno()) == STACKS.encode()


def test_the_end_of_an_earlier_answer_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written after the file was emptied for the next question."""
    place, rest = tmp_path / "stacks", b'  File "/work/train.py", line 12 in <module>\n'
    place.touch()
    monkeypatch.setattr(hooked, "time", Clock(place, rest, STACKS.encode()))
    with place.open("rb") as file:
        assert hooked.settled(file.fileno()) == rest + STACKS.encode()


def test_a_program_that_does_not_answer_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped, or has become another program."""
    monkeypatch.setattr(hooked, "STACK_SECONDS", 0.1)
    os.mkfifo(tmp_path / f"{PID}.ask")
    (tmp_path / f"{PID}.stacks").write_bytes(b"")
    assert "no answer" in why(hooked.stacks(str(tmp_path), PID), late=True)


def test_a_stopped_process_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server is stopped, too; once it goes on it is asked."""
    monkeypatch.setattr(insight, "recorder", lambda folder, pid, most: {"groups": {}})
    with subprocess.Popen(["sleep", "600"]) as program:
        (tmp_path / f"{program.pid}.json").write_text('{"server": true}')

        def asked_in(state: str) -> object:
            while Look(program.pid).stat.state != state:
                os.sched_yield()
            asking = insight.Asking(str(tmp_path), program.pid, {"most": 400, "stacks": False})
            return asking.row(Look(program.pid), 0.0)["recorder"]

        try:
            os.kill(program.pid, signal.SIGSTOP)
            assert asked_in("T") == {"why": "its process is stopped"}
            os.kill(program.pid, signal.SIGCONT)
            assert asked_in("S") == {"groups": {}}
        finally:
            program.kill()


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        ({"signal": 61}, "it no longer handles the signal that asks for them"),
        ({}, "it was started by an earlier distui, which does not tell its signal"),
    ],
)
def test_a_program_is_not_asked_by_a_signal_that_it_may_not_handle(
    tmp_path: Path, reported: dict[str, int], why: str
) -> None:
    """The reason is said as it is."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as program:
        (tmp_path / f"{program.pid}.json").write_text(json.dumps({"stacks": True, **reported}))
        asking = insight.Asking(str(tmp_path), program.pid, {"most": 400, "stacks": True})
        for thread in asking.threads:
            thread.join()
    assert asking.said == {"stacks": {"why": why}}


PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def test_a_process_that_a_debugger_holds_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for its collectives nor for its calls; strace stops one as well, but for moments."""
    monkeypatch.setattr(insight, "recorder", lambda folder, pid, most: {"groups": {}})
    monkeypatch.setattr(insight, "stacks", lambda folder, pid: {"threads": []})
    monkeypatch.setattr(insight, "hears", lambda pid, hook: True)
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    with subprocess.Popen(["sleep", "600"]) as program:
        (tmp_path / f"{program.pid}.json").write_text('{"server": true, "stacks": true}')

        def asked(meanwhile: Callable[[], object]) -> tuple[object, object]:
            asking = insight.Asking(str(tmp_path), program.pid, {"most": 400, "stacks": True})
            meanwhile()
            row = asking.row(Look(program.pid), 0.0)
            return row["recorder"], row["stacks"]

        def let_go() -> None:
            assert ptrace(PTRACE_DETACH, program.pid, None, None) == 0
            while Look(program.pid).stat.state == "t":
                os.sched_yield()
            gone.set()

        try:
            assert ptrace(PTRACE_ATTACH, program.pid, None, None) == 0, os.strerror(ctypes.get_errno())
            os.waitpid(program.pid, os.WUNTRACED)
            assert asked(lambda: None) == ({"why": "its process is being traced"},) * 2
            gone = threading.Event()
            clock = SimpleNamespace(sleep=lambda _: gone.wait(), monotonic=time.monotonic)
            monkeypatch.setattr(insight, "time", clock)
            assert asked(let_go) == ({"groups": {}}, {"threads": []})
        finally:
            program.kill()


def test_what_an_earlier_asker_left_is_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifo that is full takes no byte."""
    monkeypatch.setattr(hooked, "STACK_SECONDS", 0.1)
    os.mkfifo(tmp_path / f"{PID}.ask")
    (tmp_path / f"{PID}.stacks").write_bytes(b"")
    with (tmp_path / f"{PID}.ask").open("r+b", buffering=0) as fifo:
        os.set_blocking(fifo.fileno(), False)
        while fifo.write(b"x" * 4096):
            pass
        assert "no answer" in why(hooked.stacks(str(tmp_path), PID), late=True)
        assert fifo.read(10) == b"."


@pytest.mark.parametrize(
    ("release", "rest"),
    [
        *((release, b"ab.") for release in ("4.18.0-553.el8_10.x86_64", "5.4.0-1", "5.14.0-503", "6.18.44-fc")),
        *((release, b".") for release in ("5.5.0", "5.10.0-28-amd64", "5.13.19")),
    ],
)
def test_a_fifo_is_only_read_where_the_kernel_wants_it_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, rest: bytes
) -> None:
    """Elsewhere reading it is one more signal."""
    monkeypatch.setattr(hooked.os, "uname", lambda: SimpleNamespace(release=release))
    os.mkfifo(tmp_path / "ask")
    with (tmp_path / "ask").open("r+b", buffering=0) as fifo:
        os.set_blocking(fifo.fileno(), False)
        fifo.write(b"ab")
        hooked.put(fifo.fileno())
        assert fifo.read(10) == rest


def test_a_program_that_fills_its_own_fifo_does_not_hold_the_asker(tmp_path: Path) -> None:
    """Only so much is taken out of it."""
    reads = []

    def endless(number: int, most: int) -> bytes:
        reads.append(number)
        assert len(reads) < 1000, "it goes on for ever"
        return b"x" * most

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hooked.os, "read", endless)
        hooked.drain(0)
    assert reads


@pytest.mark.parametrize("name", ["ask", "stacks"])
@pytest.mark.parametrize("kind", ["missing", "link", "folder", "other"])
def test_what_is_no_fifo_or_file_is_left_alone(tmp_path: Path, name: str, kind: str) -> None:
    """Nothing is written through a link, and nothing waited for."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    os.mkfifo(tmp_path / f"{PID}.ask")
    (tmp_path / f"{PID}.stacks").write_bytes(b"")
    place = tmp_path / f"{PID}.{name}"
    place.unlink()
    if kind == "link":
        place.symlink_to(precious)
    elif kind == "folder":
        place.mkdir()
    elif kind == "other" and name == "ask":
        place.write_text("a file")
    elif kind == "other":
        os.mkfifo(place)

    why(hooked.stacks(str(tmp_path), PID))

    assert precious.read_text() == "precious"


# where it runs


# what ended programs left


def leave(folder: Path, pid: int, *, rank: str = "2", **files: str) -> None:
    """The files of one program."""
    (folder / f"{pid}.json").write_text(json.dumps({"rank": rank, "torch": "2.13.0", "pid": pid}))
    for name, text in files.items():
        (folder / f"{pid}.{name}").write_text(text)


CALLS = [["/work/train.py", 7, "load"], ["/work/train.py", 11, "<module>"]]


def test_what_was_left_is_reported_newest_first(tmp_path: Path) -> None:
    """Whatever their numbers; who said nothing is left out."""
    leave(tmp_path, 9, rank="1", last=json.dumps({"calls": CALLS, "recorders": {"": None}}))
    leave(tmp_path, 7, crash='Thread 0x01 (most recent call first):\n  File "a.py", line 3 in f\n')
    leave(tmp_path, 8, rank="0", crash="")
    os.utime(tmp_path / "9.json", (1, 1))
    rows = hooked.left(str(tmp_path))
    assert [row["pid"] for row in rows] == [7, 9]
    assert rows[0]["stacks"] == {"threads": [["0x01", False, [["a.py", 3, "f"]]]]}
    assert rows[1]["stacks"] == {"threads": [["main", True, CALLS]]}
    assert rows[1]["hook"]["rank"] == "1"


def test_an_earlier_try_of_a_rank_tells_nothing_of_the_last_one(tmp_path: Path) -> None:
    """Where torchrun has started the rank again; a program that it started itself while it lived changes nothing."""
    leave(tmp_path, 9, last=json.dumps({"calls": CALLS, "recorders": {"": None}}), crash="Thread")
    leave(tmp_path, 7)
    for name, moment in (("9.json", 1), ("9.last", 2), ("9.crash", 2), ("7.json", 3)):
        os.utime(tmp_path / name, (moment, moment))
    assert hooked.left(str(tmp_path)) == []
    os.utime(tmp_path / "9.last", (4, 4))
    assert [row["pid"] for row in hooked.left(str(tmp_path))] == [9]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"calls": 3}', '{"calls": [[1]]}', '{"calls": [], "recorders": 1}', "[" * 100000],
)
def test_rubbish_that_was_left_is_no_answer(tmp_path: Path, text: str) -> None:
    """The folder is the program's."""
    leave(tmp_path, 7, last=text)
    assert [row.get("stacks") for row in hooked.left(str(tmp_path))] in ([], [None])


def test_a_link_that_was_left_is_not_followed(tmp_path: Path) -> None:
    """To a file that only the login may read."""
    (tmp_path / "secret").write_text(json.dumps({"calls": CALLS, "recorders": {}}))
    leave(tmp_path, 7)
    (tmp_path / "7.last").symlink_to(tmp_path / "secret")
    (tmp_path / "7.crash").symlink_to("/dev/zero")
    assert hooked.left(str(tmp_path)) == []


def test_what_torch_wrote_before_its_watchdog_ended_a_rank(tmp_path: Path) -> None:
    """It runs nothing of Python's then; of two programs with that rank it is the newer one's."""
    leave(tmp_path, 7, crash='Thread 0x01 (most recent call first):\n  File "a.py", line 3 in f\n')
    leave(tmp_path, 9)
    os.utime(tmp_path / "7.json", (5, 5))
    os.utime(tmp_path / "7.crash", (7, 7))
    os.utime(tmp_path / "9.json", (6, 6))
    (tmp_path / "trace_2").write_bytes(torch_pickle(recorded_by_2_4(29, 30, 31)))
    rows = hooked.left(str(tmp_path))
    assert [(row["pid"], "recorder" in row, "stacks" in row) for row in rows] == [(9, True, False), (7, False, True)]
    group = rows[0]["recorder"]["groups"]["0:nccl"]
    assert (group["enqueued"], [row[5] for row in group["recent"]]) == (31, [True, True, False])

    (tmp_path / "9.json").write_text(json.dumps({"rank": "2", "torch_rank": 5, "torch": "2.13.0"}))
    (tmp_path / "trace_2").rename(tmp_path / "trace_5")
    os.utime(tmp_path / "trace_5", (8, 8))
    os.utime(tmp_path / "9.json", (9, 9))
    assert [row["pid"] for row in hooked.left(str(tmp_path)) if "recorder" in row] == []  # it spoke after that
    os.utime(tmp_path / "9.json", (6, 6))
    assert [row["pid"] for row in hooked.left(str(tmp_path)) if "recorder" in row] == [9]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", WHOLE[:-1], pickle.dumps(print), torch_pickle([]), b"\x80\x02](" + b"]" * (2 << 20) + b"e."],
    ids=["empty", "half JSON", "half a pickle", "a global", "a list", "lists of lists"],
)
def test_what_torch_did_not_write_is_no_record(tmp_path: Path, data: bytes) -> None:
    """The folder is the program's, which may put there whatever it likes, at any length."""
    leave(tmp_path, 7)
    os.utime(tmp_path / "7.json", (5, 5))
    (tmp_path / "trace_2").write_bytes(data)
    assert hooked.left(str(tmp_path)) == []
    (tmp_path / "trace_2").unlink()
    (tmp_path / "trace_2").symlink_to("/dev/zero")
    assert hooked.left(str(tmp_path)) == []


def test_a_folder_that_is_gone_has_nothing(tmp_path: Path) -> None:
    """Nor has one that holds a hundred thousand files more than that."""
    assert hooked.left(str(tmp_path / "none")) == []


def test_bytes_count_by_the_one_of_two_counters_that_grew_most() -> None:
    """A file that is mapped is read without a system call, and a long call is counted at its end."""
    before, now = {"rchar": 10, "read_bytes": 0}, {"rchar": 20, "read_bytes": 4096}
    assert processes.grown(now, before, "rchar", "read_bytes") == 4096 and processes.grown(now, before, "rchar") == 10
    assert processes.grown(None, before, "rchar") is None and processes.grown(before, before, "wchar") == 0
