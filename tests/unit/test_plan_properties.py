"""plan() over any input: it never raises, and every plan it makes holds together."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from distui.facts.host import Address, Engine, Gpu, GpuProcess, Gpus, HostFacts, IbPort, Nic, ProbeResult, Trouble
from distui.plan.labels import task_from_labels
from distui.plan.model import NoPlan, RunPlan
from distui.plan.plan import plan
from distui.plan.serialize import from_json, to_json
from distui.plan.text.render import render_text
from distui.spec.hosts.inventory import DataNetwork, Host, HostPick, Inventory
from distui.spec.job.job import Fabric, Job, RankLayout, Rendezvous, Torchrun


def with_ib(name: str, number: int) -> HostFacts:
    """A host with two GPUs, ethernet and InfiniBand."""
    return HostFacts(
        host=name,
        hostname=name,
        home="/home/u",
        machine_id=name,
        nics=(
            Nic("eth0", "ethernet", True, speed_mbps=10_000, addresses=(Address(f"10.77.0.{number}", 24),)),
            Nic("ib0", "infiniband", True, addresses=(Address(f"10.78.0.{number}", 24),)),
        ),
        ib=(IbPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 400.0, "ib0"),),
        gpu=Gpus(tuple(Gpu(i, f"GPU-{name}-{i}", "H100") for i in range(2))),
        engine=Engine("docker", ("docker",), nvidia_runtime=True),
    )


ENGINES = ["docker", "podman", "process"]
texts = st.text(max_size=8)
ODD: dict[str, st.SearchStrategy[Any]] = {
    "name": texts,
    "image": st.none() | texts,
    "launcher": st.sampled_from(["env", "torchrun"]),
    "ranks": st.none()
    | st.builds(
        RankLayout,
        per_host=st.none() | st.integers(-1, 3),
        per_gpu=st.none() | st.integers(-1, 2),
        by_host=st.dictionaries(st.sampled_from(["h1", "h2", "zz"]), st.tuples(st.integers(-1, 3)), max_size=3),
    ),
    "gpus_per_host": st.none() | st.just("all") | st.integers(-1, 4) | st.tuples(st.integers(-1, 3), st.integers(0, 3)),
    "gpus_by_host": st.dictionaries(st.sampled_from(["h1", "zz"]), st.integers(0, 2), max_size=2),
    "gpus_per_rank": st.none() | st.integers(0, 3),
    "visible_gpus": st.sampled_from(["all", "own"]),
    "rendezvous": st.builds(
        Rendezvous, kind=st.sampled_from(["env", "tcp", "file"]), directory=st.none() | texts | st.just("/w/r")
    ),
    "backend": st.none() | st.sampled_from(["gloo", "nccl", "mpi"]),
    "master_port": st.none() | st.integers(-1, 70000),
    "fabric": st.builds(
        Fabric,
        kind=st.sampled_from(["auto", "ib", "roce", "tcp"]),
        ifname=st.none() | st.sampled_from(["eth0", "ib", "lo", "nope"]),
        hcas=st.sampled_from(["inherit", "mlx5_0", "mlx5_[0-1]", "^mlx5_0", "["]),
        require=st.sampled_from(["all", "any"]),
    ),
    "command": texts | st.lists(texts, max_size=3).map(tuple),
    "env": st.dictionaries(st.sampled_from(["A", "RANK", "MASTER_ADDR", "MASTER_PORT", ""]), texts, max_size=3),
    "volumes": st.lists(st.sampled_from(["/s:/w", "x", ":", "~:/w:ro", "./a:/b"]), max_size=2).map(tuple),
    "secrets": st.lists(st.sampled_from(["S", "A", "="]), max_size=2).map(tuple),
}
"""Values of a job that a file could have, likely or not, by field."""

busy = (GpuProcess(7, "python", None),)
nics = st.lists(
    st.builds(
        Nic,
        name=st.sampled_from(["lo", "eth0", "eth1", "ib0", "docker0"]),
        kind=st.sampled_from(["ethernet", "infiniband", "loopback", "container", "tunnel", "other"]),
        up=st.booleans(),
        speed_mbps=st.none() | st.integers(0, 400_000),
        addresses=st.lists(
            st.builds(
                Address,
                ip=st.sampled_from(
                    ["10.0.0.1", "10.0.0.2", "fe80::1", "2001:db8::1", "169.254.1.1", "127.0.0.1", "bad"]
                ),
                prefix=st.sampled_from([8, 24, 31, 64, 200]),
            ),
            max_size=2,
        ).map(tuple),
    ),
    max_size=4,
).map(tuple)
ports = st.lists(
    st.builds(
        IbPort,
        hca=st.sampled_from(["mlx5_0", "mlx5_10"]),
        port=st.integers(1, 2),
        state=st.sampled_from(["ACTIVE", "DOWN", None]),
        link_layer=st.sampled_from(["InfiniBand", "Ethernet", None]),
        rate_gbps=st.none(),
        netdev=st.sampled_from(["ib0", "eth0", None]),
    ),
    max_size=3,
).map(tuple)
gpus = st.lists(
    st.builds(
        Gpu,
        index=st.integers(0, 4),
        uuid=texts,
        name=st.just("H100"),
        vendor=st.sampled_from(["nvidia", "amd"]),
        processes=st.sampled_from([(), busy]),
        problem=st.sampled_from([None, None, Trouble("gpu_lost", "GPU is lost")]),
    ),
    max_size=4,
    unique_by=lambda g: g.index,
).map(tuple)


@st.composite
def probed(draw: st.DrawFn, name: str) -> ProbeResult:
    """Facts of a host, likely or not."""
    return HostFacts(
        host=name,
        hostname=name,
        home=draw(st.sampled_from([None, "/", "/home/ü"])),
        machine_id=draw(st.sampled_from([None, "m"])),
        nics=draw(nics),
        ib=draw(ports),
        gpu=Gpus(draw(gpus)),
        engine=draw(st.sampled_from([Engine("docker"), Engine("none"), Engine("podman")])),
        default_route_nic=draw(st.sampled_from([None, "eth0"])),
        ephemeral_ports=draw(st.sampled_from([(32768, 60999), (1, 65535), (5, 1)])),
    )


hosts = st.builds(
    Host,
    name=st.sampled_from(["h1", "h2", "h/3"]),
    engine=st.sampled_from(ENGINES),
    gpus=st.sampled_from(["auto", 1, 8, (0, 1)]),
    slots=st.none() | st.integers(-1, 3),
    data=st.builds(
        DataNetwork, addr=st.sampled_from([None, "10.0.0.1", "x"]), ifname=st.sampled_from([None, "eth1", "ib0"])
    ),
)


likely_jobs = st.builds(
    Job,
    name=texts.filter(lambda s: "\0" not in s),
    image=st.just("img"),
    launcher=st.sampled_from(["env", "torchrun"]),
    ranks=st.none() | st.builds(RankLayout, per_host=st.integers(1, 3)) | st.just(RankLayout(per_gpu=1)),
    gpus_per_host=st.none() | st.just("all") | st.integers(0, 2) | st.just((1, 0)),
    visible_gpus=st.sampled_from(["all", "own"]),
    backend=st.none() | st.sampled_from(["gloo", "nccl"]),
    fabric=st.builds(Fabric, kind=st.sampled_from(["auto", "ib", "tcp"]), require=st.sampled_from(["all", "any"])),
    torchrun=st.builds(Torchrun, rdzv=st.sampled_from(["static", "c10d"])),
    command=st.sampled_from(["echo \x1b[31m", ("python", "-m", "x", "{rank}"), ("./a", "\n")]),
    env=st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from(["", "\x1b[2J", "a b"]), max_size=2),
    secrets=st.sampled_from([(), ("TOKEN",)]),
    rendezvous=st.sampled_from([Rendezvous(), Rendezvous("tcp"), Rendezvous("file", "/w")]),
    volumes=st.just(("/mnt/w:/w",)),
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """A likely job in which some fields have whatever their types allow."""
    job = draw(likely_jobs)
    fields = draw(st.lists(st.sampled_from(sorted(ODD)), max_size=2, unique=True))
    return replace(job, **{name: draw(ODD[name]) for name in fields})


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Inventory, list[HostPick], dict[str, ProbeResult]]:
    """Hosts, those that are picked, and what is known of them: mostly all of it likely."""
    odd = draw(st.booleans()) and draw(st.booleans())
    likely = st.builds(Host, name=st.sampled_from(["h1", "h2", "h3"]), engine=st.sampled_from(ENGINES))
    of_all = draw(st.lists(hosts if odd else likely, min_size=not odd, max_size=3, unique_by=lambda h: h.name))
    names = [host.name for host in of_all] or ["h1"]
    picks = draw(st.lists(st.builds(HostPick, st.sampled_from(names)), max_size=3)) if odd else map(HostPick, names)
    strange = draw(st.sets(st.sampled_from(names), max_size=1)) if odd else ()
    facts = {n: draw(probed(n)) if odd or n in strange else with_ib(n, i + 11) for i, n in enumerate(names)}
    return Inventory(tuple(of_all)), list(picks), facts


def test_any_typed_input_gives_a_plan_or_reasons() -> None:
    """plan() never raises; what it gives survives JSON, has dense ranks and argv of plain words.

    A good share of what is tried does give a plan: else nothing would be proved of plans.
    """
    plans: list[bool] = []

    @settings(max_examples=100)
    @given(cluster=clusters(), job=jobs())
    def each(cluster: tuple[Inventory, list[HostPick], dict[str, ProbeResult]], job: Job) -> None:
        made = plan(job, *cluster, run_id="r-1", owner="o", version="v")
        plans.append(isinstance(made, RunPlan))
        if isinstance(made, NoPlan):
            assert made.problems and all(p.message for p in made.problems)
        else:
            holds(made, job.env.get("MASTER_ADDR"))

    each()
    assert sum(plans) > len(plans) / 10, f"{sum(plans)} plans of {len(plans)}"


def holds(made: RunPlan, own_addr: str | None = None) -> None:
    """What is true of every plan: dense ranks, argv of plain words, JSON and back, text at any width."""
    assert from_json(json.loads(json.dumps(to_json(made)))) == made
    assert sorted(r for t in made.tasks for r in t.ranks) == list(range(made.world_size))
    assert [t.index for t in made.tasks] == list(range(len(made.tasks)))
    assert all(len(t.rank_gpus) == len(t.ranks) for t in made.tasks)
    assert all(set(own) <= set(t.gpus) for t in made.tasks for own in t.rank_gpus)
    assert all(isinstance(w, str) and "\0" not in w for t in made.tasks for w in t.start)
    assert 0 in next(t.ranks for t in made.tasks if t.host == made.hosts[0])
    assert made.master_addr == (own_addr or next(n.addr for n in made.networks if n.host == made.hosts[0]))
    for task in made.tasks:
        assert task_from_labels(task.labels) is not None
    assert all("\x1b" not in render_text(made, full=full, width=80) for full in (True, False))


@settings(max_examples=60)
@given(job=likely_jobs, engines=st.lists(st.sampled_from(ENGINES), min_size=1, max_size=3))
def test_likely_input_gives_plans_that_hold_together(job: Job, engines: list[Any]) -> None:
    """Hosts with two GPUs and InfiniBand can do nearly everything; what they can't is said."""
    names = [f"h{i}" for i in range(len(engines))]
    inventory = Inventory(tuple(Host(n, engine=e) for n, e in zip(names, engines, strict=True)))
    found = {n: with_ib(n, i + 11) for i, n in enumerate(names)}
    made = plan(job, inventory, [HostPick(n) for n in names], found, run_id="r-1", owner="o", version="v")
    if isinstance(made, NoPlan):
        said = {p.message.partition(",")[0] for p in made.problems}
        assert said <= {"torchrun only feeds env://", "ranks per GPU asked"}, said
        return
    holds(made)
    assert made == plan(job, inventory, [HostPick(n) for n in names], found, run_id="r-1", owner="o", version="v")
