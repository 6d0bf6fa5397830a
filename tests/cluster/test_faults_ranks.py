"""Ranks that end or stop in every way on real hosts: what is said of each, who is named first, and what is left."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.runs.hosts.memory_kill import ASK, memory_kill
from lab.program import LIMIT
from lab.runs import until

pytestmark = pytest.mark.cluster

SHM = (
    "import mmap, os; f = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 1 << 28)\n"
    "m = mmap.mmap(f, 1 << 28)\n"
    "for i in range(0, 1 << 28, 4096): m[i] = 1"
)
WAYS = f"""
case $RANK in
0) exec python3 -c 'import ctypes; ctypes.string_at(0)' ;;
1) exec python3 -c 'import os; os.abort()' ;;
2) python3 -c 'x = [bytearray(1 << 20) for _ in range(4000)]'; echo "child ended with $?"
   until [ -e /pytorch/noticed ]; do sleep 0.1; done; exit 0 ;;
3) exec python3 -c "{SHM}" ;;
4) python3 -c 'import einops'; exit 0 ;;
5) sleep 4; echo done ;;
esac
"""

MEET = """
import datetime, os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=int(sys.argv[1])))
print("met", flush=True)
while True:
    dist.all_reduce(torch.ones(8))
"""


@pytest.fixture
def start(lab: Any, home: Path) -> Iterator[Callable[..., Any]]:
    """Starts a run of a shell script on h1 and h2; keywords are keys of the job."""
    programs: list[Any] = []

    def begin(script: str, *flags: str, **job: Any) -> Any:
        given = {"version": 1, "name": "ranks", "hosts": "h[1-2]", "image": "lab/python:1", "stop_grace": "2s"}
        (home / "job.yaml").write_text(json.dumps(given | {"command": ["sh", "-c", script]} | job))
        program = lab.spawn_distui("run", "job.yaml", "--headless", "-y", *flags, home=home)
        programs.append(program)
        return program

    yield begin
    for program in programs:
        program.__exit__(None, None, None)


def both_run(lab: Any) -> bool:
    """Whether h1 and h2 run a container of distui."""
    return all(host.running() for host in lab.hosts[:2])


def follows(home: Path, run: str) -> bool:
    """Whether a run that was started from there is past its start."""
    text = (home / f".local/state/distui/runs/{run}/events.ndjson").read_text()
    return '"phase":"follow"' in text.replace(" ", "")


def read_until(program: Any, kind: str, **wanted: object) -> dict[str, Any]:
    """The next event of an NDJSON run that has these values."""
    for line in program.stdout:
        event = dict(json.loads(line))
        if event["type"] == kind and all(event.get(key) == value for key, value in wanted.items()):
            return event
    raise AssertionError(f"no {kind} with {wanted}: {program.stderr.read()[-2000:]}")


def assert_clean(lab: Any) -> None:
    assert [left for host in lab.hosts for left in host.leftovers()] == []


def test_every_way_to_end_has_its_words(lab: Any, start: Callable[..., Any]) -> None:
    """Six ranks, each in its own way, with `on_fail: wait`; one that ends early is no success of the others.

    Docker may learn of an out-of-memory kill after the end of a container that ends at once: rank 2 waits for that.
    """
    program = start(
        WAYS, "--name", "ways", "-o", "ndjson", ranks={"per_host": 3}, on_fail="wait", ipc="private", shm_size="64m",
        docker_args=["--memory", "100m"], volumes=["/mnt/pytorch:/pytorch"],
    )  # fmt: skip
    ooms = "docker events --since 10m --until $(date +%s) --filter event=oom --filter container=distui-ways-2"
    until(lambda: bool(lab.host("h1").exec(ooms).stdout))
    (lab.share / "noticed").write_text("")
    done = program.finish()
    (lab.share / "noticed").unlink()
    events = [json.loads(line) for line in done.stdout.splitlines()]
    ends = {e["rank"]: e for e in events if e["type"] == "rank" and e["state"] in ("exited", "killed", "oom")}
    said = {rank: f"{e['state']}: {e['words']}" for rank, e in ends.items()}

    assert done.returncode == 1, done.stderr
    assert said[0] == "killed: killed by SIGSEGV (segmentation fault), exit 139"
    assert said[1].startswith("killed: killed by SIGABRT")
    assert said[2].startswith("oom: out of memory: the kernel killed a process of it, which ended with exit 0")
    assert said[3].startswith("killed: killed by SIGBUS (bus error: often /dev/shm is full)")
    assert said[4] == said[5] == "exited: exit 0"
    assert "No module named 'einops'" in (Path(events[-1]["log_dir"]) / "rank-00004.log").read_text()
    assert events[-1]["leftovers"] == []
    assert_clean(lab)


@pytest.mark.parametrize(
    ("command", "words", "hint"),
    [
        (["nobody-has-this"], "command not found (exit 127)", "check `command:`"),
        (["/etc/passwd"], "the command can't be executed (exit 126)", "chmod +x"),
        (["python3", "-c", SHM], "SIGBUS", "raise `shm_size:`"),
        (["python3", "-c", "import einops"], "exit 1", "install it in the image"),
    ],
)
def test_the_report_says_what_to_do(
    lab: Any, start: Callable[..., Any], command: list[str], words: str, hint: str
) -> None:
    """What a rank ended with and what helps against it."""
    done = start("", command=command, hosts="h1", ipc="private", shm_size="64m").finish()

    assert done.returncode == 1, done.stderr
    assert words in done.stderr
    assert hint in done.stderr


def test_a_limit_of_memory(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """By the engine's flag or the kernel's log, with a hint; a 137 without either is never called out of memory."""
    eat = "[ $RANK = 0 ] && sleep 3000; exec python3 -c 'x = [bytearray(1 << 20) for _ in range(4000)]'"
    oom = start(eat, docker_args=["--memory", "40m"]).finish()
    program = start("sleep 3000", "--name", "killed")
    until(lambda: both_run(lab) and follows(home, "killed"))
    lab.host("h2").fault("rank-kill", lab.host("h2").containers()[0])
    killed = program.finish()

    assert "rank 1 on h2: out of memory: the kernel killed it (exit 137)" in oom.stderr, oom.stderr
    assert "--memory" in oom.stderr
    assert "rank 1 on h2: killed by SIGKILL, exit 137" in killed.stderr, killed.stderr
    assert "something outside distui killed it" in killed.stderr
    assert "out of memory:" not in killed.stderr
    assert_clean(lab)


def test_the_kernel_s_log_names_a_container_that_was_killed_for_memory(lab: Any) -> None:
    """As the host's kernel writes it: the engine's flag may be missing on a busy host."""
    h1 = lab.host("h1")
    eat = ("python3", "-c", "x = [bytearray(1 << 20) for _ in range(4000)]")
    h1.exec("docker", "run", "--name", "eats", "--memory", "40m", "lab/python:1", *eat, check=False)
    try:
        container = h1.out("docker", "inspect", "-f", "{{.Id}}", "eats").strip()
        said = h1.out("sh", "-c", ASK, "distui-memory", container)
        assert memory_kill(said, container) == "limit", said
        assert memory_kill(said, "0" * 64) == ""
    finally:
        h1.exec("docker", "rm", "-f", "eats")


def test_a_rank_that_hangs_is_said_to_be_silent(lab: Any, start: Callable[..., Any]) -> None:
    """SIGSTOP: since when it says nothing, and when it is back; SIGTERM is ignored by a stopped one, SIGKILL is not."""
    program = start(
        "trap '' TERM; while :; do echo here; sleep 0.3; done", "-o", "ndjson", "--log-to", "none", stall_after="2s"
    )
    read_until(program, "phase", phase="follow")
    h2 = lab.host("h2")
    h2.fault("rank-stop", h2.containers()[0])
    quiet = read_until(program, "silence", rank=1)
    h2.fault("rank-cont")
    back = read_until(program, "silence", rank=1)
    h2.fault("rank-stop", h2.containers()[0])
    program.signal_group(signal.SIGINT)
    result = [json.loads(line) for line in program.stdout][-1]
    program.wait(LIMIT)

    assert (quiet["quiet"], back["quiet"]) == (True, False), (quiet, back)
    assert (result["state"], result["leftovers"]) == ("stopped", [])
    assert_clean(lab)


def test_a_cascade_names_the_rank_that_was_killed(lab: Any, start: Callable[..., Any]) -> None:
    """Under gloo the peer fails at once with "connection closed": it is not the cause."""
    program = start("", "-o", "ndjson", image="lab/pytorch:1", backend="gloo", command=["python3", "-c", MEET, "60"])
    seen = 0
    for line in program.stdout:
        seen += '"met"' in line
        if seen == 2:
            break
    lab.host("h2").fault("rank-kill", lab.host("h2").containers()[0])
    result = [json.loads(line) for line in program.stdout][-1]
    program.wait(LIMIT)

    first = result["first_failure"]
    assert (result["state"], first["rank"], first["host"], first["exit"]) == ("failed", 1, "h2", 137)
    assert_clean(lab)


LOST_PEER = """
import os, socket, sys, time
rank, at = int(os.environ["RANK"]), ("127.0.0.1", 29777)
if rank == 3:
    server = socket.create_server(at)
    peer, _ = server.accept()
    peer.recv(1)
    raise ValueError("bad batch 17")
