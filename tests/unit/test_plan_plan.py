"""plan(): one whole plan as a literal, every launcher and rendezvous, hostile text, and every reason for no plan."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import sys
from typing import Any

import pytest

from distui.errors import PlanProblem
from distui.facts.host import (
    Address,
    Engine,
    Gpu,
    Gpus,
    HostDown,
    HostFacts,
    IbPort,
    Nic,
    ProbeResult,
    Trouble,
)
from distui.plan.command.docker import list_ids, logs, stop
from distui.plan.labels import task_from_labels
from distui.plan.model import HostNetwork, NoPlan, RunPlan, Task, in_words
from distui.plan.plan import plan
from distui.plan.text.render import render_text
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Fabric, Job, RankLayout, Rendezvous, Success, Torchrun


def facts(name: str, number: int, *, gpus: int = 0, **more: Any) -> HostFacts:
    """A lab host: eth0 on 10.77.0.0/24 with the default route, docker0 as everywhere."""
    base = HostFacts(
        host=name,
        hostname=name,
        home="/home/u",
        machine_id=f"m-{name}",
        nics=(
            Nic("lo", "loopback", True, addresses=(Address("127.0.0.1", 8, "host"),)),
            Nic("eth0", "ethernet", True, 1500, speed_mbps=10_000, addresses=(Address(f"10.77.0.{number}", 24),)),
            Nic("docker0", "container", True, addresses=(Address("172.17.0.1", 16),)),
        ),
        gpu=Gpus(tuple(Gpu(i, f"GPU-{name}-{i}", "H100") for i in range(gpus))),
        engine=Engine("docker", ("docker",), nvidia_runtime=True),
        default_route_nic="eth0",
    )
    return dataclasses.replace(base, **more)


INVENTORY = Inventory((Host("h1"), Host("h2")))
FACTS: dict[str, ProbeResult] = {"h1": facts("h1", 11), "h2": facts("h2", 12)}
PICKS = (HostPick("h1"), HostPick("h2"))
JOB = Job("mnist", image="lab/pytorch:1", command=("python", "mnist.py"), insight="off")
IB = (IbPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 400.0, "ib0"),)


def with_ib(name: str, number: int, **more: Any) -> HostFacts:
    """The same host with an IPoIB interface on 10.78.0.0/24."""
    host = facts(name, number, **more)
    ib0 = Nic("ib0", "infiniband", True, 4092, speed_mbps=400_000, addresses=(Address(f"10.78.0.{number}", 24),))
    return dataclasses.replace(host, nics=(*host.nics, ib0), ib=IB)


def make(job: Job = JOB, **more: Any) -> RunPlan | NoPlan:
    """plan() with everything that a test does not say."""
    given: dict[str, Any] = {"inventory": INVENTORY, "picks": PICKS, "facts": FACTS, "run_id": "mnist-7f3"}
    given |= {"owner": "ann@laptop", "version": "0.1.0"} | more
    return plan(job, given.pop("inventory"), given.pop("picks"), given.pop("facts"), **given)


def good(job: Job = JOB, **more: Any) -> RunPlan:
    """A plan that must exist."""
    made = make(job, **more)
    assert isinstance(made, RunPlan), made
    return made


def bad(job: Job = JOB, **more: Any) -> list[str]:
    """The problems of a plan that must not exist."""
    made = make(job, **more)
    assert isinstance(made, NoPlan), made
    return [str(p) for p in made.problems]


def words_after(argv: tuple[str, ...], flag: str) -> list[str]:
    """Every value of a flag."""
    return [argv[i + 1] for i, w in enumerate(argv) if w == flag]


# the whole of one plan

CLASSIC = (
    *("python", "mnist.py", "--rank", "{rank}", "--world-size", "{world_size}"),
    *("--init-method", "{init_method}", "--backend", "{backend}"),
)


def expected_task(rank: int, name: str, digest: str) -> Task:
    """Task `rank` of the plan below, spelled out."""
    run_dir = f"/home/u/.local/state/distui/hosts/{name}/mnist-7f3"
    labels = {
        "distui.run": "mnist-7f3",
        "distui.task": str(rank),
        "distui.rank": str(rank),
        "distui.host": name,
        "distui.job": "mnist",
        "distui.owner": "ann@laptop",
        "distui.version": "0.1.0",
        "distui.plan": digest,
        "distui.role": "worker",
        "distui.launcher": "env",
        "distui.backend": "gloo",
        "distui.engine": "docker",
        "distui.world_size": "2",
        "distui.tasks": "2",
        "distui.node_rank": str(rank),
        "distui.attempt": "1",
        "distui.attempts": "1",
        **({"distui.ports": "9090"} if rank == 0 else {}),
        "distui.grace": "30",
        "distui.on_fail": "stop",
        "distui.stall_after": "120",
        "distui.started": "2026-11-21T02:00:00Z",
        "distui.secrets": "HF_TOKEN",
    }
    return Task(
        index=rank,
        name=f"rank{rank}",
        host=name,
        engine="docker",
        engine_command=("docker",),
        role="worker",
        node_rank=rank,
        ranks=(rank,),
        gpus=(),
        image="lab/pytorch:1",
        env={
            "PYTHONUNBUFFERED": "1",
            "DISTUI_RUN": "mnist-7f3",
            "DISTUI_TASK": str(rank),
            "DISTUI_ATTEMPT": "1",
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "NODE_RANK": str(rank),
            "MASTER_ADDR": "10.77.0.11",
            "MASTER_PORT": "9090",
            "DISTUI_INIT_METHOD": "tcp://10.77.0.11:9090",
            "DISTUI_BACKEND": "gloo",
            "GLOO_SOCKET_IFNAME": "eth0",
            "TP_SOCKET_IFNAME": "eth0",
            "NCCL_SOCKET_IFNAME": "=eth0",
            "NCCL_IB_DISABLE": "1",
            "EPOCHS": "3",
        },
        secrets=("HF_TOKEN",),
        env_file=f"{run_dir}/env-{rank}",
        run_dir=run_dir,
        labels=labels,
        start=(
            *("docker", "run", "-d", "--name", f"distui-mnist-7f3-{rank}", "--init"),
            *(word for k, v in labels.items() for word in ("--label", f"{k}={v}")),
            *("--log-driver", "json-file", "--log-opt", "max-size=1000g", "--log-opt", "max-file=1"),
            *("--log-opt", "compress=false", "--log-opt", "mode=blocking"),
            *("--network", "host", "--ipc", "private", "--shm-size", "4g"),
            *("--env-file", f"{run_dir}/env-{rank}"),
            *("-v", "/mnt/pytorch:/pytorch", "-w", "/pytorch", "--privileged", "lab/pytorch:1"),
            *("python", "mnist.py", "--rank", str(rank), "--world-size", "2"),
            *("--init-method", "tcp://10.77.0.11:9090", "--backend", "gloo"),
        ),
        rank_gpus=((),),
    )


def test_the_articles_job_gives_exactly_this_plan() -> None:
    """Two hosts, one rank each, tcp rendezvous, gloo: nothing more and nothing less."""
    job = dataclasses.replace(
        JOB,
        command=CLASSIC,
        rendezvous=Rendezvous("tcp"),
        backend="gloo",
        master_port=9090,
        fabric=Fabric(kind="tcp"),
        env={"EPOCHS": "3"},
        secrets=("HF_TOKEN",),
        volumes=("/mnt/pytorch:/pytorch",),
        workdir="/pytorch",
        docker_args=("--privileged",),
    )
    made = good(job, started="2026-11-21T02:00:00Z")
    why = "10.77.0.0/24, fabric tcp asked (10 Gb/s)"
    left = "docker0 172.17.0.1 left out: a container network"
    assert made == RunPlan(
        run_id="mnist-7f3",
        job="mnist",
        owner="ann@laptop",
        version="0.1.0",
        attempt=1,
        launcher="env",
        backend="gloo",
        init_method="tcp://10.77.0.11:9090",
        rendezvous_file=None,
        rendezvous_host_path=None,
        master_addr="10.77.0.11",
        master_port=9090,
        world_size=2,
        image="lab/pytorch:1",
        pull="missing",
        on_fail="stop",
        stop_grace=30.0,
        stall_after=120.0,
        progress=None,
        networks=(
            HostNetwork("h1", "10.77.0.11", "eth0", "tcp", (), (f"eth0 10.77.0.11/24: {why}", left), True, 10_000),
            HostNetwork("h2", "10.77.0.12", "eth0", "tcp", (), (f"eth0 10.77.0.12/24: {why}", left), True, 10_000),
        ),
        tasks=(expected_task(0, "h1", made.hash), expected_task(1, "h2", made.hash)),
        reasons=(f"network: {why}",),
        warnings=("docker_args go to the engine as they are: --privileged",),
        hash=made.hash,
    )
    assert len(made.hash) == 12 and made.hosts == ("h1", "h2")


def test_the_hash_is_of_the_content_not_of_the_run() -> None:
    """Two runs of one job have one hash; any change of what runs gives another."""
    job = dataclasses.replace(JOB, rendezvous=Rendezvous("tcp"))
    first = good(job)
    assert good(job, run_id="other-1", attempt=2, started="now").hash == first.hash
    assert good(job, facts={name: dataclasses.replace(f, boot_id="b") for name, f in FACTS.items()}).hash == first.hash
    assert good(dataclasses.replace(job, env={"A": "1"})).hash != first.hash
    assert good(dataclasses.replace(job, on_fail="wait")).hash != first.hash
    assert good(job, picks=PICKS[::-1]).hash != first.hash


# launchers and rendezvous


@pytest.mark.parametrize(
    ("rendezvous", "method"),
    [
        (Rendezvous("env"), "env://"),
        (Rendezvous("tcp"), "tcp://10.77.0.11:{port}"),
        (Rendezvous("file", "/pytorch/rdv"), "file:///pytorch/rdv/distui-mnist-7f3-1-"),
    ],
)
def test_the_classic_command_works_with_every_rendezvous(rendezvous: Rendezvous, method: str) -> None:
    """The program gets rank, world size, method and backend; env:// variables are there in any case."""
    made = good(dataclasses.replace(JOB, command=CLASSIC, rendezvous=rendezvous, volumes=("/mnt/pytorch:/pytorch",)))
    assert made.init_method.startswith(method.format(port=made.master_port))
    for task in made.tasks:
        rank = str(task.ranks[0])
        assert task.start[-9:] == (
            *("mnist.py", "--rank", rank, "--world-size", "2"),
            *("--init-method", made.init_method, "--backend", "gloo"),
        )
        assert task.env["RANK"] == rank and task.env["MASTER_PORT"] == str(made.master_port)


