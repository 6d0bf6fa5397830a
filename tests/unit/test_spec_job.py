"""Job files as people write them, right and wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distui.errors import SpecError
from distui.spec.hosts.read_inventory import read_inventory
from distui.spec.job.job import Build, Code, Fabric, HostChoice, Job, RankLayout, Rendezvous, Success, Torchrun
from distui.spec.job.job_forms import HINTS
from distui.spec.job.job_keys import JOB
from distui.spec.job.overrides import Override, parse_set
from distui.spec.job.read_job import (
    job_from_flags,
    job_names,
    load_job,
    name_of_command,
    read_job,
    read_jobs,
    split_reference,
)

ROOT = Path(__file__).parents[2]
HEAD = "version: 1\nname: x\nimage: img\n"


def job(body: str, **environ: str) -> Job:
    """A small job with `body` added."""
    return read_job(HEAD + body, "j", environ=environ)


def messages(body: str, head: str = HEAD, **environ: str) -> list[str]:
    """Every problem of a job: `line:column key: message`, lines counted from the body."""
    with pytest.raises(SpecError) as caught:
        read_job(head + body, "j", environ=environ)
    above = head.count("\n")
    return [f"{p.line - above}:{p.column} {p.key}: {p.message}" if p.line else str(p) for p in caught.value.problems]


def test_the_mnist_example_is_read() -> None:
    """The classic command line, with what the program must know as placeholders."""
    path = str(ROOT / "jobs" / "mnist.yaml")
    command = "python3 mnist.py --rank {rank} --world-size {world_size} --init-method {init_method} --backend {backend}"
    assert load_job(path, environ={}) == Job(
        name="mnist",
        hosts=HostChoice(names=("gw[1-2]",)),
        image="pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime",
        ranks=RankLayout(per_host=1),
        rendezvous=Rendezvous("tcp"),
        backend="gloo",
        progress=r"epoch (?P<epoch>\d+) step (?P<step>\d+) loss (?P<loss>[\d.]+)",
        same=r"params (\w+)",
        volumes=("/mnt/pytorch:/pytorch",),
        workdir="/pytorch/trainers",
        command=tuple(command.split()),
        path=path,
    )


def test_every_example_is_read() -> None:
    """What is in jobs/ can be run as it is, and is called as its file is."""
    names = {path.stem: load_job(str(path), environ={}).name for path in (ROOT / "jobs").glob("*.yaml")}
    assert {"mnist", "ddp", "gloo-smoke", "tf-mirrored", "tf-parameter-server"} <= set(names)
    assert list(names) == list(names.values())


def test_every_key_reaches_its_field() -> None:
    """A job that uses everything, beside the value it gives."""
    text = r"""
