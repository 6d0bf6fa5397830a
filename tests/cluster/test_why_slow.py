"""`distui why` on runs that crawl: real torch over gloo, four ranks on two hosts; each kind of slowness told apart."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from lab import faults_clock
from lab.runs import until

Distui = Callable[..., subprocess.CompletedProcess[str]]
Slow = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.long

TRAIN = """
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
dist.init_process_group("gloo")
torch.set_num_threads(1)
rank, step = dist.get_rank(), 0
class Data(Dataset):
    def __len__(self):
        return 1000000
    def __getitem__(self, index):
        {loader}
        return torch.ones(64)
class Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        {backward}
        return grad
class Slow:
    def __getstate__(self):
        while not os.path.exists("/pytorch/saved"):
            time.sleep(0.1)
        return {{}}
def save_checkpoint():
    with open("/tmp/checkpoint", "wb", buffering=0) as file:
        while not os.path.exists("/pytorch/saved"):
            file.seek(0); file.write(bytes(1 << 20)); time.sleep(0.05)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 1)))
learn = torch.optim.SGD(model.parameters(), 0.001)
for x in DataLoader(Data(), batch_size=1):
    time.sleep(0.1)
    loss = Layer.apply(model(x)).sum()
    learn.zero_grad(); loss.backward(); learn.step()
    {then}
    step += 1
    if step in (2, 30):
        print("step", step, flush=True)
"""
LOADER, BACKWARD = (1 + TRAIN.splitlines().index(f"        {{{name}}}") for name in ("loader", "backward"))
"""The lines of what a rank's loader does, and its backward."""


def program(loader: str = "pass", backward: str = "pass", then: str = "pass") -> str:
    """Data-parallel training whose steps take a good tenth of a second where nobody is late."""
    return TRAIN.format(loader=loader, backward=backward, then=then)


@pytest.fixture
def slow(lab: Any, start: Any, distui: Distui) -> Slow:
    """Runs a program as four ranks on two hosts, and asks why it is slow once it has done thirty steps."""

    def run(
        text: str, *, until_line: str = "step 30", kind: str = "", then: Any = lambda: None, **job: Any
    ) -> dict[str, Any]:
        (lab.share / "slow.py").write_text(text)
        keys = {"ranks": {"per_host": 2}, "image": "lab/pytorch:1", "volumes": ["/mnt/pytorch:/pytorch:ro"]}
        keys |= {"command": ["python3", "/pytorch/slow.py"], "stop_grace": "1s"}
        going = start("", "--name", "slow", job=keys | job)
        for line in going.stdout:
            if until_line in line:
                break
        then()
        return ask(distui, kind)

    return run


def ask(distui: Distui, kind: str = "") -> dict[str, Any]:
    """What is said; with `kind`, as soon as it is that."""
    found: dict[str, Any] = {}

    def says() -> bool:
        done = distui("why", "slow", "-o", "json")
        assert done.returncode == 0, done.stderr
        found.clear()
        found.update(json.loads(done.stdout))
        print(found["kind"], found["headline"], *found["evidence"], sep="\n  ")
        return kind in ("", found["kind"])

    until(says)
    return found


def stop(distui: Distui) -> None:
    """End the run; what it leaves is looked for afterwards."""
    assert distui("stop", "slow", "-y").returncode == 0


def tells(text: str) -> bool:
    """Whether the second rank is named in words and marked in the table."""
    return text.startswith("rank 2 holds the others up: it enters all_reduce") and ">2" in text


def test_a_slow_backward(slow: Slow, distui: Distui) -> None:
    """Which rank, by how much, where in the code; from one question, or another where all ranks lack cores."""
    found = slow(program(backward="rank == 2 and time.sleep(0.2)"), kind="straggler")

    assert (found["kind"], found["culprits"]) == ("straggler", [2]), found["headline"]
    assert f"in its backward it sleeps at /pytorch/slow.py:{BACKWARD} in backward" in found["headline"]
    (late,) = found["lateness"]["late"]
    assert 0.15 < late["seconds"] < 2 and late["steps"] <= 60
    until(lambda: tells(distui("why", "slow").stdout))
    stop(distui)


