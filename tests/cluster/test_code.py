"""The job's code on real hosts: only changes are sent, runs keep their files, a refusal leaves hosts as they were."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.runs import touch, until

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]

JOB = """
version: 1
name: coded
hosts: %s
image: lab/python:1
code: %s
command: ["sh", "-c", %s]
stop_grace: 2s
fabric: {kind: tcp}
"""
STORE = ".local/state/distui/code"


@pytest.fixture(autouse=True)
def cleaned(lab: Any, home: Path, distui: Distui) -> Iterator[None]:
    """Code stays for the next run; the verb removes it, and then nothing of distui is on any host."""
    yield
    lab.heal()
    done = distui("hosts", "clean", "-y")
    assert done.returncode == 0, done.stderr
    assert [left for host in lab.hosts for left in host.leftovers()] == []


@pytest.fixture
def src(home: Path) -> Path:
    folder = home / "src"
    folder.mkdir()
    (folder / "word").write_text("one\n")
    (folder / "big.bin").write_bytes(os.urandom(3 << 20))
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "noise.log").write_text("x")
    return folder


@pytest.fixture
def run(home: Path, distui: Distui) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a shell script as a job with code."""

    def call(script: str, *flags: str, code: str = "./src", hosts: str = "h[1-2]") -> subprocess.CompletedProcess[str]:
        (home / "job.yaml").write_text(JOB % (hosts, code, json.dumps(script)))
        return distui("run", "job.yaml", "--headless", "-y", *flags)

    return call


@pytest.fixture
def start_slow(lab: Any, home: Path, src: Path) -> Callable[[], Any]:
    """Begin a run over a slow link to h1; it is sending code when this returns, and for a minute."""

    def begin() -> Any:
        (src / "big.bin").write_bytes(os.urandom(32 << 20))
        lab.host("h1").fault("rate", 4)
        (home / "job.yaml").write_text(JOB % ("h[1-2]", "./src", '"true"'))
        program = lab.spawn_distui("run", "job.yaml", "--headless", "-y", home=home)
        until(lambda: any(n.startswith(".new") for n in trees(lab.host("h1"))))
        return program

    return begin


def trees(host: Any, login: str = "/root") -> list[str]:
    return str(host.out("sh", "-c", f"ls -A {login}/{STORE} 2>/dev/null || true")).split()


def test_a_running_job_keeps_its_files_while_changes_are_sent(
    lab: Any, home: Path, src: Path, run: Callable[..., Any]
) -> None:
    """The second run is sent one small file, seen on the wire too; the first one goes on with what it started with."""
    h1, h2 = lab.host("h1"), lab.host("h2")
    wait = "cat word; touch /tmp/seen; while [ ! -e /tmp/go ]; do sleep 0.1; done; cat word; ls -A; cat big.bin | wc -c"
    first = run(wait, "-d", "--name", "first")
    assert first.returncode == 0, first.stderr
    assert re.search(r"sending the code: 3 files, 3\.1 MB sent to each", first.stderr), first.stderr

    (src / "word").write_text("two\n")
    before = [sum(h.bytes("eth0")) for h in (h1, h2)]
    second = run("cat word; touch new || true", "--name", "second")
    moved = [sum(h.bytes("eth0")) - b for h, b in zip((h1, h2), before, strict=True)]
    assert second.returncode == 0, second.stderr
    assert re.search(r"sending the code: 1 file, 4 B sent to each", second.stderr), second.stderr
    assert second.stdout.count("| two") == 2
    assert second.stdout.count("Read-only file system") == 2
    assert max(moved) < 1_000_000, moved

    for host in (h1, h2):
        touch(host, *host.containers("distui.run=first"), "/tmp/go")
    done = lab.distui("attach", "first", "--headless", home=home)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| one") == 4
    assert "two" not in done.stdout
    assert "noise.log" not in done.stdout
    assert done.stdout.count(f"| {3 << 20}") == 2
    for host in (h1, h2):
        inode = f"cd ~/{STORE} && ls -i */tree/big.bin | cut -d' ' -f1 | sort -u | wc -l"
        assert host.out("sh", "-c", inode) == "1"

    third = run("cat word", "--name", "third")
    assert "all hosts have it already" in third.stderr