def test_a_file_rendezvous_is_fresh_for_each_attempt_and_known_on_the_host() -> None:
    """A file left behind makes the next run fail, so names never repeat; the host path is for removing it."""
    job = dataclasses.replace(
        JOB, rendezvous=Rendezvous("file", "/pytorch/rdv"), volumes=("/:/root:ro", "/mnt/pytorch:/pytorch:rw")
    )
    first, second = good(job), good(job, attempt=2)
    assert first.rendezvous_file is not None and first.rendezvous_file != second.rendezvous_file
    name = first.rendezvous_file.rpartition("/")[2]
    assert first.rendezvous_host_path == f"/mnt/pytorch/rdv/{name}"
    assert first.tasks[0].labels["distui.rendezvous_file"] == first.rendezvous_host_path


@pytest.mark.parametrize("volumes", [(), ("/data:/data",), ("/mnt/x:/pytorch-other",), ("/pytorch",)])
def test_a_file_rendezvous_outside_every_volume_is_refused(volumes: tuple[str, ...]) -> None:
    """Each container would have a file of its own and all would wait for ever."""
    job = dataclasses.replace(JOB, rendezvous=Rendezvous("file", "/pytorch/rdv"), volumes=volumes)
    assert any("in no mounted volume" in p for p in bad(job))


