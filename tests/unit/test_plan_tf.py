"""Launchers `tf` and `command`: TF_CONFIG as literals, where tasks go, ports, GPUs, node and rank numbers."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.doctor.reach import Endpoint
from distui.doctor.reach_check import endpoints_of_plan
from distui.facts.host import Address, Engine, Gpu, Gpus, HostFacts, Nic
from distui.plan.command.tf import own_ports
from distui.plan.model import NoPlan, RunPlan
from distui.plan.plan import plan
from distui.plan.serialize import from_json, to_json
from distui.plan.text.compare import compare
from distui.plan.text.render import render_text
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import ROLES, Job, RankLayout, Role


def facts(name: str, number: int, *, gpus: int = 0, **more: Any) -> HostFacts:
    """A host with one network; `number` is the end of its address."""
    base = HostFacts(
        host=name,
        hostname=name,
        home="/home/u",
        machine_id=f"m-{name}",
        nics=(Nic("eth0", "ethernet", True, 1500, addresses=(Address(f"10.0.0.{number}", 24),)),),
        gpu=Gpus(tuple(Gpu(i, f"GPU-{name}-{i}", "H100") for i in range(gpus))),
        engine=Engine("docker", ("docker",), nvidia_runtime=True),
        default_route_nic="eth0",
    )
    return dataclasses.replace(base, **more)


def make(job: Job, *, gpus: int = 0, run_id: str = "r1", ports: tuple[int, ...] = (), hosts: int = 2) -> Any:
    """The plan of a job on n1 and n2; `ports` are in use on n1."""
    names = tuple(f"n{i + 1}" for i in range(hosts))
    known: dict[str, Any] = {name: facts(name, i + 1, gpus=gpus) for i, name in enumerate(names)}
    known["n1"] = dataclasses.replace(known["n1"], ports_in_use=frozenset(ports))
    inventory = Inventory(tuple(Host(name) for name in names), {"first": ("n1",)})
    picks = tuple(HostPick(name) for name in names)
    return plan(job, inventory, picks, known, run_id=run_id, owner="ann@desk", version="0")


def good(job: Job, **more: Any) -> RunPlan:
    """A plan that must exist."""
    made = make(job, **more)
    assert isinstance(made, RunPlan), made
    return made


def bad(job: Job, **more: Any) -> list[str]:
    """The problems of a plan that must not exist."""
    made = make(job, **more)
    assert isinstance(made, NoPlan), made
    return [str(p) for p in made.problems]


def tf(roles: dict[Any, Role] | None = None, **more: Any) -> Job:
    """A TensorFlow job."""
    return Job("j", image="img:1", launcher="tf", command=("python", "train.py"), roles=roles or {}, **more)


PS = {
    "chief": Role(hosts=("n1",), gpus=0, port=2221),
    "worker": Role(count=2, port=2222),
    "ps": Role(count=3, port=2230, env={"CUDA_VISIBLE_DEVICES": ""}),
    "evaluator": Role(port=2240),
}


def configs(made: RunPlan) -> dict[str, Any]:
    """TF_CONFIG of every task by its name."""
    return {t.name: json.loads(t.env["TF_CONFIG"]) for t in made.tasks if "TF_CONFIG" in t.env}


def test_tf_config_of_parameter_servers() -> None:
    """One cluster for all but the evaluator, which stands alone; each task has its own `task` and its own port."""
    made = good(tf(PS))
    cluster = {
        "chief": ["10.0.0.1:2221"],
        "worker": ["10.0.0.1:2222", "10.0.0.2:2222"],
        "ps": ["10.0.0.1:2230", "10.0.0.1:2231", "10.0.0.2:2230"],
    }
    assert configs(made) == {
        "chief/0": {"cluster": cluster, "task": {"type": "chief", "index": 0}},
        "worker/0": {"cluster": cluster, "task": {"type": "worker", "index": 0}},
        "worker/1": {"cluster": cluster, "task": {"type": "worker", "index": 1}},
        "ps/0": {"cluster": cluster, "task": {"type": "ps", "index": 0}},
        "ps/1": {"cluster": cluster, "task": {"type": "ps", "index": 1}},
        "ps/2": {"cluster": cluster, "task": {"type": "ps", "index": 2}},
        "evaluator/0": {"cluster": {"evaluator": ["10.0.0.1:2240"]}, "task": {"type": "evaluator", "index": 0}},
    }
    assert made.tasks[1].env["TF_CONFIG"] == (
        '{"cluster":{"chief":["10.0.0.1:2221"],"worker":["10.0.0.1:2222","10.0.0.2:2222"],'
        '"ps":["10.0.0.1:2230","10.0.0.1:2231","10.0.0.2:2230"]},"task":{"type":"worker","index":0}}'
    )
    assert {t.env["GRPC_FAIL_FAST"] for t in made.tasks} == {"use_caller"}
    assert [(t.index, t.ranks, t.role, t.host, t.port) for t in made.tasks] == [
        (0, (0,), "chief", "n1", 2221),
        (1, (1,), "worker", "n1", 2222),
        (2, (2,), "worker", "n2", 2222),
        (3, (3,), "ps", "n1", 2230),
        (4, (4,), "ps", "n1", 2231),
        (5, (5,), "ps", "n2", 2230),
        (6, (6,), "evaluator", "n1", 2240),
    ]
    assert made.tasks[3].env["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in made.tasks[1].env
    assert (made.done_when, made.judges) == ("chief", (0,))


def test_multi_worker_is_one_worker_on_each_host() -> None:
    """No roles: workers only, on free ports that no two share; the run is over when all of them have ended."""
    made = good(tf(), ports=(20_000,))
    ports = [t.port for t in made.tasks]
    cluster = {"worker": [f"10.0.0.1:{ports[0]}", f"10.0.0.2:{ports[1]}"]}
    assert [c["cluster"] for c in configs(made).values()] == [cluster, cluster]
    assert len(set(ports)) == 2
    assert all(20_000 < p < 30_000 for p in ports if p)
    assert (made.done_when, made.judges) == ("worker", (0, 1))
    assert all("GRPC_FAIL_FAST" not in t.env for t in made.tasks)
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "DISTUI_INIT_METHOD"} & set(made.tasks[0].env)
    assert (made.master_addr, made.master_port, made.world_size) == ("10.0.0.1", ports[0], 2)


def test_a_chief_without_ps_is_the_first_worker() -> None:
    """It trains and gets GPUs; the evaluator does not, and is not waited for."""
    roles = {"chief": Role(hosts=("@first",)), "worker": Role(count=1, hosts=("n2",)), "evaluator": Role()}
    made = good(tf(roles, gpus_per_host="all"), gpus=2)
    assert {t.name: t.gpus for t in made.tasks} == {"chief/0": (0, 1), "worker/0": (0, 1), "evaluator/0": ()}
    assert made.judges == (0, 1)
    assert [t.name for t in made.tasks if t.index not in made.judges] == ["evaluator/0"]


def test_one_worker_is_a_cluster_of_one() -> None:
    """The same program runs with one worker and with many."""
    made = good(tf({"worker": Role(count=1, port=2222)}))
    assert configs(made) == {
        "worker/0": {"cluster": {"worker": ["10.0.0.1:2222"]}, "task": {"type": "worker", "index": 0}}
    }


def test_gpus_go_to_those_that_train() -> None:
    """A number for each task, `all` for what is left; parameter servers and a coordinating chief get none."""
    roles = {"chief": Role(), "worker": Role(per_host=2, gpus=2), "ps": Role(count=1)}
    made = good(tf(roles), gpus=4)
    assert {t.name: t.gpus for t in made.tasks} == {
        "chief/0": (),
        "worker/0": (0, 1),
        "worker/1": (2, 3),
        "worker/2": (0, 1),
        "worker/3": (2, 3),
        "ps/0": (),
    }
    assert ("--gpus", '"device=2,3"') in [
        (made.tasks[2].start[i], made.tasks[2].start[i + 1]) for i in range(len(made.tasks[2].start) - 1)
    ]
    assert "--gpus" not in made.tasks[0].start
    shared = good(tf({"worker": Role(per_host=2, gpus="all")}), gpus=4)
    assert [t.gpus for t in shared.tasks] == [(0, 1), (2, 3), (0, 1), (2, 3)]


def test_a_plan_is_the_same_plan_whatever_ports_were_free() -> None:
    """Two runs of one job have one hash and no difference; a plan goes to JSON and back."""
    one, two = good(tf(PS | {"worker": Role(count=2)})), good(tf(PS | {"worker": Role(count=2)}), run_id="r2")
    assert one.tasks[1].port != two.tasks[1].port
    assert one.hash == two.hash
    assert compare(one, two) == ""
    assert from_json(json.loads(json.dumps(to_json(one)))) == one


def test_a_port_that_may_be_taken_is_warned_of_on_each_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, also where the host's first port is none."""
    whole = facts

    def tuned(name: str, number: int, **more: Any) -> HostFacts:
        return whole(name, number, ephemeral_ports=(1024, 65534), **more)

    monkeypatch.setitem(globals(), "facts", tuned)
    made = good(tf({"chief": Role(hosts=("n1",)), "worker": Role(count=3, hosts=("n1",))}), hosts=1)
    first, second = (task.port for task in made.tasks[:2])
    assert first == 65535
    words = "is in the ephemeral range 1024-65534; any outgoing connection may hold it"
    assert [w for w in made.warnings if "ephemeral" in w] == [f"n1: port {second} {words}"]


