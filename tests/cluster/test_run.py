"""Runs on real hosts: the main job in every way it can be started, and what is left after it (nothing)."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.program import LIMIT
from lab.runs import (
    IGNORES_TERM,
    LET_END,
    assert_clean,
    both_ignore,
    count_running,
    let_end,
    log_of,
    read_until,
    rest_of,
    times_asked,
    until,
)

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]

CLASSIC = """
version: 1
name: mnist
hosts: h[1-2]
image: lab/pytorch:1
ranks: {per_host: 1}
backend: gloo
volumes: ["/mnt/pytorch:/pytorch"]
workdir: /pytorch/trainers
command: [python3, mnist.py, --rank, "{rank}", --world-size, "{world_size}",
          --init-method, "{init_method}", --backend, "{backend}", --epochs, "2"]
"""

QUICK = """
version: 1
name: quick
hosts: h[1-2]
image: lab/python:1
command: %s
stop_grace: 5s
"""


SHARE = 'volumes: ["/mnt/pytorch:/pytorch"]\n'
"""For ranks that wait for a file there."""


def write_job(home: Path, text: str) -> str:
    path = home / "job.yaml"
    path.write_text(text)
    return str(path)


def quick(home: Path, *script: str, extra: str = "") -> str:
    """A job that runs a shell script on each rank, with $RANK in its environment."""
    return write_job(home, QUICK % json.dumps(["sh", "-c", "\n".join(script)]) + extra)


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The last NDJSON event."""
    value = json.loads(done.stdout.splitlines()[-1])
    assert value["type"] == "result", value
    return dict(value)


@pytest.mark.parametrize("rendezvous", ["tcp", "env", "{file: /pytorch}"])
def test_two_host_mnist(lab: Any, home: Path, distui: Distui, trainers: Path, rendezvous: str) -> None:
    """The classic program runs unmodified by tcp, env and file, ends 0 with one final loss on both ranks."""
    before = set(lab.share.iterdir())
    done = distui("run", write_job(home, CLASSIC + f"rendezvous: {rendezvous}\n"), "--headless", "-y")

    assert done.returncode == 0, done.stdout + done.stderr
    finals = re.findall(r"rank (\d)/2 final loss (\S+) params (\S+)", done.stdout)
    assert {rank for rank, _, _ in finals} == {"0", "1"}
    assert len({(loss, params) for _, loss, params in finals}) == 1
    assert "test accuracy" in done.stdout
    assert set(lab.share.iterdir()) == before
    assert_clean(lab)


def test_infiniband_carries_the_data(lab: Any, home: Path, distui: Distui, trainers: Path) -> None:
    """`fabric: {kind: ib}` moves the data to ib0 and leaves eth0 to ssh."""
    job = CLASSIC.replace('--epochs, "2"', '--epochs, "6"') + "fabric: {kind: ib}\n"
    hosts = [lab.host("h1"), lab.host("h2")]
    before = [(sum(h.bytes("eth0")), sum(h.bytes("ib0"))) for h in hosts]
    done = distui("run", write_job(home, job), "--headless", "-y")
    after = [(sum(h.bytes("eth0")), sum(h.bytes("ib0"))) for h in hosts]

    assert done.returncode == 0, done.stdout + done.stderr
    for (eth_0, ib_0), (eth_1, ib_1) in zip(before, after, strict=True):
        assert ib_1 - ib_0 > 4_000_000
        assert eth_1 - eth_0 < (ib_1 - ib_0) / 4
    assert_clean(lab)


def test_torchrun_two_by_two(lab: Any, home: Path, distui: Distui, trainers: Path) -> None:
    """One container a host, two ranks in each, every rank's lines in its own log."""
    job = """
version: 1
name: tr
hosts: h[1-2]
image: lab/pytorch:1
launcher: torchrun
ranks: {per_host: 2}
backend: gloo
volumes: ["/mnt/pytorch:/pytorch"]
workdir: /pytorch/trainers
command: [mnist.py, --backend, gloo, --epochs, "1"]
"""
    done = distui("run", write_job(home, job), "--headless", "-y", "-o", "ndjson")

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    logs = sorted(Path(result_of(done)["log_dir"]).glob("rank-*.log"))
    assert [p.name for p in logs] == [f"rank-0000{r}.log" for r in range(4)]
    finals = [re.findall(r"final loss \S+ params \S+", p.read_text()) for p in logs]
    assert all(len(f) == 1 and f == finals[0] for f in finals), finals
    assert_clean(lab)


