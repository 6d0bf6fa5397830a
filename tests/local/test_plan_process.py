"""Tasks without a container, for real: every script is run by sh, with short programs and every way to end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from distui.plan.command import process
from distui.plan.command.env import env_file_text
from distui.plan.model import Task

PYTHON = sys.executable
WAIT = "import signal,time\nwhile True: time.sleep(60)"


def run(argv: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    """A script as a host would run it: no input, its own group."""
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, start_new_session=True)


def until(condition: Callable[[], object]) -> None:
    """Wait for something that comes by itself; the limit is only against hanging."""
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.01)


class Box:
    """One run's folder and the tasks started in it."""

    def __init__(self, root: Path) -> None:
        self.home = root
        self.run_dir = str(root / ".local/state/distui/hosts/h1" / f"run-{os.getpid()}-{root.name}")
        self.run_id = self.run_dir.rpartition("/")[2]

    def task(self, index: int = 0, env: dict[str, str] | None = None, secrets: tuple[str, ...] = ()) -> Task:
        return Task(
            index=index,
            name=f"rank{index}",
            host="h1",
            engine="process",
            engine_command=(),
            role="worker",
            node_rank=0,
            ranks=(index,),
            gpus=(),
            image=None,
            env={"DISTUI_RUN": self.run_id, "DISTUI_TASK": str(index), **(env or {})},
            secrets=secrets,
            env_file=f"{self.run_dir}/env-{index}",
            run_dir=self.run_dir,
            labels={"distui.run": self.run_id, "distui.task": str(index), "distui.job": 'it\'s "a" $job\n,x'},
            start=(),
        )

    def start(
        self, *command: str, task: Task | None = None, secret: str = "", path: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        """`path` is a folder of programs that come before those of this machine."""
        task = task or self.task()
        Path(self.run_dir).mkdir(parents=True, exist_ok=True)
        Path(task.env_file).write_bytes(env_file_text(task, dict.fromkeys(task.secrets, secret)))
        argv = process.start(task, command, workdir=str(self.home))
        return run(("env", f"PATH={path}:{os.environ['PATH']}", *argv) if path else argv)

    def state(self, index: int = 0) -> process.ProcessState:
        (state,) = process.parse_states(run(process.inspect(self.run_dir, (index,))).stdout)
        return state

    def ended(self, index: int = 0) -> process.ProcessState:
        until(lambda: self.state(index).state in ("exited", "lost"))
        return self.state(index)

    def log(self, index: int = 0) -> bytes:
        return Path(process.log_path(self.run_dir, index)).read_bytes()

    def read(self, name: str, index: int = 0) -> str:
        return (Path(process.task_folder(self.run_dir, index)) / name).read_text()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path)
    yield box
    for index in range(3):
        run(process.kill(box.run_dir, index))


def test_a_program_runs_to_its_end_and_everything_about_it_is_on_the_host(box: Box) -> None:
    """Start prints the folder; labels, times, log and exit code are kept."""
    done = box.start("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout.decode().strip()) == (0, process.task_folder(box.run_dir, 0))
    state = box.ended()
    assert (state.state, state.exit, state.index) == ("exited", 3, 0)
    assert box.log() == b"out\nerr\n"
    assert state.labels["distui.job"] == 'it\'s "a" $job\n,x'
    assert state.started_ns is not None and state.finished_ns is not None
    assert 0 <= state.finished_ns - state.started_ns < 60e9
    assert not Path(box.task().env_file).exists()


def test_how_long_a_program_ran_does_not_depend_on_how_the_clock_is_set_meanwhile(box: Box) -> None:
    """By an hour forward: a limit of half an hour would seem to be reached."""
    now, date = box.home / "now", box.home / "bin/date"
    now.write_text(f"{10**18}")
    date.parent.mkdir()
    date.write_text(f"#!/bin/sh\ncat {now}\n")
    date.chmod(0o755)
    after = 10**18 + 3600 * 10**9
    box.start("sh", "-c", f"echo {after} >{now}; exit 3", path=str(date.parent))
    state = box.ended()
    code, finished, started = map(int, box.read("exit").split())
    assert (code, finished, state.finished_ns, state.started_ns) == (3, after, after, started)
    assert 0 <= finished - started < 60e9


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("true",), 0, b""),
        (("/nonexistent/program",), 127, b"/nonexistent/program"),
        (("/etc/passwd",), 126, b"ermission denied"),
        (("sh", "-c", "kill -9 $$"), 137, b""),
        (("sh", "-c", "kill -15 $$"), 143, b""),
    ],
)
def test_exit_codes_are_those_docker_gives(box: Box, command: tuple[str, ...], code: int, said: bytes) -> None:
    """0, 127 not found, 126 not executable, 128 + signal; the reason is in the log."""
    assert box.start(*command).returncode == 0
    assert box.ended().exit == code
    assert said in box.log()


