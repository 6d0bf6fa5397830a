"""A command that is text: by which shell it runs, and how its programs get SIGTERM."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distui.plan.command import shell
from distui.spec.hosts.inventory import EngineName
from distui.spec.job.job import Job

TRAPPED = f"{shell.TRAP}cd a && b"


@pytest.mark.parametrize(
    ("text", "engine", "words"),
    [
        ("python3 t.py --lr 1", "docker", ("sh", "-c", "exec python3 t.py --lr 1")),
        ("./t.sh 'a b'\n", "docker", ("sh", "-c", "exec ./t.sh 'a b'\n")),
        ("cd a && b", "docker", ("sh", "-c", TRAPPED)),
        ("cd a && b", "process", ("sh", "-lc", TRAPPED)),
        ("cd a && b", "podman", ("sh", "-c", "cd a && b")),
        ("conda run -n x t.py", "docker", ("sh", "-c", f"{shell.TRAP}conda run -n x t.py")),
        ("A=1 python3 t.py", "docker", ("sh", "-c", f"{shell.TRAP}A=1 python3 t.py")),
        ("echo a", "docker", ("sh", "-c", f"{shell.TRAP}echo a")),
        ("python3 t.py \\\n  --lr 1", "docker", ("sh", "-c", "exec python3 t.py \\\n  --lr 1")),
        ('python3 t.py --lr $LR --to "${OUT}/a"', "podman", ("sh", "-c", 'exec python3 t.py --lr $LR --to "${OUT}/a"')),
        ("python3 t.py $(nproc)", "docker", ("sh", "-c", f"{shell.TRAP}python3 t.py $(nproc)")),
        ("$PYTHON t.py", "docker", ("sh", "-c", f"{shell.TRAP}$PYTHON t.py")),
        ("python3 t.py \\\\\nrm b", "docker", ("sh", "-c", f"{shell.TRAP}python3 t.py \\\\\nrm b")),
        ("trap a EXIT; t.py --n 15", "docker", ("sh", "-c", f"{shell.TRAP}trap a EXIT; t.py --n 15")),
        ("# no trap of TERM\na; b", "docker", ("sh", "-c", f"{shell.TRAP}# no trap of TERM\na; b")),
        ("a; sh -c 'trap b TERM; c'", "docker", ("sh", "-c", f"{shell.TRAP}a; sh -c 'trap b TERM; c'")),
    ],
)
def test_one_program_takes_the_shell_s_place(text: str, engine: EngineName, words: tuple[str, ...]) -> None:
    """Else the shell dies of SIGTERM at once, and its container with it; the image's PATH stays as it is."""
    job = Job("x", command=text)
    assert shell.words(job, text, engine) == words
    assert shell.group_env(job, engine) == ({shell.GROUP: "1"} if engine == "docker" and "trap" in words[2] else {})


@pytest.mark.parametrize(
    "trap",
    [
        "trap 'touch stop' TERM",
        "trap save SIGTERM",
        "trap save sigterm",
        "trap 'kill -USR1 $!; wait' INT 15",
        "# what mustn't be lost\ntrap 'touch stop' TERM",
        "echo it\\'s; trap 'touch stop' TERM",
        "trap 'touch stop' \\\n  TERM",
    ],
)
@pytest.mark.parametrize("engine", ["docker", "podman", "process"])
def test_a_trap_of_the_text_s_own_is_all_there_is(trap: str, engine: EngineName) -> None:
    """And the shell alone is signalled, as before: it tells its programs in its own way."""
    text = f"{trap}\npython3 t.py & wait $!; wait $!"
    job = Job("x", command=text)
    assert shell.words(job, text, engine)[2] == text
    assert shell.group_env(job, engine) == {}


def test_a_list_stays_a_list() -> None:
    """No shell, no variable."""
    job = Job("x", command=("a b", "c"))
    assert shell.words(job, ("a b", "c"), "docker") == ("a b", "c")
    assert shell.group_env(job, "docker") == {}


def test_the_job_s_path_is_not_the_profile_s() -> None:
    """Debian's /etc/profile sets PATH; what the job sets in `env` wins."""
    job = Job("x", command="a; b", env={"PATH": "/opt/venv/bin:/bin"})
    assert shell.words(job, "a; b", "process")[1] == "-c"