version: 1
name: llm-pretrain
hosts: {group: "@h100", count: 4}
image: nvcr.io/nvidia/pytorch:25.01-py3
launcher: torchrun
torchrun: {rdzv: c10d, port: 29500, max_restarts: 2, nnodes: 1:4, last_call: 10s}
ranks: {per_gpu: 1}
gpus_per_host: 8
backend: nccl
master_port: 29500
fabric: {kind: ib, ifname: ib0, hcas: ^mlx5_3, gid_index: 3, gdr: on, require: any}
command: [train.py, --config, 7b.yaml, --lr, 3e-4, --epochs, 010]
env: {NCCL_DEBUG: WARN, OMP_NUM_THREADS: 8, EMPTY: "", VERSION: 3.10, FLAG: true}
secrets: [HF_TOKEN]
volumes: ["/data:/data", "~/x:/x:ro", "./:/here", "cache:/cache:rw,z"]
workdir: /data
user: 1000:1000
entrypoint: python
network: host
ipc: host
shm_size: 64g
ulimits: {memlock: -1, stack: 67108864, nofile: {soft: 1024, hard: 4096}, core: "0:-1"}
devices: [/dev/fuse, "/dev/a:/dev/b:rwm"]
cap_add: [IPC_LOCK]
docker_args: [--privileged, --memory, 64g, --cpus, 4]
pull: always
on_fail: wait
stop_grace: 1m30s
stall_after: 2.5
progress: {regex: 'step (?P<step>\d+)$'}
success: {regex: 'done$', file: /out/last.pt, min_seconds: 1m}
same: 'params (\w+)'
preflight: [ssh, docker, image, gpus_idle, ports, ib]
"""
    assert read_job(text, "j", environ={}) == Job(
        name="llm-pretrain",
        hosts=HostChoice(group="h100", count=4),
        image="nvcr.io/nvidia/pytorch:25.01-py3",
        launcher="torchrun",
        torchrun=Torchrun("c10d", 29500, 2, (1, 4), 10.0),
        ranks=RankLayout(per_gpu=1),
        gpus_per_host=8,
        backend="nccl",
        master_port=29500,
        fabric=Fabric("ib", "ib0", "^mlx5_3", 3, "on", "any"),
        command=("train.py", "--config", "7b.yaml", "--lr", "3e-4", "--epochs", "010"),
        env={"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "8", "EMPTY": "", "VERSION": "3.10", "FLAG": "true"},
        secrets=("HF_TOKEN",),
        volumes=("/data:/data", "~/x:/x:ro", "./:/here", "cache:/cache:rw,z"),
        workdir="/data",
        user="1000:1000",
        entrypoint="python",
        network="host",
        ipc="host",
        shm_size="64g",
        ulimits={"memlock": "-1", "stack": "67108864", "nofile": "1024:4096", "core": "0:-1"},
        devices=("/dev/fuse", "/dev/a:/dev/b:rwm"),
        cap_add=("IPC_LOCK",),
        docker_args=("--privileged", "--memory", "64g", "--cpus", "4"),
        pull="always",
        on_fail="wait",
        stop_grace=90.0,
        stall_after=2.5,
        progress=r"step (?P<step>\d+)$",
        success=Success("done$", "/out/last.pt", 60.0),
        same=r"params (\w+)",
        preflight=("ssh", "docker", "image", "gpus_idle", "ports", "ib"),
        path="j",
    )


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ("hosts: gw[1-2]", "hosts", HostChoice(names=("gw[1-2]",))),
        ("hosts: [gw1, 'node01:0-3']", "hosts", HostChoice(names=("gw1", "node01:0-3"))),
        ("hosts: {label: {gpu: h100}, count: 2}", "hosts", HostChoice(label={"gpu": "h100"}, count=2)),
        ("hosts: {names: 'gw[1-2]', count: 1}", "hosts", HostChoice(names=("gw[1-2]",), count=1)),
        ("hosts:", "hosts", None),
        ("ranks: {a: [0, 1], b: [2]}", "ranks", RankLayout(by_host={"a": (0, 1), "b": (2,)})),
        ("gpus_per_host: all", "gpus_per_host", "all"),
        ("gpus_per_host: [0, 2]", "gpus_per_host", (0, 2)),
        ("gpus_per_host: {a: [0, 1], b: 2, c: all}", "gpus_by_host", {"a": (0, 1), "b": 2, "c": "all"}),
        ("gpus_by_host: {a: 1}", "gpus_by_host", {"a": 1}),
        ("visible_gpus: own", "visible_gpus", "own"),
        ("rendezvous: {file: /shared}", "rendezvous", Rendezvous("file", "/shared")),
        ("rendezvous: env", "rendezvous", Rendezvous()),
        ('command: [prog, "", " "]', "command", ("prog", "", " ")),
        ("command: echo {rank}; exit 3", "command", "echo {rank}; exit 3"),
        ("command: [a, \"{'x': {y}}\", '{{rnk}}', '{host}']", "command", ("a", "{'x': {y}}", "{{rnk}}", "{host}")),
        ("env: [A=1, B=x=y, C=]", "env", {"A": "1", "B": "x=y", "C": ""}),
        ("shm_size: 1073741824", "shm_size", "1073741824"),
        ("shm_size: 64 GiB", "shm_size", "64 GiB"),
        ("ranks: {host1: [1], gpu: [0]}", "ranks", RankLayout(by_host={"host1": (1,), "gpu": (0,)})),
        ("stop_grace: 0", "stop_grace", 0.0),
        ("x-anything: [1]", "name", "x"),
        ("progress: {regex: '[[](?P<a>.)'}", "progress", "[[](?P<a>.)"),
    ],
)
def test_forms(body: str, field: str, value: Any) -> None:
    """Each form of a key that people may write gives the value that is meant."""
    assert getattr(job(body), field) == value


@pytest.mark.parametrize("image", ["a", "A.example:5000/b/c:Tag_1", "x@sha256:0f", "localhost/x", "a/b_c"])
def test_images(image: str) -> None:
    """A registry and a tag may have capitals; the rest is Docker's to judge."""
    assert read_job(f"version: 1\nname: x\nimage: {image}", "j", environ={}).image == image


