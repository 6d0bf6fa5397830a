"""Asking NCCL's RAS on a host: where it listens, what is said to it, and all that it may answer instead."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from distui.agent.ranks import ras, ras_talk
from fakehosts.ports import held_port
from fakehosts.ras import Server, json_report

Serve = Callable[..., Server]
SELF = f"/proc/{os.getpid()}"
REPORT = json_report([("10.0.0.1", 7)], {0: {"AllReduce": 3}})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts stand-ins for NCCL's RAS thread; two answers of one come soon after each other."""
    monkeypatch.setattr(ras_talk, "APART", 0.05)
    servers: list[Server] = []

    def start(answer: Callable[[bool], str] = lambda _: REPORT, **options: Any) -> Server:
        servers.append(Server(answer, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_it_is_asked_twice_for_its_status_and_nothing_else(serve: Serve) -> None:
    """JSON where it is known (2.28.7); each talk ends with the answer."""
    server = serve()
    begun = time.time()
    found = ras_talk.samples("localhost", server.port, 60.0)
    assert [text for _, text in found] == [REPORT] * 2
    assert all(begun <= at <= time.time() for at, _ in found)
    assert server.heard == ["CLIENT PROTOCOL 2", "TIMEOUT 2", "SET FORMAT json", "STATUS"] * 2


def test_an_older_one_is_asked_for_text(serve: Serve) -> None:
    """Before 2.28.7 it answers `ERROR: Unknown command`; verbose text names more of the ranks that differ."""
    server = serve(lambda as_json: "json" if as_json else "NCCL version 2.27.7", knows_json=False)
    (_, text), _ = ras_talk.samples("127.0.0.1", server.port, 60.0)
    assert text == "NCCL version 2.27.7" and server.heard[3] == "VERBOSE STATUS"


def test_json_of_very_many_ranks_is_asked_for_as_text(serve: Serve) -> None:
    """Text has only the ranks that differ."""
    server = serve(
        lambda _: "x" * (ras_talk.ANSWER_BYTES + 1) if server.heard[-1] == "STATUS" else "NCCL version 2.30.7"
    )
    (_, text), *_ = ras_talk.samples("127.0.0.1", server.port, 60.0)
    assert text == "NCCL version 2.30.7"


def test_where_nobody_listens_nothing_is_said_at_once() -> None:
    """A refused connection."""
    begun = time.monotonic()
    with held_port() as port:
        assert ras_talk.samples("localhost", port, 600.0) == []
    assert time.monotonic() - begun < 300


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"x" * 100_000, b"SERVER PROTOCOL 2\n"])
def test_what_is_no_ras_is_given_up(said: bytes) -> None:
    """Another server, one that closes, one that floods, one that says nothing more: within the seconds given."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        threading.Thread(target=stranger, args=(one, said), daemon=True).start()
        begun = time.monotonic()
        assert ras_talk.samples("127.0.0.1", one.getsockname()[1], 0.5) == []
        assert time.monotonic() - begun < 60


def stranger(one: socket.socket, said: bytes) -> None:
    """Says something, and then nothing more."""
    client, _ = one.accept()
    with client, suppress(OSError):
        client.sendall(said)
        while said and client.recv(4096):
            pass


def test_an_endless_answer_is_given_up(serve: Serve) -> None:
    """As JSON and as text."""
    server = serve(lambda _: "x" * (2 * ras_talk.ANSWER_BYTES))
    assert ras_talk.samples("127.0.0.1", server.port, 5.0) == []


# where it listens


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({}, ("localhost", 28028)),
        ({"NCCL_RAS_ADDR": "localhost:1234"}, ("localhost", 1234)),
        ({"NCCL_RAS_ADDR": "0.0.0.0:1234"}, ("localhost", 1234)),
        ({"NCCL_RAS_ADDR": "[::]:1234"}, ("localhost", 1234)),
        ({"NCCL_RAS_ADDR": "10.0.0.1:1234"}, ("10.0.0.1", 1234)),
        ({"NCCL_RAS_ADDR": "[fd00::1]:1234"}, ("fd00::1", 1234)),
        ({"NCCL_RAS_ADDR": "10.0.0.9:22"}, None),
        ({"NCCL_RAS_ADDR": "example.com:80"}, None),
        ({"NCCL_RAS_ADDR": "localhost"}, None),
        ({"NCCL_RAS_ADDR": "localhost:99999"}, None),
        ({"NCCL_RAS_ADDR": "localhost:²"}, None),
        ({"NCCL_RAS_ENABLE": "0"}, None),
    ],
)
def test_the_job_s_environment_says_where(env: dict[str, str], place: tuple[str, int] | None) -> None:
    """As NCCL reads it; never another machine, whatever a job says."""
    assert ras.place_of(env, ["10.0.0.1", "fd00::1"]) == place


def test_a_process_s_own_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image may set it; where that can't be read it is as planned."""
    planned = {"env": {"NCCL_RAS_ADDR": "localhost:1"}}
    monkeypatch.setattr(ras, "environment", lambda pid: [b"A=1", b"NCCL_RAS_ADDR=localhost:2"] if pid == 5 else [])
    assert ras.settings(planned, [4]) == {"NCCL_RAS_ADDR": "localhost:1"}
    assert ras.settings(planned, [4, 5]) == {"NCCL_RAS_ADDR": "localhost:2"}