def test_the_first_failed_rank_is_named(lab: Any, home: Path, distui: Distui) -> None:
    """A rank that exits 3 ends the run with 1, is named with its host and last lines; the others are stopped."""
    job = quick(home, 'echo "here $RANK"', '[ "$RANK" = 1 ] && { echo boom >&2; exit 3; }', "sleep 900")
    began = time.monotonic()
    done = distui("run", job, "--headless", "-y", "-o", "ndjson")
    result = result_of(done)

    assert done.returncode == 1, done.stderr
    first = result["first_failure"]
    assert (first["rank"], first["host"], first["exit"]) == (1, "h2", 3)
    assert "boom" in first["excerpt"]
    assert result["leftovers"] == []
    assert time.monotonic() - began < 900
    states = {e["rank"]: e["state"] for e in map(json.loads, done.stdout.splitlines()) if e["type"] == "rank"}
    assert states == {0: "stopped", 1: "exited"}
    assert_clean(lab)


def test_the_report_reads_well(lab: Any, home: Path, distui: Distui) -> None:
    """In words: which rank, where, how, and its last lines; stdout holds the ranks' output with prefixes."""
    one = '[ "$RANK" = 1 ] && { until [ -e /pytorch/said ]; do sleep 0.1; done; echo boom >&2; exit 3; }'
    job = quick(home, 'echo "here $RANK"', one, "touch /pytorch/said", "sleep 600", extra=SHARE)
    done = distui("run", job, "--headless", "-y")
    (lab.share / "said").unlink()

    assert done.returncode == 1
    assert re.search(r"^0+1? h1 \| here 0$", done.stdout, re.M), done.stdout
    assert re.search(r"rank 1\b.*\bh2\b.*exit 3", done.stderr), done.stderr
    assert "boom" in done.stderr


def test_every_line_arrives_once_and_in_order(lab: Any, home: Path, distui: Distui) -> None:
    """20,000 lines from each rank, the last without newline, are in the log files byte for byte."""
    job = quick(home, "i=0; while [ $i -lt 20000 ]; do echo line $i of $RANK; i=$((i+1)); done; printf end")
    done = distui("run", job, "--headless", "-y", "-o", "json")

    assert done.returncode == 0, done.stderr
    log_dir = Path(json.loads(done.stdout)["log_dir"])
    for rank in range(2):
        expected = "".join(f"line {i} of {rank}\n" for i in range(20000)) + "end"
        assert (log_dir / f"rank-0000{rank}.log").read_text() == expected


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_the_run_everywhere(lab: Any, home: Path, number: int, code: int) -> None:
    """Ctrl-C and SIGTERM stop all ranks on all hosts and leave nothing."""
    job = quick(home, "echo started; sleep 3000")
    with lab.spawn_distui("run", job, "--headless", "-y", "--name", "ends", home=home) as program:
        until(lambda: all(log_of(home, "ends", rank) for rank in range(2)))
        program.send_signal(number)
        done = program.finish()

    assert done.returncode == code, done.stderr
    assert_clean(lab)


def test_a_closed_terminal_leaves_the_run_alive(lab: Any, home: Path, distui: Distui) -> None:
    """SIGHUP, as from a dropped ssh session, ends the viewer only and says how to go on."""
    job = quick(home, "echo up; sleep 600")
    with lab.spawn_distui("run", job, "--headless", "-y", "--name", "hup", home=home) as program:
        until(lambda: all(log_of(home, "hup", rank) for rank in range(2)))
        program.send_signal(signal.SIGHUP)
        done = program.finish()

    assert "distui attach hup" in done.stderr
    assert count_running(lab) == 2
    assert distui("stop", "hup", "-y").returncode == 0
    assert_clean(lab)