@pytest.mark.parametrize(
    "image", ["PyTorch/pytorch:2", "localhost:5000/A/b:Tag@sha256:abc", "-v", "a b", "'--help'", "é"]
)
def test_what_can_not_be_an_image(image: str) -> None:
    """Docker would say `invalid reference format` on every host; here it is said once, before."""
    (problem,) = messages("", head=f"version: 1\nname: x\nimage: {image}\n")
    assert problem.startswith("0:8 image: ")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("hosts: gw[1-2", "1:8 hosts: 'gw[1-2': brackets don't match"),
        ("hosts: []", "1:8 hosts: expected a list of host names; the list is empty"),
        ("hosts: {group: a, label: {b: c}}", "1:26 hosts.label: can't stand beside group"),
        ("hosts: {count: 2}", "1:16 hosts.count: of which hosts? add names, group or label"),
        ("hosts: {}", "1:8 hosts: names no host: add names, group or label"),
        ("hosts: {group: }", "1:8 hosts: names no host: add names, group or label"),
        ("hosts: {label: ~, count: 2}", "1:26 hosts.count: of which hosts? add names, group or label"),
        ("hosts: {group: a, count: 0}", "1:26 hosts.count: expected a number of hosts from 1 to 4096"),
        ("launcher: torchurn", "1:11 launcher: expected env, torchrun, tf or command; did you mean 'torchrun'?"),
        ("launcher: torchrun", "1:11 launcher: torchrun needs a command"),
        ("ranks: {a: [0, 1], b: [1, 2]}", "1:24 ranks.b: rank 1 is given twice: a has it, too"),
        ("ranks: {a: [0], b: [2]}", "1:8 ranks: rank 1 is missing: ranks go from 0 to 2 without a gap"),
        ("ranks: {per_host: 1, per_gpu: 1}", "1:22 ranks.per_gpu: can't stand beside per_host; choose one"),
        ("ranks: {per_host: }", "1:8 ranks: expected {per_host: N}, {per_gpu: N}, or a list of ranks for"),
        ("ranks: {per_hst: 1}", "1:9 ranks.per_hst: unknown key, did you mean 'per_host'?"),
        ("ranks: {a: 2}", "1:12 ranks.a: expected a list of ranks such as [0, 1], got 2"),
        ("ranks: {host1: [0], host2: 1}", "1:28 ranks.host2: expected a list of ranks such as [0, 1], got 1"),
        ("ranks: {'a[1-2]': [0, 1]}", "1:9 ranks.a[1-2]: 'a[1-2]': name each host by itself here"),
        ("ranks: 2", "1:8 ranks: expected {per_host: N}, {per_gpu: N}, or a list of ranks for each host"),
        ("ranks: {per_host: 0}", "1:19 ranks.per_host: expected a number of ranks from 1 to 1024"),
        ("gpus_per_host: -1", "1:16 gpus_per_host: expected all, a number of GPUs from 0 to 256, a list of GPU"),
        ("gpus_per_host: [1, 1]", "1:16 gpus_per_host: 1 is listed twice"),
        ("gpus_per_host: 0\nranks: {per_gpu: 1}", "2:8 ranks: per_gpu needs GPUs, but gpus_per_host is 0"),
        ("gpus_per_host: 0\ngpus_per_rank: 1", "2:16 gpus_per_rank: needs GPUs, but gpus_per_host is 0"),
        ("gpus_per_rank: 1\nranks: {per_gpu: 1}", "1:16 gpus_per_rank: can't stand beside ranks.per_gpu; choose one"),
        ("gpus_per_host: 1\ngpus_by_host: {a: 1}", "2:15 gpus_by_host: can't stand beside gpus_per_host; choose one"),
        ("torchrun: {port: 1}", "1:11 torchrun: only means something with launcher: torchrun"),
        ("rendezvous: file", "1:13 rendezvous: file needs a shared folder"),
        ("rendezvous: {file: shared}", "1:20 rendezvous.file: 'shared' must be an absolute path inside the container"),
        ("rendezvous: http", "1:13 rendezvous: expected env, tcp or {file: /shared/folder}"),
        ("backend: gloom", "1:10 backend: expected gloo, nccl or mpi; did you mean 'gloo'?"),
        ("master_port: 70000", "1:14 master_port: expected a port from 1 to 65535"),
        ("fabric: tcp", "1:9 fabric: expected a mapping such as {kind: tcp}, got 'tcp'"),
        ("fabric: {kind: infiniband}", "1:16 fabric.kind: expected ib, roce, tcp or auto"),
        ("command: []", "1:10 command: expected a list of words; the list is empty"),
        ("command: [a, '{rnk}']", "1:14 command[1]: unknown placeholder {rnk}, did you mean {rank}? {{rnk}} keeps it"),
        ("command: [[a]]", "1:11 command[0]: expected text, got a list"),
        ("command: [a, ]\nenv: {A: }", '2:10 env.A: expected a value (write "" for an empty one'),
        ('env: {A: "x\\ny"}', "1:10 env.A: a newline can't be passed: env files hold one line"),
        ("env: {A-B: x}", "1:7 env.A-B: 'A-B' is not a variable's name"),
        ("env: {RANK: 0}", "1:7 env.RANK: distui sets this for each rank; remove it"),
        ("env: [A]", "1:7 env[0]: write A=value"),
        ("env: [A=1, A=2]", "1:6 env: A is set twice"),
        ("secrets: [A]\nenv: {A: x}", "1:11 secrets: 'A' is also in env, where it would be shown"),
        ("secrets: [A=x]", "1:11 secrets[0]: write the name only"),
        ("secrets: [A, A]", "1:10 secrets: A is listed twice"),
        ("volumes: [a]", "1:11 volumes[0]: 'a': expected source:/target or source:/target:ro"),
        ("volumes: ['/a:b']", "1:11 volumes[0]: '/a:b': expected source:/target"),
        ("volumes: ['/a:/b:r']", "1:11 volumes[0]: unknown option 'r'"),
        ("volumes: ['a/b:/b']", "1:11 volumes[0]: 'a/b' is neither a path (/, ./, ~/) nor the name of a volume"),
        ("volumes: ['/a:/b', '/c:/b/']", "1:10 volumes: /b is the target of two volumes, '/a:/b' and '/c:/b/'"),
        ("workdir: work", "1:10 workdir: 'work' must be an absolute path"),
        ("shm_size: lots", "1:11 shm_size: expected a size such as 64g or 512m"),
        ("shm_size: 64Gi", "1:11 shm_size: expected a size such as 64g or 512m"),  # Kubernetes', which Docker refuses
        ("code: {path: ./, max_size: 100i}", "1:28 code.max_size: expected a size such as 1024m"),
        ("ulimits: {memlok: -1}", "1:11 ulimits.memlok: unknown limit 'memlok', did you mean 'memlock'?"),
        (
            "ulimits: {memlock: unlimited}",
            "1:20 ulimits.memlock: expected a limit such as 65536, soft:hard or -1 (none)",
        ),
        ("docker_args: [--rm]", "1:15 docker_args[0]: --rm can't be used here: distui removes containers once"),
        ("docker_args: [--name=x]", "1:15 docker_args[0]: --name=x can't be used here"),
        ("stop_grace: 30 parsecs", "1:13 stop_grace: expected a duration such as 30s, 2m or 1.5 (seconds)"),
        ("stop_grace: -1", "1:13 stop_grace: expected a duration from 0s to 1d"),
        ("stop_grace: .inf", "1:13 stop_grace: expected a duration from 0s to 1d"),
        ("progress: {regex: '(a'}", "1:19 progress.regex: not a regular expression: missing )"),
        ("success: {regex: '(a'}", "1:18 success.regex: not a regular expression: missing )"),
        ("success: {file: out/x}", "1:17 success.file: 'out/x' must be an absolute path"),
        ("success: {}", "1:10 success: asks for nothing: write regex, file or min_seconds"),
        ("success: {min_seconds: -1}", "1:24 success.min_seconds: expected a duration from 0"),
        ("same: '(a'", "1:7 same: not a regular expression: missing )"),
        ("progress: {regex: 'a'}", "1:19 progress.regex: has no named group"),
        ("preflight: [shs]", "1:13 preflight[0]: unknown check 'shs', did you mean 'ssh'?"),
        ("pull: yes", "1:7 pull: expected always, missing or never"),
        ("roles: {}", "1:8 roles: only means something with launcher: tf"),
        ("max_duration: 2 fortnights", "1:15 max_duration: expected a duration such as 30s"),
        ("retries: -1", "1:10 retries: expected a number of retries from 0 to 100"),
        (
            "launcher: torchrun\ncommand: [t.py]\ntorchrun: {nnodes: '3:1', rdzv: c10d}",
            "3:20 torchrun.nnodes: the smaller number",
        ),
        (
            "launcher: torchrun\ncommand: [t.py]\ntorchrun: {nnodes: '0:1', rdzv: c10d}",
            "3:20 torchrun.nnodes: expected nodes such as",
        ),
        (
            "launcher: torchrun\ncommand: [t.py]\ntorchrun: {nnodes: '1:2'}",
            "3:11 torchrun: nodes can only come and go with rdzv: c10d",
        ),
        (
            "launcher: torchrun\ncommand: [t.py]\ntorchrun: {last_call: 5s}",
            "3:11 torchrun: last_call only means something with rdzv",
        ),
        ("sync: {}", "1:1 sync: unknown key, did you mean 'code'? `code: ./` sends the job file's folder to the hosts"),
        ("environment: {}", "1:1 environment: unknown key, did you mean 'env'?"),
        ("mounts: []", "1:1 mounts: unknown key, did you mean 'volumes'?"),
        ("env_file: x", "1:1 env_file: unknown key; write `env: {NAME: VALUE}`, or call with `--env-file FILE`"),
        ("gpus_per_node: 8", "1:1 gpus_per_node: unknown key, did you mean 'gpus_per_host'?"),
        ("time: 10", "1:1 time: unknown key, did you mean 'max_duration'?"),
        ("cpus_per_task: 4", "1:1 cpus_per_task: unknown key; write `docker_args: [--cpus, '8']`"),
        ("node: a", "1:1 node: unknown key; write `hosts: {group: NAME, count: N}`"),
        ("nproc_per_host: 8", "1:1 nproc_per_host: unknown key; write `ranks: {per_host: N}`"),
        ("script: a.py", "1:1 script: unknown key; write `command: [python, train.py]`"),
        ("wrokdir: /x", "1:1 wrokdir: unknown key, did you mean 'workdir'?"),
        ("privileged: true", "1:1 privileged: unknown key; write `docker_args: [--privileged]`"),
        ("workdir: 3.10", '1:10 workdir: expected an absolute path, got the number 3.10: quote it, "3.10"'),
        ("entrypoint: ${NOPE}", "1:13 entrypoint: the variable NOPE is not set; set it, or write ${NOPE:-default}"),
        ("master_port: ${NOPE}", "1:14 master_port: the variable NOPE is not set; set it, or write ${NOPE:-default}"),
        ("gpus_per_host: ${NOPE}", "1:16 gpus_per_host: the variable NOPE is not set"),
    ],
)
def test_one_problem_is_reported_in_one_sentence(body: str, problem: str) -> None:
    """What, where and what to do; and nothing more than that one."""
    (found,) = messages(body)
    assert found.startswith(problem)


