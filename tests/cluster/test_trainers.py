"""The trainers on real hosts, each from its file in jobs/; all leave nothing behind."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("trainers")]

JOBS = Path(__file__).parents[2] / "jobs"
Distui = Callable[..., subprocess.CompletedProcess[str]]
TORCHRUNS = re.compile(r"^.* torch/distributed/elastic/agent/server/api\.py:\d+\] .*$", re.MULTILINE)
"""An agent that leaves last prints a traceback and goes on: see `test_torchrun_that_leaves_last_is_not_suspicious`."""


def words(job: str, hosts: str = "h[1-2]", **keys: str) -> list[str]:
    """The command line that runs a file of jobs/ on the lab's hosts with the lab's image."""
    settings = {"image": "lab/pytorch:1"} | keys
    pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ["run", str(JOBS / f"{job}.yaml"), "-H", hosts, *pairs, "--headless", "-y"]


def briefly(job: str, *more: str) -> str:
    """The command of a file of jobs/ with further arguments: less training shows as much."""
    command: list[str] = yaml.safe_load((JOBS / f"{job}.yaml").read_text())["command"]
    return json.dumps([*command, *more])


@pytest.fixture
def shared(lab: Any) -> Iterator[Path]:
    """The hosts' shared folder; what the test puts there is gone after it."""
    before = set(lab.share.iterdir())
    yield lab.share
    for path in set(lab.share.iterdir()) - before:
        path.unlink()