elif rank == 2:
    for _ in range(600):
        try:
            peer = socket.create_connection(at)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    peer.sendall(b"x")
    if not peer.recv(1):
        raise ConnectionError("Connection closed by peer [127.0.0.1]:29777")
"""


def test_a_traceback_is_named_before_what_it_brought_about(lab: Any, start: Callable[..., Any]) -> None:
    """Of four ranks one raises, its peer sees its connection closed and raises too, the others have ended well."""
    done = start("", "-o", "ndjson", ranks={"per_host": 2}, command=["python3", "-c", LOST_PEER]).finish()
    result = json.loads(done.stdout.splitlines()[-1])

    assert done.returncode == 1, done.stderr
    first = result["first_failure"]
    assert (first["rank"], first["host"], first["exit"]) == (3, "h2", 1)
    assert "ValueError: bad batch 17" in "\n".join(first["excerpt"])
    assert_clean(lab)


def test_a_rendezvous_that_never_completes(lab: Any, start: Callable[..., Any]) -> None:
    """A firewall drops the port: found before the start, by who can't reach whom; without that check, in words."""
    lab.host("h1").fault("cutport", 29555)
    job = {"master_port": 29555, "image": "lab/pytorch:1", "backend": "gloo", "command": ["python3", "-c", MEET, "5"]}
    refused = start("", **job).finish()
    done = start("", "--no-preflight", **job).finish()

    assert refused.returncode == 3, refused.stderr
    assert "h2" in refused.stderr
    assert "h1" in refused.stderr
    assert "reach" in refused.stderr
    assert done.returncode == 1, done.stderr
    assert "cause  not every rank reached the rendezvous" in done.stderr
    assert "that this host reaches MASTER_ADDR" in done.stderr
    assert_clean(lab)


def test_a_stop_while_a_host_is_out_of_reach(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """It is carried out where it can be; what may still run is named; the next stop ends that and blames nobody."""
    assert start("sleep 3000", "-d", "--name", "away").finish().returncode == 0
    lab.host("h2").fault("ssh-down")
    first = lab.distui("stop", "away", "-y", home=home)
    ran = [host.containers() for host in lab.hosts[:2]]
    lab.host("h2").fault("ssh-up")
    listed = lab.distui("ps", home=home)
    second = lab.distui("stop", "away", "-y", home=home)

    assert first.returncode == 6, first.stderr
    assert "h2: may still have" in first.stderr
    assert "distui stop away" in first.stderr
    assert ran == [[], ["distui-away-1"]]
    assert "away" in listed.stdout
    assert second.returncode == 0, second.stderr
    assert "failed first" not in second.stderr
    assert "rank 1 on h2 stopped by distui" in second.stderr
    assert_clean(lab)
