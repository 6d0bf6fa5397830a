"""`distui why` on runs that hang: real torch over gloo, asked over ssh, nothing in the programs that helps."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fakehosts import ras
from lab import hangs
from lab.hangs import HANGS, LINE, program
from lab.program import LIMIT
from lab.runs import ended_after, log_of, until
from lab.terminal import Terminal

Distui = Callable[..., subprocess.CompletedProcess[str]]
Hang = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.long


@pytest.fixture
def begin(lab: Any, start: Any) -> Callable[..., Any]:
    """Starts a program as four ranks on two hosts."""

    def begun(text: str, **job: Any) -> Any:
        (lab.share / "hang.py").write_text(text)
        return start("", "--name", "stuck", job=hangs.job(**job))

    return begun


@pytest.fixture
def hang(begin: Callable[..., Any], distui: Distui) -> Hang:
    """Runs a program, and asks why it hangs once it stands still; `then` is done before. `culprits`: see `ask`."""

    def run(
        text: str, *, then: Callable[[], object] = lambda: None, culprits: Sequence[int] = (), **job: Any
    ) -> dict[str, Any]:
        run.program = begin(text, **job)  # type: ignore[attr-defined]
        for line in run.program.stdout:  # type: ignore[attr-defined]
            if hangs.LAST in line:
                break
        else:
            raise AssertionError(text)
        then()
        return ask(distui, culprits)

    return run


def ask(distui: Distui, culprits: Sequence[int] = ()) -> dict[str, Any]:
    """What is said as soon as something stands still. With `culprits`, who must be named each time, once nobody else
    is: a rank that gets no core for a while has not entered either.
    """
    found: dict[str, Any] = {}

    def stands() -> bool:
        done = distui("why", "stuck", "-o", "json")
        assert done.returncode == 0, done.stderr
        found.update(json.loads(done.stdout))
        if found["kind"] in ("moving", "unseen") or not found["collective"]:
            return False
        assert set(culprits) <= set(found["culprits"]), found["headline"]
        return not culprits or found["culprits"] == list(culprits)

    until(stands)
    return found


def kept(distui: Distui, home: Path) -> tuple[str, Path]:
    """A whole answer, and the folder in which it is kept, once it has the calls of those that wait: a rank that gets no
    core for a while tells none.
    """
    said: list[tuple[str, Path]] = []

    def tells_all() -> bool:
        folder = home / f"kept{len(said)}"
        said.append((distui("why", "stuck", "--stacks", "--save", folder.name).stdout, folder))
        return "hang.py:11 in <module>" in (folder / "stacks.txt").read_text()

    until(tells_all)
    return said[-1]


def follower_says(hang: Hang, *words: str) -> None:
    """Wait until whoever follows the run says all of this in one line; fail where the run ends without it."""
    following, said = hang.program, list[str]()  # type: ignore[attr-defined]
    with ended_after(following, LIMIT):
        for line in following.stderr:
            said.append(line)
            if all(word in line for word in words):
                return
    pytest.fail(f"{words} is not in one line of {said}")


def stop(distui: Distui) -> None:
    """End the run; what it leaves is looked for afterwards."""
    assert distui("stop", "stuck", "-y").returncode == 0


SLEEPS = "sleeps before a collective"
"""The plainest hang, which has a test of its own."""


def test_a_rank_that_sleeps(hang: Hang, distui: Distui, home: Path) -> None:
    """Named by whoever follows the run, and by `why`: rank, collective, file and line; the whole answer can be kept."""
    one = HANGS[SLEEPS]
    found = hang(one.text, culprits=one.culprits, stall_after="3s")

    assert (found["kind"], found["culprits"], found["certainty"]) == ("hang", [2], "certain")
    assert all(words in found["headline"] for words in one.words), found["headline"]
    first = found["ranks"][0]
    assert (first["rank"], first["behind"]) == (2, 1)
    assert f"sleeps at /pytorch/hang.py:{LINE} in load" in first["does"]
    text, folder = kept(distui, home)
    assert text.startswith("rank 2 has not entered all_reduce #21") and "in load" in text
    assert json.loads((folder / "why.json").read_text())["culprits"] == [2]
    follower_says(hang, *one.words)
    stop(distui)
    done = hang.program.finish()  # type: ignore[attr-defined]
    assert "rank 2 has not entered all_reduce #21" in done.stdout + done.stderr


SLEPT = ("rank 2 is in no collective, while rank", f"in all_reduce: it sleeps at /pytorch/hang.py:{LINE} in load")
CALLED = (
    "all ranks wait, in different calls: rank ",
    f" in broadcast at /pytorch/hang.py:{LINE} in load",
    " in all_reduce",
)


@pytest.mark.parametrize(
    ("text", "kind", "culprit", "words"),
    [
        (program("time.sleep(600)"), "hang", 2, SLEPT),
        (program("dist.broadcast(x, 0)", who=1), "mismatch", 1, CALLED),
    ],
    ids=["a rank sleeps", "a rank calls another one"],
)
def test_a_hang_where_torch_records_no_collectives(
    hang: Hang, distui: Distui, text: str, kind: str, culprit: int, words: tuple[str, ...]
) -> None:
    """As with an old torch: named by its calls, by whoever follows the run and by `why`, and never as certain. Of
    those that wait only who was given no core meanwhile counts.
    """
    found = hang(text, culprits=[culprit], stall_after="3s", env={"TORCH_FR_BUFFER_SIZE": "0"})

    assert (found["kind"], found["culprits"], found["certainty"]) == (kind, [culprit], "likely")
    assert all(one in found["headline"] for one in words), found["headline"]
    follower_says(hang, *words)
    stop(distui)
    hang.program.finish()  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", [name for name, one in HANGS.items() if not one.ends and name != SLEEPS])
def test_what_holds_the_others_up(hang: Hang, distui: Distui, lab: Any, way: str) -> None:
    """By `why` and by whoever follows the run, each in its own words: rank, collective, file and line; and where a
    line can't be seen, since a process is stopped or its host is out of reach, that and why.
    """
    one = HANGS[way]
    found = hang(one.text, then=lambda: one.begin(lab), culprits=one.culprits, stall_after="3s")

    assert (found["kind"], found["culprits"]) == (one.kind, list(one.culprits)), found["headline"]
    assert all(words in found["headline"] for words in one.words), found["headline"]
    assert any(line.startswith(one.evidence) for line in found["evidence"]), found["evidence"]
    follower_says(hang, *(one.said or one.words))
    one.end(lab)
    stop(distui)


def test_a_network_that_carries_nothing(hang: Hang, distui: Distui, lab: Any) -> None:
    """Every rank has entered, and nobody is to blame: which connections are not answered tells where to look."""
    paced = program("pass", collective=hangs.PACED)
    found = hang(paced, then=lambda: lab.host("h1").fault("cut", "h2"), stall_after="3s")

    def tells() -> bool:
        found.update(ask(distui))
        return bool(found["advice"].startswith("look at the network between h1 and h2: what h"))

    until(tells)
    assert (found["kind"], found["culprits"]) == ("hang", []), found["headline"]
    assert re.match(r"every rank has entered all_reduce #\d+ .*, and it does not end", found["headline"])
    lost = re.compile(r"rank [0-3] on h[12]: .* for rank [0-3] on h[12] wait to be sent, sent again \d+ times without")
    assert any(lost.match(line) for line in found["evidence"]), found["evidence"]
    assert any(one["tries"] > 1 for host in found["hosts"].values() for one in host["connections"])
    follower_says(hang, "every rank has entered all_reduce #")
    lab.host("h1").fault("uncut")
    stop(distui)


def test_ranks_of_torchrun(hang: Hang, distui: Distui) -> None:
    """Several in one container: each is known by what it says of itself."""
    found = hang(program("time.sleep(600)"), culprits=[2], launcher="torchrun", command=["/pytorch/hang.py"])

    assert (found["kind"], found["culprits"]) == ("hang", [2]), found["headline"]
    assert f"hang.py:{LINE} in load" in found["headline"]
    stop(distui)


def test_hosts_that_torchrun_numbers_in_another_order(hang: Hang, distui: Distui) -> None:
    """With c10d by their addresses as text: who sleeps is named as in logs, on its host, and torch's number is told."""
    text = program("print('sleeps as', rank, flush=True); time.sleep(600)", who=1)
    torchrun = {"launcher": "torchrun", "torchrun": {"rdzv": "c10d"}, "command": ["/pytorch/hang.py"]}
    found = hang(text, culprits=[3], hosts="h2,h1", stall_after="3s", **torchrun)

    assert (found["kind"], found["culprits"], found["certainty"]) == ("hang", [3], "certain"), found["headline"]
    assert (
        "rank 3 has not entered all_reduce #21" in found["headline"] and f"hang.py:{LINE} in load" in found["headline"]
    )
    assert [(one["rank"], one["host"]) for one in found["ranks"]] == [(3, "h1"), (0, "h2"), (1, "h2"), (2, "h1")]
    assert any("rank 0 is torch's 2, rank 1 is torch's 3" in line for line in found["evidence"]), found["evidence"]
    follower_says(hang, "rank 3 has not entered all_reduce #21", f"sleeps at /pytorch/hang.py:{LINE} in load")
    stop(distui)
    assert "sleeps as 1" in distui("logs", "stuck", "--rank", "3").stdout


