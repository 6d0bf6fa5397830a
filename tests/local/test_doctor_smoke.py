"""The all-reduce smoke: who with whom, what its answers say, and the whole of it over ssh on loopback."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from distui.doctor.smoke import GREETING, PairResult, read_answer, rounds, smoke_job, smoke_row
from distui.facts.host import Gpu, Gpus, HostFacts
from distui.spec.job.job import Code, Fabric, Job


@given(st.integers(0, 70))
def test_every_host_has_a_neighbour_and_is_asked_once_a_round(count: int) -> None:
    """The ring is closed from three hosts on; three rounds are enough."""
    hosts = [f"n{i}" for i in range(count)]
    made = rounds(hosts)
    pairs = [pair for side_by_side in made for pair in side_by_side]
    assert len(made) <= 3
    for side_by_side in made:
        assert max(Counter(host for pair in side_by_side for host in pair).values()) == 1
    ring = {frozenset(pair) for pair in zip(hosts, [*hosts[1:], *hosts[:1]], strict=True) if len(set(pair)) == 2}
    assert {frozenset(pair) for pair in pairs} == ring
    assert len(pairs) == len(ring)


def test_a_result_in_words() -> None:
    """Time, speed, backend and network; slow ones in MB/s."""
    fast = PairResult(("a", "b"), 0.003, "gloo", "eth0 tcp")
    assert fast.words == "8 MB in 3.0 ms, 2.7 GB/s by gloo over eth0 tcp"
    assert PairResult(("a", "b"), 0.1, "gloo", "eth0 tcp").words == "8 MB in 100.0 ms, 80 MB/s by gloo over eth0 tcp"
    row = smoke_row(("a", "b", "c"), (fast, PairResult(("b", "c"), error="no torch in the image")))
    assert [(f.host, f.verdict) for f in row.findings] == [("a", "ok"), ("b", "fail"), ("c", "fail")]
    assert row.findings[1].saw == "with c: no torch in the image"
    lacking = tuple(PairResult(p, error="image x is not on b", untried=True) for p in (("a", "b"), ("b", "c")))
    found = smoke_row(("b",), lacking).findings[0]
    assert (found.verdict, found.saw) == ("fail", "image x is not on b")
    assert "nothing is known" in found.means


def test_answers_are_found_among_other_lines() -> None:
    """The slower rank counts; an error wins; rubbish is passed over."""
    good = [GREETING + json.dumps({"seconds": s, "backend": "gloo"}) for s in (0.1, 0.2)]
    assert read_answer(["hello", f"INFO {good[0]}", good[1], GREETING + "{", GREETING + "7"]) == (0.2, "gloo", "")
    assert read_answer([good[0], GREETING + '{"error": "no torch"}']) == (None, "gloo", "no torch")
    assert read_answer([]) == (None, "", "")


def test_the_job_gives_image_and_network_and_nothing_else() -> None:
    """Not its secrets, files and ranks; a GPU each where both hosts have one; the image is never pulled for it."""
    job = Job(
        "big",
        image="img",
        command=("/venv/bin/python3", "train.py"),
        secrets=("TOKEN",),
        code=Code(git="https://x.example/r", token="GIT_TOKEN"),
        env={"LEVEL": "3", "TOKEN": "as --env-file has it", "GIT_TOKEN": "and this"}
        | {"RANK": "{node_rank}", "WORLD_SIZE": "{nnodes}", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"},
        volumes=("/data:/data",),
        fabric=Fabric("tcp"),
        backend="nccl",
        docker_args=("--privileged",),
    )
    bare = {name: HostFacts(name, name) for name in ("a", "b")}
    made = smoke_job(job, bare, ("a", "b"))
    assert (made.image, made.pull, made.fabric.kind, made.docker_args) == ("img", "never", "tcp", ("--privileged",))
    assert (made.secrets, made.volumes, made.gpus_per_host, made.backend) == ((), (), 0, None)
    assert made.env == {"LEVEL": "3"}, "values of secrets and of the code's token stay here, ranks are the pair's"
    assert made.command[0] == "/venv/bin/python3"
    cards = {name: HostFacts(name, name, gpu=Gpus((Gpu(0, "G", "H100"),))) for name in ("a", "b")}
    assert (smoke_job(job, cards, ("a", "b")).gpus_per_host, smoke_job(job, cards, ("a", "b")).backend) == (1, "nccl")


def job_file(path: str = "") -> None:
    env = f"env: {{PYTHONPATH: {path}}}\n" if path else ""
    Path("job.yaml").write_text(f"version: 1\nname: j\ncommand: [{sys.executable}, train.py]\n{env}")


def runs_left(home: Path) -> list[Path]:
    return [*home.rglob("smoke-*")]


def test_without_torch_it_says_so_and_leaves_nothing(cli: Any, demo_home: Path, tmp_path: Path) -> None:
    """Exit 3, the reason for both hosts, no run recorded and no folder left."""
    (tmp_path / "torch.py").write_text("raise ImportError('made so')\n")
    job_file(str(tmp_path))
    done = cli("doctor", "--smoke", "--job", "job.yaml", "-y")
    assert done.code == 3
    assert "FAIL  demo[1-2]  all-reduce of 8 MB, 2 ranks a pair: no torch in the image: made so" in done.out
    assert runs_left(demo_home) == []
    assert json.loads(cli("ps", "-a", "--json").out)["runs"] == []


def test_it_asks_and_needs_a_job(cli: Any, demo_home: Path) -> None:
    """Off a terminal it wants -y; without a job there is no image; read-only refuses."""
    job_file()
    assert "--job JOB" in cli("doctor", "--smoke").err
    asked = cli("doctor", "--smoke", "--job", "job.yaml")
    assert asked.code == 2
    assert "Start and remove 2 containers of no image, as processes on 2 hosts?" in asked.err
    assert "read-only" in cli("--readonly", "doctor", "--smoke", "--job", "job.yaml", "-y").err
