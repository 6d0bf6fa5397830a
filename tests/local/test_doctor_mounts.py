"""The proof of mounts: its real scripts on folders of this machine that play several hosts."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from distui.doctor.mount_check import mount_rows
from distui.doctor.mounts import _WRITE, LOOK, MountReport, Seen, prove_mounts, read_seen
from distui.errors import HostCommandError
from distui.plan.model import Mount
from distui.session import Completed
from fakehosts.interrupted import interrupt, moments


class Channel:
    """A command on this machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def read(self, limit: int = 65536) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.read(limit)

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    async def write_eof(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def wait(self) -> int:
        return await self.process.wait()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class Here:
    """A host whose home is a folder of this machine, so that `~/x` is another path on each."""

    def __init__(self, host: str, home: Path, hang: str = "", read_only: bool = False) -> None:
        self.host, self.home, self.hang, self.read_only = host, home, hang, read_only

    async def run(self, argv: Sequence[str], *, timeout: float = 60.0, **_: Any) -> Completed:
        if self.hang and self.hang in argv:
            raise HostCommandError(self.host, f"took more than {timeout:.0f} s", code="command_timeout")
        done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, env=self._env())
        out = done.stdout.replace(b"there yes", b"there no") if self.read_only else done.stdout
        return Completed(tuple(argv), done.returncode, b"Welcome!\n" + out, done.stderr)

    async def open(self, argv: Sequence[str]) -> Channel:
        pipe = asyncio.subprocess.PIPE
        return Channel(await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, env=self._env()))

    def _env(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home)}


def hosts(tmp_path: Path, *homes: str, **more: Any) -> dict[str, Any]:
    """Hosts h1, h2 ... in these folders; hosts with one folder share it."""
    for name in homes:
        (tmp_path / name / "data").mkdir(parents=True, exist_ok=True)
    return {f"h{i}": Here(f"h{i}", tmp_path / name, **more) for i, name in enumerate(homes, 1)}


DATA = Mount("d", "path", "~/data", "/data", "ro", shared=True)


async def found(sessions: dict[str, Any], mount: Mount = DATA) -> MountReport:
    """The proof; nothing of it is left afterwards."""
    report = await prove_mounts(sessions, (mount,))
    left = [p for session in sessions.values() for p in session.home.rglob(".distui-shared-*")]
    assert left == []
    return report


def said(report: MountReport) -> list[tuple[str, str]]:
    """Host and message of each problem."""
    return [(p.host, p.message.partition(":")[0]) for p in report.problems]


async def test_one_storage(tmp_path: Path) -> None:
    """A file written by the first is seen by the others, whatever else is in the folder."""
    report = await found(hosts(tmp_path, "a", "a", "a"))
    assert report == MountReport(proofs={"d": "a file written on h1 is seen on all others"})


async def test_the_host_where_it_is_another_is_named(tmp_path: Path) -> None:
    """One of three, also when it is the one that wrote the file."""
    sessions = hosts(tmp_path, "a", "b", "a")
    assert said(await found(sessions)) == [("h2", "~/data is not the same storage as on h1")]
    (tmp_path / "b/data/x").write_text("x")
    odd = hosts(tmp_path, "a", "b", "b")
    assert said(await found(odd)) == [("h1", "~/data is not the same storage as on the others")]


async def test_all_different(tmp_path: Path) -> None:
    """Empty folders that have nothing to do with each other: none is taken for the right one."""
    assert [host for host, _ in said(await found(hosts(tmp_path, "a", "b", "c")))] == ["h2", "h3"]


async def test_read_only_everywhere(tmp_path: Path) -> None:
    """Listings are compared, inode numbers too, so that a copy is told from the same storage."""
    sessions = hosts(tmp_path, "a", "a", read_only=True)
    assert (await found(sessions)).doubts[0].message == (
        "~/data is empty and can't be written: that it is one storage is not proved"
    )
    (tmp_path / "a/data/-x 'y").write_text("x")
    assert "a weaker proof" in (await found(sessions)).proofs["d"]
    copies = hosts(tmp_path, "a", "b", read_only=True)
    shutil.copy2(tmp_path / "a/data/-x 'y", tmp_path / "b/data")
    assert said(await found(copies)) == [("h2", "~/data holds other files than on h1")]


async def test_missing_and_hung(tmp_path: Path) -> None:
    """Each host where it is not there is named; one that hangs is one more, and holds up nobody."""
    sessions = hosts(tmp_path, "a", "a", "a")
    sessions["h2"] = Here("h2", tmp_path / "nobody")
    sessions["h3"] = Here("h3", tmp_path / "a", hang="distui-look")
    report = await found(sessions)
    assert [(p.host, p.message, p.hint) for p in report.problems] == [
        ("h2", "~/data is not there", "mount or copy it there, or change data.d"),
        ("h3", "can't look at ~/data: took more than 20 s", "does a network mount hang there?"),
    ]


async def test_a_host_that_goes_in_the_middle(tmp_path: Path) -> None:
    """The proof is not finished, which is said; the file is removed all the same."""
    sessions = hosts(tmp_path, "a", "a")
    sessions["h2"].hang = "distui-sees"
    assert said(await found(sessions)) == [("h2", "that ~/data is one storage could not be proved")]