FORKS = """
import torch.multiprocessing as mp
def work(local):
    os.environ.update(LOCAL_RANK=str(local), RANK=str(2 * int(os.environ["RANK"]) + local), WORLD_SIZE="4")
    main()
if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method="fork")
"""
TORCHRUN = (
    "exec python3 -m torch.distributed.run --nnodes 2 --node-rank $RANK --nproc-per-node 2 "
    "--master-addr $MASTER_ADDR --master-port $MASTER_PORT /pytorch/hang.py"
)


@pytest.mark.parametrize(
    ("ending", "command"),
    [(FORKS, ["python3", "/pytorch/hang.py"]), ("main()", ["sh", "-c", TORCHRUN])],
    ids=["forked", "torchrun in the command"],
)
def test_ranks_that_a_program_starts_itself(hang: Hang, distui: Distui, ending: str, command: list[str]) -> None:
    """distui knows of one rank a host, torch of two: the one that sleeps is named as torch counts."""
    head, _, body = program("time.sleep(600)", who=1).partition("\ndist.")
    text = f"{head}\ndef main():\n" + textwrap.indent(f"dist.{body}", "    ") + ending
    found = hang(text, culprits=[0], ranks={"per_host": 1}, command=command)

    assert (found["kind"], found["culprits"]) == ("hang", [0]), found["headline"]
    assert found["headline"].startswith("rank 1 has not entered all_reduce #21"), found["headline"]
    assert [(place["rank"], place["host"], place["within"]) for place in found["ranks"]] == [
        (1, "h1", 0), (0, "h1", 0), (2, "h2", 1), (3, "h2", 1),
    ]  # fmt: skip
    assert "ranks as torch counts them: 0-1 in rank 0, 2-3 in rank 1 of this run" in found["evidence"]
    stop(distui)


