"""`run`, `attach` and `wait` for programs: exactly one `result` with the exit code and the reason, however they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.runs.lines.events import RankChanged, RunEnded, RunOpened
from distui.runs.store.journal import Journal
from distui.runs.store.runs import RunStore

JOB = {"version": 1, "name": "j", "image": "img:1", "command": ["true"]}


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port where somebody listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def hosts(home: Path, monkeypatch: pytest.MonkeyPatch, silent: socket.socket) -> Path:
    """A folder with a job, and an inventory of a host that never answers and one that refuses."""
    folder = home / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing = closed.getsockname()[1]
    output = {
        "mute": {"addr": "127.0.0.1", "port": silent.getsockname()[1]},
        "shut": {"addr": "127.0.0.1", "port": refusing},
    }
    (folder / "hosts.yaml").write_text(json.dumps({"version": 1, "hosts": output}))
    (folder / "job.yaml").write_text(json.dumps(JOB))
    return folder


def the_result(output: str, stdout: str) -> dict[str, Any]:
    """The one result there is, with the errors said before it."""
    if output == "json":
        return dict(json.loads(stdout))
    events = [json.loads(line) for line in stdout.splitlines()]
    assert [e["type"] for e in events].count("result") == 1
    assert events[-1]["type"] == "result"
    return {**events[-1], "errors": [e["text"] for e in events if e["type"] == "notice"]}


@pytest.mark.parametrize("output", ["json", "ndjson"])
@pytest.mark.parametrize(
    ("words", "code", "state", "reason"),
    [
        (("run", "none.yaml"), 2, "launch_failed", "no such file"),
        (("run", "job.yaml", "-H", "nobody"), 2, "launch_failed", "nobody"),
        (("run", "job.yaml", "-H", "shut", "-y"), 4, "launch_failed", "shut"),
        (("run", "job.yaml", "-H", "mute", "-y", "--timeout", "0.3"), 124, "launch_failed", "--timeout"),
        (("run", "job.yaml", "-H", "shut", "--readonly"), 2, "launch_failed", "read-only"),
        (("run", "job.yaml", "--set", "nothing=1"), 2, "launch_failed", "nothing"),
        (("attach", "none", "-H", "shut"), 6, "unknown", "not reached"),
        (("wait", "none", "-H", "shut"), 6, "unknown", "not reached"),
        (("wait", "../x"), 2, "unknown", "is not a run's name"),
    ],
)
def test_what_fails_before_there_is_a_run(
    cli: Any, hosts: Path, output: str, words: tuple[str, ...], code: int, state: str, reason: str
) -> None:
    """The exit code of the program, the state, and why."""
    done = cli(*words, "-o", output, *(() if words[0] == "wait" else ("--headless",)))
    assert done.code == code, done.err
    result = the_result(output, done.out)
    assert (result["exit"], result["state"]) == (code, state)
    assert reason in " ".join(result["errors"])


@pytest.mark.parametrize("output", ["json", "ndjson"])
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("run", "job.yaml", "--wrong"), "--wrong"),
        (("run", "job.yaml", "--headless=yes"), "--headless"),
        (("run", "job.yaml", "--rank", "first"), "--rank"),
        (("run", "job.yaml", "--diff", "r1"), "--dry-run"),
        (("run",), "no job or command"),
        (("attach",), "RUN"),
        (("attach", "r1", "--", "x"), "--"),
        (("wait", "r1", "r2"), "r2"),
        (("wait", "r1", "--for", "ever"), "--for"),
        (("wait", "r1", "--timeout", "soon"), "--timeout"),
        (("wait", "r1", "--config", "none.yaml"), "no such config file"),
        (("wait", "r1", "--config", "bad.yaml"), "outpt"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_what_fails_before_the_verb_begins(
    cli: Any, hosts: Path, output: str, words: tuple[str, ...], reason: str, before: bool
) -> None:
    """Wherever the form of output stands, as a flag of its own or among others."""
    Path("bad.yaml").write_text("outpt: 1\n")
    flags = ("-qo", output)
    done = cli(*flags, *words) if before else cli(words[0], *flags, *words[1:])
    assert done.code == 2, done.err
    result = the_result(output, done.out)
    assert (result["exit"], result["state"]) == (2, "launch_failed" if words[0] == "run" else "unknown")
    assert reason in " ".join(result["errors"])
    assert result["run"] == ("r1" if "r1" in words and words[0] != "run" else "")


@pytest.mark.parametrize("output", ["json", "ndjson"])
def test_the_form_may_be_asked_for_by_a_variable_or_a_file(
    cli: Any, hosts: Path, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where something else in that file is wrong, or in the one that counts less."""
    Path("wrong.yaml").write_text(f"output: {output}\nparallel: none\n")
    assert the_result(output, cli("wait", "r1", "--config", "wrong.yaml").out)["exit"] == 2
    own = hosts.parent / ".config/distui/config.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("no: yaml: at all\n")
    Path("distui.yaml").write_text(f"output: {output}\n")
    assert the_result(output, cli("wait", "r1").out)["exit"] == 2
    Path("distui.yaml").unlink()
    own.unlink()
    monkeypatch.setenv("DISTUI_OUTPUT", output)
    monkeypatch.setenv("DISTUI_TIMEOUT", "soon")
    assert "DISTUI_TIMEOUT" in the_result(output, cli("run", "job.yaml").out)["errors"][0]
    assert cli("run", "job.yaml", "-o", "table").out == ""


