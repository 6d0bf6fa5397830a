"""`roles`, `done_when` and `task_per` of a job file: what is read, and every refusal with its line."""

from __future__ import annotations

import pytest

from distui.errors import SpecError
from distui.spec.job.job import Job, Role
from distui.spec.job.read_job import read_job

TF = "version: 1\nname: x\nimage: img\ncommand: [a]\nlauncher: tf\n"
COMMAND = "version: 1\nname: x\nimage: img\nlauncher: command\n"


def job(head: str, body: str) -> Job:
    """A job with `body` added."""
    return read_job(head + body, "j", environ={})


def messages(head: str, body: str) -> list[str]:
    """Every problem: `line:column key: message`, lines counted from the body."""
    with pytest.raises(SpecError) as caught:
        job(head, body)
    above = head.count("\n")
    return [f"{p.line - above}:{p.column} {p.key}: {p.message}" for p in caught.value.problems]


def test_roles_are_read_in_the_order_of_the_cluster() -> None:
    """However they are written: chief, worker, ps, evaluator."""
    body = """\
roles:
  evaluator: {}
  ps: {count: 2, gpus: 0, port: 2223, env: {CUDA_VISIBLE_DEVICES: ""}}
  worker: {per_host: 2, gpus: all}
  chief: {count: 1, hosts: node01}
done_when: chief
"""
    found = job(TF, body)
    assert list(found.roles) == ["chief", "worker", "ps", "evaluator"]
    assert found.roles == {
        "chief": Role(count=1, hosts=("node01",)),
        "worker": Role(per_host=2, gpus="all"),
        "ps": Role(count=2, gpus=0, port=2223, env={"CUDA_VISIBLE_DEVICES": ""}),
        "evaluator": Role(),
    }
    assert found.done_when == "chief"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("roles: {wroker: {}}", "1:9 roles.wroker: unknown role 'wroker', did you mean 'worker'?"),
        ("roles: {master: {}}", "1:9 roles.master: unknown role 'master', did you mean 'chief'?"),
        ("roles: {driver: {}}", "1:9 roles.driver: unknown role 'driver'; known: chief, worker, ps, evaluator"),
        ("roles: {}", "1:8 roles: nobody trains: add worker, or chief"),
        ("roles: {evaluator: {}}", "1:8 roles: nobody trains: add worker, or chief"),
        ("roles: {ps: {}, worker: {}}", "1:13 roles.ps: ps needs a chief, which coordinates, and workers: add chief"),
        ("roles: {ps: {}, chief: {}}", "1:13 roles.ps: ps needs a chief, which coordinates, and workers: add worker"),
        ("roles: {chief: {count: 2}}", "1:16 roles.chief: there is at most one chief, write count: 1"),
        ("roles: {chief: {per_host: 2}}", "1:16 roles.chief: there is at most one chief, write count: 1"),
        (
            "roles: {worker: {}, evaluator: {count: 2}}",
            "1:32 roles.evaluator: there is at most one evaluator, write count: 1",
        ),
        ("roles: {worker: {count: 0}}", "1:25 roles.worker.count: expected a number of tasks from 1 to 4096"),
        (
            "roles: {worker: {count: 1, per_host: 1}}",
            "1:38 roles.worker.per_host: can't stand beside count; choose one",
        ),
        ("roles: {worker: {replicas: 2}}", "1:18 roles.worker.replicas: unknown key, did you mean 'count'?"),
        ("roles: {worker: {port: 0}}", "1:24 roles.worker.port: expected a port from 1 to 65535"),
        (
            'roles: {worker: {env: {TF_CONFIG: "{}"}}}',
            "1:24 roles.worker.env.TF_CONFIG: launcher tf makes it for each task; remove it",
        ),
        ("env: {TF_CONFIG: x}", "1:7 env.TF_CONFIG: launcher tf makes it for each task; remove it"),
        ("env: [TF_CONFIG=x]", "1:7 env[0]: launcher tf makes it for each task; remove it"),
        ("secrets: [TF_CONFIG]", "1:11 secrets[0]: launcher tf makes it for each task; remove it"),
        ("done_when: ps", "1:12 done_when: expected chief, worker or all"),
        (
            "roles: {chief: {}, worker: {}, ps: {}}\ndone_when: all",
            "2:12 done_when: ps tasks never end by themselves, so the run would not; write chief",
        ),
        ("roles: {chief: {}}\ndone_when: worker", "2:12 done_when: there is no worker among the roles; write chief"),
        ("ranks: {per_host: 1}", "1:8 ranks: launcher tf starts the tasks of `roles`"),
        ("gpus_per_rank: 1", "1:16 gpus_per_rank: launcher tf gives GPUs by role"),
        ("visible_gpus: own", "1:15 visible_gpus: launcher tf gives each task its own GPUs"),
        ("rendezvous: tcp", "1:13 rendezvous: TensorFlow's tasks meet by TF_CONFIG; remove it"),
        ("master_port: 2222", "1:14 master_port: TensorFlow's tasks each have a port"),
        ("task_per: rank", "1:11 task_per: only means something with launcher: command"),
    ],
)
def test_what_is_no_cluster_is_refused(body: str, problem: str) -> None:
    """In one sentence, at its place, before any host is asked."""
    (found,) = messages(TF, body)
    assert found.startswith(problem)


@pytest.mark.parametrize("key", ["roles: {worker: {}}", "done_when: chief"])
def test_roles_are_tensorflow_s_alone(key: str) -> None:
    """They would be passed over in silence."""
    (found,) = messages("version: 1\nname: x\nimage: img\n", key)
    assert found.endswith("only means something with launcher: tf")


def test_a_job_may_set_rank_where_it_says_whose() -> None:
    """Some launchers mean the node by RANK: with `command`, and only there, a job may set it."""
    found = job(COMMAND, 'command: [a]\nenv: {RANK: "{node_rank}", WORLD_SIZE: "{nnodes}"}')
    assert found.env == {"RANK": "{node_rank}", "WORLD_SIZE": "{nnodes}"}
    assert found.task_per == "host"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "launcher: command needs a command: the launcher and its arguments"),
        ("command: [a]\nvisible_gpus: own", "visible_gpus: own needs a task for each rank; write task_per: rank"),
        ("command: [a]\nranks: {a: [0]}", "ranks: a launcher on each host numbers ranks itself; write {per_host: N}"),
        ('command: [a]\nenv: {A: "{nod_rank}"}', "env: A: unknown placeholder {nod_rank}, did you mean {node_rank}?"),
        ('command: ["{nprocs}"]', "command[0]: unknown placeholder {nprocs}, did you mean {nproc}?"),
    ],
)
def test_what_a_launcher_of_its_own_can_not_do(body: str, problem: str) -> None:
    """Contradictions between keys are found before any host is asked."""
    (found,) = messages(COMMAND, body)
    assert found.partition(" ")[2].startswith(problem)