async def test_a_path_of_its_own_on_each_host(tmp_path: Path) -> None:
    """Without `shared` nothing is written anywhere: it only has to be there."""
    report = await found(hosts(tmp_path, "a", "b"), Mount("d", "path", "~/data", "/data", "rw", shared=False))
    assert report == MountReport()


async def test_nfs_servers_are_reached(tmp_path: Path) -> None:
    """Each host connects to the server's port; with RDMA there is none to try."""
    sessions = hosts(tmp_path, "a", "a")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = f"addr=127.0.0.1,port={server.getsockname()[1]}"
        nfs = Mount("n", "nfs", "127.0.0.1:/x", "/n", "ro", True, port)
        assert await found(sessions, nfs) == MountReport()
        (row,) = mount_rows((nfs,), ("h1", "h2"), MountReport())
        assert [(f.verdict, f.saw) for f in row.findings] == [("ok", "is reached")] * 2
    problems = (await found(sessions, nfs)).problems
    assert [p.host for p in problems] == ["h1", "h2"]
    assert problems[0].message.startswith("can't reach NFS server 127.0.0.1 at port ")
    assert problems[0].message.endswith("Connection refused")
    assert await found(sessions, dataclasses.replace(nfs, options=f"{port},proto=rdma")) == MountReport()


async def test_rows(tmp_path: Path) -> None:
    """Doctor's rows: a verdict for each host, with what to do."""
    report = await found(hosts(tmp_path, "a", "b"))
    (row,) = mount_rows((DATA,), ("h1", "h2"), report)
    assert (row.check.title, row.verdict) == ("data d: ~/data is one storage on all hosts", "fail")
    assert [(f.host, f.verdict) for f in row.findings] == [("h1", "ok"), ("h2", "fail")]
    assert "drop `shared: true`" in row.findings[1].do


@pytest.mark.parametrize("name", ["plain", "-dash", "a b", "a'b\"c", "a\\b", "*", "ü"])
def test_looking_at_any_path(tmp_path: Path, name: str) -> None:
    """A path is an argument, never a piece of the script."""
    (tmp_path / name).mkdir()
    done = subprocess.run(
        ["sh", "-c", LOOK, "x", "one", str(tmp_path / name), "own", str(tmp_path / name / "no")], capture_output=True
    )
    there, missing = done.stdout.decode().splitlines()
    assert read_seen(there).content == "empty"
    assert missing == "missing"


@pytest.mark.parametrize(("shared", "listings"), [(False, 0), (True, 1)])
async def test_a_folder_of_a_million_files_is_hardly_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, listings: int
) -> None:
    """All its names, in order, take NFS longer than the proof may: once where they tell one storage from another."""
    calls, program = tmp_path / "calls", tmp_path / "bin" / "ls"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {calls}\nexec {shutil.which("ls")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    sessions = hosts(tmp_path, "a", "a", read_only=True)
    (tmp_path / "a/data/x").write_text("x")
    await found(sessions, dataclasses.replace(DATA, shared=shared))
    ordered = [call for call in calls.read_text().splitlines() if "-U" not in call.split()]
    assert len(ordered) == listings * len(sessions)


async def test_the_home_itself_is_looked_at_and_proved(tmp_path: Path) -> None:
    """It is there, and one storage where hosts share it."""
    home = Mount("d", "path", "~", "/data", "ro", shared=True)
    assert (await found(hosts(tmp_path, "a", "a"), home)).proofs == {"d": "a file written on h1 is seen on all others"}
    assert said(await found(hosts(tmp_path, "a", "b"), home)) == [("h2", "~ is not the same storage as on h1")]


@pytest.mark.parametrize("path", ["~x", "gone", "gone/deep", "gone/", "", "/gone/deep/"])
def test_looking_ends_at_a_path_that_is_no_whole_one(tmp_path: Path, path: str) -> None:
    """Nothing of it is there, nor is there a slash at which one would come to the root."""
    done = subprocess.run(["sh", "-c", LOOK, "x", "one", path], capture_output=True, cwd=tmp_path, timeout=20)
    assert done.stdout.split() == [b"missing"]


def test_a_line_that_findmnt_did_not_fill() -> None:
    """Sources are told with blanks escaped; an unknown one is left out of the words."""
    seen = read_seen("there yes nfs4 nas:/a\\x20b some 1-2 3-4")
    assert seen == Seen("there", True, "nfs4", "nas:/a\\x20b", "some", "1-2", "3-4")
    assert read_seen("there no ext2/ext3 ? file 1 2").words == "ext2/ext3"
    assert read_seen("hidden") == Seen("hidden")


def test_signals_at_any_moment_leave_no_file(tmp_path: Path) -> None:
    """A call that is given up gets one, or two in a row: the first ends what waits, the second must not end `rm`."""
    for waits in moments(100, 0.006):
        interrupt(("sh", "-c", _WRITE), waits, f"{tmp_path}/token\n".encode())
        assert list(tmp_path.iterdir()) == []
