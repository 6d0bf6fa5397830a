"""What a rank may print, what a job may hold and who may look on: nothing steers a terminal, a shell or a file."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.program import LIMIT
from lab.runs import assert_clean, touch, until

pytestmark = pytest.mark.cluster

REPO = Path(__file__).parents[2]
Distui = Callable[..., subprocess.CompletedProcess[str]]

BELL = b"\x07"

OUTPUT = r"""
import os, sys, time
w = lambda data: os.write(1, data)
w(b"x" * (1 << 20) + b"\n")
w(b"bar 10%\rbar 50%\rbar 100%\n")
w(b"\xff\xfe\xf0broken utf-8\n\xef\xbb\xbfbom\nnul \0 here\nbidi \xe2\x80\xaetxt.exe zero\xe2\x80\x8bwidth\n")
for evil in (b"\x1b]52;c;RVZJTENMSVA=\x07", b"\x1b]0;EVILTITLE\x1b\\", b"\x1bP1;2|EVILDCS\x1b\\", b"\x1b_EVILAPC\x1b\\",
             b"\x1b[?47h\x1b[2J\x1b[H", b"\x1b[31mred\x1b[0m", b"\x9b6n", b"\x1bc", b"\x07\x08\x0e"):
    w(b"evil " + evil + b" line\n")
w(b"\0distui helper 1 0000\n" + b"\xff\xff\xff\xff\0\1D\0\n" + b"\1\0\0\0\0\0\0\x272026-11-21T02:35:34.123456789Z a\n")
w(b'{"type": "result", "state": "succeeded"}\n2026-11-21T02:35:34.123456789Z stdout F a\n[default0]:0: a\n')
w(b"last words\nno newline \x1b]0;EVILEND")
"""

EVIL = (b"EVIL", b"RVZJTENMSVA")
"""What stands inside the sequences: not even that reaches a terminal."""

JOB = {"version": 1, "name": "hostile", "hosts": "h[1-2]", "image": "lab/python:1", "pull": "never", "stop_grace": "2s"}


def write(home: Path, *command: str, **more: Any) -> None:
    (home / "job.yaml").write_text(json.dumps(JOB | {"command": list(command)} | more))


def log_of(home: Path, run: str, rank: int) -> bytes:
    return (home / f".local/state/distui/runs/{run}/logs/rank-0000{rank}.log").read_bytes()


def as_docker_has_it(host: Any, container: str) -> bytes:
    """The container's log, decoded from Docker's own file."""
    path = host.out("docker", "inspect", "-f", "{{.LogPath}}", container)
    script = f"import json\nfor line in open({path!r}): print(json.loads(line)['log'].encode().hex())"
    return b"".join(map(bytes.fromhex, host.out("/usr/bin/python3", "-c", script).split()))


@contextlib.contextmanager
def terminal(lab: Any, home: Path, *args: str, **env: str) -> Iterator[tuple[Any, bytearray, int]]:
    """distui on a terminal of its own, and every byte it writes there."""
    master, slave = pty.openpty()
    output = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(REPO), "LANG": "C.UTF-8"} | env
    argv = lab.command(sys.executable, "-m", "distui.cli.main", *args)
    program = subprocess.Popen(
        argv,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=home,
        env=output | {"TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(slave)
    seen = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(master, 65536):
                seen.extend(data)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield program, seen, master
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        reader.join(60)
        os.close(master)


def test_hostile_output_is_stored_as_it_is_and_never_steers_a_terminal(lab: Any, home: Path, distui: Distui) -> None:
    """Files hold what Docker holds, byte for byte; a terminal gets text and colours, by `run` and by `logs`."""
    write(home, "python3", "-u", "-c", OUTPUT)
    with terminal(lab, home, "run", "job.yaml", "--headless", "-y", "--keep", "--name", "odd") as (program, seen, _):
        program.wait(LIMIT)
    with terminal(lab, home, "logs", "odd") as (program, printed, _):
        program.wait(LIMIT)
    for rank in range(2):
        stored = log_of(home, "odd", rank)
        assert stored == as_docker_has_it(lab.host(f"h{rank + 1}"), f"distui-odd-{rank}")
        assert stored.count(b"\n") > 20
        assert stored.endswith(b"no newline \x1b]0;EVILEND")
    assert bytes(seen).count(BELL) == 1, "distui's own, for the end of the run"
    for shown in (bytes(seen).replace(BELL, b""), bytes(printed)):
        text = re.sub(rb"\x1b\[[0-9;]*m", b"", shown)
        assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text.replace(b"\r\n", b"\n")), shown[-2000:]
        assert not any(evil in text for evil in EVIL)
        assert b"last words" in text
        assert b"bar 100%" in text
        assert b"bar 50%" not in text
        assert "bidi \ufffdtxt.exe zero\ufffdwidth".encode() in text
    assert distui("stop", "odd", "-y").returncode == 0
    assert_clean(lab)


def test_the_terminal_ui_shows_hostile_output_as_text(lab: Any, home: Path, distui: Distui) -> None:
    """Of all sequences in it not one byte is written to the terminal, nor what stands inside of them."""
    last = "\nw(b'\\nshown by rank ' + os.environ['RANK'].encode() + b'\\n')\ntime.sleep(600)\n"
    write(home, "python3", "-u", "-c", OUTPUT + last)
    with terminal(lab, home, "run", "job.yaml", "-y", "--name", "odd") as (_, seen, master):
        until(lambda: b"shown by rank 0" in seen)
        os.write(master, b"?")
        until(lambda: b"a key or an action" in seen)  # the help: what was painted of the rank before is all here
    text = bytes(seen)
    assert b"evil" in text
    assert not any(evil in text for evil in EVIL)
    assert b"\x1b]52;" not in text
    assert b"\x1b[?47h" not in text
    assert b"\x1bc" not in text
    assert distui("stop", "odd", "-y").returncode == 0
    assert_clean(lab)


FLOOD = r"""
import os, sys
if os.environ["RANK"] == "0":
    for _ in range(100): os.write(1, b"y" * (1 << 20))
