"""Endings of real torch: gloo's cascades and time-outs, rendezvous that fail, torchrun and its own restarts."""

from __future__ import annotations

from typing import Any

from verdict.scenario import GLOO, Scenario, gloo, job, torchrun, truth
from verdict.scenario_stops import interrupt, rank_kill

LONG = ("--steps", "200")
TERM = "stopped SIGTERM"
FOLLOWED = "followed|stopped ?"
"""A peer that lost its connection: whether it said so before the stop came is the run's own luck."""

MEET = """
import datetime, os, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
print("rank", rank, "begins", flush=True)
%s
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=6))
print("met", flush=True)
dist.all_reduce(torch.ones(1))
time.sleep(60)
"""


def meet(per_host: int, before: str, **keys: Any) -> dict[str, Any]:
    """A program that does something before it meets the others."""
    return job(per_host, "python3", "-c", MEET % before, **(GLOO | keys))


def stop_at(text: str) -> Any:
    """Ctrl-C as soon as a line was read."""

    def act(stage: Any) -> None:
        stage.said(text)
        stage.interrupt()

    return act


def unplug(stage: Any) -> None:
    """The cable of the network that carries the training."""
    stage.said("step 5", 2)
    stage.host("h2").fault("unplug", "ib0")


def freeze_rank(stage: Any) -> None:
    """SIGSTOP to the second host's rank."""
    stage.said("step 5", 3)
    stage.host("h2").fault("rank-stop", stage.host("h2").containers()[0])