def test_a_second_interrupt_kills(lab: Any, home: Path) -> None:
    """A rank that ignores SIGTERM holds the first Ctrl-C up for the grace; the second one ends it at once."""
    job = quick(home, IGNORES_TERM).replace("5s", "120s")
    Path(job).write_text(Path(job).read_text().replace("stop_grace: 5s", "stop_grace: 300s"))
    with lab.spawn_distui("run", job, "--headless", "-y", "--name", "twice", home=home) as program:
        until(lambda: both_ignore(home, "twice"))
        program.send_signal(signal.SIGINT)
        until(lambda: times_asked(lab, "twice") == [1, 1])
        assert program.poll() is None
        program.send_signal(signal.SIGINT)
        done = program.finish()

    assert done.returncode == 130, done.stderr
    assert_clean(lab)


def test_detach_and_take_up_again_from_another_home(lab: Any, home: Path, distui: Distui, tmp_path: Path) -> None:
    """ps, logs, show, attach and wait find a run by its labels, also for somebody with an empty HOME."""
    script = "i=0; while [ $i -lt 600 ]; do echo tick $i; i=$((i+1)); sleep 0.01; done"
    started = distui("run", quick(home, script), "--headless", "-y", "-d", "--name", "far")
    assert started.returncode == 0, started.stderr

    other = lab.ssh_home(tmp_path / "other")
    shutil.copy(home / "hosts.yaml", other)
    listed = json.loads(lab.distui("ps", "--json", home=other).stdout)["runs"]
    assert [(r["run"], r["job"], r["ranks"]) for r in listed] == [("far", "quick", 2)]
    assert lab.distui("show", "far", home=other).returncode == 0

    attached = lab.distui("attach", "far", "--headless", home=other)
    assert attached.returncode == 0, attached.stderr
    for rank in range(2):
        ticks = re.findall(rf"^0*{rank} h{rank + 1} \| (tick \d+)$", attached.stdout, re.M)
        assert ticks == [f"tick {i}" for i in range(600)]
    assert_clean(lab)


def test_stop_from_elsewhere(lab: Any, home: Path, distui: Distui, tmp_path: Path) -> None:
    """`distui stop` by somebody else ends the run on all hosts; nothing is left, and its follower says so."""
    other = lab.ssh_home(tmp_path / "other")
    shutil.copy(home / "hosts.yaml", other)
    job = quick(home, "echo started; sleep 600")
    with lab.spawn_distui("run", job, "--headless", "-y", "--name", "tostop", home=home) as program:
        until(lambda: all(log_of(home, "tostop", rank) for rank in range(2)))
        stopped = lab.distui("stop", "tostop", "-y", home=other)
        done = program.finish()

    assert stopped.returncode == 0, stopped.stderr
    assert done.returncode in (143, 1), done.stderr
    assert_clean(lab)
    assert lab.distui("stop", "tostop", "-y", home=other).returncode == 0
    assert lab.distui("stop", "never-was", "-y", home=other).returncode == 7


def test_wait_gives_the_run_s_exit_code(lab: Any, home: Path, distui: Distui) -> None:
    """`distui wait` blocks until the run has ended and exits as it did."""
    held = quick(home, "until [ -e /pytorch/go ]; do sleep 0.1; done; exit 4", extra=SHARE)
    assert distui("run", held, "--headless", "-y", "-d", "--name", "w").returncode == 0
    with lab.spawn_distui("wait", "w", home=home) as waiter:
        until(lambda: lab.host("h1").out("find /root/.local/state/distui/hosts -name 'reader-*'"))
        (lab.share / "go").touch()
        done = waiter.finish()
    (lab.share / "go").unlink()

    assert done.returncode == 1, done.stderr
    assert_clean(lab)


def test_a_run_outlives_its_killed_controller(lab: Any, home: Path, distui: Distui) -> None:
    """kill -9 of distui leaves the run alive; attach picks it up and the log has every line once."""
    count = "i=0; while [ $i -lt 2000 ]; do echo n $i; i=$((i+1)); sleep 0.002; done"
    job = quick(home, count, f"until [ -e {LET_END} ]; do sleep 0.1; done")
    with lab.spawn_distui("run", job, "--headless", "-y", "--name", "orphan", home=home) as program:
        until(lambda: all(b"n 200\n" in log_of(home, "orphan", rank) for rank in range(2)))
        program.signal_group(signal.SIGKILL)
        program.wait()

    let_end(lab)
    attached = distui("attach", "orphan", "--headless", "-o", "json")
    assert attached.returncode == 0, attached.stderr
    log_dir = Path(json.loads(attached.stdout)["log_dir"])
    for rank in range(2):
        assert (log_dir / f"rank-0000{rank}.log").read_text() == "".join(f"n {i}\n" for i in range(2000))
    assert_clean(lab)