def test_a_missing_working_directory_is_126_with_a_reason(box: Box) -> None:
    """As docker's "cannot invoke"."""
    task = box.task()
    Path(box.run_dir).mkdir(parents=True)
    Path(task.env_file).write_bytes(b"A=1\n")
    assert run(process.start(task, ("true",), workdir="/no/such/dir")).returncode == 0
    assert box.ended().exit == 126
    assert b"/no/such/dir" in box.log()


HOSTILE = {
    "QUOTES": "a\"b'c`d",
    "DOLLAR": "$(touch /tmp/never) ${HOME} $1",
    "SLASH": "a\\nb\\",
    "BLANKS": "  both ends  ",
    "HASH": "#no comment",
    "UNICODE": "żółw 🐢",
    "EMPTY": "",
    "LONG": "x" * 10_000,
    "task": "the script's own variable",
    "stat": "too",
    "IFS": "abc",
}


def test_environment_values_are_literal_and_secrets_are_nowhere_else(box: Box) -> None:
    """Every byte of a value arrives; a secret is in no argv, no file and not in the supervisor's environment."""
    task = box.task(env=HOSTILE, secrets=("TOKEN",))
    canary = "s3cr3t-canary-$x"
    program = "import os,json,time;print(json.dumps(dict(os.environ)),flush=True);time.sleep(60)"
    box.start(PYTHON, "-c", program, task=task, secret=canary)
    until(lambda: box.log().endswith(b"\n"))
    seen = json.loads(box.log())
    assert {k: seen[k] for k in HOSTILE} == HOSTILE and seen["TOKEN"] == canary
    pid = box.state().pid
    assert pid is not None
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    for place in (f"/proc/{pid}/cmdline", f"/proc/{parent}/cmdline", f"/proc/{parent}/environ", f"/proc/{parent}/fd/3"):
        assert canary.encode() not in Path(place).read_bytes()
    files = [f for f in Path(box.run_dir).rglob("*") if f.is_file() and f.name != "log"]
    assert all(canary.encode() not in f.read_bytes() for f in files)


@pytest.mark.parametrize(
    "word", ["a b", "$(id)", "`id`", "-n", "it's", 'say "x"', "new\nline", "ż🐢", "*", "x" * 10_000, ""]
)
def test_arguments_arrive_byte_for_byte(box: Box, word: str) -> None:
    """Nothing of a command is read by a shell."""
    box.start(PYTHON, "-c", "import sys,os;os.write(1,os.fsencode(sys.argv[1]))", word)
    assert box.ended().exit == 0
    assert box.log() == word.encode()


def test_a_task_is_never_started_twice(box: Box) -> None:
    """A second start is refused and leaves the first alone."""
    box.start(PYTHON, "-c", WAIT)
    again = box.start("true")
    assert again.returncode == 125 and b"already started" in again.stderr
    assert box.state().state == "running"


def test_without_its_env_file_nothing_starts_and_nothing_stays(box: Box) -> None:
    """The reason is given, and a later start is free to succeed."""
    Path(box.run_dir).mkdir(parents=True)
    done = run(process.start(box.task(), ("true",), workdir="/"))
    assert done.returncode == 125 and b"cannot read" in done.stderr
    assert box.state().state == "missing"
    assert box.start("true").returncode == 0


def test_the_program_gets_default_signals_no_input_and_its_own_session(box: Box) -> None:
    """As a container's program: Ctrl-C's signal works, stdin is empty, no terminal can hang up on it."""
    program = (
        "import signal,os,sys;print(signal.getsignal(signal.SIGINT) is signal.default_int_handler,"
        "os.getsid(0)==os.getpid()==os.getpgid(0),repr(sys.stdin.read()),sorted(map(int,os.listdir('/proc/self/fd')))[:4])"
    )
    box.start(PYTHON, "-c", program)
    box.ended()
    assert box.log().decode().split() == ["True", "True", "''", "[0,", "1,", "2,", "3]"]  # 3 is the listing's own


def test_the_program_outlives_whoever_started_it(box: Box) -> None:
    """The starting shell has ended and its pipes are closed, as after a lost ssh connection."""
    box.start("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo late")
    assert box.state().state == "running"
    (box.home / "go").touch()
    assert box.ended().exit == 0 and box.log() == b"late\n"


def test_stop_ends_the_group_with_sigterm(box: Box) -> None:
    """Handlers run, children of the program end too, and the code is 143."""
    box.start("sh", "-c", "sleep 60 & echo $!; wait")
    until(lambda: box.log().endswith(b"\n"))
    child = int(box.log())
    done = run(process.stop(box.run_dir, 0, 10))
    assert done.returncode == 0
    (state,) = process.parse_states(done.stdout)
    assert (state.state, state.exit) == ("exited", 143)
    assert gone(child)


