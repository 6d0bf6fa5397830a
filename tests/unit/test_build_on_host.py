"""A build on a host: what three builders say, step by step, and how it ends."""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import pytest

from distui.errors import SessionLost
from distui.runs.images.build import BuildFailed, BuildProgress, build_image
from distui.runs.store.masking import NOTHING, Mask
from distui.session import Completed

CLASSIC = b"""Sending build context to Docker daemon  10.24kB\r\r
Step 1/3 : FROM lab/python:1
 ---> a08e973bd87d
Step 2/3 : RUN make
 ---> Running in 5a55272e0a85
oh no
The command '/bin/sh -c make' returned a non-zero code: 7
"""
PODMAN = b"""STEP 1/2: FROM lab/python:1
STEP 2/2: RUN make
oh no
Error: building at STEP "RUN make": while running runtime: exit status 7
"""
BUILDKIT = b"""#1 [internal] load build definition from Dockerfile
#4 [1/3] FROM docker.io/lab/python:1
#5 [build 2/3] RUN make
#6 [other 2/2] RUN slow
#5 0.251 oh no
#5 ERROR: process "/bin/sh -c make" did not complete successfully: exit code: 7
------
 > [build 2/3] RUN make:
------
"""


class Host:
    """A session on which one build runs."""

    host = "h1"

    def __init__(self, says: bytes, status: int = 0, *, hangs: bool = False, full: int = 1 << 40) -> None:
        self.says = b"4242\n" + says
        self.status = status
        self.hangs = hangs
        self.full = full
        self.got = b""
        self.ran: list[tuple[str, ...]] = []
        self.opened: tuple[str, ...] = ()
        self.closed = False
        self.said_all = asyncio.Event()

    async def open(self, argv: Sequence[str]) -> Any:
        self.opened = tuple(argv)
        return self

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        self.ran.append(tuple(argv))
        return Completed(tuple(argv), 0, b"", b"")

    async def read(self, limit: int = 65536) -> bytes:
        await asyncio.sleep(0)
        data, self.says = self.says[:7], self.says[7:]
        if not data and self.hangs:
            self.said_all.set()
            await asyncio.Event().wait()
        return data

    async def write(self, data: bytes) -> None:
        if len(self.got) >= self.full:
            raise SessionLost("h1", "ended", code="channel_ended")
        self.got += data

    async def write_eof(self) -> None:
        pass

    async def wait(self) -> int:
        return self.status

    async def close(self) -> None:
        self.closed = True


def context(data: bytes = b"the archive") -> IO[bytes]:
    """A file to read from at any place."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.flush()
    return file


async def build(host: Host, mask: Mask = NOTHING) -> tuple[list[str], bytes]:
    """The steps told, and the log."""
    steps: list[str] = []

    async def on_step(step: str) -> None:
        steps.append(step)

    log = io.BytesIO()
    with context() as file:
        await build_image(host, ("docker", "build", "-"), file, BuildProgress(log, on_step, mask))  # type: ignore[arg-type]
    return steps, log.getvalue()


async def test_a_build_that_succeeds() -> None:
    """All of the context arrives, each step is told, the log has every byte but our own first line."""
    host = Host(CLASSIC)
    steps, log = await build(host)
    assert steps == ["step 1/3: FROM lab/python:1", "step 2/3: RUN make"]
    assert (log, host.got, host.closed, host.ran) == (CLASSIC, b"the archive", True, [])
    assert host.opened[-3:] == ("docker", "build", "-")


async def test_no_value_of_a_secret_is_in_the_log() -> None:
    """Nor in what a failure tells: a program may say what it was given by an argument. Reads cut it anywhere."""
    says = b"Step 1/2 : RUN curl -H hunter2-hunter2 x\ngot hunter2-hunter2\nits end hunter2-hunter2"
    steps, log = await build(Host(says), Mask({"TOKEN": "hunter2-hunter2"}))
    assert steps == ["step 1/2: RUN curl -H *** x"]
    assert log == b"Step 1/2 : RUN curl -H *** x\ngot ***\nits end ***\n"


@pytest.mark.parametrize(
    ("says", "step"),
    [
        (CLASSIC, "at step 2/3: RUN make"),
        (PODMAN, "at step 2/2: RUN make"),
        (BUILDKIT, "at step 2/3: RUN make"),
        (b"Cannot connect to the Docker daemon\n", "before the first step"),
    ],
)
async def test_a_build_that_fails(says: bytes, step: str) -> None:
    """The step that failed, also where steps ran at once, and the last lines."""
    with pytest.raises(BuildFailed) as caught:
        await build(Host(says, 1))
    assert caught.value.step == step
    assert caught.value.message == f"the build failed on h1 {step}"
    assert caught.value.lines[-1].strip() in says.decode()


async def test_a_builder_that_gives_up_early() -> None:
    """A Dockerfile that is wrong is said before all of the context was taken: that is the reason, not the pipe."""
    with pytest.raises(BuildFailed, match="before the first step") as caught:
        await build(Host(b"unknown instruction: FORM\n", 1, full=0))
    assert caught.value.lines == ("unknown instruction: FORM",)


async def test_a_build_that_is_given_up() -> None:
    """Cancelled: the process is ended by its number, since its channel alone would not end it."""
    host = Host(CLASSIC, hangs=True)
    task = asyncio.create_task(build(host))
    await host.said_all.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert host.ran == [("kill", "-TERM", "4242")]
    assert host.closed