@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_torchrun_feeds_only_env(kind: Any) -> None:
    """It has no way to hand another init method to the program."""
    job = dataclasses.replace(JOB, launcher="torchrun", rendezvous=Rendezvous(kind, "/x"), volumes=("/x:/x",))
    assert any("torchrun only feeds env://" in p for p in bad(job))


def test_torchrun_has_one_task_per_host_and_no_ranks_in_its_environment() -> None:
    """The agent gets node rank and master as arguments, and a prefix by which its log splits."""
    made = good(
        dataclasses.replace(JOB, launcher="torchrun", gpus_per_host=2, torchrun=Torchrun(port=29501)),
        facts={"h1": with_ib("h1", 11, gpus=2), "h2": with_ib("h2", 12, gpus=2)},
    )
    assert [t.ranks for t in made.tasks] == [(0, 1), (2, 3)]
    assert [t.rank_gpus for t in made.tasks] == [((0,), (1,))] * 2
    task = made.tasks[1]
    assert task.start[task.start.index("lab/pytorch:1") + 1 :] == (
        *("python", "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"),
        *("--node-rank", "1", "--master-addr", "10.78.0.11", "--master-port", "29501"),
        *("--max-restarts", "0", "--tee", "3", "--", "mnist.py"),
    )
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"} & set(task.env)
    assert task.env["OMP_NUM_THREADS"] == "1"
    assert task.env["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] == "[distui rank ${rank}/${local_rank}]:"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ("torchrun", "--standalone", "--nproc_per_node=8", "t.py", "--nnodes", "2"),
            "--standalone, --nproc_per_node=8",
        ),
        (("--rdzv-backend", "c10d", "-m", "t"), "--rdzv-backend"),
        (("torchrun", "--log-dir", "/x", "t.py"), ""),
        (("sh", "-c", "x --nnodes 2"), ""),
        (("t.py", "--tee"), ""),
    ],
)
def test_torchrun_s_options_that_are_ours_are_warned_of(command: tuple[str, ...], said: str) -> None:
    """A command that was pasted: `--standalone` keeps each host waiting for the others at itself."""
    warnings = good(dataclasses.replace(JOB, launcher="torchrun", command=command)).warnings
    assert [w.partition(" in place")[0] for w in warnings] == [f"the command gives torchrun {said}"] * bool(said)


@pytest.mark.parametrize(("rdzv", "warned"), [("c10d", True), ("static", False)])
@pytest.mark.parametrize("option", ["--rdzv-conf=timeout=1800", "--rdzv_id=x", "--local-addr=a"])
def test_torchrun_s_options_that_only_c10d_gets_from_us(rdzv: Any, warned: bool, option: str) -> None:
    """With static they take the place of nothing, and may be what the job needs."""
    job = dataclasses.replace(JOB, launcher="torchrun", command=("torchrun", option, "t.py"))
    made = good(dataclasses.replace(job, torchrun=Torchrun(rdzv=rdzv, port=29400)))
    assert any(f"gives torchrun {option}" in warning for warning in made.warnings) is warned


def test_torchrun_with_c10d_names_its_endpoint_and_its_host() -> None:
    """The store is on node 0, whatever the containers' host names are."""
    made = good(dataclasses.replace(JOB, launcher="torchrun", torchrun=Torchrun(rdzv="c10d", port=29400)))
    for task, hosting in zip(made.tasks, ("is_host=true", "is_host=false"), strict=True):
        assert words_after(task.start, "--rdzv-endpoint") == ["10.77.0.11:29400"]
        assert words_after(task.start, "--rdzv-id") == ["mnist-7f3"]
        assert words_after(task.start, "--rdzv-conf") == [hosting]
        assert words_after(task.start, "--nnodes") == ["2"]
        assert task.env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert [words_after(t.start, "--local-addr") for t in made.tasks] == [["10.77.0.11"], ["10.77.0.12"]]
    assert (made.min_nodes, made.max_restarts) == (None, 0)


def test_what_a_job_asks_for_beyond_exit_0_is_said() -> None:
    """Whoever reads the plan learns when a run of it has succeeded."""
    asked = Success(regex="final loss", file="/out/model.pt", min_seconds=600)
    made = good(dataclasses.replace(JOB, success=asked, same="hash (.*)"))
    assert (
        "It has succeeded only if it lasts 10m, and a rank prints what final loss matches, "
        "and /out/model.pt is there at the end, and all ranks print the same for hash (.*)."
    ) in render_text(made, width=1000)
    assert "succeeded only" not in render_text(good(JOB), width=1000)


