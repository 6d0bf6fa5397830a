"""The terminal UI as a person uses it: in tmux, by keys alone, on real hosts that fail while it watches."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.runs import until
from lab.terminal import Terminal

pytestmark = pytest.mark.cluster

SIZES = [(80, 24), (120, 40), (200, 50)]

JOB = """\
version: 1
name: steps
hosts: h[1-2]
image: lab/python:1
ranks: {per_host: 1}
command: [sh, -c, 'i=0; while :; do i=$((i+1)); echo "step $i loss 1.$i"; echo "needle-$i"; sleep 0.2; done']
progress: {regex: 'step (?P<step>\\d+) loss (?P<loss>[\\d.]+)'}
on_fail: wait
stop_grace: 1s
"""


@pytest.fixture
def user(home: Path) -> Path:
    """The home folder of someone with one job for two hosts."""
    (home / "job.yaml").write_text(JOB)
    return home


def ranks_running(lab: Any, *, run: str = "") -> int:
    """How many containers of runs live on all hosts."""
    label = f"distui.run={run}" if run else "distui.run"
    return sum(host.running(label) for host in lab.hosts)


def log_of(home: Path, run: str, rank: int) -> list[str]:
    """What is recorded of a rank."""
    return log_path(home, run, rank).read_text().splitlines()


def log_path(home: Path, run: str, rank: int) -> Path:
    """Where that is."""
    return home / f".local/state/distui/runs/{run}/logs/rank-{rank:05d}.log"


def whole(lines: list[str]) -> bool:
    """Whether the job's lines are there from the first one on, each once and in order."""
    numbers = [int(line.removeprefix("needle-")) for line in lines if line.startswith("needle-")]
    return bool(numbers) and numbers == list(range(1, len(numbers) + 1))


def launch(term: Terminal) -> str:
    """From the hosts' view to a run that runs; returns its name."""
    term.keys("2")
    term.wait("steps", "job.yaml")
    term.keys("Enter")
    term.wait("ready", "L  launch")
    term.keys("L")
    asked = term.wait(re.compile(r"Launch steps-\S+\?"), "Cancel")
    found = re.search(r"Launch (steps-\S+)\?", asked)
    assert found
    term.keys("Right", "Enter")
    term.wait(f"Runs › {found[1]}", "RUNNING", re.compile(r"step \d+"), re.compile(r"needle-\d"))
    return found[1]


def start(term: Terminal, *args: str) -> dict[str, str]:
    """Open distui on its hosts; returns the terminal's modes as they were before."""
    before = term.modes()
    term.enter(" ".join(("distui", *args)))
    term.wait("h1", "h3", "0 of 6 busy")
    return before