def test_each_task_says_its_port() -> None:
    """All that a host's tasks listen on, for launches of others; and a port that another has is passed over."""
    plan = good(tf({"worker": Role(count=4)}))
    assert [task.labels["distui.ports"] for task in plan.tasks] == [str(task.port) for task in plan.tasks]
    assert len({task.port for task in plan.tasks}) == 4
    first = plan.tasks[0].port
    again = good(tf({"worker": Role(count=4)}), ports=(first or 0,))
    assert again.tasks[0].port != first


def test_a_plan_in_words() -> None:
    """Roles in the table, who listens where, and whose end is the run's."""
    text = " ".join(render_text(good(tf(PS))).split())
    assert "NODE HOST TASKS GPUS ADDRESS" in text
    assert "0 n1 chief/0 worker/0 ps/0-1 evaluator/0 -" in text
    assert "chief/0 listens on 10.0.0.1 port 2221, worker/0 listens on 10.0.0.1 port 2222," in text
    assert "The run ends when chief/0 ends; worker/0, worker/1, ps/0, ps/1, ps/2, evaluator/0 are then stopped." in text
    assert "# n1: chief/0" in text
    assert "backend" not in text.partition("Warnings")[0].partition("Why")[0]


@pytest.mark.parametrize(
    ("job", "more", "problem"),
    [
        (tf({"chief": Role(per_host=1)}), {}, "2 tasks are chief, and TensorFlow allows one (roles.chief: {count: 1})"),
        (
            tf({"worker": Role(hosts=("n9",))}),
            {},
            "n9: roles.worker.hosts names it, but it is not a host of this run (add it to hosts:)",
        ),
        (tf({"worker": Role(hosts=("@nope",))}), {}, "roles.worker.hosts: there is no group @nope"),
        (
            tf({"worker": Role(port=2222)}),
            {"ports": (2222,)},
            "n1: port 2222 is taken: somebody listens on it on this host, where worker/0 runs",
        ),
        (
            tf({"chief": Role(port=2222), "worker": Role(port=2222)}),
            {},
            "n1: chief/0 and worker/0 would both listen on port 2222 (give the roles ports further apart)",
        ),
        (
            tf({"worker": Role(per_host=2, port=65535)}),
            {},
            "n1: worker/1 would listen on port 65536; ports end at 65535",
        ),
        (
            tf({"worker": Role(gpus=2)}, gpus_per_host=1),
            {"gpus": 4},
            "n1: 2 GPUs asked (worker/0 2), the run has 1 on it (see gpus_per_host)",
        ),
        (tf({"worker": Role(gpus=3)}), {"gpus": 2}, "n1: 3 GPUs asked, found 2"),
    ],
)
def test_what_can_not_be_a_cluster(job: Job, more: dict[str, Any], problem: str) -> None:
    """Each with the host, and what to do."""
    found = bad(job, **more)
    assert found[0].startswith(problem), found