def test_printed_lines_work_when_pasted(lab: Any, home: Path, distui: Distui) -> None:
    """The plan's commands, pasted into a shell on the host, start the same container."""
    job = quick(home, 'echo "pasted $RANK of $WORLD_SIZE $PHRASE"', extra="env: {PHRASE: \"a 'b' $$HOME\"}\n")
    plan = distui("plan", job, "--full")
    assert plan.returncode == 0, plan.stderr

    blocks = re.split(r"^# (h\d)\b.*$", plan.stdout, flags=re.M)
    block = next(
        text for name, text in zip(blocks[1::2], blocks[2::2], strict=True) if name == "h1" and "docker" in text
    )
    done = lab.host("h1").exec("bash", "-s", input=block)
    container = done.stdout.split()[-1]
    try:
        until(lambda: lab.host("h1").out("docker", "inspect", "-f", "{{.State.Running}}", container) == "false")
        assert lab.host("h1").out("docker", "logs", container) == "pasted 0 of 2 a 'b' $HOME"
    finally:
        lab.host("h1").exec("docker", "rm", "-f", container)
        lab.host("h1").exec("rm -rf ~/.local/state/distui")


def test_a_secret_reaches_the_rank_and_nothing_else(lab: Any, home: Path, distui: Distui) -> None:
    """A secret's value is in the container's environment and in no plan, event, log, file or process list."""
    script = 'printf "length "; printf %s "$HF_TOKEN" | wc -c; until [ -e /pytorch/looked ]; do sleep 0.1; done'
    job = quick(home, script, extra=f"secrets: [HF_TOKEN]\n{SHARE}")
    with lab.spawn_distui(
        "run", job, "--headless", "-y", "-o", "ndjson", home=home, env={"HF_TOKEN": "hunter2-hunter2"}
    ) as program:
        events = read_until(program, type="phase", phase="follow")  # the env files are gone once all tasks run
        lists = [h.out("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '") for h in lab.hosts]
        files = [h.exec("grep -r hunter2 /root /tmp /var/tmp /home 2>/dev/null", check=False).stdout for h in lab.hosts]
        (lab.share / "looked").touch()
        events += rest_of(program)
        words = program.stderr.read()
    (lab.share / "looked").unlink()

    assert program.returncode == 0, words
    assert [e["line"] for e in events if e["type"] == "log"] == ["length 15"] * 2
    assert not any("hunter2" in text for text in [*lists, *files, json.dumps(events), words])
    assert subprocess.run(["grep", "-r", "hunter2", str(home)], capture_output=True).stdout == b""


def test_gpus_are_handed_over_by_name(lab: Any, home: Path, distui: Distui) -> None:
    """`gpus_per_host` becomes a real --gpus argument that Docker accepts, and the container sees those GPUs."""
    job = quick(home, "echo devices=$NVIDIA_VISIBLE_DEVICES", extra="gpus_per_host: [1]\n")
    done = distui("run", job, "--headless", "-y")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("devices=1") == 2


def test_without_a_job_file(lab: Any, home: Path, distui: Distui) -> None:
    """Flags alone make a run: hosts, image and a command."""
    command = ["sh", "-c", "echo rank $RANK of $WORLD_SIZE"]
    done = distui("run", "--headless", "-y", "-H", "h[1-2]", "--image", "lab/python:1", "--", *command)

    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2" in done.stdout


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ("image: lab/nope:1\npull: never", 3, "lab/nope:1"),
        ("hosts: [h1, h9]", 2, "h9"),
        ("gpus_per_host: 64", 3, "64"),
        ("master_port: 22", 3, "22"),
        ('env: {A: "x\\ny"}', 2, "newline"),
        ('name: "a;rm -rf $HOME"', 2, "name"),
        ("hosts: []", 2, "hosts"),
        ("ranks: {h1: [0, 1], h2: [1]}", 2, "rank 1"),
        ("command: [nope-not-there]", 1, "nope-not-there"),
    ],
)
def test_bad_input_is_one_clear_message(
    lab: Any, home: Path, distui: Distui, change: str, code: int, words: str
) -> None:
    """Each mistake gives one message that names it, the right exit code, and nothing is started."""
    keys = {line.split(":")[0] for line in change.splitlines()}
    base = [line for line in (QUICK % '["true"]').splitlines() if line.split(":")[0] not in keys]
    done = distui("run", write_job(home, "\n".join([*base, change]) + "\n"), "--headless", "-y")

    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert_clean(lab)