def test_nodes_that_may_be_lost() -> None:
    """torchrun is told the range; labels tell other machines; what it means is said."""
    settings = Torchrun(rdzv="c10d", max_restarts=3, nnodes=(1, 2), last_call=5.0)
    made = good(dataclasses.replace(JOB, launcher="torchrun", torchrun=settings))
    for task in made.tasks:
        assert words_after(task.start, "--nnodes") == ["1:2"]
        assert words_after(task.start, "--max-restarts") == ["3"]
        assert words_after(task.start, "--rdzv-conf")[0].endswith(",last_call_timeout=5")
        assert (task.labels["distui.min_nodes"], task.labels["distui.max_restarts"]) == ("1", "3")
    assert (made.min_nodes, made.max_restarts) == (1, 3)
    assert any("the first host holds torchrun's rendezvous" in w for w in made.warnings)
    assert "continue while 1 of 2 nodes are left" in render_text(made, width=1000)


@pytest.mark.parametrize(
    ("nnodes", "message"),
    [
        ((1, 3), "torchrun.nnodes 1:3 names 3 nodes, the run has 2 hosts (write 1:2)"),
        ((3, 3), "torchrun.nnodes 3 names 3 nodes, the run has 2 hosts (write 2)"),
    ],
)
def test_nodes_must_fit_the_hosts(nnodes: tuple[int, int], message: str) -> None:
    """torchrun would wait for nodes that never come."""
    settings = Torchrun(rdzv="c10d", nnodes=nnodes)
    assert message in [str(p) for p in bad(dataclasses.replace(JOB, launcher="torchrun", torchrun=settings))]


def test_restarts_of_a_static_rendezvous_are_doubtful() -> None:
    """Each node decides for itself, as measured."""
    made = good(dataclasses.replace(JOB, launcher="torchrun", torchrun=Torchrun(max_restarts=2)))
    assert any("each node restarts its ranks by itself" in w for w in made.warnings)


# GPUs and devices as docker arguments


def test_gpus_are_named_with_dockers_own_quotes() -> None:
    """`--gpus 1` always means GPU 0, and without inner quotes docker cuts the list at its comma."""
    made = good(dataclasses.replace(JOB, gpus_per_host=(1, 3)), facts={"h1": facts("h1", 11, gpus=4)}, picks=PICKS[:1])
    line = shlex.join(made.tasks[0].start)
    assert """--gpus '"device=1,3"'""" in line
    assert words_after(made.tasks[0].start, "--ulimit") == ["memlock=-1:-1", "stack=67108864"]


def test_several_ranks_on_a_host_see_all_gpus_or_only_their_own() -> None:
    """NCCL wants its peers' devices; `own` is for programs that know no LOCAL_RANK."""
    everything = {"h1": facts("h1", 11, gpus=2)}
    job = dataclasses.replace(JOB, gpus_per_host="all", backend="nccl")
    shared = good(job, facts=everything, picks=PICKS[:1])
    own = good(dataclasses.replace(job, visible_gpus="own"), facts=everything, picks=PICKS[:1])
    assert [words_after(t.start, "--gpus") for t in shared.tasks] == [['"device=0,1"']] * 2
    assert [words_after(t.start, "--gpus") for t in own.tasks] == [['"device=0"'], ['"device=1"']]
    assert [t.rank_gpus for t in shared.tasks] == [t.rank_gpus for t in own.tasks] == [((0,),), ((1,),)]
    assert [t.env["LOCAL_RANK"] for t in shared.tasks] == ["0", "1"]
    assert all(words_after(t.start, "--ipc") == ["host"] for t in shared.tasks)
    assert all("--shm-size" not in t.start for t in shared.tasks)
    assert all(t.env["OMP_NUM_THREADS"] == "1" for t in shared.tasks)


def test_infiniband_brings_devices_and_capability_only_when_it_is_used() -> None:
    """Without them NCCL silently uses sockets; with gloo they would be rights for nothing."""
    hosts = {"h1": with_ib("h1", 11, gpus=1), "h2": with_ib("h2", 12, gpus=1)}
    nccl = good(dataclasses.replace(JOB, gpus_per_host=1, fabric=Fabric(kind="ib")), facts=hosts).tasks[0]
    gloo = good(dataclasses.replace(JOB, fabric=Fabric(kind="ib"), backend="gloo"), facts=hosts).tasks[0]
    assert words_after(nccl.start, "--device") == ["/dev/infiniband"]
    assert "IPC_LOCK" in words_after(nccl.start, "--cap-add")
    assert (nccl.env["NCCL_IB_HCA"], nccl.env["NCCL_NET"]) == ("=mlx5_0:1", "IB")
    assert "NCCL_IB_GID_INDEX" not in nccl.env and nccl.env["GLOO_SOCKET_IFNAME"] == "ib0"
    assert words_after(gloo.start, "--device") == words_after(gloo.start, "--cap-add") == []


def test_podman_gets_cdi_devices_and_a_log_file() -> None:
    """podman accepts `--gpus` and ignores it."""
    host = facts("h1", 11, gpus=2, engine=Engine("podman", ("podman",)))
    inventory = Inventory((Host("h1", engine="podman", engine_command=("podman",)),))
    made = good(dataclasses.replace(JOB, gpus_per_host=2), inventory=inventory, facts={"h1": host}, picks=PICKS[:1])
    start = made.tasks[0].start
    assert start[:2] == ("podman", "run") and "--gpus" not in start
    assert words_after(start, "--device") == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    assert words_after(start, "--log-driver") == ["k8s-file"]


def test_amd_gpus_come_by_device_nodes() -> None:
    """`--gpus` is NVIDIA's."""
    host = facts("h1", 11, gpu=Gpus((Gpu(0, "u0", "MI210", "amd"), Gpu(1, "u1", "MI210", "amd"))))
    made = good(dataclasses.replace(JOB, gpus_per_host=(1,)), facts={"h1": host}, picks=PICKS[:1])
    task = made.tasks[0]
    assert words_after(task.start, "--device") == ["/dev/kfd", "/dev/dri"] and "--gpus" not in task.start
    assert task.env["HIP_VISIBLE_DEVICES"] == "1"