TORCH = (
    Scenario(
        "gloo-cascade",
        "gloo: rank 2 of 4 raises, the others lose their connections to it",
        gloo(2, "2:5:raise", *LONG),
        truth("failed", FOLLOWED, FOLLOWED, "first 1", FOLLOWED, first=[2]),
    ),
    Scenario(
        "gloo-cascade-late",
        "gloo: rank 1 raises, hangs up and takes 2.5 s to end; its peers' containers end before its own",
        gloo(1, "1:5:raise-late:2.5", *LONG, hosts="h[1-3]"),
        truth("failed", "followed ?", "first ?", "followed ?", first=[1]),
    ),
    Scenario(
        "gloo-killed",
        "gloo: kill -9 of rank 1 from outside, rank 0 loses its connection",
        gloo(1, *LONG),
        truth("failed", FOLLOWED, "first SIGKILL", first=[1], cause="outside|kill", never=["out of memory:"]),
        rank_kill("h2"),
    ),
    Scenario(
        "gloo-sigsegv",
        "gloo: rank 0 of 3 crashes in compiled code, the others lose their connections",
        gloo(1, "0:5:crash", *LONG, hosts="h[1-3]"),
        truth("failed", "first SIGSEGV", FOLLOWED, FOLLOWED, first=[0], cause="crash|compiled code"),
    ),
    Scenario(
        "gloo-timeout-hang",
        "gloo: rank 2 of 3 hangs, the others' collectives time out after 4 s",
        gloo(1, "--timeout", "4", "2:10:hang", *LONG, hosts="h[1-3]", stall_after="2s"),
        truth("failed", "alike ?", "alike ?", TERM, first=[0, 1], cause="timed out", says=["rank 2"]),
    ),
    Scenario(
        "gloo-worker-killed",
        "the DataLoader worker of rank 1 is killed with SIGKILL",
        gloo(1, "1:5:worker", *LONG),
        truth("failed", FOLLOWED, "first 1", first=[1], cause="DataLoader worker"),
    ),
    Scenario(
        "gloo-cuda-asked",
        "rank 0 asks for CUDA where torch has none",
        gloo(1, "0:5:cuda", *LONG),
        truth("failed", "first 1", FOLLOWED, first=[0], cause="CUDA|CPU"),
    ),
    Scenario(
        "gloo-nccl-asked",
        "all ranks ask for an NCCL group where torch has none",
        gloo(1, "all:3:nccl", *LONG),
        truth("failed", "alike 1", "alike 1", first=[0, 1], cause="NCCL|CPU|CUDA"),
    ),
    Scenario(
        "gloo-succeeds",
        "gloo: four ranks end well",
        gloo(2, "--steps", "10"),
        truth("succeeded", *["succeeded 0"] * 4),
    ),
    Scenario(
        "gloo-stop-user",
        "gloo: Ctrl-C while both ranks are well",
        gloo(1, *LONG),
        truth("stopped", "stopped ?", "stopped ?", never=["failed first"]),
        interrupt,
    ),
    Scenario(
        "meet-missing",
        "rank 2 never comes to the rendezvous; rank 0 gives up after 6 s, and its store goes with it",
        meet(1, "if rank == 2: time.sleep(90)", hosts="h[1-3]"),
        truth("failed", "first 1", "followed ?", TERM, first=[0], cause="rendezvous"),
    ),
    Scenario(
        "meet-wrong-address",
        "both ranks are given an address that nobody has",
        meet(
            1,
            "os.environ['MASTER_ADDR'] = '10.77.0.99'; os.environ['RANK'] = str(rank + 1); "
            "os.environ['WORLD_SIZE'] = '3'",
        ),
        truth("failed", "alike ?", "alike ?", first=[0, 1], cause="rendezvous|reach"),
    ),
    Scenario(
        "meet-port-in-use",
        "the port of the rendezvous is taken by rank 0's own helper",
        meet(
            1,
            "import socket; s = socket.socket(); "
            "rank == 0 and (s.bind(('', int(os.environ['MASTER_PORT']))), s.listen()); rank == 1 and time.sleep(20)",
        ),
        truth("failed", "first 1", TERM, first=[0], cause="port is already in use"),
    ),
    Scenario(
        "meet-rank-0-raises",
        "rank 0 raises before the rendezvous, where rank 1 waits for it",
        meet(1, "if rank == 0: time.sleep(3); raise FileNotFoundError('config.json')"),
        truth("failed", "first 1", FOLLOWED, first=[0], never=["rendezvous"]),
    ),
    Scenario(
        "torchrun-alike",
        "torchrun on two hosts: both ranks raise the same, 0.1 s apart, rank 0 first",
        torchrun(1, "--meet", "/pytorch/meet", "0:5:raise", "1:5+0.1:raise", *LONG),
        truth("failed", "alike 1", "alike 1", first=[0, 1], never=["stopped by distui .exit 1"]),
    ),
    Scenario(
        "torchrun-alike-three",
        "torchrun on three hosts: all three ranks raise the same within 0.2 s",
        torchrun(1, "--meet", "/pytorch/meet", "0:5+0.2:raise", "1:5:raise", "2:5+0.1:raise", *LONG, hosts="h[1-3]"),
        truth("failed", "alike 1", "alike 1", "alike 1", first=[0, 1, 2], never=["exit 143"]),
    ),
    Scenario(
        "torchrun-one-of-two",
        "torchrun on two hosts: rank 1 raises, rank 0 works on without it",
        torchrun(1, "--meet", "/pytorch/meet", "1:5:raise", *LONG),
        truth("failed", "stopped ?", "first 1", first=[1]),
    ),
    Scenario(
        "torchrun-local-terminated",
        "torchrun on one host: rank 2 of 3 raises, torchrun ends the others with SIGTERM",
        torchrun(3, "--meet", "/pytorch/meet", "2:10:raise", *LONG, hosts="h1"),
        truth("failed", "followed SIGTERM", "followed SIGTERM", "first 1", first=[2]),
    ),
    Scenario(
        "torchrun-exit-3",
        "torchrun on one host: rank 0 of 2 calls sys.exit(3)",
        torchrun(2, "--meet", "/pytorch/meet", "0:10:exit:3", *LONG, hosts="h1"),
        truth("failed", "first 3", "followed SIGTERM", first=[0]),
    ),
    Scenario(
        "torchrun-sigsegv",
        "torchrun on two hosts with two ranks each: rank 3 crashes in compiled code",
        torchrun(2, "--meet", "/pytorch/meet", "3:10:crash", *LONG),
        truth(
            "failed",
            "stopped ?",
            "stopped ?",
            "followed SIGTERM",
            "first SIGSEGV",
            first=[3],
            cause="crash|compiled code",
        ),
    ),
    Scenario(
        "torchrun-sigkill",
        "torchrun on one host: rank 1 of 2 is killed with SIGKILL",
        torchrun(2, "--meet", "/pytorch/meet", "1:10:signal:SIGKILL", *LONG, hosts="h1"),
        truth("failed", "followed SIGTERM", "first SIGKILL", first=[1], cause="outside|kill", never=["out of memory:"]),
    ),
    Scenario(
        "torchrun-oom",
        "torchrun on one host: rank 1 of 2 is killed for lack of memory",
        torchrun(
            2,
            "--meet",
            "/pytorch/meet",
            "1:10:oom",
            *LONG,
            hosts="h1",
            docker_args=["--memory", "400m", "--memory-swap", "400m"],
        ),
        truth("failed", "followed SIGTERM", "first SIGKILL", first=[1], cause="memory"),
    ),
    Scenario(
        "torchrun-gloo-cascade",
        "torchrun on two hosts with two ranks each, gloo: rank 1 raises, the others lose their connections",
        torchrun(2, "--gloo", "1:5:raise", *LONG),
        truth("failed", FOLLOWED, "first 1", FOLLOWED, FOLLOWED, first=[1]),
    ),
    Scenario(
        "torchrun-import",
        "torchrun on two hosts: a module is missing on both",
        torchrun(1, "all:1:import:flash_attn", "--meet", "/pytorch/meet"),
        truth("failed", "alike 1", "alike 1", first=[0, 1], cause="module is missing"),
    ),
    Scenario(
        "torchrun-no-program",
        "torchrun on two hosts: the program is not there",
        job(1, "/pytorch/train_v2.py", launcher="torchrun", **GLOO),
        truth("failed", "alike 2", "alike 2", first=[0, 1], cause="file is not there"),
    ),
    Scenario(
        "torchrun-restarts-used-up",
        "torchrun with max_restarts 1: rank 0 raises in both lives",
        torchrun(2, "--meet", "/pytorch/meet", "0:10:raise", *LONG, hosts="h1", torchrun={"max_restarts": 1}),
        truth("failed", "first 1", "followed SIGTERM", first=[0]),
    ),
    Scenario(
        "torchrun-restarts-help",
        "torchrun with max_restarts 1: rank 1 raises in its first life, the second ends well",
        torchrun(
            2, "--meet", "/pytorch/meet", "1:10:raise-once", "--steps", "15", hosts="h1", torchrun={"max_restarts": 1}
        ),
        truth("succeeded", "succeeded 0", "succeeded 0", never=["failed first"]),
    ),
    Scenario(
        "torchrun-restart-then-other",
        "torchrun with max_restarts 1: rank 0 raises in its first life, rank 1 in the second",
        torchrun(
            2,
            "--meet",
            "/pytorch/meet",
            "0:1:raise-once",
            "0:2:hang",
            "1:12:raise:KeyError:shard 7",
            *LONG,
            hosts="h1",
            torchrun={"max_restarts": 1},
        ),
        truth("failed", "followed SIGTERM", "first 1", first=[1], never=["loss is nan"]),
    ),
    Scenario(
        "torchrun-c10d-raise",
        "torchrun with c10d on two hosts: the rank that torchrun calls 1 raises, here on the second host",
        torchrun(1, "--meet", "/pytorch/meet", "1:5:raise", *LONG, torchrun={"rdzv": "c10d"}),
        truth("failed", "stopped ?", "first 1", first=[1]),
    ),
    Scenario(
        "torchrun-c10d-succeeds",
        "torchrun with c10d on two hosts ends well",
        torchrun(1, "--meet", "/pytorch/meet", "--steps", "10", torchrun={"rdzv": "c10d"}),
        truth("succeeded", "succeeded 0", "succeeded 0"),
    ),
    Scenario(
        "torchrun-stop-user",
        "torchrun on two hosts: Ctrl-C while all is well",
        torchrun(1, "--meet", "/pytorch/meet", *LONG),
        truth("stopped", "stopped ?", "stopped ?", never=["failed first"]),
        interrupt,
    ),
    Scenario(
        "torchrun-stop-limit",
        "torchrun on two hosts: the job's max_duration ends the run",
        torchrun(1, "--meet", "/pytorch/meet", "--steps", "900", max_duration="25s"),
        truth("stopped", "stopped ?", "stopped ?", never=["failed first", "got SIGTERM"], says=["by max_duration"]),
    ),
    Scenario(
        "torchrun-stop-while-failing",
        "torchrun on two hosts: rank 0 raises, and Ctrl-C comes before torchrun has ended",
        torchrun(1, "--meet", "/pytorch/meet", "0:10:raise", *LONG),
        truth("stopped", "first ?", "stopped ?", first=[0], never=["rank 0 .*stopped by distui"]),
        stop_at("RuntimeError: loss is nan"),
    ),
    Scenario(
        "torchrun-node-killed",
        "torchrun on two hosts: kill -9 of all of the second node",
        torchrun(1, "--meet", "/pytorch/meet", *LONG),
        truth("failed", "stopped ?", "first SIGKILL", first=[1], cause="outside|kill", never=["out of memory:"]),
        rank_kill("h2"),
    ),
    Scenario(
        "gloo-ends-early",
        "gloo: rank 1 is done early and ends with 0, the others wait for it and lose their connections",
        gloo(1, "1:10:quit", *LONG, hosts="h[1-3]"),
        truth("failed", "alike 1", "before 0", "alike 1", first=[0, 2], cause="peer went away"),
    ),
    Scenario(
        "gloo-monitored-barrier",
        "gloo: rank 2 does not come to a monitored barrier, rank 0 names it after 3 s",
        gloo(1, "0:5:barrier", "1:5:barrier", "2:5:hang", *LONG, hosts="h[1-3]"),
        truth("failed", "first 1", FOLLOWED, TERM, first=[0], cause="timed out"),
    ),
    Scenario(
        "gloo-spawn",
        "torch.multiprocessing: a worker of rank 1 raises, and with it the rank",
        gloo(1, "1:5:spawn", *LONG),
        truth("failed", FOLLOWED, "first 1", first=[1]),
    ),
    Scenario(
        "gloo-nine-one-killed",
        "gloo: nine ranks on three hosts, rank 4 is killed with SIGKILL",
        gloo(3, "4:5:signal:SIGKILL", *LONG, hosts="h[1-3]"),
        truth(
            "failed",
            *[FOLLOWED] * 4,
            "first SIGKILL",
            *[FOLLOWED] * 4,
            first=[4],
            cause="outside|kill",
            never=["out of memory:"],
        ),
    ),
    Scenario(
        "gloo-quits-silently",
        "gloo: rank 0 calls os._exit(5) in the middle of a step and says nothing",
        gloo(1, "0:5:quit:5", *LONG, hosts="h[1-3]"),
        truth("failed", "first 5", FOLLOWED, FOLLOWED, first=[0]),
    ),
    Scenario(
        "torchrun-timeout-hang",
        "torchrun on two hosts with two ranks each, gloo: rank 3 hangs, the others' collectives time out after 4 s",
        torchrun(2, "--gloo", "--timeout", "4", "3:10:hang", *LONG, stall_after="2s"),
        truth(
            "failed",
            "alike ?",
            "alike ?",
            "alike ?",
            "followed SIGTERM",
            first=[0, 1, 2],
            cause="timed out",
            says=["rank 3"],
        ),
    ),
    Scenario(
        "torchrun-three-hosts",
        "torchrun on three hosts with two ranks each, gloo: rank 2 calls sys.exit(7)",
        torchrun(2, "--gloo", "2:5:exit:7", *LONG, hosts="h[1-3]"),
        truth("failed", FOLLOWED, FOLLOWED, "first 7", FOLLOWED, FOLLOWED, FOLLOWED, first=[2]),
    ),
    Scenario(
        "torchrun-gloo-sigsegv",
        "torchrun on two hosts with two ranks each, gloo: rank 0 crashes in compiled code",
        torchrun(2, "--gloo", "0:5:crash", *LONG),
        truth("failed", "first SIGSEGV", FOLLOWED, FOLLOWED, FOLLOWED, first=[0], cause="crash|compiled code"),
    ),
    Scenario(
        "torchrun-gloo-killed",
        "torchrun on three hosts, gloo: rank 1 is killed with SIGKILL",
        torchrun(1, "--gloo", "1:5:signal:SIGKILL", *LONG, hosts="h[1-3]"),
        truth("failed", FOLLOWED, "first SIGKILL", FOLLOWED, first=[1], cause="outside|kill", never=["out of memory:"]),
    ),
    Scenario(
        "torchrun-stop-user-term-0",
        "torchrun on two hosts: Ctrl-C; both ranks catch SIGTERM and end with 0",
        torchrun(1, "--meet", "/pytorch/meet", "all:0:on-term:0", *LONG),
        truth("stopped", "stopped ?", "stopped ?", never=["failed first"]),
        interrupt,
    ),
    Scenario(
        "gloo-network-cut",
        "gloo: the second host's cable for training is pulled, both ranks' collectives time out after 5 s",
        gloo(1, "--timeout", "5", *LONG),
        truth("failed", "alike ?", "alike ?", first=[0, 1], cause="timed out|can't be reached"),
        unplug,
    ),
    Scenario(
        "gloo-rank-stopped",
        "gloo: somebody stops rank 1 of 3 with SIGSTOP, the others' collectives time out after 4 s",
        gloo(1, "--timeout", "4", *LONG, hosts="h[1-3]", stall_after="2s"),
        truth("failed", "alike ?", "stopped ?", "alike ?", first=[0, 2], cause="timed out", says=["rank 1"]),
        freeze_rank,
    ),
)