def stop_shown_run(term: Terminal) -> None:
    """Stop the run that the run view shows, and wait until it has ended."""
    term.keys("S")
    term.wait("Stop steps-", "Cancel", "h1")
    term.keys("Right", "Enter")
    term.wait("STOPPED")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_day_with_it_by_keys_alone(lab: Any, user: Path, size: tuple[int, int]) -> None:
    """Probe, open a host, launch on two hosts, watch, search, lose a rank, stop, run again, detach, attach, stop."""
    with Terminal(lab, user, size) as term:
        before = start(term)
        term.keys("p")
        term.wait("3 up")
        term.keys("j", "Enter")
        term.wait("Hosts › h2", "ib0", "up")
        term.keys("]", "]")
        term.wait("no process is on its GPUs")
        term.keys("Escape")
        term.wait("Hosts › all")

        run = launch(term)
        first = re.search(r"step (\d+)", term.wait(re.compile(r"step \d+")))
        assert first
        term.wait(lambda text: any(int(step) > int(first[1]) for step in re.findall(r"step (\d+)", text)))
        term.wait(re.compile(r"needle-(?:[4-9]|\d\d)"))
        term.keys("/")
        term.wait("text or regex")
        term.type("needle-3$")
        term.keys("Enter")
        term.wait("search needle-3$", "paused", re.compile(r"▌.*needle-3\s"))
        term.keys("Escape")
        term.wait("needle-3", without="search needle")

        lab.host("h2").fault("container-kill", f"distui-{run}-1")
        term.wait("Rank 1 failed first", "h2", "SIGKILL", "exit 137", "RUNNING")
        stop_shown_run(term)
        assert ranks_running(lab) == 0
        term.wait("R  run again")
        term.keys("R")
        term.wait("Run steps again?", "docker run", "Cancel")
        term.keys("Right", "Enter")
        again = term.wait("RUNNING", re.compile(r"needle-\d"), re.compile(r"Runs › steps-\S+"), without=run)
        second = re.search(r"Runs › (steps-\S+)", again)
        assert second

        term.keys("C-q")
        term.wait("Quit while 1 run is still running?", "Stay")
        term.keys("Right", "Enter")
        said = term.wait_shell()
        assert f"{second[1]} is still running; `distui attach {second[1]}`" in " ".join(said.split())
        assert term.modes() == before
        assert ranks_running(lab, run=second[1]) == 2

        term.enter(f"clear; distui attach {second[1]}")
        term.wait(f"Runs › {second[1]}", "RUNNING", re.compile(r"needle-\d"))
        stop_shown_run(term)
        term.keys("q")
        term.wait("RUN", "FIRST FAILURE" if size[0] > 80 else "STATE", run, second[1])
        term.keys("q")
        term.wait_shell()
        assert term.modes() == before
    assert all(whole(log_of(user, name, rank)) for name in (run, second[1]) for rank in (0, 1))
    assert [left for host in lab.hosts for left in host.leftovers()] == []


@contextmanager
def running(lab: Any, home: Path, size: tuple[int, int] = (120, 40)) -> Iterator[tuple[Terminal, str]]:
    """A terminal that shows a run which runs; what is left of it is stopped at the end."""
    with Terminal(lab, home, size) as term:
        start(term)
        run = launch(term)
        try:
            yield term, run
        finally:
            lab.heal()
            lab.distui("kill", run, "-y", home=home)


FAILS = """\
version: 1
name: wrong
hosts: h[1-2]           # these two
image: lab/python:1
ranks: {per_host: 1}
# what it runs
command: [sh, -c, 'echo "step 1 of 1"; test {rank} = 0 || exit 3']
"""


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_from_a_failed_run_to_the_fixed_one(lab: Any, home: Path, size: tuple[int, int]) -> None:
    """By keys: the run fails, J opens its job, a field is mended and saved, L starts it, and it succeeds."""
    (home / "wrong.yaml").write_text(FAILS)
    with Terminal(lab, home, size) as term:
        start(term)
        term.keys("2")
        term.wait("wrong.yaml")
        term.keys("Enter")
        term.wait("ready", "L  launch")
        term.keys("L")
        term.wait(re.compile(r"Launch wrong-\S+\?"), "Cancel")
        term.keys("Right", "Enter")
        term.wait("Rank 1 failed first", "exit 3", "J its job", "FAILED")
        term.keys("J")
        term.wait("Jobs › wrong.yaml", "ready")
        term.keys(*["Down"] * 8, "Enter")
        term.wait("enter keep", "ctrl+s save")
        term.keys("BSpace", "BSpace")
        term.type("0'")
        term.keys("C-s")
        term.wait("saved wrong.yaml")
        assert (home / "wrong.yaml").read_text() == FAILS.replace("exit 3", "exit 0")
        term.wait("ready")
        term.keys("L")
        term.wait(re.compile(r"Launch wrong-\S+\?"), "exit 0", "Cancel")
        term.keys("Right", "Enter")
        term.wait("SUCCEEDED")
    assert ranks_running(lab) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_run_and_the_terminal_whole(lab: Any, user: Path, number: signal.Signals) -> None:
    """The app goes, the run stays; screen, mouse, cursor and line are as before; attach has every line."""
    with running(lab, user) as (term, run):
        os.kill(term.program(), number)
        said = term.wait_shell()
        assert f"{run} is still running" in said
        modes = term.modes()
        assert (modes["alternate_on"], modes["mouse_any_flag"], modes["cursor_flag"]) == ("0", "0", "1")
        term.enter("echo status $?; stty -a")
        term.wait("status 143", " echo ", " icanon ")
        assert ranks_running(lab, run=run) == 2
        term.enter(f"clear; distui attach {run}")
        term.wait("RUNNING", re.compile(r"needle-\d"))
        stop_shown_run(term)
        assert all(whole(log_of(user, run, rank)) for rank in (0, 1))