@pytest.mark.parametrize(("network", "addresses"), [("host", ["10.77.0.11", "10.77.0.12"]), ("none", ["127.0.0.1"])])
def test_nccl_s_own_counts_name_a_rank(hang: Hang, distui: Distui, network: str, addresses: list[str]) -> None:
    """By RAS alone, on the host's network and in a container's: no torch tells anything. What answers is a stand-in for
    NCCL's RAS thread (tests/fakehosts/ras.py), for there is no GPU here.
    """
    program = Path(ras.__file__).read_text()
    found = hang(program, command=["python3", "/pytorch/hang.py", "2", *addresses], network=network, stall_after="8s")

    assert (found["kind"], found["certainty"], found["culprits"]) == ("hang", "certain", [2]), found
    assert found["headline"].startswith("rank 2 has not launched AllReduce #20 in NCCL's communicator of all ranks")
    assert any("AllReduce launched: 19 by rank 2 on h2" in line for line in found["evidence"])
    follower_says(hang, "rank 2 has not launched AllReduce #20")
    stop(distui)


GPU_FAULTS = {
    "gpu-lost": ["is lost: it has fallen off the bus"],
    "gpu-sick": [
        "must be reset (`gpu_recovery_action`)",
        "counted 2 memory errors that ECC could not correct, since the run began",
    ],
}