def test_a_cluster_that_no_env_file_can_carry() -> None:
    """Docker reads 64 KiB of a line; said before anything starts."""
    (found,) = bad(tf({"worker": Role(count=4096)}))
    assert found.startswith("TF_CONFIG of 4096 tasks is 69")
    assert found.endswith("more than docker reads in one line (65535) (use fewer tasks, each with more GPUs)")


def test_workers_that_differ_are_warned_of() -> None:
    """TensorFlow takes all workers to have the same number of GPUs; a host without a task is named."""
    made = good(tf({"chief": Role(count=1, gpus=2), "worker": Role(count=1, gpus=1, hosts=("n2",))}), gpus=2, hosts=3)
    assert made.warnings == (
        "n3: no task of the roles runs here",
        "workers have different numbers of GPUs (chief/0 2, worker/0 1); TensorFlow expects equal",
    )


def test_the_ports_of_all_tasks_are_proved_free_at_the_start() -> None:
    """Each host with those of its own tasks; the evaluator's stays free for it, too."""
    assert endpoints_of_plan(good(tf(PS))) == (
        Endpoint("n1", "10.0.0.1", 2221, (2222, 2230, 2231, 2240)),
        Endpoint("n2", "10.0.0.2", 2222, (2230,)),
    )


def test_who_only_serves_is_never_quiet() -> None:
    """Parameter servers and the workers of a coordinator have nothing to say."""
    made = good(tf(PS, stall_after=60.0))
    assert {t.name: made.stall_after_of(t) for t in made.tasks if made.stall_after_of(t)} == {"chief/0": 60.0}
    workers = good(tf(stall_after=60.0))
    assert {workers.stall_after_of(t) for t in workers.tasks} == {60.0}