def gone(pid: int) -> bool:
    """Whether a process is no more, or only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def test_stop_kills_what_ignores_sigterm(box: Box) -> None:
    """After the grace comes SIGKILL."""
    box.start(PYTHON, "-c", "import signal;signal.signal(15,signal.SIG_IGN);print('up',flush=True)\n" + WAIT)
    until(lambda: box.log() == b"up\n")
    (state,) = process.parse_states(run(process.stop(box.run_dir, 0, 0)).stdout)
    assert (state.state, state.exit) == ("exited", 137)


def test_a_stop_leaves_the_same_task_of_a_run_in_another_folder(box: Box, tmp_path: Path) -> None:
    """Another home on this host has a run of that name: what escaped from its session is not ours."""
    other = Box(tmp_path / "other")
    other.run_dir, other.run_id = f"{tmp_path}/other/hosts/h1/{box.run_id}", box.run_id
    try:
        for one in (box, other):
            assert one.start("sh", "-c", "setsid sleep 60 & echo $!; exit 0").returncode == 0
            one.ended()
        ours, theirs = int(box.log()), int(other.log())
        assert run(process.stop(box.run_dir, 0, 0.5)).returncode == 0
        until(lambda: gone(ours))
        assert not gone(theirs)
    finally:
        run(process.kill(other.run_dir, 0))


def test_a_stop_leaves_a_container_s_processes_of_a_run_of_that_name(box: Box) -> None:
    """A container of this machine has the variables of its run, and no folder of a task: root sees its processes."""
    names = {"DISTUI_RUN": box.run_id, "DISTUI_TASK": "0"}
    with subprocess.Popen((PYTHON, "-c", WAIT), env=os.environ | names) as contained:
        try:
            box.start(PYTHON, "-c", WAIT)
            assert run(process.stop(box.run_dir, 0, 5)).returncode == 0
            assert run(process.kill(box.run_dir, 0)).returncode == 0
            assert contained.poll() is None
        finally:
            contained.kill()


def test_children_in_a_session_of_their_own_are_swept(box: Box) -> None:
    """What left the process group is found by its environment, and nothing else is touched."""
    box.start("sh", "-c", "setsid sleep 60 & echo $!; exit 0")
    box.ended()
    escaped = int(box.log())
    other = box.task(1)
    box.start(PYTHON, "-c", WAIT, task=other)
    assert not gone(escaped)
    assert run(process.stop(box.run_dir, 0, 5)).returncode == 0
    assert gone(escaped)
    assert box.state(1).state == "running"


def test_a_killed_supervisor_loses_only_the_exit_code(box: Box) -> None:
    """The program runs on and can be stopped; afterwards its state is `lost`, not a made-up success."""
    box.start(PYTHON, "-c", WAIT)
    pid = box.state().pid
    assert pid is not None
    os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    assert box.state().state == "running"
    (state,) = process.parse_states(run(process.stop(box.run_dir, 0, 5)).stdout)
    assert (state.state, state.exit) == ("lost", None)


def test_a_program_killed_from_outside_is_137(box: Box) -> None:
    """`kill -9` by somebody else is seen like docker's."""
    box.start(PYTHON, "-c", WAIT)
    pid = box.state().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert box.ended().exit == 137


def test_a_reused_pid_is_never_signalled(box: Box) -> None:
    """A pid whose start time differs is another process: it is neither `running` nor killed."""
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        time.sleep(2 / os.sysconf("SC_CLK_TCK"))  # what starts within one tick can't be told apart
        box.start("true")
        box.ended()
        folder = Path(process.task_folder(box.run_dir, 0))
        keeper = Path("/proc", box.read("keeper").strip(), "cmdline")
        until(lambda: not (keeper.exists() and keeper.read_bytes()))
        (folder / "exit").unlink()
        (folder / "pid").write_text(f"{bystander.pid}\n")
        assert box.state().state == "lost"
        run(process.kill(box.run_dir, 0))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_list_finds_tasks_by_host_and_run(box: Box) -> None:
    """All tasks below the home with their labels; filters are exact and no patterns."""
    box.start("true")
    box.start("true", task=box.task(1))
    box.ended(0), box.ended(1)
    home = str(box.home)

    def listed(**filters: str) -> list[int | None]:
        states = process.parse_states(run(process.list_tasks(home, **filters)).stdout)
        return sorted(s.index or 0 for s in states if s.labels["distui.run"] == box.run_id)

    assert listed() == listed(run_id=box.run_id) == listed(host="h1", run_id=box.run_id) == [0, 1]
    assert listed(host="h2") == listed(run_id="other") == listed(host="h?") == []