def test_the_gpu_of_who_holds_the_others_up(hang: Hang, distui: Distui, lab: Any) -> None:
    """Tied to its rank and to the collective; the lab's nvidia-smi is a stand-in (tests/lab/stubs)."""
    host = lab.host("h2")
    found = hang(program("time.sleep(600)"), culprits=[2], gpus_per_host=2)
    assert found["culprits"] == [2] and "GPU 0" not in found["headline"], found
    for fault, words in GPU_FAULTS.items():
        host.fault(fault, "0")
        found = ask(distui, [2])
        host.fault("gpu-ok")

        assert (found["kind"], found["culprits"]) == ("hang", [2]), found
        assert found["headline"].startswith("rank 2 has not entered all_reduce #21")
        assert f"; its GPU 0 {words[0]}" in found["headline"] and "reset GPU 0 of h2" in found["advice"]
        assert all(any(f"rank 2 on h2: GPU 0 {word}" in line for line in found["evidence"]) for word in words), found
    stop(distui)


QUIET = """
import datetime, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1000)
dist.all_reduce(x)
print("since", datetime.datetime.utcnow().isoformat(), flush=True)
for step in range(500):
    dist.all_reduce(x)
    time.sleep(0.05)
print("until", datetime.datetime.utcnow().isoformat(), flush=True)
"""


def test_a_run_that_says_nothing_and_goes_on(begin: Any, home: Path) -> None:
    """Its ranks are asked in time: nobody says that one is quiet, or that the run stands still, or why."""
    done = begin(QUIET, stall_after="12s").finish()

    assert done.returncode == 0, done.stderr
    logs = b"".join(log_of(home, "stuck", rank) for rank in range(4)).decode()
    since, until = max(re.findall(r"since (\S{23})", logs)), min(re.findall(r"until (\S{23})", logs))
    text = (home / ".local/state/distui/runs/stuck/events.ndjson").read_text()
    events = [event for event in map(json.loads, text.splitlines()) if since < event["ts"][:23] < until]
    moved = Counter(rank for event in events if event["type"] == "moved" for rank in event["ranks"])
    assert min(moved[rank] for rank in range(4)) > 1, moved
    claims = [event for event in events if event["type"] == "why" or event.get("stalled") or event.get("quiet")]
    assert claims == []


def test_a_job_that_wants_none_of_it(start: Any, distui: Distui) -> None:
    """`insight: off`: nothing is set, and `why` says what it can't see."""
    start("env | grep -c -e INSIGHT -e TORCH_FR -e PYTHONPATH; sleep 600", "--name", "stuck", job={"insight": "off"})
    found = json.loads(distui("why", "stuck", "-o", "json").stdout)

    assert (found["kind"], found["culprits"]) == ("unseen", [])
    assert "insight: off" in found["evidence"][0]
    assert [place["does"] for place in found["ranks"]] == ["sleeps"] * 2
    stop(distui)
    assert distui("logs", "stuck").stdout.count("| 0") == 2


SHELL = r"""
exec 2>&1
echo out; echo err >&2; printf '\033[31mred\033[0m and no end'; echo; printf 'a\rb\0c\n'
python3 -c 'import os, sys; print(sys.path, sys.flags); print(len(os.listdir("/proc/self/fd"))); sys.exit(3)'; echo $?
sh -c 'kill $$'; echo "ended by $?"; python3 -c 1/0; trap 'printf trapped' EXIT; printf end; exit 0
"""
TENSORFLOW = """
import sys, tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def step():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.range(4.0)))
for number in range(3):
    print("step", number, step().numpy(), flush=True)
place = strategy.cluster_resolver
print(place.task_type, place.task_id, strategy.num_replicas_in_sync, sys.path, flush=True)
"""
OTHERS: dict[str, dict[str, Any]] = {
    "a shell script": {"command": ["sh", "-c", SHELL]},
    "TensorFlow": {
        "image": "lab/tensorflow:1",
        "launcher": "tf",
        "roles": {"worker": {"per_host": 1}},
        "env": {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "NONE"},
        "command": ["sh", "-c", 'exec python3 -c "$0" 2>&1', TENSORFLOW],
    },
}