def test_a_copy_is_thrown_away_though_root_wrote_it(lab: Any, home: Path, src: Path, run: Callable[..., Any]) -> None:
    """A login that is not root, a container that is: mode rw, with podman and its read-only mount beside."""
    config = home / ".ssh/config"
    config.write_text("Host h1\n  User trainer\n\n" + config.read_text())
    lab.host("h2").podman_image("lab/python:1")
    (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h1: {}\n  h2: {docker: podman}\n  h3: {}\n")
    writes = "mkdir -p made/deep && echo x >made/deep/file && echo wrote"
    look = "find /home/trainer/.local/state/distui/hosts 2>/dev/null || true"
    done = run(writes, code="{path: ./src, mode: rw}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| wrote") == 2
    assert lab.host("h1").out("sh", "-c", look) == ""
    done = run(f"{writes}; sleep 100", "-d", "--name", "afar", code="{path: ./src, mode: rw}")
    assert done.returncode == 0, done.stderr
    elsewhere = {"XDG_STATE_HOME": str(home / "elsewhere")}
    done = lab.distui("stop", "afar", "-y", home=home, env=elsewhere)
    assert done.returncode == 0, done.stderr
    assert lab.host("h1").out("sh", "-c", look) == ""
    assert len(trees(lab.host("h1"), "/home/trainer")) == 2  # the tree and the lock
    done = run("cat word; touch x", hosts="h2")
    assert done.returncode == 1
    assert "Read-only file system" in done.stdout


def test_one_commit_of_a_repository(lab: Any, home: Path, run: Callable[..., Any], distui: Distui) -> None:
    """A branch is resolved here to one commit, which the plan names; a ref that is none is told with the near one."""
    repo = home / "repo"
    me = ("-c", "user.name=a", "-c", "user.email=a@a")
    subprocess.run(("git", "init", "-q", "-b", "main", str(repo)), check=True)
    (repo / "word").write_text("committed\n")
    for words in (("add", "-A"), (*me, "commit", "-qm", "x")):
        subprocess.run(("git", "-C", str(repo), *words), check=True)
    commit = subprocess.check_output(("git", "-C", str(repo), "rev-parse", "HEAD"), text=True).strip()
    (repo / "word").write_text("not committed\n")

    code = f"{{git: 'file://{repo}', ref: main, to: /srv/code}}"
    done = run("pwd; cat word", code=code, hosts="h[1-3]")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| committed") == 3
    assert done.stdout.count("| /srv/code") == 3
    shown = distui("plan", "job.yaml")
    assert f"commit {commit[:12]} (main)" in shown.stdout

    wrong = run("cat word", code=code.replace("main", "mian"))
    assert wrong.returncode == 2
    assert "has no branch, tag or commit 'mian', did you mean 'main'?" in wrong.stderr


def test_five_gigabytes_are_refused_at_once(src: Path, run: Callable[..., Any]) -> None:
    """Before any host is asked: the file, its size, and what to write where."""
    os.truncate(src / "big.bin", 5 << 30)
    done = run("true")
    assert done.returncode == 2
    assert "larger than 100m (max_file): big.bin 5.4 GB" in done.stderr
    assert "write /big.bin into .distuiignore" in done.stderr
    assert "asking" not in done.stderr


@pytest.mark.parametrize(
    ("disk", "code"), [("size=2m", 3), ("size=20m,nr_inodes=40", 5)], ids=["known before", "under way"]
)
def test_a_full_disk_on_a_host(lab: Any, src: Path, run: Callable[..., Any], disk: str, code: int) -> None:
    """Host and path are named, nothing runs, nothing half-made stays on any host. Inodes can't be known before."""
    for number in range(60):
        (src / f"file{number}").write_text(f"{number}\n")
    h2 = lab.host("h2")
    h2.exec(f"mkdir -p ~/.local/state && mount -t tmpfs -o {disk} none ~/.local/state")
    try:
        done = run("true")
        left = h2.out("sh", "-c", f"cd ~/.local/state; find . -type f; ls -A ~/{STORE}")
    finally:
        h2.exec("umount ~/.local/state")
    assert done.returncode == code, done.stderr
    assert f"h2: no space for the code in /root/{STORE}" in done.stderr
    assert "NOT STARTED" in done.stderr
    assert left.split() in (["./distui/code/.lock", ".lock"], [])
    assert not any(name.startswith(".new") for host in lab.hosts for name in trees(host))


def test_a_connection_that_is_cut_while_code_is_sent(
    lab: Any, home: Path, src: Path, distui: Distui, start_slow: Callable[[], Any]
) -> None:
    """The ssh sessions die in the middle of a file: it is sent again on new ones, and one tree is all there is."""
    h1 = lab.host("h1")
    with start_slow() as program:
        h1.fault("ssh-killall")
        h1.fault("unshape")
        done = program.finish()
    assert done.returncode == 0, done.stderr
    until(lambda: len(set(trees(h1)) - {".lock"}) == 1)
    assert trees(h1) == trees(lab.host("h2"))


def test_a_stop_while_code_is_sent(lab: Any, start_slow: Callable[[], Any]) -> None:
    """Ctrl-C on a slow link: it ends soon, nothing was started and nothing half-made stays."""
    with start_slow() as program:
        program.signal_group(signal.SIGINT)
        done = program.finish()
    assert done.returncode == 130, done.stderr
    assert "stopped before anything was started" in done.stderr
    until(lambda: trees(lab.host("h1")) in ([], [".lock"]))  # what receives there learns last that nobody sends