def test_a_closed_terminal_leaves_the_run(lab: Any, user: Path) -> None:
    """The window is closed: the app ends by itself, the run lives, and attach from a new one has every line."""
    with running(lab, user) as (term, run):
        pid = term.program()
        term.hang_up()
        until(lambda: not Path(f"/proc/{pid}").exists())
        assert ranks_running(lab, run=run) == 2
        with Terminal(lab, user) as again:
            again.enter(f"distui attach {run}")
            again.wait("RUNNING", re.compile(r"needle-\d"))
            stop_shown_run(again)
        assert all(whole(log_of(user, run, rank)) for rank in (0, 1))


def test_a_run_of_another_terminal_is_stopped_though_that_one_dies(lab: Any, user: Path) -> None:
    """S in Runs waits for whoever follows the run here, which hangs; once that is killed, the app reads the logs to
    their end and cleans up itself, and only then says that nothing is left.
    """
    run, asked = "steps-far", user / ".local/state/distui/runs/steps-far/stop"
    words = ("run", "job.yaml", "--headless", "-y", "--name", run, "--log-to", "none")
    with Terminal(lab, user, (120, 40)) as term:
        start(term)
        with lab.spawn_distui(*words, home=user) as program:
            until(lambda: all(log_path(user, run, rank).exists() for rank in (0, 1)))
            until(lambda: all(log_of(user, run, rank) for rank in (0, 1)))
            term.keys("3")
            term.wait("FIRST FAILURE", run, "RUNNING")
            program.signal_group(signal.SIGSTOP)
            term.keys("S")
            term.wait(f"Stop {run}?", "docker", "Cancel")
            term.keys("Right", "Enter")
            until(lambda: asked.exists() and ranks_running(lab, run=run) == 0)
            assert "nothing of it is left" not in term.screen()
            assert [left for host in lab.hosts for left in host.leftovers()] != []
            program.signal_group(signal.SIGKILL)
            term.wait(f"{run} has ended; nothing of it is left")
        assert [left for host in lab.hosts for left in host.leftovers()] == []
        assert all(whole(log_of(user, run, rank)) for rank in (0, 1))


def test_a_host_vanishes_and_comes_back(lab: Any, user: Path) -> None:
    """A cut cable and a killed ssh session are words on the screen; no line is lost when the host is back."""
    with running(lab, user) as (term, run):
        lab.host("h2").fault("blackhole")
        term.wait("h2 × lost: lost the connection to h2: it no longer answers", "DEGRADED")
        lab.host("h2").fault("unblackhole")
        lab.host("h2").fault("ssh-killall")
        term.wait("2 of 2", without="lost")
        stop_shown_run(term)
        assert all(whole(log_of(user, run, rank)) for rank in (0, 1))


def test_a_full_disk_here_is_said_and_nothing_is_lost(lab: Any, user: Path) -> None:
    """The disk of the run's folder is full: words on the screen, the run lives on; with room again each line comes,
    to this distui by itself and to the one that attaches.
    """
    state = user / ".local/state"
    state.mkdir(parents=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", state), check=True)
    try:
        with running(lab, user) as (term, run):
            until(lambda: all(log_path(user, run, rank).exists() for rank in (0, 1)))
            ballast = state / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(512))
            term.wait("What went wrong", re.compile(r"can't write the log of rank\d: No space left on device"))
            term.keys("Escape")
            term.wait("FIRST FAILURE", run)
            term.keys("1")
            term.wait("Hosts › all", "free")
            assert ranks_running(lab, run=run) == 2
            last = len(log_of(user, run, 0))
            ballast.unlink()
            until(lambda: len(log_of(user, run, 0)) > last + 20)
            term.keys("C-q")
            term.wait("Quit while 1 run is still running?", "Stay")
            term.keys("Right", "Enter")
            term.wait_shell()
            term.enter(f"clear; distui attach {run}")
            last = len(log_of(user, run, 0))
            term.wait("RUNNING", re.compile(r"needle-\d"))
            until(lambda: len(log_of(user, run, 0)) > last + 20)
            stop_shown_run(term)
            assert all(whole(log_of(user, run, rank)) for rank in (0, 1))
    finally:
        subprocess.run(("umount", "-l", state), check=True)