def test_keys_of_other_tools_lead_to_keys_that_there_are() -> None:
    """None of them is one of ours, and what is offered instead is."""
    known = {key.name for key in JOB.keys}
    assert not known & set(HINTS)
    offered = {found for text in HINTS.values() for found in re.findall(r"did you mean '(\w+)'|write `(\w+):", text)}
    assert {name for pair in offered for name in pair if name} <= known


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ("visible_gpus: own", ["2:15 visible_gpus: own can't work with torchrun"]),
        ("rendezvous: tcp", ["2:13 rendezvous: torchrun's programs always meet by env"]),
        ("torchrun: {port: 1}\nmaster_port: 2", ["3:14 master_port: torchrun.port says 1; write only one of them"]),
        ("command: train.py", ["2:10 command: torchrun needs a list"]),
    ],
)
def test_what_torchrun_can_not_do(body: str, problems: list[str]) -> None:
    """Contradictions between keys are found before any host is asked."""
    command = "" if "command" in body else "\ncommand: [a]"
    found = messages(f"launcher: torchrun\n{body}{command}")
    assert [f.startswith(p) for f, p in zip(found, problems, strict=True)] == [True]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ('"a b; rm -rf $(x)"', ", for instance 'a-b-rm-rf-x'"),
        ("My_Job", ", for instance 'my_job'"),
        ("-x", ", for instance 'x'"),
        ('"../../etc"', ", for instance 'etc'"),
        ('"\'"', "a letter or digit"),
        ("é", "a letter or digit"),
        ("a" * 64, ", for instance 'aaa"),
        ('"a\\nb"', "a newline is not allowed here"),
    ],
)
def test_names_that_can_not_name_a_container_are_refused(name: str, hint: str) -> None:
    """Shell characters, paths, capitals: one sentence with a name that would do."""
    (problem,) = messages("", head=f"version: 1\nimage: i\nname: {name}\n")
    assert hint in problem