else:
    for _ in range(5): os.write(2, b"e" * 1023 * 1024 + b"\n")
    out = b"".join(b"n %d\n" % i for i in range(200000))
    while out: out = out[os.write(1, out[:65536]):]
"""


def test_floods_fill_files_and_no_memory(lab: Any, home: Path) -> None:
    """100 MB without a newline beside 5 MB to stderr and 200,000 lines: complete, in bounded memory."""
    write(home, "python3", "-c", FLOOD)
    with lab.spawn_distui(
        "run", "job.yaml", "--headless", "-y", "--log-to", "none", "--name", "flood", home=home
    ) as run:
        most = 0
        while run.poll() is None:
            with contextlib.suppress(OSError):
                peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{run.pid}/status").read_text())
                most = max(most, int(peak[1]) if peak else 0)  # one that has just ended has none
            select.select([], [], [], 0.2)
        done = run.finish()

    assert done.returncode == 0, done.stderr
    assert log_of(home, "flood", 0) == b"y" * (100 << 20)
    lines = log_of(home, "flood", 1).splitlines()
    assert [line for line in lines if line.startswith(b"n")] == [b"n %d" % i for i in range(200_000)]
    assert sum(len(line) for line in lines if line.startswith(b"e")) == 5 * 1023 * 1024
    assert most < 400_000, f"{most} kB"
    assert_clean(lab)


def test_an_admin_s_log_settings_lose_nothing(lab: Any, home: Path, distui: Distui) -> None:
    """daemon.json with rotation, compression and non-blocking writes, or another driver: ours say their own."""
    rotating = ("max-size=10k", "max-file=3", "compress=true", "mode=non-blocking")
    lab.host("h1").fault("docker-log-opts", "json-file", *rotating)
    lab.host("h2").fault("docker-log-opts", "local", "max-size=10k")
    write(home, "sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo n $i; i=$((i+1)); done")
    done = distui("run", "job.yaml", "--headless", "-y", "--log-to", "none", "--name", "rot")

    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert log_of(home, "rot", rank).splitlines() == [b"n %d" % i for i in range(20_000)]
    assert "rotated" not in done.stderr
    assert_clean(lab)


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_log_emptied_on_the_host_loses_nothing_that_was_had(lab: Any, home: Path, cut_off: bool) -> None:
    """logrotate's copytruncate empties Docker's file under us; with a lost connection just then, the gap is told.

    While it is emptied the rank says nothing: a line that Docker itself has not read by then is nobody's to keep.
    """
    loop = "i=0; while [ $i -lt 300 ]; do echo n $i; i=$((i+1)); [ $i -ne 61 ] || until [ -e /go ]; do sleep 0.1; done"
    loop += "; [ $i -ne 299 ] || until [ -e /end ]; do sleep 0.1; done"  # so that the cut comes before the end
    write(home, "sh", "-c", f"{loop}; sleep 0.02; done")
    with lab.spawn_distui("run", "job.yaml", "--headless", "-y", "--name", "cut", home=home) as run:
        for line in run.stdout:
            if "h2 | n 60" in line:
                break
        host = lab.host("h2")
        if cut_off:  # nobody reads until it has been emptied
            run.signal_group(signal.SIGSTOP)
            host.fault("ssh-killall")
        host.exec("truncate", "-s0", host.out("docker", "inspect", "-f", "{{.LogPath}}", "distui-cut-1"))
        touch(lab.host("h1"), "distui-cut-0", "/go")
        touch(host, "distui-cut-1", "/go")
        if cut_off:
            run.signal_group(signal.SIGCONT)
        touch(lab.host("h1"), "distui-cut-0", "/end")
        touch(host, "distui-cut-1", "/end")
        done = run.finish()

    assert done.returncode == 0, done.stderr
    had = log_of(home, "cut", 1).splitlines()
    assert had[:60] == [b"n %d" % i for i in range(60)]
    assert had == sorted(set(had), key=lambda line: int(line.split()[1]))
    assert len(had) == 300 or cut_off
    assert ("may be missing" in done.stderr) == cut_off, done.stderr
    assert_clean(lab)


ODD = [
    *("; touch /tmp/owned", "$(touch /tmp/owned)"),
    *("`touch /tmp/owned`", "a\nb", "-rf", "--", "'", '"', "\\", "!x", "%s"),
    *("~", "$HOME", "a b", "", "\u202eevil", "\u4e2d\xe9", "x" * 10_000, "| cat /etc/passwd", "&& exit 1", "#no", "*"),
]  # fmt: skip

PLACE = "-rf $(touch owned) `x` 'a' \"b\" %s ~ * \u202e\u4e2d\xe9"
"""A folder on the hosts, and what it is in the container."""

HEX = """
import os, sys
print("ARGV", *(word.encode().hex() or "-" for word in sys.argv[1:]))
print("ENV", os.environ["ODD"].encode().hex())
print("CWD", os.getcwd().encode().hex())
"""


@pytest.mark.parametrize("engine", ["docker", "process"])
def test_odd_words_reach_the_rank_byte_for_byte(lab: Any, home: Path, distui: Distui, engine: str) -> None:
    """Quotes, `$()`, newlines, dashes, 10,000 characters: no shell on the way sees them, whatever the engine. So in
    arguments, values, mounts, folders and labels.
    """
    value = "".join(word for word in ODD if "\n" not in word)
    there = lab.share / PLACE
    there.mkdir()
    own: dict[str, Any] = {"workdir": f"/mnt/pytorch/{PLACE}"}
    if engine == "docker":
        own = {"volumes": [f"/mnt/pytorch/{PLACE}:/w/{PLACE}"], "workdir": f"/w/{PLACE}"}
        own |= {"docker_args": ["--label", f"odd={value}"]}
    write(home, "python3", "-c", HEX, *ODD, env={"ODD": value}, **own)
    (home / "hosts.yaml").write_text(f"version: 1\nhosts:\n  h[1-3]: {{docker: {engine}}}\n")
    flags = ("--headless", "-y", "--keep", "--log-to", "none")
    done = distui("run", "job.yaml", *flags, "--name", "words")
    label = lab.host("h1").exec("docker inspect -f '{{.Config.Labels.odd}}' distui-words-0", check=False).stdout
    stopped = distui("stop", "words", "-y")
    there.rmdir()

    assert done.returncode == 0, done.stderr
    assert stopped.returncode == 0, stopped.stderr
    for rank in range(2):
        argv, env, cwd = log_of(home, "words", rank).decode().splitlines()
        assert argv == "ARGV " + " ".join(word.encode().hex() or "-" for word in ODD)
        assert env == "ENV " + value.encode().hex()
        assert cwd == "CWD " + own["workdir"].encode().hex()
    assert label == (f"{value}\n" if engine == "docker" else label)
    assert [host.exec("test -e /tmp/owned", check=False).returncode for host in lab.hosts] == [1, 1, 1]
    assert_clean(lab)


RUBBISH = r"""#!/bin/sh
while :; do printf '\033]0;EVILTITLE\007 {"x": [ 99999999999999999999 ../../x\n'; done
"""


def test_hosts_that_answer_rubbish_without_end(lab: Any, home: Path, distui: Distui) -> None:
    """An nvidia-smi and a docker that never stop, a host name that steers terminals, labels that are ways: bounded,
    told by host, nothing of it reaches the terminal, and nobody's file is touched.
    """
    h1, h2, h3 = lab.hosts
    for host, name in (h1, "nvidia-smi"), (h2, "docker"):
        script = f"mv /usr/bin/{name} /usr/bin/{name}.real; cat >/usr/bin/{name}; chmod 755 /usr/bin/{name}"
        host.exec(script, input=RUBBISH)
    named = "import socket; socket.sethostname(b'\\x1b]0;EVILTITLE\\x07')"
    h3.exec("python3", "-c", named)
    h3.exec("touch /root/precious")
    evil = {"run": "evil", "task": "0", "host": "../../../..", "job": "\x1b]0;EVILTITLE\x07", "tasks": "1"}
    evil |= {"rendezvous_file": "/root/precious", "world_size": "99999999999999999999", "rank": "0-999999999"}
    flags = [word for key, value in evil.items() for word in ("--label", f"distui.{key}={value}")]
    h3.exec("docker", "run", "-d", "--name", "stranger", *flags, "lab/python:1", "sleep", "3000")
    way = ("--label", "distui.run=../../../../root", "--label", "distui.task=0")
    h3.exec("docker", "run", "-d", "--name", "way", *way, "lab/python:1", "sleep", "3000")
    try:
        with terminal(lab, home, "probe") as (probe, seen, _):
            probe.wait(LIMIT)
        with terminal(lab, home, "ps") as (listing, printed, _):
            listing.wait(LIMIT)
    finally:
        for host, name in (h1, "nvidia-smi"), (h2, "docker"):
            host.exec(f"mv /usr/bin/{name}.real /usr/bin/{name}")
        refused = distui("stop", "../../../../root", "-y")
        stopped = distui("stop", "evil", "-y", "--grace", "1s")
        precious = h3.exec("test -e /root/precious", check=False).returncode
        h3.exec("hostname h3; rm -f /root/precious; docker rm -f stranger way; true")

    assert (probe.returncode, listing.returncode) == (0, 0), seen + printed
    assert b"nvidia-smi prints without end" in seen
    assert b"the container engine prints without end" in seen
    assert re.search(rb"h3 +up .* 2xH100-80GB 0% .* docker 20", seen)
    assert not any(evil in shown for evil in EVIL for shown in (seen, printed)), seen + printed
    assert re.findall(rb"^(\w+) .* running", printed, re.M) == [b"evil"]
    assert b"h2: the engine prints without end" in printed
    assert (refused.returncode, stopped.returncode) == (2, 0), (refused.stderr, stopped.stderr)
    assert precious == 0


def test_a_python_that_prints_rubbish_without_end(lab: Any, home: Path, distui: Distui) -> None:
    """The helper never comes: the run is followed in another way, which is said, and has each line once."""
    h2 = lab.host("h2")
    h2.exec("mkdir /opt/odd; cat >/opt/odd/python3; chmod 755 /opt/odd/python3", input=RUBBISH)
    h2.fault("ssh-setenv", "PATH=/opt/odd:/usr/bin:/bin")
    write(home, "sh", "-c", "i=0; while [ $i -lt 50 ]; do echo n $i; i=$((i+1)); sleep 0.02; done")
    done = distui("run", "job.yaml", "--headless", "-y", "--no-preflight", "--name", "odd", "--log-to", "none")
    h2.exec("rm -r /opt/odd")

    assert done.returncode == 0, done.stderr
    assert "h2 is followed without python3" in done.stderr
    assert not any(evil.decode() in done.stderr for evil in EVIL)
    for rank in range(2):
        assert log_of(home, "odd", rank).splitlines() == [b"n %d" % i for i in range(50)]
    assert_clean(lab)


CANARY = "canary-5e1f-hunter2"


def test_a_secret_is_seen_by_nobody_even_when_the_rank_prints_it(lab: Any, home: Path, distui: Distui) -> None:
    """Not in process lists while it starts, files, logs, events, `-o json`, the terminal's bytes; inspect has it."""
    script = "echo token=$HF_TOKEN; env; until [ -e /go ]; do sleep 0.1; done; exit 3"
    write(home, "sh", "-c", script, secrets=["HF_TOKEN"])
    over, lists = threading.Event(), []

    def sample() -> None:
        while not over.wait(0.05):
            lists.append(lab.host("h1").out("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    with terminal(lab, home, "run", "job.yaml", "-y", "--name", "sec", HF_TOKEN=CANARY) as (_, seen, _master):
        until(lambda: b"***" in seen)
        inspected = lab.host("h1").out("docker", "inspect", "distui-sec-0")
        search = f"grep -rl [{CANARY[0]}]{CANARY[1:]} /root /tmp /var/tmp /home /dev/shm 2>/dev/null"
        files = [host.exec(search, check=False).stdout for host in lab.hosts]
        for rank, host in enumerate(lab.hosts[:2]):  # the other one is stopped when one has failed
            host.exec("docker", "exec", f"distui-sec-{rank}", "touch", "/go", check=False)
        journal = home / ".local/state/distui/runs/sec/events.ndjson"
        until(lambda: '"result"' in journal.read_text())
        enough = len(lists) + 5
        until(lambda: len(lists) >= enough)
    over.set()
    sampler.join()
    shown = distui("show", "sec", "--report", env={"HF_TOKEN": CANARY})
    output = distui("show", "sec", "-o", "json")

    assert CANARY in inspected
    assert files == ["", "", ""]
    assert len(lists) > 5
    assert not any(CANARY in text for text in lists)
    assert not any(CANARY in text for text in (seen.decode("utf-8", "replace"), shown.stdout, output.stdout))
    assert subprocess.run(["grep", "-rl", CANARY, str(home)], capture_output=True).stdout == b""
    assert b"token=***" in log_of(home, "sec", 0)
    assert "printed the value of secret HF_TOKEN" in journal.read_text()
    distui("stop", "sec", "-y")
    assert_clean(lab)


NOBODY = 65534


@pytest.fixture
def open_home(lab: Any) -> Iterator[Path]:
    """A home folder that every user of this machine may enter."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        home = lab.ssh_home(Path(top) / "home")
        Path(top).chmod(0o755)
        home.chmod(0o755)
        (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
        yield home


def readable(home: Path) -> set[str]:
    """What somebody else may read of it."""
    argv = ("find", str(home), "-type", "f", "-readable", "-printf", "%P\\n")
    found = subprocess.run(argv, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True)
    return set(found.stdout.splitlines())


def test_another_user_of_this_machine_reads_nothing(lab: Any, open_home: Path) -> None:
    """With the loosest umask: while a run is on and after it, of all files only those that the user wrote; each file
    of distui is 0600 in folders that are 0700.
    """
    home, own = open_home, {"hosts.yaml", "job.yaml"}
    write(home, "sh", "-c", "echo hello; until [ -e /go ]; do sleep 0.1; done", secrets=["HF_TOKEN"])
    argv = (sys.executable, "-m", "distui.cli.main", "run", "job.yaml", "--headless", "-y", "--name", "mine")
    env = {"PYTHONPATH": str(REPO), "HF_TOKEN": CANARY}
    with lab.spawn("sh", "-c", 'umask 0; exec "$@"', "sh", *argv, home=home, env=env) as program:
        assert "hello" in program.stdout.readline(), program.stderr.read()
        during = readable(home)
        for rank, host in enumerate(lab.hosts[:2]):
            touch(host, f"distui-mine-{rank}", "/go")
        done = program.finish()

    assert done.returncode == 0, done.stderr
    assert (during, readable(home)) == (own, own)
    root = home / ".local/state/distui"
    loose = [path for path in root.rglob("*") if path.stat().st_mode & 0o077 and root in path.parents]
    assert [path for path in loose if path.is_file()] == []
    assert (root / "runs").stat().st_mode & 0o777 == 0o700
    assert_clean(lab)
