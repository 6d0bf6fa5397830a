"""Files that can't be written: said in words, with exit 2, and nothing half written is left behind."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distui.runs.lines.events import RankChanged, RunEnded, RunOpened
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore

WRITES = [
    "probe --save", "config init", "config init --project", "config allow token NAME example.org", "hosts add n9",
    "hosts rm n1", "hosts import hostfile more --write", "hosts import hostfile more --write -i new.yaml",
    "job new x.yaml", "doctor --bundle x.tgz", "logs r1 --save saved", "logs r1 --merge --save saved",
]  # fmt: skip
"""Calls that write a file here."""


@pytest.fixture
def lab(home: Path, fake_hosts: Callable[..., object]) -> None:
    """An inventory, one to import and a run that has ended; every host refuses connections."""
    fake_hosts()
    stored = RunStore(home / ".local/state/distui").create("r1")
    stored.rank_log(0).write_text("said\n")
    journal = Journal(stored)
    journal.write([RunOpened(1.0, "r1", "j", "env", None, {0: "n1"}, {0: (0,)})])
    journal.write([RankChanged(2.0, 0, "n1", "exited", 0), RunEnded(9.0, "succeeded", 0, took=8.0)])
    journal.close()
    Path("hosts.yaml").write_text("version: 1\nhosts: {n1: {}, n2: {}}\n")
    Path("more").write_text("n7 slots=1\n")


def files(*folders: Path) -> dict[Path, bytes]:
    """Everything in these folders."""
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def call(monkeypatch: pytest.MonkeyPatch, words: str, *, room: int = -1) -> tuple[int, str]:
    """The exit code of a call and what it said; files can grow to `room` bytes, which is what a full disk is like."""
    from distui.cli.main import main

    stderr = io.StringIO()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.StringIO())
        patch.setattr(sys, "stderr", stderr)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            return main(words.split()), stderr.getvalue()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 3])
@pytest.mark.parametrize("words", WRITES)
def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, lab: None, home: Path, words: str, room: int) -> None:
    """Every verb that writes says what it could not, and leaves all as it was; with room again it does it."""
    before = files(home, Path.cwd())
    code, said = call(monkeypatch, words, room=room)
    assert (code, "File too large" in said) == (2, True), said
    assert "written" in said or "write" in said
    after = files(home, Path.cwd())
    assert after == before, set(after) ^ set(before)
    code, said = call(monkeypatch, words)
    assert code in (0, 3), said  # 3: no host answers
    assert files(home, Path.cwd()) != before


@pytest.mark.parametrize("words", ["probe --save", "config init", "config allow token NAME example.org"])
def test_a_home_in_which_nothing_can_be_made(
    monkeypatch: pytest.MonkeyPatch, home: Path, fake_hosts: Callable[..., object], words: str
) -> None:
    """The folders above do not get in the way either."""
    fake_hosts()
    Path("hosts.yaml").write_text("version: 1\nhosts: {n1: {}}\n")
    for name in (".cache", ".local", ".config"):
        (home / name).write_text("")
    code, said = call(monkeypatch, words)
    assert (code, str(home) in said, "Not a directory" in said) == (2, True, True), said


def limited(*words: str, state: Path) -> tuple[int, str]:
    """A call in a process of its own, whose files can't grow and whose runs are recorded in `state`."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "XDG_STATE_HOME": str(state)}
    script = 'ulimit -f 0; exec "$@"'
    argv = ["sh", "-c", script, "sh", sys.executable, "-m", "distui.cli.main", *words]
    done = subprocess.run(argv, capture_output=True, text=True, env=environ, check=False)
    return done.returncode, done.stderr


def test_a_run_that_can_t_be_recorded_here(cli: Callable[..., Any], demo_home: Path, tmp_path: Path) -> None:
    """`attach` and `stop` of another's run: refused in words, and nothing of it was touched."""
    assert cli("run", "-d", "--name", "far", "-H", "demo1", "--", "sleep", "60").code == 0
    for words in (("attach", "far", "--headless"), ("stop", "far")):
        code, said = limited(*words, "-H", "demo1", state=tmp_path / "other")
        assert (code, "far: File too large; the run was not touched" in said) == (3, True), said
    assert cli("stop", "far").code == 0