def test_a_job_needs_something_to_run() -> None:
    """Neither image nor command is no job."""
    assert messages("", head="version: 1\nname: x\n") == [
        "-1:1 command: missing: there is neither a command nor an image to run"
    ]
    assert messages("a: 1", head="") == [
        "1:1 a: unknown key",
        "1:1 version: missing: expected `version: 1`, the format of this file",
        "1:1 name: missing: expected a name",
        "1:1 command: missing: there is neither a command nor an image to run",
    ]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("env: {A: “x y”}", "1:10 env.A"),
        ("command: [python3, ‘t.py’]", "1:20 command[1]"),
        ("command: „python3 t.py“", "1:10 command"),
        ("workdir: ”/w”", "1:10 workdir"),
    ],
)
def test_quotes_of_a_word_processor_are_said(body: str, where: str) -> None:
    """They would be part of the value, which a program can't open, and look right."""
    (message,) = messages(body)
    assert message.startswith(f"{where}: ") and "are quotes of a word processor" in message


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("'“x”'", "“x”"),
        ('"“x”"', "“x”"),
        ("say “x” now", "say “x” now"),
        ("“x” now", "“x” now"),
        ("|-\n    “x”", "“x”"),
    ],
)
def test_such_quotes_stay_where_they_are_meant(body: str, value: str) -> None:
    """In quotes of YAML, in a block, and around a part of a text."""
    assert job(f"env:\n  A: {body}\n").env == {"A": value}