def test_what_listens_and_which_addresses_there_are() -> None:
    """As the kernel tells it of this process's network."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        assert not ras.is_listened_to(SELF, port)
        one.listen()
        assert ras.is_listened_to(SELF, port)
    assert "127.0.0.1" in ras.own_addresses(SELF)
    assert ras.network_of(SELF) == ras.network_of("/proc/self") != 0
    assert ras.network_of("/proc/0") == 0


def test_tasks_of_one_network_are_asked_once(serve: Serve) -> None:
    """What runs on the host's network answers for all of its tasks there."""
    server = serve()
    env = {"NCCL_RAS_ADDR": f"localhost:{server.port}"}
    tasks: list[Any] = [({"task": n, "id": "", "env": env}, [os.getpid()]) for n in (0, 1)]
    (row,) = ras.Networks([*tasks, ({"task": 2, "id": ""}, [])], {"ras": 60.0}).rows(60.0)
    assert row["tasks"] == [0, 1] and "127.0.0.1" in row["addresses"]
    assert [[text for _, text in one] for one in row["ras"]] == [[REPORT] * 2]
    assert len(server.heard) == 8


def test_a_container_s_own_network_is_asked_from_inside(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a Python there, which gets the program on its stdin; `env -u` stands in for the engine's `exec`."""
    server = serve()
    numbers = {"/proc/self": 1, SELF: 2}
    monkeypatch.setattr(ras, "network_of", lambda process: numbers[process])
    asked = {"ras": 60.0, "engine": ["sh", "-c", 'shift 3; exec "$@"', "engine"], "ras_talk": talk()}
    env = {"NCCL_RAS_ADDR": f"localhost:{server.port}"}
    (row,) = ras.Networks([({"task": 0, "id": "c1", "env": env}, [os.getpid()])], asked).rows(60.0)
    assert [text for _, text in row["ras"][0]] == [REPORT] * 2


def talk() -> str:
    """The program that is sent into containers."""
    return Path(ras_talk.__file__).read_text("utf-8")


@pytest.mark.parametrize(
    "program", ["print('{}')", "print('[')", "import sys; sys.exit(1)", "import time; time.sleep(99)"]
)
def test_a_container_without_an_answer(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Python in it, or one that says something else, or nothing."""
    monkeypatch.setattr(ras, "START_SECONDS", 0.3)
    asked = {"ras": 0.2, "engine": ["sh", "-c", 'shift 3; exec "$@"', "engine"], "ras_talk": program}
    assert ras.samples_inside(asked, "c1", "localhost", 1) == []
    assert ras.samples_inside(asked | {"engine": ["/nowhere"]}, "c1", "localhost", 1) == []


def test_the_program_for_containers_answers_in_one_line(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """As JSON."""
    monkeypatch.setattr("sys.argv", ["-", "localhost", str(serve().port), "5"])
    monkeypatch.setattr(ras_talk.signal, "alarm", lambda _: None)
    ras_talk.main()
    assert [text for _, text in json.loads(capsys.readouterr().out)] == [REPORT] * 2
