"""Who sees what while a run with a secret is on: another user of a host, and whoever gets a crash file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.runs import assert_clean, count_running, until

pytestmark = pytest.mark.cluster

REPO = Path(__file__).parents[2]
CANARY = "canary-'7c\\2-hunter2"
"""With characters that a traceback and JSON write in another way."""

CODE = "SECRET_SAUCE = 1\nimport time\nprint('trains', flush=True)\ntime.sleep(3000)\n"

LOOK = """
ps -efwww; ps auxewww
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '
places='/home /root /tmp /var/tmp /dev/shm /run /mnt'
grep -rsE -D skip '[h]unter2|[S]ECRET_SAUCE' $places
find $places -regextype posix-extended -regex '.*/([e]nv-.*|[t]rain.py|[l]aunch|[l]abels.json)' -printf 'lies at %p\\n'
true
"""
"""What somebody who is curious does: process lists, environments, every file, names of files."""

FOUND = ("hunter2", "SECRET_SAUCE", "lies at /")


@pytest.fixture
def run(lab: Any, home: Path) -> Iterator[Callable[..., Any]]:
    """Starts a run with a secret and private code, by a login that is no root; keywords are of hosts.yaml."""
    config = home / ".ssh/config"
    config.write_text(config.read_text().replace("User root", "User trainer"))
    (home / "code").mkdir()
    (home / "code/train.py").write_text(CODE)
    job = {"version": 1, "name": "own", "hosts": "h[1-2]", "image": "lab/python:1", "stop_grace": "1s", "code": "code",
           "command": ["python3", "train.py"], "secrets": ["DATABASE"]}  # fmt: skip
    (home / "job.yaml").write_text(json.dumps(job))
    programs: list[Any] = []

    def begin(*argv: str, **defaults: str) -> Any:
        hosts = {"version": 1, "defaults": defaults, "hosts": {"h[1-3]": {}}}
        (home / "hosts.yaml").write_text(json.dumps(hosts))
        words = (*(argv or ("-m", "distui.cli.main")), "run", "job.yaml", "--headless", "-y", "--name", "own")
        env = {"DATABASE": CANARY, "PYTHONPATH": str(REPO)}
        programs.append(lab.spawn(sys.executable, *words, home=home, env=env))
        return programs[-1]

    yield begin
    for program in programs:
        program.__exit__(None, None, None)
    for host in lab.hosts:
        host.exec("rm -rf /home/trainer/.local")


def curious(host: Any, user: str = "nodocker") -> list[str]:
    """What a user of the host finds of a run, by the words it would be known by."""
    seen = host.out(
        "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "sh", "-s", input=LOOK, timeout=240
    )
    return [word for word in FOUND if word in seen]


@pytest.mark.parametrize("engine", ["docker", "process"])
def test_another_user_of_a_host_finds_nothing(lab: Any, home: Path, run: Callable[..., Any], engine: str) -> None:
    """While the env file lies there, and while the ranks run: no secret, no code, not even a name of a file."""
    h1, h2 = lab.hosts[:2]
    if engine == "docker":
        h2.fault("docker-hold")
    program = run(docker=engine)
    if engine == "docker":
        until(lambda: "hunter2" in h2.out("grep -r hunter2 /home/trainer/.local || true"))
        assert curious(h2) == []
        assert curious(h2, "root") == list(FOUND)
        h2.fault("docker-fast")
    for _ in range(2):
        while "trains" not in program.stdout.readline():
            assert program.poll() is None, program.stderr.read()
    until(lambda: count_running(lab) == 2 or engine == "process")
    assert [curious(host) for host in (h1, h2)] == [[], []]
    assert curious(h1, "root") == list(FOUND)
    if engine == "docker":
        template = (
            "{{.HostConfig.Privileged}} {{.HostConfig.CapAdd}} {{.HostConfig.SecurityOpt}} {{.HostConfig.Devices}}"
        )
        assert h1.out("docker", "inspect", "-f", template, "distui-own-0") == "false [] [] []"

    stopped = lab.distui("stop", "own", "-y", home=home, env={"DATABASE": CANARY})
    assert stopped.returncode == 0, stopped.stderr
    assert lab.distui("hosts", "clean", "-y", home=home).returncode == 0
    assert_clean(lab)


BUG = """
import os, sys
from distui.cli.main import main
from distui.runs.store.logs import TaskLog

def broken(self, *lines, **more):
    raise RuntimeError("can't go on", os.environ["DATABASE"], {"env": dict(os.environ)})

assert callable(TaskLog.feed)
TaskLog.feed = broken
sys.exit(main())
"""
"""Ends at the first line that a rank prints."""


def test_a_bug_while_a_run_with_a_secret_is_on(lab: Any, home: Path, run: Callable[..., Any]) -> None:
    """The error holds the value, whose name sounds like no secret: neither the crash file nor the screen has it."""
    done = run("-c", BUG).finish()

    assert done.returncode == 6, done.stderr
    assert "may be a bug in distui (RuntimeError)" in done.stderr
    (crash,) = (home / ".local/state/distui/crashes").iterdir()
    assert "can't go on" in crash.read_text()
    assert crash.stat().st_mode & 0o777 == 0o600
    assert "hunter2" not in done.stdout + done.stderr
    assert subprocess.run(["grep", "-rl", "hunter2", str(home)], capture_output=True, text=True).stdout == ""
    assert lab.distui("stop", "own", "-y", home=home).returncode == 0
    assert lab.distui("hosts", "clean", "-y", home=home).returncode == 0
    assert_clean(lab)