def test_variables_come_from_the_caller() -> None:
    """Compose's rules; what is meant for the host's shell stays."""
    found = job(
        "master_port: ${PORT}\nworkdir: ${DIR:-/work}\nuser: ${UID_}\n"
        "command: echo $HOME $$HOME $${HOME} ${A:-${B:-c}} ${EMPTY-x} ${EMPTY:-y} ${A+z} ${B+z}\n"
        'env: {V: "${VERSION}", N: "${NONE:-}"}\n',
        PORT="29500",
        EMPTY="",
        B="b",
        VERSION="3.10",
        UID_="1000",
    )
    assert (found.master_port, found.workdir, found.user) == (29500, "/work", "1000")
    assert found.command == "echo $HOME $HOME ${HOME} b  y  z"
    assert found.env == {"V": "3.10", "N": ""}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${A", "is not closed"),
        ("${}", "is not a variable"),
        ("${A%x}", "write $${ for a ${ meant for the host"),
        ("${#a[@]}", "is not a variable"),
        ("${A:?must be given}", "the variable A is not set: must be given"),
        ("${A?}", "the variable A is not set"),
        ("${A:-" * 20 + "}" * 20, "nested too deeply"),
    ],
)
def test_variables_that_can_not_be_put_in_are_reported(text: str, words: str) -> None:
    """A missing variable is a problem with a place, never an empty text."""
    (problem,) = messages(f"entrypoint: '{text}'")
    assert words in problem


def test_values_of_variables_are_values_not_yaml() -> None:
    """A variable can't add keys or lists, and a newline in it is found."""
    assert job("entrypoint: ${X}", X="{a: 1}").entrypoint == "{a: 1}"
    (problem,) = messages("env: {A: '${X}'}", X="secret\nvalue")
    assert "a newline can't be passed" in problem
    assert "secret" not in problem


@pytest.mark.parametrize(
    "named", ["secrets: [TOKEN]\n", "code: {git: https://h/x.git, token: TOKEN}\n",
              "data: {d: {url: s3://b/x, to: /d, secrets: [TOKEN]}}\n"]
)  # fmt: skip
@pytest.mark.parametrize(
    "taker", ["command: [x, '--key=${TOKEN}']\n", "command: [x]\nenv: {HUB: '${TOKEN:-none}'}\n",
              "command: [x]\nenv: {HUB: '${OTHER:+${TOKEN}}'}\n"]
)  # fmt: skip
def test_the_value_of_a_secret_goes_into_nothing_that_is_shown(named: str, taker: str) -> None:
    """Plan, records and the hosts' process lists would have it; a shell of the ranks may fill it in itself."""
    found = messages(named + taker, TOKEN="hunter2-hunter2", OTHER="x")
    assert len(found) == 1 and "takes the value of secret TOKEN" in found[0] and "hunter2" not in found[0]
    if named.startswith("secrets"):
        assert len(messages(f"{named}command: [x]\nenv: {{TOKEN: '${{TOKEN}}'}}\n", TOKEN="hunter2-hunter2")) == 1
    instead = "a shell of theirs takes $${TOKEN}" if "--key" in taker else "list the name that they need"
    assert (instead if named.startswith("secrets") else "no rank gets it") in found[0]
    asked = job(named + "command: 'x $${TOKEN} ${TOKEN:+set} $TOKEN'\n", TOKEN="hunter2-hunter2")
    assert asked.command == "x ${TOKEN} set $TOKEN"


@pytest.mark.parametrize("key", ["user", "workdir", "command"])
def test_a_secret_that_is_called_like_a_key_goes_into_nothing_that_is_shown(key: str) -> None:
    """Only `env` may name one again, and is refused for that."""
    found = messages(f"secrets: [{key}]\n{key}: '/${{{key}}}'\n", **{key: "hunter2-hunter2"})
    assert [f"takes the value of secret {key}" in problem and "hunter2" not in problem for problem in found] == [True]


def test_one_file_may_hold_several_jobs() -> None:
    """`#name` picks; the others are not even checked."""
    text = "version: 1\nname: a\nimage: i\n---\nversion: 1\nname: b\nlauncher: none\n"
    assert read_job(text, "j", environ={}, name="a").name == "a"
    assert job_names(text, "j") == ("a", "b")
    for name, message in (
        (None, "j: this file holds 2 jobs (a, b); pick one: j#a"),
        ("c", "j: no job is called 'c' here; it has a, b"),
    ):
        with pytest.raises(SpecError) as caught:
            read_job(text, "j", environ={}, name=name)
        assert str(caught.value) == message
    with pytest.raises(SpecError) as caught:
        read_jobs(text, "j", environ={})
    assert [p.line for p in caught.value.problems] == [5, 7]
    assert [j.name for j in read_jobs(text.replace("launcher: none", "image: i"), "j", environ={})] == ["a", "b"]