def test_what_the_job_says_about_the_container_wins() -> None:
    """Every docker key of the job file is on the line, `docker_args` last before the image."""
    job = dataclasses.replace(
        JOB,
        network="bridge",
        ipc="host",
        shm_size="64g",
        ulimits={"memlock": "1:2", "nofile": "9"},
        devices=("/dev/fuse",),
        cap_add=("SYS_PTRACE",),
        user="1000:1000",
        entrypoint="",
        pull="never",
        docker_args=("--privileged", "--cpus=2"),
        command="echo {rank} ${HOME} {other}",
        volumes=("./src:/src", "~/d:/d", "named:/n"),
    )
    start = good(job).tasks[1].start
    tail = start[start.index("--network") :]
    assert tail == (
        *("--network", "bridge", "--ipc", "host", "--shm-size", "64g"),
        *("--ulimit", "memlock=1:2", "--ulimit", "nofile=9"),
        *("--device", "/dev/fuse", "--cap-add", "SYS_PTRACE"),
        *("--env-file", "/home/u/.local/state/distui/hosts/h2/mnist-7f3/env-1"),
        *("-v", "/home/u/src:/src", "-v", "/home/u/d:/d", "-v", "named:/n"),
        *("--user", "1000:1000", "--entrypoint", "", "--pull", "never", "--privileged", "--cpus=2"),
        *("lab/pytorch:1", "sh", "-c", "trap 'wait; exit 143' TERM; echo 1 ${HOME} {other}"),
    )


def test_keys_that_only_a_container_has_are_named_where_there_is_none() -> None:
    """They were left out without a word: `entrypoint: python3` with `command: [train.py]` ran a program train.py."""
    inventory = Inventory((Host("h1"), Host("h2", engine="process", engine_command=())))
    job = dataclasses.replace(JOB, entrypoint="python3", volumes=("/x:/x:ro", "/mnt:/mnt"))
    text = "h2: without a container there, these keys of the job are ignored: "
    assert f"{text}entrypoint" in good(job, inventory=inventory).warnings
    more = dataclasses.replace(job, volumes=("/x:/y",))
    assert f"{text}entrypoint, volumes" in good(more, inventory=inventory).warnings
    none = good(dataclasses.replace(job, entrypoint="", ipc="host", network="host"), inventory=inventory)
    assert not [warning for warning in none.warnings if warning.startswith(text)]


def test_without_a_container_gpus_come_by_environment() -> None:
    """Engine `process` needs no image and starts through its own script."""
    inventory = Inventory((Host("h1", engine="process", engine_command=()),))
    host = facts("h1", 11, gpus=2, engine=Engine("none"))
    job = Job("x", command=("python3", "t.py"), gpus_per_host=(1,))
    alone: dict[str, Any] = {"inventory": inventory, "facts": {"h1": host}, "picks": PICKS[:1]}
    task = good(job, **alone).tasks[0]
    node = good(dataclasses.replace(job, launcher="torchrun"), **alone).tasks[0]
    assert words_after(node.start, "--log-dir") == [f"{node.run_dir}/task-0/torchrun"]
    assert (task.engine, task.image, task.engine_command) == ("process", None, ())
    assert (task.env["CUDA_VISIBLE_DEVICES"], task.env["CUDA_DEVICE_ORDER"]) == ("1", "PCI_BUS_ID")
    assert task.start[:2] == ("sh", "-c") and task.start[-2:] == ("python3", "t.py")


# hostile text

