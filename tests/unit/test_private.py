"""Folders of distui's: 0700 at every level whatever the umask, and refused where somebody else may have written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distui import files
from distui.runs.store.runs import RunStore, StoredRun
from distui.runs.store.saved_hosts import saved_hosts
from distui.spec.hosts.host_keys import is_engine_command

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


@pytest.mark.parametrize("words", [("config", "init"), ("config", "allow", "token", "A", "h")])
def test_every_level_is_private_under_any_umask(home: Path, words: tuple[str, ...]) -> None:
    """Also those above, which `mkdir -p -m 700` makes by the umask."""
    program = "import os, sys; os.umask(0o002); from distui.cli.main import main; sys.exit(main())"
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    subprocess.run((sys.executable, "-c", program, *words), env=env, cwd=home.parent / "work", check=True)
    made = [path for path in home.rglob("*") if path.is_dir()]
    assert made
    assert [oct(path.stat().st_mode) for path in made if path.stat().st_mode & 0o077] == []


def test_a_run_s_folder_is_private_at_every_level(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        stored = RunStore(tmp_path / "state" / "distui").create("r-1")
    finally:
        os.umask(before)
    levels = (stored.path, *stored.path.parents)[:4]
    assert [oct(path.stat().st_mode & 0o777) for path in levels] == ["0o700"] * 4


def planted(home: Path, command: list[str]) -> Path:
    """A run whose hosts.json a stranger wrote: asking its host for anything would run their command there."""
    folder = home / ".local/state/distui/runs/job-1"
    folder.mkdir(parents=True)
    host = {
        "name": "h1", "addr": "h1", "user": None, "port": None, "engine": "docker", "engine_command": command,
        "gpus": "auto", "labels": {}, "connect_timeout": 1.0, "data": {},
    }  # fmt: skip
    (folder / "hosts.json").write_text(json.dumps([host]))
    return folder


@pytest.mark.parametrize(
    ("place", "mode"), [("", 0o775), ("", 0o757), ("runs", 0o775), ("runs/job-1", 0o775), ("config", 0o777)]
)
def test_folders_that_others_may_write_to_are_refused(cli: Any, home: Path, place: str, mode: int) -> None:
    """State, runs, one run, config: nothing in them is read; the words say how to mend it."""
    folder = planted(home, ["docker"])
    state = home / ".local/state/distui"
    at = home / ".config/distui" if place == "config" else state / place
    at.mkdir(parents=True, exist_ok=True)
    at.chmod(mode)
    done = cli("show", "job-1")
    assert done.code == 2
    assert f"{at} can be written to by others (mode {mode:04o})" in done.err
    assert f"chmod -R go-w {at}" in done.err
    at.chmod(0o700)
    assert "can be written to" not in cli("show", folder.name).err


def test_what_another_login_owns_is_refused(cli: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, and a file in a folder of ours."""
    folder = planted(home, ["docker"])
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert "belongs to another login" in cli("show", "job-1").err
    if os.geteuid() == 0:
        os.chown(folder, 0, -1)
        os.chown(folder / "hosts.json", NOBODY, -1)
    with pytest.raises(files.NotOurs, match="belongs to another login"):
        files.read_bytes(folder / "hosts.json", ours=True)
    assert saved_hosts(StoredRun(folder)) == ()


@pytest.mark.parametrize(
    ("words", "ok"),
    [
        (("docker",), True),
        (("sudo", "-n", "podman"), True),
        (("/usr/bin/docker",), True),
        ((), True),
        (("process",), True),
        (("sh", "-c", "touch /tmp/x", "docker"), False),
        (("sudo", "docker"), False),
        (("./docker",), False),
        (("evil/docker",), False),
        (("docker", "-H", "tcp://evil"), False),
        (("-x/docker",), False),
    ],
)
def test_an_engine_s_command_is_one(words: tuple[str, ...], ok: bool) -> None:
    """Of what was written down in a run's folder, too: no shell and no other program."""
    assert is_engine_command(words) is ok


def test_a_recorded_host_with_another_command_is_none(home: Path) -> None:
    folder = planted(home, ["sh", "-c", "touch /tmp/x", "docker"])
    stored = RunStore(folder.parents[1]).get("job-1")
    assert stored is not None
    assert saved_hosts(stored) == ()
    (folder / "hosts.json").write_text(
        (folder / "hosts.json").read_text().replace('["sh", "-c", "touch /tmp/x", ', "[")
    )
    assert [host.engine_command for host in saved_hosts(stored)] == [("docker",)]
