"""Launches that put code on one host at the same moment, with this machine's python as the host."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from distui.agent.code import Make, clean
from distui.agent.code_store import Store
from distui.errors import HostCommandError
from distui.plan.content.code import store as store_of
from distui.plan.model import CodePlan
from distui.runs.code import call
from distui.runs.code.call import Gone
from distui.runs.code.ignore import Ignored
from distui.runs.code.scan import scan
from distui.runs.code.send import CodeSender
from distui.runs.code.source import CodeSource
from distui.runs.hosts.link import HostLink


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
        await self.process.stdin.drain()

    async def write_eof(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stderr_tail(self) -> bytes:
        return b""

    async def wait(self) -> int:
        return await self.process.wait()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class Here:
    """Session and Connector in one; `opened` programs so far."""

    host = "h1"
    opened = 0

    async def connect(self, host: str) -> Here:
        return self

    async def open(self, argv: Sequence[str]) -> Channel:
        self.opened += 1
        return Channel(await asyncio.create_subprocess_exec(*argv, stdin=-1, stdout=-1))

    async def close(self) -> None:
        pass


def source_of(root: Path, **files: str) -> CodeSource:
    """A folder with these modules as what a job's code is."""
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)
    tree = scan(root, Ignored()).tree
    return CodeSource(CodePlan("./", tree.id, len(tree.files), tree.size, "/work", "ro"), tree, root)


def run_dir(home: Path, name: str) -> Path:
    folder = home / ".local/state/distui/hosts/h1" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def sender(here: Any, home: Path, source: CodeSource, run: str) -> CodeSender:
    link = HostLink(here, "h1", session=here)
    return CodeSender(link, source, home=str(home), run_dir=str(run_dir(home, run)), contained=True, give_up=5)


async def give(here: Any, home: Path, source: CodeSource, run: str) -> None:
    one = sender(here, home, source, run)
    await one.ask()
    await one.send()
    await one.close()


async def test_a_file_whose_tree_another_launch_removes_is_sent_after_all(tmp_path: Path) -> None:
    """It was there when the host said what it lacks: asked again, it wants that, too."""
    here, store = Here(), Path(store_of(str(tmp_path)))
    old = source_of(tmp_path / "old", same="x = 1\n", other="1\n")
    new = source_of(tmp_path / "new", same="x = 1\n", other="2\n")
    await give(here, tmp_path, old, "r1")
    one = sender(here, tmp_path, new, "r2")
    assert await one.ask() == 2
    shutil.rmtree(store / old.tree.id)
    assert (await one.send()).files == 2
    await one.close()
    assert scan(store / new.tree.id / "tree", Ignored()).tree == new.tree


async def test_trees_that_go_each_time_are_named_as_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked three times, and nothing half made stays."""
    here, store = Here(), Path(store_of(str(tmp_path)))
    old = source_of(tmp_path / "old", same="x = 1\n", other="1\n")
    one = sender(here, tmp_path, source_of(tmp_path / "new", same="x = 1\n", other="2\n"), "r2")
    ask = one._ask

    async def ask_and_lose() -> None:
        await give(here, tmp_path, old, "r1")
        await ask()
        shutil.rmtree(store / old.tree.id)

    monkeypatch.setattr(one, "_ask", ask_and_lose)
    with pytest.raises(Gone, match="h1: other launches remove the code there"):
        await one.send()
    await one.close()
    assert (here.opened, names(store)) == (6, {".lock"})


async def test_a_host_that_takes_nothing_more_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose home is on a file server that hangs; what is half made there goes."""
    one = sender(Here(), tmp_path, source_of(tmp_path / "new", a="1\n"), "r1")
    await one.ask()

    async def hang(channel: Channel, data: bytes) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Channel, "write", hang)
    monkeypatch.setattr(call, "ANSWER_SECONDS", 0.0)
    with pytest.raises(HostCommandError, match=r"h1: the code was not taken within 0 s"):
        async with asyncio.timeout(60):
            await one.send()
    await one.close()
    assert names(Path(store_of(str(tmp_path)))) <= {".lock"}


def test_the_store_stays_while_a_tree_is_on_its_way(tmp_path: Path) -> None:
    """A launch has named it, and is being sent its files."""
    store = Store(os.fsencode(store_of(str(tmp_path))))
    store.open()
    run = run_dir(tmp_path, "r1")
    (run / "code-tree").write_text("abc")
    assert clean(store, 0)["trees"] == 0
    assert Path(os.fsdecode(store.root)).is_dir()
    shutil.rmtree(run)
    clean(store, 0)
    assert not Path(os.fsdecode(store.root)).exists()


@pytest.mark.parametrize("whole", [True, False])
def test_a_tree_that_another_host_of_a_shared_home_has_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """Where locks hold for each host alone both make it at once: the one that is there will do if it is whole."""
    source = source_of(tmp_path / "code", train="1\n")
    root = Path(store_of(str(tmp_path)))
    store = Store(os.fsencode(root))
    store.open()
    request = {"tree": source.tree.id, "run_dir": str(run_dir(tmp_path, "r1")), "copy": "", "keep": 4}
    made = Make(store, request, io.BytesIO(b"1\n"))
    made.entries = [[e.path, e.kind, e.executable, e.size, e.sha256, e.target] for e in source.tree.entries]
    rename = os.rename

    def late(old: bytes, new: bytes) -> None:
        shutil.copytree(old, new)
        if not whole:
            (root / source.tree.id / "tree/train.py").unlink()
        rename(old, new)

    monkeypatch.setattr(os, "rename", late)
    if whole:
        made.make(made.entries)
        assert store.intact(source.tree.id)
    else:
        with pytest.raises(OSError, match="not empty") as caught:
            made.make(made.entries)
        assert caught.value.errno == errno.ENOTEMPTY
    assert names(root) == {".lock", source.tree.id}