STAMP = re.compile(rb"\d+\.\d{6} +\d+ ")
"""In TensorFlow's own lines: the time and its thread, which differ from run to run."""


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_torch_says_the_same_with_the_hook(start: Any, home: Path, kind: str) -> None:
    """Byte for byte in the log of each rank, though it has the hook first on its path. One stream: of two, which comes
    first is anybody's guess.
    """
    logs = {}
    for insight in ("on", "off"):
        done = start("", "--name", insight, wait=False, job=OTHERS[kind] | {"insight": insight}).finish()
        assert done.returncode == 0, done.stdout + done.stderr
        logs[insight] = [STAMP.sub(b"STAMP ", log_of(home, insight, rank)) for rank in range(2)]
    assert all(b"endtrapped" in log or b"\nworker " in log for log in logs["on"]), logs
    assert logs["on"] == logs["off"]


def test_a_run_that_hangs_is_stopped_and_tells_why_for_ever(begin: Any, distui: Distui) -> None:
    """`on_hang: stop`: a failure with the rank that held the others up; `show` and `why` tell it after the end."""
    done = begin(program("time.sleep(600)"), stall_after="10s", on_hang="stop").finish()

    assert done.returncode == 1, done.stderr
    assert "rank 2 on h2 failed first: it held the others up" in done.stderr
    assert "cause  rank 2 has not entered all_reduce #21" in done.stderr
    shown = json.loads(distui("show", "stuck", "-o", "json").stdout)
    assert shown["first_failure"]["rank"] == 2
    assert f"hang.py:{LINE} in load" in shown["first_failure"]["cause"], shown["why"]
    blamed = [one["culprits"] for one in shown["why"] if one["culprits"]]  # a busy machine may not tell once in between
    assert blamed and all(ranks == [2] for ranks in blamed)
    assert "why      " in distui("show", "stuck").stdout
    reported = distui("why", "stuck", "--stacks")
    assert reported.returncode == 0 and "rank 2 has not entered all_reduce #21" in reported.stdout
    assert "hang.py:11 in <module>" in reported.stdout


def tells_calls(term: Terminal) -> bool:
    """Whether the panel shows the calls of rank 0, and who else is there. A rank that gets no core for a while tells no
    calls: it is asked again, as a person would.
    """
    text = term.screen()
    if "the same in ranks 1,3" in text and "hang.py:11 in <module>" in text:
        return True
    if "asking" not in text:
        term.keys("r")
    return False


