"""Values of secrets that ranks print, on every way they could get out of a real run: none gets through."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.runs import touch

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]

SECRETS = {f"TOKEN_{n}": f"canary{n:02}-5e1f-hunter2" for n in range(20)} | {"ODD": 'canary"\\é/+&=-5e1f'}
FORMS = (*SECRETS.values(), json.dumps(SECRETS["ODD"])[1:-1], repr(SECRETS["ODD"])[1:-1])

PRINTS = r"""
import json, os, sys, time
from urllib.parse import quote_plus
w = lambda text: os.write(1, text.encode())
names = [f"TOKEN_{n}" for n in range(20)] + ["ODD"]
for name in names:
    value = os.environ[name]
    w(f"{name}={value}\n")
    for part in (value[:7], value[7:], "\n"):  # a line in several writes
        w(part)
        time.sleep(0.01)
    os.write(2, f"step 1 loss {value}\n{json.dumps(value)} {value!r} {quote_plus(value)}\n".encode())
first = os.environ["TOKEN_0"]
for before in range(0, len(first) + 1, 3):  # cut by the part of a line without end
    w("x" * ((1 << 20) - before) + first + "x" * 100 + "\n")
w("said all\n")
while not os.path.exists("/tmp/go-on"):
    time.sleep(0.1)
