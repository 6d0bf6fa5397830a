"""`distui why` on runs that hang: real torch over gloo, asked over ssh, nothing in the programs that helps."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.runs import until

Distui = Callable[..., subprocess.CompletedProcess[str]]
Hang = Callable[..., dict[str, Any]]

BEGIN = """
import os, re, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, x = dist.get_rank(), torch.ones(1000)
pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
def load():
    {load}
for step in range(100000):
    if step == 20 and rank == {who}:
        load()
    {collective}
    if step < 20:
        print("step", step, flush=True)
"""
LINE = 7
"""Of what `load` does."""


def program(load: str, *, who: int = 2, collective: str = "dist.all_reduce(x)") -> str:
    """Four ranks that work together until one of them does something else at step 20."""
    return BEGIN.format(load=load, who=who, collective=collective)


@pytest.fixture
def hang(lab: Any, start: Any, distui: Distui) -> Hang:
    """Runs a program as four ranks on two hosts, and asks why it hangs once it stands still; `then` is done before."""

    def run(text: str, *, then: Callable[[], object] = lambda: None, **job: Any) -> dict[str, Any]:
        (lab.share / "hang.py").write_text(text)
        keys = {"ranks": {"per_host": 2}, "image": "lab/pytorch:1", "volumes": ["/mnt/pytorch:/pytorch:ro"]}
        keys["command"] = ["python3", "/pytorch/hang.py"]
        run.program = start("", "--name", "stuck", job=keys | {"stop_grace": "1s"} | job)  # type: ignore[attr-defined]
        for line in run.program.stdout:  # type: ignore[attr-defined]
            if "step 19" in line:
                break
        then()
        return ask(distui)

    return run


def ask(distui: Distui) -> dict[str, Any]:
    """What is said as soon as something stands still."""
    found: dict[str, Any] = {}

    def stands() -> bool:
        done = distui("why", "stuck", "-o", "json")
        assert done.returncode == 0, done.stderr
        found.update(json.loads(done.stdout))
        return found["kind"] not in ("moving", "unseen")

    until(stands, seconds=90)
    return found


def stop(distui: Distui) -> None:
    """End the run; what it leaves is looked for afterwards."""
    assert distui("stop", "stuck", "-y").returncode == 0


def test_a_rank_that_sleeps(hang: Hang, distui: Distui, home: Path) -> None:
    """Named by whoever follows the run, and by `why`: rank, collective, file and line; the whole answer can be kept."""
    found = hang(program("time.sleep(600)"), stall_after="3s")

    assert (found["kind"], found["culprits"], found["certainty"]) == ("hang", [2], "certain")
    assert "all_reduce #21" in found["headline"]
    first = found["ranks"][0]
    assert (first["rank"], first["behind"]) == (2, 1)
    assert f"sleeps at /pytorch/hang.py:{LINE} in load" in first["does"]
    text = distui("why", "stuck", "--stacks", "--save", "kept").stdout
    assert text.startswith("rank 2 has not entered all_reduce #21") and "in load" in text
    assert json.loads((home / "kept/why.json").read_text())["culprits"] == [2]
    assert "hang.py:11 in <module>" in (home / "kept/stacks.txt").read_text()
    for line in hang.program.stderr:  # type: ignore[attr-defined]
        if "rank 2 has not entered all_reduce #21" in line:
            break
    stop(distui)
    done = hang.program.finish()  # type: ignore[attr-defined]
    assert "rank 2 has not entered all_reduce #21" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "kind", "culprit", "words"),
    [
        (program("dist.broadcast(x, 0)", who=1), "mismatch", 1, "rank 1 called broadcast of 1000 Float"),
        (program("re.match('(a+)+$', 60 * 'a' + 'b')", who=0), "hang", 0, f"of its own at /pytorch/hang.py:{LINE}"),
        (program("os.mkfifo('/tmp/f'); open('/tmp/f')", who=3), "hang", 3, f"a fifo at /pytorch/hang.py:{LINE}"),
        (
            program("time.sleep(600)", who=1, collective="dist.all_reduce(x, group=pair); time.sleep(0.01)"),
            "hang",
            1,
            "in group 1, for which rank 0 waits",
        ),
    ],
    ids=["other order", "the interpreter's lock held", "a fifo nobody writes", "one group of two"],
)  # fmt: skip
def test_what_holds_the_others_up(hang: Hang, distui: Distui, text: str, kind: str, culprit: int, words: str) -> None:
    """Each in its own words."""
    found = hang(text)

    assert (found["kind"], found["culprits"]) == (kind, [culprit]), found["headline"]
    assert words in found["headline"]
    stop(distui)


def test_a_rank_that_is_stopped_by_a_signal(hang: Hang, distui: Distui, lab: Any) -> None:
    """SIGSTOP: seen from outside, since the process itself can say nothing."""
    going = program("pass", collective="dist.all_reduce(x); time.sleep(0.01)")
    found = hang(going, then=lambda: lab.host("h2").fault("rank-stop", "distui-stuck-3"))

    assert (found["kind"], found["culprits"]) == ("hang", [3])
    assert "stopped by a signal" in found["headline"]
    lab.host("h2").fault("rank-cont")
    stop(distui)


def test_a_host_that_is_cut_off(hang: Hang, distui: Distui, lab: Any) -> None:
    """Its ranks can't be asked, which is said, and that the others wait for them."""
    going = program("pass", collective="dist.all_reduce(x); time.sleep(0.01)")
    found = hang(going, then=lambda: lab.host("h2").fault("unplug"))

    assert (found["kind"], found["culprits"], found["certainty"]) == ("hang", [2, 3], "likely")
    assert "h2 can't be asked" in found["headline"]
    lab.host("h2").fault("plug")
    stop(distui)


def test_ranks_of_torchrun(hang: Hang, distui: Distui) -> None:
    """Several in one container: each is known by what it says of itself."""
    found = hang(program("time.sleep(600)"), launcher="torchrun", command=["/pytorch/hang.py"])

    assert (found["kind"], found["culprits"]) == ("hang", [2]), found["headline"]
    assert f"hang.py:{LINE} in load" in found["headline"]
    stop(distui)


def test_a_job_that_wants_none_of_it(start: Any, distui: Distui) -> None:
    """`insight: off`: nothing is set, and `why` says what it can't see."""
    start("env | grep -c -e INSIGHT -e TORCH_FR -e PYTHONPATH; sleep 600", "--name", "stuck", job={"insight": "off"})
    found = json.loads(distui("why", "stuck", "-o", "json").stdout)

    assert (found["kind"], found["culprits"]) == ("unseen", [])
    assert "insight: off" in found["evidence"][0]
    assert [place["does"] for place in found["ranks"]] == ["sleeps"] * 2
    stop(distui)
    assert distui("logs", "stuck").stdout.count("| 0") == 2
