"""What `run` and `plan` ask for, read before anything is contacted."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import pytest

from distui.cli.jobs.request import read_request
from distui.cli.settings import env_files, settings_of
from distui.cluster.names import run_name
from distui.cluster.start.request import RunRequest
from distui.errors import DistuiError

JOB = """\
version: 1
name: smoke
image: img
hosts: node[01-03]
env: {A: file, B: file}
command: [python, train.py]
"""


@pytest.fixture
def order(home: Path) -> Any:
    """Reads an order: `order("job.yaml", host=("node01",), env=("A=1",))`."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  node[01-04]: {labels: {n: x}}\n")
    Path("job.yaml").write_text(JOB)

    def read(
        job: str | None = "job.yaml", words: tuple[str, ...] = (), *, flags_before: Any = None, **flags: Any
    ) -> RunRequest:
        given = {"env_file": flags.pop("env_file")} if "env_file" in flags else {}
        ctx = click.Context(click.Command("run"), obj={**(flags_before or {}), **given})
        starts = flags.pop("starts", True)
        return read_request(settings_of(ctx), job, words, flags, starts=starts)

    return read


def test_the_job_s_hosts_and_the_command_line_s(order: Any) -> None:
    """-H wins over the job's hosts, --nnodes takes the first of them."""
    assert [p.name for p in order().picks] == ["node01", "node02", "node03"]
    assert [p.name for p in order(nnodes=2).picks] == ["node01", "node02"]
    assert [p.name for p in order(flags_before={"host": ("node04:0-1,node02",)}).picks] == ["node04", "node02"]
    assert order(flags_before={"host": ("node04:0-1",)}).picks[0].gpus == (0, 1)


def test_flags_take_the_place_of_job_keys(order: Any) -> None:
    """Each flag sets its key; -e adds to the job's env; words after -- go to the command."""
    found = order(
        words=("--lr", "0.1"),
        image="other",
        fabric="tcp",
        launcher="torchrun",
        master_port=29400,
        gpus_per_node="2",
        pull="never",
        on_fail="wait",
        env=("A=flag",),
        set_=("stop_grace=5s",),
    ).job

    assert (found.image, found.fabric.kind, found.launcher, found.master_port) == ("other", "tcp", "torchrun", 29400)
    assert (found.gpus_per_host, found.pull, found.on_fail, found.stop_grace) == (2, "never", "wait", 5.0)
    assert found.env == {"A": "flag", "B": "file"}
    assert found.command == ("python", "train.py", "--lr", "0.1")


@pytest.mark.parametrize("goes_on", ["", " \\"])
@pytest.mark.parametrize("block", ["|", "|-", "|+"])
def test_words_go_to_the_last_command_of_a_text(order: Any, block: str, goes_on: str) -> None:
    """A block of text ends with a newline, or a backslash: they were a command of their own, or one word."""
    Path("job.yaml").write_text(JOB.replace("[python, train.py]", f"{block}\n  cd src\n  python train.py{goes_on}\n"))
    assert order(words=("--lr", "0.1")).job.command == "cd src\npython train.py --lr 0.1"


@pytest.mark.parametrize("name", ["job", "net"])
def test_a_job_that_is_named_without_its_file(order: Any, name: str) -> None:
    """By the file's name without its end, or as the job is called, after which its runs are: the file is said."""
    Path("job.yaml").write_text(JOB.replace("name: ", "name: net # ", 1))
    with pytest.raises(DistuiError, match=f"{name}: there is no such file, did you mean 'job.yaml'"):
        order(name)


def test_a_job_without_a_file(order: Any) -> None:
    """A command after -- is a job; its name comes from --name or the command."""
    found = order(None, ("python", "train.py"), flags_before={"host": ("node01",)}, image="img", name="Try_1")

    assert found.job.command == ("python", "train.py")
    assert found.run_id == "Try_1"
    assert order(None, ("sh", "x.sh"), flags_before={"host": ("node01",)}, image="img").run_id.startswith("x-")