raise SystemExit("fatal: " + os.environ["TOKEN_1"])
"""

JOB = {
    "version": 1, "name": "tells", "hosts": "h[1-2]", "image": "lab/python:1", "pull": "never", "stop_grace": "2s",
    "command": ["python3", "-c", PRINTS], "secrets": [*SECRETS],
    "progress": {"regex": r"step (?P<step>\d+) loss (?P<loss>\S+)"},
}  # fmt: skip

READ = {
    "logs": ("logs", "tells"),
    "logs by rank": ("logs", "tells", "--rank", "1", "-t", "-n", "30"),
    "logs since": ("logs", "tells", "--since", "1h"),
    "logs of stderr": ("logs", "tells", "--stderr"),
    "logs merged": ("logs", "tells", "--merge"),
    "logs with a pattern": ("logs", "tells", "--grep", "canary|TOKEN.*"),
    "logs saved": ("logs", "tells", "--save", "saved"),
    "logs saved merged": ("logs", "tells", "--merge", "--save", "saved.log"),
}
RECORDED = {
    "show": ("show", "tells"),
    "show as JSON": ("show", "tells", "--plan", "-o", "json"),
    "report": ("show", "tells", "--report"),
    "logs from here": ("logs", "tells"),
    "logs from here merged": ("logs", "tells", "--merge"),
    "ps": ("ps", "-a", "-o", "json"),
}


def leaks(said: Mapping[str, str], folder: Path) -> set[str]:
    """What of all that was printed, and which files of a folder, have a value in them."""
    words = {way for way, text in said.items() if any(form in text for form in FORMS)}
    patterns = [word for form in FORMS for word in ("-e", form)]
    files = subprocess.run(("grep", "-rlF", *patterns, str(folder)), capture_output=True, text=True).stdout
    return words | set(files.splitlines())


def followed(lab: Any, home: Path) -> str:
    """What `logs -f` prints until both ranks have said all."""
    with lab.spawn_distui("logs", "tells", "-f", home=home, env=SECRETS) as viewer:
        lines: list[str] = []
        while sum("said all" in line for line in lines) < 2:
            lines.append(viewer.stdout.readline())
            assert lines[-1], viewer.stderr.read()
        viewer.send_signal(signal.SIGINT)
        return "".join(lines) + printed(viewer.finish())


def printed(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "from another machine"])
def test_no_value_gets_out(lab: Any, home: Path, distui: Distui, tmp_path: Path, elsewhere: bool) -> None:
    """Of a detached run: read from its hosts, attached to, ended and read from the files, its plan here or not."""
    (home / "job.yaml").write_text(json.dumps(JOB))
    begun = distui("run", "job.yaml", "-d", "-y", "--name", "tells", env=SECRETS)
    assert begun.returncode == 0, begun.stderr
    place = home
    if elsewhere:
        place = lab.ssh_home(tmp_path / "other")
        (place / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    for host in lab.hosts[:2]:
        host.exec("sh", "-c", "until docker logs $(docker ps -q) 2>&1 | grep -q 'said all'; do sleep 0.1; done")

    said = {way: printed(lab.distui(*argv, home=place, env=SECRETS)) for way, argv in READ.items()}
    said["logs followed"] = followed(lab, place)
    assert all("***" in text for way, text in said.items() if "saved" not in way), said
    assert "TOKEN_3=***" in (place / "saved" / "rank-00001.log").read_text()
    assert leaks(said, place) == set()

    for host in lab.hosts[:2]:
        touch(host, *host.containers(), "/tmp/go-on")
    ended = lab.distui("attach", "tells", "-o", "ndjson", home=place, env=SECRETS)
    said = {"attach": printed(ended)}
    assert ended.returncode == 1, ended.stderr
    said |= {way: printed(lab.distui(*argv, home=place, env=SECRETS)) for way, argv in RECORDED.items()}
    assert "fatal: ***" in said["report"]
    assert leaks(said, place) == set()
    assert leaks({}, home) == set()


def test_who_does_not_know_the_values_is_warned(lab: Any, home: Path, distui: Distui, tmp_path: Path) -> None:
    """The names are in a label, the values nowhere; what was recorded without them is hidden once they are known."""
    (home / "job.yaml").write_text(json.dumps(JOB))
    assert distui("run", "job.yaml", "-d", "-y", "--name", "tells", env=SECRETS).returncode == 0
    other = lab.ssh_home(tmp_path / "other")
    (other / "hosts.yaml").write_text((home / "hosts.yaml").read_text())
    some = {name: value for name, value in SECRETS.items() if name != "TOKEN_1"}
    words = "the value of secret TOKEN_1 is not set here"
    labels = lab.host("h1").out("sh", "-c", "docker inspect -f '{{json .Config.Labels}}' $(docker ps -q)")
    assert "TOKEN_1" in labels
    assert leaks({"labels": labels}, tmp_path / "none") == set()

    assert words in lab.distui("logs", "tells", "-n", "1", home=other, env=some).stderr
    for host in lab.hosts[:2]:
        touch(host, *host.containers(), "/tmp/go-on")
    assert words in lab.distui("attach", "tells", home=other, env=some).stderr
    shown = {way: printed(lab.distui(*argv, home=other, env=SECRETS)) for way, argv in RECORDED.items()}
    assert leaks(shown, tmp_path / "none") == set()


def test_values_of_a_file_are_hidden_where_it_is_given_again(
    lab: Any, home: Path, distui: Distui, tmp_path: Path
) -> None:
    """By every verb that shows or writes lines; with another value than the run was started with it is warned."""
    (home / "job.yaml").write_text(json.dumps(JOB))
    file = tmp_path / "vars"
    file.write_text("".join(f"{name}={value}\n" for name, value in SECRETS.items()))
    given = ("--env-file", str(file))
    begun = distui("run", "job.yaml", "-d", "-y", "--name", "tells", *given)
    assert begun.returncode == 0, begun.stderr
    for host in lab.hosts[:2]:
        host.exec("sh", "-c", "until docker logs $(docker ps -q) 2>&1 | grep -q 'said all'; do sleep 0.1; done")

    other = distui("logs", "tells", "-n", "1", env={**SECRETS, "TOKEN_3": "another-value"})
    assert "the value of secret TOKEN_3 is not the one that the run was started with" in other.stderr
    assert other.stderr.count("the value of secret") == 1
    unknown = distui("logs", "tells", "-n", "1").stderr
    assert "is not set here" in unknown and "give --env-file FILE" in unknown

    said = {way: printed(distui(*READ[way], *given)) for way in ("logs since", "logs saved")}
    assert "***" in said["logs since"]
    stopped = distui("stop", "tells", "-y", *given)
    assert stopped.returncode == 0, stopped.stderr
    said |= {"stop": printed(stopped)} | {way: printed(distui(*RECORDED[way], *given)) for way in ("report", "ps")}
    assert not [text for text in said.values() if "it is not hidden" in text]
    assert "TOKEN_3=***" in next(home.rglob("runs/tells/logs/rank-00001.log")).read_text()
    assert leaks(said, home) == set()