def test_a_name_in_use_is_refused_naming_its_owner(lab: Any, home: Path, distui: Distui, tmp_path: Path) -> None:
    """Two runs with one name: the second, from anywhere, is refused before anything starts."""
    assert distui("run", quick(home, "sleep 3000"), "--headless", "-y", "-d", "--name", "twin").returncode == 0
    other = lab.ssh_home(tmp_path / "other")
    shutil.copy(home / "hosts.yaml", other)
    try:
        done = lab.distui("run", quick(home, "true"), "--headless", "-y", "--name", "twin", home=other)

        assert done.returncode == 3, done.stderr
        assert "twin" in done.stderr
        assert count_running(lab) == 2
    finally:
        assert distui("stop", "twin", "-y").returncode == 0
    assert_clean(lab)


def test_hosts_that_cannot_reach_each_other_are_named(lab: Any, home: Path, distui: Distui) -> None:
    """An address that peers can't reach is found before a container starts."""
    lab.host("h1").fault("cut", "h2")
    try:
        done = distui("run", quick(home, "true"), "--headless", "-y")
    finally:
        lab.host("h1").heal()

    assert done.returncode == 3, done.stderr
    assert "h2" in done.stderr
    assert "reach" in done.stderr
    assert_clean(lab)


def test_a_host_that_is_down_stops_the_launch(lab: Any, home: Path, distui: Distui) -> None:
    """An unreachable host ends the command with 4 and its reason; nothing is started on the others."""
    lab.host("h2").fault("ssh-down")
    try:
        done = distui("run", quick(home, "true"), "--headless", "-y")
    finally:
        lab.host("h2").heal()

    assert done.returncode == 4, done.stderr
    assert "h2" in done.stderr
    assert "refuses connections" in done.stderr
    assert_clean(lab)


def test_the_process_engine_needs_no_container(lab: Any, home: Path, distui: Distui) -> None:
    """Engine `process` runs the command itself, with log, exit code and clean-up as for containers."""
    hosts = (home / "hosts.yaml").read_text()
    (home / "hosts.yaml").write_text("version: 1\ndefaults: {docker: process}\nhosts:\n  h[1-2]: {}\n")
    job = quick(home, 'echo "rank $RANK"; [ "$RANK" = 0 ] && exit 3; sleep 600').replace("x", "x")
    try:
        done = distui("run", job, "--headless", "-y", "-o", "ndjson")
    finally:
        (home / "hosts.yaml").write_text(hosts)

    assert done.returncode == 1, done.stdout + done.stderr
    assert result_of(done)["first_failure"]["rank"] == 0
    assert result_of(done)["first_failure"]["exit"] == 3
    assert_clean(lab)


PROCESSES = "version: 1\ndefaults: {docker: process}\nhosts:\n  h[1-2]: {}\n"


@pytest.mark.parametrize("keep", [False, True])
def test_a_process_whose_folder_was_removed_ends_with_its_run(lab: Any, home: Path, distui: Distui, keep: bool) -> None:
    """Somebody clears ~/.local/state under a rank: its run fails, and nothing of it lives on there, or is kept."""
    (home / "hosts.yaml").write_text(PROCESSES)
    goes = "until [ -e /mnt/pytorch/go ]; do sleep 0.1; done"
    job = quick(home, f'[ "$RANK" = 1 ] && {{ {goes}; rm -rf "$DISTUI_TASK_DIR"; }}; sleep 613')
    flags = ("--headless", "-y", "-o", "ndjson", *["--keep"] * keep)
    with lab.spawn_distui("run", job, *flags, home=home) as program:
        read_until(program, type="phase", phase="follow")  # before, it may be a start that fails
        (lab.share / "go").touch()
        *_, result = rest_of(program)
    (lab.share / "go").unlink()

    assert program.returncode == 1, result
    first = result["first_failure"]
    assert (first["rank"], first["words"]) == (1, "its folder there was removed by somebody else")
    if keep:
        assert "sleep 613" not in lab.hosts[1].out("ps", "-e", "-o", "args=")
        distui("stop", result["run"], "-y")
    assert_clean(lab)