def test_env_variables_come_from_flags_files_and_the_caller(order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-e NAME` copies the caller's value; --env-file is read as docker reads it; -e wins over it."""
    monkeypatch.setenv("MINE", "here")
    Path("vars").write_text("# comment\n\nC=from file \nA=file2\n")
    found = order(env=("MINE", "A=flag"), env_file=("vars",)).job

    assert found.env == {"A": "flag", "B": "file", "MINE": "here", "C": "from file "}


def test_a_line_of_an_env_file_ends_where_docker_ends_it(tmp_path: Path) -> None:
    """What follows a form feed or U+2028 in a secret was a variable of its own, shown in the plan; Windows' BOM and
    ends of lines belong to no name and no value."""
    (tmp_path / "vars").write_bytes("\ufeffA=1\r\nTOKEN=ab\u2028cd=ef\x0cgh=i\x85j\rk=l\r\n".encode())
    assert env_files([str(tmp_path / "vars")]) == {"A": "1", "TOKEN": "ab\u2028cd=ef\x0cgh=i\x85j\rk=l"}


def test_secrets_never_reach_the_job(order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret's value comes from the caller or --env-file and is kept out of env; a missing one is named."""
    Path("job.yaml").write_text(JOB + "secrets: [HF_TOKEN, KEY]\n")
    Path("vars").write_text("KEY=k\n")
    monkeypatch.setenv("HF_TOKEN", "t")
    found = order(env_file=("vars",))
    assert found.secrets == {"HF_TOKEN": "t", "KEY": "k"}
    assert "KEY" not in found.job.env

    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(DistuiError, match="HF_TOKEN"):
        order(env_file=("vars",))
    planned = order(env_file=("vars",), starts=False)
    assert (planned.secrets, "KEY" in planned.job.env) == ({"KEY": "k"}, False)


@pytest.mark.parametrize("starts", [True, False])
def test_a_secret_of_the_data_is_for_a_start(order: Any, starts: bool) -> None:
    """The client that fetches gets it, and for a plan nothing is fetched."""
    Path("job.yaml").write_text(JOB + 'data: {d: {url: "s3://b/k", secrets: [NO_SUCH_SECRET], to: /d}}\n')
    with pytest.raises(DistuiError, match="NO_SUCH_SECRET of job") if starts else nullcontext():
        assert order(starts=starts).secrets == {}


def test_jobs_are_found_by_name(order: Any) -> None:
    """`run smoke` finds jobs/smoke.yaml."""
    Path("jobs").mkdir()
    Path("job.yaml").rename("jobs/smoke.yaml")
    assert order("smoke").job.name == "smoke"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"job": "nope.yaml"}, "there is no such file"),
        ({"flags_before": {"host": ("node09",)}}, "node09"),
        ({"nnodes": 9}, "only 3 hosts"),
        ({"env": ("=x",)}, "NAME=VALUE"),
        ({"env": ("NOT_SET_ANYWHERE",)}, "is not set here"),
        ({"set_": ("x",)}, "KEY=VALUE"),
        ({"launcher": "mpirun"}, "--launcher"),
        ({"image": ""}, "image"),
        ({"name": "a b;c"}, "not usable"),
        ({"env_file": ("none",)}, "none"),
    ],
)
def test_bad_orders_are_exit_2(order: Any, arguments: dict[str, Any], said: str) -> None:
    """Each mistake is one error that names it, before anything is contacted."""
    with pytest.raises(DistuiError, match=said) as caught:
        order(**arguments)
    assert caught.value.exit_code == 2


def test_run_names_fit() -> None:
    """A made-up name is the job's and four letters, never longer than a run's name may be."""
    assert len({run_name("j") for _ in range(50)}) > 40
    assert len(run_name("j" * 63)) == 63


def test_unreachable_hosts_are_exit_4_and_nothing_is_started(cli: Any, fake_hosts: Any, home: Path) -> None:
    """All dead hosts are named with reason and hint; no run is recorded."""
    fake_hosts()
    done = cli("run", "-H", "a,b", "--image", "i", "--", "true")

    assert done.code == 4
    assert "2 of 2 hosts can't be used, nothing was started" in done.err
    assert "a,b: refuses connections" in done.err
    assert "try: ssh -v a" in done.err
    assert not (home / ".local/state/distui/runs").exists()


def test_ranks_for_a_host_nobody_knows_are_exit_2(order: Any) -> None:
    """A host that only `ranks:` names is told before any host is asked."""
    Path("job.yaml").write_text(JOB + "ranks: {node01: [0], nodeX: [1]}\n")

    with pytest.raises(DistuiError, match="nodeX") as caught:
        order()

    assert caught.value.exit_code == 2