@pytest.mark.parametrize(
    "words", [("ps", "--wrong"), ("run", "job.yaml", "--dry-run", "--wrong"), ("-H", "run", "ps", "--wrong"), ("runn",)]
)
def test_a_call_that_promises_none_gives_none(cli: Any, hosts: Path, words: tuple[str, ...]) -> None:
    """Other verbs, though a word is called as one of the three; a plan."""
    done = cli(*words, "--json")
    assert (done.code, done.out) == (2, "")
    assert "Usage" in cli("run", "--json", "--help").out


@pytest.mark.parametrize("words", [("run", "job.yaml"), ("wait", "r1")])
def test_ctrl_c_before_the_command_line_is_read(
    cli: Any, hosts: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """While modules are loaded."""
    from distui.cli import app

    build, calls = app.build, []

    def interrupted() -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return build()

    monkeypatch.setattr(app, "build", interrupted)
    done = cli(*words, "--json")
    assert (done.code, the_result("json", done.out)["exit"]) == (130, 130)


def test_a_folder_that_is_gone_is_no_bug(cli: Any, hosts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = hosts / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = cli("run", "job.yaml", "--json")
    assert done.code == 2
    assert "current folder" in the_result("json", done.out)["errors"][0]


def raises(error: Exception, cause: BaseException | None = None) -> None:
    raise error from cause


@pytest.mark.parametrize(
    ("ends", "code", "reason"),
    [
        (lambda: signal.raise_signal(signal.SIGINT), 130, "interrupted"),
        (lambda: signal.raise_signal(signal.SIGTERM), 143, "terminated"),
        (lambda: raises(RecursionError()), 70, "RecursionError"),
        (lambda: raises(MemoryError()), 70, "MemoryError"),
        (lambda: raises(RuntimeError(), KeyboardInterrupt()), 130, "interrupted"),
    ],
)
def test_what_ends_a_call_while_its_settings_are_read(
    cli: Any, hosts: Path, monkeypatch: pytest.MonkeyPatch, ends: Any, code: int, reason: str
) -> None:
    """A signal, or a bug: still one result. SIGTERM has its own meaning again afterwards."""
    from distui.cli import settings

    monkeypatch.setattr(settings, "settings_of", lambda ctx: ends())
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the tests have their own
    try:
        done = cli("run", "job.yaml", "-o", "ndjson")
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    result = the_result("ndjson", done.out)
    assert (done.code, result["exit"]) == (code, code)
    assert reason in result["errors"][0]


@pytest.mark.parametrize("output", ["json", "ndjson"])
@pytest.mark.parametrize("verb", ["attach", "wait"])
def test_a_run_that_has_ended_gives_its_own_result(cli: Any, home: Path, output: str, verb: str) -> None:
    stored = RunStore(home / ".local/state/distui").create("r1")
    journal = Journal(stored)
    journal.write(
        [RunOpened(1.0, "r1", "j", "env", None, {0: "h0"}, {0: (0,)}), RankChanged(2.0, 0, "h0", "exited", 3)]
    )
    journal.write([RunEnded(9.0, "failed", 1, took=8.0)])
    journal.close()
    (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h0: {}\n")
    done = cli(verb, "r1", "-o", output, "-i", str(home / "hosts.yaml"))
    result = the_result(output, done.out)
    assert (done.code, result["exit"], result["state"], result["took_s"]) == (1, 1, "failed", 8.0)


@pytest.mark.parametrize("output", ["json", "ndjson"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_while_hosts_are_asked(
    hosts: Path, silent: socket.socket, output: str, number: signal.Signals, code: int
) -> None:
    """Nothing was started: `stopped`, with the signal's exit code."""
    argv = [sys.executable, "-m", "distui.cli.main", "run", "job.yaml", "-H", "mute", "--headless", "-y", "-o", output]
    path = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(argv, stdout=-1, stderr=-1, text=True, env={**os.environ, **path}) as program:
        silent.settimeout(60)
        connection, _ = silent.accept()  # it asks
        program.send_signal(number)
        out, err = program.communicate(timeout=60)
        connection.close()
    result = the_result(output, out)
    assert (program.returncode, result["exit"], result["state"]) == (code, code, "stopped"), err


SIGNALLED = """
import os, signal, sys
from distui.cli.main import main
from distui.cli.runs import launching

def record(*args, write=launching.record):
    stored = write(*args)
    os.kill(os.getpid(), signal.{})
    return stored

launching.record = record
sys.exit(main(["run", "j.yaml", "--headless", "-y", "-H", "demo1", "--name", "r1", "-o", "json"]))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_as_a_run_is_recorded(cli: Any, demo_home: Path, name: str) -> None:
    """Before the run's own handlers are there: the record of what was not begun has an end."""
    Path("j.yaml").write_text("version: 1\nname: j\ncommand: [sleep, '1000']\nlauncher: env\ngpus_per_host: 0\n")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    argv = [sys.executable, "-c", SIGNALLED.format(name)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60, check=False)
    code = 130 if name == "SIGINT" else 143
    assert (done.returncode, the_result("json", done.stdout)["exit"]) == (code, code), done.stderr
    (row,) = json.loads(cli("ps", "-a", "--json").out)["runs"]
    assert (row["run"], row["state"], row["exit"]) == ("r1", "stopped", code)
