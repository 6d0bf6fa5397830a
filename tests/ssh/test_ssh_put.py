"""Files put on a host are there whole or not at all, private from their first byte."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from distui.errors import HostCommandError, HostError
from distui.remote.putting import put_argv
from fakehosts.interrupted import interrupt, moments


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_file_appears_with_its_folders_mode_and_bytes(farm: Any) -> None:
    """Folders that were missing are 0700, those that were there stay as they are."""
    demo = await farm.demo()
    home = farm.home / "demos" / "demo1"
    (home / "there").mkdir(mode=0o755)
    session = await demo.connector().connect("demo1")
    data = bytes(range(256)) * 1000
    await session.put("~/there/new dir/it's", data, mode=0o640)
    await session.put(f"{home}/absolute", b"", mode=0o600)
    path = home / "there" / "new dir" / "it's"
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (data, 0o640)
    assert [folder.stat().st_mode & 0o777 for folder in (path.parent, path.parent.parent)] == [0o700, 0o755]
    assert names(path.parent) == ["it's"]
    assert (home / "absolute").stat().st_mode & 0o777 == 0o600


async def test_an_older_file_is_replaced_at_once(farm: Any) -> None:
    """Its readers see the old bytes or the new ones; a link is replaced, not followed."""
    demo = await farm.demo()
    home = farm.home / "demos" / "demo1"
    (home / "target").write_bytes(b"precious")
    (home / "link").symlink_to(home / "target")
    session = await demo.connector().connect("demo1")
    await session.put("~/link", b"new")
    assert (home / "target").read_bytes() == b"precious"
    assert ((home / "link").read_bytes(), (home / "link").is_symlink()) == (b"new", False)


async def test_a_full_disk_leaves_the_old_file_and_nothing_else(farm: Any) -> None:
    """The host's words are in the error. A file size limit stands for the disk."""
    demo = await farm.demo(env={"SHELL": str(limited_shell(farm.home))})
    home = farm.home / "demos" / "demo1"
    (home / "file").write_bytes(b"old")
    session = await demo.connector().connect("demo1")
    with pytest.raises(HostCommandError, match=r"can't write ~/file: .*(too large|only a part)"):
        await session.put("~/file", b"x" * 200_000)
    assert ((home / "file").read_bytes(), names(home)) == (b"old", ["file"])


def limited_shell(folder: Path) -> Path:
    """A login shell under which no file can grow beyond a few KiB."""
    path = folder / "limited"
    path.write_text("#!/bin/sh\ntrap '' XFSZ\nulimit -f 8\nexec /bin/sh \"$@\"\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("~", "folder"),
        ("~/dir", "is a folder"),
        ("~/file/below", "File exists|Not a directory"),
        ("/proc/x/y", "/proc"),
    ],
)
async def test_a_place_that_can_not_be_written_is_said_in_the_hosts_words(farm: Any, path: str, words: str) -> None:
    """A folder in the way, a file where a folder should be, a file system that takes nothing."""
    demo = await farm.demo()
    home = farm.home / "demos" / "demo1"
    (home / "dir").mkdir()
    (home / "file").write_bytes(b"")
    session = await demo.connector().connect("demo1")
    with pytest.raises(HostCommandError, match=words):
        await session.put(path.replace("~", str(home)) if path == "~" else path, b"x")
    assert names(home) == ["dir", "file"]
    assert names(home / "dir") == []


async def test_a_connection_that_breaks_half_way_leaves_nothing(farm: Any) -> None:
    """The end of the connection is not the end of the file."""
    demo = await farm.demo(env={"SHELL": str(slow_shell(farm.home))})
    home = farm.home / "demos" / "demo1"
    session = await demo.connector().connect("demo1")
    putting = asyncio.ensure_future(session.put("~/file", b"x" * 8_000_000))
    while not (home / "started").exists():  # noqa: ASYNC110 - made by another process
        await asyncio.sleep(0.01)
    demo.hosts["demo1"].drop()
    with pytest.raises(HostError):
        await putting
    await demo.close()
    assert names(home) == ["started"]


def test_signals_at_any_moment_leave_nothing(tmp_path: Path) -> None:
    """One, as when a call is given up, or two in a row: the first ends `cat`, the second must not end `rm`."""
    for number, waits in enumerate(moments(120, 0.005)):
        interrupt(put_argv(f"{tmp_path}/file", 8_000_000, 0o600, f"nonce{number}"), waits, b"")
        assert names(tmp_path) == []


def slow_shell(folder: Path) -> Path:
    """A login shell whose commands are slow to read, so that data is on the way when the connection breaks."""
    path = folder / "slow"
    path.write_text('#!/bin/sh\nif [ "$1" = -c ]; then : >started; fi\nexec /bin/sh "$@"\n')
    path.chmod(0o755)
    return path