def test_a_process_whose_folder_was_removed_while_nobody_followed_is_stopped(
    lab: Any, home: Path, distui: Distui
) -> None:
    """Its host lists nothing of it any more: whoever knows the plan ends it all the same."""
    (home / "hosts.yaml").write_text(PROCESSES)
    done = distui("run", quick(home, "sleep 600"), "-d", "-y", "--name", "cleared")
    assert done.returncode == 0, done.stdout + done.stderr
    lab.hosts[0].out("rm", "-rf", "/root/.local/state/distui")
    done = distui("stop", "cleared", "-y")

    assert "rank 0 on h1: its folder was removed before its end was seen" in done.stdout + done.stderr
    assert_clean(lab)


def test_podman_takes_the_same_job(lab: Any, home: Path, distui: Distui) -> None:
    """`docker: podman` in hosts.yaml: same arguments, same logs, same clean-up."""
    for host in lab.hosts[:2]:
        host.podman_image("lab/python:1")
    (home / "hosts.yaml").write_text("version: 1\ndefaults: {docker: podman}\nhosts:\n  h[1-2]: {}\n")
    job = quick(home, "i=0; while [ $i -lt 500 ]; do echo n $i; i=$((i+1)); done; printf 'no newline'")
    done = distui("run", job, "--headless", "-y", "-o", "json")

    assert done.returncode == 0, done.stdout + done.stderr
    log_dir = Path(json.loads(done.stdout)["log_dir"])
    for rank in range(2):
        text = (log_dir / f"rank-0000{rank}.log").read_text()
        assert text == "".join(f"n {i}\n" for i in range(500)) + "no newline"
    for host in lab.hosts[:2]:
        assert host.out("podman", "ps", "-aq") == ""


def test_the_demo_runs_in_containers_of_a_local_engine(lab: Any) -> None:
    """`distui demo --docker` trains in containers of the machine's own engine and leaves none."""
    site = lab.share / "site"
    shutil.copytree(Path(__file__).parents[2] / "distui", site / "distui", dirs_exist_ok=True)
    wheels = ["asyncssh", "click", "pyyaml", "rich"]
    subprocess.run([sys.executable, "-m", "pip", "-q", "install", "--target", site, *wheels], check=True)
    script = "cd /tmp && HOME=/root PYTHONPATH=/mnt/pytorch/site python3 -m distui.cli.main demo --docker"
    done = lab.host("h1").exec(f"{script} --image lab/pytorch:1 --epochs 2 2>&1", check=False, timeout=LIMIT)
    shutil.rmtree(site)
    lab.host("h1").exec("rm -rf /root/.local/state/distui")

    assert "test accuracy" in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout
    assert lab.host("h1").out("docker", "ps", "-aq") == ""


def test_gpus_and_network_are_sampled_while_it_runs(lab: Any, home: Path, distui: Distui) -> None:
    """Once a second each host's GPUs and interfaces are recorded, and told as events."""
    job = quick(home, "until [ -e /pytorch/sampled ]; do sleep 0.1; done", extra=SHARE)
    with lab.spawn_distui("run", job, "--headless", "-y", "-o", "ndjson", home=home) as program:
        samples: list[dict[str, Any]] = []
        while {e["host"] for e in samples if "ib0" in e["net"]} != {"h1", "h2"}:  # a first sample knows no rates
            samples += [e for e in read_until(program, type="gpu", indices=[0, 1]) if e["type"] == "gpu"]
        (lab.share / "sampled").touch()
        rest = rest_of(program)
    (lab.share / "sampled").unlink()

    assert program.returncode == 0, program.stderr
    samples = [e for e in (*samples, *rest) if e["type"] == "gpu"]
    assert {e["host"] for e in samples if "ib0" in e["net"]} == {"h1", "h2"}
    stored = Path(rest[-1]["log_dir"]).parent / "metrics.ndjson"
    assert len(stored.read_text().splitlines()) >= len(samples)