FLOOD = """
import os, pathlib
count, stop = 0, pathlib.Path("/shared/flood-stop")
while count < 1000000 or not stop.exists():
    os.write(1, b"".join(b"n %d\\n" % n for n in range(count, count + 1000)))
    count += 1000
pathlib.Path("/shared/flood-count").write_text(str(count))
"""


def test_keys_are_obeyed_while_a_rank_prints_a_million_lines(lab: Any, home: Path) -> None:
    """As fast as it can, until all keys were obeyed; what it printed is stored byte for byte."""
    job = {"version": 1, "name": "flood", "hosts": "h1", "image": "lab/python:1", "volumes": ["/mnt/pytorch:/shared"]}
    (home / "job.yaml").write_text(json.dumps(job | {"command": ["python3", "-c", FLOOD]}))
    stop = lab.share / "flood-stop"
    stop.unlink(missing_ok=True)
    with Terminal(lab, home, (120, 40)) as term:
        term.enter("distui run job.yaml -y --name flood")
        term.wait("RUNNING", re.compile(r"n \d{5}"))
        for key, shown in (("?", "type to find"), ("M", "merged log")):
            term.keys(key)
            term.wait(shown)
            term.keys("Escape")
            term.wait("S  stop", without=shown)
        term.keys("Escape")
        term.wait("FIRST FAILURE", "flood")
        term.keys("1")
        term.wait("Hosts › all", "free")
        stop.touch()
        term.keys("3")
        term.wait("FIRST FAILURE", "flood")
        term.keys("Enter")
        term.wait("Runs › flood", "SUCCEEDED")
    stop.unlink()
    count = int((lab.share / "flood-count").read_text())
    assert count >= 1_000_000
    log = home / ".local/state/distui/runs/flood/logs/rank-00000.log"
    assert log.read_bytes() == b"".join(b"n %d\n" % n for n in range(count))


def tiny(text: str) -> bool:
    """the app in 20x5: of its views' names there is room for one only."""
    lines = text.splitlines()
    return lines[0].rstrip().endswith("1 Hosts") and "? help" in lines[-1]


def goes_on(home: Path, run: str) -> None:
    """Wait until the app has taken in some more lines of the run."""
    before = len(log_of(home, run, 0))
    until(lambda: len(log_of(home, run, 0)) > before + 5)


def test_resized_to_nothing_and_back(lab: Any, user: Path) -> None:
    """20x5 and back, on every view and in a run: the app goes on, and what was there is there again."""
    with running(lab, user) as (term, run):
        for size, shown in (((20, 5), tiny), ((200, 50), "S  stop"), ((1, 1), ""), ((80, 24), "S  stop")):
            term.resize(*size)
            term.wait(shown)
            goes_on(user, run)
        term.resize(20, 5)
        term.wait(tiny)
        term.resize(120, 40)
        term.wait(f"Runs › {run}", "RUNNING", "S  stop")
        for key, shown, small in (("?", "type to find", "esc close"), ("M", "merged log", tiny)):
            term.keys(key)
            term.wait(shown)
            term.resize(20, 5)
            term.wait(small)
            term.resize(120, 40)
            term.wait(shown)
            term.keys("Escape")
            term.wait("follow on", without=shown)
        term.keys("Escape")
        term.wait("FIRST FAILURE")
        for key, name, shown in (
            ("1", "Hosts › all", "Hosts › all"), ("2", "Jobs ›", "job.yaml"), ("4", "Doctor", "Doctor"),
            ("3", "Runs  ", run),
        ):  # fmt: skip
            term.resize(20, 5)
            term.wait(tiny)
            term.keys(key)
            term.wait(tiny, lambda text, name=name: text.splitlines()[1].startswith(f" {name}"))
            term.resize(80, 24)
            term.wait(shown, "? help")