@given(
    counts=st.fixed_dictionaries(
        {"worker": st.integers(1, 9)}, optional={"chief": st.just(1), "ps": st.integers(1, 5), "evaluator": st.just(1)}
    ),
    hosts=st.integers(1, 4),
    ports=st.sets(st.integers(20_000, 20_050), max_size=40),
)
def test_any_cluster_is_one_cluster(counts: dict[Any, int], hosts: int, ports: set[int]) -> None:
    """Every task once, on a port of its own that nobody had; all see the same cluster and find themselves in it."""
    if "ps" in counts:
        counts["chief"] = 1
    made = good(tf({n: Role(count=c) for n, c in counts.items()}), hosts=hosts, ports=tuple(ports))
    assert [t.role for t in made.tasks] == [role for role in ROLES for _ in range(counts.get(role, 0))]
    assert len({(t.host, t.port) for t in made.tasks}) == len(made.tasks)
    assert all(t.port not in ports for t in made.tasks if t.host == "n1")
    address = {n.host: n.addr for n in made.networks}
    configured = configs(made)
    shared = [c["cluster"] for name, c in configured.items() if not name.startswith("evaluator")]
    assert all(cluster == shared[0] for cluster in shared)
    for task in made.tasks:
        own = configured[task.name]["task"]
        assert f"{own['type']}/{own['index']}" == task.name
        assert configured[task.name]["cluster"][own["type"]][own["index"]] == f"{address[task.host]}:{task.port}"
    spread = Counter(t.host for t in made.tasks if t.role == "worker")
    assert max(spread.values()) - min(spread.get(f"n{i + 1}", 0) for i in range(hosts)) <= 1


# launcher command


def command(**more: Any) -> Job:
    """A job whose command is a launcher."""
    words = ("launch", "{node_rank}/{nnodes}", "{nproc}", "{world_size}", "{master_addr}", "{master_port}", "{rank}")
    given = {"image": "img:1", "command": words, "master_port": 2222, "ranks": RankLayout(per_host=4)}
    return Job("j", launcher="command", insight="off", **given | more)  # type: ignore[arg-type]