def test_a_late_rank_on_a_host_whose_clock_is_minutes_off(slow: Slow, distui: Distui, lab: Any) -> None:
    """Nobody is late by that, and who is late is by no more than it is, also when the clock is set meanwhile."""
    (lab.share / "late").unlink(missing_ok=True)
    faults_clock.prepare(lab.share)
    volumes = ["/mnt/pytorch:/pytorch:ro", faults_clock.VOLUME]
    text = program(backward="rank == 2 and os.path.exists('/pytorch/late') and time.sleep(0.2)")
    text += "    if step == 30: print('clock', int(time.time()), flush=True)\n"
    lab.host("h2").fault("clock", "300")
    found = slow(text, until_line="clock", env=faults_clock.RANKS, volumes=volumes)
    assert sorted(round(host["ahead"], -1) for host in found["hosts"].values()) == [0, 300], found["hosts"]
    assert all(late["seconds"] < 60 for late in found["lateness"]["late"]), found["headline"]

    (lab.share / "late").touch()
    for seconds in ("300", "-300"):
        lab.host("h2").fault("clock", seconds)
        found = ask(distui, "straggler")
        assert found["culprits"] == [2], found["headline"]
        assert all(0.1 < late["seconds"] < 60 for late in found["lateness"]["late"]), found["headline"]
    (lab.share / "late").unlink()
    lab.host("h2").fault("clock-right")
    stop(distui)


def test_a_slow_loader(slow: Slow, distui: Distui) -> None:
    """Named as such: it is not what the others wait in that counts, but what this rank does longer."""
    found = slow(program(loader="rank == 1 and time.sleep(0.15)"), kind="straggler")

    assert (found["kind"], found["culprits"]) == ("straggler", [1]), found["headline"]
    assert f"in its data loader it sleeps at /pytorch/slow.py:{LOADER} in __getitem__" in found["headline"]
    stop(distui)


def test_a_link_that_loses(slow: Slow, distui: Distui, lab: Any) -> None:
    """No rank is blamed for what the network does."""
    found = slow(program(), kind="link", then=lambda: lab.host("h2").fault("loss", "5"))

    assert (found["kind"], found["culprits"]) == ("link", []), found["headline"]
    assert found["headline"].startswith("what h1 sends to h2 gets lost on the way")
    lab.host("h2").fault("uncut")
    stop(distui)


def test_a_link_that_is_slow(slow: Slow, distui: Distui, lab: Any) -> None:
    """Though nothing is lost on it: beside one that carries as much. Nothing is claimed of the network before that."""
    found = slow(program(then="dist.all_reduce(torch.ones(1 << 19))"), hosts="h[1-3]", ranks={"per_host": 1})
    assert found["kind"] != "link", found["headline"]
    lab.host("h2").fault("rate", "40")
    found = ask(distui, "link")

    assert (found["culprits"], found["certainty"]) == ([], "likely"), found["headline"]
    assert found["headline"].startswith(("what h2 sends to h1 goes slowly:", "what h3 sends to h2 goes slowly:"))
    assert ", and h1 to h3 " in found["headline"] and "look at the network between h" in found["advice"]
    lab.host("h2").fault("unshape")
    stop(distui)


@pytest.mark.parametrize(
    ("save", "words"),
    [
        ("torch.save(Slow(), '/tmp/checkpoint')", "it saves or loads a checkpoint"),
        ("save_checkpoint()", "it saves to a file at /pytorch/slow.py"),
    ],
    ids=["torch.save", "by hand"],
)
def test_a_checkpoint(slow: Slow, distui: Distui, lab: Any, save: str, words: str) -> None:
    """While it is written the others wait, which is no fault; afterwards it is told as a pause."""
    found = slow(program(then=f"rank == 0 and step == 40 and {save}"), kind="stall")

    assert (found["kind"], found["culprits"]) == ("stall", [0]), found["headline"]
    assert words in found["headline"], found["headline"]
    (lab.share / "saved").touch()
    found = ask(distui, "moving")
    (lab.share / "saved").unlink()
    assert any("rank 0 entered all_reduce" in line and "no straggler" in line for line in found["evidence"])
    stop(distui)