SAVES = """trap 'sleep 0.3; echo saved' TERM
echo begun
sleep 2 & wait $!; wait $!
echo ends"""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("t.py | tee log", ["tee"]),
        ("t.py 2>&1 |tee -a log; echo a", ["tee"]),
        ("a |& grep -v x | sed s/a/b/ \\\n  | tee log & wait", ["grep", "sed", "tee"]),
        ("cat data | t.py | cat", []),  # one is at the beginning, in no process that it could hold up alone
        ("grep -q a b || t.py | grep c", []),
        ("a || tee b; c >| tee", []),
        ("echo '| tee' | t.py", []),
        ("a | teed | mytee | t/tee | tee.sh", []),
        ("a | while read l; do echo $l; done", []),
    ],
)
def test_filters_read_on_where_they_end_a_pipe(text: str, kept: list[str]) -> None:
    """They end by themselves; elsewhere the function would change the shell itself."""
    words = shell.words(Job("x", command=text), text, "docker")[2]
    assert words == shell.TRAP + "".join(shell.FILTER % (name, name) for name in kept) + text
    assert shell.words(Job("x", command=text), text, "podman")[2] == text


PRINTS = """import signal, sys, time
def save(*_):
    time.sleep(0.3)
    print("saved", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
time.sleep(60)
"""


def stopped_once_begun(text: str, sh: str, log: Path) -> None:
    """Have this shell run the text as a job's command, and its group get SIGTERM once `log` has "begun" in it."""
    argv = shell.words(Job("x", command=text), text, "docker")
    with log.open("w") as out:
        words = (sh, *argv) if sh == "busybox" else (sh, *argv[1:])
        leader = subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True)
    try:
        end = time.monotonic() + 60
        while "begun" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.2)  # until what comes after that word runs, too
        os.killpg(leader.pid, signal.SIGTERM)
        assert leader.wait(60) == 143
    finally:
        os.killpg(leader.pid, signal.SIGKILL) if leader.poll() is None else None


@pytest.mark.parametrize("sh", ["sh", "bash", "busybox"])
@pytest.mark.parametrize(
    "pipe", ["| tee {log}", "2>&1 | sed -u s,x,y, | tee -a {log}", "| tee {log} & wait; echo next"]
)
def test_last_words_come_through_a_pipe(tmp_path: Path, pipe: str, sh: str) -> None:
    """`python train.py | tee log`: SIGTERM to the group ended `tee` first, and the program died as it printed."""
    if shutil.which(sh) is None:
        pytest.skip(f"no {sh} here")
    script, copy, log = tmp_path / "t.py", tmp_path / "copy", tmp_path / "log"
    script.write_text(PRINTS)
    text = f"{sys.executable} {script} {pipe.format(log=copy)}"
    stopped_once_begun(text, sh, log)
    assert copy.read_text().splitlines() == log.read_text().splitlines() == ["begun", "saved"]


@pytest.mark.parametrize("sh", ["sh", "bash", "busybox"])
def test_a_filter_that_a_file_calls_lets_the_text_be_stopped(tmp_path: Path, sh: str) -> None:
    """`. env.sh; python train.py | grep loss`, where env.sh greps, too: all that came then ignored SIGTERM."""
    if shutil.which(sh) is None:
        pytest.skip(f"no {sh} here")
    file, log = tmp_path / "env.sh", tmp_path / "log"
    file.write_text(f"grep -q begun {file} && echo begun\n")
    text = f". {file}; sleep 300 | grep a; echo next"
    stopped_once_begun(text, sh, log)
    assert "next" not in log.read_text()


@pytest.mark.parametrize("text", ["sh {script}", "true && sh {script}; echo next", "sh {script} & wait; echo next"])
def test_what_a_shell_runs_has_time_to_end(tmp_path: Path, text: str) -> None:
    """As `docker stop` and the processes' own stop do it: SIGTERM to the group, until its leader has ended."""
    script, log = tmp_path / "saves.sh", tmp_path / "log"
    script.write_text(SAVES)
    text = text.format(script=script)
    words = shell.words(Job("x", command=text), text, "docker")
    with log.open("w") as out:
        leader = subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True)
    try:
        end = time.monotonic() + 60
        while "begun" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.02)
        os.killpg(leader.pid, signal.SIGTERM)
        leader.wait(60)
        assert [line for line in log.read_text().splitlines() if "erminated" not in line] == ["begun", "saved", "ends"]
    finally:
        os.killpg(leader.pid, signal.SIGKILL) if leader.poll() is None else None


@pytest.mark.parametrize(
    "text", ["trap " * 50_000, "trap" + " a" * 100_000, "'" * 200_000, "a $X " * 50_000, "| tee " * 50_000]
)
def test_a_long_text_is_read_soon(text: str) -> None:
    """A job file may be a stranger's."""
    began = time.process_time()
    shell.group_env(Job("x", command=text), "docker")
    assert time.process_time() - began < 15
