"""What must never be in the code, and what the small shell on a host's side does with a trap laid for it."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.cli import wiring
from distui.cli.actions import ps
from distui.cli.crash import report
from distui.files import open_private, write_private
from distui.remote.putting import put_argv
from distui.runs.follow.survived import SURVIVED

ROOT = Path(__file__).parents[2]
CANARY = "canary-5e1f-hunter2"


@pytest.fixture(scope="module")
def calls() -> list[tuple[str, ast.Call]]:
    """Every call in what runs on the user's machine, with its place."""
    return list(all_calls())


def all_calls() -> Iterator[tuple[str, ast.Call]]:
    for room in ("distui", "remote", "tui"):
        for path in (ROOT / room).rglob("*.py"):
            if "agent" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def constant(call: ast.Call, name: str) -> object:
    """The constant given for a keyword; the call itself when it is none."""
    return next((k.value.value for k in call.keywords if k.arg == name and isinstance(k.value, ast.Constant)), call)


def dotted(node: ast.expr) -> str:
    """A name with its dots, as `os.system`; "" for what is no such name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


Calls = list[tuple[str, ast.Call]]


def test_host_keys_are_never_left_unchecked(calls: Calls) -> None:
    """`known_hosts=None` switches asyncssh's check off; there is no such call, and no such option for ssh."""
    assert [place for place, call in calls if constant(call, "known_hosts") is None] == []
    texts = [path.read_text() for room in ("distui", "remote", "tui") for path in (ROOT / room).rglob("*.py")]
    assert not any("StrictHostKeyChecking=no" in text or "StrictHostKeyChecking no" in text for text in texts)


def test_no_text_becomes_code(calls: Calls) -> None:
    """No shell is given a composed line; no pickle, no eval, no YAML that makes objects (`yaml` in tui is a pane).

    `frozen.py` compiles what `dataclasses` would: names of fields, as they are written in distui's own classes.
    """
    bad = {"eval", "exec", "os.system", "os.popen", "pickle.load", "pickle.loads", "yaml.load", "yaml.unsafe_load"}
    found = [(place, name) for place, call in calls if (name := dotted(call.func)) in bad]
    known = {("tui/", "yaml.load"), ("distui/frozen.py", "exec")}
    assert [one for one in found if not any(one[0].startswith(at) and one[1] == name for at, name in known)] == []
    assert [place for place, call in calls if constant(call, "shell") is True] == []


def put(path: str, data: bytes, nonce: str) -> subprocess.CompletedProcess[bytes]:
    """The command that distui runs on a host, run here with the loosest umask."""
    argv = put_argv(path, len(data), 0o600, nonce)
    return subprocess.run(("sh", "-c", 'umask 0; exec "$@"', "sh", *argv), input=data, capture_output=True)


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """Somebody who guessed the temporary name gets nothing written where the link points; the put fails."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".distui-5e1f").symlink_to(victim)

    assert put(str(tmp_path / "env-0"), CANARY.encode(), "5e1f").returncode != 0
    assert victim.read_text() == "mine"
    assert not (tmp_path / "env-0").exists()


def test_env_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    """0600 in folders that are 0700."""
    assert put(str(tmp_path / "a/b/env-0"), b"A=1\n", "5e1f").returncode == 0
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/env-0")]
    assert modes == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("loose", [0, 0o022])
def test_files_of_a_run_are_private_whatever_the_umask(tmp_path: Path, loose: int) -> None:
    """Logs and journals are made 0600, not made and changed."""
    before = os.umask(loose)
    try:
        open_private(tmp_path / "log").close()
        write_private(tmp_path / "plan.json", b"{}")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("log", "plan.json")] == [0o600, 0o600]


@pytest.mark.parametrize("value", [CANARY, "/begins-with-a-slash", "it's\\n\nodd\u20ac"])
@pytest.mark.parametrize("name", ["HF_TOKEN", "DATABASE"])
def test_a_crash_file_holds_no_secret(name: str, value: str) -> None:
    """Neither from the environment, whatever its name there, nor from the command line, also when the error's own
    words have it, as it is or as Python or JSON writes it.
    """
    try:
        raise RuntimeError(f"could not send {value}", {name: value}, json.dumps(value))
    except RuntimeError as error:
        words = ["run", "job.yaml", "--set", f"env.X={CANARY}", "--", CANARY]
        text = report(error, words, {name: value, "TERM": "raise RuntimeError"})
    assert not any(form in text for form in (CANARY, value, repr(value)[1:-1], json.dumps(value)[1:-1]))
    assert "RuntimeError" in text
    assert "raise RuntimeError" in text


@pytest.mark.parametrize("survives", [False, True])
@pytest.mark.parametrize("name", ["HF_TOKEN", "PYTHONPASSWORD"])
def test_a_crash_file_holds_no_value_of_an_env_file(
    cli: Any, home: Path, monkeypatch: pytest.MonkeyPatch, name: str, survives: bool
) -> None:
    """Whatever its name, also where the environment has another value of it, or the call goes on."""
    Path("s.env").write_text(f"{name}={CANARY}\n")
    monkeypatch.setenv(name, "another-value")

    def act(settings: Any, *_: Any, **__: Any) -> int:
        if survives:
            return wiring.run_async(survived(settings))
        raise RuntimeError(f"could not send {settings.env_file[name]}", dict(settings.env_file))

    async def survived(settings: Any) -> int:
        error = RuntimeError(f"could not send {settings.env_file[name]}")
        asyncio.get_running_loop().call_exception_handler({"message": "", "exception": error, SURVIVED: "h1"})
        return 0

    monkeypatch.setattr(ps, "act", act)
    done = cli("ps", "--env-file", "s.env")
    (crash,) = (home / ".local/state/distui/crashes").iterdir()
    assert done.code == (0 if survives else 70)
    assert "could not send ***" in crash.read_text()
    assert CANARY not in crash.read_text() + done.out + done.err