def test_kill_and_rm(lab: Any, home: Path, distui: Distui) -> None:
    """`kill` ends a run at once; `rm --purge` forgets it here."""
    job = quick(home, "trap '' TERM; while :; do sleep 1; done")
    assert distui("run", job, "--headless", "-y", "-d", "--name", "tokill").returncode == 0
    assert distui("kill", "tokill", "-y").returncode == 0
    assert_clean(lab)

    assert distui("rm", "tokill", "--purge", "-y").returncode == 0
    assert distui("show", "tokill").returncode == 7


def test_a_command_in_a_rank_s_container(lab: Any, home: Path, distui: Distui) -> None:
    """Words arrive as given, streams stay apart, and the exit status is the command's."""
    assert distui("run", quick(home, "sleep 100"), "-d", "-y", "--name", "inside").returncode == 0
    script = 'printf "%s|%s|%s\\n" "$RANK" "$0" "$1"; echo wrong >&2; exit 5'
    done = distui("exec", "inside", "--rank", "1", "--", "sh", "-c", script, "a\nb", r"it's \n ! $HOME")
    assert (done.returncode, done.stdout, done.stderr) == (5, "1|a\nb|it's \\n ! $HOME\n", "wrong\n")
    assert distui("exec", "inside", "--", "true").returncode == 2
    assert distui("kill", "inside", "-y").returncode == 0
    assert_clean(lab)


def test_a_command_in_a_container_ends_with_its_caller(lab: Any, home: Path, distui: Distui) -> None:
    """Ctrl-C, SIGTERM, --timeout, a reader that leaves: no engine tells the command. The rank itself goes on."""
    assert distui("run", quick(home, "sleep 1000"), "-d", "-y", "--name", "inside").returncode == 0
    h2 = lab.host("h2")

    def within() -> str:
        return str(h2.out("sh", "-c", "docker top $(docker ps -q --filter label=distui.run) -o pid,args"))

    call = ("exec", "inside", "--rank", "1", "--")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)):
        with lab.spawn_distui(*call, "sh", "-c", "sleep 2000 & sleep 3000; echo never", home=home) as program:
            until(lambda: "sleep 2000" in within() and "sleep 3000" in within())
            program.signal_group(number)
            done = program.finish()
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert "sleep 2000" not in within() and "sleep 3000" not in within()
    timed = distui("exec", "inside", "--rank", "1", "--timeout", "8s", "--", "sleep", "2000")
    assert timed.returncode == 124
    with lab.spawn_distui(
        *call, "sh", "-c", "while :; do echo more; sleep 0.1; done; sleep 2000", home=home
    ) as program:
        assert program.stdout.readline() == "more\n"
        program.stdout.close()
        assert program.wait(LIMIT) == 0
    assert "sleep 2000" not in within() and "echo more" not in within()
    assert "sleep 1000" in within()
    assert distui("kill", "inside", "-y").returncode == 0
    assert_clean(lab)


SAVES = "bash -c 'trap \"sleep 1; echo saved; exit 0\" TERM; echo begun; while :; do sleep 0.1; done'"


@pytest.mark.parametrize("engine", ["docker", "process"])
@pytest.mark.parametrize("text", [SAVES, f"true; {SAVES}; echo after"])
def test_a_program_below_a_shell_may_save_what_it_has(
    lab: Any, home: Path, distui: Distui, text: str, engine: str
) -> None:
    """`command` as text: the shell that runs it died of SIGTERM at once, and its container or group with it."""
    hosts = (home / "hosts.yaml").read_text()
    (home / "hosts.yaml").write_text(hosts if engine == "docker" else PROCESSES)
    job = write_job(home, (QUICK % json.dumps(text)).replace("stop_grace: 5s", "stop_grace: 120s"))
    run = f"saves-{engine}-{len(text)}"
    try:
        distui("run", job, "--name", run, "-d", "-y")
        until(lambda: distui("logs", run).stdout.count("begun") == 2)
        distui("stop", run, "-y")
    finally:
        (home / "hosts.yaml").write_text(hosts)
    for rank in (0, 1):
        said = log_of(home, run, rank).decode().splitlines()
        assert [line for line in said if "erminated" not in line] == ["begun", "saved"]
    assert_clean(lab)