COLOURS = re.compile(r"\x1b\[[\d;:]*?(?<![\d])(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[\d;:]*m")


def test_no_color_and_ascii(lab: Any, user: Path) -> None:
    """NO_COLOR leaves bold, dim and reverse; --ascii shows nothing else than ASCII."""
    with Terminal(lab, user, env={"NO_COLOR": "1"}) as term:
        start(term, "--ascii")
        shown = []
        for key, words in (("2", "job.yaml"), ("3", "Runs"), ("4", "Doctor"), ("?", "type to find")):
            term.keys(key)
            term.wait(words)
            shown.append(term.painted())
        text = "".join(shown)
        assert not COLOURS.findall(text)
        assert {c for c in text if ord(c) > 126} == set()


def backgrounds(term: Terminal) -> set[str]:
    """The colours behind the text: a theme's."""
    return set(re.findall(r"48;2;\d+;\d+;\d+", term.painted()))


def test_read_only_with_the_settings_of_a_file(lab: Any, user: Path) -> None:
    """Theme and keys come from the config file; --readonly refuses what changes a run; mouse, `:` and palette work."""
    config = user / ".config/distui/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("theme: light\nkeymap:\n  theme: Y\n")
    with Terminal(lab, user) as term:
        start(term, "--readonly")
        term.wait("read-only")
        light = backgrounds(term)
        term.keys("T", "2")
        term.wait("job.yaml")
        assert backgrounds(term) & light
        term.keys("Y")
        until(lambda: not backgrounds(term) & light)
        term.keys("1", "R")
        term.wait("Hosts › all", "run here is refused: distui was started read-only")
        term.type("\x1b[<0;27;1M\x1b[<0;27;1m")
        term.wait("FIRST FAILURE")
        term.keys(":")
        term.type("host h3")
        term.keys("Enter")
        term.wait("Hosts › h3")
        term.keys("C-p")
        term.wait("Search")
        term.type("job files")
        term.wait("Jobs  (2)")
        term.keys("Enter", "Enter")
        term.wait("job.yaml", without="Search")
        term.keys("C-q")
        term.wait_shell()


@pytest.fixture
def own_sshd(lab: Any, user: Path) -> Iterator[int]:
    """An sshd on the login node that lets the user in; its port."""
    keys, port = user / ".ssh", 2200
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", user / "host_key"), check=True)
    config = user / "sshd_config"
    allowed = user / "authorized_keys"
    allowed.write_text(subprocess.check_output(("ssh-keygen", "-y", "-f", keys / "id_ed25519"), text=True))
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {user}/host_key\nAuthorizedKeysFile {allowed}\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nSetEnv HOME={user} COLORTERM=truecolor LANG=C.UTF-8\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    with lab.spawn("/usr/sbin/sshd", "-D", "-e", "-f", str(config), home=user) as server:
        until(lambda: "Server listening" in server.stderr.readline())
        yield port


def test_over_ssh_and_when_the_link_dies(lab: Any, user: Path, own_sshd: int) -> None:
    """Started by `ssh -t` it looks as it does here; when ssh is killed the run lives, and attach follows it."""
    with Terminal(lab, user, (80, 24)) as term:
        term.enter(
            f"ssh -tt -p {own_sshd} -i .ssh/id_ed25519 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
            f"root@127.0.0.1 'cd {user} && exec bin/distui'"
        )
        term.wait("h1", "h3", "R  run here")
        run = launch(term)
        term.keys("~", "Enter")
        term.wait("RUNNING")
        term.hang_up()
        assert ranks_running(lab, run=run) == 2
    with Terminal(lab, user) as again:
        again.enter(f"distui attach {run}")
        again.wait("RUNNING", re.compile(r"needle-\d"))
        stop_shown_run(again)
    assert all(whole(log_of(user, run, rank)) for rank in (0, 1))