def test_two_jobs_of_one_name_are_refused() -> None:
    """Otherwise `#name` would pick by chance."""
    text = "version: 1\nname: a\nimage: i\n---\nversion: 1\nname: a\nimage: i\n"
    with pytest.raises(SpecError, match="the job on line 2 is called 'a' too"):
        read_jobs(text, "j", environ={})
    with pytest.raises(SpecError, match="the job on line 2 is called 'a' too"):
        read_job(text, "j", environ={}, name="a")


def test_references(tmp_path: Path) -> None:
    """`file#name`, unless a file really is called so."""
    (tmp_path / "a#b").write_text(HEAD)
    assert split_reference("j.yaml#x") == ("j.yaml", "x")
    assert split_reference("j.yaml") == ("j.yaml", None)
    assert split_reference(str(tmp_path / "a#b")) == (str(tmp_path / "a#b"), None)
    assert split_reference("-") == ("-", None)
    assert load_job(str(tmp_path / "a#b"), environ={}).name == "x"


def overridden(*overrides: Override) -> Job:
    return read_job(HEAD + "env: {A: a}\nfabric: {kind: ib, gdr: on}\n", "j", environ={}, overrides=overrides)


def test_values_from_the_command_line_win() -> None:
    """--set replaces what it names, flags likewise, and -e adds."""
    found = overridden(
        parse_set("fabric.kind=tcp"),
        parse_set("ranks={per_host: 2}"),
        parse_set("entrypoint=5"),
        parse_set("image="),
        Override("image", "other:1", "--image"),
        Override("env", {"B": "x=y\t"}, "-e"),
        Override("hosts", ["gw[1-2]"], "-H"),
        Override("master_port", "29500", "--master-port"),
    )
    assert found.fabric == Fabric("tcp", gdr="on")
    assert found.ranks == RankLayout(per_host=2)
    assert (found.entrypoint, found.image, found.master_port) == ("5", "other:1", 29500)
    assert found.env == {"A": "a", "B": "x=y\t"}
    assert found.hosts == HostChoice(names=("gw[1-2]",))


def test_variables_of_the_command_line_are_added_to_either_form() -> None:
    """-e replaces the one it names, and a secret may get its value from --env-file."""
    found = read_job(
        HEAD + "env: [A=a, B=b]\nsecrets: [TOKEN]\n",
        "j",
        environ={},
        overrides=[Override("env", {"B": "2", "TOKEN": "t"}, "--env-file"), Override("env", {"C": "3"}, "-e")],
    )
    assert found.env == {"A": "a", "B": "2", "TOKEN": "t", "C": "3"}


@pytest.mark.parametrize(
    ("body", "text", "field", "value"),
    [
        ("env: [A=a, B=b]", "env.B=2", "env", {"A": "a", "B": "2"}),
        ("code: ./src", "code.mode=rw", "code", Code(path="./src", mode="rw")),
        ("code: ./src", "code.git=https://h/r.git", "code", Code(git="https://h/r.git")),
        ("build: ./docker", "build.target=prod", "build", Build("./docker", target="prod")),
        ("hosts: '@gpu'", "hosts.count=2", "hosts", HostChoice(("@gpu",), count=2)),
        ("hosts: [a, b]", "hosts.count=1", "hosts", HostChoice(("a", "b"), count=1)),
        ("hosts: [a, b]", "hosts.group=gpu", "hosts", HostChoice(group="gpu")),
    ],
)
def test_setting_one_key_keeps_what_a_short_form_says(body: str, text: str, field: str, value: Any) -> None:
    """`--set env.B=2` dropped the other variables of a list, `--set build.target=prod` built another folder."""
    found = read_job(f"{HEAD}{body}\n", "j", environ={}, overrides=[parse_set(text)])
    assert getattr(found, field) == value