def program(made: RunPlan, index: int) -> tuple[str, ...]:
    """What a task runs."""
    start = made.tasks[index].start
    return start[start.index("img:1") + 1 :]


def test_a_launcher_gets_all_hosts() -> None:
    """By address, and as a file that is mounted where it asks for one; without a container it is the file itself."""
    words = ("mpirun", "--hostfile", "{hostfile}", "--host", "{peers}")
    made = good(command(command=words))
    assert program(made, 1) == ("mpirun", "--hostfile", "/run/distui/hostfile", "--host", "10.0.0.1,10.0.0.2")
    task = made.tasks[1]
    assert task.hostfile_lines == ("10.0.0.1 slots=4", "10.0.0.2 slots=4")
    assert task.hostfile == f"{task.run_dir}/hostfile-1"
    mount = f"type=bind,source={task.hostfile},target=/run/distui/hostfile,readonly"
    assert task.start[task.start.index(mount) - 1] == "--mount"
    assert from_json(json.loads(json.dumps(to_json(made)))) == made
    assert f"printf '%s\\n' '10.0.0.1 slots=4' '10.0.0.2 slots=4' >{task.hostfile}\n" in render_text(made, full=True)
    (without,) = {(each.hostfile, each.hostfile_lines) for each in good(command()).tasks}
    assert without == ("", ())
    assert good(command(env={"HOSTS": "{hostfile}"})).tasks[0].env["HOSTS"] == "/run/distui/hostfile"


def test_a_launcher_on_each_host() -> None:
    """One task a host, told about hosts: RANK and WORLD_SIZE, which mean ranks to some, are not set."""
    made = good(command(env={"RANK": "{node_rank}"}))
    assert program(made, 0) == ("launch", "0/2", "4", "8", "10.0.0.1", "2222", "{rank}")
    assert program(made, 1) == ("launch", "1/2", "4", "8", "10.0.0.1", "2222", "{rank}")
    configured = {
        k: v for k, v in made.tasks[1].env.items() if "RANK" in k or "SIZE" in k or "DE" in k or "MASTER" in k
    }
    assert configured == {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "2222",
        "DISTUI_WORLD_SIZE": "8",
        "DISTUI_NODE_RANK": "1",
        "DISTUI_NNODES": "2",
        "RANK": "1",
    }
    assert made.tasks[1].env["DISTUI_NPROC"] == "4"
    assert [(t.name, t.ranks) for t in made.tasks] == [("node0", (0,)), ("node1", (1,))]
    assert made.rank_names == {0: "node0", 1: "node1"}
    assert any("{rank} stays as it is" in w for w in made.warnings)


def test_a_launcher_for_each_rank() -> None:
    """One task a rank, with both numberings under names of their own."""
    made = good(command(task_per="rank", ranks=RankLayout(per_host=2)))
    assert program(made, 3) == ("launch", "1/2", "2", "4", "10.0.0.1", "2222", "3")
    own = {
        k: v
        for k, v in made.tasks[3].env.items()
        if k.startswith("DISTUI_") and k not in ("DISTUI_RUN", "DISTUI_ATTEMPT")
    }
    assert own == {
        "DISTUI_TASK": "3",
        "DISTUI_RANK": "3",
        "DISTUI_LOCAL_RANK": "1",
        "DISTUI_WORLD_SIZE": "4",
        "DISTUI_NODE_RANK": "1",
        "DISTUI_NNODES": "2",
        "DISTUI_NPROC": "2",
        "DISTUI_INIT_METHOD": "env://",
        "DISTUI_BACKEND": "gloo",
    }
    assert "RANK" not in made.tasks[3].env
    assert made.rank_names == {}
    assert made.warnings == ()


def test_ports_that_the_plan_chose_are_no_part_of_its_hash() -> None:
    """Whoever listens where on a host changes from hour to hour; a port that the job names is the job."""
    first = good(tf())
    second = good(tf(), ports=tuple(range(1024, 32_000)))
    assert own_ports(first.reasons) != own_ports(second.reasons)
    assert second.hash == first.hash