def test_remove_waits_for_the_end_and_leaves_nothing(box: Box) -> None:
    """A running task is not removed; an ended one goes with its folder, env file and empty parents."""
    box.start(PYTHON, "-c", WAIT)
    assert run(process.remove(box.run_dir, 0)).returncode == 1
    run(process.kill(box.run_dir, 0))
    Path(box.task().env_file).write_text("left over")
    assert run(process.remove(box.run_dir, 0)).returncode == 0
    assert not Path(box.run_dir).exists() and not Path(box.run_dir).parent.exists()
    assert run(process.remove(box.run_dir, 0)).returncode == 0


def test_remove_by_force_kills_first(box: Box) -> None:
    """A task somebody took for lost does not run on: its group and what left it end, then the folder goes."""
    box.start("sh", "-c", "setsid sleep 60 & echo $!; sleep 60 & echo $!; echo $$; wait")
    until(lambda: box.log().count(b"\n") == 3)
    pids = [int(line) for line in box.log().split()]
    assert run(process.remove(box.run_dir, 0, force=True)).returncode == 0
    assert all(gone(pid) for pid in pids) and not Path(box.run_dir).exists()
    assert run(process.remove(box.run_dir, 0, force=True)).returncode == 0


COUNT = """
import os, signal, sys, time
seen = []
signal.signal(15, lambda *_: seen.append(1))
os.write(1, b"up\\n")  # one call a line: three write in one log
while not seen: time.sleep(0.02)
while not os.path.exists("go"): time.sleep(0.02)
os.write(1, f"{sys.argv[1]} {len(seen)}\\n".encode())
"""


def test_a_stop_sends_one_sigterm_to_each_process(box: Box) -> None:
    """A second one would cut short a program that saves its state on the first; one that left the group gets it too."""
    (box.home / "count.py").write_text(COUNT)
    start = "trap : TERM; $0 count.py in & setsid $0 count.py out & $0 count.py first; wait; wait"
    box.start("sh", "-c", start, PYTHON)
    until(lambda: box.log().count(b"up\n") == 3)
    run(process.kill(box.run_dir, 0, "TERM"))
    (box.home / "go").touch()
    box.ended()
    until(lambda: box.log().count(b"\n") == 6)
    assert sorted(box.log().split(b"\n")[3:6]) == [b"first 1", b"in 1", b"out 1"]


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
@pytest.mark.parametrize("shell", [s for s in ("dash", "bash", "busybox") if shutil.which(s)])
def test_only_the_program_writes_in_its_log(box: Box, shell: str, sent: signal.Signals) -> None:
    """Whatever shell a host has, its word of how the program ended is in the exit code alone."""
    (box.home / "bin").mkdir()
    program = shutil.which(shell)
    (box.home / "bin/sh").symlink_to(program or "")
    task = box.task()
    Path(box.run_dir).mkdir(parents=True)
    Path(task.env_file).write_bytes(env_file_text(task, {}))
    argv = process.start(task, (PYTHON, "-c", f"import os; os.kill(os.getpid(), {sent})"), workdir=str(box.home))
    done = run(("env", f"PATH={box.home}/bin:{os.environ['PATH']}", *argv))
    assert done.returncode == 0
    assert (box.ended().exit, box.log()) == (128 + sent, b"")


def test_stop_and_kill_of_what_is_not_there_succeed(box: Box) -> None:
    """Stopping is idempotent, so that two people may do it at once."""
    assert process.parse_states(run(process.stop(box.run_dir, 0, 1)).stdout)[0].state == "missing"
    box.start("true")
    box.ended()
    assert process.parse_states(run(process.stop(box.run_dir, 0, 1)).stdout)[0].exit == 0


@pytest.mark.parametrize("end", ["stop", "remove"])
def test_a_program_whose_folder_was_removed_is_ended(box: Box, end: str) -> None:
    """Somebody removed the folder of a task that runs: its environment still tells whose it is."""
    box.start("sleep", "600")
    pid = box.state().pid
    assert pid is not None
    shutil.rmtree(process.task_folder(box.run_dir, 0))
    argv = process.stop(box.run_dir, 0, 5) if end == "stop" else process.remove(box.run_dir, 0, force=True)
    assert run(argv).returncode == 0
    until(lambda: gone(pid))


@pytest.mark.parametrize("output", [b"", b"Welcome!\n{]\n", b'[1]\n"x"\n', b'{"state":"odd"}\n', b'{"state":5}'])
def test_rubbish_is_no_state(output: bytes) -> None:
    """What a noisy host prints is left out."""
    assert process.parse_states(output) == ()


@pytest.mark.parametrize(
    ("path", "home", "expected"),
    [(None, "/home/u", "/home/u"), ("~/x", "/home/u/", "/home/u/x"), ("x", "/home/u", "/home/u/x"), ("/x", None, "/x")],
)
def test_working_directories_are_absolute(path: str | None, home: str | None, expected: str) -> None:
    """Relative ones are below the login's home, where a command over ssh starts."""
    assert process.workdir(path, home) == expected