def assert_succeeded(lab: Any, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "Traceback" not in TORCHRUNS.sub("", done.stdout)
    assert [left for host in lab.hosts for left in host.leftovers()] == []


def finals(done: subprocess.CompletedProcess[str], ranks: int) -> str:
    """The last loss and the hash of the parameters, which all ranks must have said and be the same on all."""
    found = dict(re.findall(rf"rank (\d)/{ranks} (final loss .*)", done.stdout))
    assert len(found) == ranks, done.stdout
    assert len(set(found.values())) == 1, found
    return str(found["0"])


@pytest.mark.long
def test_the_three_ways_to_meet_train_the_same(lab: Any, distui: Distui, shared: Path) -> None:
    """jobs/mnist.yaml, -env and -file differ in where the ranks meet, so not in what they learn."""
    said, before = set(), set(shared.iterdir())
    for job in ("mnist", "mnist-env", "mnist-file"):
        done = distui(*words(job, command=briefly(job, "--epochs", "2")))
        assert_succeeded(lab, done)
        said.add(finals(done, 2))
    assert len(said) == 1, said
    assert set(shared.iterdir()) == before, "the file they met at is gone"


HELD = """
import sys, time
sys.path.insert(0, "/pytorch/trainers")
import ddp

def save(training, save=ddp.Training.save):
    save(training)
    while training.step == 10:
        time.sleep(1)

ddp.Training.save = save
ddp.main()
"""


@pytest.mark.long
def test_a_lost_host_costs_nothing_but_time(lab: Any, home: Path, distui: Distui, shared: Path) -> None:
    """torchrun, two by two: a container is killed in the middle; the job run again ends with the same parameters.

    The program that loses a host stays at step 10 of 23 until then, else it may end before the kill on a busy machine.
    These parameters are also those that launcher `env` ends with, which starts the same ranks without torchrun.
    """
    arguments = "--batch-size, 16, --epochs, 1, --checkpoint, /pytorch/ddp.pt, --save-every, 10"
    command = f"[ddp.py, --backend, gloo, {arguments}]"
    whole = distui(*words("ddp", command=command))
    assert_succeeded(lab, whole)
    (shared / "ddp.pt").unlink()

    (shared / "held.py").write_text(HELD)
    held = command.replace("ddp.py", "/pytorch/held.py")
    with lab.spawn_distui(*words("ddp", command=held), home=home) as program:
        for line in program.stdout:
            if line.endswith("saved step 10\n"):
                break
        lab.host("h2").exec("docker kill -s KILL $(docker ps -q --filter label=distui.run)")
        broken = program.finish()
    assert broken.returncode == 1, broken.stderr
    assert "h2" in broken.stderr
    again = distui(*words("ddp", command=command))
    assert_succeeded(lab, again)

    resumed = re.findall(r"rank \d/4 resumed at step (\d+) ", again.stdout)
    assert resumed == ["10"] * 4
    assert finals(again, 4) == finals(whole, 4)

    (shared / "ddp.pt").unlink()
    by_env = distui(*words("ddp-env", command=f"[python3, ddp.py, --backend, gloo, {arguments}]"))
    assert_succeeded(lab, by_env)
    assert finals(by_env, 4) == finals(whole, 4)


@pytest.mark.long
def test_three_hosts_are_one_process(lab: Any, distui: Distui) -> None:
    """jobs/allreduce-sgd.yaml on three hosts prints the losses of one process with the whole batch."""
    brief = ("--epochs", "3", "--log-every", "4")
    apart = distui(*words("allreduce-sgd", "h[1-3]", command=briefly("allreduce-sgd", *brief)))
    assert_succeeded(lab, apart)
    alone = json.dumps(["python3", "allreduce_sgd.py", "--world-size", "1", "--batch-size", "96", *brief])
    together = distui(*words("allreduce-sgd", "h1", command=alone))
    assert_succeeded(lab, together)

    wanted = re.findall(r"rank 0/1 (epoch \d+ step \d+ loss \S+)", together.stdout)
    assert len(wanted) > 10
    for rank in range(3):
        assert re.findall(rf"rank {rank}/3 (epoch \d+ step \d+ loss \S+)", apart.stdout) == wanted


@pytest.mark.parametrize(("job", "used", "idle"), [("bandwidth", "eth0", "ib0"), ("bandwidth-ib", "ib0", "eth0")])
def test_bandwidth_is_that_of_the_network_asked_for(
    lab: Any, distui: Distui, shared: Path, job: str, used: str, idle: str
) -> None:
    """Every result is right; the bytes went over the interface of the job's `fabric`, and it says so."""
    hosts = [lab.host("h1"), lab.host("h2")]
    before = [(sum(h.bytes(used)), sum(h.bytes(idle))) for h in hosts]
    done = distui(*words(job, command=briefly(job, "--max", "4M")))
    after = [(sum(h.bytes(used)), sum(h.bytes(idle))) for h in hosts]
    assert_succeeded(lab, done)

    rows = json.loads((shared / f"{job}.json").read_text())["rows"]
    assert {row["op"] for row in rows} == {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv"}
    assert all(row["wrong"] == 0 and row["busbw"] > 0 for row in rows)
    payload = sum(row["size"] for row in rows if row["op"] == "all_reduce") * 20
    for (used_0, idle_0), (used_1, idle_1) in zip(before, after, strict=True):
        assert used_1 - used_0 > payload
        assert idle_1 - idle_0 < payload / 20
    assert sorted(re.findall(r"rank (\d)/2 traffic of this host: (\w+) ", done.stdout)) == [("0", used), ("1", used)]


ELASTIC = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print("trained", sum(p.sum() for p in model.parameters()).item(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""

AVERAGING = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1234)
model = torch.nn.Linear(4, 2)
images = torch.randn(size * 8, 4)[rank * 8 : rank * 8 + 8]
for _ in range(3):
    model.zero_grad()
    model(images).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.data -= 0.1 * parameter.grad / size
print("trained", sum(p.sum() for p in model.parameters()).item(), "of", size, flush=True)
dist.destroy_process_group()
"""

FOREIGN = """
version: 1
name: foreign
hosts: h[1-2]
image: lab/pytorch:1
ranks: {per_host: 2}
volumes: ["/mnt/pytorch:/pytorch"]
workdir: /pytorch
"""


@pytest.mark.parametrize(
    ("program", "launch"),
    [
        (ELASTIC, "launcher: torchrun\ntorchrun: {rdzv: c10d}\ncommand: [program.py]\n"),
        (AVERAGING, "launcher: env\ncommand: [python3, program.py]\n"),
    ],
    ids=["torchrun", "env"],
)
def test_programs_that_know_nothing_of_distui(
    lab: Any, home: Path, distui: Distui, shared: Path, program: str, launch: str
) -> None:
    """A program as PyTorch's tutorials have it, without arguments, needs a job file and no change."""
    (shared / "program.py").write_text(program)
    (home / "job.yaml").write_text(FOREIGN + launch)
    done = distui("run", str(home / "job.yaml"), "--headless", "-y")
    assert_succeeded(lab, done)
    trained = re.findall(r"trained (\S+) of 4", done.stdout)
    assert len(trained) == 4, done.stdout
    assert len(set(trained)) == 1, trained