@pytest.mark.parametrize("attached", [False, True], ids=["its own run", "an attached one"])
def test_the_why_panel_by_keys(lab: Any, home: Path, distui: Distui, attached: bool) -> None:
    """In the app: seen without a key, asked over the run's own connections, rank by rank, and to the rank's log."""
    (lab.share / "hang.py").write_text(program("time.sleep(600)"))
    job = {"version": 1, "name": "hang", "hosts": "h[1-2]", "ranks": {"per_host": 2}, "image": "lab/pytorch:1",
           "volumes": ["/mnt/pytorch:/pytorch:ro"], "command": ["python3", "/pytorch/hang.py"],
           "stall_after": "3s", "stop_grace": "1s"}  # fmt: skip
    (home / "job.yaml").write_text(json.dumps(job))
    with Terminal(lab, home, (120, 40)) as term:
        how = "-d -y; clear; distui attach stuck" if attached else "-y"
        term.enter(f"distui run job.yaml --name stuck {how}")
        term.wait("STALLED", "Rank 2 has not entered all_reduce #21", "w why", "02  stuck")
        term.keys("w")
        term.wait("stuck › why", "hang", "!2", re.compile(r"last answer \ds ago"), without="asking")
        term.wait(f"sleeps at /pytorch/hang.py:{LINE} in load", "hang.py:10 in <module>", "next  look at")
        for size in ((80, 24), (200, 50)):
            term.resize(*size)
            term.wait("!2", "rank 2 on h2", "hang.py:10 in <module>", f"next  look at /pytorch/hang.py:{LINE}")
        term.keys("j")
        term.wait("rank 0 on h1")
        until(lambda: tells_calls(term))
        term.keys("k", "Enter")
        term.wait("Runs › stuck ", "02  h2", "step 19", without="why   hang")
        term.keys("S")
        term.wait("Stop stuck?")
        term.keys("Right", "Enter")
        term.wait("STOPPED")
        term.keys("w")
        term.wait("stuck has ended; last answer at", "rank 2 has not entered all_reduce #21")
        term.keys("q", "q", "q")
        term.wait_shell()
    kinds = {one["kind"] for one in json.loads(distui("show", "stuck", "-o", "json").stdout)["why"]}
    assert kinds - {"moving"} == {"hang"}  # on a busy machine the steps before it may take longer than `stall_after`


def test_a_run_that_hangs_is_restarted(begin: Any) -> None:
    """`on_hang: restart`: the next attempt goes through, and the run has succeeded."""
    once = "time.sleep(600 if os.environ['DISTUI_ATTEMPT'] == '1' else 0)"
    text = program(once).replace("range(100000)", "range(30)")
    text += "dist.destroy_process_group()\n"  # else torch aborts now and then as it ends
    done = begin(text, stall_after="3s", on_hang="restart", retries=1).finish()

    assert done.returncode == 0, done.stderr
    assert "attempt 1 of 2 failed: rank 2 on h2: it held the others up" in done.stderr
    assert "attempt 2 of 2" in done.stderr


def test_a_time_out_of_gloo_names_the_rank_that_did_not_enter(begin: Any) -> None:
    """It is asked where it is before it is stopped, though nothing was asked for before."""
    limit = 'import datetime\ndist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))'
    text = program("time.sleep(600)").replace('dist.init_process_group("gloo")', limit)
    done = begin(text).finish()

    assert done.returncode == 1, done.stderr
    (cause,) = [line for line in done.stderr.splitlines() if line.startswith("  cause  ")]
    assert cause.startswith("  cause  a collective timed out: another rank is late, stuck or gone; rank 2 ha")
    assert f"hang.py:{LINE + 1} in load" in cause


@pytest.mark.parametrize(
    ("load", "certain"),
    [("dist.all_reduce(torch.ones(100000))", True), ("dist.all_reduce(torch.ones(10))", False)],
    ids=["more", "less"],
)
def test_another_shape_is_named_with_its_place(begin: Any, distui: Distui, load: str, certain: bool) -> None:
    """gloo ends a rank for it, whichever expected less than it got; what all left behind tells who was the odd one."""
    done = begin(program(load)).finish()

    assert done.returncode == 1, done.stderr
    failure = json.loads(distui("show", "stuck", "-o", "json").stdout)["first_failure"]
    words = "rank 2 called all_reduce of 100000 Float" if certain else "rank 2 was in all_reduce"
    assert f"{words} at /pytorch/hang.py:{LINE} in load" in failure["cause"], done.stderr
    assert "in <module>" in failure["cause"]
    assert "why      " in distui("show", "stuck").stdout


def test_a_crash_in_compiled_code_is_named_with_its_place(begin: Any, distui: Distui) -> None:
    """Though neither its log nor the engine tells it."""
    done = begin(program("import ctypes; ctypes.string_at(0)")).finish()

    assert done.returncode == 1, done.stderr
    failure = json.loads(distui("show", "stuck", "-o", "json").stdout)["first_failure"]
    assert (failure["rank"], failure["exit"]) == (2, 139)
    assert failure["cause"] == f"the program crashed in compiled code: at /pytorch/hang.py:{LINE} in load"
