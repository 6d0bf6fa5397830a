"""The last line of a task, read on its host without following it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from distui.monitor.containers import last_line
from distui.plan.labels import TaskLabels
from distui.runs.hosts.discover import FoundTask
from distui.runs.store.masking import Mask
from distui.session import Completed
from distui.spec.hosts.inventory import Host

SECRET = "hunter2hunter2"


def task(engine: str, where: str) -> FoundTask:
    labels = TaskLabels("r1", 0, (0,), "h1", "j", engine=engine, secrets=("TOKEN",))
    return FoundTask("h1", where, labels, {}, True, "running")


@pytest.mark.parametrize(
    ("said", "status", "shown"),
    [
        (b"step 1\nstep 2\n", 0, "step 2"),
        (b"step 1\n 40% done", 0, "40% done"),
        (b"step 2\r\n\n", 0, "step 2"),
        (f"a\ntoken {SECRET}\n".encode(), 0, "token ***"),
        (b"\x1b[31mred\x1b[0m \xff\n", 0, "red \N{REPLACEMENT CHARACTER}"),
        (b"", 0, ""),
        (b"Error: No such container\n", 1, ""),
    ],
)
async def test_the_last_line_that_says_something(said: bytes, status: int, shown: str) -> None:
    """Also one without its end; never a secret, nor what the engine says where there is no log."""

    async def run(argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), status, said, b"")

    mask = Mask.of(("TOKEN",), {"TOKEN": SECRET})
    assert await last_line(run, Host("h1"), task("docker", "c0ffee"), mask) == shown


@pytest.mark.parametrize(
    ("engine", "where", "argv"),
    [
        ("docker", "c0ffee", ("sudo", "docker", "logs", "--tail", "3", "c0ffee")),
        ("process", "/home/a/task-0", ("tail", "-n", "3", "/home/a/task-0/log")),
    ],
)
async def test_where_it_is_read(engine: str, where: str, argv: tuple[str, ...]) -> None:
    """By the host's own engine command, both streams; of a process, its file."""
    ran: list[tuple[str, ...]] = []

    async def run(words: Sequence[str]) -> Completed:
        ran.append(tuple(words))
        return Completed(tuple(words), 0, b"", b"")

    host = Host("h1", engine_command=("sudo", "docker"))
    assert await last_line(run, host, task(engine, where), Mask({})) == ""
    assert ran == [("sh", "-c", 'exec "$@" 2>&1', "sh", *argv)]