@pytest.mark.parametrize(
    ("text", "problem"), [("env.A.b=1", "--set env.A.b: env.A: expected a value"), ("env.A=", "--set env.A: expected")]
)
@pytest.mark.parametrize("env", ["[A=a]", "{A: a}"])
def test_what_can_not_be_a_variable_s_value_is_none_in_either_form(env: str, text: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_job(f"{HEAD}env: {env}\n", "j", environ={}, overrides=[parse_set(text)])
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (parse_set("fabric.kind=infiniband"), "--set fabric.kind: expected ib, roce, tcp or auto, got 'infiniband'"),
        (parse_set("fabric.kid=ib"), "--set fabric.kid: unknown key, did you mean 'kind'?"),
        (parse_set("ranks=[1"), "--set ranks: the [ is never closed: a ] is missing"),
        (parse_set("name.x=1"), "--set name.x: name: expected a name, got a mapping"),
        (Override("image", "A B", "--image"), "--image: 'A B' is not an image"),
        (Override("env", {"A": "x\ny"}, "-e"), "-e: env.A: a newline can't be passed"),
        (Override("master_port", "x", "--master-port"), "--master-port: expected a port from 1 to 65535, got 'x'"),
    ],
)
def test_problems_of_the_command_line_name_the_flag(override: Override, message: str) -> None:
    """They have no line; the flag is their place."""
    with pytest.raises(SpecError) as caught:
        overridden(override)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", ["a", "=x", "a..b=1", " a=1", ".=1"])
def test_set_needs_key_and_value(text: str) -> None:
    """Anything else is told before any file is read."""
    from distui.errors import UsageError

    with pytest.raises(UsageError, match="expected KEY=VALUE"):
        parse_set(text)


def test_set_goes_as_deep_as_a_file_may() -> None:
    """A key without end is refused in words, and is no recursion without end."""
    from distui.errors import UsageError

    with pytest.raises(UsageError, match="nested more than 32 levels deep"):
        parse_set("a." * 5000 + "b=1")


def test_a_job_may_come_from_flags_alone() -> None:
    """`run --headless -H ... --image IMG -- CMD` needs no file; `$` in it has been the shell's."""
    found = job_from_flags(
        ["python", "/work/Train MNIST.py", "${X}"],
        overrides=[Override("hosts", ["node[01-02]"], "-H"), Override("image", "img", "--image")],
    )
    assert found == Job(
        name="train-mnist",
        hosts=HostChoice(names=("node[01-02]",)),
        image="img",
        command=("python", "/work/Train MNIST.py", "${X}"),
    )
    with pytest.raises(SpecError, match="neither a command nor an image"):
        job_from_flags([])


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -u train.py --lr 1", "train"),
        ("sleep 5", "sleep"),
        ("/bin/sh -c x", "sh"),
        ("-x", "run"),
        ("", "run"),
        ("é", "run"),
    ],
)
def test_command_gives_a_name(command: str, name: str) -> None:
    """The script's name, or the program's, made fit for containers."""
    assert name_of_command(command.split()) == name


KEYS = ["version", "name", "hosts", "ranks", "command", "env", "volumes", "fabric", "kind", "per_host", "rendezvous"]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from([1, "$", "${", "${A:-", "{rank}", "x" * 10_000, *KEYS]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=5)), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(st.one_of(st.dictionaries(st.sampled_from(KEYS), VALUES), VALUES), st.text(max_size=20))
def test_any_structure_is_a_job_or_refused(value: object, variable: str) -> None:
    """Nothing but SpecError comes out, whatever is nested in what."""
    import yaml

    try:
        assert isinstance(read_job(yaml.safe_dump(value), "j", environ={"A": variable}), Job)
    except SpecError as error:
        assert error.problems


@settings(max_examples=200)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_override_is_taken_or_refused(key: str, value: str) -> None:
    """What people type after --set never ends in a traceback."""
    from distui.errors import UsageError

    try:
        assert isinstance(overridden(parse_set(f"{key}={value}")), Job)
    except UsageError as error:
        assert error.message


def test_a_hosts_yaml_in_its_place_is_named() -> None:
    """`distui job validate *.yaml`, `distui run hosts.yaml`: not four problems of a job that nobody wrote."""
    with pytest.raises(SpecError) as caught:
        read_job("version: 1\nhosts:\n  node[01-02]: {}\n", "hosts.yaml", environ={})
    said = "this file lists hosts, and is no job; `distui hosts validate` checks it, -i takes it"
    assert [problem.message for problem in caught.value.problems] == [said]
    with pytest.raises(SpecError) as caught:
        read_job("version: 1\nhosts: {names: node01, count: 1}\n", "job.yaml", environ={})
    assert said not in [problem.message for problem in caught.value.problems]


@pytest.mark.parametrize("body", ["command: [x]", "image: x"])
def test_a_job_file_in_place_of_hosts_yaml_is_named(body: str) -> None:
    """The other way round, with -i."""
    with pytest.raises(SpecError) as caught:
        read_inventory(f"version: 1\nname: a\nhosts: node01\n{body}\n", "job.yaml")
    (problem,) = caught.value.problems
    assert problem.message.startswith("this is a job file, not a hosts.yaml; ")