HOSTILE = [
    "a'b\"c`d",
    "$(touch /tmp/never)",
    "; rm -rf /",
    "-v",
    "--privileged",
    "żółw 🐢",
    "x" * 10_000,
    "%s %n \\n \\",
    "a b\tc",
    "* ? [a] ~ !",
    "{rank",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_one_argument(text: str) -> None:
    """Whatever is in a command, volume or name, argv holds it as one element and a shell gives it back."""
    job = dataclasses.replace(JOB, command=("prog", text, "end"), volumes=(f"/x{text}:/y",), workdir=f"/w{text}")
    job = dataclasses.replace(job, env={"V": text}, name=f"n{text}")
    start = good(job).tasks[0].start
    assert start[-3:] == ("prog", text, "end")
    assert f"/x{text}:/y" in start and f"/w{text}" in start and f"distui.job=n{text}" in start
    assert tuple(shlex.split(shlex.join(start))) == start
    assert good(job).tasks[0].env["V"] == text


def test_a_newline_in_an_argument_is_kept() -> None:
    """Exec form carries any text; only env files can't."""
    script = "import os\nprint(1)\n"
    assert good(dataclasses.replace(JOB, command=("python", "-c", script))).tasks[0].start[-1] == script


def test_placeholders_are_read_once() -> None:
    """A value that looks like a placeholder is not expanded again, and other braces are left alone."""
    job = dataclasses.replace(JOB, command=("p", "{rank}{world_size}", "{{rank}}", "{RANK}", "{ rank }", "{x: 1}"))
    assert good(job).tasks[1].start[-5:] == ("12", "{rank}", "{RANK}", "{ rank }", "{x: 1}")


def test_a_shells_own_braces_are_not_placeholders() -> None:
    """`${rank}` is the shell's variable and `{{rank}}` is `{rank}`: what the shell prints is what docs/jobs.md says."""
    words = ("sh", "-c", "rank=5; echo ${rank} {{rank}} {rank}")
    for command in (words, words[2]):
        start = good(dataclasses.replace(JOB, command=command)).tasks[0].start
        done = subprocess.run(("sh", "-c", start[-1]), capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == "5 {rank} 0\n"


def test_a_value_with_a_blank_stays_one_word_of_a_shell_command() -> None:
    """Text goes through sh, so values are quoted when they need it."""
    job = dataclasses.replace(
        JOB, command="p {init_method}", rendezvous=Rendezvous("file", "/mnt/a b"), volumes=("/mnt/a b:/mnt/a b",)
    )
    words = shlex.split(good(job).tasks[0].start[-1])
    assert words[:-1] == ["exec", "p"] and words[-1].startswith("file:///mnt/a b/")


def test_an_ipv6_address_needs_no_quotes_in_a_shell_command() -> None:
    """Within the quotes that a person wrote they would stay, and no rank could read the address."""
    six = {f"h{n}": facts(f"h{n}", n, nics=(Nic("eth0", "ethernet", True, addresses=(Address(f"fd00::{n}", 64),)),))
           for n in (1, 2)}  # fmt: skip
    job = dataclasses.replace(JOB, command='printf "%s\\n" "{init_method}" {init_method}', rendezvous=Rendezvous("tcp"))
    made = good(job, facts=six)
    done = subprocess.run(("sh", "-c", made.tasks[0].start[-1]), capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [f"tcp://[fd00::1]:{made.master_port}"] * 2


@pytest.mark.parametrize(("text", "warned"), [("x={rank}", True), ("x=${rank} {{rank}}", False)])
def test_torchrun_warns_of_placeholders_it_leaves(text: str, warned: bool) -> None:
    """Only of those that are placeholders."""
    job = dataclasses.replace(JOB, launcher="torchrun", command=("t.py", text))
    assert any("stays as it is" in warning for warning in good(job).warnings) is warned


@pytest.mark.parametrize(
    ("launcher", "value", "warned"),
    [
        ("env", "{rank}", True),
        ("torchrun", "x={node_rank}", True),
        ("command", "{node_rank}", False),
        ("env", "{x}", False),
    ],
)
def test_placeholders_that_env_does_not_have_are_warned_of(launcher: Any, value: str, warned: bool) -> None:
    """They are filled in with launcher `command` alone; a program got `{rank}`, and nothing said so."""
    job = dataclasses.replace(JOB, launcher=launcher, env={"MINE": value})
    assert any("env MINE: {" in warning for warning in good(job).warnings) is warned


@pytest.mark.parametrize(
    ("more", "engine", "ports"),
    [
        ({}, "docker", ["9090", ""]),
        ({"launcher": "torchrun"}, "docker", ["9090", ""]),
        ({"launcher": "command"}, "docker", ["9090", ""]),
        ({"network": "bridge"}, "docker", ["", ""]),
        ({"network": "bridge"}, "process", ["9090", ""]),
    ],
)
def test_what_has_a_port_of_its_host_says_so(more: dict[str, Any], engine: Any, ports: list[str]) -> None:
    """The task with rank 0, unless its container's network is its own; processes always share their host's."""
    inventory = Inventory((Host("h1", engine=engine), Host("h2", engine=engine)))
    made = good(dataclasses.replace(JOB, master_port=9090, **more), inventory=inventory)
    assert [task.labels.get("distui.ports", "") for task in made.tasks] == ports
    read = [task_from_labels(task.labels) for task in made.tasks]
    assert [labels.ports for labels in read if labels] == [(9090,) if port else () for port in ports]


def test_ports_that_others_have_are_passed_over() -> None:
    """Though nobody listens: on that host only; one that the job names is refused."""
    free = good()
    moved = good(taken={"h1": {free.master_port}, "h2": {free.master_port + 1}})
    assert moved.master_port == free.master_port + 1
    assert moved.hash == free.hash
    assert "h1: port 9090 is taken" in bad(dataclasses.replace(JOB, master_port=9090), taken={"h1": {9090}})[0]


# no plan


def test_every_reason_is_given_at_once() -> None:
    """Job, hosts and facts are all looked at before the answer is no."""
    problems = bad(
        Job("x", command=("p",), env={"A": "1\n2", "B C": ""}, gpus_per_host=4, master_port=9090),
        picks=(*PICKS, HostPick("h9"), HostPick("h3"), HostPick("h1")),
        inventory=Inventory((*INVENTORY.hosts, Host("h3"))),
        facts={
            "h1": facts("h1", 11, gpus=2, ports_in_use=frozenset({9090})),
            "h2": facts("h2", 12, engine=Engine("docker", problem=Trouble("docker_permission", "may not", "group"))),
            "h3": HostDown("h3", Trouble("auth", "publickey refused", "ssh -v h3")),
        },
    )
    assert problems == [
        "h9: is not in the inventory (known: h1, h2, h3) (add it to hosts.yaml)",
        "h3: publickey refused (ssh -v h3)",
        "h1: is named twice (name each host once)",
        "the job has no image, and hosts with a container engine need one (set image:, or pass --image; "
        "`docker: process` in hosts.yaml runs it without containers)",
        "h2: may not (group)",
        "h1: 4 GPUs asked, found 2 (ask for fewer with gpus_per_host, or take another host)",
        "h2: 4 GPUs asked, found 0 (ask for fewer with gpus_per_host, or take another host)",
        "h1: port 9090 is taken: somebody listens on it on this host, where rank 0 runs"
        " (name another master_port, or drop it and let the plan choose)",
        "env 'A': the value holds a newline, which no env file can carry; encode it (base64) or mount a file",
        "env 'B C': the name must not be empty, hold blanks, `=` or NUL, or begin with `#`",
    ]


def test_a_host_that_is_down_is_named_once() -> None:
    """What a connection says of it begins with its name, too."""
    refused = HostDown("h2", Trouble("refused", "h2 (10.0.0.12:22) refuses connections", "start sshd there"))
    assert bad(JOB, facts={"h1": FACTS["h1"], "h2": refused}) == [
        "h2: 10.0.0.12:22 refuses connections (start sshd there)"
    ]


@pytest.mark.parametrize(
    ("job", "more", "said"),
    [
        (JOB, {"picks": ()}, "no hosts to run on"),
        (JOB, {"facts": {"h1": FACTS["h1"]}}, "h2: was not probed"),
        (JOB, {"run_id": "a;b"}, "run name 'a;b' is not usable"),
        (dataclasses.replace(JOB, command=()), {}, "no command"),
        (dataclasses.replace(JOB, command=" "), {}, "no command"),
        (dataclasses.replace(JOB, image="--privileged"), {}, "is not an image name"),
        (dataclasses.replace(JOB, workdir="~/work"), {}, "workdir ~/work is no folder in a container"),
        (dataclasses.replace(JOB, command=("a", "b\0c")), {}, "NUL"),
        (dataclasses.replace(JOB, ranks=RankLayout(per_host=0)), {}, "no host gets any rank"),
        (dataclasses.replace(JOB, env={"RANK": "0"}), {}, "env sets RANK=0 for all 2 ranks"),
        (dataclasses.replace(JOB, env={"MASTER_ADDR": "10.9.9.9"}), {}, "h1: MASTER_ADDR 10.9.9.9 can't be reached"),
        (dataclasses.replace(JOB, env={"MASTER_ADDR": "10.77.0.12"}), {}, "it is h2's"),
        (dataclasses.replace(JOB, gpus_by_host={"h7": 1}), {}, "h7: gpus_per_host names it"),
        (
            dataclasses.replace(JOB, ranks=RankLayout(by_host={"h1": (0, 1), "h2": (1,)})),
            {},
            "rank 1 is given 2 times (h1, h2)",
        ),
        (
            JOB,
            {"facts": {**FACTS, "h2": facts("h2", 12, engine=Engine("none"))}},
            "h2: no docker found",
        ),
        (
            dataclasses.replace(JOB, gpus_per_host=1),
            {
                "facts": {
                    n: facts(n, i, gpus=1, engine=Engine("docker", nvidia_runtime=False))
                    for n, i in (("h1", 11), ("h2", 12))
                }
            },
            "docker there has no NVIDIA runtime",
        ),
    ],
)
def test_bad_input_is_named_with_what_to_do(job: Job, more: dict[str, Any], said: str) -> None:
    """One clear sentence for each, never an exception."""
    assert any(said in problem for problem in bad(job, **more)), bad(job, **more)


# borders


def test_planning_needs_no_network_ui_or_training_library() -> None:
    """The core can be read and tested without any of them."""
    code = "import sys,distui.plan.plan,distui.plan.text.render;print([m for m in sys.modules if m.split('.')[0] in "
    code += "('asyncssh','textual','torch','pydantic','rich','yaml')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_rest_of_a_containers_life() -> None:
    """Grace in whole seconds, filters exact."""
    assert stop(("sudo", "-n", "docker"), ("a", "b"), 2.1) == ("sudo", "-n", "docker", "stop", "-t", "3", "a", "b")
    assert list_ids(("docker",), "r-1")[-1] == "label=distui.run=r-1"


@pytest.mark.parametrize(
    ("listed", "more", "warned"),
    [
        ("0,1", {}, False),
        ("", {}, False),
        ("2,3", {}, True),
        ("0,1", {"visible_gpus": "own", "ranks": RankLayout(per_gpu=1)}, True),
        ("0", {"visible_gpus": "own", "ranks": RankLayout(per_gpu=1)}, False),
        ("GPU-7c1f", {}, False),
    ],
)
def test_gpus_that_a_container_does_not_have_are_warned_of(listed: str, more: Any, warned: bool) -> None:
    """In a container its GPUs are counted from 0, whatever their numbers on the host are."""
    job = dataclasses.replace(JOB, gpus_per_host=2, env={"CUDA_VISIBLE_DEVICES": listed}, **more)
    hosts = {name: facts(name, n, gpus=4) for n, name in enumerate(("node01", "node02"), 1)}
    made = plan(job, Inventory(tuple(map(Host, hosts))), tuple(map(HostPick, hosts)), hosts,
                run_id="r", owner="o", version="1")  # fmt: skip
    assert isinstance(made, RunPlan), made
    assert any("is not among them" in warning for warning in made.warnings) is warned


@pytest.mark.parametrize(
    ("network", "warned"), [("host", ["h1: docker there is rootless; its `--network host`"]), ("none", [])]
)
def test_a_docker_without_the_hosts_network_is_warned_of(network: str, warned: list[str]) -> None:
    """Its containers have no eth0: gloo finds no such interface, and nobody reaches rank 0."""
    own = facts("h1", 11, engine=Engine("docker", ("docker",), apart="rootless"))
    made = good(dataclasses.replace(JOB, network=network), facts={**FACTS, "h1": own})
    assert [w[:50] for w in made.warnings if "rootless" in w] == warned


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        ((), True),
        (("--cpus=2", "--label=team=ml"), True),
        (("--security-opt", "label=disable"), False),
        (("--security-opt=label=type:container_runtime_t",), False),
        (("--privileged",), False),
    ],
)
def test_a_host_whose_selinux_keeps_containers_out_is_warned_of(arguments: tuple[str, ...], warned: bool) -> None:
    """A rank could not read its program, and nothing said what to do."""
    own = facts("h1", 11, engine=Engine("podman", ("podman",), selinux=True))
    made = good(dataclasses.replace(JOB, docker_args=arguments), facts={**FACTS, "h1": own})
    assert [w.partition(" there")[0] for w in made.warnings if "SELinux" in w] == ["h1: SELinux"] * warned


def test_a_slow_login_shell_is_said_before_the_start() -> None:
    """Once for all hosts that have one."""
    slow = {name: dataclasses.replace(found, shell_s=5.0) for name, found in FACTS.items()}
    (said,) = set(good(facts=slow).warnings) - set(good().warnings)
    assert said.partition(" (")[0] == "h[1-2]: its login shell takes 5 s to start"


@pytest.mark.parametrize(
    ("ranks", "network", "warned"), [(2, "bridge", True), (2, "host", False), (1, "bridge", False)]
)
def test_ranks_of_one_host_without_its_network_are_warned_of(ranks: int, network: str, warned: bool) -> None:
    """They would listen and look for each other on addresses and interfaces that their containers lack."""
    job = dataclasses.replace(JOB, network=network, ranks=RankLayout(per_host=ranks))
    made = good(job, picks=PICKS[:1])
    assert any(w.startswith("network bridge: MASTER_ADDR and the interface") for w in made.warnings) is warned


@pytest.mark.parametrize(
    ("command", "launcher", "warned"),
    [
        (("torchrun", "--rdzv-backend=c10d", "train.py"), "command", True),
        (("accelerate", "launch", "--rdzv_backend", "c10d", "train.py"), "command", True),
        ("torchrun --rdzv_backend c10d --rdzv_conf is_host=$((! {node_rank})) train.py", "command", False),
        (("torchrun", "--rdzv-backend=static", "train.py"), "command", False),
        (("torchrun", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "train.py"), "command", False),
        ("torchrun --rdzv_backend c10d --rdzv_endpoint 127.0.0.1:29400 train.py", "command", False),
        ("torchrun --rdzv_backend c10d --rdzv_endpoint localhost.lab:29400 train.py", "command", True),
        (("torchrun", "train.py", "--rdzv-backend=c10d"), "torchrun", False),
    ],
)
def test_a_rendezvous_that_no_host_may_hold_is_warned_of(command: Any, launcher: Any, warned: bool) -> None:
    """torch's own guess compares host names with the address that the job gives, and none may be the same."""
    job = dataclasses.replace(JOB, command=command, launcher=launcher)
    assert any("rdzv_backend c10d" in warning for warning in good(job).warnings) is warned


@pytest.mark.parametrize(
    ("command", "entrypoint", "warned"),
    [
        (("python3 train.py",), None, True),
        (("echo $SHELL; ls\n",), None, True),
        (("python3", "train.py --lr 3"), None, False),
        ("python3 train.py", None, False),
        (("echo hi; ls",), "sh -c", False),
    ],
)
def test_a_whole_command_line_as_one_word_is_warned_of(command: Any, entrypoint: Any, warned: bool) -> None:
    """No program has that name, as a rule."""
    job = dataclasses.replace(JOB, command=command, entrypoint=entrypoint)
    assert any("names one program" in warning for warning in good(job).warnings) is warned


@pytest.mark.parametrize(("launcher", "warned"), [("env", True), ("command", False)])
def test_mpi_without_mpirun_is_warned_of(launcher: Any, warned: bool) -> None:
    """Each task would be rank 0 of 1."""
    job = dataclasses.replace(JOB, backend="mpi", launcher=launcher)
    assert any("backend mpi" in warning for warning in good(job).warnings) is warned


@pytest.mark.parametrize(
    ("asked", "flags"),
    [
        ({}, ()),
        ({"follow": True}, ("--follow",)),
        ({"stamps": True, "since": "2026-01-01T00:00:00Z"}, ("--timestamps", "--since", "2026-01-01T00:00:00Z")),
        ({"tail": 0}, ("--tail", "0")),
    ],
)
def test_a_log_is_asked_for_as_it_is_wanted(asked: dict[str, Any], flags: tuple[str, ...]) -> None:
    """A log that is not followed ends; no lines at all are a number of lines."""
    assert logs(("sudo", "docker"), "c1", **asked) == ("sudo", "docker", "logs", *flags, "c1")


def test_reasons_of_several_hosts_are_one() -> None:
    """What is said of the job stays its own, though a host says the same."""
    found = [PlanProblem("x", host, "too few") for host in (None, "n1", "n2")]
    found.append(PlanProblem("gpus", "n3", "no GPU", "leave it out"))
    assert in_words(found) == [("too few", ""), ("n[1-2]: too few", ""), ("n3: no GPU", "leave it out")]


@pytest.mark.parametrize(
    ("gpus", "keys", "reason"),
    [
        ((0, 0), {}, "backend gloo: no GPUs asked"),
        ((0, 2), {}, "backend gloo: no GPUs asked (`gpus_per_host: all` asks for those of each host)"),
        ((2, 2), {"gpus_per_host": 0}, "backend gloo: no GPUs asked"),
        ((2, 2), {"gpus_by_host": {"h1": 0, "h2": 0}}, "backend gloo: no GPUs asked"),
        ((2, 2), {"gpus_by_host": {"h1": 1}}, "backend gloo: not every host has GPUs in the run"),
        ((2, 2), {"gpus_per_host": "all"}, "backend nccl: every host has GPUs in the run"),
    ],
)
def test_why_a_backend_was_chosen(gpus: tuple[int, int], keys: dict[str, Any], reason: str) -> None:
    """Whoever has GPUs and did not ask for them learns how."""
    hosts = {"h1": facts("h1", 11, gpus=gpus[0]), "h2": facts("h2", 12, gpus=gpus[1])}
    assert good(dataclasses.replace(JOB, **keys), facts=hosts).reasons[0] == reason
