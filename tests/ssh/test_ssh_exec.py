"""A command on a real ssh host with this process's streams: live, both ways, with its exit status."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from distui.cli.runs.streams import pass_through
from distui.errors import ContactLost, SessionLost


class Ends:
    """Pipes in the place of stdin, stdout and stderr."""

    def __init__(self) -> None:
        self.stdin, self.to_stdin = os.pipe()
        self.from_stdout, self.stdout = os.pipe()
        self.from_stderr, self.stderr = os.pipe()
        self._open = {self.stdin, self.to_stdin, self.from_stdout, self.stdout, self.from_stderr, self.stderr}

    async def line(self, fd: int) -> bytes:
        """The next bytes that come out, as soon as they do."""
        return await asyncio.to_thread(os.read, fd, 65536)

    def fds(self) -> dict[str, int]:
        return {"stdin": self.stdin, "stdout": self.stdout, "stderr": self.stderr}

    def shut(self, *fds: int) -> None:
        """Close these, all without any."""
        for fd in fds or tuple(self._open):
            os.close(fd)
            self._open.discard(fd)


@pytest.fixture
async def session(farm: Any) -> AsyncIterator[Any]:
    demo = await farm.demo()
    opened = await demo.connector().connect("demo1")
    yield opened
    await opened.close()


@pytest.fixture
def ends() -> Any:
    found = Ends()
    yield found
    found.shut()


async def test_a_dialogue_over_stdin_stdout_and_stderr(session: Any, ends: Ends) -> None:
    """Each answer is seen before the next question is put: nothing is held back until the end."""
    script = 'echo ready; while read x; do echo "got $x"; echo "err $x" >&2; done; echo bye; exit 7'
    running = asyncio.create_task(pass_through(session, ("sh", "-c", script), **ends.fds()))
    assert await ends.line(ends.from_stdout) == b"ready\n"
    for word in (b"one", b"two"):
        os.write(ends.to_stdin, word + b"\n")
        assert await ends.line(ends.from_stdout) == b"got " + word + b"\n"
        assert await ends.line(ends.from_stderr) == b"err " + word + b"\n"
    assert not running.done()
    ends.shut(ends.to_stdin)
    assert await ends.line(ends.from_stdout) == b"bye\n"
    assert await running == 7


async def test_a_file_as_stdin_arrives_byte_by_byte(session: Any, ends: Ends, tmp_path: Path) -> None:
    """More than any buffer holds, with every byte there is."""
    data = bytes(range(256)) * 20_000
    (tmp_path / "in").write_bytes(data)
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        fds = {"stdin": source.fileno(), "stdout": target.fileno(), "stderr": ends.stderr}
        assert await pass_through(session, ("cat",), **fds) == 0
    assert (tmp_path / "out").read_bytes() == data


@pytest.mark.parametrize(("path", "why"), [("/", b"Is a directory"), ("/proc/self/mem", b"Input/output error")])
async def test_a_stdin_that_cannot_be_read_is_said_and_ended(session: Any, ends: Ends, path: str, why: bytes) -> None:
    """The command may wait for its end, and what it was given is not whole."""
    unreadable = os.open(path, os.O_RDONLY)
    try:
        async with asyncio.timeout(60):
            assert await pass_through(session, ("cat",), **{**ends.fds(), "stdin": unreadable}) == 0
    finally:
        os.close(unreadable)
    assert await ends.line(ends.from_stderr) == b"distui: stdin can't be read: " + why + b"\n"


async def test_a_stdin_that_is_not_open_to_be_read_is_an_empty_one(session: Any, ends: Ends) -> None:
    """`nohup` gives such a one."""
    unreadable = os.open(os.devnull, os.O_WRONLY)
    try:
        async with asyncio.timeout(60):
            assert (
                await pass_through(session, ("sh", "-c", "cat; echo end >&2"), **{**ends.fds(), "stdin": unreadable})
                == 0
            )
    finally:
        os.close(unreadable)
    assert await ends.line(ends.from_stderr) == b"end\n"


@pytest.mark.parametrize("no_stdin", [True, False])
async def test_a_command_that_reads_nothing_ends_by_itself(session: Any, ends: Ends, no_stdin: bool) -> None:
    """With a stdin that stays open and silent, and without one."""
    fds: dict[str, Any] = {**ends.fds(), "stdin": None} if no_stdin else ends.fds()
    assert await pass_through(session, ("sh", "-c", "exit 3"), **fds) == 3
    if no_stdin:
        assert await pass_through(session, ("cat",), **fds) == 0


async def test_a_flood_to_a_command_that_takes_no_more_is_no_error(session: Any, ends: Ends) -> None:
    """`yes | distui exec ... -- head -1`."""
    zeros = os.open("/dev/zero", os.O_RDONLY)
    assert await pass_through(session, ("head", "-c", "3"), **{**ends.fds(), "stdin": zeros}) == 0
    os.close(zeros)
    assert await ends.line(ends.from_stdout) == b"\0\0\0"


async def test_a_reader_that_goes_ends_the_command(session: Any, ends: Ends) -> None:
    """`distui exec ... -- yes | head`."""
    ends.shut(ends.from_stdout)
    with pytest.raises(BrokenPipeError):
        await pass_through(session, ("yes",), **ends.fds())


async def test_a_signal_is_told_as_a_shell_tells_it(session: Any, ends: Ends) -> None:
    """128 and its number."""
    assert await pass_through(session, ("sh", "-c", "kill -KILL $$"), **ends.fds()) == 137


async def test_a_connection_that_breaks_is_not_an_exit_status(session: Any, ends: Ends) -> None:
    """What runs there may go on."""
    running = asyncio.create_task(pass_through(session, ("sh", "-c", "echo up; read x"), **ends.fds()))
    assert await ends.line(ends.from_stdout) == b"up\n"
    await session.close()
    with pytest.raises((SessionLost, ContactLost)):
        await running
